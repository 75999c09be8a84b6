"""The data sets of the paper's experiments, each loaded on first use."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import stochattn as sa

from .sources import LOAD_RATIOS, DataError, Source, find, own_file

Array = Any


@dataclass(frozen=True)
class Data:
    """Data sets in a folder (`folder=None`: the cache and public sources); `used` records loaded files."""

    folder: Path | None
    used: dict[str, Source] = field(default_factory=dict)

    @classmethod
    def locate(cls, folder: str | os.PathLike[str] | None = None) -> Data:
        """Use the given folder, or else the folder in STOCHATTN_DATA, or else none."""
        named = folder or os.environ.get("STOCHATTN_DATA")
        if named and not Path(named).is_dir():
            origin = "" if folder else " (of STOCHATTN_DATA)"
            what = "is not a folder" if Path(named).exists() else "does not exist"
            raise DataError(f"the data folder {os.fspath(named)}{origin} {what}: name another with --data.")
        return cls(Path(named) if named else None)

    def n_digits(self, digit: int) -> int:
        """Number of images of a digit."""
        return len(self._mnist[f"digit{digit}"])

    def digits(self, digit: int, K: int) -> sa.MemoryBank:
        """The first K images of a digit as memories: pixel/255, row by row, unit norm."""
        if self.n_digits(digit) < K:
            raise DataError(
                f"mnist.npz has {self.n_digits(digit)} images of digit {digit}, but {K} are needed: "
                "name a folder with more images with --data."
            )
        return as_memories(self._mnist[f"digit{digit}"][:K])

    def all_digits(self, n: int) -> Array:
        """n images of all ten digits, n/10 of each, as unit rows (n, d)."""
        images = np.concatenate([self._mnist[f"digit{digit}"][: n // 10] for digit in range(10)])
        return as_memories(images).patterns

    def faces(self, n_subjects: int = 10) -> tuple[sa.MemoryBank, Array]:
        """The portraits of the first subjects as unit rows, and the subject of each portrait (K,)."""
        arrays = self._arrays("olivetti.npz", "images", "target")
        chosen = arrays["target"] < n_subjects
        if not chosen.any():
            raise DataError("olivetti.npz has no portrait of the first subjects: fetch it again.")
        return as_memories(arrays["images"][chosen]), arrays["target"][chosen]

    def alignment(self) -> Path:
        """The seed alignment of PF00076, in Stockholm format."""
        return self._file("pfam/PF00076_seed.sto")

    def profile(self) -> Path:
        """Pfam's own profile HMM of PF00076."""
        return self._file("pfam/PF00076.hmm")

    @cached_property
    def returns(self) -> tuple[Array, list[str]]:
        """Daily log-returns (days, tickers) and the tickers."""
        own = self.folder / "prices.csv" if self.folder else None
        if own is not None and own.is_file():
            self.used["prices.csv"] = own_file(own)
            prices, tickers = _prices(own)
        else:
            arrays = self._arrays("returns.npz", "closes", "tickers")
            prices, tickers = arrays["closes"], [str(ticker) for ticker in arrays["tickers"]]
        return np.diff(np.log(np.asarray(prices, dtype=np.float64)), axis=0), tickers

    def synthetic(self, experiment: str) -> sa.MemoryBank:
        """The first data set of exp1 (K=16, d=64) or exp2 (K=4, d=8)."""
        return sa.MemoryBank(np.ascontiguousarray(self._arrays("synthetic.npz", experiment)[experiment][0].T))

    def synthetic_loads(self) -> dict[float, list[sa.MemoryBank]]:
        """Five data sets for each load ratio K/d."""
        arrays = self._arrays("synthetic_exp3.npz")
        names = {ratio: next((key for key in arrays if _ratio(key) == ratio), None) for ratio in LOAD_RATIOS}
        return {
            ratio: [sa.MemoryBank(np.ascontiguousarray(columns.T)) for columns in arrays[name]]
            for ratio, name in names.items()
            if name is not None
        }

    def remarks(self) -> list[str]:
        """Remarks on the files in use that differ from the paper's data."""
        return [f"{name}: {source.note}." for name, source in sorted(self.used.items()) if not source.same]

    @cached_property
    def _mnist(self) -> dict[str, Array]:
        return self._arrays("mnist.npz", *(f"digit{digit}" for digit in range(10)))

    def _arrays(self, name: str, *required: str) -> dict[str, Array]:
        path = self._file(name)
        try:
            with open(path, "rb") as content, np.load(content, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
        except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{path} is damaged or not an .npz file ({type(error).__name__}): fetch it again."
            ) from None
        missing = [key for key in required if key not in arrays]
        if missing:
            raise DataError(
                f"{path} has no array {missing[0]!r}, only {', '.join(sorted(arrays))}: it is another file."
            )
        return arrays

    def source(self, name: str) -> Source:
        """Location and checksum of a data file."""
        if name not in self.used:
            self.used[name] = find(name, self.folder)
        return self.used[name]

    def _file(self, name: str) -> Path:
        return self.source(name).path


def as_memories(images: Array) -> sa.MemoryBank:
    """Images (K, height, width) of bytes as memories: pixel/255, row by row, unit norm."""
    return sa.MemoryBank(images.reshape(len(images), -1) / 255).normalized()


def _ratio(key: str) -> float | None:
    try:
        return float(key.removeprefix("exp3_ratio_").replace("_", "."))
    except ValueError:
        return None


def _prices(path: Path) -> tuple[Array, list[str]]:
    import pandas as pd

    try:
        table = pd.read_csv(path, index_col=0)
        prices = table.to_numpy(dtype=np.float64)
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} is not a table of prices ({type(error).__name__}): use a date column, then prices."
        ) from None
    if prices.shape[0] < 3 or not (np.isfinite(prices) & (prices > 0)).all():
        raise DataError(f"{path} must have at least three days of positive prices without gaps.")
    return prices, [str(column) for column in table.columns]
