"""The same chains in torch, in the full space, all chains as one tensor: eager, and as a CUDA graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .baselines import Advance
from .shapes import BETA

STEPS_PER_GRAPH = 10


def torch_eager(patterns: Any, alpha: float, n_chains: int, sampler: str) -> Advance:
    """Eager operations on the device of the patterns, in float32."""
    xi, step = _chains(patterns, alpha, n_chains, sampler)

    def advance(n_steps: int) -> Any:
        for _ in range(n_steps):
            step()
        return xi

    return advance


def torch_graph(patterns: Any, alpha: float, n_chains: int, sampler: str) -> Advance:
    """Ten steps captured as a CUDA graph, which is replayed; CUDA only."""
    import torch

    xi, step = _chains(patterns, alpha, n_chains, sampler)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # warm-up before the capture of the graph
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(STEPS_PER_GRAPH):
            step()

    def advance(n_steps: int) -> Any:
        if n_steps % STEPS_PER_GRAPH:
            raise ValueError(
                f"n_steps must be a multiple of {STEPS_PER_GRAPH}, the number of steps per graph; got {n_steps}."
            )
        for _ in range(n_steps // STEPS_PER_GRAPH):
            graph.replay()
        return xi

    return advance


def _chains(X: Any, alpha: float, n_chains: int, sampler: str) -> tuple[Any, Callable[[], None]]:
    """The states of the chains (n_chains, d), and a function that advances them by one step in place."""
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
    log_potential = logits.logsumexp(-1) - BETA / 2 * _squares(xi)

    def mala() -> None:
        noise.normal_()
        proposal = torch.add(mean, noise, alpha=scale)
        back, logits = proposal_mean(proposal)
        log_potential_there = logits.logsumexp(-1) - BETA / 2 * _squares(proposal)
        log_ratio = log_potential_there - log_potential - BETA / (4 * alpha) * _squares(xi - back) + _squares(noise) / 2
        accept = torch.rand_like(log_ratio).log_() < log_ratio
        torch.where(accept[:, None], proposal, xi, out=xi)
        torch.where(accept[:, None], back, mean, out=mean)
        torch.where(accept, log_potential_there, log_potential, out=log_potential)

    return xi, mala


def _squares(x: Any) -> Any:
    return (x * x).sum(-1)
