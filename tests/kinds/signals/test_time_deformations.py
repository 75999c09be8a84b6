"""Deformations of signals: warps that are known, the law against its closed form, classes, groups and conditions."""

import math

import numpy as np
import pytest
from scipy.fft import dct
from scipy.stats import multivariate_normal

from stochattn.kinds.signals.generator import deformations as time_deformations
from stochattn.kinds.signals.generator.alignment import (
    LEAST_SPEED,
    enforce_increasing,
    interpolate_cubic,
    interpolate_linear,
    invert,
    register,
    resample_to_grid,
)
from stochattn.kinds.signals.generator.deformations import (
    Component,
    LocalDistributions,
    LocalSignalDistribution,
    SignalDeformations,
    white_noise,
)
from stochattn.kinds.signals.generator.normalization import Normalization

T = 60


def pulses(n, seed=0, center=30.0, spread=3.0, noise=0.0, channels=1):
    """Pulses (n, T, channels) at varying times."""
    rng = np.random.default_rng(seed)
    at, height = rng.normal(center, spread, (n, 1)), rng.normal(1, 0.1, (n, 1))
    one = height * np.exp(-(((np.arange(T) - at) / 5) ** 2) / 2)
    return np.stack([one * (c + 1) for c in range(channels)], axis=2) + noise * rng.normal(size=(n, T, channels))


def test_a_known_warp_is_found():
    """A pulse that is 4 points late: the warp is 4 points near the pulse, where it can be seen."""
    t = np.arange(T)
    fixed, moving = (np.exp(-(((t - at) / 5) ** 2) / 2)[None, :, None] for at in (28, 32))
    seen = resample_to_grid(np.concatenate([moving, fixed]))
    [warp] = register(seen[:1], seen[1:], T, Normalization((T, 1)))
    np.testing.assert_allclose((warp - t)[23:33], 4, atol=0.5)
    left = np.abs(interpolate_cubic(moving, warp[None]) - fixed).max()
    assert left < 0.05 < np.abs(moving - fixed).max()


def test_short_signals_are_on_the_grid_as_they_are():
    x = pulses(5, channels=2)
    np.testing.assert_allclose(resample_to_grid(x), x / x.std((0, 1)), atol=1e-6)
    assert resample_to_grid(np.repeat(x, 3, axis=1)).shape == (5, 96, 2)


@pytest.mark.parametrize(("n", "low", "high"), [(24, 0.02, 0.1), (96, 0.005, 0.02)])
def test_warps_are_smooth_over_a_25th_of_the_length_and_over_two_points(n, low, high):
    """Second over first differences of warps between noise: 0.055 and 0.010; four times that with half of the width."""
    seen = resample_to_grid(np.random.default_rng(0).normal(size=(8, n, 1)))
    warps = register(seen[:4], seen[4:], n, Normalization((n, 1))) - np.arange(n)
    assert low < np.square(np.diff(warps, 2, axis=1)).sum() / np.square(np.diff(warps, axis=1)).sum() < high


def test_warps_increase_and_have_inverses():
    t = np.arange(T)
    warp = t + 4 * np.sin(2 * np.pi * t / T)
    back = invert(warp)
    inside = (t > 6) & (t < T - 7)
    np.testing.assert_allclose(np.interp(back, t, warp)[inside], t[inside], atol=0.02)
    wild = enforce_increasing((t + 20 * np.sin(2 * np.pi * t / T))[None])
    assert np.diff(wild).min() == pytest.approx(LEAST_SPEED)
    assert wild.mean() == pytest.approx((t + 20 * np.sin(2 * np.pi * t / T)).mean())
    np.testing.assert_allclose(enforce_increasing(warp[None])[0], warp)


def test_signals_between_points():
    x = pulses(3, channels=2)
    times = np.tile(np.arange(T, dtype=float), (3, 1))
    np.testing.assert_allclose(interpolate_cubic(x, times), x, atol=1e-6)
    t = np.linspace(0, 3, T)
    wave = np.sin(t)[None, :, None]
    at = np.arange(10, T - 10) + 0.4
    np.testing.assert_allclose(interpolate_cubic(wave, at[None])[0, :, 0], np.sin(at * 3 / (T - 1)), atol=1e-6)
    ramp = np.arange(T, dtype=float)[None, :, None]
    np.testing.assert_allclose(
        interpolate_linear(ramp, np.array([[-3.0, 0.25, 58.5, 80.0]]))[0, :, 0], [0, 0.25, 58.5, T - 1]
    )


