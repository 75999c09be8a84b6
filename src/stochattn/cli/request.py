"""From the options of a command to a synthesizer, and from texts to the stored items that they select."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._backend.arrays import Array
from .._backend.state import Plain
from ..data.base import Codec
from ..data.kind import AUTO, AnyKind
from ..data.options import InputError, listed
from ..data.registry import kind_for
from ..data.summary import Asked
from ..synthesizer import Synthesizer, fit
from .kind_options import KindOptions


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
    def of(
        cls,
        options: KindOptions,
        source: Path,
        given: Mapping[str, Plain],
        *,
        kind: str | None = None,
        default_kind: str | None = None,
        generator: str | None = None,
        **texts: Sequence[str] | None,
    ) -> Request:
        """Recognise the kind of data unless it is named, and check the options against it.

        given: options that kinds of data declare, by parameter; texts: conditions, subset and weight, as in `Asked`
        """
        named = default_kind if kind is None else kind
        found = kind_for(source, named)
        chosen = options.chosen(found, given, source)
        asked = Asked(chosen, **{name: tuple(several or ()) for name, several in texts.items()})
        return cls(options, source, found, AUTO if generator is None else generator, asked, recognised=named is None)

    def synthesizer(self, n_jobs: int | None = None) -> Synthesizer:
        """Read the input, and apply the conditions, the subset and the weights; n_jobs as in `fit`."""
        values = self.options.values(self.kind, self.asked.options)
        named = None if self.recognised else self.kind.name
        synth = fit(self.source, named, generator=self.generator, n_jobs=n_jobs, **values)
        kind, codec = synth.kind, synth.codec
        if self.asked.subset:
            synth = synth.subset(np.logical_or.reduce([select(kind, codec, text) for text in self.asked.subset]))
        for text in self.asked.weight:
            synth = synth.weight(*weighting(kind, codec, text))
        if self.asked.conditions:
            synth = synth.condition(kind.parse_condition(codec, self.asked.conditions))
        return synth

    def words(self) -> list[str]:
        """The options to type for the same synthesizer."""
        words = [] if kind_for(self.source).name == self.kind.name else ["--kind", self.kind.name]
        if self.generator not in (AUTO, next(iter(self.kind.generators))):
            words += ["--generator", self.generator]
        words += self.options.words(self.kind, self.asked.options)
        texts = {"--subset": self.asked.subset, "--weight": self.asked.weight, "--condition": self.asked.conditions}
        return words + [word for flag, several in texts.items() for text in several for word in (flag, text)]


def select(kind: AnyKind, codec: Codec, text: str, option: str = "--subset") -> Array:
    """The stored items that a text selects: (K,) booleans, at least one of them true.

    A file of ids (one per line), NAME=VALUE where the kind of data has named values, the name of a class, an id, or a
    regular expression that matches a part of an id, in this order.
    """
    selected = _selected(kind, codec, text, option)
    if not selected.any():
        classes = sorted(set(codec.labels or ()))
        known = f"The classes are {listed(classes, 6)}." if classes else f"Ids: {listed(codec.ids, 6)}."
        raise InputError(f"{option} {text!r} matches none of the {codec.K} stored {kind.items}. {known}")
    return selected


def weighting(kind: AnyKind, codec: Codec, text: str) -> tuple[float, Array]:
    """SELECTION:RATIO as the ratio and the selected items (K,)."""
    selection, _, ratio = text.rpartition(":")
    try:
        value = float(ratio)
    except ValueError:
        value = math.nan
    if not selection or not 0 < value < math.inf:
        raise InputError(f"--weight {text!r} must be a selection and a positive ratio, such as 'setosa:5'.")
    return value, select(kind, codec, selection, "--weight")


def _selected(kind: AnyKind, codec: Codec, text: str, option: str) -> Array:
    if os.path.isfile(text):
        return _listed(kind, codec, Path(text), option)
    name, equals, value = text.partition("=")
    named = kind.select(codec, name, value) if equals else None
    if named is not None:
        return np.asarray(named, dtype=bool)
    parts = [part for part, _ in kind.column_types(codec)]
    if equals and parts:
        raise InputError(f"{option} {text!r}: there is no {kind.part} {name!r}; there are {listed(parts, 6)}.")
    if codec.labels is not None and text in codec.labels:
        return np.array(codec.labels) == text
    if text in codec.ids:  # an id as it is written wins over the longer ones that contain it
        return np.array(codec.ids) == text
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(
            f"{option} {text!r} is not a regular expression ({error}): write one that matches ids."
        ) from None
    return np.array([pattern.search(identifier) is not None for identifier in codec.ids])


def _listed(kind: AnyKind, codec: Codec, path: Path, option: str) -> Array:
    try:
        wanted = {line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()}
    except (OSError, UnicodeDecodeError) as error:
        reason = type(error).__name__
        raise InputError(f"{option} {path} is not a list of ids ({reason}): write one id per line.") from None
    unknown = sorted(wanted - set(codec.ids))
    if unknown:
        which = f"{unknown[0]!r} is not among the stored {kind.items}"
        raise InputError(f"{option} {path}: {which} ({len(unknown)} such lines).")
    return np.array([identifier in wanted for identifier in codec.ids])
