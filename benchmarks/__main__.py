"""Print the table of ratios, and write it as JSON with --json FILE."""

from __future__ import annotations

import argparse
import json
import os

import numpy as np
from rich.console import Console
from rich.table import Table

import stochattn

from .core import measure


def main() -> None:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ratios measured in one run.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to FILE")
    options = parser.parse_args()
    console = Console()
    with console.status("measuring"):
        rows = measure(options.quick)
    table = Table(
        "what", "ratio", "target", "met", "measured", title=f"stochattn {stochattn.__version__}, {os.cpu_count()} cores"
    )
    for row in rows:
        table.add_row(row.what, f"{row.ratio:,.1f}", row.target, "yes" if row.met else "NO", row.details)
    console.print(table)
    if options.json:
        about = {
            "version": stochattn.__version__,
            "numpy": np.__version__,
            "cores": os.cpu_count(),
        }
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"about": about, "rows": [row._asdict() for row in rows]}, file, indent=1)


if __name__ == "__main__":
    main()
