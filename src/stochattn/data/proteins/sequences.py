"""Aligned sequences as codes, and how two sets of them compare: identity, frequencies, pairs of positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.arrays import Array

LETTERS = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
GAP = len(LETTERS)
"""The code of a gap, beside 0 … 19 for the amino acids."""
_BYTES = np.frombuffer("".join([*LETTERS, "-"]).encode("ascii"), dtype=np.uint8)
TINY = 1e-10  # ε of the published divergences
N_INFORMATION_POSITIONS = 20  # as published
MOST_PAIR_POSITIONS = 120  # evenly spaced beyond that: pairs cost the square
ROWS = 512  # sequences compared with all others at a time
BLOCK_ENTRIES = 2**18  # what stays in the processor's cache


def texts(codes: Any, columns: Any = None, width: int | None = None) -> list[str]:
    """Codes (n, L) as text, gaps as hyphens; placed in these columns of `width`, where they are given."""
    codes = np.minimum(codes, GAP).astype(np.uint8)
    if columns is not None and width is not None:
        whole = np.full((len(codes), width), GAP, dtype=np.uint8)
        whole[:, columns] = codes
        codes = whole
    L = codes.shape[1]
    joined = _BYTES[codes].tobytes().decode("ascii")
    return [joined[i : i + L] for i in range(0, len(joined), L)] if L else [""] * len(codes)


def one_hot(codes: Any, dtype: Any = np.float64) -> Array:
    """Codes (n, L) as indicators (n, 20 L); gaps are zeros."""
    codes = np.asarray(codes)
    n, L = codes.shape
    out = np.zeros((n, L * GAP), dtype=dtype)
    row, position = np.nonzero(codes != GAP)
    out[row, position * GAP + codes[row, position]] = 1
    return out


def nearest_identity(new: Any, stored: Any) -> tuple[Array, Array]:
    """For each new sequence, the stored one that it shares most residues with, and that identity: (n,), (n,).

    Identity is the number of equal residues over the number of positions where either has one.
    """
    new, stored = np.asarray(new), np.asarray(stored)
    L = stored.shape[1]
    indicators, gaps = one_hot(stored, np.float32).T, (stored == GAP).T.astype(np.float32)
    index, identity = np.empty(len(new), dtype=np.intp), np.empty(len(new))
    size = max(BLOCK_ENTRIES // (L * GAP), 1)
    for begin in range(0, len(new), size):
        block = new[begin : begin + size]
        shared = one_hot(block, np.float32) @ indicators
        shared /= np.maximum(L - (block == GAP).astype(np.float32) @ gaps, 1)
        best = shared.argmax(1)
        index[begin : begin + size] = best
        identity[begin : begin + size] = shared[np.arange(len(block)), best]
    return index, identity


def own_nearest_identity(codes: Array) -> Array:
    """Identity of each sequence with the nearest of the others, as `nearest_identity` counts it: (K,)."""
    hot, gaps = one_hot(codes, np.float32), (codes == GAP).astype(np.float32)
    best = np.empty(len(codes))
    for begin in range(0, len(codes), ROWS):
        rows = slice(begin, begin + ROWS)
        identity = hot[rows] @ hot.T / np.maximum(codes.shape[1] - gaps[rows] @ gaps.T, 1)
        identity[np.arange(len(identity)), begin + np.arange(len(identity))] = -1
        best[rows] = identity.max(1)
    return best


def pairwise_diversity(codes: Any) -> float:
    """Mean share of positions in which two of the sequences differ, over all pairs; a gap is a letter of its own."""
    codes = np.asarray(codes)
    n = len(codes)
    counts = np.array([np.bincount(column, minlength=GAP + 1) for column in codes.T], dtype=np.float64)
    same = (counts * (counts - 1)).sum(1) / max(n * (n - 1), 1)
    return float(1 - same.mean()) if n > 1 else float("nan")


def composition_divergence(stored: Any, new: Any) -> float:
    """KL divergence of the 20 amino acid frequencies, stored from new."""
    p, q = (np.bincount(x[x != GAP].ravel(), minlength=GAP).astype(float) for x in (stored, new))
    return _divergence(p / max(p.sum(), 1), q / max(q.sum(), 1), TINY)


def position_divergences(stored: Any, new: Any, tiny: float = TINY) -> Array:
    """KL divergence of each position's frequencies: (L,).

    A letter that is stored and was not made costs p log(p/tiny): the value is mostly a count of such letters, times
    log(1/tiny).
    """
    return np.array([_divergence(p, q, tiny) for p, q in zip(frequencies(stored), frequencies(new), strict=True)])


def frequencies(codes: Any) -> Array:
    """Amino acid frequencies at each position, gaps aside: (L, 20)."""
    counts = np.array([np.bincount(column, minlength=GAP + 1)[:GAP] for column in np.asarray(codes).T], dtype=float)
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)


def mutual_information_r(stored: Any, new: Any) -> float:
    """Pearson correlation of the mutual informations between 20 evenly spaced positions."""
    chosen = _evenly(stored.shape[1], N_INFORMATION_POSITIONS)
    pairs = np.triu_indices(len(chosen), 1)
    first, second = (_mutual_information(x[:, chosen])[pairs] for x in (stored, new))
    return _correlation(first, second)


def connected_r(stored: Any, new: Any) -> float:
    """Pearson correlation of the connected pair frequencies f_ij(a, b) − f_i(a) f_j(b) over all pairs of positions."""
    chosen = _evenly(stored.shape[1], MOST_PAIR_POSITIONS)
    L = len(chosen)
    different = np.kron(np.triu(np.ones((L, L), dtype=bool), 1), np.ones((GAP, GAP), dtype=bool))
    first, second = (np.cov(one_hot(x[:, chosen]), rowvar=False, bias=True)[different] for x in (stored, new))
    return _correlation(first, second)


def _divergence(p: Array, q: Array, tiny: float) -> float:
    return float(np.sum(np.where(p > 0, p * np.log((p + tiny) / (q + tiny)), 0.0)))


def _evenly(L: int, most: int) -> Array:
    return np.unique(np.linspace(0, L - 1, most).round().astype(int))


def _mutual_information(codes: Array) -> Array:
    """(n, P) codes -> (P, P), over the sequences in which neither position is a gap."""
    P = codes.shape[1]
    information = np.zeros((P, P))
    for i in range(P):
        for j in range(i + 1, P):
            both = (codes[:, i] != GAP) & (codes[:, j] != GAP)
            joint = np.bincount(codes[both, i].astype(int) * GAP + codes[both, j], minlength=GAP**2).reshape(GAP, GAP)
            joint = joint / max(joint.sum(), 1)
            outer = joint.sum(1)[:, None] * joint.sum(0)[None]
            seen = joint > 0
            information[i, j] = np.sum(joint[seen] * np.log(joint[seen] / outer[seen]))
    return information


def _correlation(first: Array, second: Array) -> float:
    return float(np.corrcoef(first, second)[0, 1]) if first.std() > 0 and second.std() > 0 else 0.0
