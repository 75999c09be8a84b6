"""Covariance kernels around the memories: noise that follows the data's own directions, everywhere or near each memory.

p_beta puts a round kernel of variance 1/beta around each memory. Here kernel k has the covariance

    Sigma_k = a C_k + b S,        S the shrunk covariance of all memories (Ledoit-Wolf), C_k the second moment of the
                                  differences between memory k and its nearest memories,

and the law stays a Gaussian mixture: draws, normalised density and linear observations are exact. a, b and the number
of neighbours are chosen by K-fold likelihood, with S and C_k computed from the training folds alone: with them fixed,
a left-out memory would be judged by a covariance that it helped to make.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ._arrays import Array, floats, to_numpy
from ._checks import count, non_negative, one_of
from .memory import MemoryBank, as_bank
from .mixture import equations
from .samplers.exact import pick

SHAPES = ("local", "pooled")
LOCAL = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
POOLED = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.7, 1.0)
NEIGHBOURS = (5, 10, 20, 40, 80)
FLOOR = 1e-6
"""Share of the mean variance that every direction has at least: constant columns stay nearly constant."""


class Width(NamedTuple):
    """How wide kernels are: a of the local and b of the pooled covariance, over how many neighbours."""

    local: float
    pooled: float
    neighbours: int


START = Width(0.7, 0.1, 20)
"""Where the search for a width begins."""


@dataclass(frozen=True, eq=False)
class CovarianceKernels:
    """Σ_k w_k N(m_k, L_k L_kᵀ), given that A x = y where an observation was made.

    means:       (K, d)
    roots:       (K, d, d) or, for one covariance shared by all, (1, d, d); lower triangular
    log_weights: (K,), normalised
    width:       how the covariances were made
    """

    means: Array
    roots: Array
    log_weights: Array
    width: Width
    observed: tuple[Array, Array] | None = None

    @classmethod
    def fit(
        cls,
        memories: Any,
        *,
        shape: str = "local",
        width: Width | None = None,
        folds: int = 5,
        rng: int = 0,
    ) -> CovarianceKernels:
        """Kernels around memories (K, d), or those that a bank keeps, with its multiplicities as weights.

        shape: "local" covariances near each memory, or one "pooled" covariance
        width: given, or chosen by the likelihood of left-out folds
        """
        one_of("shape", shape, SHAPES)
        bank: MemoryBank = as_bank(memories).active
        rows = to_numpy(bank.patterns).astype(np.float64)
        if width is None:
            width = choose_width(rows, shape=shape, folds=folds, rng=rng)
        non_negative("width.local", width.local)
        non_negative("width.pooled", width.pooled)
        log_r = to_numpy(bank.log_r).astype(np.float64)
        roots = np.linalg.cholesky(_covariances(_Parts.of(rows, width.neighbours), width))
        return cls(rows, roots, log_r - np.logaddexp.reduce(log_r), width)

    @property
    def d(self) -> int:
        """Dimension."""
        return int(self.means.shape[1])

    def log_density(self, x: Any) -> Array:
        """log density of rows, normalised; (n, d) -> (n,). Of kernels without an observation."""
        if self.observed is not None:
            raise ValueError("conditioned kernels live on a subspace and have no density over all coordinates.")
        x = np.atleast_2d(to_numpy(floats(x, "x")).astype(np.float64))
        if x.shape[1] != self.d:
            raise ValueError(f"x must have d={self.d} columns; got {x.shape[1]}.")
        return _mixture_log_density(x, self.means, self.roots, self.log_weights)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n independent draws (n, d), and the memory each was drawn around (n,). The first m of n are the m draws."""
        which, noise = rng.spawn(2)
        k = pick(np.cumsum(np.exp(self.log_weights)), which.random(count("n", n)))
        x = noise.standard_normal((n, self.d))
        for j in np.unique(k):  # one matrix a memory: no (n, d, d) array
            # einsum, not BLAS, whose last bits depend on how many rows there are
            x[k == j] = np.einsum("ij,nj->ni", self._root(j), x[k == j]) + self.means[j]
        if self.observed is not None:
            rows, values = self.observed
            for j in np.unique(k):
                half = rows @ self._root(j)
                gain = np.linalg.solve(half @ half.T, half @ self._root(j).T)
                x[k == j] += (values - x[k == j] @ rows.T) @ gain
        return x, k

    def given(self, A: Any, y: Any) -> CovarianceKernels:
        """The law of x given that A x = y, exactly; A (r, d), y (r,)."""
        if self.observed is not None:
            raise ValueError("these kernels are conditioned already: pass all observations at once.")
        rows, values = equations(A, y)
        halves = rows @ self.roots
        observed_roots = np.linalg.cholesky(halves @ halves.transpose(0, 2, 1))
        fit = _log_kernels(values[None], self.means @ rows.T, observed_roots)[0]
        log_weights = self.log_weights + fit
        return CovarianceKernels(
            self.means, self.roots, log_weights - np.logaddexp.reduce(log_weights), self.width, (rows, values)
        )

    def _root(self, k: int) -> Array:
        return self.roots[k if len(self.roots) > 1 else 0]

    def __repr__(self) -> str:
        a, b, m = self.width
        return f"CovarianceKernels(K={len(self.means)}, d={self.d}, {a:g} local over {m} neighbours + {b:g} pooled)"


