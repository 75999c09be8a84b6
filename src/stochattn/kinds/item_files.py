"""What files of images and of signals have in common: arrays by name, and folders with a file per item."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from .._backend.array_files import ArrayFileError, ArrayHeader, npz_headers, read_npy, read_npz, read_zarr
from .._backend.arrays import NumpyArray
from .options import InputError

MAX_BYTES = 2**30  # of the arrays that are read from a compressed file


def load_arrays(
    path: Path, choose: Callable[[dict[str, ArrayHeader], Path], str], others: Collection[str], remedy: str
) -> tuple[dict[str, NumpyArray], str]:
    """The arrays of an .npy or .npz file or of a Zarr array, and the name of the one that holds the items.

    choose: finds this name among the headers of an .npz file
    others: names of arrays that are read beside it
    """
    try:
        if path.is_dir():
            return {path.stem: read_zarr(path, MAX_BYTES)[0]}, path.stem
        with path.open("rb") as stream:
            is_archive = stream.read(2) == b"PK"
            stream.seek(0)
            if not is_archive:
                return {path.stem: read_npy(stream)}, path.stem
        headers = npz_headers(path)
        name = choose(headers, path)
        return read_npz(path, {name, *others} & set(headers), MAX_BYTES), name
    except ArrayFileError as error:
        raise InputError(f"{path} cannot be read as {path.suffix} ({error}): save it again, {remedy}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): choose another file.") from None


def list_visible_files(folder: Path) -> list[Path]:
    """The files below a folder, sorted by name, without hidden ones."""
    paths = sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix())
    hidden = {path for path in paths if any(part.startswith(".") for part in path.relative_to(folder).parts)}
    return [path for path in paths if path.is_file() and path not in hidden]


def folders_of(names: Sequence[str]) -> tuple[str, ...] | None:
    """The sub-folder of each file, as its class; None without sub-folders."""
    if not any("/" in name for name in names):
        return None
    return tuple(name.split("/")[0] if "/" in name else "(none)" for name in names)
