"""New items in blocks. Block b depends on (seed, b) only, so that any number of workers draws the same items."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np

from .._backend.arrays import Array
from .._backend.parallel import Shared, effective_jobs, in_workers, jobs_for_searches
from .._backend.products import limit_to_one_thread
from .._backend.random import Purpose, generator
from ..core.metrics import cosine_novelty
from ..kinds.codec import Batch, Items
from ..kinds.generator import LIBRARY, Generated

if TYPE_CHECKING:
    from .synthesizer import Synthesizer

BLOCK, BLOCK_NUMBERS = 4096, 2**23
"""Items drawn at a time, and the most numbers in them. Results depend on both."""
MIN_REDRAWN, MAX_REDRAWN = 64, 8192
"""The fewest and the most draws that replace the copies of a block."""
Result = TypeVar("Result")
DrawBlock: TypeAlias = "Callable[[Shared[Synthesizer], int, Block], Result]"


class Block(NamedTuple):
    """Some of n_total new items: block `number`, which begins with item `first` and has n items."""

    number: int
    first: int
    n: int
    n_total: int


@contextmanager
def search_context(n_jobs: int | None) -> Iterator[None]:
    """A context for fits and their searches: n_jobs workers, where steps allow it, and the same bits for any number."""
    with limit_to_one_thread(LIBRARY), jobs_for_searches(n_jobs):
        yield


def draw_blocks(
    draw: DrawBlock[Result],
    synth: Synthesizer,
    seed: int,
    n: int,
    n_jobs: int | None,
    numbers: range | None = None,
) -> Iterator[Result]:
    """What `draw_items` or `draw_batch` returns for n items, block by block, all or these, by joblib's workers."""
    if effective_jobs(n_jobs) > 1:  # fit before the generator is sent to workers, which would all do the same
        with search_context(n_jobs):
            synth.describe()
            if draw is draw_batch:
                _ = synth.stored_rows
    size = synth.block_size
    numbers = range(-(-n // size)) if numbers is None else numbers
    blocks = (Block(b, b * size, min(size, n - b * size), n) for b in numbers)
    with in_workers(partial(draw, Shared(synth), seed), blocks, n_jobs) as results:
        for result in results:  # noqa: UP028  # `yield from` would close the results before the context does
            yield result


def count_bytes(items: Items) -> int:
    """The memory that items take, without the strings of a table."""
    if hasattr(items, "memory_usage"):  # a data frame
        return int(items.memory_usage().sum())
    return sum(map(sys.getsizeof, items)) if isinstance(items, list | tuple) else int(items.nbytes)


def draw_items(shared: Shared[Synthesizer], seed: int, block: Block) -> Items:
    """The items of a block."""
    with limit_to_one_thread(LIBRARY):
        return _draw_without_copies(shared.value, seed, block)[0]


def draw_batch(shared: Shared[Synthesizer], seed: int, block: Block) -> Batch:
    """The items of a block, with what is measured on each of them."""
    with limit_to_one_thread(LIBRARY):
        synth = shared.value
        items, generated = _draw_without_copies(synth, seed, block)
        if generated.source is None:
            return Batch(block.first, items, None, None, {}, None)
        nearest, extra = synth.kind.measures.annotate(synth.codec, items, block.n_total)
        rows = synth.rows(items) if generated.rows is None else generated.rows
        novelty = cosine_novelty(rows, synth.stored_rows)
        return Batch(block.first, items, nearest, novelty, extra, generated.source)


def _draw_without_copies(synth: Synthesizer, seed: int, block: Block) -> tuple[Items, Generated]:
    """The items of a block. The j-th copy of a stored item becomes the j-th draw of a second stream that is no copy."""
    generated, items, is_copy = draw_and_decode(synth, block.n, generator(seed, Purpose.DRAW, block.number))
    if is_copy is None or not is_copy.any() or not synth.redraws_copies:
        return items, generated
    copies, n = np.flatnonzero(is_copy), MIN_REDRAWN
    while True:
        second, _, is_copy = draw_and_decode(synth, n, generator(seed, Purpose.REDRAW, block.number))
        new = np.flatnonzero(~np.asarray(is_copy))[: len(copies)]
        if len(new) == len(copies) or n == MAX_REDRAWN:
            break
        n = min(4 * n, MAX_REDRAWN)
    arrays = [None if array is None else array.copy() for array in generated]
    for array, drawn_again in zip(arrays, second, strict=True):
        if array is not None and drawn_again is not None:
            array[copies[: len(new)]] = drawn_again[new]
    generated = Generated(*arrays)
    return synth.decoder.decode(generated.values, generated.source), generated


def draw_and_decode(synth: Synthesizer, n: int, rng: np.random.Generator) -> tuple[Generated, Items, Array | None]:
    """n draws, as items, and which of these copy a stored item and may be drawn again."""
    generated = synth.generator.sample(n, rng)
    items = synth.decoder.decode(generated.values, generated.source)
    return generated, items, synth.codec.exact_copies(items)
