"""How new rows of a table compare with stored ones: marginals, correlations, copies, gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._backend.arrays import Array
from ..legacy import Comparison, Measure, Part
from .columns import Column, Levels

MOST_FEATURES = 400
"""Features whose correlations are compared; an evenly spaced part stands for more."""


def compare(columns: Sequence[Column], stored: Any, new: Any, features: Callable[[Any], Array]) -> Comparison:
    """New rows against stored ones, as figures about the whole and a part for each column that is modelled."""
    modelled = [column for column in columns if column.how is not None]
    parts = tuple(
        Part(column.name, summary(column, stored[column.name]), summary(column, new[column.name]), distance)
        for column, distance in zip(modelled, distances(modelled, stored, new), strict=True)
    )
    names = [column.name for column in modelled]
    gaps = float(stored[names].isna().to_numpy().mean())
    measures = (
        Measure(
            "column distance",
            float(np.mean([part.distance for part in parts])),
            0.0,
            "How far the distribution of a column is from the stored one, averaged over columns: the largest gap "
            "between the two cumulative curves, or between shares of categories; 0 is the same, 1 nothing in common.",
        ),
        Measure(
            "correlation error",
            correlation_error(features(stored), features(new)),
            0.0,
            "Mean absolute difference between correlations of columns among stored and among new rows.",
        ),
        Measure("exact copies", copies(columns, stored, new), 0.0, "Share of new rows that equal a stored row."),
        Measure("missing cells", float(new[names].isna().to_numpy().mean()), gaps, "Share of cells without a value."),
    )
    return Comparison(measures, parts)


def distances(columns: Sequence[Column], first: Any, second: Any) -> list[float]:
    """For each column, Kolmogorov-Smirnov distance of its numbers, or total variation distance of its categories."""
    return [
        total_variation(first[column.name], second[column.name])
        if isinstance(column.how, Levels)
        else kolmogorov_smirnov(column.numbers(first[column.name]), column.numbers(second[column.name]))
        for column in columns
    ]


def kolmogorov_smirnov(first: Array, second: Array) -> float:
    """The largest gap between two cumulative distributions; NaN is left out.

    >>> kolmogorov_smirnov(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.5
    """
    first, second = np.sort(first[~np.isnan(first)]), np.sort(second[~np.isnan(second)])
    if not len(first) or not len(second):
        return 0.0 if len(first) == len(second) else 1.0
    at = np.concatenate((first, second))
    one, other = np.searchsorted(first, at, side="right"), np.searchsorted(second, at, side="right")
    return float(np.abs(one / len(first) - other / len(second)).max())


def total_variation(first: Any, second: Any) -> float:
    """Half the summed difference between shares of categories; missing cells are left out."""
    one = first.astype("object").value_counts(normalize=True)
    other = second.astype("object").value_counts(normalize=True)
    return float(one.sub(other, fill_value=0.0).abs().sum() / 2)


def correlation_error(first: Array, second: Array) -> float:
    """Mean absolute difference between the correlations of two sets of features (n, p), over pairs."""
    p = first.shape[1]
    chosen = np.unique(np.linspace(0, p - 1, min(p, MOST_FEATURES)).astype(int))
    pairs = np.triu_indices(len(chosen), 1)
    if not len(pairs[0]):
        return 0.0
    return float(np.abs(_correlations(first[:, chosen]) - _correlations(second[:, chosen]))[pairs].mean())


def _correlations(features: Array) -> Array:
    """Correlations (p, p); zero with a feature that does not vary."""
    centred = features - features.mean(0)
    lengths = np.linalg.norm(centred, axis=0)
    centred = centred / np.where(lengths > 1e-12, lengths, 1.0)
    return np.asarray(centred.T @ centred)


def copies(columns: Sequence[Column], stored: Any, new: Any) -> float:
    """Share of new rows that equal a stored row in every cell but identifiers."""
    import pandas as pd

    def keys(frame: Any) -> Array:
        hashes = [pd.util.hash_array(_hashable(frame[column.name])) for column in columns if column.kind != "id"]
        return np.sum([h * np.uint64(2 * j + 1) for j, h in enumerate(hashes)], axis=0, dtype=np.uint64)

    return float(np.isin(keys(new), keys(stored)).mean())


def _hashable(series: Any) -> Array:
    """Cells (n,) as numbers or texts, so that equal cells of a column have equal hashes."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
        return np.asarray(series.to_numpy(dtype=np.float64))
    return np.array([str(cell) for cell in series.astype("object")], dtype=object)


def summary(column: Column, series: Any) -> str:
    """A few words on the cells of a column."""
    present = series.dropna()
    gone = f", {series.isna().mean():.0%} missing" if len(present) < len(series) else ""
    if present.empty:
        return "all missing"
    if isinstance(column.how, Levels):
        shares = present.astype("object").value_counts(normalize=True)
        top = ", ".join(f"{value} {share:.0%}" for value, share in shares.iloc[:3].items())
        return top + (f" and {len(shares) - 3} more" if len(shares) > 3 else "") + gone
    numbers = column.numbers(present)
    if column.clock is not None:
        ends = column.clock.series(np.array([numbers.min(), numbers.max()]))
        return f"{ends.iloc[0]} to {ends.iloc[1]}{gone}"
    return f"mean {numbers.mean():.4g}, sd {numbers.std():.3g}, {numbers.min():.4g} to {numbers.max():.4g}{gone}"
