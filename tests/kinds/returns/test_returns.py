"""Returns: encoding and decoding of windows, exact laws, conditions, comparisons, saved states."""

import math
import sys

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from made_returns import around, made_codec, made_returns, names, synth_of
from stochattn.core.mixture import Mixture
from stochattn.kinds import InputError
from stochattn.kinds.display import GalleryItems
from stochattn.kinds.options import option_fields
from stochattn.kinds.returns.codec import ReturnsCodec
from stochattn.kinds.returns.generator.coordinates import N_DRAWS, MarginalCalibration, group_sizes
from stochattn.kinds.returns.kind import KIND
from stochattn.kinds.returns.writing import (
    compare_returns,
    correlation_error,
    excess_kurtosis,
    expected_shortfall,
    squares_autocorrelation,
)


def restored(synth):
    """The stored windows, encoded and decoded without noise."""
    codec, law = synth.codec, synth.generator
    rows, source = law.embed(codec.features(codec.stored)), np.arange(codec.K)
    embedding = law.embedding.at(math.inf)
    return codec.decode(embedding.arrays(rows * embedding.factors(math.inf), source, None))


# --- Encoding and decoding


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("options", [{}, {"norm": "whole"}, {"whiten": False}], ids=str)
def test_stored_windows_are_decoded_exactly(window, options):
    codec = made_codec(window=window)
    synth = synth_of(codec, beta=30.0, **options)
    history = made_returns()
    assert codec.K == 300
    np.testing.assert_array_equal(codec.stored[7], history[7 : 7 + window])
    np.testing.assert_array_equal(codec.decode(codec.encode(codec.stored)), codec.stored)
    np.testing.assert_allclose(restored(synth), codec.stored, rtol=0, atol=1e-13)
    assert KIND.measures.same(codec, restored(synth), codec.stored).all()
    coordinates = synth.generator.embedding.coordinates
    np.testing.assert_allclose(synth.rows(codec.stored), coordinates.stored, atol=1e-12)
    assert coordinates.variance == pytest.approx(1.0)
    if options.get("norm") != "whole":
        np.testing.assert_allclose(np.linalg.norm(synth.stored_rows, axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("case", ["one ticker", "constant ticker", "more tickers than days", "a day at the mean"])
def test_unusual_histories_are_decoded_exactly(case):
    history = made_returns(days=30, N={"one ticker": 1, "more tickers than days": 50}.get(case, 5))
    if case == "constant ticker":
        history[:, 2] = 0.0
    if case == "a day at the mean":
        history[3] = history[:3].mean(0)
        history[4:] -= history[4:].mean(0) - history[:3].mean(0)
    codec = ReturnsCodec.fit(history, names(history.shape[1]), window=3)
    synth = synth_of(codec, beta=30.0)
    np.testing.assert_allclose(restored(synth), codec.stored, rtol=0, atol=1e-12)
    new = around(codec, np.arange(10), 30.0, np.random.default_rng(0))
    assert np.isfinite(new).all()
    assert not np.isclose(new, codec.stored[:10], atol=1e-6, rtol=0).all()
    if case == "constant ticker":
        np.testing.assert_allclose(new[..., 2], 0.0, atol=1e-15)
        assert any("never change" in note for note in codec.notes)
    if case == "one ticker":
        assert synth.generator.embedding.equal_weights
        assert any("a single component" in note for note in synth.notes)


@pytest.mark.parametrize("options", [{}, {"norm": "whole"}], ids=str)
def test_noise_alone_needs_calibration(options):
    """Rows without noise come back as they are; the same rows at a beta are taken for draws, and calibrated."""
    embedding = synth_of(made_codec(window=3), beta=30.0, **options).generator.decoder
    rows, source = embedding.coordinates.stored[:50], np.arange(50)
    arrays = embedding.arrays(rows * embedding.factors(30.0)[:50], source, np.random.default_rng(0))
    assert np.abs(arrays - made_codec(window=3).stored[:50]).max() > 1e-3
    assert embedding.at(math.inf).calibration is None


def test_dropped_components_lose_variance():
    synth = synth_of(made_codec(), beta=30.0, variance=0.8)
    assert not KIND.measures.same(synth.codec, restored(synth), synth.codec.stored).all(1).any()
    assert 0.8 <= synth.generator.embedding.coordinates.variance < 1


def test_sizes_of_groups():
    assert group_sizes(424).tolist() == [4, 8, 16, 32, 64, 300]
    assert group_sizes(11).tolist() == [11]
    assert group_sizes(12).tolist() == [4, 8]


def test_draws_preserve_the_second_moment_of_every_group_of_every_day():
    """E‖draw‖² over a group of a day, or the market, equals the stored ‖·‖² there; 40,000 draws, 5 standard errors."""
    codec, beta, n = made_codec(N=14, window=3), 25.0, 40_000
    coordinates = synth_of(codec, beta=beta, whiten=False).generator.embedding.coordinates
    source, rng = np.full(n, 11), np.random.default_rng(0)
    z = coordinates.stored[source] + rng.standard_normal((n, coordinates.d)) / math.sqrt(beta)
    z = (z * coordinates.factors(beta, source)).reshape(n, 3, 14)
    day = (codec.stored[11] - made_returns(N=14).mean(0)) @ coordinates.inward
    for part in (slice(0, 1), slice(1, 5), slice(5, 14)):
        squared = np.square(z[:, :, part]).sum(2)
        error = squared.std(0) / math.sqrt(n)
        assert (np.abs(squared.mean(0) - np.square(day[:, part]).sum(1)) < 5 * error).all()


def test_whitened_rows_have_the_shrunk_covariance():
    from sklearn.covariance import LedoitWolf

    outward = synth_of(made_codec(), beta=30.0).generator.embedding.coordinates.outward
    np.testing.assert_allclose(outward.T @ outward, LedoitWolf().fit(made_returns()).covariance_, rtol=1e-6)


# --- The law of draws


def test_the_mixture_is_the_law_of_windows_around_stored_ones():
    codec, beta = made_codec(window=2), 40.0
    law = synth_of(codec, beta=beta, norm="whole", marginals="free").generator
    k = np.array([5, 6, 7])
    eps = np.random.default_rng(0).standard_normal((3, law.embedding.coordinates.d))
    z = law.mixture.means[k] + law.mixture.scales[k] * eps
    new = law.decoder.around(k, np.random.default_rng(0))
    np.testing.assert_allclose(law.embedding.coordinates.features(z).reshape(new.shape), new, rtol=1e-10)
    restoring = synth_of(codec, beta=beta, market_path="stored").generator
    coordinates = restoring.embedding.coordinates
    drawn = (coordinates.stored[k] + eps / math.sqrt(beta)) * coordinates.factors(beta, k)
    np.testing.assert_allclose(restoring.mixture.means[k] + restoring.mixture.scales[k] * eps, drawn, rtol=1e-10)


def test_calibration_maps_quantiles_of_draws_to_those_of_the_history():
    rng = np.random.default_rng(0)
    means, spreads = rng.standard_normal((400, 2)), np.full((400, 2), 0.5)
    history = np.column_stack([rng.standard_t(3, 400), np.zeros(400)])
    calibration = MarginalCalibration.from_mixture(means, spreads, history)
    draws = means[rng.integers(400, size=200_000)] + 0.5 * rng.standard_normal((200_000, 2))
    new = calibration(draws)
    for level in (0.01, 0.1, 0.5, 0.9, 0.99):
        below = (new[:, 0] < np.quantile(history[:, 0], level, method="hazen")).mean()
        assert abs(below - level) < 5 * math.sqrt(level * (1 - level) / 200_000) + 0.002  # linear between grid points
    np.testing.assert_array_equal(new[:, 1], draws[:, 1])  # no target of the calibration
    assert calibration(np.array([calibration.inverse(0, 0.3), 0.0]))[0] == pytest.approx(0.3, abs=1e-12)
    far = calibration(np.array([[-9.0, 0.0], [9.0, 0.0]]))[:, 0]
    assert far[0] < history[:, 0].min()
    assert far[1] > history[:, 0].max()


def test_calibrated_marginals_pass_where_free_ones_fail():
    rng = np.random.default_rng(1)
    codec = ReturnsCodec.fit(0.01 * rng.standard_t(2.5, (3000, 40)), names(40), window=1)
    shares = {}
    for marginals in ("free", "calibrated"):
        new = around(codec, rng.integers(codec.K, size=3000), 15.0, rng, marginals=marginals)
        shares[marginals] = next(m.value for m in KIND.measures.compare(codec, new).measures if m.name == "KS pass")
    assert shares["free"] < 0.5
    assert shares["calibrated"] > 0.9


# --- Conditions


def test_conditioned_returns_are_exact_on_their_day():
    synth = synth_of(made_codec(window=3), beta=30.0).condition({"T1": -0.05, ("T4", 3): 0.02})
    new = synth.sample(200, rng=0)
    np.testing.assert_allclose(new[:, 0, 1], -0.05, atol=1e-10)
    np.testing.assert_allclose(new[:, 2, 4], 0.02, atol=1e-10)
    assert new[:, 1, 1].std() > 0.001
    first = synth_of(made_codec(window=3), beta=30.0).condition(T1=-0.05)
    np.testing.assert_allclose(first.condition({("T4", 3): 0.02}).sample(20, rng=0), new[:20], rtol=0, atol=1e-12)


def test_moves_up_to_ten_times_the_largest_stored_one_are_met_and_larger_ones_refused():
    codec = made_codec(window=3)
    largest = float(np.abs(codec.history[:, 1]).max())
    for options in ({}, {"beta": 30.0}):
        synth = synth_of(codec, **options)
        for move in (-9.99 * largest, 9.99 * largest):
            far = synth.condition(T1=move)
            np.testing.assert_allclose(far.sample(20, rng=0)[:, 0, 1], move, rtol=1e-12)
            assert any("is beyond the largest stored move" in note for note in far.notes)
        with pytest.raises(InputError, match="more than 10 times the largest stored move, 0"):
            synth.condition(T1=-10.01 * largest)


def test_a_move_of_more_than_ten_times_the_largest_stored_one_is_refused():
    codec = ReturnsCodec.fit(np.array([[0.01], [-0.02], [0.01], [0.0]]), ["A"], window=1)
    assert codec.condition({"A": -0.199}).notes
    with pytest.raises(InputError, match=r"more than 10 times the largest stored move, 0\.02"):
        codec.condition({"A": -0.21})


def test_last_prices_are_floats_whatever_they_are_given_as():
    codec = ReturnsCodec.fit(made_returns(days=9, N=2), names(2), last_prices=[3, 4], window=1)
    assert codec.last_prices.dtype == np.float64
    assert codec.last_prices.tolist() == [3, 4]


def test_a_wanted_novelty_is_passed_on():
    assert synth_of(made_codec(40, window=2), novelty=0.05).describe().temperature.novelty == 0.05


def test_the_other_tickers_follow_the_conditional_law():
    """Against rejection: the calibrated draws among 600,000 whose first ticker is within 0.0005 of -0.02."""
    law = synth_of(made_codec(N=3, seed=3, window=1), beta=20.0).generator
    equations, linear = law.decoder.observe((np.array([0]), np.array([-0.02])))
    mixture = Mixture.of(law.model.bank, 20.0, linear.factors(20.0))
    rng = np.random.default_rng(0)
    free = linear.arrays(*mixture.sample(600_000, rng), rng)[:, 0]
    near = free[np.abs(free[:, 0] + 0.02) < 0.0005]
    conditional = linear.arrays(*mixture.condition(equations.A, equations.y).sample(len(near), rng), rng)[:, 0]
    assert len(near) > 3000
    for ticker in (1, 2):
        a, b = near[:, ticker], conditional[:, ticker]
        assert abs(a.mean() - b.mean()) < 5 * a.std() * math.sqrt(2 / len(a))
        assert a.std() == pytest.approx(b.std(), rel=0.1)


@pytest.fixture
def three_tickers():
    history = made_returns(N=3)
    history[:, 2] = 0
    return ReturnsCodec.fit(history, ["SPY", "QQQ", "STILL"], window=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SPX=-0.05", r"no ticker 'SPX'\. Did you mean 'SPY'\? There are 3, such as SPY, QQQ, STILL\.$"),
        ("spy=-0.05", r"no ticker 'spy'\. Did you mean 'SPY'\? There are 3, such as SPY, QQQ, STILL\.$"),
        ("XXX=-0.05", r"no ticker 'XXX'\. There are 3, such as SPY, QQQ, STILL\.$"),
        ("SPY=low", "write TICKER=LOG-RETURN"),
        ("SPY", "write TICKER=LOG-RETURN"),
        ("SPY=nan", "write TICKER=LOG-RETURN"),
        ("SPY@4=-0.05", "between 1 and 3"),
        ("SPY@0=-0.05", "between 1 and 3"),
        ("SPY@x=-0.05", "between 1 and 3"),
        ("SPY=-5", "write -0.05 for a fall by 5 %"),
        ("STILL=0.01", "never changes"),
    ],
)
def test_impossible_conditions_on_the_command_line(three_tickers, text, message):
    with pytest.raises(InputError, match=message):
        three_tickers.condition(KIND.parse_condition(three_tickers, [text]))


def test_conditions_on_the_command_line(three_tickers):
    assert KIND.parse_condition(three_tickers, ["SPY=-0.05", "QQQ@3= 0.01"]) == {"SPY": -0.05, ("QQQ", 3): 0.01}
    with pytest.raises(InputError, match="already"):
        KIND.parse_condition(three_tickers, ["SPY=0.01", "SPY=0.02"])
    with pytest.raises(InputError, match="already"):
        three_tickers.condition(KIND.parse_condition(three_tickers, ["SPY=0.01", "SPY@1=0.02"]))
    given = three_tickers.condition({"STILL": 0.0}).observation  # its only value
    assert [part.tolist() for part in given] == [[2], [0.0]]
    odd = ReturnsCodec.fit(made_returns(N=2), ["A@2", "B"], window=3)
    assert KIND.parse_condition(odd, ["A@2=0.01", "A@2@3=0.02"]) == {"A@2": 0.01, ("A@2", 3): 0.02}
    given = three_tickers.condition({("QQQ", 3): 0.01, "SPY": -0.05}).observation
    assert [part.tolist() for part in given] == [[7, 0], [0.01, -0.05]]  # the third day of the second of three tickers


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"SPY": "low"}, "SPY: a log-return must be a finite number, such as -0.05; got 'low'"),
        ({"SPY": math.nan}, "must be a finite number"),
        ({"SPY": True}, "must be a finite number"),
        ({("SPY", 4): -0.05}, "the day must lie between 1 and 3, the window; got 4"),
        ({("SPY", 1.5): -0.05}, "the day must lie between 1 and 3"),
        ({"XXX": -0.05}, "no ticker 'XXX'"),
        ({"SPY": 0.01, ("SPY", 1): 0.02}, "already"),
    ],
    ids=str,
)
def test_impossible_conditions(three_tickers, values, message):
    with pytest.raises(InputError, match=message):
        synth_of(three_tickers, beta=30.0).condition(values)


