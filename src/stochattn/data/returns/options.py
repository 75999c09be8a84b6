"""How a history becomes memories: the options of returns, and which of them go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..._backend.checks import count, one_of
from ...generators.coordinates import NORMS
from ..legacy import InputError
from .scenarios import OUTPUTS

WINDOW = 60
"""Days in a memory: about as long as volatility remembers."""
FEWEST_WINDOWS = 8
"""Windows, side by side, that a history has room for, or else they are shortened."""
MODES = ("exact", "projection")
MARGINALS = ("calibrated", "free")
EXACT_ONLY = {
    "variance": "--variance",
    "whiten": "--whiten/--no-whiten",
    "norm": "--norm",
    "marginals": "--marginals",
}
"""Options that mode "exact" has and "projection" has not, as the command line calls them."""


class ReturnsOptions(NamedTuple):
    """How a history becomes memories. Only mode "exact" takes variance, whiten, norm and marginals.

    window:   days in a memory; 60 by default, fewer in a short history, and 1 in the paper's projection
    mode:     "exact": a scenario is a draw, with every day's length put back;
              "projection": it is the paper's M softmax(beta X xi), corrected to the history's means and deviations
    variance: share of the days' variance to keep in principal components
    whiten:   let noise follow the covariance of the days, shrunk by Ledoit and Wolf's rule
    norm:     "restored", "paper" or "whole", as in Coordinates, for each day
    marginals: "calibrated": each ticker's draws are carried to the quantiles of its history, by a monotone map;
              "free": they are left as they are
    output:   what files hold: log-"returns", or "prices" from the last stored price on (from 100 without one)
    """

    window: int = WINDOW
    mode: str = "exact"
    variance: float = 1.0
    whiten: bool = True
    norm: str = "restored"
    marginals: str = "calibrated"
    output: str = "returns"


def options_of(given: dict[str, Any], runs: Sequence[int]) -> tuple[ReturnsOptions, tuple[str, ...]]:
    """The options for a history of these runs of days, checked, and notes on them.

    InputError for one that was given and that the mode has no use for.
    """
    options = ReturnsOptions(**given)
    one_of("mode", options.mode, MODES)
    one_of("norm", options.norm, NORMS)
    one_of("marginals", options.marginals, MARGINALS)
    one_of("output", options.output, OUTPUTS)
    useless = [name for name in EXACT_ONLY if name in given] if options.mode == "projection" else []
    if useless:
        raise InputError(
            f"{EXACT_ONLY[useless[0]]} ({given[useless[0]]!r}) has no effect in mode 'projection', whose rows and "
            "correction are the paper's: leave it out, or use --mode exact."
        )
    if "window" in given:
        return options._replace(window=_fitting(count("window", options.window), runs)), ()
    if options.mode == "projection":
        return options._replace(window=_fitting(1, runs)), ()
    window = _fitting(max(min(WINDOW, sum(runs) // FEWEST_WINDOWS, min(runs)), 1), runs)
    note = f"{_days(runs)} are few for windows of {WINDOW} days: they have {window} (--window)."
    return options._replace(window=window), () if window == WINDOW else (note,)


def _fitting(window: int, runs: Sequence[int]) -> int:
    """A window that was asked for, if three of them and every run have room for it."""
    if window > 1 and window > min(runs) and len(runs) > 1:
        raise InputError(
            f"window={window} is longer than the shortest of {len(runs)} runs of days, which has {min(runs)}; "
            "choose a shorter window, or leave that run out."
        )
    n_windows = sum(run - window + 1 for run in runs)
    if n_windows < 3:
        raise InputError(
            f"{sum(runs)} returns make {max(n_windows, 0)} windows of {window} days, and 3 are the least; "
            "add days, or choose a shorter window."
        )
    return window


def _days(runs: Sequence[int]) -> str:
    return f"{sum(runs)} days" if len(runs) == 1 else f"{sum(runs)} days in {len(runs)} runs, the shortest {min(runs)},"
