"""What can be chosen about a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...generators.coordinates import NORMS
from ..legacy import InputError
from .columns import KINDS


@dataclass(frozen=True)
class TableOptions:
    """What can be chosen about a table.

    columns:  kinds that must not be inferred, by column: one of columns.KINDS
    missing:  "keep": a new row has the missing cells of the stored row it is drawn around; "impute": it is complete
    variance: share of the features' variance to keep in principal components
    whiten:   scale components by a shrunk covariance, so that noise follows the data's own directions. On held-out rows
              it makes no difference that counts; without it, new rows keep the class of their memory more often
    norm:     "whole": rows keep their own lengths; else as in Coordinates
    spread:   "kept": draws move towards the mean by as much as noise spreads them, so that variances and correlations
              stay those of the stored rows (with norm="whole"); "grown": they do not
    ranges:   limits by column, (low, high), None where there is none
    label:    column that holds classes; by default the only one with a name such as target, class or species
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    missing: str = "keep"
    variance: float = 1.0
    whiten: bool = False
    norm: str = "whole"
    spread: str = "kept"
    ranges: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    label: str | None = None

    def __post_init__(self) -> None:
        require_choice("--missing", self.missing, ("keep", "impute"))
        require_choice("--norm", self.norm, NORMS)
        require_choice("spread", self.spread, ("kept", "grown"))
        for name, kind in self.columns.items():
            require_choice(f"--column {name}={kind}: the kind", kind, KINDS)
        for name, (low, high) in self.ranges.items():
            if low is not None and high is not None and low > high:
                raise InputError(
                    f"--range {name}={low:g}:{high:g}: the limits are reversed. Write {name}={high:g}:{low:g}."
                )

    def asking(self) -> list[tuple[str, str]]:
        """Columns that must be there, each with the option that names it, as one writes it."""
        kinds = [(name, f"--column {name}={kind}") for name, kind in self.columns.items() if kind != "drop"]
        ranges = [(name, f"--range {name}={_shown(low)}:{_shown(high)}") for name, (low, high) in self.ranges.items()]
        return kinds + ranges + ([] if self.label is None else [(self.label, f"--label {self.label}")])


def _shown(limit: float | None) -> str:
    """A limit as one writes it; nothing where there is none."""
    return "" if limit is None else f"{limit:g}"


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """InputError where a value is none of the choices."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}; got {value!r}.")
