"""Whether a file may be written to a place: never over one that no earlier run wrote, unless the user says so."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from .checks import InputError
from .files import probe


def require_place(name: str, path: Path, is_folder: bool = False) -> None:
    """InputError, before any work, if no file, or no folder, can be written there."""
    folder = path.resolve().parent
    if path.is_dir() and not is_folder:
        raise InputError(f"{name} is a folder: name a file in it.")
    try:
        if not folder.exists():
            how = f"create it first, with mkdir -p {shlex.quote(str(folder))}, or name another place"
            raise InputError(f"{name} cannot be written, because the folder {folder} does not exist: {how}.")
        probe(folder)
    except OSError as error:
        raise InputError(f"{name} cannot be written ({error.strerror}): name another place.") from None


def require_file(name: str, path: Path, is_own: Callable[[Path], bool], replace: bool) -> None:
    """InputError, before any work, if no file can be written there, or would replace one that no earlier run wrote.

    is_own: whether an earlier run wrote a file; replace: whether to replace one that no run wrote
    """
    require_place(name, path)
    require_replaceable(name, path, is_own, replace)


def require_replaceable(name: str, path: Path, is_own: Callable[[Path], bool], replace: bool) -> None:
    """InputError if there is a file with content that an earlier run did not write as it is, unless `replace`."""
    if not replace and path.is_file() and path.stat().st_size and not is_own(path):
        why = "exists, and is not what an earlier run wrote"
        raise InputError(f"{name} {why}: name another file, or pass replace=True to replace it.")
