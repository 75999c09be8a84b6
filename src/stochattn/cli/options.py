"""Options that kinds of data declare as options of the command line, and strings as values of their types.

Messages of the library are reworded for the command line: `beta=3` in Python becomes `--beta 3`.
"""

from __future__ import annotations

import re
import shlex
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter
from pathlib import Path
from typing import Annotated, NamedTuple, Union, get_args, get_origin, get_type_hints

import typer

from .._backend.state import Plain
from ..kinds.options import InputError, KindDescription, OptionHelp, option_fields

GENERATOR = "Generator"
"""The help panel of options that several kinds of data have; other options are in the panel of their kind."""
RESERVED = frozenset(
    {"--out", "--seed", "--kind", "--generator", "--condition", "--subset", "--weight", "--format", "--stream"}
    | {"--trial", "--replace", "--json", "--png", "--help"}
)
"""Options of the commands themselves."""
_WORDS: Mapping[object, tuple[str, str]] = {
    int: ("INTEGER", "an integer"),
    float: ("NUMBER", "a number"),
    Path: ("PATH", "a path"),
}


SWITCH, VALUE, REPEATED = bool | None, str | None, list[str] | None
"""How an option is written, as its type for typer: --x or --no-x, --x VALUE, --x NAME=VALUE once or more often."""


def parameter(name: str, type_: object, flag: str, about: str, form: str | None, panel: str | None) -> Parameter:
    """Return an option as a parameter of a command that typer reads; it is None if the option is not used."""
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
        by_type = ("NAME=VALUE" if _is_mapping(t) else _WORDS.get(t, ("TEXT",))[0] for t in _alternatives(self.type))
        return self.about.metavar or "|".join(self.about.choices or by_type)


@dataclass(frozen=True)
class KindOption:
    """An option of the command line, and the field that it sets in each kind of data with this option."""

    flag: str
    fields: Mapping[str, Field]
    panel: str

    @property
    def name(self) -> str:
        """Its name as a parameter, which differs from the parameters of the commands themselves."""
        return f"kind_option_{self.flag.strip('-').replace('-', '_')}"

    @property
    def shape(self) -> object:
        """How the option is written: SWITCH, VALUE or REPEATED."""
        return _shape(next(iter(self.fields.values())).type)

    @property
    def form(self) -> str:
        """What a value looks like; kinds of data may differ."""
        return "|".join(dict.fromkeys(field.form for field in self.fields.values()))

    @property
    def help(self) -> str:
        """What the option does, by kind of data if this differs; then defaults in brackets are left out."""
        helps = {kind: field.about.text for kind, field in self.fields.items()}
        if len(set(helps.values())) > 1:
            helps = {kind: re.sub(r" \[[^\]]*\]$", "", text) for kind, text in helps.items()}
        if len(set(helps.values())) > 1:
            return " ".join(f"For {kind} data: {text}" for kind, text in helps.items())
        return next(iter(helps.values()))

    @property
    def parameter(self) -> Parameter:
        """The option as a parameter of a command."""
        is_switch = self.shape == SWITCH
        flag, form = (f"{self.flag}/--no-{self.flag[2:]}", None) if is_switch else (self.flag, self.form)
        return parameter(self.name, self.shape, flag, self.help, form, self.panel)

    def parse(self, kind: KindDescription, value: Plain) -> object:
        """Convert a plain value to the type of the field; InputError if it cannot be converted."""
        field = self.fields[kind.name]
        if isinstance(value, bool):
            return value
        if not isinstance(value, list | tuple):
            return self._parse_string(field, field.type, str(value))
        repeated = next(t for t in _alternatives(field.type) if _is_mapping(t) or get_origin(t) is list)
        element_type = get_args(repeated)[-1]
        if not _is_mapping(repeated):
            return [self._parse_string(field, element_type, str(element)) for element in value]
        items = {}
        for item in map(str, value):
            name, _, string = item.rpartition("=")
            try:
                items[name] = _convert(element_type, string)
            except ValueError:
                string = ""
            if not name or not string:
                raise InputError(f"{self.flag} {item!r} must have the form {field.form}.")
        return items

    def _parse_string(self, field: Field, annotation: object, string: str) -> object:
        try:
            return _convert(annotation, string)
        except ValueError:
            form = f"of the form {field.form}"
            nouns = " or ".join(_WORDS.get(t, ("", form))[1] for t in _alternatives(annotation))
            raise InputError(f"{self.flag} must be {nouns}; got {string!r}.") from None

    def words(self, value: Plain) -> list[str]:
        """Return what to type for a value."""
        if isinstance(value, bool):
            return [self.flag if value else f"--no-{self.flag[2:]}"]
        elements = value if isinstance(value, list | tuple) else [value]
        return [word for element in elements for word in (self.flag, str(element))]


