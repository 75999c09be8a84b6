"""The natural beta of a bank too large to copy: a few passes over it, each for many temperatures at once."""

from __future__ import annotations

import numpy as np

from .._backend.arrays import Array, like, to_numpy
from .._backend.progress import Progress
from .._backend.random import Purpose, generator
from ..storage.mapped import rows_at
from .memory import MemoryBank
from .mixture import pick
from .neighbors import nearest_memory

BETAS = 9
"""Temperatures looked at in a pass."""
WIDE = 4.0**4
"""How far from the guess the first pass looks."""
MOST_PASSES = 8
MOST_NUMBERS = 2**24
"""Numbers that the draws of a pass hold at most, or those of one beta: wide memories take more passes."""


def natural_beta(bank: MemoryBank, target: float, equal_weights: bool) -> float:
    """The beta at which the median distance from a draw to its nearest memory is `target`.

    128 to 512 draws, the same ones at every beta, and interpolation between nine betas a pass: an error in beta of
    about 2.5/√(2 d 128), 0.6 % at d = 784. The passes narrow a range around d/target², which is right for memories far
    apart.
    """
    low, high = bank.d / target**2 / WIDE, bank.d / target**2 * WIDE
    narrow = 4.0
    with Progress(3, "choosing beta") as bar:
        for done in range(MOST_PASSES):
            betas = np.geomspace(low, high, BETAS)
            medians = _median_distances(bank, betas, equal_weights)
            bar.at(done + 1)
            if medians[0] < target:  # even the hottest is too close: look further
                low, high = low / WIDE, low * 2
            elif medians[-1] > target:
                low, high = high / 2, high * WIDE
            else:
                # The distance falls with beta; rounding may make steps, and interpolation wants none.
                falling = np.maximum.accumulate(medians[::-1])
                beta = float(np.exp(np.interp(np.log(target), np.log(falling), np.log(betas[::-1]))))
                if high / low <= 2 * narrow:
                    return beta
                low, high = beta / narrow**0.5, beta * narrow**0.5
    raise ValueError("no beta brings draws as near to the memories as these are to each other. Pass beta as a number.")


def _median_distances(bank: MemoryBank, betas: Array, equal_weights: bool) -> Array:
    """The median distance from draws at each beta to their nearest memory: (n_betas,), in as few passes as fit."""
    S = int(np.clip(2**16 // bank.d, 128, 512))
    rng = generator(0, Purpose.RULE)  # never the numbers that a user's own draws are made of
    normals = rng.standard_normal((S, bank.d))
    uniforms = rng.permutation((np.arange(S) + 0.5) / S)
    together = max(MOST_NUMBERS // normals.size, 1)
    parts = [betas[begin : begin + together] for begin in range(0, len(betas), together)]
    return np.concatenate([_medians_in_one_pass(bank, part, normals, uniforms, equal_weights) for part in parts])


def _medians_in_one_pass(bank: MemoryBank, betas: Array, normals: Array, uniforms: Array, equal_weights: bool) -> Array:
    """The median distances (n_betas,) of the draws that normals (S, d) and uniforms (S,) make at each beta."""
    norms, log_r = (to_numpy(x).astype(np.float64) for x in (bank.norms_squared, bank.log_r))
    draws = np.empty((len(betas), *normals.shape), dtype=np.float32 if bank.patterns.itemsize == 4 else np.float64)
    for row, beta in zip(draws, betas, strict=True):
        log_weights = log_r if equal_weights else log_r + beta / 2 * norms
        k = pick(np.cumsum(np.exp(log_weights - log_weights.max())), uniforms)
        row[:] = to_numpy(rows_at(bank.patterns, like(k, bank.patterns, keep_dtype=True))) + normals / np.sqrt(beta)
    distances = nearest_memory(like(draws, bank.patterns), bank)[1]
    return np.median(to_numpy(distances).astype(np.float64), axis=1)
