"""Dates in texts of one length, digits and separators, read and written without pandas in a fraction of the time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..._backend.arrays import Array

ISO = b"0000-00-00T00:00:00"
LENGTHS = {"D": 10, "m": 16, "s": 19}
"""How many letters of an ISO date say so much."""
PARTS = {"%Y": (0, 4), "%m": (5, 7), "%d": (8, 10), "%H": (11, 13), "%M": (14, 16), "%S": (17, 19)}
"""Where the digits of each part begin and end in an ISO date."""
UNITS = {3: "D", 5: "m", 6: "s"}
"""What a format with so many parts says."""
FIRST_YEAR = np.datetime64("1000-01-01")
"""Libraries differ on how to write an earlier year."""


class Layout(NamedTuple):
    """Where the digits of a format stand.

    template: a text of this format with zeros for digits, as bytes
    own, iso: (m,) places of the digits in this text, and in an ISO date
    """

    template: Array
    own: Array
    iso: Array
    unit: str


@lru_cache
def layout_of(format: str) -> Layout | None:
    """The layout of a format with a year of four digits, month and day, and maybe hours and minutes and seconds."""
    words = re.findall(r"%.|[^%]", format)
    parts = [word for word in words if word.startswith("%")]
    if sorted(parts) != sorted(list(PARTS)[: len(parts)]) or len(parts) not in UNITS or not format.isascii():
        return None
    text = ""
    own: list[int] = []
    iso: list[int] = []
    for word in words:
        places = range(*PARTS[word]) if word in PARTS else range(0)
        own += range(len(text), len(text) + len(places))
        iso += places
        text += "0" * len(places) or word
    return Layout(np.frombuffer(text.encode("ascii"), dtype=np.uint8), np.array(own), np.array(iso), UNITS[len(parts)])


def read_dates(texts: Sequence[str], format: str) -> Array | None:
    """Texts (n,) of this format as times, M8[us] (n,); None where one of them is not an exact date of a known layout.

    >>> read_dates(["24.12.2020", "01.01.2021"], "%d.%m.%Y")
    array(['2020-12-24T00:00:00.000000', '2021-01-01T00:00:00.000000'],
          dtype='datetime64[us]')
    """
    layout = layout_of(format)
    try:
        text = "".join(texts)
    except TypeError:  # they are not texts
        return None
    if layout is None or set(map(len, texts)) != {len(layout.template)} or not text.isascii():
        return None
    letters = np.frombuffer(text.encode("ascii"), dtype=np.uint8).reshape(len(texts), -1)
    found, zeros = letters.copy(), ord("0")
    digits = found[:, layout.own]
    found[:, layout.own] = zeros
    if (digits - zeros > 9).any() or (found != layout.template).any():  # bytes below zero wrap round to large ones
        return None
    iso = _filled(np.frombuffer(ISO, dtype=np.uint8)[: LENGTHS[layout.unit]], layout.iso, digits)
    try:
        times = iso.view(f"S{iso.shape[1]}").ravel().astype("M8[us]")
    except ValueError:  # the 31st of June
        return None
    return None if (times < FIRST_YEAR).any() else np.asarray(times)


def written_dates(times: Array, format: str) -> list[str] | None:
    """Times (n,), M8, as texts of this format; None where it has no known layout.

    >>> written_dates(np.array(["2020-12-24T18:30"], dtype="M8[us]"), "%m/%d/%Y %H:%M")
    ['12/24/2020 18:30']
    """
    layout = layout_of(format)
    if layout is None or (times < FIRST_YEAR).any() or np.isnat(times).any():
        return None
    n, length = len(times), len(layout.template)
    iso = times.astype(f"M8[{layout.unit}]").astype(f"S{LENGTHS[layout.unit]}")
    letters = _filled(layout.template, layout.own, iso.view(np.uint8).reshape(n, -1)[:, layout.iso])
    text = letters.tobytes().decode("ascii")
    return [text[start : start + length] for start in range(0, n * length, length)]


def _filled(template: Array, places: Array, letters: Array) -> Array:
    """The template (m,) once for each row of letters (n, k), which replace those at the places (k,): (n, m)."""
    filled = np.repeat(template[None], len(letters), axis=0)
    filled[:, places] = letters
    return filled
