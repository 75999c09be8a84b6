"""Shared command-line options of the examples, and writing of their pictures."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any


def command(prog: str, description: str | None, out: str) -> argparse.ArgumentParser:
    """A parser with --quick, --out and --seed."""
    parser = argparse.ArgumentParser(
        prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a run of a few seconds that checks the example")
    parser.add_argument("--out", type=Path, default=Path(out), help="file of the picture: .png, .pdf or .svg")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers, 0 or more (default 0)")
    return parser


def checked(parser: argparse.ArgumentParser, arguments: list[str] | None = None) -> argparse.Namespace:
    """The parsed options; a path that cannot be written is rejected before the run starts."""
    options = parser.parse_args(arguments)
    if options.seed < 0:
        parser.error(f"--seed must be 0 or more; got {options.seed}")
    if options.out.suffix not in (".png", ".pdf", ".svg"):
        parser.error(f"--out must end in .png, .pdf or .svg; got {options.out}")
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out must name a file in a folder that can be created; {options.out.parent}: {error.strerror}")
    if not os.access(options.out.parent, os.W_OK):
        parser.error(f"--out must name a file in a folder that can be written to; got {options.out}")
    return options


def save(figure: Any, path: Path) -> None:
    """Write the figure to a file atomically."""
    unfinished = path.with_name(f".{path.name}.part")
    figure.savefig(unfinished, dpi=130, format=path.suffix.lstrip("."))
    unfinished.replace(path)
