"""Values of the tables that follow from the exact law in closed form, without sampling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import stochattn as sa


def well_separated(bank: sa.MemoryBank, beta: float, alpha: float | None, starts: Any = None) -> dict[str, float]:
    """Novelty, diversity and energy of unit memories that are far apart on the scale of the noise, 1/√beta.

    A sample is then one memory plus noise of variance s² = 1/beta in each of d dimensions (for ULA (1/beta)/(1 − a/2)),
    so ‖xi‖² ≈ 1 + d s², and the cosine to its own memory ≈ 1/√(1 + d s²). If memories are closer than that, another
    memory may be nearer by chance, and the novelty is an upper bound to leading order.

    starts: indices of the memories at which chains start and stay (five samples each); None weights all equally.
    """
    variance = 1 / beta if alpha is None else 1 / (beta * (1 - alpha / 2))
    length_squared = 1 + bank.d * variance
    gram = np.asarray(bank.gram if starts is None else bank.patterns[starts] @ bank.patterns[starts].T)
    n = len(gram)
    if starts is None:
        cosine = gram.mean()
    else:  # 5 of 150 samples share a memory: a pair of samples does with probability 4/149
        between = (gram.sum() - np.trace(gram)) / (n * (n - 1))
        same = 4 / (5 * n - 1)
        cosine = same + (1 - same) * between
    novelty = 1 - 1 / math.sqrt(length_squared)
    return {
        "novelty": novelty,
        "diversity": float(1 - cosine / length_squared),
        "energy": bank.d * variance / 2 - 0.5,
        "max_cosine": 1 - novelty,
    }


def mala_acceptance(alpha: float, d: int) -> float:
    """MALA's acceptance inside a basin in equilibrium: 2 Φ(−s/2), a function of alpha and d alone.

    There xi − m is N(0, I/beta), and the log ratio is −(alpha beta/4)(‖v*‖² − ‖v‖²), a sum over d dimensions; its
    variance s² per dimension is (alpha/4)² (2 (2a − a²)² + 8 a (1 − a)² + 8 a²), and detailed balance fixes its mean
    at −s²/2.

    >>> round(mala_acceptance(0.01, 784), 3), round(mala_acceptance(0.2, 784), 2)
    (0.992, 0.38)
    """
    a = alpha
    per_dimension = (a / 4) ** 2 * (2 * (2 * a - a * a) ** 2 + 8 * a * (1 - a) ** 2 + 8 * a * a)
    return math.erfc(math.sqrt(d * per_dimension) / (2 * math.sqrt(2)))


def snr(beta: float, d: int, alpha: float = 0.01) -> float:
    """The paper's signal-to-noise ratio of a step, √(alpha beta / 2d) (Eq. snr)."""
    return math.sqrt(alpha * beta / (2 * d))


def well_separated_bias(d: int, beta: float, alpha: float) -> float:
    """ULA's excess of energy inside a basin: (d/2 beta)(alpha/2)/(1 − alpha/2)."""
    return d / (2 * beta) * (alpha / 2) / (1 - alpha / 2)
