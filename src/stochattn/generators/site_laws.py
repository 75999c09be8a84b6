"""The distribution of residues at each site, given that it has one: site frequencies with pseudo-counts.

Two rules of pseudo-counts are compared by the likelihood of sequences left out one by one. *Plain* takes the same share
at every site (`sequences.site_distributions`). *Dirichlet* takes the posterior mean of a Dirichlet mixture, whose share
is small where few different residues are seen: conserved sites stay conserved. It counts every stored sequence once. On
four Pfam families, draws then agree more with the stored sequences than two of these do with each other by about as
much as they agree less with sequences left out (0.002 to 0.017, and 0.009 to 0.018). Fewer counts remove the first
error and add to the second, which lowers profile scores.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from ..core.neighbors import evenly
from .sequences import GAP, WeightedSequences, indicators, site_distributions
from .site_priors import DirichletMixture

MAX_LEFT_OUT = 100


class SiteLaw(NamedTuple):
    """pi = (1 − share) frequencies + share pseudo, at each site."""

    frequencies: Array  # (L, q) of the residues there; `pseudo` where there are none
    pseudo: Array  # (L, q)
    share: Array  # (L,)
    rule: str  # "plain" or "Dirichlet"

    @property
    def mixed(self) -> Array:
        """pi, positive everywhere: (L, q)."""
        return (1 - self.share)[:, None] * self.frequencies + self.share[:, None] * self.pseudo


def fit_site_law(sequences: WeightedSequences, prior: DirichletMixture) -> SiteLaw:
    """The rule under which sequences left out are more likely, fitted on all sequences."""
    chosen = evenly(len(sequences.codes), MAX_LEFT_OUT)
    plain, dirichlet = 0.0, 0.0
    for k in chosen if len(sequences.codes) > 2 else ():
        codes, weights, indices = (np.delete(field, k, axis=0) for field in sequences)
        others, row = WeightedSequences(codes, weights / weights.sum(), indices), sequences.codes[k]
        sites = np.flatnonzero(row != GAP)
        plain += sequences.weights[k] * np.log(plain_law(others, prior).mixed[sites, row[sites]]).sum()
        dirichlet += sequences.weights[k] * np.log(dirichlet_law(others, prior).mixed[sites, row[sites]]).sum()
    return dirichlet_law(sequences, prior) if dirichlet >= plain else plain_law(sequences, prior)


def dirichlet_law(sequences: WeightedSequences, prior: DirichletMixture) -> SiteLaw:
    """Posterior means of the prior."""
    counts = _frequencies(sequences, prior.n_letters) * sequences.effective_size
    posterior = prior.posterior(counts)
    totals = counts.sum(1, keepdims=True)
    frequencies = np.where(totals > 0, counts / np.maximum(totals, 1e-300), posterior.pseudo)
    return SiteLaw(frequencies, posterior.pseudo, posterior.share, "Dirichlet")


def plain_law(sequences: WeightedSequences, prior: DirichletMixture) -> SiteLaw:
    """One share of pseudo-counts at all sites, by the substitutions between sequences."""
    q, sites = prior.n_letters, site_distributions(sequences)
    seen, substituted = sites.frequencies[:, :q], sites.substituted[:, :q]
    parts = [(1 - sites.share) * seen.sum(1), sites.share * substituted.sum(1)]
    pseudo = substituted / substituted.sum(1, keepdims=True)
    occupied = seen.sum(1, keepdims=True)
    frequencies = np.where(occupied > 0, seen / np.maximum(occupied, 1e-300), pseudo)
    return SiteLaw(frequencies, pseudo, parts[1] / (parts[0] + parts[1]), "plain")


def _frequencies(sequences: WeightedSequences, q: int) -> Array:
    """Weighted frequencies of the residues, which add up to the share of sequences without a gap: (L, q)."""
    return np.einsum("k,kla->la", sequences.weights, indicators(sequences.codes)[:, :, :q])
