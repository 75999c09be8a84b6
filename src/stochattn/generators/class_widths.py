"""The width of covariance kernels within classes, and the likelihood of classes under kernels around all rows.

Rows are compared with rows of their own class only. The kernel of row k has the covariance

    Sigma_k = (1 - b) C_k + b C,        C the mean of the covariances C_k of all classes, shrunk:

a class of few rows borrows its shape from the others. With 0 neighbours, C_k is the shrunk covariance of the class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._backend.arrays import Array
from .._backend.parallel import Shared
from .._backend.progress import Progress
from .covariance import CovarianceKernels
from .neighborhoods import FOLDS, N_USUAL_STEPS, NEIGHBOURS, Folds, Likelihoods, Width, ascend, log_kernels

N_BLOCKS = 32
"""Draws of one-hot blocks by which the probability of a class is estimated."""


def choose_class_width(rows: Array, classes: Array) -> Width:
    """The width under which left-out rows (K, d) are likeliest given their classes (K,)."""
    largest = int(np.bincount(classes).max()) * (FOLDS - 1) // FOLDS
    with Progress(N_USUAL_STEPS, "choosing a width") as progress:
        likelihood = Likelihoods(Shared(Folds(rows, classes)), progress)
        best = ascend(Width(0.7, 0.5, 0), (0,), likelihood)
        possible = tuple(m for m in NEIGHBOURS if m < largest)
        if possible:
            start = Width(0.7, 0.5, min(12, possible[-1]))
            best = likelihood.likeliest([best, ascend(start, possible, likelihood)])
    return best


def log_density_of_class(kernels: CovarianceKernels, x: Array, codes: Array, sizes: Sequence[int]) -> Array:
    """log p(x, class) of rows (n, d − Σ sizes) under kernels whose last features are one-hot blocks: (n,).

    sizes: of the blocks; codes (n, blocks): which value of each block a row has, its largest feature. Given x, the law
    of the blocks is normal; the probability of the class is averaged over N_BLOCKS draws of them for each kernel.
    """
    from scipy.linalg.lapack import dtrtrs

    d, n_classes = x.shape[1], int(np.prod(sizes))
    noise = np.random.default_rng(0).standard_normal((N_BLOCKS, sum(sizes)))
    log_density = log_kernels(x, kernels.means[:, :d], kernels.roots[:, :d, :d])
    log_class, ends = np.empty_like(log_density), np.cumsum(sizes).tolist()
    for k, mean in enumerate(kernels.means):
        root = kernels.roots[k if len(kernels.roots) > 1 else 0]
        white, _ = dtrtrs(root[:d, :d], (x - mean[:d]).T, lower=1)
        features = (mean[d:, None] + root[d:, :d] @ white).T[:, None] + noise @ root[d:, d:].T
        met = np.ones(features.shape[:2], dtype=bool)
        for i, (size, end) in enumerate(zip(sizes, ends, strict=True)):
            met &= np.argmax(features[:, :, end - size : end], axis=2) == codes[:, [i]]
        log_class[:, k] = np.log((met.sum(1) + 0.5) / (N_BLOCKS + 0.5 * n_classes))
    return np.logaddexp.reduce(log_density + log_class + kernels.log_weights, axis=1)
