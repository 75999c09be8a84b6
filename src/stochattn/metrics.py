"""What the paper's tables report, and who is near whom.

Samples are (..., d), or (n_chains, n_kept, d) where chains matter; a bank gives the memories (its kept ones).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ._arrays import Array, concatenate, floats, full, like, namespace, norms_squared, or_one, to_numpy
from ._checks import positive
from .energy import attends_in_blocks, table_energy
from .mapped import is_large, rows_at
from .memory import MemoryBank, require_bank, states
from .streaming import blocks, memory_blocks, nearest, row_blocks

BLOCK_ENTRIES = 2**24
"""Rows are compared with the memories in blocks of at most this many pairs."""
MOST_ROWS = 1024
"""Memories of a large bank whose neighbours are looked for in one pass over it."""


class Estimate(NamedTuple):
    """A value and its standard error over chains."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}"


class Summary(NamedTuple):
    """One row of the paper's tables."""

    novelty: Estimate
    diversity: Estimate
    energy: Estimate
    max_cosine: Estimate
    share_below_zero: Estimate


def max_cosine(xi: Any, bank: MemoryBank) -> Array:
    """max_k cos(xi, m_k) over the kept memories; (..., d) -> (...). A state of zeros has cosine 0."""
    xi = states(xi, bank)
    if attends_in_blocks(bank):
        return _max_cosine_of_many(xi.reshape(-1, bank.d), bank).reshape(xi.shape[:-1])
    bank.lengths()  # names a zero row by its number in the whole bank
    memories = bank.active.unit_patterns()
    best = _by_blocks(xi, bank, lambda rows: namespace(rows).amax(rows @ memories.T, axis=-1))
    return best / or_one(norms_squared(xi) ** 0.5)


def novelty(xi: Any, bank: MemoryBank) -> Array:
    """1 − max_k cos(xi, m_k) (Section 5); (..., d) -> (...).

    >>> novelty([[2.0, 0.0], [1.0, 1.0]], MemoryBank([[1.0, 0.0]])).round(3)
    array([0.   , 0.293])
    """
    return 1 - max_cosine(xi, bank)


def diversity(xi: Any) -> float:
    """Mean of 1 − cos over all pairs of samples (Section 5); (..., d) -> one number, NaN for fewer than two.

    Σ_{i≠j} cos(x_i, x_j) = ‖Σ x̂_i‖² − Σ ‖x̂_i‖², so the pairs are never formed.
    """
    xi = floats(xi, "xi")
    if xi.ndim == 0:
        raise ValueError("xi must hold samples along its last axis, (..., d); got a single number.")
    rows = xi.reshape(-1, xi.shape[-1])
    S = len(rows)
    if S < 2:
        return math.nan
    unit = rows / or_one(norms_squared(rows) ** 0.5)[:, None]
    total = unit.sum(0)
    pairs = float((total * total).sum()) - float((unit * unit).sum())
    return 1 - pairs / (S * (S - 1))


def mean_energy(xi: Any, bank: MemoryBank, beta: float) -> float:
    """Ē of the tables: the mean energy without its constants (see `energy.table_energy`)."""
    return float(table_energy(xi, bank, beta).mean())


def share_below_zero(xi: Any, bank: MemoryBank, beta: float) -> float:
    """Share of samples with E < 0 in the tables' energy, called "on manifold" there."""
    return float((table_energy(xi, bank, beta) < 0).mean(dtype=_double(bank)))


def frechet_diagonal(xi: Any, reference: Any) -> float:
    """‖μ₁ − μ₂‖² + ‖σ₁ − σ₂‖² over coordinates: the diagonal Fréchet distance between two samples."""
    first, second = (to_numpy(floats(x, name)) for x, name in ((xi, "xi"), (reference, "reference")))
    first, second = (x.reshape(-1, x.shape[-1]).astype(np.float64) for x in (first, second))
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"reference must have as many columns as xi, {first.shape[1]}; got {second.shape[1]}.")
    means = first.mean(0) - second.mean(0)
    spreads = first.std(0, ddof=1) - second.std(0, ddof=1)
    return float(means @ means + spreads @ spreads)


def nearest_memory(xi: Any, bank: MemoryBank) -> tuple[Array, Array]:
    """Index of the nearest kept memory and the distance to it; (..., d) -> (...), (...)."""
    xi = states(xi, bank)
    if attends_in_blocks(bank):
        k = nearest(xi.reshape(-1, bank.d), bank.patterns, _half_squares(bank)).reshape(xi.shape[:-1])
        gap = xi - rows_at(bank.patterns, k.reshape(-1)).reshape(xi.shape)
        return k, norms_squared(gap) ** 0.5
    half = bank.active.norms_squared / 2
    patterns = bank.active.patterns
    k = _by_blocks(xi, bank, lambda rows: namespace(rows).argmax(rows @ patterns.T - half, axis=-1))
    gap = xi - patterns[k]
    return like(bank.kept, patterns, keep_dtype=True)[k], norms_squared(gap) ** 0.5


