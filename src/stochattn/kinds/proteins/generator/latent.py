"""The generator "latent": attention's mixture in the first principal components of sequences, with calibrated decoding.

A draw of the components of one-hot sequences decides on the cluster of a new sequence. Its residues are then *sampled*,
with probabilities calibrated so that draws have the site distributions of the stored sequences. A fixed set of draws of
the components defines an exact mixture (see `mixture`), which also draws gap patterns and ties.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array, ArrayLike
from ...._backend.checks import check_count
from ....core.mixture import pick
from ...generator import Description, Generated
from . import sequences as seq
from .mixture import ConditionedSequences, SequenceMixture
from .patterns import GapDistribution, find_invariant_columns, find_ties, limit_changes, loss
from .sequences import GAP, PROTEIN, DirichletMixture, SiteMixture, WeightedSequences, fit_sites

SHARE, FACTORS, MIN_SIGNAL = 0.9, (1.0, 0.5, 0.25), 0.05
"""Share of the variance that components keep, factors of the bandwidth, and the least signal of a component. Smaller
bandwidths are tried if draws are too far from stored sequences, as for a few clusters or near-copies."""
MAX_ENTRIES, MAX_DRAWS, MIN_DRAWS, TOLERANCE = 2**21, 2048, 256, 1e-3
"""Probabilities (draws · residues · sites) of the mixture, limits of its draws, errors of frequencies and identity."""
DRAWS_PER_SEQUENCE, MAX_TABLE = 4, 2**24
"""Least number of draws around each stored sequence, unless there were more probabilities than MAX_TABLE."""
MAX_ROUNDS, MAX_TRIALS, MAX_STEP, MAX_GAIN = 100, 12, 3.0, 32.0
MAX_RATE = 0.5
"""Largest rate of substitutions: with more, a draw around an unusual sequence may no longer match the family."""
CYSTEINE, MAX_CHANCE, MIN_ODD = 1, 1e-3, 0.25
"""Cysteines pair up in a family if the number of stored sequences with an odd number of them has at most this
probability under equal odds; MIN_ODD is the least number of such sequences that is assumed."""


class LatentCalibration(NamedTuple):
    """A gain, its bias, and the draws that they give."""

    gain: float
    bias: Array  # (q L,)
    identity: float  # mean identity of draws with their nearest stored sequence
    probabilities: Array  # (n, q, L) of residues


class LatentParameters(NamedTuple):
    """x_i ~ (1 − e_ki) softmax(gamma V_i z + b_i) + e_ki q_i around k, z = s z_k + h N(0, Lambda), s² + h² = 1.

    V (d, q L) are the directions of the components, residue by residue, weighted by their signal.
    """

    memories: Array  # (K, d) z_k, coordinates of the stored sequences among components of one-hot rows with gaps
    variances: Array  # (d,) Lambda, those of the memories; s shrinks the memories so that draws have them too
    sites: SiteMixture  # pi, the site distributions of draws, and q, the distributions of pseudo-counts
    substitution_rates: Array  # (K, L) e, probability that a residue is drawn from q: large around unusual sequences
    bandwidth: float  # h, in standard deviations of the stored sequences
    calibration: LatentCalibration  # gamma and b, and the identity they give
    target_identity: float  # mean identity of stored sequences with the nearest other one, which draws should have too
    mixture: SequenceMixture  # the distribution of draws


@dataclass(frozen=True, eq=False)
class CalibratedLatent:
    """Draws around stored sequences among their components, decoded by sampling: see `LatentParameters`."""

    sequences: WeightedSequences
    bandwidth: float | None = None  # h, at most 1 for one Gaussian; None for the normal reference or a part of it
    prior: DirichletMixture = PROTEIN  # of the residues at a site

    @cached_property
    def parameters(self) -> LatentParameters:
        """The calibrated parameters, computed when they are first needed.

        gamma is 0, or gives draws the mean identity with the nearest stored sequence that stored sequences have.
        """
        target = float(self.sequences.weights @ seq.nearest_identity(self.sequences.codes)[1])
        invariant = find_invariant_columns(self.sequences)
        gaps, sites = GapDistribution.fit(self.sequences, invariant >= 0), fit_sites(self.sequences, self.prior)
        rates = np.where(invariant < 0, seq.relative_substitution_rates(self.sequences)[:, None] * sites.share, 0.0)
        rates = np.minimum(rates, MAX_RATE)
        wanted = limit_changes(sites.mixed, invariant, self.sequences.effective_size)
        memories, variances, outward = _components(self.sequences, SHARE, self.prior.n_letters)
        k, d = self._memories_of_draws(), len(variances)
        noise = np.random.default_rng(0).standard_normal((len(k) // 2, d))
        for factor in FACTORS if self.bandwidth is None else (1.0,):
            default = factor * min((4 / ((d + 2) * self.sequences.effective_size)) ** (1 / (d + 4)), 1.0)
            h = float(default if self.bandwidth is None else self.bandwidth)
            x = sample_kernels(memories[k], variances, h, np.concatenate([noise, -noise])) @ outward
            calibration = self._match_gain(x, k, rates, gaps, sites, wanted, target)
            if calibration.identity > target - TOLERANCE or not d:
                break
        calibration.probabilities[:, :, invariant >= 0] = wanted.T[:, invariant >= 0]
        mixture = self._mixture(k, calibration.probabilities, gaps)
        return LatentParameters(memories, variances, sites, rates, h, calibration, target, mixture)

    def _match_gain(
        self, x: Array, k: Array, e: Array, gaps: GapDistribution, sites: SiteMixture, mixed: Array, target: float
    ) -> LatentCalibration:
        """The gain at which draws x (n, q L) around memories k (n,) have the target identity with stored sequences.

        e: substitution rates (K, L); mixed: the site distributions (L, q) of draws.
        Identity grows with the gain. All gains use the same uniforms, so that chance does not affect the comparison.
        """
        n, L = len(k), len(mixed)
        of_gaps = np.random.default_rng(2).random((n, L + 1), dtype=np.float32)
        is_gap = gaps.sample(k, of_gaps[:, -1] < gaps.mixing, of_gaps[:, :-1])
        uniforms = np.random.default_rng(1).random((n, L), dtype=np.float32)
        weights = ((1 - e) * (1 - gaps.probabilities) + 1e-9)[k]  # of residues without substitutions
        weights = (weights / weights.sum(0)).astype(np.float32)
        mean_rates = (self.sequences.weights @ e)[:, None]
        wanted = np.maximum((mixed - mean_rates * sites.pseudo) / (1 - mean_rates), 1e-12).T  # without substitutions
        rates, pseudo = e[k].astype(np.float32)[:, None], sites.pseudo.T.astype(np.float32)

        def at(gain: float, guess: Array) -> LatentCalibration:
            bias, probabilities = _calibrate_bias(x, gain, wanted, weights, guess)
            probabilities *= 1 - rates
            probabilities += rates * pseudo
            symbols = seq.draw_symbols(probabilities, uniforms)
            symbols[is_gap] = GAP
            identity = float(seq.nearest_identity(symbols, self.sequences.codes)[1].mean())
            return LatentCalibration(gain, bias, identity, probabilities)

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

    def _memories_of_draws(self) -> Array:
        """Memories of the draws of the components, in proportion to their weights; both halves are equal: (n,)."""
        K, L = self.sequences.codes.shape
        entries = self.prior.n_letters * L
        enough = min(max(MAX_ENTRIES // entries, MIN_DRAWS), MAX_DRAWS)
        half = max(enough, min(DRAWS_PER_SEQUENCE * K, MAX_TABLE // entries)) // 2
        return np.tile(pick(np.cumsum(self.sequences.weights), (np.arange(half) + 0.5) / half), 2)

    def _mixture(self, k: Array, probabilities: Array, gaps: GapDistribution) -> SequenceMixture:
        """The mixture of draws, in which odd numbers of cysteines are not more frequent than in stored sequences."""
        from scipy.special import bdtr

        size, odd = self.sequences.effective_size, (self.sequences.codes == CYSTEINE).sum(1) % 2 == 1
        mixture = SequenceMixture(k, probabilities, gaps, find_ties(self.sequences, self.prior.n_letters), loss(size))
        n_odd = float(self.sequences.weights @ odd) * size
        if self.prior.n_letters != PROTEIN.n_letters or bdtr(n_odd, round(size), 0.5) > MAX_CHANCE:
            return mixture
        return mixture.limit_odd_share(CYSTEINE, max(n_odd, MIN_ODD) / (size + 1))

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n independent sequences (n, L), and the index of the stored sequence that each was drawn around (n,)."""
        codes, source = self.parameters.mixture.draws.sample(check_count("n", n, at_least=0), rng)
        return Generated(codes, self.sequences.indices[source])

    def condition(self, observation: Mapping[int, int]) -> ConditionedSequences:
        """The exact distribution of draws given {site: code}."""
        free = np.full(self.sequences.codes.shape[1], -1)
        return ConditionedSequences(self.sequences, self.parameters.mixture, free).condition(observation)

    def log_density(self, codes: ArrayLike) -> Array:
        """The exact natural log p of sequences: (n, L) -> (n,)."""
        return self.parameters.mixture.log_density(seq.check_codes(codes, self.sequences.codes.shape[1]))

    def describe(self) -> Description:
        identity, target = self.parameters.calibration.identity, self.parameters.target_identity
        result = f"identity to the nearest stored sequence {identity:.3f}, among stored sequences {target:.3f}"
        if self.bandwidth == 1:
            return Description("gaussian", f"one Gaussian of the components: {result}")
        return Description("latent", f"calibrated latent: {result}")


