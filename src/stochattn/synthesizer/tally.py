"""What is measured of new items on their way to a file, by one process or by several.

New items as one Zarr array, whose chunks are written by one process, or by the workers of a cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from .._backend.array_files import ZarrRows, create_zarr
from .._backend.arrays import Array
from .._backend.console import Progress
from .._backend.products import limit_to_one_thread
from ..kinds.codec import Batch, Codec, Format, Settings, Writer
from ..kinds.generator import LIBRARY
from ..kinds.kind import AnyKind
from ..kinds.near_copies import NearCopies

if TYPE_CHECKING:
    from .synthesizer import Synthesizer

MAX_CHUNK_BYTES = 2**22


def create_array(synth: Synthesizer, n: int, seed: int, settings: Settings, folder: Path, blocks_per_part: int) -> None:
    """Describe the array of n new items in an empty folder; `ChunkWriter` fills it.

    A chunk holds whole blocks, and a part, of this many blocks, whole chunks: no two workers write to one chunk. The
    first item tells the shape.
    """
    first = next(synth.batches(1, seed))
    row = synth.kind.as_array(synth.codec, first.items, 0)
    blocks, block_bytes = 1, synth.block_size * row.nbytes
    while blocks_per_part % (2 * blocks) == 0 and 2 * blocks * block_bytes <= MAX_CHUNK_BYTES:
        blocks *= 2
    attributes = {**synth.kind.array_attributes(synth.codec), "stochattn": settings._asdict()}
    create_zarr(folder, (n, *row.shape[1:]), blocks * synth.block_size, row.dtype, attributes)


class ChunkWriter:
    """Writes new items to an array that `create_array` described."""

    def __init__(self, kind: AnyKind, codec: Codec, folder: Path) -> None:
        self._kind, self._codec, self._rows = kind, codec, ZarrRows(folder)

    def write(self, batch: Batch) -> None:
        """Write these."""
        self._rows.write(batch.first, self._kind.as_array(self._codec, batch.items, batch.first))

    def close(self) -> None:
        """Write the items that do not fill a chunk."""
        self._rows.close()


MAX_MEASURED = 4096  # items, from the first on, whose novelty and copies are measured as they are in the file
MAX_SUMMARIZED = 2**20  # items, from the first on, whose further columns are summarized: memory stays bounded


@dataclass
class Counts:
    """What is measured of items; sums have a term for each batch, so that joined counts are those of one process."""

    n: int = 0
    novelty: list[float] = field(default_factory=list)
    measured: int = 0
    novelty_decoded: list[float] = field(default_factory=list)
    copies: int = 0
    near_copies: int = 0
    compared: int = 0  # vectors that near-copies are counted among: of a few items, which may have several each
    columns: dict[str, list[Array]] = field(default_factory=dict)
    classes: Counter[str] = field(default_factory=Counter)

    def join(self, other: Counts) -> None:
        """Count the items of `other`, which follow these."""
        for name, value in vars(other).items():
            if name == "columns":
                for column, parts in other.columns.items():
                    self.columns.setdefault(column, []).extend(parts)
            else:
                setattr(self, name, getattr(self, name) + value)


@dataclass
class Tally:
    """Measures items while they pass on their way to a file."""

    synth: Synthesizer
    counts: Counts = field(default_factory=Counts)

    def add(self, batch: Batch) -> None:
        """Count these items. Those that are made of many stored ones have no novelty and no class."""
        kind, codec, counts, before = self.synth.kind, self.synth.codec, self.counts, batch.first
        counts.n += len(batch.items)
        if batch.novelty is None or batch.nearest is None or batch.source is None:
            return
        counts.novelty.append(float(batch.novelty.sum()))
        for name, values in batch.extra.items():
            counts.columns.setdefault(name, []).append(values[: max(MAX_SUMMARIZED - before, 0)])
        if codec.labels is not None:
            counts.classes.update(map(str, kind.measures.labels_of(codec, batch.items, batch.source).tolist()))
        measured = np.arange(min(len(batch.items), max(MAX_MEASURED - before, 0)))
        if len(measured):
            items = codec.take(batch.items, measured)
            same = kind.measures.same(codec, items, codec.take(codec.stored, batch.nearest[measured]))
            counts.measured += len(measured)
            counts.novelty_decoded.append(float(self.synth.novelty(items).sum()))
            counts.copies += int(same.reshape(len(measured), -1).all(1).sum())
            compared = codec.take(items, measured[: max(self._n_compared - before, 0)])
            if len(compared):
                near, n_vectors = self._near.count(compared)
                counts.near_copies += near
                counts.compared += n_vectors

    @cached_property
    def _near(self) -> NearCopies:
        return NearCopies.of(self.synth.kind, self.synth.codec, self.synth.kept)

    @cached_property
    def _n_compared(self) -> int:
        """How many items, from the first on, are compared with all stored ones."""
        codec = self.synth.codec
        vectors = self.synth.kind.measures.comparable(codec, codec.take(codec.stored, np.arange(1)))
        return max(self._near.n_measured(MAX_MEASURED) // len(vectors), 1)


def make_writer(synth: Synthesizer, place: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
    """The writer of a format: that of the kind of data, or of the chunks of an array, which must exist."""
    if format.in_chunks:
        assert isinstance(place, Path)  # only a folder holds chunks
        return ChunkWriter(synth.kind, synth.codec, place)
    return synth.kind.writer(synth.codec, place, format, settings)


def write_items(
    synth: Synthesizer,
    batches: Iterable[Batch],
    place: BinaryIO | Path,
    format: Format,
    settings: Settings,
    progress: Progress | None = None,
) -> Counts:
    """Write batches to a file or an empty folder, and count them."""
    with limit_to_one_thread(LIBRARY):
        tally, writer = Tally(synth), make_writer(synth, place, format, settings)
        try:
            for batch in batches:
                writer.write(batch)
                tally.add(batch)
                if progress is not None:
                    progress.update(batch.first + len(batch.items))
        except Exception:
            with suppress(Exception):  # an open Parquet file complains when it is collected
                writer.close()
            raise
        writer.close()
    return tally.counts
