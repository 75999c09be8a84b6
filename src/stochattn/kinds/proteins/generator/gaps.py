"""The distribution of gap patterns: that of a stored sequence, or one from a Markov chain along the sites.

P(g | k) = (1 − mixing) 1[g = g_k] + mixing Π_i P_i(g_i | g_{i−1}). The chain opens and extends gaps as often as stored
sequences do at each site, so gaps have the lengths of stored ones, unlike gaps at independent sites. `mixing` maximizes
the likelihood of the patterns of left-out sequences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array
from .conserved import loss
from .sequences import GAP, WeightedSequences

PSEUDO_COUNTS = 1.0
"""Number of additional sequences that open and extend gaps at the mean rates of all sites."""
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
            chains[k] = np.exp(_log_chain(gaps[k : k + 1], *_rates(remaining, left, size))[0])
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

    def matches(self, gaps: Array) -> Array:
        """Whether patterns (n, L) are those of each stored sequence: (n, K)."""
        return np.asarray((gaps[:, None] == self.stored[None]).all(2))

    def log_chain(self, gaps: Array) -> Array:
        """log Π_i P_i(g_i | g_{i−1}) of patterns (n, L): (n,)."""
        return _log_chain(gaps, self.opening, self.extending)

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


def _log_chain(gaps: Array, opening: Array, extending: Array) -> Array:
    """log Π_i P_i(g_i | g_{i−1}): (n, L) -> (n,)."""
    before = np.concatenate([np.zeros((len(gaps), 1), dtype=bool), gaps[:, :-1]], axis=1)
    p = np.where(before, extending, opening)
    return np.log(np.where(gaps, p, 1 - p)).sum(1)
