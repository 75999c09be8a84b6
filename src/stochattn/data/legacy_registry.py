"""Which kind of data a file holds, from its name and its first lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .legacy import Codec, InputError, read_state

KINDS = ("protein", "image", "table", "returns", "prices")
ALIGNMENTS = (
    *(".sto", ".stk", ".stockholm", ".fasta", ".fa", ".faa", ".fas", ".afa", ".a2m", ".a3m", ".aln", ".clustal"),
    *(".clw", ".psi", ".psiblast", ".msa"),
)
ARRAYS = (".npz", ".npy")
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq")
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
MOST_LINES = 200  # that are looked at


def recognise(path: str | Path) -> str:
    """One of "protein", "image", "table", "returns"."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist: name a file or a folder of pictures.")
    ending = path.suffix.lower()
    if path.is_dir():
        return "image"
    if ending in ALIGNMENTS:
        return "protein"
    if ending in ARRAYS:
        return "table" if ending == ".npy" and _axes(path) == 2 else "image"
    if ending in TABLES:
        return "returns" if _is_history(path) else "table"
    if ending in PICTURES:
        raise InputError(f"{path} is one picture, and at least two are needed: name the folder of them.")
    raise InputError(f"{path}: its ending {ending!r} does not tell the kind of data: name it with --as.")


def read(path: str | Path, kind: str | None = None, **options: Any) -> Codec:
    """The codec of a file or folder, of the kind named or recognised."""
    path = Path(path)
    kind = recognise(path) if kind is None else kind
    if not path.exists():
        raise InputError(f"{path} does not exist: name a file or a folder of pictures.")
    if kind == "prices":
        options["values"] = "prices"
    codec: Codec = codec_class(kind).read(path, **options)
    return codec


def load(path: str | Path) -> Codec:
    """A codec that `save` wrote."""
    facts, arrays = read_state(path)
    codec: Codec = codec_class(str(facts.get("kind"))).from_state(facts, arrays)
    return codec


def codec_class(kind: str) -> Any:
    """The codec of a kind of data."""
    if kind == "protein":
        from .proteins import ProteinCodec

        return ProteinCodec
    if kind == "image":
        from .images import ImageCodec

        return ImageCodec
    if kind == "table":
        from .tables import TableCodec

        return TableCodec
    if kind in ("returns", "prices"):
        from .returns import ReturnsCodec

        return ReturnsCodec
    raise InputError(f"--as must be one of {', '.join(KINDS)}; got {kind!r}.")


def _axes(path: Path) -> int:
    import numpy as np

    try:
        return int(np.load(path, mmap_mode="r", allow_pickle=False).ndim)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} is no array file ({type(error).__name__}): save one with numpy.save.") from None


def _is_history(path: Path) -> bool:
    """Whether a table looks like prices or returns: several columns of numbers beside a first one of rising dates."""
    return looks_dated(path) == "numbers"


def looks_dated(path: str | Path) -> str:
    """What stands beside a first column of rising dates: "numbers" in several columns, "other" things, or "" for none.

    Of a table with other things a history may be meant, all the same: of one ticker, or with a cell that is no number.
    """
    import warnings

    import pandas as pd

    path = Path(path)
    if path.suffix.lower() not in TABLES:
        return ""
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            frame = pd.read_parquet(path).head(MOST_LINES)
            if isinstance(frame.index, pd.DatetimeIndex):
                frame = frame.reset_index()
        else:
            frame = pd.read_csv(path, sep=None, engine="python", nrows=MOST_LINES, encoding_errors="replace")
        if frame.shape[1] < 2 or len(frame) < 2 or frame.iloc[:, 0].dtype.kind in "iufb":
            return ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dates = pd.to_datetime(frame.iloc[:, 0], errors="coerce")
    except Exception:  # whatever is wrong with the file, its codec says so in better words
        return ""
    if not (dates.notna().all() and dates.is_unique):
        return ""
    if not (dates.is_monotonic_increasing or dates.is_monotonic_decreasing):
        return ""
    numbers = [kind.kind in "iuf" for kind in frame.dtypes.iloc[1:]]
    return "numbers" if all(numbers) and len(numbers) > 1 and len(frame) > 2 else "other" if any(numbers) else ""
