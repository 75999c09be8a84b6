"""An animated picture of the explorer, made from the real page: python -m examples.explorer_capture [OUT.webp]

It explores handwritten digits with p_beta in Chromium, moves the slider from recall to generation and back, draws a
rectangle that new pictures keep, and selects one of them.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

if TYPE_CHECKING:
    from playwright.sync_api import Page

SIZE, SHOWN = (1120, 720), (840, 540)
MAX_BYTES = 2_000_000
FRAME_MS, LAST_MS = 260, 1500
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


def main() -> None:
    """Write the picture."""
    from playwright.sync_api import sync_playwright

    out = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/explorer.webp")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        digits, source = load_digits(), Path(folder) / "digits.npz"
        chosen = np.flatnonzero(digits.target == 3)[:40]
        pixels = np.round(digits.images[chosen] * (255 / 16)).astype(np.uint8)
        np.savez_compressed(source, images=pixels)
        words = [sys.executable, "-m", "stochattn", "explore", str(source), "--generator", "hopfield", "--no-browser"]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
            page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
            page.set_default_timeout(120_000)
            page.goto(server.stdout.readline().strip())
            frames = list(captured(page))
            browser.close()
        finally:
            server.terminate()
            server.wait()
    durations = [FRAME_MS] * (len(frames) - 1) + [LAST_MS]
    frames[0].save(out, save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=60, method=6)
    size = out.stat().st_size
    print(f"{out}: {len(frames)} frames, {size:,} bytes")
    if size > MAX_BYTES:
        raise SystemExit(f"{out} has {size:,} bytes, and at most {MAX_BYTES:,} are wanted: lower the quality.")


def captured(page: Page) -> Iterator[Image.Image]:
    """The page, step by step."""
    page.locator(".gallery[data-drawn='1']").wait_for()
    page.locator("[data-mark='natural']").wait_for()
    yield shot(page)
    for position in (*range(90, 20, -14), *range(20, 181, 14), *range(180, 90, -14)):
        before = page.locator("[data-drawn]").first.get_attribute("data-drawn")
        move = "(one, to) => { one.value = to; one.dispatchEvent(new Event('input', { bubbles: true })); }"
        page.locator("#knob").evaluate(move, position)
        page.locator(f".gallery[data-drawn='{int(before or 0) + 1}']").wait_for()
        yield shot(page)
    page.locator("[data-mark='natural']").click()
    page.wait_for_timeout(800)
    canvas = page.locator(".canvas")
    canvas.scroll_into_view_if_needed()
    yield shot(page)
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] * 0.45, steps=4)
    yield shot(page)
    page.mouse.up()
    page.wait_for_timeout(1500)
    yield shot(page)
    page.locator(".gallery .item").nth(2).click()
    page.wait_for_timeout(1200)
    yield shot(page)


def shot(page: Page) -> Image.Image:
    """What the browser shows, scaled down."""
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS)


if __name__ == "__main__":
    main()
