"""The metrics of the paper's tables: novelty, diversity, energy, near copies, and their errors over chains.

Samples are (..., d), or (n_chains, n_kept, d) where chains matter; they are compared with the kept memories of a bank.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._backend import arrays
from .._backend.arrays import Array, ArrayLike, NumpyArray, as_floats, namespace, norms_squared, to_numpy, zeros_to_ones
from .._backend.checks import check_positive
from ..storage.blockwise import memory_blocks, pass_over, row_blocks, slices
from .energy import attends_in_blocks, table_energy
from .memory import MemoryBank, check_states
from .neighbors import nearest_memory, neighbor_distances

__all__ = ["Estimate", "Summary", "cosine_novelty", "diversity", "frechet_diagonal", "max_cosine", "mean_energy"]
__all__ += ["near_copies", "novelty", "over_chains", "share_below_zero", "summarize"]

BLOCK_ENTRIES = 2**24  # pairs of a row and a memory whose cosines exist at one time
MAX_NEIGHBOR_ROWS = 10_000  # memories whose nearest neighbors are searched for the default threshold of `near_copies`


class Estimate(NamedTuple):
    """A value and its standard error over chains.

    >>> import stochattn as sa
    >>> str(sa.metrics.Estimate(0.1524, 0.0007))
    '0.152 ± 0.001'
    """

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}"


class Summary(NamedTuple):
    """One row of the paper's tables.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> draws = sa.run(bank, 50.0, n_chains=4, n_steps=200, warmup=100, thin=50, rng=0)
    >>> sa.metrics.summarize(draws.samples, bank, 50.0)._fields
    ('novelty', 'diversity', 'energy', 'max_cosine', 'share_below_zero')
    """

    novelty: Estimate
    diversity: Estimate
    energy: Estimate
    max_cosine: Estimate
    share_below_zero: Estimate


def max_cosine(xi: ArrayLike, bank: MemoryBank) -> Array:
    """max_k cos(xi, m_k) over the kept memories; (..., d) -> (...). A state of zeros has cosine 0.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.metrics.max_cosine([[2.0, 0.0], [1.0, 1.0]], bank).round(4)
    array([1.    , 0.7071])
    """
    samples = check_states(xi, bank)
    rows, xp = samples.reshape(-1, bank.d), namespace(samples)
    if attends_in_blocks(bank):
        lengths = xp.where(bank.log_r > -math.inf, bank.lengths(), math.inf)
        best = pass_over(bank.patterns, _max_projection, xp.maximum, rows, lengths)
    else:
        bank.lengths()  # names a zero row by its index in the whole bank
        memories = bank.active.unit_patterns()
        parts = slices(len(rows), max(BLOCK_ENTRIES // len(bank.kept), 1)) or [slice(0, 0)]
        best = arrays.concatenate([xp.amax(rows[part] @ memories.T, axis=-1) for part in parts])
    return best.reshape(samples.shape[:-1]) / zeros_to_ones(norms_squared(samples) ** 0.5)


def novelty(xi: ArrayLike, bank: MemoryBank) -> Array:
    """1 − max_k cos(xi, m_k) (Section 5); (..., d) -> (...).

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.metrics.novelty([[2.0, 0.0], [1.0, 1.0]], bank).round(4)
    array([0.    , 0.2929])
    """
    return 1 - max_cosine(xi, bank)


def cosine_novelty(rows: NumpyArray, stored: NumpyArray, excluded: NumpyArray | None = None) -> NumpyArray:
    """1 − the largest cosine with a stored row, leaving out the stored row `excluded` of each; (n, d), (K, d) -> (n,).

    A row of zeros has no direction: its cosines are zero.

    >>> import numpy as np, stochattn as sa
    >>> stored = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.metrics.cosine_novelty(np.array([[3.0, 0.0], [-1.0, 0.0]]), stored)
    array([0., 1.])
    """
    unit = stored / arrays.lengths_of_directions(np.linalg.norm(stored, axis=1, keepdims=True))
    novelty = np.empty(len(rows))
    for part in slices(len(rows), max(BLOCK_ENTRIES // max(stored.shape), 1)):
        cosines = rows[part] @ unit.T
        if excluded is not None:
            cosines[np.arange(len(cosines)), excluded[part]] = -np.inf
        novelty[part] = 1 - cosines.max(1) / zeros_to_ones(np.linalg.norm(rows[part], axis=1))
    return novelty


def diversity(xi: ArrayLike) -> float:
    """Mean of 1 − cos over all pairs of samples (Section 5); (..., d) -> a number, NaN for fewer than two.

    Σ_{i≠j} cos(x_i, x_j) = ‖Σ x̂_i‖² − Σ ‖x̂_i‖², so the pairs are never formed.

    >>> import stochattn as sa
    >>> sa.metrics.diversity([[1.0, 0.0], [0.0, 1.0]])
    1.0
    """
    samples = as_floats(xi, "xi")
    if samples.ndim == 0 or samples.shape[-1] == 0:
        got = f"shape {tuple(samples.shape)}" if samples.ndim else "a single number"
        raise ValueError(f"xi must hold samples along its last axis, (..., d); got {got}.")
    rows = samples.reshape(-1, samples.shape[-1])
    S = len(rows)
    unit = rows / zeros_to_ones(norms_squared(rows) ** 0.5)[:, None]
    total = unit.sum(0)
    pairs = float((total * total).sum()) - float((unit * unit).sum())
    return 1 - pairs / (S * (S - 1)) if S > 1 else math.nan


def mean_energy(xi: ArrayLike, bank: MemoryBank, beta: float) -> float:
    """Ē of the tables, the mean energy without its constants (see `energy.table_energy`); (..., d) -> a number.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> round(sa.metrics.mean_energy(bank.patterns, bank, beta=100.0), 6)
    -0.5
    """
    return float(table_energy(xi, bank, beta).mean())


def share_below_zero(xi: ArrayLike, bank: MemoryBank, beta: float) -> float:
    """Share of samples (..., d) with a negative `table_energy`, called "on manifold" in the tables.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.metrics.share_below_zero([[1.0, 0.0], [3.0, 0.0]], bank, beta=100.0)
    0.5
    """
    return float((to_numpy(table_energy(xi, bank, beta)) < 0).mean())


def frechet_diagonal(xi: ArrayLike, reference: ArrayLike) -> float:
    """‖μ₁ − μ₂‖² + ‖σ₁ − σ₂‖² over coordinates, the diagonal Fréchet distance of two samples (..., d).

    >>> import stochattn as sa
    >>> sa.metrics.frechet_diagonal([[0.0, 0.0], [2.0, 2.0]], [[1.0, 0.0], [3.0, 2.0]])
    1.0
    """
    first, second = (to_numpy(as_floats(x, name)) for x, name in ((xi, "xi"), (reference, "reference")))
    first, second = (x.reshape(-1, x.shape[-1]).astype(np.float64) for x in (first, second))
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"reference must have as many columns as xi, {first.shape[1]}; got {second.shape[1]}.")
    means, spreads = first.mean(0) - second.mean(0), first.std(0, ddof=1) - second.std(0, ddof=1)
    return float(means @ means + spreads @ spreads)


def near_copies(xi: ArrayLike, bank: MemoryBank, threshold: float | None = None) -> float:
    """Share of samples (..., d) whose distance to a memory is at most `threshold`.

    By default that is the first percentile of the memories' distances to their nearest neighbors, without duplicates.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.metrics.near_copies([[1.0, 0.1], [0.5, 0.5]], bank, threshold=0.2)
    0.5
    """
    if threshold is None:
        gaps = neighbor_distances(bank, max_rows=MAX_NEIGHBOR_ROWS)
        threshold = float(np.quantile(gaps[gaps > 0], 0.01)) if (gaps > 0).any() else 0.0
    else:
        check_positive("threshold", threshold, "It is a distance.")
    return float((to_numpy(nearest_memory(xi, bank)[1]) <= threshold).mean())


def over_chains(per_chain: ArrayLike) -> float:
    """Standard error from one mean per chain (n_chains,): their standard deviation over √n_chains; NaN for one chain.

    >>> import stochattn as sa
    >>> round(sa.metrics.over_chains([1.0, 3.0, 5.0, 7.0]), 4)
    1.291
    """
    means = to_numpy(per_chain).astype(np.float64)
    return float(means.std(ddof=1) / math.sqrt(len(means))) if len(means) > 1 else math.nan


def summarize(samples: ArrayLike, bank: MemoryBank, beta: float) -> Summary:
    """One row of the tables for samples (n_chains, n_kept, d): means over all, standard errors over chains.

    Diversity is that of all samples together; its error is that of the diversities within chains, as in the tables.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> draws = sa.run(bank, 50.0, n_chains=8, n_steps=400, warmup=200, thin=50, rng=0)
    >>> summary = sa.metrics.summarize(draws.samples, bank, 50.0)
    >>> summary.energy.value < 0 < summary.novelty.value
    True
    """
    chains = check_states(samples, bank, "samples")
    if chains.ndim != 3:
        raise ValueError(f"samples must be (n_chains, n_kept, d), as in draws.samples; got {tuple(chains.shape)}.")
    cosines, energies = to_numpy(max_cosine(chains, bank)), to_numpy(table_energy(chains, bank, beta))
    tables = (energies, cosines, (energies < 0).astype(np.float64))
    energy, cosine, below = (Estimate(float(x.mean()), over_chains(x.mean(1))) for x in tables)
    novelty = Estimate(float(1 - cosines.mean()), cosine.error)
    spread = Estimate(diversity(chains), over_chains([diversity(chain) for chain in chains]))
    return Summary(novelty, spread, energy, cosine, below)


def _max_projection(patterns: Array, start: int, rows: Array, lengths: Array) -> Array:
    """max_k ⟨x, m_k⟩/‖m_k‖ over the kept memories, without an array of all unit vectors: (n, d), (K,) -> (n,)."""
    xp, parts = namespace(rows), []
    for part in row_blocks(rows, len(patterns)):
        best = arrays.full((len(rows[part]),), -math.inf, rows)
        for block in memory_blocks(patterns):
            projections = rows[part] @ patterns[block].T / lengths[block]
            projections = xp.where(lengths[block] < math.inf, projections, -math.inf)
            best = xp.maximum(best, xp.amax(projections, axis=-1))
        parts.append(best)
    return arrays.concatenate(parts)
