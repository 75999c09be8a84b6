"""Argument checks. Each message names the argument, the rule, the value and the remedy."""

from __future__ import annotations

import math
import operator


def positive(name: str, value: object, remedy: str) -> float:
    """The value as a float, finite and above zero."""
    number = _number(name, value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be a positive, finite number; got {value!r}. {remedy}")
    return number


def non_negative(name: str, value: object) -> float:
    """The value as a float, finite and not below zero."""
    number = _number(name, value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be a finite number, zero or more; got {value!r}.")
    return number


def inverse_temperature(value: object) -> float:
    """beta as a float, finite and above zero."""
    return positive("beta", value, "Large beta recalls, small beta explores; temperature.natural(X) picks one.")


def step_size(value: object) -> float:
    """alpha as a float inside (0, 1)."""
    number = _number("alpha", value)
    if not 0 < number < 1:
        raise ValueError(f"alpha must lie strictly between 0 and 1; got {value!r}. The paper uses 0.01.")
    return number


def count(name: str, value: object, at_least: int = 1) -> int:
    """The value as an int, not below `at_least`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]  # TypeError otherwise
    except TypeError:
        raise TypeError(f"{name} must be a whole number; got {value!r} ({type(value).__name__}).") from None
    if number < at_least:
        raise ValueError(f"{name} must be at least {at_least}; got {number}.")
    return number


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """The value, if it is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return str(value)


def choice(name: str, value: object) -> bool | None:
    """The value, if it is True, False or None."""
    if value not in (True, False, None) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        raise TypeError(f"{name} must be True, False or None; got {value!r}.")
    return None if value is None else bool(value)


def _number(name: str, value: object) -> float:
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        return float(value)  # type: ignore[arg-type]  # TypeError otherwise
    except OverflowError:
        return math.inf
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be a number; got {value!r} ({type(value).__name__}).") from None
