"""Tables before their code is loaded: the files that are read, and the options of reading and of generators."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ..._backend.checks import check_flag, suggest_names
from .. import lazy_pandas as pd
from ..delimited import EXTENSIONS, SHEET_HELP
from ..options import NORMS, HopfieldOptions, InputError, KindDescription, Knob, NoOptions, option


class ColumnType(StrEnum):
    """What a column holds."""

    NUMERIC = "numeric"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    CATEGORY = "category"
    DATE = "date"
    ID = "id"  # new rows are numbered
    CARRIED = "carried"  # a new row has the cell of the stored row it is drawn around
    DROP = "drop"  # the column is left out


MISSING = ("keep", "impute")
TYPES = tuple(map(str, ColumnType))
Limits = tuple[float | None, float | None]
FREE: Limits = (None, None)


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """InputError for a value that is not one of the choices."""
    if value not in choices:
        like = suggest_names(str(value), choices)
        raise InputError(f"{name} must be one of {', '.join(choices)}; got {value!r}. {like}".rstrip())


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
        "keep: a new row has the missing cells of its stored row. impute: new rows are complete. [keep]",
        choices=MISSING,
    )
    label: str | None = option(None, "Column that holds classes. [the only one with a name such as target or class]")
    safe_csv: bool = option(
        False, "Put an apostrophe before strings in CSV and TSV files that spreadsheets would run as formulas."
    )
    constraints: list[str] | None = option(  # noqa: RUF009
        None,
        "Relation that every row meets: c = a + b, a <= b, a < b, code -> name or code <-> name, or none. May be "
        "repeated. [the relations that are found in the stored rows]",
        flag="constraint",
        metavar="RELATION",
    )
    sheet: str | None = option(None, SHEET_HELP)
    transpose: bool = option(False, "Read each column as an example, and each line as a column of the table.")
    header: bool | None = option(None, "Whether the first line of a delimited file holds names. [detected]")

    def __post_init__(self) -> None:
        require_choice("missing", self.missing, MISSING)
        for name, example in (("columns", {"sex": "category"}), ("ranges", {"age": (0, 120)})):
            if not isinstance(value := getattr(self, name), Mapping):
                raise InputError(f"{name} must map names of columns, such as {name}={example}; got {value!r}.")
        if self.label is not None and not isinstance(self.label, str):
            raise InputError(f"label must be the name of a column; got {self.label!r}. Pass {str(self.label)!r}.")
        check_flag("header", self.header)
        for name, type in self.columns.items():
            require_choice(f"columns: the type of {name!r}", type, TYPES)
        rules = [] if self.constraints is None else self.constraints
        if not isinstance(rules, list | tuple) or not all(isinstance(rule, str) for rule in rules):
            raise InputError(f"constraints must be a list of strings such as ['a <= b']; got {self.constraints!r}.")
        for name, ends in self.ranges.items():
            if not isinstance(ends, Sequence) or len(ends) != 2 or not all(map(_is_end, ends)):
                how = "two numbers, low and high, either of which may be None"
                raise InputError(f"ranges: the limits of {name!r} must be {how}; got {ends!r}.")
            low, high = ends
            if low is not None and high is not None and low > high:
                problem = f"ranges: the limits of {name!r} are reversed; got {low:g} to {high:g}."
                raise InputError(f"{problem} Pass {high:g} to {low:g}.")


def _is_end(value: object) -> bool:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return value is None or (is_number and value == value)


@dataclass(frozen=True)
class CovarianceOptions:
    """Options of the generator "covariance"."""

    width: tuple[float, float, int] | None = option(
        None,
        "Width of the kernels: share of noise, share of the pooled covariance, number of neighbors (0 for all). "
        "[by likelihood]",
        metavar="NOISE:POOLED:NEIGHBORS",
        knob=Knob(0.01, 1.0, is_log=True, place=0),
    )
    classes: str = option(
        "auto",
        "Column of categories within which kernels are fitted; several joined by + for their combinations; or pooled "
        "for kernels around all rows. [the label, or the most informative column, and up to two more, if the "
        "likelihood of left-out rows rises; pooled if width is given]",
        metavar="COLUMN",
    )

    def __post_init__(self) -> None:
        if self.width is not None:
            if not isinstance(self.width, tuple | list) or len(self.width) != 3:
                raise InputError(f"width must be three numbers: noise, pooled, neighbors; got {self.width!r}.")
            from .generator.neighborhoods import KernelParams

            KernelParams(*self.width).validate()
        if not isinstance(self.classes, str):
            raise InputError(f"classes must be the name of a column, auto or pooled; got {self.classes!r}.")


SPREADS = ("kept", "grown")


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
        super().__post_init__()
        require_choice("norm", self.norm, NORMS)
        require_choice("spread", self.spread, SPREADS)


class TableDescription(KindDescription):
    """Rows of tables."""

    name, item, items, part = "table", "row", "rows", "column"
    inputs = "a table (CSV, TSV, Excel, .ods, Parquet, .npy, .zarr)"
    condition_help = "column age=40, age>40, 40<=age<60, city=Oslo|Bergen (in quotes)"
    suffixes = EXTENSIONS
    codec_options = TableOptions
    generators = MappingProxyType(
        {"covariance": CovarianceOptions, "hopfield": TableHopfieldOptions, "gaussian": NoOptions}
    )

    def recognizes(self, path: Path) -> bool:
        """A file with the extension of a table, or a matrix in .npy or Zarr; a vector, to say what it must become."""
        from ..._backend.array_files import npy_header, zarr_header

        if (header := npy_header(path) if path.suffix.lower() == ".npy" else zarr_header(path)) is not None:
            return header.ndim in (1, 2)
        return super().recognizes(path)

    def accepts(self, data: object) -> bool:
        """A data frame of any library, or a matrix or vector of numbers."""
        if isinstance(data, np.ndarray):
            return data.ndim in (1, 2) and data.dtype.kind in "fiub"
        from ..native import is_other_frame

        # Who has not imported pandas has none of its frames.
        return ("pandas" in sys.modules and isinstance(data, pd.DataFrame)) or is_other_frame(data)


DESCRIPTION = TableDescription()
