"""Signals that may begin at any time: which classes do, what lies beyond the ends, and the law of shifted signals."""

import math

import numpy as np
import pytest
from scipy.fft import dct
from scipy.ndimage import gaussian_filter1d
from scipy.stats import multivariate_normal

from benchmarks.signal_data import autoregressions, gestures, heartbeats, motions
from stochattn.kinds.signals.generator import alignment as time_phases
from stochattn.kinds.signals.generator.alignment import (
    ShiftedClass,
    enforce_increasing,
    extend,
    interpolate_cubic,
    invert,
    is_aligned,
    is_closed,
    register,
    resample_to_grid,
    standardize,
)
from stochattn.kinds.signals.generator.deformations import LocalDistributions, SignalDeformations, white_noise
from stochattn.kinds.signals.generator.normalization import Normalization
from stochattn.kinds.smoothing import gaussian_matrix

T = 80


def waves(n, seed=0, noise=0.05, rate=3.3, channels=1, length=T):
    """Oscillations (n, length, channels) of arbitrary phase whose ends do not meet."""
    rng = np.random.default_rng(seed)
    phase = 2 * np.pi * rng.random((n, 1, 1)) + np.arange(channels)
    speed = rate * np.exp(rng.normal(0, 0.03, (n, 1, 1)))
    found = np.sin(2 * np.pi * speed * np.arange(length)[None, :, None] / length + phase)
    return found + noise * rng.normal(size=found.shape)


def contours(n, seed=0, length=T):
    """Closed signals (n, length, 1): two harmonics around a circle, begun anywhere."""
    rng = np.random.default_rng(seed)
    at = 2 * np.pi * (np.arange(length) / length + rng.random((n, 1)))
    height = rng.normal(1, 0.1, (n, 2, 1))
    return (height[:, 0] * np.sin(2 * at) + 0.5 * height[:, 1] * np.sin(3 * at))[:, :, None]


def pulses(n, seed=0, spread=3.0):
    """Pulses (n, T, 1) at about the same time."""
    rng = np.random.default_rng(seed)
    return np.exp(-(((np.arange(T) - rng.normal(40, spread, (n, 1))) / 5) ** 2) / 2)[:, :, None]


def seam(signals):
    """Mean squared step from the last to the first point, over that of other steps."""
    return np.square(signals[:, 0] - signals[:, -1]).mean() / np.square(np.diff(signals, axis=1)).mean()


@pytest.mark.parametrize(
    ("made", "aligned"), [(gestures, True), (heartbeats, True), (motions, False), (autoregressions, False)]
)
@pytest.mark.parametrize("n", [8, 30])
def test_alignment_is_recognised(made, aligned, n):
    """Power: 40 classes of each kind. At the level of 1 %, two of 40 that begin at any time may count as aligned."""
    found = 0
    for seed in range(20):
        signals, classes = made(2 * n, np.random.default_rng(seed))
        found += sum(is_aligned(signals[classes == label][:, :, None]) for label in (0, 1))
    assert found == 40 if aligned else found <= 2


def evoked(n, seed=0, length=128):
    """Signals (n, length, 1) of smooth noise of variance 0.6 with the same bump of height 1 at the middle."""
    t, noise = np.arange(length), np.random.default_rng(seed).standard_normal((n, length))
    bump = np.exp(-(((t - length / 2) / (length / 20)) ** 2) / 2)
    return (bump + 3 * gaussian_filter1d(noise, 4, axis=1))[:, :, None]


def test_weak_events_at_the_same_time_keep_their_time():
    """Power: 18 of 20 sets of 32 signals; the mean of 300 new signals at the bump is that of stored ones to 0.3."""
    assert sum(is_aligned(evoked(32, seed)) for seed in range(20)) >= 18
    x = evoked(32)
    drawn = SignalDeformations.fit(x, np.ones(32), np.zeros(32, dtype=int)).sample(300, np.random.default_rng(0)).values
    assert x[:, 64].mean() > 0.8
    assert abs(drawn[:, 64].mean() - x[:, 64].mean()) < 0.3


@pytest.mark.parametrize("length", [16, 64])
@pytest.mark.parametrize("n", [8, 20])
def test_oscillations_of_the_same_phase_in_noise_are_aligned(n, length):
    """Power: 20 of 20 sets, where noise has twice the power of the oscillation."""
    wave = np.sin(2 * np.pi * 3 * np.arange(length) / length)[None, :, None]
    for seed in range(20):
        assert is_aligned(wave + np.random.default_rng(seed).normal(size=(n, length, 1)))


def test_narrow_events_in_long_signals_are_seen():
    """Spikes of one point, of opposite signs or at the last point, among 4,096 and 4,099; noise alone has none."""
    for length in (4096, 4099):
        noise = 0.1 * np.random.default_rng(0).normal(size=(12, length, 1))
        assert not is_aligned(noise)
        pair, last = noise.copy(), noise.copy()
        pair[:, 1366], pair[:, 1367] = 5, -5
        last[:, -1] = 5
        assert is_aligned(pair)
        assert is_aligned(last)


