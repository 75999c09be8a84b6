"""Bounds that the paper proves for the energy (Prop. 1, Cor. 2), and the signal-to-noise ratio of a step.

The softmax covariance diag(p) − p pᵀ annihilates constants, so one vector may be subtracted from all memories before
sigma_max is computed. With the mean subtracted (`centered=True`) no bound is worse, and on images all are far better.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

from .._backend.arrays import Array, ArrayLike, namespace, norms_squared
from .._backend.checks import check_alpha, check_beta, check_count
from ..storage.mapped import require_small
from .memory import MemoryBank, check_states, require_bank

__all__ = ["condition_number", "convexity_threshold", "critical_snr", "dissipativity", "energy_lower_bound"]
__all__ += ["lipschitz", "potential_lipschitz", "sigma_squared", "snr", "strong_convexity"]

Bound = TypeVar("Bound", bound=Callable[..., float])


def _accept_centred(bound: Bound) -> Bound:
    """Accept `centred`, the spelling of `centered` until version 0.2."""

    @wraps(bound)
    def call(*arguments: object, **options: object) -> float:
        if "centred" in options:
            warnings.warn("centred is now spelled centered.", DeprecationWarning, stacklevel=2)
            options["centered"] = options.pop("centred")
        return bound(*arguments, **options)

    return cast(Bound, call)


@_accept_centred
def sigma_squared(bank: MemoryBank, *, centered: bool = False) -> float:
    """σ_max² of the kept memories; `centered` subtracts their mean first.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[2.0, 1.0], [2.0, -1.0]])
    >>> round(sa.bounds.sigma_squared(bank), 6), round(sa.bounds.sigma_squared(bank, centered=True), 6)
    (8.0, 2.0)
    """
    if not centered:
        return require_bank(bank).sigma_max ** 2
    require_small(require_bank(bank).active.patterns, "the centered bound (centered=False reads it in blocks)")
    rows = bank.active.patterns[:]
    return MemoryBank(rows - rows.mean(0)).sigma_max ** 2


@_accept_centred
def lipschitz(bank: MemoryBank, beta: float, *, centered: bool = False) -> float:
    """L = 1 + βσ²/2, a Lipschitz constant of ∇E (Prop. 1).

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> round(sa.bounds.lipschitz(bank, beta=4.0), 6)
    3.0
    """
    return 1 + check_beta(beta) * sigma_squared(bank, centered=centered) / 2


def dissipativity(bank: MemoryBank) -> tuple[float, float]:
    """(a, b) = (1/2, M²/2) with ⟨∇E(ξ), ξ⟩ ≥ a‖ξ‖² − b (Prop. 1).

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> a, b = sa.bounds.dissipativity(bank)
    >>> a, round(b, 6)
    (0.5, 0.5)
    """
    return 0.5, require_bank(bank).M ** 2 / 2


def energy_lower_bound(xi: ArrayLike, bank: MemoryBank) -> Array:
    """½(‖ξ‖ − M)², a lower bound of E (Eq. 5); (..., d) -> (...).

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.bounds.energy_lower_bound([[3.0, 0.0], [0.0, 1.0]], bank).round(6)
    array([2., 0.])
    """
    lengths: Array = namespace(bank.patterns).sqrt(norms_squared(check_states(xi, bank)))
    return (lengths - bank.M) ** 2 / 2


@_accept_centred
def convexity_threshold(bank: MemoryBank, *, centered: bool = False) -> float:
    """2/σ², the β below which the energy is strictly convex, with one basin (Cor. 2); inf if σ = 0.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> round(sa.bounds.convexity_threshold(bank), 6)
    2.0
    """
    sigma2 = sigma_squared(bank, centered=centered)
    return 2 / sigma2 if sigma2 > 0 else math.inf


@_accept_centred
def strong_convexity(bank: MemoryBank, beta: float, *, centered: bool = False) -> float:
    """m = β(1 − βσ²/2), the strong convexity of U = βE (Cor. 2), which guarantees nothing unless it is positive.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> round(sa.bounds.strong_convexity(bank, beta=1.0), 6)
    0.5
    """
    return check_beta(beta) * (1 - beta * sigma_squared(bank, centered=centered) / 2)


@_accept_centred
def potential_lipschitz(bank: MemoryBank, beta: float, *, centered: bool = False) -> float:
    """L_U = β(1 + βσ²/2), a Lipschitz constant of ∇U, U = βE (Cor. 2).

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> round(sa.bounds.potential_lipschitz(bank, beta=4.0), 6)
    12.0
    """
    return beta * lipschitz(bank, beta, centered=centered)


@_accept_centred
def condition_number(bank: MemoryBank, beta: float, *, centered: bool = False) -> float:
    """κ = L_U/m (Appendix B); inf at and above the convexity threshold.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> round(sa.bounds.condition_number(bank, beta=1.0), 6), sa.bounds.condition_number(bank, beta=4.0)
    (3.0, inf)
    """
    m = strong_convexity(bank, beta, centered=centered)
    return potential_lipschitz(bank, beta, centered=centered) / m if m > 0 else math.inf


def snr(beta: float, d: int, alpha: float = 0.01) -> float:
    """√(αβ/2d), the ratio of drift to noise in one step (Eq. 14).

    >>> import stochattn as sa
    >>> round(sa.bounds.snr(beta=2000.0, d=784), 4)
    0.1129
    """
    return math.sqrt(check_alpha(alpha) * check_beta(beta) / (2 * check_count("d", d)))


def critical_snr(d: int, alpha: float = 0.01) -> float:
    """SNR* = √(α/(2√d)), the value of `snr` at β* = √d (Eq. 12).

    >>> import stochattn as sa
    >>> round(sa.bounds.critical_snr(d=784), 4)
    0.0134
    """
    return snr(math.sqrt(check_count("d", d)), d, alpha)
