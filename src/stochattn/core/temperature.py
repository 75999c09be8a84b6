"""Choosing beta: where attention turns from diffuse to sharp, and which beta to generate at.

Every function takes an array of memories or a bank, and looks at its kept memories. Probe states are the memories
themselves; when there are thousands, an evenly spaced subset stands for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from .._backend.arrays import Array, shifted_exp_inplace
from .._backend.checks import count, inverse_temperature, one_of, positive, step_size
from ..storage.mapped import is_large
from .entropy_curve import EntropyCurve, ProbeAttention
from .large_bank_beta import natural_beta
from .memory import MemoryBank, as_bank
from .neighbors import evenly, neighbor_distances
from .probe_draws import MAX_DRAWS, ProbeDraws, in_float64, n_probes

MAX_PROBES = 256
"""Memories of a large bank whose distances stand for all."""


class BetaRule(StrEnum):
    """How beta was chosen."""

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
    """An inverse temperature, and how it was chosen; `novelty` is the one asked for under that rule."""

    beta: float
    rule: BetaRule = BetaRule.GIVEN
    novelty: float | None = None

    def __str__(self) -> str:
        if self.rule is BetaRule.NOVELTY:
            return f"for novelty {self.novelty:g}"
        return "given" if self.rule is BetaRule.GIVEN else f'"{self.rule}"'


def choose(
    memories: Any, beta: float | str = "natural", novelty: float | None = None, *, equal_weights: bool = False
) -> Temperature:
    """The temperature that a number, the name of a rule, or a wanted novelty asks for.

    >>> choose(np.eye(4), 50.0)
    Temperature(beta=50.0, rule=<BetaRule.GIVEN: 'given'>, novelty=None)
    """
    bank = as_bank(memories)
    if novelty is not None:
        if beta != "natural":
            raise ValueError(f"beta and novelty must not both be given; got beta={beta!r} and novelty={novelty!r}.")
        return Temperature(for_novelty(bank, novelty, equal_weights=equal_weights), BetaRule.NOVELTY, float(novelty))
    if not isinstance(beta, str):
        return Temperature(inverse_temperature(beta))
    rule = BetaRule(one_of("beta", beta, tuple(rule.value for rule in RULES)))
    return Temperature(by_rule(bank, rule, equal_weights=equal_weights), rule)


def by_rule(memories: Any, rule: BetaRule, *, equal_weights: bool = False) -> float:
    """The beta that a rule chooses; the rules about attention alone take no notice of `equal_weights`."""
    if rule is BetaRule.NATURAL:
        return natural(memories, equal_weights=equal_weights)
    if rule is BetaRule.LEAVE_ONE_OUT:
        return leave_one_out(memories, equal_weights=equal_weights)
    return {BetaRule.INFLECTION: inflection, BetaRule.KNEE: knee}[rule](memories)


def entropy_curve(memories: Any, betas: Any, probes: Any = None) -> EntropyCurve:
    """H(beta) with its first two derivatives in closed form (Prop. 3, Eq. 10, 11).

    probes: (n, d) states to average over; the memories by default.

    >>> curve = entropy_curve(np.eye(3), [1e-6, 1e3])
    >>> curve.entropy.round(3)
    array([1.099, 0.   ])
    """
    attention = ProbeAttention.of(_any_beta(memories), probes)
    betas = np.atleast_1d(np.asarray(betas, dtype=np.float64))
    return EntropyCurve(betas, *np.array([attention.moments(inverse_temperature(b)) for b in betas]).T)


def inflection(memories: Any, probes: Any = None) -> float:
    """beta* of Eq. 11: the zero of d²H/dbeta² at the largest |dH/dbeta|, to a relative 1e-9.

    It marks where attention turns sharp. As a temperature to generate at it is far too hot (see docs/method.md);
    `natural` is made for that.
    """
    bank = _any_beta(memories)
    attention = ProbeAttention.of(bank, probes)
    spread = _spread(attention, bank)
    # |dH/dbeta| is smooth on the scale of log beta: a scan brackets its peaks, and the highest is then refined.
    # Multiplicities can hide a narrow peak between hot and cold, and want a finer scan.
    weighted = np.ptp(attention.log_r) > 0
    scan = np.geomspace(1e-2, 1e5, 561 if weighted else 57) / spread
    peak = int(np.argmax([abs(attention.moments(b)[1]) for b in scan]))
    if peak in (0, len(scan) - 1):
        raise ValueError("the multiplicities outweigh the overlaps: |dH/dbeta| has no peak. Pass beta as a number.")
    return _root(lambda b: attention.moments(b)[2], scan[peak - 1], scan[peak + 1])


def knee(memories: Any) -> float:
    """The rule of the paper's published scripts, from which its beta* values come; not Eq. 11.

    The least second difference of H in log beta on 50 log-spaced points from 0.1 to 500, H averaged over the first
    20 memories. Its result is a grid point, and assumes unit norms.
    """
    bank = _any_beta(memories)
    _spread(ProbeAttention.of(bank, bank.patterns[:20]), bank)
    betas = np.geomspace(0.1, 500, 50)
    curve = entropy_curve(bank, betas, probes=bank.patterns[:20])
    step = np.diff(np.log(betas))
    first = np.diff(curve.entropy) / step
    second = np.diff(first) / step[1:]
    return float(betas[1:-1][np.argmin(second)])


def leave_one_out(memories: Any, *, equal_weights: bool = False) -> float:
    """The beta that maximises Σ_k log p_beta(m_k | the other memories), the leave-one-out likelihood of the mixture.

    equal_weights: for the mixture that `conditioning.equalize` makes, whose weights norms do not enter.
    """
    bank = _at_least_two(memories)
    gaps = neighbor_distances(bank, most=n_probes(bank.K, MAX_DRAWS))
    if not (gaps > 0).any():
        raise ValueError(f"{_TOO_ALIKE} every memory has an exact duplicate, and the likelihood grows without end.")
    patterns, log_r = in_float64(bank.patterns), in_float64(bank.log_r)
    rows = evenly(bank.K, n_probes(bank.K, 1024))
    halves = np.einsum("kd,kd->k", patterns, patterns) / 2
    overlaps = patterns[rows] @ patterns.T - halves[rows, None]  # less halves again: minus half the squared distance
    overlaps[np.arange(len(rows)), rows] = -np.inf  # leave one out

    def loss(log_beta: float) -> float:
        beta = math.exp(log_beta)
        norms = 0.0 if equal_weights else beta * halves
        joint = _logsumexp(beta * (overlaps - halves) + (log_r + norms))
        return -float((joint - _logsumexp_of_others(log_r + norms)[rows]).mean()) - bank.d / 2 * log_beta

    # From below the scale of the whole bank to above that of its closest pairs; the optimum must lie inside.
    low = math.log(bank.d / (2 * bank.M) ** 2) - 7
    high = math.log(bank.d / float(np.square(gaps[gaps > 0]).min())) + 7
    scan = np.linspace(low, high, 2 + int(high - low))
    best = int(np.argmin([loss(b) for b in scan]))
    if best in (0, len(scan) - 1):
        raise ValueError(f"{_TOO_ALIKE} the leave-one-out likelihood has no maximum in beta. Pass beta as a number.")
    from scipy.optimize import minimize_scalar

    inside = (scan[best - 1], scan[best + 1])
    return math.exp(minimize_scalar(loss, bounds=inside, method="bounded", options={"xatol": 1e-8}).x)


def natural(memories: Any, *, equal_weights: bool = False) -> float:
    """The beta at which draws are as far from the memories as the memories are from each other.

    Precisely: the median distance from a draw of p_beta to its nearest memory equals the median distance from a memory
    to its nearest other memory. Solved on a fixed set of 4,096 standard draws (fewer beyond 1,024 memories), so that it
    needs no seed and gives the same beta each time; their error in beta is about 2.5/√(2 d 4096): 3 % at d = 1, 0.1 %
    at d = 784. A large bank (over 2^24 numbers) is passed over a few times and not copied: 256 of its memories and 128
    draws or more stand for all, with an error in beta of a few per cent.
    equal_weights: for the mixture that `conditioning.equalize` makes, whose weights norms do not enter.
    """
    bank = _at_least_two(memories)
    large = is_large(bank.patterns)
    most = MAX_PROBES if large else n_probes(bank.K, MAX_DRAWS)
    target = float(np.median(neighbor_distances(bank, most=most)))
    if target <= 1e-9 * bank.M:
        raise ValueError(
            f"{_TOO_ALIKE} at least half of them have a duplicate, so that their typical distance is zero. "
            "Drop duplicates, or pass beta as a number."
        )
    if large:
        return natural_beta(bank, target, equal_weights)
    cloud = ProbeDraws.around(bank, equal_weights)
    return _falling(lambda beta: float(np.median(cloud.distances(beta))), target, bank.d / target**2)


def for_novelty(memories: Any, novelty: float, *, equal_weights: bool = False) -> float:
    """The beta at which draws of p_beta have this mean novelty, 1 − max cos; solved on the draws of `natural`."""
    bank = _any_beta(memories)
    positive("novelty", novelty, "0 is exact recall, which no finite beta gives.")
    bank.unit_patterns()  # raises if some memory has no direction
    cloud = ProbeDraws.around(bank, equal_weights)
    highest = float(cloud.novelties(None).mean())
    if novelty >= highest:
        raise ValueError(
            f"novelty={novelty:g} is out of reach: this bank (K={bank.K}, d={bank.d}) allows 0.00 to {highest:.2f}. "
            "Lower novelty."
        )
    return _falling(lambda beta: float(cloud.novelties(beta).mean()), novelty, bank.d / bank.M**2)


def novelty_at(memories: Any, beta: float, *, equal_weights: bool = False) -> float:
    """The mean novelty of draws of p_beta, on the draws of `natural`: what `for_novelty` inverts."""
    return float(ProbeDraws.around(_any_beta(memories), equal_weights).novelties(inverse_temperature(beta)).mean())


def random_pattern(d: int) -> float:
    """√d: where the transition lies for random unit memories (Section 4.3)."""
    return math.sqrt(count("d", d))


def at_snr(snr: float, d: int, alpha: float = 0.01) -> float:
    """The beta whose step has this signal-to-noise ratio: 2 d snr²/alpha, Eq. 14 solved for beta.

    >>> round(at_snr(0.113, 784), -1)
    2000.0
    """
    return 2 * count("d", d) * positive("snr", snr, "The paper works at 0.017 to 0.113.") ** 2 / step_size(alpha)


_TOO_ALIKE = "the memories are too much alike:"


def _logsumexp(logits: Array) -> Array:
    """log sum exp over the last axis; overwrites its argument."""
    top = shifted_exp_inplace(logits)
    return top[:, 0] + np.log(logits.sum(1))


def _logsumexp_of_others(logits: Array) -> Array:
    """For each k, log Σ_{j≠k} exp logits_j, without the cancellation of subtracting k from the whole: (K,) -> (K,)."""
    before = np.logaddexp.accumulate(np.concatenate(([-np.inf], logits[:-1])))
    after = np.logaddexp.accumulate(np.concatenate(([-np.inf], logits[:0:-1])))[::-1]
    return np.logaddexp(before, after)


def _any_beta(memories: Any) -> MemoryBank:
    bank = as_bank(memories)
    if bank.beta is not None:
        raise ValueError(f"memories must not be clamped or equalised: this bank holds at beta={bank.beta:g} only.")
    return bank.active


def _spread(attention: ProbeAttention, bank: MemoryBank) -> float:
    """The widest range of overlaps that a probe sees, which sets the scale of beta."""
    spread = float(np.ptp(attention.overlaps, axis=1).max())
    if spread <= 1e-12 * bank.M**2 or bank.M == 0:
        raise ValueError(f"{_TOO_ALIKE} attention has no transition ({bank!r}). Pass beta as a number.")
    return spread


def _at_least_two(memories: Any) -> MemoryBank:
    bank = _any_beta(memories)
    if bank.K < 2:
        raise ValueError(
            "the bank must keep at least two memories, which this rule compares; it keeps one (n_samples = 1). "
            "Pass beta as a number."
        )
    return bank


def _falling(f: Callable[[float], float], target: float, guess: float) -> float:
    """The beta at which f, which falls with beta, reaches the target."""
    low = high = guess
    while f(low) < target and low > 1e-300:
        low /= 4
    while f(high) > target and high < 1e300:
        high *= 4
    return _root(lambda beta: f(beta) - target, low, high)


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq

    return math.exp(brentq(lambda b: f(math.exp(b)), math.log(low), math.log(high), xtol=1e-11, rtol=1e-12))
