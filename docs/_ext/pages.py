"""Checks and repairs of whole pages: alternative text of pictures, and links to files at the root of the repository."""

from __future__ import annotations

import posixpath

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
AT_ROOT = {
    "SECURITY.md": "contributing/security.md",
    "CHANGELOG.md": "contributing/changes.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "README.md": "index.md",
}
"""Pages of the site that hold what files at the root of the repository hold."""


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


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect both to the events of a build."""
    app.connect("source-read", link_to_root)
    app.connect("doctree-resolved", check_pictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