def test_one_ticker_at_two_days_and_two_tickers_at_one(three_tickers):
    new = synth_of(three_tickers).condition({"SPY": -0.02, ("SPY", 2): 0.01, ("QQQ", 2): 0.005}).sample(20, rng=0)
    np.testing.assert_allclose(new[:, :2, 0], [[-0.02, 0.01]] * 20, atol=1e-10)
    np.testing.assert_allclose(new[:, 1, 1], 0.005, atol=1e-10)


# --- Comparisons


def test_a_history_compares_well_with_itself():
    codec = made_codec(window=4)
    result = KIND.measures.compare(codec, codec.history[None])
    found = {measure.name: measure for measure in result.measures}
    assert KIND.measures.key.name in found
    assert found["KS pass"].value == 1
    assert found["correlation error"].value == pytest.approx(0, abs=1e-12)
    for name in ("excess kurtosis", "expected shortfall 1 %", "ACF of squares, lags 1 to 10"):
        assert found[name].value == pytest.approx(found[name].ideal)
    assert [part.name for part in result.parts] == names(6)
    assert max(part.distance for part in result.parts) == 0
    assert {m.name for m in KIND.measures.compare(codec, codec.stored[:, :1]).measures} == set(found) - {
        "ACF of squares, lags 1 to 10"
    }


