"""Record the explorer on handwritten digits as an animation, from screenshots of the real page in a browser.

python examples/explorer_capture.py [--out docs/explorer.webp] [--still docs/explorer.png]

It needs the extra `explore`, Playwright, and Chromium or Chrome.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from sklearn.datasets import load_digits

PER_DIGIT = 30
SIZE, SCALE = (1240, 920), 0.75
SLIDE_MS, READ_MS = 260, 1800
POSITIONS = (0, 4, 8, 12, 16, 20, 25, 30, 36, 42, 50, 60, 72, 86, 102, 120, 140, 160)
REST = 36  # the position at which the condition is set
WAIT_MS = 120_000
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
# Shadow roots hide their elements from document.querySelector.
DRAWN = """() => {
  const findAll = (selector, root = document) => [...root.querySelectorAll("*")].flatMap((one) =>
    [...(one.matches(selector) ? [one] : []), ...(one.shadowRoot ? findAll(selector, one.shadowRoot) : [])]);
  const gallery = findAll(".gallery[data-drawn]")[0];
  return gallery && gallery.getAttribute("aria-busy") === "false" ? Number(gallery.dataset.drawn) : 0;
}"""
SLIDE = "(one, to) => { one.value = to; one.dispatchEvent(new Event('input', {bubbles: true})); }"


class Recording:
    """Screenshots of a page, each with the milliseconds for which it is shown."""

    def __init__(self, page: Page) -> None:
        self.page, self.frames, self.durations = page, list[Image.Image](), list[int]()

    def add(self, milliseconds: int) -> None:
        """Add what the page shows now."""
        self.page.wait_for_timeout(500)  # plots follow the gallery
        shot = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        size = tuple(round(SCALE * side) for side in shot.size)
        self.frames.append(shot.resize(size, Image.Resampling.LANCZOS))
        self.durations.append(milliseconds)

    @contextmanager
    def next_gallery(self) -> Iterator[None]:
        """Wait for another gallery after what happens in this block."""
        before = self.page.evaluate(DRAWN)
        yield
        self.page.wait_for_function(f"(before) => ({DRAWN})() > before", arg=before)

    def save(self, path: Path) -> None:
        """Write all frames."""
        first, *others = self.frames
        kind = {"save_all": True, "append_images": others, "duration": self.durations, "loop": 0}
        first.save(path, **kind, quality=62, method=3)


def digits(path: Path) -> Path:
    """Digits of 8 x 8 pixels, some of each class."""
    x, labels = load_digits(return_X_y=True)
    kept = np.concatenate([np.flatnonzero(labels == digit)[:PER_DIGIT] for digit in range(10)])
    np.savez(path, images=(x[kept].reshape(-1, 8, 8) / 16).astype(np.float32), labels=labels[kept])
    return path


def record(recording: Recording) -> None:
    """From recall to generation, a condition, and a selection that the map shows."""
    page = recording.page
    slider = page.locator("#knob")
    for position in POSITIONS:
        with recording.next_gallery():
            slider.evaluate(SLIDE, position)
        recording.add(READ_MS if position in (POSITIONS[0], REST, POSITIONS[-1]) else SLIDE_MS)
    with recording.next_gallery():
        slider.evaluate(SLIDE, REST + 1)
    recording.add(READ_MS // 2)
    canvas = page.locator(".canvas").first.bounding_box()
    assert canvas is not None
    x, y, width, height = canvas["x"], canvas["y"], canvas["width"], canvas["height"]
    page.mouse.move(x + 0.01 * width, y + 0.01 * height)
    page.mouse.down()
    for share in (0.15, 0.28):
        page.mouse.move(x + 0.99 * width, y + share * height)
        recording.add(SLIDE_MS)
    with recording.next_gallery():
        page.mouse.move(x + 0.99 * width, y + 0.36 * height)
        page.mouse.up()
    recording.add(READ_MS)
    for card in (1, 6):
        page.locator(".gallery .item").nth(card).click()
        page.wait_for_timeout(2500)
        recording.add(READ_MS)


@contextmanager
def opened_page(path: Path) -> Iterator[Page]:
    """The page of a file, once its first gallery is there."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        raise SystemExit("Install chromium or google-chrome: none is on the PATH.")
    command = [sys.executable, "-m", "stochattn", "explore", str(path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            chromium = playwright.chromium.launch(executable_path=browser, args=list(FLAGS))
            page = chromium.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light")
            page.set_default_timeout(WAIT_MS)
            page.goto(address)
            page.wait_for_function(f"() => ({DRAWN})() >= 1")
            yield page
        finally:
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/explorer.webp"), help="file of the animation: .webp")
    parser.add_argument("--still", type=Path, default=Path("docs/explorer.png"), help="file of the last frame: .png")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, opened_page(digits(Path(folder) / "digits.npz")) as page:
        recording = Recording(page)
        record(recording)
        page.screenshot(path=options.still)
    recording.save(options.out)
    print(f"{options.out}: {len(recording.frames)} frames, {options.out.stat().st_size / 1e6:.2f} MB; {options.still}")


if __name__ == "__main__":
    main()
