"""An exact mixture of distributions of aligned sequences, whose components have independent sites except for ties.

p(x) = mean_m p_m(x). Component m belongs to the stored sequence k_m. With probability 1 − `gaps.mixing` it has the gaps
of that sequence, otherwise those of a Markov chain. It draws a residue at each site without a gap from its own
probabilities, with two exceptions (see `patterns` for gaps and ties):

- The residues of a tie are all present or all absent, unless the tie is broken.
- Sequences with an odd number of one residue are accepted with probability `Parity.acceptance`, others always.
  Cysteines pair up in disulfide bonds, so an odd number is rare in families that have them. A rejected sequence is
  drawn again, from the same component and with gaps of the same kind.

The density is in closed form, and so is the distribution given the symbols of some sites, by Bayes' rule over
components. The weight of a component with gaps of one kind, those of its stored sequence or of the chain, is multiplied
by the probability of the given symbols: of residues, of ties, of gaps (`GapDistribution.condition`), and of the
acceptance of the parity. Other sites are then drawn as before. p(x | given) = p(x)/P(given), with P(given) in closed
form: in a pattern of the chain, a tie with given residues has one evidence without a gap and another one with a gap, so
a product over ties is a sum over the sets of ties without a gap. Parity counts only residues outside of ties, and ties
with an odd number of the residue are left out: other ties add an even number, unless they are broken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array, ArrayLike
from ...._backend.checks import check_count
from ....core.mixture import perplexity, pick
from ...generator import Description, Generated, few_sources
from .patterns import LEAST, GapDistribution, Tie, TieDistribution, probability_of_others, tie_presence
from .sequences import GAP, N_SYMBOLS, WeightedSequences, check_codes

BLOCK = 1024
"""Sequences drawn at a time. Blocks are always full, because rejected sequences take more numbers from the stream."""


class Parity(NamedTuple):
    """A residue, and the probability that a sequence with an odd number of it outside of ties is accepted."""

    residue: int
    acceptance: float

    def accept(self, sign: Array, probability: Array | float = 1.0) -> Array:
        """The probability of an event and of acceptance, from that of the event, and `sign`, E (−1)^N in the event."""
        return (1 + self.acceptance) / 2 * probability + (1 - self.acceptance) / 2 * sign


@dataclass(frozen=True, eq=False)
class SequenceDraws:
    """Draws of the components, with the gaps of their stored sequences or of the chain."""

    mixture: SequenceMixture
    gaps: GapDistribution  # conditioned on the gaps of `fixed`
    ties: tuple[TieDistribution, ...]
    weights: Array  # (M,) of the components
    by_chain: Array  # (M,) probability of the gaps of the chain
    fixed: Array  # (L,) the symbol that a site must have, −1 for free sites
    log_evidence: float = 0.0  # log P(given)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n sequences (n, L), and the stored sequence of each (n,). The first m of n are those of a call for m."""
        which, patterns, symbols = rng.spawn(3)
        L, cumulative = len(self.fixed), np.cumsum(self.weights)
        codes, source = np.empty((n, L), dtype=np.uint8), np.empty(n, dtype=np.intp)
        for begin in range(0, n, BLOCK):
            m = pick(cumulative, which.random(BLOCK))
            uniforms = patterns.random((BLOCK, L + 1), dtype=np.float32)
            by_chain = uniforms[:, -1] < self.by_chain[m]
            gaps = self._gaps(m, by_chain, uniforms[:, :-1], patterns)
            codes[begin : begin + BLOCK] = self._draw_with_parity(m, by_chain, gaps, patterns, symbols)[: n - begin]
            source[begin : begin + BLOCK] = self.mixture.memory[m][: n - begin]
        return codes, source

    def _gaps(self, m: Array, by_chain: Array, uniforms: Array, patterns: np.random.Generator) -> Array:
        """Gaps of components m (n,) at uniforms (n, L); those of the chain are drawn until ties accept them."""
        memory = self.mixture.memory
        gaps = self.gaps.sample(memory[m], by_chain, uniforms)
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
            gaps[left] = self.gaps.sample(memory[m[left]], np.ones(len(left), dtype=bool), again)
        return gaps

    def _draw_with_parity(
        self, m: Array, by_chain: Array, gaps: Array, patterns: np.random.Generator, symbols: np.random.Generator
    ) -> Array:
        """Sequences of components m (n,), drawn, with new gaps of the chain, until their parity is accepted."""
        codes, parity = self._draw(m, gaps, symbols), self.mixture.parity
        left = np.arange(0 if parity is None else len(m))
        while parity is not None and len(left):
            odd = self.mixture.is_odd(codes[left], parity)
            left = left[odd & (symbols.random(len(left)) >= parity.acceptance)]
            chains = left[by_chain[left]]
            uniforms = patterns.random((len(chains), len(self.fixed)), dtype=np.float32)
            gaps[chains] = self._gaps(m[chains], by_chain[chains], uniforms, patterns)
            codes[left] = self._draw(m[left], gaps[left], symbols)
        return codes

    def _draw(self, m: Array, gaps: Array, symbols: np.random.Generator) -> Array:
        """One draw of each component m (n,) with these gaps (n, L)."""
        (n, L), probabilities, below = gaps.shape, self.mixture.probabilities, self.mixture.below
        uniforms = symbols.random((n, L), dtype=np.float32)
        present = np.zeros((n, len(self.ties)), dtype=bool)
        for t, tie in enumerate(self.ties):
            first, uniform = symbols.random((2, n))
            complete = (~gaps[:, tie.tie.sites].any(1)).view(np.uint8)
            is_tied = first >= tie.broken[m, complete]
            present[:, t] = is_tied & (uniform < tie.present[m, complete])
            absent = np.flatnonzero(is_tied & ~present[:, t])
            for site, residue in zip(tie.tie.sites, tie.tie.residues, strict=True):  # skip the residue of the tie
                of_residue = probabilities[m[absent], residue, site]
                start = below[residue - 1, m[absent], site] if residue else np.zeros(len(absent), np.float32)
                u = uniforms[absent, site] * (1 - of_residue)
                uniforms[absent, site] = np.where(u < start, u, u + of_residue)
        codes, above = np.zeros((n, L), dtype=np.uint8), np.empty((n, L), dtype=bool)
        limits = np.empty((n, L), dtype=np.float32)  # one work array for all residues
        for sums in below:
            np.take(sums, m, axis=0, out=limits, mode="clip")  # this mode needs no buffer, and all m are in range
            np.less_equal(limits, uniforms, out=above)
            codes += above.view(np.uint8)
        for t, tie in enumerate(self.ties):
            codes[np.ix_(np.flatnonzero(present[:, t]), tie.tie.sites)] = tie.tie.residues
        codes[:, self.fixed >= 0] = self.fixed[self.fixed >= 0]
        codes[gaps] = GAP
        return codes