def choose_width(memories: Any, *, shape: str = "local", folds: int = 5, rng: int = 0) -> Width:
    """The width under which left-out folds of memories (K, d) are likeliest, covariances refitted without them.

    A climb over a grid, from step to better neighbouring step: the likelihood is smooth in the logarithms.
    """
    rows = to_numpy(floats(memories, "memories")).astype(np.float64)
    K = len(rows)
    folds = min(count("folds", folds, 2), K)
    if K < 4:
        raise ValueError(f"memories must be at least 4 for a width to be chosen by likelihood; got {K}. Pass width.")
    order = np.random.default_rng(rng).permutation(K)
    held_out = [np.sort(order[i::folds]) for i in range(folds)]
    stored = [np.delete(rows, part, axis=0) for part in held_out]

    @cache
    def parts(neighbours: int) -> list[_Parts]:
        return [_Parts.of(fold, neighbours) for fold in stored]

    @cache
    def likelihood(width: Width) -> float:
        made = zip(held_out, stored, parts(width.neighbours if width.local else 0), strict=True)
        return sum(_log_likelihood(rows[left], fold, part, width) for left, fold, part in made)

    grid = _Grid.of(shape, min(len(fold) for fold in stored))
    best = grid.nearest(START)
    while (better := max(grid.around(best), key=lambda at: likelihood(grid.width(at)))) != best:
        if likelihood(grid.width(better)) <= likelihood(grid.width(best)):
            break
        best = better
    if not math.isfinite(likelihood(grid.width(best))):
        raise ValueError("memories are too much alike: no width has a finite likelihood. Drop duplicates.")
    return grid.width(best)


class _Grid(NamedTuple):
    """The widths that are tried, by place."""

    axes: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, shape: str, K: int) -> _Grid:
        if one_of("shape", shape, SHAPES) == "pooled":
            return cls(((0.0,), POOLED, (0,)))
        return cls((LOCAL, POOLED, tuple(sorted({min(m, K - 1) for m in NEIGHBOURS}))))

    def nearest(self, width: Width) -> tuple[int, ...]:
        return tuple(int(np.argmin([abs(x - want) for x in axis])) for axis, want in zip(self.axes, width, strict=True))

    def around(self, at: tuple[int, ...]) -> list[tuple[int, ...]]:
        """That place and those one step away along one axis."""
        steps = [at]
        for i, axis in enumerate(self.axes):
            steps += [(*at[:i], to, *at[i + 1 :]) for to in (at[i] - 1, at[i] + 1) if 0 <= to < len(axis)]
        return steps

    def width(self, at: tuple[int, ...]) -> Width:
        local, pooled, neighbours = (axis[i] for axis, i in zip(self.axes, at, strict=True))
        return Width(local, pooled, int(neighbours) if local else 0)


class _Parts(NamedTuple):
    """What covariances are made of: pooled (d, d), local (K, d, d) or None, and the least variance."""

    pooled: Array
    local: Array | None
    floor: float
    neighbours: int

    @classmethod
    def of(cls, rows: Array, neighbours: int) -> _Parts:
        from sklearn.covariance import ledoit_wolf

        pooled = ledoit_wolf(rows)[0]
        floor = FLOOR * float(np.trace(pooled)) / len(pooled)
        if floor <= 0:
            raise ValueError("memories are all alike: there is no direction to vary in. Store different ones.")
        if not neighbours:
            return cls(pooled, None, floor, 0)
        half = np.square(rows).sum(1) / 2
        scores = rows @ rows.T - half
        np.fill_diagonal(scores, -np.inf)
        near = np.argpartition(-scores, min(neighbours, len(rows) - 1) - 1, axis=1)[:, :neighbours]
        local = np.stack([(d := rows[j] - row).T @ d / len(d) for row, j in zip(rows, near, strict=True)])
        return cls(pooled, local, floor, neighbours)


def _covariances(parts: _Parts, width: Width) -> Array:
    """a C_k + b S, with the least variance added: (K, d, d), or (1, d, d) without a local part."""
    shared = width.pooled * parts.pooled + parts.floor * np.eye(len(parts.pooled))
    if parts.local is None or width.local == 0:
        return shared[None]
    return width.local * parts.local + shared


def _log_likelihood(x: Array, means: Array, parts: _Parts, width: Width) -> float:
    try:
        roots = np.linalg.cholesky(_covariances(parts, width))
    except np.linalg.LinAlgError:
        return -math.inf
    return float(_mixture_log_density(x, means, roots, np.full(len(means), -math.log(len(means)))).sum())


def _mixture_log_density(x: Array, means: Array, roots: Array, log_weights: Array) -> Array:
    return np.logaddexp.reduce(_log_kernels(x, means, roots) + log_weights, axis=1)


def _log_kernels(x: Array, means: Array, roots: Array) -> Array:
    """log N(x; m_k, L_k L_kᵀ) of every row and kernel: (n, d) -> (n, K)."""
    from scipy.linalg import solve_triangular

    n, d = x.shape
    constant = d / 2 * math.log(2 * math.pi)
    volumes = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)
    if len(roots) == 1:
        a, b = (solve_triangular(roots[0], rows.T, lower=True).T for rows in (x, means))
        squares = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T
        return -np.maximum(squares, 0) / 2 - volumes - constant
    out = np.empty((n, len(means)))
    for k, (mean, root) in enumerate(zip(means, roots, strict=True)):
        out[:, k] = np.square(solve_triangular(root, (x - mean).T, lower=True)).sum(0)
    return -out / 2 - volumes - constant
