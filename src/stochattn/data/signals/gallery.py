"""New signals on a page, as lines over the stored ones nearest to them."""

from __future__ import annotations

import numpy as np

from ..._backend.arrays import Array
from ..._backend.html import Html, joined, tag
from ..gallery import GalleryItems, card_heading, laid_out, stored_name
from .codec import SignalCodec

WIDTH, HEIGHT = 240, 64  # equivalent: how large a plot is drawn is a matter of taste
MAX_CHANNELS, MAX_POINTS = 4, 400  # of a plot; longer signals are drawn by extremes


def signal_gallery(codec: SignalCodec, shown: GalleryItems) -> Html:
    """Each new signal over the stored one nearest to it, a plot for each of the first channels."""
    cards = []
    for i, k in enumerate(shown.nearest):
        heading = card_heading(shown, i, stored_name(codec.ids, codec.labels, int(k)))
        new, old = np.asarray(shown.items[i]), codec.stored[k]
        plots = [_lines(old[c], new[c], codec.channels[c]) for c in range(min(len(new), MAX_CHANNELS))]
        cards.append(tag("div", heading, *plots, class_="item"))
    keys = tag("span", class_="key new"), "new  ", tag("span", class_="key old"), "nearest stored. "
    more = len(codec.channels) - MAX_CHANNELS
    about = f"The first {MAX_CHANNELS} channels of {len(codec.channels)}." if more > 0 else ""
    return joined([tag("p", *keys, about, class_="note"), laid_out(cards, "items signals")])


def _lines(old: Array, new: Array, channel: str) -> Html:
    """Two lines on one scale."""
    low, high = float(min(old.min(), new.min())), float(max(old.max(), new.max()))
    parts = []
    for which, values in (("old", old), ("new", new)):
        times, values = _thinned(values)
        x = (WIDTH - 2) * times / (len(old) - 1) + 1
        y = 3 + (HEIGHT - 6) * (high - values) / ((high - low) or 1.0)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        parts.append(f'<polyline class="{which}" points="{points}" fill="none" stroke-width="1.4"/>')
    label = f"new and stored values from {low:.3g} to {high:.3g}"
    plot = Html(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>')
    return tag("figure", plot, tag("figcaption", f"channel {channel}: {low:.3g} to {high:.3g}"))


def _thinned(values: Array) -> tuple[Array, Array]:
    """Times and values of a line: all points, or the lowest and highest of each of some pieces."""
    if len(values) <= MAX_POINTS:
        return np.arange(len(values)), values
    kept = set()
    for piece in np.array_split(np.arange(len(values)), MAX_POINTS // 2):
        kept |= {int(piece[values[piece].argmin()]), int(piece[values[piece].argmax()])}
    times = np.array(sorted(kept))
    return times, values[times]
