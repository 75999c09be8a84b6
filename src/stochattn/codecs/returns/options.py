"""How a history becomes memories: the options of returns, and which of them go together."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._checks import count, one_of
from ..base import InputError
from ..coordinates import NORMS
from .scenarios import OUTPUTS

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

    window:   days in a memory; each run of so many consecutive days is one
    mode:     "exact": a scenario is a draw, with every day's length put back;
              "projection": it is the paper's M softmax(beta X xi), corrected to the history's means and deviations
    variance: share of the days' variance to keep in principal components
    whiten:   let noise follow the covariance of the days, shrunk by Ledoit and Wolf's rule
    norm:     "restored", "paper" or "whole", as in Coordinates, for each day
    marginals: "calibrated": each ticker's draws are carried to the quantiles of its history, by a monotone map;
              "free": they are left as they are
    output:   what files hold: log-"returns", or "prices" from the last stored price on (from 100 without one)
    """

    window: int = 1
    mode: str = "exact"
    variance: float = 1.0
    whiten: bool = True
    norm: str = "restored"
    marginals: str = "calibrated"
    output: str = "returns"


def options_of(given: dict[str, Any]) -> ReturnsOptions:
    """The options, checked; InputError for one that was given and that the mode has no use for."""
    options = ReturnsOptions(**given)
    count("window", options.window)
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
    return options
