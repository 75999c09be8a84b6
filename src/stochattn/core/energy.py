"""The modern Hopfield energy and what follows from it: pure functions of (xi, bank, beta).

Equation numbers are the paper's. xi holds states along its last axis, (..., d); results drop that axis or keep it.
Completing the square turns the target into a Gaussian mixture,
exp(-beta E(xi)) ∝ Σ_k r_k exp(beta ‖m_k‖²/2) N(xi; m_k, I/beta), so densities here are normalised and exact.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .._backend.arrays import (
    Array,
    concatenate,
    floats,
    full_precision,
    like,
    logsumexp,
    namespace,
    norms_squared,
    softmax_and_logsumexp,
)
from .._backend.checks import count, inverse_temperature, positive
from ..storage.blockwise import ENTRIES, MANY, Sums, attention, blocks
from ..storage.mapped import is_mapped
from .memory import MemoryBank, require_bank, states


def energy(xi: Any, bank: MemoryBank, beta: float) -> Array:
    """E(xi) with its constants, so that E ≥ ½(‖xi‖ − M)² ≥ 0 (Eq. 3, 5); (..., d) -> (...).

    With multiplicities, log K becomes log Σ r_k; a masked bank is the reduced bank.

    >>> bank = MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(energy([1.0, 0.0], bank, beta=100.0)), 4)
    0.0069
    """
    return table_energy(xi, bank, beta) + bank.log_total_r / beta + bank.M**2 / 2


def table_energy(xi: Any, bank: MemoryBank, beta: float) -> Array:
    """½‖xi‖² − lse_beta(X xi): the energy of the paper's tables, Eq. 3 without log K/beta + M²/2; (..., d) -> (...)."""
    xi = states(xi, bank)
    beta = bank.at(beta)
    lse = logsumexp(_logits(xi, bank, beta)) if _at_once(xi, bank) else _streamed(xi, bank, beta).logsumexp
    return norms_squared(xi) / 2 - lse.reshape(xi.shape[:-1]) / beta


def weights(xi: Any, bank: MemoryBank, beta: float) -> Array:
    """Attention weights softmax(beta X xi + log r) (Eq. 4, 13); (..., d) -> (..., K).

    beta = inf is hard attention: all weight on the largest overlap, shared between ties.
    """
    return _weights(states(xi, bank), bank, beta)


def attend(xi: Any, bank: MemoryBank, beta: float, values: Any = None) -> Array:
    """T(xi), the weighted average of the memories (Eq. 4), or of `values` (K, v) instead; (..., d) -> (..., v).

    At a beta above the sampler's it is the sharp readout; `values=bank.values` projects to another space.

    >>> bank = MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> attend([0.6, 0.5], bank, beta=math.inf, values=[[10.0], [20.0]])
    array([10.])
    """
    xi = states(xi, bank)
    if values is not None:
        values = like(floats(values, "values"), bank.patterns)
        if values.ndim != 2 or len(values) != bank.K:
            raise ValueError(f"values must be a matrix with K={bank.K} rows; got shape {tuple(values.shape)}.")
    values = bank.patterns if values is None else values
    if _at_once(xi, bank):
        return _weights(xi, bank, beta) @ values
    mean = _streamed(xi, bank, beta if beta == math.inf else bank.at(beta), values=values).mean
    return mean.reshape((*xi.shape[:-1], values.shape[1]))


def score(xi: Any, bank: MemoryBank, beta: float) -> Array:
    """∇ log p_beta(xi) = beta (T(xi) − xi) (Section 4.2); (..., d) -> (..., d)."""
    return inverse_temperature(beta) * (attend(xi, bank, beta) - states(xi, bank))


def mixture_log_weights(bank: MemoryBank, beta: float) -> Array:
    """log of the mixture's weights, r_k exp(beta ‖m_k‖²/2) normalised: (K,)."""
    raw = require_bank(bank).log_r + bank.at(beta) / 2 * bank.norms_squared
    return raw - logsumexp(raw)


def log_density(xi: Any, bank: MemoryBank, beta: float) -> Array:
    """log p_beta(xi), normalised: the Gaussian mixture that exp(−beta E) is; (..., d) -> (...)."""
    energies = table_energy(xi, bank, beta)
    log_z = logsumexp(bank.log_r + beta / 2 * bank.norms_squared)
    return -beta * energies - log_z - bank.d / 2 * math.log(2 * math.pi / beta)


