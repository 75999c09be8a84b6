"""What beta does: entropy of attention and novelty of draws over a range of beta, and the betas that rules choose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from .._backend.quiet import quietly
from ..core import temperature
from ..core.neighbors import evenly
from ..core.temperature import RULES, BetaRule
from ..generators.hopfield import Hopfield
from .fields import Mark
from .sliders import beta_range

N_BETAS, N_NOVELTIES, MAX_PROBES = 60, 24, 128
ABOUT_RULES = {
    BetaRule.NATURAL: "draws are as far from the stored items as these are from each other",
    BetaRule.INFLECTION: "where attention turns sharp (Eq. 11)",
    BetaRule.KNEE: "the rule of the published scripts",
    BetaRule.LEAVE_ONE_OUT: "the likeliest beta for each item given the others",
}


class Curve(NamedTuple):
    """Mean entropy of attention in nats over betas (m,), and mean novelty of draws over fewer betas (k,)."""

    beta: Array
    entropy: Array
    novelty_beta: Array
    novelty: Array


def entropy_and_novelty(hopfield: Hopfield) -> Curve:
    """Both curves, from diffuse attention to recall."""
    bank, equal = hopfield.bank.active, hopfield.embedding.equal_weights
    betas = np.geomspace(*beta_range(hopfield), N_BETAS)
    probes = bank.patterns[evenly(bank.K, MAX_PROBES)]
    with quietly():
        entropy = temperature.entropy_curve(bank, betas, probes).entropy
        novelty = temperature.novelty_curve(bank, equal_weights=equal)
        some = betas[evenly(N_BETAS, N_NOVELTIES)]
        return Curve(betas, entropy, some, np.array([novelty(float(beta)) for beta in some]))


def marks(hopfield: Hopfield) -> Iterator[Mark]:
    """The beta of each rule that finds one, as soon as it is found."""
    bank, equal = hopfield.bank.active, hopfield.embedding.equal_weights
    for rule in RULES:
        with quietly():
            try:
                beta = temperature.by_rule(bank, rule, equal_weights=equal)
            except ValueError:  # this rule finds none for these memories: the slider has no such mark
                continue
        yield Mark(rule.replace("_", "-"), beta, ABOUT_RULES[rule])
