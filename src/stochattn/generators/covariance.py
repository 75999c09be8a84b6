"""Covariance kernels around the memories: noise that follows the data's own directions, everywhere or near each memory.

p_beta puts a round kernel of variance 1/beta around each memory. Here memory k looks at its nearest memories (itself
among them), whose mean c_k and covariance C_k make its kernel

    N(c_k + sqrt(1 - s) (m_k - c_k),  s Sigma_k),      Sigma_k = (1 - b) C_k + b C,      C the mean of all C_k, shrunk:

the share s of a neighbourhood's variance is noise, and the rest the memory's own place in it, so that the variance is
kept. With s near 0 the memories come back; with s = 1 and all memories as neighbours, it is one Gaussian. Crowded
memories have more than their share of neighbours: a scale for each column gives it the variance that memories have.
The law stays a Gaussian mixture: draws, normalised density and linear observations are exact. s, b and the number of
neighbours are chosen by K-fold likelihood, with all moments computed from the training folds alone: with them fixed, a
left-out memory would be judged by a covariance that it helped to make.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from .._backend.arrays import Array, floats, to_numpy
from .._backend.checks import count, one_of
from .._backend.progress import Progress
from ..core.memory import MemoryBank, as_bank
from ..core.mixture import equations, pick
from .neighborhoods import ALL, Moments, Width, log_kernels, log_likelihood, mixture_log_density

SHAPES = ("local", "pooled")
NOISE = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
POOLED = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
NEIGHBOURS = (5, 8, 12, 20, 30, 50, 80, 120, 200, 400)
USUAL_STEPS = 25
"""Widths that a search tries as a rule, for its progress bar."""


START = Width(0.7, 0.5, 20)
"""Where the search for a local width begins."""
ENOUGH = 200
"""Left-out memories that a width is judged by: folds beyond these many are not looked at."""


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
        """Kernels around memories (K, d), or those that a bank keeps; its multiplicities weigh kernels and moments.

        shape: "local" means and covariances near each memory, or "pooled": those of all
        width: given, or chosen by the likelihood of left-out folds
        """
        one_of("shape", shape, SHAPES)
        bank: MemoryBank = as_bank(memories).active
        rows = to_numpy(bank.patterns).astype(np.float64)
        if width is None:
            width = choose_width(rows, shape=shape, folds=folds, rng=rng)
        log_r = to_numpy(bank.log_r).astype(np.float64)
        log_weights = log_r - np.logaddexp.reduce(log_r)
        moments = Moments.of(rows, width.checked().neighbours, np.exp(log_weights))
        return cls(*moments.kernels(rows, width), log_weights, width)

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
        return mixture_log_density(x, self.means, self.roots, self.log_weights)

    def log_density_of(self, A: Any, y: Any) -> Array:
        """log density of A x at values y; A (r, d), (n, r) -> (n,)."""
        rows = np.atleast_2d(np.asarray(A, dtype=np.float64))
        return mixture_log_density(np.atleast_2d(y), self.means @ rows.T, self._roots_of(rows), self.log_weights)

    def _roots_of(self, rows: Array) -> Array:
        """Roots of the covariances of A x: (K, r, r) or (1, r, r)."""
        halves = rows @ self.roots
        return np.linalg.cholesky(halves @ halves.transpose(0, 2, 1))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n independent draws (n, d), and the memory each was drawn around (n,). The first m of n are the m draws."""
        which, noise = rng.spawn(2)
        k = pick(np.cumsum(np.exp(self.log_weights)), which.random(count("n", n)))
        x = noise.standard_normal((n, self.d))
        for own, root in self._shared(k):  # one matrix a memory: no (n, d, d) array
            # einsum, not BLAS, whose last bits depend on how many rows there are
            x[own] = np.einsum("ij,nj->ni", root, x[own]) + self.means[k[own]]
            if self.observed is not None:
                rows, values = self.observed
                half = rows @ root
                gain = np.linalg.solve(half @ half.T, half @ root.T)
                x[own] += np.einsum("nr,rd->nd", values - np.einsum("nd,rd->nr", x[own], rows), gain)
        return x, k

    def _shared(self, k: Array) -> Iterator[tuple[Array, Array]]:
        """For each root (d, d) that kernels k (n,) have, which of them have it: (some,) indices."""
        if len(self.roots) == 1:
            yield np.arange(len(k)), self.roots[0]
            return
        order = np.argsort(k, kind="stable")
        found, starts = np.unique(k[order], return_index=True)
        for j, own in zip(found, np.split(order, starts[1:]), strict=True):
            yield own, self.roots[j]

    def given(self, A: Any, y: Any) -> CovarianceKernels:
        """The law of x given that A x = y, exactly; A (r, d), y (r,)."""
        if self.observed is not None:
            raise ValueError("these kernels are conditioned already: pass all observations at once.")
        rows, values = equations(A, y)
        fit = log_kernels(values[None], self.means @ rows.T, self._roots_of(rows))[0]
        log_weights = self.log_weights + fit
        return CovarianceKernels(
            self.means, self.roots, log_weights - np.logaddexp.reduce(log_weights), self.width, (rows, values)
        )

    def __repr__(self) -> str:
        return f"CovarianceKernels(K={len(self.means)}, d={self.d}: {self.width})"


