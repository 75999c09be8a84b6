"""Covariance kernels around the memories: noise with the covariance of the data, of all rows or near each memory.

p_beta puts a round kernel of variance 1/beta around each memory. Here the nearest memories of memory k (itself among
them) have the mean c_k and the covariance C_k, and the kernel of memory k is

    N(c_k + sqrt(1 - s) (m_k - c_k),  s Sigma_k),      Sigma_k = (1 - b) C_k + b C,      C the mean of all C_k, shrunk:

The share s of a neighborhood's variance is noise; the rest comes from the position of the memory in it, so that the
variance is kept. With s near 0, draws recall the memories; s = 1 with all memories as neighbors is one Gaussian.
Memories in dense regions are in more neighborhoods than others: a scale for each column restores the variance of the
memories. The distribution stays a Gaussian mixture: draws, density and linear conditions are exact. `choose_width`
chooses s, b and the number of neighbors by likelihood.

The generator draws features, some of them one-hot. Equal features are first jittered over all values that mean the
same, so that the likelihood has no points of infinite density. Each value of a one-hot block gets an offset that gives
it its stored share: without one, rare values would be drawn too rarely.

Stratified columns
------------------
The values of a column in K independent draws differ by chance from its distribution, which tells K new rows from K true
ones. Latin hypercube sampling with dependence (Packham and Schmidt, 2010) removes this chance. Of R draws of a column
with the distribution function F, sorted, every m-th from one of the first m on is moved to where it is expected,

    F(x₍ⱼ₎)  →  (j + v) / R,        j = j₁, j₁ + m, j₁ + 2m …  of 0 … R − 1,

and F(x) is linear in between. The first index j₁ and v between 0 and 1 are random and the same for all columns of a
round, so that a single draw has the distribution F, but for an error of the order 1/R at its ends. Ranks do not change,
and the moves are smooth: columns depend on each other as before, even where they nearly determine each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from ...._backend.arrays import Array, ArrayLike, to_numpy
from ...._backend.checks import check_count
from ....core.memory import MemoryBank, as_bank
from ....core.mixture import equations, perplexity, pick, pick_stratified
from ...generator import NO_DENSITY, Description, Generated, few_sources
from ...hopfield import Coordinates
from ...regions import FeatureObservation, Restricted, rarity_notes
from .neighborhoods import (
    MAX_MEMORIES,
    MIN_ROWS,
    KernelCenters,
    KernelParams,
    Moments,
    choose_memories,
    choose_width,
    count_memories,
    log_kernels,
    mixture_log_density,
)

N_GRID, N_DEVIATIONS = 256, 6.0
"""Numbers at which a distribution function is evaluated, and how far beyond the outermost kernels, in deviations."""
MAX_GROUPS = 1024
"""Kernels of a distribution function; where there are more, those with neighboring means are grouped."""
STRATUM = 5
"""One in so many sorted draws of a round is moved to where it is expected: m above."""
MIN_ROUND = 2 * STRATUM
"""Least draws in a round: in shorter rounds, the common shift makes columns depend on each other."""
MAX_ROUND = 1024
"""Most draws in a round: one draw costs as much as a round."""


@dataclass(frozen=True, eq=False)
class Marginals:
    """Distribution functions of the features at positions (r,): `shares` (r, m) at numbers `grid` (r, m)."""

    positions: Array
    grid: Array
    shares: Array

    @classmethod
    def of(cls, means: Array, variances: Array, weights: Array, positions: Array) -> Marginals:
        """The marginals of Σ_k w_k N(means_k, variances_k): means (K, r), variances (K, r) or (1, r), weights (K,)."""
        from scipy.special import ndtr

        grid = np.empty((len(positions), N_GRID))
        shares = np.empty_like(grid)
        for row in range(len(positions)):
            center, variance, w = _group(means[:, row], variances[:, row], weights)
            deviation = np.sqrt(variance)
            ends = (center - N_DEVIATIONS * deviation).min(), (center + N_DEVIATIONS * deviation).max()
            grid[row] = np.linspace(*ends, N_GRID)
            shares[row] = np.maximum.accumulate(w @ ndtr((grid[row] - center[:, None]) / deviation[:, None]))
        return cls(positions, grid, shares)

    def stratify(self, features: Array, size: int, rng: np.random.Generator) -> Array:
        """Features (n, p) of rounds of `size` draws each, with the columns at `positions` stratified in each round."""
        out, n_rounds = features.copy(), len(features) // size
        starts, shifts = rng.random((n_rounds, 2)).T  # two for each round: a call for more rounds begins with the same
        for i in range(n_rounds):
            rows = slice(i * size, (i + 1) * size)
            knots = np.arange(int(starts[i] * min(STRATUM, size)), size, STRATUM)
            targets = np.concatenate([[0.0], (knots + shifts[i]) / size, [1.0]])
            for row, j in enumerate(self.positions.tolist()):
                u = np.interp(features[rows, j], self.grid[row], self.shares[row])
                knot_shares = np.concatenate([[0.0], np.sort(u)[knots], [1.0]])
                out[rows, j] = np.interp(np.interp(u, knot_shares, targets), self.shares[row], self.grid[row])
        return out


def _group(means: Array, variances: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Means, variances and weights (g,) of at most MAX_GROUPS groups of normals (K,) with neighboring means."""
    K = len(means)
    variances = np.broadcast_to(variances, K)
    if K <= MAX_GROUPS:
        return means, variances, weights
    order = np.argsort(means, kind="stable")
    starts, w = np.arange(MAX_GROUPS) * K // MAX_GROUPS, weights[order]
    total = np.add.reduceat(w, starts)
    center = np.add.reduceat(w * means[order], starts) / total
    square = np.add.reduceat(w * (np.square(means[order]) + variances[order]), starts) / total
    return center, square - np.square(center), total


