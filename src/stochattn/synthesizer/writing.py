"""Writing new items: the format by the file name extension, complete files or none, and a summary beside them.

A user's own files are never replaced.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from .._backend.array_files import zarr_module
from .._backend.arrays import free_memory, gigabytes
from .._backend.console import Progress
from .._backend.files import atomic_file, atomic_folder, is_summary, recover, require_file, require_place
from .._version import __version__
from ..kinds.codec import Batch, Format, Settings
from ..kinds.delimited import SPREADSHEETS
from ..kinds.kind import AnyKind
from ..kinds.options import InputError
from ..kinds.summary import SUMMARY, Asked, ClassShare, RunSummary, checksum, read_summary, sidecar
from ..storage.dask import connect
from .drawing import count_bytes
from .parts import Counts, create_array, write_items, write_parts

if TYPE_CHECKING:
    from .synthesizer import Synthesizer

STANDARD_OUTPUT = "-"
ARRAYS = (".npy", ".npz", ".zarr")  # formats of arrays of numbers, which some kinds of data lack


def output_format(
    kind: AnyKind,
    n: int,
    out: str,
    asked: str | None = None,
    *,
    source: Path | None = None,
    replace: bool = False,
    in_parts: bool = False,
) -> Format:
    """The output format: as asked, or by the extension of `out`, which is a folder of such files if `in_parts`.

    InputError, before any work, if it cannot show n items, or its package is not installed, or if `out` cannot be
    written, or would replace the input `source` or a user's own files.
    """
    format = _choose_format(kind, out, asked)
    if in_parts and (out == STANDARD_OUTPUT or not format.in_parts):
        file = next(format for format in kind.formats if format.in_parts)
        what = "is standard output" if out == STANDARD_OUTPUT else f"has the format {format.name}"
        how = f"name a folder for them, such as new{file.extensions[0]}"
        raise InputError(f"out {out!r} {what}, and the workers of a scheduler write parts: {how}.")
    if format.in_chunks:
        zarr_module()
    if format.max_items is not None and n > format.max_items:
        rule = f"out {out!r} is one {format.name} of at most {format.max_items} items"
        raise InputError(f"{rule}; got n={n}. Lower n, or choose another format.")
    if out != STANDARD_OUTPUT:
        recover(Path(out).resolve().parent)
        require_writable(out, in_parts or format.is_folder, source, replace)
    return format


def _choose_format(kind: AnyKind, out: str, asked: str | None) -> Format:
    formats = {format.name: format for format in kind.formats}
    names = ", ".join(formats)
    if asked is not None:
        if asked not in formats:
            raise InputError(f"format must be one of {names} for {kind.name} data; got {asked!r}.")
        if out == STANDARD_OUTPUT and formats[asked].is_folder:
            raise InputError(f"format {asked!r} makes a folder, which standard output cannot take: name a folder.")
        return formats[asked]
    if out == STANDARD_OUTPUT:
        return next(format for format in kind.formats if not format.is_folder)
    extension = Path(out).suffix.lower()
    by_extension = {name: format for format in kind.formats for name in format.extensions}
    if extension in by_extension:
        return by_extension[extension]
    readable = ", ".join(name or "none (a folder)" for name in by_extension)
    if extension in ARRAYS:
        why = f"is for arrays of numbers, and {kind.items} are not written as such"
        raise InputError(f"out {out!r} {why}: for {kind.name} data, use one of the extensions {readable}.")
    if extension in SPREADSHEETS:
        raise InputError(f"out {out!r}: spreadsheets are read, and not written. Write .csv, which their programs open.")
    rule = f"out {out!r} must have an extension that names the format of {kind.name} data, one of {readable}"
    raise InputError(f"{rule}; or pass format, one of {names}.")


def require_writable(out: str, is_folder: bool, source: Path | None, replace: bool) -> None:
    """InputError if a file or folder `out` cannot be written, or would replace the input or a user's own files."""
    name, path, source = f"out {out!r}", Path(out).resolve(), None if source is None else source.resolve()
    inside = is_folder and source is not None and (source in path.parents or path in source.parents)
    if path == source or inside:
        raise InputError(f"{name} is the input, contains it or is inside it: name another place.")
    if is_folder:
        _require_our_folder(name, path, replace)
        require_place(name, path, is_folder=True)
        return
    if path.exists() and not path.is_file() and not path.is_dir():
        return  # a device takes bytes, whatever its folder
    if (beside := sidecar(path)).exists() and not is_summary(beside):
        raise InputError(f"{name}: the summary would replace {beside.name}, which is not a summary.")
    require_file(name, path, _is_result, replace)


