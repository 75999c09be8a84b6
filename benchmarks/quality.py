"""Write docs/quality.md: every generator and its baselines, evaluated on held-out examples.

python -m benchmarks.quality [--only returns] [--quick] [--jobs 2] [--out docs/quality.md]

STOCHATTN_DATA names the data folder. Figures are written next to the page.
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
    Part("Returns: windows of days", "returns_rivals"),
    Part("Returns: the future of a history", "returns_time_split"),
)


def printed(part: Part, out: Path, quick: bool) -> str:
    """The output of the module of a part, run on one core to make timings comparable."""
    command = [sys.executable, "-m", f"benchmarks.{part.module}", *(["--quick"] if quick else [])]
    command += ["--out", str(out.parent)] if part.draws else []
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise SystemExit(f"benchmarks.{part.module} failed: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    print(f"{part.title}: done", file=sys.stderr)
    return done.stdout.strip()


def chosen(names: str | None) -> tuple[Part, ...]:
    """The parts whose modules begin with one of these names, separated by commas; all parts for None."""
    if names is None:
        return PARTS
    for name in names.split(","):
        if not any(part.module.startswith(name) for part in PARTS) or not name:
            modules = ", ".join(part.module for part in PARTS)
            raise SystemExit(f"--only must name parts, separated by commas, of {modules}; got {name!r}.")
    return tuple(part for part in PARTS if part.module.startswith(tuple(names.split(","))))


def replaced(page: str, sections: dict[str, str]) -> str:
    """A page in which these sections, by title, are replaced, or added at its end."""
    first, *others = page.split("\n## ")
    texts = {text.split("\n", 1)[0]: f"## {text.rstrip()}\n" for text in others} | sections
    return "\n".join((first.rstrip() + "\n", *texts.values()))


def main() -> None:
    """Run the parts and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer splits")
    about_jobs = "number of parts that run in parallel, each on one core; -1 for one per core"
    parser.add_argument("--jobs", type=int, default=1, help=about_jobs)
    about_only = "run these parts, and replace their sections of the page: modules or their first letters, as returns"
    parser.add_argument("--only", metavar="PARTS", help=about_only)
    parser.add_argument("--out", type=Path, default=Path("docs/quality.md"))
    options = parser.parse_args()
    if options.jobs == 0 or options.jobs < -1:
        parser.error(f"--jobs must be a number of parts, or -1 for one per core; got {options.jobs}.")
    parts = chosen(options.only)
    with ThreadPoolExecutor(options.jobs if options.jobs > 0 else os.cpu_count()) as pool:
        tables = list(pool.map(lambda part: printed(part, options.out, options.quick), parts))
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
    write_whole(options.out, replaced(page, sections))


if __name__ == "__main__":
    main()
