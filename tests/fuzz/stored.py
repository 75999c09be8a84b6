"""Random valid data of every kind, written as files: what the properties of all kinds are tested on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from PIL import Image

LETTERS = "ACDEFGHIKLMNPQRSTVWY-"
COLUMNS = ("number", "small", "count", "truth", "word", "day", "gaps")


class Stored(NamedTuple):
    """Stored items as a file of one kind, written into a folder."""

    kind: str
    shape: tuple[int, ...]
    columns: tuple[str, ...]
    seed: int

    def write(self, folder: Path) -> Path:
        """The path of the written file or folder."""
        return {"table": self._table, "protein": self._protein, "image": self._image, "returns": self._returns}[
            self.kind
        ](folder, np.random.default_rng(self.seed))

    def frame(self) -> pd.DataFrame:
        """A table with the asked columns, in their order."""
        rng, n = np.random.default_rng(self.seed), self.shape[0]
        columns = {
            "number": rng.normal(50, 10, n).round(2),
            "small": rng.exponential(1e-3, n).round(6),
            "count": rng.integers(0, 90, n),
            "truth": rng.random(n) < 0.4,
            "word": rng.choice(["red", "green", "dark blue"], n),
            "day": (pd.Timestamp("2020-02-28") + pd.to_timedelta(rng.integers(0, 500, n), unit="D")).strftime(
                "%Y-%m-%d"
            ),
            "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n).round(3)),
        }
        return pd.DataFrame({name: columns[name] for name in self.columns})

    def _table(self, folder: Path, rng: np.random.Generator) -> Path:
        self.frame().to_csv(folder / "t.csv", index=False)
        return folder / "t.csv"

    def _protein(self, folder: Path, rng: np.random.Generator) -> Path:
        n, length = self.shape
        codes = np.where(rng.random((n, length)) < 0.3, rng.integers(0, 21, (n, length)), rng.integers(0, 20, length))
        codes[:, 0] = 3
        rows = ("".join(LETTERS[code] for code in row) for row in codes)
        (folder / "f.fasta").write_text("".join(f">s{i}\n{row}\n" for i, row in enumerate(rows)))
        return folder / "f.fasta"

    def _image(self, folder: Path, rng: np.random.Generator) -> Path:
        n, *size = self.shape
        (folder / "p").mkdir()
        for i in range(n):
            Image.fromarray(rng.integers(0, 256, size).astype(np.uint8)).save(folder / "p" / f"{i}.png")
        return folder / "p"

    def _returns(self, folder: Path, rng: np.random.Generator) -> Path:
        days, assets = self.shape
        prices = 100 * np.exp(np.cumsum(rng.normal(scale=0.01, size=(days, assets)), axis=0))
        frame = pd.DataFrame(prices.round(4), columns=[f"T{i}" for i in range(assets)])
        frame.insert(0, "date", pd.bdate_range("2022-01-03", periods=days).strftime("%Y-%m-%d"))
        frame.to_csv(folder / "r.csv", index=False)
        return folder / "r.csv"


@st.composite
def tables(draw: st.DrawFn) -> Stored:
    """A table of some columns in any order, with at least two of numbers."""
    more = draw(st.lists(st.sampled_from(COLUMNS[2:]), unique=True, max_size=4))
    columns = draw(st.permutations(["number", "small", *more]))
    return Stored("table", (draw(st.integers(10, 30)),), tuple(columns), draw(st.integers(0, 99)))


@st.composite
def stored(draw: st.DrawFn) -> Stored:
    """Items of any kind."""
    kind, seed = draw(st.sampled_from(["table", "protein", "image", "returns"])), draw(st.integers(0, 99))
    if kind == "table":
        return draw(tables())
    n, width = draw(st.integers(6, 14)), draw(st.integers(4, 9))
    shapes = {
        "protein": (n, 2 * width),
        "image": (n, width, width, 3) if draw(st.booleans()) else (n, width, width),
        "returns": (5 * n, draw(st.integers(2, 4))),
    }
    return Stored(kind, shapes[kind], (), seed)
