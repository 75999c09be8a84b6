"""Options that the kinds of data declare as options of the command line, and texts as values of their types.

Messages of the library in the words of the command line: what Python calls `beta=3` a user types as `--beta 3`.
"""

from __future__ import annotations

import re
import shlex
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter
from pathlib import Path
from typing import Annotated, NamedTuple, Union, get_args, get_origin, get_type_hints

import typer

from .._backend.state import Plain
from ..kinds.description import KindDescription
from ..kinds.options import InputError, OptionHelp, option_fields

GENERATOR = "Generator"
"""The help panel of options that several kinds of data have; an option of one kind is in a panel of that kind."""
RESERVED = frozenset(
    {"--out", "--seed", "--kind", "--generator", "--condition", "--subset", "--weight", "--format", "--stream"}
    | {"--trial", "--replace", "--json", "--png", "--help"}
)
"""Options of the commands themselves."""
_WORDS: Mapping[object, tuple[str, str]] = {
    int: ("INTEGER", "a whole number"),
    float: ("NUMBER", "a number"),
    Path: ("PATH", "a path"),
}


class Shape(Enum):
    """How an option is written."""

    SWITCH = "--x or --no-x"
    VALUE = "--x VALUE"
    REPEATED = "--x NAME=VALUE, once or more often"


_TYPES: Mapping[Shape, object] = {Shape.SWITCH: bool | None, Shape.VALUE: str | None, Shape.REPEATED: list[str] | None}
"""Types for typer."""


def parameter(name: str, type_: object, flag: str, about: str, form: str | None, panel: str | None) -> Parameter:
    """An option as a parameter of a command, as typer reads it; None where the option is not given."""
    option = typer.Option(flag, help=about, metavar=form, rich_help_panel=panel, show_default=False)
    annotation = Annotated[type_, option]  # type: ignore[valid-type]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


class Field(NamedTuple):
    """The field of an options class that an option of the command line sets."""

    name: str
    type: object
    about: OptionHelp

    @property
    def form(self) -> str:
        """What a value looks like."""
        usual = (
            "NAME=VALUE" if _is_mapping(one) else _WORDS.get(one, ("TEXT",))[0] for one in _alternatives(self.type)
        )
        return self.about.metavar or "|".join(self.about.choices or usual)


