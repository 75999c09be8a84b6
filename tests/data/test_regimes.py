"""Regimes of volatility: found where they are, moved between as counted, and a beta for each."""

import numpy as np
import pytest

from stochattn.data.legacy import InputError
from stochattn.data.returns.regimes import PSEUDO_COUNT, Regimes, fit_regimes


def switching(days=3000, N=5, seed=0):
    """Returns whose volatility is 1 or 3, in stretches of 200 days; and which it is on each day."""
    rng = np.random.default_rng(seed)
    wild = np.arange(days) // 200 % 3 == 2
    return np.where(wild, 3.0, 1.0)[:, None] * rng.standard_normal((days, N)), wild


def test_two_regimes_are_found():
    history, wild = switching()
    regimes = fit_regimes(history)
    assert (regimes.labels == wild).mean() > 0.97  # volatility over a few days sees a change some days late
    calm, rough = regimes.volatility
    assert rough / calm == pytest.approx(3.0, rel=0.1)
    counts = np.full((2, 2), PSEUDO_COUNT)
    for today, tomorrow in zip(regimes.labels[:-1], regimes.labels[1:], strict=True):
        counts[today, tomorrow] += 1
    np.testing.assert_allclose(regimes.transition, counts / counts.sum(1, keepdims=True))
    assert np.diag(regimes.transition).min() > 0.97


def test_hotter_where_it_is_rougher_and_as_hot_on_average():
    regimes = Regimes(np.array([0, 0, 0, 1]), np.array([1.0, 2.0]), np.full((2, 2), 0.5))
    betas = regimes.betas(10.0)
    assert betas[0] / betas[1] == pytest.approx(4.0)
    assert (regimes.shares / betas).sum() == pytest.approx(1 / 10.0)


def test_simulated_regimes_follow_the_transition_matrix():
    transition = np.array([[0.9, 0.1], [0.3, 0.7]])
    regimes = Regimes(np.array([0, 1]), np.array([1.0, 2.0]), transition)
    labels = regimes.simulate(50_000, np.random.default_rng(0))
    for today in (0, 1):
        after = labels[1:][labels[:-1] == today]
        error = np.sqrt(0.25 / len(after))
        assert abs((after == 1).mean() - transition[today, 1]) < 5 * error
    assert (labels == 1).mean() == pytest.approx(0.25, abs=0.02)  # the stationary share
    np.testing.assert_array_equal(labels[:50], regimes.simulate(50_000, np.random.default_rng(0))[:50])


def test_the_same_history_gives_the_same_regimes():
    history, _ = switching(seed=4)
    first, second = fit_regimes(history, n=3), fit_regimes(history, n=3)
    np.testing.assert_array_equal(first.labels, second.labels)
    assert (np.diff(first.volatility) > 0).all()


def test_too_few_days_or_regimes():
    history, _ = switching()
    with pytest.raises(InputError, match="too few for 2 regimes"):
        fit_regimes(history[:15])
    with pytest.raises(InputError, match="shows 1 regimes"):
        fit_regimes(np.tile([[1.0, -1.0], [-1.0, 1.0]], (100, 1)), n=2)
