"""Moments of neighbourhoods of memories, densities of the covariance kernels they make, and the choice of a width.

Moments come from training folds alone: a left-out memory is not scored by a covariance that it helped to make.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike, floats, to_numpy
from .._backend.checks import one_of
from .._backend.progress import Progress
from ..core.neighbors import k_nearest

FLOOR = 1e-6
"""Share of the mean variance that every direction has at least: constant columns stay nearly constant."""
NOISE = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
POOLED = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
NEIGHBOURS = (5, 8, 12, 20, 30, 50, 80, 120, 200, 400)
N_USUAL_STEPS = 25  # equivalent: only the length of a progress bar
"""Widths that a search usually tries, for its progress bar."""
FOLDS, MAX_HELD_OUT = 5, 200
"""Folds that score a width, and the number of left-out memories beyond which further folds are not used."""


class Width(NamedTuple):
    """How wide kernels are: s the share of noise, b that of the pooled covariance, and neighbours, 0 for all."""

    noise: float
    pooled: float
    neighbours: int

    def checked(self) -> Width:
        """The width itself, or a ValueError."""
        whole = isinstance(self.neighbours, int | np.integer)
        if not (0 < self.noise <= 1 and 0 <= self.pooled <= 1 and self.neighbours >= 0 and whole):
            rule = "width must have noise above 0 and up to 1, pooled from 0 to 1 and neighbours of 0 (all) or more"
            raise ValueError(f"{rule}; got {tuple(self)}.")
        return self

    def __str__(self) -> str:
        among = f"{self.neighbours} neighbours" if self.neighbours else "all"
        shaped = f", {self.pooled:.0%} of its shape common to all" if self.neighbours else ""
        return f"{self.noise:.0%} of the variance among {among} is noise{shaped}"


class Moments:
    """Moments of memories (K, d) that weigh w (K,) and of their neighbourhoods, the `neighbours` nearest or 0 for all.

    centres (K, d) or (1, d) and local covariances (K, d, d), None where all are neighbours; pooled (d, d), the mean of
    these, shrunk; mean and variance (d,) of the memories
    """

    def __init__(self, rows: Array, neighbours: int, w: Array) -> None:
        from sklearn.covariance import ledoit_wolf

        K, d = rows.shape
        self.rows, self.weights, self.mean = rows, w, w @ rows
        self.variance = w @ np.square(rows - self.mean)
        if self.variance.mean() <= 0:
            raise ValueError("memories are all alike: there is no direction to vary in. Store different ones.")
        # Weighted rows as so many rows of unit weight: with equal weights, Ledoit and Wolf's own estimate.
        weighted = (rows - self.mean) * np.sqrt(K * w)[:, None]
        self.pooled, shrinkage = ledoit_wolf(weighted, assume_centered=True)
        self.centres, self.local = self.mean[None], None
        if 0 < neighbours < K:
            self.centres, self.local = np.empty((K, d)), np.empty((K, d, d))
            for k, j in enumerate(k_nearest(rows, neighbours)):
                own = w[j] / w[j].sum()
                self.centres[k] = own @ rows[j]
                gaps = rows[j] - self.centres[k]
                self.local[k] = (own[:, None] * gaps).T @ gaps
            inner = np.einsum("k,kij->ij", w, self.local)
            self.pooled = (1 - shrinkage) * inner + shrinkage * np.trace(inner) / d * np.eye(d)

    def kernels(self, width: Width) -> tuple[Array, Array]:
        """Means (K, d) and roots (K, d, d), or (1, d, d) where all kernels have one covariance."""
        least = FLOOR * self.variance.mean()
        floor = least * np.eye(len(self.pooled))
        shared = self.pooled + floor
        if self.local is None or width.pooled == 1:
            roots = np.linalg.cholesky(width.noise * shared)[None]
            inner = width.noise * np.diagonal(shared)
        else:
            mixed = (1 - width.pooled) * (self.local + floor) + width.pooled * shared
            roots = np.linalg.cholesky(width.noise * mixed)
            inner = self.weights @ np.square(roots).sum(2)
        means = self.centres + math.sqrt(1 - width.noise) * (self.rows - self.centres)
        means = means - self.weights @ means
        scale = np.sqrt((self.variance + least) / (inner + self.weights @ np.square(means)))
        return self.mean + means * scale, scale[:, None] * roots


def mixture_log_density(x: Array, means: Array, roots: Array, log_weights: Array) -> Array:
    """log Σ_k w_k N(x; m_k, L_k L_kᵀ): (n, d) -> (n,)."""
    return np.logaddexp.reduce(log_kernels(x, means, roots) + log_weights, axis=1)


def log_kernels(x: Array, means: Array, roots: Array) -> Array:
    """log N(x; m_k, L_k L_kᵀ) of every row and kernel: (n, d) -> (n, K)."""
    from scipy.linalg import solve_triangular

    constant = x.shape[1] / 2 * math.log(2 * math.pi)
    volumes = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)
    if len(roots) == 1:
        a, b = (solve_triangular(roots[0], rows.T, lower=True).T for rows in (x, means))
        squares = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T
        return -np.maximum(squares, 0) / 2 - volumes - constant
    out = np.empty((len(x), len(means)))
    for k, (mean, root) in enumerate(zip(means, roots, strict=True)):
        white = solve_triangular(root, (x - mean).T, lower=True, check_finite=False)
        out[:, k] = np.einsum("dn,dn->n", white, white)
    return -out / 2 - volumes - constant


def choose_width(memories: ArrayLike, *, shape: str = "local") -> Width:
    """The width under which left-out folds of memories (K, d) are likeliest.

    The best of pooled widths, and of a coordinate ascent over a grid of local ones: the likelihood is smooth.
    """
    rows = to_numpy(floats(memories, "memories")).astype(np.float64)
    K, folds = len(rows), min(FOLDS, len(rows))
    one_of("shape", shape, ("local", "pooled"))
    if K < 4:
        raise ValueError(f"memories must be at least 4 for a width to be chosen by likelihood; got {K}. Pass width.")
    order = np.random.default_rng(0).permutation(K)
    held_out = [np.sort(order[i::folds]) for i in range(min(folds, math.ceil(MAX_HELD_OUT * folds / K)))]
    stored = [np.delete(rows, part, axis=0) for part in held_out]

    @cache
    def moments(neighbours: int) -> list[Moments]:
        return [Moments(fold, neighbours, np.full(len(fold), 1 / len(fold))) for fold in stored]

    @cache
    def likelihood(width: Width) -> float:
        progress.update(likelihood.cache_info().misses)
        total = 0.0
        for left, fold in zip(held_out, moments(width.neighbours), strict=True):
            try:
                means, roots = fold.kernels(width)
            except np.linalg.LinAlgError:
                return -math.inf
            equal = np.full(len(means), -math.log(len(means)))
            total += float(mixture_log_density(rows[left], means, roots, equal).sum())
        return total

    with Progress(N_USUAL_STEPS, "choosing a width") as progress:
        best = max((Width(noise, 1.0, neighbours=0) for noise in NOISE), key=likelihood)
        possible = tuple(m for m in NEIGHBOURS if m < min(len(fold) for fold in stored))
        if shape == "local" and possible:
            best = max(best, _ascend(possible, likelihood), key=likelihood)
    if not math.isfinite(likelihood(best)):
        raise ValueError("memories are too much alike: no width has a finite likelihood. Drop duplicates.")
    return best


def _ascend(neighbours: tuple[int, ...], likelihood: Callable[[Width], float]) -> Width:
    """A local width, with one of these numbers of neighbours, that no step along an axis of the grid makes likelier."""
    best = Width(0.7, 0.5, min(20, neighbours[-1]))
    before = None
    while before != best:
        before = best
        for name, axis in {"noise": NOISE, "pooled": POOLED, "neighbours": neighbours}.items():
            for ahead in (axis[::-1], axis):
                for value in ahead[ahead.index(getattr(best, name)) + 1 :]:
                    tried = best._replace(**{name: value})  # type: ignore[arg-type]  # a value of its own axis
                    if likelihood(tried) <= likelihood(best):
                        break
                    best = tried
    return best
