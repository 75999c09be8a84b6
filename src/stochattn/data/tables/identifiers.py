"""Which columns name rows instead of describing them: identifiers and free text, whose cells are never repeated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np

from ..._backend.arrays import Array

IDS = ("", "id", "index", "unnamed: 0", "uuid", "key")
PERSONAL = frozenset(
    {"patient", "subject", "participant", "person", "customer", "client", "user", "email", "mail", "phone", "mobile"}
    | {"ssn", "mrn", "iban", "passport", "surname", "lastname", "firstname", "fullname", "address", "username"}
)
NAMING = frozenset({"id", "ids", "identifier", "uuid", "guid", "pid", "uid"})
"""Last words of the names of columns that name persons, or rows."""
NUMBERING = frozenset({"nr", "no", "num", "number", "nummer", "key", "index", "name", "names", "row", "record", "case"})
"""Last words of the names of columns that may do so."""
TIMES = frozenset(
    {"year", "month", "week", "day", "hour", "minute", "second", "time", "date", "quarter", "period", "epoch", "step"}
    | {"age", "wave", "visit", "round", "jahr", "monat", "woche", "tag"}
)
MIN_SEQUENCE = 10  # rows from which on whole numbers that rise by one are numbers of rows
MIN_WORDS = 4  # of a sentence
MAX_FEW = 3  # distinct texts, up to which they are classes if one of them occurs twice
SENTENCES = "holds free text, which is not modelled and never repeated: new rows are numbered anew"
YEARS = (1500, 2100)


def _last_word(name: str) -> str:
    """The last word of a name such as patient_id, PatientID or Patient Nr., in small letters."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return words[-1].lower() if words else ""


def numbers_name_rows(name: str, numbers: Array, distinct: int) -> bool:
    """Whether whole numbers (n,) are called identifiers: all of them differ, or those of persons mostly do."""
    word, n = _last_word(name), len(numbers)
    if distinct == n:
        return name.strip("# ").lower() in IDS or word in PERSONAL | NAMING | NUMBERING
    return word in PERSONAL | NAMING and distinct > max(MAX_FEW, n // 10)


def numbers_count_rows(name: str, numbers: Array) -> bool:
    """Whether whole numbers (n,) rise by one from row to row, as neither years nor variables called x or t do."""
    if len(numbers) < MIN_SEQUENCE or len(name.strip()) < 2 or _last_word(name) in TIMES:
        return False
    years = numbers[0] >= YEARS[0] and numbers[-1] <= YEARS[1]
    return not years and bool((np.diff(numbers) == 1).all())


def texts_name_rows(name: str, counts: Mapping[str, int], is_label: bool) -> str:
    """Why texts, of which each occurs so many times, are not classes, to follow the name of a column; else nothing.

    Classes repeat. A few that do are classes in a table of any size; names, texts with digits and sentences must
    repeat more often than single words, because each may stand for one person.
    """
    n, distinct = sum(counts.values()), len(counts)
    sentences = [text for text in counts if len(text.split()) >= MIN_WORDS]
    if sum(counts[text] == 1 for text in sentences) > len(sentences) / 2 and 2 * len(sentences) >= min(distinct, 4):
        return SENTENCES
    if distinct > 0.9 * n:
        return "has nearly all distinct texts, read as identifiers: not modelled"
    if distinct > (n if is_label else _max_classes(name, counts, n)):
        remedy = f"for classes pass columns={{{name!r}: 'category'}}"
        return f"has {distinct:,} distinct texts in {n:,} rows, read as identifiers: not modelled; {remedy}"
    return ""


def _max_classes(name: str, counts: Mapping[str, int], n: int) -> int:
    """How many distinct texts n cells may have and still be classes."""
    word = _last_word(name)
    if word in PERSONAL or 2 * sum("@" in text for text in counts) > len(counts):
        return MAX_FEW
    if word in NAMING | NUMBERING:
        return max(MAX_FEW, n // 10)
    if 2 * sum(re.search(r"\d|\w\s+\w", text) is not None for text in counts) <= len(counts):
        return max(MAX_FEW, n // 2)
    return max(MAX_FEW, n // 3) if 2 * sum(count == 1 for count in counts.values()) <= len(counts) else MAX_FEW


def count_texts(cells: Collection[object]) -> Counter[str]:
    """How often each text occurs."""
    return Counter(map(str, cells))
