"""Moments of neighbourhoods within classes, the covariance kernels they make, and the choice of their width.

Rows are compared with rows of their own class only. The kernel of row k has the covariance

    Sigma_k = (1 - b) C_k + b C,        C the mean of the covariances C_k of all classes, shrunk:

a class of few rows borrows its shape from the others. With 0 neighbours, C_k is the shrunk covariance of the class.
"""

from __future__ import annotations

import math

import numpy as np

from .._backend.arrays import Array
from .._backend.parallel import Shared
from .._backend.progress import Progress
from ..core.neighbors import k_nearest
from .covariance import CovarianceKernels
from .neighborhoods import (
    FLOOR,
    MAX_HELD_OUT,
    N_USUAL_STEPS,
    NEIGHBOURS,
    Likelihoods,
    Width,
    ascend,
    log_kernels,
    mixture_log_density,
)

MIN_CLASS = 8
"""Rows of a class, below which its kernels have the covariance that is common to all classes."""
FOLDS = 5
N_BLOCKS = 32
"""Draws of a one-hot block by which the probability of a class is estimated."""

Kernels = tuple[Array, Array, Array]
"""Means (k, d), roots (k, d, d) or (1, d, d), and log weights (k,) of the kernels of a class."""


class ClassMoments:
    """Moments of rows (K, d) that weigh w (K,), within their classes (K,), 0 to C − 1."""

    def __init__(self, rows: Array, classes: Array, neighbours: int, w: Array) -> None:
        K, d = rows.shape
        self.members = [np.flatnonzero(classes == c) for c in range(int(classes.max()) + 1)]
        self.rows, self.weights = rows, w
        self.centres, self.local = np.empty((K, d)), []
        spread = np.empty((K, d))
        for own in self.members:
            share = w[own] / w[own].sum()
            spread[own] = rows[own] - share @ rows[own]
        self.variance = w @ np.square(spread)
        shrunk, shrinkage = _shrunk(spread * np.sqrt(K * w)[:, None])
        inner = np.zeros((d, d))
        for own in self.members:
            local = self._within(own, neighbours, spread[own])
            self.local.append(local)
            inner += np.einsum("k,kij->ij", w[own], local) if len(local) > 1 else w[own].sum() * local[0]
        near = 0 < neighbours < K
        self.pooled = (1 - shrinkage) * inner + shrinkage * np.trace(inner) / d * np.eye(d) if near else shrunk

    def _within(self, own: Array, neighbours: int, spread: Array) -> Array:
        """Covariances near the rows `own` of a class, (k, d, d) or (1, d, d); sets their centres."""
        rows, w = self.rows[own], self.weights[own] / self.weights[own].sum()
        if not 0 < neighbours < len(own):
            self.centres[own] = w @ rows
            return _shrunk(spread * np.sqrt(len(own) * w)[:, None])[0][None]
        local = np.empty((len(own), rows.shape[1], rows.shape[1]))
        for k, j in enumerate(k_nearest(rows, neighbours)):
            share = w[j] / w[j].sum()
            centre = share @ rows[j]
            gaps = rows[j] - centre
            self.centres[own[k]], local[k] = centre, (share[:, None] * gaps).T @ gaps
        return local

    def kernels(self, width: Width) -> list[Kernels]:
        """The kernels of each class."""
        least = FLOOR * max(float(self.variance.mean()), 1e-12)
        floor, found = least * np.eye(self.rows.shape[1]), []
        for own, local in zip(self.members, self.local, strict=True):
            w = self.weights[own] / self.weights[own].sum()
            b = width.pooled if len(own) >= MIN_CLASS else 1.0
            mixed = (1 - b) * local + b * self.pooled + floor if b < 1 else (self.pooled + floor)[None]
            roots = np.linalg.cholesky(width.noise * mixed)
            inner = np.square(roots).sum(2)
            inner = w @ inner if len(inner) > 1 else inner[0]
            means = self.centres[own] + math.sqrt(1 - width.noise) * (self.rows[own] - self.centres[own])
            mean = w @ self.rows[own]
            means = means - w @ means
            wanted = w @ np.square(self.rows[own] - mean) if len(own) >= MIN_CLASS else self.variance
            scale = np.sqrt((wanted + least) / (inner + w @ np.square(means)))
            found.append((mean + means * scale, scale[:, None] * roots, np.log(w)))
        return found


