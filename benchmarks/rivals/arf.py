"""Adversarial random forests (Watson, Blesch, Kapar and Wright, 2023), with the defaults of their package arfpy.

A forest learns to tell stored rows from rows with independent columns; these are drawn again within its leaves until it
no longer can. New rows are drawn from a leaf of a random tree, by how many stored rows it holds: amounts from a normal
law of the leaf between the bounds of the leaf, categories by their shares in it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import truncnorm
from sklearn.ensemble import RandomForestClassifier

from benchmarks.rivals.frames import codes_of, levels_of, rounded

N_TREES, MIN_LEAF, MAX_ROUNDS = 30, 5, 10


def draw(stored: pd.DataFrame, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """n new rows."""
    levels = levels_of(stored)
    rows = codes_of(stored, levels)
    forest = _forest(rows, rng)
    leaves = forest.apply(rows)
    drawn = np.empty((n, rows.shape[1]))
    trees, members = rng.integers(N_TREES, size=n), rng.integers(len(rows), size=n)
    wanted = leaves[members, trees]  # a leaf by its coverage
    for tree, leaf in {*zip(trees.tolist(), wanted.tolist(), strict=True)}:
        own = np.flatnonzero((trees == tree) & (wanted == leaf))
        inside = rows[leaves[:, tree] == leaf]
        low, high = _bounds(forest.estimators_[tree].tree_, leaf, rows)
        for j, name in enumerate(stored):
            if name in levels:
                drawn[own, j] = inside[rng.integers(len(inside), size=len(own)), j]
            else:
                mean, deviation = inside[:, j].mean(), max(inside[:, j].std(ddof=len(inside) > 1), 1e-9)
                ends = (low[j] - mean) / deviation, (high[j] - mean) / deviation
                drawn[own, j] = truncnorm.rvs(*ends, mean, deviation, size=len(own), random_state=rng)
    columns = {name: _cells(stored[name], drawn[:, j], levels.get(name)) for j, name in enumerate(stored)}
    return pd.DataFrame(columns).astype(stored.dtypes.to_dict())


def _forest(rows: np.ndarray, rng: np.random.Generator) -> RandomForestClassifier:
    """The forest of the last round in which rows drawn within leaves were told from stored ones."""
    K = len(rows)
    made = np.column_stack([rng.permutation(column) for column in rows.T])
    label, best = np.repeat([1, 0], K), None
    for _ in range(MAX_ROUNDS):
        seed = int(rng.integers(2**31))
        forest = RandomForestClassifier(N_TREES, min_samples_leaf=MIN_LEAF, oob_score=True, random_state=seed)
        forest.fit(np.concatenate([rows, made]), label)
        if best is not None and forest.oob_score_ <= 0.5:
            break
        best = forest
        leaves = forest.apply(rows)
        trees, members = rng.integers(N_TREES, size=K), rng.integers(K, size=K)
        for i, (tree, member) in enumerate(zip(trees, members, strict=True)):
            inside = np.flatnonzero(leaves[:, tree] == leaves[member, tree])
            made[i] = rows[inside[rng.integers(len(inside), size=rows.shape[1])], np.arange(rows.shape[1])]
    return best


def _bounds(tree: object, leaf: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The box of a leaf, within the range of the stored rows."""
    low, high = rows.min(0), rows.max(0)
    parents = {
        child: (node, side)
        for node in range(tree.node_count)
        for side, child in enumerate((tree.children_left[node], tree.children_right[node]))
        if child >= 0
    }
    while leaf in parents:
        leaf, side = parents[leaf]
        j, at = tree.feature[leaf], tree.threshold[leaf]
        if side == 0:
            high[j] = min(high[j], at)
        else:
            low[j] = max(low[j], at)
    return low, np.maximum(high, low + 1e-9)


def _cells(stored: pd.Series, codes: np.ndarray, levels: list[object] | None) -> object:
    if levels is not None:
        return [levels[int(code)] for code in codes]
    return rounded(codes, stored)