def choose_width(memories: Any, *, shape: str = "local", folds: int = 5, rng: int = 0) -> Width:
    """The width under which left-out folds of memories (K, d) are likeliest, all moments refitted without them.

    The best of pooled widths, and of a climb over a grid of local ones, axis by axis: the likelihood is smooth.
    """
    rows = to_numpy(floats(memories, "memories")).astype(np.float64)
    K = len(rows)
    folds = min(count("folds", folds, 2), K)
    one_of("shape", shape, SHAPES)
    if K < 4:
        raise ValueError(f"memories must be at least 4 for a width to be chosen by likelihood; got {K}. Pass width.")
    order = np.random.default_rng(rng).permutation(K)
    held_out = [np.sort(order[i::folds]) for i in range(min(folds, math.ceil(ENOUGH * folds / K)))]
    stored = [np.delete(rows, part, axis=0) for part in held_out]

    @cache
    def moments(neighbours: int) -> list[Moments]:
        return [Moments.of(fold, neighbours) for fold in stored]

    @cache
    def likelihood(width: Width) -> float:
        progress.at(likelihood.cache_info().misses)
        made = zip(held_out, stored, moments(width.neighbours), strict=True)
        return sum(log_likelihood(rows[left], fold, part, width) for left, fold, part in made)

    with Progress(USUAL_STEPS, "choosing a width") as progress:
        best = max((Width(noise, 1.0, ALL) for noise in NOISE), key=likelihood)
        few = tuple(m for m in NEIGHBOURS if m < min(len(fold) for fold in stored))
        if shape == "local" and few:
            best = max(best, _climb((NOISE, POOLED, few), likelihood), key=likelihood)
    if not math.isfinite(likelihood(best)):
        raise ValueError("memories are too much alike: no width has a finite likelihood. Drop duplicates.")
    return best


def _climb(axes: tuple[tuple[float, ...], ...], likelihood: Callable[[Width], float]) -> Width:
    """The width of a grid that no step along an axis makes likelier, from START on."""

    def width(at: list[int]) -> Width:
        noise, pooled, neighbours = (axis[i] for axis, i in zip(axes, at, strict=True))
        return Width(noise, pooled, int(neighbours))

    at = [int(np.argmin([abs(x - want) for x in axis])) for axis, want in zip(axes, START, strict=True)]
    before = None
    while before != at:
        before = list(at)
        for i, axis in enumerate(axes):
            for step in (-1, 1):
                while 0 <= at[i] + step < len(axis):
                    to = [*at[:i], at[i] + step, *at[i + 1 :]]
                    if likelihood(width(to)) <= likelihood(width(at)):
                        break
                    at = to
    return width(at)
