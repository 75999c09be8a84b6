"""An exact mixture of laws of aligned sequences: each component draws site by site, except for what comes whole.

p(x) = mean_m p_m(x). Component m was made around the stored sequence k_m. With probability 1 − `gaps.mixing` it has the
gaps of that sequence, otherwise those of a Markov chain (`gap_patterns`). It draws a residue at each site without a gap
from probabilities of its own, but

- the residues of a tie (`ties`) are all there or none, except with the probability `broken`,
- sequences with an odd number of one residue are kept with probability `Parity.kept`, others always. Cysteines pair up
  in disulphide bonds, so an odd number is rare in families that have them. A sequence that is not kept is drawn again,
  from the same component and with gaps of the same kind.

The density has all of that in closed form, and so has the law given the symbols of some sites (`sequence_conditions`).
For the latter, parity counts residues outside of ties only, and ties with an odd number of the residue are left out:
what a tie adds to the number is even then, unless the tie is broken.

Draws of a mixture of laws of aligned sequences, of all components or given the symbols of some sites.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array
from ....core.mixture import pick
from .conserved import LEAST, Tie, TieLaw, skipping, tie_presence
from .gaps import GapLaw
from .sequences import GAP, N_SYMBOLS

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
            left = left[odd & (symbols.random(len(left)) >= self.parity.kept)]
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
            present[:, t] = whole & (there < law.present[m, complete])
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


DENSITY_ENTRIES = 2**24  # of (sequences, components) or (sequences, sites of all stored ones) at a time
BISECTIONS = 50


class Signs(NamedTuple):
    """E (−1)^N in each component, N the number of the residue of the parity outside of ties: (M,) each."""

    stored: Array  # with the gaps of the stored sequence
    chain: Array  # with those of the chain


@dataclass(frozen=True, eq=False)
class SequenceMixture:
    """A mixture of components, each with residues that are independent but for ties, and a law of gaps."""

    memory: Array  # (M,) k, the stored sequence around which each component was made
    probabilities: Array  # (M, q, L) of residues
    gaps: GapLaw
    ties: tuple[Tie, ...] = ()
    broken: float = 0.0  # probability that the sites of a tie are drawn one by one
    parity: Parity | None = None

    @cached_property
    def below(self) -> Array:
        """Sums of the probabilities up to each residue but the last: (q − 1, M, L)."""
        return np.ascontiguousarray(np.cumsum(self.probabilities, axis=1, dtype=np.float32)[:, :-1].transpose(1, 0, 2))

    @cached_property
    def draws(self) -> SequenceDraws:
        """Draws of all components."""
        M, _, L = self.probabilities.shape
        nothing, shares = np.full(L, -1), np.full(M, self.gaps.mixing)
        ties = tuple(TieLaw.of(tie, self.probabilities, self.broken, nothing) for tie in self.ties)
        weights = np.full(M, 1 / M)
        return SequenceDraws(
            self.memory, self.probabilities, self.below, self.gaps, ties, self.parity, weights, shares, nothing
        )

    @property
    def untied(self) -> Array:
        """Which sites are in no tie: (L,)."""
        found = np.ones(self.probabilities.shape[2], dtype=bool)
        for tie in self.ties:
            found[tie.sites] = False
        return found

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n sequences (n, L), and the stored sequence around which each was made (n,). The first m of n are the m."""
        return self.draws.sample(n, rng)

    def log_density(self, codes: Array) -> Array:
        """log p of sequences (n, L): (n,)."""
        found = np.empty(len(codes))
        _, q, L = self.probabilities.shape
        size = max(DENSITY_ENTRIES // max(len(self.memory), self.gaps.stored.size, q * L), 1)
        for begin in range(0, len(codes), size):
            block = codes[begin : begin + size]
            logs = self._log_gaps(block == GAP) + self._log_residues(block)
            found[begin : begin + size] = np.logaddexp.reduce(logs, axis=1) - math.log(len(self.memory))
        if self.parity is not None:
            found += np.where(self.parity.odd(codes, self.draws.ties), np.log(self.parity.kept), 0.0)
        return found

    def _log_gaps(self, gaps: Array) -> Array:
        """log P(gaps | m), over the probability that a sequence with such gaps is kept: (n, L) -> (n, M)."""
        stored, chain = self.log_kept
        by_chain = (np.log(self.gaps.mixing) + self.gaps.log_chain(gaps))[:, None] - chain
        same = self.gaps.matches(gaps)[:, self.memory]
        return np.where(same, np.logaddexp(by_chain, np.log1p(-self.gaps.mixing) - stored), by_chain)

    def _log_residues(self, codes: Array) -> Array:
        """log p_m(x | gaps of x) before parity is looked at: (n, M)."""
        M, q, L = self.probabilities.shape
        hot = (np.eye(N_SYMBOLS, q)[codes].transpose(0, 2, 1) * self.untied).reshape(len(codes), q * L)
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(self.probabilities.astype(np.float64)), -700).reshape(M, q * L)
        total = hot @ logs.T
        for tie in self.ties:
            total += self._log_tie(tie, codes)
        return np.asarray(total)

    def _log_tie(self, tie: Tie, codes: Array) -> Array:
        """log probability of the residues at the sites of a tie: (n, M)."""
        presence, x = tie_presence(tie, self.probabilities), codes[:, tie.sites]
        there, gap = x == tie.residues, x == GAP
        single, without = np.ones((len(codes), len(presence))), np.ones((len(codes), len(presence)))
        for s, (site, residue) in enumerate(zip(tie.sites, tie.residues, strict=True)):
            p = self.probabilities[:, :, site].astype(np.float64)
            found = np.where(gap[:, s, None], 1.0, p[:, np.minimum(x[:, s], p.shape[1] - 1)].T)
            single *= found
            without *= np.where(gap[:, s, None], 1.0, found / skipping(self.probabilities, residue, site))
        absent = np.where(gap.any(1)[:, None], 1.0, 1 - presence) * without
        tied = np.where(there.all(1)[:, None], presence, np.where(there.any(1)[:, None], 0.0, absent))
        return np.log(np.maximum((1 - self.broken) * tied + self.broken * single, LEAST))

    def signs(self, fixed: Array, gaps: GapLaw, complete: Array) -> Signs:
        """E (−1)^N over sites that are not `fixed` (L,), if the chain has no gap at `complete` sites, times P(that)."""
        assert self.parity is not None
        counted = self.untied & (fixed < 0)
        factors = np.where(counted, 1 - 2 * self.probabilities[:, self.parity.residue].astype(np.float64), 1.0)
        stored = np.where(gaps.stored[self.memory], 1.0, factors).prod(1)
        return Signs(stored, gaps.mean_product(factors, complete))

    def kept(self, sign: Array) -> Array:
        """The probability that a sequence is kept, where E (−1)^N is `sign`; 1 without a parity."""
        kept = 1.0 if self.parity is None else self.parity.kept
        return (1 + kept) / 2 + (1 - kept) / 2 * sign

    @cached_property
    def log_kept(self) -> Signs:
        """log of the probability that a sequence is kept, with gaps of each kind."""
        if self.parity is None:
            return Signs(np.zeros(len(self.memory)), np.zeros(len(self.memory)))
        L = self.probabilities.shape[2]
        signs = self.signs(np.full(L, -1), self.gaps, np.zeros(L, dtype=bool))
        return Signs(np.log(self.kept(signs.stored)), np.log(self.kept(signs.chain)))

    def with_odd_share(self, residue: int, most: float) -> SequenceMixture:
        """The mixture in which at most this share of draws has an odd number of the residue outside of ties."""
        ties = tuple(tie for tie in self.ties if np.count_nonzero(tie.residues == residue) % 2 == 0)
        law, L = replace(self, ties=ties, parity=Parity(residue, 1.0)), self.probabilities.shape[2]
        stored, chain = law.signs(np.full(L, -1), self.gaps, np.zeros(L, dtype=bool))
        odds = np.clip((1 - np.stack([stored, chain])) / 2, 0, 1)
        shares = np.array([1 - self.gaps.mixing, self.gaps.mixing])
        low, high = 0.0, 1.0
        if shares @ odds.mean(1) <= most:
            return self
        for _ in range(BISECTIONS):
            kept = (low + high) / 2
            share = shares @ (kept * odds / (1 - (1 - kept) * odds)).mean(1)
            low, high = (low, kept) if share > most else (kept, high)
        return replace(law, parity=Parity(residue, high))