def test_measures_by_other_routes():
    from scipy.stats import kurtosis

    x = made_returns(days=200, N=3)
    np.testing.assert_allclose(excess_kurtosis(x), kurtosis(x))
    portfolio = sorted(x.mean(1).tolist())
    assert expected_shortfall(x) == pytest.approx((portfolio[0] + portfolio[1]) / 2)
    y = x[::-1] * [1, 2, -1]
    expected = np.linalg.norm(np.corrcoef(x.T) - np.corrcoef(y.T)) / np.linalg.norm(np.corrcoef(x.T))
    assert correlation_error(y, x) == pytest.approx(expected)
    squares = x**2 - (x**2).mean(0)
    lags = [
        sum(squares[t, i] * squares[t - lag, i] for t in range(lag, 200)) / sum(squares[:, i] ** 2)
        for lag in range(1, 11)
        for i in range(3)
    ]
    assert squares_autocorrelation(x[None]) == pytest.approx(np.mean(lags))
    windows = x[:8, :1].reshape(2, 4, 1)  # of several windows, the mean product over as many pairs as there are
    squares = windows**2 - (windows**2).mean()
    pooled = [np.mean(squares[:, lag:] * squares[:, :-lag]) / np.mean(squares**2) for lag in (1, 2)]
    assert squares_autocorrelation(windows, 2) == pytest.approx(np.mean(pooled))


