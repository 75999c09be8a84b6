"""Rows that a user passes for their density, checked against the columns of the stored table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._backend.arrays import Array
from .. import lazy_pandas as pd
from ..options import InputError, listed
from .cells import Cells
from .columns import Column
from .relations import ColumnOrder
from .scales import Ranks

if TYPE_CHECKING:
    from .codec import TableCodec


def rows_to_score(codec: TableCodec, items: object) -> tuple[pd.DataFrame, Array]:
    """The rows of a data frame, and which of them (n,) are never drawn: a value is unknown, or beyond its limits.

    InputError where it is not a data frame with the columns that are modelled; others may be left out.
    """
    if not isinstance(items, pd.DataFrame):
        found = f"got {type(items).__name__}"
        raise InputError(f"items must be a data frame with the columns of the stored table; {found}. Pass a DataFrame.")
    frame = items.set_axis(list(map(str, items.columns)), axis=1)
    modelled = [column for column in codec.columns if column.width]
    gone = [column.name for column in modelled if list(frame.columns).count(column.name) != 1]
    if gone:
        rule = "items must have each column that is modelled once"
        raise InputError(f"{rule}; got {listed(list(frame.columns))}. Add or rename {listed(gone)}.")
    never = np.zeros(len(frame), dtype=bool)
    for column in modelled:
        impossible = _never_drawn(column, Cells.of(frame[column.name]))
        if impossible.any():  # emptied, because generators cannot compute with infinite or unknown values
            frame = frame.assign(**{column.name: frame[column.name].mask(impossible)})
        never |= impossible
    for one in codec.differences:  # beside missing cells, NaN is not beyond the limits
        distances = one.distances(codec.by_name, {name: Cells.of(frame[name]) for name in one.names})
        never |= (distances < one.ranks.low) | (distances > one.ranks.high)
        if any(isinstance(r, ColumnOrder) and r.strict and r.names == one.names[::-1] for r in codec.relations):
            never |= distances == 0
    others = [column.name for column in codec.columns if column.name not in frame]
    return frame.assign(**dict.fromkeys(others)), never


def _never_drawn(column: Column, cells: Cells) -> Array:
    """Which cells (n,) of a column are neither missing nor values that new rows can have."""
    try:
        unknown = ~cells.missing & np.isnan(column.features(cells)).any(1)  # equivalent: all features are, or none
        if not isinstance(column.transform, Ranks):
            return np.asarray(unknown)
        numbers = column.numbers(cells)
    except (TypeError, ValueError, AttributeError):
        content = "numbers" if column.clock is None else "dates"
        found = f"got cells such as {next(iter(cells.present.objects), None)!r} ({cells.dtype})"
        raise InputError(f"items: column {column.name!r} must hold {content}; {found}. Convert the column.") from None
    outside = (numbers < column.transform.low) | (numbers > column.transform.high)
    return np.asarray(unknown | outside | np.isinf(numbers))
