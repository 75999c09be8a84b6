"""Passes over memories in shards: what a pass computes of each shard, and how the results of shards are merged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from .._backend.arrays import Array

Result = TypeVar("Result")


class Shards(ABC):
    """Memories (K, d) in shards of rows, which may be on other machines. A pass does its work where the shards are."""

    @abstractmethod
    def merged(
        self,
        part: Callable[..., Result],
        merge: Callable[[Result, Result], Result],
        states: Array | None = None,
        vectors: Sequence[Array | None] = (),
    ) -> Result:
        """The results of part(rows, start, states, *vectors) for all shards, merged; neighbors are merged in order.

        rows: the memories of a shard, an array or `MappedRows`; start: the index of the first; vectors: (K, ...), of
        which each call gets those of its memories
        """

    @abstractmethod
    def folded(self, step: Callable[[Result, Array], Result], initial: Result) -> Result:
        """The result of step(result, rows) for one shard after the other, from `initial` on."""


def pass_over(
    patterns: Array,
    part: Callable[..., Result],
    merge: Callable[[Result, Result], Result],
    states: Array | None = None,
    *vectors: Array | None,
) -> Result:
    """part(patterns, 0, states, *vectors); the merged results of all shards, if the memories are in shards."""
    if isinstance(patterns, Shards):
        return patterns.merged(part, merge, states, vectors)
    return part(patterns, 0, states, *vectors)
