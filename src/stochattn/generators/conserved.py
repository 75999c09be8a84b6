"""What all stored sequences have in common: columns with one residue, and residues that come together or not at all.

*Held columns* have the same residue in all stored sequences that have one there. K of K sequences keep all of these
columns together, so a new one does with probability at least 1 − `loss(K)` = (K + 1/2)/(K + 1), Jeffreys' estimate. If
each column by itself changed that often, the catalytic residues of an enzyme would seldom be there together.

*Ties* are groups of sites whose commonest residues are present in the same stored sequences: both cysteines of a
disulphide bond, for example. A tie is drawn once: all of its residues are there, or none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from .sequences import GAP, WeightedSequences

MIN_FREQUENCY = 0.5
"""Share of the sequences that have the residue of a tie; of rarer ones, many coincide in relatives by descent alone."""


class Tie(NamedTuple):
    """Sites (s,), and the residue of each that all or none of them have (s,)."""

    sites: Array
    residues: Array


def loss(size: float) -> float:
    """Jeffreys' estimate of the probability of what none of `size` sequences shows."""
    return 0.5 / (size + 1)


def held_columns(sequences: WeightedSequences) -> Array:
    """The residue of each column in which most sequences have one and all have the same, −1 for other columns: (L,)."""
    codes = sequences.codes
    found = np.full(codes.shape[1], -1)
    for i, column in enumerate(codes.T):
        there = column != GAP
        residues = np.unique(column[there])
        if there.mean() > 0.5 and len(residues) == 1:
            found[i] = residues[0]
    return found


def hold(mixed: Array, held: Array, size: float) -> Array:
    """Site distributions (L, q), in which held columns change, all together, with probability `loss(size)` at most."""
    columns = np.flatnonzero(held >= 0)
    mixed = mixed.copy()
    change = 1 - mixed[columns, held[columns]]
    total = -np.log1p(-change).sum()  # −log of the probability that none changes
    allowed = -np.log1p(-loss(size))
    if total > allowed:
        smaller = -np.expm1(np.log1p(-change) * (allowed / total))
        mixed[columns] *= (smaller / change)[:, None]
        mixed[columns, held[columns]] = 1 - smaller
    return mixed


def find_ties(sequences: WeightedSequences, q: int) -> tuple[Tie, ...]:
    """The groups of sites whose commonest residues all stored sequences have together or not at all.

    Held columns are left out: where they lack their residue, they have a gap.
    """
    codes, free = sequences.codes, held_columns(sequences) < 0
    counts = np.stack([np.bincount(column, minlength=q)[:q] for column in codes.T])
    commonest = counts.argmax(1)
    groups: dict[bytes, list[int]] = {}
    for i, residue in enumerate(commonest):
        present = codes[:, i] == residue
        if free[i] and present.mean() >= MIN_FREQUENCY:
            groups.setdefault(present.tobytes(), []).append(i)
    return tuple(Tie(np.array(sites), commonest[sites]) for sites in groups.values() if len(sites) > 1)
