"""Measures of generated images against images that were not stored: two-sample tests, copies, and likelihood."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..data import Data
from ..results import Measured

N_PERMUTATIONS = 200
FIRST_HELD_OUT = 3500  # the paper stores at most this many images of digit 3

Array = Any


@dataclass(frozen=True, eq=False)
class Split:
    """Unit rows of one digit, all different.

    held_out:   for the tests
    validation: to choose a bandwidth with
    others:     judged like generated rows, to show what real images reach
    """

    stored: Array
    held_out: Array
    validation: Array
    others: Array


def split(data: Data, digit: int, n_stored: int) -> Split:
    """The first n_stored images of a digit; those beyond the first 3,500, which no experiment stores, are held out.

    A file with fewer images is divided in halves, with n_stored images at most.
    """
    n = data.n_digits(digit)
    rows = data.digits(digit, n).patterns
    first = FIRST_HELD_OUT if n > FIRST_HELD_OUT + 200 else n // 2
    rest = rows[first:]
    return Split(rows[: min(n_stored, first)], rest[::2], rest[1::4], rest[3::4])


def squared_distances(a: Array, b: Array) -> Array:
    """(n, d), (m, d) -> (n, m)."""
    found = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    return np.maximum(found, 0)


def nearest_neighbour_accuracy(made: Array, real: Array) -> tuple[float, float, float]:
    """Accuracy of a 1-nearest-neighbour classifier, leave-one-out: overall, on made rows, on real rows.

    All three are 0.5 if both come from one law. The overall value can be 0.5 for other laws too: a noisy row is closer
    to real rows than to other noisy rows, so the accuracy is 0 on made rows and 1 on real ones. Among equal distances a
    neighbour of the other kind wins, so exact duplicates do not help the classifier.
    """
    n = min(len(made), len(real))
    rows = np.concatenate([made[:n], real[:n]])
    kind = np.arange(2 * n) < n
    distances = squared_distances(rows, rows)
    np.fill_diagonal(distances, np.inf)
    same = kind[:, None] == kind[None]
    nearest_same = np.where(same, distances, np.inf).min(1)
    nearest_other = np.where(same, np.inf, distances).min(1)
    right = nearest_same < nearest_other
    return float(right.mean()), float(right[:n].mean()), float(right[n:].mean())


def discrepancy(made: Array, real: Array, seed: int) -> tuple[float, float]:
    """The squared maximum mean discrepancy (Gaussian kernel, median width of real rows) and its permutation p-value."""
    n = min(len(made), len(real))
    rows = np.concatenate([made[:n], real[:n]])
    distances = squared_distances(rows, rows)
    width = float(np.median(distances[n:, n:][np.triu_indices(n, 1)]))
    kernel = np.exp(-distances / width)
    np.fill_diagonal(kernel, 0)
    rng = np.random.default_rng(seed)

    def value(sign: Array) -> float:
        """The unbiased estimate: means within kinds without the diagonal, minus those between kinds."""
        first = sign > 0
        within = kernel[np.ix_(first, first)].sum() + kernel[np.ix_(~first, ~first)].sum()
        between = kernel[np.ix_(first, ~first)].sum()
        return float(within / (n * (n - 1)) - 2 * between / n**2)

    sign = np.where(np.arange(2 * n) < n, 1, -1)
    found = value(sign)
    others = [value(rng.permutation(sign)) for _ in range(N_PERMUTATIONS)]
    return found, (1 + sum(other >= found for other in others)) / (1 + N_PERMUTATIONS)


def train_proximity(made: Array, stored: Array, held_out: Array, seed: int) -> float:
    """Share of made rows that are closer to a stored row than to any of as many held-out rows; 0.5 without copying."""
    n = min(len(stored), len(held_out))
    rng = np.random.default_rng(seed)
    first = stored[rng.choice(len(stored), n, replace=False)] if n < len(stored) else stored
    second = held_out[rng.choice(len(held_out), n, replace=False)]
    return float((squared_distances(made, first).min(1) < squared_distances(made, second).min(1)).mean())


def copies(made: Array, stored: Array, real: Array) -> float:
    """Share of made rows that are much closer to one stored row than to all others, with or without noise.

    The ratio of the distances to the nearest and the second-nearest stored row must be below that of 99 % of real rows,
    so the share is 0.01 without copying.
    """
    return float((_ratios(made, stored) < np.quantile(_ratios(real, stored), 0.01)).mean())


def _ratios(rows: Array, stored: Array) -> Array:
    nearest = np.sqrt(np.partition(squared_distances(rows, stored), 1, axis=1)[:, :2])
    return nearest[:, 0] / np.maximum(nearest[:, 1], 1e-12)


def kernel_log_likelihood(centres: Array, beta: float, rows: Array) -> Array:
    """log density (n,) of rows under the mixture of N(centre, I/beta) with equal weights."""
    d = rows.shape[1]
    logits = -beta / 2 * squared_distances(rows, centres)
    return logsumexp(logits, axis=1) - math.log(len(centres)) + d / 2 * math.log(beta / (2 * math.pi))


def best_bandwidth(centres: Array, validation: Array) -> float:
    """The beta that maximises the mean log-likelihood of validation rows, by golden-section search in log beta."""
    low, high = math.log(10.0), math.log(1e7)
    squared = squared_distances(validation, centres)
    d = validation.shape[1]

    def loss(log_beta: float) -> float:
        beta = math.exp(log_beta)
        return float(-logsumexp(-beta / 2 * squared, axis=1).mean() - d / 2 * log_beta)

    golden = (math.sqrt(5) - 1) / 2
    for _ in range(40):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    return math.exp((low + high) / 2)


def mean_and_error(values: Array) -> Measured:
    """The mean of independent values with its standard error."""
    return Measured(float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values))))


def unit(rows: Array) -> Array:
    """Rows with unit norm."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)


