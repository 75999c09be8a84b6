"""How a page shows items of a kind of data: galleries of new items beside stored ones, their style, and controls.

`Display` is a frozen object that a `Kind` names. Its defaults work for any codec whose `features` are numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from .._backend.arrays import Array
from .._backend.html import Html, fold, join, name, number, share, tag, wide
from .codec import Codec
from .controls import Control

C = TypeVar("C", bound=Codec)

MAX_OPEN = 6  # cards that are seen without a click where they take much room
MAX_FEATURES = 40


class GalleryItems(NamedTuple):
    """The m new items of a gallery."""

    items: Any
    numbers: Array  # (m,) the place of each among all, from 0
    nearest: Array  # (m,) index of the stored item beside it
    novelty: Array  # (m,)
    extra: dict[str, Array]  # further columns by name, (m,) each
    with_differences: bool = False  # whether what differs is shown where it cannot be marked in the item itself


def card_heading(shown: GalleryItems, i: int, stored: Html) -> Html:
    """Number of item i, its novelty and further figures, and the stored item beside it."""
    figures = [f"novelty {number(float(shown.novelty[i]), 2)}"]
    figures += [f"{k} {(share if k == 'identity' else number)(float(x[i]))}" for k, x in shown.extra.items()]
    return tag("h4", tag("b", f"New {shown.numbers[i] + 1:,}"), f" · {' · '.join(figures)} · nearest: ", stored)


def stored_name(ids: tuple[str, ...], labels: tuple[str, ...] | None, k: int) -> Html:
    """The name of a stored item, and its class if it has one."""
    of_item = name(ids[k])
    return of_item if labels is None else join([of_item, " (", name(labels[k], 30), ")"])


def laid_out(cards: list[Html], class_: str) -> Html:
    """The first cards, and the others folded: on a phone they stand one below the other."""
    first, rest = cards[:MAX_OPEN], cards[MAX_OPEN:]
    shown = tag("div", *first, class_=class_)
    return join([shown, fold(f"{len(rest)} more", tag("div", *rest, class_=class_))]) if rest else shown


def feature_gallery(new: Array, stored: Array, ids: tuple[str, ...], shown: GalleryItems) -> Html:
    """Two rows of numbers for each item: the new one, and the stored one nearest to it."""
    columns = range(min(new.shape[1], MAX_FEATURES))
    rows = []
    for i, k in enumerate(shown.nearest):
        first = join([tag("b", f"New {shown.numbers[i] + 1:,}"), f" · {number(float(shown.novelty[i]), 2)}"])
        for head, values, kind in ((first, new[i], "new"), (name(ids[k], 24), stored[k], "old")):
            rows.append(tag("tr", tag("td", head), *(tag("td", f"{values[j]:.4g}") for j in columns), class_=kind))
    head = tag("tr", tag("th", "novelty", scope="col"), *(tag("th", f"{j + 1}", scope="col") for j in columns))
    body = tag("table", tag("thead", head), tag("tbody", *rows), class_="cells")
    about = tag("p", "Each new item above the stored item nearest to it.", class_="note")
    return join([about, wide(body, "new items beside stored items")])


def _gallery(codec: Codec, shown: GalleryItems) -> Html:
    return feature_gallery(codec.features(shown.items), codec.features(codec.stored), codec.ids, shown)


def _controls(codec: Codec) -> tuple[Control, ...]:
    return ()


def _column_types(codec: Codec) -> tuple[tuple[str, str], ...]:
    return ()


@dataclass(frozen=True)
class Display(Generic[C]):
    """How items of a kind of data are shown.

    gallery:  (codec, shown): new items beside the stored ones nearest to them, as a part of a page. Each is an element
              of the class "item", or a row of the class "new" in a table, in the order of `shown`
    style:    CSS of the gallery, which a page includes
    controls: (codec): the controls with which a user of a page conditions new items
    column_types: (codec): names and types of the parts of an item, where they have types

    >>> import stochattn as sa
    >>> from stochattn.kinds import Display
    >>> Display().controls(sa.fit(["MKVL", "MRIL", "MKIL"]).codec)
    ()
    """

    gallery: Callable[[C, GalleryItems], Html] = _gallery
    style: str = ""
    controls: Callable[[C], tuple[Control, ...]] = _controls
    column_types: Callable[[C], tuple[tuple[str, str], ...]] = _column_types
