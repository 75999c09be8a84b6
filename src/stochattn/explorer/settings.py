"""The settings of a page: everything that determines which items it shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._backend.arrays import Array
from .._backend.checks import count
from ..data.options import InputError

MAX_SHOWN = 200


@dataclass(frozen=True)
class Settings:
    """What a user chose.

    generator:  by name
    knob:       value of the generator's knob, the name of a rule for it, or None for the generator's own choice
    novelty:    the wanted mean novelty, in place of the knob
    n, seed:    how many items are shown, and from which random numbers
    conditions: texts NAME=VALUE
    ratios:     (index, ratio) of stored items that do not count once, by index; a ratio of 0 leaves one out
    """

    generator: str
    knob: float | str | None = None
    novelty: float | None = None
    n: int = 12
    seed: int = 0
    conditions: tuple[str, ...] = ()
    ratios: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        if count("n", self.n) > MAX_SHOWN:
            raise InputError(f"n must be at most {MAX_SHOWN}, so that a page can show them; got {self.n}. Lower n.")
        count("seed", self.seed, 0)
        if self.knob is not None and self.novelty is not None:
            raise InputError("choose a novelty or a position of the slider, not both: each decides the other.")

    def with_ratio(self, indices: Sequence[int], ratio: float) -> Settings:
        """The same settings, where these stored items count `ratio` times."""
        if not 0 <= ratio < np.inf:
            raise InputError(f"weight must be a number from 0 on; got {ratio!r}. 0 leaves an example out.")
        ratios = {**dict(self.ratios), **dict.fromkeys(map(int, indices), float(ratio))}
        return replace(self, ratios=tuple(sorted((k, r) for k, r in ratios.items() if r != 1)))


def select_only(ids: Sequence[str], selected: Array) -> str:
    """A regular expression that matches the ids of the `selected` items (K,) and of no others.

    >>> select_only(["a", "b", "c.d"], np.array([True, False, True]))
    '^(?!(?:b)$)'
    >>> select_only(["a", "b", "c.d"], np.array([False, False, True]))
    '^(?:c\\\\.d)$'
    """
    chosen = selected if 2 * np.count_nonzero(selected) <= len(ids) else ~selected
    listed = "|".join(_escaped(ids[k]) for k in np.flatnonzero(chosen).tolist())
    return f"^(?:{listed})$" if chosen is selected else f"^(?!(?:{listed})$)"


def _escaped(text: str) -> str:
    """A text as a part of a regular expression, without = and :, which have a meaning on the command line."""
    return re.escape(text).replace("=", r"\x3d").replace(":", r"\x3a")


def with_same_id(ids: Sequence[str], k: int) -> list[int]:
    """The stored items that have the id of item k, which only together can be named."""
    return [i for i, one in enumerate(ids) if one == ids[k]]


def grouped(ratios: Mapping[int, float]) -> dict[float, list[int]]:
    """The indices of each ratio, without those that are left out."""
    groups: dict[float, list[int]] = {}
    for k, ratio in sorted(ratios.items()):
        if ratio > 0:
            groups.setdefault(ratio, []).append(k)
    return groups
