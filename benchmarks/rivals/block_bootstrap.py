"""Moving-block bootstrap of signals (Künsch 1989) within classes.

Blocks of √T points begin anywhere and keep their time, so that signals that are aligned stay so.
"""

from __future__ import annotations

import numpy as np

from stochattn._backend.arrays import Array


def draw(signals: Array, classes: Array, source: Array, rng: np.random.Generator) -> Array:
    """Signals whose blocks come from signals (K, C, T) of the class of `source` (n,): (n, C, T)."""
    n, T = len(source), signals.shape[2]
    length = max(round(np.sqrt(T)), 1)
    first = rng.integers(length, size=n)
    block = (np.arange(T) + first[:, None]) // length
    members = {c: np.flatnonzero(classes == c) for c in np.unique(classes)}
    chosen = np.stack([rng.choice(members[classes[k]], block.max() + 1) for k in source])
    return np.asarray(signals[np.take_along_axis(chosen, block, axis=1), :, np.arange(T)].transpose(0, 2, 1))
