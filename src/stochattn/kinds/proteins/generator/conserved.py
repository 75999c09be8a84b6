"""What all stored sequences have in common: columns with one residue, and residues that come together or not at all.

*Held columns* have the same residue in all stored sequences that have one there. K of K sequences keep all of these
columns together, so a new one does with probability at least 1 − `loss(K)` = (K + 1/2)/(K + 1), Jeffreys' estimate. If
each column by itself changed that often, the catalytic residues of an enzyme would seldom be there together.

*Ties* are groups of sites whose commonest residues are present in the same stored sequences: both cysteines of a
disulphide bond, for example. A tie is drawn once: all of its residues are there, or none.

The law of a tie: its residues are all there or none, except when its sites are drawn one by one.

A tie is *broken* with a small probability: its sites are then independent. Otherwise it is *present*, with the
probability that its residues have on average, if none of its sites has a gap; else it is *absent*: its sites without a
gap are independent, and none has the residue of the tie. Given residues at some of its sites, the three states have the
probabilities of Bayes' rule.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array
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


TINY = 1e-30
LEAST = np.finfo(np.float64).tiny
"""What keeps logarithms and quotients finite where all probabilities are zero."""


class TieLaw(NamedTuple):
    """States of a tie in each component, given residues: columns are for a gap at one of its sites, and for none."""

    tie: Tie
    evidence: Array  # (M, 2) probability of the given residues
    broken: Array  # (M, 2) probability that its sites are drawn one by one
    present: Array  # (M, 2) probability that all of its residues are there, if they are not
    touched: bool  # whether residues are given

    @classmethod
    def of(cls, tie: Tie, probabilities: Array, broken: float, fixed: Array) -> TieLaw:
        """The states of a tie in components (M, q, L), given the codes `fixed` (L,), −1 where nothing is given."""
        presence = tie_presence(tie, probabilities)
        single, absent, whole, touched = np.ones(len(presence)), np.ones(len(presence)), 1.0, False
        for site, residue in zip(tie.sites, tie.residues, strict=True):
            code = fixed[site]
            if code < 0 or code == GAP:
                continue
            touched, own = True, probabilities[:, code, site].astype(np.float64)
            single *= own
            absent *= 0.0 if code == residue else own / skipping(probabilities, residue, site)
            whole *= float(code == residue)
        there = np.stack([np.zeros_like(presence), presence], axis=1)
        given = fixed[tie.sites]
        if (given == GAP).any():  # it has a gap at any rate
            there[:, 1] = 0.0
        elif (given >= 0).all():  # it has none, which makes the sums over gaps shorter
            there[:, 0] = presence
        one_by_one = broken * single[:, None] * np.ones((1, 2))
        all_there, none_there = (1 - broken) * there * whole, (1 - broken) * (1 - there) * absent[:, None]
        tied = all_there + none_there
        evidence = one_by_one + tied
        shares = one_by_one / np.maximum(evidence, LEAST), all_there / np.maximum(tied, LEAST)
        return cls(tie, evidence, *shares, touched)


def tie_presence(tie: Tie, probabilities: Array) -> Array:
    """Probability of a tie in each component (M, q, L): the mean of those of its residues, (M,)."""
    return np.asarray(probabilities[:, tie.residues, tie.sites].mean(1), dtype=np.float64)


def skipping(probabilities: Array, residue: int, site: int) -> Array:
    """Probability that a site has another residue, in each component (M, q, L): (M,)."""
    return np.maximum(1 - probabilities[:, residue, site].astype(np.float64), TINY)
