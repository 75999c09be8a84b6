"""Latency of each control of the explorer, measured in a browser: from the change of a control to the new gallery.

python -m benchmarks.explorer [--only table protein] [--large] [--repeat 9]

It starts Debian's Chromium through Playwright, on a page of a server in this process, for small made-up data of each
kind. `--large` adds 1,000 pictures of 64 x 64 and 1,000 sequences of 500 sites: the time until the page is up, and the
memory of the server. Times include the browser's own work; processor time is that of the server per change.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LETTERS = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
TARGET_MS, TARGET_UP_S, TARGET_MB = 150.0, 3.0, 1000.0
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-sync", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update"),
)
MEASURE = """async ([selector, event, value, least]) => {
  const find = (selector, root = document) => [...root.querySelectorAll("*")].flatMap((one) =>
    [...(one.matches(selector) ? [one] : []), ...(one.shadowRoot ? find(selector, one.shadowRoot) : [])]);
  const gallery = find(".gallery[data-drawn]")[0], control = find(selector)[0], before = gallery.dataset.drawn;
  return await new Promise((done) => {
    const begin = performance.now();
    const seen = new MutationObserver(() => {
      if (gallery.dataset.drawn === before) return;
      seen.disconnect();
      requestAnimationFrame(() => done(performance.now() - begin));
    });
    seen.observe(gallery, { attributes: true, childList: true, subtree: true });
    if (event === "click") control.click();
    else { control.value = value; control.dispatchEvent(new Event(event, { bubbles: true })); }
    setTimeout(() => { seen.disconnect(); done(NaN); }, 60000);
  });
}"""
"""Milliseconds from an event of a control to the first frame with another gallery."""
UP = """() => { const find = (selector, root = document) => [...root.querySelectorAll("*")].flatMap((one) =>
  [...(one.matches(selector) ? [one] : []), ...(one.shadowRoot ? find(selector, one.shadowRoot) : [])]);
  return find("#knob").length > 0; }"""
DRAWN = UP.replace('"#knob"', "\".gallery[data-drawn]:not([data-drawn='0'])\"")


class Control(NamedTuple):
    """A control of the page, the event that changes it, and values to set one after the other."""

    name: str
    selector: str
    event: str
    values: Sequence[object]


class Latency(NamedTuple):
    """Median and largest milliseconds, and the server's processor time per change."""

    control: str
    median: float
    largest: float
    processor: float


