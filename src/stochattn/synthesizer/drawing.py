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

BLOCK, BLOCK_NUMBERS = 4096, 2**23  # items that are drawn at a time, and numbers in them; results depend on both
REDRAWN = (64, 256, 1024, 4096, 8192)  # draws that replace the copies of a block, more until there are enough
Result = TypeVar("Result")
DrawBlock: TypeAlias = "Callable[[Shared[Synthesizer], int, Block], Result]"


class Block(NamedTuple):
    """Block `number` of n_total new items, which begins with item `first` and has n items."""

    number: int
    first: int
    n: int
    n_total: int


@contextmanager
def search_context(n_jobs: int | None) -> Iterator[None]:
    """A context for fits and their searches, which gives the same bits for any number of workers."""
    with limit_to_one_thread(LIBRARY), jobs_for_searches(n_jobs):
        yield


def draw_blocks(
    draw: DrawBlock[Result], synth: Synthesizer, seed: int, n: int, n_jobs: int | None, numbers: range | None = None
) -> Iterator[Result]:
    """What `draw_items` or `draw_batch` returns for each block of n items, or for these blocks, by joblib's workers."""
    if effective_jobs(n_jobs) > 1:  # fit first: otherwise each worker would fit the generator
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
    """The memory of items, without the strings of a table."""
    if hasattr(items, "memory_usage"):  # a data frame
        return int(items.memory_usage().sum())
    return sum(map(sys.getsizeof, items)) if isinstance(items, list | tuple) else int(items.nbytes)


@limit_to_one_thread(LIBRARY)
def draw_items(shared: Shared[Synthesizer], seed: int, block: Block) -> Items:
    """The items of a block."""
    return _draw_without_copies(shared.value, seed, block)[0]


@limit_to_one_thread(LIBRARY)
def draw_batch(shared: Shared[Synthesizer], seed: int, block: Block) -> Batch:
    """The items of a block, with what is measured on each of them."""
    synth = shared.value
    items, generated = _draw_without_copies(synth, seed, block)
    if generated.source is None:
        return Batch(block.first, items, None, None, {}, None)
    nearest, extra = synth.kind.measures.annotate(synth.codec, items, block.n_total)
    rows = synth.rows(items) if generated.rows is None else generated.rows
    return Batch(block.first, items, nearest, cosine_novelty(rows, synth.stored_rows), extra, generated.source)


def _draw_without_copies(synth: Synthesizer, seed: int, block: Block) -> tuple[Items, Generated]:
    """The items of a block. The j-th draw of a second stream that is not a copy replaces the j-th copy."""
    generated, items, is_copy = draw_and_decode(synth, block.n, generator(seed, Purpose.DRAW, block.number))
    if is_copy is None or not is_copy.any() or not synth.redraws_copies:
        return items, generated
    copies = np.flatnonzero(is_copy)
    for n in REDRAWN:
        second, _, is_copy = draw_and_decode(synth, n, generator(seed, Purpose.REDRAW, block.number))
        new = np.flatnonzero(~np.asarray(is_copy))[: len(copies)]
        if len(new) == len(copies):
            break
    arrays = [None if array is None else array.copy() for array in generated]
    for array, replacement in zip(arrays, second, strict=True):
        if array is not None and replacement is not None:
            array[copies[: len(new)]] = replacement[new]
    generated = Generated(*arrays)
    return synth.decoder.decode(generated.values, generated.source), generated


def draw_and_decode(synth: Synthesizer, n: int, rng: np.random.Generator) -> tuple[Generated, Items, Array | None]:
    """n draws, the items, and which items copy a stored one and may be drawn again."""
    generated = synth.generator.sample(n, rng)
    items = synth.decoder.decode(generated.values, generated.source)
    return generated, items, synth.codec.exact_copies(items)