def test_blocks_of_long_signals_have_the_value_that_is_farthest_from_0(monkeypatch):
    monkeypatch.setattr(time_phases, "MAX_POINTS", 4)
    x = np.stack([np.arange(10.0) - 7.2, [1, -2, 0, 3, 3, -4, 0, 0, 0, 0.5]], axis=1)[None]
    expected = np.stack([[-7.2, -4.2, -1.2, 1.8], [-2, -4, 0, 0.5]], axis=1)
    np.testing.assert_allclose(time_phases._extremes(x)[0], expected)
    np.testing.assert_array_equal(time_phases._extremes(x[:, :4]), x[:, :4])


def test_the_lag_zero_is_compared_with_shifts_of_each_signal():
    """By the definition: the lag of two signals is the difference of their shifts, within half of the largest lag."""
    shifts, outcomes = np.random.default_rng(4).integers(-2, 3, size=(99, 5)), set()
    pairs = [(i, j) for i in range(5) for j in range(5) if j != i]
    for seed in range(40):
        r = np.random.default_rng(seed).uniform(-1, 1, (5, 4, 9))
        r[:, :, 4] += seed / 20
        means = [np.mean([r[i, j - (j > i), 4 + shift[j] - shift[i]] for i, j in pairs]) for shift in shifts]
        expected = r[:, :, 4].mean() > max(means)
        outcomes.add(bool(expected))
        assert time_phases._is_significant(r, np.random.default_rng(4)) == expected
    assert outcomes == {True, False}


def test_growth_is_that_of_squared_differences():
    """By the definition, and near 3 for 200 random walks, and near 1 for noise and waves."""
    x = np.random.default_rng(0).normal(size=(3, 16, 2)).cumsum(axis=1)
    squares = [np.mean([(x[:, t + lag] - x[:, t]) ** 2 for t in range(16 - lag)]) for lag in range(1, 13)]
    assert time_phases._growth(x) == pytest.approx(max(squares) / max(squares[:4]))
    rise = np.linspace(0, 1, 16)[None, :, None]
    assert time_phases._growth(rise) == pytest.approx((12 / 4) ** 2)
    noise = np.random.default_rng(0).normal(size=(200, T, 1))
    assert time_phases._growth(noise.cumsum(axis=1)) == pytest.approx(3, rel=0.2)
    assert time_phases._growth(noise) == pytest.approx(1, abs=0.1)
    assert time_phases._growth(waves(8)) < 1.1


def test_contours_meet_where_their_ends_differ():
    """Noise is closed by its steps, and tapered signals by their ends; neither is a contour."""
    assert time_phases._are_contours(contours(10))
    assert time_phases._are_contours(100 + 1e-6 * contours(10))
    noise = np.random.default_rng(0).normal(size=(10, T, 1))
    assert is_closed(noise)
    assert not time_phases._are_contours(noise)
    assert not time_phases._are_contours(pulses(10) + 0.01 * noise)
    assert not time_phases._are_contours(waves(10))
    ends = np.zeros((2, 40, 1))
    ends[:, :, 0] = [[1.0], [-1.0]]
    ends[:, 1::2] *= 0.5  # usual steps, so that both are closed
    for gap, meet in ((0.27, True), (0.3, False)):  # gap² / (1 + (1 - gap)²) is 0.048 and 0.060
        ends[:, -1, 0] = np.array([1, -1]) * (1 - gap)
        assert is_closed(ends)
        assert time_phases._are_contours(ends) == meet


def test_contours_that_are_aligned_in_part_begin_at_any_time():
    """A bump at the same place of contours is significant, and decides for open signals alone."""
    rng, at = np.random.default_rng(0), np.arange(T)
    noise = gaussian_filter1d(rng.normal(size=(24, T)), 3, axis=1, mode="wrap")
    bump = 0.4 * np.exp(-(((at - 40) / 5) ** 2) / 2)
    x = (noise + bump)[:, :, None]
    assert time_phases._are_contours(x)
    assert time_phases._is_significant(time_phases._correlations(standardize(x)), rng)
    assert not is_aligned(x)
    assert is_aligned(x[:, 3:-3])
    loud = noise * (1 + 3 * np.exp(-(((at - 40) / 10) ** 2) / 2))
    assert time_phases._are_contours(loud[:, :, None])
    assert is_aligned(loud[:, :, None])  # its power depends on time


def test_alignment_is_a_matter_of_the_lag_zero_or_of_short_lags():
    """Aligned oscillations fit after each period too; narrow events that come early or late do not fit at lag 0."""
    noise = np.random.default_rng(0).normal(size=(12, T, 1))
    same = np.sin(2 * np.pi * 5 * np.arange(T) / T)[None, :, None] + noise
    assert is_aligned(same)
    early_or_late = np.exp(-(((np.arange(T) - np.linspace(35, 44, 10)[:, None]) / 1.5) ** 2) / 2)[:, :, None]
    assert is_aligned(early_or_late)
    anywhere = np.exp(-(((np.arange(T) - np.linspace(5, 74, 10)[:, None]) / 1.5) ** 2) / 2)[:, :, None]
    assert not is_aligned(anywhere)
    assert is_aligned(anywhere + 40 * np.repeat(np.sin(np.arange(T))[None, :, None], 10, 0))


