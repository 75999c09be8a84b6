"""An exact mixture of distributions of aligned sequences, whose components have independent sites except for ties.

p(x) = mean_m p_m(x). Component m belongs to the stored sequence k_m. With probability 1 − `gaps.mixing` it has the gaps
of that sequence, otherwise those of a Markov chain (see `gaps`). It draws a residue at each site without a gap from its
own probabilities, with two exceptions:

- The residues of a tie (see `conserved`) are all present or all absent, unless the tie is broken.
- Sequences with an odd number of one residue are accepted with probability `Parity.acceptance`, others always.
  Cysteines pair up in disulfide bonds, so an odd number is rare in families that have them. A rejected sequence is
  drawn again, from the same component and with gaps of the same kind.

The density is in closed form, and so is the distribution given the symbols of some sites (see `conditions`). For the
latter, parity counts only residues outside of ties, and ties with an odd number of the residue are left out: other ties
add an even number, unless they are broken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array
from ....core.mixture import pick
from .conserved import LEAST, Tie, TieDistribution, probability_of_others, tie_presence
from .gaps import GapDistribution
from .sequences import GAP, N_SYMBOLS

BLOCK = 1024
"""Sequences drawn at a time. Blocks are always full, because rejected sequences take more numbers from the stream."""


class Parity(NamedTuple):
    """A residue, and the probability that a sequence with an odd number of it outside of ties is accepted."""

    residue: int
    acceptance: float

    def odd(self, codes: Array, ties: tuple[TieDistribution, ...]) -> Array:
        """Whether sequences (n, L) have an odd number of the residue outside of ties: (n,)."""
        n_residues = (codes == self.residue).sum(1)
        for tie in ties:
            n_residues -= (codes[:, tie.tie.sites] == self.residue).sum(1)
        return np.asarray(n_residues % 2 == 1)


@dataclass(frozen=True, eq=False)
class SequenceDraws:
    """Draws of the components, with the gaps of their stored sequences or of the chain."""

    memory: Array  # (M,) the stored sequence of each component
    probabilities: Array  # (M, q, L) of residues
    below: Array  # (q − 1, M, L) sums of the probabilities up to each residue but the last
    gaps: GapDistribution  # conditioned on the gaps of `fixed`
    ties: tuple[TieDistribution, ...]
    parity: Parity | None
    weights: Array  # (M,) of the components
    by_chain: Array  # (M,) probability of the gaps of the chain
    fixed: Array  # (L,) the symbol that a site must have, −1 for free sites

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n sequences (n, L), and the stored sequence of each (n,). The first m of n are those of a call for m."""
        which, patterns, symbols = rng.spawn(3)
        L, cumulative = len(self.fixed), np.cumsum(self.weights)
        codes, source = np.empty((n, L), dtype=np.uint8), np.empty(n, dtype=np.intp)
        for begin in range(0, n, BLOCK):
            m = pick(cumulative, which.random(BLOCK))
            uniforms = patterns.random((BLOCK, L + 1), dtype=np.float32)
            by_chain = uniforms[:, -1] < self.by_chain[m]
            sequences = self._draw_accepted(
                m, by_chain, self._gaps(m, by_chain, uniforms[:, :-1], patterns), patterns, symbols
            )
            codes[begin : begin + BLOCK] = sequences[: n - begin]
            source[begin : begin + BLOCK] = self.memory[m][: n - begin]
        return codes, source

    def _gaps(self, m: Array, by_chain: Array, uniforms: Array, patterns: np.random.Generator) -> Array:
        """Gaps of components m (n,) at uniforms (n, L); those of the chain are drawn until ties accept them."""
        gaps = self.gaps.sample(self.memory[m], by_chain, uniforms)
        conditioned = [tie for tie in self.ties if tie.touched]
        left = np.flatnonzero(by_chain) if conditioned else np.empty(0, dtype=np.intp)
        while len(left):
            chance = np.ones(len(left))
            for tie in conditioned:
                complete = ~gaps[np.ix_(left, tie.tie.sites)].any(1)
                evidence = tie.evidence[m[left]]
                chance *= np.where(complete, evidence[:, 1], evidence[:, 0]) / np.maximum(evidence.max(1), LEAST)
            left = left[patterns.random(len(left)) >= chance]
            again = patterns.random((len(left), len(self.fixed)), dtype=np.float32)
            gaps[left] = self.gaps.sample(self.memory[m[left]], np.ones(len(left), dtype=bool), again)
        return gaps

    def _draw_accepted(
        self, m: Array, by_chain: Array, gaps: Array, patterns: np.random.Generator, symbols: np.random.Generator
    ) -> Array:
        """Sequences of components m (n,), drawn, with new gaps of the chain, until their parity is accepted."""
        codes = self._draw(m, gaps, symbols)
        if self.parity is None:
            return codes
        left = np.arange(len(m))
        while len(left):
            odd = self.parity.odd(codes[left], self.ties)
            left = left[odd & (symbols.random(len(left)) >= self.parity.acceptance)]
            chains = left[by_chain[left]]
            uniforms = patterns.random((len(chains), len(self.fixed)), dtype=np.float32)
            gaps[chains] = self._gaps(m[chains], by_chain[chains], uniforms, patterns)
            codes[left] = self._draw(m[left], gaps[left], symbols)
        return codes

    def _draw(self, m: Array, gaps: Array, symbols: np.random.Generator) -> Array:
        """One draw of each component m (n,) with these gaps (n, L)."""
        n, L = gaps.shape
        uniforms = symbols.random((n, L), dtype=np.float32)
        present = np.zeros((n, len(self.ties)), dtype=bool)
        for t, tie in enumerate(self.ties):
            first, uniform = symbols.random((2, n))
            complete = (~gaps[:, tie.tie.sites].any(1)).view(np.uint8)
            is_tied = first >= tie.broken[m, complete]
            present[:, t] = is_tied & (uniform < tie.present[m, complete])
            absent = np.flatnonzero(is_tied & ~present[:, t])
            for site, residue in zip(tie.tie.sites, tie.tie.residues, strict=True):  # skip the residue of the tie
                of_residue = self.probabilities[m[absent], residue, site]
                below = self.below[residue - 1, m[absent], site] if residue else np.zeros(len(absent), np.float32)
                u = uniforms[absent, site] * (1 - of_residue)
                uniforms[absent, site] = np.where(u < below, u, u + of_residue)
        codes, above = np.zeros((n, L), dtype=np.uint8), np.empty((n, L), dtype=bool)
        limits = np.empty((n, L), dtype=np.float32)  # one work array for all residues
        for below in self.below:
            np.take(below, m, axis=0, out=limits, mode="clip")  # this mode needs no buffer, and all m are in range
            np.less_equal(limits, uniforms, out=above)
            codes += above.view(np.uint8)
        for t, tie in enumerate(self.ties):
            codes[np.ix_(np.flatnonzero(present[:, t]), tie.tie.sites)] = tie.tie.residues
        codes[:, self.fixed >= 0] = self.fixed[self.fixed >= 0]
        codes[gaps] = GAP
        return codes