DENSITY_ENTRIES = 2**24  # numbers at a time, of (sequences, components) or (sequences, sites of all stored ones)
BISECTIONS = 50


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
        M, _, L = self.probabilities.shape
        nothing, shares = np.full(L, -1), np.full(M, self.gaps.mixing)
        ties = tuple(TieDistribution.of(tie, self.probabilities, self.broken, nothing) for tie in self.ties)
        return SequenceDraws(self, self.gaps, ties, np.full(M, 1 / M), shares, nothing)

    @cached_property
    def untied(self) -> Array:
        """Which sites are in no tie: (L,)."""
        mask = np.ones(self.probabilities.shape[2], dtype=bool)
        for tie in self.ties:
            mask[tie.sites] = False
        return mask

    def is_odd(self, codes: Array, parity: Parity) -> Array:
        """Whether sequences (n, L) have an odd number of the residue of the parity outside of ties: (n,)."""
        return np.asarray((codes[:, self.untied] == parity.residue).sum(1) % 2 == 1)

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
            result += np.where(self.is_odd(codes, self.parity), np.log(self.parity.acceptance), 0.0)
        return result

    def _log_gaps(self, gaps: Array) -> Array:
        """log P(gaps | m), over the probability that a sequence with such gaps is accepted: (n, L) -> (n, M)."""
        stored, chain = self.log_acceptance
        by_chain = (np.log(self.gaps.mixing) + self.gaps.log_chain(gaps))[:, None] - chain
        same = (gaps[:, None] == self.gaps.stored[None]).all(2)[:, self.memory]
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
            of_others = probability_of_others(self.probabilities, residue, site)
            without *= np.where(gap[:, s, None], 1.0, of_code / of_others)
        absent = np.where(gap.any(1)[:, None], 1.0, 1 - presence) * without
        tied = np.where(there.all(1)[:, None], presence, np.where(there.any(1)[:, None], 0.0, absent))
        return np.log(np.maximum((1 - self.broken) * tied + self.broken * single, LEAST))

    def signs(self, parity: Parity, fixed: Array) -> Array:
        """E (−1)^[site has the residue] in each component, 1 at sites that are `fixed` or in ties: (M, L)."""
        counted = self.untied & (fixed < 0)
        return np.where(counted, 1 - 2 * self.probabilities[:, parity.residue].astype(np.float64), 1.0)

    def mean_signs(self, parity: Parity) -> Array:
        """E (−1)^N with N the number of the residue outside of ties, for gaps of each kind: (2, M)."""
        signs = self.signs(parity, np.full(self.probabilities.shape[2], -1))
        stored = np.where(self.gaps.stored[self.memory], 1.0, signs).prod(1)
        return np.stack([stored, self.gaps.mean_product(signs, np.zeros(signs.shape[1], dtype=bool))])

    @cached_property
    def log_acceptance(self) -> Array:
        """log of the probability that a sequence is accepted, with gaps of each kind: (2, M)."""
        if self.parity is None:
            return np.zeros((2, len(self.memory)))
        return np.log(self.parity.accept(self.mean_signs(self.parity)))

    def limit_odd_share(self, residue: int, most: float) -> SequenceMixture:
        """The mixture in which at most this share of draws has an odd number of the residue outside of ties."""
        ties = tuple(tie for tie in self.ties if np.count_nonzero(tie.residues == residue) % 2 == 0)
        mixture, parity = replace(self, ties=ties), Parity(residue, 1.0)
        odds = np.clip((1 - mixture.mean_signs(parity)) / 2, 0, 1)
        shares = np.array([1 - self.gaps.mixing, self.gaps.mixing])
        low, high = 0.0, 1.0
        if shares @ odds.mean(1) <= most:
            return self
        for _ in range(BISECTIONS):
            acceptance = (low + high) / 2
            share = shares @ (acceptance * odds / (1 - (1 - acceptance) * odds)).mean(1)
            low, high = (low, acceptance) if share > most else (acceptance, high)
        return replace(mixture, parity=parity._replace(acceptance=high))