@pytest.mark.parametrize("n_groups", [2, 3, 4])
def test_groups_with_times_of_their_own_are_aligned(n_groups):
    """Without labels, pulses of several groups fit each other at many lags, and those of a group at the same times."""
    for noise in (0.0, 0.1):
        rng, at = np.random.default_rng(0), np.repeat(np.linspace(10, 70, n_groups), 8)[:, None]
        x = np.exp(-(((np.arange(T) - at - rng.normal(0, 1, at.shape)) / 6) ** 2) / 2)[:, :, None]
        assert is_aligned(x + noise * rng.normal(size=x.shape))


@pytest.mark.parametrize("n", [4, 8, 16, 32])
def test_random_walks_are_aligned_where_they_begin(n):
    """Walks are not stationary. Power: 27 of 30 sets; the white noise of one at most counts as aligned."""
    noise = [np.random.default_rng(seed).normal(size=(n, T, 1)) for seed in range(30)]
    assert sum(is_aligned(np.cumsum(one, axis=1)) for one in noise) >= 27
    assert sum(is_aligned(one) for one in noise) <= (1 if n >= 8 else 30)


def test_the_variation_of_power_is_that_over_time():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(30, T, 2))
    assert not time_phases._power_varies(noise, rng, 2.0)
    louder = noise * np.linspace(0.2, 1, T)[None, :, None]
    assert time_phases._power_varies(louder, rng, 2.0)
    assert not time_phases._power_varies(louder, rng, 1000.0)
    loud = noise * np.linspace(0.2, 1, 30)[:, None, None]  # signals of different power, the same at all times
    assert not time_phases._power_varies(loud, rng, 2.0)
    assert not time_phases._power_varies(noise, rng, 0.0)  # some shifted signals vary more
    assert time_phases._power_varies(np.zeros((5, T, 1)), rng, 2.0)  # nothing to compare: aligned


def test_noise_that_is_louder_at_the_same_time_is_aligned():
    """Power: 10 of 10 sets of 20 signals, which neither correlate nor grow; the noise alone is aligned in none."""
    louder = (1 + np.exp(-(((np.arange(T) - 40) / 8) ** 2) / 2))[None, :, None]
    for seed in range(10):
        noise = np.random.default_rng(seed).normal(size=(20, T, 1))
        assert time_phases._growth(noise * louder) < 1.5
        assert is_aligned(noise * louder)
        assert not is_aligned(noise)


def test_correlations_are_those_of_the_points_that_both_have():
    x = np.random.default_rng(0).normal(size=(3, 9, 2))
    x[2] = 5.0  # a constant signal correlates with none
    found = time_phases._correlations(x)
    assert found.shape == (3, 2, 9)
    own = x - x.mean(1, keepdims=True)
    for i, others in enumerate(((1, 2), (0, 2), (0, 1))):
        for place, j in enumerate(others):
            for lag in range(-4, 5):
                both = [t for t in range(9) if 0 <= t + lag < 9]
                product = sum((own[i, t] * own[j, t + lag]).sum() for t in both) * 9 / len(both)
                scale = np.sqrt(np.square(own[i]).sum() * np.square(own[j]).sum())
                expected = min(product / scale, 1.0) if scale > 0 else 0.0
                assert found[i, place, lag + 4] == pytest.approx(expected, abs=1e-12)
    apart = np.zeros((2, 9, 1))
    apart[0, 0], apart[1, 4] = 1, 1
    assert time_phases._correlations(apart)[0, 0, 8] == 1.0  # 9 / 5 of it, if it were not limited


def test_alignment_compares_the_lag_zero_with_the_best_and_with_random_lags(monkeypatch):
    """By the definition, for 8 other signals: the two that correlate most, and all."""
    monkeypatch.setattr(time_phases, "N_RANDOM", 3)
    r = np.random.default_rng(0).uniform(-1, 1, (9, 8, 7))
    at = np.random.default_rng(5).integers(7, size=(3, 9, 8))
    expected = []
    for k in (2, 8):
        sums = np.zeros(3)
        for i in range(9):
            sums[0] += sum(sorted(r[i, :, 3])[-k:]) / k / 9
            sums[1] += sum(sorted(r[i].max(1))[-k:]) / k / 9
            for n in range(3):
                sums[2] += sum(sorted(r[i, j, at[n, i, j]] for j in range(8))[-k:]) / k / 27
        expected.append((sums[0] - sums[2]) / (sums[1] - sums[2]))
    assert time_phases._alignment(r, np.random.default_rng(5)) == pytest.approx(expected)
    assert time_phases._alignment(np.zeros((4, 3, 7)), np.random.default_rng(0)) == [1.0, 1.0]
    assert len(time_phases._alignment(r[:4, :2], np.random.default_rng(0))) == 2  # a fifth of two others is one