def test_constant_tickers_leave_measures_finite():
    history = made_returns(days=60, N=3)
    history[:, 1] = 0
    result = compare_returns(history[None, :40], history, tuple(names(3)))
    assert all(np.isfinite(measure.value) for measure in result.measures)


def test_days_are_compared_in_units_of_each_ticker():
    codec = made_codec(40, window=2)
    items = codec.stored[:3]
    days = KIND.measures.comparable(codec, items)
    assert days.shape == (6, len(codec.tickers))
    np.testing.assert_allclose(days, items.reshape(6, -1) / codec.history.std(0), rtol=1e-12)


def test_the_gallery_shows_each_scenario_beside_the_nearest_window():
    codec = ReturnsCodec.fit(made_returns(N=3), ["<b>A", "B", "C"], window=4)
    shown = GalleryItems(codec.stored[[5, 9]] * 1.1, np.array([0, 7]), np.array([5, 9]), np.array([0.1, 0.2]), {})
    page = KIND.display.gallery(codec, shown)
    assert "New 8" in page
    assert "days 10 to 13" in page
    assert "&lt;b&gt;A" in page
    assert "<b>A" not in page
    assert page.count("<polyline") == 4
    total = 110 * codec.stored[5].sum(0)
    assert f"{total[0]:+.1f} / {total[0] / 1.1:+.1f}" in page
    single = made_codec(window=1)
    alone = KIND.display.gallery(single, GalleryItems(single.stored[:1], *map(np.array, ([0], [0], [0.1])), {}))
    assert "<polyline" not in alone
    assert "Lines are equal-weight portfolios" in page
    assert "Lines are equal-weight portfolios" not in alone


