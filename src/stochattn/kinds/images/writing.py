"""Writes new images to files (PNG files, a contact sheet, an array), compares them with stored ones, and shows them.

On pages and contact sheets, images of few pixel values are stretched; files of new images keep their values.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ..._backend.html import Html, img, join, number, png, tag
from ...core.metrics import frechet_diagonal
from ...core.neighbors import nearest_rows, spaced_indices
from ...storage.blockwise import slices
from .. import Batch, Comparison, Measure, Part, Settings
from ..comparison import compare_means
from ..delimited.formulas import LINE_END, RowLines, as_text
from ..display import Control, GalleryItems, RectangleControl, stored_name
from .codec import NEW_NAME, TABLE, ImageCodec

WHITE = 255
MIN_RANGE = 128  # between the darkest and the brightest stored pixel; images with a smaller range are hard to see


class ShownLevels(NamedTuple):
    """The pixel values that are shown as black and as white."""

    low: int = 0
    high: int = WHITE

    @classmethod
    def of(cls, stored: Array) -> ShownLevels:
        """The range of stored images if it is small, as for digits with values from 0 to 16; else 0 to 255.

        All images share one range, so that new ones can be compared with stored ones.
        """
        low, high = int(stored.min()), int(stored.max())
        return cls(low, high) if 0 < high - low < MIN_RANGE else cls()

    def stretch(self, images: Array) -> Array:
        """Images (..., h, w[, 3]) with values low … high as 0 … 255; values beyond them are black or white."""
        share = (images.astype(np.float32) - self.low) / (self.high - self.low)
        return np.clip(np.rint(WHITE * share), 0, WHITE).astype(np.uint8)


MAX_ON_SHEET = 100
MIN_TILE, GAP = 64, 2  # on a contact sheet, small images are enlarged by integer factors up to this many pixels
MAX_ENTRIES = 2**24  # values of the evenly spaced images that are compared; copies are counted among all images
MAX_CLASSES = 12  # shares of single classes are reported for at most this many classes
MAX_SIDE = {2: 160, 3: 96}  # pixels of a gray and of a colored image on a page: noise does not compress
TEXTURE = "texture difference"
SQUARES, MIN_SQUARE = 8, 4  # squares along the shorter side, and their least side: fewer pixels have no texture
BLANK = 0.05  # squares whose contrast is below this share of the median, such as a background, are left out
MARK = (214, 110, 20)  # the color of pixels that differ
ROWS = {1: ("",), 2: ("top", "bottom"), 3: ("top", "", "bottom")}
COLUMNS = {1: ("",), 2: ("left", "right"), 3: ("left", "", "right")}


class ImageWriter:
    """Writes a PNG file of each image, and a table of the stored images nearest to them; or one file at the end.

    That file is a contact sheet, .npy with the images alone, or .npz with their nearest stored images and the settings.
    """

    def __init__(self, destination: BinaryIO | Path, format: str, codec: ImageCodec, settings: Settings) -> None:
        self._destination, self._format, self._codec = destination, format, codec
        self._settings, self._batches = json.dumps(settings._asdict(), sort_keys=True), list[Batch]()

    def write(self, batch: Batch) -> None:
        if isinstance(self._destination, Path):
            self._write_files(self._destination, batch)
        elif self._format != "sheet" or batch.first < MAX_ON_SHEET:
            self._batches.append(batch)

    def _write_files(self, folder: Path, batch: Batch) -> None:
        ids, labels = self._codec.ids, self._codec.labels
        nearest, novelty, source = _annotations([batch])
        with (folder / TABLE).open("a", encoding="utf-8", newline="") as table:
            rows = csv.writer(RowLines(table), lineterminator=LINE_END)
            if batch.first == 0:
                rows.writerow(["number", *(["class"] if labels else []), "nearest", "novelty", *batch.extra])
            for i, image in enumerate(batch.items):
                number = batch.first + i + 1
                (folder / NEW_NAME.format(number)).write_bytes(encode_png(image, self._settings))
                label = [labels[source[i]]] if labels else []
                extra = [values[i] for values in batch.extra.values()]
                further = [f"{value:.6g}" if isinstance(value, np.floating) else value for value in extra]
                rows.writerow([number, *map(as_text, [*label, ids[nearest[i]]]), f"{novelty[i]:.6f}", *further])

    def close(self) -> None:
        if isinstance(self._destination, Path):
            return
        images, buffer = np.concatenate([batch.items for batch in self._batches]), io.BytesIO()
        if self._format == "sheet":
            shown = ShownLevels.of(self._codec.stored).stretch(images[:MAX_ON_SHEET])
            buffer.write(encode_png(contact_sheet(shown), self._settings))
        elif self._format == "npy":
            np.save(buffer, images, allow_pickle=False)
        else:
            names = self._batches[0].extra
            arrays = {name: np.concatenate([batch.extra[name] for batch in self._batches]) for name in names}
            nearest, novelty, source = _annotations(self._batches)
            arrays |= {"images": images, "novelty": novelty, "nearest": np.array(self._codec.ids)[nearest]}
            if self._codec.labels is not None:
                arrays["labels"] = np.array(self._codec.labels)[source]
            np.savez_compressed(buffer, **arrays, settings=np.array(self._settings))  # type: ignore[arg-type]
        self._destination.write(buffer.getvalue())


def contact_sheet(images: Array) -> Array:
    """Images (n, h, w) or (n, h, w, 3) on a white grid with about as many columns as rows: (H, W[, 3])."""
    factor = max(1, MIN_TILE // max(images.shape[1:3]))
    columns = int(np.ceil(np.sqrt(len(images))))
    rows = -(-len(images) // columns)
    within = [(0, 0)] * (images.ndim - 3)
    padding = [(0, rows * columns - len(images)), (0, GAP), (0, GAP), *within]
    tiles = np.pad(images.repeat(factor, axis=1).repeat(factor, axis=2), padding, constant_values=255)
    _, height, width, *channels = tiles.shape
    grid = tiles.reshape(rows, columns, height, width, *channels).swapaxes(1, 2)
    margins = [(GAP, 0), (GAP, 0), *within]
    return np.pad(grid.reshape(rows * height, columns * width, *channels), margins, constant_values=255)


def compare_images(codec: ImageCodec, items: Array) -> Comparison:
    """Measures of new images (n, h, w[, 3]) and of their regions against the stored ones."""
    items, stored, labels = np.asarray(items), codec.stored, codec.labels
    new = items[spaced_indices(len(items), max(MAX_ENTRIES // stored[0].size, 2))]
    contents = {image.tobytes() for image in stored}
    share_copied = sum(image.tobytes() in contents for image in items) / len(items)
    brightness, edges = float(new.mean() - stored.mean()), _sharpness(stored)
    measures = [Measure("mean level", brightness, 0.0, "How much brighter new images are, on the scale from 0 to 255.")]
    if len(new) > 1:
        distance = frechet_diagonal(*(x.reshape(len(x), -1) / 255.0 for x in (new, stored)))
        meaning = "Sum of squared differences of the mean and the standard deviation of each pixel, from 0 to 1."
        measures.append(Measure("Fréchet distance of pixels", distance, 0.0, meaning))
    if edges > 0:
        meaning = "Mean difference of neighboring pixels, over that of stored ones: above 1 noisy, below 1 blurred."
        measures.append(Measure("sharpness", _sharpness(new) / edges, 1.0, meaning))
    if math.isfinite(texture := _texture_difference(new, stored)):
        meaning = "How much more streaked, blurred or noisy small squares are, as a Kolmogorov distance from 0 to 1."
        measures.append(Measure(TEXTURE, texture, 0.0, meaning))
    measures.append(
        Measure("exact copies", share_copied, 0.0, "Share of new images that equal a stored one pixel by pixel.")
    )
    if labels is not None:  # the class of a new image is that of the nearest stored one
        parts = slices(len(items), max(MAX_ENTRIES // items[0].size, 1))
        nearest = np.concatenate([nearest_rows(codec.features(items[part]), codec.features(stored)) for part in parts])
        of_stored, of_new = Counter(labels), Counter(labels[k] for k in nearest)
        shares = {name: (of_new[name] / len(nearest), of_stored[name] / len(labels)) for name in sorted(of_stored)}
        difference = sum(abs(share - ideal) for share, ideal in shares.values()) / 2
        meaning = "Share of new images that would have to change class to match."
        measures.append(Measure("class shares", difference, 0.0, meaning))
        meaning = "Share of new images whose nearest stored one has this class."
        by_class = [Measure(f"class {name}", *share, meaning) for name, share in shares.items()]
        measures += by_class if len(by_class) <= MAX_CLASSES else []
    return Comparison(tuple(measures), tuple(_compare_regions(new, stored)))


def image_controls(codec: ImageCodec) -> tuple[Control, ...]:
    """A rectangle, drawn on a stored image, that new images have in common with it."""
    (height, width), levels = codec.shape[:2], ShownLevels.of(codec.stored)

    def shown(k: int) -> str:
        return png(encode_png(levels.stretch(codec.stored[k])))

    return (RectangleControl("rectangle", "Rectangle to keep", height, width, codec.ids, shown),)


def image_gallery(codec: ImageCodec, shown: GalleryItems) -> Html:
    """New images beside the stored ones nearest to them, as a part of a page; each pixel is a square."""
    levels, cards = ShownLevels.of(codec.stored), []
    for i, k in enumerate(shown.nearest):
        pair = levels.stretch(shown.items[i]), levels.stretch(codec.stored[k])
        new = img(png(encode_png(pair[0])), f"new image {shown.numbers[i] + 1}")
        stored = img(png(encode_png(pair[1])), f"stored image {codec.ids[k]}")
        figures = [new, stored]
        if shown.with_differences:
            figures.append(img(png(_difference(*pair)), "where they differ", class_="heat"))
        novelty = f" · novelty {number(float(shown.novelty[i]), 2)} · beside "
        beside = stored_name(codec.ids, codec.labels, int(k))
        caption = tag("figcaption", tag("b", f"{shown.numbers[i] + 1:,}"), novelty, beside)
        images = tag("div", *figures, class_="three" if shown.with_differences else "two")
        cards.append(tag("div", tag("figure", images, caption), class_="item"))
    is_pair = not shown.with_differences
    about = (
        "New on the left, nearest stored on the right." if is_pair else "New, nearest stored, and where they differ."
    )
    if levels != ShownLevels():  # images are shown with other pixel values than they have
        about += f" Pixel values {levels.low} to {levels.high} are shown as black to white."
    return join([tag("p", about, class_="note"), tag("div", *cards, class_="items pictures")])


def _difference(new: Array, stored: Array) -> bytes:
    """A PNG file of how much two images (h, w[, 3]) differ: opaque where they differ by half of the range."""
    gap = np.abs(new.astype(np.int16) - stored)
    gap = gap if gap.ndim == 2 else gap.max(2)
    color = np.broadcast_to(np.array(MARK, dtype=np.uint8), (*gap.shape, 3))
    opaque = np.minimum(2 * gap, 255).astype(np.uint8)[..., None]
    return encode_png(np.concatenate([color, opaque], axis=2))


def image_statistics(codec: ImageCodec, items: Array) -> Array:
    """Statistics of each image: moments of pixel values, and differences of neighbors, at larger scales too."""
    levels = np.asarray(items, dtype=np.float32)
    levels = levels.mean(3) if levels.ndim == 4 else levels
    flat = levels.reshape(len(levels), -1)
    means, spreads = flat.mean(1), flat.std(1)
    scores = (flat - means[:, None]) / (spreads + 1)[:, None]
    figures, steps = [means, spreads, (scores**3).mean(1), (scores**4).mean(1)], []
    for axis in (1, 2):
        for order in (1, 2):  # first and second differences, which streaks and blur change
            if levels.shape[axis] > order:
                size = np.abs(np.diff(levels, order, axis=axis)).reshape(len(levels), -1)
                steps.append(size.mean(1))
                figures.append(np.sqrt(np.square(size).mean(1)) / (steps[-1] + 1))
    for factor in (2, 4):
        height, width = (side // factor for side in levels.shape[1:])
        if min(height, width) > 1:
            cut = levels[:, : height * factor, : width * factor]
            coarse = cut.reshape(-1, height, factor, width, factor).mean((2, 4))
            steps.append(np.abs(np.diff(coarse, axis=1)).mean((1, 2)))
    ratios = [np.log((size + 1) / (steps[0] + 1)) for size in steps[1:]]
    return np.stack([*figures, *steps, *ratios], axis=1).astype(np.float64)


def _sharpness(images: Array) -> float:
    differences = [np.abs(np.diff(images.astype(np.float32), axis=axis)) for axis in (1, 2) if images.shape[axis] > 1]
    return float(np.mean([d.mean(dtype=np.float64) for d in differences])) if differences else 0.0


def _texture_difference(new: Array, stored: Array) -> float:
    """The larger of two Kolmogorov distances between small squares of new and of stored images; NaN without squares."""
    from scipy.stats import ks_2samp

    pairs = list(zip(_texture(new), _texture(stored), strict=True))
    if not all(len(values) for pair in pairs for values in pair):
        return math.nan
    return max(float(ks_2samp(*pair, method="asymp").statistic) for pair in pairs)


def _texture(images: Array) -> tuple[Array, Array]:
    """How streaked and how sharp the squares of images are: (m,) of each, for squares that are not blank.

    In a streak, values differ in one direction only: the first measure is the smaller over the larger of the mean
    differences down and across. Blur removes second differences: the second is their ratio to first differences.
    """
    x = images.astype(np.float32).mean(3) if images.ndim == 4 else images.astype(np.float32)
    n, H, W = x.shape
    side = max(min(H, W) // SQUARES, MIN_SQUARE)
    down, across = H // side, W // side

    def square_means(differences: Array) -> Array:
        same_size = np.zeros_like(x)
        same_size[:, : differences.shape[1], : differences.shape[2]] = np.abs(differences)
        squares = same_size[:, : down * side, : across * side].reshape(n, down, side, across, side)
        return np.asarray(squares.mean((2, 4)).ravel())

    slopes = [square_means(np.diff(x, axis=axis)) for axis in (1, 2)]
    curvatures = [square_means(np.diff(x, n=2, axis=axis)) for axis in (1, 2)]
    total = slopes[0] + slopes[1]
    seen = total > BLANK * np.median(total[total > 0]) if total.any() else total > 0
    curvature = curvatures[0] + curvatures[1]
    return np.minimum(*slopes)[seen] / np.maximum(*slopes)[seen], curvature[seen] / total[seen]


def _compare_regions(new: Array, stored: Array) -> list[Part]:
    """The distributions of mean values in the regions of a 3 x 3 grid, or fewer in images of fewer pixels."""
    down, across = (np.array_split(np.arange(side), min(3, side)) for side in stored.shape[1:3])
    parts = []
    for row, vertical in zip(down, ROWS[len(down)], strict=True):
        for column, horizontal in zip(across, COLUMNS[len(across)], strict=True):
            place = slice(None), slice(row[0], row[-1] + 1), slice(column[0], column[-1] + 1)
            of_stored, of_new = (x[place].reshape(len(x), -1).mean(1) for x in (stored, new))
            parts.append(compare_means(f"{vertical} {horizontal}".strip() or "center", of_stored, of_new, ".0f"))
    return parts


def _annotations(batches: list[Batch]) -> tuple[Array, Array, Array]:
    columns = ([batch.nearest, batch.novelty, batch.source] for batch in batches)
    nearest, novelty, source = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return nearest, novelty, source


def encode_png(image: Array, about: str | None = None) -> bytes:
    """A PNG file with the settings as a text; without settings, a small one for a page."""
    from PIL import Image, PngImagePlugin

    shown, text, buffer = Image.fromarray(image), PngImagePlugin.PngInfo(), io.BytesIO()
    if about is None:
        shown.thumbnail((MAX_SIDE[image.ndim],) * 2)
    else:
        text.add_text("stochattn", about)
    shown.save(buffer, format="PNG", pnginfo=text, optimize=about is None)
    return buffer.getvalue()
