"""One page with all results: tables with verdicts, figures, and the reasons for differences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stochattn._backend.files import write_whole

from . import writing
from .catalogue import EXPERIMENTS
from .results import Table, Verdict
from .runner import code_digest

INTRODUCTION = """\
# The paper, reproduced

`python -m paper report` writes this page from finished runs. *Stochastic Attention via Langevin Dynamics on the Modern
Hopfield Energy* has 16 tables and 18 figures. They appear here under their labels in the source of the paper, together
with a few additional ones.

A cell shows the published value, our value with its standard error, and the prediction of the exact law: **exact** is
computed from exact draws of the closed-form mixture, without chains; **formula** is derived by hand. Chains and exact
draws have the same target and different samplers.

- ✓ within tolerance: three times the combined standard errors, or the printed rounding if that is larger. If the paper
  prints no error, its run is assumed to have the error of one of our runs. Learned baselines and returns have bands
  instead, which were written into the `.toml` files of the experiments before the runs.
- ≠ outside the tolerance; see [Where we differ, and why](#where-we-differ-and-why).
- *new*: the paper has no such value. *not run*: the paper has a value, and this run does not.

"ours 0.5 ± 0.1 (one run ± 0.3)" is a mean over several runs, its standard error, and the standard deviation of one run.
SA is Algorithm 1 of the paper (ULA); snr is √(αβ/2d); max_cosine is the cosine to the nearest stored pattern; novelty
is 1 − max_cosine; energies omit their constants, as in the paper.
"""


def write(out: Path, to: Path) -> int:
    """Write the page and its figures from the finished results in `out`, and return the number of results."""
    records = {name: record for name in EXPERIMENTS if (record := writing.read(out / name)) is not None}
    if not records:
        return 0
    pictures = to.parent / to.stem
    pictures.mkdir(parents=True, exist_ok=True)
    for name, record in records.items():
        for figure in record["figures"]:
            write_whole(pictures / f"{figure['name']}.png", (out / name / f"{figure['name']}.png").read_bytes())
    write_whole(to, "\n".join(_page(records, pictures.name)))
    return len(records)


def _page(records: dict[str, Any], pictures: str) -> Iterator[str]:
    yield INTRODUCTION
    yield from _summary(records)
    missing = [name for name in EXPERIMENTS if name not in records]
    if missing:
        yield f"Not run: {', '.join(missing)}.\n"
    yield from _differences(records)
    for name, record in records.items():
        yield f"## {name}: {EXPERIMENTS[name].title}\n"
        yield f"*{_circumstances(name, record)}*\n"
        for line in writing.caveats(record):
            yield f"{line}\n"
        for table in record["tables"]:
            yield writing.as_markdown(table)
        for figure in record["figures"]:
            yield f"![{figure['name']}]({pictures}/{figure['name']}.png)\n"
            yield f"**{figure['name']}.** {figure['caption']}\n"


def _summary(records: dict[str, Any]) -> Iterator[str]:
    total = sum(record["seconds"] for record in records.values())
    learned = sum(record["learned_seconds"] for record in records.values())
    yield "## At a glance\n"
    if any(record["quick"] for record in records.values()):
        yield "**A quick run: a tenth of the steps, few epochs. It checks that everything runs, not the values.**\n"
    yield "| experiment | match | differ | new | not run | seconds | training seconds |"
    yield "|---|---|---|---|---|---|---|"
    for name, record in records.items():
        counts = {verdict: sum(table.counts()[verdict] for table in record["tables"]) for verdict in Verdict}
        numbers = " | ".join(
            str(counts[verdict]) for verdict in (Verdict.MATCH, Verdict.DIFFERS, Verdict.NEW, Verdict.MISSING)
        )
        yield f"| [{name}](#{_anchor(name)}) | {numbers} | {record['seconds']:.0f} | {record['learned_seconds']:.0f} |"
    yield ""
    yield (
        "Seconds are measured for one process on one core, with one process per core. The total is "
        f"{total / 60:.1f} minutes, {(total - learned) / 60:.1f} of them without training.\n"
    )


def _circumstances(name: str, record: dict[str, Any]) -> str:
    versions = ", ".join(f"{package} {number}" for package, number in record["versions"].items())
    text = f"{record['seconds']:.0f} s on {record['machine']}; seed {record['seed']}; {versions}."
    if record["code"] != code_digest(name):
        text += " An earlier version of the code produced this result."
    return text


def _anchor(name: str) -> str:
    heading = f"{name}: {EXPERIMENTS[name].title}".lower()
    return "".join(c for c in heading if c.isalnum() or c in " -").replace(" ", "-")


def _differences(records: dict[str, Any]) -> Iterator[str]:
    yield "## Where we differ, and why\n"
    found = False
    for record in records.values():
        for table in record["tables"]:
            lines = list(_of_table(table, _general_reason(record)))
            found |= bool(lines)
            yield from lines
    if not found:
        yield "Nowhere.\n"


def _general_reason(record: dict[str, Any]) -> str:
    """The reason for all differences of a run that cannot match: a quick run, or other data."""
    if record["quick"]:
        return "a quick run: too few steps and epochs to compare."
    others = [remark for remark in record["remarks"] if "volume-weighted" not in remark]
    return f"other data: {' '.join(others)}" if others else ""


def _of_table(table: Table, general_reason: str) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for row, quantity, cell in table.items():
        if cell.verdict is not Verdict.DIFFERS or cell.measured is None or cell.published is None:
            continue
        cause = table.cause(row, quantity)
        decimals = max(cell.published.decimals, 4)
        theirs = str(cell.published).replace("-", "−")
        shown = (
            f"{row}, {quantity}: paper {theirs}, ours {writing.number(cell.measured.value, decimals)} "
            f"(tolerance {writing.number(cell.tolerance, decimals)})"
        )
        why = general_reason or (cause.text if cause else "**not explained.**")
        groups.setdefault(why, []).append(shown)
    if groups or table.findings:
        yield f"**{table.title}**\n"
    for text, cells in groups.items():
        yield "".join(f"- {cell}\n" for cell in cells)
        yield f"Why: {text}\n"
    for finding in table.findings:
        yield f"- {finding}\n"
