"""What the rules for beta compute: entropies at probe states, distances of draws, and the leave-one-out likelihood."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike, NumpyArray, lengths_of_directions, like, to_numpy
from .._backend.console import Progress
from .._backend.products import shifted_exp_inplace
from .._backend.random import Purpose, generator
from ..storage.blockwise import blocks, pass_over, slices
from ..storage.mapped import is_large, is_mapped, require_small, rows_at
from .memory import MemoryBank, check_states
from .mixture import pick
from .neighbors import nearest_memory, rows_in_float64, spaced_indices

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
        parts = [self._moments(self.overlaps[part], beta) for part in slices(n, max(CACHED_PAIRS // K, 1))]
        entropy, slope, curvature = (np.concatenate(moment) for moment in zip(*parts, strict=True))
        return float(entropy.mean()), float(-slope.mean()), float(-curvature.mean())

    def _moments(self, overlaps: NumpyArray, beta: float) -> tuple[NumpyArray, NumpyArray, NumpyArray]:
        """H, −dH/dbeta and −d²H/dbeta² for each of some probes: (n, 1), (n,), (n,)."""
        logits = beta * overlaps + self.log_r
        p = logits.copy()
        top = shifted_exp_inplace(p)
        total = p.sum(1, keepdims=True)
        p /= total
        e = overlaps - (p * overlaps).sum(1, keepdims=True)
        mean = (p * logits).sum(1, keepdims=True)
        centred, pe = logits - mean, p * e
        return top + np.log(total) - mean, (pe * centred).sum(1), (pe * e * (1 + centred)).sum(1)


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
        self.k: NumpyArray | None = None

    def distances(self, beta: float) -> NumpyArray:
        """Distance from each draw to its nearest memory: (S,)."""
        nearest = (sum(squares, (self.norms - 2 * overlaps).min(1)) for overlaps, squares in self._draw(beta))
        return np.asarray(np.sqrt(np.maximum(np.concatenate(list(nearest)), 0)))

    def novelties(self, beta: float | None) -> NumpyArray:
        """1 − max cos of each draw (S,); None is the limit of infinite temperature. A zero memory has cosine zero."""
        lengths = lengths_of_directions(np.sqrt(self.norms))
        cosines = (
            (overlaps / lengths).max(1) / np.sqrt(np.maximum(sum(squares), 1e-300))
            for overlaps, squares in (self._noise() if beta is None else self._draw(beta))
        )
        return np.asarray(1 - np.concatenate(list(cosines)))

    def _noise(self) -> Iterator[tuple[NumpyArray, list[NumpyArray]]]:
        for part in self.parts:
            yield self._overlaps(part), [self.squares[part]]

    def _draw(self, beta: float) -> Iterator[tuple[NumpyArray, list[NumpyArray]]]:
        """Inner products of some draws with the memories (n, K), and the terms of their squared norms, each (n,)."""
        chosen, s = _pick(self.uniforms, beta, self.log_r, self.norms, self.equal_weights), beta**-0.5
        for part in self.parts:
            k, overlaps = chosen[part], self._overlaps(part)
            noise = overlaps[np.arange(len(k)), k]
            yield self._between(k) + s * overlaps, [self.norms[k], 2 * s * noise, s**2 * self.squares[part]]

    def _overlaps(self, part: slice) -> NumpyArray:
        return self._all_overlaps if len(self.parts) == 1 else self.eps[part] @ self.patterns.T

    @cached_property
    def _all_overlaps(self) -> NumpyArray:
        return np.asarray(self.eps @ self.patterns.T)  # (S, K)

    def _between(self, k: NumpyArray) -> NumpyArray:
        if len(self.parts) > 1:
            return np.asarray(self.patterns[k] @ self.patterns.T)
        # With equal weights, the draws have the same memories at every beta.
        if self.k is None or not np.array_equal(self.k, k):
            self.k, self.between = k, self.patterns[k] @ self.patterns.T
        return self.between


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


MAX_PROBES = 1024
BETAS_PER_PASS_LIKELIHOOD, N_PASSES = 17, 4
"""Each pass over a large bank divides the range of log beta by eight; a parabola then fits to better than 1e-5."""


class LeaveOneOut:
    """Σ_k log p_beta(m_k | the other memories) over memories k or evenly spaced ones, to be maximised over beta.

    A large bank that is not in memory is passed over once for several betas; of any other bank the inner products with
    all memories are kept.
    """

    def __init__(self, bank: MemoryBank, equal_weights: bool) -> None:
        self.d, self.equal_weights = bank.d, equal_weights
        self.rows = spaced_indices(bank.K, n_probes(bank.K, MAX_PROBES))
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
        joints = self._in_a_pass(betas) if self.in_passes else [self._at_once(beta) for beta in betas]
        return np.array([self._loss(beta, joint) for beta, joint in zip(betas, joints, strict=True)])

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

    def _loss(self, beta: float, joint: NumpyArray) -> float:
        of_others = _logsumexp_of_others(self._log_weights(beta))[self.rows]
        return -float((joint - of_others).mean()) - self.d / 2 * math.log(beta)

    def _log_weights(self, beta: float) -> NumpyArray:
        """Log weights of the memories in the mixture, not normalised: (K,)."""
        return self.log_r if self.equal_weights else self.log_r + beta * self.halves

    def _at_once(self, beta: float) -> NumpyArray:
        """log Σ_{j≠k} r_j exp(−beta ‖m_k − m_j‖²/2), times the weights of the norms: (n_probes,)."""
        logits = beta * (self.overlaps - self.halves) + self._log_weights(beta)
        return np.asarray(shifted_exp_inplace(logits)[:, 0] + np.log(logits.sum(1)))

    def _in_a_pass(self, betas: NumpyArray) -> NumpyArray:
        """`_at_once` for several betas: (n_betas, n_probes)."""
        part = partial(_joint, left_out=self.rows, betas=betas, equal_weights=self.equal_weights)
        return pass_over(self.patterns, part, np.logaddexp, self.probes, self.log_r)


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
