"""The rules that choose beta, and a beta with the rule that chose it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BetaRule(StrEnum):
    """The rule that chose beta.

    >>> import stochattn as sa
    >>> [rule.value for rule in sa.temperature.RULES]
    ['natural', 'inflection', 'knee', 'leave_one_out']
    """

    GIVEN = "given"
    NOVELTY = "novelty"
    NATURAL = "natural"
    INFLECTION = "inflection"
    KNEE = "knee"
    LEAVE_ONE_OUT = "leave_one_out"


RULES = (BetaRule.NATURAL, BetaRule.INFLECTION, BetaRule.KNEE, BetaRule.LEAVE_ONE_OUT)
"""The rules that choose beta from the memories alone."""


@dataclass(frozen=True)
class Temperature:
    """An inverse temperature and the rule that chose it; `novelty` is the target of the rule of that name.

    >>> import stochattn as sa
    >>> sa.temperature.Temperature(20.0)
    Temperature(beta=20.0, rule=<BetaRule.GIVEN: 'given'>, novelty=None)
    """

    beta: float
    rule: BetaRule = BetaRule.GIVEN
    novelty: float | None = None

    def __str__(self) -> str:
        if self.rule is BetaRule.NOVELTY:
            return f"for novelty {self.novelty:g}"
        return "given" if self.rule is BetaRule.GIVEN else f'"{self.rule}"'
