"""The Python blocks of the documentation run in order."""

import re
from pathlib import Path

import pytest

import stochattn as sa

ROOT = Path(__file__).parent.parent
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "```python" in page.read_text("utf-8")
]


SLOW = {"five_minutes.md", "pitfalls.md", "privacy.md"}  # these fit several kinds of data, or evaluate a fit


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page.name in SLOW else ()) for page in PAGES],
    ids=lambda page: page.name,
)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL):
        exec(compile(block, page.name, "exec"), names)
    if page.name == "README.md":
        assert len(names["new"]) == 500
        assert names["again"].equals(names["new"])  # a saved synthesizer makes the same draws


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


def test_users_learn_where_notes_on_reading_are():
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL)[1]
    assert "synth.notes" in example
    assert "`notes`" in sa.fit.__doc__
    assert "`notes`" in sa.Synthesizer.describe.__doc__


def test_links_have_targets():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
            made = page.parent / target  # pages of tutorials are made from programs when the site is built
            source = made.parent.parent / "tutorials" / made.with_suffix(".py").name
            found = source if made.parent.name == "auto_tutorials" and made.stem != "index" else made
            assert target.startswith("http") or found.exists() or made.stem == "index", f"{page.name}: {target}"


def test_the_demo_prints_a_table_and_draws_a_picture(tmp_path):
    import subprocess
    import sys

    picture = tmp_path / "new" / "digits.png"
    command = [sys.executable, str(ROOT / "examples" / "digits.py"), "--out", str(picture)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert picture.stat().st_size > 10_000
    assert "novelty" in result.stdout
    assert "natural" in result.stdout
    assert [path.name for path in picture.parent.iterdir()] == ["digits.png"]
