"""Atomic writes: a file or folder appears under its name when it is complete, or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, renamed to it when the block succeeds and removed when it fails.

    A link stays a link, and the file it points to is replaced. A device or a pipe is written to directly.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """An empty folder beside `path`, which replaces `path` when the block succeeds and is removed when it fails."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished, old = (path.with_name(f".{path.name}.{os.getpid()}.{end}") for end in ("part", "old"))
    try:
        unfinished.mkdir()
        yield unfinished
        if path.exists():
            path.replace(old)
        unfinished.replace(path)
    finally:
        if old.exists() and not path.exists():
            old.replace(path)
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def probe(path: Path) -> None:
    """Create the folder of `path`; OSError if no file can be written there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    trial = path.with_name(f".{path.name}.probe")
    trial.touch()
    trial.unlink()


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically; characters that UTF-8 cannot encode are written as escapes."""
    with whole_file(path) as unfinished:
        unfinished.write_bytes(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)


def is_summary(path: Path) -> bool:
    """Whether a file holds the settings of draws, as this library writes them; such a file may be overwritten."""
    try:
        facts = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and {"version", "kind", "beta", "seed"} <= set(facts)


def write_npy_header(stream: BinaryIO, dtype: np.dtype[np.generic], shape: tuple[int, int]) -> None:
    """Write the header of an .npy file, whose rows then follow block by block."""
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, described)