@pytest.mark.parametrize(
    ("old", "new", "heights"),
    [
        ([1.0, -1.0], [0.5, 0.5], {"new": 9.5, "old": 81.5}),  # each at the end of its line
        ([0.5, 0.5], [0.0, 1 - 11.5 / 72], {"old": 9.5, "new": 21.0}),  # just far enough from each other
        ([1.0, -0.5], [0.5, 5 / 72], {"new": 37.5, "old": 48.5}),  # too near: moved to 11 from each other
        ([0.5, 0.5], [0.5, 0.5 - 2 / 72], {"old": 10.0, "new": 21.0}),  # too near, and not above the plot
        ([1.0, -1.0], [1.0, -1 + 2 / 72], {"new": 70.0, "old": 81.0}),  # too near, and not below the plot
    ],
)
def test_figures_at_the_ends_of_paths_do_not_cover_each_other(old, new, heights):
    """Paths are drawn between heights 6 and 78 and up to 44 from the right; a figure stands 3.5 below its height."""
    codec = ReturnsCodec.fit(np.array([*old, 0.1, 0.2, 0.3])[:, None], ["A"], window=2)
    shown = GalleryItems(np.array(new)[None, :, None], *map(np.array, ([0], [0], [0.1])), {})
    page = KIND.display.gallery(codec, shown)
    assert '<svg viewBox="0 0 240 84"' in page
    ups = [6 + 72 * (1 - value) for value in (0, old[0], sum(old))]
    points = " ".join(f"{x},{y:.1f}" for x, y in zip(("0.0", "98.0", "196.0"), ups, strict=True))
    assert f'<polyline class="old" points="{points}"' in page
    for which, total in (("old", sum(old)), ("new", sum(new))):
        assert f'<text class="{which}" x="201" y="{heights[which]:.1f}">{100 * total:+.1f}</text>' in page


