"""The style of the figures: a palette for colour-blind readers, matplotlib settings, and grids of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# Okabe and Ito's palette, without its yellow.
BLUE, ORANGE, GREEN, RED, SKY, PURPLE, BLACK, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000", "#8A8A8A",
)  # fmt: skip
# Text is 20 pixels high, so that a figure can be read at half its size.
STYLE = {
    "font.size": 15,
    "axes.titlesize": 15,
    "axes.titleweight": "normal",
    "xtick.labelsize": 13,
    "ytick.labelsize": 13,
    "lines.markersize": 7,
    "lines.linewidth": 1.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 13,
    "legend.handlelength": 1.4,
    "figure.dpi": 100,
    "savefig.dpi": 100,
    "figure.constrained_layout.use": True,
}

MAX_IN_A_ROW = 4  # panels

Array = Any


def subplots(rows: int = 1, columns: int = 1, size: tuple[float, float] = (7.2, 4.8), **options: Any) -> Any:
    """A figure without a window, and its axes; `size` is the size of one panel in inches."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        return figure, figure.subplots(rows, columns, **options)


def mosaic(rows: Array, shape: tuple[int, int], columns: int, gap: int = 2) -> Array:
    """Rows (n, height·width) as one picture of n cells; each cell is scaled from its minimum to its maximum."""
    height, width = shape
    count = -(-len(rows) // columns)
    picture = np.ones((count * (height + gap) - gap, columns * (width + gap) - gap))
    for i, row in enumerate(rows):
        low, high = row.min(), row.max()
        top, left = (i // columns) * (height + gap), (i % columns) * (width + gap)
        picture[top : top + height, left : left + width] = ((row - low) / (high - low or 1.0)).reshape(shape)
    return picture


def square(d: int) -> tuple[int, int]:
    """The shape of a square image of d pixels."""
    side = round(d**0.5)
    return side, side


def image_panels(panels: Sequence[tuple[str, Array]], columns: int, shape: tuple[int, int], inches: float = 3.2) -> Any:
    """Grids of images side by side, at most four in a row, each with a title."""
    n_rows = -(-len(panels) // MAX_IN_A_ROW)
    figure, axes = subplots(n_rows, -(-len(panels) // n_rows), size=(inches, inches + 0.35), squeeze=False)
    figure.get_layout_engine().set(wspace=0.05)
    for axis in axes.flat:
        axis.axis("off")
    for axis, (title, rows) in zip(axes.flat, panels, strict=False):
        axis.imshow(mosaic(rows, shape, columns), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(title)
    return figure


def panel_rows(panels: Sequence[tuple[str, Array]], columns: int, shape: tuple[int, int], n_rows: int = 2) -> Any:
    """Grids of images in several rows, each with a title that is broken at commas and brackets."""
    figure, axes = subplots(n_rows, -(-len(panels) // n_rows), size=(2.3, 2.7), squeeze=False)
    for axis in axes.ravel():
        axis.axis("off")
    for axis, (title, rows) in zip(axes.ravel(), panels, strict=False):
        axis.imshow(mosaic(rows, shape, columns), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(title.replace(", ", ",\n").replace(" (", "\n("), fontsize=8)
    return figure
