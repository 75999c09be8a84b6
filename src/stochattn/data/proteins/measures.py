"""New sequences against the stored ones of their family: what the report and the tables show."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..._backend.arrays import Array
from ..legacy import Comparison, Measure, Part
from . import sequences
from .profiles import build_profile, score
from .sequences import LETTERS


def compare_sequences(new: Array, stored: Array, columns: Array) -> Comparison:
    """Sequences (n, L) against stored ones (K, L); columns (L,) are their numbers in the file, from 0."""
    _, identity = sequences.nearest_identity(new, stored)
    scores = score(new, build_profile(stored), len(new))
    by_position = sequences.position_divergences(stored, new)
    found = (
        ("identity to nearest", float(identity.mean()), None, "Equal residues with the nearest stored one."),
        ("near-copies", near_copies(identity, stored), 0.0, "Closer to a stored one than these are by pairs."),
        (
            "pairwise diversity",
            sequences.pairwise_diversity(new),
            sequences.pairwise_diversity(stored),
            "Share of positions in which two of the sequences differ.",
        ),
        (
            "composition divergence",
            sequences.composition_divergence(stored, new),
            0.0,
            "KL of amino acid frequencies; a model without any correlation reaches 0.00 too.",
        ),
        ("position divergence", float(by_position.mean()), 0.0, "Mean KL of the frequencies at each position."),
        (
            "mutual information r",
            sequences.mutual_information_r(stored, new),
            1.0,
            "Over 20 positions; a model without any correlation reaches 0.93, so it shows little.",
        ),
        (
            "pair correlation r",
            sequences.connected_r(stored, new),
            1.0,
            "Connected pair frequencies; a model without correlation gives 0. Few samples lower it by their noise.",
        ),
        ("profile pass", scores.passed, 1.0, "Share at E < 0.01 of a profile HMM of the stored ones."),
    )
    return Comparison(tuple(Measure(*one) for one in found), tuple(_parts(new, stored, columns)))


def near_copies(identity: Array, stored: Array) -> float:
    """Share of identities (n,) above those of all but the closest 1 % of stored sequences to each other."""
    own = sequences.own_nearest_identity(stored)
    apart = own[own < 1] if (own < 1).any() else np.array([0.99])
    return float((identity > np.quantile(apart, 0.99)).mean())


def _parts(new: Array, stored: Array, columns: Array) -> Iterator[Part]:
    before, after = sequences.frequencies(stored), sequences.frequencies(new)
    for column, p, q in zip(columns, before, after, strict=True):
        yield Part(f"{column + 1}", _commonest(p), _commonest(q), float(np.abs(p - q).sum() / 2))


def _commonest(frequencies: Array) -> str:
    top = np.argsort(-frequencies, kind="stable")[:3]
    return " ".join(f"{LETTERS[a]} {frequencies[a]:.0%}" for a in top if frequencies[a] > 0)
