"""Small parts of the page as HTML: attention weights as bars, what a chain shows at one step, and headings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._backend.html import Html, joined, name, number, share, tag
from ..data.gallery import GalleryItems
from ..generators.hopfield import Hopfield
from ..synthesizer import Synthesizer
from .chain import Attention, Walk, decoded
from .state import without_rounding


def heading(title: str, note: str) -> Html:
    """The heading of a plot."""
    return joined([tag("h2", title), tag("p", note, class_="note")])


def attention_bars(found: Attention | None, ids: Sequence[str]) -> Html:
    """Attention weights as bars, the largest first; or a hint where nothing is selected."""
    if found is None:
        return tag("p", "Select a new example to see which stored ones it attends to.", class_="note")
    rows = []
    for k, weight in zip(found.indices.tolist(), found.weights.tolist(), strict=True):
        bar = Html(f'<span class="bar"><i style="width:{100 * weight:.1f}%"></i></span>')
        cells = tag("span", name(ids[k], 40)), bar, tag("span", share(weight))
        rows.append(tag("li", *cells))
    return tag("ul", *rows, class_="bars", aria_label="attention weights")


def step_card(synth: Synthesizer, hopfield: Hopfield, walk: Walk, step: int) -> Html:
    """The state of a chain after a step, beside the memory nearest to it."""
    basin, kind, codec = walk.basins[step : step + 1], synth.kind, synth.codec
    items = decoded(synth, hopfield, walk.rows[step : step + 1], basin)
    nearest, extra = kind.annotate(codec, items, 1)
    novelty = without_rounding(synth.novelty(items))
    return kind.gallery(
        codec, GalleryItems(items, np.array([step - 1]), nearest, novelty, extra, with_differences=True)
    )


def walk_summary(walk: Walk, step: int) -> str:
    """The figures of a chain at a step, in words."""
    figures = f"step {step}, energy {number(float(walk.energies[step]))}"
    return f"{figures}; {walk.crossings} crossings, {share(walk.acceptance)} of the steps accepted"
