"""New items in blocks. Block b depends on (seed, b) only, so that any number of workers draws the same items."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from .._backend.arrays import Array, free_memory, gigabytes
from .._backend.parallel import Shared, effective_jobs, in_workers, jobs_for_searches
from .._backend.products import limit_to_one_thread
from .._backend.random import Purpose, generator
from ..core.metrics import cosine_novelty
from ..kinds.codec import Batch, Codec, Items
from ..kinds.generator import Adjustable, Description, Generated, Generator, HasRows
from ..kinds.kind import AnyKind, GeneratorChoice
from ..kinds.options import InputError, option_fields

LIBRARY = "scipy.linalg"  # what generators and codecs may import while they work; see `single_threaded`
N_CLASS_DRAWS, MIN_CLASS_DRAWS = 40_000, 4096
"""Attempts that predicted shares of classes are made of, where items say their own class, and the fewest draws."""
N_TRIED, MIN_REDRAWN, MAX_REDRAWN = 256, 64, 8192
"""Draws by which the share of copies is estimated, and the fewest and the most that replace the copies of a block."""
MAX_COPIES = 0.5
"""Share of copies among draws, beyond which they are meant to be copies, or a condition leaves no other items."""
COPIES = 2
"""Copies of new items in memory while blocks are joined."""
ORIGIN = "_origin"
"""Where a conditioned Synthesizer keeps the one whose fit it shares."""
Made = TypeVar("Made")
S = TypeVar("S", bound="_Drawable")
Maker: TypeAlias = "Callable[[_Drawable, int, Block], Made]"


class _Drawable(Protocol):
    """What drawing asks of a Synthesizer, which stands above this package."""

    @property
    def kind(self) -> AnyKind: ...
    @property
    def codec(self) -> Codec: ...
    @property
    def choice(self) -> GeneratorChoice: ...
    @property
    def weights(self) -> Array: ...
    @property
    def decoder(self) -> Codec: ...
    @property
    def generator(self) -> Generator: ...
    @property
    def stored_rows(self) -> Array: ...
    @property
    def block_size(self) -> int: ...
    def describe(self) -> Description: ...
    def rows(self, items: Items) -> Array: ...


class Block(NamedTuple):
    """Some of n_total new items: block `number`, which begins with item `first` and has n items."""

    number: int
    first: int
    n: int
    n_total: int


def blocks(n: int, size: int, numbers: range | None = None) -> Iterator[Block]:
    """n items in blocks of `size`: all blocks, or those with these numbers."""
    chosen = range(-(-n // size)) if numbers is None else numbers
    return (Block(b, b * size, min(size, n - b * size), n) for b in chosen)


def block_size(synth: _Drawable, most: int, most_numbers: int) -> int:
    """Items that are drawn at a time: at most so many, with so many numbers in all, and as the generator declares."""
    one = synth.codec.take(synth.codec.stored, np.arange(1))
    numbers = getattr(synth.generator, "numbers_per_item", None) or synth.codec.features(one).shape[1]
    declared = getattr(synth.generator, "block_items", most)
    return int(max(min(most, most_numbers // numbers, declared), 1))


def draw(
    made_of: Maker[Made],
    synth: _Drawable,
    seed: int,
    n: int,
    n_jobs: int | None,
    numbers: range | None = None,
) -> Iterator[Made]:
    """What `drawn_items` or `drawn_batch` makes of n items, block by block, all or these, by joblib's workers."""
    if effective_jobs(n_jobs) > 1:
        prepare(synth, made_of is drawn_batch, n_jobs)
    parts = blocks(n, synth.block_size, numbers)
    with in_workers(partial(_drawn, made_of, Shared(synth), seed), parts, n_jobs) as results:
        for made in results:  # noqa: UP028  # `yield from` would close the results before the context does
            yield made


def within_memory(parts: Iterator[Items], n: int, items: str) -> Iterator[Items]:
    """The blocks of n items; InputError after the first of several if all of them do not fit into memory.

    items: what they are called
    """
    for number, part in enumerate(parts):
        if number == 0 and len(part) < n:
            needed, free = COPIES * n * n_bytes(part) // len(part), free_memory()
            if free is not None and needed > free:
                room = f"{gigabytes(needed)} of memory, and {gigabytes(free)} are free"
                raise InputError(f"n={n:,} new {items} take {room}. Draw fewer, or `write` them to a file in blocks.")
        yield part


def n_bytes(items: Items) -> int:
    """The memory that items take, without the strings of a table."""
    if hasattr(items, "memory_usage"):  # a data frame
        return int(items.memory_usage().sum())
    return sum(map(sys.getsizeof, items)) if isinstance(items, list | tuple) else int(items.nbytes)


@contextmanager
def searching(n_jobs: int | None) -> Iterator[None]:
    """A context for fits and their searches: n_jobs workers, where steps allow it, and the same bits for any number."""
    with limit_to_one_thread(LIBRARY), jobs_for_searches(n_jobs):
        yield


def with_settings(generator: Generator, n_jobs: int | None) -> Generator:
    """The generator, whose settings are searched for now, by these workers; with None, when they are first needed."""
    if n_jobs is not None:
        with searching(n_jobs):
            generator.describe()
    return generator