def neighbour_distances(bank: MemoryBank, most: int | None = None) -> Array:
    """Distance from each kept memory to its nearest other kept memory (leave one out): (K_kept,) numpy.

    With `most`, for that many memories, evenly spaced. Nearly equal memories are told apart by their difference, not by
    a difference of inner products.
    """
    K = len(require_bank(bank).kept)
    if K < 2:
        raise ValueError("the bank must keep at least two memories for them to have neighbours; it keeps one.")
    if is_large(bank.patterns):
        return _neighbours_among_many(bank.active.patterns, evenly(K, K if most is None else most))
    patterns = to_numpy(bank.active.patterns).astype(np.float64)
    half = np.einsum("kd,kd->k", patterns, patterns) / 2
    chosen = evenly(K, K if most is None else most)
    distances = []
    for rows in np.array_split(chosen, -(-len(chosen) * K // BLOCK_ENTRIES)):
        closeness = patterns[rows] @ patterns.T - half
        closeness[np.arange(len(rows)), rows] = -np.inf
        distances.append(np.linalg.norm(patterns[rows] - patterns[closeness.argmax(1)], axis=1))
    return np.concatenate(distances)


def evenly(n: int, most: int) -> Array:
    """At most `most` of n indices, evenly spaced."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(np.intp)


def near_copies(xi: Any, bank: MemoryBank, threshold: float | None = None) -> float:
    """Share of samples no further from a memory than `threshold`.

    By default that is the first percentile of the memories' own distances to their nearest neighbours, duplicates
    aside: as close as only the closest pairs of stored examples are.
    """
    if threshold is None:
        gaps = neighbour_distances(bank, most=10_000)
        limit = float(np.quantile(gaps[gaps > 0], 0.01)) if (gaps > 0).any() else 0.0
    else:
        limit = positive("threshold", threshold, "It is a distance.")
    return float((to_numpy(nearest_memory(xi, bank)[1]) <= limit).mean())


def over_chains(per_chain: Any) -> float:
    """Standard error from one mean a chain: their standard deviation over √n_chains; NaN for one chain."""
    means = to_numpy(per_chain).astype(np.float64)
    return float(means.std(ddof=1) / math.sqrt(len(means))) if len(means) > 1 else math.nan


def summarize(samples: Any, bank: MemoryBank, beta: float) -> Summary:
    """The tables' row for samples (n_chains, n_kept, d): means over all, standard errors over chains.

    Diversity is over all samples together; its error is that of the diversities within chains, as in the tables.
    """
    samples = states(samples, bank, "samples")
    if samples.ndim != 3:
        raise ValueError(
            f"samples must be (n_chains, n_kept, d), as in draws.samples; got shape {tuple(samples.shape)}."
        )
    cosines = to_numpy(max_cosine(samples, bank))
    energies = to_numpy(table_energy(samples, bank, beta))
    below = (energies < 0).astype(np.float64)
    within = [diversity(chain) for chain in samples]
    return Summary(
        novelty=Estimate(float(1 - cosines.mean()), over_chains(cosines.mean(1))),
        diversity=Estimate(diversity(samples), over_chains(within)),
        energy=Estimate(float(energies.mean()), over_chains(energies.mean(1))),
        max_cosine=Estimate(float(cosines.mean()), over_chains(cosines.mean(1))),
        share_below_zero=Estimate(float(below.mean()), over_chains(below.mean(1))),
    )


def _max_cosine_of_many(xi: Array, bank: MemoryBank) -> Array:
    """max_cosine over blocks of memories, whose unit vectors are never all there: (n, d) -> (n,)."""
    xp = namespace(xi)
    lengths = xp.where(bank.log_r > -math.inf, bank.lengths(), math.inf)
    parts = []
    for rows in row_blocks(xi, bank.K):
        best = full((len(xi[rows]),), -math.inf, xi)
        for block in memory_blocks(bank.patterns):
            cosines = xi[rows] @ bank.patterns[block].T / lengths[block]
            cosines = xp.where(lengths[block] < math.inf, cosines, -math.inf)
            best = xp.maximum(best, xp.amax(cosines, axis=-1))
        parts.append(best)
    return concatenate(parts) / or_one(norms_squared(xi) ** 0.5)


def _half_squares(bank: MemoryBank) -> Array:
    """‖m_k‖²/2, inf for memories that are masked out: (K,)."""
    return namespace(bank.log_r).where(bank.log_r > -math.inf, bank.norms_squared / 2, math.inf)


def _neighbours_among_many(patterns: Array, chosen: Array) -> Array:
    """neighbour_distances of the chosen memories, read and converted block by block: (n,)."""
    distances = []
    for some in np.array_split(chosen, -(-len(chosen) // MOST_ROWS)):
        rows = to_numpy(rows_at(patterns, like(some, patterns, keep_dtype=True))).astype(np.float64)
        best, closest = np.full(len(rows), -np.inf), np.zeros(len(rows), dtype=np.intp)
        for block in blocks(*patterns.shape):
            keys = to_numpy(patterns[block]).astype(np.float64)
            closeness = rows @ keys.T - np.einsum("kd,kd->k", keys, keys) / 2
            own = np.flatnonzero((block.start <= some) & (some < block.stop))
            closeness[own, some[own] - block.start] = -np.inf
            here = closeness.argmax(1)
            nearer = closeness[np.arange(len(rows)), here] > best
            best = np.where(nearer, closeness[np.arange(len(rows)), here], best)
            closest = np.where(nearer, here + block.start, closest)
        others = to_numpy(rows_at(patterns, like(closest, patterns, keep_dtype=True))).astype(np.float64)
        distances.append(np.linalg.norm(rows - others, axis=1))
    return np.concatenate(distances)


def _by_blocks(xi: Array, bank: MemoryBank, of_rows: Any) -> Array:
    """of_rows over blocks of rows, so that no (n, K) array grows beyond a block."""
    rows = xi.reshape(-1, bank.d)
    size = max(BLOCK_ENTRIES // len(bank.kept), 1)
    parts = [of_rows(rows[i : i + size]) for i in range(0, max(len(rows), 1), size)]
    return concatenate(parts).reshape(xi.shape[:-1])


def _double(bank: MemoryBank) -> Any:
    return namespace(bank.patterns).float64