def controls(repeat: int) -> list[Control]:
    """The controls that every kind of data has."""
    return [
        Control("slider", "#knob", "input", [30 + 140 * i // repeat for i in range(repeat)]),
        Control("seed", "#seed", "change", list(range(100, 100 + repeat))),
        Control("number", "#n", "change", [8 + i % 8 for i in range(repeat)]),
        Control("draw others", "#new-seed", "click", [None] * repeat),
        Control("a stored item on or off", ".stored-list .chip", "click", [None] * repeat),
    ]


def family(path: Path, K: int, L: int, seed: int = 0) -> Path:
    """An alignment of two subfamilies."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 20, (2, L))[rng.integers(0, 2, K)]
    drift = rng.random((K, L)) < 0.25
    codes[drift] = rng.integers(0, 20, drift.sum())
    path.write_text("".join(f">s{i}\n{''.join(LETTERS[row])}\n" for i, row in enumerate(codes)))
    return path


def pictures(path: Path, K: int, side: int, seed: int = 0) -> Path:
    """Smooth blobs at different places."""
    rng, (y, x) = np.random.default_rng(seed), np.indices((side, side)) / side
    at, size = rng.uniform(0.25, 0.75, (K, 2, 1, 1)), rng.uniform(0.08, 0.2, (K, 1, 1))
    blobs = np.exp(-(np.square(y - at[:, 0]) + np.square(x - at[:, 1])) / size**2)
    np.savez_compressed(path, images=np.uint8(255 * blobs))
    return path


def table(path: Path, K: int, seed: int = 0) -> Path:
    """Numbers, whole numbers, categories and dates."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["red", "green", "blue"], K)
    height, age = rng.normal(170, 8, K).round(1), rng.integers(20, 80, K)
    rows = (f"{h},{a},{g},2021-{1 + i % 12:02d}-01" for i, (h, a, g) in enumerate(zip(height, age, group, strict=True)))
    path.write_text("\n".join(["height,age,group,seen", *rows, ""]))
    return path


def prices(path: Path, days: int, tickers: int, seed: int = 0) -> Path:
    """Prices of correlated tickers."""
    rng = np.random.default_rng(seed)
    returns = 0.006 * (rng.standard_t(4, (days, 1)) + rng.standard_t(4, (days, tickers)))
    values = 100 * np.exp(returns.cumsum(0))
    dates = np.busday_offset("2021-01-04", np.arange(days))
    rows = (",".join([str(day), *(f"{one:.4f}" for one in row)]) for day, row in zip(dates, values, strict=True))
    path.write_text("\n".join([",".join(["date", *(f"T{i}" for i in range(tickers))]), *rows, ""]))
    return path


def signals(path: Path, K: int, points: int, seed: int = 0) -> Path:
    """Bumps at times that vary."""
    rng, t = np.random.default_rng(seed), np.arange(points) / points
    middle, height = 0.4 + 0.04 * rng.normal(size=(K, 1)), 1 + 0.2 * rng.normal(size=(K, 1))
    np.savez(path, signals=height * np.exp(-np.square((t - middle) / 0.08)) + 0.02 * rng.normal(size=(K, points)))
    return path


SMALL = {
    "protein": lambda folder: family(folder / "family.fasta", 60, 80),
    "image": lambda folder: pictures(folder / "pictures.npz", 60, 24),
    "table": lambda folder: table(folder / "patients.csv", 200),
    "returns": lambda folder: prices(folder / "prices.csv", 250, 8),
    "signals": lambda folder: signals(folder / "signals.npz", 60, 120),
}
LARGE = {
    "1,000 pictures of 64 x 64": lambda folder: pictures(folder / "many.npz", 1000, 64),
    "1,000 sequences of 500 sites": lambda folder: family(folder / "long.fasta", 1000, 500),
}


class Served(NamedTuple):
    """A server in a process of its own."""

    address: str
    process: subprocess.Popen[str]

    @property
    def processor_seconds(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    @property
    def peak_megabytes(self) -> float:
        """The largest memory so far."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


@contextmanager
def served(source: Path, *options: str) -> Iterator[Served]:
    """`stochattn explore` on a file."""
    words = [sys.executable, "-m", "stochattn", "explore", str(source), "--no-browser", *options]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield Served(process.stdout.readline().strip(), process)
    finally:
        process.terminate()
        process.wait(30)


def opened(browser: Browser, address: str) -> tuple[Page, float, float]:
    """A page, and the seconds until its controls and its first gallery are there."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(300_000)
    begin = time.perf_counter()
    page.goto(address)
    page.wait_for_function(UP)
    up = time.perf_counter() - begin
    page.wait_for_function(DRAWN)
    return page, up, time.perf_counter() - begin


def latencies(browser: Browser, source: Path, generator: str, repeat: int) -> list[Latency]:
    """Of every control, after one change that is not counted."""
    found = []
    with served(source, "--generator", generator) as server:
        page, _, _ = opened(browser, server.address)
        page.wait_for_timeout(1500)  # curves and marks are computed after the first gallery
        for control in controls(repeat + 1):
            times, begin = [], server.processor_seconds
            for value in control.values:
                times.append(page.evaluate(MEASURE, [control.selector, control.event, value, 0]))
            processor = 1000 * (server.processor_seconds - begin) / len(times)
            found.append(Latency(control.name, statistics.median(times[1:]), max(times[1:]), processor))
        page.close()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(prog="python -m benchmarks.explorer", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SMALL, default=list(SMALL), metavar="KIND")
    parser.add_argument("--repeat", type=int, default=9, help="changes of each control")
    parser.add_argument("--large", action="store_true", help="also time and memory with 1,000 stored items")
    given = parser.parse_args(arguments)
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        parser.exit(1, "no chromium is installed: install Debian's package chromium.\n")
    console, load = Console(width=110), os.getloadavg()[0] / (os.cpu_count() or 1)
    console.print(f"Load before: {load:.1f} processes per core. Above 1, times on the clock say little.")
    table_ = Table("kind", "generator", "control", "median ms", "largest ms", "server ms", f"≤ {TARGET_MS:.0f} ms")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=browser_path, args=list(FLAGS))
        for kind in given.only:
            source = SMALL[kind](Path(folder))
            for generator in _generators(source):
                for one in latencies(browser, source, generator, given.repeat):
                    figures = (f"{value:.0f}" for value in one[1:])
                    table_.add_row(kind, generator, one.control, *figures, "yes" if one.median <= TARGET_MS else "no")
        console.print(table_)
        if given.large:
            console.print(_large(browser, Path(folder)))
        browser.close()


def _generators(source: Path) -> list[str]:
    """The default generator and p_beta."""
    from stochattn.data.registry import kind_for

    return list(dict.fromkeys([next(iter(kind_for(source).generators)), "hopfield"]))


def _large(browser: Browser, folder: Path) -> Table:
    """Time until a page is up, and memory, with many stored items."""
    found = Table("stored", "generator", "page up s", "first gallery s", "peak MB", "slider ms")
    for name, make in LARGE.items():
        source = make(folder)
        for generator in _generators(source):
            with served(source, "--generator", generator) as server:
                page, up, drawn = opened(browser, server.address)
                page.wait_for_timeout(3000)
                moved = (
                    [page.evaluate(MEASURE, ["#knob", "input", at, 0]) for at in (60, 90)] if "hop" in generator else []
                )
                peak, slider = server.peak_megabytes, f"{statistics.median(moved):.0f}" if moved else "–"
                found.add_row(name, generator, f"{up:.1f}", f"{drawn:.1f}", f"{peak:.0f}", slider)
                page.close()
    return found


if __name__ == "__main__":
    main()
