"""Mathematics as MathML, which browsers display without a script: docutils translates LaTeX when the page is built."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)


def converted(writer: HTML5Translator, node: nodes.math | nodes.math_block, block: bool) -> str:
    """The formula of a node as MathML; a formula that cannot be translated is a warning, and is shown as LaTeX."""
    source = node.astext().strip()
    try:
        return str(latex2mathml.tex2mathml(source, as_block=block))
    except Exception as error:
        LOGGER.warning("formula cannot be translated to MathML: %s: %s", source, error, location=node)
        return f"<code>{writer.encode(source)}</code>"


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    writer.body.append(converted(writer, node, block=False))
    raise nodes.SkipNode


def display(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, with its number if it has one."""
    writer.body.append(writer.starttag(node, "div", CLASS="math notranslate nohighlight"))
    if node.get("number"):
        writer.body.append(f'<span class="eqno">({node["number"]})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append(converted(writer, node, block=True))
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
