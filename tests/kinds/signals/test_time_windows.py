"""Kernels around signals with noise in windows along time: the law against its closed form, conditions, the choices."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from stochattn.kinds.signals.generator.window_fit import (
    choose_setting,
    find_shifts,
    fit_time_windows,
    list_shifts,
    shift_signals,
)
from stochattn.kinds.signals.generator.windows import MAX_CONDITIONED, ROWS, power_windows

T, C, WIDTH, WINDOW, ROUGHNESS = 8, 2, 0.4, 3, 0.3
GIVEN = {"width": WIDTH, "spacing": WINDOW, "pooled": 0.5, "roughness": ROUGHNESS, "shift": 0, "slide": 0}
FREE = dict.fromkeys(GIVEN)


def stored(K=7, seed=0):
    """Signals (K, T, C) of two classes, the classes, and weights."""
    rng = np.random.default_rng(seed)
    classes = np.array([0, 0, 0, 0, 1, 1, 1])[:K]
    return np.cumsum(rng.normal(size=(K, T, C)), axis=1) + 3 * classes[:, None, None], classes, rng.uniform(0.5, 2, K)


def mixture(signals, classes, weights, setting):
    """Log weights (K,), means (K, p) and covariances (K, p, p), written out for signals that are not shifted."""
    shares = weights / weights.sum()
    flat = signals.reshape(len(signals), -1)
    windows = np.repeat(power_windows(T, setting["spacing"]), C, axis=1)
    centers = {c: np.average(flat[classes == c], axis=0, weights=shares[classes == c]) for c in set(classes)}
    residuals = flat - np.array([centers[c] for c in classes])
    a = (20 - np.sqrt(400 - 420 * setting["roughness"])) / 70  # 1 - 20a/3 + 35a²/3 = 1 - roughness
    smooth = (1 - 2 * a) * np.eye(T) + a * (np.eye(T, k=1) + np.eye(T, k=-1))
    smooth[0, 0] = smooth[-1, -1] = 1 - a
    smoothed = np.einsum("tu,kuc->ktc", smooth, residuals.reshape(signals.shape)).reshape(len(signals), -1)
    every = sum(w * np.outer(r, r) for w, r in zip(shares, smoothed, strict=True))
    second = residuals.reshape(signals.shape)
    second = second[:, 2:] - 2 * second[:, 1:-1] + second[:, :-2]
    rough = (shares[:, None, None] * second**2).sum((0, 1)) / (6 * (T - 2))
    nugget = (
        setting["roughness"] * rough
        + 1e-8 * (shares[:, None, None] * residuals.reshape(signals.shape) ** 2).sum((0, 1)) / T
    )
    s, means, covariances = setting["width"], [], []
    for c, x in zip(classes, flat, strict=True):
        own = classes == c
        within = sum(w * np.outer(r, r) for w, r in zip(shares[own], smoothed[own], strict=True)) / shares[own].sum()
        both = (1 - setting["pooled"]) * within + setting["pooled"] * every
        means.append(centers[c] + np.sqrt(1 - s) * (x - centers[c]))
        covariances.append(s * (both * (windows.T @ windows) + np.diag(np.tile(nugget, T))))
    return np.log(shares), np.array(means), np.array(covariances)


def moments(log_weights, means, covariances):
    w = np.exp(log_weights)
    mean = w @ means
    away = means - mean
    return mean, np.einsum("k,kij->ij", w, covariances + away[:, :, None] * away[:, None, :])


def conditioned(log_weights, means, covariances, at, values):
    """The mixture given that the features `at` have these values: weights, means and covariances of all features."""
    found = []
    for w, m, S in zip(log_weights, means, covariances, strict=True):
        gain = S[:, at] @ np.linalg.inv(S[np.ix_(at, at)])
        found.append(
            (
                w + multivariate_normal(m[at], S[np.ix_(at, at)]).logpdf(values),
                m + gain @ (values - m[at]),
                S - gain @ S[at],
            )
        )
    log_w, new_means, new_covariances = map(np.array, zip(*found, strict=True))
    return log_w - np.logaddexp.reduce(log_w), new_means, new_covariances


def standard_errors(drawn, mean, covariance):
    """How far the mean and the covariance of draws (n, p) are from these, at most, in standard errors."""
    n, away = len(drawn), drawn - mean
    scale = np.sqrt(np.diag(covariance))
    moving = scale > 1e-6
    of_mean = np.abs(away.mean(0)[moving] / scale[moving] * np.sqrt(n)).max()
    products = away[:, moving, None] * away[:, None, moving]
    errors = products.std(0) / np.sqrt(n)
    return of_mean, np.abs((products.mean(0) - covariance[np.ix_(moving, moving)]) / errors).max()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_the_noise_that_is_removed_is_added_again(share):
    """White noise of 200 signals: second differences have the standard error 1 %."""
    noise = np.random.default_rng(0).normal(size=(200, 100, 1))
    given = GIVEN | {"roughness": share, "width": 1.0, "spacing": 0}
    [group] = fit_time_windows(noise, np.ones(200), np.zeros(200, dtype=int), given).groups
    smooth = group.ensemble.reshape(200, 100)
    left = np.square(np.diff(smooth, 2)).sum(0).mean() / 6
    assert left + group.nugget.mean() == pytest.approx(1, abs=0.04)
    assert left == pytest.approx(1 - share, abs=0.04)


@pytest.mark.parametrize(("points", "window"), [(10, 3), (10, 9), (7, 2), (5, 0), (5, 5), (5, 1)])
def test_squares_of_windows_add_up_to_one(points, window):
    windows = power_windows(points, window)
    np.testing.assert_allclose((windows**2).sum(0), 1)
    assert len(windows) == (1 if window in (0, points) else -(-(points - 1) // window) + 1)


def test_draws_have_the_moments_of_the_mixture():
    """20,000 draws: a mean or covariance off by five standard errors fails. Five are exceeded by chance in less than
    one case of 5,000; a variance of noise without its factor s is off by more than 20.
    """
    signals, classes, weights = stored()
    law = mixture(signals, classes, weights, GIVEN)
    generator = fit_time_windows(signals, weights, classes, GIVEN)
    drawn = generator.sample(20_000, np.random.default_rng(1)).values.reshape(20_000, -1)
    assert max(standard_errors(drawn, *moments(*law))) < 5
    wrong = law[0], law[1], law[2] / WIDTH
    assert max(standard_errors(drawn, *moments(*wrong))) > 20


def test_the_variance_of_every_point_is_that_of_the_class():
    signals, _, weights = stored()
    classes, shares = np.zeros(len(signals), dtype=int), weights / weights.sum()
    setting = GIVEN | {"roughness": 0.0}
    mean, covariance = moments(*mixture(signals, classes, weights, setting))
    flat = signals.reshape(len(signals), -1)
    np.testing.assert_allclose(np.diag(covariance), shares @ (flat - shares @ flat) ** 2, rtol=1e-6)
    drawn = fit_time_windows(signals, weights, classes, setting).sample(20_000, np.random.default_rng(1)).values
    assert max(standard_errors(drawn.reshape(20_000, -1), mean, covariance)) < 5


@pytest.mark.parametrize("pooled", [0.0, 0.5, 1.0])
def test_the_density_is_that_of_the_mixture(pooled):
    signals, classes, weights = stored()
    setting = GIVEN | {"pooled": pooled}
    log_w, means, covariances = mixture(signals, classes, weights, setting)
    x = stored(seed=3)[0]
    parts = [
        w + multivariate_normal(m, S).logpdf(x.reshape(len(x), -1))
        for w, m, S in zip(log_w, means, covariances, strict=True)
    ]
    generator = fit_time_windows(signals, weights, classes, setting)
    np.testing.assert_allclose(generator.log_density(x), np.logaddexp.reduce(parts), rtol=1e-8)
    with pytest.raises(ValueError, match="before condition"):
        generator.condition((np.array([0]), np.array([1.0]))).log_density(x)


def test_conditions_are_exact_and_the_rest_has_the_conditional_law():
    """20,000 draws, as above; the unconditional law would be off by more than 20 standard errors."""
    signals, classes, weights = stored()
    at, values = np.array([0, 5, 9]), np.array([1.0, 0.5, 2.0])
    law = conditioned(*mixture(signals, classes, weights, GIVEN), at, values)
    given = fit_time_windows(signals, weights, classes, GIVEN).condition((at, values))
    np.testing.assert_allclose(np.exp(given.log_shares), np.exp(law[0]), rtol=1e-8)
    drawn = given.sample(20_000, np.random.default_rng(1)).values.reshape(20_000, -1)
    assert (drawn[:, at] == values).all()
    assert max(standard_errors(drawn, *moments(*law))) < 5
    others = np.setdiff1d(np.arange(T * C), at)
    mean, covariance = moments(*mixture(signals, classes, weights, GIVEN))
    assert max(standard_errors(drawn[:, others], mean[others], covariance[np.ix_(others, others)])) > 20


def test_each_signal_is_drawn_around_once_in_a_round_and_the_first_draws_do_not_depend_on_the_others():
    signals, classes, _ = stored()
    generator = fit_time_windows(signals, np.ones(7), classes, GIVEN)
    many = generator.sample(70, np.random.default_rng(2))
    assert (np.bincount(many.source) == 10).all()
    for m in (1, ROWS - 3, ROWS + 1):
        few = generator.sample(m, np.random.default_rng(2))
        np.testing.assert_array_equal(few.values, many.values[:m])
        np.testing.assert_array_equal(few.source, many.source[:m])


def test_signals_without_weight_do_not_count():
    signals, classes, _ = stored()
    weights = np.array([1.0, 0, 1, 1, 0, 1, 1])
    kept = weights > 0
    some, alone = (
        fit_time_windows(x, w, c, GIVEN).sample(20, np.random.default_rng(0))
        for x, w, c in ((signals, weights, classes), (signals[kept], weights[kept], classes[kept]))
    )
    np.testing.assert_array_equal(some.values, alone.values)
    np.testing.assert_array_equal(some.source, np.flatnonzero(kept)[alone.source])


def pulses(K, points=60, spread=4, seed=0):
    """Pulses (K, points, 1) at times that differ by `spread` points, and their times."""
    rng, t = np.random.default_rng(seed), np.arange(points)
    at = 30 + np.rint(spread * rng.uniform(-1, 1, K)).astype(int)
    heights = 1 + 0.1 * rng.normal(size=(K, 1))
    return (heights * np.exp(-((t - at[:, None]) ** 2) / 8) + 0.01 * rng.normal(size=(K, points)))[:, :, None], at


def test_shifts_align_pulses():
    signals, at = pulses(30)
    shifts = find_shifts(signals, 5)
    aligned = np.array(
        [shift_signals(one[None], int(by), 0)[0, :, 0].argmax() for one, by in zip(signals, shifts, strict=True)]
    )
    assert np.ptp(at) >= 6
    assert np.ptp(aligned) <= 1
    assert set(shifts) <= set(list_shifts(5))
    assert np.median(shifts) == 0
    np.testing.assert_array_equal(list_shifts(5), np.arange(-5, 6))
    np.testing.assert_array_equal(list_shifts(3), np.arange(-3, 4))
    np.testing.assert_array_equal(list_shifts(1000), np.arange(-1000, 1001, 200))


def test_shifted_signals_continue_their_ends():
    signal = np.array([3.0, 5.0, 7.0])[None, :, None]
    np.testing.assert_array_equal(shift_signals(signal, 1, 2)[0, :, 0], [3, 3, 5, 7, 7, 7, 7])
    np.testing.assert_array_equal(shift_signals(signal, -2, 0)[0, :, 0], [3, 3, 3])


def test_channels_are_aligned_in_units_of_their_own():
    """A pulse of a hundredth beside noise of a hundred: each channel counts as much as the other, a constant one never.

    The noise adds differences of √(2 · 100) or so to squared distances of up to 200, by chance.
    """
    rng, t = np.random.default_rng(0), np.arange(120)
    at = np.arange(-5, 6)
    pulse = 0.01 * np.exp(-((t - 60 - at[:, None]) ** 2) / 8)
    signals = np.stack([pulse, 100 * rng.normal(size=pulse.shape), np.full(pulse.shape, 3.0)], axis=2)
    np.testing.assert_array_equal(find_shifts(signals[:, :, [0, 2]], 5), at)
    assert np.abs(find_shifts(signals, 5) - at).max() <= 1


def test_a_signal_at_its_own_shift_is_as_stored():
    signals, _ = pulses(12)
    generator = fit_time_windows(signals, np.ones(12), np.zeros(12, dtype=int), GIVEN | {"shift": 5, "spacing": 10})
    shifts = sorted(set(find_shifts(signals, 5)))
    assert len(generator.groups) == len(shifts) > 2
    for k, by in enumerate(find_shifts(signals, 5)):
        group = generator.groups[shifts.index(by)]
        np.testing.assert_array_equal(group.signals[k], signals[k].ravel())
    np.testing.assert_allclose(np.exp(generator.log_shares), 1 / 12)


def test_pulses_are_aligned_and_smooth_curves_are_not():
    """New pulses are as high and as narrow as the stored ones; mixtures of pulses at different times would be wider."""
    signals, _ = pulses(40)
    generator = fit_time_windows(signals, np.ones(40), np.zeros(40, dtype=int), FREE)
    assert generator.setting.shift == 6
    drawn = generator.sample(40, np.random.default_rng(0)).values[:, :, 0]

    def width(x):
        return (x > x.max(1, keepdims=True) / 2).sum(1).mean()

    assert width(drawn) == pytest.approx(width(signals[:, :, 0]), abs=0.5)
    assert drawn.max(1).mean() == pytest.approx(signals.max(1).mean(), abs=0.1)
    rng = np.random.default_rng(0)
    waves = rng.normal(size=(40, 2)) @ np.stack([np.sin(np.arange(60) / 9), np.cos(np.arange(60) / 9)])
    setting = choose_setting((waves + 0.01 * rng.normal(size=waves.shape))[:, :, None], np.zeros(40, dtype=int), {})
    assert setting.spacing == 0  # two coefficients for the whole signal
    noise = choose_setting(rng.normal(size=(40, 60, 1)), np.zeros(40, dtype=int), {})
    assert 0 < noise.spacing <= 4  # points that have nothing to do with each other


def test_parts_that_slide_keep_the_variance_of_every_point():
    """Where noise may come from two points earlier or later, covariances become alike along time, variances do not."""
    signals, _, _ = stored()
    given = GIVEN | {"roughness": 0.0, "slide": 2, "spacing": 0, "width": 1.0}
    [group] = fit_time_windows(signals, np.ones(7), np.zeros(7, dtype=int), given).groups
    assert group.ensemble.shape == (5 * 7, T * C)
    np.testing.assert_allclose(np.square(group.ensemble).sum(0), signals.reshape(7, -1).var(0))
    centered = signals - signals.mean(0)
    reflected = {-2: 2, -1: 1, 8: 6, 9: 5}  # of eight points
    times = [[reflected.get(t + by, t + by) for t in range(T)] for by in range(-2, 3)]
    moved = np.concatenate([centered[:, at] for at in times]).reshape(5 * 7, -1)
    scale = np.sqrt(np.square(moved).sum(0))
    np.testing.assert_allclose(
        group.ensemble.T @ group.ensemble / np.outer(*2 * [np.sqrt(signals.reshape(7, -1).var(0))]),
        moved.T @ moved / np.outer(scale, scale),
        atol=1e-9,
    )


def test_what_is_given_is_not_chosen():
    signals, _ = pulses(20)
    setting = choose_setting(signals, np.zeros(20, dtype=int), {"spacing": 7, "shift": 0, "width": 0.25})
    assert (setting.spacing, setting.shift, setting.width) == (7, 0, 0.25)
    few = choose_setting(signals[:5], np.zeros(5, dtype=int), {"width": 0.25})
    assert (few.width, few.spacing, few.shift, few.slide) == (0.25, 0, 0, 0)


@pytest.mark.parametrize("channels", [1, 2])
def test_curves_of_two_coefficients_have_one_window(channels):
    rng, t = np.random.default_rng(0), np.arange(30) / 5
    waves = rng.normal(size=(16, 2)) @ np.stack([np.sin(t), np.cos(t)]) + 0.01 * rng.normal(size=(16, 30))
    given = {"shift": 0, "slide": 0, "roughness": 0.3, "pooled": 0.0}
    signals = np.repeat(waves[:, :, None], channels, axis=2) + 0.01 * rng.normal(size=(16, 30, channels))
    assert choose_setting(signals, np.zeros(16, dtype=int), given).spacing == 0


def test_noise_that_is_alike_at_all_times_slides_unless_there_is_too_much_of_it(monkeypatch):
    """Twelve signals of a stationary process: their covariance is known better from all times than from each."""
    rng = np.random.default_rng(0)
    white = rng.normal(size=(12, 90))
    smooth = np.array([np.convolve(row, np.exp(-np.arange(20) / 4), "valid") for row in white])[:, :64, None]
    given = {"shift": 0, "roughness": 0.03, "spacing": 4, "width": 1.0}
    setting = choose_setting(smooth, np.zeros(12, dtype=int), given)
    assert setting.slide > 0
    assert setting.pooled == 0  # of one class
    monkeypatch.setattr("stochattn.kinds.signals.generator.window_fit.MAX_SLID", 12 * 64 - 1)
    assert choose_setting(smooth, np.zeros(12, dtype=int), given).slide == 0


def test_the_setting_in_words():
    signals, classes, weights = stored()
    given = fit_time_windows(signals, weights, classes, GIVEN | {"slide": 2, "shift": 1})
    assert given.describe().summary == (
        "noise in windows every 3 points of parts that slide by up to 2 points, 40% of the variance, signals aligned "
        "by up to 1 points (as given)"
    )
    one = fit_time_windows(signals, weights, classes, FREE | {"spacing": 0})
    assert one.describe().summary == (
        "noise in one window over all points, 50% of the variance (chosen by the likelihood of left-out signals)"
    )
    assert one.describe().resolved["spacing"] == 0


def test_a_class_of_one_varies_as_the_others_do():
    signals, classes, _ = stored()
    kept = [0, 1, 2, 3, 4]
    generator = fit_time_windows(signals[kept], np.ones(5), classes[kept], GIVEN | {"pooled": 0.0})
    drawn = generator.sample(500, np.random.default_rng(0))
    alone = drawn.values[drawn.source == 4]
    np.testing.assert_allclose(alone.mean(0), signals[4], atol=0.4)
    assert (alone.std(0) > 0.1).all()


def test_too_many_conditioned_values_are_an_error():
    signals, classes, weights = stored()
    generator = fit_time_windows(signals, weights, classes, GIVEN)
    with pytest.raises(ValueError, match=f"at most 2,000 values of a signal; got {MAX_CONDITIONED + 1:,}"):
        generator.condition((np.arange(MAX_CONDITIONED + 1), np.zeros(MAX_CONDITIONED + 1)))
    given = generator.condition((np.array([0]), np.array([1.0])))
    with pytest.raises(ValueError, match="conditioned already"):
        given.condition((np.array([1]), np.array([1.0])))
    far = generator.condition((np.array([0]), np.array([1000.0])))
    assert "the conditioned values are unlike all stored signals, so draws extrapolate" in far.describe().notes
    assert not any("unlike" in note for note in given.describe().notes)
