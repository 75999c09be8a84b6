"""The same chains in torch, in the full space, all chains as one tensor: eager, and recorded as a CUDA graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .rivals import Advance
from .shapes import BETA

STEPS_A_GRAPH = 10


def torch_eager(patterns: Any, alpha: float, n_chains: int, sampler: str) -> Advance:
    """One operation after another, on the patterns' device, in full float32."""
    xi, step = _chains(patterns, alpha, n_chains, sampler)

    def advance(n_steps: int) -> Any:
        for _ in range(n_steps):
            step()
        return xi

    return advance


def torch_graph(patterns: Any, alpha: float, n_chains: int, sampler: str) -> Advance:
    """Ten steps recorded once and replayed without Python between them; CUDA only."""
    import torch

    xi, step = _chains(patterns, alpha, n_chains, sampler)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # a graph is recorded after its operations ran once beside it
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(STEPS_A_GRAPH):
            step()

    def advance(n_steps: int) -> Any:
        if n_steps % STEPS_A_GRAPH:
            raise ValueError(f"n_steps must be a multiple of {STEPS_A_GRAPH}, the steps of a graph; got {n_steps}.")
        for _ in range(n_steps // STEPS_A_GRAPH):
            graph.replay()
        return xi

    return advance


def _chains(X: Any, alpha: float, n_chains: int, sampler: str) -> tuple[Any, Callable[[], None]]:
    """The chains' states (n_chains, d), and a function that moves them one step, in place."""
    import torch

    scale = math.sqrt(2 * alpha / BETA)
    xi = X[torch.arange(n_chains, device=X.device) % len(X)]
    noise = torch.empty_like(xi)

    def proposal_mean(xi: Any) -> tuple[Any, Any]:
        logits = xi @ X.T
        logits *= BETA
        weights = torch.softmax(logits, -1)
        return torch.addmm(xi, weights, X, beta=1 - alpha, alpha=alpha), logits

    def ula() -> None:
        mean, _ = proposal_mean(xi)
        torch.add(mean, noise.normal_(), alpha=scale, out=xi)

    if sampler == "ula":
        return xi, ula
    mean, logits = proposal_mean(xi)
    level = logits.logsumexp(-1) - BETA / 2 * _squares(xi)

    def mala() -> None:
        noise.normal_()
        proposal = torch.add(mean, noise, alpha=scale)
        back, logits = proposal_mean(proposal)
        level_there = logits.logsumexp(-1) - BETA / 2 * _squares(proposal)
        log_ratio = level_there - level - BETA / (4 * alpha) * _squares(xi - back) + _squares(noise) / 2
        accept = torch.rand_like(log_ratio).log_() < log_ratio
        torch.where(accept[:, None], proposal, xi, out=xi)
        torch.where(accept[:, None], back, mean, out=mean)
        torch.where(accept, level_there, level, out=level)

    return xi, mala


def _squares(x: Any) -> Any:
    return (x * x).sum(-1)