@pytest.mark.parametrize(("limit", "aligned"), [(0.9, False), (0.5, True)])
def test_the_larger_share_decides(monkeypatch, limit, aligned):
    """Noise and signals whose best lags are far: only the share of the correlation can align them."""
    monkeypatch.setattr(time_phases, "_alignment", lambda correlations, rng: [0.2, 0.7])
    monkeypatch.setattr(time_phases, "ALIGNED_SHARE", limit)
    assert is_aligned(np.random.default_rng(0).normal(size=(8, T, 1))) == aligned


def test_a_mean_does_not_align_signals_and_few_or_short_ones_are_not_tested():
    x = waves(8)
    assert not is_aligned(x)
    assert not is_aligned(x + 100)
    assert is_aligned(x[:7])
    assert is_aligned(x[:1])
    assert not is_aligned(waves(8, length=16))
    assert is_aligned(waves(8, length=15))
    assert is_aligned(np.zeros((8, T, 1)))
    assert is_aligned(np.full((8, T, 2), 0.1))


def test_channels_count_in_their_own_units():
    """A large channel that is aligned does not hide one that is not; a constant one counts for nothing."""
    x = waves(8, channels=2)
    assert not is_aligned(np.concatenate([x, np.full((8, T, 1), 0.1)], axis=2))
    aligned = np.repeat(pulses(1), 8, axis=0)
    both = np.concatenate([1e-6 * aligned, x, x], axis=2)
    assert is_aligned(both) == is_aligned(np.concatenate([aligned, x, x], axis=2))
    seen = standardize(np.concatenate([5 + 3 * x, np.full((8, T, 1), 0.1)], axis=2))
    np.testing.assert_allclose(seen.std((0, 1)), [1, 1, 0], atol=1e-12)
    np.testing.assert_allclose(seen.mean((0, 1)), 0, atol=1e-12)


def test_only_some_of_many_signals_are_compared(monkeypatch):
    x = np.concatenate([waves(40), pulses(40)])
    order = np.argsort(np.arange(80) % 40, kind="stable")  # waves and pulses in turn
    monkeypatch.setattr(time_phases, "MAX_COMPARED", 40)
    assert is_aligned(x[order]) == is_aligned(x[order][np.linspace(0, 79, 40).round().astype(int)])


def test_closed_signals_are_recognised():
    assert is_closed(contours(8))
    assert not is_closed(waves(8))
    assert not is_closed(np.linspace(0, 1, T)[None, :, None] * np.ones((4, 1, 1)))
    zigzag = np.tile(np.arange(81) % 2, (4, 1))[:, :, None].astype(float)
    for end, closed in ((1.3, True), (1.5, False)):  # squares of 1.7 and 2.2, where the other steps have 1
        zigzag[:, -1] = -end
        zigzag[:, -2] = 1 - end
        assert is_closed(zigzag) == closed
    small = np.concatenate([contours(8), 1e-6 * waves(8), 1e-6 * waves(8, 1)], axis=2)
    assert not is_closed(small)  # each channel counts in its own units


def test_closed_signals_go_around():
    x = contours(5)
    longer = extend(x, 30)
    np.testing.assert_array_equal(longer[:, 30:-30], x)
    np.testing.assert_array_equal(longer[:, :30], x[:, -30:])
    np.testing.assert_array_equal(longer[:, -30:], x[:, :30])


def test_signals_go_on_as_the_one_that_fits_best():
    """Stretches of one long wave: beyond the end of each, others show the wave, which goes on without a jump."""
    t = np.arange(T + 60)
    wave = np.stack([np.sin(2 * np.pi * t / 31), np.cos(2 * np.pi * t / 31)], axis=1)
    x = np.stack([wave[first : first + T] for first in (0, 7, 12, 19, 26, 30)])
    longer = extend(x, 50)
    assert longer.shape == (6, T + 100, 2)
    np.testing.assert_allclose(longer[:, 55:-55], x[:, 5:-5])
    for one, first in zip(longer, (0, 7, 12, 19, 26, 30), strict=True):
        true = np.arange(first - 50, first + T + 50)
        expected = np.stack([np.sin(2 * np.pi * true / 31), np.cos(2 * np.pi * true / 31)], axis=1)
        assert (
            np.abs(one - expected).max() < 0.25
        )  # half a point of 31, or 0.1, and what the phases of six signals leave
        assert np.abs(np.diff(one, axis=0)).max() < 1.5 * np.abs(np.diff(wave, axis=0)).max()


def test_a_join_blends_the_last_points_with_the_stretch_that_fits_best():
    """By brute force, for each signal: the windows of all signals that have enough points after them."""
    x = waves(5, noise=0.5, channels=2) * np.array([1.0, 100.0])
    reach, w = 50, 5  # 80 points / 16
    found = time_phases._extend_end(x, reach)
    assert found.shape == (5, w + reach, 2)
    seen = (x - x.mean((0, 1))) / x.std((0, 1))
    for i in range(5):
        places = [(j, first) for j in range(5) for first in range(T - reach - w + 1)]
        away = [np.square(seen[j, first : first + w] - seen[i, T - w :]).sum() for j, first in places]
        j, first = places[int(np.argmin(away))]
        np.testing.assert_allclose(found[i, w:], x[j, first + w : first + w + reach])
        share = (np.arange(1, 6) / 6)[:, None]
        np.testing.assert_allclose(found[i, :w], (1 - share) * x[i, T - w :] + share * x[j, first : first + w])


