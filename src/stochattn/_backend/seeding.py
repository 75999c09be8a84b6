"""Generators of many streams at once: numpy's `SeedSequence` for all keys (prefix, i, suffix) in one pass.

`SeedSequence` takes 11 µs per generator, which for thousands of chains is longer than a short run. Its hash is fixed by
numpy's compatibility policy (NEP 19), so that the same words can be computed for an array of keys; numpy still computes
the part that all keys share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.random.bit_generator import ISeedSequence

if TYPE_CHECKING:
    import numpy.typing as npt

    Words = npt.NDArray[np.uint32]

POOL = 4  # words of entropy that SeedSequence keeps
WORD = 2**32
# The constants of `numpy/random/bit_generator.pyx`.
FIRST_A, FACTOR_A, FIRST_B, FACTOR_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
MIX_LEFT, MIX_RIGHT, SHIFT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715), np.uint32(16)
MIN_KEYS = 12  # equivalent: both ways give the same generators
STATE_WORDS = 6  # of 32 bits: the three numbers of 64 bits that SFC64 asks for


class _Seeded(ISeedSequence):
    """The words of a SeedSequence that were computed before."""

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: npt.DTypeLike = np.uint32) -> npt.NDArray[np.uint64]:
        """The words (3,) that SFC64 asks for; no other generator is seeded by this class."""
        return self.words


def generators(seed: int, prefix: int, keys: range, suffix: Sequence[int]) -> Iterator[np.random.Generator]:
    """One generator per key i, as `Generator(SFC64(SeedSequence(seed, spawn_key=(prefix, i, *suffix))))`."""
    # A larger key takes two words of entropy, and for few keys one at a time is faster.
    if max(keys.stop, 0, *suffix) >= WORD or len(keys) < MIN_KEYS:
        for key in keys:
            sequence = np.random.SeedSequence(seed, spawn_key=(prefix, key, *suffix))
            yield np.random.Generator(np.random.SFC64(sequence))
        return
    for words in _state_words(seed, prefix, keys, suffix):
        yield np.random.Generator(np.random.SFC64(_Seeded(words)))  # type: ignore[arg-type]


def _state_words(seed: int, prefix: int, keys: range, suffix: Sequence[int]) -> npt.NDArray[np.uint64]:
    """What `SeedSequence(seed, spawn_key=(prefix, i, *suffix)).generate_state(3, np.uint64)` returns: (keys, 3)."""
    shared = np.random.SeedSequence(seed, spawn_key=(prefix,))
    seed_words = max(-(-seed.bit_length() // 32), POOL)  # a short seed is padded with zeros
    hashed = POOL * (seed_words + 1)  # POOL² for the first words, and POOL for each later one
    pool: list[Words] = [np.full(len(keys), word, np.uint32) for word in shared.pool]
    columns = [np.arange(keys.start, keys.stop, dtype=np.uint32), *(np.array([key], np.uint32) for key in suffix)]
    for column in columns:
        for i in range(POOL):
            constant, hashed = FIRST_A * pow(FACTOR_A, hashed, WORD) % WORD, hashed + 1
            mixed = np.subtract(pool[i] * MIX_LEFT, _hashed(column, constant, FACTOR_A) * MIX_RIGHT, dtype=np.uint32)
            pool[i] = mixed ^ (mixed >> SHIFT)
    constants = [FIRST_B * pow(FACTOR_B, i, WORD) % WORD for i in range(STATE_WORDS)]
    state = [_hashed(pool[i % POOL], constant, FACTOR_B) for i, constant in enumerate(constants)]
    return np.stack(state, 1).astype("<u4").view("<u8").astype(np.uint64)


def _hashed(words: Words, constant: int, factor: int) -> Words:
    words = (words ^ np.uint32(constant)) * np.uint32(constant * factor % WORD)
    return words ^ (words >> SHIFT)
