"""New pictures into files: a folder of PNG files, a contact sheet, or one array file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, PngImagePlugin

from ..._backend.arrays import Array
from ..base import Batch, Settings
from .codec import ImageCodec
from .pictures import CONTACT_SHEET, TABLE

MAX_ON_SHEET = 100
"""Pictures on a contact sheet."""
MIN_TILE, GAP = 64, 2
"""Small pictures are enlarged on a contact sheet, by whole factors up to this many pixels."""


class FolderWriter:
    """PNG files, a contact sheet of the first, and a table of the stored picture nearest to each."""

    def __init__(self, folder: Path, codec: ImageCodec, settings: Settings) -> None:
        self._folder, self._codec, self._about = folder, codec, _about(settings)
        self._first: list[Array] = []
        self._table = (folder / TABLE).open("w", encoding="utf-8", newline="")
        self._rows = csv.writer(self._table, lineterminator="\n")

    def write(self, batch: Batch) -> None:
        """Write these, numbered from 1."""
        ids, labels = self._codec.ids, self._codec.labels
        nearest, novelty, source = _annotations([batch])
        if self._table.tell() == 0:
            self._rows.writerow(["number", *(["class"] if labels else []), "nearest", "novelty", *batch.extra])
        for i, image in enumerate(batch.items):
            number = batch.first + i + 1
            (self._folder / f"new-{number:06d}.png").write_bytes(_png(image, self._about))
            label = [labels[source[i]]] if labels else []
            further = [f"{column[i]:.6g}" if column.dtype.kind == "f" else column[i] for column in batch.extra.values()]
            self._rows.writerow([number, *label, ids[nearest[i]], f"{novelty[i]:.6f}", *further])
        self._first.extend(batch.items[: MAX_ON_SHEET - len(self._first)])

    def close(self) -> None:
        """Write the contact sheet."""
        self._table.close()
        if self._first:
            (self._folder / CONTACT_SHEET).write_bytes(_png(contact_sheet(np.stack(self._first)), self._about))


class StreamWriter:
    """One file: a contact sheet, .npy with the pictures alone, or .npz with what is nearest to them, and settings."""

    def __init__(self, stream: BinaryIO, format: str, codec: ImageCodec, settings: Settings) -> None:
        self._stream, self._format, self._codec, self._about = stream, format, codec, _about(settings)
        self._batches: list[Batch] = []

    def write(self, batch: Batch) -> None:
        """Keep these, or as many as a sheet shows: the header of a file says how many there are."""
        if self._format != "sheet" or batch.first < MAX_ON_SHEET:
            self._batches.append(batch)

    def close(self) -> None:
        """Write them."""
        images, buffer = np.concatenate([batch.items for batch in self._batches]), io.BytesIO()
        if self._format == "sheet":
            buffer.write(_png(contact_sheet(images[:MAX_ON_SHEET]), self._about))
        elif self._format == "npy":
            np.save(buffer, images, allow_pickle=False)
        else:
            extra = self._batches[0].extra
            arrays = {name: np.concatenate([batch.extra[name] for batch in self._batches]) for name in extra}
            arrays["images"] = images
            nearest, arrays["novelty"], source = _annotations(self._batches)
            arrays["nearest"] = np.array(self._codec.ids)[nearest]
            if self._codec.labels is not None:
                arrays["labels"] = np.array(self._codec.labels)[source]
            arrays["settings"] = np.array(self._about)
            np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        self._stream.write(buffer.getvalue())


def contact_sheet(images: Array) -> Array:
    """Pictures (n, h, w) or (n, h, w, 3) side by side on white, about as many across as down: (H, W[, 3])."""
    factor = max(1, MIN_TILE // max(images.shape[1:3]))
    columns = int(np.ceil(np.sqrt(len(images))))
    rows = -(-len(images) // columns)
    within = [(0, 0)] * (images.ndim - 3)
    padding = [(0, rows * columns - len(images)), (0, GAP), (0, GAP), *within]
    tiles = np.pad(images.repeat(factor, axis=1).repeat(factor, axis=2), padding, constant_values=255)
    _, height, width, *channels = tiles.shape
    grid = tiles.reshape(rows, columns, height, width, *channels).swapaxes(1, 2)
    sheet = grid.reshape(rows * height, columns * width, *channels)
    return np.pad(sheet, [(GAP, 0), (GAP, 0), *within], constant_values=255)


def _annotations(batches: list[Batch]) -> tuple[Array, Array, Array]:
    """The nearest stored picture of each new one, its novelty, and the stored picture that it was drawn around."""
    columns = ([batch.nearest, batch.novelty, batch.source] for batch in batches)
    nearest, novelty, source = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return nearest, novelty, source


def _about(settings: Settings) -> str:
    return json.dumps(settings._asdict(), sort_keys=True)


def _png(image: Array, about: str) -> bytes:
    """A PNG file that carries the settings as a text."""
    text, buffer = PngImagePlugin.PngInfo(), io.BytesIO()
    text.add_text("stochattn", about)
    Image.fromarray(image).save(buffer, format="PNG", pnginfo=text)
    return buffer.getvalue()