def sample_kernels(centers: Array, variances: Array, h: float, noise: Array) -> Array:
    """s z_k + h sqrt(Lambda) noise, which has the covariance of the memories: (n, d)."""
    return (math.sqrt(1 - h * h) * centers + h * np.sqrt(variances) * noise).astype(np.float32)


def _components(sequences: WeightedSequences, share: float, q: int = GAP) -> tuple[Array, Array, Array]:
    """Memories (K, d), variances (d,) and weighted directions (d, q L) of the first components with this share.

    The smaller half of the variances is an estimate of noise. If a part r of the variance of a component is noise, its
    direction has the weight (1 − r)², relative to the largest weight, because both directions and coordinates are
    estimated. With equal weights, draws have residues of single sequences that no other sequence of the family shares,
    and connected pair frequencies of left-out sequences are reproduced less well.
    """
    # One-hot rows (n, 21 L) with all sites of a residue side by side, for fast sums over residues.
    rows = seq.indicators(sequences.codes).transpose(0, 2, 1).reshape(len(sequences.codes), -1)
    centered = rows - sequences.weights @ rows
    _, sizes, directions = np.linalg.svd(np.sqrt(sequences.weights)[:, None] * centered, full_matrices=False)
    variances = np.square(sizes)
    solid = int((variances > 1e-12 * sequences.codes.shape[1]).sum())  # identical sequences have no component
    shares = np.cumsum(variances[:solid]) / max(variances.sum(), 1e-300)
    d = min(int(np.searchsorted(shares, share - 1e-9)) + 1, solid)
    memories = centered @ directions[:d].T
    L = sequences.codes.shape[1]
    noise = variances[solid - solid // 2 : solid].mean() if solid > 1 else 0.0
    signal = np.square(np.maximum(1 - noise / variances[:d], MIN_SIGNAL))
    outward = (signal / signal.max(initial=0.0))[:, None] * directions[:d, : q * L]  # the gap's channel is the last
    return memories.astype(np.float32), variances[:d].astype(np.float32), outward.astype(np.float32)


def _calibrate_bias(x: Array, gain: float, wanted: Array, weights: Array, bias: Array) -> tuple[Array, Array]:
    """The bias (q L,) at which the mean probabilities of draws x, with weights (n, L), are `wanted` (q, L).

    Each round adds r log(wanted/mean). r = 1 is exact if probabilities do not vary among draws; otherwise r is larger
    by mean (1 − mean)/mean of p (1 − p), which is Newton's step for two residues.
    """
    for _ in range(MAX_ROUNDS):
        probabilities = (x * np.float32(gain) + bias).reshape(len(x), *wanted.shape)  # a softmax over the residues
        probabilities -= probabilities.max(1, keepdims=True)
        np.exp(probabilities, out=probabilities)
        probabilities /= probabilities.sum(1, keepdims=True)
        means = np.maximum(np.einsum("nl,nsl->sl", weights, probabilities), 1e-30)
        if np.abs(means - wanted).max() < TOLERANCE:
            break
        response = means - np.einsum("nl,nsl,nsl->sl", weights, probabilities, probabilities)
        step = np.log(wanted / means) * np.maximum(means * (1 - means) / np.maximum(response, 1e-30), 1.0)
        bias = bias + np.clip(step, -MAX_STEP, MAX_STEP).ravel().astype(np.float32)
    return bias, probabilities
