"""HTML: text that is escaped unless it was made here, and a few elements."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Iterable, Sequence

LONGEST = 160
"""Characters of a name or a path that are shown; a file may hold longer ones."""
_FORBIDDEN = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160)), "�")


class Html(str):
    """Text that is HTML already. Any other text is escaped on its way into a page."""

    __slots__ = ()


def text(value: object, most: int = LONGEST) -> Html:
    """A value as text of a page: escaped, without control characters, cut at `most` characters."""
    plain = str(value).translate(_FORBIDDEN).encode("utf-8", "replace").decode("utf-8")
    if len(plain) > most:
        plain = plain[: most - 1] + "…"
    return Html(html.escape(plain, quote=True))


def name(value: object, most: int = 60) -> Html:
    """A name from a file, set apart so that its direction of writing does not spill over."""
    return Html(f"<bdi>{text(value, most)}</bdi>")


def joined(parts: Iterable[str], between: str = "") -> Html:
    """Parts one after the other; each is escaped unless it is HTML."""
    return Html(between.join(part if isinstance(part, Html) else text(part, 10_000) for part in parts))


def tag(element: str, *children: str, **attributes: str) -> Html:
    """An element; `class_` and `aria_label` become class and aria-label."""
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{text(value, 1000)}"' for key, value in attributes.items())
    return Html(f"<{element}{given}>{joined(children)}</{element}>")


def picture(uri: str, alt: str, **attributes: str) -> Html:
    """A picture that is part of the page; `uri` is a data: address made by `png` or `svg`."""
    given = "".join(f' {key.rstrip("_")}="{text(value)}"' for key, value in attributes.items())
    return Html(f'<img src="{uri}" alt="{text(alt, 400)}"{given}>')


def png(content: bytes) -> str:
    """The data: address of a PNG."""
    return f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}"


def svg(content: bytes) -> str:
    """The data: address of an SVG."""
    return f"data:image/svg+xml;base64,{base64.b64encode(content).decode('ascii')}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], class_: str = "") -> Html:
    """A table in a box of its own that scrolls sideways when it is too wide."""
    top = tag("tr", *(tag("th", cell, scope="col") for cell in head))
    body = joined(tag("tr", *(tag("td", cell) for cell in row)) for row in rows)
    return wide(tag("table", tag("thead", top), tag("tbody", body), class_=class_))


def wide(content: Html, label: str = "table") -> Html:
    """A box for something that may be wider than the page; it can be reached and scrolled by keyboard."""
    return tag("div", content, class_="wide", tabindex="0", role="group", aria_label=label)


def pairs(rows: Iterable[tuple[str, str]]) -> Html:
    """A list of names and values."""
    return tag("dl", *(tag("div", tag("dt", key), tag("dd", value)) for key, value in rows))


def section(anchor: str, title: str, *children: str) -> Html:
    """A part of the page with a heading that can be linked to."""
    return tag("section", tag("h2", title), *children, id=anchor)


def figure(uri: str, alt: str, caption: str, class_: str = "") -> Html:
    """A plot on a light card, with its caption."""
    return tag("figure", picture(uri, alt), tag("figcaption", caption), class_=class_)


def folded(summary: str, *children: str) -> Html:
    """Something that is shown on a click."""
    return tag("details", tag("summary", summary), *children)


def number(value: float | None, digits: int = 3) -> str:
    """A figure to so many significant digits; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if 0.001 <= abs(value) < 10:
        return f"{value:.{digits}f}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.{digits}g}"


def share(value: float) -> str:
    """A share as percent; never rounded to 0 or 100 when it is neither."""
    if not math.isfinite(value):
        return "–"
    percent = 100 * value
    if 0 < percent < 0.1:
        return "< 0.1\u00a0%"
    if 99.9 < percent < 100:
        return "> 99.9\u00a0%"
    fine = (0 < percent < 9.95 or 99 < percent < 100) and abs(percent - round(percent)) > 0.05
    return f"{percent:.1f}\u00a0%" if fine else f"{percent:.0f}\u00a0%"
