"""HTML elements. Every text is escaped, except text of the type `Html`, which the functions here return."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Iterable, Sequence

_CONTROL = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160)), "�")


class Html(str):
    """Text that is HTML. Any other text is escaped when it becomes part of a page."""


def text(value: object, max_characters: int = 160) -> Html:
    """A value as text: escaped, without control characters, cut at `max_characters`."""
    plain = str(value).translate(_CONTROL).encode("utf-8", "replace").decode("utf-8")
    if len(plain) > max_characters:
        plain = plain[: max_characters - 1] + "…"
    return Html(html.escape(plain, quote=True))


def name(value: object, max_characters: int = 60) -> Html:
    """A name from a file, isolated so that its writing direction does not affect the text around it."""
    return Html(f"<bdi>{text(value, max_characters)}</bdi>")


def join(parts: Iterable[str], between: str = "") -> Html:
    """The parts in order, with `between` between them; each is escaped unless it is `Html`."""
    escaped = [part if isinstance(part, Html) else text(part, 10_000) for part in (between, *parts)]
    return Html(escaped[0].join(escaped[1:]))


def tag(element: str, *children: str, **attributes: str) -> Html:
    """An element with these children; `class_` and `aria_label` become class and aria-label."""
    return Html(f"<{element}{_attributes(attributes)}>{join(children)}</{element}>")


def img(uri: str, alt: str, **attributes: str) -> Html:
    """An image embedded in the page; `uri` is a data: address made by `png` or `svg`."""
    source = html.escape(uri, quote=True)
    return Html(f'<img src="{source}" alt="{text(alt, 400)}"{_attributes(attributes)}>')


def png(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}"


def svg(content: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(content).decode('ascii')}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], class_: str = "") -> Html:
    """A table in a box that scrolls sideways when it is too wide."""
    top = tag("tr", *(tag("th", cell, scope="col") for cell in head))
    body = join(tag("tr", *(tag("td", cell) for cell in row)) for row in rows)
    return wide(tag("table", tag("thead", top), tag("tbody", body), class_=class_))


def wide(content: Html, label: str = "table") -> Html:
    """A box for content that may be wider than the page; the keyboard can focus and scroll it."""
    return tag("div", content, class_="wide", tabindex="0", role="group", aria_label=label)


def pairs(rows: Iterable[tuple[str, str]]) -> Html:
    return tag("dl", *(tag("div", tag("dt", key), tag("dd", value)) for key, value in rows))


def figure(uri: str, alt: str, caption: str, class_: str = "") -> Html:
    return tag("figure", img(uri, alt), tag("figcaption", caption), class_=class_)


def fold(summary: str, *children: str) -> Html:
    return tag("details", tag("summary", summary), *children)


def number(value: float | None, digits: int = 3) -> str:
    """A number as text with this many digits; a dash for None, NaN and infinity."""
    if value is None or not math.isfinite(value):
        return "–"
    if 0.001 <= abs(value) < 10:
        return f"{value:.{digits}f}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value + 0.0:.{digits}g}"  # never -0


def share(value: float) -> str:
    """A share as a percentage, which is rounded to 0 or 100 only if it is exactly that."""
    if not math.isfinite(value):
        return "–"
    percent = 100 * value
    if 0 < percent < 0.1 or 99.9 < percent < 100:
        return "< 0.1\u00a0%" if percent < 1 else "> 99.9\u00a0%"
    fine = (0 < percent < 9.95 or 99 < percent < 100) and abs(percent - round(percent)) > 0.05
    return f"{percent:.1f}\u00a0%" if fine else f"{percent:.0f}\u00a0%"


def _attributes(attributes: dict[str, str]) -> str:
    return "".join(f' {key.rstrip("_").replace("_", "-")}="{text(value, 1000)}"' for key, value in attributes.items())