def test_joins_are_short_and_constant_channels_stay_constant():
    long = waves(4, length=1600)
    assert time_phases._extend_end(long, 1000).shape[1] == 1000 + 32
    assert time_phases._extend_end(waves(4, length=16), 10).shape[1] == 10 + 2
    flat = np.concatenate([waves(5), np.full((5, T, 1), 7.0)], axis=2)
    assert (extend(flat, 50)[:, :, 1] == 7).all()


def test_views_begin_at_the_lag():
    x = contours(6)
    own = ShiftedClass.of(np.array([1, 3, 4, 7, 8, 9]), x)
    assert (own.half, own.margin, own.is_closed) == (40, 10, True)
    for lag in (-40, -3, 0, 40):
        np.testing.assert_array_equal(own.view(4, lag)[10:-10], np.roll(x[2], -lag, axis=0))
        np.testing.assert_array_equal(own.view(4, lag)[:10], np.roll(x[2], 10 - lag, axis=0)[:10])
        assert len(own.view(4, lag)) == T + 20


def test_neighbours_are_seen_at_the_lag_that_fits_best():
    """Rolled copies of a contour are neighbors without a difference; a scaled one is further, and others furthest."""
    x = contours(6)
    x[1], x[2], x[4] = np.roll(x[0], 11, axis=0), 1.02 * np.roll(x[0], -30, axis=0), 1.01 * np.roll(x[0], 25, axis=0)
    own = ShiftedClass.of(np.arange(6), x)
    near = own.find_nearest(0, 5, np.ones(1), 3)
    center = own.view(0, 5)
    np.testing.assert_allclose(near[0], center)
    np.testing.assert_allclose(near[1], 1.01 * center)
    np.testing.assert_allclose(near[2], 1.02 * center)
    assert own.find_nearest(0, 5, np.ones(1), 9).shape == (5, T + 20, 1)


def test_neighbours_count_channels_in_units():
    x = np.concatenate([contours(5), 1000 * contours(5, seed=1)], axis=2)
    x[1, :, 0], x[2, :, 1] = np.roll(x[0, :, 0], 7), np.roll(x[0, :, 1], 7)
    own = ShiftedClass.of(np.arange(5), x)
    first = own.find_nearest(0, 0, np.array([1.0, 1e9]), 1)[0]
    np.testing.assert_allclose(first[:, 0], own.view(0, 0)[:, 0])
    first = own.find_nearest(0, 0, np.array([1e9, 1.0]), 1)[0]
    np.testing.assert_allclose(first[:, 1], own.view(0, 0)[:, 1])


def test_lags_of_long_signals_are_tried_at_intervals(monkeypatch):
    x = contours(4)
    x[1] = np.roll(x[0], 20, axis=0)
    monkeypatch.setattr(time_phases, "MAX_LAGS", 16)  # every fifth of 81
    monkeypatch.setattr(time_phases, "MAX_POINTS", 60)  # every second of 100
    own = ShiftedClass.of(np.arange(4), x)
    np.testing.assert_allclose(own.find_nearest(0, 0, np.ones(1), 1)[0], own.view(0, 0))
    away = np.square(own.find_nearest(0, 2, np.ones(1), 1)[0] - own.view(0, 2)).mean()
    assert 0 < away < 0.25 * np.square(x[0]).mean()


def test_all_points_of_short_signals_are_compared():
    """Of two others, one differs at the points with even numbers, and one less at those with odd ones."""
    x = contours(3)
    x[1], x[2] = x[0], x[0]
    x[1, ::2] += 0.5
    x[2, 1::2] += 0.4
    own = ShiftedClass.of(np.arange(3), x)
    np.testing.assert_array_equal(own.find_nearest(0, 0, np.ones(1), 1)[0], own.view(2, 0))
    x[2, 1::2] += 0.2
    own = ShiftedClass.of(np.arange(3), x)
    np.testing.assert_array_equal(own.find_nearest(0, 0, np.ones(1), 1)[0], own.view(1, 0))


def test_displacements_around_a_circle_end_as_they_begin():
    u = np.cumsum(np.random.default_rng(0).normal(size=(3, T + 20)), axis=1)
    own = ShiftedClass.of(np.arange(4), contours(4))
    found = own.close(u)
    np.testing.assert_array_equal(found[:, 10:-20], u[:, 10:-20])
    np.testing.assert_array_equal(found[:, :10], found[:, T : T + 10])
    np.testing.assert_array_equal(found[:, -10:], found[:, 10:20])
    share = np.arange(1, 11) / 11
    np.testing.assert_allclose(found[:, T : T + 10], (1 - share) * u[:, T : T + 10] + share * u[:, :10])


