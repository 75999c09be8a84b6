"""Small changes of source code, made on its syntax tree."""

from __future__ import annotations

import ast
import copy
import hashlib
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

EQUIVALENT = Path("tests", "mutation", "equivalent.toml")
"""Lines whose change no test can notice, with the reason, by path: the file itself says how to edit it."""
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}

LOOKS = {
    "alpha", "cmap", "color", "colors", "dpi", "edgecolor", "edgecolors", "facecolors", "figsize", "fontsize",
    "fontweight", "gridspec_kw", "height_ratios", "labelsize", "layout", "linestyle", "linewidth", "linewidths", "ls",
    "lw", "marker", "markersize", "s", "zorder",
}  # fmt: skip
"""Arguments that change only how a drawing looks: people judge them, not tests."""


class Mutant(NamedTuple):
    """One change: the text between two places of a file replaced by another."""

    file: str  # relative to the project
    lines: range  # of the statement that is changed
    begin: int
    end: int
    text: str
    source: str
    place: int = -1  # of the replaced part among those of the program; where it does not matter, -1

    @property
    def mutated(self) -> str:
        """The whole file with the change."""
        return self.source[: self.begin] + self.text + self.source[self.end :]

    @property
    def key(self) -> str:
        """A name that is the same for the same change of the same program, whatever its comments and docstrings say."""
        if self.place < 0:
            return _digest(self.file, str(self.begin), self.text, self.source)
        return _digest(self.file, str(self.place), self.text, _program(self.source))

    def __str__(self) -> str:
        line = self.source.count("\n", 0, self.begin) + 1
        old, new = (" ".join(text.split()) for text in (self.source[self.begin : self.end], self.text))
        return f"{self.file}:{line}: {old[:70]} → {new[:70]}"


def mutants(root: Path, path: Path) -> list[Mutant]:
    """All mutants of a file; a few of them may not compile."""
    source = path.read_text(encoding="utf-8")
    lines, offsets = source.splitlines(keepends=True), [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))

    def place(line: int, column: int) -> int:  # columns of syntax trees count bytes
        return offsets[line - 1] + len(lines[line - 1].encode()[:column].decode())

    tree, found = _without_docstrings(source), []
    skipped, statements = _not_run(tree), _simple_statements(tree)
    marked = equivalent_lines(root).get(str(path.relative_to(root)), {})
    skipped_lines = {line for text in marked for line in lines_that_read(text, source)}
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in skipped or not isinstance(node, ast.expr | ast.stmt):
            continue
        old = node.test if isinstance(node, ast.If) else node  # of a branch, only the condition is replaced
        span = statements.get(id(node), range(old.lineno, old.end_lineno + 1))
        if not skipped_lines.isdisjoint(span):
            continue
        begin, end = place(old.lineno, old.col_offset), place(old.end_lineno, old.end_col_offset)
        for new in _changes(node):
            text = f"({ast.unparse(new)})" if isinstance(new, ast.expr) else ast.unparse(new)
            found.append(Mutant(str(path.relative_to(root)), span, begin, end, text, source, number))
    return found


