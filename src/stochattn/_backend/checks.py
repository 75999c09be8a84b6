"""Argument checks, whose messages name the argument, the rule, the value and the remedy; errors of full memory."""

from __future__ import annotations

import math
import operator
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .arrays import ArrayLike, NumpyArray, to_numpy

MAX_COUNT = 2**62  # above all numbers of items, and half of what 64 bits hold, so that sums of two of them fit


class InputError(ValueError):
    """A file, an item or an option that cannot be used. The message names it, the rule and the remedy in one line.

    Names from files may hold anything: see `escape_unprintable`.

    >>> from stochattn.kinds import InputError
    >>> str(InputError("row 3 has no age: fill it in."))
    'row 3 has no age: fill it in.'
    """

    def __init__(self, message: str) -> None:
        super().__init__(escape_unprintable(message))


def escape_unprintable(text: str) -> str:
    r"""A string as one line that is safe to print on a terminal: control characters and direction marks are escaped.

    >>> escape_unprintable("a\x1b[2J, \u202eb, 5\xa0%") == r"a\x1b[2J, \u202eb, 5" + "\xa0%"
    True
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else ascii(c)[1:-1] for c in text)


def check_positive(name: str, value: object, remedy: str) -> float:
    number = _number(name, value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be a positive, finite number; got {value!r}. {remedy}")
    return number


def check_non_negative(name: str, value: object) -> float:
    number = _number(name, value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be a finite number, zero or more; got {value!r}.")
    return number


def check_beta(value: object) -> float:
    return check_positive("beta", value, 'Large beta recalls, small beta explores; beta="natural" picks one.')


def check_alpha(value: object) -> float:
    number = _number("alpha", value)
    if not 0 < number < 1:
        raise ValueError(f"alpha must lie strictly between 0 and 1; got {value!r}. The paper uses 0.01.")
    return number


def check_count(name: str, value: object, at_least: int = 1) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]  # TypeError otherwise
    except TypeError:
        raise TypeError(f"{name} must be an integer; got {value!r} ({type(value).__name__}).") from None
    if number < at_least:
        raise ValueError(f"{name} must be at least {at_least}; got {number}.")
    if number >= MAX_COUNT:
        raise ValueError(f"{name} must be below 2**62, so that numbers of 64 bits hold it; got {number}. Lower it.")
    return number


def check_path(path: object) -> Path:
    """The argument `path` as a path, if it is a string or a path."""
    try:
        return Path(os.fspath(path))  # type: ignore[call-overload]  # TypeError otherwise
    except TypeError:
        raise TypeError(f"path must be the path of a file, such as 'new.csv'; got {path!r}.") from None


def check_choice(name: str, value: object, choices: tuple[str, ...], alternative: str = "") -> str:
    """The value, which must be among choices; `alternative` names what else is allowed, such as "a number or "."""
    if value not in choices:
        rule = f"{name} must be {alternative}one of {', '.join(map(repr, choices))}"
        raise ValueError(f"{rule}; got {value!r}. {suggest_names(str(value), choices)}".rstrip())
    return str(value)


def suggest_names(wanted: object, names: Sequence[str]) -> str:
    """A question that offers the most similar names, with a space after it; empty if no name is similar."""
    from difflib import get_close_matches

    spelt = {name.casefold(): name for name in reversed(names)}
    similar = [spelt[name] for name in get_close_matches(str(wanted).casefold(), list(spelt), n=3)]
    return f"Did you mean {' or '.join(map(repr, similar))}? " if similar else ""


def check_boolean(name: str, value: object) -> None:
    """TypeError unless the value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}.")


def check_flag(name: str, value: object) -> bool | None:
    """The value, if it is True, False or None."""
    if value is not None and not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True, False or None; got {value!r}.")
    return None if value is None else bool(value)


def check_indices(indices: ArrayLike, n: int, name: str, of: str, takes: str = "integers") -> NumpyArray:
    """Indices as a flat array of integers below n; negative ones count from the end. `of` names the n items."""
    array = np.atleast_1d(to_numpy(indices))
    if array.size and array.dtype.kind not in "iu":
        got = f"{array.dtype} of shape {array.shape}" if array.size > 1 else repr(indices)
        mask = " For a mask of booleans, pass numpy.flatnonzero(mask)." if array.dtype == np.bool_ else ""
        raise TypeError(f"{name} must be {takes} from 0 to {n - 1}; got {got}.{mask}")
    array = array.astype(np.intp).ravel()
    outside = array[(array < -n) | (array >= n)]
    if len(outside):
        raise ValueError(f"{name} must lie between 0 and {n - 1} (there are {n} {of}); got {outside[0]}.")
    return array % n


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def first_line(error: BaseException) -> str:
    """The first line of an error message; those of torch fill a page."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _number(name: str, value: object) -> float:
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        return float(value)  # type: ignore[arg-type]  # TypeError otherwise
    except OverflowError:
        return math.inf
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be a number; got {value!r} ({type(value).__name__}).") from None
