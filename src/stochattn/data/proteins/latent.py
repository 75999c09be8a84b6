"""Calibrated latent draws: attention's mixture among the main directions of a family, decoded by calibrated sampling.

A draw among principal components of one-hot sequences says which subfamily a new sequence leans to. Residues are then
*sampled* site by site, with chances set so that over many draws each site has the family's own law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import count, positive
from .sequences import nearest_identity, own_nearest_identity
from .sites import (
    SYMBOLS,
    Family,
    SiteLaws,
    checked_codes,
    checked_family,
    draw_index,
    draw_letters,
    indicators,
    site_laws,
)

SHARE = 0.35
"""Share of the variance that components keep. Shuffling each site among sequences, which leaves chance alone, explains
the components beyond the first 40 to 46 % in two Pfam seeds; draws hardly change between 0.2 and 0.8."""
LARGER_SHARES, NARROWER = (0.6, 0.9), (0.5, 0.25)
"""Tried next where draws stay too far from stored sequences: in families of a few clusters, or of near-copies."""
BY_MEMORY = 0.9
"""Share of the pseudo-counts that goes to memories by how outlying they are; the rest leaves no symbol impossible."""
CALIBRATION_ENTRIES = 2**21
"""Chances (draws · 21 · sites) that calibration holds at a time."""
MOST_DRAWS, FEWEST_DRAWS = 2048, 256
TOLERANCE = 1e-3
"""How far a site's frequency may be from its law, and identity from its target, over the draws of calibration."""
MOST_ROUNDS, MOST_TRIALS = 100, 12
LARGEST_STEP = 3.0
MOST_GAIN = 32.0
IN_CACHE = 256
"""Sequences decoded at a time; always as many, since the last bits of a product depend on its shape."""


class Calibration(NamedTuple):
    """A gain, the bias (21 L,) that goes with it, and the mean identity of draws with their nearest stored sequence."""

    gain: float
    bias: Array
    identity: float


