"""What a family says about each site: frequencies, what replaces what, pseudo-counts; and draws of symbols."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._backend.arrays import Array
from .sequences import GAP

SYMBOLS = GAP + 1
"""Amino acids and the gap."""


class Family(NamedTuple):
    """Checked sequences of positive weight."""

    codes: Array  # (K, L) of 0 … 20
    weights: Array  # (K,), adding up to one
    kept: Array  # (K,) where each stood before those of weight zero were left out

    @property
    def size(self) -> float:
        """How many sequences of one weight say as much: 1/Σ w²."""
        return float(1 / np.square(self.weights).sum())

    def without(self, out: Array) -> Family:
        """The others; `out` (K,) is a mask."""
        weights = self.weights[~out]
        return Family(self.codes[~out], weights / weights.sum(), self.kept[~out])


class SiteLaws(NamedTuple):
    """pi = (1 − share) frequencies + share exchanged.

    frequencies: (L, 21) f, of the family
    exchanged:   (L, 21) f S, with S(b | a) how often one sequence has b where another has a, over all sites
    share:       of pseudo-counts
    """

    frequencies: Array
    exchanged: Array
    share: float

    @property
    def mixed(self) -> Array:
        """pi, positive everywhere: (L, 21)."""
        return (1 - self.share) * self.frequencies + self.share * self.exchanged


def checked_family(codes: Any, weights: Any = None) -> Family:
    """Sequences (K, L) and weights (K,), or an error; those of weight zero are left out."""
    codes = np.asarray(codes)
    if codes.ndim != 2 or 0 in codes.shape:
        raise ValueError(f"codes must be a non-empty matrix, a row for each sequence; got shape {codes.shape}.")
    codes = checked_codes(codes, codes.shape[1])
    weights = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=np.float64)
    if weights.shape != (len(codes),):
        raise ValueError(f"weights must have one number a sequence, ({len(codes)},); got shape {weights.shape}.")
    wrong = weights[~(np.isfinite(weights) & (weights >= 0))]
    if len(wrong):
        raise ValueError(f"weights must be finite and not negative; got {wrong[0]}. Zero leaves a sequence out.")
    weights = weights / max(weights.max(), np.finfo(np.float64).tiny)
    kept = np.flatnonzero(weights)
    if len(kept) < 2:
        raise ValueError(f"at least two sequences need a positive weight; got {len(kept)} of {len(codes)}. Keep more.")
    return Family(codes[kept], weights[kept] / weights[kept].sum(), kept)


def checked_codes(codes: Any, length: int) -> Array:
    """Codes (n, length) of 0 … 20 as bytes, or an error."""
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.shape[1] != length:
        raise ValueError(f"codes must have the shape (n, {length}), a row for each sequence; got {codes.shape}.")
    if codes.dtype.kind not in "iu":
        raise ValueError(f"codes must be whole numbers from 0 to {GAP}; got {codes.dtype}. Recode letters first.")
    wrong = codes[(codes < 0) | (codes > GAP)]
    if len(wrong):
        raise ValueError(f"codes must lie from 0 to {GAP}, which is a gap; got {wrong[0]}. Recode other symbols.")
    return codes.astype(np.uint8)


def indicators(codes: Array) -> Array:
    """Codes (n, L) as one-hot rows with a channel for gaps: (n, L, 21)."""
    return (codes[:, :, None] == np.arange(SYMBOLS)).astype(np.float64)


def site_laws(family: Family, pseudo_counts: float | None = None) -> SiteLaws:
    """The family's site laws, with a share pseudo_counts/(pseudo_counts + size) of pseudo-counts.

    By default draws from them agree with stored sequences as much as these with each other: frequencies f agree with
    the sequences they were counted on by too much, Σ f² against the share of equal residues among pairs, and
    share = (Σ f² − pairs)/(Σ f² − Σ f · f S) takes the excess away.
    """
    hot, w = indicators(family.codes), family.weights
    f = np.einsum("k,kla->la", w, hot)
    # Σ over pairs of two different sequences
    pairs = np.maximum(f.T @ f - np.diag(np.einsum("k,kla->a", np.square(w), hot)), 0)
    pairs /= max(1 - 1 / family.size, 1e-12)  # a single sequence, of a family of two, has none
    # A few pairs of symbols that have nothing to do with each other leave no exchange impossible.
    composition = (f.sum(0) * family.size + 1) / (f.sum() * family.size + SYMBOLS)
    exchanges = pairs + SYMBOLS / 2 * np.outer(composition, composition) / family.size
    exchanged = f @ (exchanges / exchanges.sum(1, keepdims=True))
    # At the least as if one residue of the whole family were another.
    least = 1 / (1 + family.codes.size)
    if pseudo_counts is not None:
        return SiteLaws(f, exchanged, max(pseudo_counts / (pseudo_counts + family.size), least))
    own, drawn = float((f * f).sum()), float((f * exchanged).sum())
    excess = own - float(np.trace(pairs))
    # At the most as many pseudo-counts as sequences: very few of these cannot say what agreement is usual.
    return SiteLaws(f, exchanged, min(max(excess / max(own - drawn, 1e-12), least), 0.5))


def draw_letters(chances: Array, uniforms: Array) -> Array:
    """Symbols drawn by chances (n or 1, 21, L), which need not add up to one, at uniforms (n, L): codes (n, L)."""
    below = uniforms * chances.sum(1)
    codes = np.zeros(uniforms.shape, dtype=np.uint8)
    running = np.zeros_like(chances[:, 0])
    for symbol in range(chances.shape[1] - 1):
        running += chances[:, symbol]
        codes += running <= below
    return codes


def draw_index(chances: Array, uniforms: Array) -> Array:
    """Indices drawn by chances (K,) at uniforms (n,); those of chance zero are never drawn."""
    cumulative = np.cumsum(chances)
    return np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
