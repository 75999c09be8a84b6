"""The Python blocks of the documentation run in order."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONSTANTS = ROOT / "docs" / "contributing" / "constants.md"
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


def test_links_have_targets():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
            made = page.parent / target  # pages of tutorials are made from programs when the site is built
            source = made.parent.parent / "tutorials" / made.with_suffix(".py").name
            found = source if made.parent.name == "auto_tutorials" and made.stem != "index" else made
            assert target.startswith("http") or found.exists() or made.stem == "index", f"{page.name}: {target}"


EXAMPLES = {"src/stochattn/samplers/exponential.py", "result.json"}
"""Files that the reader of a recipe, or a run, writes."""


def test_files_that_pages_for_developers_name_exist():
    folders = [ROOT / name for name in ("src", "tests", "paper", "benchmarks", "examples", "docs")]
    files = [path.as_posix() for folder in folders for path in folder.rglob("*.*")] + [f"{ROOT}/pyproject.toml"]
    docs = ROOT / "docs"
    for page in (ROOT / "CONTRIBUTING.md", docs / "architecture.md", *(docs / "contributing").rglob("*.md")):
        named = set(re.findall(r"(?<![\w/>.*])[\w/]+\.(?:py|toml|json)\b", page.read_text("utf-8"))) - EXAMPLES
        gone = [name for name in sorted(named) if not any(file.endswith(f"/{name}") for file in files)]
        assert not gone, f"{page.name} names files that do not exist: {gone}"


def test_constants_of_the_page_exist():
    rows = re.findall(r"^\| (`[^|]+) \| (`\S+`|the same) \|", CONSTANTS.read_text("utf-8"), flags=re.MULTILINE)
    assert len(rows) > 50
    for names, place in rows:
        if place != "the same":
            file = ROOT / "src" / "stochattn" / place.strip("`")
            assigned = {
                name.id
                for statement in ast.parse(file.read_text("utf-8")).body
                if isinstance(statement, ast.Assign | ast.AnnAssign)
                for name in ast.walk(statement)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
        missing = set(re.findall(r"`(\w+)`", names)) - assigned
        assert not missing, f"{CONSTANTS.name}: {file.name} has no {', '.join(sorted(missing))}"


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
