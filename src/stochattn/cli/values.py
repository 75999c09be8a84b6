"""Texts of the command line as values of the types that options declare."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Union, get_args, get_origin

from ..data.options import InputError

NOUNS: Mapping[object, str] = {int: "a whole number", float: "a number", str: "a text", Path: "a path"}
PLACEHOLDERS: Mapping[object, str] = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH"}
_ORDER = (int, float, tuple, Path, str)
"""Types of a union in the order in which they are tried: a text is a text only if it is nothing else."""


class Shape(Enum):
    """How an option is written."""

    SWITCH = "--x or --no-x"
    VALUE = "--x VALUE"
    REPEATED = "--x NAME=VALUE, once or more often"


def alternatives(annotation: object) -> list[object]:
    """The types of a union but None, in the order in which they are tried."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    return sorted((part for part in parts if part is not type(None)), key=_place)


def _place(annotation: object) -> int:
    origin: object = get_origin(annotation) or annotation
    return next((i for i, known in enumerate(_ORDER) if known is origin), 0)


def shape_of(annotation: object) -> Shape:
    """How an option of this type is written."""
    types_ = alternatives(annotation)
    if types_ == [bool]:
        return Shape.SWITCH
    repeated = any(_is_mapping(one) or get_origin(one) is list for one in types_)
    return Shape.REPEATED if repeated else Shape.VALUE


def placeholder(annotation: object) -> str:
    """What stands for a value in a help text."""
    types_ = alternatives(annotation)
    if any(map(_is_mapping, types_)):
        return "NAME=VALUE"
    return "|".join(PLACEHOLDERS.get(one, "TEXT") for one in types_)


def parse(annotation: object, given: bool | str | Sequence[str], flag: str, form: str) -> object:
    """What was given for an option as a value of its type; InputError for a text that is none.

    flag, form: the option and what a value of it looks like, for messages
    """
    if isinstance(given, bool):
        return given
    if isinstance(given, str):
        return _parse_one(annotation, given, flag, form)
    for one in alternatives(annotation):
        if _is_mapping(one):
            _, part = get_args(one)
            return dict(_named(part, text, flag, form) for text in given)
    return [_parse_one(get_args(alternatives(annotation)[0])[0], text, flag, form) for text in given]


def _named(annotation: object, text: str, flag: str, form: str) -> tuple[str, object]:
    """NAME=VALUE."""
    name, equals, value = text.rpartition("=")
    if not equals or not name or not value:
        raise InputError(f"{flag} {text!r} must have the form {form}.")
    try:
        return name, _parse_one(annotation, value, flag, form)
    except InputError:
        raise InputError(f"{flag} {text!r} must have the form {form}.") from None


def _parse_one(annotation: object, text: str, flag: str, form: str) -> object:
    types_ = alternatives(annotation)
    if text.lower() == "none" and str not in types_ and type(None) in get_args(annotation):
        return None
    for one in types_:
        try:
            return _converted(one, text)
        except ValueError:
            continue
    nouns = " or ".join(NOUNS.get(one, f"of the form {form}") for one in types_)
    raise InputError(f"{flag} must be {nouns}; got {text!r}.")


def _converted(one: object, text: str) -> object:
    """A text as a value of one type; ValueError if it is none."""
    if get_origin(one) is tuple:
        types_ = get_args(one)
        variable = len(types_) == 2 and types_[1] is Ellipsis
        parts = re.split("," if variable else "[:,x×]", text)
        if variable:
            return tuple(_converted(types_[0], part) for part in parts)
        if len(parts) != len(types_):
            raise ValueError
        return tuple(_optional(part_type, part) for part_type, part in zip(types_, parts, strict=True))
    return one(text) if isinstance(one, type) else text


def _optional(annotation: object, text: str) -> object:
    """A part of a tuple; an empty one is None where that is allowed."""
    if not text and type(None) in get_args(annotation):
        return None
    return _converted(alternatives(annotation)[0], text)


def _is_mapping(annotation: object) -> bool:
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)
