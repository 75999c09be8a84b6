"""Write docs/quality.md: every generator and its baselines, evaluated on held-out examples.

python -m benchmarks.quality [--only returns] [--quick] [--jobs 2] [--kept FOLDER] [--summary] [--out docs/quality.md]

STOCHATTN_DATA names the data folder. Figures are written next to the page. FOLDER keeps what the modules
made that take long, for runs that go on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from joblib import parallel_config

from stochattn._backend.files import write_atomically
from stochattn._backend.parallel import in_workers

from .summary import TITLE, summary
from .summary_lines import LINES

TEXTS = Path(__file__).parent / "quality_texts"
"""Folder of the texts before the tables, one file per part."""


class Part(NamedTuple):
    """One section of the page: its title, and the module that prints its tables."""

    title: str
    module: str
    draws: bool = False  # whether the module also writes figures
    keeps: bool = False  # whether the module can keep what it made, and go on with it

    @property
    def name(self) -> str:
        """The kind of data, by which `--only` names it."""
        return self.title.partition(":")[0].lower()


PARTS = (
    Part("Images: deformations", "shapes", draws=True),
    Part("Images: patches", "images", draws=True),
    Part("Density: covariance kernels", "density"),
    Part("Tables: covariance kernels", "table_contest"),
    Part("Proteins: calibrated latent", "proteins", keeps=True),
    Part("Returns: windows of days", "returns_rivals"),
    Part("Returns: the future of a history", "returns_time_split"),
    Part("Signals: deformations", "signals", keeps=True),
)


def printed(out: Path, quick: bool, kept: Path | None, part: Part) -> str:
    """The output of the module of a part, run on one core to make timings comparable; RuntimeError if it fails."""
    command = [sys.executable, "-m", f"benchmarks.{part.module}", *(["--quick"] if quick else [])]
    command += ["--out", str(out.parent)] if part.draws else []
    command += ["--kept", str(kept)] if part.keeps and kept is not None else []
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise RuntimeError(f"benchmarks.{part.module} failed: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    print(f"{part.title}: done", file=sys.stderr)
    return done.stdout.strip()


def tables_of(parts: tuple[Part, ...], out: Path, quick: bool, jobs: int, kept: Path | None = None) -> list[str]:
    """The output of each part; threads of joblib wait for the processes that make them, `jobs` at a time."""
    work = partial(printed, out, quick, kept)
    with parallel_config(backend="threading"), in_workers(work, parts, jobs) as tables:
        return list(tables)


def chosen(names: str | None) -> tuple[Part, ...]:
    """The parts with one of these names, separated by commas; all parts for None."""
    if names is None:
        return PARTS
    wanted = names.split(",")
    for name in wanted:
        if name not in {part.name for part in PARTS}:
            known = ", ".join(dict.fromkeys(part.name for part in PARTS))
            raise SystemExit(f"--only must name parts, separated by commas, of {known}; got {name!r}.")
    return tuple(part for part in PARTS if part.name in wanted)


def replaced(page: str, sections: dict[str, str]) -> str:
    """A page in which these sections, by title, are replaced, or added at its end."""
    first, *others = page.split("\n## ")
    texts = {text.split("\n", 1)[0]: f"## {text.rstrip()}\n" for text in others} | sections
    return "\n".join((first.rstrip() + "\n", *texts.values()))


def with_summary(page: str) -> str:
    """A page whose first section is the summary of the tables in the others."""
    introduction, *others = (text for text in page.split("\n## ") if text.split("\n", 1)[0] != TITLE)
    details = "\n## ".join(("", *others))
    return f"{introduction.rstrip()}\n\n{summary(page, LINES)}{details}"


def add_summary(path: Path) -> None:
    """Write the summary of a page into it; SystemExit if a table that it needs is not on the page."""
    try:
        write_atomically(path, with_summary(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path} has no new summary: {error}") from None


def main() -> None:
    """Run the parts and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer splits")
    about_jobs = "number of parts that run in parallel, each on one core; -1 for one per core"
    parser.add_argument("--jobs", type=int, default=1, help=about_jobs)
    about_only = "run these parts, and replace their sections of the page, such as tables,proteins,returns"
    parser.add_argument("--only", metavar="PARTS", help=about_only)
    parser.add_argument("--kept", type=Path, metavar="FOLDER", help="folder of sequences that were made, to go on with")
    parser.add_argument(
        "--summary", action="store_true", help="run nothing, and only write the page's first table again"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/quality.md"))
    options = parser.parse_args()
    if options.summary:
        add_summary(options.out)
        return
    if options.jobs == 0 or options.jobs < -1:
        parser.error(f"--jobs must be a number of parts, or -1 for one per core; got {options.jobs}.")
    parts = chosen(options.only)
    try:
        tables = tables_of(parts, options.out, options.quick, options.jobs, options.kept)
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    sections = {}
    for part, table in zip(parts, tables, strict=True):
        about = (TEXTS / f"{part.module}.md").read_text("utf-8")
        sections[part.title] = f"## {part.title}\n\n{about}\n`python -m benchmarks.{part.module}`\n\n{table}\n"
    if options.only is not None and options.out.is_file():
        page = options.out.read_text("utf-8")
    else:
        page = (TEXTS / "introduction.md").read_text("utf-8")
    if options.only is None:
        subprocess.run([sys.executable, "-m", "benchmarks.rows", "--out", str(options.out.parent)], check=True)
    write_atomically(options.out, replaced(page, sections))
    add_summary(options.out)  # after the page is written, which no error of the summary can lose


if __name__ == "__main__":
    main()
