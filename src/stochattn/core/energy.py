"""The modern Hopfield energy, attention and densities, as pure functions of states xi (..., d), bank and beta.

Equation numbers are the paper's. Completing the square turns the target into a Gaussian mixture,
exp(-beta E(xi)) ∝ Σ_k r_k exp(beta ‖m_k‖²/2) N(xi; m_k, I/beta), so densities here are normalized and exact.
"""

from __future__ import annotations

import math
import warnings
from functools import reduce

import numpy as np

from .._backend.arrays import Array, ArrayLike, as_floats, concatenate, full_precision, like, namespace, norms_squared
from .._backend.checks import check_beta, check_count, check_positive
from .._backend.products import logsumexp, softmax_and_logsumexp
from ..storage.blockwise import MAX_ENTRIES, MAX_MEMORIES_AT_ONCE, Sums, attention, blocks, pass_over
from ..storage.mapped import is_mapped
from .memory import MemoryBank, check_states, require_bank

__all__ = ["attend", "energy", "entropy", "hessian", "log_density", "mixture_log_weights", "retrieve", "score"]
__all__ += ["table_energy", "weights"]


def energy(xi: ArrayLike, bank: MemoryBank, beta: float) -> Array:
    """E(xi) with its constants, so that E ≥ ½(‖xi‖ − M)² ≥ 0 (Eq. 3, 5); (..., d) -> (...).

    With multiplicities, log K becomes log Σ r_k; memories that are masked out do not count.

    >>> bank = MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(energy([1.0, 0.0], bank, beta=100.0)), 4)
    0.0069
    """
    return table_energy(xi, bank, beta) + bank.log_total_r / beta + bank.M**2 / 2


def table_energy(xi: ArrayLike, bank: MemoryBank, beta: float) -> Array:
    """½‖xi‖² − lse_beta(X xi): the energy of the paper's tables, Eq. 3 without log K/beta + M²/2; (..., d) -> (...).

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(sa.energy.table_energy([1.0, 0.0], bank, beta=100.0)), 6)
    -0.5
    """
    rows = check_states(xi, bank)
    beta = bank.check_beta(beta)
    lse = logsumexp(_logits(rows, bank, beta)) if _at_once(rows, bank) else _in_blocks(rows, bank, beta).logsumexp
    return norms_squared(rows) / 2 - lse.reshape(rows.shape[:-1]) / beta


def weights(xi: ArrayLike, bank: MemoryBank, beta: float) -> Array:
    """Attention weights softmax(beta X xi + log r) (Eq. 4, 13); (..., d) -> (..., K).

    beta = inf is hard attention: all weight on the largest overlap, shared between ties.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.energy.weights([0.6, 0.5], bank, beta=10.0).round(4)
    array([0.7311, 0.2689])
    """
    rows = check_states(xi, bank)
    if beta != math.inf:
        return softmax_and_logsumexp(_logits(rows, bank, bank.check_beta(beta)))[0]
    xp = namespace(rows)
    overlaps = xp.where(bank.log_r > -math.inf, inner_products(rows, bank.patterns), -math.inf)
    best = (overlaps == xp.amax(overlaps, axis=-1, keepdims=True)) * xp.ones_like(overlaps)
    return best / best.sum(-1, keepdims=True)


def attend(xi: ArrayLike, bank: MemoryBank, beta: float, values: ArrayLike | None = None) -> Array:
    """T(xi), the weighted average of the memories (Eq. 4), or of `values` (K, v) instead; (..., d) -> (..., v).

    With a beta above the sampler's this is the sharp readout; `values=bank.values` projects to another space.

    >>> bank = MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> attend([0.6, 0.5], bank, beta=math.inf, values=[[10.0], [20.0]])
    array([10.])
    """
    rows = check_states(xi, bank)
    read = bank.patterns if values is None else like(as_floats(values, "values"), bank.patterns)
    if read.ndim != 2 or len(read) != bank.K:
        raise ValueError(f"values must be a matrix with K={bank.K} rows; got shape {tuple(read.shape)}.")
    if _at_once(rows, bank):
        return weights(rows, bank, beta) @ read
    mean = _in_blocks(rows, bank, beta if beta == math.inf else bank.check_beta(beta), values=read).mean
    return mean.reshape((*rows.shape[:-1], read.shape[1]))


def score(xi: ArrayLike, bank: MemoryBank, beta: float) -> Array:
    """∇ log p_beta(xi) = beta (T(xi) − xi) (Section 4.2); (..., d) -> (..., d).

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.energy.score([0.5, 0.5], bank, beta=10.0).round(6) + 0
    array([0., 0.])
    """
    return check_beta(beta) * (attend(xi, bank, beta) - check_states(xi, bank))


def mixture_log_weights(bank: MemoryBank, beta: float) -> Array:
    """Log of the normalized weights of the mixture, r_k exp(beta ‖m_k‖²/2): (K,).

    >>> import numpy as np, stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.1]])
    >>> np.exp(sa.energy.mixture_log_weights(bank, beta=10.0)).round(4)
    array([0.2592, 0.7408])
    """
    raw = require_bank(bank).log_r + bank.check_beta(beta) / 2 * bank.norms_squared
    return raw - logsumexp(raw)


