"""Stratified columns: in each round of draws, a column takes as many values from each of equally likely intervals.

Draws around each stored row in turn still leave each column with the chance of so many independent numbers: lumps and
gaps by which K new rows are told from K true ones, column by column. Latin hypercube sampling with dependence (Packham
and Schmidt, 2010) takes this chance out. Of R draws of a column with the distribution function F, every m-th in rising
order, from one of the first m on, is moved to where such a draw is expected,

    F(x₍ⱼ₎)  →  (j + v) / R,        j = j₁, j₁ + m, j₁ + 2m …  of 0 … R − 1,

and F(x) of the draws in between follow linearly. The first of them, j₁, and v between 0 and 1 are random and the same
for all columns of a round, so that a single draw has the law F, but for an error of the order 1/R at its ends. Ranks
do not change, and the moves are smooth: columns depend on each other as before, even where they nearly determine each
other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._backend.arrays import Array

N_GRID, N_DEVIATIONS = 256, 6.0  # equivalent: a finer or wider grid gives the same shares to the third digit
"""Numbers at which a distribution function is evaluated, and how far beyond the outermost kernels, in deviations."""
MAX_GROUPS = 1024
"""Kernels beyond which those with neighbouring means are taken together."""
STRATUM = 5
"""Draws of a round, in rising order, of which one is moved to where it is expected: m above."""
MIN_ROUND = 2 * STRATUM
"""Draws in a round, at least: in shorter ones, the common shift makes columns depend on each other."""
MAX_ROUND = 1024
"""Draws in a round, at most: one draw costs as much as a round."""


@dataclass(frozen=True, eq=False)
class Marginals:
    """Distribution functions of the features at positions (r,): `shares` (r, m) at numbers `grid` (r, m)."""

    positions: Array
    grid: Array
    shares: Array

    @classmethod
    def of(cls, means: Array, variances: Array, weights: Array, positions: Array) -> Marginals:
        """Those of Σ_k w_k N(means_k, variances_k): means (K, r), variances (K, r) or (1, r), weights (K,)."""
        from scipy.special import ndtr

        grid = np.empty((len(positions), N_GRID))
        shares = np.empty_like(grid)
        for row in range(len(positions)):
            centre, variance, w = _grouped(means[:, row], variances[:, row], weights)
            deviation = np.sqrt(variance)
            ends = (centre - N_DEVIATIONS * deviation).min(), (centre + N_DEVIATIONS * deviation).max()
            grid[row] = np.linspace(*ends, N_GRID)
            found = w @ ndtr((grid[row] - centre[:, None]) / deviation[:, None])
            shares[row] = np.maximum.accumulate(found)
        return cls(positions, grid, shares)

    def stratified(self, features: Array, size: int, rng: np.random.Generator) -> Array:
        """Features (n, p) of rounds of `size` draws each, with the columns at `positions` stratified in each round."""
        out, n_rounds = features.copy(), len(features) // size
        starts, shifts = rng.random((n_rounds, 2)).T  # as many for each round: the first rounds of more are the same
        for i in range(n_rounds):
            own = slice(i * size, (i + 1) * size)
            knots = np.arange(int(starts[i] * min(STRATUM, size)), size, STRATUM)
            targets = np.concatenate([[0.0], (knots + shifts[i]) / size, [1.0]])
            for row, j in enumerate(self.positions.tolist()):
                u = np.interp(features[own, j], self.grid[row], self.shares[row])
                found = np.concatenate([[0.0], np.sort(u)[knots], [1.0]])
                out[own, j] = np.interp(np.interp(u, found, targets), self.shares[row], self.grid[row])
        return out


def _grouped(means: Array, variances: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Means, variances and weights (g,) of at most MAX_GROUPS groups of normal laws (K,) with neighbouring means."""
    K = len(means)
    variances = np.broadcast_to(variances, K)
    if K <= MAX_GROUPS:
        return means, variances, weights
    order = np.argsort(means, kind="stable")  # equivalent: equal means may come in any order
    starts, w = np.arange(MAX_GROUPS) * K // MAX_GROUPS, weights[order]
    total = np.add.reduceat(w, starts)
    centre = np.add.reduceat(w * means[order], starts) / total
    square = np.add.reduceat(w * (np.square(means[order]) + variances[order]), starts) / total
    return centre, square - np.square(centre), total
