"""Docstrings in the short form that the library uses, as the sections that numpydoc reads.

Lines such as `beta:  the inverse temperature` at the margin, with continuation lines indented, become "Parameters";
the first `>>>` begins "Examples". Characters that reStructuredText would interpret are escaped outside of code.
"""

from __future__ import annotations

import re
from itertools import takewhile

from sphinx.application import Sphinx

ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*):\s+(\S.*)$")
UNDERLINE = re.compile(r"^-{3,}$")


def sections(lines: list[str]) -> list[str]:
    """A docstring with its entries as a section "Parameters" and its examples as a section "Examples"."""
    if any(map(UNDERLINE.match, lines)):  # written for numpydoc
        head, examples = _split(lines)
        return [*map(_escaped, head), *_examples(examples, "Examples" in head)]
    head, examples = _split(lines)
    text, entries, index = [], [], 1 if head else 0
    text += head[:1]
    while index < len(head):
        found = ENTRY.match(head[index])
        if found:
            more = list(takewhile(lambda line: line.startswith("  "), head[index + 1 :]))
            entries += [found[1], *("    " + _escaped(line.strip()) for line in (found[2], *more))]
            index += 1 + len(more)
        elif _opens_block(head, index):
            block = list(takewhile(lambda line: not line or line.startswith("  "), head[index:]))
            text += ["::", "", *block]
            index += len(block)
        else:
            text.append(head[index])
            index += 1
    text = [line if line.startswith("  ") else _escaped(line) for line in text]
    return [*text, *(["", "Parameters", "----------", *entries] if entries else []), *_examples(examples, False)]


def _split(lines: list[str]) -> tuple[list[str], list[str]]:
    """Lines before the first example, and the examples."""
    first = next((i for i, line in enumerate(lines) if line.lstrip().startswith(">>>")), len(lines))
    return lines[:first], lines[first:]


def _examples(lines: list[str], titled: bool) -> list[str]:
    return lines if titled or not lines else ["", "Examples", "--------", *lines]


def _opens_block(lines: list[str], index: int) -> bool:
    """Whether an indented block, an equation or a program, begins here."""
    return lines[index].startswith("  ") and not lines[index - 1].strip()


def _escaped(line: str) -> str:
    """A line in which *, | and a final _ are characters, except between backquotes."""
    parts = re.split(r"(`[^`]*`)", line)
    parts[::2] = [re.sub(r"([*|])", r"\\\1", re.sub(r"(\w)_(?!\w)", r"\1\\_", part)) for part in parts[::2]]
    return "".join(parts)


def process(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Rewrite a docstring before numpydoc reads it."""
    lines[:] = sections(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Run before numpydoc, which has priority 500."""
    app.connect("autodoc-process-docstring", process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
