"""New items as a folder of parts, which the workers of a Dask cluster draw and write on a file system that all share.

Part p holds fixed blocks of items, and block b depends on (seed, b): the parts hold the items that one process writes.
The parts of a Zarr array are chunks of it.
"""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from .._backend.array_files import METADATA, UNFINISHED
from .._backend.console import Progress
from ..kinds.codec import Format, Settings
from ..kinds.options import InputError
from ..storage.dask import dask_module
from .tally import Counts, write_items

if TYPE_CHECKING:
    from distributed import Client, Future

    from .synthesizer import Synthesizer

BLOCKS_PER_PART = 16
NO_WORKERS_SECONDS = 10.0  # after which an absence of workers is an error
MAX_SYNTHESIZER = "1 GiB"  # that travels to the scheduler without a warning about large task graphs
REMOVING_SECONDS = 5.0  # for which workers that are still writing a part may delay the removal of a folder


class PartFile(NamedTuple):
    """Some blocks of n items, and the file that holds them, or the description of the Zarr array that does."""

    path: Path
    n: int
    seed: int
    blocks: range


def list_parts(synth: Synthesizer, n: int, seed: int, folder: Path, format: Format) -> list[PartFile]:
    """The parts of n items. They depend on the items alone, not on the number of workers."""
    name = METADATA if format.in_chunks else f"part-{{:05d}}{format.extensions[0]}"
    n_blocks = -(-n // synth.block_size)
    starts = range(0, n_blocks, BLOCKS_PER_PART)
    return [
        PartFile(folder / name.format(p), n, seed, range(start, min(start + BLOCKS_PER_PART, n_blocks)))
        for p, start in enumerate(starts)
    ]


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
    counts_of: dict[PartFile, Counts] = {}
    try:
        while len(counts_of) < len(parts):
            for future in _wait_for_some(client, [task for task in futures if part_of[task] not in counts_of]):
                counts_of[part_of[future]] = _counts_of_task(part_of[future], future, client.scheduler.address)
            progress.update(sum(part_counts.n for part_counts in counts_of.values()))
    except BaseException:
        client.cancel(futures)
        _remove(folder)
        raise
    for part in parts:
        counts.join(counts_of[part])
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
    """Write a part, which gets its name when it is complete; chunks of an array get theirs one by one."""
    if format.in_chunks:
        batches = synth.batches(part.n, part.seed, blocks=part.blocks)
        return write_items(synth, batches, part.path.parent, format, settings)
    unfinished = part.path.with_name(f".{part.path.name}.{uuid4().hex}")
    try:
        with unfinished.open("wb") as stream:
            batches = synth.batches(part.n, part.seed, blocks=part.blocks)
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
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise InputError(
                f"scheduler {address!r} has no workers any more. Start some: dask worker {address}."
            ) from None
        return []
    except CancelledError:
        raise InputError(f"scheduler {address!r} was lost. Start it and its workers, and run this again.") from None


def _counts_of_task(part: PartFile, future: Future, scheduler: str) -> Counts:
    """The counts of a part, once it is written where this process sees it."""
    where = f"the workers of {scheduler} must see the folder {part.path.parents[2]}, on a file system that all share"
    try:
        counts: Counts = future.result()
    except FileNotFoundError:
        raise InputError(f"out cannot be written in parts: {where}.") from None
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            raise InputError(f"scheduler {scheduler!r}: its workers ended again and again. Give them memory.") from None
        raise
    if not part.path.exists():
        raise InputError(f"out cannot be written in parts: {where}.")
    return counts


def _remove(folder: Path) -> None:
    """Remove a folder in which a worker may be about to finish a file."""
    end = time.monotonic() + REMOVING_SECONDS
    while folder.exists() and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)
