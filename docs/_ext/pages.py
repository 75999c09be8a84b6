"""Whole pages: alternative text of pictures, links to files at the root of the repository, and times of reading."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOGGER = logging.getLogger(__name__)
AT_ROOT = {
    "SECURITY.md": "contributing/security.md",
    "CHANGELOG.md": "contributing/changes.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "README.md": "index.md",
}
"""Pages of the site that hold what files at the root of the repository hold."""

OTHER_HOST = re.compile(r'<(?:script|link|img|iframe|video)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]+)"')
WORDS_PER_MINUTE = 200
NOT_READ = ("api/", "auto_tutorials/", "_", "contributing/pages")


def minutes(text: str) -> int:
    """Minutes to read a page or a program, at least one; drawings and marks do not count."""
    text = re.sub(r"```\{(raw|toctree|eval-rst)\}.*?```", "", text, flags=re.DOTALL)
    return max(round(len(re.findall(r"[^\W_]{2,}", text)) / WORDS_PER_MINUTE), 1)


def title_of(text: str) -> str:
    """The first heading of a page, or the title of a tutorial."""
    found = re.search(r"^# (.+)$", text, flags=re.MULTILINE) or re.search(r'"""\n(.+)\n==', text)
    return found[1] if found else ""


class ReadingTimes(SphinxDirective):
    """A table of the pages and tutorials of the site, with the minutes that each takes to read."""

    def run(self) -> list[nodes.Node]:
        """The rows, in the order of the files' names."""
        folder = Path(self.env.srcdir)
        lines = [".. list-table::", "   :header-rows: 1", "", "   * - page", "     - minutes"]
        for path in sorted((*folder.rglob("*.md"), *(folder / "tutorials").glob("*.py"))):
            name, text = path.relative_to(folder).with_suffix("").as_posix(), path.read_text("utf-8")
            title = title_of(text)
            if title and not name.startswith(NOT_READ):
                target = name.replace("tutorials/", "auto_tutorials/")
                lines += [f"   * - :doc:`{title.replace('`', '')} </{target}>`", f"     - {minutes(text)}"]
        node = nodes.container()
        self.state.nested_parse(StringList(lines, source="reading times"), self.content_offset, node)
        return list(node.children)


def link_to_root(app: Sphinx, name: str, source: list[str]) -> None:
    """Let links to files at the root lead to their pages; in the repository they are links to these files."""
    folder = posixpath.dirname(name)
    for file, page in AT_ROOT.items():
        outside, inside = posixpath.relpath(f"../{file}", folder or "."), posixpath.relpath(page, folder or ".")
        source[0] = source[0].replace(f"]({outside}", f"]({inside}")


def check_pictures(app: Sphinx, tree: nodes.document, name: str) -> None:
    """Warn of each picture without alternative text; `make docs` treats warnings as errors.

    The thumbnails of the gallery stand beside their titles, and have none.
    """
    for image in tree.findall(nodes.image):
        if not image.get("alt", "").strip() and "images/thumb/" not in image["uri"]:
            LOGGER.warning("picture %s has no alternative text", image["uri"], location=image)


def check_hosts(app: Sphinx, page: str, template: str, context: dict[str, object], tree: nodes.document | None) -> None:
    """Warn of scripts, styles and pictures that a browser would load from another host; links may lead anywhere."""
    for address in OTHER_HOST.findall(str(context.get("body", ""))):
        LOGGER.warning("page %s loads %s from another host: put it into the site", page, address)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the checks to the events of a build."""
    app.add_directive("reading-times", ReadingTimes)
    app.connect("source-read", link_to_root)
    app.connect("doctree-resolved", check_pictures)
    app.connect("html-page-context", check_hosts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
