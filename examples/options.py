"""Command-line options that examples share, checked before a run starts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def command(name: str, description: str | None, quick: str) -> argparse.ArgumentParser:
    """A parser for `python -m examples.NAME` with --quick."""
    parser = argparse.ArgumentParser(
        prog=f"python -m examples.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help=f"{quick}: a run of a few seconds")
    return parser


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add --seed."""
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers, 0 or more (default 0)")


def parsed(parser: argparse.ArgumentParser, arguments: list[str] | None = None, /, **least: int) -> argparse.Namespace:
    """The options, of which those named in `least` are not smaller than that."""
    options = parser.parse_args(arguments)
    for name, smallest in least.items():
        if getattr(options, name) < smallest:
            parser.error(f"--{name} must be {smallest} or more; got {getattr(options, name)}")
    return options


def require_writable(parser: argparse.ArgumentParser, path: Path) -> None:
    """End with a message if --out cannot be written; its folder is created."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out must name a file in a folder that can be created; {path.parent}: {error.strerror}")
    if path.is_dir():
        parser.error(f"--out must name a file; {path} is a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        parser.error(f"--out must name a file in a folder that can be written to; got {path}")


def torch_device(parser: argparse.ArgumentParser, name: str) -> torch.device:
    """The device of torch with this name: cpu, or cuda where torch finds a GPU."""
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        parser.error(f"--device must be cpu, cuda, or cuda and a number, such as cuda:0; got {name}")
    if device.type not in ("cpu", "cuda"):
        parser.error(f"--device must be cpu or cuda; got {name}")
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        parser.error(
            f"--device must be cpu{f' or below cuda:{count}' if count else ''}, because torch finds "
            f"{count or 'no'} GPU{'s' * (count > 1)}; got {name}"
        )
    return device


def run_until_interrupted(main: Callable[[], None]) -> None:
    """Run an example that writes its result at the end; Ctrl-C gives one line and exit code 130."""
    try:
        main()
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        raise SystemExit(130) from None
