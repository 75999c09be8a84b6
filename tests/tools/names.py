"""Count names in src that docs/contributing asks to avoid, files by size, and classes that share a name.

    python tests/tools/names.py [FOLDER]

A name counts once for each place that binds it: an assignment, an argument, a loop, an import, a definition.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "stochattn"
PRONOUNS = ("found", "one", "own", "gone", "made", "known", "given", "some", "both", "whole", "other")
"""Names of values that do not say what the value is."""
PARTICIPLE = re.compile(
    r"_*(?!\w*(embed|speed|seed|need|feed))\w*?([a-z]{3,}ed|found|made|drawn|chosen|told|said|known|held|kept)"
)
SMALL = 60


def list_bindings(tree: ast.AST) -> Iterator[str]:
    """Names that a module binds, once for each place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.alias):
            yield node.asname or node.name


def list_functions(tree: ast.AST) -> Iterator[str]:
    """Names of functions that are called for what they do: neither properties nor overloads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
            if not decorators & {"property", "cached_property"}:
                yield node.name


def count_importers(trees: dict[Path, ast.Module]) -> Counter[Path]:
    """How many other files of the package import from each file."""
    importers: defaultdict[Path, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            folder = path.parents[node.level - 1]
            base = folder.joinpath(*(node.module or "").split(".")) if node.module else folder
            for target in (base, *(base / alias.name for alias in node.names)):
                for file in (target.with_suffix(".py"), target / "__init__.py"):
                    if file in trees and file != path:
                        importers[file].add(path)
    return Counter({path: len(importers[path]) for path in trees})


def main() -> None:
    """Print the table."""
    source = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else SOURCE
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    bindings = Counter(name for tree in trees.values() for name in list_bindings(tree))
    functions = [name for tree in trees.values() for name in list_functions(tree)]
    classes = Counter(node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    importers = count_importers(trees)
    small = [
        str(path.relative_to(source))
        for path, text in texts.items()
        if path.name != "__init__.py" and importers[path] == 1 and text.count("\n") < SMALL
    ]
    rows = [
        ("files", len(texts)),
        ("lines", sum(text.count("\n") for text in texts.values())),
        *((f"bindings of `{name}`", bindings[name]) for name in PRONOUNS),
        ("functions named by a participle", sum(PARTICIPLE.fullmatch(name) is not None for name in functions)),
        ("class names that are used twice", sum(count > 1 for count in classes.values())),
        (f"files of fewer than {SMALL} lines with one importer", len(small)),
    ]
    for label, count in rows:
        print(f"{label:<52}{count:>8,}")
    for label, names in (
        ("classes", [name for name, count in classes.items() if count > 1]),
        ("small files", small),
    ):
        if names:
            print(f"{label}: {', '.join(sorted(names))}")


if __name__ == "__main__":
    main()