def log_density(xi: ArrayLike, bank: MemoryBank, beta: float) -> Array:
    """log p_beta(xi), the normalized density of the Gaussian mixture ∝ exp(−beta E); (..., d) -> (...).

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.energy.log_density([[1.0, 0.0], [2.0, 0.0]], bank, beta=10.0).round(4)
    array([-0.2284, -5.2284])
    """
    energies = table_energy(xi, bank, beta)
    log_z = logsumexp(bank.log_r + beta / 2 * bank.norms_squared)
    return -beta * energies - log_z - bank.d / 2 * math.log(2 * math.pi / beta)


def hessian(xi: ArrayLike, bank: MemoryBank, beta: float) -> Array:
    """∇²E = I − beta Xᵀ (diag p − p pᵀ) X, with memories in rows (Eq. 16); (..., d) -> (..., d, d).

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.energy.hessian([0.5, 0.5], bank, beta=1.0).round(6)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    p = weights(xi, bank, check_beta(beta))
    shares = p.reshape(-1, bank.K).T
    mean, second = pass_over(bank.patterns, _moments, _add_moments, None, shares)
    spread = second - mean[:, :, None] * mean[:, None, :]
    return like(np.eye(bank.d), bank.patterns) - beta * spread.reshape((*p.shape[:-1], bank.d, bank.d))


def _moments(patterns: Array, start: int, states: None, shares: Array) -> tuple[Array, Array]:
    """Weighted sums over memories of m (n, d) and of m mᵀ (n, d, d), with the weights (K, n)."""
    parts = ((shares[block].T, patterns[block]) for block in blocks(*patterns.shape))
    return reduce(_add_moments, ((share @ keys, (keys.T * share[:, None]) @ keys) for share, keys in parts))


def _add_moments(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    return first[0] + second[0], first[1] + second[1]


def entropy(xi: ArrayLike, bank: MemoryBank, beta: float) -> Array:
    """H = −Σ p_k log p_k of the attention weights, in nats (Section 4.3); (..., d) -> (...).

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.energy.entropy([[0.5, 0.5], [9.0, 0.0]], bank, beta=10.0).round(4)
    array([0.6931, 0.    ])
    """
    rows = check_states(xi, bank)
    beta = bank.check_beta(beta)
    if not _at_once(rows, bank):
        return _in_blocks(rows, bank, beta, spread=True).entropy.reshape(rows.shape[:-1])
    logits = _logits(rows, bank.active, beta)
    p, lse = softmax_and_logsumexp(logits)
    return lse - (p * logits).sum(-1)


def retrieve(xi: ArrayLike, bank: MemoryBank, beta: float, max_steps: int = 1000, tolerance: float = 1e-8) -> Array:
    """The fixed point of xi ← T(xi), gradient descent on E with unit step (Section 3); (..., d) -> (..., d).

    beta = inf retrieves the memory with the largest overlap; max_steps=1 is one attention step.
    Warns if some state still moves by more than `tolerance` (relative to M) after more than one step.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.energy.retrieve([0.9, 0.3], bank, beta=20.0).round(4)
    array([1., 0.])
    """
    check_count("max_steps", max_steps)
    check_positive("tolerance", tolerance, "It is the largest move of a converged state, relative to M.")
    state, xp = check_states(xi, bank), namespace(bank.patterns)
    if 0 in state.shape:
        return state
    rounding = 4 * float(xp.finfo(state.dtype).eps)
    limit = max(tolerance, rounding) * max(bank.M, 1e-300)
    for _ in range(max_steps):
        previous, state = state, attend(state, bank, beta)
        if float(xp.abs(state - previous).max()) <= limit:
            return state
    if max_steps > 1:
        moving = f"after max_steps={max_steps} with states still moving by more than {limit:.1e}"
        warnings.warn(f"retrieve stopped {moving}; raise max_steps or tolerance.", RuntimeWarning, stacklevel=2)
    return state


def attends_in_blocks(bank: MemoryBank) -> bool:
    """Whether attention passes over a bank in blocks: one with many memories, or one in a file."""
    return require_bank(bank).K > MAX_MEMORIES_AT_ONCE or is_mapped(bank.patterns)


def _at_once(xi: Array, bank: MemoryBank) -> bool:
    return not attends_in_blocks(bank) and math.prod(xi.shape[:-1]) * bank.K <= MAX_ENTRIES


def _in_blocks(xi: Array, bank: MemoryBank, beta: float, values: Array | None = None, spread: bool = False) -> Sums:
    return attention(xi.reshape(-1, bank.d), bank.patterns, bank.log_r, beta, values=values, spread=spread)


def _logits(xi: Array, bank: MemoryBank, beta: float) -> Array:
    with full_precision(xi):
        return beta * inner_products(xi, bank.patterns) + bank.log_r


def inner_products(xi: Array, patterns: Array) -> Array:
    """⟨xi, m_k⟩ for every memory, block by block unless they are in memory; (..., d), (K, d) -> (..., K)."""
    if not is_mapped(patterns):
        return xi @ patterns.T

    def part(rows: Array, start: int, xi: Array) -> Array:
        return concatenate([xi @ rows[block].T for block in blocks(*rows.shape)], -1)

    return pass_over(patterns, part, lambda first, second: concatenate((first, second), -1), xi)
