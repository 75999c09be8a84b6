"""Only the folder of a kind and the registry name the kind; no other part of the package does."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import stochattn
from stochattn.kinds.registry import _MODULES

SOURCE = Path(stochattn.__file__).parent
FOLDERS = {SOURCE / "kinds" / folder for folder in _MODULES.values()}
OTHERS = [
    path
    for path in sorted(SOURCE.rglob("*.py"))
    if not FOLDERS & set(path.parents)
    and path != SOURCE / "kinds" / "registry.py"
    and path != SOURCE / "_backend" / "html.py"  # "table" is an HTML element there
]
APPLICATIONS = [
    path
    for path in OTHERS
    if (
        path.parent == SOURCE / "kinds"
        or path.parent == SOURCE / "synthesizer"
        or path.relative_to(SOURCE).parts[0] in ("cli", "report", "evaluation", "explorer")
    )
    and path.name != "style.py"  # classes of CSS that galleries use
]
WORDS = re.compile(r"\b(protein|residue|alignment|picture|pixel|ticker|portfolio)s?\b", re.IGNORECASE)
"""Words that belong to one kind of data and that applications must not use."""


def texts(tree):
    """String constants of a module, without docstrings and names of HTML elements."""
    ignored = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            ignored.add(id(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "tag" and node.args:
            ignored.add(id(node.args[0]))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in ignored:
            yield node.lineno, node.value


def identifiers(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)


@cache
def classes_of_kinds():
    """Classes that the folders of the kinds define."""
    trees = [ast.parse(path.read_text("utf-8")) for folder in FOLDERS for path in folder.rglob("*.py")]
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


def named(path):
    """Places of a file that name a kind: its name as a text, an import of its folder, or one of its classes."""
    tree = ast.parse(path.read_text("utf-8"))
    classes, imported = classes_of_kinds(), {f"kinds.{folder}" for folder in _MODULES.values()}
    for line, text in texts(tree):
        if text in _MODULES or any(name in text for name in imported):
            yield f"{path.relative_to(SOURCE)}:{line}: {text!r}"
    for line, name in identifiers(tree):
        if name in classes:
            yield f"{path.relative_to(SOURCE)}:{line}: {name}"
    for node in ast.walk(tree):
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        if re.search(rf"(^|\.)({'|'.join(_MODULES.values())})(\.|$)", module):
            yield f"{path.relative_to(SOURCE)}:{node.lineno}: imports {module}"


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_kind_is_named(path):
    assert list(named(path)) == []


@pytest.mark.parametrize("path", APPLICATIONS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_applications_do_not_use_the_words_of_single_kinds(path):
    found = [(line, text) for line, text in texts(ast.parse(path.read_text("utf-8"))) if WORDS.search(text)]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        'if kind.name == "protein": pass',
        'LIMITS = {"table": 0.1, "returns": 0.3}',
        "from .data.tables import KIND",
        "from .tables.codec import TableCodec",
        "x = isinstance(codec, TableCodec)",
        'module = import_module("stochattn.kinds.images")',
    ],
)
def test_the_search_finds_names_of_kinds(line, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    (tmp_path / "a.py").write_text(f'"""A table returns rows, and "image" is a word here."""\n{line}\n')
    assert list(named(tmp_path / "a.py"))


def test_the_search_ignores_ordinary_words(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    (tmp_path / "a.py").write_text(
        '"""It returns a table."""\ntable = tag("table", "a table of images")\nreturns = 3\n'
    )
    assert list(named(tmp_path / "a.py")) == []
