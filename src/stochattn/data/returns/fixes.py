"""What `--fix` says of returns: a ticker, a day of the window, a log-return."""

from __future__ import annotations

import difflib
import math

import numpy as np

from ..._backend.arrays import Array
from ..legacy import InputError


def fixed_return(text: str, tickers: tuple[str, ...], history: Array, window: int) -> tuple[int, float]:
    """`SPY=-0.05` or `SPY@3=-0.05` as a column of windows laid flat, (day − 1)·N + ticker, and its value."""
    name, equals, number = text.rpartition("=")
    name, day = name.strip(), "1"
    if name not in tickers and "@" in name:
        name, _, day = (part.strip() for part in name.rpartition("@"))
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not equals or not math.isfinite(value):
        raise InputError(f"--fix {text}: write TICKER=LOG-RETURN, as SPY=-0.05 (or SPY@3=-0.05 for the third day).")
    if name not in tickers:
        raise InputError(f"--fix {text}: there is no ticker {name!r}; {_instead(name, tickers)}.")
    if not (day.isascii() and day.isdigit() and 1 <= int(day) <= window):
        raise InputError(f"--fix {text}: the day must lie between 1 and {window}, the window.")
    ticker = tickers.index(name)
    _require_possible(text, name, value, history[:, ticker])
    return (int(day) - 1) * len(tickers) + ticker, value


def _instead(name: str, tickers: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name.upper(), tickers) or difflib.get_close_matches(name, tickers)
    if near:
        return f"the nearest names are {', '.join(near)}"
    return f"there are {len(tickers)}, such as {', '.join(tickers[:3])}"


def _require_possible(text: str, name: str, value: float, returns: Array) -> None:
    """InputError for a value that this ticker, whose history is (T,), cannot have or hardly means."""
    if np.ptp(returns) == 0 and not math.isclose(value, returns[0], abs_tol=1e-12):
        raise InputError(f"--fix {text}: {name} never changes in the history; its only value is {returns[0]:g}.")
    if abs(value) > max(1.0, 10 * float(np.abs(returns).max())):
        raise InputError(
            f"--fix {text}: the largest stored move of {name} is {np.abs(returns).max():.3g}; "
            "values are log-returns, so write -0.05 for a fall by 5 %."
        )
