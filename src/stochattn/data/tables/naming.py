"""What a misspelt name may have meant, and which value a text means."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

MOST_LISTED = 12


def listed(names: Sequence[str]) -> str:
    """The first few of some names, and how many more there are."""
    more = f" and {len(names) - MOST_LISTED:,} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more


def near(wanted: str, names: Sequence[str]) -> str:
    """A question that offers the names most like the one wanted, with a space after it; empty where none is like it.

    >>> near("wieght", ["age", "weight"])
    "Did you mean 'weight'? "
    """
    spelt = {name.casefold(): name for name in reversed(names)}
    found = [spelt[name] for name in get_close_matches(wanted.casefold(), list(spelt), n=3)]
    return f"Did you mean {' or '.join(map(repr, found))}? " if found else ""


def meant(text: str, values: Sequence[Any], decimal: str = ".") -> int | None:
    """Position of the value that a text means: written so, written so but for capitals, or equal as a number.

    >>> meant("TRUE", [False, True]), meant("1", [0.0, 1.0]), meant("2", [0.0, 1.0])
    (1, 1, None)
    """
    texts = [str(value) for value in values]
    if text in texts:
        return texts.index(text)
    alike = [place for place, one in enumerate(texts) if one.casefold() == text.casefold()]
    if len(alike) == 1:
        return alike[0]
    try:
        number = float(text.replace(decimal, "."))
    except ValueError:
        return None
    equal = [j for j, value in enumerate(values) if not isinstance(value, str | bool) and _is(value, number)]
    return equal[0] if equal else None


def _is(value: Any, number: float) -> bool:
    try:
        return float(value) == number
    except (TypeError, ValueError):  # a date
        return False
