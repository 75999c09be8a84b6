"""The published values, read from the .toml file next to the module of an experiment."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from stochattn._backend.files import write_atomically

from .results import Cause, Cell, Published, Row, Table

ONE_RUN_ERRORS = Path(__file__).with_name("one_run_errors.json")
"""Standard errors of one run of the published size, by table, row and quantity; `python -m paper errors` writes it."""


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

    def refreshed(self, table: Table) -> Table:
        """A stored table with the published values and their errors as they are now."""
        cells = {
            row: {q: Cell(cell.measured, self.rows.get(row, {}).get(q)) for q, cell in quantities.items()}
            for row, quantities in table.cells.items()
        }
        return replace(table, cells=cells)


@cache
def one_run_errors() -> dict[str, dict[str, dict[str, float]]]:
    """The recorded errors; empty if none were recorded."""
    if not ONE_RUN_ERRORS.is_file():
        return {}
    content: dict[str, dict[str, dict[str, float]]] = json.loads(ONE_RUN_ERRORS.read_text(encoding="utf-8"))
    return content


def record_errors(tables: Iterable[Table]) -> int:
    """Write the error of one run for each value without a printed error and without a band; return their number.

    Errors of tables that are not given are kept.
    """
    recorded = {name: dict(rows) for name, rows in one_run_errors().items()}
    for table in tables:
        rows: dict[str, dict[str, float]] = {}
        for row, quantity, cell in table.items():
            theirs, ours = cell.published, cell.measured
            if theirs is None or ours is None or theirs.error is not None or theirs.band is not None:
                continue
            if ours.one_run > 0:
                rows.setdefault(row, {})[quantity] = float(f"{ours.one_run:.2g}")
        recorded[table.name] = rows
    recorded = {name: rows for name, rows in sorted(recorded.items()) if rows}
    write_atomically(ONE_RUN_ERRORS, json.dumps(recorded, ensure_ascii=False, indent=1) + "\n")
    one_run_errors.cache_clear()
    return sum(len(row) for rows in recorded.values() for row in rows.values())


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
        recorded = one_run_errors().get(name, {}).get(row, {})
        rows[row] = {
            column: Published.parse(text, band.get(column), why if column in band else "", recorded.get(column))
            for column, text in zip(table["columns"], printed, strict=True)
            if text
        }
    return Expected(name, table["title"], rows)