def _without_docstrings(source: str) -> ast.Module:
    """The syntax tree of a program without docstrings, of fields too, and without the list of its public names."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for one in body if not _is_text(one) and not _names_what_is_public(one)]
    return tree


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _names_what_is_public(node: ast.AST) -> bool:
    target = (
        node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AugAssign) else None
    )
    return isinstance(target, ast.Name) and target.id == "__all__"


@cache
def _program(source: str) -> str:
    return _digest(ast.dump(_without_docstrings(source)))


def chosen_mutants(root: Path, path: Path, n: int, seed: int) -> list[Mutant]:
    """n mutants of a file: the same for the same text and seed, and nearly the same where the file was edited."""
    seen: Counter[tuple[str, str]] = Counter()
    ranked = []
    for mutant in mutants(root, path):
        change = (mutant.source[mutant.begin : mutant.end], mutant.text)
        ranked.append((_digest(str(seed), mutant.file, *change, str(seen[change])), mutant))
        seen[change] += 1
    possible = (mutant for _, mutant in sorted(ranked) if _is_code(mutant.mutated))
    return list(islice(possible, n))


def _changes(node: ast.expr | ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    """What a node can be replaced by."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        yield _with(node, ops=[COMPARISONS[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not _joins_text(node):
        yield _with(node, op=OPERATORS[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
        yield from (_with(node, values=_without(node.values, i)) for i in range(len(node.values)))
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):  # -1 becomes -2, and not 1 too
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1 if isinstance(node.value, int) else node.value * 1.5 + 0.01)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in NAMES:
        yield ast.Name(NAMES[node.id], ast.Load())
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in NAMES:
            yield _with(node, func=_with(node.func, attr=NAMES[node.func.attr]))
        same = LOOKS | {"strict"} if _is_zip(node) else LOOKS
        dropped = (i for i, one in enumerate(node.keywords) if one.arg not in same)
        yield from (_with(node, keywords=_without(node.keywords, i)) for i in dropped)
    elif isinstance(node, ast.If):
        yield ast.Constant(False)
        yield ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Return) and not isinstance(node.value, ast.Constant | None):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
        yield _with(node, op=OPERATORS[type(node.op)]())
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    vars(other).update(fields)
    return other


def _without(values: list, i: int) -> list:
    return values[:i] + values[i + 1 :]


def _joins_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(isinstance(one, ast.JoinedStr) or isinstance(getattr(one, "value", None), str) for one in sides)


def _is_zip(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "zip"


def _is_code(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


@cache
def equivalent_lines(root: Path) -> dict[str, dict[str, str]]:
    """The reasons why no test can notice a change of a line, by path and text of the line."""
    file = root / EQUIVALENT
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def lines_that_read(text: str, source: str) -> list[int]:
    """Numbers of the lines of a source that read like a text; of several lines, the number of the first."""
    wanted = text.split("\n")
    lines = [line.partition("  # ")[0].strip() for line in source.splitlines()]
    return [i + 1 for i in range(len(lines)) if lines[i : i + len(wanted)] == wanted]


def _simple_statements(tree: ast.Module) -> dict[int, range]:
    """The lines of the statement without a body that a node is in, by identity of the node."""
    simple = (node for node in ast.walk(tree) if isinstance(node, ast.stmt) and not hasattr(node, "body"))
    return {id(node): range(one.lineno, one.end_lineno + 1) for one in simple for node in ast.walk(one)}


def _not_run(tree: ast.Module) -> set[int]:
    """Identities of nodes that are no behaviour: annotations, decorators, type-checking imports, messages, looks.

    Nor are `strict` of zip, which guards against a fault elsewhere, the size of reshape that is worked out from the
    others (NumPy reads every negative number so), and the names that `from module import *` gives.
    """
    skipped: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            skipped += [node.returns, *node.decorator_list]
        elif isinstance(node, ast.ClassDef):
            skipped += node.decorator_list
        elif isinstance(node, ast.arg | ast.AnnAssign):
            skipped.append(node.annotation)
        elif isinstance(node, ast.JoinedStr | ast.Raise) or (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        ):
            skipped.append(node)
        elif isinstance(node, ast.keyword) and node.arg in LOOKS:
            skipped.append(node.value)
        elif isinstance(node, ast.Call) and _is_zip(node):
            skipped += [one.value for one in node.keywords if one.arg == "strict"]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            sizes = (one for given in node.args for one in getattr(given, "elts", [given]))
            skipped += [one for one in sizes if isinstance(one, ast.UnaryOp) and isinstance(one.operand, ast.Constant)]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            skipped.append(node)
    return {id(node) for one in skipped if one is not None for node in ast.walk(one)}


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
