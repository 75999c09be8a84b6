"""Covariance kernels against scipy's normal densities and rejection; widths scored with covariances refitted."""

import tracemalloc

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf

import stochattn as sa
from stochattn.kinds.tables.generator import covariance, neighborhoods
from stochattn.kinds.tables.generator.covariance import CovarianceKernels
from stochattn.kinds.tables.generator.neighborhoods import (
    SHRINKAGE,
    KernelParams,
    choose_shrinkage,
    choose_width,
    shrink_covariance,
)

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((40, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 0.7, 0.2], [0.0, 0.0, 0.2]])
WIDTH = KernelParams(0.6, 0.3, 6)


def left_out_shrinkage(rows):
    """The share of the identity under which each row, left out, is likeliest under a Gaussian of the others."""
    n, level = len(rows), np.square(rows).mean()

    def likelihood(share):
        total = 0.0
        for k in range(n):
            others = np.delete(rows, k, axis=0)
            own = (1 - share) * others.T @ others / (n - 1) + (share + 1e-6) * level * np.eye(rows.shape[1])
            total += multivariate_normal(np.zeros(rows.shape[1]), own).logpdf(rows[k])
        return total

    return max(SHRINKAGE, key=likelihood)


def brute(width=WIDTH, weights=None):
    """Means (40, 3) and covariances (40, 3, 3) of kernels, from the formula, one memory at a time."""
    w = np.full(40, 1 / 40) if weights is None else weights
    mean = w @ ROWS
    shrinkage = left_out_shrinkage((ROWS - mean) * np.sqrt(40 * w)[:, None])
    centers, inner = [], []
    for k in range(40):
        near = np.argsort(np.linalg.norm(ROWS - ROWS[k], axis=1))[: width.neighbors or 40]
        own = w[near] / w[near].sum()
        centers.append(own @ ROWS[near])
        inner.append(sum(v * np.outer(x, x) for v, x in zip(own, ROWS[near] - centers[k], strict=True)))
    pooled = np.tensordot(w, inner, 1)
    pooled = (1 - shrinkage) * pooled + shrinkage * np.trace(pooled) / 3 * np.eye(3)
    variance = w @ (ROWS - mean) ** 2
    floor = 1e-6 * variance.mean()
    b, s = (1.0, width.noise) if width.neighbors == 0 else (width.pooled, width.noise)
    covariances = np.array([s * ((1 - b) * C + b * pooled + floor * np.eye(3)) for C in inner])
    means = np.array([c + np.sqrt(1 - s) * (m - c) for m, c in zip(ROWS, centers, strict=True)])
    middle = w @ means
    total = np.tensordot(w, covariances, 1) + np.cov(means.T, aweights=w, ddof=0)
    D = np.diag(np.sqrt((variance + floor) / np.diag(total)))
    return mean + (means - middle) @ D, D @ covariances @ D


def brute_density(x, width=WIDTH, weights=None):
    means, covariances = brute(width, weights)
    weights = np.full(40, 1 / 40) if weights is None else weights
    return sum(w * multivariate_normal(m, C).pdf(x) for m, C, w in zip(means, covariances, weights, strict=True))


@pytest.mark.parametrize("width", [WIDTH, KernelParams(0.6, 1.0, 6), KernelParams(0.3, 1.0, 0)])
def test_density_agrees_with_scipy(width):
    x = RNG.standard_normal((7, 3))
    kernels = CovarianceKernels.fit(ROWS, width=width)
    np.testing.assert_allclose(kernels.log_density(x), np.log(brute_density(x, width)), rtol=1e-9)


def test_multiplicities_weight_kernels_and_moments():
    r = RNG.uniform(0.5, 3, 40)
    kernels = CovarianceKernels.fit(sa.conditioning.weight(sa.MemoryBank(ROWS), r), width=WIDTH)
    x = RNG.standard_normal((5, 3))
    np.testing.assert_allclose(kernels.log_density(x), np.log(brute_density(x, WIDTH, r / r.sum())), rtol=1e-9)


