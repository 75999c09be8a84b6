"""Aligned sequences as codes (n, L), 0 … 19 for symbols and 20 for a gap: identities, weights, site distributions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array, ArrayLike

N_SYMBOLS = 21
GAP = N_SYMBOLS - 1
BLOCK_ENTRIES = 2**18  # of one-hot rows that are compared at a time, in the processor's cache
MAX_SHARE = 0.5  # as many pseudo-counts as sequences: a handful of sequences cannot say how much agreement is usual
BY_MEMORY = 0.9
"""Share of the pseudo-counts that memories get by how unlike the others they are; the rest keeps symbols possible."""


def checked_codes(codes: ArrayLike, length: int) -> Array:
    """Codes (n, length) as bytes; ValueError for anything else."""
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.shape[1] != length:
        raise ValueError(f"codes must have the shape (n, {length}), one row per sequence; got {codes.shape}.")
    if codes.dtype.kind not in "iu":
        raise ValueError(f"codes must be whole numbers from 0 to {GAP}; got {codes.dtype}. Recode letters first.")
    wrong = codes[(codes < 0) | (codes > GAP)]
    if len(wrong):
        raise ValueError(f"codes must lie from 0 to {GAP}, which is a gap; got {wrong[0]}. Recode other symbols.")
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
    others, L = new if stored is None else stored, new.shape[1]
    hot, gaps = one_hot(others, np.float32).T, (others == GAP).T.astype(np.float32)
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
    """Checked sequences of positive weight."""

    codes: Array  # (K, L)
    weights: Array  # (K,), adding up to one
    indices: Array  # (K,) of each among the sequences before those of weight zero were left out

    @classmethod
    def of(cls, codes: ArrayLike, weights: ArrayLike | None = None) -> WeightedSequences:
        """Sequences (K, L) with weights (K,), which are equal by default; those of weight zero are left out."""
        codes = np.asarray(codes)
        if codes.ndim != 2 or 0 in codes.shape:
            raise ValueError(f"codes must be a non-empty matrix, one row per sequence; got shape {codes.shape}.")
        codes = checked_codes(codes, codes.shape[1])
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
    """pi = (1 − share) frequencies + share substituted."""

    frequencies: Array  # (L, 21) f, of the sequences
    substituted: Array  # (L, 21) f S, with S(b | a) how often one sequence has b where another has a, over all sites
    share: float  # of pseudo-counts

    @property
    def mixed(self) -> Array:
        """pi, positive everywhere: (L, 21)."""
        return (1 - self.share) * self.frequencies + self.share * self.substituted


def site_distributions(sequences: WeightedSequences, pseudo_counts: float | None = None) -> SiteDistributions:
    """Site distributions with a share pseudo_counts/(pseudo_counts + effective size) of pseudo-counts.

    By default, draws from them agree with the stored sequences as much as these agree with each other: frequencies f
    agree too much, Σ f² against the share of equal symbols among pairs, and the share (Σ f² − pairs)/(Σ f² − Σ f · f S)
    of pseudo-counts removes the excess.
    """
    hot, w, size = indicators(sequences.codes), sequences.weights, sequences.effective_size
    f = np.einsum("k,kla->la", w, hot)
    pairs = np.maximum(f.T @ f - np.diag(np.einsum("k,kla->a", np.square(w), hot)), 0)  # of two different sequences
    pairs /= max(1 - 1 / size, 1e-12)  # a single sequence, left of two, has no pair
    composition = (f.sum(0) * size + 1) / (f.sum() * size + N_SYMBOLS)
    # A few pairs of unrelated symbols make every substitution possible.
    joint = pairs + N_SYMBOLS / 2 * np.outer(composition, composition) / size
    substituted = f @ (joint / joint.sum(1, keepdims=True))
    if pseudo_counts is None:
        own, drawn = float((f * f).sum()), float((f * substituted).sum())
        share = min((own - float(np.trace(pairs))) / max(own - drawn, 1e-12), MAX_SHARE)
    else:
        share = pseudo_counts / (pseudo_counts + size)
    # At least as if one symbol of all sequences were another.
    return SiteDistributions(f, substituted, max(share, 1 / (1 + sequences.codes.size)))


def relative_substitution_rates(sequences: WeightedSequences) -> Array:
    """Parts of the pseudo-counts at which draws around each sequence agree with the others as itself does: (K,).

    Agreement t_k = Σ_i f_i(x_ki), without the sequence itself, also varies by chance: only the variance beyond that of
    independent sites counts. Parts are proportional to Σ f² − t_k, with the mean BY_MEMORY.
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
    """Codes (n, L) drawn from probabilities (n or 1, 21, L), which need not be normalised, at uniforms (n, L)."""
    below = uniforms * probabilities.sum(1)
    codes, running = np.zeros(uniforms.shape, dtype=np.uint8), np.zeros_like(probabilities[:, 0])
    for symbol in range(probabilities.shape[1] - 1):
        running += probabilities[:, symbol]
        codes += running <= below
    return codes
