"""Pages of the explorer in a real browser: start the command, change a control, time until the gallery has changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update"),
)
WAIT_MS = 300_000  # until a page is up
CHANGE_MS = 60_000  # until a gallery has changed
PAUSE_MS = 400  # between two changes, so that plots of the one are drawn before the other begins
# Shadow roots hide their elements from document.querySelector.
FIND_ALL = """
const findAll = (selector, root = document) => [...root.querySelectorAll("*")].flatMap((one) =>
  [...(one.matches(selector) ? [one] : []), ...(one.shadowRoot ? findAll(selector, one.shadowRoot) : [])]);
"""
IS_UP = f"() => {{ {FIND_ALL} return findAll('#knob, #generator').length >= 2; }}"
IS_DRAWN = f"() => {{ {FIND_ALL} return Number(findAll('.gallery[data-drawn]')[0]?.dataset.drawn ?? 0) >= 1; }}"
# A step is [selector, value, event]: the value is set where there is one, then the event is sent. The gallery's next
# change, and the frame that shows it, end the time.
CHANGE = f"""([steps, limit]) => new Promise((resolve, reject) => {{
  {FIND_ALL}
  const gallery = findAll(".gallery[data-drawn]")[0];
  const elements = steps.map(([selector]) => findAll(selector)[0]);
  const absent = elements.findIndex((one) => !one);
  if (absent >= 0) return reject(new Error(`no element ${{steps[absent][0]}}`));
  const problems = () => findAll(".problem").map((one) => one.textContent).filter(Boolean).join(" ");
  const timer = setTimeout(() => reject(new Error(problems() || "the gallery did not change")), limit);
  const observer = new MutationObserver(() => {{
    observer.disconnect();
    clearTimeout(timer);
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begun), 0));
  }});
  observer.observe(gallery, {{ attributes: true, attributeFilter: ["data-drawn"] }});
  const begun = performance.now();
  steps.forEach(([, value, event], i) => {{
    if (value !== null) elements[i].value = value;
    if (event) elements[i].dispatchEvent(new Event(event, {{ bubbles: true }}));
  }});
}})"""
Step = tuple[str, object, str]


class Latency(NamedTuple):
    """Milliseconds until the browser shows the new gallery, and of processor time that the server used meanwhile."""

    wall_ms: float
    processor_ms: float


class Served(NamedTuple):
    """A command that serves pages, and when it was started."""

    process: psutil.Process
    address: str
    begun: float

    def processor_seconds(self) -> float:
        """User and system time so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def memory_mb(self) -> float:
        """Resident memory."""
        return float(self.process.memory_info().rss) / 2**20


@contextmanager
def served(path: Path, *options: str) -> Iterator[Served]:
    """`stochattn explore` on a file, until the block ends."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "stochattn", "explore", str(path), "--no-browser", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            address = process.stdout.readline().strip()
            if not address:
                raise RuntimeError(process.stderr.read().strip())
            yield Served(psutil.Process(process.pid), address, begun)
        finally:
            process.terminate()


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser without a window: Chromium or Chrome, as installed."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise SystemExit("Install chromium or google-chrome: none is on the PATH.")
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=found, args=list(FLAGS))


def opened(browser: Browser, server: Served, width: int = 1400, height: int = 900) -> Page:
    """A page that has its controls; its gallery may not be there yet."""
    page = browser.new_page(viewport={"width": width, "height": height})
    page.set_default_timeout(WAIT_MS)
    page.goto(server.address)
    page.wait_for_function(IS_UP)
    return page


def change(page: Page, server: Served, steps: list[Step]) -> Latency:
    """Change a control as a user does, and wait for the gallery."""
    before = server.processor_seconds()
    wall = float(page.evaluate(CHANGE, [[list(step) for step in steps], CHANGE_MS]))
    used = server.processor_seconds() - before
    page.wait_for_timeout(PAUSE_MS)
    return Latency(wall, 1000 * used)