@dataclass(frozen=True)
class KindOption:
    """An option of the command line, and the field that it sets in each kind of data that has it."""

    flag: str
    fields: Mapping[str, Field]
    panel: str

    @property
    def name(self) -> str:
        """Its name as a parameter, which no parameter of a command itself has."""
        return f"kind_option_{self.flag.strip('-').replace('-', '_')}"

    @property
    def shape(self) -> Shape:
        """How it is written."""
        return _shape(next(iter(self.fields.values())).type)

    @property
    def form(self) -> str:
        """What a value looks like; kinds of data may differ."""
        return "|".join(dict.fromkeys(field.form for field in self.fields.values()))

    @property
    def help(self) -> str:
        """What it does, for each kind of data where they differ; a default that depends on the kind is left out."""
        texts = {kind: field.about.text for kind, field in self.fields.items()}
        if len(set(texts.values())) > 1:
            texts = {kind: re.sub(r" \[[^\]]*\]$", "", text) for kind, text in texts.items()}
        if len(set(texts.values())) > 1:
            return " ".join(f"For {kind} data: {text}" for kind, text in texts.items())
        return next(iter(texts.values()))

    @property
    def parameter(self) -> Parameter:
        """The option as a parameter of a command."""
        is_switch = self.shape is Shape.SWITCH
        flag, form = (f"{self.flag}/--no-{self.flag[2:]}", None) if is_switch else (self.flag, self.form)
        return parameter(self.name, _TYPES[self.shape], flag, self.help, form, self.panel)

    def parse(self, kind: KindDescription, given: Plain) -> object:
        """What was given, as a value of the field's type; InputError for a text that is none."""
        field = self.fields[kind.name]
        annotation = field.type
        if isinstance(given, bool):
            return given
        if not isinstance(given, list | tuple):
            return self._parse_one(field, annotation, str(given))
        repeated = next(one for one in _alternatives(annotation) if _is_mapping(one) or get_origin(one) is list)
        part = get_args(repeated)[-1]
        if not _is_mapping(repeated):
            return [self._parse_one(field, part, str(text)) for text in given]
        found = {}
        for text in map(str, given):
            name, _, value = text.rpartition("=")
            try:
                found[name] = _converted(part, value)
            except ValueError:
                value = ""
            if not name or not value:
                raise InputError(f"{self.flag} {text!r} must have the form {field.form}.")
        return found

    def _parse_one(self, field: Field, annotation: object, text: str) -> object:
        try:
            return _converted(annotation, text)
        except ValueError:
            form = f"of the form {field.form}"
            nouns = " or ".join(_WORDS.get(one, ("", form))[1] for one in _alternatives(annotation))
            raise InputError(f"{self.flag} must be {nouns}; got {text!r}.") from None

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
    def of(cls, kinds: Sequence[KindDescription]) -> KindOptions:
        """Those of these kinds, for reading and for their generators; one that several kinds have is one option."""
        found: dict[str, KindOption] = {}
        declared = ((kind, options) for kind in kinds for options in (kind.codec_options, *kind.generators.values()))
        for kind, options in declared:
            hints = get_type_hints(options)
            for name, about in option_fields(options).items():
                if about.python_only:
                    continue
                flag, field = "--" + (about.flag or name.replace("_", "-")).lstrip("-"), Field(name, hints[name], about)
                known = found.get(flag)
                if flag in RESERVED or (known is not None and known.shape is not _shape(hints[name])):
                    flag = f"--{kind.name}-{flag[2:]}"
                    known = found.get(flag)
                if known is None:
                    found[flag] = KindOption(flag, {kind.name: field}, kind.items.capitalize())
                elif kind.name not in known.fields:
                    found[flag] = KindOption(flag, {**known.fields, kind.name: field}, GENERATOR)
        return cls(tuple(sorted(found.values(), key=lambda one: one.panel != GENERATOR)))

    def chosen(self, kind: KindDescription, given: Mapping[str, Plain], source: Path) -> dict[str, Plain]:
        """Options that were given, by the name of their field, as plain values; InputError for those of other kinds."""
        found: dict[str, Plain] = {}
        for one in self.options:
            if one.name in given:
                if kind.name not in one.fields:
                    which = f"{one.flag} is an option of {' and '.join(one.fields)} data"
                    how = f"{source} is read as {kind.name} data"
                    raise InputError(f"{which}, and {how}: leave it out, or name another kind with --kind.")
                value = one.parse(kind, given[one.name])
                plain = isinstance(value, bool | int | float | str)
                found[one.fields[kind.name].name] = value if plain else given[one.name]
        return found

    def values(self, kind: KindDescription, chosen: Mapping[str, Plain]) -> dict[str, object]:
        """Plain values, such as `chosen` returns and a summary holds, as values of the types that the kind declares."""
        return {name: self._of_field(kind, name).parse(kind, value) for name, value in chosen.items()}

    def words(self, kind: KindDescription, chosen: Mapping[str, Plain]) -> list[str]:
        """What to type for them."""
        return [word for name, value in chosen.items() for word in self._of_field(kind, name).words(value)]

    def _of_field(self, kind: KindDescription, name: str) -> KindOption:
        for one in self.options:
            if kind.name in one.fields and one.fields[kind.name].name == name:
                return one
        raise InputError(f"{name} is not an option of {kind.name} data.")