def _shrunk(spread: Array) -> tuple[Array, float]:
    """Ledoit and Wolf's covariance of centred rows (k, d), and its shrinkage."""
    from sklearn.covariance import ledoit_wolf

    if len(spread) == 1:
        return np.zeros((spread.shape[1],) * 2), 0.0
    covariance, shrinkage = ledoit_wolf(spread, assume_centered=True)
    return np.atleast_2d(covariance), float(shrinkage)


def folds_of(classes: Array) -> list[Array]:
    """Left-out rows of each fold, every class spread evenly over the folds; a class of one row is never left out."""
    order = np.random.default_rng(0).permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    counts = np.bincount(classes)
    order = order[counts[classes[order]] > 1]
    return [part for i in range(FOLDS) if len(part := np.sort(order[i::FOLDS]))]


def log_likelihoods(fitted: list[Kernels], rows: Array, classes: Array) -> Array:
    """log p(row | class) of rows (n, d): (n,)."""
    out = np.empty(len(rows))
    for c in np.unique(classes).tolist():
        own = np.flatnonzero(classes == c)
        out[own] = mixture_log_density(rows[own], *fitted[c])
    return out


class ClassFolds:
    """Folds of rows (K, d) of classes (K,), each left out in turn, by which widths are scored."""

    def __init__(self, rows: Array, classes: Array) -> None:
        folds = folds_of(classes)
        self.rows, self.classes = rows, classes
        self.left_out = folds[: math.ceil(MAX_HELD_OUT * len(folds) / len(rows))]
        self.stored = [np.delete(np.arange(len(rows)), part) for part in self.left_out]
        self._moments: dict[int, list[ClassMoments]] = {}

    def _moments_of(self, neighbours: int) -> list[ClassMoments]:
        if neighbours not in self._moments:
            self._moments[neighbours] = [
                ClassMoments(self.rows[s], self.classes[s], neighbours, np.full(len(s), 1 / len(s)))
                for s in self.stored
            ]
        return self._moments[neighbours]

    def likelihood(self, width: Width) -> float:
        """The log likelihood of left-out rows given their classes, summed over the folds."""
        total = 0.0
        for i, moments in zip(self.left_out, self._moments_of(width.neighbours), strict=True):
            try:
                total += float(log_likelihoods(moments.kernels(width), self.rows[i], self.classes[i]).sum())
            except np.linalg.LinAlgError:
                return -math.inf
        return total


def choose_class_width(rows: Array, classes: Array) -> Width:
    """The width under which left-out rows (K, d) are likeliest given their classes (K,)."""
    largest = int(np.bincount(classes).max()) * (FOLDS - 1) // FOLDS
    with Progress(N_USUAL_STEPS, "choosing a width") as progress:
        likelihood = Likelihoods(Shared(ClassFolds(rows, classes)), progress)
        best = ascend(Width(0.7, 0.5, 0), (0,), likelihood)
        possible = tuple(m for m in NEIGHBOURS if m < largest)
        if possible:
            start = Width(0.7, 0.5, min(12, possible[-1]))
            best = likelihood.likeliest([best, ascend(start, possible, likelihood)])
    return best


def log_density_of_class(kernels: CovarianceKernels, x: Array, classes: Array, C: int) -> Array:
    """log p(x, class) of rows (n, d − C) under kernels whose last C features are the block of the class: (n,).

    The class is the largest feature of the block, whose law given x is normal; its probability is averaged over
    N_BLOCKS draws of the block for each kernel.
    """
    from scipy.linalg.lapack import dtrtrs

    d = x.shape[1]
    noise = np.random.default_rng(0).standard_normal((N_BLOCKS, C))
    log_density = log_kernels(x, kernels.means[:, :d], kernels.roots[:, :d, :d])
    log_class = np.empty_like(log_density)
    for k, mean in enumerate(kernels.means):
        root = kernels.roots[k if len(kernels.roots) > 1 else 0]
        white, _ = dtrtrs(root[:d, :d], (x - mean[:d]).T, lower=1)
        block = (mean[d:, None] + root[d:, :d] @ white).T[:, None] + noise @ root[d:, d:].T
        met = (np.argmax(block, axis=2) == classes[:, None]).sum(1)
        log_class[:, k] = np.log((met + 0.5) / (N_BLOCKS + 0.5 * C))
    return np.logaddexp.reduce(log_density + log_class + kernels.log_weights, axis=1)