def test_kernels_of_one_shape_share_one_root():
    assert CovarianceKernels.fit(ROWS, width=KernelParams(0.3, 1.0, 0)).roots.shape == (1, 3, 3)
    assert CovarianceKernels.fit(ROWS, width=KernelParams(0.3, 1.0, 6)).roots.shape == (1, 3, 3)
    assert CovarianceKernels.fit(ROWS, width=KernelParams(0.3, 0.9, 6)).roots.shape == (40, 3, 3)


def test_neighbors_in_a_plane_leave_no_direction_without_variance():
    rows = ROWS.copy()
    rows[:, 2] = 0.5
    kernels = CovarianceKernels.fit(rows, width=KernelParams(0.5, 0.0, 4))
    assert np.isfinite(kernels.log_density(rows)).all()
    with pytest.raises(ValueError, match="width must have noise above 0"):
        CovarianceKernels.fit(ROWS, width=KernelParams(0.5, 0.0, 2.5))


def test_conditioning_weights_kernels_by_the_density_of_the_observation():
    kernels = CovarianceKernels.fit(ROWS, width=WIDTH)
    A, y = np.array([[1.0, -0.5, 0.2]]), np.array([[0.3], [2.0]])
    means, covariances = brute(WIDTH)
    expected = [
        np.log(
            np.mean([multivariate_normal(A @ m, A @ C @ A.T).pdf(v) for m, C in zip(means, covariances, strict=True)])
        )
        for v in y
    ]
    np.testing.assert_allclose(kernels.log_density_of(A, y), expected, rtol=1e-9)


def test_all_noise_among_all_memories_is_one_gaussian():
    found, shrinkage = np.cov(ROWS.T, ddof=0), left_out_shrinkage(ROWS - ROWS.mean(0))
    covariance = (1 - shrinkage) * found + shrinkage * np.trace(found) / 3 * np.eye(3)
    D = np.diag(ROWS.std(0) / np.sqrt(np.diag(covariance)))
    x = RNG.standard_normal((5, 3))
    found = CovarianceKernels.fit(ROWS, width=KernelParams(1.0, 1.0, 0)).log_density(x)
    np.testing.assert_allclose(found, multivariate_normal(ROWS.mean(0), D @ covariance @ D).logpdf(x), rtol=1e-4)


@pytest.mark.parametrize("width", [WIDTH, KernelParams(0.2, 0.1, 12), KernelParams(0.7, 1.0, 0)])
def test_columns_keep_mean_and_variance(width):
    kernels = CovarianceKernels.fit(ROWS, width=width)
    own = np.square(kernels.roots).sum(2).mean(0) + kernels.means.var(0)
    np.testing.assert_allclose(kernels.means.mean(0), ROWS.mean(0), atol=1e-12)
    np.testing.assert_allclose(own, ROWS.var(0), rtol=1e-4)


def test_draws_have_the_mixture_s_moments():
    # 100,000 draws: means within 5 standard errors, covariances within 3 % of the variance.
    x, k = CovarianceKernels.fit(ROWS, width=WIDTH).sample(100_000, np.random.default_rng(1))
    means, covariances = brute()
    assert np.all(np.abs(x.mean(0) - means.mean(0)) < 5 * x.std(0) / np.sqrt(100_000))
    total = covariances.mean(0) + np.cov(means.T, bias=True)
    np.testing.assert_allclose(np.cov(x.T), total, atol=0.03 * np.trace(total))
    own = x[k == 7] - means[7]
    np.testing.assert_allclose(own.T @ own / len(own), covariances[7], atol=0.1 * np.trace(covariances[7]))


def test_fewer_draws_are_the_first_of_more():
    kernels = CovarianceKernels.fit(ROWS, width=WIDTH)
    few, more = (kernels.sample(n, np.random.default_rng(3))[0] for n in (5, 50))
    np.testing.assert_array_equal(few, more[:5])


