"""Shared code of the learned baselines: initialised layers, the device, and the training loop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from ..progress import Bar

Tensor = Any
seconds_spent = 0.0  # on training in this process


def torch_or_remedy() -> Any:
    """The torch module; raises an error with a remedy if it is not installed."""
    try:
        import torch
    except ImportError:
        raise RuntimeError("the learned baselines need torch: pip install 'stochattn[torch]'.") from None
    return torch


def device() -> str:
    """The device of the training: a GPU if available."""
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
    """Minimise loss(epoch, rows) with Adam (rate 1e-3) and return the mean loss of the last epoch.

    batch: batch size; None uses all rows at once
    """
    global seconds_spent
    torch = torch_or_remedy()
    begin = time.perf_counter()
    torch.set_num_threads(os.cpu_count() or 1)  # independent of the number of experiments that run in parallel
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True, capturable=rows.is_cuda)
    epoch = torch.zeros((), device=rows.device)

    def step(part: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        value = loss(epoch, part)
        value.backward()
        optimizer.step()
        return value.detach()

    training_step = _CapturedStep(step) if rows.is_cuda else step
    last = 0.0
    with Bar(epochs, label) as bar:
        for number in range(epochs):
            epoch.fill_(number)
            parts = [rows] if batch is None else rows[torch.randperm(len(rows), device=rows.device)].split(batch)
            for part in parts:
                value = training_step(part)
                if number == epochs - 1:
                    last += float(value) * len(part) / len(rows)
            if number % 8 == 0:
                bar.update(number)
    seconds_spent += time.perf_counter() - begin
    return last


class _CapturedStep:
    """A training step as one CUDA graph per batch size, to avoid the launch time of many small kernels."""

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
        side_stream = torch.cuda.Stream()
        side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side_stream):
            for _ in range(3):  # warm-up steps allocate all buffers before the capture; they also train
                self.step(batch)
        torch.cuda.current_stream().wait_stream(side_stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            value = self.step(batch)
        return batch, graph, value
