"""Draws into an .npy file, block by block: as many rows as the disk holds, in bounded memory, whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .._backend.arrays import Array, to_numpy
from .._backend.files import is_summary, whole_file, write_npy_header
from .._backend.progress import Progress
from .._version import __version__
from .mapped import file_name

BLOCK_NUMBERS = 2**22
"""Numbers drawn at a time: 16 MB in float32."""
HEADER_ROOM = 4096


def rows_at_a_time(d: int) -> int:
    """Rows of d numbers in a block."""
    return max(BLOCK_NUMBERS // d, 1)


def writable(out: Any, n_bytes: int, source: str | None) -> Path:
    """`out` as a path, checked before any work: a file to be, not `source`, on a disk with room for n_bytes."""
    name = file_name("out", out)
    path = Path(name).expanduser()
    if path.suffix.lower() != ".npy":
        raise ValueError(f"out must end in .npy, the format that is written; got {name!r}.")
    if path.exists() and not path.is_file():
        raise ValueError(f"out must be a file; {path} is none. Name another place.")
    if source is not None and path.exists() and path.samefile(source):
        raise ValueError(f"out must not be the file of the memories, {path}. Name another place.")
    if sidecar(path).exists() and not is_summary(sidecar(path)):
        raise ValueError(f"out={str(path)!r}: {sidecar(path).name} lies there and is not ours to replace. Rename it.")
    folder = next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
    needed, free = n_bytes + HEADER_ROOM, shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"out={str(path)!r} needs {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free. "
            "Draw fewer, or name another disk."
        )
    return path


def sidecar(path: Path) -> Path:
    """Where the settings of a file of draws lie."""
    return path.with_name(f"{path.name}.json")


def write_rows(
    path: Path, blocks: Iterable[Array], shape: tuple[int, int], settings: dict[str, Any], progress: bool | None
) -> Any:
    """Write blocks of rows, (n, d) in all, and `path`.json with their settings; return a read-only map of the file.

    Both appear together once they are whole: an error or Ctrl-C leaves nothing behind, and what was there untouched.
    """
    facts = {"version": __version__, "kind": "rows", "n": shape[0], "d": shape[1], **settings}
    try:
        with whole_file(sidecar(path)) as beside, whole_file(path) as unfinished:
            with unfinished.open("wb") as stream, Progress(shape[0], "drawing", progress) as bar:
                done = 0
                for block in blocks:
                    rows = to_numpy(block)
                    if not done:
                        write_npy_header(stream, rows.dtype, shape)
                    stream.write(np.ascontiguousarray(rows).data)
                    done += len(rows)
                    bar.at(done)
            beside.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise type(error)(f"out={str(path)!r} cannot be written ({error.strerror}): name another place.") from None
    return np.load(path, mmap_mode="r")
