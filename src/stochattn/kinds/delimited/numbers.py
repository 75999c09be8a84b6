"""Numbers as people write them: $12.50, 34 kg, 18 890, (49.44) and 2.38E+04, as plain numbers and back in that form.

Columns of plain numbers in delimited text, which most columns of wide tables are, read without pandas.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from ..._backend.arrays import Array

MISSING = {
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
}
"""Texts that pandas reads as missing cells."""
SIGNS = {"-", "--", "?", ".", "*"}  # missing cells in a column of numbers, which may be names in any other
EMPTY = MISSING | SIGNS
NUMBER = r"[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?"
SPACE = "[ \u00a0\u202f]?"
CURRENCY = r"(?:[A-Z]{1,2}\$|[$€£¥¢₹₩₽₺₫₴₦₱₪฿]|USD|EUR|GBP|CHF|JPY|CNY|CAD|AUD|SEK|NOK|DKK|PLN|CZK|INR|BRL)"
UNIT = r"[^\W\d_][\w./·*^°²³%µμ-]*|°[CFK]?"
"""kg, mg/dL, m², °C: the same in all cells of a column, but for days beside 1 day."""
SEPARATORS = {".": ",'’ \u00a0\u202f", ",": ".'’ \u00a0\u202f"}  # what may separate thousands, by decimal sign
MINUS = "−-"  # the sign of typesetting, U+2212, and that of keyboards
TELEPHONE = re.compile(r"\+\d{8,}")  # +491701234567, a name; one with spaces has a plus and separators


class NumberForm(NamedTuple):
    """What the numbers of a column have around and between their digits."""

    prefix: str = ""
    suffix: str = ""
    thousands: str = ""  # the separator of thousands
    minus_first: bool = True  # whether a minus sign precedes the prefix: -$5 rather than $-5
    minus: str = "-"  # the sign before negative numbers, or ( for parentheses around them
    plus: bool = False  # whether positive numbers have a sign
    zero: bool = True  # whether .5 is written with a zero before the point
    exponent: str = ""  # of numbers such as 2.38E+04, the least of its kind: E+00
    mantissa: int = 0  # decimals before the exponent
    decimal: str = ""  # the decimal sign, where it is not that of the file
    singular: str = ""  # the suffix of 1, as in 1 day beside 2 days

    def write(self, number: str, decimal: str) -> str:
        """A number such as -1234.5 in this form, with this decimal sign."""
        negative, digits = number.startswith("-"), number.removeprefix("-")
        if self.exponent:
            digits = self._scientific(float(digits))
        integer, point, fraction = digits.partition(".")
        if self.thousands and integer.isdigit():
            integer = f"{int(integer):,}".replace(",", self.thousands)
        if not self.zero and integer == "0" and point:
            integer = ""
        suffix = self.singular if self.singular and digits == "1" else self.suffix
        text = f"{integer}{decimal if point else ''}{fraction}{suffix}"
        if negative and self.minus == "(":
            return f"({self.prefix}{text})"
        sign = self.minus if negative else "+" if self.plus and float(number) else ""
        return f"{sign}{self.prefix}{text}" if self.minus_first else f"{self.prefix}{sign}{text}"

    def _scientific(self, number: float) -> str:
        digits, _, power = f"{number:.{self.mantissa}e}".partition("e")
        letter, width = self.exponent[0], len(self.exponent.rstrip("0"))
        sign = "-" if power.startswith("-") else self.exponent[1:width]
        return f"{digits}{letter}{sign}{abs(int(power)):0{len(self.exponent) - width}d}"


@dataclass(frozen=True)
class Notation:
    """How the numbers of a column are written: decimal sign, form, and to how many decimals they are padded."""

    decimal: str = "."
    form: NumberForm | None = None
    decimals: int = 0
    ends: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    labels: ClassVar[Mapping[float, str]] = {}
    unit: ClassVar[str] = ""

    def number(self, text: str) -> float:
        """The number that a string means, in this notation or without the signs and separators of it; NaN for none.

        >>> dollars = Notation(form=NumberForm("$", thousands=","))
        >>> [dollars.number(text) for text in ("$1,200.50", "1200.5", "€5")]
        [1200.5, 1200.5, nan]
        """
        match = None if self.form is None else _pattern(self.decimal).fullmatch(text.strip())
        if self.form is not None and match is not None:
            suffixes = "", self.form.suffix.strip(), self.form.singular.strip()
            if _part(match, "prefix") not in ("", self.form.prefix.strip()) or _part(match, "suffix") not in suffixes:
                return math.nan
            text = _plain(match, self.decimal) or text
        else:
            text = text.replace(self.decimal, ".")
        with suppress(ValueError):
            return float(text)
        return math.nan

    def write(self, number: float) -> str:
        """A number in this notation."""
        text = pad(number, self.decimals)
        return text.replace(".", self.decimal) if self.form is None else self.form.write(text, self.decimal)


def pad(number: float, decimals: int) -> str:
    """A number with so many decimals, or more if it has them."""
    text = f"{number:.{decimals}f}"
    return text if float(text) == number else repr(float(number))


@lru_cache
def _pattern(decimal: str) -> re.Pattern[str]:
    grouped = rf"[1-9]\d{{0,2}}(?:(?P<thousands>[{SEPARATORS[decimal]}])\d{{3}})(?:(?P=thousands)\d{{3}})*"
    digits = rf"(?:{grouped}|\d+)(?:[{decimal}]\d*)?|[{decimal}]\d+"
    before = rf"(?P<prefix>{CURRENCY}{SPACE})?"
    after = rf"(?P<suffix>{SPACE}(?:{CURRENCY}|%|‰|(?P<unit>{UNIT})))?"
    number = rf"(?P<digits>{digits})(?P<exponent>[eE][-+]?\d{{1,3}})?"
    return re.compile(rf"(?P<open>\()?(?P<minus>[+{MINUS}]?){before}(?P<inner>[+{MINUS}]?){number}{after}(?(open)\))")


def _signs(match: re.Match[str]) -> str:
    return "".join(match[part] or "" for part in ("open", "minus", "inner"))


def _plain(match: re.Match[str], decimal: str) -> str | None:
    """The plain number of a match; None where it has two signs."""
    signs = _signs(match)
    if len(signs) > 1:
        return None
    digits = match["digits"].replace(match["thousands"] or "", "").replace(decimal, ".")
    return f"{'-' if signs and signs in f'({MINUS}' else ''}{digits}{match['exponent'] or ''}"


def plain_number(cell: str, decimal: str = ".", units: bool = False) -> str | None:
    """The plain number that a cell means, such as -1234.5 for -$1,234.50; None where it means none.

    units: whether it may have one, such as kg
    """
    match = _pattern(decimal).fullmatch(cell)
    return None if match is None or (match["unit"] and not units) else _plain(match, decimal)


def form_of(cells: Sequence[str], decimal: str) -> NumberForm | None:
    """The form that all cells but the missing ones share, or None: plain numbers and other strings have none."""
    pattern, matches = _pattern(decimal), []
    for cell in cells:
        if cell not in EMPTY:
            # Zeros in front are those of names, such as 007.
            if (match := pattern.fullmatch(cell)) is None or re.match(r"0\d", match["digits"]):
                return None
            matches.append(match)
    if not matches:
        return None
    suffixes, digits = _suffixes(matches), [match["digits"] for match in matches]
    prefixes, separators = {_part(match, "prefix") for match in matches}, {match["thousands"] for match in matches}
    if suffixes is None or len(prefixes) > 1 or len(separators - {None}) > 1:
        return None
    signs = [_signs(match) for match in matches]
    pairs = zip(matches, signs, strict=True)
    positive = [sign for match, sign in pairs if match["digits"].strip("0.,") and not sign.strip("+")]
    exponent, mantissa = _exponent(matches, decimal)
    form = NumberForm(
        prefix=_frequent(match["prefix"] for match in matches),
        suffix=suffixes[0],
        thousands=next(iter(separators - {None}), ""),
        minus_first=not any(match["inner"] for match in matches),
        minus=next((sign for sign in "-(−" if sign in "".join(signs)), "-"),
        plus=bool(positive) and all(positive),
        zero=not any(text[0] == decimal for text in digits) or any(text.startswith(f"0{decimal}") for text in digits),
        exponent=exponent,
        mantissa=mantissa,
        singular=suffixes[1],
    )
    if form.plus and not form.prefix and (form.thousands or any(map(TELEPHONE.fullmatch, cells))):
        return None
    return None if form == NumberForm(minus_first=form.minus_first) else form


def _part(match: re.Match[str], part: str) -> str:
    return (match[part] or "").strip()


def _frequent(texts: Iterable[str | None]) -> str:
    return Counter(text or "" for text in texts).most_common(1)[0][0]


def _suffixes(matches: Sequence[re.Match[str]]) -> tuple[str, str] | None:
    """The suffix of all numbers, and that of 1 where it is another one (2 days, 1 day); None where they differ."""
    plural, *others = sorted({_part(match, "suffix") for match in matches}, key=len, reverse=True)
    singular = others[0] if others else ""
    ones = [match for match in matches if others and _part(match, "suffix") == singular]
    if len(others) > 1 or (others and f"{singular}s" != plural) or any(match["digits"] != "1" for match in ones):
        return None
    suffix = _frequent(match["suffix"] for match in matches if _part(match, "suffix") == plural)
    return (suffix, suffix.removesuffix("s")) if others else (suffix, "")


def _exponent(matches: Sequence[re.Match[str]], decimal: str) -> tuple[str, int]:
    """The exponent 0 as it is written beside these, and the decimals before it; nothing where some have none."""
    powers = [match["exponent"] or "" for match in matches]
    if not all(powers):
        return "", 0
    plus = "+" if any("+" in power for power in powers) else ""
    width = min(len(power.lstrip("eE+-")) for power in powers)
    return f"{powers[0][0]}{plus}{'0' * width}", max(len(match["digits"].partition(decimal)[2]) for match in matches)


def find_column_form(cells: Sequence[str], decimal: str) -> NumberForm | None:
    """The form of cells with the decimal sign of their file, or of those that have a decimal comma beside points."""
    form = form_of(cells, decimal)
    if form is not None or decimal == "," or not any("," in cell for cell in cells):
        return form
    if any(plain_number(cell, ",", units=True) is None for cell in cells if cell not in EMPTY):
        return None
    return (form_of(cells, ",") or NumberForm())._replace(decimal=",")


def example_of(cells: Iterable[str]) -> str:
    """The first cell with more than the digits of a number, such as (9.50) or 4 kg, for a note; or else the first."""
    first, *others = cells
    return next((cell for cell in (first, *others) if re.fullmatch(r"-?\d+(\.\d+)?", cell) is None), first)


PLAIN = re.compile(r"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+\n)++")  # numbers, one per line
MAX_LENGTH = 15  # characters of a number, up to which a float distinguishes all of them
MIN_PADDED = 0.95  # share of a column's numbers that must have as many decimals for new ones to be padded to them


def plain_numbers(cells: Sequence[str], decimal: str) -> tuple[Array, int] | None:
    """The numbers of cells (n,) with this decimal sign, all of which are digits, a minus and a point; None for others.

    Integers if all of them are; and to how many decimals they are padded with zeros.

    >>> plain_numbers(["1.50", "-2.25"], ".")
    (array([ 1.5 , -2.25]), 2)
    >>> [plain_numbers(cells, ".") for cells in (["1", ""], ["007", "8"], ["1e3", "5"])]
    [None, None, None]
    """
    text = "\n".join([*cells, ""])
    if text.count("\n") != len(cells) or PLAIN.fullmatch(text) is None or max(map(len, cells)) > MAX_LENGTH:
        return None
    if "." not in text:
        return _parse_integers(text), 0
    if decimal != ".":
        return None
    letters = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    ends, points = (np.flatnonzero(letters == ord(mark)) for mark in "\n.")
    decimals = ends - points - 1 if len(points) == len(ends) else np.zeros(1, dtype=np.intp)
    if decimals[0] == 0 or (decimals != decimals[0]).any():
        padded = count_common_decimals(decimals, letters[ends - 1] == ord("0")) if len(decimals) == len(ends) else 0
        return np.array(list(map(float, cells))), padded
    # Both numbers are exact, so that this is the float nearest to the decimal number, in a fifth of the time.
    values = _parse_integers(text.replace(".", "")) / 10.0 ** int(decimals[0])
    for zero in np.flatnonzero(values == 0).tolist():
        values[zero] = float(cells[zero])  # may have a sign
    return values, int(decimals[0])


def _parse_integers(text: str) -> Array:
    return np.fromstring(text, dtype=np.int64, sep="\n")


def count_common_decimals(decimals: Array, ends_in_zero: Array) -> int:
    """The decimals that numbers are padded to, of which each has so many (n,); 0 where too many have more of them.

    1.0 beside 0.59 is padded to one decimal, and 1.10 beside 0.591 to two: the zero at the end shows it.
    """
    if not len(decimals):
        return 0
    least = int(decimals.min())
    is_least = decimals == least
    return least if np.count_nonzero(is_least) >= MIN_PADDED * len(decimals) or (is_least & ends_in_zero).any() else 0


def count_padding(cells: Sequence[str], decimal: str, by_zeros: bool = True) -> int:
    """How many decimals numbers are padded to; 0 where a number with fewer of them shows that they are not.

    by_zeros: whether a zero at the end of one number shows it
    """
    decimals = [
        len(cell) - 1 - cell.rfind(decimal) if decimal in cell and cell[-1].isdigit() and "e" not in cell.lower() else 0
        for cell in cells
    ]
    ends_in_zero = np.array([by_zeros and cell.endswith("0") for cell in cells], dtype=bool)
    return count_common_decimals(np.array(decimals), ends_in_zero)
