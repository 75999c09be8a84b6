"""New items on their way to a file: what is measured of them, and parts that the workers of a Dask cluster write.

One process writes a file, or the chunks of a Zarr array. The workers of a cluster draw and write a folder of parts on a
shared file system. Part p holds fixed blocks of items, and block b depends on (seed, b), so that the parts hold the
items that one process writes. The parts of a Zarr array are chunks of it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from uuid import uuid4

import numpy as np

from .._backend.array_files import METADATA, UNFINISHED, ZarrRows, create_zarr
from .._backend.arrays import Array
from .._backend.console import Progress
from .._backend.products import limit_to_one_thread
from ..core.neighbors import nearest_distances
from ..kinds.codec import Batch, Codec, Format, Settings, Writer
from ..kinds.comparison import count_measurable, distances_among, near_limit
from ..kinds.generator import LIBRARY
from ..kinds.kind import AnyKind
from ..kinds.options import InputError
from ..storage.dask import dask_module

if TYPE_CHECKING:
    from distributed import Client, Future

    from .synthesizer import Synthesizer

MAX_CHUNK_BYTES = 2**22
BLOCKS_PER_PART = 16
NO_WORKERS_SECONDS = 10.0  # after which an absence of workers is an error
MAX_SYNTHESIZER = "1 GiB"  # sent to the scheduler without a warning about large task graphs
REMOVING_SECONDS = 5.0  # for which workers that are still writing a part may delay the removal of a folder


def create_array(synth: Synthesizer, n: int, seed: int, settings: Settings, folder: Path) -> None:
    """Describe the array of n new items in an empty folder; `ChunkWriter` fills it.

    A chunk holds whole blocks, and a part holds whole chunks: no two workers write to one chunk. The first item tells
    the shape.
    """
    row = synth.kind.as_array(synth.codec, next(synth.batches(1, seed)).items, 0)
    blocks, block_bytes = 1, synth.block_size * row.nbytes
    while BLOCKS_PER_PART % (2 * blocks) == 0 and 2 * blocks * block_bytes <= MAX_CHUNK_BYTES:
        blocks *= 2
    attributes = {**synth.kind.array_attributes(synth.codec), "stochattn": settings._asdict()}
    create_zarr(folder, (n, *row.shape[1:]), blocks * synth.block_size, row.dtype, attributes)


class ChunkWriter:
    """Writes new items to an array that `create_array` described."""

    def __init__(self, kind: AnyKind, codec: Codec, folder: Path) -> None:
        self._kind, self._codec, self._rows = kind, codec, ZarrRows(folder)

    def write(self, batch: Batch) -> None:
        """Write these items."""
        self._rows.write(batch.first, self._kind.as_array(self._codec, batch.items, batch.first))

    def close(self) -> None:
        """Write the items that do not fill a chunk."""
        self._rows.close()


MAX_MEASURED = 4096  # items, from the first on, whose novelty and copies are measured as they are in the file
MAX_SUMMARIZED = 2**20  # items, from the first on, whose further columns are summarized, so that memory is bounded


@dataclass
class Counts:
    """What is measured of items. Sums have a term for each batch, so that joined counts equal those of one process."""

    n: int = 0
    novelty: list[float] = field(default_factory=list)
    measured: int = 0
    novelty_decoded: list[float] = field(default_factory=list)
    copies: int = 0
    near_copies: int = 0
    compared: int = 0  # vectors among which near-copies are counted; an item may have several
    columns: dict[str, list[Array]] = field(default_factory=dict)
    classes: Counter[str] = field(default_factory=Counter)

    def join(self, following: Counts) -> None:
        """Count further items, which follow these."""
        for column, parts in following.columns.items():
            self.columns.setdefault(column, []).extend(parts)
        for name in vars(self).keys() - {"columns"}:
            setattr(self, name, getattr(self, name) + getattr(following, name))


@dataclass
class Tally:
    """Measures items while they pass on their way to a file."""

    synth: Synthesizer
    counts: Counts = field(default_factory=Counts)

    def add(self, batch: Batch) -> None:
        """Count these items. Those that are made of many stored ones have no novelty and no class."""
        measures, codec, counts, before = self.synth.kind.measures, self.synth.codec, self.counts, batch.first
        counts.n += len(batch.items)
        if batch.novelty is None or batch.nearest is None or batch.source is None:
            return
        counts.novelty.append(float(batch.novelty.sum()))
        for name, values in batch.extra.items():
            counts.columns.setdefault(name, []).append(values[: max(MAX_SUMMARIZED - before, 0)])
        if codec.labels is not None:
            counts.classes.update(map(str, measures.labels_of(codec, batch.items, batch.source).tolist()))
        measured = np.arange(min(len(batch.items), max(MAX_MEASURED - before, 0)))
        if not len(measured):
            return
        items = codec.take(batch.items, measured)
        same = measures.same(codec, items, codec.take(codec.stored, batch.nearest[measured]))
        counts.measured += len(measured)
        counts.novelty_decoded.append(float(self.synth.novelty(items).sum()))
        counts.copies += int(same.reshape(len(measured), -1).all(1).sum())
        compared = codec.take(items, measured[: max(self.n_compared - before, 0)])
        if len(compared) and not np.isnan(self.near_limit):
            vectors = measures.comparable(codec, compared)
            counts.near_copies += int((nearest_distances(vectors, self.stored_vectors) < self.near_limit).sum())
            counts.compared += len(vectors)

    @cached_property
    def stored_vectors(self) -> Array:
        """Vectors (m, p) of the stored items with positive weight."""
        return self.synth.kind.measures.stored_vectors(self.synth.codec, self.synth.kept)

    @cached_property
    def near_limit(self) -> float:
        """The distance below which a vector is a near-copy; NaN if stored vectors do not define one."""
        return near_limit(distances_among(self.stored_vectors))

    @cached_property
    def n_compared(self) -> int:
        """How many items, from the first on, are compared with all stored ones."""
        codec = self.synth.codec
        vectors = self.synth.kind.measures.comparable(codec, codec.take(codec.stored, np.arange(1)))
        return max(count_measurable(self.stored_vectors, MAX_MEASURED) // len(vectors), 1)


@limit_to_one_thread(LIBRARY)
def write_items(
    synth: Synthesizer,
    batches: Iterable[Batch],
    place: BinaryIO | Path,
    format: Format,
    settings: Settings,
    progress: Progress | None = None,
) -> Counts:
    """Write batches to a file or an empty folder, and count them."""
    tally = Tally(synth)
    writer: Writer
    if format.in_chunks and isinstance(place, Path):
        writer = ChunkWriter(synth.kind, synth.codec, place)
    else:
        writer = synth.kind.writer(synth.codec, place, format, settings)
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


class PartFile(NamedTuple):
    """Some blocks of n items, and the file that holds them, or the description of the Zarr array that holds them."""

    path: Path
    n: int
    seed: int
    blocks: range


def list_parts(synth: Synthesizer, n: int, seed: int, folder: Path, format: Format) -> list[PartFile]:
    """The parts of n items. They depend on the items alone, not on the number of workers."""
    name = METADATA if format.in_chunks else f"part-{{:05d}}{format.extensions[0]}"
    blocks = range(-(-n // synth.block_size))
    starts = enumerate(range(0, len(blocks), BLOCKS_PER_PART))
    return [PartFile(folder / name.format(p), n, seed, blocks[b : b + BLOCKS_PER_PART]) for p, b in starts]


def write_parts(
    synth: Synthesizer,
    n: int,
    seed: int,
    format: Format,
    settings: Settings,
    folder: Path,
    client: Client,
    progress: Progress,
) -> Counts:
    """Let the workers write n items to an empty folder, and return the counts of all; the folder goes if this fails."""
    parts, counts = list_parts(synth, n, seed, folder, format), Counts()
    futures = _submit(client, synth, parts, format, settings)
    part_of = dict(zip(futures, parts, strict=True))
    counts_of: dict[Future, Counts] = {}
    try:
        while len(counts_of) < len(parts):
            for future in _wait_for_some(client, [future for future in futures if future not in counts_of]):
                counts_of[future] = _counts_of_task(part_of[future], future, client.scheduler.address)
            progress.update(sum(part_counts.n for part_counts in counts_of.values()))
    except BaseException:
        client.cancel(futures)
        _remove(folder)
        raise
    for future in futures:
        counts.join(counts_of[future])
    unfinished = folder.rglob(UNFINISHED) if format.in_chunks else set(folder.iterdir()) - {part.path for part in parts}
    for path in unfinished:  # of a worker that was killed
        path.unlink()
    return counts


def _submit(
    client: Client, synth: Synthesizer, parts: list[PartFile], format: Format, settings: Settings
) -> list[Future]:
    """Tasks that write the parts. The synthesizer is a task too: it travels once to each worker, and is never lost."""
    dask = dask_module("dask")
    shared = dask.delayed(synth, pure=False, traverse=False)
    write = dask.delayed(write_part, pure=False, traverse=False)
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": MAX_SYNTHESIZER}):
        futures: list[Future] = client.compute([write(shared, part, format, settings) for part in parts])
    return futures


def write_part(synth: Synthesizer, part: PartFile, format: Format, settings: Settings) -> Counts:
    """Write a part, which gets its name when it is complete; chunks of an array get their names one by one."""
    batches = synth.batches(part.n, part.seed, blocks=part.blocks)
    if format.in_chunks:
        return write_items(synth, batches, part.path.parent, format, settings)
    unfinished = part.path.with_name(f".{part.path.name}.{uuid4().hex}")
    try:
        with unfinished.open("wb") as stream:
            counts = write_items(synth, batches, stream, format, settings)
        os.replace(unfinished, part.path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
    return counts


def _wait_for_some(client: Client, futures: list[Future]) -> list[Future]:
    """The tasks that have ended, or none after a while; InputError if the scheduler or all its workers have ended."""
    address = client.scheduler.address
    try:
        with client.as_current():  # `wait` asks the current client
            return list(dask_module("distributed").wait(futures, NO_WORKERS_SECONDS, "FIRST_COMPLETED").done)
    except TimeoutError:
        if client.scheduler_info(n_workers=-1)["workers"]:
            return []
        raise InputError(f"scheduler {address!r} has no workers left. Start some: dask worker {address}.") from None
    except CancelledError:
        raise InputError(f"scheduler {address!r} was lost. Start it and its workers, and run this again.") from None


def _counts_of_task(part: PartFile, future: Future, scheduler: str) -> Counts:
    """The counts of a part, once it is written where this process sees it."""
    try:
        counts: Counts = future.result()
        if part.path.exists():
            return counts
    except FileNotFoundError:  # of a worker that does not see the folder
        pass
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            raise InputError(f"scheduler {scheduler!r}: its workers ended again and again. Give them memory.") from None
        raise
    where = f"the workers of {scheduler} must see the folder {part.path.parents[2]}, on a file system that all share"
    raise InputError(f"out cannot be written in parts: {where}.")


def _remove(folder: Path) -> None:
    """Remove a folder in which a worker may be about to finish a file."""
    end = time.monotonic() + REMOVING_SECONDS
    while folder.exists() and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)