DENSITY_ENTRIES = 2**24  # numbers at a time, of (sequences, components) or (sequences, sites of all stored ones)
BISECTIONS = 50


class Signs(NamedTuple):
    """E (−1)^N in each component, with N the number of the residue of the parity outside of ties: (M,) each."""

    stored: Array  # with the gaps of the stored sequence
    chain: Array  # with the gaps of the chain


@dataclass(frozen=True, eq=False)
class SequenceMixture:
    """A mixture of components with independent residues except for ties, and a distribution of gaps."""

    memory: Array  # (M,) k, the stored sequence of each component
    probabilities: Array  # (M, q, L) of residues
    gaps: GapDistribution
    ties: tuple[Tie, ...] = ()
    broken: float = 0.0  # probability that the sites of a tie are independent
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
        ties = tuple(TieDistribution.of(tie, self.probabilities, self.broken, nothing) for tie in self.ties)
        weights = np.full(M, 1 / M)
        return SequenceDraws(
            self.memory, self.probabilities, self.below, self.gaps, ties, self.parity, weights, shares, nothing
        )

    @property
    def untied(self) -> Array:
        """Which sites are in no tie: (L,)."""
        mask = np.ones(self.probabilities.shape[2], dtype=bool)
        for tie in self.ties:
            mask[tie.sites] = False
        return mask

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n sequences (n, L), and the stored sequence of each (n,). The first m of n are those of a call for m."""
        return self.draws.sample(n, rng)

    def log_density(self, codes: Array) -> Array:
        """log p of sequences (n, L): (n,)."""
        result = np.empty(len(codes))
        _, q, L = self.probabilities.shape
        size = max(DENSITY_ENTRIES // max(len(self.memory), self.gaps.stored.size, q * L), 1)
        for begin in range(0, len(codes), size):
            block = codes[begin : begin + size]
            logs = self._log_gaps(block == GAP) + self._log_residues(block)
            result[begin : begin + size] = np.logaddexp.reduce(logs, axis=1) - math.log(len(self.memory))
        if self.parity is not None:
            result += np.where(self.parity.odd(codes, self.draws.ties), np.log(self.parity.acceptance), 0.0)
        return result

    def _log_gaps(self, gaps: Array) -> Array:
        """log P(gaps | m), over the probability that a sequence with such gaps is accepted: (n, L) -> (n, M)."""
        stored, chain = self.log_acceptance
        by_chain = (np.log(self.gaps.mixing) + self.gaps.log_chain(gaps))[:, None] - chain
        same = self.gaps.matches(gaps)[:, self.memory]
        return np.where(same, np.logaddexp(by_chain, np.log1p(-self.gaps.mixing) - stored), by_chain)

    def _log_residues(self, codes: Array) -> Array:
        """log p_m(x | gaps of x) without parity: (n, M)."""
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
            of_code = np.where(gap[:, s, None], 1.0, p[:, np.minimum(x[:, s], p.shape[1] - 1)].T)
            single *= of_code
            without *= np.where(
                gap[:, s, None], 1.0, of_code / probability_of_others(self.probabilities, residue, site)
            )
        absent = np.where(gap.any(1)[:, None], 1.0, 1 - presence) * without
        tied = np.where(there.all(1)[:, None], presence, np.where(there.any(1)[:, None], 0.0, absent))
        return np.log(np.maximum((1 - self.broken) * tied + self.broken * single, LEAST))

    def signs(self, fixed: Array, gaps: GapDistribution, complete: Array) -> Signs:
        """E (−1)^N over sites that are not `fixed` (L,), if the chain has no gap at `complete` sites, times P(that)."""
        assert self.parity is not None
        counted = self.untied & (fixed < 0)
        factors = np.where(counted, 1 - 2 * self.probabilities[:, self.parity.residue].astype(np.float64), 1.0)
        stored = np.where(gaps.stored[self.memory], 1.0, factors).prod(1)
        return Signs(stored, gaps.mean_product(factors, complete))

    def accept(self, sign: Array) -> Array:
        """The probability that a sequence is accepted if E (−1)^N is `sign`; 1 without a parity."""
        acceptance = 1.0 if self.parity is None else self.parity.acceptance
        return (1 + acceptance) / 2 + (1 - acceptance) / 2 * sign

    @cached_property
    def log_acceptance(self) -> Signs:
        """log of the probability that a sequence is accepted, with gaps of each kind."""
        if self.parity is None:
            return Signs(np.zeros(len(self.memory)), np.zeros(len(self.memory)))
        L = self.probabilities.shape[2]
        signs = self.signs(np.full(L, -1), self.gaps, np.zeros(L, dtype=bool))
        return Signs(np.log(self.accept(signs.stored)), np.log(self.accept(signs.chain)))

    def limit_odd_share(self, residue: int, most: float) -> SequenceMixture:
        """The mixture in which at most this share of draws has an odd number of the residue outside of ties."""
        ties = tuple(tie for tie in self.ties if np.count_nonzero(tie.residues == residue) % 2 == 0)
        mixture, L = replace(self, ties=ties, parity=Parity(residue, 1.0)), self.probabilities.shape[2]
        stored, chain = mixture.signs(np.full(L, -1), self.gaps, np.zeros(L, dtype=bool))
        odds = np.clip((1 - np.stack([stored, chain])) / 2, 0, 1)
        shares = np.array([1 - self.gaps.mixing, self.gaps.mixing])
        low, high = 0.0, 1.0
        if shares @ odds.mean(1) <= most:
            return self
        for _ in range(BISECTIONS):
            acceptance = (low + high) / 2
            share = shares @ (acceptance * odds / (1 - (1 - acceptance) * odds)).mean(1)
            low, high = (low, acceptance) if share > most else (acceptance, high)
        return replace(mixture, parity=Parity(residue, high))
