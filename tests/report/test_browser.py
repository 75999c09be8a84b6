"""The report in a real browser: no scripts run, no requests are made, and pages fit the width of a phone."""

import html
import json
import re
import shutil
import subprocess

import pytest

from . import made

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium, chromium-browser or google-chrome is installed")

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--window-size=1400,900", "--virtual-time-budget=10000", "--dump-dom"),
)
PROBE = """<script>
const links = page => [...page.querySelectorAll("*")].flatMap(e => [...e.attributes])
  .filter(a => /src|href|srcset|poster|action|^data$|background/.test(a.name)).map(a => a.value)
  .concat([...page.querySelectorAll("style")].flatMap(s => s.textContent.match(/url\\(|@import|https?:/g) ?? []))
  .filter(value => !/^(data:|#)/.test(value));
onload = () => setTimeout(() => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentWindow, root = page.document.documentElement;
    const pictures = [...page.document.images];
    return {title: page.document.title, pwned: page.pwned ?? null, width: page.innerWidth, scroll: root.scrollWidth,
            height: root.scrollHeight, pictures: pictures.length, broken: pictures.filter(i => !i.naturalWidth).length,
            asked: links(page.document)};
  });
  const out = document.createElement("pre");
  out.id = "found"; out.textContent = JSON.stringify([window.pwned ?? null, found]);
  document.body.replaceChildren(out);
}, 500);
</script>"""
BAD = (
    '<title>bad</title><style>@import "https:x";b{background:url(y)}</style>'
    '<div style="width:600px"><img src=x onerror="window.pwned=1"></div>'
)


def probed(tmp_path, pages):
    """Text and width in pixels of each page in the browser; pages are in frames, which can be narrower than windows."""
    frames = "".join(
        f'<iframe style="border:0;width:{width}px;height:800px" srcdoc="{html.escape(text)}"></iframe>'
        for text, width in pages
    )
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(f"<!doctype html><meta charset=utf-8><body>{frames}{PROBE}</body>", encoding="utf-8")
    command = [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", wrapper.as_uri()]
    dumped = subprocess.run(command, capture_output=True, timeout=120, check=True).stdout.decode("utf-8")
    return json.loads(html.unescape(re.search('<pre id="found">(.*?)</pre>', dumped, re.S)[1]))


def without_policy(text):
    """The page without its content security policy, to test escaping alone."""
    bare, count = re.subn('<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert count == 1
    return bare


@pytest.fixture(scope="module")
def found(reports, tmp_path_factory):
    pages = []
    for text in reports.values():
        bare = without_policy(text)
        pages += [(text, 390), (bare, 360), (bare.replace("<details", "<details open"), 1280)]
    return probed(tmp_path_factory.mktemp("browser"), [*pages, (BAD, 390)])


def test_the_probe_detects_scripts_and_wide_pages(found):
    bad = found[1][-1]
    assert (bad["pwned"], bad["scroll"], bad["broken"]) == (1, 600 + 8, 1)
    assert sorted(bad["asked"]) == ["@import", "https:", "url(", "x"]


def test_pages_are_complete_and_run_no_scripts(found):
    outside, pages = found
    assert outside is None
    assert len(pages) == 3 * len(made.KINDS) + 1
    for page in pages[:-1]:
        assert page["title"].startswith("40 new ")
        assert page["pwned"] is None
        assert page["asked"] == []
        assert page["pictures"] >= 4
        assert page["broken"] == 0


def test_no_page_scrolls_sideways(found):
    for page, width in zip(found[1], (390, 360, 1280) * len(made.KINDS), strict=False):
        assert page["width"] == width
        assert page["scroll"] <= width, page
