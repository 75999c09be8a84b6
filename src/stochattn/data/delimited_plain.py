"""Columns of plain numbers in delimited text, which most columns of wide tables are, read without pandas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array

PLAIN = re.compile(r"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+\n)++")
"""Numbers, one per line."""
MAX_LENGTH = 15
"""Characters of a number, up to which a float distinguishes all of them."""
MIN_PADDED = 0.95  # share of a column's numbers that must have as many decimals for new ones to be padded to them


class PlainNumbers(NamedTuple):
    """Numbers (n,), whole ones if all of them are written so, and to how many decimals they are padded with zeros."""

    values: Array
    decimals: int


def plain_numbers(cells: Sequence[str], decimal: str) -> PlainNumbers | None:
    """The numbers of cells (n,) with this decimal sign, all of which are digits, a minus and a point; None for others.

    >>> plain_numbers(["1.50", "-2.25"], ".")
    PlainNumbers(values=array([ 1.5 , -2.25]), decimals=2)
    >>> [plain_numbers(cells, ".") for cells in (["1", ""], ["007", "8"], ["1e3", "5"])]
    [None, None, None]
    """
    text = "\n".join([*cells, ""])
    if text.count("\n") != len(cells) or PLAIN.fullmatch(text) is None or max(map(len, cells)) > MAX_LENGTH:
        return None
    if "." not in text:
        return PlainNumbers(_whole_numbers(text), 0)
    if decimal != ".":
        return None
    letters = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    ends, points = (np.flatnonzero(letters == ord(one)) for one in "\n.")
    decimals = ends - points - 1 if len(points) == len(ends) else np.zeros(1, dtype=np.intp)
    if decimals[0] == 0 or (decimals != decimals[0]).any():
        return PlainNumbers(np.array(list(map(float, cells))), common_decimals(decimals))
    # Both numbers are exact, so that this is the float nearest to the decimal number, in a fifth of the time.
    values = _whole_numbers(text.replace(".", "")) / 10.0 ** int(decimals[0])
    for zero in np.flatnonzero(values == 0).tolist():
        values[zero] = float(cells[zero])  # may have a sign
    return PlainNumbers(values, int(decimals[0]))


def _whole_numbers(text: str) -> Array:
    return np.fromstring(text, dtype=np.int64, sep="\n")


def common_decimals(decimals: Array) -> int:
    """The decimals that numbers are padded to, of which each has so many (n,); 0 where too many have more of them."""
    if not len(decimals):
        return 0
    least = int(decimals.min())
    return least if np.count_nonzero(decimals == least) >= MIN_PADDED * len(decimals) else 0
