"""Numbers as people write them: $12.50, 3 €, 1,137 and 2 %, as plain numbers and written back in the same form."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

MISSING = {
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
}
"""Texts that pandas reads as missing cells."""
SIGNS = {"-", "--", "?", ".", "*"}
"""Texts that are missing cells in a column of numbers, and may be names in any other."""
SPACE = "[ \u00a0\u202f]?"
CURRENCY = r"(?:[A-Z]{1,2}\$|[$€£¥¢₹₩₽₺₫₴₦₱₪฿]|USD|EUR|GBP|CHF|JPY|CNY|CAD|AUD|SEK|NOK|DKK|PLN|CZK|INR|BRL)"
SEPARATORS = {".": ",'’\u00a0\u202f", ",": ".'’\u00a0\u202f"}
"""What may separate thousands, by decimal sign."""


class NumberForm(NamedTuple):
    """What the numbers of a column have around and between their digits.

    thousands:   the separator of thousands, or nothing
    minus_first: whether a minus sign precedes the prefix: -$5 rather than $-5
    """

    prefix: str = ""
    suffix: str = ""
    thousands: str = ""
    minus_first: bool = True

    def written(self, number: str, decimal: str) -> str:
        """A number such as -1234.5 in this form, with this decimal sign."""
        minus, digits = ("-", number[1:]) if number.startswith("-") else ("", number)
        whole, point, fraction = digits.partition(".")
        if self.thousands and whole.isdigit():
            whole = f"{int(whole):,}".replace(",", self.thousands)
        front = f"{minus}{self.prefix}" if self.minus_first else f"{self.prefix}{minus}"
        return f"{front}{whole}{decimal if point else ''}{fraction}{self.suffix}"


class Notation(NamedTuple):
    """How the numbers of a column are written: decimal sign, form, and to how many decimals they are padded."""

    decimal: str = "."
    form: NumberForm | None = None
    decimals: int = 0

    def number(self, text: str) -> float:
        """The number that a text means, in this notation or without the signs and separators of it; NaN for none.

        >>> dollars = Notation(form=NumberForm("$", thousands=","))
        >>> [dollars.number(text) for text in ("$1,200.50", "1200.5", "€5")]
        [1200.5, 1200.5, nan]
        """
        found = None if self.form is None else _pattern(self.decimal).fullmatch(text.strip())
        if self.form is not None and found is not None:
            affixes = ((found["prefix"], self.form.prefix), (found["suffix"], self.form.suffix))
            if any((one or "").strip() not in ("", own.strip()) for one, own in affixes):
                return math.nan
            text = plain_number(text.strip(), self.decimal) or text
        else:
            text = text.replace(self.decimal, ".")
        with suppress(ValueError):
            return float(text)
        return math.nan

    def written(self, number: float) -> str:
        """A number in this notation."""
        text = padded(number, self.decimals)
        return text.replace(".", self.decimal) if self.form is None else self.form.written(text, self.decimal)


def padded(number: float, decimals: int) -> str:
    """A number with so many decimals, or more if it has them."""
    text = f"{number:.{decimals}f}"
    return text if float(text) == number else repr(float(number))


@lru_cache
def _pattern(decimal: str) -> re.Pattern[str]:
    grouped = rf"[1-9]\d{{0,2}}(?:(?P<thousands>[{SEPARATORS[decimal]}])\d{{3}})(?:(?P=thousands)\d{{3}})*"
    digits = rf"(?:{grouped}|\d+)(?:[{decimal}]\d*)?|[{decimal}]\d+"
    before, after = rf"(?P<prefix>{CURRENCY}{SPACE})?", rf"(?P<suffix>{SPACE}(?:{CURRENCY}|%|‰))?"
    return re.compile(rf"(?P<minus>[-+−]?){before}(?P<inner>[-+−]?)(?P<digits>{digits}){after}")


def plain_number(cell: str, decimal: str = ".") -> str | None:
    """The plain number that a cell means, such as -1234.5 for -$1,234.50; None where it means none."""
    found = _pattern(decimal).fullmatch(cell)
    if found is None or (found["minus"] and found["inner"]):
        return None
    digits = found["digits"].replace(found["thousands"] or "", "").replace(decimal, ".")
    return f"{'-' if (found['minus'] or found['inner']) in ('-', '−') and digits else ''}{digits}"


def form_of(cells: Sequence[str], decimal: str) -> NumberForm | None:
    """The form that all cells but the missing ones share, or None: plain numbers have none, and texts neither."""
    known, pattern, matches = MISSING | SIGNS, _pattern(decimal), []
    for cell in cells:
        if cell not in known:
            if (found := pattern.fullmatch(cell)) is None:
                return None
            matches.append(found)
    if not matches:
        return None
    affixes = [{(one[part] or "").strip() for one in matches} for part in ("prefix", "suffix")]
    separators = {one["thousands"] for one in matches} - {None}
    if max(map(len, affixes)) > 1 or len(separators) > 1 or not (separators or affixes != [{""}, {""}]):
        return None
    prefix, suffix = (Counter(one[part] or "" for one in matches).most_common(1)[0][0] for part in ("prefix", "suffix"))
    return NumberForm(prefix, suffix, next(iter(separators), ""), not any(one["inner"] for one in matches))