def test_classes_that_are_aligned_are_not_shifted():
    x = np.concatenate([pulses(8), waves(8)])
    classes = np.repeat([5, 2], 8)
    found = LocalDistributions(x, classes, 0.9).shifted
    assert list(found) == [2]
    np.testing.assert_array_equal(found[2].members, np.arange(8, 16))
    generator = SignalDeformations.fit(x, np.ones(16), classes)
    assert not generator.lags[:8].any()
    assert generator.lags[8:].any(axis=1).all()
    assert np.abs(generator.lags).max() == T // 2
    alone = SignalDeformations.fit(x[:8], np.ones(8), classes[:8])
    assert not alone.lags.any()
    still = LocalDistributions(generator.signals, classes, 0.9)
    still.__dict__["shifted"] = {}  # as if all classes were aligned
    h = np.random.default_rng(0).standard_normal(20)
    for i in (0, 7, 8, 15):
        same = [
            np.array_equal(*parts)
            for parts in zip(generator.distributions.component(i, h), still.component(i, h), strict=True)
        ]
        assert all(same) == (i < 8)


def test_lags_are_the_same_in_every_fit_and_anywhere():
    """Of 30 signals with 12 lags each, 360, the share in each quarter of 81 lags is within four standard errors."""
    x = waves(30, seed=1)
    generator = SignalDeformations.fit(x, np.ones(30), np.zeros(30, dtype=int))
    again = SignalDeformations.fit(x, np.ones(30), np.zeros(30, dtype=int))
    np.testing.assert_array_equal(generator.lags, again.lags)
    assert generator.lags.shape == generator.warps.shape[:2] == (30, 12)
    shares = np.histogram(generator.lags, np.linspace(-40.5, 40.5, 5))[0] / 360
    assert np.abs(shares - 0.25).max() < 4 * math.sqrt(0.25 * 0.75 / 360)


@pytest.mark.parametrize("made", [waves, contours])
def test_the_law_of_shifted_signals_is_the_mixture_of_its_components(made):
    x = made(9)
    generator = SignalDeformations.fit(x, np.array([1.0, 2, 1, 1, 1, 1, 1, 1, 0]), np.zeros(9, dtype=int))
    assert generator.distributions.shifted[0].is_closed == (made is contours)
    new, parts = made(3, seed=1), []
    for i, share in enumerate(np.array([1, 2, 1, 1, 1, 1, 1, 1]) / 9):
        for j in range(12):
            law = generator.distributions.component(i, generator.warps[i, j], int(generator.lags[i, j]))
            covariance = generator.unit**2 * (law.rows.T @ law.rows + np.diag(law.noise))
            density = multivariate_normal(generator.unit * law.mean, covariance, allow_singular=True)
            parts.append(np.log(share / 12) + density.logpdf(new.reshape(3, -1)))
    np.testing.assert_allclose(generator.log_density(new), np.logaddexp.reduce(parts), rtol=1e-4)


def test_the_component_at_a_lag_is_the_one_of_the_rolled_signal():
    """Around a circle, a law that is found at a lag is that at lag 0, rolled, up to margins and the grid."""
    laws = LocalDistributions(contours(10), np.zeros(10, dtype=int), 0.9)
    h = np.random.default_rng(0).standard_normal(20)
    still, moved = laws.component(3, h), laws.component(3, h, 17)
    assert np.abs(np.roll(still.mean, -17) - moved.mean).max() < 0.15
    assert np.abs(still.mean - moved.mean).max() > 1
    power = [np.square(one.rows).sum() for one in (still, moved)]
    assert 0.5 < power[1] / power[0] < 2


@pytest.mark.parametrize("made", [waves, contours])
def test_the_law_at_a_lag_is_that_of_the_neighbours_at_their_best_lags(made):
    """Warps u and differences of each neighbor, by means and deviations: x_j(t + u) - x_i(t), less than x_j - x_i."""
    laws = LocalDistributions(np.concatenate([made(10), 3 * made(10, seed=1)], axis=2), np.zeros(10, dtype=int), 0.9)
    own, law = laws.shifted[0], laws.distribution(4, -7)
    center, near, scale = (
        own.view(4, -7),
        own.find_nearest(4, -7, laws.signals.std((0, 1)), 6),
        laws.signals.std((0, 1)),
    )
    fixed, times, found = resample_to_grid(center[None], scale), np.arange(T + 20), []
    normalization = Normalization.of(laws.signals)
    for one in near:  # twice as many as the law is made of, which are those that are most alike after a warp
        u = register(resample_to_grid(one[None], scale), fixed, T + 20, normalization) - times
        u = own.close(u) if own.is_closed else u
        warped = normalization.match(interpolate_cubic(one[None], times + u), normalization.statistics(center[None]))
        found.append((one, u[0], warped[0] - center))
    blurred = gaussian_matrix(T + 20, 0.04 * (T + 20))
    found = sorted(found, key=lambda parts: (np.square(blurred @ parts[2]) / laws.spread).sum())[:3]
    u, r = math.sqrt(4) * law.warps[:3] + law.warp, math.sqrt(4) * law.values[:3] + law.value
    np.testing.assert_allclose(u, [parts[1] for parts in found], atol=1e-9)
    np.testing.assert_allclose(r, [parts[2] for parts in found], atol=1e-9)
    away = sum(np.square(parts[0] - center)[10:-10].sum() for parts in found)
    assert np.square(r)[:, 10:-10].sum() < away
    around = np.abs(u[:, :10] - u[:, T : T + 10]).max()
    assert (around < 1e-12) == own.is_closed == (made is contours)


