"""Windows of days: equal weight of days, gaps, preserved lengths, lengths of windows, unusual histories."""

import math
import warnings

import numpy as np
import pytest

import stochattn as sa
from made_returns import around, names, synth_of
from stochattn.kinds import InputError
from stochattn.kinds.returns.codec import ReturnsCodec
from stochattn.kinds.returns.generator.coordinates import GRID, Blocks, Groups, MarginalCalibration
from stochattn.kinds.returns.kind import KIND


def made_returns(days=300, N=6, seed=0):
    rng = np.random.default_rng(seed)
    return 0.01 * rng.standard_t(5, (days, N)) + 0.008 * rng.standard_normal((days, 1))


def fitted(days=300, N=6, seed=0, **options):
    return ReturnsCodec.fit(made_returns(days, N, seed), names(N), **options)


# --- Days of a window


@pytest.mark.parametrize(("runs", "window", "step"), [((7, 5, 9), 4, 1), ((8, 6), 4, 2), ((12,), 12, 3), ((5,), 1, 1)])
def test_every_day_is_in_the_same_number_of_windows(runs, window, step):
    days = Blocks(runs, window, step).days
    assert days.shape == (sum(-(-run // step) for run in runs), window)
    assert np.bincount(days.ravel(), minlength=sum(runs)).tolist() == [window // step] * sum(runs)


def test_no_window_crosses_a_gap():
    run_of, first, length = np.repeat([0, 1, 2], [7, 5, 9]), (0, 7, 12), (7, 5, 9)
    for window in Blocks((7, 5, 9), 4).days.tolist():
        run = run_of[window[0]]
        expected = [window[0]]
        for _ in range(3):
            last = expected[-1]
            expected.append(first[run] if last == first[run] + length[run] - 1 else last + 1)
        assert window == expected


def test_stored_windows_have_these_days_and_are_saved(tmp_path):
    codec = fitted(60, runs=[25, 35], window=10)
    np.testing.assert_array_equal(codec.stored[20], codec.history[[20, 21, 22, 23, 24, 0, 1, 2, 3, 4]])
    np.testing.assert_array_equal(codec.stored[25], codec.history[25:35])
    assert codec.ids[20] == "days 21 to 25 and 1 to 5"
    assert codec.ids[25] == "days 26 to 35"
    synth_of(codec, beta=30.0).save(tmp_path / "a.synth")
    again = sa.load(tmp_path / "a.synth")
    assert again.codec.blocks == Blocks((25, 35), 10, 1)
    assert again.codec.ids == codec.ids
    np.testing.assert_array_equal(again.stored_rows, synth_of(codec, beta=30.0).stored_rows)


def test_refitting_on_other_windows():
    codec = fitted(60, runs=[25, 35], window=10)
    some = codec.stored[[3, 22, 40, 59]]
    again = codec.refit(some)
    np.testing.assert_array_equal(again.stored, some)
    with pytest.raises(InputError, match="2 windows of 10 days are too few"):
        codec.refit(some[:2])


def test_non_overlapping_windows_share_no_day():
    codec = fitted(60, runs=[25, 35], window=10)
    assert KIND.measures.non_overlapping(codec, np.arange(60)).tolist() == [0, 10, 25, 35, 45]
    chosen = KIND.measures.non_overlapping(codec, np.array([20, 0, 5, 30]))
    assert chosen.tolist() == [20, 5, 30]  # 20 continues at day 0


def test_a_subset_of_one_year_holds_no_days_of_the_other_end_of_the_history():
    dates = [str(np.datetime64("2022-11-01") + i) for i in range(120)]
    codec = fitted(120, dates=dates, window=10)
    assert codec.labels[-1] == "2023 and 2022"
    assert codec.labels[51:53] == ("2022", "2023")
    kept = synth_of(codec, beta=50.0).subset("2023").kept
    assert codec.blocks.days[kept].min() == 52  # the first window that ends in 2023 begins on 23 December


def test_many_tickers_have_fewer_windows():
    """At most 2**23 numbers, with a stride that divides the window: 2,766 × 60 × 50 = 8.3 million."""
    steps = [Blocks.within((2766,), 60, N).step for N in (50, 51, 102, 424, 5000)]
    assert steps == [1, 2, 3, 10, 60]
    assert Blocks.within((2766,), 61, 424).step == 61
    assert Blocks.within((2766,), 1, 10_000).step == 1


def test_windows_that_do_not_divide_a_run_are_spread_over_it():
    """Five windows of 60 days in a run of 250: they begin every 50 days, and overlap by 10 everywhere."""
    blocks = Blocks((250,), 60, 60)
    assert blocks.days[:, 0].tolist() == [0, 50, 100, 150, 200]
    counts = np.bincount(blocks.days.ravel(), minlength=250)
    assert counts.reshape(5, 50).sum(1).tolist() == [60] * 5


# --- Length of a window


@pytest.mark.parametrize(
    ("days", "runs", "window", "note"),
    [
        (480, None, 60, None),
        (479, None, 59, "479 days are few for windows of 60 days: windows have 59"),
        (40, None, 5, "40 days are few"),
        (7, None, 1, "7 days are few"),
        (3, None, 1, "3 days are few"),
        (300, [280, 20], 20, "300 days in 2 runs, the shortest of 20 days, are few for windows of 60 days"),
    ],
)
def test_windows_have_60_days_if_the_history_is_long_enough(days, runs, window, note):
    codec = fitted(days, runs=runs)
    assert codec.window == window
    assert [text for text in codec.notes if "are few" in text] == [
        text for text in codec.notes if note and note in text
    ]
    assert bool(note) == any("are few" in text for text in codec.notes)


@pytest.mark.parametrize(
    ("days", "options", "message"),
    [
        (50, {"window": 60}, "50 returns make 0 windows of 60 days, and at least 3 are needed"),
        (61, {"window": 60}, "61 returns make 2 windows of 60 days"),
        (2, {}, "2 returns make 2 windows of 1 days, and at least 3 are needed"),
        (
            300,
            {"window": 60, "runs": [250, 50]},
            "window=60 is longer than the shortest of 2 runs of days, which has 50",
        ),
        (300, {"runs": [100, 100]}, r"add up to the 300 days of log_returns; got \[100, 100\], which add up to 200"),
        (300, {"runs": [300, 0]}, "positive integers"),
        (300, {"runs": []}, "positive integers"),
        (300, {"runs": [150.0, 150.0]}, "positive integers"),
        (0, {}, r"must be \(days, tickers\)"),
    ],
    ids=str,
)
def test_windows_that_do_not_fit(days, options, message):
    with pytest.raises(InputError, match=message):
        fitted(days, **options)


# --- Lengths and marginals


@pytest.mark.parametrize("window", [1, 5])
def test_every_group_of_every_day_has_its_stored_length(window):
    codec, k = fitted(N=14, window=window), np.arange(0, 300, 7)
    new = around(codec, k, 20.0, np.random.default_rng(0), marginals="free", market_path="stored")
    inward = synth_of(codec, beta=20.0).generator.embedding.coordinates.inward
    then, now = ((x - codec.history.mean(0)) @ inward for x in (codec.stored[k], new))
    assert (np.sign(now[..., 0]) == np.sign(then[..., 0])).all()  # the market
    assert 0.1 < np.log(now[..., 0] / then[..., 0]).std() < 0.25
    for part in (slice(1, 5), slice(5, 14)):
        np.testing.assert_allclose(*(np.linalg.norm(z[..., part], axis=-1) for z in (then, now)), rtol=1e-9)
        cosine = (then[..., part] * now[..., part]).sum(-1) / np.square(then[..., part]).sum(-1)
        assert cosine.max() < 0.999  # directions have changed


def test_days_without_a_market_have_the_directions_of_the_row_that_was_drawn():
    codec = fitted(N=3, window=4)
    generator = synth_of(codec, beta=20.0, market="none", marginals="free").generator
    drawn = generator.sample(50, np.random.default_rng(0))
    new = (drawn.values - codec.history.mean(0)) @ generator.embedding.coordinates.inward
    rows = np.asarray(drawn.rows).reshape(50, 4, 3)  # three components are one group
    for z in (new, rows):
        z /= np.linalg.norm(z, axis=2, keepdims=True)
    np.testing.assert_allclose(new, rows, atol=1e-9)


def test_columns_without_a_market_are_calibrated_one_by_one():
    codec = fitted(N=4, window=3)
    embedding = synth_of(codec, beta=20.0, market="none").generator.decoder
    noise, source, coordinates = np.random.default_rng(0).standard_normal((9, 12)), np.arange(9), embedding.coordinates
    days = coordinates.day_features(coordinates.draw_days(20.0, coordinates.days[source].ravel(), noise.reshape(27, 4)))
    np.testing.assert_allclose(embedding.draw_windows(source, noise, 1.0).reshape(27, 4), embedding.calibration(days))
    assert np.abs(embedding.calibration(days) - days).max() > 1e-4


def test_lengths_of_the_paper_are_not_calibrated():
    codec = fitted(N=4, window=3)
    free, calibrated = (
        synth_of(codec, beta=20.0, norm="paper", marginals=marginals).sample(8, rng=0)
        for marginals in ("free", "calibrated")
    )
    np.testing.assert_array_equal(free, calibrated)


def test_days_have_as_many_components_as_explain_the_variance():
    codec = fitted(N=6, window=3)
    wide, narrow = (synth_of(codec, beta=20.0, variance=v).generator.embedding.coordinates for v in (1.0, 0.5))
    shares = np.cumsum(np.linalg.eigvalsh(np.cov(codec.history.T))[::-1])
    assert len(wide.outward) == 6
    assert len(narrow.outward) == np.searchsorted(shares / shares[-1], 0.5) + 1 < 6


def test_a_group_without_length_has_a_direction():
    z = np.array([[0.0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9], np.arange(13.0), np.zeros(13)])
    groups = Groups.of(13, market=False)
    directions, lengths = groups.split(z)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)
    np.testing.assert_allclose(groups.with_lengths(directions, lengths), z, atol=1e-9)


def test_a_column_needs_three_points_for_its_map():
    history = np.random.default_rng(0).normal(size=(50, 1))
    for n_inside in (2, 3):
        shares = np.r_[np.zeros(10), np.linspace(0.3, 0.6, n_inside), np.ones(len(GRID) - 10 - n_inside)]
        (found,) = MarginalCalibration._to_history([shares], history).maps
        assert (found is None) is (n_inside == 2)


def test_columns_around_a_day_have_the_mean_and_deviation_of_draws():
    """20,000 draws: five standard errors."""
    codec, n = fitted(N=3, window=2), 20_000
    space = synth_of(codec, beta=4.0, norm="whole").generator.embedding.coordinates
    chosen = np.array([5, 60])
    means, deviations = space.marginals(4.0, codec.history[chosen])
    np.testing.assert_allclose(means, codec.history[chosen], atol=1e-12)
    for day, mean, deviation in zip(chosen, means, deviations, strict=True):
        noise = np.random.default_rng(0).standard_normal((n, len(space.outward)))
        drawn = space.day_features(space.draw_days(4.0, np.full(n, day), noise))
        assert (np.abs(drawn.mean(0) - mean) < 5 * deviation / np.sqrt(n)).all()
        np.testing.assert_allclose(drawn.std(0), deviation, rtol=5 / np.sqrt(2 * n))


@pytest.mark.parametrize("N", [2, 20])
@pytest.mark.parametrize(("market", "moved"), [("none", 0.0), ("auto", 0.015)])
def test_calibrated_windows_have_the_quantiles_of_the_history(N, market, moved):
    """100,000 days against the map's 2**16, five standard errors, and 0.003 for lines between grid points.

    Tickers have independent jumps, which draws distribute over all: a map for a third of the noise is wrong by 0.02.
    Days with a market are then moved along it, which changes quantiles of independent tickers by up to 0.015.
    """
    history = 0.01 * np.random.default_rng(4).standard_t(2.5, (400, N))
    codec, k = ReturnsCodec.fit(history, names(N), window=2), np.arange(50_000) % 400
    new = around(codec, k, 4.0 * N, np.random.default_rng(1), market=market).reshape(-1, N)
    for level in (0.01, 0.1, 0.25, 0.75, 0.9, 0.99):
        below = (new < np.quantile(history, level, axis=0, method="hazen")).mean(0)
        error = math.sqrt(level * (1 - level) * (1 / 100_000 + 1 / 2**16))
        assert (np.abs(below - level) < 5 * error + 0.003 + moved).all()


def test_conditions_are_met_by_a_window_of_sixty_days():
    items = synth_of(fitted(480)).condition({"T1": -0.03, ("T4", 59): 0.02}).sample(50, rng=0)
    np.testing.assert_allclose(items[:, 0, 1], -0.03, atol=1e-9)
    np.testing.assert_allclose(items[:, 58, 4], 0.02, atol=1e-9)


# --- Unusual histories


def _odd(case):
    x = made_returns(300, 4)
    return {
        "one ticker": x[:, :1],
        "constant ticker": np.column_stack([x, np.zeros(300)]),
        "sums of others": np.column_stack([x, x[:, 0] + x[:, 1]]),
        "one ticker four times": np.repeat(x[:, :1], 4, axis=1),
        "more tickers than days": made_returns(60, 100),
        "half of the days without moves": np.where(np.arange(300)[:, None] < 150, x, 0.0),
        "some days twice": np.concatenate([x, x[:80]]),
        "nine days": x[:9],
    }[case]


@pytest.mark.parametrize(
    "case",
    [
        "one ticker",
        "constant ticker",
        "sums of others",
        "one ticker four times",
        "more tickers than days",
        "half of the days without moves",
        "some days twice",
        "nine days",
    ],
)
def test_unusual_histories_give_windows_and_paths(case):
    history = _odd(case)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codec = ReturnsCodec.fit(history, names(history.shape[1]))
        items = synth_of(codec).sample(300, rng=0)
        path = synth_of(codec, days=150).sample(3, rng=0)
    assert np.isfinite(items).all()
    assert path.shape == (3, 150, history.shape[1])
    spread, moving = items.std((0, 1)), history.std(0) > 0
    np.testing.assert_allclose(spread[moving], history.std(0)[moving], rtol=0.3 if case == "nine days" else 0.1)
    np.testing.assert_allclose(spread[~moving], 0, atol=1e-15)


def test_tickers_that_are_sums_of_others_stay_so_with_free_marginals():
    codec = ReturnsCodec.fit(_odd("sums of others"), names(5))
    items = synth_of(codec, marginals="free", whiten=False).sample(50, rng=0)
    np.testing.assert_allclose(items[..., 4], items[..., 0] + items[..., 1], atol=1e-12)


@pytest.mark.parametrize("days", [np.zeros((300, 3)), np.tile([0.01, -0.02, 0.03], (300, 1))], ids=["zeros", "one day"])
def test_a_history_without_changes_is_an_error(days):
    with pytest.raises(InputError, match="all stored days are equal"):
        ReturnsCodec.fit(days, names(3))


def test_a_history_that_repeats_itself_is_an_error():
    codec = ReturnsCodec.fit(np.tile(made_returns(30, 3), (10, 1)), names(3))
    with pytest.raises(ValueError, match="at least half of them have a duplicate"):
        synth_of(codec).sample(1)


@pytest.mark.parametrize(("N", "window"), [(25, 60), (200, 4)])
def test_the_first_of_many_tickers_are_the_same_bit_for_bit(N, window):
    """Sums of many products depend in their last bits on how a library of linear algebra divides the rows."""
    synth = synth_of(fitted(N=N, window=window))
    many = synth.sample(23, rng=0)
    for n in (1, 2, 7):
        np.testing.assert_array_equal(synth.sample(n, rng=0), many[:n])
