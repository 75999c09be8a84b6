"""From the options of a command to a synthesizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..data.kind import AUTO, AnyKind
from ..data.registry import kind_of, recognise_file
from ..data.summary import Asked, Summary
from ..synthesizer import Synthesizer, fit
from .kind_options import KindOptions, Raw
from .selection import select, weighting


@dataclass(frozen=True)
class Choices:
    """What several commands ask about an input.

    kind:  the name of a kind of data, or None to recognise it
    given: options that kinds of data declare, by parameter
    """

    kind: str | None = None
    generator: str = AUTO
    conditions: tuple[str, ...] = ()
    subset: tuple[str, ...] = ()
    weight: tuple[str, ...] = ()
    given: Mapping[str, Raw] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """The synthesizer that a user asks for, before its input is read."""

    options: KindOptions
    source: Path
    kind: AnyKind
    generator: str
    asked: Asked
    recognised: bool = False

    @classmethod
    def of(cls, options: KindOptions, source: Path, choices: Choices) -> Request:
        """Recognise the kind of data, and check the options against it."""
        kind = recognise_file(source) if choices.kind is None else kind_of(choices.kind)
        chosen = options.chosen(kind, choices.given, str(source))
        asked = Asked(chosen, choices.conditions, choices.subset, choices.weight)
        return cls(options, source, kind, choices.generator, asked, recognised=choices.kind is None)

    @classmethod
    def again(cls, options: KindOptions, source: Path, summary: Summary) -> Request:
        """The request that a summary records."""
        return cls(options, source, kind_of(summary.kind), summary.generator, summary.asked)

    def synthesizer(self) -> Synthesizer:
        """Read the input, and apply the conditions, the subset and the weights."""
        values = self.options.values(self.kind, self.asked.options)
        synth = fit(self.source, None if self.recognised else self.kind.name, generator=self.generator, **values)
        kind, codec = synth.kind, synth.codec
        if self.asked.subset:
            chosen = [select(kind, codec, text) for text in self.asked.subset]
            synth = synth.subset(np.logical_or.reduce(chosen))
        for text in self.asked.weight:
            synth = synth.weight(*weighting(kind, codec, text))
        if self.asked.conditions:
            synth = synth.condition(kind.parse_condition(codec, self.asked.conditions))
        return synth

    def words(self) -> list[str]:
        """The options to type for the same synthesizer."""
        words = [] if recognise_file(self.source).name == self.kind.name else ["--kind", self.kind.name]
        if self.generator not in (AUTO, next(iter(self.kind.generators))):
            words += ["--generator", self.generator]
        words += self.options.words(self.kind, self.asked.options)
        for flag, texts in (
            ("--subset", self.asked.subset),
            ("--weight", self.asked.weight),
            ("--condition", self.asked.conditions),
        ):
            words += [word for text in texts for word in (flag, text)]
        return words
