"""Draws written to an .npy file block by block, in bounded memory; the file appears when it is complete."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from .._backend.arrays import Array, to_numpy
from .._backend.files import is_summary, whole_file, write_npy_header
from .._backend.progress import Progress
from .._version import __version__
from .mapped import file_name

BLOCK_NUMBERS = 2**22
"""Numbers drawn at a time: 16 MB in float32."""
HEADER_BYTES = 4096


def rows_at_a_time(d: int) -> int:
    """Rows of d numbers in a block."""
    return max(BLOCK_NUMBERS // d, 1)


def writable(out: object, n_bytes: int, source: str | None) -> Path:
    """`out` as a path: an .npy file that is not `source`, on a disk with n_bytes free; an error otherwise."""
    path = Path(file_name("out", out)).expanduser()
    if path.suffix.lower() != ".npy":
        raise ValueError(f"out must end in .npy, the format that is written; got {str(out)!r}.")
    if path.exists() and not path.is_file():
        raise ValueError(f"out must be a file; {path} is not one. Choose another name.")
    if source is not None and path.exists() and path.samefile(source):
        raise ValueError(f"out must not be the file of the memories, {path}. Choose another name.")
    if sidecar(path).exists() and not is_summary(sidecar(path)):
        name = sidecar(path).name
        raise ValueError(f"out={str(path)!r}: {name} exists and was not written by this library. Rename it.")
    folder = next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
    needed, free = n_bytes + HEADER_BYTES, shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"out={str(path)!r} needs {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free. "
            "Draw fewer rows, or choose another disk."
        )
    return path


def sidecar(path: Path) -> Path:
    """The path of the settings that belong to a file of draws."""
    return path.with_name(f"{path.name}.json")


def write_rows(
    path: Path, blocks: Iterable[Array], shape: tuple[int, int], settings: dict[str, object], progress: bool | None
) -> Array:
    """A read-only memory map of the file that these blocks of rows, (n, d) in all, are written to.

    `path`.json gets the settings. Both files appear when they are complete; an error or Ctrl-C changes nothing.
    """
    facts = {"version": __version__, "kind": "rows", "n": shape[0], "d": shape[1], **settings}
    try:
        with whole_file(sidecar(path)) as beside, whole_file(path) as unfinished:
            with unfinished.open("wb") as stream, Progress(shape[0], "drawing", progress) as bar:
                done = 0
                for block in blocks:
                    array = to_numpy(block)
                    if not done:
                        write_npy_header(stream, array.dtype, shape)
                    stream.write(np.ascontiguousarray(array).data)
                    done += len(array)
                    bar.update(done)
            beside.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise type(error)(f"out={str(path)!r} cannot be written ({error.strerror}). Choose another name.") from None
    rows: Array = np.load(path, mmap_mode="r")
    return rows
