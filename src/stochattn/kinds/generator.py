"""What a generator is: it is fitted on the arrays of stored items, samples arrays like them, and never changes.

To add a generator, write a class with the members of `Generator` and name it in the kinds of data that offer it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .._backend.arrays import Array
from ..core.temperature import Temperature

LIBRARY = "scipy.linalg"  # a library that generators and codecs may import, for `limit_to_one_thread`


class Generated(NamedTuple):
    """New arrays like those that the generator was fitted on.

    >>> import numpy as np
    >>> from stochattn.kinds import Generated
    >>> Generated(np.zeros((5, 2)), source=None).values.shape
    (5, 2)
    """

    values: Array  # (n, ...)
    source: Array | None  # (n,) the stored item that each was drawn around or is nearest to; None where each has many
    rows: Array | None = None  # (n, d) the rows behind the values, for generators that sample rows of a bank


@dataclass(frozen=True)
class Description:
    """How a generator draws, for summaries and reports. A fit with the resolved options need not search again.

    >>> from stochattn.kinds import Description
    >>> Description("bootstrap", "Stored rows are drawn again.").sampler
    'exact'
    """

    name: str
    summary: str  # one sentence
    notes: tuple[str, ...] = ()  # what a user must know about these draws, a line each
    temperature: Temperature | None = None
    sampler: str = "exact"  # or the algorithm of Langevin chains
    resolved: dict[str, object] = field(default_factory=dict)  # options that a rule chose, with the values they got
    doubt: str = ""  # why draws are not convincing, where the generator itself can tell


def few_sources(n: float, item: str) -> str:
    """A note that about n stored items, a perplexity, explain a condition."""
    count = max(round(n), 1)
    if count == 1:
        return f"about 1 stored {item} explains the condition: draws stay close to it"
    return f"about {count} stored {item}s explain the condition: draws stay close to them"


NO_DENSITY = "log_density must be called before condition(): draws under a condition have no density over all values."


class Generator(Protocol):
    """Samples arrays. It knows nothing of files or of items.

    Two attributes are optional: `numbers_per_item`, if an item has more numbers than its features, and `block_items`,
    how many items are drawn at a time: few if one takes long, so that workers can share them.

    >>> import stochattn as sa
    >>> generator = sa.fit(["MKVL", "MRIL", "MKIL"], generator="hopfield").generator
    >>> sorted({"sample", "condition", "describe"} & set(dir(generator)))
    ['condition', 'describe', 'sample']
    """

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new arrays; the first m of n are those that a call for m gives."""

    def condition(self, observation: Any) -> Generator:
        """The generator given an observation, as the codec of its kind of data expresses it."""

    def describe(self) -> Description:
        """How it draws."""


@runtime_checkable
class HasLogDensity(Protocol):
    """A generator whose density is known."""

    def log_density(self, values: Array) -> Array:
        """Normalized log density of each array, (n, ...) -> (n,)."""


@runtime_checkable
class Adjustable(Protocol):
    """A generator whose fit does not depend on some of its options, so that other values of them need no new fit."""

    adjustable: ClassVar[frozenset[str]]
    """The names of these options."""

    def adjusted(self, weights: Array, **options: object) -> Generator | None:
        """The same bits as a fit with these weights (K,) and options; None if other weights need a new fit."""


@runtime_checkable
class HasRows(Protocol):
    """A generator that samples rows of a memory bank, and measures novelty among them."""

    stored_rows: Array
    """Rows of the stored items with positive weight: (K_kept, d)."""

    def embed(self, features: Array) -> Array:
        """Features (n, p) as rows (n, d)."""

    def predicted_novelty(self) -> float:
        """The mean novelty of exact draws."""

    def source_probabilities(self) -> Array:
        """The probability that an item is drawn around each stored item: (K,), with the sum 1."""
