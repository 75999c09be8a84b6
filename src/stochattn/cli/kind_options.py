"""Options of the command line that the registered kinds of data declare, for reading and for their generators."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, get_type_hints

import typer

from .._backend.state import Plain
from ..data.kind import AnyKind
from ..data.options import InputError, OptionHelp, option_fields
from .values import Shape, parse, placeholder, shape_of

GENERATOR = "Generator"
"""The help panel of options that several kinds of data have; an option of one kind is in a panel of that kind."""
RESERVED = frozenset(
    {"--out", "--seed", "--kind", "--generator", "--condition", "--subset", "--weight", "--format", "--stream"}
    | {"--replace", "--json", "--png", "--help"}
)
"""Options of the commands themselves."""
Raw = bool | str | Sequence[str]
"""What a parser of command lines returns for an option that was given."""


@dataclass(frozen=True)
class KindOption:
    """An option of the command line, and the field of options that it sets in each kind of data that has it.

    fields: name and type of the field, by name of the kind
    """

    flag: str
    shape: Shape
    help: OptionHelp
    fields: Mapping[str, tuple[str, object]]
    panel: str

    @property
    def parameter(self) -> str:
        """Its name as a parameter, which no parameter of a command itself has."""
        return f"kind_option_{self.flag.strip('-').replace('-', '_')}"

    @property
    def form(self) -> str:
        """What a value looks like."""
        if self.help.metavar:
            return self.help.metavar
        annotation = next(iter(self.fields.values()))[1]
        return "|".join(self.help.choices) if self.help.choices else placeholder(annotation)

    def as_parameter(self) -> inspect.Parameter:
        """A parameter of a command, as typer reads it."""
        types_: dict[Shape, object] = {Shape.SWITCH: bool | None, Shape.VALUE: str | None}
        flag = f"{self.flag}/--no-{self.flag[2:]}" if self.shape is Shape.SWITCH else self.flag
        said = typer.Option(
            flag,
            help=self.help.text,
            rich_help_panel=self.panel,
            show_default=False,
            metavar=None if self.shape is Shape.SWITCH else self.form,
        )
        annotation = Annotated[types_.get(self.shape, list[str] | None), said]  # type: ignore[valid-type]
        return inspect.Parameter(self.parameter, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)

    def words(self, given: Plain) -> list[str]:
        """What to type for a value that was given."""
        if isinstance(given, bool):
            return [self.flag if given else f"--no-{self.flag[2:]}"]
        texts = given if isinstance(given, list | tuple) else [given]
        return [word for text in texts for word in (self.flag, str(text))]


@dataclass(frozen=True)
class KindOptions:
    """All options that kinds of data declare."""

    options: tuple[KindOption, ...]

    @classmethod
    def of(cls, kinds: Sequence[AnyKind]) -> KindOptions:
        """Those of these kinds; options of one name and shape are one option."""
        found: dict[str, KindOption] = {}
        for kind in kinds:
            for name, annotation, about in _declared(kind):
                flag = "--" + (about.flag or name.replace("_", "-")).lstrip("-")
                shape = shape_of(annotation)
                if flag in RESERVED or (flag in found and found[flag].shape is not shape):
                    flag = f"--{kind.name}-{flag[2:]}"
                known = found.get(flag)
                if known is None:
                    panel = kind.items.capitalize()
                    found[flag] = KindOption(flag, shape, about, {kind.name: (name, annotation)}, panel)
                elif kind.name not in known.fields:
                    fields = {**known.fields, kind.name: (name, annotation)}
                    said = known.help if known.help.text == about.text else _without_default(known.help)
                    found[flag] = replace(known, help=said, fields=fields, panel=GENERATOR)
        shared = [one for one in found.values() if one.panel == GENERATOR]
        return cls((*shared, *(one for one in found.values() if one.panel != GENERATOR)))

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """All of them as parameters of a command."""
        return [one.as_parameter() for one in self.options]

    def chosen(self, kind: AnyKind, given: Mapping[str, Raw], source: str) -> dict[str, Plain]:
        """Options that were given, by the name of their field, as plain values; InputError for those of other kinds."""
        found: dict[str, Plain] = {}
        for one in self.options:
            if one.parameter not in given:
                continue
            if kind.name not in one.fields:
                kinds = " and ".join(one.fields)
                raise InputError(
                    f"{one.flag} is an option of {kinds} data, and {source} is read as {kind.name} data: leave it out, "
                    "or name another kind with --kind."
                )
            name, annotation = one.fields[kind.name]
            raw = given[one.parameter]
            value = parse(annotation, raw, one.flag, one.form)
            found[name] = value if isinstance(value, bool | int | float | str) else raw
        return found

    def values(self, kind: AnyKind, chosen: Mapping[str, Plain]) -> dict[str, object]:
        """Plain values, such as `chosen` returns and a summary holds, as values of the types that the kind declares."""
        found = {}
        for name, value in chosen.items():
            one, annotation = self._of_field(kind, name)
            texts: Raw = value if isinstance(value, bool) else str(value)
            if isinstance(value, list | tuple):
                texts = [str(text) for text in value]
            found[name] = parse(annotation, texts, one.flag, one.form)
        return found

    def words(self, kind: AnyKind, chosen: Mapping[str, Plain]) -> list[str]:
        """What to type for them."""
        return [word for name, value in chosen.items() for word in self._of_field(kind, name)[0].words(value)]

    def _of_field(self, kind: AnyKind, name: str) -> tuple[KindOption, object]:
        for one in self.options:
            field, annotation = one.fields.get(kind.name, ("", None))
            if field == name:
                return one, annotation
        raise InputError(f"{name} is not an option of {kind.name} data.")


def _declared(kind: AnyKind) -> Iterator[tuple[str, object, OptionHelp]]:
    """Name, type and help of the options of a kind: those of reading, then those of its generators."""
    for declared in (kind.codec_options, *kind.generators.values()):
        hints = get_type_hints(declared)
        for name, (_, about) in option_fields(declared).items():
            yield name, hints[name], about


def _without_default(about: OptionHelp) -> OptionHelp:
    """The help of an option whose default depends on the kind of data, and so cannot be shown."""
    return replace(about, text=re.sub(r" \[[^\]]*\]$", "", about.text))
