"""Moments of neighbourhoods of memories, densities of the covariance kernels they make, and the choice of a width.

Moments come from training folds alone: a left-out memory is not scored by a covariance that it helped to make.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from .._backend.arrays import Array, ArrayLike, floats, to_numpy
from .._backend.blas import single_threaded
from .._backend.checks import one_of
from .._backend.parallel import Shared, effective_jobs, in_workers
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
        among = f"its {self.neighbours} nearest rows" if self.neighbours else "all rows"
        mixed = f"a covariance that is {1 - self.pooled:.0%} their own and {self.pooled:.0%} the average of all rows"
        shape = {0.0: "their own covariance", 1.0: "the average covariance of all rows"}.get(self.pooled, mixed)
        shaped = f", with {shape}" if self.neighbours else ""
        return f"Gaussian noise around each stored row: {self.noise:.0%} of the variance among {among}{shaped}"


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
    from scipy.linalg.lapack import dtrtrs  # `solve_triangular` takes some ten times as long for a small matrix

    constant = x.shape[1] / 2 * math.log(2 * math.pi)
    volumes = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)
    if len(roots) == 1:
        a, b = (solve_triangular(roots[0], rows.T, lower=True).T for rows in (x, means))
        squares = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T
        return -np.maximum(squares, 0) / 2 - volumes - constant
    out = np.empty((len(x), len(means)))
    for k, (mean, root) in enumerate(zip(means, roots, strict=True)):
        white, _ = dtrtrs(root, (x - mean).T, lower=1)
        out[:, k] = np.einsum("dn,dn->n", white, white)
    return -out / 2 - volumes - constant


class Folds:
    """Folds of memories (K, d), each left out in turn, by which widths are scored."""

    def __init__(self, rows: Array) -> None:
        K, folds = len(rows), min(FOLDS, len(rows))
        order = np.random.default_rng(0).permutation(K)
        self.held_out = [np.sort(order[i::folds]) for i in range(min(folds, math.ceil(MAX_HELD_OUT * folds / K)))]
        self.rows, self.stored = rows, [np.delete(rows, part, axis=0) for part in self.held_out]
        self._moments: dict[int, list[Moments]] = {}

    def _moments_of(self, neighbours: int) -> list[Moments]:
        if neighbours not in self._moments:
            equal = (np.full(len(fold), 1 / len(fold)) for fold in self.stored)
            self._moments[neighbours] = [
                Moments(fold, neighbours, w) for fold, w in zip(self.stored, equal, strict=True)
            ]
        return self._moments[neighbours]

    def likelihood(self, width: Width) -> float:
        """The log likelihood of what is left out, summed over the folds."""
        total = 0.0
        for left, fold in zip(self.held_out, self._moments_of(width.neighbours), strict=True):
            try:
                means, roots = fold.kernels(width)
            except np.linalg.LinAlgError:
                return -math.inf
            equal = np.full(len(means), -math.log(len(means)))
            total += float(mixture_log_density(self.rows[left], means, roots, equal).sum())
        return total


class LeftOut(Protocol):
    """Folds of memories that score a width by what each leaves out."""

    def likelihood(self, width: Width) -> float:
        """The log likelihood of what is left out, summed over the folds."""


@dataclass
class Likelihoods:
    """Likelihoods of widths, each computed once; by the workers of joblib where `parallel_config` names some."""

    folds: Shared[LeftOut]
    progress: Progress
    known: dict[Width, float] = field(default_factory=dict)

    def __call__(self, width: Width, ahead: Iterable[Width] = ()) -> float:
        """That of a width. Workers who have nothing to do compute those of the widths `ahead`, the first of them."""
        if width not in self.known:
            further = [other for other in ahead if other not in self.known and other != width]
            tried = [width, *further][: effective_jobs(None)]
            with in_workers(partial(_likelihood, self.folds), tried, None) as found:
                self.known.update(zip(tried, found, strict=True))
            self.progress.update(len(self.known))
        return self.known[width]

    def likeliest(self, widths: Sequence[Width]) -> Width:
        """The likeliest of these."""
        return max(widths, key=lambda width: self(width, widths))


def _likelihood(folds: Shared[LeftOut], width: Width) -> float:
    with single_threaded("scipy.linalg"):  # the same bits in every worker
        return folds.value.likelihood(width)


def choose_width(memories: ArrayLike, *, shape: str = "local") -> Width:
    """The width under which left-out folds of memories (K, d) are likeliest.

    The best of pooled widths, and of a coordinate ascent over a grid of local ones: the likelihood is smooth. The steps
    of the ascent depend on each other: where `joblib.parallel_config` names several workers, they compute the pooled
    widths together, and of the local ones also those that are next if a step fails. The width does not depend on them.
    """
    rows = to_numpy(floats(memories, "memories")).astype(np.float64)
    one_of("shape", shape, ("local", "pooled"))
    if len(rows) < 4:
        rule = "memories must be at least 4 for a width to be chosen by likelihood"
        raise ValueError(f"{rule}; got {len(rows)}. Pass width.")
    folds = Folds(rows)
    with Progress(N_USUAL_STEPS, "choosing a width") as progress:
        likelihood = Likelihoods(Shared(folds), progress)
        best = likelihood.likeliest([Width(noise, 1.0, neighbours=0) for noise in NOISE])
        possible = tuple(m for m in NEIGHBOURS if m < min(len(fold) for fold in folds.stored))
        if shape == "local" and possible:
            start = Width(0.7, 0.5, min(20, possible[-1]))
            best = likelihood.likeliest([best, ascend(start, possible, likelihood)])
    if not math.isfinite(likelihood(best)):
        raise ValueError("memories are too much alike: no width has a finite likelihood. Drop duplicates.")
    return best


def ascend(best: Width, neighbours: tuple[int, ...], likelihood: Likelihoods) -> Width:
    """A width, with one of these numbers of neighbours, that no step along an axis of the grid makes likelier.

    The search begins with `best`, which is on the grid.
    """
    axes: dict[str, tuple[float, ...]] = {"noise": NOISE, "pooled": POOLED, "neighbours": neighbours}
    directions = [(name, axis) for name, values in axes.items() for axis in (values[::-1], values)]
    before = None
    while before != best:
        before = best
        for i, (name, axis) in enumerate(directions):
            while (tried := _next(best, name, axis)) is not None:
                others = (_next(best, *one) for one in (*directions[i + 1 :], *directions[:i]))
                ahead = [best, *(other for other in others if other is not None)]
                if likelihood(tried, ahead) <= likelihood(best):
                    break
                best = tried
    return best


def _next(width: Width, name: str, axis: tuple[float, ...]) -> Width | None:
    """The width after this one along an axis of the grid; None at its end."""
    after = axis[axis.index(getattr(width, name)) + 1 :]
    return width._replace(**{name: after[0]}) if after else None  # type: ignore[arg-type]  # a value of its own axis