def _is_result(path: Path) -> bool:
    summary = read_summary(path)
    return summary is not None and summary.fits(path)


def _require_our_folder(name: str, path: Path, replace: bool) -> None:
    """InputError unless a folder is new or empty, or may be replaced and holds only what an earlier run wrote."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{name} is a file, and this format makes a folder: name another place.")
    files = {entry.name for entry in path.iterdir()} if path.exists() else set()
    if not files:
        return
    if not replace:
        how = "name another, or pass replace=True to replace what an earlier run wrote"
        raise InputError(f"{name} is not an empty folder: {how}.")
    remedy, earlier = "so it is not replaced: name another folder", read_summary(path)
    if earlier is None:
        raise InputError(f"{name} holds no summary of an earlier run, {remedy}.")
    for file in sorted(files - {SUMMARY, *earlier.files}):
        if not 1 <= item_number(file) <= earlier.n:
            raise InputError(f"{name} holds {file!r}, which an earlier run did not write, {remedy}.")


def item_number(name: str) -> int:
    """The number of an item's own file, new-000012.png; 0 for other names."""
    numbered = re.fullmatch(r"new-(\d+)\.\w+", name)
    return int(numbered[1]) if numbered else 0


@contextmanager
def open_place(out: str, is_folder: bool, check: Callable[[], object]) -> Iterator[tuple[BinaryIO | Path, Path | None]]:
    """The stream or the empty folder that a writer gets, and the path of that file or folder; None for a device.

    `out` is replaced when the block succeeds, together with a summary beside this path.
    check: called again immediately before, because others may have written to `out` in the meantime
    """
    if out == STANDARD_OUTPUT:
        if sys.stdout is None:
            raise InputError("out '-' needs an open standard output: name a file.")
        yield sys.stdout.buffer, None
    elif is_folder:
        with atomic_folder(Path(out), check) as folder:
            yield folder, folder
    else:
        with atomic_file(Path(out), check) as file, file.open("wb") as stream:
            yield stream, file if file.is_file() else None


def write_samples(
    synth: Synthesizer,
    n: int,
    seed: int,
    out: str,
    format: str | None = None,
    *,
    asked: Asked | None = None,
    replace: bool = False,
    n_jobs: int | None = None,
    scheduler: str | None = None,
) -> RunSummary:
    """Draw n items, write them to `out` with their summary, and return it; both replace earlier ones when complete.

    out:     a file, a folder, a device, or - for standard output
    asked:   the choices of a user, for the summary to record
    replace: whether a folder that an earlier run wrote may be replaced, or a file that no run wrote
    n_jobs:  workers, as in `Synthesizer.sample`; the file is the same for any number of them
    scheduler: the address of a Dask scheduler, whose workers write `out` as a folder of parts with the same items
    """
    if n_jobs is not None and scheduler is not None:
        raise InputError(f"n_jobs must be left out with a scheduler, whose workers draw the items; got {n_jobs}.")
    source, in_parts = Path(synth.source) if synth.source else None, scheduler is not None
    chosen = output_format(synth.kind, n, out, format, source=source, replace=replace, in_parts=in_parts)
    is_folder = in_parts or chosen.is_folder
    check = partial(require_writable, out, is_folder, source, replace)
    about = synth.describe()  # conditions may need another generator than the one that was chosen
    beta = None if about.temperature is None else about.temperature.beta
    settings = Settings(seed, about.name, synth.source, beta)
    with (
        nullcontext() if scheduler is None else connect(scheduler) as client,
        open_place(out, is_folder, check) as (target, path),
        Progress(n, "drawing") as progress,
    ):
        if chosen.in_chunks and path is not None:
            create_array(synth, n, seed, settings, path)
        if client is not None and path is not None:
            counts = write_parts(synth, n, seed, chosen, settings, path, client, progress)
        else:
            batches = synth.batches(n, seed, n_jobs)
            if path is not None:
                batches = _within_room(batches, n, target, path, chosen, synth.kind.items)
            counts = write_items(synth, batches, target, chosen, settings, progress)
            if not isinstance(target, Path):
                target.flush()
        summary = _summarize(synth, counts, seed, out, asked, path)
        if path is not None:
            content = summary.to_json(indent=2).encode("utf-8", "backslashreplace")
            sidecar(path).write_bytes(content)
    return summary