_COMMAND_FLAGS = {"n": "-n", "n_jobs": "--jobs", "out": "-o"}
_COMMAND_FLAGS |= {name: f"--{name}" for name in ("condition", "format", "generator", "kind", "replace", "scheduler")}
_COMMAND_FLAGS |= {"seed": "--seed", "trial": "--trial"}
"""Options of the commands themselves, by the names of the arguments in Python."""
_VERBS = r"\b(?:[Pp]ass|[Ll]eave out|[Ll]ower|[Rr]aise) "
_MAPPING = r"\{'(?P<key>[^']*)': '(?P<type>[^']*)'\}"
_VALUE = rf"""(?:{_MAPPING}|(?P<quote>['"])(?P<text>.*?)(?P=quote)|(?P<word>[\w.+-]*[\w+-])?)"""


@dataclass(frozen=True)
class KindOptions:
    """All options that kinds of data declare; `reword` puts them in place of names of arguments in Python."""

    options: tuple[KindOption, ...]

    @classmethod
    def of(cls, kinds: Sequence[KindDescription]) -> KindOptions:
        """Collect the options of reading and of generators; one that several kinds have becomes one option."""
        collected: dict[str, KindOption] = {}
        classes = ((kind, options) for kind in kinds for options in (kind.codec_options, *kind.generators.values()))
        for kind, options in classes:
            hints = get_type_hints(options)
            for name, about in option_fields(options).items():
                if about.python_only:
                    continue
                flag, field = "--" + (about.flag or name.replace("_", "-")).lstrip("-"), Field(name, hints[name], about)
                option = collected.get(flag)
                if flag in RESERVED or (option is not None and option.shape != _shape(hints[name])):
                    flag = f"--{kind.name}-{flag[2:]}"
                    option = collected.get(flag)
                if option is None:
                    collected[flag] = KindOption(flag, {kind.name: field}, kind.items.capitalize())
                elif kind.name not in option.fields:
                    collected[flag] = KindOption(flag, {**option.fields, kind.name: field}, GENERATOR)
        return cls(tuple(sorted(collected.values(), key=lambda option: option.panel != GENERATOR)))

    def select(self, kind: KindDescription, arguments: Mapping[str, Plain], source: Path) -> dict[str, Plain]:
        """Return the options of a kind among the arguments of a command, by field, as plain values."""
        values: dict[str, Plain] = {}
        for option in self.options:
            if option.name in arguments:
                if kind.name not in option.fields:
                    rule = f"{option.flag} is an option of {' and '.join(option.fields)} data"
                    raise InputError(
                        f"{rule}, and {source} is read as {kind.name} data: leave it out, or name another kind "
                        "with --kind."
                    )
                value = option.parse(kind, arguments[option.name])
                is_plain = isinstance(value, bool | int | float | str)
                values[option.fields[kind.name].name] = value if is_plain else arguments[option.name]
        return values

    def convert(self, kind: KindDescription, values: Mapping[str, Plain]) -> dict[str, object]:
        """Convert plain values, such as those of `select` or a summary, to the types that the kind declares."""
        return {name: self._find(kind, name).parse(kind, value) for name, value in values.items()}

    def words(self, kind: KindDescription, values: Mapping[str, Plain]) -> list[str]:
        """Return what to type for plain values."""
        return [word for name, value in values.items() for word in self._find(kind, name).words(value)]

    def _find(self, kind: KindDescription, name: str) -> KindOption:
        for option in self.options:
            if kind.name in option.fields and option.fields[kind.name].name == name:
                return option
        raise InputError(f"{name} is not an option of {kind.name} data.")

    @cached_property
    def flags(self) -> dict[str, str]:
        """What to type for each name of an argument in Python."""
        return {field.name: option.flag for option in self.options for field in option.fields.values()} | _COMMAND_FLAGS

    def reword(self, message: str) -> str:
        """Replace arguments by options: those that begin the message, have a value or follow words such as “pass”."""
        names = "|".join(sorted(map(re.escape, self.flags), key=len, reverse=True))
        # After a quote or “condition”, a name is what the user typed.
        message = re.sub(rf"(?<![\w'\"/-])(?<!condition )({names})={_VALUE}", self._replace_assignment, message)
        begins = rf"(^|: )((?:{names})(?: and (?:{names}))?)(?= (?:must|needs|cannot|is not an option)\b| ['\"]|:)"
        message = re.sub(begins, self._replace_names, message)
        message = re.sub(r"(^|: )(condition)(?= \S+[=<>])", self._replace_names, message)
        message = re.sub(rf"({_VERBS})((?:{names})(?: or (?:{names}))?)(?![\w=])", self._replace_names, message)
        message = re.sub(rf"(\b[Ll]eave )({names})(?= out\b)", self._replace_names, message)
        message = re.sub(rf"(\bwith )({names})(?=[.,;:]|$)", self._replace_names, message)
        return re.sub(r"(is not an option of .*; there are |^options )([\w, ]+)", self._replace_names, message)

    def _replace_names(self, match: re.Match[str]) -> str:
        return match[1] + re.sub(r"\w+", lambda name: self.flags.get(name[0], name[0]), match[2])

    def _replace_assignment(self, match: re.Match[str]) -> str:
        name, flag = match[1], self.flags[match[1]]
        is_switch = any(option.flag == flag and option.shape == SWITCH for option in self.options)
        if (is_switch or name in ("replace", "trial")) and match["word"] in ("True", "False"):
            return flag if match["word"] == "True" else f"--no-{flag[2:]}"
        if match["key"] is not None:
            return f"{flag} {shlex.quote('='.join(match.group('key', 'type')))}"
        value = match["text"] or match["word"]
        return f"{flag} {shlex.quote(value)}" if value else flag