def hessian(xi: Any, bank: MemoryBank, beta: float) -> Array:
    """∇²E = I − beta Xᵀ (diag p − p pᵀ) X, with memories in rows (Eq. 16); (..., d) -> (..., d, d)."""
    p = weights(xi, bank, inverse_temperature(beta))
    mean: Array = 0.0
    second: Array = 0.0
    for block in blocks(bank.K, bank.d):
        keys, share = bank.patterns[block], p[..., block]
        mean = mean + share @ keys
        second = second + (keys.T * share[..., None, :]) @ keys
    identity = like(np.eye(bank.d), bank.patterns)
    return identity - beta * (second - mean[..., :, None] * mean[..., None, :])


def entropy(xi: Any, bank: MemoryBank, beta: float) -> Array:
    """H = −Σ p_k log p_k of the attention weights, in nats (Section 4.3); (..., d) -> (...)."""
    xi = states(xi, bank)
    beta = bank.at(beta)
    if not _at_once(xi, bank):
        return _streamed(xi, bank, beta, spread=True).entropy.reshape(xi.shape[:-1])
    logits = _logits(xi, bank.active, beta)
    p, lse = softmax_and_logsumexp(logits)
    return lse - (p * logits).sum(-1)


def retrieve(xi: Any, bank: MemoryBank, beta: float, max_steps: int = 1000, tolerance: float = 1e-8) -> Array:
    """The fixed point that xi ← T(xi) reaches: gradient descent on E with unit step (Section 3); (..., d) -> (..., d).

    beta = inf retrieves the memory with the largest overlap; max_steps=1 is one soft attention.
    Warns if some state still moves by more than `tolerance` (relative to M) after more than one step.
    """
    count("max_steps", max_steps)
    positive("tolerance", tolerance, "It is the largest move that counts as standing still, relative to M.")
    xi = states(xi, bank)
    xp = namespace(xi)
    if 0 in xi.shape:
        return xi
    limit = max(tolerance, 4 * float(xp.finfo(xi.dtype).eps)) * max(bank.M, 1e-300)
    for _ in range(max_steps):
        previous, xi = xi, attend(xi, bank, beta)
        if float(xp.abs(xi - previous).max()) <= limit:
            return xi
    if max_steps > 1:
        warnings.warn(
            f"retrieve stopped after max_steps={max_steps} with states still moving by more than {limit:.1e}; "
            "raise max_steps or tolerance.",
            RuntimeWarning,
            stacklevel=2,
        )
    return xi


def attends_in_blocks(bank: MemoryBank) -> bool:
    """Whether a bank's memories are looked at in blocks: many of them, or those of a file."""
    return require_bank(bank).K > MANY or is_mapped(bank.patterns)


def _at_once(xi: Array, bank: MemoryBank) -> bool:
    """Whether one array holds the logits of all states with all memories; else they are streamed."""
    return not attends_in_blocks(bank) and math.prod(xi.shape[:-1]) * bank.K <= ENTRIES


def _streamed(xi: Array, bank: MemoryBank, beta: float, values: Array = None, spread: bool = False) -> Sums:
    """The sums of attention over the memories in blocks, a row for each state of xi (..., d)."""
    return attention(xi.reshape(-1, bank.d), bank.patterns, bank.log_r, beta, values=values, spread=spread)


def _logits(xi: Array, bank: MemoryBank, beta: float) -> Array:
    with full_precision(xi):
        return beta * _overlaps(xi, bank) + bank.log_r


def _overlaps(xi: Array, bank: MemoryBank) -> Array:
    """⟨xi, m_k⟩ with every memory, those of a file block by block; (..., d) -> (..., K)."""
    if not is_mapped(bank.patterns):
        return xi @ bank.patterns.T
    return concatenate([xi @ bank.patterns[block].T for block in blocks(bank.K, bank.d)], -1)


def _weights(xi: Array, bank: MemoryBank, beta: float) -> Array:
    if beta == math.inf:
        return _hard_weights(xi, bank)
    return softmax_and_logsumexp(_logits(xi, bank, bank.at(beta)))[0]


def _hard_weights(xi: Array, bank: MemoryBank) -> Array:
    xp = namespace(xi)
    overlaps = _overlaps(xi, bank)
    overlaps = xp.where(bank.log_r > -math.inf, overlaps, -math.inf)
    best = (overlaps == xp.amax(overlaps, axis=-1, keepdims=True)) * xp.ones_like(overlaps)
    return best / best.sum(-1, keepdims=True)