def test_conditional_law_agrees_with_rejection():
    # About 20,000 of 3 million joint draws are within 0.01 of the observation: means to 5 standard errors.
    kernels = CovarianceKernels.fit(ROWS, width=WIDTH)
    A, y = np.array([[1.0, -0.5, 0.3]]), np.array([0.4])
    x, k = kernels.condition(A, y).sample(40_000, np.random.default_rng(1))
    joint, memory = kernels.sample(3_000_000, np.random.default_rng(2))
    near = np.abs(joint @ A[0] - y[0]) < 0.01
    n = near.sum()
    assert n > 10_000
    assert np.abs(x @ A[0] - y[0]).max() < 1e-10
    for i in range(3):
        spread = joint[near, i].std()
        assert abs(x[:, i].mean() - joint[near, i].mean()) < 5 * spread * np.sqrt(1 / n + 1 / 40_000)
        assert x[:, i].std() == pytest.approx(spread, rel=5 / np.sqrt(n))
    shares = [np.bincount(index, minlength=40) / len(index) for index in (k, memory[near])]
    assert np.abs(shares[0] - shares[1]).max() < 5 * np.sqrt(shares[1].max() / n)


def test_the_chosen_width_is_the_likeliest_when_covariances_are_refitted():
    """By brute force over a small grid, each fold scored by kernels fitted without it."""
    rows = np.random.default_rng(5).standard_normal((24, 2)) * [1.0, 0.1]
    chosen = choose_width(rows, shape="pooled")
    order = np.random.default_rng(0).permutation(24)
    likelihood = {}
    for noise in neighborhoods.NOISE:
        total = 0.0
        for i in range(5):
            left = np.sort(order[i::5])
            kernels = CovarianceKernels.fit(np.delete(rows, left, axis=0), width=KernelParams(noise, 1.0, 0))
            total += kernels.log_density(rows[left]).sum()
        likelihood[noise] = total
    assert chosen == KernelParams(max(likelihood, key=likelihood.get), 1.0, 0)


def test_no_step_of_the_grid_is_likelier_than_the_local_width_chosen():
    rows = np.random.default_rng(5).standard_normal((60, 2)) * [1.0, 0.1]
    rows[:30] += 4
    chosen = choose_width(rows)
    order = np.random.default_rng(0).permutation(60)

    def likelihood(width):
        folds = [np.sort(order[i::5]) for i in range(5)]
        return sum(
            CovarianceKernels.fit(np.delete(rows, left, axis=0), width=width).log_density(rows[left]).sum()
            for left in folds
        )

    assert 0 < chosen.neighbors < 48  # two clusters: not one Gaussian
    best = likelihood(chosen)
    for field, grid in zip(
        KernelParams._fields, (neighborhoods.NOISE, neighborhoods.POOLED, neighborhoods.NEIGHBORS), strict=True
    ):
        at = grid.index(getattr(chosen, field))
        for to in {max(at - 1, 0), min(at + 1, len(grid) - 1)}:
            assert likelihood(chosen._replace(**{field: grid[to]})) <= best + 1e-9
    assert likelihood(KernelParams(1.0, 1.0, 0)) < best


@pytest.mark.parametrize("n_jobs", [2, 3, 7])
def test_workers_choose_the_same_width_from_the_same_likelihoods(n_jobs, monkeypatch):
    """They also try widths that a step did not need, but never one twice."""
    rows = np.random.default_rng(5).standard_normal((60, 2)) * [1.0, 0.1]
    rows[:30] += 4
    counted, real = [], neighborhoods.Folds.likelihood
    monkeypatch.setattr(
        neighborhoods.Folds, "likelihood", lambda self, width: counted.append(width) or real(self, width)
    )
    expected, alone = choose_width(rows), counted.copy()
    counted.clear()
    with joblib.parallel_config(backend="threading", n_jobs=n_jobs):
        assert choose_width(rows) == expected
    assert len(counted) == len(set(counted))
    assert set(alone) < set(counted)
    first = [KernelParams(noise, 1.0, 0) for noise in neighborhoods.NOISE][:n_jobs]
    assert set(counted[: len(first)]) == set(first)