WIDTH_BELOW_MIN_ROWS = KernelParams(0.5, 1.0, 0)
"""The parameters for fewer than MIN_ROWS rows, which are too few for a choice: between copies and one Gaussian."""
MAX_SCORED, MAX_LOCAL_ENTRIES, MAX_FEATURES = 1000, 2**22, 200
"""The most rows by which parameters are chosen; the most numbers in local covariances, beyond which all rows share one
covariance; the most features, beyond which kernels live in the span of the stored rows."""
JITTER, JITTER_OF_SEARCH = 0.1, 0.3
"""How far equal one-hot values are jittered, as a share of the way to the next value, in kernels and in the choice of
their parameters. Little jitter makes copies of rows likely; with much, kernels lose the dependence on the class."""
N_CALIBRATION, N_CALIBRATION_STEPS, MAX_SHARE_ERROR = 4096, 200, 0.002
"""Draws by which the shares of one-hot values are calibrated, the most steps, and the largest error that is allowed."""
MIN_EXPLAINING, MAX_UNLIKELY = 3, 2.0
"""A note follows where fewer rows explain a condition, or it is less likely than all stored rows by so many nats."""


@dataclass(frozen=True, eq=False)
class CovarianceKernels:
    """Σ_k w_k N(m_k, L_k L_kᵀ), given that A x = y where it is conditioned."""

    means: Array  # (K, d)
    roots: Array  # L (K, d, d), or one for all (1, d, d)
    log_weights: Array  # (K,)
    width: KernelParams
    observed: tuple[Array, Array] | None = None  # A (r, d) and y (r,)

    @classmethod
    def fit(cls, memories: ArrayLike | MemoryBank, *, width: KernelParams, chosen: KernelCenters | None = None) -> Self:
        """Kernels around memories (K, d), or the active ones of a bank, with its multiplicities as weights.

        chosen: the memories that have kernels; None for all
        """
        bank: MemoryBank = as_bank(memories).active
        rows = to_numpy(bank.patterns).astype(np.float64)
        log_r = to_numpy(bank.log_r).astype(np.float64)
        log_weights = log_r - np.logaddexp.reduce(log_r)
        neighbors = width.validate().neighbors
        fitted = Moments(rows, neighbors, np.exp(log_weights), memories=chosen).kernels(width)[0]
        is_part = len(fitted.means) < len(rows)
        return cls(fitted.means, fitted.roots, fitted.log_weights if is_part else log_weights, width)

    def log_density(self, x: ArrayLike) -> Array:
        """log density of rows, normalized, without a condition; (n, d) -> (n,)."""
        if self.observed is not None:
            raise ValueError(NO_DENSITY)
        rows = np.atleast_2d(np.asarray(x, dtype=np.float64))
        return mixture_log_density(rows, self.means, self.roots, self.log_weights)

    def log_density_of(self, A: ArrayLike, y: ArrayLike) -> Array:
        """log density of A x at values y; A (r, d), (n, r) -> (n,)."""
        means, covariances = self.moments(np.atleast_2d(A))
        return mixture_log_density(np.atleast_2d(y), means, np.linalg.cholesky(covariances), self.log_weights)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n independent draws (n, d), and the memory each was drawn around (n,). The first m of n are the m draws."""
        which, noise = rng.spawn(2)
        k = pick(np.cumsum(np.exp(self.log_weights)), which.random(check_count("n", n)))
        return self.around(k, noise, self.observed), k

    def moments(self, rows: Array) -> tuple[Array, Array]:
        """Means (K, r) and covariances, (K, r, r) or (1, r, r), of rows (r, d) times x, without the condition."""
        halves = rows @ self.roots
        return self.means @ rows.T, halves @ halves.transpose(0, 2, 1)

    def around(self, k: Array, rng: np.random.Generator, observed: tuple[Array, Array] | None) -> Array:
        """A draw around each of the memories k (n,), given values, (r,) or (n, r), of rows (r, d) times x: (n, d)."""
        x = rng.standard_normal((len(k), self.means.shape[1]))
        which_root = k if len(self.roots) > 1 else np.zeros_like(k)
        for j in np.unique(which_root):  # one matrix per memory: no (n, d, d) array
            rows_of_root, root = np.flatnonzero(which_root == j), self.roots[j]
            # einsum, not BLAS, whose last bits depend on how many rows there are
            x[rows_of_root] = np.einsum("ij,nj->ni", root, x[rows_of_root]) + self.means[k[rows_of_root]]
            if observed is not None:
                rows, values = observed
                half, wanted = rows @ root, values if values.ndim == 1 else values[rows_of_root]
                gain = np.linalg.solve(half @ half.T, half @ root.T)
                x[rows_of_root] += np.einsum("nr,rd->nd", wanted - np.einsum("nd,rd->nr", x[rows_of_root], rows), gain)
        return x

    def condition(self, A: ArrayLike, y: ArrayLike) -> Self:
        """The exact distribution of x given that A x = y; A (r, d), y (r,)."""
        if self.observed is not None:
            raise ValueError("these kernels are conditioned already: pass all conditions at once.")
        rows, values = equations(A, y)
        means, covariances = self.moments(rows)
        log_weights = self.log_weights + log_kernels(values[None], means, np.linalg.cholesky(covariances))[0]
        return replace(self, log_weights=log_weights - np.logaddexp.reduce(log_weights), observed=(rows, values))


@dataclass(frozen=True, eq=False)
class CovarianceGenerator:
    """Covariance kernels around rows of features with positive weight, in centered coordinates."""

    space: Coordinates
    kernels: CovarianceKernels
    sources: Array  # (K,) the stored rows of the kernels, which are the sources of draws
    offsets: Array  # (p,) added to drawn features
    searched: bool  # whether the width was chosen by a rule
    notes: tuple[str, ...] = ()
    restricted: Restricted | None = None  # the kernels given a region of features
    fixed: tuple[Array, Array] | None = None  # positions (r,) and values (r,) of conditioned features
    amounts: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))  # (r,) features that are stratified

    @cached_property
    def marginals(self) -> Marginals | None:
        """Distributions by which features are stratified; None where there are none, for few rows, or conditioned."""
        is_conditioned = self.restricted is not None or self.kernels.observed is not None
        if is_conditioned or not len(self.amounts) or len(self.sources) < MIN_ROUND:
            return None
        rows, mean = self.space.observation(self.amounts, np.zeros(len(self.amounts)))
        halves = rows @ self.kernels.roots
        centers = self.kernels.means @ rows.T - mean
        return Marginals.of(centers, np.square(halves).sum(2), np.exp(self.kernels.log_weights), self.amounts)

    @classmethod
    def fit(
        cls,
        features: Array,
        weights: Array,
        sources: Array,
        one_hot: Sequence[slice],
        jitter: Callable[[Array, np.random.Generator, float], Array],
        width: KernelParams | None = None,
    ) -> CovarianceGenerator:
        """Kernels around features (K, p) with positive weights (K,); the width is chosen if it is None.

        one_hot: blocks of features that are one-hot
        jitter:  (features, rng, amount) -> features that mean the same, no two of them equal, with one-hot values moved
                 by `amount` of the way to the next value
        """
        seed = 0
        has_few_features = features.shape[1] <= MAX_FEATURES
        variance = None if has_few_features else 1.0
        space = Coordinates.fit(jitter(features, np.random.default_rng(seed), JITTER), variance=variance, norm="whole")
        used = width or _search(space.rows(jitter(features, np.random.default_rng(seed), JITTER_OF_SEARCH)))
        log_r = np.log(weights)
        w = np.exp(log_r - np.logaddexp.reduce(log_r))
        chosen = choose_memories(w, count_memories(len(features), space.d, used.neighbors))
        kernels = CovarianceKernels.fit(MemoryBank(space.stored, log_r), width=used, chosen=chosen)
        space = replace(space, stored=space.stored[chosen.rows], norms=space.norms[chosen.rows])
        offsets, is_amount = np.zeros(features.shape[1]), np.full(features.shape[1], has_few_features)
        z = kernels.sample(N_CALIBRATION, np.random.default_rng(seed))[0]
        for block in one_hot:  # block by block, as features may be far more than the rows that are stored
            counts = np.bincount(np.argmax(features[:, block], axis=1), weights, block.stop - block.start)
            rows, origin = space.observation(np.arange(block.start, block.stop), np.zeros(len(counts)))
            offsets[block] = fit_offsets(z @ rows.T - origin, counts / counts.sum())
            is_amount[block] = False
        return cls(space, kernels, sources[chosen.rows], offsets, width is None, amounts=np.flatnonzero(is_amount))

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new rows of features (n, p), and the stored row that each was drawn around. The first m are the m draws."""
        if self.restricted is not None:
            z, k, inside = self.restricted.sample(n, rng)
            features = self.space.features(z) + self.offsets
            features[:, self.restricted.region.positions] = inside  # exactly as they were tested, without rounding
        else:
            size = 1 if self.marginals is None else min(len(self.sources), MAX_ROUND)
            which, noise, shifts = rng.spawn(3)
            k = pick_stratified(self.kernels.log_weights, math.ceil(n / size) * size, which)
            features = self.space.features(self.kernels.around(k, noise, self.kernels.observed)) + self.offsets
            if self.marginals is not None:
                features = self.marginals.stratify(features, size, shifts)
        if self.fixed is not None:
            features[:, self.fixed[0]] = self.fixed[1]  # without rounding
        return Generated(features[:n], self.sources[k[:n]])

    def condition(self, observation: tuple[Array, Array] | FeatureObservation) -> CovarianceGenerator:
        """The generator given that the features at positions (r,) equal values (r,), whole one-hot blocks at a time.

        A `FeatureObservation` may also name a region of other features.
        """
        positions, values, region = FeatureObservation(*observation)
        kernels, offsets, restricted = self.kernels, self.offsets.copy(), None
        offsets[positions] = 0.0
        try:
            if len(positions):
                kernels = kernels.condition(*self.space.observation(positions, values))
            if region is not None:
                rows, mean = self.space.observation(region.positions, np.zeros(len(region.positions)))
                restricted = Restricted.of(kernels, rows, offsets[region.positions] - mean, region)
        except np.linalg.LinAlgError as error:
            raise ValueError(f"the condition cannot be met ({error}): condition on fewer values.") from None
        fixed = (positions, np.asarray(values, dtype=np.float64))
        conditioned = replace(self, kernels=kernels, offsets=offsets, restricted=restricted, fixed=fixed)
        return replace(conditioned, notes=(*self.notes, *self._notes_on(conditioned)))

    @property
    def width(self) -> KernelParams:
        """The parameters of the kernels."""
        return self.kernels.width

    @property
    def log_shares(self) -> Array:
        """log of how often each stored row is drawn around: (K,)."""
        return self.kernels.log_weights if self.restricted is None else self.restricted.log_shares

    @property
    def acceptance(self) -> float:
        """The share of attempts that become draws; 1 unless a region is conditioned on."""
        return 1.0 if self.restricted is None else self.restricted.acceptance

    def _notes_on(self, conditioned: CovarianceGenerator) -> Iterator[str]:
        if conditioned.kernels.observed is not None:
            rows, values = conditioned.kernels.observed
            likely = self.kernels.log_density_of(rows, values[None])[0]
            if likely < self.kernels.log_density_of(rows, self.space.stored @ rows.T).min() - MAX_UNLIKELY:
                yield "the conditioned values, alone or together, are unlike anything stored: draws extrapolate"
        if conditioned.restricted is not None:
            yield from rarity_notes(conditioned.restricted.probability)
        n_explaining = perplexity(conditioned.log_shares)
        if n_explaining < MIN_EXPLAINING and len(conditioned.sources) >= 2 * MIN_EXPLAINING:
            yield few_sources(n_explaining, "row")

    def log_density(self, values: Array) -> Array:
        """log density of rows of features, normalized, without a condition; (n, p) -> (n,).

        This is the density of the kernels, without the offsets that give categories their shares, and without what a
        codec changes when it decodes, such as relations between columns. That columns are stratified changes the
        distribution of a row by the order of 1/K.
        """
        if self.restricted is not None:
            raise ValueError(NO_DENSITY)
        return self.kernels.log_density(self.space.rows(values))

    def describe(self) -> Description:
        """The width of the kernels and how it was chosen."""
        rule = "chosen by the likelihood of left-out rows" if self.searched else "as given"
        if self.searched and len(self.sources) < MIN_ROWS:
            rule = f"set for fewer than {MIN_ROWS} rows"
        resolved: dict[str, object] = {"width": tuple(self.width), "classes": "pooled"}
        return Description("covariance", f"{self.width} ({rule})", self.notes, resolved=resolved)


