"""Write docs/quality.md: every generator and its baselines, evaluated on held-out examples.

python -m benchmarks.quality [--quick] [--jobs 2] [--out docs/quality.md] [--only tables]

STOCHATTN_DATA names the data folder. Figures are written next to the page. `--only` names pages of evidence with
rivals, separated by commas, which are written instead.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from stochattn._backend.files import write_whole

TEXTS = Path(__file__).parent / "quality_texts"
"""Folder of the texts before the tables, one file per part."""


class Part(NamedTuple):
    """One section of the page: its title, and the module that prints its tables."""

    title: str
    module: str
    draws: bool = False  # whether the module also writes figures


PARTS = (
    Part("Images: patches", "images", draws=True),
    Part("Density: covariance kernels", "density"),
    Part("Proteins: calibrated latent, substitution mixture", "proteins"),
    Part("Returns: windows of days", "returns_held_out"),
)

EVIDENCE = {
    "tables": (Part("Tables", "table_contest"), Path("docs/evidence/tables.md")),
}
"""Comparisons with rivals by the name that `--only` takes, and the page that each rewrites up to LAST_LINE."""
LAST_LINE = "<!-- The figures above are written by python -m benchmarks.quality. -->"


def write_evidence(name: str, quick: bool) -> None:
    """Rewrite the first part of a page of evidence: its text, and the tables that its module prints."""
    part, page = EVIDENCE[name]
    about = (TEXTS / f"{part.module}.md").read_text("utf-8")
    rest = page.read_text("utf-8").partition(LAST_LINE)[2] if page.exists() else ""
    write_whole(page, f"{about}\n{printed(part, page, quick)}\n\n{LAST_LINE}{rest}")


def pages_of(text: str) -> list[str]:
    """The names in a list such as tables,proteins; ArgumentTypeError for one that is unknown."""
    names = text.split(",")
    for name in names:
        if name not in EVIDENCE:
            raise argparse.ArgumentTypeError(f"must name some of {', '.join(EVIDENCE)}, with commas; got {name!r}.")
    return names


def printed(part: Part, out: Path, quick: bool) -> str:
    """The output of the module of a part, run on one core to make timings comparable."""
    command = [sys.executable, "-m", f"benchmarks.{part.module}", *(["--quick"] if quick else [])]
    command += ["--out", str(out.parent)] if part.draws else []
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise SystemExit(f"benchmarks.{part.module} failed: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    print(f"{part.title}: done", file=sys.stderr)
    return done.stdout.strip()


def main() -> None:
    """Run every part and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer splits")
    about_jobs = "number of parts that run in parallel, each on one core; -1 for one per core"
    parser.add_argument("--jobs", type=int, default=1, help=about_jobs)
    parser.add_argument("--out", type=Path, default=Path("docs/quality.md"))
    parser.add_argument("--only", type=pages_of, metavar="PAGES", help=f"pages with rivals: {', '.join(EVIDENCE)}")
    options = parser.parse_args()
    if options.only:
        for name in options.only:
            write_evidence(name, options.quick)
        return
    if options.jobs == 0 or options.jobs < -1:
        parser.error(f"--jobs must be a number of parts, or -1 for one per core; got {options.jobs}.")
    with ThreadPoolExecutor(options.jobs if options.jobs > 0 else os.cpu_count()) as pool:
        tables = list(pool.map(lambda part: printed(part, options.out, options.quick), PARTS))
    subprocess.run([sys.executable, "-m", "benchmarks.rows", "--out", str(options.out.parent)], check=True)
    page = [(TEXTS / "introduction.md").read_text("utf-8")]
    for part, table in zip(PARTS, tables, strict=True):
        about = (TEXTS / f"{part.module}.md").read_text("utf-8")
        page.append(f"## {part.title}\n\n{about}\n`python -m benchmarks.{part.module}`\n\n{table}\n")
    write_whole(options.out, "\n".join(page))


if __name__ == "__main__":
    main()
