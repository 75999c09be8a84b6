"""Features that all stored sequences share: invariant columns, and ties between residues that occur together.

*Invariant columns* have the same residue in all stored sequences that have one there. K of K sequences keep all of
these residues, so a new one does with probability at least 1 − `loss(K)` = (K + 1/2)/(K + 1), Jeffreys' estimate. If
each column changed independently that often, the catalytic residues of an enzyme would seldom be complete.

*Ties* are groups of sites whose most common residues are present in the same stored sequences, such as both cysteines
of a disulfide bond. A tie is drawn once: either all of its residues are present, or none.

A tie is *broken* with a small probability: its sites are then independent. Otherwise it is *present*, with the mean
probability of its residues, if none of its sites has a gap; else it is *absent*: its sites without a gap are
independent, and none has the residue of the tie. Given residues at some of its sites, the three states have the
probabilities of Bayes' rule.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array
from .sequences import GAP, WeightedSequences

MIN_FREQUENCY = 0.5
"""Least share of sequences with the residue of a tie; many rarer residues coincide in relatives by descent alone."""


class Tie(NamedTuple):
    """Sites (s,), and the residues (s,) that they have together or not at all."""

    sites: Array
    residues: Array


def loss(size: float) -> float:
    """Jeffreys' estimate of the probability of an event that none of `size` sequences shows."""
    return 0.5 / (size + 1)


def find_invariant_columns(sequences: WeightedSequences) -> Array:
    """The residue of each column in which most sequences have one and all have the same, else −1: (L,)."""
    codes = sequences.codes
    invariant = np.full(codes.shape[1], -1)
    for i, column in enumerate(codes.T):
        has_residue = column != GAP
        residues = np.unique(column[has_residue])
        if has_residue.mean() > 0.5 and len(residues) == 1:
            invariant[i] = residues[0]
    return invariant


def limit_changes(mixed: Array, invariant: Array, size: float) -> Array:
    """Site distributions (L, q) in which any of the invariant columns changes with probability `loss(size)` at most."""
    columns = np.flatnonzero(invariant >= 0)
    mixed = mixed.copy()
    change = 1 - mixed[columns, invariant[columns]]
    total = -np.log1p(-change).sum()  # −log of the probability that none changes
    allowed = -np.log1p(-loss(size))
    if total > allowed:
        smaller = -np.expm1(np.log1p(-change) * (allowed / total))
        mixed[columns] *= (smaller / change)[:, None]
        mixed[columns, invariant[columns]] = 1 - smaller
    return mixed


def find_ties(sequences: WeightedSequences, q: int) -> tuple[Tie, ...]:
    """The groups of sites whose most common residues all stored sequences have together or not at all.

    Invariant columns are left out: a sequence without their residue has a gap there.
    """
    codes, free = sequences.codes, find_invariant_columns(sequences) < 0
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
"""Keeps logarithms and quotients finite if all probabilities are zero."""


class TieDistribution(NamedTuple):
    """States of a tie in each component, given residues; columns are for ties with a gap and without one.

    evidence: (M, 2) probability of the given residues
    broken:   (M, 2) probability that its sites are drawn independently
    present:  (M, 2) probability that all of its residues are present, if they are not
    touched:  whether residues are given
    """

    tie: Tie
    evidence: Array
    broken: Array
    present: Array
    touched: bool

    @classmethod
    def of(cls, tie: Tie, probabilities: Array, broken: float, fixed: Array) -> TieDistribution:
        """The states of a tie in components (M, q, L), given the codes `fixed` (L,), −1 where nothing is given."""
        presence = tie_presence(tie, probabilities)
        single, absent, agreement, touched = np.ones(len(presence)), np.ones(len(presence)), 1.0, False
        for site, residue in zip(tie.sites, tie.residues, strict=True):
            code = fixed[site]
            if code < 0 or code == GAP:
                continue
            touched, of_code = True, probabilities[:, code, site].astype(np.float64)
            single *= of_code
            absent *= 0.0 if code == residue else of_code / probability_of_others(probabilities, residue, site)
            agreement *= float(code == residue)
        presence_by_gap = np.stack([np.zeros_like(presence), presence], axis=1)
        conditions = fixed[tie.sites]
        if (conditions == GAP).any():  # it has a gap at any rate
            presence_by_gap[:, 1] = 0.0
        elif (conditions >= 0).all():
            presence_by_gap[:, 0] = presence
        independent = broken * single[:, None] * np.ones((1, 2))
        all_present = (1 - broken) * presence_by_gap * agreement
        none_present = (1 - broken) * (1 - presence_by_gap) * absent[:, None]
        tied = all_present + none_present
        evidence = independent + tied
        shares = independent / np.maximum(evidence, LEAST), all_present / np.maximum(tied, LEAST)
        return cls(tie, evidence, *shares, touched)


def tie_presence(tie: Tie, probabilities: Array) -> Array:
    """Probability of a tie in each component (M, q, L), the mean over its residues: (M,)."""
    return np.asarray(probabilities[:, tie.residues, tie.sites].mean(1), dtype=np.float64)


def probability_of_others(probabilities: Array, residue: int, site: int) -> Array:
    """Probability that a site has another residue, in each component (M, q, L): (M,)."""
    return np.maximum(1 - probabilities[:, residue, site].astype(np.float64), TINY)
