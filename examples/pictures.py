"""Options of examples that draw a picture, and writing of their pictures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from . import options as shared


def command(name: str, description: str | None, out: str) -> argparse.ArgumentParser:
    """A parser for `python -m examples.NAME` with --quick, --out and --seed."""
    parser = shared.command(name, description, "few items, to check the example")
    parser.add_argument("--out", type=Path, default=Path(out), help="file of the picture: .png, .pdf or .svg")
    shared.add_seed(parser)
    return parser


def checked(parser: argparse.ArgumentParser, arguments: list[str] | None = None) -> argparse.Namespace:
    """The parsed options; a path that cannot be written is rejected before the run starts."""
    options = shared.parsed(parser, arguments, seed=0)
    if options.out.suffix not in (".png", ".pdf", ".svg"):
        parser.error(f"--out must end in .png, .pdf or .svg; got {options.out}")
    shared.require_writable(parser, options.out)
    return options


def save(figure: Any, path: Path) -> None:
    """Write the figure to a file atomically."""
    unfinished = path.with_name(f".{path.name}.part")
    figure.savefig(unfinished, dpi=130, format=path.suffix.lstrip("."))
    unfinished.replace(path)
