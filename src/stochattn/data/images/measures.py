"""New pictures against stored ones: levels, spread, sharpness, copies, classes, and the regions of a picture."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..._backend.arrays import Array
from ...core.metrics import frechet_diagonal
from ...core.neighbors import evenly
from ..legacy import Comparison, Measure, Part

MOST_ENTRIES = 2**24
"""Of many pictures an evenly spaced subset of at most this many values is compared; copies are counted among all."""
MOST_CLASSES = 12
"""Shares of single classes are told for no more classes than this."""
ROWS = {1: ("",), 2: ("top", "bottom"), 3: ("top", "middle", "bottom")}
COLUMNS = {1: ("",), 2: ("left", "right"), 3: ("left", "centre", "right")}


def compare(new: Array, stored: Array, labels: tuple[str, ...] | None, near: Array | None) -> Comparison:
    """Figures and regions of new pictures (n, h, w[, 3]) beside those of stored ones (K, h, w[, 3]).

    near: (n,) the stored picture that each new one is nearest to, for its class; None without labels
    """
    some = new[evenly(len(new), max(MOST_ENTRIES // stored[0].size, 2))]
    measures = [
        Measure(
            "mean level", float(some.mean() - stored.mean()), 0.0, "How much brighter new pictures are, of 255 levels."
        )
    ]
    if len(some) > 1:
        flat = (x.reshape(len(x), -1) / 255.0 for x in (some, stored))
        distance = frechet_diagonal(*flat)
        meaning = "Squared differences of each pixel's mean and standard deviation, levels from 0 to 1, summed."
        measures.append(Measure("Fréchet distance of pixels", distance, 0.0, meaning))
    edges = sharpness(stored)
    if edges > 0:
        meaning = "Mean difference of neighbouring pixels, over that of stored ones: above 1 noisy, below 1 blurred."
        measures.append(Measure("sharpness", sharpness(some) / edges, 1.0, meaning))
    known = {image.tobytes() for image in stored}
    copies = sum(image.tobytes() in known for image in new) / len(new)
    measures.append(
        Measure("exact copies", copies, 0.0, "Share of new pictures that equal a stored one pixel by pixel.")
    )
    if labels is not None and near is not None:
        measures.extend(_classes(labels, near))
    return Comparison(tuple(measures), tuple(_regions(some, stored)))


def sharpness(images: Array) -> float:
    """Mean absolute difference of neighbouring pixels, down and across."""
    differences = [np.abs(np.diff(images.astype(np.float32), axis=axis)) for axis in (1, 2) if images.shape[axis] > 1]
    return float(np.mean([d.mean(dtype=np.float64) for d in differences])) if differences else 0.0


def _classes(labels: tuple[str, ...], near: Array) -> list[Measure]:
    """Shares of the classes among new pictures, each of the class of its nearest stored one."""
    stored, new = Counter(labels), Counter(labels[k] for k in near)
    ideal = {name: stored[name] / len(labels) for name in sorted(stored)}
    found = {name: new[name] / len(near) for name in ideal}
    apart = sum(abs(found[name] - ideal[name]) for name in ideal) / 2
    measures = [Measure("class shares", apart, 0.0, "Share of new pictures that would have to change class to match.")]
    if len(ideal) <= MOST_CLASSES:
        meaning = "Share of new pictures whose nearest stored one has this class."
        measures += [Measure(f"class {name}", found[name], ideal[name], meaning) for name in ideal]
    return measures


def _regions(new: Array, stored: Array) -> list[Part]:
    """Mean levels of the regions of a 3 x 3 grid; fewer where a picture has fewer pixels."""
    from scipy.stats import ks_2samp

    down, across = min(3, stored.shape[1]), min(3, stored.shape[2])
    rows, columns = (np.array_split(np.arange(stored.shape[1 + i]), n) for i, n in enumerate((down, across)))
    parts = []
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            of_new, of_stored = (
                x[:, row[0] : row[-1] + 1, column[0] : column[-1] + 1].reshape(len(x), -1).mean(1)
                for x in (new, stored)
            )
            name = _name(ROWS[down][i], COLUMNS[across][j])
            distance = float(ks_2samp(of_new, of_stored, method="asymp").statistic)
            parts.append(Part(name, _level(of_stored), _level(of_new), distance))
    return parts


def _name(row: str, column: str) -> str:
    if row == "middle" and column:
        return column
    return (row if column == "centre" and row else f"{row} {column}").strip() or "all"


def _level(means: Array) -> str:
    return f"{means.mean():.0f} ± {means.std():.0f}"
