"""Autocorrelations of one series and of several paths, and their errors."""

import numpy as np
import pytest

from paper.experiments.sequence import _jackknife, _row, autocorrelations


def ar1(coefficient, n_paths, n_days, seed):
    """Stationary paths (n_paths, n_days, 1) with autocorrelations coefficient, coefficient², …"""
    rng = np.random.default_rng(seed)
    paths = np.empty((n_paths, n_days, 1))
    paths[:, 0] = rng.standard_normal((n_paths, 1))
    scale = np.sqrt(1 - coefficient**2)
    for t in range(1, n_days):
        paths[:, t] = coefficient * paths[:, t - 1] + scale * rng.standard_normal((n_paths, 1))
    return paths


def test_a_series_of_two_values_in_turn():
    series = np.tile([[1.0, 5.0], [-1.0, 7.0]], (50, 1))
    np.testing.assert_allclose(autocorrelations(series, 3), [[-1, -1], [1, 1], [-1, -1]], atol=1e-12)


def test_many_short_paths_have_the_autocorrelations_of_their_law():
    """A divisor of n_days instead of n_days − lag would give 0.54 at lag 5 times 0.5; the error here is 0.004."""
    found = autocorrelations(ar1(0.9, 4000, 10, 0), 5)[:, 0]
    np.testing.assert_allclose(found, 0.9 ** np.arange(1, 6), atol=0.02)
    np.testing.assert_array_equal(autocorrelations(ar1(0.5, 1, 300, 1)), autocorrelations(ar1(0.5, 1, 300, 1)[0]))


def test_the_jackknife_of_a_mean_is_its_standard_error():
    paths = np.random.default_rng(0).standard_normal((40, 6, 2))
    found = _jackknife(lambda x: float(x.mean()), paths, paths + 1)
    means = paths.mean((1, 2))
    assert found.value == pytest.approx(means.mean())
    assert found.error == pytest.approx(means.std(ddof=1) / np.sqrt(40))
    assert found.exact == pytest.approx(means.mean() + 1)


def test_one_percent_of_the_lags_of_white_noise_are_outside_the_band_also_in_short_paths():
    """With the band of the first lag at all lags, 3.0 % of the lags of paths of 40 days would be outside."""
    white = np.random.default_rng(0).standard_normal((32, 40, 2000))
    inside = _row(white)["ACF(g) inside 99 %"].value
    assert inside == pytest.approx(0.99, abs=0.002)  # 40,000 lags: a standard error of 0.0005
