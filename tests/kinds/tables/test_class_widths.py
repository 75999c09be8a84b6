"""Widths within classes: how many neighbors are tried, and the density of rows with their class in closed form."""

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from stochattn.kinds.tables.generator import classes as class_widths
from stochattn.kinds.tables.generator import neighborhoods
from stochattn.kinds.tables.generator.classes import log_density_of_class
from stochattn.kinds.tables.generator.covariance import CovarianceKernels
from stochattn.kinds.tables.generator.neighborhoods import KernelParams, choose_class_width

SIZES = (2, 2)
"""Two one-hot blocks of two values each, after two numbers."""


def kernels(n_roots):
    """Two kernels of six features, with covariances of their own or one for both."""
    rng = np.random.default_rng(0)
    roots = np.tril(rng.normal(size=(n_roots, 6, 6)) / 2)
    roots[:, np.arange(6), np.arange(6)] = rng.uniform(0.5, 1.5, (n_roots, 6))
    return CovarianceKernels(rng.normal(size=(2, 6)), roots, np.log([0.3, 0.7]), KernelParams(0.5, 0.5, 0))


def exact(law, x, codes):
    """log p(x, class): in each block, the difference of the two features, given x, has the sign of the class."""
    signs = np.where(np.asarray(codes) == 0, -1.0, 1.0)
    differences = np.array([[0, 0, 1.0, -1.0, 0, 0], [0, 0, 0, 0, 1.0, -1.0]]) * signs[:, None]  # below 0 in the class
    total = 0.0
    for k, (mean, log_weight) in enumerate(zip(law.means, law.log_weights, strict=True)):
        root = law.roots[min(k, len(law.roots) - 1)]
        covariance = root @ root.T
        gain = covariance[:, :2] @ np.linalg.inv(covariance[:2, :2])
        given, left = mean + gain @ (x - mean[:2]), covariance - gain @ covariance[:2]
        inside = multivariate_normal(differences @ given, differences @ left @ differences.T).cdf(np.zeros(2))
        total += np.exp(log_weight) * multivariate_normal(mean[:2], covariance[:2, :2]).pdf(x) * inside
    return np.log(total)


@pytest.mark.parametrize("n_roots", [1, 2], ids=["one covariance", "two covariances"])
def test_the_density_of_a_class_is_that_of_its_blocks_given_the_numbers(n_roots, monkeypatch):
    """20,000 draws of the blocks have a standard error of at most 2 % for probabilities above 0.1."""
    monkeypatch.setattr(class_widths, "N_BLOCKS", 20_000)
    law, x = kernels(n_roots), np.random.default_rng(1).normal(size=(3, 2))
    compared = 0
    for codes in itertools.product(range(2), repeat=2):
        found = log_density_of_class(law, x, np.tile(codes, (3, 1)), SIZES)
        whole = law.log_density_of(np.eye(6)[:2], x)
        for row in range(3):
            expected = exact(law, x[row], codes)
            if expected > whole[row] + np.log(0.1):
                assert found[row] == pytest.approx(expected, abs=0.08)
                compared += 1
    assert compared >= 5


@pytest.mark.parametrize("n_roots", [1, 2], ids=["one covariance", "two covariances"])
def test_densities_of_all_classes_add_up_to_that_of_the_numbers(n_roots):
    law, x = kernels(n_roots), np.random.default_rng(1).normal(size=(5, 2))
    found = [log_density_of_class(law, x, np.tile(codes, (5, 1)), SIZES) for codes in itertools.product((0, 1), (0, 1))]
    np.testing.assert_allclose(np.logaddexp.reduce(found, axis=0), law.log_density_of(np.eye(6)[:2], x))
    assert np.isfinite(found).all()  # of a class that no draw of the blocks has, too


@pytest.mark.parametrize(
    ("sizes", "expected"), [((30, 6), 20), ((64, 6), 50), ((6, 5), 0), ((10, 6), 5), ((11, 11), 5)]
)
def test_as_many_neighbors_are_tried_as_the_largest_class_has_in_training_folds(sizes, expected, monkeypatch):
    """More neighbors are likelier here. A class of 30 rows has 24 outside a fold, and 20 of them are the most."""
    monkeypatch.setattr(neighborhoods.Folds, "likelihood", lambda self, width: float(width.neighbors))
    classes = np.repeat([0, 1], sizes)
    found = choose_class_width(np.random.default_rng(0).normal(size=(len(classes), 2)), classes)
    assert found == KernelParams(0.7, 0.5, expected)


