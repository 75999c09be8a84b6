"""Frames as matrices of numbers, for rivals and measures that need them."""

from __future__ import annotations

import numpy as np
import pandas as pd


def is_category(column: pd.Series) -> bool:
    """Whether a column holds categories instead of amounts."""
    return column.dtype.kind in "Ob" or column.dtype.name in ("category", "str")


def codes_of(frame: pd.DataFrame, levels: dict[str, list[object]]) -> np.ndarray:
    """Amounts as they are, and categories as positions among their levels: (n, columns)."""
    columns = [
        frame[name].map({level: place for place, level in enumerate(levels[name])}) if name in levels else frame[name]
        for name in frame
    ]
    return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])


def levels_of(frame: pd.DataFrame) -> dict[str, list[object]]:
    """The distinct values of each column of categories, in order."""
    return {name: sorted(frame[name].unique()) for name in frame if is_category(frame[name])}


def one_hot(frame: pd.DataFrame, levels: dict[str, list[object]]) -> np.ndarray:
    """Amounts as they are, and categories as blocks of zeros and ones: (n, features)."""
    blocks = [
        (np.asarray(frame[name], dtype=object)[:, None] == np.array(levels[name], dtype=object)).astype(float)
        if name in levels
        else np.asarray(frame[name], dtype=np.float64)[:, None]
        for name in frame
    ]
    return np.concatenate(blocks, axis=1)


def rounded(numbers: np.ndarray, stored: pd.Series) -> np.ndarray:
    """Numbers (n,) with as many decimals as the stored ones have, at most six."""
    cells = np.asarray(stored, dtype=np.float64)
    decimals = next((d for d in range(6) if np.allclose(cells, cells.round(d), rtol=0, atol=1e-9)), None)
    return numbers if decimals is None else numbers.round(decimals)
