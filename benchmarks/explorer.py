"""The explorer in a browser: time from a change of each control to the new gallery, time to the page, and memory.

python -m benchmarks.explorer [--only table proteins] [--repeats 12] [--large]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser
from playwright.sync_api import Error as BrowserError
from rich import box
from rich.console import Console
from rich.table import Table

from .explorer_data import Case, cases, many_pictures, novelty_steps, shared_steps
from .explorer_page import IS_DRAWN, Latency, browser, change, opened, served
from .files import random_family

TARGET_MS, TARGET_UP_S, TARGET_MB = 150, 3.0, 1000
P_BETA = ("--generator", "hopfield")
CONDITION = "condition"


def latencies(browser: Browser, case: Case, generator: tuple[str, ...], repeats: int) -> Iterator[tuple[str, object]]:
    """The name of each control, and its latencies or why there are none."""
    with served(case.path, *case.options, *generator) as server:
        page = opened(browser, server)
        page.wait_for_function(IS_DRAWN)
        page.wait_for_timeout(2000)
        names = [*shared_steps(0), *(["novelty"] if generator else []), CONDITION]
        for name in names:
            taken: list[Latency] = []
            try:
                for i in range(repeats):
                    own = {CONDITION: case.condition(i), "novelty": novelty_steps(i)}
                    taken.append(change(page, server, (shared_steps(i) | own)[name]))
            except BrowserError as error:
                yield name, error.message.splitlines()[0]
            else:
                yield name, taken
        page.close()


def row(name: str, found: object) -> list[str]:
    """The cells of a control: median and 90 % quantile, processor time, and whether the target is met."""
    if not isinstance(found, list):
        return [name, str(found), "", "", ""]
    wall, used = np.array(found).T
    median = float(np.median(wall))
    verdict = "yes" if median <= TARGET_MS else "no"
    return [name, f"{median:,.0f}", f"{np.quantile(wall, 0.9):,.0f}", f"{np.median(used):,.0f}", verdict]


def print_latencies(console: Console, browser: Browser, only: list[str], repeats: int) -> None:
    """One table for each kind of data and generator."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, case in cases(Path(folder)).items():
            if kind not in only:
                continue
            for generator in ((), P_BETA):
                title = f"{kind}, {'p_beta' if generator else 'its own generator'}: milliseconds to the new gallery"
                shown = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
                for heading in ("control", "median", "90 %", "processor", f"<= {TARGET_MS}"):
                    shown.add_column(heading, justify="left" if heading == "control" else "right")
                for name, found in latencies(browser, case, generator, repeats):
                    shown.add_row(*row(name, found))
                console.print(shown)


def print_large(console: Console, browser: Browser) -> None:
    """Time to the page and memory with many examples."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {
            "1,000 pictures of 64 x 64": many_pictures(folder / "pictures.npy"),
            "1,000 sequences of 500 sites": random_family(folder / "family.fasta", 1000, 500),
        }
        title = f"Many examples (targets: page in {TARGET_UP_S:.0f} s, {TARGET_MB:,} MB)"
        shown = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
        for heading in ("stored", "generator", "command", "page", "gallery", "MB"):
            shown.add_column(heading, justify="left" if heading in ("stored", "generator") else "right")
        for about, path in files.items():
            kind = ("--kind", "image") if path.suffix == ".npy" else ()
            for generator in (P_BETA, ()):
                shown.add_row(about, "p_beta" if generator else "its own", *large(browser, path, (*kind, *generator)))
        console.print(shown)
        console.print("Seconds that the command, then the page and then its gallery took; in brackets, of the server.")


def large(browser: Browser, path: Path, options: tuple[str, ...]) -> list[str]:
    """Seconds to the address, to the controls and to the gallery, each with processor seconds; and memory."""
    with served(path, *options) as server:
        times = [(server.begun, 0.0), (time.perf_counter(), server.processor_seconds())]
        page = opened(browser, server)
        times.append((time.perf_counter(), server.processor_seconds()))
        page.wait_for_function(IS_DRAWN)
        times.append((time.perf_counter(), server.processor_seconds()))
        page.wait_for_timeout(5000)
        page.close()
        taken = np.diff(np.array(times), axis=0)
        return [*(f"{wall:.1f} ({used:.1f})" for wall, used in taken), f"{server.memory_mb():,.0f}"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explorer", description=__doc__.splitlines()[0])
    kinds = ("table", "proteins", "pictures", "returns", "signals")
    parser.add_argument("--only", nargs="*", choices=kinds, default=list(kinds), help="kinds of data")
    parser.add_argument("--repeats", type=int, default=12, help="changes of each control (default 12)")
    parser.add_argument("--large", action="store_true", help="only time to the page and memory, with many examples")
    options = parser.parse_args()
    console = Console(width=100)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    console.print(
        f"{os.cpu_count()} cores, load {load} at the start. Times are of the browser; processor: of the server."
    )
    with browser() as found:
        if not options.large:
            print_latencies(console, found, options.only, options.repeats)
        print_large(console, found)


if __name__ == "__main__":
    main()