def _within_room(
    batches: Iterator[Batch], n: int, target: BinaryIO | Path, path: Path, format: Format, items: str
) -> Iterator[Batch]:
    """Batches of n items; InputError after the first of several if the disk or memory has no room for all of them."""
    for batch in batches:
        yield batch  # the caller writes it before it asks for the next one
        if batch.first > 0 or len(batch.items) == n:
            continue
        if not isinstance(target, Path):
            target.flush()
        files = path.rglob("*") if path.is_dir() else [path]
        written, held = sum(file.stat().st_size for file in files), count_bytes(batch.items)
        if format.in_chunks or not written:  # files come later, with about as many bytes as in memory
            written = held
        more, on_disk = n / len(batch.items) - 1, shutil.disk_usage(path.parent).free
        in_memory = free_memory() if format.collected else None
        for room, size, free in (("disk space", written, on_disk), ("memory", held, in_memory)):
            if free is not None and size * more > free:
                needed = f"take about {gigabytes(size * more)} of {room}, and {gigabytes(free)} are free"
                raise InputError(f"n={n:,} new {items} {needed}. Draw fewer, or name a place with more room.")


def _summarize(
    synth: Synthesizer, counts: Counts, seed: int, out: str, asked: Asked | None, path: Path | None
) -> RunSummary:
    """The summary of all counted items; `path` is where they are now, if they can be read there."""
    about, measured = synth.describe(), counts.measured
    entries = path.iterdir() if path is not None and path.is_dir() else ()
    temperature, novelty = about.temperature, synth.predicted_novelty()
    shares = synth.predicted_shares() if counts.classes else {}
    classes = sorted(set(synth.codec.labels or ())) if counts.classes else ()
    columns = {name: np.concatenate(parts) for name, parts in counts.columns.items()}
    figures = synth.kind.measures.summarize(columns) if measured else {}
    return RunSummary(
        **vars(asked or Asked()),
        recorded=asked is not None,
        version=__version__,
        kind=synth.kind.name,
        source=synth.source,
        output=out,
        seed=seed,
        n=counts.n,
        stored=synth.codec.K,
        kept=len(synth.kept),
        generator=synth.choice.name,
        sampler=about.sampler,
        beta=None if temperature is None else temperature.beta,
        rule=None if temperature is None else str(temperature.rule.value),
        novelty_target=None if temperature is None else temperature.novelty,
        novelty_predicted=novelty if np.isfinite(novelty) else None,
        novelty=sum(counts.novelty) / counts.n if measured else None,
        novelty_decoded=sum(counts.novelty_decoded) / measured if measured else None,
        copies=counts.copies / measured if measured else None,
        near_copies=counts.near_copies / counts.compared if counts.compared else None,
        resolved={name: list(x) if isinstance(x, tuple) else x for name, x in about.resolved.items()},  # as in JSON
        trial=None if synth.trial is None else synth.trial.record,
        classes={name: ClassShare(counts.classes[name] / counts.n, shares.get(name)) for name in classes},
        figures={name: value if np.isfinite(value) else None for name, value in figures.items()},
        notes=synth.notes,
        files=tuple(sorted(entry.name for entry in entries if not item_number(entry.name))),
        bytes=path.stat().st_size if path is not None and path.is_file() else None,
        sha256=None if path is None else checksum(path),
        source_sha256=synth.source_sha256,
    )
