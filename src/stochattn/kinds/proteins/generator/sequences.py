"""Aligned sequences as codes (n, L), 0 … 19 for symbols and 20 for a gap: identities, weights, site distributions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array, ArrayLike

N_SYMBOLS = 21
GAP = N_SYMBOLS - 1
BLOCK_ENTRIES = 2**18  # of one-hot rows that are compared at a time, in the processor's cache
MAX_SHARE = 0.5  # as many pseudo-counts as sequences: a few sequences do not show how much agreement is typical
BY_MEMORY = 0.9
"""Share of the pseudo-counts that memories get for being unlike the others; the rest makes all symbols possible."""


def check_codes(codes: ArrayLike, length: int) -> Array:
    """Codes (n, length) as bytes; ValueError for anything else."""
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.shape[1] != length:
        raise ValueError(f"codes must have the shape (n, {length}), one row per sequence; got {codes.shape}.")
    if codes.dtype.kind not in "iu":
        raise ValueError(f"codes must be integers from 0 to {GAP}; got {codes.dtype}. Recode letters first.")
    invalid = codes[(codes < 0) | (codes > GAP)]
    if len(invalid):
        raise ValueError(f"codes must lie from 0 to {GAP}, which is a gap; got {invalid[0]}. Recode other symbols.")
    return codes.astype(np.uint8)


def one_hot(codes: Array, dtype: type = np.float64) -> Array:
    """Codes (n, L) as indicators (n, 20 L); gaps are zeros."""
    return np.eye(N_SYMBOLS, GAP, dtype=dtype)[codes].reshape(len(codes), codes.shape[1] * GAP)


def indicators(codes: Array) -> Array:
    """Codes (n, L) as one-hot rows with a channel for gaps: (n, L, 21)."""
    return np.eye(N_SYMBOLS)[codes]


def nearest_identity(new: Array, stored: Array | None = None) -> tuple[Array, Array]:
    """For each new sequence, the stored (or other new) one with the highest identity, and that identity: (n,), (n,).

    Identity is the number of equal symbols over the number of positions where at least one of the two has a symbol.
    """
    references, L = new if stored is None else stored, new.shape[1]
    hot, gaps = one_hot(references, np.float32).T, (references == GAP).T.astype(np.float32)
    index, identity = np.empty(len(new), dtype=np.intp), np.empty(len(new))
    size = max(BLOCK_ENTRIES // (L * GAP), 1)
    for begin in range(0, len(new), size):
        block = new[begin : begin + size]
        rows = np.arange(len(block))
        shared = one_hot(block, np.float32) @ hot
        shared /= np.maximum(L - (block == GAP).astype(np.float32) @ gaps, 1)
        if stored is None:
            shared[rows, begin + rows] = -1
        index[begin : begin + size] = best = shared.argmax(1)
        identity[begin : begin + size] = shared[rows, best]
    return index, identity


class WeightedSequences(NamedTuple):
    """Checked sequences with positive weight."""

    codes: Array  # (K, L)
    weights: Array  # (K,), adding up to one
    indices: Array  # (K,) among all sequences, with those of weight zero

    @classmethod
    def of(cls, codes: ArrayLike, weights: ArrayLike | None = None) -> WeightedSequences:
        """Sequences (K, L) with weights (K,), equal by default, without those of weight zero."""
        codes = np.asarray(codes)
        if codes.ndim != 2 or 0 in codes.shape:
            raise ValueError(f"codes must be a non-empty matrix, one row per sequence; got shape {codes.shape}.")
        codes = check_codes(codes, codes.shape[1])
        w = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=np.float64)
        if w.shape != (len(codes),):
            raise ValueError(f"weights must have one number per sequence, ({len(codes)},); got shape {w.shape}.")
        wrong = w[~(np.isfinite(w) & (w >= 0))]
        if len(wrong):
            raise ValueError(f"weights must be finite and not negative; got {wrong[0]}. Zero leaves a sequence out.")
        w = w / max(w.max(), np.finfo(np.float64).tiny)
        kept = np.flatnonzero(w)
        if len(kept) < 2:
            raise ValueError(f"at least two sequences need a positive weight; got {len(kept)} of {len(codes)}.")
        return cls(codes[kept], w[kept] / w[kept].sum(), kept)

    @property
    def effective_size(self) -> float:
        """The number of equally weighted sequences that carry as much information: 1/Σ w²."""
        return float(1 / np.square(self.weights).sum())


class SiteDistributions(NamedTuple):
    """Frequencies of the symbols at each site, without and with pseudo-counts."""

    frequencies: Array  # (L, 21) f, of the sequences
    mixed: Array  # (L, 21) pi, positive everywhere


def site_distributions(sequences: WeightedSequences) -> SiteDistributions:
    """pi = (1 − share) f + share f S, with S(b | a) how often one sequence has b where another has a, over all sites.

    Draws from pi agree with the stored sequences as much as these agree with each other. Frequencies f agree too much,
    Σ f² instead of the share of equal symbols among pairs; the share (Σ f² − pairs)/(Σ f² − Σ f · f S) of pseudo-counts
    removes the excess.
    """
    hot, w, size = indicators(sequences.codes), sequences.weights, sequences.effective_size
    f = np.einsum("k,kla->la", w, hot)
    pairs = np.maximum(f.T @ f - np.diag(np.einsum("k,kla->a", np.square(w), hot)), 0)  # of two different sequences
    pairs /= max(1 - 1 / size, 1e-12)  # a single sequence, left of two, has no pair
    composition = (f.sum(0) * size + 1) / (f.sum() * size + N_SYMBOLS)
    # A few pairs of unrelated symbols make every substitution possible.
    joint = pairs + N_SYMBOLS / 2 * np.outer(composition, composition) / size
    substituted = f @ (joint / joint.sum(1, keepdims=True))
    agreement, substituted_agreement = float((f * f).sum()), float((f * substituted).sum())
    share = min((agreement - float(np.trace(pairs))) / max(agreement - substituted_agreement, 1e-12), MAX_SHARE)
    share = max(share, 1 / (1 + sequences.codes.size))  # at least as if one symbol of all sequences were another
    return SiteDistributions(f, (1 - share) * f + share * substituted)


def relative_substitution_rates(sequences: WeightedSequences) -> Array:
    """Relative substitution rates at which draws around each sequence agree with the others as it does itself: (K,).

    Agreement t_k = Σ_i f_i(x_ki), without the sequence itself, also varies by chance, so the variance of independent
    sites is subtracted. Rates are proportional to Σ f² − t_k, with the mean BY_MEMORY.
    """
    sites = site_distributions(sequences)
    f, w, L = sites.frequencies, sequences.weights, len(sites.frequencies)
    agreement = (f[np.arange(L), sequences.codes].sum(1) - w * L) / (1 - w)
    mean = w @ agreement
    variance = w @ np.square(agreement - mean)
    by_chance = ((sites.mixed * f * f).sum(1) - np.square((sites.mixed * f).sum(1))).sum()
    real = math.sqrt(max(1 - by_chance / variance, 0.0)) if variance > 0 else 0.0
    excess = np.maximum((f * f).sum() - mean - real * (agreement - mean), 0.0)
    return excess * (BY_MEMORY / ((w @ excess) or 1.0))


def draw_symbols(probabilities: Array, uniforms: Array) -> Array:
    """Codes (n, L) drawn from probabilities (n or 1, 21, L), which need not be normalized, at uniforms (n, L)."""
    below = uniforms * probabilities.sum(1)
    codes, running = np.zeros(uniforms.shape, dtype=np.uint8), np.zeros_like(probabilities[:, 0])
    for symbol in range(probabilities.shape[1] - 1):
        running += probabilities[:, symbol]
        codes += running <= below
    return codes
