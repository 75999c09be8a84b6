"""Usual classifiers with a score for strangers: neighbors, SVM, logistic regression, prototypes, Mahalanobis."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.covariance import LedoitWolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

TEMPERATURES = 2.0 ** np.arange(-2, 12, 0.5)


class Answers(NamedTuple):
    """Probabilities of the classes (n, classes), and how strange each query is (n,)."""

    probabilities: np.ndarray
    strangeness: np.ndarray


Method = Callable[[np.ndarray, np.ndarray, np.ndarray], Answers]


def neighbors(rows: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> Answers:
    """k nearest neighbors, weighted by inverse distance; strange is far from the nearest."""
    model = _tuned(KNeighborsClassifier(weights="distance"), {"n_neighbors": [1, 3, 5, 9, 15]}, rows, labels)
    return Answers(model.predict_proba(queries), model.kneighbors(queries, 1)[0][:, 0])


def svm(rows: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> Answers:
    """A support vector machine with a radial kernel and Platt's probabilities; strange is a low decision value."""
    tuned = _tuned(SVC(), {"C": [1, 10, 100], "gamma": [0.1, 0.3, 1.0, 3.0]}, rows, labels)
    model = CalibratedClassifierCV(tuned, ensemble=False, cv=_folds(labels)).fit(rows, labels)
    return Answers(model.predict_proba(queries), -tuned.decision_function(queries).max(1))


def logistic(rows: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> Answers:
    """Logistic regression; strange is an unsure answer."""
    model = LogisticRegression(max_iter=2000)
    best = _tuned(model, {"C": [0.1, 1, 10, 100, 1000]}, rows, labels, scoring="neg_log_loss")
    probabilities = best.predict_proba(queries)
    return Answers(probabilities, -probabilities.max(1))


def prototypes(rows: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> Answers:
    """Class means, softmax of squared distances; the temperature is chosen by leave-one-out, as in the memory."""
    member = labels == np.unique(labels)[:, None]
    means, counts = member @ rows / member.sum(1, keepdims=True), member.sum(1)
    # without row i, the mean of its class moves away from it by 1/(n − 1) of their difference
    left_out = _squares(rows, means) * np.where(member.T, np.square(counts / np.maximum(counts - 1, 1)), 1.0)
    costs = [-np.log((_softmax(-t * left_out) * member.T).sum(1).clip(1e-300)).mean() for t in TEMPERATURES]
    squares = _squares(queries, means)
    return Answers(_softmax(-TEMPERATURES[np.argmin(costs)] * squares), squares.min(1))


def mahalanobis(rows: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> Answers:
    """Linear discriminants with a shrunk covariance; strange is far from every mean in its metric."""
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(rows, labels)
    residuals = rows - model.means_[np.searchsorted(model.classes_, labels)]
    inverse = LedoitWolf(assume_centered=True).fit(residuals).precision_
    gaps = queries[:, None] - model.means_
    return Answers(model.predict_proba(queries), np.einsum("nci,ij,ncj->nc", gaps, inverse, gaps, optimize=True).min(1))


RIVALS: dict[str, Method] = {
    "nearest neighbors": neighbors,
    "SVM (RBF)": svm,
    "logistic regression": logistic,
    "prototypes": prototypes,
    "Mahalanobis": mahalanobis,
}


def _tuned(model: object, grid: dict[str, list[float]], rows: np.ndarray, labels: np.ndarray, **options: str) -> object:
    """The model with the best setting of a grid by cross-validation, fitted on all rows."""
    folds = _folds(labels)
    if "n_neighbors" in grid:
        grid = {
            "n_neighbors": [k for k in grid["n_neighbors"] if k <= len(rows) * (folds.n_splits - 1) // folds.n_splits]
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some settings of a grid do not converge, and are not chosen
        return GridSearchCV(model, grid, cv=folds, **options).fit(rows, labels).best_estimator_


def _folds(labels: np.ndarray) -> StratifiedKFold:
    return StratifiedKFold(min(5, int(np.unique(labels, return_counts=True)[1].min())), shuffle=True, random_state=0)


def _squares(x: np.ndarray, means: np.ndarray) -> np.ndarray:
    return np.square(x[:, None] - means).sum(-1)


def _softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))