def test_deviations_replace_what_steps_remove():
    """Factors and gains by their definitions, for two classes, one of which is shifted."""
    x = np.concatenate([np.concatenate([pulses(8), waves(8)]), 2 * np.concatenate([pulses(8, 1), waves(8, 1)])], axis=2)
    laws = LocalDistributions(x, np.repeat([0, 1], 8), 0.9)
    assert list(laws.shifted) == [1]
    for label in (0, 1):
        own = range(8 * label, 8 * label + 8)
        found = [laws.distribution(i) for i in own]
        time = sum(np.square(law.warp).sum() for law in found) / sum(np.square(law.warps).sum() for law in found)
        value = sum((np.square(law.value) / laws.spread).sum() for law in found)
        value /= sum((np.square(law.values) / laws.spread).sum() for law in found)
        assert laws.factors(label) == pytest.approx((math.sqrt(time), math.sqrt(value)))
        rng, power = np.random.default_rng(0), np.zeros((3, T, 2))
        center = x[own].mean((0, 1)) if label else x[own].mean(0)
        for i in own:
            mean, rows, noise = laws._deform(i, 0, rng.standard_normal(17))
            power[0] += dct(x[i] - center, axis=0, norm="ortho") ** 2
            power[1] += dct(mean - center, axis=0, norm="ortho") ** 2 + noise
            power[2] += sum(dct(row, axis=0, norm="ortho") ** 2 for row in rows)
        ratio = np.clip((power[0] - power[1]) / power[2], 1 / 16, 16)
        expected = np.exp(gaussian_matrix(T, 1.5) @ np.log(ratio) / 2)
        np.testing.assert_allclose(laws.gains(label), expected, rtol=1e-6)


