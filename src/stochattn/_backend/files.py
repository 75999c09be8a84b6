"""Atomic writes: files and folders appear under their names when they are complete, or not at all.

They are written in a work folder beside their place, `.stochattn-XXXXXXXX.part`, and moved from there. A process holds
the lock of its work folder, so one without a lock is what a killed process left, and the next one that writes there
removes it. Between the two moves that replace a folder its name does not exist; after a kill at that point, `recover`
moves the new folder to its name. Work folders begin, end and are removed under the lock of the folder that holds them.

Whether a file may be written to a place: never over one that no earlier run wrote, unless the user says so.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from .checks import InputError

try:
    import fcntl
except ImportError:  # Windows: nothing proves that a work folder is abandoned, and none is removed
    fcntl = None  # type: ignore[assignment]

PREFIX, PART = ".stochattn-", ".part"
_WORK_FOLDER = re.compile(rf"{re.escape(PREFIX)}\w{{8}}{re.escape(PART)}")


@contextmanager
def write_together(folder: Path, check: Callable[[], object] | None = None) -> Iterator[Path]:
    """An empty folder, whose content moves to `folder` when the block succeeds, and is removed when it fails.

    check: called immediately before the move, while no other process moves anything there; an exception prevents it
    """
    folder = folder.resolve()
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "This folder does not exist: create it first", str(folder))
    with _hold_lock(folder):
        with suppress(OSError):
            _clear(folder)
        work = Path(tempfile.mkdtemp(PART, PREFIX, folder))
        lock = _lock(work)
    try:
        (work / "new").mkdir()
        yield work / "new"
        with _hold_lock(folder):
            if check is not None:
                check()
            try:
                _move_to_place(work)
            except KeyboardInterrupt:  # half of it must not stay behind
                _move_to_place(work)
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if lock is not None:
            os.close(lock)


@contextmanager
def atomic_file(path: Path, check: Callable[[], object] | None = None) -> Iterator[Path]:
    """A path to write to; the file replaces `path` when the block succeeds and is removed when it fails.

    A link stays a link, and the file it points to is replaced. A device or a pipe is written to directly.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        yield path
        return
    with write_together(path.parent, check) as folder:
        yield folder / path.name


@contextmanager
def atomic_folder(path: Path, check: Callable[[], object] | None = None) -> Iterator[Path]:
    """An empty folder, which replaces `path` when the block succeeds and is removed when it fails."""
    path = path.resolve()
    with write_together(path.parent, check) as folder:
        (folder / path.name).mkdir()
        yield folder / path.name


def recover(folder: Path) -> None:
    """Remove what killed processes left in a folder, and finish the move of one that was killed between two moves."""
    with suppress(OSError), _hold_lock(folder):
        _clear(folder)


def _clear(folder: Path) -> None:
    for name in os.listdir(folder):
        if _WORK_FOLDER.fullmatch(name):
            lock = _lock(folder / name, wait=False)
            if lock is not None:  # its process has ended
                with suppress(OSError):
                    _clear_one(folder / name)
                os.close(lock)


def _clear_one(work: Path) -> None:
    waiting = list((work / "new").iterdir()) if (work / "old").exists() and (work / "new").exists() else []
    for new in waiting:  # complete: a folder is moved away only then
        if os.path.lexists(work.parent / new.name):
            return  # another program has used the name since: neither its file nor the two folders are ours to remove
        os.replace(new, work.parent / new.name)
    shutil.rmtree(work)


def _move_to_place(work: Path) -> None:
    """Move the content of a complete work folder to its place; what was moved already stays there."""
    # A summary, whose name is longer, moves before its data: our data is never without a summary.
    for new in sorted((work / "new").iterdir(), reverse=True):
        target, old = work.parent / new.name, work / "old"
        if new.is_dir() and target.is_dir():
            os.replace(target, old)
        try:
            os.replace(new, target)
        except OSError:
            if old.exists():
                os.replace(old, target)
            raise


def _lock(folder: Path, wait: bool = True) -> int | None:
    """A descriptor that holds the lock of a folder until it is closed; None if it is taken or there are no locks."""
    if fcntl is None:
        return None
    descriptor = -1
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        if descriptor >= 0:
            os.close(descriptor)
        return None
    return descriptor


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    lock = _lock(folder)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def write_atomically(path: Path, content: str | bytes, check: Callable[[], object] | None = None) -> None:
    """Write a file atomically; characters that UTF-8 cannot encode are written as escapes."""
    with atomic_file(path, check) as unfinished:
        unfinished.write_bytes(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)


def is_summary(path: Path) -> bool:
    """Whether a file holds the settings of draws, as this library writes them; such a file may be overwritten."""
    try:
        facts = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and {"version", "kind", "beta", "seed"} <= set(facts)


def write_npy_header(stream: BinaryIO, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> None:
    """Write the header of an .npy file, whose rows then follow block by block."""
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, described)


def require_place(name: str, path: Path, is_folder: bool = False) -> None:
    """InputError, before any work, if no file, or no folder, can be written there."""
    folder = path.resolve().parent
    if path.is_dir() and not is_folder:
        raise InputError(f"{name} is a folder: name a file in it.")
    try:
        if not folder.exists():
            how = f"create it first, with mkdir -p {shlex.quote(str(folder))}, or name another place"
            raise InputError(f"{name} cannot be written, because the folder {folder} does not exist: {how}.")
        with tempfile.TemporaryFile(dir=folder, prefix=PREFIX):
            pass
    except OSError as error:
        raise InputError(f"{name} cannot be written ({error.strerror}): name another place.") from None


def require_file(name: str, path: Path, is_own: Callable[[Path], bool], replace: bool) -> None:
    """InputError, before any work, if no file can be written there, or it would replace a file of another origin.

    is_own: whether an earlier run wrote a file; replace: whether to replace any other file
    """
    require_place(name, path)
    require_replaceable(name, path, is_own, replace)


def require_replaceable(name: str, path: Path, is_own: Callable[[Path], bool], replace: bool) -> None:
    """InputError if there is a file with content that an earlier run did not write as it is, unless `replace`."""
    if not replace and path.is_file() and path.stat().st_size and not is_own(path):
        why = "exists, and is not what an earlier run wrote"
        raise InputError(f"{name} {why}: name another file, or pass replace=True to replace it.")
