"""Choosing beta: where attention turns from diffuse to sharp, and which beta to generate at.

Every function takes an array of memories or a bank, and uses the kept memories. Probe states are the memories
themselves, or an evenly spaced subset. equal_weights: for the mixture of `conditioning.equalize`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from .._backend.arrays import ArrayLike
from .._backend.checks import check_beta, check_choice, check_count, check_positive
from ..storage.mapped import as_mapped_rows, is_large, is_mapped
from .memory import Memories, MemoryBank, as_bank, check_states
from .neighbors import neighbor_distances
from .temperature_rules import MAX_DRAWS, EntropyCurve, LeaveOneOut, ProbeAttention, ProbeDraws, n_probes, natural_beta

__all__ = ["RULES", "BetaRule", "Temperature", "by_rule", "choose", "entropy_curve", "for_novelty", "inflection"]


class BetaRule(StrEnum):
    """The rule that chose beta.

    >>> import stochattn as sa
    >>> [rule.value for rule in sa.temperature.RULES]
    ['natural', 'inflection', 'knee', 'leave_one_out']
    """

    GIVEN = "given"
    NOVELTY = "novelty"
    NATURAL = "natural"
    INFLECTION = "inflection"
    KNEE = "knee"
    LEAVE_ONE_OUT = "leave_one_out"


RULES = (BetaRule.NATURAL, BetaRule.INFLECTION, BetaRule.KNEE, BetaRule.LEAVE_ONE_OUT)
"""The rules that choose beta from the memories alone."""


@dataclass(frozen=True)
class Temperature:
    """An inverse temperature and the rule that chose it; `novelty` is the target of the rule of that name.

    >>> import stochattn as sa
    >>> sa.temperature.Temperature(20.0)
    Temperature(beta=20.0, rule=<BetaRule.GIVEN: 'given'>, novelty=None)
    """

    beta: float
    rule: BetaRule = BetaRule.GIVEN
    novelty: float | None = None

    def __str__(self) -> str:
        if self.rule is BetaRule.NOVELTY:
            return f"for novelty {self.novelty:g}"
        return "given" if self.rule is BetaRule.GIVEN else f'"{self.rule}"'


__all__ += ["knee", "leave_one_out", "natural", "novelty_at", "novelty_curve", "random_pattern"]
MAX_PROBES = 256  # memories of a large bank whose nearest neighbors are searched
MAX_NORM = 2.0**100  # fourth powers of norms up to it, and down to its inverse, are far from overflow and underflow


def choose(
    memories: Memories, beta: float | str = "natural", novelty: float | None = None, *, equal_weights: bool = False
) -> Temperature:
    """The temperature for a beta, the name of a rule, or a target novelty.

    >>> import numpy as np, stochattn as sa
    >>> sa.temperature.choose(np.eye(8), "inflection").rule.value
    'inflection'
    """
    bank = as_bank(memories)
    if novelty is not None:
        if beta != "natural":
            raise ValueError(f"beta and novelty must not both be given; got beta={beta!r} and novelty={novelty!r}.")
        return Temperature(for_novelty(bank, novelty, equal_weights=equal_weights), BetaRule.NOVELTY, float(novelty))
    if not isinstance(beta, str):
        return Temperature(check_beta(beta))
    rule = BetaRule(check_choice("beta", beta, tuple(rule.value for rule in RULES), "a number or "))
    return Temperature(by_rule(bank, rule, equal_weights=equal_weights), rule)


def by_rule(memories: Memories, rule: BetaRule, *, equal_weights: bool = False) -> float:
    """The beta that a rule chooses; `inflection` and `knee` do not depend on `equal_weights`.

    >>> import numpy as np, stochattn as sa
    >>> round(sa.temperature.by_rule(np.eye(8), sa.temperature.BetaRule.KNEE), 2)
    2.28
    """
    if rule in (BetaRule.INFLECTION, BetaRule.KNEE):
        return (inflection if rule is BetaRule.INFLECTION else knee)(memories)
    return (natural if rule is BetaRule.NATURAL else leave_one_out)(memories, equal_weights=equal_weights)


def entropy_curve(memories: Memories, betas: ArrayLike, probes: ArrayLike | None = None) -> EntropyCurve:
    """H(beta) with its first two derivatives in closed form (Prop. 3, Eq. 10, 11), averaged over probes (n, d).

    >>> import numpy as np, stochattn as sa
    >>> sa.temperature.entropy_curve(np.eye(8), [1.0, 10.0]).entropy.round(4)
    array([1.9943, 0.0035])
    """
    bank, unit = _in_units(_any_beta(memories))
    attention = ProbeAttention(bank, _scale_probes(probes, bank, unit))
    grid = np.atleast_1d(np.asarray(betas, dtype=np.float64))
    moments = np.array([attention.moments(check_beta(b) / unit / unit) for b in grid]).T
    with np.errstate(over="ignore", under="ignore"):
        return EntropyCurve(grid, moments[0], moments[1] / unit**2, moments[2] / unit**2 / unit**2)


def inflection(memories: Memories, probes: ArrayLike | None = None) -> float:
    """beta* of Eq. 11: the zero of d²H/dbeta² at the largest |dH/dbeta|, to a relative 1e-9; probes are (n, d).

    It marks where attention turns sharp. Samples at this temperature are far too noisy (see docs/method.md);
    `natural` chooses a beta to generate at.

    >>> import numpy as np, stochattn as sa
    >>> round(sa.temperature.inflection(np.eye(8)), 3)
    2.718
    """
    bank, unit = _in_units(_any_beta(memories))
    attention = ProbeAttention(bank, _scale_probes(probes, bank, unit))
    spread = _spread(attention, bank)
    # |dH/dbeta| is smooth on the scale of log beta: a scan brackets its peaks, and the highest is then refined.
    # With multiplicities a peak can be narrow, which takes a finer scan.
    scan = np.geomspace(1e-2, 1e5, 561 if np.ptp(attention.log_r) > 0 else 57) / spread
    peak = int(np.argmax([abs(attention.moments(b)[1]) for b in scan]))
    if peak in (0, len(scan) - 1):
        raise ValueError("the multiplicities outweigh the overlaps: |dH/dbeta| has no peak. Pass beta as a number.")
    return _per_square(_root(lambda b: attention.moments(b)[2], scan[peak - 1], scan[peak + 1]), unit)


def knee(memories: Memories) -> float:
    """The beta of the rule in the paper's published scripts, from which its beta* values come; not Eq. 11.

    It is the grid point with the least second difference of H in log beta, among 50 log-spaced points from 0.1 to 500,
    with H averaged over the first 20 memories. The grid assumes unit norms.

    >>> import numpy as np, stochattn as sa
    >>> round(sa.temperature.knee(np.eye(8)), 3)
    2.285
    """
    bank = _any_beta(memories)
    if _in_units(bank)[1] != 1:
        raise ValueError(f"the grid of this rule assumes unit norms; these are {bank.M:g}. Normalize the memories.")
    attention = ProbeAttention(bank, bank.patterns[:20])
    _spread(attention, bank)
    betas = np.geomspace(0.1, 500, 50)
    step = np.diff(np.log(betas))
    second = np.diff(np.diff([attention.moments(beta)[0] for beta in betas]) / step) / step[1:]
    return float(betas[1:-1][np.argmin(second)])


def leave_one_out(memories: Memories, *, equal_weights: bool = False) -> float:
    """The beta with the largest leave-one-out likelihood, Σ_k log p_beta(m_k | the other memories).

    For more than 4,096 memories it is the sum over some of them, evenly spaced, at least 20.

    >>> import numpy as np, stochattn as sa
    >>> round(sa.temperature.leave_one_out(np.eye(8)), 3)
    4.0
    """
    bank, unit = _in_units(_any_beta(memories, at_least=2))
    gaps = neighbor_distances(bank, max_rows=n_probes(bank.K, MAX_DRAWS))
    if not (gaps > 0).any():
        raise ValueError(f"{_TOO_SIMILAR} every memory has an exact duplicate, so the likelihood has no maximum.")
    likelihood = LeaveOneOut(bank, equal_weights)
    # The scan covers the scale of the whole bank and that of its closest pairs; the optimum must lie inside.
    low = math.log(bank.d / (2 * bank.M) ** 2) - 7
    high = math.log(bank.d / float(np.square(gaps[gaps > 0]).min())) + 7
    scan = np.linspace(low, high, 2 + int(high - low))
    best = int(np.argmin(likelihood.losses(scan)))
    if best in (0, len(scan) - 1):
        raise ValueError(f"{_TOO_SIMILAR} the leave-one-out likelihood has no maximum in beta. Pass beta as a number.")
    return _per_square(math.exp(likelihood.minimum(scan[best - 1], scan[best + 1])), unit)


def natural(memories: Memories, *, equal_weights: bool = False) -> float:
    """The beta at which draws are as far from the memories as the memories are from each other (matched distance).

    The median distance from a draw of p_beta to its nearest memory equals that from a memory to its nearest other
    memory. It is solved on a fixed set of 4,096 standard draws (fewer beyond 1,024 memories) and needs no seed; the
    error in beta is about 2.5/√(2 d 4096), 3 % at d = 1 and 0.1 % at d = 784. A large bank (over 2^24 numbers) is not
    copied: a few passes use 256 of its memories and at least 128 draws, with an error in beta of a few per cent.

    >>> import numpy as np, stochattn as sa
    >>> round(sa.temperature.natural(np.eye(8)), 2)
    3.13
    """
    bank, unit = _in_units(_any_beta(memories, at_least=2))
    large = is_large(bank.patterns)
    target = float(np.median(neighbor_distances(bank, MAX_PROBES if large else n_probes(bank.K, MAX_DRAWS))))
    if target <= 1e-9 * bank.M:
        reason = "at least half of them have a duplicate, so their median distance is zero"
        raise ValueError(f"{_TOO_SIMILAR} {reason}. Drop duplicates, or pass beta as a number.")
    if large:
        return _per_square(natural_beta(bank, target, equal_weights), unit)
    draws = ProbeDraws(bank, equal_weights)
    guess = bank.d / target**2
    return _per_square(_solve_decreasing(lambda beta: float(np.median(draws.distances(beta))), target, guess), unit)


def for_novelty(memories: Memories, novelty: float, *, equal_weights: bool = False) -> float:
    """The beta at which draws of p_beta have this mean novelty, 1 − max cos, solved on the draws of `natural`.

    >>> import numpy as np, stochattn as sa
    >>> round(sa.temperature.for_novelty(np.eye(8), 0.1), 1)
    31.5
    """
    bank, unit = _in_units(_any_beta(memories))
    check_positive("novelty", novelty, "0 is exact recall, which no finite beta gives.")
    bank.unit_patterns()  # raises if a memory is zero, and so has no direction
    draws = ProbeDraws(bank, equal_weights)
    highest = float(draws.novelties(None).mean())
    if novelty >= highest:
        rule = f"novelty must lie between 0.00 and {highest:.2f} for this bank (K={bank.K}, d={bank.d})"
        raise ValueError(f"{rule}; got {novelty:g}. Lower novelty.")
    guess = bank.d / bank.M**2
    return _per_square(_solve_decreasing(lambda beta: float(draws.novelties(beta).mean()), novelty, guess), unit)


def novelty_at(memories: Memories, beta: float, *, equal_weights: bool = False) -> float:
    """The mean novelty of draws of p_beta, computed on the draws of `natural`; the inverse of `for_novelty`.

    >>> import numpy as np, stochattn as sa
    >>> round(sa.temperature.novelty_at(np.eye(8), 40.0), 2)
    0.08
    """
    return novelty_curve(memories, equal_weights=equal_weights)(beta)


def novelty_curve(memories: Memories, *, equal_weights: bool = False) -> Callable[[float], float]:
    """`novelty_at` as a function of beta, which uses the same draws at every call.

    >>> import numpy as np, stochattn as sa
    >>> novelty = sa.temperature.novelty_curve(np.eye(8))
    >>> novelty(100.0) < novelty(10.0)
    True
    """
    bank, unit = _in_units(_any_beta(memories))
    draws = ProbeDraws(bank, equal_weights)
    return lambda beta: float(draws.novelties(check_beta(beta) / unit / unit).mean())


def random_pattern(d: int) -> float:
    """√d, the beta of the transition for random unit memories (Section 4.3).

    >>> import stochattn as sa
    >>> sa.temperature.random_pattern(784)
    28.0
    """
    return math.sqrt(check_count("d", d))


_TOO_SIMILAR = "the memories are too similar:"


def _any_beta(memories: Memories, at_least: int = 1) -> MemoryBank:
    bank = as_bank(memories)
    if bank.beta is not None:
        raise ValueError(f"memories must not be conditioned or equalized: these are valid at beta={bank.beta:g} only.")
    if len(bank.kept) < at_least:
        raise ValueError("this rule compares at least two memories; got one (n_samples = 1). Pass beta as a number.")
    return bank.active


def _in_units(bank: MemoryBank) -> tuple[MemoryBank, float]:
    """The bank times a power of two, and that factor, 1 unless norms are so extreme that their powers would be lost.

    Every rule is equivariant: its beta for c X is its beta for X over c².
    """
    if 1 / MAX_NORM <= bank.M <= MAX_NORM or bank.M == 0:
        return bank, 1.0
    unit = math.ldexp(1.0, -math.frexp(bank.M)[1])
    if is_mapped(bank.patterns):
        divided = as_mapped_rows(bank.patterns).divide_rows(np.full(bank.K, 1 / unit))
        return MemoryBank(divided, bank.log_r), unit
    return MemoryBank(bank.patterns * unit, bank.log_r, copy=False), unit


def _scale_probes(probes: ArrayLike | None, bank: MemoryBank, unit: float) -> ArrayLike | None:
    return None if probes is None else check_states(probes, bank, "probes") * unit


def _per_square(beta: float, unit: float) -> float:
    """The beta of a bank from that of the bank times `unit`; ValueError if it is not a normal float."""
    rescaled = beta * unit * unit
    if not np.finfo(np.float64).tiny <= rescaled < math.inf:
        size = "small" if unit > 1 else "large"
        raise ValueError(f"the memories are too {size}: float64 cannot represent their beta. Rescale them.")
    return rescaled


def _spread(attention: ProbeAttention, bank: MemoryBank) -> float:
    """The largest range of a probe's overlaps, which sets the scale of beta."""
    spread = float(np.ptp(attention.overlaps, axis=1).max())
    if spread <= 1e-12 * bank.M**2 or bank.M == 0:
        raise ValueError(f"{_TOO_SIMILAR} attention has no transition ({bank!r}). Pass beta as a number.")
    return spread


def _solve_decreasing(f: Callable[[float], float], target: float, guess: float) -> float:
    """The beta at which f, which decreases in beta, equals the target."""
    low = high = guess
    while f(low) < target and low > 1e-300:
        low /= 4
    while f(high) > target and high < 1e300:
        high *= 4
    return _root(lambda beta: f(beta) - target, low, high)


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq

    if f(low) * f(high) > 0:
        raise ValueError(f"{_TOO_SIMILAR} rounding errors hide the beta of this rule. Pass beta as a number.")
    tolerances = {"xtol": 1e-11, "rtol": 1e-12}
    return math.exp(brentq(lambda b: f(math.exp(b)), math.log(low), math.log(high), **tolerances))
