"""How new rows of a table compare with stored ones: marginals, correlations, copies, missing cells, and a gallery."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ..._backend.arrays import Array
from ..._backend.html import Html, join, name, number, tag, text, wide
from .. import lazy_pandas as pd
from ..comparison import Comparison, Measure, Part, Values, correlations
from ..display import GalleryItems
from .codec import TableCodec
from .columns.cells import Cells
from .columns.columns import Column, Levels
from .description import ColumnType
from .relations.differences import differences_of
from .relations.relations import ColumnOrder

MAX_FEATURES = 400
"""The most features whose correlations are compared; of more features, evenly spaced ones."""
MAX_COLUMNS = 40
MAX_DEVIATIONS = 0.5
"""A number is marked more strongly if it differs by more than so many standard deviations of its column."""
UNITS = (("days", 86_400), ("hours", 3600), ("minutes", 60), ("seconds", 1))
"""Units of the time between two dates, the longest first, in seconds."""
DISTANCE = (
    "How far the distribution of a column is from the stored one, averaged over columns: the largest gap between the "
    "two cumulative curves, between shares of categories, or of missing cells; 0 is the same, 1 nothing in common."
)
CORRELATION_ERROR = "Mean absolute difference between correlations of columns among stored and among new rows."
ABOUT_GALLERY = (
    "Each new row above its nearest stored row. Cells that differ are marked, and more strongly where a number differs "
    "by over half of its column's standard deviation."
)


def compare(codec: TableCodec, new: pd.DataFrame) -> Comparison:
    """New rows against stored ones: measures of the table, a part for each modeled column, and one for each order."""
    stored, modeled = codec.stored, [column for column in codec.columns if column.transform is not None]
    column_distances = distances(modeled, stored, new)
    parts = []
    for column, distance in zip(modeled, column_distances, strict=True):
        before, after = stored[column.name], new[column.name]
        values = partial(_list_values, column, before, after)
        summaries = _summarize(column, before), _summarize(column, after)
        parts.append(Part(column.name, *summaries, distance, values, checked_separately=True))
    orders = [relation for relation in codec.relations if isinstance(relation, ColumnOrder)]
    parts += [_compare_differences(codec, order, new) for order in orders]
    names = [column.name for column in modeled]
    gaps, new_gaps = (float(frame[names].isna().to_numpy().mean()) for frame in (stored, new))
    error, copied = correlation_error(codec.encode(stored), codec.encode(new)), copies(codec.columns, stored, new)
    measures = (
        Measure("column distance", float(np.mean(column_distances)), 0.0, DISTANCE),
        Measure("correlation error", error, 0.0, CORRELATION_ERROR),
        Measure("exact copies", copied, 0.0, "Share of new rows that equal a stored row."),
        Measure("missing cells", new_gaps, gaps, "Share of cells without a value."),
    )
    return Comparison(measures, tuple(parts))


def _compare_differences(codec: TableCodec, order: ColumnOrder, new: pd.DataFrame) -> Part:
    """The difference of the columns of an order, such as the length of a stay, in stored and new rows."""
    names, column = (order.high, order.low), codec.by_name[order.high]
    tables = ({name: Cells.of(rows[name]) for name in names} for rows in (codec.stored, new))
    before, after = (differences_of(names, codec.by_name, table) for table in tables)
    unit = ""
    if column.date_scale is not None:
        typical = float(np.nanmedian(before))
        unit, seconds = next((f" {name}", size) for name, size in UNITS if typical >= size or size == 1)
        before, after = before / seconds, after / seconds
    before, after = before[~np.isnan(before)], after[~np.isnan(after)]
    summary, new_summary = (f"{_describe(x)}{unit}" if len(x) else "all missing" for x in (before, after))
    values = partial(Values, before, after, f"{{:.4g}}{unit}".format)
    distance = kolmogorov_smirnov(before, after)
    return Part(" − ".join(names), summary, new_summary, distance, values, checked_separately=True)


def _describe(numbers: Array) -> str:
    return f"mean {numbers.mean():.4g}, sd {numbers.std():.3g}, {numbers.min():.4g} to {numbers.max():.4g}"


def distances(columns: Sequence[Column], first: pd.DataFrame, second: pd.DataFrame) -> list[float]:
    """For each column, the Kolmogorov-Smirnov distance of numbers, or the total variation distance of categories.

    The distance is at least the difference between the shares of missing cells.
    """
    out = []
    for column in columns:
        x, y = first[column.name], second[column.name]
        if isinstance(column.transform, Levels):
            distance = _total_variation(x, y)
        else:
            distance = kolmogorov_smirnov(column.numbers(x), column.numbers(y))
        out.append(max(abs(float(x.isna().mean() - y.isna().mean())), distance))
    return out


def kolmogorov_smirnov(first: Array, second: Array) -> float:
    """The largest gap between two cumulative distributions; NaN is left out."""
    from scipy.stats import ks_2samp

    first, second = first[~np.isnan(first)], second[~np.isnan(second)]
    if not len(first) or not len(second):
        return float(len(first) != len(second))
    return float(ks_2samp(first, second, method="asymp").statistic)


def _total_variation(first: pd.Series, second: pd.Series) -> float:
    """Half the summed difference between shares of categories; missing cells are left out."""
    first_shares, second_shares = (cells.astype("object").value_counts(normalize=True) for cells in (first, second))
    return float(first_shares.sub(second_shares, fill_value=0.0).abs().sum() / 2)


def correlation_error(first: Array, second: Array) -> float:
    """Mean absolute difference between the correlations of two sets of features (n, p), over pairs."""
    p = first.shape[1]
    chosen = np.unique(np.linspace(0, p - 1, min(p, MAX_FEATURES)).astype(int))
    if len(chosen) < 2:
        return 0.0
    pairs = np.triu_indices(len(chosen), 1)
    return float(np.abs(correlations(first[:, chosen]) - correlations(second[:, chosen]))[pairs].mean())


def copies(columns: Sequence[Column], stored: pd.DataFrame, new: pd.DataFrame) -> float:
    """Share of new rows that equal a stored row in every cell but identifiers."""
    names = [column.name for column in columns if column.type != ColumnType.ID]
    rows = pd.concat([stored[names], new[names]]).groupby(names, dropna=False, sort=False, observed=True).ngroup()
    return float(rows.iloc[len(stored) :].isin(rows.iloc[: len(stored)]).mean())


def repeated_identifiers(codec: TableCodec, new: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """By column of identifiers: the share of new rows with an id of a stored row, and of stored rows that share an id.

    Numbers from 0 or 1 that rise by one from row to row are row numbers, and left out.
    """
    shares = {}
    for column in codec.columns:
        if column.type != ColumnType.ID:
            continue
        before, after = codec.stored[column.name].dropna(), new[column.name].dropna()
        numbers = after.to_numpy(dtype="float64") if after.dtype.kind in "iuf" else np.empty(0)
        counts_rows = len(numbers) > 0 and numbers[0] in (0, 1) and bool((np.diff(numbers) == 1).all())
        if len(before) and len(after) and not counts_rows:
            shares[column.name] = float(after.isin(before).mean()), float(before.duplicated(keep=False).mean())
    return shares


def _list_values(column: Column, stored: pd.Series, new: pd.Series) -> Values:
    before, after = stored.dropna(), new.dropna()
    gaps = len(stored) - len(before), len(new) - len(after)
    if isinstance(column.transform, Levels):
        stored_names, new_names = (np.array(list(map(str, cells)), dtype=str) for cells in (before, after))
        return Values(stored_names, new_names, gaps=gaps)
    values = Values(column.numbers(before), column.numbers(after), gaps=gaps, numbers_may_be_codes=not column.unit)
    return values._replace(as_text=partial(_format_time, column)) if column.unit else values


def _format_time(column: Column, number: float) -> str:
    return column.shown(round(number)).removesuffix(" 00:00:00")  # a time at midnight is a date


def _summarize(column: Column, series: pd.Series) -> str:
    present = series.dropna()
    missing = f", {series.isna().mean():.0%} missing" if len(present) < len(series) else ""
    if present.empty:
        return "all missing"
    if isinstance(column.transform, Levels):
        shares = present.astype("object").value_counts(normalize=True)
        top = ", ".join(f"{value} {share:.0%}" for value, share in shares.iloc[:3].items())
        return top + (f" and {len(shares) - 3} more" if len(shares) > 3 else "") + missing
    numbers = column.numbers(present)
    if column.unit:
        return f"{column.shown(numbers.min())} to {column.shown(numbers.max())}{missing}"
    return f"{_describe(numbers)}{missing}"


def table_gallery(codec: TableCodec, shown: GalleryItems) -> Html:
    """Two rows of a table for each item: the new row and the nearest stored one; cells that differ are marked."""
    nearest = codec.take(codec.stored, shown.nearest)
    names = [column.name for column in codec.columns if column.type != ColumnType.ID]
    same = dict(zip(names, codec.same(shown.items, nearest).T, strict=True))
    columns = list(shown.items.columns)[:MAX_COLUMNS]
    new = [_mark(codec.stored[c], shown.items[c], nearest[c], same.get(c)) for c in columns]
    rows = []
    for i, k in enumerate(shown.nearest):
        first = join([tag("b", f"New {shown.numbers[i] + 1:,}"), f" · {number(float(shown.novelty[i]), 2)}"])
        rows.append(tag("tr", tag("td", first), *(tag("td", cells[i]) for cells in new), class_="new"))
        stored = (tag("td", _cell(nearest[c].iloc[i])) for c in columns)
        rows.append(tag("tr", tag("td", name(codec.ids[k], 24)), *stored, class_="old"))
    head = tag("tr", tag("th", "novelty", scope="col"), *(tag("th", name(c, 40), scope="col") for c in columns))
    n_hidden = shown.items.shape[1] - len(columns)
    more = f" The first {len(columns)} columns are shown, {n_hidden:,} are not." if n_hidden else ""
    body = tag("table", tag("thead", head), tag("tbody", *rows), class_="cells")
    return join([tag("p", ABOUT_GALLERY + more, class_="note"), wide(body, "new rows beside stored rows")])


def _mark(stored: pd.Series, new: pd.Series, nearest: pd.Series, same: Array | None) -> list[Html]:
    """The cells of a column of new rows, with marks where they are not the `same` as in the nearest stored row."""
    far = np.zeros(len(new), dtype=bool)
    if stored.dtype.kind in "iuf" and (deviation := float(stored.astype("float64").std())) > 0:
        far = ~(np.abs(Cells.of(new).numbers - Cells.of(nearest).numbers) <= MAX_DEVIATIONS * deviation)
    marks = [{"class_": "far"} if is_far else {} for is_far in far]
    cells = [_cell(value) for value in new]
    return [c if same is None or same[i] else tag("mark", c, **marks[i]) for i, c in enumerate(cells)]


def _cell(value: object) -> Html:
    if pd.isna(value):
        return Html("<i>missing</i>")
    if isinstance(value, float | np.floating):
        return text(f"{value:.5g}")
    if isinstance(value, pd.Timestamp):  # a time at midnight is a date
        return text(str(value.date() if value == value.normalize() else value))
    return name(value, 40)
