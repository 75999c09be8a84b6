"""The distribution of residues at each site, given that it has one: discounted counts and pseudo-counts.

pi(a) = (c(a) − min(d, c(a)))/(n + θ) + share q(a) with share = (θ + Σ_b min(d, c(b)))/(n + θ) and n = Σ_b c(b).

A discount d of each residue seen at a site, whatever its count c, is that of the process of Pitman and Yor. A residue
seen once loses most of its share, and a conserved one almost nothing. In the posterior of a Dirichlet mixture (d = 0),
all lose in proportion: residues seen once are then drawn too often and unseen ones, which make up 4 % to 20 % of a
sequence left out, half as often as they should. θ is a multiple, the same at all sites, of the pseudo-counts that the
Dirichlet mixture has at the site. q is the mean of what the mixture expects there and of the residues by which other
stored sequences replace the ones that are seen.

Two errors balance. Frequencies without pseudo-counts agree with sequences left out as these do with each other, and two
draws from them agree more than two stored sequences. Pseudo-counts lower both. With the multiple chosen here, two draws
agree more by as much as a draw and a sequence left out agree less. Among the discounts that allow this, the likelihood
of sequences left out one by one decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from ..core.neighbors import evenly
from .sequences import GAP, WeightedSequences
from .site_priors import DirichletMixture, Posterior

MAX_LEFT_OUT = 100
DISCOUNTS = np.linspace(0.0, 1.0, 11)
MAX_SCALE, BISECTIONS, TINY = 4.0, 20, 1e-9
"""Multiples of the pseudo-counts of the Dirichlet mixture, from 0, and halvings of the interval."""


class SiteLaw(NamedTuple):
    """pi = (1 − share) frequencies + share pseudo, at each site."""

    frequencies: Array  # (L, q) of the residues there, after the discount; `pseudo` where there are none
    pseudo: Array  # (L, q)
    share: Array  # (L,)

    @property
    def mixed(self) -> Array:
        """pi, positive everywhere: (L, q)."""
        return (1 - self.share)[:, None] * self.frequencies + self.share[:, None] * self.pseudo


class Discount(NamedTuple):
    """Counts d that each residue loses, and the multiple of the pseudo-counts of the Dirichlet mixture."""

    counts: float = 0.0
    scale: float = 1.0


class Sites(NamedTuple):
    """What sequences show at their sites."""

    counts: Array  # (L, q)
    posterior: Posterior  # of the Dirichlet mixture
    exchanged: Array  # (L, q) what other sequences have in place of the residues there

    @classmethod
    def of(cls, frequencies: Array, size: float, prior: DirichletMixture) -> Sites:
        """Sites with these frequencies of residues (L, q) among so many sequences; gaps are what is missing to one."""
        counts = size * frequencies
        composition = (counts.sum(0) + 1) / (counts.sum() + prior.n_letters)
        # A few pairs of unrelated residues make every exchange possible.
        pairs = counts.T @ counts / size + prior.n_letters / 2 * np.outer(composition, composition)
        np.fill_diagonal(pairs, 0.0)
        totals = counts.sum(1, keepdims=True)
        present = np.where(totals > 0, counts / np.maximum(totals, TINY), composition)
        return cls(counts, prior.posterior(counts), present @ (pairs / pairs.sum(1, keepdims=True)))

    @property
    def pseudo(self) -> Array:
        """q, positive everywhere: (L, q)."""
        return (self.posterior.pseudo + self.exchanged) / 2

    @property
    def theta(self) -> Array:
        """Pseudo-counts of the Dirichlet mixture, whose share is θ/(n + θ): (L,)."""
        return self.counts.sum(1) * self.posterior.share / np.maximum(1 - self.posterior.share, TINY)

    def law(self, discount: Discount) -> SiteLaw:
        """pi with this discount."""
        totals, removed = self.counts.sum(1), np.minimum(discount.counts, self.counts)
        theta, left = discount.scale * self.theta, totals - removed.sum(1)
        share = np.where(left > TINY, (theta + removed.sum(1)) / np.maximum(totals + theta, TINY), 1.0)
        # At least as if one residue at all sites of all sequences were another.
        share = np.maximum(share, 1 / (1 + totals.sum()))
        # equivalent: TINY stands for nothing at all, and no count comes near it
        kept = np.where(left[:, None] > TINY, (self.counts - removed) / np.maximum(left, TINY)[:, None], self.pseudo)
        return SiteLaw(kept, self.pseudo, share)


class _LeftOut(NamedTuple):
    """Residues of sequences that are left out one by one, and what the others show at the same site: (R,) each."""

    weight: Array  # of the sequence
    occupied: Array  # share of the others that have a residue there
    own: Array  # count of the residue
    totals: Array  # n
    theta: Array  # of the Dirichlet mixture
    pseudo: Array  # q of the residue
    counts: Array  # (R, q) of all residues

    @classmethod
    def of(cls, sequences: WeightedSequences, prior: DirichletMixture) -> _LeftOut:
        """Up to MAX_LEFT_OUT sequences, evenly spaced."""
        f, squares, found = residue_frequencies(sequences, prior.n_letters), np.square(sequences.weights).sum(), []
        for k in evenly(len(sequences.codes), MAX_LEFT_OUT):
            row, w = sequences.codes[k], sequences.weights[k]
            places = np.flatnonzero(row != GAP)
            here, others, size = (places, row[places]), f.copy(), (1 - w) ** 2 / (squares - w**2)
            others[here] = np.maximum(others[here] - w, 0.0)
            others[others < TINY] = 0.0  # what rounding leaves of a residue that no other sequence has
            sites = Sites.of(others / (1 - w), size, prior)
            totals = sites.counts.sum(1)[places]
            one = (sites.counts[here], totals, sites.theta[places], sites.pseudo[here], sites.counts[places])
            found.append((np.full(len(places), w), totals / size, *one))
        return cls(*(np.concatenate(fields) for fields in zip(*found, strict=True)))

    def probabilities(self, removed: Array, discount: Discount) -> Array:
        """pi of each residue, where `removed` (R,) is what all residues of the site lose: (R,)."""
        theta = discount.scale * self.theta
        kept = self.own - np.minimum(discount.counts, self.own)
        return (kept + (theta + removed) * self.pseudo) / np.maximum(self.totals + theta, 1e-300)


def residue_frequencies(sequences: WeightedSequences, q: int) -> Array:
    """Weighted frequencies of residues, which add up to the share of sequences that have one there: (L, q)."""
    return np.stack([sequences.weights @ (sequences.codes == residue) for residue in range(q)], axis=1)


def fit_site_law(sequences: WeightedSequences, prior: DirichletMixture) -> SiteLaw:
    """The law of all sequences, with the discount that sequences left out one by one prefer."""
    f = residue_frequencies(sequences, prior.n_letters)
    return Sites.of(f, sequences.effective_size, prior).law(best_discount(sequences, prior))


def best_discount(sequences: WeightedSequences, prior: DirichletMixture) -> Discount:
    """The most likely of the discounts with balanced errors; that of the Dirichlet mixture for two sequences."""
    if len(sequences.codes) < 3:
        return Discount()
    f = residue_frequencies(sequences, prior.n_letters)
    sites, left = Sites.of(f, sequences.effective_size, prior), _LeftOut.of(sequences, prior)
    itself = np.square(sequences.weights) @ (sequences.codes != GAP)
    equal, both = np.square(f).sum(1) - itself, np.square(f.sum(1)) - itself  # of two different sequences, (L,)
    places = left.weight * left.occupied
    if both.sum() < TINY or places.sum() < TINY:  # two sequences have no residue at the same site
        return Discount()
    found = []
    for counts in DISCOUNTS:
        removed = np.minimum(counts, left.counts).sum(1)

        def surplus(scale: float, counts: float = counts, removed: Array = removed) -> float:
            """How much more two draws agree than stored sequences, less how much less draws and those left out do."""
            drawn = both @ np.square(sites.law(Discount(counts, scale)).mixed).sum(1) - equal.sum()
            missing = left.own / np.maximum(left.totals, TINY) - left.probabilities(removed, Discount(counts, scale))
            return float(drawn / both.sum() - places @ missing / places.sum())

        if counts and surplus(0.0) < 0:
            break  # larger discounts lower the surplus further
        low, high = 0.0, MAX_SCALE
        for _ in range(BISECTIONS):
            scale = (low + high) / 2
            low, high = (scale, high) if surplus(scale) > 0 else (low, scale)
        discount = Discount(float(counts), high)
        value = left.weight @ np.log(np.maximum(left.probabilities(removed, discount), TINY))
        found.append((float(value), discount))
    return max(found)[1]