def test_the_gallery_shows_the_five_largest_movers():
    history = np.zeros((9, 7))
    history[0], history[1:] = [0.01, 0.02, 0.03, -0.08, 0.05, 0.06, 0.0], np.arange(56).reshape(8, 7) / 1000
    codec = ReturnsCodec.fit(history, names(7), window=1)
    new = np.array([[[0.05, -0.01, 0.0, 0.04, -0.03, 0.02, 0.001]]])
    page = KIND.display.gallery(codec, GalleryItems(new, *map(np.array, ([0], [0], [0.1])), {}))
    assert "The 5 tickers of 7 that move most" in page
    rows = page.split("<tr>")[1:]
    assert [row.split("<bdi>")[1][:2] for row in rows] == ["T0", "T3", "T4", "T5", "T1"]
    # bars are 48 wide for the largest move, 0.08; a fall extends to the left of 50
    bar = '<rect class="{}" x="{}" y="{}" width="{}" height="5"/>'
    assert bar.format("new", "50.0", 2, "24.0") + bar.format("old", "2.0", 8, "48.0") in rows[1]
    assert "+4.0 / -8.0" in rows[1]
    larger = KIND.display.gallery(
        codec, GalleryItems(4 * new, *map(np.array, ([0], [0], [0.1])), {})
    )  # now 0.2 is the largest
    assert bar.format("new", "50.0", 2, "38.4") + bar.format("old", "30.8", 8, "19.2") in larger


def test_two_tickers_have_a_correlation_and_one_has_none():
    for N, expected in ((1, False), (2, True)):
        codec = made_codec(20, N, window=1)
        measures = [measure.name for measure in KIND.measures.compare(codec, codec.stored).measures]
        assert ("correlation error" in measures) is expected


# --- Data in memory, options, states


def test_options_with_few_values_name_them():
    """The command line lists them, and refuses others."""
    reading, windows = (option_fields(one) for one in (KIND.codec_options, KIND.generators["windows"]))
    assert reading["values"].choices == ("auto", "prices", "returns")
    assert reading["fill"].choices == ("none", "previous")
    assert reading["output"].choices == ("returns", "prices")
    assert windows["marginals"].choices == ("calibrated", "free")
    assert windows["market"].choices == ("auto", "mean", "component", "none")


def test_data_frames_are_accepted_by_their_index():
    history = made_returns(days=60, N=3)
    prices = 100 * np.exp(np.cumsum(history, axis=0))
    frame = pd.DataFrame(prices, columns=names(3), index=pd.bdate_range("2022-01-03", periods=60, name="when"))
    assert KIND.accepts(frame)
    assert not KIND.accepts(frame.reset_index())
    assert not KIND.accepts(frame.assign(T0="x"))
    assert not KIND.accepts(prices)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "pandas", None)
        assert not KIND.accepts(frame)  # a program that did not load pandas has no data frame
    synth = sa.fit(frame, kind="returns", window=5, values="prices")
    np.testing.assert_allclose(synth.codec.history, history[1:], rtol=1e-9)
    assert synth.codec.dates[0] == "2022-01-04"
    np.testing.assert_array_equal(synth.codec.last_prices, prices[-1])
    returns = sa.fit(frame.assign(**{f"T{i}": history[:, i] for i in range(3)}), kind="returns", window=5)
    np.testing.assert_array_equal(returns.codec.history, history)
    with pytest.raises(InputError, match="one row per day; got list"):
        sa.fit([1, 2, 3], kind="returns")


@pytest.mark.parametrize("options", [{}, {"window": 3}], ids=str)
def test_saved_synthesizers_are_the_same(tmp_path, options):
    history = made_returns(days=60)
    dates = [str(day) for day in np.arange("2023-12-01", "2024-01-30", dtype="datetime64[D]")]
    codec = ReturnsCodec.fit(history, names(6), dates=dates, last_prices=np.ones(6), notes=["x"], **options)
    synth = synth_of(codec, beta=9.0).condition({("T0", 1): -0.01})
    synth.save(tmp_path / "a.synth")
    again = sa.load(tmp_path / "a.synth")
    assert (again.codec.ids, again.codec.labels, again.codec.notes) == (codec.ids, codec.labels, codec.notes)
    assert (again.codec.blocks, again.codec.output) == (codec.blocks, codec.output)
    assert codec.labels[45] == "2024"
    np.testing.assert_array_equal(again.codec.history, codec.history)
    np.testing.assert_array_equal(again.codec.last_prices, codec.last_prices)
    np.testing.assert_array_equal(again.stored_rows, synth.stored_rows)
    np.testing.assert_array_equal(again.sample(5, rng=1), synth.sample(5, rng=1))