def _alternatives(annotation: object) -> list[object]:
    """Return the types of a union without None; str is last, because every value is also a valid string."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    return sorted((part for part in parts if part is not type(None)), key=lambda part: part in (str, Path))


def _is_mapping(annotation: object) -> bool:
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _shape(annotation: object) -> object:
    """Return how an option of this type is written."""
    types_ = _alternatives(annotation)
    if types_ == [bool]:
        return SWITCH
    is_repeated = any(_is_mapping(t) or get_origin(t) is list for t in types_)
    return REPEATED if is_repeated else VALUE


def _convert(annotation: object, string: str) -> object:
    """Convert a string to a value of a type; ValueError if that is impossible."""
    types_ = _alternatives(annotation)
    if string.lower() == "none" and type(None) in get_args(annotation) and str not in types_:
        return None
    if types_ != [annotation]:
        for alternative in types_:
            with suppress(ValueError):
                return _convert(alternative, string)
        raise ValueError
    if get_origin(annotation) is tuple:
        first, *rest = get_args(annotation)
        parts = re.split("," if rest == [...] else "[:,x×]", string)
        types_ = [first] * len(parts) if rest == [...] else [first, *rest]
        pairs = zip(types_, parts, strict=True)
        return tuple(_convert(t, part) if part or type(None) not in get_args(t) else None for t, part in pairs)
    return annotation(string) if isinstance(annotation, type) else string
