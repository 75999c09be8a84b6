"""New pictures into files: a folder of PNG files, a contact sheet, or one array file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, PngImagePlugin

from ..._backend.arrays import Array
from ..legacy import Batch, Settings
from .pictures import CONTACT_SHEET, TABLE

ON_A_SHEET = 100
SMALLEST_TILE, GAP = 64, 2
"""Small pictures are enlarged on a contact sheet, by whole factors up to this many pixels."""


class FolderWriter:
    """PNG files, a contact sheet of the first, and a table of what each is nearest to."""

    def __init__(
        self, folder: Path, ids: tuple[str, ...], settings: Settings, labels: tuple[str, ...] | None = None
    ) -> None:
        self._folder, self._ids, self._about, self._labels = folder, ids, _about(settings), labels
        self._first: list[Array] = []
        self._table = (folder / TABLE).open("w", encoding="utf-8", newline="")
        self._rows = csv.writer(self._table, lineterminator="\n")

    def write(self, batch: Batch) -> None:
        """Write these, numbered from 1."""
        if self._table.tell() == 0:
            self._rows.writerow(["number", *(["class"] if self._labels else []), "nearest", "novelty", *batch.extra])
        for i, image in enumerate(batch.items):
            number = batch.first + i + 1
            _save(image, self._folder / f"new-{number:06d}.png", self._about)
            further = [_text(column[i]) for column in batch.extra.values()]
            label = [self._labels[batch.memory[i]]] if self._labels else []
            self._rows.writerow([number, *label, self._ids[batch.nearest[i]], f"{batch.novelty[i]:.6f}", *further])
        self._first.extend(batch.items[: ON_A_SHEET - len(self._first)])

    def close(self) -> None:
        """Write the contact sheet."""
        self._table.close()
        if self._first:
            _save(contact_sheet(np.stack(self._first)), self._folder / CONTACT_SHEET, self._about)


class SheetWriter:
    """One PNG file with the first pictures in a grid."""

    def __init__(self, stream: BinaryIO, settings: Settings) -> None:
        self._stream, self._about = stream, _about(settings)
        self._first: list[Array] = []

    def write(self, batch: Batch) -> None:
        """Keep the first of these for the sheet."""
        self._first.extend(batch.items[: max(ON_A_SHEET - len(self._first), 0)])

    def close(self) -> None:
        """Write the sheet."""
        buffer = io.BytesIO()
        _save(contact_sheet(np.stack(self._first)), buffer, self._about)
        self._stream.write(buffer.getvalue())


class ArrayWriter:
    """One array file: .npy with the pictures alone, or .npz with what each is nearest to and the settings."""

    def __init__(
        self,
        stream: BinaryIO,
        format: str,
        ids: tuple[str, ...],
        settings: Settings,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        self._stream, self._format, self._ids, self._settings, self._labels = stream, format, ids, settings, labels
        self._batches: list[Batch] = []

    def write(self, batch: Batch) -> None:
        """Keep these: the head of an array file tells how many there are."""
        self._batches.append(batch)

    def close(self) -> None:
        """Write them."""
        images = np.concatenate([batch.items for batch in self._batches])
        buffer = io.BytesIO()
        if self._format == "npy":
            np.save(buffer, images, allow_pickle=False)
        else:
            arrays: dict[str, Any] = {
                name: np.concatenate([batch.extra[name] for batch in self._batches]) for name in self._batches[0].extra
            }
            arrays["images"] = images
            arrays["nearest"] = np.array(self._ids)[np.concatenate([batch.nearest for batch in self._batches])]
            if self._labels is not None:
                arrays["labels"] = np.array(self._labels)[np.concatenate([batch.memory for batch in self._batches])]
            arrays["novelty"] = np.concatenate([batch.novelty for batch in self._batches])
            arrays["settings"] = np.array(_about(self._settings))
            np.savez_compressed(buffer, **arrays)
        self._stream.write(buffer.getvalue())


def contact_sheet(images: Array) -> Array:
    """Pictures (n, h, w) or (n, h, w, 3) side by side on white, about as many across as down: (H, W[, 3])."""
    height, width = images.shape[1:3]
    factor = max(1, SMALLEST_TILE // max(height, width))
    tiles = images.repeat(factor, axis=1).repeat(factor, axis=2)
    height, width = tiles.shape[1] + GAP, tiles.shape[2] + GAP
    columns = int(np.ceil(np.sqrt(len(tiles))))
    rows = -(-len(tiles) // columns)
    sheet = np.full((rows * height + GAP, columns * width + GAP, *images.shape[3:]), 255, dtype=np.uint8)
    for i, tile in enumerate(tiles):
        row, column = divmod(i, columns)
        top, left = row * height + GAP, column * width + GAP
        sheet[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
    return sheet


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _about(settings: Settings) -> str:
    return json.dumps(settings._asdict(), sort_keys=True)


def _save(image: Array, place: Path | BinaryIO, about: str) -> None:
    """Write a PNG file that carries the settings as a text."""
    text = PngImagePlugin.PngInfo()
    text.add_text("stochattn", about)
    Image.fromarray(image).save(place, format="PNG", pnginfo=text)
