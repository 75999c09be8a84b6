"""What can be chosen about a table and its generators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...generators.coordinates import NORMS
from ...generators.neighborhoods import Width
from ..options import HopfieldOptions, InputError, option
from .columns import ColumnType

MISSING = ("keep", "impute")
SPREADS = ("kept", "grown")
TYPES = tuple(str(one) for one in ColumnType)
Limits = tuple[float | None, float | None]


@dataclass(frozen=True)
class TableOptions:
    """Options of reading a table."""

    columns: Mapping[str, str] = option(
        {},
        f"Type of a column, where the inferred one is wrong: {', '.join(TYPES)}. May be repeated.",
        flag="column",
        metavar="NAME=TYPE",
    )
    ranges: Mapping[str, Limits] = option(
        {}, "Limits of a column. May be repeated.", flag="range", metavar="NAME=LOW:HIGH"
    )
    missing: str = option(
        "keep",
        "keep: a new row has the missing cells of the stored row it is drawn around. impute: rows are complete. [keep]",
        choices=MISSING,
    )
    label: str | None = option(None, "Column that holds classes. [the only one with a name such as target or class]")

    def __post_init__(self) -> None:
        _require_choice("missing", self.missing, MISSING)
        for name, type in self.columns.items():
            _require_choice(f"columns: the type of {name!r}", type, TYPES)
        for name, (low, high) in self.ranges.items():
            if low is not None and high is not None and low > high:
                found = f"ranges: the limits of {name!r} are reversed; got {low:g} to {high:g}."
                raise InputError(f"{found} Pass {high:g} to {low:g}.")


@dataclass(frozen=True)
class CovarianceOptions:
    """Options of the generator "covariance"."""

    width: tuple[float, float, int] | None = option(
        None,
        "Width of the kernels: share of noise, share of the pooled covariance, number of neighbours (0 for all). "
        "[by likelihood]",
        metavar="NOISE:POOLED:NEIGHBOURS",
    )

    def __post_init__(self) -> None:
        if self.width is not None:
            if not isinstance(self.width, tuple | list) or len(self.width) != 3:
                raise InputError(f"width must be three numbers: noise, pooled, neighbours; got {self.width!r}.")
            Width(*self.width).checked()


@dataclass(frozen=True)
class TableHopfieldOptions(HopfieldOptions):
    """Options of the generator "hopfield" for tables.

    Whitening makes no difference that counts on held-out rows, and new rows keep the class of their memory less often.
    """

    norm: str = option(
        "whole",
        "restored: rows of unit length, and lengths put back. paper: lengths are lost, as published. whole: rows keep "
        "their lengths. [whole]",
        choices=NORMS,
    )
    spread: str = option(
        "kept",
        "kept: draws move towards the mean by as much as noise spreads them, so that variances and correlations stay "
        "those of the stored rows (with norm whole). grown: they do not. [kept]",
        choices=SPREADS,
    )

    def __post_init__(self) -> None:
        _require_choice("norm", self.norm, NORMS)
        _require_choice("spread", self.spread, SPREADS)


def _require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}; got {value!r}.")
