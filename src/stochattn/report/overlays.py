"""Plots of the parts of items, one above the other for stored and new: histograms of numbers, bars of categories."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from .._backend.arrays import Array
from .._backend.html import Html, joined, name, number, share, tag, text
from ..data.comparison import Part, Values
from ..data.gallery import laid_out

MAX_OVERLAYS, MIN_BINS, MAX_BINS, MAX_CATEGORIES = 24, 8, 24, 8
WIDTH, HEIGHT = 240, 76
TAIL = 0.005  # share of numbers at either end that may be left outside a plot, if they are far from the others


def overlays(parts: Sequence[Part], part: str) -> Html:
    """A plot for each of the first parts that have values, under a heading; `part` is what one of them is called."""
    plotted = [one for one in parts if one.values is not None]
    if not plotted:
        return Html("")
    shown = plotted[:MAX_OVERLAYS]
    n = f"{len(shown)} of {len(plotted):,}" if len(shown) < len(plotted) else f"{len(plotted):,}"
    parts_shown = part if len(plotted) == 1 else f"{part}s"
    keys = tag("span", class_="key new"), "new  ", tag("span", class_="key old"), "stored. "
    about = f"{n} {parts_shown}, the most different first. Heights and lengths are shares of the values that are known."
    cards = [_card(one, one.values(), part) for one in shown if one.values is not None]
    heading = tag("h3", f"Distribution of each {part}")
    return joined([heading, tag("p", *keys, about, class_="note"), laid_out(cards, "items overlays")])


def _card(part: Part, values: Values, called: str) -> Html:
    heading = tag("h4", tag("b", name(part.name)), f" · distance {number(part.distance)}")
    if not len(values.stored) or not len(values.new):
        return tag("div", heading, tag("p", "There are no values to compare.", class_="note"), class_="item")
    label = f"Distribution of the {called} {part.name[:60]}: stored {part.stored}; new {part.new}"
    plot = _bars(values) if values.are_names else _histogram(values)
    return tag("div", heading, tag("div", *plot, role="img", aria_label=label), class_="item")


def _bars(values: Values) -> list[Html]:
    """Two bars for each category, of which rare ones are taken together."""
    counts = [Counter(some.tolist()) for some in (values.stored, values.new)]
    before, after = (count.total() for count in counts)
    shares = {one: (counts[0][one] / before, counts[1][one] / after) for one in counts[0] | counts[1]}
    ordered = sorted(shares, key=lambda one: (-max(shares[one]), one))
    first = ordered if len(ordered) <= MAX_CATEGORIES else ordered[: MAX_CATEGORIES - 1]
    rows = [(name(one, 24), *shares[one]) for one in first]
    if others := ordered[len(first) :]:
        stored, new = (math.fsum(shares[one][i] for one in others) for i in (0, 1))
        rows.append((text(f"{len(others):,} others"), stored, new))
    longest = max(max(stored, new) for _, stored, new in rows)
    lines = []
    for title, stored, new in rows:
        pair = (("new", new), ("old", stored))
        bars = (f'<i class="{which}" style="width:{100 * value / longest:.1f}%"></i>' for which, value in pair)
        cells = title, Html("".join(bars)), f"{share(new)} / {share(stored)}"
        lines.append(tag("div", *(tag("span", cell) for cell in cells), class_="level"))
    return lines


def _histogram(values: Values) -> list[Html]:
    """Shares of new numbers as an area and of stored ones as an outline, above the ends of their range."""
    every = np.concatenate([values.stored, values.new]).astype(np.float64)
    tails = np.quantile(every, (TAIL, 1 - TAIL))
    least, most, width = every.min(), every.max(), float(np.ptp(tails))
    low, high = (max(least, tails[0] - width), min(most, tails[1] + width)) if width else (least, most)
    whole = bool((every == np.round(every)).all()) and high - low < MAX_BINS
    n_bins = min(max(math.ceil(2 * min(len(values.stored), len(values.new)) ** (1 / 3)), MIN_BINS), MAX_BINS)
    edges = np.arange(low - 0.5, high + 1) if whole else np.linspace(low, high + (low == high), n_bins + 1)
    shares = [np.histogram(some.clip(low, high), edges)[0] / len(some) for some in (values.new, values.stored)]
    new, stored = (_outline(some / np.max(shares)) for some in shares)
    lines = f'<path class="new" d="{new}"/><path class="old" d="{stored}"/>'
    plot = Html(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">{lines}</svg>')
    cut = "≤ " if low > least else "", "≥ " if high < most else ""
    ends = (sign + values.as_text(float(end)) for sign, end in zip(cut, (low, high), strict=True))
    return [plot, tag("div", *(tag("span", end) for end in ends), class_="range")]


def _outline(heights: Array) -> str:
    """The outline of bars of heights (m,) from 0 to 1 on the bottom of a plot, as the path of an SVG."""
    places, tops = np.linspace(0, WIDTH, len(heights) + 1), 2 + (HEIGHT - 3) * (1 - heights)
    bars = " ".join(f"V{y:.1f}H{x:.1f}" for x, y in zip(places[1:], tops, strict=True))
    return f"M0 {HEIGHT - 1}{bars}V{HEIGHT - 1}"
