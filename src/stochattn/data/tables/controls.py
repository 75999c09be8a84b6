"""Controls of a page that condition the cells of new rows, by the type of their column."""

from __future__ import annotations

import numpy as np

from ..controls import ChoiceControl, Control, RangeControl
from .codec import TableCodec
from .columns import Column, ColumnType, Levels

MAX_COLUMNS, MAX_LEVELS = 40, 60


def table_controls(codec: TableCodec) -> tuple[Control, ...]:
    """A control for each of the first columns that conditions can name."""
    modelled = [column for column in codec.columns if column.transform is not None]
    return tuple(_control(codec, column) for column in modelled[:MAX_COLUMNS])


def _control(codec: TableCodec, column: Column) -> Control:
    if isinstance(column.transform, Levels):
        truths = codec.style.truths.get(column.name)
        values = truths or tuple(str(value) for value in column.transform.values)
        return ChoiceControl(column.name, column.name, tuple(dict.fromkeys(values))[:MAX_LEVELS])
    numbers = column.numbers(codec.stored[column.name].dropna())
    low, high = float(numbers.min()), float(numbers.max())
    if column.clock is not None:
        first, last = (str(one)[:10] for one in column.clock.series(np.array([low, high])))
        return RangeControl(column.name, column.name, first, last, "date", is_timed=not column.clock.counts_days)
    decimal = codec.style.notation(column.name).decimal
    is_whole = column.type == ColumnType.INTEGER
    return RangeControl(column.name, column.name, low, high, is_whole=is_whole, decimal=decimal)