def test_refitted_on_half_of_the_windows():
    codec = made_codec(window=3)
    half = codec.refit(codec.take(codec.stored, np.arange(0, codec.K, 2)))
    assert half.K == 150
    np.testing.assert_array_equal(half.stored, codec.stored[::2])
    synth = synth_of(half, beta=30.0)
    np.testing.assert_allclose(restored(synth), half.stored, atol=1e-13)
    assert KIND.measures.same(half, restored(synth), half.stored).all()


def test_windows_belong_to_the_year_they_end_in():
    dates = ["2023-12-27", "2023-12-28", "2023-12-29", "2024-01-02", "2024-01-03", "2024-01-04"]
    codec = ReturnsCodec.fit(made_returns(days=6), names(6), dates=dates, window=3)
    assert codec.labels == ("2023", "2024", "2024", "2024", "2024 and 2023", "2024 and 2023")
    assert codec.ids[1] == "2023-12-28 to 2024-01-02"
    assert codec.ids[5] == "2024-01-04 and 2023-12-27 to 2023-12-28"


@pytest.mark.parametrize("options", [{"window": 0}, {"output": "yen"}], ids=str)
def test_options_of_reading_that_do_not_exist(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        made_codec(**options)


@pytest.mark.parametrize("options", [{"norm": "none"}, {"marginals": "best"}, {"variance": 2.0}, {"days": 0}], ids=str)
def test_options_of_windows_that_do_not_exist(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        synth_of(made_codec(), **options).sample(1)


def test_hopfield_is_another_name_of_windows():
    codec = made_codec(window=2)
    synth = synth_of(codec)
    np.testing.assert_array_equal(synth.with_generator("hopfield").sample(9, rng=3), synth.sample(9, rng=3))
    np.testing.assert_array_equal(synth.with_generator("windows").sample(9, rng=3), synth.sample(9, rng=3))
    assert synth.describe().name == "windows"


def test_a_calibration_takes_no_more_draws_than_it_needs():
    calls = []

    def draw():
        calls.append(1)
        return np.random.default_rng(0).standard_normal((N_DRAWS, 1))

    MarginalCalibration.from_draws(draw, np.random.default_rng(1).standard_normal((500, 1)))
    assert len(calls) == 1


@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_beyond_its_ends_a_calibration_goes_on_as_from_the_middle_to_the_end(scale):
    """Draws with half the spread of the history around the same mean, far from zero."""
    rng = np.random.default_rng(0)
    history = scale * (100 + 2 * rng.standard_normal((4000, 1)))
    found = MarginalCalibration.from_draws(lambda: scale * (100 + rng.standard_normal((N_DRAWS, 1))), history)
    new = found(scale * np.array([[90.0], [99.0], [101.0], [110.0]]))[:, 0]
    np.testing.assert_allclose(new, scale * np.array([80, 98, 102, 120]), rtol=0.05)


def test_the_smallest_and_largest_draws_become_the_smallest_and_largest_of_the_history():
    """An eighth of the draws lies below -3.5, which is the rank of the smallest of four days; so does 5 at the top."""
    draws = np.tile([-4.0, -3.0, -1.0, 0.0, 1.0, 3.0, 4.0, 6.0], N_DRAWS // 8)[:, None]
    found = MarginalCalibration.from_draws(lambda: draws, np.array([[-5.0], [0.0], [1.0], [9.0]]))
    np.testing.assert_allclose(found(np.array([[-3.5], [5.0]])), [[-5.0], [9.0]])


@pytest.mark.parametrize("shape", [(5,), (5, 2), (0, 1), (5, 1, 1)])
def test_a_history_has_a_column_for_each_ticker(shape):
    with pytest.raises(InputError, match=r"log_returns must be \(days, tickers\) with 1 tickers; got"):
        ReturnsCodec.fit(np.zeros(shape), ["A"])
