"""What the paper's tables report, and who is near whom.

Samples are (..., d), or (n_chains, n_kept, d) where chains matter; a bank gives the memories (its kept ones).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._backend.arrays import Array, concatenate, floats, full, namespace, norms_squared, or_one, to_numpy
from .._backend.checks import positive
from ..storage.blockwise import memory_blocks, row_blocks
from .energy import attends_in_blocks, table_energy
from .memory import MemoryBank, states
from .neighbors import nearest_memory, neighbor_distances

BLOCK_ENTRIES = 2**24
"""Rows are compared with the memories in blocks of at most this many pairs."""


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


def cosine_novelty(rows: Array, stored: Array, own: Array | None = None) -> Array:
    """1 − the largest cosine with a stored row; (n, d), (K, d) -> (n,).

    own: (n,) the stored row that each row is itself, and is not compared with
    """
    lengths = np.linalg.norm(stored, axis=1, keepdims=True)
    unit = stored / np.where(lengths > 0, lengths, 1.0)
    novelty = np.empty(len(rows))
    size = max(BLOCK_ENTRIES // max(stored.shape), 1)
    for begin in range(0, len(rows), size):
        block = rows[begin : begin + size]
        cosines = block @ unit.T
        if own is not None:
            cosines[np.arange(len(block)), own[begin : begin + size]] = -np.inf
        sizes = np.linalg.norm(block, axis=1)
        novelty[begin : begin + size] = 1 - cosines.max(1) / np.where(sizes > 0, sizes, 1.0)
    return novelty


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


def near_copies(xi: Any, bank: MemoryBank, threshold: float | None = None) -> float:
    """Share of samples no further from a memory than `threshold`.

    By default that is the first percentile of the memories' own distances to their nearest neighbours, duplicates
    aside: as close as only the closest pairs of stored examples are.
    """
    if threshold is None:
        gaps = neighbor_distances(bank, most=10_000)
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


def _by_blocks(xi: Array, bank: MemoryBank, of_rows: Any) -> Array:
    """of_rows over blocks of rows, so that no (n, K) array grows beyond a block."""
    rows = xi.reshape(-1, bank.d)
    size = max(BLOCK_ENTRIES // len(bank.kept), 1)
    parts = [of_rows(rows[i : i + size]) for i in range(0, max(len(rows), 1), size)]
    return concatenate(parts).reshape(xi.shape[:-1])


def _double(bank: MemoryBank) -> Any:
    return namespace(bank.patterns).float64
