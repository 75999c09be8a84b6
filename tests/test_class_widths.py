"""Kernels within classes: their moments, the rows that are left out, and the density of a class, by brute force."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf

from stochattn.generators.class_widths import (
    FOLDS,
    MIN_CLASS,
    ClassFolds,
    ClassMoments,
    folds_of,
    log_density_of_class,
    log_likelihoods,
)
from stochattn.generators.neighborhoods import FLOOR, Width, mixture_log_density


def made(sizes=(30, 20, MIN_CLASS, MIN_CLASS - 1), d=3, seed=0):
    """Rows of classes of these sizes, each with its own mean and covariance, in random order; and their weights."""
    rng = np.random.default_rng(seed)
    rows = [rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + 3 * rng.standard_normal(d) for n in sizes]
    classes, order = np.repeat(np.arange(len(sizes)), sizes), rng.permutation(sum(sizes))
    w = rng.uniform(0.5, 1.5, sum(sizes))
    return np.concatenate(rows)[order], classes[order], w / w.sum()


def spread_of(rows, classes, w):
    """Rows without the mean of their class."""
    means = np.array([np.average(rows[classes == c], axis=0, weights=w[classes == c]) for c in np.unique(classes)])
    return rows - means[classes]


def correlations(covariance):
    deviations = np.sqrt(np.diagonal(covariance))
    return covariance / np.outer(deviations, deviations)


def test_without_neighbours_covariances_are_those_of_ledoit_and_wolf():
    rows, classes, w = made()
    moments, spread = ClassMoments(rows, classes, 0, w), spread_of(rows, classes, w)
    np.testing.assert_allclose(moments.variance, w @ np.square(spread))
    scaled = spread * np.sqrt(len(rows) * w)[:, None]
    np.testing.assert_allclose(moments.pooled, ledoit_wolf(scaled, assume_centered=True)[0])
    for c in range(4):
        own = classes == c
        scaled = spread[own] * np.sqrt(own.sum() * w[own] / w[own].sum())[:, None]
        np.testing.assert_allclose(moments.local[c], ledoit_wolf(scaled, assume_centered=True)[0][None])
        np.testing.assert_allclose(moments.centres[own], (rows - spread)[own])


def test_a_single_row_has_no_covariance_and_two_rows_have_one():
    rows, classes, w = made(sizes=(20, 2, 1))
    moments = ClassMoments(rows, classes, 0, w)
    assert moments.local[1].any()
    np.testing.assert_array_equal(moments.local[2], np.zeros((1, 3, 3)))


@pytest.mark.parametrize("neighbours", [5, MIN_CLASS - 1])
def test_covariances_near_a_row_are_those_of_its_neighbours_in_the_class(neighbours):
    """A class that has no more rows than that has one covariance."""
    rows, classes, w = made()
    moments, spread = ClassMoments(rows, classes, neighbours, w), spread_of(rows, classes, w)
    inner = np.zeros((3, 3))
    for c in range(4):
        own = np.flatnonzero(classes == c)
        if len(own) <= neighbours:
            assert moments.local[c].shape == (1, 3, 3)
            inner += w[own].sum() * moments.local[c][0]
            continue
        for k, row in enumerate(own):
            near = own[np.argsort(np.linalg.norm(rows[own] - rows[row], axis=1))[:neighbours]]
            expected = np.cov(rows[near].T, aweights=w[near], ddof=0)
            np.testing.assert_allclose(moments.local[c][k], expected, rtol=1e-9)
            np.testing.assert_allclose(moments.centres[row], np.average(rows[near], axis=0, weights=w[near]))
            inner += w[row] * expected
    shrinkage = ledoit_wolf(spread * np.sqrt(len(rows) * w)[:, None], assume_centered=True)[1]
    expected = (1 - shrinkage) * inner + shrinkage * np.trace(inner) / 3 * np.eye(3)
    np.testing.assert_allclose(moments.pooled, expected, rtol=1e-9)


@pytest.mark.parametrize("width", [Width(0.6, 0.3, 0), Width(0.6, 0.3, 5), Width(0.4, 1.0, 5)])
def test_kernels_keep_the_mean_and_the_variance_of_their_class(width):
    """A class of fewer than eight rows has the variance within all classes."""
    rows, classes, w = made()
    moments = ClassMoments(rows, classes, width.neighbours, w)
    for c, (means, roots, log_weights) in enumerate(moments.kernels(width)):
        own = classes == c
        share = w[own] / w[own].sum()
        np.testing.assert_allclose(np.exp(log_weights), share)
        np.testing.assert_allclose(share @ means, share @ rows[own], atol=1e-12)
        within = np.broadcast_to(np.square(roots).sum(2), means.shape)
        variance = share @ (np.square(means - share @ means) + within)
        expected = moments.variance if c == 3 else share @ np.square(rows[own] - share @ rows[own])
        np.testing.assert_allclose(variance, expected + FLOOR * moments.variance.mean(), rtol=1e-9)


@pytest.mark.parametrize("neighbours", [0, 5])
def test_kernels_mix_the_covariance_of_their_class_with_the_common_one(neighbours):
    rows, classes, w = made()
    moments, width = ClassMoments(rows, classes, neighbours, w), Width(0.6, 0.3, neighbours)
    for c, (_, roots, _) in enumerate(moments.kernels(width)):
        b = 0.3 if (classes == c).sum() >= MIN_CLASS else 1.0
        mixed = (1 - b) * moments.local[c] + b * moments.pooled + FLOOR * moments.variance.mean() * np.eye(3)
        for root, expected in zip(roots, mixed[: len(roots)], strict=True):
            np.testing.assert_allclose(correlations(root @ root.T), correlations(expected), rtol=1e-6)
        assert len(roots) == (len(moments.local[c]) if b < 1 else 1)


def test_means_are_drawn_towards_the_neighbours():
    """Centres of neighbours, and what is left of the distances from them, up to a shift and a scale by column."""
    rows, classes, w = made()
    moments = ClassMoments(rows, classes, 5, w)
    for c, (means, _, _) in enumerate(moments.kernels(Width(0.6, 0.3, 5))):
        own = classes == c
        expected = moments.centres[own] + np.sqrt(0.4) * (rows[own] - moments.centres[own])
        for column in range(3):
            assert np.corrcoef(means[:, column], expected[:, column])[0, 1] == pytest.approx(1, abs=1e-9)


def test_folds_spread_each_class_evenly_and_leave_single_rows_stored():
    classes = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 3], [23, 9, 2, 1]))
    folds = folds_of(classes)
    assert len(folds) == FOLDS
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.flatnonzero(classes != 3))
    counts = np.array([np.bincount(classes[fold], minlength=4) for fold in folds])
    assert (np.ptp(counts, axis=0) <= 1).all()


@pytest.mark.parametrize("neighbours", [0, 5])
def test_widths_are_scored_by_left_out_rows_given_their_classes(neighbours):
    rows, classes, _ = made(sizes=(30, 20))
    width, total = Width(0.6, 0.3, neighbours), 0.0
    for fold in folds_of(classes):
        stored = np.setdiff1d(np.arange(50), fold)
        moments = ClassMoments(rows[stored], classes[stored], neighbours, np.full(len(stored), 1 / len(stored)))
        kernels = moments.kernels(width)
        total += sum(float(mixture_log_density(rows[[i]], *kernels[classes[i]])[0]) for i in fold)
        np.testing.assert_allclose(
            log_likelihoods(kernels, rows[fold], classes[fold]).sum(),
            sum(float(mixture_log_density(rows[[i]], *kernels[classes[i]])[0]) for i in fold),
        )
    assert ClassFolds(rows, classes).likelihood(width) == pytest.approx(total, rel=1e-9)


class Kernels:
    """Two kernels in five dimensions, the last three of which are the block of a class."""

    rng = np.random.default_rng(1)
    means = np.array([[0.0, 1.0, 9.0, 0.0, 0.0], [2.0, -1.0, 0.3, 0.2, 0.0]])
    roots = np.tril(rng.uniform(0.2, 0.6, (2, 5, 5)))
    log_weights = np.log([0.3, 0.7])


def test_the_densities_of_all_classes_add_up_to_that_of_the_other_features():
    x = np.random.default_rng(2).standard_normal((20, 2))
    by_class = [log_density_of_class(Kernels, x, np.full(20, c), 3) for c in range(3)]
    covariances = Kernels.roots @ Kernels.roots.swapaxes(1, 2)
    pairs = zip(Kernels.means, covariances, Kernels.log_weights, strict=True)
    expected = logsumexp([w + multivariate_normal(m[:2], C[:2, :2]).logpdf(x) for m, C, w in pairs], axis=0)
    np.testing.assert_allclose(logsumexp(by_class, axis=0), expected)
    near = np.array([[0.0, 1.0]])  # the first kernel, whose class is the first of three but for one draw in 2 · 33.5
    shares = np.exp([log_density_of_class(Kernels, near, np.array([c]), 3)[0] for c in range(3)])
    assert shares[0] > 0.5 * shares.sum()
