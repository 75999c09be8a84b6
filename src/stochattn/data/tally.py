"""What is measured of new items on their way to a file, by one process or by several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from .._backend.arrays import Array
from .._backend.blas import single_threaded
from .._backend.progress import Progress
from ..generators.base import Description
from .base import Batch, Codec, Format, Items, Settings, Writer
from .chunks import ChunkWriter
from .drawing import LIBRARY
from .kind import AnyKind, GeneratorChoice
from .near_copies import NearCopies

MAX_MEASURED = 4096  # items, from the first on, whose novelty and copies are measured as they are in the file
MAX_SUMMARIZED = 2**20  # items, from the first on, whose further columns are summarized: memory stays bounded


class Sampled(Protocol):
    """What writing asks of a Synthesizer, which stands above this package."""

    @property
    def kind(self) -> AnyKind: ...
    @property
    def codec(self) -> Codec: ...
    @property
    def choice(self) -> GeneratorChoice: ...
    @property
    def source(self) -> str: ...
    @property
    def source_sha256(self) -> str | None: ...
    @property
    def kept(self) -> Array: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    def describe(self) -> Description: ...
    @property
    def block_size(self) -> int: ...
    def batches(self, n: int, seed: int, n_jobs: int | None = None, blocks: range | None = None) -> Iterator[Batch]: ...
    def novelty(self, items: Items) -> Array: ...
    def predicted_novelty(self) -> float: ...
    def predicted_shares(self) -> dict[str, float]: ...


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

    synth: Sampled
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
            counts.classes.update(map(str, kind.labels_of(codec, batch.items, batch.source).tolist()))
        some = np.arange(min(len(batch.items), max(MAX_MEASURED - before, 0)))
        if len(some):
            items = codec.take(batch.items, some)
            same = kind.same(codec, items, codec.take(codec.stored, batch.nearest[some]))
            counts.measured += len(some)
            counts.novelty_decoded.append(float(self.synth.novelty(items).sum()))
            counts.copies += int(same.reshape(len(some), -1).all(1).sum())
            compared = codec.take(items, some[: max(self._n_compared - before, 0)])
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
        vectors = self.synth.kind.comparable(codec, codec.take(codec.stored, np.arange(1)))
        return max(self._near.n_measured(MAX_MEASURED) // len(vectors), 1)


def writer_of(synth: Sampled, place: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
    """The writer of a format: that of the kind of data, or of the chunks of an array, which must exist."""
    if format.in_chunks:
        assert isinstance(place, Path)  # only a folder holds chunks
        return ChunkWriter(synth.kind, synth.codec, place)
    return synth.kind.writer(synth.codec, place, format, settings)


def write_items(
    synth: Sampled,
    batches: Iterable[Batch],
    place: BinaryIO | Path,
    format: Format,
    settings: Settings,
    progress: Progress | None = None,
) -> Counts:
    """Write batches to a file or an empty folder, and count them."""
    with single_threaded(LIBRARY):
        tally, writer = Tally(synth), writer_of(synth, place, format, settings)
        for batch in batches:
            writer.write(batch)
            tally.add(batch)
            if progress is not None:
                progress.update(batch.first + len(batch.items))
        writer.close()
    return tally.counts
