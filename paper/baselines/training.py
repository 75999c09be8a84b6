"""Shared code of the learned baselines: initialised layers, the device, and the training loop."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..progress import Bar
from ..sources import cache_folder

Tensor = Any
seconds_spent = 0.0  # on training in this process: of the processor, or elapsed on a GPU


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
    settings: tuple[object, ...] = (),
) -> float:
    """Minimise loss(epoch, rows) with Adam (rate 1e-3) and return the mean loss of the last epoch.

    A trained network is kept in the cache, and taken from there if the code, the data, the initial weights, the state
    of the random numbers and the settings are the same.

    batch:    batch size; None uses all rows at once
    settings: what the loss depends on beyond its arguments
    """
    stored = _stored_under(_checksum(network, rows, (epochs, batch, label, *settings)))
    if (last := _load(network, stored)) is not None:
        return last
    last = _train(network, loss, rows, epochs, label, batch)
    _save(network, stored, last)
    return last


def _checksum(network: Any, rows: Tensor, settings: tuple[object, ...]) -> str:
    """A checksum of all that determines a trained network."""
    torch = torch_or_remedy()
    digest = hashlib.sha256(repr((settings, torch.__version__, str(rows.device), tuple(rows.shape))).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    state = torch.cuda.get_rng_state() if rows.is_cuda else torch.get_rng_state()
    for tensor in (rows, state, *network.state_dict().values()):
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:24]


def _stored_under(checksum: str) -> Path:
    return cache_folder() / "trained" / f"{checksum}.pt"


def _load(network: Any, path: Path) -> float | None:
    """Set the weights of a network from a file and return its loss, or None if there is no valid file."""
    torch = torch_or_remedy()
    try:
        content = torch.load(path, map_location=next(network.parameters()).device, weights_only=True)
        network.load_state_dict(content["weights"])
    except Exception:  # a missing, damaged or foreign file: train again
        return None
    return float(content["loss"])


def _save(network: Any, path: Path, loss: float) -> None:
    """Keep a trained network; a cache that cannot be written is no error."""
    torch = torch_or_remedy()
    half_written = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"weights": network.state_dict(), "loss": loss}, half_written)
        half_written.replace(path)
    except OSError:
        return


def _train(
    network: Any, loss: Callable[[Tensor, Tensor], Tensor], rows: Tensor, epochs: int, label: str, batch: int | None
) -> float:
    """Minimise a loss, and return the mean loss of the last epoch."""
    global seconds_spent
    torch = torch_or_remedy()
    clock = time.perf_counter if rows.is_cuda else time.process_time
    begin = clock()
    # Experiments run in parallel. Threads of one training would wait for each other in each of its small operations: on
    # two busy cores, two threads took up to 33 times the processor time of one.
    torch.set_num_threads(1)
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
    seconds_spent += clock() - begin
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
