"""Unique names of stored items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def distinct_names(ids: Sequence[str]) -> tuple[str, ...]:
    """The ids (K,), unique: where several items have the same one, the number of the item follows it, counted from 1.

    >>> distinct_names(["a", "b", "a"])
    ('a (1)', 'b', 'a (3)')
    """
    counts, found = Counter(ids), []
    for k, name in enumerate(ids):
        if counts[name] > 1:
            name = f"{name} ({k + 1})"
            while name in counts:  # the id of another item
                name = f"{name} ({k + 1})"
        found.append(name)
    return tuple(found)


def index_of(ids: Sequence[str], name: str) -> int | None:
    """The stored item with this id, the first of several, or with this distinct name; None if there is none.

    >>> [index_of(["a", "b", "a"], name) for name in ("b", "a", "a (3)", "c")]
    [1, 0, 2, None]
    """
    for names in (ids, distinct_names(ids)):
        if name in names:
            return names.index(name)
    return None
