"""The law of new sequences given the symbols of some sites, exactly: Bayes' rule over the components of the mixture.

A component with gaps of one kind, those of its stored sequence or of the chain, weighs as much as it explains the given
symbols: by the probabilities of the residues, of ties (`ties`), of gaps (`GapLaw.given`), and of being kept for its
parity. Other sites are then drawn as before. p(x | given) = p(x)/P(given) with P(given) in closed form: in a pattern of
the chain, a tie with some given residues has one evidence if it has no gap and another one otherwise, so a product over
ties is a sum over sets of them that have no gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array, ArrayLike
from ...._backend.checks import check_count
from ....core.mixture import perplexity
from ...generator import Description, Generated, few_sources
from .conserved import LEAST, TieLaw
from .gaps import GapLaw
from .mixture import SequenceDraws, SequenceMixture
from .sequences import GAP, WeightedSequences, checked_codes

MAX_TIES, MIN_EXPLAINING = 10, 3
"""Ties that are given in part, at most; a note tells when fewer stored sequences explain a condition."""


class ConditionalPosterior(NamedTuple):
    """What is known of the components given symbols."""

    log_weights: Array  # (M, 2) with the gaps of the stored sequence, with those of the chain; normalised
    log_evidence: float  # log P(given)
    gaps: GapLaw
    ties: tuple[TieLaw, ...]


def posterior(law: SequenceMixture, fixed: Array) -> ConditionalPosterior:
    """The components of a mixture given the codes `fixed` (L,), −1 where nothing is given."""
    ties = tuple(TieLaw.of(tie, law.probabilities, law.broken, fixed) for tie in law.ties)
    forced = np.where(fixed < 0, -1, fixed == GAP)
    gaps, log_chain = law.gaps.given(forced)
    consistent = (law.gaps.stored == forced)[:, fixed >= 0].all(1)[law.memory]
    stored, chain = _kept(law, fixed, gaps, ties)
    sites = np.flatnonzero(law.untied & (fixed >= 0) & (fixed != GAP))
    with np.errstate(divide="ignore"):
        residues = np.maximum(np.log(law.probabilities[:, fixed[sites], sites].astype(np.float64)), -700).sum(1)
        found = np.stack(
            [
                np.where(consistent, np.log1p(-law.gaps.mixing) + np.log(stored) - law.log_kept.stored, -np.inf),
                np.log(law.gaps.mixing) + log_chain + np.log(chain) - law.log_kept.chain,
            ],
            axis=1,
        )
    logs = found + residues[:, None] - np.log(len(law.memory))
    total = float(np.logaddexp.reduce(logs, axis=None))
    if not np.isfinite(total):
        raise ValueError("the conditioned symbols cannot occur together. Condition on fewer of them.")
    return ConditionalPosterior(logs - total, total, gaps, ties)


def _kept(law: SequenceMixture, fixed: Array, gaps: GapLaw, ties: tuple[TieLaw, ...]) -> tuple[Array, Array]:
    """E (evidence of ties · P(kept)) in each component, with the gaps of the stored sequence and of the chain: (M,)."""
    sign = 1.0
    if law.parity is not None:
        sign = 1.0 - 2.0 * (np.count_nonzero((fixed == law.parity.residue) & law.untied) % 2)
    M, L = len(law.memory), len(fixed)
    evidence = np.ones(M)
    for tie_law in ties:
        complete = ~np.asarray(gaps.stored[:, tie_law.tie.sites].any(1))[law.memory]
        evidence *= np.where(complete, tie_law.evidence[:, 1], tie_law.evidence[:, 0])
    stored, chain = evidence, np.zeros(M)
    if law.parity is not None:
        stored = stored * law.kept(sign * law.signs(fixed, gaps, np.zeros(L, dtype=bool)).stored)
    for factor, complete in _sets(ties, L):
        probability = gaps.mean_product(np.ones((1, L)), complete)
        if law.parity is None:
            chain += factor * probability
        else:
            kept, with_sign = law.parity.kept, sign * law.signs(fixed, gaps, complete).chain
            chain += factor * ((1 + kept) / 2 * probability + (1 - kept) / 2 * with_sign)
    return stored, np.maximum(chain, 0.0)


def _sets(ties: tuple[TieLaw, ...], L: int) -> Iterator[tuple[Array, Array]]:
    """Π_t (a_t + (b_t − a_t) 1[t has no gap]) as a sum over sets of ties without a gap: factors (M,), sites (L,)."""
    open_ties, whole = [], np.ones(1)
    for law in ties:
        if (law.evidence[:, 0] != law.evidence[:, 1]).any():
            open_ties.append(law)
        else:
            whole = whole * law.evidence[:, 0]
    if len(open_ties) > MAX_TIES:
        rule = f"a condition may name some of the sites of at most {MAX_TIES} groups of residues that come together"
        raise ValueError(f"{rule}; got {len(open_ties)} groups. Name all of their sites, or fewer groups.")
    for chosen in product((False, True), repeat=len(open_ties)):
        factor, complete = whole, np.zeros(L, dtype=bool)
        for tie_law, without_gap in zip(open_ties, chosen, strict=True):
            some, none = tie_law.evidence.T
            factor = factor * (none - some if without_gap else some)
            complete[tie_law.tie.sites] |= without_gap
        yield factor, complete


@dataclass(frozen=True, eq=False)
class ConditionedSequences:
    """A mixture of sequences given the symbols of some sites."""

    sequences: WeightedSequences
    law: SequenceMixture
    conditioned: Array  # (L,) the symbol that a site must have, −1 where it is free

    @classmethod
    def of(cls, sequences: WeightedSequences, law: SequenceMixture) -> ConditionedSequences:
        """The mixture before any condition."""
        return cls(sequences, law, np.full(sequences.codes.shape[1], -1))

    @cached_property
    def posterior(self) -> ConditionalPosterior:
        """The components, given the symbols."""
        return posterior(self.law, self.conditioned)

    @cached_property
    def _draws(self) -> SequenceDraws:
        law, weights = self.law, np.exp(self.posterior.log_weights)
        totals = weights.sum(1)
        by_chain, ties = weights[:, 1] / np.maximum(totals, LEAST), self.posterior.ties
        gaps, fixed = self.posterior.gaps, self.conditioned
        return SequenceDraws(law.memory, law.probabilities, law.below, gaps, ties, law.parity, totals, by_chain, fixed)

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n independent sequences (n, L), and the index of the stored sequence that each was drawn around (n,)."""
        codes, source = self._draws.sample(check_count("n", n, at_least=0), rng)
        return Generated(codes, self.sequences.indices[source])

    def condition(self, observation: Mapping[int, int]) -> ConditionedSequences:
        """The law given symbols by site, counted from 0: {site: code}."""
        conditioned, (_, q, L) = self.conditioned.copy(), self.law.probabilities.shape
        for site, symbol in observation.items():
            if check_count("a conditioned site", site, at_least=0) > L - 1:
                raise ValueError(f"a conditioned site must be at most {L - 1}, counted from 0; got {site}.")
            code = int(checked_codes([[symbol]], 1)[0, 0])
            if q <= code < GAP:
                raise ValueError(f"a conditioned code must be a letter, below {q}, or {GAP} for a gap; got {code}.")
            if conditioned[site] not in (-1, code):
                raise ValueError(f"site {site} is conditioned on another symbol already. Condition on one of the two.")
            conditioned[site] = code
        given = ConditionedSequences(self.sequences, self.law, conditioned)
        given.posterior  # noqa: B018  # what cannot occur is an error now, before anything is drawn
        return given

    def log_density(self, codes: ArrayLike) -> Array:
        """log p(x | given) of sequences, natural logarithm; −inf where a given symbol differs: (n, L) -> (n,)."""
        codes = checked_codes(codes, len(self.conditioned))
        given = self.conditioned >= 0
        found = self.law.log_density(codes) - self.posterior.log_evidence
        return np.where((codes[:, given] == self.conditioned[given]).all(1), found, -np.inf)

    def describe(self) -> Description:
        """The condition, with a note where few stored sequences explain it."""
        n, K = int((self.conditioned >= 0).sum()), len(self.sequences.codes)
        weights = np.bincount(self.law.memory, np.exp(self.posterior.log_weights).sum(1), K)
        n_explaining = perplexity(np.log(np.maximum(weights, LEAST)))
        few = n > 0 and n_explaining < MIN_EXPLAINING and K >= 2 * MIN_EXPLAINING
        notes = (f"{few_sources(n_explaining, 'sequence')}.",) if few else ()
        given = f", given {n} conditioned site{'s' if n > 1 else ''} (exact)" if n else ""
        return Description("latent", f"calibrated latent{given}", notes)
