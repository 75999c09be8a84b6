"""Ranges of values that conditions allow, and values of conditions as texts and as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Any

from .._backend.state import Plain
from .options import InputError


@dataclass(frozen=True, kw_only=True, repr=False)
class Range:
    """Values between two ends, either of which may be left out: `Range(ge=40, lt=60)` is 40 <= value < 60.

    ge, gt: the lower end, included or excluded; le, lt: the upper end, included or excluded

    >>> import stochattn as sa
    >>> sa.Range(ge=40, lt=60)
    Range(ge=40, lt=60)
    """

    ge: Any = None
    gt: Any = None
    le: Any = None
    lt: Any = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise InputError("a Range needs at least one end: pass ge, gt, le or lt, such as Range(ge=40).")
        for included, excluded in (("ge", "gt"), ("le", "lt")):
            if getattr(self, included) is not None and getattr(self, excluded) is not None:
                raise InputError(f"a Range takes {included} or {excluded}, not both; got {self!r}. Pass one of them.")

    @property
    def low(self) -> Any:
        """The lower end, or None."""
        return self.gt if self.ge is None else self.ge

    @property
    def high(self) -> Any:
        """The upper end, or None."""
        return self.lt if self.le is None else self.le

    def __repr__(self) -> str:
        given = (f"{name}={end!r}" for name, end in self.ends().items())
        return f"Range({', '.join(given)})"

    def ends(self) -> dict[str, Any]:
        """The ends that are given, by name."""
        return {one.name: end for one in fields(self) if (end := getattr(self, one.name)) is not None}


def condition_text(name: object, value: object) -> str:
    """A condition as it is written on the command line: age=40, 40<=age<60, city=Bergen|Oslo."""
    if isinstance(value, Range):
        low = "" if value.low is None else f"{value.low}{'<' if value.ge is None else '<='}"
        high = "" if value.high is None else f"{'<' if value.le is None else '<='}{value.high}"
        if low and not high:
            return f"{name}{'>' if value.ge is None else '>='}{value.low}"
        return f"{low}{name}{high}"
    return f"{name}={'|'.join(sorted(map(str, value)))}" if isinstance(value, AbstractSet) else f"{name}={value}"


def plain_conditions(conditions: Mapping[Any, Any]) -> dict[Any, Plain]:
    """Conditions as plain values: the ends of a range by name, and the members of a set."""

    def plain(value: object) -> Plain:
        if isinstance(value, Range):
            return value.ends()
        return {"members": sorted(value, key=str)} if isinstance(value, AbstractSet) else value

    return {name: plain(value) for name, value in conditions.items()}


def conditions_of(state: Mapping[Any, Plain]) -> dict[Any, Any]:
    """The conditions whose `plain_conditions` these are."""

    def value(plain: Plain) -> Any:
        if not isinstance(plain, dict):
            return plain
        return set(plain["members"]) if "members" in plain else Range(**plain)

    return {name: value(plain) for name, plain in state.items()}