def _alternatives(annotation: object) -> list[object]:
    """The types of a union but None, texts last: a text is a text only if it is nothing else."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    return sorted((part for part in parts if part is not type(None)), key=lambda part: part in (str, Path))


def _is_mapping(annotation: object) -> bool:
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _shape(annotation: object) -> Shape:
    """How an option of this type is written."""
    types_ = _alternatives(annotation)
    if types_ == [bool]:
        return Shape.SWITCH
    repeated = any(_is_mapping(one) or get_origin(one) is list for one in types_)
    return Shape.REPEATED if repeated else Shape.VALUE


def _converted(annotation: object, text: str) -> object:
    """A text as a value of a type; ValueError if it is none."""
    types_ = _alternatives(annotation)
    if text.lower() == "none" and type(None) in get_args(annotation) and str not in types_:
        return None
    if types_ != [annotation]:
        for one in types_:
            with suppress(ValueError):
                return _converted(one, text)
        raise ValueError
    if get_origin(annotation) is tuple:
        first, *others = get_args(annotation)
        parts = re.split("," if others == [...] else "[:,x×]", text)
        types_ = [first] * len(parts) if others == [...] else [first, *others]
        pairs = zip(types_, parts, strict=True)
        return tuple(_converted(one, part) if part or type(None) not in get_args(one) else None for one, part in pairs)
    return annotation(text) if isinstance(annotation, type) else text


_OWN = {"condition": "--condition", "format": "--format", "generator": "--generator", "kind": "--kind", "n": "-n"}
_OWN |= {"n_jobs": "--jobs", "out": "-o", "replace": "--replace", "scheduler": "--scheduler", "seed": "--seed"}
_OWN |= {"trial": "--trial"}
"""Options of the commands themselves, by the names of the arguments in Python."""
_VERBS = r"\b(?:[Pp]ass|[Ll]eave out|[Ll]ower|[Rr]aise) "
_MAPPING = r"\{'(?P<key>[^']*)': '(?P<type>[^']*)'\}"
_VALUE = rf"""(?:{_MAPPING}|(?P<quote>['"])(?P<text>.*?)(?P=quote)|(?P<word>[\w.+-]*[\w+-])?)"""


@dataclass(frozen=True)
class Wording:
    """Names of arguments in Python, and what to type instead."""

    flags: dict[str, str]
    switches: frozenset[str]

    @classmethod
    def of(cls, options: KindOptions) -> Wording:
        """That of the options which kinds of data declare, beside those of the commands."""
        fields = {field.name: one for one in options.options for field in one.fields.values()}
        switches = {name for name, one in fields.items() if one.shape is Shape.SWITCH}
        flags = {name: one.flag for name, one in fields.items()}
        return cls({**flags, **_OWN}, frozenset({"replace", "trial", *switches}))

    def as_typed(self, message: str) -> str:
        """A message with arguments as options: those that begin it, have a value or follow words such as “pass”."""
        names = "|".join(sorted(map(re.escape, self.flags), key=len, reverse=True))
        # Not after a quote or “condition”, where it is what the user typed.
        message = re.sub(rf"(?<![\w'\"/-])(?<!condition )({names})={_VALUE}", self._with_value, message)
        begins = rf"(^|: )((?:{names})(?: and (?:{names}))?)(?= (?:must|needs|cannot|is not an option)\b| ['\"]|:)"
        message = re.sub(begins, self._each, message)
        message = re.sub(r"(^|: )(condition)(?= \S+[=<>])", self._each, message)
        message = re.sub(rf"({_VERBS})((?:{names})(?: or (?:{names}))?)(?![\w=])", self._each, message)
        message = re.sub(rf"(\b[Ll]eave )({names})(?= out\b)", self._each, message)
        message = re.sub(rf"(\bwith )({names})(?=[.,;:]|$)", self._each, message)
        return re.sub(r"(is not an option of .*; there are |^options )([\w, ]+)", self._each, message)

    def _each(self, found: re.Match[str]) -> str:
        return found[1] + re.sub(r"\w+", lambda name: self.flags.get(name[0], name[0]), found[2])

    def _with_value(self, found: re.Match[str]) -> str:
        name, flag = found[1], self.flags[found[1]]
        if name in self.switches and found["word"] in ("True", "False"):
            return flag if found["word"] == "True" else f"--no-{flag[2:]}"
        if found["key"] is not None:
            return f"{flag} {shlex.quote('='.join(found.group('key', 'type')))}"
        value = found["text"] or found["word"]
        return f"{flag} {shlex.quote(value)}" if value else flag