@pytest.mark.parametrize(("i", "lag", "margin"), [(2, 0, 0), (9, 12, 10)])
def test_a_signal_is_moved_as_its_law_says(i, lag, margin):
    """Mean, deviations and lost noise by their equations, for a pulse, and for a wave that begins 12 points later."""
    noise = 0.3 * np.random.default_rng(3).normal(size=(16, T, 1))
    laws = LocalDistributions(np.concatenate([pulses(8), waves(8)]) + noise, np.repeat([0, 1], 8), 0.9)
    h, law = np.random.default_rng(0).standard_normal(4), laws.distribution(i, lag)
    signal = laws.shifted[1].view(i, lag) if margin else laws.signals[i]
    c, (b, a) = 1 - math.sqrt(0.19), laws.factors(int(i > 7))
    warp = np.arange(T + 2 * margin) + c * law.warp + 0.9 * b * sum(w * u for w, u in zip(h, law.warps, strict=True))
    clock = invert(enforce_increasing(warp[None])[0])
    inside = slice(margin, T + margin)
    mean = interpolate_cubic((signal + c * law.value)[None], clock[None])[:, inside]
    rows = np.concatenate([interpolate_cubic(0.9 * a * row[None], clock[None])[:, inside] for row in law.values])
    lost = white_noise(signal[None, inside]) - white_noise(mean) - white_noise(rows)
    assert lost > 0
    for found, expected in zip(laws._deform(i, lag, h), (mean[0], rows, lost), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_gains_of_closed_signals_go_around():
    """A component of a closed signal: every frequency around the circle has the gain of its double among cosines."""
    laws, h = (
        LocalDistributions(contours(10), np.zeros(10, dtype=int), 0.9),
        np.random.default_rng(0).standard_normal(20),
    )
    laws._gains[0] = np.linspace(1, 2, T)[:, None]
    _, rows, _ = laws._deform(2, 5, h)
    found = laws.component(2, h, 5).rows
    seen, wanted = (np.fft.rfft(part.reshape(len(rows), T), axis=1) for part in (found, rows))
    gains = np.linspace(1, 2, T)[[min(2 * m, T - 1) for m in range(T // 2 + 1)]]
    np.testing.assert_allclose(seen, wanted * gains, atol=1e-12)


def test_closed_signals_stay_closed():
    drawn = SignalDeformations.fit(contours(20), np.ones(20), np.zeros(20, dtype=int)).sample(
        100, np.random.default_rng(0)
    )
    assert seam(drawn.values) < 2
    assert 0.3 < drawn.values.std() / contours(20).std() < 1.3


def test_new_signals_have_no_jumps_and_begin_at_any_time():
    """The largest step of 100 new waves is at most half larger than that of 100 true ones; phases are uniform."""
    x = waves(20, noise=0.0)
    drawn = SignalDeformations.fit(x, np.ones(20), np.zeros(20, dtype=int)).sample(100, np.random.default_rng(0)).values
    assert np.abs(np.diff(drawn, axis=1)).max() < 1.5 * np.abs(np.diff(waves(100, 1, 0.0), axis=1)).max()
    power = np.square(np.abs(np.fft.rfft(drawn[:, :, 0], axis=1))).mean(0)
    true = np.square(np.abs(np.fft.rfft(x[:, :, 0], axis=1))).mean(0)
    assert power[2:6].sum() == pytest.approx(true[2:6].sum(), rel=0.25)
    assert np.square(drawn.mean(0)).mean() < 0.05 * np.square(drawn).mean()  # 100 phases: 0.01


def test_shifted_signals_are_no_copies():
    """The share of 40 new signals nearer to the 20 stored ones than to 20 others: 0.5 ± 0.08; most if recalled."""
    x, others = waves(20), waves(20, seed=1)

    def proximity(drawn):
        near, far = (np.square(drawn[:, None] - y).sum((2, 3)).min(1) for y in (x, others))
        return (near < far).mean()

    generator = SignalDeformations.fit(x, np.ones(20), np.zeros(20, dtype=int))
    assert proximity(generator.sample(40, np.random.default_rng(0)).values) < 0.74  # three standard errors
    recalled = SignalDeformations.fit(x, np.ones(20), np.zeros(20, dtype=int), scale=0.3)
    recalled.__dict__["lags"] = np.zeros_like(recalled.lags)
    assert proximity(recalled.sample(40, np.random.default_rng(0)).values) > 0.9


def test_the_first_of_many_draws_are_the_draws():
    generator = SignalDeformations.fit(waves(8), np.ones(8), np.zeros(8, dtype=int))
    many, few = (generator.sample(n, np.random.default_rng(0)) for n in (9, 4))
    np.testing.assert_array_equal(many.values[:4], few.values)
    np.testing.assert_array_equal(many.source[:4], few.source)


@pytest.mark.parametrize("length", [3, 7, 15])
@pytest.mark.parametrize("K", [1, 2, 9])
def test_short_or_few_signals_are_not_shifted(length, K):
    x = waves(K, length=length)
    generator = SignalDeformations.fit(x, np.ones(K), np.zeros(K, dtype=int))
    assert not generator.lags.any()
    assert np.isfinite(generator.sample(3, np.random.default_rng(0)).values).all()


def test_constant_channels_stay_constant():
    x = np.concatenate([waves(8), np.full((8, T, 1), 7.0)], axis=2)
    drawn = SignalDeformations.fit(x, np.ones(8), np.zeros(8, dtype=int)).sample(10, np.random.default_rng(0)).values
    np.testing.assert_allclose(drawn[:, :, 1], 7.0)
    assert np.abs(drawn[:, :, 0]).max() < 3


def test_each_class_has_the_power_of_its_own_signals():
    """A quiet class beside a loud one, 20 signals each: 200 new ones have the power of the stored ones to a third."""
    x = np.concatenate([waves(20), 0.05 * waves(20, seed=1, rate=6.3, noise=0.3)])
    drawn = SignalDeformations.fit(x, np.ones(40), np.repeat([0, 1], 20)).sample(400, np.random.default_rng(0))
    for label in (0, 1):
        new = drawn.values[drawn.source // 20 == label]
        assert np.square(new).mean() == pytest.approx(np.square(x[20 * label :][:20]).mean(), rel=1 / 3)


def test_classes_of_few_signals_are_calibrated_with_the_others():
    x, classes = np.concatenate([pulses(10), pulses(3, seed=1)]), np.repeat([0, 1], [10, 3])
    laws = LocalDistributions(x, classes, 0.9)
    assert laws._calibration_signals(0) == list(range(10))
    assert laws._calibration_signals(1) == list(range(13))
    assert LocalDistributions(x, np.repeat([0, 1], [9, 4]), 0.9)._calibration_signals(1) == list(range(9, 13))
    assert laws.factors(0) != laws.factors(1)
    assert laws.gains(1).shape == (T, 1)


def test_the_description_says_which_classes_are_shifted():
    x, y = waves(8), pulses(8)
    both = SignalDeformations.fit(np.concatenate([x, y]), np.ones(16), np.repeat([0, 1], 8)).describe().summary
    assert both.endswith("scale 0.9, and shifted in time in 1 of 2 classes, because signals are not aligned")
    every = SignalDeformations.fit(x, np.ones(8), np.zeros(8, dtype=int)).describe().summary
    assert every.endswith("scale 0.9, and shifted in time, because signals are not aligned")
    assert SignalDeformations.fit(y, np.ones(8), np.zeros(8, dtype=int)).describe().summary.endswith("scale 0.9")
    sizes = SignalDeformations.fit(pulses(42), np.ones(42), np.repeat([0, 1], [11, 31])).describe().summary
    assert "as the nearest (3 to 10) differ" in sizes


def test_units_and_weights_of_warps():
    x = pulses(11)
    x[:, 0] = 0
    generator = SignalDeformations.fit(100 * x, np.ones(11), np.zeros(11, dtype=int))
    assert generator.unit == 128
    assert SignalDeformations.fit(0 * x, np.ones(11), np.zeros(11, dtype=int)).unit == 1
    assert generator.warps.shape == (11, 12, 4)  # three neighbors of ten others
    np.testing.assert_array_equal(generator.warps, np.random.default_rng(0).standard_normal((11, 12, 4)))
    assert SignalDeformations.fit(x, np.r_[1, np.zeros(10)], np.zeros(11, dtype=int)).warps.shape == (1, 12, 1)
