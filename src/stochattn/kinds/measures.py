"""How new items of a kind of data are measured against stored ones: what the report, evaluation and summaries ask.

`Measures` is a frozen object that a `Kind` names. Its defaults work for any codec whose `features` are numbers, and a
kind replaces only what it measures in its own way:

    measures = Measures(key=KeyMeasure("roughness", 0.3, "As smooth", "they are rough"), compare=compare_signals)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from .._backend.arrays import Array
from ..core.neighbors import nearest_rows
from .codec import Codec, Items
from .comparison import Comparison, compare_features

C = TypeVar("C", bound=Codec)


@dataclass(frozen=True)
class KeyMeasure:
    """The measure of items as a whole that a verdict looks at; it may be worse by `slack` than for stored items.

    >>> from stochattn.kinds import KeyMeasure
    >>> KeyMeasure("correlation error", 0.1, "Features vary together", "correlations are lost").slack
    0.1
    """

    name: str
    slack: float
    claim: str
    failure: str


@dataclass(frozen=True)
class RecallMeasures:
    """Measures that are 1 for copies: a verdict wants them closer to their ideal, that among stored items, than to 1.

    advice: what to do where they are not; empty for that on moving away from stored items by beta

    >>> from stochattn.kinds import RecallMeasures
    >>> RecallMeasures(("similarity of the market",), "The market is new", "the market follows stored ones").names
    ('similarity of the market',)
    """

    names: tuple[str, ...]
    claim: str
    failure: str
    advice: str = ""


@dataclass(frozen=True)
class KeptMeasure:
    """A measure, ideally 1, of what every item has: draws from a half may lose twice what the half itself loses.

    >>> from stochattn.kinds import KeptMeasure
    >>> KeptMeasure("conserved sites", "Conserved sites are kept", "conserved sites change").name
    'conserved sites'
    """

    name: str
    claim: str
    failure: str


def _compare(codec: Codec, items: Items) -> Comparison:
    return compare_features(codec.features(items), codec.features(codec.stored))


def _annotate(codec: Codec, items: Items, n_total: int) -> tuple[Array, dict[str, Array]]:
    return nearest_rows(codec.features(items), codec.features(codec.stored)), {}


def _summarize(extra: Mapping[str, Array]) -> dict[str, float]:
    return {}


def _same(codec: Codec, first: Items, second: Items) -> Array:
    return np.isclose(codec.features(first), codec.features(second), rtol=1e-9, atol=1e-12)


def _features(codec: Codec, items: Items) -> Array:
    return codec.features(items)


def _statistics(codec: Codec, items: Items) -> Array | None:
    return None


def _non_overlapping(codec: Codec, indices: Array) -> Array:
    return indices


def _repeated_identifiers(codec: Codec, items: Items) -> Mapping[str, tuple[float, float]]:
    return {}


@dataclass(frozen=True)
class Measures(Generic[C]):
    """How items of a kind of data are measured. Functions take a codec, and items as this codec holds them.

    key:         what a verdict looks at beside single parts
    recall:      how closely an aspect of new items follows stored ones; None where there is no such thing
    kept:        what new items must keep, measured against held-out ones; None where there is no such thing
    compare:     (codec, items): a comparison with the stored items: measures of the whole, and its parts
    annotate:    (codec, items, n_total): the stored item nearest to each new one (n,), of n_total new ones in all, and
                 further columns (n,) for its header
    summarize:   (columns): figures for the summary of a result, from these further columns
    same:        (codec, first, second): which values of two sets of items are equal, (n, values) booleans
    comparable:  (codec, items): vectors whose distances tell copies from new items; one item may give several, (m, p)
    named_parts: (codec): names of the parts of an item, and the number of the part to which each column of
                 `comparable` belongs, (p,); None for parts of one column each, which are numbered from 1
    predictors:  (codec, items): the features that may predict the class of an item, without those that say it, (n, p)
    labels:      (codec, items): the class that each item itself says, (n,); None for kinds whose new items have the
                 class of the stored item that they were drawn around
    statistics:  (codec, items): figures of each item as a whole, (n, q), by which a trial tells new items from held-out
                 ones, for what a user sees at once and single features do not show, such as noise, blur and hard
                 bounds; None for none
    non_overlapping: (codec, indices): those of these stored items that share nothing with one before them, (m,)
    repeated_identifiers: (codec, items): shares of new items with an identifier of a stored one, and of stored ones
                 that share theirs, by the name of the identifier

    >>> import stochattn as sa
    >>> from stochattn.kinds import Measures
    >>> codec = sa.fit(["MKVL", "MRIL", "MKIL"]).codec
    >>> float(Measures().same(codec, codec.stored[:1], codec.stored[1:2]).mean())
    0.95
    """

    key: KeyMeasure = KeyMeasure("correlation error", 0.1, "Features vary together", "correlations are lost")
    recall: RecallMeasures | None = None
    kept: KeptMeasure | None = None
    compare: Callable[[C, Items], Comparison] = _compare
    annotate: Callable[[C, Items, int], tuple[Array, dict[str, Array]]] = _annotate
    summarize: Callable[[Mapping[str, Array]], dict[str, float]] = _summarize
    same: Callable[[C, Items, Items], Array] = _same
    comparable: Callable[[C, Items], Array] = _features
    named_parts: Callable[[C], tuple[tuple[str, ...], Array]] | None = None
    predictors: Callable[[C, Items], Array] = _features
    labels: Callable[[C, Items], Array] | None = None
    statistics: Callable[[C, Items], Array | None] = _statistics
    non_overlapping: Callable[[C, Array], Array] = _non_overlapping
    repeated_identifiers: Callable[[C, Items], Mapping[str, tuple[float, float]]] = _repeated_identifiers

    def parts(self, codec: C) -> tuple[tuple[str, ...], Array]:
        """Names of the parts of an item, and the number of the part to which each column of `comparable` belongs."""
        if self.named_parts is not None:
            return self.named_parts(codec)
        p = self.comparable(codec, codec.take(codec.stored, np.arange(1))).shape[1]
        return tuple(map(str, range(1, p + 1))), np.arange(p)

    def stored_vectors(self, codec: C, kept: Array) -> Array:
        """Vectors (m, p) of the stored items `kept`, without items that overlap with one taken before.

        Items that overlap, such as windows of days, would each have copies of their parts in others.
        """
        return self.comparable(codec, codec.take(codec.stored, self.non_overlapping(codec, kept)))

    @property
    def items_have_labels(self) -> bool:
        """Whether new items say their own class."""
        return self.labels is not None

    def labels_of(self, codec: C, items: Items, source: Array) -> Array:
        """The class of each new item: what the item itself says, or that of the stored item it was drawn around."""
        return np.array(codec.labels)[source] if self.labels is None else self.labels(codec, items)
