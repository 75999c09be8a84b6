"""Scenarios on a page, each beside the nearest stored one."""

from __future__ import annotations

import numpy as np

from ..._backend.arrays import Array
from ..._backend.html import Html, joined, name, tag
from ..gallery import GalleryItems, card_heading, laid_out, stored_name
from .codec import ReturnsCodec

MAX_MOVERS = 5
WIDTH, HEIGHT, RIGHT = 240, 84, 44  # of a plot of paths, and the room for figures on its right
MIN_GAP = 11  # distance between two figures below which one would cover the other


def scenario_gallery(codec: ReturnsCodec, shown: GalleryItems) -> Html:
    """The path of an equal-weight portfolio where a scenario has several days, and its largest movers."""
    cards = []
    for i, k in enumerate(shown.nearest):
        new, old = np.asarray(shown.items[i]), np.asarray(codec.stored[k])
        heading = card_heading(shown, i, stored_name(codec.ids, codec.labels, int(k)))
        paths = [_paths({"old": old.mean(1), "new": new.mean(1)})] if len(new) > 1 else []
        cards.append(tag("div", heading, *paths, _movers(codec.tickers, new.sum(0), old.sum(0)), class_="item"))
    N = len(codec.tickers)
    keys = tag("span", class_="key new"), "new  ", tag("span", class_="key old"), "nearest stored. "
    about = f"The {min(MAX_MOVERS, N)} tickers of {N:,} that move most in the new scenario, in percent. "
    about += "Lines are equal-weight portfolios of all of them." if codec.window > 1 else ""
    return joined([tag("p", *keys, about, class_="note"), laid_out(cards, "items paths")])


def _paths(log_returns: dict[str, Array]) -> Html:
    """Cumulative log-returns, "old" and "new", as lines from 0, with percentages at their ends."""
    paths = {which: np.concatenate([[0.0], values.cumsum()]) for which, values in log_returns.items()}
    both = np.concatenate(list(paths.values()))
    low, high, right = float(both.min()), float(both.max()), WIDTH - RIGHT

    def up(value: float) -> float:
        return 6 + (HEIGHT - 12) * (high - value) / ((high - low) or 1.0)

    parts = [f'<line class="axis" x1="0" x2="{right}" y1="{up(0):.1f}" y2="{up(0):.1f}"/>']
    for which, path in paths.items():
        points = " ".join(f"{right * i / (len(path) - 1):.1f},{up(v):.1f}" for i, v in enumerate(path))
        parts.append(f'<polyline class="{which}" points="{points}" fill="none" stroke-width="1.8"/>')
    ends = sorted((up(path[-1]), which) for which, path in paths.items())
    heights = [y for y, _ in ends]
    if heights[1] - heights[0] < MIN_GAP:
        middle = min(max(sum(heights) / 2, 12), HEIGHT - 12)
        heights = [middle - MIN_GAP / 2, middle + MIN_GAP / 2]
    for y, (_, which) in zip(heights, ends, strict=True):
        parts.append(f'<text class="{which}" x="{right + 5}" y="{y + 3.5:.1f}">{100 * paths[which][-1]:+.1f}</text>')
    label = f"cumulative returns: new {100 * paths['new'][-1]:+.1f}, stored {100 * paths['old'][-1]:+.1f}"
    return Html(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>')


def _movers(tickers: tuple[str, ...], new: Array, old: Array) -> Html:
    """The tickers that move most, new and stored (N,), as bars to the left and right of a middle line."""
    most = np.argsort(-np.abs(new), kind="stable")[:MAX_MOVERS]
    scale = max(np.abs(new[most]).max(), np.abs(old[most]).max()) or 1.0
    rows = []
    for j in most:
        bars = "".join(
            f'<rect class="{which}" x="{50 + min(v, 0) * 48:.1f}" y="{y}" width="{max(abs(v) * 48, 0.5):.1f}" '
            'height="5"/>'
            for v, which, y in ((new[j] / scale, "new", 2), (old[j] / scale, "old", 8))
        )
        axis = '<line class="axis" x1="50" x2="50" y1="0" y2="15"/>'
        picture = Html(f'<svg viewBox="0 0 100 15" aria-hidden="true">{bars}{axis}</svg>')
        figures = tag("td", f"{100 * new[j]:+.1f} / {100 * old[j]:+.1f}")
        rows.append(tag("tr", tag("td", name(tickers[j], 16)), tag("td", picture), figures))
    return tag("table", tag("tbody", *rows), class_="movers")
