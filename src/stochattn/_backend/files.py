"""Files written whole or not at all: what stands under a name is never half of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to; it takes that name when the block ends well, and is gone when it does not.

    A link stays a link, and what it points to is replaced. A device or a pipe takes what is written as it comes.
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
    """An empty folder beside `path`; it takes that name when the block ends well, in place of what was there."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    try:
        unfinished.mkdir()
        yield unfinished
        try:
            if path.exists():
                path.replace(old)
            unfinished.replace(path)
        except BaseException:
            if old.exists() and not path.exists():
                old.replace(path)
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def probe(path: Path) -> None:
    """OSError if nothing can be written beside `path`; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    trial = path.with_name(f".{path.name}.probe")
    trial.touch()
    trial.unlink()


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file at once; what text cannot be encoded is written as escapes."""
    with whole_file(path) as unfinished:
        unfinished.write_bytes(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)


def is_summary(path: Path) -> bool:
    """Whether a file holds the settings that draws are written with: it may be replaced with them."""
    try:
        facts = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and {"version", "kind", "beta", "seed"} <= set(facts)


def write_npy_header(stream: BinaryIO, dtype: Any, shape: tuple[int, int]) -> None:
    """What an .npy file begins with, for rows that follow block by block."""
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, described)
