"""Choosing beta: where attention turns from diffuse to sharp, and which beta to generate at.

Every function takes an array of memories or a bank, and looks at its kept memories. Probe states are the memories
themselves; when there are thousands, an evenly spaced subset stands for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ._arrays import Array, shifted_exp_inplace, to_numpy
from ._checks import count, inverse_temperature, positive, step_size
from ._random import Purpose, generator
from .mapped import is_large, require_small
from .memory import MemoryBank, as_bank, states
from .metrics import evenly, neighbour_distances
from .samplers.exact import pick
from .streamed_beta import natural_beta

MOST_DRAWS, MOST_PROBES = 4096, 256
MOST_PAIRS = 2**22
"""Probes or draws times memories: what one evaluation of a rule may look at. It bounds both time and memory."""


class EntropyCurve(NamedTuple):
    """Attention entropy against beta, averaged over probe states; all (n_betas,)."""

    beta: Array
    entropy: Array  # H, nats
    slope: Array  # dH/dbeta = −beta Var_p(e)   (Eq. 10)
    curvature: Array  # d²H/dbeta² = −Var − beta mu_3; its zero is Eq. 11


def entropy_curve(memories: Any, betas: Any, probes: Any = None) -> EntropyCurve:
    """H(beta) with its first two derivatives in closed form (Prop. 3, Eq. 10, 11).

    probes: (n, d) states to average over; the memories by default.

    >>> curve = entropy_curve(np.eye(3), [1e-6, 1e3])
    >>> curve.entropy.round(3)
    array([1.099, 0.   ])
    """
    attention = _Attention.of(_any_beta(memories), probes)
    betas = np.atleast_1d(np.asarray(betas, dtype=np.float64))
    return EntropyCurve(betas, *np.array([attention.moments(inverse_temperature(b)) for b in betas]).T)


def inflection(memories: Any, probes: Any = None) -> float:
    """beta* of Eq. 11: the zero of d²H/dbeta² at the largest |dH/dbeta|, to a relative 1e-9.

    It marks where attention turns sharp. As a temperature to generate at it is far too hot (see docs/method.md);
    `natural` is made for that.
    """
    bank = _any_beta(memories)
    attention = _Attention.of(bank, probes)
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
    _spread(_Attention.of(bank, bank.patterns[:20]), bank)
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
    gaps = neighbour_distances(bank, most=_share(bank.K, MOST_DRAWS))
    if not (gaps > 0).any():
        raise ValueError(f"{_TOO_ALIKE} every memory has an exact duplicate, and the likelihood grows without end.")
    patterns, log_r = _plain(bank.patterns), _plain(bank.log_r)
    rows = evenly(bank.K, _share(bank.K, 1024))
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
    most = MOST_PROBES if large else _share(bank.K, MOST_DRAWS)
    target = float(np.median(neighbour_distances(bank, most=most)))
    if target <= 1e-9 * bank.M:
        raise ValueError(
            f"{_TOO_ALIKE} at least half of them have a duplicate, so that their typical distance is zero. "
            "Drop duplicates, or pass beta as a number."
        )
    if large:
        return natural_beta(bank, target, equal_weights)
    cloud = _Cloud.around(bank, equal_weights)
    return _falling(lambda beta: float(np.median(cloud.distances(beta))), target, bank.d / target**2)


def for_novelty(memories: Any, novelty: float, *, equal_weights: bool = False) -> float:
    """The beta at which draws of p_beta have this mean novelty, 1 − max cos; solved on the draws of `natural`."""
    bank = _any_beta(memories)
    positive("novelty", novelty, "0 is exact recall, which no finite beta gives.")
    bank.unit_patterns()  # raises if some memory has no direction
    cloud = _Cloud.around(bank, equal_weights)
    highest = float(cloud.novelties(None).mean())
    if novelty >= highest:
        raise ValueError(
            f"novelty={novelty:g} is out of reach: this bank (K={bank.K}, d={bank.d}) allows 0.00 to {highest:.2f}. "
            "Lower novelty."
        )
    return _falling(lambda beta: float(cloud.novelties(beta).mean()), novelty, bank.d / bank.M**2)


def novelty_at(memories: Any, beta: float, *, equal_weights: bool = False) -> float:
    """The mean novelty of draws of p_beta, on the draws of `natural`: what `for_novelty` inverts."""
    return float(_Cloud.around(_any_beta(memories), equal_weights).novelties(inverse_temperature(beta)).mean())


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


class _Attention(NamedTuple):
    """Overlaps of probe states with the memories; what entropy curves are made of."""

    overlaps: Array  # (n_probes, K)
    log_r: Array  # (K,)

    @classmethod
    def of(cls, bank: MemoryBank, probes: Any) -> _Attention:
        bank = bank.active
        patterns = _plain(bank.patterns)
        if probes is None:
            chosen = patterns[evenly(len(patterns), _share(len(patterns), 512))]
        else:
            chosen = np.atleast_2d(_plain(states(probes, bank, "probes")))
        return cls(chosen @ patterns.T, _plain(bank.log_r))

    def moments(self, beta: float) -> tuple[float, float, float]:
        """H, dH/dbeta and d²H/dbeta², averaged over the probes.

        With logits l = beta e + b: dH = −Cov(e, l), d²H = −Var(e) − ⟨(e − ē)² (l − l̄)⟩; without b, Eq. 10 and 11.
        """
        logits = beta * self.overlaps + self.log_r
        p = logits.copy()
        top = shifted_exp_inplace(p)
        total = p.sum(1, keepdims=True)
        p /= total
        e = self.overlaps - (p * self.overlaps).sum(1, keepdims=True)
        mean = (p * logits).sum(1, keepdims=True)
        centred = logits - mean
        pe = p * e
        entropy = (top + np.log(total) - mean).mean()
        slope = -(pe * centred).sum(1).mean()
        curvature = -(pe * e * (1 + centred)).sum(1).mean()
        return float(entropy), float(slope), float(curvature)


class _Cloud(NamedTuple):
    """Standard draws around the memories, m_k + eps/√beta, kept as their inner products: one set for every beta."""

    uniforms: Array  # (S,) which memory
    overlaps: Array  # (S, K) eps · m_j
    squares: Array  # (S,) ‖eps‖²
    patterns: Array  # (K, r)
    norms: Array  # (K,) ‖m_j‖²
    log_r: Array  # (K,)
    equal_weights: bool
    known: dict[str, Array]  # what `_between` found last

    @classmethod
    def around(cls, bank: MemoryBank, equal_weights: bool) -> _Cloud:
        patterns = _plain(bank.patterns)
        K, d = patterns.shape
        S = max(_share(K, MOST_DRAWS), 256)
        rng = generator(0, Purpose.RULE)  # never the numbers that a user's own draws are made of
        if d > 4 * K:  # only the part of eps in the span has overlaps; of the rest only its length counts
            patterns = patterns @ _plain(bank.basis)
        eps = rng.standard_normal((S, patterns.shape[1]))
        rest = d - patterns.shape[1]
        squares = np.einsum("sd,sd->s", eps, eps) + (rng.chisquare(rest, S) if rest else 0.0)
        # Even spacing, shuffled, in place of random uniforms: each memory is then drawn as often as it should be.
        uniforms = rng.permutation((np.arange(S) + 0.5) / S)
        norms = np.einsum("kd,kd->k", patterns, patterns)
        return cls(uniforms, eps @ patterns.T, squares, patterns, norms, _plain(bank.log_r), equal_weights, {})

    def distances(self, beta: float) -> Array:
        """Distance from each draw to its nearest memory: (S,)."""
        k, s, noise = self._picked(beta)
        nearest = (self.norms - 2 * (self._between(k) + s * self.overlaps)).min(1)
        squared = nearest + self.norms[k] + 2 * s * noise + s**2 * self.squares
        return np.sqrt(np.maximum(squared, 0))

    def novelties(self, beta: float | None) -> Array:
        """1 − max cos of each draw (S,); None is the limit of infinite temperature."""
        lengths = np.sqrt(self.norms)
        if beta is None:
            return 1 - (self.overlaps / lengths).max(1) / np.sqrt(self.squares)
        k, s, noise = self._picked(beta)
        top = ((self._between(k) + s * self.overlaps) / lengths).max(1)
        return 1 - top / np.sqrt(np.maximum(self.norms[k] + 2 * s * noise + s**2 * self.squares, 1e-300))

    def _between(self, k: Array) -> Array:
        """m_k · m_j of the memories drawn: (S, K). Kept, since memories that weigh alike are the same at every beta."""
        if "k" not in self.known or not np.array_equal(self.known["k"], k):
            self.known.update(k=k, between=self.patterns[k] @ self.patterns.T)
        return self.known["between"]

    def _picked(self, beta: float) -> tuple[Any, float, Array]:
        log_weights = self.log_r if self.equal_weights else self.log_r + beta / 2 * self.norms
        cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
        k = pick(cumulative, self.uniforms)
        return k, beta**-0.5, self.overlaps[np.arange(len(k)), k]


def _plain(x: Any) -> Array:
    require_small(x, 'this rule (pass beta as a number, or "natural")')
    return to_numpy(x).astype(np.float64)


def _logsumexp(logits: Array) -> Array:
    """log sum exp over the last axis; overwrites its argument."""
    top = shifted_exp_inplace(logits)
    return top[:, 0] + np.log(logits.sum(1))


def _logsumexp_of_others(logits: Array) -> Array:
    """For each k, log Σ_{j≠k} exp logits_j, without the cancellation of subtracting k from the whole: (K,) -> (K,)."""
    before = np.logaddexp.accumulate(np.concatenate(([-np.inf], logits[:-1])))
    after = np.logaddexp.accumulate(np.concatenate(([-np.inf], logits[:0:-1])))[::-1]
    return np.logaddexp(before, after)


def _share(K: int, most: int) -> int:
    """How many probes to compare with K memories."""
    return min(max(MOST_PAIRS // K, 20), most)


def _any_beta(memories: Any) -> MemoryBank:
    bank = as_bank(memories)
    if bank.beta is not None:
        raise ValueError(f"memories must not be clamped or equalised: this bank holds at beta={bank.beta:g} only.")
    return bank.active


def _spread(attention: _Attention, bank: MemoryBank) -> float:
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
