"""Sequential classification and regression trees, the default method of synthpop (Nowok, Raab and Dibben, 2016).

The first column is drawn from its stored cells. Each further column gets a tree on the columns before it, and a new
cell is one of the stored cells in the leaf that the new row falls into. Leaves hold at least five rows, as in synthpop.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from benchmarks.rivals.frames import levels_of, one_hot

MIN_LEAF = 5


def draw(stored: pd.DataFrame, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """n new rows, column by column in the order of the frame."""
    names, levels = list(stored), levels_of(stored)
    new = {names[0]: stored[names[0]].to_numpy()[rng.integers(len(stored), size=n)]}
    for place, name in enumerate(names[1:], 1):
        before = names[:place]
        known = {one: levels[one] for one in before if one in levels}
        x, at = one_hot(stored[before], known), one_hot(pd.DataFrame(new), known)
        kind = DecisionTreeClassifier if name in levels else DecisionTreeRegressor
        tree = kind(min_samples_leaf=MIN_LEAF, random_state=int(rng.integers(2**31)))
        cells = stored[name].to_numpy()
        tree.fit(x, cells.astype(str) if name in levels else cells.astype(float))
        leaves, wanted = tree.apply(x), tree.apply(at)
        drawn = np.empty(n, dtype=cells.dtype)
        for leaf in np.unique(wanted):
            donors, own = np.flatnonzero(leaves == leaf), np.flatnonzero(wanted == leaf)
            drawn[own] = cells[donors[rng.integers(len(donors), size=len(own))]]
        new[name] = drawn
    return pd.DataFrame(new).astype(stored.dtypes.to_dict())
