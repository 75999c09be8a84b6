"""Every tutorial has a title, an introduction, sections and figures, and a place in the gallery; the site runs them."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "docs"
TUTORIALS = sorted((ROOT / "tutorials").glob("*.py"))


def listed() -> tuple[str, ...]:
    """The names in ORDER of docs/_ext/gallery.py."""
    tree = ast.parse((ROOT / "_ext" / "gallery.py").read_text("utf-8"))
    return next(
        tuple(name.value for name in ast.walk(node.value) if isinstance(name, ast.Constant))
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "ORDER"
    )


def test_the_gallery_lists_every_tutorial_once():
    assert len(TUTORIALS) == 12
    assert sorted(listed()) == [path.stem for path in TUTORIALS]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_form(path):
    text = path.read_text("utf-8")
    title, line, blank, *introduction = ast.get_docstring(ast.parse(text)).splitlines()
    assert line == "=" * len(title)
    assert not blank
    assert 2 <= len(re.findall(r"[.?](?:\s|$)", " ".join(introduction))) <= 4  # sentences
    sections = re.findall(r"^# (.+)\n# (-+)$", text, flags=re.MULTILINE)
    assert len(sections) >= 2
    assert all(len(underline) == len(name) for name, underline in sections)
    assert 1 <= text.count("plt.show()") <= 4
    assert len(text.splitlines()) <= 125


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_data_needs_no_network(path):
    fetched = re.findall(r"fetch_\w+|urlopen|requests|from_pretrained|https?://", path.read_text("utf-8"))
    assert not fetched