MAX_TIES, MIN_EXPLAINING = 10, 3
"""Largest number of ties that are conditioned in part; fewer stored sequences that explain a condition give a note."""


def _mean_acceptance(
    mixture: SequenceMixture, fixed: Array, gaps: GapDistribution, ties: tuple[TieDistribution, ...]
) -> tuple[Array, Array]:
    """E (evidence of ties · P(accepted)) in each component, with the gaps of its sequence and of the chain: (M,)."""
    M, L, parity = len(mixture.memory), len(fixed), mixture.parity
    stored, chain = np.ones(M), np.zeros(M)
    for tie in ties:
        complete = ~np.asarray(gaps.stored[:, tie.tie.sites].any(1))[mixture.memory]
        stored *= np.where(complete, tie.evidence[:, 1], tie.evidence[:, 0])
    if parity is not None:
        sign, signs = 1.0 - 2.0 * mixture.is_odd(fixed[None], parity), mixture.signs(parity, fixed)
        stored *= parity.accept(sign * np.where(gaps.stored[mixture.memory], 1.0, signs).prod(1))
    for factor, complete in _sets(ties, L):
        probability = gaps.mean_product(np.ones((1, L)), complete)
        if parity is not None:
            probability = parity.accept(sign * gaps.mean_product(signs, complete), probability)
        chain += factor * probability
    return stored, np.maximum(chain, 0.0)


def _sets(ties: tuple[TieDistribution, ...], L: int) -> Iterator[tuple[Array, Array]]:
    """Π_t (a_t + (b_t − a_t) 1[t has no gap]) as a sum over sets of ties without a gap: factors (M,), sites (L,)."""
    open_ties, shared = [], np.ones(1)
    for tie in ties:
        if (tie.evidence[:, 0] != tie.evidence[:, 1]).any():
            open_ties.append(tie)
        else:
            shared = shared * tie.evidence[:, 0]
    if len(open_ties) > MAX_TIES:
        rule = f"a condition may name some of the sites of at most {MAX_TIES} groups of residues that come together"
        raise ValueError(f"{rule}; got {len(open_ties)} groups. Name all of their sites, or fewer groups.")
    for chosen in product((False, True), repeat=len(open_ties)):
        factor, complete = shared, np.zeros(L, dtype=bool)
        for tie, without_gap in zip(open_ties, chosen, strict=True):
            with_gap, none = tie.evidence.T
            factor = factor * (none - with_gap if without_gap else with_gap)
            complete[tie.tie.sites] |= without_gap
        yield factor, complete