def test_local_kernels_are_better_than_pooled_and_isotropic_ones_on_a_curve():
    angle = np.random.default_rng(6).uniform(0, 2 * np.pi, 400)
    ring = np.stack([np.cos(angle), np.sin(angle)], 1) + 0.005 * np.random.default_rng(7).standard_normal((400, 2))
    ring = np.concatenate([ring, 0.005 * np.random.default_rng(8).standard_normal((400, 3))], axis=1)
    stored, held_out = ring[:200], ring[200:]
    widths = (choose_width(stored, shape=shape) for shape in ("local", "pooled"))
    local, pooled = (CovarianceKernels.fit(stored, width=width).log_density(held_out).mean() for width in widths)
    beta = sa.temperature.leave_one_out(stored, equal_weights=True)
    plain = sa.StochasticAttention(sa.MemoryBank(stored), beta=beta, equal_weights=True).log_density(held_out).mean()
    assert local > pooled + 0.3
    assert local > plain + 0.3


@pytest.mark.parametrize(
    ("fit", "rows", "options", "said"),
    [
        (choose_width, np.ones((6, 2)), {}, "all alike"),
        (choose_width, ROWS[:3], {}, "at least 4"),
        (choose_width, ROWS, {"shape": "odd"}, "shape must be one of"),
        (CovarianceKernels.fit, ROWS, {"width": KernelParams(-1.0, 0.1, 5)}, "noise above 0 and up to 1"),
    ],
)
def test_memories_that_cannot_be_fitted_are_errors(fit, rows, options, said):
    with pytest.raises(ValueError, match=said):
        fit(rows, **options)


def test_four_memories_have_a_width():
    assert choose_width(ROWS[:4]).neighbors == 0


def test_an_ascent_reaches_the_likeliest_width_of_the_grid():
    best = KernelParams(0.2, 0.85, 12)

    def likelihood(width, ahead=()):
        return -sum(abs(np.log(a / b)) for a, b in zip(width, best, strict=True))

    assert neighborhoods.ascend(KernelParams(0.7, 0.5, 20), neighborhoods.NEIGHBORS, likelihood) == best


