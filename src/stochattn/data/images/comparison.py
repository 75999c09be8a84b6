"""New pictures against stored ones: levels, spread, sharpness, copies, classes, regions, and pairs of pictures."""

from __future__ import annotations

import io
from collections import Counter

import numpy as np
from PIL import Image

from ..._backend.arrays import Array
from ..._backend.html import Html, joined, number, picture, png, tag
from ...core.metrics import frechet_diagonal
from ...core.neighbors import evenly
from ..comparison import Comparison, Measure, Part
from ..gallery import GalleryItems, stored_name
from .codec import ImageCodec

MAX_ENTRIES = 2**24
"""Of many pictures an evenly spaced subset of at most this many values is compared; copies are counted among all."""
MAX_CLASSES = 12
"""Shares of single classes are reported for no more classes than this."""
MAX_SIDE = {2: 160, 3: 96}
"""Pixels along a side of a grey and of a coloured picture on a page: noise does not compress."""
ROWS = {1: ("",), 2: ("top", "bottom"), 3: ("top", "", "bottom")}
COLUMNS = {1: ("",), 2: ("left", "right"), 3: ("left", "", "right")}


def compare_pictures(new: Array, stored: Array, labels: tuple[str, ...] | None, near: Array | None) -> Comparison:
    """Figures and regions of new pictures (n, h, w[, 3]) beside those of stored ones (K, h, w[, 3]).

    near: (n,) the stored picture that each new one is nearest to, for its class; None without labels
    """
    some = new[evenly(len(new), max(MAX_ENTRIES // stored[0].size, 2))]
    known = {image.tobytes() for image in stored}
    copies = sum(image.tobytes() in known for image in new) / len(new)
    brighter, edges = float(some.mean() - stored.mean()), _sharpness(stored)
    measures = [Measure("mean level", brighter, 0.0, "How much brighter new pictures are, of 255 levels.")]
    if len(some) > 1:
        distance = frechet_diagonal(*(x.reshape(len(x), -1) / 255.0 for x in (some, stored)))
        meaning = "Squared differences of each pixel's mean and standard deviation, levels from 0 to 1, summed."
        measures.append(Measure("Fréchet distance of pixels", distance, 0.0, meaning))
    if edges > 0:
        meaning = "Mean difference of neighbouring pixels, over that of stored ones: above 1 noisy, below 1 blurred."
        measures.append(Measure("sharpness", _sharpness(some) / edges, 1.0, meaning))
    meaning = "Share of new pictures that equal a stored one pixel by pixel."
    measures.append(Measure("exact copies", copies, 0.0, meaning))
    if labels is not None and near is not None:
        measures.extend(_classes(labels, near))
    return Comparison(tuple(measures), tuple(_regions(some, stored)))


def picture_gallery(codec: ImageCodec, shown: GalleryItems) -> Html:
    """New pictures beside the stored ones nearest to them, as a part of a page; each pixel is a square."""
    cards = []
    for i, k in enumerate(shown.nearest):
        new = _thumbnail(shown.items[i], f"new picture {shown.numbers[i] + 1}")
        stored = _thumbnail(codec.stored[k], f"stored picture {codec.ids[k]}")
        novelty = f" · novelty {number(float(shown.novelty[i]), 2)} · beside "
        beside = stored_name(codec.ids, codec.labels, int(k))
        caption = tag("figcaption", tag("b", f"{shown.numbers[i] + 1:,}"), novelty, beside)
        cards.append(tag("div", tag("figure", tag("div", new, stored, class_="two"), caption), class_="item"))
    about = "New on the left, nearest stored on the right."
    return joined([tag("p", about, class_="note"), tag("div", *cards, class_="items pictures")])


def _sharpness(images: Array) -> float:
    """Mean absolute difference of neighbouring pixels, down and across."""
    differences = [np.abs(np.diff(images.astype(np.float32), axis=axis)) for axis in (1, 2) if images.shape[axis] > 1]
    return float(np.mean([d.mean(dtype=np.float64) for d in differences])) if differences else 0.0


def _classes(labels: tuple[str, ...], near: Array) -> list[Measure]:
    """Shares of the classes among new pictures, each of the class of its nearest stored one."""
    stored, new = Counter(labels), Counter(labels[k] for k in near)
    ideal = {name: stored[name] / len(labels) for name in sorted(stored)}
    found = {name: new[name] / len(near) for name in ideal}
    difference = sum(abs(found[name] - ideal[name]) for name in ideal) / 2
    meaning = "Share of new pictures that would have to change class to match."
    measures = [Measure("class shares", difference, 0.0, meaning)]
    if len(ideal) <= MAX_CLASSES:
        meaning = "Share of new pictures whose nearest stored one has this class."
        measures += [Measure(f"class {name}", found[name], ideal[name], meaning) for name in ideal]
    return measures


def _regions(new: Array, stored: Array) -> list[Part]:
    """Mean levels of the regions of a 3 x 3 grid; fewer where a picture has fewer pixels."""
    from scipy.stats import ks_2samp

    down, across = min(3, stored.shape[1]), min(3, stored.shape[2])
    rows, columns = (np.array_split(np.arange(stored.shape[1 + i]), n) for i, n in enumerate((down, across)))
    parts = []
    for row, vertical in zip(rows, ROWS[down], strict=True):
        for column, horizontal in zip(columns, COLUMNS[across], strict=True):
            place = slice(None), slice(row[0], row[-1] + 1), slice(column[0], column[-1] + 1)
            of_new, of_stored = (x[place].reshape(len(x), -1).mean(1) for x in (new, stored))
            before, after = (f"{means.mean():.0f} ± {means.std():.0f}" for means in (of_stored, of_new))
            distance = float(ks_2samp(of_new, of_stored, method="asymp").statistic)
            parts.append(Part(f"{vertical} {horizontal}".strip() or "centre", before, after, distance))
    return parts


def _thumbnail(image: Array, alt: str) -> Html:
    shown = Image.fromarray(np.asarray(image, dtype=np.uint8))
    shown.thumbnail((MAX_SIDE[np.ndim(image)],) * 2)
    buffer = io.BytesIO()
    shown.save(buffer, "PNG", optimize=True)
    return picture(png(buffer.getvalue()), alt)
