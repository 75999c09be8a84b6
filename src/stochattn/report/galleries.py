"""New items beside the stored ones nearest to them, for each kind of data."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .._backend.arrays import Array
from .._backend.html import Html, folded, joined, name, number, picture, png, share, tag, text, wide
from ..data.legacy import Codec

MOST, OPEN = 24, 6
"""Items of a gallery, and those that are seen without a click where they take much room."""
MOST_POSITIONS = 600
MOST_COLUMNS = 40
MOST_SIDE = {2: 160, 3: 96}  # pixels of a grey and of a coloured picture: noise does not compress
BLOCK = 10
MOVERS = 5


class Shown(NamedTuple):
    """The items of a gallery."""

    items: Any
    numbers: Array  # (m,) the place of each among all, from 0
    nearest: Array  # (m,) index of the stored item beside it
    novelty: Array  # (m,)
    extra: dict[str, Array]


def gallery(codec: Codec, shown: Shown) -> Html:
    """The gallery for this kind of data."""
    makers = {"protein": _sequences, "image": _pictures, "table": _cells, "returns": _scenarios}
    return makers[codec.kind](codec, shown)


def _head(codec: Codec, shown: Shown, i: int) -> Html:
    """Number of the item, its novelty and further figures, and the name and class of the stored one."""
    k = int(shown.nearest[i])
    figures = [f"novelty {number(float(shown.novelty[i]), 2)}"]
    figures += [f"{key} {_figure(key, float(values[i]))}" for key, values in shown.extra.items()]
    return tag(
        "h4", tag("b", f"New {shown.numbers[i] + 1:,}"), f" · {' · '.join(figures)} · nearest: ", _stored(codec, k)
    )


def _figure(key: str, value: float) -> str:
    return share(value) if key == "identity" else number(value)


def _stored(codec: Codec, k: int) -> Html:
    known = name(codec.ids[k])
    return known if codec.labels is None else joined([known, " (", name(codec.labels[k], 30), ")"])


def _laid(cards: list[Html], class_: str) -> Html:
    """The first cards, and the others folded: a phone shows one beside the other never."""
    first, rest = cards[:OPEN], cards[OPEN:]
    shown = tag("div", *first, class_=class_)
    return joined([shown, folded(f"{len(rest)} more", tag("div", *rest, class_=class_))]) if rest else shown


def _sequences(codec: Any, shown: Shown) -> Html:
    """Aligned residues in blocks of ten, which wrap as the page is wide; those that differ are marked."""
    from ..data.proteins.sequences import LETTERS

    letters = np.append(LETTERS, "-")
    new, old = letters[shown.items], letters[codec.stored[shown.nearest]]
    length = min(codec.length, MOST_POSITIONS)
    cards = []
    for i in range(len(new)):
        blocks = [
            _residues(int(codec.columns[at]) + 1, new[i, at : at + BLOCK], old[i, at : at + BLOCK])
            for at in range(0, length, BLOCK)
        ]
        cards.append(tag("div", _head(codec, shown, i), tag("div", *blocks, class_="residues"), class_="item"))
    left = codec.length - length
    about = "New above, nearest stored below, in columns of the alignment; residues that differ are marked."
    more = f" The first {length:,} positions are shown, {left:,} are not." if left else ""
    return joined([tag("p", about + more, class_="note"), _laid(cards, "items")])


def _residues(column: int, new: Array, old: Array) -> Html:
    differing = new != old
    above = joined(tag("mark", a) if d else text(a) for a, d in zip(new, differing, strict=True))
    return tag(
        "div",
        tag("span", f"{column}", class_="at"),
        tag("span", above, class_="new"),
        tag("span", "".join(old), class_="old"),
    )


def _pictures(codec: Any, shown: Shown) -> Html:
    """Pairs of pictures, each pixel a square."""
    cards = []
    for i, k in enumerate(shown.nearest):
        two = (
            _small(shown.items[i], f"new picture {shown.numbers[i] + 1}"),
            _small(codec.stored[k], f"stored picture {codec.ids[k]}"),
        )
        caption = joined(
            [
                tag("b", f"{shown.numbers[i] + 1:,}"),
                f" · novelty {number(float(shown.novelty[i]), 2)} · beside ",
                _stored(codec, int(k)),
            ]
        )
        cards.append(
            tag("div", tag("figure", tag("div", *two, class_="two"), tag("figcaption", caption)), class_="item")
        )
    about = "New on the left, nearest stored on the right."
    return joined([tag("p", about, class_="note"), tag("div", *cards, class_="items pictures")])


def _small(image: Array, alt: str) -> Html:
    from PIL import Image

    shown = Image.fromarray(np.asarray(image, dtype=np.uint8))
    most = MOST_SIDE[np.ndim(image)]
    if max(shown.size) > most:
        shown.thumbnail((most, most))
    buffer = io.BytesIO()
    shown.save(buffer, "PNG", optimize=True)
    return picture(png(buffer.getvalue()), alt)


def _cells(codec: Any, shown: Shown) -> Html:
    """Two rows of a table for each item: new, and nearest stored; differing cells marked."""
    near = codec.take(codec.stored, shown.nearest)
    columns = list(shown.items.columns)[:MOST_COLUMNS]
    same = dict(zip((c.name for c in codec.columns if c.kind != "id"), codec.same(shown.items, near).T, strict=True))
    cells = {column: _column(codec.stored[column], shown.items[column], near[column], same) for column in columns}
    rows = []
    for i, k in enumerate(shown.nearest):
        first = joined([tag("b", f"New {shown.numbers[i] + 1:,}"), f" · {number(float(shown.novelty[i]), 2)}"])
        rows.append(tag("tr", tag("td", first), *(tag("td", cells[c][i][0]) for c in columns), class_="new"))
        beside = tag("td", name(codec.ids[k], 24))
        rows.append(tag("tr", beside, *(tag("td", cells[c][i][1]) for c in columns), class_="old"))
    head = tag("tr", tag("th", "novelty", scope="col"), *(tag("th", name(c, 40), scope="col") for c in columns))
    about = (
        "Each new row above its nearest stored row. Cells that differ are marked, and more strongly where a number "
        "differs by over half of its column's standard deviation."
    )
    left = shown.items.shape[1] - len(columns)
    more = f" The first {len(columns)} columns are shown, {left:,} are not." if left else ""
    body = tag("table", tag("thead", head), tag("tbody", *rows), class_="cells")
    return joined([tag("p", about + more, class_="note"), wide(body, "new rows beside stored rows")])


def _column(stored: Any, new: Any, near: Any, same: dict[str, Array]) -> list[tuple[Html, Html]]:
    """The cells of a column: of each new row, and of the stored one beside it."""
    amounts = stored.dtype.kind in "iuf" or str(stored.dtype)[:3] in ("Int", "UIn", "Flo")
    spread = float(stored.astype("float64").std()) if amounts else 0.0
    equal = same.get(str(stored.name), np.ones(len(new), dtype=bool))
    pairs = []
    for i, (a, b) in enumerate(zip(new, near, strict=True)):
        cell = _cell(a)
        if not equal[i]:
            far = bool(amounts and spread > 0 and not abs(_amount(a) - _amount(b)) <= spread / 2)
            cell = tag("mark", cell, class_="far") if far else tag("mark", cell)
        pairs.append((cell, _cell(b)))
    return pairs


def _amount(value: Any) -> float:
    import pandas as pd

    return float("nan") if pd.isna(value) else float(value)


def _cell(value: Any) -> Html:
    import pandas as pd

    if pd.isna(value):
        return Html("<i>missing</i>")
    if isinstance(value, float | np.floating):
        return text(f"{value:.5g}")
    if isinstance(value, pd.Timestamp):
        return text(value.date() if value == value.normalize() else value)
    return name(value, 40)


def _scenarios(codec: Any, shown: Shown) -> Html:
    """The path of an equal-weight portfolio where a scenario has several days, and its largest movers."""
    cards = []
    for i, k in enumerate(shown.nearest):
        new, old = np.asarray(shown.items[i]), np.asarray(codec.stored[k])
        body = [_paths(new.mean(1).cumsum(), old.mean(1).cumsum())] if len(new) > 1 else []
        cards.append(tag("div", _head(codec, shown, i), *body, _movers(codec.tickers, new, old), class_="item"))
    N = len(codec.tickers)
    about = [
        tag("span", class_="key new"), "new  ", tag("span", class_="key old"), "nearest stored. ",
        f"The {min(MOVERS, N)} tickers of {N:,} that move most in the new scenario, in percent. ",
        "Lines are equal-weight portfolios of all of them." if codec.options.window > 1 else "",
    ]  # fmt: skip
    return joined([tag("p", *about, class_="note"), _laid(cards, "items paths")])


def _paths(new: Array, old: Array) -> Html:
    """Two cumulative log-returns as lines from 0, in percent at their ends."""
    width, height, right = 240, 84, 44
    both = np.concatenate([[0.0], new, old])
    low, high = float(both.min()), float(both.max())
    span = (high - low) or 1.0

    def up(value: float) -> float:
        return 6 + (height - 12) * (high - value) / span

    def line(values: Array, which: str) -> Html:
        path = np.concatenate([[0.0], values])
        points = " ".join(f"{(width - right) * i / (len(path) - 1):.1f},{up(v):.1f}" for i, v in enumerate(path))
        return Html(f'<polyline class="{which}" points="{points}" fill="none" stroke-width="1.8"/>')

    ends = sorted((up(float(v[-1])), which, float(v[-1])) for v, which in ((new, "new"), (old, "old")))
    if ends[1][0] - ends[0][0] < 11:  # their figures would lie upon each other
        middle = min(max((ends[0][0] + ends[1][0]) / 2, 12), height - 12)
        ends = [(middle + shift, *end[1:]) for shift, end in zip((-5.5, 5.5), ends, strict=True)]
    labels = joined(
        Html(f'<text class="{which}" x="{width - right + 5}" y="{y + 3.5:.1f}">{_percent(end)}</text>')
        for y, which, end in ends
    )
    axis = Html(f'<line class="axis" x1="0" x2="{width - right}" y1="{up(0):.1f}" y2="{up(0):.1f}"/>')
    return Html(
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="cumulative returns: new {_percent(float(new[-1]))}'
        f', stored {_percent(float(old[-1]))}">{axis}{line(old, "old")}{line(new, "new")}{labels}</svg>'
    )


def _movers(tickers: tuple[str, ...], new: Array, old: Array) -> Html:
    """The tickers that move most over a scenario, as bars beside those of the stored one."""
    total, beside = new.sum(0), old.sum(0)
    most = np.argsort(-np.abs(total), kind="stable")[:MOVERS]
    scale = float(max(np.abs(total[most]).max(initial=0.0), np.abs(beside[most]).max(initial=0.0))) or 1.0
    rows = [
        tag(
            "tr",
            tag("td", name(tickers[j], 16)),
            tag("td", _bars((float(total[j]) / scale, float(beside[j]) / scale))),
            tag("td", f"{_percent(float(total[j]))} / {_percent(float(beside[j]))}"),
        )
        for j in most
    ]
    return tag("table", tag("tbody", *rows), class_="movers")


def _bars(values: Iterable[float]) -> Html:
    """Bars to the left and right of a middle line, for values from −1 to 1."""
    bars = "".join(
        f'<rect class="{which}" x="{50 + min(v, 0) * 48:.1f}" y="{y}" width="{max(abs(v) * 48, 0.5):.1f}" height="5"/>'
        for v, which, y in zip(values, ("new", "old"), (2, 8), strict=True)
    )
    return Html(
        f'<svg viewBox="0 0 100 15" aria-hidden="true">{bars}<line class="axis" x1="50" x2="50" y1="0" y2="15"/></svg>'
    )


def _percent(value: float) -> str:
    return f"{100 * value:+.1f}"
