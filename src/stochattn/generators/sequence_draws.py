"""Draws of a mixture of laws of aligned sequences, of all components or given the symbols of some sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from ..core.mixture import pick
from .gap_patterns import GapLaw
from .sequences import GAP
from .ties import LEAST, TieLaw

BLOCK = 1024
"""Sequences drawn at a time. Never fewer: a sequence that is drawn again takes more numbers from the stream."""


class Parity(NamedTuple):
    """A residue, and how often a sequence is kept that has it an odd number of times at sites outside of ties."""

    residue: int
    kept: float

    def odd(self, codes: Array, ties: tuple[TieLaw, ...]) -> Array:
        """Whether sequences (n, L) have an odd number of the residue outside of ties: (n,)."""
        n_found = (codes == self.residue).sum(1)
        for law in ties:
            n_found -= (codes[:, law.tie.sites] == self.residue).sum(1)
        return np.asarray(n_found % 2 == 1)


@dataclass(frozen=True, eq=False)
class SequenceDraws:
    """What drawing needs. A component m has the gaps of a stored sequence, or those of the chain."""

    memory: Array  # (M,) the stored sequence around which each component was made
    probabilities: Array  # (M, q, L) of residues
    below: Array  # (q − 1, M, L) sums of the probabilities up to each residue but the last
    gaps: GapLaw  # whose chain is given the gaps of `fixed`
    ties: tuple[TieLaw, ...]
    parity: Parity | None
    weights: Array  # (M,) of the components
    by_chain: Array  # (M,) how often the gaps are those of the chain
    fixed: Array  # (L,) the symbol that a site must have, −1 where it is free

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n sequences (n, L), and the stored sequence around which each was made (n,). The first m of n are the m."""
        which, patterns, symbols = rng.spawn(3)
        L, cumulative = len(self.fixed), np.cumsum(self.weights)
        codes, source = np.empty((n, L), dtype=np.uint8), np.empty(n, dtype=np.intp)
        for begin in range(0, n, BLOCK):
            m = pick(cumulative, which.random(BLOCK))
            uniforms = patterns.random((BLOCK, L + 1), dtype=np.float32)
            by_chain = uniforms[:, -1] < self.by_chain[m]
            drawn = self._accepted(m, by_chain, self._gaps(m, by_chain, uniforms[:, :-1], patterns), patterns, symbols)
            codes[begin : begin + BLOCK] = drawn[: n - begin]
            source[begin : begin + BLOCK] = self.memory[m][: n - begin]
        return codes, source

    def _gaps(self, m: Array, by_chain: Array, uniforms: Array, patterns: np.random.Generator) -> Array:
        """Gaps of components m (n,) at uniforms (n, L); those of the chain are drawn again until ties accept them."""
        gaps = self.gaps.sample(self.memory[m], by_chain, uniforms)
        given = [law for law in self.ties if law.touched]
        # equivalent: without ties that are given, all gaps are accepted at once
        left = np.flatnonzero(by_chain) if given else np.empty(0, dtype=np.intp)
        while len(left):
            chance = np.ones(len(left))
            for law in given:
                complete = ~gaps[np.ix_(left, law.tie.sites)].any(1)
                evidence = law.evidence[m[left]]
                chance *= np.where(complete, evidence[:, 1], evidence[:, 0]) / np.maximum(evidence.max(1), LEAST)
            left = left[patterns.random(len(left)) >= chance]
            again = patterns.random((len(left), len(self.fixed)), dtype=np.float32)
            gaps[left] = self.gaps.sample(self.memory[m[left]], np.ones(len(left), dtype=bool), again)
        return gaps

    def _accepted(
        self, m: Array, by_chain: Array, gaps: Array, patterns: np.random.Generator, symbols: np.random.Generator
    ) -> Array:
        """Sequences of components m (n,), drawn again, with the gaps of the chain, until their parity is accepted."""
        codes = self._drawn(m, gaps, symbols)
        if self.parity is None:
            return codes
        left = np.arange(len(m))
        while len(left):
            odd = self.parity.odd(codes[left], self.ties)
            left = left[odd & (symbols.random(len(left)) >= self.parity.kept)]  # equivalent: they are never equal
            chains = left[by_chain[left]]
            uniforms = patterns.random((len(chains), len(self.fixed)), dtype=np.float32)
            gaps[chains] = self._gaps(m[chains], by_chain[chains], uniforms, patterns)
            codes[left] = self._drawn(m[left], gaps[left], symbols)
        return codes

    def _drawn(self, m: Array, gaps: Array, symbols: np.random.Generator) -> Array:
        """One draw of each component m (n,) with these gaps (n, L)."""
        n, L = gaps.shape
        uniforms = symbols.random((n, L), dtype=np.float32)
        present = np.zeros((n, len(self.ties)), dtype=bool)
        for t, law in enumerate(self.ties):
            tied, there = symbols.random((2, n))
            complete = (~gaps[:, law.tie.sites].any(1)).view(np.uint8)
            whole = tied >= law.broken[m, complete]
            present[:, t] = whole & (there < law.present[m, complete])  # equivalent: uniforms are never equal to it
            absent = np.flatnonzero(whole & ~present[:, t])
            for site, residue in zip(law.tie.sites, law.tie.residues, strict=True):  # uniforms that skip the residue
                own = self.probabilities[m[absent], residue, site]
                below = self.below[residue - 1, m[absent], site] if residue else np.zeros(len(absent), np.float32)
                u = uniforms[absent, site] * (1 - own)
                uniforms[absent, site] = np.where(u < below, u, u + own)
        codes, above = np.zeros((n, L), dtype=np.uint8), np.empty((n, L), dtype=bool)
        limits = np.empty((n, L), dtype=np.float32)  # the same memory for all residues
        for below in self.below:
            np.take(below, m, axis=0, out=limits, mode="clip")  # the mode that needs no buffer; all m are in range
            np.less_equal(limits, uniforms, out=above)
            codes += above.view(np.uint8)
        for t, law in enumerate(self.ties):
            codes[np.ix_(np.flatnonzero(present[:, t]), law.tie.sites)] = law.tie.residues
        codes[:, self.fixed >= 0] = self.fixed[self.fixed >= 0]
        codes[gaps] = GAP
        return codes