def sharing_fit(fitted: S, other: S) -> S:
    """`other`, with what is fitted already where its generator differs only in options that need no new fit."""
    known = vars(fitted).get("_unconditioned")
    if not isinstance(known, Adjustable) or fitted.choice.name != other.choice.name:
        return other
    mine, theirs = fitted.choice, other.choice
    names = option_fields(type(theirs.options))
    changed = {name for name in names if getattr(mine.options, name) != getattr(theirs.options, name)}
    if changed <= known.adjustable <= set(names):
        values = {name: getattr(theirs.options, name) for name in known.adjustable}
        with searching(None):
            adjusted = known.adjusted(other.weights, **values)
        if adjusted is not None:
            vars(other)["_unconditioned"] = adjusted
    return other


def conditioned(synth: S, conditions: Mapping[Any, Any]) -> S:
    """A Synthesizer of the same items under these conditions, which shares its fit with all others of the same codec.

    The first one, and those that other codecs need for their conditions, are fitted when one of them is first used.
    """
    origin: S = vars(synth).get(ORIGIN, synth)
    codec = synth.codec.suited_to(conditions)
    if codec is not origin.codec:
        others = vars(origin).setdefault("_recoded", {})
        origin = others.setdefault(codec, _replaced(origin, codec=codec, resolved={}))
    other = _replaced(origin, conditions=conditions)
    vars(other)[ORIGIN] = origin
    return other


def _replaced(synth: S, **changes: object) -> S:
    return replace(synth, **changes)  # type: ignore[type-var]  # a Synthesizer is a dataclass


def prepare(synth: _Drawable, with_rows: bool, n_jobs: int | None) -> None:
    """Fit the generator, and choose its settings, before it is sent to workers, which would all do the same."""
    with searching(n_jobs):
        synth.describe()
        if with_rows:
            _ = synth.stored_rows


def _drawn(made_of: Maker[Made], synth: Shared[_Drawable], seed: int, block: Block) -> Made:
    with limit_to_one_thread(LIBRARY):
        return made_of(synth.value, seed, block)


def drawn_items(synth: _Drawable, seed: int, block: Block) -> Items:
    """The items of a block."""
    return _items(synth, seed, block)[0]


def drawn_batch(synth: _Drawable, seed: int, block: Block) -> Batch:
    """The items of a block, with what is measured on each of them."""
    items, made = _items(synth, seed, block)
    if made.source is None:
        return Batch(block.first, items, None, None, {}, None)
    nearest, extra = synth.kind.measures.annotate(synth.codec, items, block.n_total)
    novelty = cosine_novelty(synth.rows(items) if made.rows is None else made.rows, synth.stored_rows)
    return Batch(block.first, items, nearest, novelty, extra, made.source)


def _items(synth: _Drawable, seed: int, block: Block) -> tuple[Items, Generated]:
    """The items of a block. The j-th copy of a stored item becomes the j-th draw of a second stream that is none."""
    made, items, copies = _decoded(synth, block.n, generator(seed, Purpose.DRAW, block.number))
    if copies is None or not copies.any() or not _redraws_copies(synth):
        return items, made
    places, n = np.flatnonzero(copies), MIN_REDRAWN
    while True:
        others, _, unwanted = _decoded(synth, n, generator(seed, Purpose.REDRAW, block.number))
        chosen = np.flatnonzero(~np.asarray(unwanted))[: len(places)]
        if len(chosen) == len(places) or n == MAX_REDRAWN:
            break
        n = min(4 * n, MAX_REDRAWN)
    pairs = zip(made, others, strict=True)
    made = Generated(*(_replaced_at(old, places[: len(chosen)], other, chosen) for old, other in pairs))
    return synth.decoder.decode(made.values, made.source), made


def _decoded(synth: _Drawable, n: int, rng: np.random.Generator) -> tuple[Generated, Items, Array | None]:
    """n draws, as items, and which of these are copies that are to be drawn again."""
    made = synth.generator.sample(n, rng)
    items = synth.decoder.decode(made.values, made.source)
    return made, items, synth.codec.exact_copies(items)


def _replaced_at(array: Array | None, places: Array, others: Array | None, which: Array) -> Array | None:
    """An array (n, ...) with some of others in its place."""
    if array is None or others is None:
        return array
    out = array.copy()
    out[places] = others[which]
    return out


def _redraws_copies(synth: _Drawable) -> bool:
    """Whether draws copy stored items more often than these repeat each other, and most draws are no copies."""
    if "_redraws_copies" not in vars(synth):
        share = float(np.asarray(_decoded(synth, N_TRIED, generator(0, Purpose.RULE))[2]).mean())
        vars(synth)["_redraws_copies"] = synth.codec.share_repeated <= share <= MAX_COPIES
    return bool(vars(synth)["_redraws_copies"])


def predicted_shares(synth: _Drawable) -> dict[str, float]:
    """The share of each class among draws, where classes are known and the law gives it; else empty."""
    labels = synth.codec.labels
    if labels is None:
        return {}
    classes = np.array(labels)
    if synth.kind.measures.items_have_labels:
        n = max(round(N_CLASS_DRAWS * getattr(synth.generator, "acceptance", 1.0)), MIN_CLASS_DRAWS)
        made = synth.generator.sample(n, generator(0, Purpose.RULE))
        items = synth.decoder.decode(made.values, made.source)
        classes = synth.kind.measures.labels_of(synth.codec, items, made.source)
        shares = np.full(len(classes), 1 / len(classes))
    elif isinstance(synth.generator, HasRows):
        shares = synth.generator.source_probabilities()
    else:
        return {}
    return {name: float(shares[classes == name].sum()) for name in sorted(set(labels))}
