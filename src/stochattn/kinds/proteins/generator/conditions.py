"""The exact distribution of new sequences given the symbols of some sites, by Bayes' rule over mixture components.

The weight of a component with gaps of one kind, those of its stored sequence or of the chain, is multiplied by the
probability of the given symbols: of residues, of ties (see `conserved`), of gaps (`GapDistribution.condition`), and of
the acceptance of the parity. Other sites are then drawn as before. p(x | given) = p(x)/P(given), with P(given) in
closed form: in a pattern of the chain, a tie with given residues has one evidence without a gap and another one with a
gap, so a product over ties is a sum over the sets of ties without a gap.
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
from .conserved import LEAST, TieDistribution
from .gaps import GapDistribution
from .mixture import SequenceDraws, SequenceMixture
from .sequences import GAP, WeightedSequences, check_codes

MAX_TIES, MIN_EXPLAINING = 10, 3
"""Largest number of ties that are conditioned in part; fewer stored sequences that explain a condition give a note."""


class ConditionalPosterior(NamedTuple):
    """The components given symbols."""

    log_weights: Array  # (M, 2) normalized, with the gaps of the stored sequence and with those of the chain
    log_evidence: float  # log P(given)
    gaps: GapDistribution
    ties: tuple[TieDistribution, ...]


def posterior(mixture: SequenceMixture, fixed: Array) -> ConditionalPosterior:
    """The components of a mixture given the codes `fixed` (L,), −1 for free sites."""
    ties = tuple(TieDistribution.of(tie, mixture.probabilities, mixture.broken, fixed) for tie in mixture.ties)
    forced = np.where(fixed < 0, -1, fixed == GAP)
    gaps, log_chain = mixture.gaps.condition(forced)
    consistent = (mixture.gaps.stored == forced)[:, fixed >= 0].all(1)[mixture.memory]
    stored, chain = _mean_acceptance(mixture, fixed, gaps, ties)
    sites = np.flatnonzero(mixture.untied & (fixed >= 0) & (fixed != GAP))
    with np.errstate(divide="ignore"):
        residues = np.maximum(np.log(mixture.probabilities[:, fixed[sites], sites].astype(np.float64)), -700).sum(1)
        by_gaps = np.stack(
            [
                np.where(
                    consistent, np.log1p(-mixture.gaps.mixing) + np.log(stored) - mixture.log_acceptance.stored, -np.inf
                ),
                np.log(mixture.gaps.mixing) + log_chain + np.log(chain) - mixture.log_acceptance.chain,
            ],
            axis=1,
        )
    logs = by_gaps + residues[:, None] - np.log(len(mixture.memory))
    total = float(np.logaddexp.reduce(logs, axis=None))
    if not np.isfinite(total):
        raise ValueError("the conditioned symbols cannot occur together. Condition on fewer of them.")
    return ConditionalPosterior(logs - total, total, gaps, ties)


def _mean_acceptance(
    mixture: SequenceMixture, fixed: Array, gaps: GapDistribution, ties: tuple[TieDistribution, ...]
) -> tuple[Array, Array]:
    """E (evidence of ties · P(accepted)) in each component, with the gaps of its sequence and of the chain: (M,)."""
    sign = 1.0
    if mixture.parity is not None:
        sign = 1.0 - 2.0 * (np.count_nonzero((fixed == mixture.parity.residue) & mixture.untied) % 2)
    M, L = len(mixture.memory), len(fixed)
    evidence = np.ones(M)
    for tie in ties:
        complete = ~np.asarray(gaps.stored[:, tie.tie.sites].any(1))[mixture.memory]
        evidence *= np.where(complete, tie.evidence[:, 1], tie.evidence[:, 0])
    stored, chain = evidence, np.zeros(M)
    if mixture.parity is not None:
        stored = stored * mixture.accept(sign * mixture.signs(fixed, gaps, np.zeros(L, dtype=bool)).stored)
    for factor, complete in _sets(ties, L):
        probability = gaps.mean_product(np.ones((1, L)), complete)
        if mixture.parity is None:
            chain += factor * probability
        else:
            acceptance, with_sign = mixture.parity.acceptance, sign * mixture.signs(fixed, gaps, complete).chain
            chain += factor * ((1 + acceptance) / 2 * probability + (1 - acceptance) / 2 * with_sign)
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

    @classmethod
    def of(cls, sequences: WeightedSequences, mixture: SequenceMixture) -> ConditionedSequences:
        """The mixture before any condition."""
        return cls(sequences, mixture, np.full(sequences.codes.shape[1], -1))

    @cached_property
    def posterior(self) -> ConditionalPosterior:
        """The components, given the symbols."""
        return posterior(self.mixture, self.conditioned)

    @cached_property
    def _draws(self) -> SequenceDraws:
        mixture, weights = self.mixture, np.exp(self.posterior.log_weights)
        totals = weights.sum(1)
        by_chain, ties = weights[:, 1] / np.maximum(totals, LEAST), self.posterior.ties
        gaps, fixed = self.posterior.gaps, self.conditioned
        return SequenceDraws(
            mixture.memory, mixture.probabilities, mixture.below, gaps, ties, mixture.parity, totals, by_chain, fixed
        )

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n independent sequences (n, L), and the index of the stored sequence that each was drawn around (n,)."""
        codes, source = self._draws.sample(check_count("n", n, at_least=0), rng)
        return Generated(codes, self.sequences.indices[source])

    def condition(self, observation: Mapping[int, int]) -> ConditionedSequences:
        """The mixture given symbols by site, counted from 0: {site: code}."""
        conditioned, (_, q, L) = self.conditioned.copy(), self.mixture.probabilities.shape
        for site, symbol in observation.items():
            if check_count("a conditioned site", site, at_least=0) > L - 1:
                raise ValueError(f"a conditioned site must be at most {L - 1}, counted from 0; got {site}.")
            code = int(check_codes([[symbol]], 1)[0, 0])
            if q <= code < GAP:
                raise ValueError(f"a conditioned code must be a letter, below {q}, or {GAP} for a gap; got {code}.")
            if conditioned[site] not in (-1, code):
                raise ValueError(f"site {site} is conditioned on another symbol already. Condition on one of the two.")
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
        """The condition, with a note if few stored sequences explain it."""
        n, K = int((self.conditioned >= 0).sum()), len(self.sequences.codes)
        weights = np.bincount(self.mixture.memory, np.exp(self.posterior.log_weights).sum(1), K)
        n_explaining = perplexity(np.log(np.maximum(weights, LEAST)))
        few = n > 0 and n_explaining < MIN_EXPLAINING and K >= 2 * MIN_EXPLAINING
        notes = (f"{few_sources(n_explaining, 'sequence')}.",) if few else ()
        condition_text = f", given {n} conditioned site{'s' if n > 1 else ''} (exact)" if n else ""
        return Description("latent", f"calibrated latent{condition_text}", notes)