def test_white_noise_is_measured_without_events():
    """2,000 points: the standard error of a median of squares is 4 %."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.3, (1, 2000, 1))
    assert white_noise(noise)[0] == pytest.approx(0.09, rel=0.15)
    steps = np.repeat(rng.normal(size=20), 100)[None, :, None]
    assert white_noise(noise + steps)[0] == pytest.approx(0.09, rel=0.15)
    rows = rng.normal(0, 0.1, (9, 2000, 1))  # whose sum has the variance 9 × 0.01
    assert white_noise(rows)[0] == pytest.approx(0.09, rel=0.1)
    assert white_noise(noise[:, :2]) == 0


def test_the_density_of_a_component():
    rng = np.random.default_rng(0)
    law = Component(rng.normal(size=7), rng.normal(size=(3, 7)), rng.uniform(0.1, 1, 7))
    x = rng.normal(size=(5, 7))
    covariance = law.rows.T @ law.rows + np.diag(law.noise)
    np.testing.assert_allclose(law.log_density(x), multivariate_normal(law.mean, covariance).logpdf(x))


def test_draws_have_the_moments_of_the_component():
    """20,000 draws: five standard errors are exceeded by chance in less than one of 5,000 cases."""
    rng = np.random.default_rng(0)
    law = Component(rng.normal(size=4), rng.normal(size=(2, 4)), rng.uniform(0.1, 1, 4))
    drawn = np.array([law.draw(rng) for _ in range(20_000)]) - law.mean
    covariance = law.rows.T @ law.rows + np.diag(law.noise)
    products = drawn[:, :, None] * drawn[:, None]
    assert np.abs(drawn.mean(0) / np.sqrt(np.diag(covariance) / 20_000)).max() < 5
    assert np.abs((products.mean(0) - covariance) / (products.std(0) / math.sqrt(20_000))).max() < 5
    assert np.abs((products.mean(0) - np.diag(law.noise)) / (products.std(0) / math.sqrt(20_000))).max() > 20


def test_a_local_law_has_the_moments_of_the_differences():
    rng = np.random.default_rng(0)
    warps, values = rng.normal(size=(4, T)), rng.normal(size=(4, T, 2))
    law = LocalSignalDistribution.of(warps, values)
    every = np.concatenate([warps, np.zeros((1, T))])
    np.testing.assert_allclose(law.warp, every.mean(0))
    np.testing.assert_allclose(law.warps.T @ law.warps, np.cov(every.T, bias=True))
    np.testing.assert_allclose(law.value, values.sum(0) / 5)


def test_the_law_is_the_mixture_of_its_components():
    x, classes = pulses(6, noise=0.02), np.array([0, 0, 0, 1, 1, 1])
    generator = SignalDeformations.fit(x, np.array([1.0, 2, 1, 1, 0, 1]), classes)
    assert generator.sources.tolist() == [0, 1, 2, 3, 5]
    new = pulses(3, seed=1, noise=0.02)
    L = generator.warps.shape[1]
    parts = []
    for i, share in enumerate(np.array([1, 2, 1, 1, 1]) / 6):
        for j in range(L):
            law = generator.component(i, j)
            covariance = law.rows.T @ law.rows + np.diag(law.noise)
            density = multivariate_normal(generator.unit * law.mean, generator.unit**2 * covariance)
            parts.append(np.log(share / L) + density.logpdf(new.reshape(3, -1)))
    np.testing.assert_allclose(generator.log_density(new), np.logaddexp.reduce(parts), rtol=1e-5)
    assert L > 1


def test_draws_come_from_the_components_they_name():
    """Each draw is likelier under the components of its source than under those of signals of the other class."""
    x = np.concatenate([pulses(8, center=20, noise=0.02), pulses(8, center=40, noise=0.02)])
    generator = SignalDeformations.fit(x, np.ones(16), np.repeat([0, 1], 8))
    drawn = generator.sample(16, np.random.default_rng(0))
    assert sorted(drawn.source) == list(range(16))
    assert ((drawn.values[:, :, 0].argmax(1) < 30) == (drawn.source < 8)).all()
    again = generator.sample(5, np.random.default_rng(0))
    np.testing.assert_array_equal(again.values, drawn.values[:5])


def test_new_signals_vary_as_the_stored_ones():
    """400 draws around 60 pulses: the variance of times and heights of peaks within a third of the stored ones'."""
    x = pulses(60)
    drawn = SignalDeformations.fit(x, np.ones(60), np.zeros(60, dtype=int)).sample(400, np.random.default_rng(0)).values
    peaks = [signals[:, :, 0].argmax(1) for signals in (x, drawn)]
    heights = [signals[:, :, 0].max(1) for signals in (x, drawn)]
    for stored, new in (peaks, heights):
        assert new.std() == pytest.approx(stored.std(), rel=0.33)
    widths = [(signals[:, :, 0] > 0.5).sum(1).mean() for signals in (x, drawn)]
    assert widths[1] == pytest.approx(widths[0], rel=0.1)  # pulses that are moved, and not blended ones


