"""What the learned baselines share: layers as the paper initialises them, a device, a deterministic loop with a bar."""

from __future__ import annotations

import os
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
    network: Any,
    loss: Callable[[Tensor, Tensor], Tensor],
    rows: Tensor,
    epochs: int,
    label: str,
    batch: int | None = None,
) -> float:
    """Adam (rate 1e-3) on loss(epoch, batch of rows), full batches unless given; returns the last epoch's mean loss."""
    global spent
    torch = torch_or_remedy()
    begin = time.perf_counter()
    torch.set_num_threads(os.cpu_count() or 1)  # the same however many experiments run beside this one
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True, capturable=rows.is_cuda)
    epoch = torch.zeros((), device=rows.device)

    def step(part: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        value = loss(epoch, part)
        value.backward()
        optimizer.step()
        return value.detach()

    take = _Captured(step) if rows.is_cuda else step
    last = 0.0
    with Bar(epochs, label) as bar:
        for number in range(epochs):
            epoch.fill_(number)
            parts = [rows] if batch is None else rows[torch.randperm(len(rows), device=rows.device)].split(batch)
            for part in parts:
                value = take(part)
                if number == epochs - 1:
                    last += float(value) * len(part) / len(rows)
            if number % 8 == 0:
                bar.at(number)
    spent += time.perf_counter() - begin
    return last


class _Captured:
    """A training step as a CUDA graph for each batch size: launching its small kernels one by one takes far longer."""

    def __init__(self, step: Callable[[Tensor], Tensor]) -> None:
        self.step = step
        self.graphs: dict[int, tuple[Tensor, Any, Tensor]] = {}

    def __call__(self, part: Tensor) -> Tensor:
        if len(part) not in self.graphs:
            self.graphs[len(part)] = self._capture(part.clone())
        batch, graph, value = self.graphs[len(part)]
        batch.copy_(part)
        graph.replay()
        return value

    def _capture(self, batch: Tensor) -> tuple[Tensor, Any, Tensor]:
        torch = torch_or_remedy()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):  # a few steps outside the graph, so that every buffer exists; they train like any other
                self.step(batch)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            value = self.step(batch)
        return batch, graph, value
