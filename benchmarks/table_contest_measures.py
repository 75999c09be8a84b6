"""Measures of new rows against held-out rows, on frames, without any code of the library."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors

from benchmarks.rivals.frames import codes_of, levels_of, one_hot
from benchmarks.table_contest_data import Contest, Halves

N_TREES = 200


class Scores(NamedTuple):
    """Measures of new rows."""

    auc: float  # two-sample AUC: gradient boosting, cross-validated, new against held-out rows; ideal 0.5
    c2st: float  # C2*: ½ + mean of |accuracy − ½| of a nearest-neighbor classifier over real and new; ideal 0.5
    forest_gap: float  # score of a forest trained on new rows, minus one trained on stored rows, on held-out rows
    copies: float  # share closer to a stored row than 99 % of held-out rows are; ideal 0.01
    train_proximity: float  # share closer to the stored rows than to the held-out rows; ideal 0.5


class Judge:
    """Measures on one split of a table."""

    def __init__(self, contest: Contest, split: Halves) -> None:
        self.contest, self.split = contest, split
        self.levels = levels_of(contest.frame)
        both = pd.concat(split)
        raw = one_hot(both, self.levels)
        self._one_hot = np.concatenate([np.full(len(self.levels.get(n, [0])), n in self.levels) for n in both])
        deviations = np.where(raw.std(0) > 0, raw.std(0), 1.0)
        self._centre = np.where(self._one_hot, 0.0, raw.mean(0))
        self._scale = np.where(self._one_hot, np.sqrt(2.0), deviations)  # two categories differ by one deviation
        self.stored, self.held_out = (self._rows(part) for part in split)
        self._of_stored = self._forest(split.stored)

    def _rows(self, frame: pd.DataFrame) -> np.ndarray:
        return (one_hot(frame, self.levels) - self._centre) / self._scale

    def scores(self, new: pd.DataFrame) -> Scores:
        """All measures of new rows, of which there should be as many as held-out rows."""
        rows = self._rows(new)
        to_stored, to_held_out = nearest(rows, self.stored), nearest(rows, self.held_out)
        return Scores(
            two_sample_auc(codes_of(new, self.levels), codes_of(self.split.held_out, self.levels)),
            c2st(rows, self.held_out),
            self.forest_gap(new),
            copies(to_stored, nearest(self.held_out, self.stored)),
            float((to_stored < to_held_out).mean() + (to_stored == to_held_out).mean() / 2),
        )

    def forest_gap(self, new: pd.DataFrame) -> float:
        """Score of a forest trained on new rows, minus that of one trained on the stored rows, on held-out rows."""
        return self._forest(new) - self._of_stored

    def _forest(self, train: pd.DataFrame) -> float:
        """Accuracy, or R², on the held-out rows of a forest that is trained on these rows."""
        target = self.contest.target
        levels = {name: found for name, found in self.levels.items() if name != target}
        x, at = (one_hot(frame.drop(columns=target), levels) for frame in (train, self.split.held_out))
        forest = (RandomForestClassifier if self.contest.classes else RandomForestRegressor)(N_TREES, random_state=0)
        return float(forest.fit(x, train[target]).score(at, self.split.held_out[target]))


def nearest(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The distance of each row (n, d) to the nearest of the others: (n,)."""
    return NearestNeighbors(n_neighbors=1, algorithm="brute").fit(others).kneighbors(rows)[0][:, 0]


def copies(distances: np.ndarray, real: np.ndarray) -> float:
    """Share of distances (n,) below the first percentile of the real ones; of equal ones, as many as make 1 %."""
    limit = np.quantile(real, 0.01, method="inverted_cdf")
    tied = (0.01 - (real < limit).mean()) / (real == limit).mean()
    return float((distances < limit).mean() + tied * (distances == limit).mean())


def c2st(new: np.ndarray, real: np.ndarray) -> float:
    """½ + mean over real and new of |accuracy − ½| of the nearest other row, ties counted by halves."""
    both, n = np.concatenate([real, new]), len(real)
    is_new = np.arange(len(both)) >= n
    squares = np.square(both).sum(1)
    distances = squares[:, None] + squares - 2 * both @ both.T
    np.fill_diagonal(distances, np.inf)
    to_real, to_new = (distances[:, ~is_new].min(1), distances[:, is_new].min(1))
    tie = np.isclose(to_real, to_new, rtol=0, atol=1e-9)
    right = np.where(tie, 0.5, (to_new < to_real) == is_new)
    return float(0.5 + (abs(right[~is_new].mean() - 0.5) + abs(right[is_new].mean() - 0.5)) / 2)


def two_sample_auc(new: np.ndarray, real: np.ndarray) -> float:
    """Area under the curve of gradient boosting that tells new from real rows, by five-fold cross-validation."""
    x, y = np.concatenate([real, new]), np.repeat([0, 1], [len(real), len(new)])
    boosting = HistGradientBoostingClassifier(max_iter=100, max_leaf_nodes=8, min_samples_leaf=5, random_state=0)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    found = cross_val_predict(boosting, x, y, cv=folds, method="predict_proba")[:, 1]
    return float(roc_auc_score(y, found))
