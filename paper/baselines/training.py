"""What the learned baselines share: layers as the paper initialises them, a device, a deterministic loop with a bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from ..progress import Bar

Tensor = Any
spent = 0.0  # seconds of training in this process, for the account of a run's time


def torch_or_remedy() -> Any:
    """The torch module; without it, the error says how to get it."""
    try:
        import torch
    except ImportError:
        raise RuntimeError("the learned baselines need torch: pip install 'stochattn[torch]'.") from None
    return torch


def device() -> str:
    """A GPU where there is one."""
    return "cuda" if torch_or_remedy().cuda.is_available() else "cpu"


def layers(sizes: Sequence[int]) -> Any:
    """Linear layers with ReLU between them, Glorot-uniform weights, zero biases."""
    torch = torch_or_remedy()
    stack: list[Any] = []
    for i, (n_in, n_out) in enumerate(pairwise(sizes)):
        linear = torch.nn.Linear(n_in, n_out)
        torch.nn.init.xavier_uniform_(linear.weight)
        torch.nn.init.zeros_(linear.bias)
        stack += [linear] if i == len(sizes) - 2 else [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*stack)


def train(
    network: Any, loss: Callable[[int, Tensor], Tensor], rows: Tensor, epochs: int, label: str, batch: int | None = None
) -> float:
    """Adam (rate 1e-3) on loss(epoch, batch of rows), full batches unless given; returns the last epoch's mean loss."""
    global spent
    torch = torch_or_remedy()
    begin = time.perf_counter()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    total = torch.zeros((), device=rows.device)
    with Bar(epochs, label) as bar:
        for epoch in range(epochs):
            order = [rows] if batch is None else rows[torch.randperm(len(rows), device=rows.device)].split(batch)
            total = torch.zeros((), device=rows.device)
            for part in order:
                optimizer.zero_grad(set_to_none=True)
                value = loss(epoch, part)
                value.backward()
                optimizer.step()
                total += value.detach() * len(part) / len(rows)
            if epoch % 8 == 0:
                bar.at(epoch)
    spent += time.perf_counter() - begin
    return float(total)