def test_the_width_is_no_less_likely_than_its_neighbors_on_the_grid():
    """Two classes, each of two clusters: the likelihood of left-out rows, fold by fold, given their class."""
    rng = np.random.default_rng(2)
    classes = np.repeat([0, 1], 30)
    rows = rng.normal(size=(60, 2)) * [1.0, 0.1] + 4.0 * rng.integers(0, 2, (60, 1)) + classes[:, None]
    chosen, folds = choose_class_width(rows, classes), neighborhoods.Folds(rows, classes)
    best = folds.likelihood(chosen)
    for field, grid in zip(
        KernelParams._fields, (neighborhoods.NOISE, neighborhoods.POOLED, (5, 8, 12, 20)), strict=True
    ):
        at = grid.index(getattr(chosen, field))
        for to in {max(at - 1, 0), min(at + 1, len(grid) - 1)}:
            assert folds.likelihood(chosen._replace(**{field: grid[to]})) <= best
    assert folds.likelihood(KernelParams(0.7, 0.5, 0)) < best


def test_each_class_has_its_own_covariance_unless_it_has_few_rows():
    """Columns rise together in class 0 and against each other in class 1; class 2 has seven rows, and all alike."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(47, 1))
    rows = np.column_stack([x, np.repeat([1.0, -1.0, 1.0], (20, 20, 7)) * x[:, 0]]) + 0.1 * rng.normal(size=(47, 2))
    weights = rng.dirichlet(np.ones(47))
    moments = neighborhoods.Moments(rows, 0, weights, np.repeat([0, 1, 2], (20, 20, 7)))
    found = moments.kernels(KernelParams(0.5, 0.0, 0))
    correlations = [c[0, 1] / np.sqrt(c[0, 0] * c[1, 1]) for c in (k.roots[0] @ k.roots[0].T for k in found)]
    assert correlations[0] > 0.9
    assert correlations[1] < -0.9
    assert abs(correlations[2]) < 0.9
    for c, own in enumerate((slice(0, 20), slice(20, 40), slice(40, 47))):
        w = weights[own] / weights[own].sum()
        np.testing.assert_allclose(np.exp(found[c].log_weights), w)
        np.testing.assert_allclose(w @ found[c].means, w @ rows[own])


def test_a_class_of_one_row_is_never_left_out_and_the_others_are_spread_over_the_folds():
    classes = np.repeat([0, 1, 2], (10, 1, 5))
    folds = neighborhoods.folds_of(classes)
    assert sorted(np.concatenate(folds).tolist()) == [*range(10), *range(11, 16)]
    assert [np.bincount(classes[fold], minlength=3).tolist() for fold in folds] == [[2, 0, 1]] * 5


def test_part_of_the_rows_is_chosen_by_weight_and_class_and_its_kernels_have_the_moments_of_all():
    rng = np.random.default_rng(5)
    classes = np.repeat([0, 1, 2], (2000, 995, 5))
    weights = np.where(np.arange(3000) % 2, 3.0, 1.0) / 6000
    rows = rng.normal(size=(3000, 2)) @ [[1.0, 0.8], [0.0, 0.3]] + classes[:, None]
    chosen = neighborhoods.choose_memories(weights, 300, classes)
    for c, n in enumerate((200, 100, 5)):
        members = chosen.rows[classes[chosen.rows] == c]
        assert 0.9 * n <= len(members) <= n  # one that is chosen twice counts twice
        total = chosen.weights[classes[chosen.rows] == c].sum()
        np.testing.assert_allclose(total, weights[classes == c].sum())
    assert 0.65 < (chosen.rows[chosen.rows < 2995] % 2).mean() < 0.85  # three of four, by weight
    moments = neighborhoods.Moments(rows, 20, weights, classes, chosen)
    for c, kernels in enumerate(moments.kernels(KernelParams(0.5, 0.3, 20))[:2]):
        own, w = rows[classes == c], weights[classes == c] / weights[classes == c].sum()
        shares = np.exp(kernels.log_weights)
        np.testing.assert_allclose(shares @ kernels.means, w @ own)
        spread = shares @ (np.square(kernels.means - w @ own) + np.square(kernels.roots).sum(2))
        np.testing.assert_allclose(spread, w @ np.square(own - w @ own), rtol=1e-4)