@pytest.mark.parametrize(("K", "n_folds"), [(40, 5), (1000, 1), (450, 3)])
def test_folds_beyond_two_hundred_memories_are_not_used(monkeypatch, K, n_folds):
    sizes, updates = [], []

    class Recorded(neighborhoods.Moments):
        def __init__(self, rows, *others):
            sizes.append(len(rows))
            super().__init__(rows, *others)

    class Bar(neighborhoods.Progress):
        def update(self, done):
            updates.append(done)

    monkeypatch.setattr(neighborhoods, "Moments", Recorded)
    monkeypatch.setattr(neighborhoods, "Progress", Bar)
    choose_width(np.random.default_rng(0).normal(size=(K, 1)), shape="pooled")
    assert sizes == [K - K // 5] * n_folds
    assert updates == list(range(1, 1 + len(neighborhoods.NOISE)))


def test_a_table_of_few_rows_has_kernels_halfway_to_one_gaussian():
    generator = sa.fit(np.random.default_rng(0).normal(size=(7, 2)), "table", generator="covariance").generator
    assert "50% of the variance among all rows" in generator.describe().summary
    assert generator.acceptance == 1.0


@pytest.mark.parametrize(("n_columns", "are_components"), [(3, False), (4, True)])
def test_many_features_are_kept_as_components(monkeypatch, n_columns, are_components):
    monkeypatch.setattr(covariance, "MAX_FEATURES", 3)
    table = np.random.default_rng(0).normal(size=(7, n_columns))
    space = sa.fit(table, "table", generator="covariance").generator.space
    assert (space.inward is not None) is are_components


@pytest.mark.parametrize(("K", "noted"), [(5, False), (6, True)])
def test_few_rows_that_explain_a_condition_are_noted_among_six_or_more(K, noted):
    rows = np.c_[np.arange(K) ** 3.0, np.random.default_rng(0).normal(size=K)]
    made = sa.fit(pd.DataFrame(rows, columns=["a", "b"]), "table", generator="covariance").condition({"a": rows[-1, 0]})
    assert any("stored rows explain the condition" in note for note in made.describe().notes) is noted


def test_constant_columns_stay_nearly_constant():
    rows = np.concatenate([ROWS, np.full((40, 1), 3.0)], axis=1)
    x, _ = CovarianceKernels.fit(rows, width=choose_width(rows)).sample(100, np.random.default_rng(0))
    assert np.abs(x[:, 3] - 3).max() < 0.05


def test_some_identical_memories_are_no_error():
    rows = np.concatenate([ROWS, np.repeat(ROWS[:1], 20, axis=0)])
    x, _ = CovarianceKernels.fit(rows, width=KernelParams(0.5, 0.1, 5)).sample(500, np.random.default_rng(0))
    assert np.isfinite(x).all()
    assert np.isfinite(CovarianceKernels.fit(rows, width=choose_width(rows)).log_density(rows)).all()


def test_kernels_are_conditioned_once_and_then_have_no_density():
    kernels = CovarianceKernels.fit(ROWS, width=WIDTH).condition([[1.0, 0.0, 0.0]], [0.2])
    with pytest.raises(ValueError, match="conditioned already: pass all conditions at once"):
        kernels.condition([[0.0, 1.0, 0.0]], [0.1])
    with pytest.raises(ValueError, match="before condition"):
        kernels.log_density(ROWS)


def test_shrinkage_is_the_likeliest_of_left_out_rows_or_that_of_ledoit_and_wolf():
    rng = np.random.default_rng(5)
    tied = rng.normal(size=(60, 1)) + 0.05 * rng.normal(size=(60, 4))  # four columns that nearly determine each other
    tied -= tied.mean(0)
    for rows in (tied, rng.normal(size=(60, 4)), rng.normal(size=(12, 4))):
        assert choose_shrinkage(rows) == left_out_shrinkage(rows)
    assert choose_shrinkage(tied) < 0.1 * ledoit_wolf(tied, assume_centered=True)[1]
    few = rng.normal(size=(18, 4))
    expected, shrinkage = ledoit_wolf(few, assume_centered=True)
    found = shrink_covariance(few, np.full(18, 1 / 18))
    np.testing.assert_allclose(found[0], expected)
    assert found[1] == pytest.approx(shrinkage)


@pytest.mark.parametrize("seed", range(12))
def test_shrinkage_of_few_rows_is_the_likeliest_of_left_out_rows(seed):
    """With few rows, one row more or less in the formula would choose another share in some of these cases."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(4 + seed % 4, 2 + seed % 2)) * 10 ** rng.uniform(-1, 0, 2 + seed % 2)
    expected = left_out_shrinkage(rows)
    assert choose_shrinkage(rows) == expected
    assert choose_shrinkage(1e-3 * rows) == expected  # in any unit


@pytest.mark.parametrize(("seed", "share"), [(1, 0.003), (10, 0.2), (0, 0.001), (2, 0.02), (39, 0.7)])
def test_shrinkage_may_be_slight_or_strong(seed, share):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(30, 4)) * np.geomspace(1, 10 ** -rng.uniform(0, 1.5), 4)
    assert choose_shrinkage(rows - rows.mean(0)) == share


def test_one_row_has_no_covariance_and_two_rows_have_one():
    found, shrinkage = shrink_covariance(np.zeros((1, 3)), np.ones(1))
    np.testing.assert_array_equal(found, np.zeros((3, 3)))
    assert shrinkage == 0
    pair = np.array([[1.0, 2.0, 0.0], [-1.0, -2.0, 0.0]])
    np.testing.assert_allclose(shrink_covariance(pair, np.full(2, 0.5))[0], ledoit_wolf(pair, assume_centered=True)[0])


@pytest.mark.parametrize("n", [12, 40], ids=["by Ledoit and Wolf", "by likelihood"])
def test_weighted_rows_have_the_weighted_covariance(n):
    rng = np.random.default_rng(3)
    rows, w = rng.normal(size=(n, 3)) * [1.0, 0.5, 0.1], rng.dirichlet(np.ones(n))
    rows -= w @ rows
    found, shrinkage = shrink_covariance(rows, w)
    covariance = (w[:, None] * rows).T @ rows
    assert shrinkage > 0
    np.testing.assert_allclose(
        found, (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / 3 * np.eye(3), atol=1e-12
    )


def test_a_wide_table_takes_no_more_memory_than_a_few_copies_of_it():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2000))).add_prefix("c")
    synth = sa.fit(frame, width=(0.5, 1.0, 0))
    tracemalloc.start()
    synth.describe()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * frame.size * 8  # calibrating draws, 4,096 of them, would be 200 copies
