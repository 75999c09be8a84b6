"""Results on disk: one folder per experiment with CSV, Markdown, PNG, PDF; `result.json` is written last."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stochattn._backend.files import write_atomically

from .results import Cause, Cell, Claim, Figure, Measured, Published, Result, Table, Verdict

RECORD = "result.json"
MARKS = {
    Verdict.MATCH: "✓",
    Verdict.NEAR: "≈",
    Verdict.DIFFERS: "≠",
    Verdict.WEAK: "not testable",
    Verdict.NEW: "new",
    Verdict.MISSING: "not run",
}


def write(result: Result, folder: Path, record: dict[str, Any]) -> None:
    """Write all files of a result; `record` has the metadata of the run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RECORD).unlink(missing_ok=True)  # without this file the folder has no valid result
    for figure in result.figures:
        _draw(figure, folder)
    for table in result.tables:
        write_atomically(folder / f"{table.name}.csv", as_csv(table))
        write_atomically(
            folder / f"{table.name}.md", as_markdown(table) + "".join(f"\n{line}\n" for line in caveats(record))
        )
    content = {
        **record,
        "tables": [without_nan(asdict(table)) for table in result.tables],
        "figures": [
            {key: getattr(figure, key) for key in ("name", "caption", "claim", "finding")} for figure in result.figures
        ],
        "claims": [asdict(claim) for claim in result.claims],
    }
    write_atomically(folder / RECORD, json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def _draw(figure: Figure, folder: Path) -> None:
    from matplotlib import rc_context

    from .drawing import STYLE

    with rc_context(STYLE):
        drawn = figure.draw()
        for kind, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None})):
            buffer = io.BytesIO()
            drawn.savefig(buffer, format=kind, metadata=metadata)
            write_atomically(folder / f"{figure.name}.{kind}", buffer.getvalue())


def caveats(record: dict[str, Any]) -> list[str]:
    """Warnings for the reader of a table: a quick run, or data other than the paper's."""
    quick = ["**A quick run: a tenth of the steps, few epochs. Not a comparison.**"] if record.get("quick") else []
    return quick + [f"*Data: {remark}*" for remark in record.get("remarks", ())]


def read(folder: Path) -> dict[str, Any] | None:
    """The record of a finished run with its tables restored, or None if there is no complete one."""
    try:
        content = restored(json.loads((folder / RECORD).read_text(encoding="utf-8")))
        whole = all((folder / f"{figure['name']}.png").is_file() for figure in content["figures"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return content if whole else None


def restored(content: dict[str, Any]) -> dict[str, Any]:
    """A record read from JSON with its tables and claims as objects."""
    tables = [_table(table) for table in content["tables"]]
    return {**content, "tables": tables, "claims": [Claim(**claim) for claim in content.get("claims", ())]}


def without_nan(content: Any) -> Any:
    """Replace NaN by null, since JSON has no NaN."""
    if isinstance(content, dict):
        return {key: without_nan(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [without_nan(value) for value in content]
    return None if isinstance(content, float) and math.isnan(content) else content


def _table(content: dict[str, Any]) -> Table:
    def cell(parts: dict[str, Any]) -> Cell:
        measured, published = parts["measured"], parts["published"]
        if measured and measured["error"] is None:
            measured["error"] = math.nan
        if measured:
            measured["seeds"] = tuple(measured.get("seeds", ()))
        return Cell(Measured(**measured) if measured else None, Published(**published) if published else None)

    cells = {row: {name: cell(parts) for name, parts in cells.items()} for row, cells in content["cells"].items()}
    causes = tuple(
        Cause(tuple(c["rows"]), tuple(c["quantities"]), c["text"], c["explained"]) for c in content["causes"]
    )
    notes, findings = tuple(content["notes"]), tuple(content.get("findings", ()))
    return Table(content["name"], content["title"], cells, notes, causes, findings)


def as_csv(table: Table) -> str:
    """CSV text with one line per cell; tolerance: the largest difference that agrees, margin in standard errors."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            "table",
            "row",
            "quantity",
            "published",
            "published_error",
            "ours",
            "error",
            "spread",
            "exact",
            "formula",
            "tolerance",
            "margin",
            "verdict",
        ]
    )
    for row, quantity, cell in table.items():
        theirs, ours = cell.published, cell.measured
        writer.writerow(
            [
                table.name,
                row,
                quantity,
                "" if theirs is None else f"{theirs.relation if theirs.relation != '=' else ''}{theirs.value}",
                "" if theirs is None or theirs.error is None else theirs.error,
                *(_plain(getattr(ours, name, None)) for name in ("value", "error", "spread", "exact", "formula")),
                _plain(cell.tolerance),
                _plain(cell.margin),
                cell.verdict,
            ]
        )
    return text.getvalue()


def as_markdown(table: Table, level: int = 3) -> str:
    """Markdown text: a heading, the table with the parts of each cell on separate lines, and the notes."""
    quantities = table.quantities
    lines = [
        f"{'#' * level} {table.title}",
        "",
        f"| | {' | '.join(quantities)} |",
        "|---" * (len(quantities) + 1) + "|",
    ]
    for row, cells in table.cells.items():
        shown = (_shown(cells[quantity]) if quantity in cells else "" for quantity in quantities)
        lines.append(f"| {row} | {' | '.join(shown)} |")
    lines += [""] + [f"{note}\n" for note in table.notes]
    return "\n".join(lines).rstrip() + "\n"


def number(value: float, decimals: int) -> str:
    """Format a value with the given number of decimals and a true minus sign."""
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def _shown(cell: Cell) -> str:
    decimals = max(cell.published.decimals, 2) if cell.published else 3
    lines = []
    if cell.published is not None:
        lines.append(f"paper {cell.published}".replace("-", "−"))
    if cell.measured is not None:
        ours = cell.measured
        error = "" if math.isnan(ours.error) else f" ± {number(ours.error, decimals)}"
        spread = "" if ours.spread is None else f" (one run ± {number(ours.spread, decimals)})"
        lines.append(f"ours {number(ours.value, decimals)}{error}{spread} {MARKS[cell.verdict]}{_margin(cell)}")
        if ours.exact is not None:
            lines.append(f"exact {number(ours.exact, decimals)}")
        if ours.formula is not None:
            lines.append(f"formula {number(ours.formula, decimals)}")
    else:
        lines.append(MARKS[cell.verdict])
    return "<br>".join(lines)


def _margin(cell: Cell) -> str:
    """The margin in standard errors, and its range over seeds."""
    if math.isnan(cell.margin) or cell.measured is None:
        return ""
    shown = " " + sigmas(cell.margin)
    margins = sorted(cell.margin_of(value) for value in cell.measured.seeds)
    return f"{shown} ({sigmas(margins[0])} to {sigmas(margins[-1])})" if margins else shown


def sigmas(margin: float) -> str:
    """A margin in standard errors, as text."""
    return "∞" if math.isinf(margin) or margin > 99 else f"{margin:.1f}σ"


def _plain(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.6g}"