@dataclass(frozen=True, eq=False)
class ConditionedSequences:
    """A mixture of sequences given the symbols of some sites."""

    sequences: WeightedSequences
    mixture: SequenceMixture
    conditioned: Array  # (L,) the symbol that a site must have, −1 for free sites

    @cached_property
    def posterior(self) -> SequenceDraws:
        """Draws of the components, given the symbols."""
        mixture, fixed = self.mixture, self.conditioned
        ties = tuple(TieDistribution.of(tie, mixture.probabilities, mixture.broken, fixed) for tie in mixture.ties)
        forced = np.where(fixed < 0, -1, fixed == GAP)
        gaps, log_chain = mixture.gaps.condition(forced)
        consistent = (mixture.gaps.stored == forced)[:, fixed >= 0].all(1)[mixture.memory]
        stored, chain = _mean_acceptance(mixture, fixed, gaps, ties)
        sites = np.flatnonzero(mixture.untied & (fixed >= 0) & (fixed != GAP))
        with np.errstate(divide="ignore"):
            residues = np.maximum(np.log(mixture.probabilities[:, fixed[sites], sites].astype(np.float64)), -700).sum(1)
            by_stored = np.log1p(-gaps.mixing) + np.log(stored) - mixture.log_acceptance[0]
            by_chain = np.log(gaps.mixing) + log_chain + np.log(chain) - mixture.log_acceptance[1]
        by_gaps = np.stack([np.where(consistent, by_stored, -np.inf), by_chain], axis=1)
        logs = by_gaps + residues[:, None] - np.log(len(mixture.memory))
        total = float(np.logaddexp.reduce(logs, axis=None))
        if not np.isfinite(total):
            raise ValueError("the conditioned symbols cannot occur together. Condition on fewer of them.")
        by_kind = np.exp(logs - total)  # (M, 2) with the gaps of the stored sequence and with those of the chain
        weights = by_kind.sum(1)
        return SequenceDraws(mixture, gaps, ties, weights, by_kind[:, 1] / np.maximum(weights, LEAST), fixed, total)

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        codes, source = self.posterior.sample(check_count("n", n, at_least=0), rng)
        return Generated(codes, self.sequences.indices[source])

    def condition(self, observation: Mapping[int, int]) -> ConditionedSequences:
        """The mixture given symbols by site, counted from 0: {site: code}."""
        conditioned = self.conditioned.copy()
        for site, code in observation.items():  # which `ProteinCodec.condition` has checked
            conditioned[site] = code
        result = ConditionedSequences(self.sequences, self.mixture, conditioned)
        result.posterior  # noqa: B018  # so that an impossible condition is an error now, not at the first draw
        return result

    def log_density(self, codes: ArrayLike) -> Array:
        """Natural log p(x | given) of sequences (n, L), −inf if a given symbol differs: (n,)."""
        codes = check_codes(codes, len(self.conditioned))
        is_conditioned = self.conditioned >= 0
        result = self.mixture.log_density(codes) - self.posterior.log_evidence
        return np.where((codes[:, is_conditioned] == self.conditioned[is_conditioned]).all(1), result, -np.inf)

    def describe(self) -> Description:
        n, K = int((self.conditioned >= 0).sum()), len(self.sequences.codes)
        weights = np.bincount(self.mixture.memory, self.posterior.weights, K)
        n_explaining = perplexity(np.log(np.maximum(weights, LEAST)))
        few = n > 0 and n_explaining < MIN_EXPLAINING and K >= 2 * MIN_EXPLAINING
        notes = (f"{few_sources(n_explaining, 'sequence')}.",) if few else ()
        condition_text = f", given {n} conditioned site{'s' if n > 1 else ''} (exact)" if n else ""
        return Description("latent", f"calibrated latent{condition_text}", notes)