ACCURACY, ACCURACY_UNIT, DEVIATION = "1-NN accuracy", "1-NN accuracy, unit norm", "1-NN deviation"
OF_MADE, OF_REAL, COPIES, PROXIMITY = "of made", "of real", "copies", "train proximity"


def judged(sets: Sequence[Array], parts: Split, seed: int) -> dict[str, Measured]:
    """The columns that any method has: two-sample tests, copies, and the likelihood of a kernel density of its samples.

    sets: independent sets of samples (n, d); values are means over the sets
    """
    columns: dict[str, list[float]] = {}
    for number, made in enumerate(sets):
        real = parts.held_out[np.random.default_rng([seed, number]).permutation(len(parts.held_out))]
        overall, on_made, on_real = nearest_neighbour_accuracy(made, real)
        value, p = discrepancy(made, real, seed + number)
        beta = best_bandwidth(made, parts.validation)
        for name, x in {
            ACCURACY: overall,
            OF_MADE: on_made,
            OF_REAL: on_real,
            DEVIATION: max(abs(on_made - 0.5), abs(on_real - 0.5)),
            ACCURACY_UNIT: nearest_neighbour_accuracy(unit(made), real)[0],
            "MMD² × 1000": 1000 * value,
            "p of MMD²": p,
            PROXIMITY: train_proximity(made, parts.stored, parts.held_out, seed + number),
            COPIES: copies(made, parts.stored, np.concatenate([parts.held_out, parts.validation])),
            "kernel log-likelihood": float(kernel_log_likelihood(made, beta, parts.held_out).mean()),
        }.items():
            columns.setdefault(name, []).append(x)
    return {name: _over_sets(values) for name, values in columns.items()}


def _over_sets(values: list[float]) -> Measured:
    n = len(values)
    error = float(np.std(values, ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return Measured(float(np.mean(values)), error)


MEASURES = (
    "1-NN accuracy: of a leave-one-out nearest-neighbour classifier between generated and as many held-out images; of "
    "made, of real: on either kind alone. All are 0.5 if both come from one law. The overall value alone can mislead: "
    "noisy images are closer to real ones than to each other, so both errors cancel. The deviation is the larger of "
    "|of made − 0.5| and |of real − 0.5|, from 0 to 0.5. Unit norm: generated rows divided by their norm first, which "
    "removes the norm as a clue. MMD²: squared maximum mean discrepancy with a Gaussian kernel of "
    f"median width, and its p-value over {N_PERMUTATIONS} permutations. Train proximity: the share of generated images "
    "closer to a stored image than to any of as many held-out ones, 0.5 without copying; if more images are stored "
    "than held out, some stored ones are chosen, and copies of the others go unnoticed. Copies: the share of generated "
    "images whose ratio of the distances to the nearest and the second-nearest stored image is below that of 99 % of "
    "held-out images. Kernel log-likelihood: mean "
    "log density in nats of held-out images under Gaussian kernels at the generated images, with the bandwidth chosen "
    "on other images."
)