@dataclass(frozen=True, eq=False)
class CalibratedLatent:
    """x_i ~ (1 − e_k) softmax(gamma V_i z + b_i) + e_k q_i, z = s z_k + h N(0, Lambda) around memory k, s² + h² = 1.

    memories:  (K, d) z, coordinates of the stored sequences among components of one-hot rows with gaps
    variances: (d,) Lambda, the memories' own; s shrinks the memories so that draws have it too
    outward:   (d, 21 L) V, symbol by symbol
    sites:     the family's site laws pi, which the draws' site frequencies equal, and q, its exchanged frequencies
    outlying:  (K,) e, chance that a residue is exchanged for any other: large around sequences unlike all others
    weights:   (K,) of the memories, adding up to one
    kept:      (K,) what number each memory has among the sequences it was fitted on
    width:     h, in standard deviations of the family
    calibration: gamma and b, and the identity reached
    target:    mean identity of stored sequences with the nearest other, which the identity reached should equal
    """

    memories: Array
    variances: Array
    outward: Array
    sites: SiteLaws
    outlying: Array
    weights: Array
    kept: Array
    width: float
    calibration: Calibration
    target: float

    @classmethod
    def fit(
        cls,
        codes: Any,
        weights: Any = None,
        *,
        share: float | None = None,
        width: float | None = None,
        pseudo_counts: float | None = None,
    ) -> CalibratedLatent:
        """Fitted to sequences (K, L) with weights (K,); zero leaves a sequence out.

        share:         of the variance to keep; by default 0.35, or more where gamma cannot reach its target with that
        width:         h, up to 1 for one Gaussian; by default that of the normal reference, (4/((d+2) K))^(1/(d+4)),
                       or less where the target is out of reach even so
        pseudo_counts: see `site_laws`, which finds them by default

        gamma is the natural one: draws share as many residues with their nearest stored sequence as stored ones do
        with theirs. Where even gamma = 0, independent sites, shares more, that is taken.
        """
        family = checked_family(codes, weights)
        if share is not None and not 0 < share <= 1:
            raise ValueError(f"share must lie above 0 and not above 1; got {share!r}. {SHARE} is the default.")
        if width is not None and positive("width", width, "1 makes one Gaussian.") > 1:
            raise ValueError(f"width must not exceed 1, at which all kernels are one Gaussian; got {width!r}.")
        shares = (SHARE, *LARGER_SHARES) if share is None else (share,)
        tries = [(part, 1.0) for part in shares] + [(shares[-1], factor) for factor in NARROWER if width is None]
        sites = site_laws(family, pseudo_counts)
        target = float(family.weights @ own_nearest_identity(family.codes))
        for part, factor in tries:
            model = cls._calibrated(family, sites, target, part, width, factor)
            if model.calibration.identity > target - TOLERANCE or not model.d:
                break
        return model

    @classmethod
    def _calibrated(
        cls, family: Family, sites: SiteLaws, target: float, share: float, width: float | None, factor: float
    ) -> CalibratedLatent:
        memories, variances, outward = _components(family, share)
        d = len(variances)
        h = factor * min((4 / ((d + 2) * family.size)) ** (1 / (d + 4)), 1.0) if width is None else float(width)
        outlying = outlying_shares(family, sites)
        k, noise = _balanced(family.weights, d, family.codes.shape[1])
        x = _around(memories[k], variances, h, noise) @ outward
        calibration = _natural_gain(x, outlying[k], float(family.weights @ outlying), sites, family.codes, target)
        return cls(memories, variances, outward, sites, outlying, family.weights, family.kept, h, calibration, target)

    @property
    def length(self) -> int:
        """Sites."""
        return len(self.sites.frequencies)

    @property
    def d(self) -> int:
        """Components."""
        return len(self.variances)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n independent sequences (n, L), and the stored one each was drawn around (n,). The first m of n are the m."""
        n = count("n", n, at_least=0)
        which, noise, letters = rng.spawn(3)
        codes, memory = np.empty((n, self.length), dtype=np.uint8), np.empty(n, dtype=np.intp)
        for begin in range(0, n, IN_CACHE):
            k, chances = self._chances(which, noise)
            block = draw_letters(chances, letters.random((IN_CACHE, self.length), dtype=np.float32))
            end = min(begin + IN_CACHE, n)
            codes[begin:end], memory[begin:end] = block[: end - begin], self.kept[k][: end - begin]
        return codes, memory

    def log_density(self, codes: Any, rng: np.random.Generator, n_draws: int = 4096) -> Array:
        """log mean_z Π_i p(x_i | z) over draws of z: too low on average, less so with more of them; (m, L) -> (m,)."""
        codes = checked_codes(codes, self.length)
        hot = _by_symbol(indicators(codes)).astype(np.float32)
        which, noise = rng.spawn(2)
        blocks = -(-count("n_draws", n_draws) // IN_CACHE)
        total = np.full(len(codes), -np.inf)
        for _ in range(blocks):
            _, chances = self._chances(which, noise)
            logs = np.log(np.maximum(chances, np.finfo(np.float32).tiny)).reshape(IN_CACHE, -1)
            total = np.logaddexp(total, np.logaddexp.reduce((hot @ logs.T).astype(np.float64), axis=1))
        return total - math.log(blocks * IN_CACHE)

    def _chances(self, which: np.random.Generator, noise: np.random.Generator) -> tuple[Array, Array]:
        """IN_CACHE memories and chances of symbols around them: (n,), (n, 21, L)."""
        k = draw_index(self.weights, which.random(IN_CACHE))
        z = _around(self.memories[k], self.variances, self.width, noise.standard_normal((IN_CACHE, self.d)))
        chances = _softmax(z @ self.outward, self.calibration.gain, self.calibration.bias)
        return k, _exchanged(chances, self.outlying[k], self.sites)


def outlying_shares(family: Family, sites: SiteLaws) -> Array:
    """Shares e of exchanged residues at which draws agree with the family as each sequence does with the others: (K,).

    Agreement t_k = Σ_i f_i(x_ki), without the sequence itself, varies by chance too: only the variance beyond that of
    independent sites is kept. e_k is in proportion to Σ f² − t_k, and most of the share of pseudo-counts on average.
    """
    f, w = sites.frequencies, family.weights
    L = len(f)
    agreement = (f[np.arange(L), family.codes].sum(1) - w * L) / (1 - w)
    mean = w @ agreement
    variance = w @ np.square(agreement - mean)
    by_chance = ((sites.mixed * f * f).sum(1) - np.square((sites.mixed * f).sum(1))).sum()
    real = math.sqrt(max(1 - by_chance / variance, 0.0)) if variance > 0 else 0.0
    excess = np.maximum((f * f).sum() - mean - real * (agreement - mean), 0.0)
    if not excess.any():
        return np.zeros(len(w))
    return np.minimum(excess * (BY_MEMORY * sites.share / (w @ excess)), BY_MEMORY)


def _components(family: Family, share: float) -> tuple[Array, Array, Array]:
    """Memories (K, d), variances (d,) and directions (d, 21 L), of the first components with this share of variance."""
    rows = _by_symbol(indicators(family.codes))
    centred = rows - family.weights @ rows
    _, sizes, directions = np.linalg.svd(np.sqrt(family.weights)[:, None] * centred, full_matrices=False)
    variances = np.square(sizes)
    solid = int((variances > 1e-12 * family.codes.shape[1]).sum())  # identical sequences have no component
    shares = np.cumsum(variances[:solid]) / max(variances.sum(), 1e-300)
    d = min(int(np.searchsorted(shares, share - 1e-9)) + 1, solid)
    outward = directions[:d].astype(np.float32)
    return (centred @ directions[:d].T).astype(np.float32), variances[:d].astype(np.float32), outward


def _by_symbol(hot: Array) -> Array:
    """(n, L, 21) -> (n, 21 L), all sites of a symbol side by side: sums over symbols are then fast."""
    return hot.transpose(0, 2, 1).reshape(len(hot), -1)


def _around(centres: Array, variances: Array, h: float, noise: Array) -> Array:
    """s z_k + h sqrt(Lambda) noise, of the same covariance as the memories: (n, d)."""
    return (math.sqrt(1 - h * h) * centres + h * np.sqrt(variances) * noise).astype(np.float32)


def _balanced(weights: Array, d: int, length: int) -> tuple[Array, Array]:
    """Memories (n,) and noise (n, d) for calibration: each memory as often as it weighs, its noise of either sign."""
    half = min(max(CALIBRATION_ENTRIES // (SYMBOLS * length), FEWEST_DRAWS), MOST_DRAWS) // 2
    k = draw_index(weights, (np.arange(half) + 0.5) / half)
    noise = np.random.default_rng(0).standard_normal((half, d))
    return np.concatenate([k, k]), np.concatenate([noise, -noise])


def _softmax(x: Array, gain: float, bias: Array) -> Array:
    """softmax(gain x + bias) over symbols: (n, 21 L) -> (n, 21, L)."""
    logits = x * np.float32(gain)
    logits += bias
    logits = logits.reshape(len(x), SYMBOLS, -1)
    logits -= logits.max(1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(1, keepdims=True)
    return logits


def _exchanged(chances: Array, outlying: Array, sites: SiteLaws) -> Array:
    """(1 − e) chances + e q, of draws around memories that are this outlying, (n,): (n, 21, L), in place."""
    e = outlying.astype(np.float32)[:, None, None]
    chances *= 1 - e
    chances += e * sites.exchanged.T.astype(np.float32)
    return chances


def _calibrated(x: Array, gain: float, wanted: Array, keep: Array, bias: Array) -> tuple[Array, Array]:
    """The bias (21 L,) at which mean chances over draws x, weighted by keep (n,), are those wanted (21, L); chances.

    Rounds of b += r log(wanted/mean): r = 1 is right where chances do not vary among draws. Where they do, r is as much
    larger as their mean responds less, mean (1 − mean)/mean of p (1 − p), which is Newton's step for two symbols.
    """
    for _ in range(MOST_ROUNDS):
        chances = _softmax(x, gain, bias)
        means = np.maximum(np.tensordot(keep, chances, 1), 1e-30)
        if np.abs(means - wanted).max() < TOLERANCE:
            break
        response = means - np.einsum("n,nsl,nsl->sl", keep, chances, chances)
        step = np.log(wanted / means) * np.maximum(means * (1 - means) / np.maximum(response, 1e-30), 1.0)
        bias = bias + np.clip(step, -LARGEST_STEP, LARGEST_STEP).ravel().astype(np.float32)
    return bias, chances


def _natural_gain(
    x: Array, outlying: Array, mean_outlying: float, sites: SiteLaws, codes: Array, target: float
) -> Calibration:
    """gamma at which draws have the target's mean identity with their nearest stored sequence.

    Identity grows with gamma: gamma is doubled until it passes the target, then found between by false position. The
    same uniforms at each gamma keep chance out of the comparison.
    """
    uniforms = np.random.default_rng(1).random((len(x), codes.shape[1]), dtype=np.float32)
    keep = ((1 - outlying) / (1 - outlying).sum()).astype(np.float32)
    wanted = ((sites.mixed - mean_outlying * sites.exchanged) / (1 - mean_outlying)).T  # of residues not exchanged

    def at(gain: float, guess: Array) -> Calibration:
        bias, chances = _calibrated(x, gain, wanted, keep, guess)
        drawn = draw_letters(_exchanged(chances, outlying, sites), uniforms)
        return Calibration(gain, bias, float(nearest_identity(drawn, codes)[1].mean()))

    low = at(0.0, np.log(wanted).ravel().astype(np.float32))
    if low.identity >= target or not x.any():
        return low
    high = at(2.0, low.bias)
    while high.identity < target and high.gain < MOST_GAIN:
        low, high = high, at(2 * high.gain, high.bias)
    if high.identity < target:
        return high
    for _ in range(MOST_TRIALS):
        part = (target - low.identity) / (high.identity - low.identity)
        middle = at(low.gain + min(max(part, 0.1), 0.9) * (high.gain - low.gain), low.bias)
        if abs(middle.identity - target) < TOLERANCE:
            break
        low, high = (middle, high) if middle.identity < target else (low, middle)
    return middle
