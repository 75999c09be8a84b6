"""Calibrated latent: attention's mixture among the first principal components of sequences, with calibrated decoding.

A draw among the components of one-hot sequences says which cluster a new sequence belongs to. Its symbols are then
*sampled* site by site, with probabilities calibrated so that draws have the site distributions of the stored sequences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike
from .._backend.checks import count, positive
from .._backend.random import Purpose, generator
from ..core.mixture import pick
from . import sequences as seq
from .base import Description, Generated
from .sequences import N_SYMBOLS, SiteDistributions, SubstitutionMixture, WeightedSequences

SHARES_AND_FACTORS = ((0.35, 1.0), (0.6, 1.0), (0.9, 1.0), (0.9, 0.5), (0.9, 0.25))
"""Shares of the variance that components keep, and factors of the bandwidth. Chance alone, as shuffled sites show,
explains the components beyond the first 40 to 46 % in two tested alignments; draws hardly change between 0.2 and 0.8.
The later pairs are tried where draws stay too far from stored sequences: for a few clusters, or for near-copies."""
BLOCK = 256
"""Sequences decoded at a time, in the cache. Never fewer: the last bits of a product depend on its shape."""
# equivalent: more or fewer draws calibrate within the tolerance too
MAX_ENTRIES, MAX_DRAWS, MIN_DRAWS, TOLERANCE = 2**21, 2048, 256, 1e-3
"""Probabilities (draws · 21 · sites) in calibration, limits of its draws, and of errors of frequencies and identity."""
MAX_ROUNDS, MAX_TRIALS, MAX_STEP, MAX_GAIN = 100, 12, 3.0, 32.0


class Calibration(NamedTuple):
    """A gain, its bias (21 L,), and the mean identity of draws with their nearest stored sequence."""

    gain: float
    bias: Array
    identity: float


class LatentParameters(NamedTuple):
    """x_i ~ (1 − e_k) softmax(gamma V_i z + b_i) + e_k q_i, z = s z_k + h N(0, Lambda) around memory k, s² + h² = 1."""

    memories: Array  # (K, d) z_k, coordinates of the stored sequences among components of one-hot rows with gaps
    variances: Array  # (d,) Lambda, those of the memories; s shrinks the memories so that draws have them too
    outward: Array  # (d, 21 L) V, symbol by symbol
    sites: SiteDistributions  # pi, which draws have too, and q, the substituted frequencies
    substitution_rates: Array  # (K,) e, how often a symbol is drawn from q: large around sequences unlike all others
    bandwidth: float  # h, in standard deviations of the stored sequences
    calibration: Calibration  # gamma and b, and the identity they give
    target_identity: float  # of stored sequences with the nearest other one, on average; draws should have it too


@dataclass(frozen=True, eq=False)
class CalibratedLatent:
    """Draws around stored sequences among their components, decoded by sampling: see `LatentParameters`."""

    sequences: WeightedSequences
    bandwidth: float | None = None  # h, up to 1 for one Gaussian; by default the normal reference, or a part of it

    def __post_init__(self) -> None:
        h = self.bandwidth
        if h is not None and positive("bandwidth", h, "Leave it out for the default.") > 1:
            raise ValueError(f"bandwidth must not exceed 1; got {h!r}. Leave it out for the default.")

    @cached_property
    def parameters(self) -> LatentParameters:
        """The calibrated parameters, computed when they are first needed: a condition does without them.

        gamma gives draws the identity with the nearest stored sequence that these have with each other, or is 0.
        """
        codes, weights, _ = self.sequences
        sites = seq.site_distributions(self.sequences)
        rates = seq.substitution_rates(self.sequences, sites)
        target = float(weights @ seq.nearest_identity(codes)[1])
        # Draws of calibration: memories in proportion to their weights, and noise in pairs of opposite sign.
        half = min(max(MAX_ENTRIES // (N_SYMBOLS * codes.shape[1]), MIN_DRAWS), MAX_DRAWS) // 2
        k = np.tile(pick(np.cumsum(weights), (np.arange(half) + 0.5) / half), 2)
        for share, factor in SHARES_AND_FACTORS[: 5 if self.bandwidth is None else 3]:
            memories, variances, outward = _components(self.sequences, share)
            d = len(variances)
            usual = factor * min((4 / ((d + 2) * self.sequences.effective_size)) ** (1 / (d + 4)), 1.0)
            h = float(usual if self.bandwidth is None else self.bandwidth)
            noise = np.random.default_rng(0).standard_normal((half, d))
            x = sample_kernels(memories[k], variances, h, np.concatenate([noise, -noise])) @ outward
            calibration = _matched_gain(x, rates[k], float(weights @ rates), sites, codes, target)
            if calibration.identity > target - TOLERANCE or not d:
                break
        return LatentParameters(memories, variances, outward, sites, rates, h, calibration, target)

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n independent sequences (n, L), and the index of the stored sequence that each was drawn around (n,)."""
        n = count("n", n, at_least=0)
        which, noise, symbols = rng.spawn(3)
        L = self.sequences.codes.shape[1]
        codes, source = np.empty((n, L), dtype=np.uint8), np.empty(n, dtype=np.intp)
        for begin in range(0, n, BLOCK):
            k, probabilities = self._probabilities(which, noise)
            uniforms = symbols.random((BLOCK, L), dtype=np.float32)
            codes[begin : begin + BLOCK] = seq.draw_symbols(probabilities, uniforms)[: n - begin]
            source[begin : begin + BLOCK] = self.sequences.indices[k][: n - begin]
        return Generated(codes, source)

    def condition(self, observation: Mapping[int, int]) -> SubstitutionMixture:
        """The substitution mixture given {site: code}, whose draws are exact: calibrated sites have no closed form."""
        return SubstitutionMixture.fit(self.sequences).condition(observation)

    def log_density(self, codes: ArrayLike, n_draws: int = 4096, rng: np.random.Generator | None = None) -> Array:
        """log mean_z Π_i p(x_i | z) over n_draws of z, (m, L) -> (m,): too low on average, less so with more draws."""
        codes = seq.checked_codes(codes, self.sequences.codes.shape[1])
        hot = _by_symbol(codes).astype(np.float32)
        which, noise = (generator(0, Purpose.RULE) if rng is None else rng).spawn(2)
        blocks = -(-count("n_draws", n_draws) // BLOCK)
        total = np.full(len(codes), -np.inf)
        for _ in range(blocks):
            _, probabilities = self._probabilities(which, noise)
            logs = np.log(np.maximum(probabilities, np.finfo(np.float32).tiny)).reshape(BLOCK, -1)
            total = np.logaddexp(total, np.logaddexp.reduce((hot @ logs.T).astype(np.float64), axis=1))
        return total - math.log(blocks * BLOCK)

    def describe(self) -> Description:
        """The identity that draws have with stored sequences, and its target."""
        reached, target = self.parameters.calibration.identity, self.parameters.target_identity
        about = f"identity to the nearest stored sequence {reached:.3f}, among stored sequences {target:.3f}"
        return Description("latent", f"calibrated latent: {about}")

    def _probabilities(self, which: np.random.Generator, noise: np.random.Generator) -> tuple[Array, Array]:
        """BLOCK memories, and the probabilities of symbols around them: (n,), (n, 21, L)."""
        own = self.parameters
        k = pick(np.cumsum(self.sequences.weights), which.random(BLOCK))
        normal = noise.standard_normal((BLOCK, len(own.variances)))
        x = sample_kernels(own.memories[k], own.variances, own.bandwidth, normal) @ own.outward
        probabilities = _softmax(x, own.calibration.gain, own.calibration.bias)
        return k, _with_substitutions(probabilities, own.substitution_rates[k], own.sites)


def sample_kernels(centres: Array, variances: Array, h: float, noise: Array) -> Array:
    """s z_k + h sqrt(Lambda) noise, which has the covariance of the memories: (n, d)."""
    return (math.sqrt(1 - h * h) * centres + h * np.sqrt(variances) * noise).astype(np.float32)


def _by_symbol(codes: Array) -> Array:
    """One-hot rows (n, 21 L) with all sites of a symbol side by side: sums over symbols are then fast."""
    return seq.indicators(codes).transpose(0, 2, 1).reshape(len(codes), -1)


def _components(sequences: WeightedSequences, share: float) -> tuple[Array, Array, Array]:
    """Memories (K, d), variances (d,) and directions (d, 21 L) of the first components with this share of variance."""
    rows = _by_symbol(sequences.codes)
    centred = rows - sequences.weights @ rows
    _, sizes, directions = np.linalg.svd(np.sqrt(sequences.weights)[:, None] * centred, full_matrices=False)
    variances = np.square(sizes)
    solid = int((variances > 1e-12 * sequences.codes.shape[1]).sum())  # identical sequences have no component
    shares = np.cumsum(variances[:solid]) / max(variances.sum(), 1e-300)
    d = min(int(np.searchsorted(shares, share - 1e-9)) + 1, solid)
    memories, outward = centred @ directions[:d].T, directions[:d]
    return memories.astype(np.float32), variances[:d].astype(np.float32), outward.astype(np.float32)


def _softmax(x: Array, gain: float, bias: Array) -> Array:
    """Probabilities of symbols: (n, 21 L) -> (n, 21, L)."""
    p = (x * np.float32(gain) + bias).reshape(len(x), N_SYMBOLS, -1)
    p -= p.max(1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(1, keepdims=True)
    return np.asarray(p)


def _with_substitutions(probabilities: Array, rates: Array, sites: SiteDistributions) -> Array:
    e = rates.astype(np.float32)[:, None, None]  # (1 − e) probabilities + e q, in place
    probabilities *= 1 - e
    probabilities += e * sites.substituted.T.astype(np.float32)
    return probabilities


def _matched_gain(
    x: Array, rates: Array, mean_rate: float, sites: SiteDistributions, codes: Array, target: float
) -> Calibration:
    """The gain at which draws x (n, 21 L) have the target's mean identity with their nearest stored sequence.

    Identity grows with the gain. The same uniforms at each gain keep chance out of the comparison.
    """
    uniforms = np.random.default_rng(1).random((len(x), codes.shape[1]), dtype=np.float32)
    weights = ((1 - rates) / (1 - rates).sum()).astype(np.float32)
    wanted = ((sites.mixed - mean_rate * sites.substituted) / (1 - mean_rate)).T  # of symbols that are not substituted

    def at(gain: float, guess: Array) -> Calibration:
        bias, probabilities = _calibrated_bias(x, gain, wanted, weights, guess)
        drawn = seq.draw_symbols(_with_substitutions(probabilities, rates, sites), uniforms)
        return Calibration(gain, bias, float(seq.nearest_identity(drawn, codes)[1].mean()))

    low = at(0.0, np.log(wanted).ravel().astype(np.float32))
    if low.identity >= target or not x.any():
        return low
    high = at(2.0, low.bias)
    while high.identity < target and high.gain < MAX_GAIN:
        low, high = high, at(2 * high.gain, high.bias)
    if high.identity < target:
        return high
    for _ in range(MAX_TRIALS):
        part = (target - low.identity) / (high.identity - low.identity)
        middle = at(low.gain + min(max(part, 0.1), 0.9) * (high.gain - low.gain), low.bias)
        if abs(middle.identity - target) < TOLERANCE:
            break
        low, high = (middle, high) if middle.identity < target else (low, middle)
    return middle


def _calibrated_bias(x: Array, gain: float, wanted: Array, weights: Array, bias: Array) -> tuple[Array, Array]:
    """The bias (21 L,) at which the mean probabilities of draws x, with weights (n,), are `wanted` (21, L).

    Each round adds r log(wanted/mean). r = 1 is right where probabilities do not vary among draws; where they do, r is
    larger by mean (1 − mean)/mean of p (1 − p), which is Newton's step for two symbols.
    """
    for _ in range(MAX_ROUNDS):
        probabilities = _softmax(x, gain, bias)
        means = np.maximum(np.tensordot(weights, probabilities, 1), 1e-30)
        if np.abs(means - wanted).max() < TOLERANCE:
            break
        response = means - np.einsum("n,nsl,nsl->sl", weights, probabilities, probabilities)
        step = np.log(wanted / means) * np.maximum(means * (1 - means) / np.maximum(response, 1e-30), 1.0)
        bias = bias + np.clip(step, -MAX_STEP, MAX_STEP).ravel().astype(np.float32)
    return bias, probabilities
