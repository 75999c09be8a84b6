"""Patterns that all stored sequences share: gaps, invariant columns, and ties between residues that occur together.

*Gaps* are those of a stored sequence, or of a Markov chain along the sites: P(g | k) = (1 − mixing) 1[g = g_k] +
mixing Π_i P_i(g_i | g_{i−1}). The chain opens and extends gaps as often as stored sequences do at each site, so gaps
have the lengths of stored ones, unlike gaps at independent sites. `mixing` maximizes the likelihood of the patterns of
left-out sequences.

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
    commonest = np.array([np.bincount(column, minlength=q)[:q].argmax() for column in codes.T])
    groups: dict[bytes, list[int]] = {}
    for i, residue in enumerate(commonest):
        present = codes[:, i] == residue
        if free[i] and present.mean() >= MIN_FREQUENCY:
            groups.setdefault(present.tobytes(), []).append(i)
    return tuple(Tie(np.array(sites), commonest[sites]) for sites in groups.values() if len(sites) > 1)


TINY = 1e-30
LEAST = np.finfo(np.float64).tiny  # keeps logarithms and quotients finite if all probabilities are zero


class TieDistribution(NamedTuple):
    """States of a tie in each component, given residues; columns are for ties with a gap and without one."""

    tie: Tie
    evidence: Array  # (M, 2) probability of the given residues
    broken: Array  # (M, 2) probability that its sites are drawn independently
    present: Array  # (M, 2) probability that all of its residues are present, if they are not
    touched: bool  # whether residues are given

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


PSEUDO_COUNTS = 1.0  # additional sequences that open and extend gaps at the mean rates of all sites
EM_ROUNDS, MAX_MIXING = 200, 0.5
"""At least half of the patterns are stored ones, which have gaps where related sequences have them."""


class GapDistribution(NamedTuple):
    """Patterns of the stored sequences, the chain, and the share of the chain."""

    stored: Array  # (K, L) booleans
    opening: Array  # (L,) P_i(1 | 0); no gap comes before the first site
    extending: Array  # (L,) P_i(1 | 1)
    mixing: float

    @classmethod
    def fit(cls, sequences: WeightedSequences, invariant: Array) -> GapDistribution:
        """The distribution of the patterns of weighted sequences.

        invariant: (L,) which columns are invariant. In a draw of the chain, any of those without gaps has one with
              probability `loss(K)` at most.
        """
        gaps, w = sequences.codes == GAP, sequences.weights
        size = sequences.effective_size
        matches, chains = np.empty(len(gaps)), np.empty(len(gaps))
        for k in range(len(gaps)):
            remaining, left = np.delete(gaps, k, axis=0), np.delete(w, k) / max(1 - w[k], 1e-12)
            matches[k] = left[(remaining == gaps[k]).all(1)].sum()
            chains[k] = np.exp(cls(remaining, *_rates(remaining, left, size), 0.0).log_chain(gaps[k : k + 1])[0])
        mixing = MAX_MIXING
        for _ in range(EM_ROUNDS):
            by_chain = mixing * chains
            mixing = float(w @ (by_chain / np.maximum(by_chain + (1 - mixing) * matches, 1e-300)))
        # At least as if one more sequence had a new pattern.
        mixing = min(max(mixing, loss(size)), MAX_MIXING)
        complete = invariant & ~gaps.any(0)
        limit = np.where(complete, loss(size) / max(int(complete.sum()), 1), 1.0)
        opening, extending = (np.minimum(rates, limit) for rates in _rates(gaps, w, size))
        return cls(gaps, opening, extending, mixing)

    @property
    def marginals(self) -> Array:
        """P(g_i = 1) under the chain: (L,)."""
        shares, before = np.empty(len(self.opening)), 0.0
        for i, (opening, extending) in enumerate(zip(self.opening, self.extending, strict=True)):
            shares[i] = before = (1 - before) * opening + before * extending
        return shares

    @property
    def probabilities(self) -> Array:
        """P(g_i = 1 | k): (K, L)."""
        return (1 - self.mixing) * self.stored + self.mixing * self.marginals

    def sample(self, k: Array, by_chain: Array, uniforms: Array) -> Array:
        """Patterns of stored sequences k (n,), or of the chain where `by_chain` (n,), at uniforms (n, L): (n, L)."""
        patterns = self.stored[k]
        chains = np.flatnonzero(by_chain)
        before, u = np.zeros(len(chains), dtype=bool), np.ascontiguousarray(uniforms[chains].T)
        opened, extended = u < self.opening[:, None], u < self.extending[:, None]
        columns = np.empty(u.shape, dtype=bool)
        for column, opens, extends in zip(columns, opened, extended, strict=True):
            column[:] = opens
            np.copyto(column, extends, where=before)
            before = column
        patterns[chains] = columns.T
        return patterns

    def log_chain(self, gaps: Array) -> Array:
        """log Π_i P_i(g_i | g_{i−1}) of patterns (n, L): (n,)."""
        before = np.concatenate([np.zeros((len(gaps), 1), dtype=bool), gaps[:, :-1]], axis=1)
        p = np.where(before, self.extending, self.opening)
        return np.log(np.where(gaps, p, 1 - p)).sum(1)

    def condition(self, forced: Array) -> tuple[GapDistribution, float]:
        """The distribution whose chain is conditioned on gaps (L,), 1, 0 or −1 for free, and their log probability.

        The probability of all later values, given the value of a site, is computed backward along the chain.
        """
        rates = np.stack([self.opening, self.extending], axis=1)  # (L, 2) P_i(1 | 0) and P_i(1 | 1)
        later, log_probability = np.ones(2), 0.0  # after no gap, after a gap
        for i in range(len(forced))[::-1]:
            gap, none = rates[i] * later[1] * (forced[i] != 0), (1 - rates[i]) * later[0] * (forced[i] != 1)
            later = gap + none
            rates[i] = gap / later
            log_probability += np.log(later.max())
            later = later / later.max()
        return self._replace(opening=rates[:, 0], extending=rates[:, 1]), float(log_probability + np.log(later[0]))

    def mean_product(self, factors: Array, complete: Array) -> Array:
        """E Π_i factor_i over sites without a gap, under the chain, if `complete` (L,) sites have none: (n, L) -> (n,).

        Patterns with a gap at one of the complete sites count as 0.
        """
        none, gap = np.ones(len(factors)), np.zeros(len(factors))
        for i, factor in enumerate(factors.T):
            opened = none * self.opening[i] + gap * self.extending[i]
            none = (none + gap - opened) * factor
            gap = np.zeros_like(opened) if complete[i] else opened
        return np.asarray(none + gap)


def _rates(gaps: Array, w: Array, size: float) -> tuple[Array, Array]:
    """Rates at which gaps open and extend at each site, with pseudo-counts: (L,), (L,)."""
    before = np.concatenate([np.zeros((len(gaps), 1), dtype=bool), gaps[:, :-1]], axis=1)
    opened, closed = size * (w @ (gaps & ~before)), size * (w @ ~before)
    extended, open_before = size * (w @ (gaps & before)), size * (w @ before)
    mean_opening = (opened.sum() + 0.5) / (closed.sum() + 1)
    mean_extending = (extended.sum() + 0.5) / (open_before.sum() + 1)
    opening = (opened + PSEUDO_COUNTS * mean_opening) / (closed + PSEUDO_COUNTS)
    return opening, (extended + PSEUDO_COUNTS * mean_extending) / (open_before + PSEUDO_COUNTS)