def fit_offsets(features: Array, shares: Array) -> Array:
    """b (L,) such that value j is the largest of features + b (n, L) in share_j (L,) of rows; −inf for a share of 0."""
    present = shares > 0
    offsets = np.where(present, 0.0, -np.inf)
    step, n, best, smallest = float(features.std()) / 2, len(features), offsets, np.inf
    for _ in range(N_CALIBRATION_STEPS):
        frequencies = np.bincount(np.argmax(features + offsets, axis=1), minlength=len(shares)) / n
        error = float(np.abs(frequencies - shares).max())
        if error < smallest:
            best, smallest = offsets.copy(), error
        elif error > smallest:
            step *= 0.9  # the error oscillates
        if error < MAX_SHARE_ERROR:
            break
        offsets[present] += step * np.log((shares[present] + 1 / n) / (frequencies[present] + 1 / n))
    return best


def _search(rows: Array) -> KernelParams:
    K, d = rows.shape
    if K < MIN_ROWS:
        return WIDTH_BELOW_MIN_ROWS
    scored = rows[np.sort(np.random.default_rng(0).permutation(K)[:MAX_SCORED])]
    m = min(K, MAX_MEMORIES)
    width = choose_width(scored, shape="local" if m * d**2 <= MAX_LOCAL_ENTRIES else "pooled")
    return width.rescale(len(scored), m)
