"""Conditioning is a map from bank to bank: every sampler and every density then follows the conditioned law.

The target stays a mixture of the same Gaussians; a mask, multiplicities and clamped coordinates change log r_k only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._backend.arrays import Array, empty, floats, like, to_numpy
from .._backend.checks import inverse_temperature, positive
from ..storage.blockwise import blocks
from ..storage.mapped import is_mapped, lazily
from .memory import MemoryBank, checked_indices, require_bank


def mask(bank: MemoryBank, keep: Any) -> MemoryBank:
    """The bank with all memories outside `keep` at r_k = 0 (Eq. 13).

    keep: (K,) booleans, or the indices of the memories to keep. Memories keep their numbers.

    >>> mask(MemoryBank([[1.0], [2.0], [3.0]]), [0, 2]).kept
    array([0, 2])
    """
    kept = chosen(keep, require_bank(bank).K, "keep", "memories")
    log_r = to_numpy(bank.log_r).copy()
    log_r[~kept] = -np.inf
    if not np.isfinite(log_r).any():
        raise ValueError(f"keep must leave at least one of the K={bank.K} memories; it leaves none. Keep some memory.")
    return bank.with_log_r(log_r, bank.beta)


def weight(bank: MemoryBank, r: Any, subset: Any = None) -> MemoryBank:
    """The bank with its multiplicities times r: a row each, or one ratio ρ for a `subset` (the soft-bias variant).

    r: (K,) non-negative numbers, or a single ρ > 0 when `subset` (booleans or indices) is given.

    >>> weight(MemoryBank([[1.0], [2.0]]), [1.0, 3.0]).log_r.round(3)
    array([0.   , 1.099])
    """
    require_bank(bank)
    if subset is None:
        ratios = to_numpy(floats(r, "r")).astype(np.float64)
        if ratios.shape != (bank.K,):
            raise ValueError(
                f"r must have one entry for each of the K={bank.K} memories; got shape {ratios.shape}. "
                "To weight a few memories alike, pass weight(bank, ratio, subset=indices)."
            )
    else:
        ratios = np.ones(bank.K)
        ratios[chosen(subset, bank.K, "subset", "memories")] = positive("r", r, "It multiplies the subset's weight.")
    if (ratios < 0).any():
        raise ValueError(f"r must not be negative; got {ratios.min():g}. Use 0 to mask a memory out.")
    with np.errstate(divide="ignore"):
        log_r = to_numpy(bank.log_r) + np.log(ratios)
    if not np.isfinite(log_r).any():
        raise ValueError("r must leave at least one memory with a positive weight; it leaves none.")
    return bank.with_log_r(log_r, bank.beta)


def equalize(bank: MemoryBank, beta: float) -> MemoryBank:
    """The bank whose mixture at this beta weighs memory k by r_k alone, whatever its norm.

    p_beta weighs it by r_k exp(beta ‖m_k‖²/2): among unequal norms the longest soon takes everything. With that factor
    divided out, p_beta is the kernel density estimate of bandwidth beta^(−1/2). The bank then holds at that beta only.
    """
    if require_bank(bank).beta is not None:
        raise ValueError("bank must not be clamped or equalised already: equalize first, then clamp.")
    factor = inverse_temperature(beta) / 2 * (bank.norms_squared - bank.M**2)
    return bank.with_log_r(bank.log_r - factor, float(beta))


def clamp(bank: MemoryBank, observed: Any, values: Any, beta: float) -> MemoryBank:
    """The bank over the free coordinates, given the others: p_beta(x_free | x_observed = values), exactly.

    Fixing x_obs multiplies r_k by exp(beta m_k,obs · x_obs), so the bank then holds at that beta only.
    observed: (d,) booleans, or indices; values: (n_observed,), in the order of the indices (or of the coordinates).
    See `fill` to put samples and observed values together.
    """
    fixed, known = _observations(observed, values, require_bank(bank).d, bank.patterns)
    if fixed.all():
        raise ValueError(f"observed must leave at least one of the d={bank.d} coordinates free; it leaves none.")
    on, off = (like(np.flatnonzero(choice), bank.patterns, keep_dtype=True) for choice in (fixed, ~fixed))
    if is_mapped(bank.patterns):
        observed_columns, free = lazily(bank.patterns).only(on), lazily(bank.patterns).only(off)
        overlaps = np.concatenate([observed_columns[block] @ known for block in blocks(*observed_columns.shape)])
    else:
        overlaps, free = bank.patterns[:, on] @ known, bank.patterns[:, off]
    log_r = bank.log_r + bank.at(beta) * overlaps
    top = log_r[
        like(bank.kept, bank.patterns, keep_dtype=True)
    ].max()  # a common factor says nothing; without it log r stays small
    return MemoryBank(free, log_r - top, bank.values, float(beta))


def fill(samples: Any, observed: Any, values: Any) -> Array:
    """Samples of the free coordinates (..., d_free) and the observed values, put together: (..., d)."""
    samples = floats(samples, "samples")
    if samples.ndim == 0:
        raise ValueError("samples must hold free coordinates along its last axis, (..., d_free); got a single number.")
    d = samples.shape[-1] + len(np.atleast_1d(to_numpy(values)))
    fixed, known = _observations(observed, values, d, samples)
    whole = empty((*samples.shape[:-1], d), samples)
    whole[..., like(fixed, samples, keep_dtype=True)] = known
    whole[..., like(~fixed, samples, keep_dtype=True)] = samples
    return whole


def _observations(observed: Any, values: Any, d: int, reference: Array) -> tuple[Array, Array]:
    """Which of d coordinates are observed (d,) booleans, and their values in the order of the coordinates."""
    fixed = chosen(observed, d, "observed", "coordinates")
    indices = to_numpy(observed)
    if (
        indices.dtype != np.bool_
        and len(np.unique(checked_indices(indices, d, "observed", "coordinates"))) < indices.size
    ):
        raise ValueError(f"observed must name each coordinate once; got {indices.tolist()}.")
    known = like(floats(values, "values"), reference)
    if tuple(known.shape) != (int(fixed.sum()),):
        raise ValueError(
            f"values must have one entry for each of the {int(fixed.sum())} observed coordinates; "
            f"got shape {tuple(known.shape)}."
        )
    if indices.dtype == np.bool_:
        return fixed, known
    order = np.argsort(checked_indices(indices, d, "observed", "coordinates"))
    return fixed, known[like(order, reference, keep_dtype=True)]


def chosen(choice: Any, n: int, name: str, of: str) -> Array:
    """A choice among n things, given as n booleans or as indices, as booleans: (n,)."""
    array = to_numpy(choice)
    if array.dtype == np.bool_:
        if array.shape != (n,):
            raise ValueError(f"{name} must have {n} booleans, one each; got shape {array.shape}.")
        return array.copy()
    picked = np.zeros(n, dtype=np.bool_)
    picked[checked_indices(array, n, name, of)] = True
    return picked
