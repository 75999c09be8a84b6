"""One page for all results: each table with its verdicts, each figure, and where we differ and why."""

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

Written by `python -m paper report` from finished runs; every number below was computed by them. *Stochastic Attention
via Langevin Dynamics on the Modern Hopfield Energy* has 16 tables and 18 figures; they stand here under their labels in
the paper's source, beside a few that the paper does not have.

A cell shows the published value, ours with its standard error, and what the exact law predicts: **exact** from exact
draws of the closed-form mixture, without any chain; **formula** from pencil and paper. What chains and exact draws
share is the target; what they do not share is the sampler.

- ✓ within tolerance: three times the combined standard errors, or the printed rounding where that is more. Where the
  paper prints no error, its run is taken to have that of one of ours. Learned baselines and the returns have bands
  instead, stated before the runs in the `.toml` files beside the experiments.
- ≠ outside; each is explained in [Where we differ, and why](#where-we-differ-and-why).
- *new*: the paper has no such value. *not run*: it has, and this run does not.

"ours 0.5 ± 0.1 (one run ± 0.3)" is a mean over several runs with its standard error, and the spread of one of them.
SA is the paper's Algorithm 1 (ULA); snr is √(αβ/2d); max_cosine is the cosine to the nearest stored pattern; novelty
is 1 − max_cosine; energies are without their constants, as in the paper.
"""


def write(out: Path, to: Path) -> int:
    """Write the page and its pictures from the finished results in `out`; returns how many there are."""
    records = {name: record for name in EXPERIMENTS if (record := writing.read(out / name)) is not None}
    if not records:
        return 0
    pictures = to.parent / to.stem
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
        yield "**A quick run: a tenth of the steps, few epochs. It shows that everything works; it proves nothing.**\n"
    yield "| experiment | match | differ | new | not run | seconds | of which training |"
    yield "|---|---|---|---|---|---|---|"
    for name, record in records.items():
        counts = {verdict: sum(table.counts()[verdict] for table in record["tables"]) for verdict in Verdict}
        numbers = " | ".join(
            str(counts[verdict]) for verdict in (Verdict.MATCH, Verdict.DIFFERS, Verdict.NEW, Verdict.MISSING)
        )
        yield f"| [{name}](#{_anchor(name)}) | {numbers} | {record['seconds']:.0f} | {record['learned_seconds']:.0f} |"
    yield ""
    yield (
        "Seconds are those of one process on one core, beside as many others as there were cores; together "
        f"{total / 60:.1f} minutes, {(total - learned) / 60:.1f} of them not training.\n"
    )


def _circumstances(name: str, record: dict[str, Any]) -> str:
    versions = ", ".join(f"{package} {number}" for package, number in record["versions"].items())
    text = f"{record['seconds']:.0f} s on {record['machine']}; seed {record['seed']}; {versions}."
    if record["code"] != code_digest(name):
        text += " This result was made by an earlier state of the code."
    return text


def _anchor(name: str) -> str:
    heading = f"{name}: {EXPERIMENTS[name].title}".lower()
    return "".join(c for c in heading if c.isalnum() or c in " -").replace(" ", "-")


def _differences(records: dict[str, Any]) -> Iterator[str]:
    yield "## Where we differ, and why\n"
    any_at_all = False
    for record in records.values():
        for table in record["tables"]:
            lines = list(_of_table(table, _excuse(record)))
            any_at_all |= bool(lines)
            yield from lines
    if not any_at_all:
        yield "Nowhere.\n"


def _excuse(record: dict[str, Any]) -> str:
    """What explains any difference of a run that was not meant to match."""
    if record["quick"]:
        return "a quick run: too few steps and epochs to compare."
    others = [remark for remark in record["remarks"] if "volume-weighted" not in remark]
    return f"other data: {' '.join(others)}" if others else ""


def _of_table(table: Table, excuse: str) -> Iterator[str]:
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
        why = excuse or (cause.text if cause else "**not explained.**")
        groups.setdefault(why, []).append(shown)
    if groups or table.findings:
        yield f"**{table.title}**\n"
    for text, cells in groups.items():
        yield "".join(f"- {cell}\n" for cell in cells)
        yield f"Why: {text}\n"
    for finding in table.findings:
        yield f"- The text: {finding}\n"
