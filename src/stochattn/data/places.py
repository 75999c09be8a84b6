"""Where new items are written: the format by the file name extension, and never in place of a user's own files."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from .._backend.files import is_summary, recover, whole_folder, written_together
from .._backend.places import require_file, require_place
from .._backend.zarr_files import zarr_module
from .base import Format
from .kind import AnyKind
from .options import InputError
from .summary import SUMMARY, read_summary, sidecar

STANDARD_OUTPUT = "-"
ARRAYS = (".npy", ".npz", ".zarr")
"""Extensions of formats that hold arrays of numbers alone, which some kinds of data do not have."""


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
    format = _format_of(kind, out, asked)
    if in_parts and (out == STANDARD_OUTPUT or not format.in_parts):
        file = next(one for one in kind.formats if one.in_parts)
        what = "is standard output" if out == STANDARD_OUTPUT else f"has the format {format.name}"
        how = f"name a folder for them, such as new{file.extensions[0]}"
        raise InputError(f"out {out!r} {what}, and the workers of a scheduler write parts: {how}.")
    if format.in_chunks:
        zarr_module()
    if format.max_items is not None and n > format.max_items:
        most = f"one {format.name} of at most {format.max_items} items"
        raise InputError(f"out {out!r} is {most}; got n={n}. Lower n, or choose another format.")
    if out != STANDARD_OUTPUT:
        recover(Path(out).resolve().parent)
        require_writable(out, in_parts or format.is_folder, source, replace)
    return format


def _format_of(kind: AnyKind, out: str, asked: str | None) -> Format:
    names = ", ".join(one.name for one in kind.formats)
    if asked is not None:
        found = next((one for one in kind.formats if one.name == asked), None)
        if found is None:
            raise InputError(f"format must be one of {names} for {kind.name} data; got {asked!r}.")
        if out == STANDARD_OUTPUT and found.is_folder:
            raise InputError(f"format {asked!r} makes a folder, which standard output cannot take: name a folder.")
        return found
    if out == STANDARD_OUTPUT:
        return next(one for one in kind.formats if not one.is_folder)
    extension = Path(out).suffix.lower()
    for one in kind.formats:
        if extension in one.extensions:
            return one
    known = ", ".join(extension or "none (a folder)" for one in kind.formats for extension in one.extensions)
    if extension in ARRAYS:
        why = f"is for arrays of numbers, and {kind.items} are not written as such"
        raise InputError(f"out {out!r} {why}: for {kind.name} data, use one of the extensions {known}.")
    raise InputError(
        f"out {out!r} must have an extension that names the format of {kind.name} data, one of {known}; or pass "
        f"format, one of {names}."
    )


def require_writable(out: str, is_folder: bool, source: Path | None, replace: bool) -> None:
    """InputError if a file or folder `out` cannot be written, or would replace the input or a user's own files."""
    path, source = Path(out).resolve(), None if source is None else source.resolve()
    inside = is_folder and source is not None and (source in path.parents or path in source.parents)
    if path == source or inside:
        raise InputError(f"out {out!r} is the input, contains it or is inside it: name another place.")
    if is_folder:
        _require_our_folder(path, out, replace)
    elif path.exists() and not path.is_file() and not path.is_dir():
        return  # a device takes bytes, whatever its folder
    elif (beside := sidecar(path)).exists() and not is_summary(beside):
        raise InputError(f"out {out!r}: the summary would replace {beside.name}, which is not a summary.")
    if is_folder:
        require_place(f"out {out!r}", path, is_folder=True)
    else:
        require_file(f"out {out!r}", path, _is_result, replace)


def _is_result(path: Path) -> bool:
    summary = read_summary(path)
    return summary is not None and summary.fits(path)


def _require_our_folder(path: Path, out: str, replace: bool) -> None:
    """InputError unless a folder is new or empty, or may be replaced and holds only what an earlier run wrote."""
    if path.exists() and not path.is_dir():
        raise InputError(f"out {out!r} is a file, and this format makes a folder: name another place.")
    names = {entry.name for entry in path.iterdir()} if path.exists() else set()
    if not names:
        return
    if not replace:
        how = "name another, or pass replace=True to replace what an earlier run wrote"
        raise InputError(f"out {out!r} is not an empty folder: {how}.")
    earlier = read_summary(path)
    if earlier is None:
        raise InputError(f"out {out!r} holds no summary of an earlier run, so it is not replaced: name another folder.")
    for name in sorted(names - {SUMMARY, *earlier.files}):
        if not 1 <= item_number(name) <= earlier.n:
            which = f"{name!r}, which an earlier run did not write"
            raise InputError(f"out {out!r} holds {which}, so it is not replaced: name another folder.")


def item_number(name: str) -> int:
    """The number of an item's own file, new-000012.png; 0 for other names."""
    numbered = re.fullmatch(r"new-(\d+)\.\w+", name)
    return int(numbered[1]) if numbered else 0


class Place(NamedTuple):
    """Where a writer writes: standard output, a device, a file or an empty folder; `path` is that file or folder."""

    target: BinaryIO | Path
    path: Path | None

    def flush(self) -> None:
        """Hand over to the operating system what was written."""
        if not isinstance(self.target, Path):
            self.target.flush()


@contextmanager
def opened(out: str, is_folder: bool, check: Callable[[], object]) -> Iterator[Place]:
    """A place to write to; `out` is replaced when the block succeeds, together with a summary beside `Place.path`.

    check: called again immediately before, because others may have written to `out` in the meantime
    """
    path = Path(out)
    if out == STANDARD_OUTPUT:
        if sys.stdout is None:
            raise InputError("out '-' needs an open standard output: name a file.")
        yield Place(sys.stdout.buffer, None)
    elif is_folder:
        with whole_folder(path, check) as folder:
            yield Place(folder, folder)
    elif path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield Place(stream, None)
    else:
        path = path.resolve()
        with written_together(path.parent, check) as folder, (folder / path.name).open("wb") as stream:
            yield Place(stream, folder / path.name)
