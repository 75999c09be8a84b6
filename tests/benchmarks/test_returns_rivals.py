"""Measures of paths of returns by other routes, and rivals that recover the laws that they are fitted to."""

import numpy as np
import pytest

from benchmarks import quality
from benchmarks.returns_measures import absolute_autocorrelation, fidelity, leverage, novelty, value_at_risk
from benchmarks.rivals import garch_filtered, multivariate_t, stationary_bootstrap


def garch(blocks, days, omega=2e-6, alpha=0.1, beta=0.85, seed=0):
    """A GARCH(1,1) series (blocks, days) from its stationary variance on."""
    rng = np.random.default_rng(seed)
    variance, found = np.full(blocks, omega / (1 - alpha - beta)), np.empty((blocks, days))
    for t in range(days):
        found[:, t] = np.sqrt(variance) * rng.standard_normal(blocks)
        variance = omega + alpha * found[:, t] ** 2 + beta * variance
    return found


def test_measures_by_other_routes():
    x = 0.01 * np.random.default_rng(0).standard_t(4, (1, 400, 3))
    sizes = np.abs(x[0]) - np.abs(x[0]).mean(0)
    expected = [
        np.mean([sizes[t, i] * sizes[t - k, i] for t in range(k, 400)]) / np.mean(sizes[:, i] ** 2)
        for k in range(1, 11)
        for i in range(3)
    ]
    assert absolute_autocorrelation(x) == pytest.approx(np.mean(expected))
    r = x[0].mean(1)
    third = np.mean((r[:-3] - r.mean()) * (np.abs(r[3:]) - np.abs(r).mean())) / (r.std() * np.abs(r).std())
    assert leverage(x)[2] == pytest.approx(third)
    assert value_at_risk(np.repeat(np.arange(1000.0)[:, None], 2, 1)) == pytest.approx(9.34, abs=0.01)


def test_stored_days_have_no_error_and_are_copies():
    x = 0.01 * np.random.default_rng(0).standard_t(4, (4, 250, 3))
    found = fidelity(x, x)
    assert found.pop("ACF kept") == 1
    assert max(found.values()) == pytest.approx(0, abs=1e-12)
    assert novelty(x, x, x[::-1] + 1e-3) == {"days copied": 1, "near copies": 1, "train proximity": 1}
    assert fidelity(-x, x)["leverage"] > 0.01
    assert fidelity(2 * x, x)["1 % VaR"] == pytest.approx(1)


def test_the_mean_length_of_the_bootstrap_grows_with_dependence():
    """An AR(1) with coefficient rho: (4 n rho² / (1 − rho²)²)^(1/3), up to the error of a sample of 20,000."""
    rng = np.random.default_rng(0)
    for rho in (0.3, 0.7):
        x = rng.standard_normal((1, 20_000))
        for t in range(1, 20_000):
            x[0, t] += rho * x[0, t - 1]
        assert stationary_bootstrap.mean_length(x) == pytest.approx(
            (8e4 * (rho / (1 - rho**2)) ** 2) ** (1 / 3), rel=0.2
        )


def test_the_bootstrap_continues_runs_of_stored_days():
    stored = np.arange(3 * 50.0).reshape(3, 50, 1)
    path = stationary_bootstrap.fit(stored)(40, 100, np.random.default_rng(0))[..., 0].astype(int)
    block, day = np.divmod(path, 50)
    follows = (block[:, 1:] == block[:, :-1]) & (day[:, 1:] == (day[:, :-1] + 1) % 50)
    assert follows.mean() > 0.8
    assert np.isin(path, stored).all()


def test_the_multivariate_t_is_recovered():
    """20,000 days: nu to 5 %, the scale matrix to 5 % of its largest entry."""
    rng = np.random.default_rng(0)
    scatter = np.array([[1.0, 0.6, 0.2], [0.6, 2.0, 0.1], [0.2, 0.1, 0.5]])
    x = rng.multivariate_normal(np.zeros(3), scatter, 20_000) * np.sqrt(5 / rng.chisquare(5, 20_000))[:, None]
    centre, found, nu = multivariate_t.maximum_likelihood(x + 3)
    assert nu == pytest.approx(5, rel=0.05)
    np.testing.assert_allclose(found, scatter, atol=0.1)
    np.testing.assert_allclose(centre, 3, atol=0.05)


def test_a_garch_is_recovered_and_simulated():
    """Five blocks of 4,000 days: alpha to 0.02, beta to 0.03; new paths cluster as the stored ones."""
    series = garch(5, 4000)
    omega, alpha, beta = garch_filtered.fit_garch(series)
    assert (omega, alpha, beta) == pytest.approx((2e-6, 0.1, 0.85), abs=0.03)
    assert alpha == pytest.approx(0.1, abs=0.02)
    v = garch_filtered.variances(series, 2e-6, 0.1, 0.85)
    assert v[2, 7] == pytest.approx(2e-6 + 0.1 * series[2, 6] ** 2 + 0.85 * v[2, 6])
    paths = garch_filtered.fit(series[..., None])(40, 500, np.random.default_rng(1))
    assert paths.std() == pytest.approx(series.std(), rel=0.1)
    assert absolute_autocorrelation(paths) == pytest.approx(absolute_autocorrelation(series[..., None]), rel=0.3)


def test_sections_of_the_page_are_replaced_by_title():
    page = "# Title\n\n## A\n\nold a\n\n## B\n\nold b\n"
    assert quality.replaced(page, {"A": "## A\n\nnew\n"}) == "# Title\n\n## A\n\nnew\n\n## B\n\nold b\n"
    assert quality.replaced(page, {"C": "## C\n\nc\n"}).endswith("old b\n\n## C\n\nc\n")
    assert [part.module for part in quality.chosen("returns,images")] == [
        "shapes",
        "images",
        "returns_rivals",
        "returns_time_split",
    ]
    with pytest.raises(SystemExit, match=r"of images, .*; got 'musik'"):
        quality.chosen("musik")