def test_new_signals_have_the_power_of_the_stored_ones_at_all_frequencies():
    """600 draws: power in six bands within a third of that of 40 stored signals, and without gains it is not."""
    x = np.cumsum(np.random.default_rng(0).normal(size=(40, T, 1)), axis=1) + pulses(40, noise=0.5)
    laws = LocalDistributions(x, np.zeros(40, dtype=int), 0.9)

    def bands(signals):
        power = np.square(dct(signals - x.mean(0), axis=1, norm="ortho")).mean((0, 2))
        return np.array([part.mean() for part in np.array_split(power, 6)])

    def drawn():
        rng = np.random.default_rng(1)
        new = [laws.component(i % 40, rng.standard_normal(20)).draw(rng) for i in range(600)]
        return np.log(bands(np.array(new).reshape(-1, T, 1)) / bands(x))

    assert np.abs(drawn()).max() < math.log(4 / 3)
    laws.gains = lambda label: np.ones((T, 1))
    assert np.abs(drawn()).max() > math.log(4 / 3)


def test_groups_without_labels_are_not_blended():
    early, late = pulses(20, center=15, spread=1), pulses(20, seed=1, center=45, spread=1)
    drawn = SignalDeformations.fit(np.concatenate([early, late]), np.ones(40), np.zeros(40, dtype=int))
    values = drawn.sample(100, np.random.default_rng(0)).values[:, :, 0]
    both = (values[:, :25].max(1) > 0.3) & (values[:, 35:].max(1) > 0.3)
    assert not both.any()
    assert 0.4 < (values[:, :25].max(1) > 0.5).mean() < 0.6


@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_a_small_scale_recalls(scale):
    x = pulses(12)
    drawn = SignalDeformations.fit(x, np.ones(12), np.zeros(12, dtype=int), scale=scale)
    found = drawn.sample(12, np.random.default_rng(0))
    away = np.abs(found.values - x[found.source]).max()
    assert away < (1e-2 if scale == 0 else 0.6)
    assert scale == 0 or away > 0.05


def test_a_class_of_one_signal_has_neighbours_of_other_classes(monkeypatch):
    x = pulses(5)
    laws = LocalDistributions(x, np.array([0, 0, 0, 0, 1]), 0.9)
    assert len(laws.distribution(4).warps) == 4  # three neighbors and itself
    assert len(laws.distribution(0).warps) == 4
    assert [laws.n_neighbors(n) for n in (0, 3, 9, 20, 100)] == [0, 3, 3, 7, 16]
    assert LocalDistributions(x, np.zeros(5), 0.9, neighbors=2).n_neighbors(4) == 2
    alone = LocalDistributions(x[:1], np.array([0]), 0.9).distribution(0)
    assert alone.warps.shape == (1, T)
    assert not alone.values.any()
    monkeypatch.setattr(time_deformations, "MAX_DISTRIBUTION_BYTES", 0)
    forgetful = LocalDistributions(x, np.array([0, 0, 0, 0, 1]), 0.9)
    np.testing.assert_array_equal(forgetful.distribution(4).values, laws.distribution(4).values)
    assert not forgetful._cache


@pytest.mark.parametrize("factor", [2.0**-990, 2.0**-300, 2.0**990])
def test_tiny_and_huge_signals_are_drawn_alike(factor):
    x, rng = pulses(8, noise=0.02), np.random.default_rng
    usual, other = (SignalDeformations.fit(y, np.ones(8), np.zeros(8, dtype=int)) for y in (x, factor * x))
    np.testing.assert_array_equal(other.sample(4, rng(0)).values, factor * usual.sample(4, rng(0)).values)
    shift = T * math.log(factor)
    np.testing.assert_allclose(other.log_density(factor * x[:2]), usual.log_density(x[:2]) - shift)


def test_conditions_are_met_by_windows():
    x = pulses(20, noise=0.02)
    generator = SignalDeformations.fit(x, np.r_[0, np.ones(19)], np.zeros(20, dtype=int))
    given = generator.condition((np.arange(20), x[3, :20, 0]))
    drawn = given.sample(6, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.values[:, :20, 0], np.tile(x[3, :20, 0], (6, 1)))
    assert 0 not in drawn.source
    about = given.describe()
    assert "drawn by the generator 'windows'" in about.notes[-1]
    assert about.resolved == {}
    assert generator.describe().resolved == {"scale": 0.9}


@pytest.mark.parametrize(("T", "n_points"), [(20, 20), (96, 96), (97, 96), (300, 96)])
def test_warps_of_long_signals_are_found_at_96_points(T, n_points):
    signals = np.random.default_rng(0).normal(size=(3, T, 2)).cumsum(1)
    assert resample_to_grid(signals).shape == (3, n_points, 2)


def test_the_inverse_of_an_early_warp_reaches_the_last_point():
    assert invert(np.arange(10) - 0.5)[-1] == 9
    assert invert(np.arange(10) + 0.5)[0] == 0
