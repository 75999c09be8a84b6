"""Choosing beta: where attention turns from diffuse to sharp, and which beta to generate at.

Every function takes an array of memories or a bank, and uses the kept memories. Probe states are the memories
themselves, or an evenly spaced subset. equal_weights: for the mixture of `conditioning.equalize`. After the rules comes
what they compute: entropies at probe states, distances of draws, and the leave-one-out likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike, NumpyArray, lengths_of_directions, like, to_numpy
from .._backend.checks import check_beta, check_choice, check_count, check_positive
from .._backend.console import Progress
from .._backend.products import shifted_exp_inplace
from .._backend.random import Purpose, generator
from ..storage.blockwise import blocks, pass_over, slices
from ..storage.mapped import as_mapped_rows, is_large, is_mapped, require_small, rows_at
from .memory import Memories, MemoryBank, as_bank, check_states
from .mixture import pick
from .neighbors import nearest_memory, neighbor_distances, rows_in_float64, spaced_indices

__all__ = ["RULES", "BetaRule", "Temperature", "by_rule", "choose", "entropy_curve", "for_novelty", "inflection"]
__all__ += ["knee", "leave_one_out", "natural", "novelty_at", "novelty_curve", "random_pattern"]


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
    attention, _, unit = _attention_in_units(memories, probes)
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
    attention, bank, unit = _attention_in_units(memories, probes)
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
    bank, unit = _in_units(memories)
    if unit != 1:
        norm = bank.M / unit
        raise ValueError(f"the grid of this rule assumes unit norms; these are {norm:g}. Normalize the memories.")
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
    bank, unit = _in_units(memories, at_least=2)
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
    bank, unit = _in_units(memories, at_least=2)
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
    bank, unit = _in_units(memories)
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
    bank, unit = _in_units(memories)
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


def _in_units(memories: Memories, at_least: int = 1) -> tuple[MemoryBank, float]:
    """The kept memories times a power of two, and that factor: 1 unless powers of the norms overflow or underflow.

    Every rule is equivariant: its beta for c X is its beta for X over c².
    """
    if (bank := as_bank(memories)).beta is not None:
        raise ValueError(f"memories must not be conditioned or equalized: these are valid at beta={bank.beta:g} only.")
    if len(bank.kept) < at_least:
        raise ValueError("this rule compares at least two memories; got one (n_samples = 1). Pass beta as a number.")
    bank = bank.active
    if 1 / MAX_NORM <= bank.M <= MAX_NORM or bank.M == 0:
        return bank, 1.0
    unit = math.ldexp(1.0, -math.frexp(bank.M)[1])
    if is_mapped(bank.patterns):
        divided = as_mapped_rows(bank.patterns).divide_rows(np.full(bank.K, 1 / unit))
        return MemoryBank(divided, bank.log_r), unit
    return MemoryBank(bank.patterns * unit, bank.log_r, copy=False), unit


def _attention_in_units(memories: Memories, probes: ArrayLike | None) -> tuple[ProbeAttention, MemoryBank, float]:
    bank, unit = _in_units(memories)
    return ProbeAttention(bank, None if probes is None else check_states(probes, bank, "probes") * unit), bank, unit


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


MAX_DRAWS = 4096
MAX_PAIRS = 2**22  # of a probe (or draw) and a memory in one evaluation of a rule, to bound time and memory
CACHED_PAIRS = 2**15  # of a probe and a memory that are computed together, so that they stay in the processor's cache
BETAS_PER_PASS, MAX_PASSES = 9, 8
FIRST_FACTOR = 4.0**4  # the first pass searches from the guess divided by this factor to the guess times it
LAST_FACTOR = 2.0  # the last pass searches from the last beta divided by this factor to that beta times it
MAX_NUMBERS = 2**24  # in the draws of a pass, or of one beta if that is more: wide memories take more passes


class EntropyCurve(NamedTuple):
    """Attention entropy against beta, averaged over probe states; all (n_betas,)."""

    beta: Array
    entropy: Array  # H, nats
    slope: Array  # dH/dbeta = −beta Var_p(e)   (Eq. 10)
    curvature: Array  # d²H/dbeta² = −Var − beta mu_3; its zero is Eq. 11


class ProbeAttention:
    """Overlaps of probes (n, d), or of the memories themselves, with the kept memories of a bank."""

    def __init__(self, bank: MemoryBank, probes: ArrayLike | None) -> None:
        patterns = in_float64(bank.active.patterns)
        if probes is None:
            chosen = patterns[spaced_indices(len(patterns), n_probes(len(patterns), 512))]
        else:
            chosen = np.atleast_2d(in_float64(check_states(probes, bank, "probes")))
        self.overlaps = chosen @ patterns.T  # (n, K)
        self.log_r = in_float64(bank.active.log_r)

    def moments(self, beta: float) -> tuple[float, float, float]:
        """H, dH/dbeta and d²H/dbeta², averaged over the probes.

        With logits l = beta e + b: dH = −Cov(e, l), d²H = −Var(e) − ⟨(e − ē)² (l − l̄)⟩; without b, Eq. 10 and 11.
        """
        n, K = self.overlaps.shape
        entropy, slope, curvature = np.empty(n), np.empty(n), np.empty(n)
        for part in slices(n, max(CACHED_PAIRS // K, 1)):
            overlaps = self.overlaps[part]
            logits = beta * overlaps + self.log_r
            p = logits.copy()
            top = shifted_exp_inplace(p)
            total = p.sum(1, keepdims=True)
            p /= total
            e = overlaps - (p * overlaps).sum(1, keepdims=True)
            mean = (p * logits).sum(1, keepdims=True)
            centered, pe = logits - mean, p * e
            entropy[part] = (top + np.log(total) - mean)[:, 0]
            slope[part] = -(pe * centered).sum(1)
            curvature[part] = -(pe * e * (1 + centered)).sum(1)
        return float(entropy.mean()), float(slope.mean()), float(curvature.mean())


class ProbeDraws:
    """S draws around the memories, m_k + eps/√beta, as inner products; eps is the same at every beta and every call."""

    def __init__(self, bank: MemoryBank, equal_weights: bool) -> None:
        patterns = in_float64(bank.patterns)
        K, d = patterns.shape
        S = max(n_probes(K, MAX_DRAWS), 256)
        rng = generator(0, Purpose.RULE)
        if d > 4 * K:  # eps has overlaps in the span only; outside of it only its length counts
            patterns = patterns @ in_float64(bank.basis)
        eps = rng.standard_normal((S, patterns.shape[1]))
        outside = d - patterns.shape[1]
        self.squares = np.einsum("sd,sd->s", eps, eps) + (rng.chisquare(outside, S) if outside else 0.0)  # ‖eps‖²
        # Evenly spaced and shuffled instead of random uniforms, so that each memory is drawn as often as it should be.
        self.uniforms = rng.permutation((np.arange(S) + 0.5) / S)
        self.patterns, self.eps = patterns, eps  # (K, r), (S, r)
        self.norms = np.einsum("kd,kd->k", patterns, patterns)
        self.log_r, self.equal_weights = in_float64(bank.log_r), equal_weights
        self.parts = slices(S, max(MAX_PAIRS // K, 1))  # of the draws whose inner products exist at one time
        self.overlaps = eps @ patterns.T if len(self.parts) == 1 else None  # (S, K)
        self.k: NumpyArray | None = None

    def distances(self, beta: float) -> NumpyArray:
        """Distance from each draw to its nearest memory: (S,)."""
        nearest = (sum(squares, (self.norms - 2 * overlaps).min(1)) for overlaps, squares in self._draw(beta))
        return np.asarray(np.sqrt(np.maximum(np.concatenate(list(nearest)), 0)))

    def novelties(self, beta: float | None) -> NumpyArray:
        """1 − max cos of each draw (S,); None is the limit of infinite temperature. A zero memory has cosine zero."""
        lengths = lengths_of_directions(np.sqrt(self.norms))
        noise = ((self._overlaps(part), [self.squares[part]]) for part in self.parts)
        cosines = []
        for overlaps, squares in noise if beta is None else self._draw(beta):
            cosines.append((overlaps / lengths).max(1) / np.sqrt(np.maximum(sum(squares), 1e-300)))
        return np.asarray(1 - np.concatenate(cosines))

    def _draw(self, beta: float) -> Iterator[tuple[NumpyArray, list[NumpyArray]]]:
        """Inner products of some draws with the memories (n, K), and the terms of their squared norms, each (n,)."""
        chosen, s = _pick(self.uniforms, beta, self.log_r, self.norms, self.equal_weights), beta**-0.5
        for part in self.parts:
            k, overlaps = chosen[part], self._overlaps(part)
            noise = overlaps[np.arange(len(k)), k]
            # With equal weights, the draws have the same memories at every beta.
            if self.k is None or not np.array_equal(self.k, k):
                self.k, self.between = k, self.patterns[k] @ self.patterns.T
            yield self.between + s * overlaps, [self.norms[k], 2 * s * noise, s**2 * self.squares[part]]

    def _overlaps(self, part: slice) -> NumpyArray:
        return self.eps[part] @ self.patterns.T if self.overlaps is None else self.overlaps[part]


def _pick(uniforms: Array, beta: float, log_r: Array, norms: Array, equal_weights: bool) -> NumpyArray:
    log_weights = log_r if equal_weights else log_r + beta / 2 * norms
    return pick(np.cumsum(np.exp(log_weights - log_weights.max())), uniforms)


def in_float64(x: Array) -> NumpyArray:
    """x as a numpy array in float64."""
    require_small(x, 'this rule (pass beta as a number, "natural" or "leave_one_out")')
    return to_numpy(x).astype(np.float64)


def n_probes(K: int, max_probes: int) -> int:
    """Number of probes to compare with K memories."""
    return min(max(MAX_PAIRS // K, 20), max_probes)


def natural_beta(bank: MemoryBank, target: float, equal_weights: bool) -> float:
    """The beta at which the median distance from a draw to its nearest memory is `target`.

    Passes narrow a range around d/target², the answer for memories far from each other, and interpolate between their
    betas, with 128 to 512 draws that are the same at every beta: the error is about 2.5/√(2 d 128), 0.6 % at d = 784.
    """
    guess = bank.d / target**2
    low, high = guess / FIRST_FACTOR, guess * FIRST_FACTOR
    with Progress(3, "choosing beta") as bar:
        for done in range(MAX_PASSES):
            betas = np.geomspace(low, high, BETAS_PER_PASS)
            medians = _median_distances(bank, betas, equal_weights)
            bar.update(done + 1)
            if medians[0] < target:  # even the hottest draws are too close: search at lower betas
                low, high = low / FIRST_FACTOR, low * 2  # further passes extend a range that is too narrow
            elif medians[-1] > target:
                low, high = high / 2, high * FIRST_FACTOR
            else:
                # The distance falls with beta, and interpolation needs that to hold despite sampling noise.
                falling = np.maximum.accumulate(medians[::-1])
                beta = float(np.exp(np.interp(np.log(target), np.log(falling), np.log(betas[::-1]))))
                if high / low <= 2 * LAST_FACTOR**2:
                    return beta
                low, high = beta / LAST_FACTOR, beta * LAST_FACTOR
    raise ValueError("no beta puts draws as far from the memories as these are from each other. Pass beta as a number.")


def _median_distances(bank: MemoryBank, betas: Array, equal_weights: bool) -> Array:
    """Median distance from the draws at each beta to their nearest memory: (n_betas,), in as few passes as possible."""
    S = int(np.clip(2**16 // bank.d, 128, 512))
    rng = generator(0, Purpose.RULE)
    normals = rng.standard_normal((S, bank.d))
    uniforms = rng.permutation((np.arange(S) + 0.5) / S)
    norms, log_r = (to_numpy(x).astype(np.float64) for x in (bank.norms_squared, bank.log_r))
    medians = []
    for part in slices(len(betas), max(MAX_NUMBERS // normals.size, 1)):  # one pass over the bank each
        k = np.concatenate([_pick(uniforms, beta, log_r, norms, equal_weights) for beta in betas[part]])
        dtype = np.float32 if bank.patterns.itemsize == 4 else np.float64
        draws = np.empty((len(betas[part]), *normals.shape), dtype)
        draws[:] = to_numpy(rows_at(bank.patterns, like(k, bank.patterns, keep_dtype=True))).reshape(draws.shape)
        for row, beta in zip(draws, betas[part], strict=True):
            row[:] = row + normals / np.sqrt(beta)
        distances = nearest_memory(like(draws, bank.patterns), bank)[1]
        medians.append(np.median(to_numpy(distances).astype(np.float64), axis=1))
    return np.concatenate(medians)


MAX_LEFT_OUT = 1024
BETAS_PER_PASS_LIKELIHOOD, N_PASSES = 17, 4
"""Each pass over a large bank divides the range of log beta by eight; a parabola then fits to better than 1e-5."""


class LeaveOneOut:
    """Σ_k log p_beta(m_k | the other memories) over memories k or evenly spaced ones, to be maximized over beta.

    A large bank that is not in memory is passed over once for several betas; of any other bank the inner products with
    all memories are kept.
    """

    def __init__(self, bank: MemoryBank, equal_weights: bool) -> None:
        self.d, self.equal_weights = bank.d, equal_weights
        self.rows = spaced_indices(bank.K, n_probes(bank.K, MAX_LEFT_OUT))
        self.log_r = in_float64(bank.log_r)
        self.patterns = bank.patterns
        self.in_passes = is_mapped(bank.patterns) and is_large(bank.patterns)
        if self.in_passes:
            self.probes, self.halves = rows_in_float64(bank.patterns, self.rows), in_float64(bank.norms_squared) / 2
            return
        patterns = in_float64(bank.patterns)
        self.halves = np.einsum("kd,kd->k", patterns, patterns) / 2
        # Less `halves`, these are minus half the squared distances.
        self.overlaps = patterns[self.rows] @ patterns.T - self.halves[self.rows, None]
        self.overlaps[np.arange(len(self.rows)), self.rows] = -np.inf  # leave one out

    def losses(self, log_betas: NumpyArray) -> NumpyArray:
        """Minus the mean log likelihood at each beta: (n,) -> (n,)."""
        betas = np.exp(log_betas)
        if self.in_passes:
            part = partial(_joint, left_out=self.rows, betas=betas, equal_weights=self.equal_weights)
            joints = pass_over(self.patterns, part, np.logaddexp, self.probes, self.log_r)
        else:
            joints = [self._at_once(beta) for beta in betas]
        losses = []
        for beta, joint in zip(betas, joints, strict=True):
            of_others = _logsumexp_of_others(self._log_weights(beta))[self.rows]
            losses.append(-float((joint - of_others).mean()) - self.d / 2 * math.log(beta))
        return np.array(losses)

    def minimum(self, low: float, high: float) -> float:
        """The log beta of the least loss between two, each of which has a larger loss."""
        if not self.in_passes:
            from scipy.optimize import minimize_scalar

            def loss(log_beta: float) -> float:
                return float(self.losses(np.array([log_beta]))[0])

            return float(minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-8}).x)
        for _ in range(N_PASSES):
            grid = np.linspace(low, high, BETAS_PER_PASS_LIKELIHOOD)
            losses = self.losses(grid)
            best = int(np.clip(np.argmin(losses), 1, len(grid) - 2))
            low, high = grid[best - 1], grid[best + 1]
        before, at, after = losses[best - 1 : best + 2]
        bend = before - 2 * at + after
        return float(grid[best] + (high - low) / 4 * (before - after) / bend) if bend > 0 else float(grid[best])

    def _log_weights(self, beta: float) -> NumpyArray:
        """Log weights of the memories in the mixture, not normalized: (K,)."""
        return self.log_r if self.equal_weights else self.log_r + beta * self.halves

    def _at_once(self, beta: float) -> NumpyArray:
        """log Σ_{j≠k} r_j exp(−beta ‖m_k − m_j‖²/2), times the weights of the norms: (n_probes,)."""
        logits = beta * (self.overlaps - self.halves) + self._log_weights(beta)
        return np.asarray(shifted_exp_inplace(logits)[:, 0] + np.log(logits.sum(1)))


def _joint(
    patterns: Array,
    start: int,
    probes: NumpyArray,
    log_r: NumpyArray,
    *,
    left_out: NumpyArray,
    betas: NumpyArray,
    equal_weights: bool,
) -> NumpyArray:
    """`LeaveOneOut._at_once` for several betas: (n_betas, n_probes)."""
    total = np.full((len(betas), len(probes)), -np.inf)
    half_probes = np.square(probes).sum(1)[:, None] / 2
    for block in blocks(*patterns.shape):
        keys = to_numpy(patterns[block]).astype(np.float64, copy=False)
        closeness = probes @ keys.T - half_probes
        here = np.flatnonzero((start + block.start <= left_out) & (left_out < start + block.stop))
        closeness[here, left_out[here] - start - block.start] = -np.inf
        if equal_weights:  # otherwise the weight of a memory cancels this
            closeness -= np.einsum("kd,kd->k", keys, keys) / 2
        for row, beta in zip(total, betas, strict=True):
            logits = beta * closeness + log_r[block]
            with np.errstate(invalid="ignore"):  # a block may hold nothing but the memory that is left out
                top = shifted_exp_inplace(logits)[:, 0]
                summed = np.where(top == -np.inf, -np.inf, top + np.log(logits.sum(1)))
            row[:] = np.logaddexp(row, summed)
    return total


def _logsumexp_of_others(logits: NumpyArray) -> NumpyArray:
    """log Σ_{j≠k} exp logits_j for each k, without the cancellation of subtracting k from the sum: (K,)."""
    before = np.logaddexp.accumulate(np.concatenate(([-np.inf], logits[:-1])))
    after = np.logaddexp.accumulate(np.concatenate(([-np.inf], logits[:0:-1])))[::-1]
    return np.asarray(np.logaddexp(before, after))
