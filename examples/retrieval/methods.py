"""Methods that choose a slate of stored rows for a query, each with one setting between relevant and diverse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from stochattn.nn import HopfieldMemory, langevin_states

BETA, STEPS, ALPHA = 32.0, 3, 0.3  # of the Langevin steps, for unit rows


@dataclass(frozen=True)
class Task:
    """Queries (Q, d) for unit rows (K, d) of groups (K,), which rows each may see (Q, K), and its groups (Q, 2)."""

    rows: np.ndarray
    groups: np.ndarray
    queries: np.ndarray
    visible: np.ndarray
    wanted: np.ndarray

    def relevance(self) -> np.ndarray:
        """Cosines of queries and rows, −inf where a row is not visible: (Q, K)."""
        return np.where(self.visible, self.queries @ self.rows.T, -np.inf)

    def some(self, chosen: np.ndarray) -> Task:
        """The task with some of the queries."""
        return Task(self.rows, self.groups, self.queries[chosen], self.visible[chosen], self.wanted[chosen])


Slates = Callable[[Task, int, float, int], np.ndarray]
"""slates(task, n, setting, seed): for each query, the numbers of n different rows (Q, n)."""


def top(task: Task, n: int, setting: float, seed: int) -> np.ndarray:
    """The n most relevant rows; there is no setting."""
    return np.argsort(-task.relevance(), 1, kind="stable")[:, :n]


def mmr(task: Task, n: int, setting: float, seed: int) -> np.ndarray:
    """Maximal marginal relevance: the next row has the largest (1 − s) relevance − s max cosine to those chosen."""
    relevance, gram = task.relevance(), task.rows @ task.rows.T
    chosen = [relevance.argmax(1)]
    closest, open_ = gram[chosen[0]], task.visible.copy()
    every = np.arange(len(relevance))
    for _ in range(n - 1):
        open_[every, chosen[-1]] = False
        chosen.append(np.where(open_, (1 - setting) * relevance - setting * closest, -np.inf).argmax(1))
        closest = np.maximum(closest, gram[chosen[-1]])
    return np.stack(chosen, 1)


def sampled(task: Task, n: int, setting: float, seed: int) -> np.ndarray:
    """Rows drawn one after the other with the weights of attention at beta = 1/s, without replacement."""
    memory = HopfieldMemory(task.rows, beta=1 / setting)
    weights = memory.weights(torch.tensor(task.queries), mask=torch.tensor(task.visible))
    noise = np.random.default_rng(seed).gumbel(size=weights.shape)
    with np.errstate(divide="ignore"):
        return np.argsort(-(np.log(weights.numpy()) + noise), 1)[:, :n]  # equals such draws


def langevin(task: Task, n: int, setting: float, seed: int) -> np.ndarray:
    """n states take Langevin steps with noise s from the query; each takes its nearest row that none took before."""
    generator = torch.Generator().manual_seed(seed)
    queries = torch.tensor(task.queries).repeat_interleave(n, 0)
    mask = torch.tensor(task.visible).repeat_interleave(n, 0)
    steps = {"beta": BETA, "n_steps": STEPS, "alpha": ALPHA, "noise": setting, "generator": generator}
    states = langevin_states(queries, torch.tensor(task.rows), attn_mask=mask, **steps)
    overlaps = np.where(mask, (states @ torch.tensor(task.rows).T).numpy(), -np.inf).reshape(-1, n, len(task.rows))
    slates = np.empty((len(task.queries), n), int)
    for i in range(n):
        slates[:, i] = overlaps[:, i].argmax(1)
        np.put_along_axis(overlaps, slates[:, i][:, None, None].repeat(n, 1), -np.inf, 2)
    return slates


def uniform(task: Task, n: int, setting: float, seed: int) -> np.ndarray:
    """n rows drawn uniformly from the m most relevant ones, m = n + s."""
    m = min(n + round(setting), int(task.visible.sum(1).min()))
    best = np.argsort(-task.relevance(), 1, kind="stable")[:, :m]
    order = np.argsort(np.random.default_rng(seed).random(best.shape), 1)[:, :n]
    return np.take_along_axis(best, order, 1)


def greedy(task: Task, n: int, setting: float, seed: int) -> np.ndarray:
    """The most relevant rows, each replaced with probability s by a row drawn uniformly (epsilon-greedy)."""
    rng = np.random.default_rng(seed)
    relevance = task.relevance()
    ranks = np.argsort(np.argsort(-relevance, 1, kind="stable"), 1)
    spare = rng.random(relevance.shape) + 1  # in the order of uniform draws, after the rows that stay
    kept = (ranks < n) & (rng.random(relevance.shape) >= setting)
    return np.argsort(np.where(kept, ranks / n, np.where(task.visible, spare, np.inf)), 1)[:, :n]


def tuned(method: Slates, task: Task, n: int, target: float, low: float, high: float, seed: int) -> float:
    """The setting in [low, high] at which the mean relevance of the slates is the target, by bisection in its log."""
    for _ in range(14):
        middle = float(np.sqrt(low * high))
        if mean_relevance(task, method(task, n, middle, seed)) > target:
            low = middle
        else:
            high = middle
    return float(np.sqrt(low * high))


def mean_relevance(task: Task, slates: np.ndarray) -> float:
    """Mean cosine of the rows of slates (Q, n) with their queries."""
    return float(np.take_along_axis(task.relevance(), slates, 1).mean())
