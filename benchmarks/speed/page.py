"""Generate docs/performance.md and its plots from the JSON of a run on a CPU and, if there is one, on a GPU."""

from __future__ import annotations

from pathlib import Path

from stochattn._backend.files import write_atomically

from .growth import slope
from .machine import PACKAGES
from .measured import Results, Row
from .plots import LIMITS, draw_curves, draw_ratios
from .wording import details, figure, target, verdict

TEXTS = Path(__file__).parent / "texts"
SECTIONS = {"chains": "Chains", "exact": "Exact draws", "large": "Large banks", "layers": "Attention layers"}
NAMES = {"cpu": "performance", "cuda": "performance-cuda"}


def write_page(docs: Path) -> list[Path]:
    """Write performance.md and its plots to `docs` from the JSON files there; return the written files."""
    found = {device: docs / f"{name}.json" for device, name in NAMES.items() if (docs / f"{name}.json").exists()}
    if not found:
        raise SystemExit(
            f"there are no results in {docs}: run python -m benchmarks --json {docs / 'performance.json'} first."
        )
    written, parts = [], [(TEXTS / "introduction.md").read_text("utf-8")]
    for device, path in found.items():
        results = Results.read(path)
        parts += run_section(results, device)
        if any(row.unit == "x" for row in results.rows):
            written.append(docs / f"{NAMES[device]}-ratios.png")
            draw_ratios(results, written[-1])
        if results.curves:
            written.append(docs / f"{NAMES[device]}-growth.png")
            draw_curves(results, written[-1])
    page = docs / "performance.md"
    write_atomically(page, "\n".join(parts))
    return [page, *written]


def run_section(results: Results, device: str) -> list[str]:
    """The section about one run, as blocks of text."""
    about = results.about
    versions = ", ".join(f"{name} {about[name]}" for name in PACKAGES if about[name])
    quick = " This was a run with `--quick`." if about["quick"] else ""
    quick += "" if about.get("complete", True) else " The run was interrupted, and some parts are missing."
    blocks = [f"## {'GPU' if device == 'cuda' else 'CPU'}: {about['machine']}\n"]
    computer = f"{about['cores']} cores, {about['memory_gb']:.0f} GB, Python {about['python']}"
    blocks.append(f"{about['date']}; {computer}, {versions}; BLAS: {about['blas']}.{quick}\n")
    if device == "cuda":
        blocks.append((TEXTS / "cuda.md").read_text("utf-8"))
    if any(row.unit == "x" for row in results.rows):
        blocks.append(f"![speed relative to each baseline]({NAMES[device]}-ratios.png)\n")
        blocks.append(
            "Bars to the right of 1 show how many times faster `stochattn` is; to the left, the baseline is faster.\n"
        )
    for part, title in SECTIONS.items():
        rows = [row for row in results.rows if row.part == part]
        if rows:
            blocks += [f"### {title}\n", table(rows)]
    if results.limits:
        blocks += ["### Limits of the machine\n", "| what | per second |\n|---|---|"]
        blocks += [f"| {limit.name} | {limit.rate:.3g} {limit.unit} |" for limit in results.limits]
    if results.curves:
        blocks += ["\n### Growth\n", f"![time per step over d, K and chains]({NAMES[device]}-growth.png)\n"]
        blocks += [_growth(results)]
    return blocks


def table(rows: list[Row]) -> str:
    """A Markdown table of rows."""
    lines = ["| what | baseline | value | target | met | details |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = (row.what, row.against, figure(row.value, row.unit), target(row), verdict(row), details(row))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _growth(results: Results) -> str:
    """One sentence per curve with its slopes over the upper half of the range."""
    sentences = []
    for curve in results.curves:
        slopes = [
            f"{label} {slope(curve.x, seconds):.2f}" for label, seconds in curve.series.items() if label not in LIMITS
        ]
        sentences.append(f"- {curve.x_label}: the slope is {', '.join(slopes)}.")
    note = "A slope of 0 is constant cost, 1 is linear growth; slopes are fitted over the upper half of a range.\n"
    return note + "\n" + "\n".join(sentences) + "\n"
