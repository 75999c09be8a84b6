"""How a file with a table was written, so that new rows can be written the same way."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PADDED = 0.95
"""Share of a column's numbers that must have as many decimals for new ones to be padded to them."""


@dataclass(frozen=True)
class Style:
    """How a delimited file is written.

    missing:  text of a missing cell
    truths:   for columns of True and False, the texts of the two
    decimals: for columns whose numbers are padded with zeros to a number of decimals, that number
    codes:    for columns whose missing cells have another text than most, that text
    """

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    newline: str = "\n"
    header: bool = True
    missing: str = ""
    truths: dict[str, tuple[str, str]] = field(default_factory=dict)
    decimals: dict[str, int] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)

    def missing_in(self, column: str) -> str:
        """Text of a missing cell of this column."""
        return self.codes.get(column, self.missing)

    @classmethod
    def from_state(cls, facts: dict[str, Any]) -> Style:
        """The style of that state."""
        truths = {name: (str(true), str(false)) for name, (true, false) in facts["truths"].items()}
        return cls(**{**facts, "truths": truths})

    @classmethod
    def of(cls, frame: Any, raw: dict[str, list[str]], **ways: Any) -> Style:
        """The style of a table, from its columns and their cells as texts; `ways` are what these do not tell."""
        gone: Counter[str] = Counter()
        codes: dict[str, str] = {}
        truths: dict[str, tuple[str, str]] = {}
        decimals: dict[str, int] = {}
        for (name, cells), dtype, missing in zip(raw.items(), frame.dtypes, frame.isna().to_numpy().T, strict=True):
            if missing.any():
                found = Counter(cells[row] for row in np.flatnonzero(missing))
                codes[name] = found.most_common(1)[0][0]
                gone.update(found)
            kept = [cells[row] for row in np.flatnonzero(~missing)]
            if dtype.kind == "b":
                truths[name] = _truths(kept)
            elif dtype.kind == "f" and (many := _padding(kept, ways["decimal"])):
                decimals[name] = many
        usual = gone.most_common(1)[0][0] if gone else ""
        others = {name: code for name, code in codes.items() if code != usual}
        return cls(**ways, missing=usual, truths=truths, decimals=decimals, codes=others)


def _truths(cells: list[str]) -> tuple[str, str]:
    """How these cells write True and False."""
    texts = {cell.lower(): cell for cell in reversed(cells)}
    shape = str.upper if cells[0].isupper() else str.lower if cells[0].islower() else str.title
    return texts.get("true", shape("true")), texts.get("false", shape("false"))


def _padding(cells: list[str], decimal: str) -> int:
    """How many decimals numbers are padded to; 0 where a number with fewer of them shows that they are not."""
    found = Counter(len(cell.partition(decimal)[2]) if re.fullmatch(r"[-+]?\d*\W\d+", cell) else 0 for cell in cells)
    if not found:
        return 0
    many, count = found.most_common(1)[0]
    return many if many == min(found) and count >= PADDED * len(cells) else 0
