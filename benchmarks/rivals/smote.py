"""SMOTE-NC (Chawla, Bowyer, Hall and Kegelmeyer, 2002), used as a generator: classes in their stored proportions.

A new row lies between a stored row and one of its five nearest neighbors of the same class. Its categories are those
that most of the neighbors have. A difference of categories counts as the median deviation of the amounts.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.neighbors import NearestNeighbors

from benchmarks.rivals.frames import levels_of, one_hot, rounded

N_NEIGHBORS = 5


def draw(stored: pd.DataFrame, n: int, rng: np.random.Generator, target: str | None = None) -> pd.DataFrame:
    """n new rows; neighbors are sought within the classes of `target`, or among all rows without one."""
    levels = levels_of(stored)
    amounts = [name for name in stored if name not in levels]
    deviation = float(stored[amounts].std().median()) if amounts else 1.0
    scale = np.concatenate([np.full(len(levels[name]), deviation / 2) if name in levels else [1.0] for name in stored])
    features = one_hot(stored, levels) * scale
    near = np.empty((len(stored), N_NEIGHBORS), dtype=int)
    classes = np.zeros(len(stored)) if target is None else stored[target].astype("category").cat.codes.to_numpy()
    for one in np.unique(classes):
        own = np.flatnonzero(classes == one)
        k = min(N_NEIGHBORS + 1, len(own))
        found = own[NearestNeighbors(n_neighbors=k).fit(features[own]).kneighbors(features[own])[1]]
        others = found[:, min(1, k - 1) :]
        near[own] = others[:, np.arange(N_NEIGHBORS) % others.shape[1]]
    first = rng.integers(len(stored), size=n)
    second, step = near[first, rng.integers(N_NEIGHBORS, size=n)], rng.random(n)
    columns = {}
    for name in stored:
        cells = stored[name].to_numpy()
        if name in levels:
            most = [pd.Series(cells[near[k]]).mode().iloc[0] for k in first]
            columns[name] = cells[first] if name == target else most
        else:
            drawn = cells[first] + step * (cells[second].astype(float) - cells[first])
            columns[name] = rounded(drawn, stored[name])
    return pd.DataFrame(columns).astype(stored.dtypes.to_dict())
