"""Shifts of signals in time against each other, and the same signals aligned."""

from __future__ import annotations

import numpy as np

from .._backend.arrays import Array

ROUNDS, MAX_SHIFTS = 5, 11
"""Times that signals are aligned with the mean of the aligned ones; different shifts, at most."""


def possible_shifts(largest: int) -> Array:
    """Shifts from -largest to largest, evenly spaced, with zero in the middle: (at most MAX_SHIFTS,)."""
    step = max(-(-2 * largest // (MAX_SHIFTS - 1)), 1)
    right = np.arange(0, largest + 1, step)
    return np.concatenate([-right[:0:-1], right])


def shifted(signals: Array, by: int, margin: int) -> Array:
    """x(t + by) of signals (K, T, C), for t from -margin to T - 1 + margin, with the ends continued."""
    T = signals.shape[1]
    return np.asarray(signals[:, np.clip(np.arange(-margin, T + margin) + by, 0, T - 1)])


def shifts_of(signals: Array, largest: int) -> Array:
    """The shift (K,) of each signal (K, T, C) at which signals are most alike; the middle one of them is zero.

    Channels are compared in units of their standard deviation, and points near the ends are left out.
    """
    K, T, _ = signals.shape
    possible = possible_shifts(largest)
    scale = signals.std((0, 1))
    moved = np.stack([shifted(signals, int(by), 0)[:, largest : T - largest] for by in possible])
    scale[scale == 0] = 1.0  # equivalent: a constant channel is alike at all shifts
    moved = moved / scale  # (S, K, T', C)
    which = np.full(K, len(possible) // 2)  # equivalent: shifts are relative, and centred below
    for _ in range(ROUNDS):
        template = moved[which, np.arange(K)].mean(0)
        found = np.square(moved - template).sum((2, 3)).argmin(0)
        middle = round(float(np.median(found))) - len(possible) // 2
        found = np.clip(found - middle, 0, len(possible) - 1)
        if (found == which).all():
            break
        which = found
    return np.asarray(possible[which])
