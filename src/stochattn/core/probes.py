"""What the rules for beta compute on: probe states, and a fixed set of draws around the memories."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike, NumpyArray, like, to_numpy
from .._backend.products import shifted_exp_inplace
from .._backend.progress import Progress
from .._backend.random import Purpose, generator
from ..storage.blockwise import slices
from ..storage.mapped import require_small, rows_at
from .memory import MemoryBank, states
from .mixture import pick
from .neighbors import evenly, nearest_memory

MAX_DRAWS = 4096
MAX_PAIRS = 2**22
"""Pairs of a probe (or draw) and a memory in one evaluation of a rule, which bounds both time and memory."""
BETAS_PER_PASS = 9
FIRST_FACTOR = 4.0**4
"""The first pass searches from the guess divided by this factor to the guess times it."""
LAST_FACTOR = 4.0
"""The width, as a ratio, of the range of the last pass."""
MAX_PASSES = 8
MAX_NUMBERS = 2**24
"""Numbers in the draws of a pass, or in those of one beta if that is more: wide memories take more passes."""


class EntropyCurve(NamedTuple):
    """Attention entropy against beta, averaged over probe states; all (n_betas,)."""

    beta: Array
    entropy: Array  # H, nats
    slope: Array  # dH/dbeta = −beta Var_p(e)   (Eq. 10)
    curvature: Array  # d²H/dbeta² = −Var − beta mu_3; its zero is Eq. 11


class ProbeAttention(NamedTuple):
    """Overlaps of probe states with the memories, from which entropy curves are computed."""

    overlaps: Array  # (n_probes, K)
    log_r: Array  # (K,)

    @classmethod
    def of(cls, bank: MemoryBank, probes: ArrayLike | None) -> ProbeAttention:
        """Overlaps of the probes, or of the memories themselves, with the kept memories."""
        bank = bank.active
        patterns = in_float64(bank.patterns)
        if probes is None:
            chosen = patterns[evenly(len(patterns), n_probes(len(patterns), 512))]
        else:
            chosen = np.atleast_2d(in_float64(states(probes, bank, "probes")))
        return cls(chosen @ patterns.T, in_float64(bank.log_r))

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


class ProbeDraws(NamedTuple):
    """Standard draws around the memories, m_k + eps/√beta, stored as inner products: one set for every beta."""

    uniforms: Array  # (S,) which choose the memory
    overlaps: Array  # (S, K) eps · m_j
    squares: Array  # (S,) ‖eps‖²
    patterns: Array  # (K, r)
    norms: Array  # (K,) ‖m_j‖²
    log_r: Array  # (K,)
    equal_weights: bool
    cache: dict[str, Array]  # of `_between`

    @classmethod
    def around(cls, bank: MemoryBank, equal_weights: bool) -> ProbeDraws:
        """The draws around the memories of a bank, which are the same at every call."""
        patterns = in_float64(bank.patterns)
        K, d = patterns.shape
        S = max(n_probes(K, MAX_DRAWS), 256)
        rng = generator(0, Purpose.RULE)  # a purpose of its own: never the random numbers of a user's draws
        if d > 4 * K:  # eps has overlaps in the span only; outside of it only its length counts
            patterns = patterns @ in_float64(bank.basis)
        eps = rng.standard_normal((S, patterns.shape[1]))
        outside = d - patterns.shape[1]
        squares = np.einsum("sd,sd->s", eps, eps) + (rng.chisquare(outside, S) if outside else 0.0)
        # Evenly spaced and shuffled instead of random uniforms, so that each memory is drawn as often as it should be.
        uniforms = rng.permutation((np.arange(S) + 0.5) / S)
        norms = np.einsum("kd,kd->k", patterns, patterns)
        return cls(uniforms, eps @ patterns.T, squares, patterns, norms, in_float64(bank.log_r), equal_weights, {})

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
        """m_k · m_j of the memories drawn: (S, K). Cached: with equal weights they are the same at every beta."""
        if "k" not in self.cache or not np.array_equal(self.cache["k"], k):
            self.cache.update(k=k, between=self.patterns[k] @ self.patterns.T)
        return self.cache["between"]

    def _picked(self, beta: float) -> tuple[Array, float, Array]:
        k = _pick(self.uniforms, beta, self.log_r, self.norms, self.equal_weights)
        return k, beta**-0.5, self.overlaps[np.arange(len(k)), k]


def _pick(uniforms: Array, beta: float, log_r: Array, norms: Array, equal_weights: bool) -> NumpyArray:
    log_weights = log_r if equal_weights else log_r + beta / 2 * norms
    return pick(np.cumsum(np.exp(log_weights - log_weights.max())), uniforms)


def in_float64(x: Array) -> NumpyArray:
    """x as a numpy array in float64."""
    require_small(x, 'this rule (pass beta as a number, or "natural")')
    return to_numpy(x).astype(np.float64)


def n_probes(K: int, max_probes: int) -> int:
    """Number of probes to compare with K memories."""
    return min(max(MAX_PAIRS // K, 20), max_probes)


def natural_beta(bank: MemoryBank, target: float, equal_weights: bool) -> float:
    """The beta at which the median distance from a draw to its nearest memory is `target`.

    It interpolates between nine betas per pass, with 128 to 512 draws that are the same at every beta: the error in
    beta is about 2.5/√(2 d 128), 0.6 % at d = 784. The passes narrow a range around d/target², which is the answer for
    memories far from each other.
    """
    low, high = bank.d / target**2 / FIRST_FACTOR, bank.d / target**2 * FIRST_FACTOR
    with Progress(3, "choosing beta") as bar:
        for done in range(MAX_PASSES):
            betas = np.geomspace(low, high, BETAS_PER_PASS)
            medians = _median_distances(bank, betas, equal_weights)
            bar.update(done + 1)
            if medians[0] < target:  # even the hottest draws are too close: search at lower betas
                low, high = low / FIRST_FACTOR, low * 2
            elif medians[-1] > target:
                low, high = high / 2, high * FIRST_FACTOR
            else:
                # The distance falls with beta, and interpolation needs that to hold despite sampling noise.
                falling = np.maximum.accumulate(medians[::-1])
                beta = float(np.exp(np.interp(np.log(target), np.log(falling), np.log(betas[::-1]))))
                if high / low <= 2 * LAST_FACTOR:
                    return beta
                low, high = beta / LAST_FACTOR**0.5, beta * LAST_FACTOR**0.5
    raise ValueError(
        "at no beta are draws as close to the memories as the memories are to each other. Pass beta as a number."
    )


def _median_distances(bank: MemoryBank, betas: Array, equal_weights: bool) -> Array:
    """Median distance from the draws at each beta to their nearest memory: (n_betas,), in as few passes as possible."""
    S = int(np.clip(2**16 // bank.d, 128, 512))
    rng = generator(0, Purpose.RULE)  # a purpose of its own: never the random numbers of a user's draws
    normals = rng.standard_normal((S, bank.d))
    uniforms = rng.permutation((np.arange(S) + 0.5) / S)
    norms, log_r = (to_numpy(x).astype(np.float64) for x in (bank.norms_squared, bank.log_r))
    medians = []
    for part in slices(len(betas), max(MAX_NUMBERS // normals.size, 1)):  # one pass over the bank each
        draws = np.empty((len(betas[part]), *normals.shape), np.float32 if bank.patterns.itemsize == 4 else np.float64)
        for row, beta in zip(draws, betas[part], strict=True):
            k = like(_pick(uniforms, beta, log_r, norms, equal_weights), bank.patterns, keep_dtype=True)
            row[:] = to_numpy(rows_at(bank.patterns, k)) + normals / np.sqrt(beta)
        distances = nearest_memory(like(draws, bank.patterns), bank)[1]
        medians.append(np.median(to_numpy(distances).astype(np.float64), axis=1))
    return np.concatenate(medians)
