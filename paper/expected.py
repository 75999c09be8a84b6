"""The published values, read from the .toml file next to the module of an experiment."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .results import Cause, Cell, Published, Row, Table


@dataclass(frozen=True)
class Expected:
    """One table of the paper."""

    name: str
    title: str
    rows: Mapping[str, Mapping[str, Published]]

    def against(
        self,
        measured: Mapping[str, Row],
        notes: Iterable[str] = (),
        causes: Iterable[Cause] = (),
        findings: Iterable[str] = (),
    ) -> Table:
        """The table of measured and published values; rows without a published value keep their measured order."""
        names = [*measured, *(row for row in self.rows if row not in measured)]
        cells = {}
        for row in names:
            ours, theirs = measured.get(row, {}), self.rows.get(row, {})
            quantities = dict.fromkeys([*theirs, *ours])
            cells[row] = {quantity: Cell(ours.get(quantity), theirs.get(quantity)) for quantity in quantities}
        return Table(self.name, self.title, cells, tuple(notes), tuple(causes), tuple(findings))


def expected(module: str) -> dict[str, Expected]:
    """The published tables of an experiment; `module` is the `__file__` of its module.

    A table in the file has a `title`, `columns`, `rows` (name = printed values) and `bands` (name = {column = width,
    why = reason}) for the rows whose tolerance was stated before the run.
    """
    with open(Path(module).with_suffix(".toml"), "rb") as file:
        content = tomllib.load(file)
    return {name: _table(name, table) for name, table in content.items()}


def _table(name: str, table: dict[str, Any]) -> Expected:
    rows = {}
    for row, printed in table["rows"].items():
        band = dict(table.get("bands", {}).get(row, {}))
        why = band.pop("why", "")
        rows[row] = {
            column: Published.parse(text, band.get(column), why if column in band else "")
            for column, text in zip(table["columns"], printed, strict=True)
            if text
        }
    return Expected(name, table["title"], rows)
