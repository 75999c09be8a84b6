"""Returns: files to log-returns, days and windows to rows and back, exact laws, paths, and bad input in one line."""

import io
import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stochattn import pipeline
from stochattn.core.mixture import Mixture
from stochattn.data.legacy import Batch, InputError, Settings
from stochattn.data.legacy_registry import load
from stochattn.data.returns import ReturnsCodec
from stochattn.data.returns.calibration import Calibration
from stochattn.data.returns.history import read_history
from stochattn.data.returns.linking import Followers, chain_windows, volatilities
from stochattn.data.returns.measures import (
    compare_returns,
    correlation_error,
    excess_kurtosis,
    expected_shortfall,
    squares_autocorrelation,
)
from stochattn.data.returns.windows import octaves

SETTINGS = Settings(10.0, 0, "natural", "exact", "prices.csv")


def made_returns(days=300, N=6, seed=0):
    """A market factor whose volatility runs in long stretches, and heavy-tailed tickers."""
    rng = np.random.default_rng(seed)
    volatility = np.where(np.arange(days) // 50 % 2, 0.03, 0.008)[:, None]
    return volatility * (0.7 * rng.standard_normal((days, 1)) + 0.6 * rng.standard_t(4, (days, N))) + 2e-4


def names(N):
    return [f"T{i}" for i in range(N)]


def made_codec(days=300, N=6, seed=0, **options):
    return ReturnsCodec.fit(made_returns(days, N, seed), names(N), **options)


def frame_of(returns, first="2022-01-03"):
    prices = 100 * np.exp(np.vstack([np.zeros(returns.shape[1]), np.cumsum(returns, axis=0)]))
    frame = pd.DataFrame(prices, columns=names(returns.shape[1]))
    frame.insert(0, "date", pd.bdate_range(first, periods=len(prices)).strftime("%Y-%m-%d"))
    return frame


def batch(items, first=0):
    nothing = np.zeros(len(items))
    return Batch(first, items, nothing, nothing, {}, nothing)


# --- Items to rows and back


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("options", [{}, {"norm": "whole"}, {"whiten": False}, {"mode": "projection"}], ids=str)
def test_stored_windows_come_back(window, options):
    codec = made_codec(window=window, **options)
    history = made_returns()
    assert codec.K == 300
    np.testing.assert_array_equal(codec.stored[7], history[7 : 7 + window])
    np.testing.assert_allclose(codec.decode(codec.encode(codec.stored)), codec.stored, rtol=0, atol=1e-13)
    np.testing.assert_allclose(codec.encode(codec.stored), codec.coordinates.stored, atol=1e-12)
    assert codec.loss() == (1.0, 1.0, pytest.approx(1.0))
    if options.get("norm") != "whole":
        np.testing.assert_allclose(np.linalg.norm(codec.bank.patterns, axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("case", ["one ticker", "constant ticker", "more tickers than days", "a day at the mean"])
def test_odd_histories_come_back_too(case):
    history = made_returns(days=30, N={"one ticker": 1, "more tickers than days": 50}.get(case, 5))
    if case == "constant ticker":
        history[:, 2] = 0.0
    if case == "a day at the mean":
        history[3] = history[:3].mean(0)
        history[4:] -= history[4:].mean(0) - history[:3].mean(0)
    codec = ReturnsCodec.fit(history, names(history.shape[1]), window=3)
    np.testing.assert_allclose(codec.decode(codec.encode(codec.stored)), codec.stored, rtol=0, atol=1e-12)
    k, rng = np.arange(10), np.random.default_rng(0)
    new = codec.at(30.0).items(codec.around(k, 30.0, rng), k, rng)
    assert np.isfinite(new).all()
    assert not np.isclose(new, codec.stored[:10], atol=1e-6, rtol=0).all()
    if case == "constant ticker":
        np.testing.assert_allclose(new[..., 2], 0.0, atol=1e-15)
        assert any("never change" in note for note in codec.notes)
    if case == "one ticker":
        assert codec.equal_weights


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"norm": "whole"}, {"mode": "projection"}], ids=str)
def test_a_plan_s_codec_loses_nothing_either(options):
    """Rows without noise need no correction of what noise does; rows with noise get it."""
    plan = pipeline.plan(made_codec(**options), beta=30.0)
    assert plan.codec.loss().items == 1
    rows = plan.codec.coordinates.stored[:50]
    assert np.abs(plan.codec.decode(rows, beta=30.0) - plan.codec.stored[:50]).max() > 1e-3
    assert (plan.codec._calibration is None) == (plan.codec._projection is not None)  # as they were


def test_the_loss_of_cut_components_is_measured():
    loss = made_codec(variance=0.8).loss()
    assert loss.items == 0
    assert 0.8 <= loss.variance < 1


def test_octaves():
    assert octaves(424).tolist() == [4, 8, 16, 32, 64, 300]
    assert octaves(11).tolist() == [11]
    assert octaves(12).tolist() == [4, 8]


def test_draws_keep_the_second_moment_of_every_octave_of_every_day():
    """E‖draw‖² over an octave of a day equals the stored ‖·‖² there; 40,000 draws, 5 standard errors."""
    codec, beta, n = made_codec(N=14, window=3, whiten=False), 25.0, 40_000
    z = codec.around(np.full(n, 11), beta, np.random.default_rng(0)).reshape(n, 3, 14)
    day = (codec.stored[11] - made_returns(N=14).mean(0)) @ codec.coordinates.inward
    for part in (slice(0, 4), slice(4, 14)):
        squared = np.square(z[:, :, part]).sum(2)
        error = squared.std(0) / math.sqrt(n)
        assert (np.abs(squared.mean(0) - np.square(day[:, part]).sum(1)) < 5 * error).all()


def test_whitened_rows_have_the_shrunk_covariance():
    from sklearn.covariance import LedoitWolf

    history = made_returns()
    codec = made_codec()
    outward = codec.coordinates.outward
    np.testing.assert_allclose(outward.T @ outward, LedoitWolf().fit(history).covariance_, rtol=1e-6)


# --- The law of draws


def test_the_mixture_draws_what_around_draws():
    codec, beta = made_codec(window=2), 40.0
    mixture = Mixture.of(codec.bank, beta, codec.factors(beta))
    eps = np.random.default_rng(0).standard_normal((3, codec.coordinates.d))
    k = np.array([5, 6, 7])
    np.testing.assert_allclose(
        mixture.means[k] + mixture.scales[k] * eps, codec.around(k, beta, np.random.default_rng(0)), rtol=1e-10
    )


def test_calibration_carries_quantiles_of_draws_to_those_of_the_history():
    rng = np.random.default_rng(0)
    means, spreads = rng.standard_normal((400, 2)), np.full((400, 2), 0.5)
    history = np.column_stack([rng.standard_t(3, 400), np.zeros(400)])
    calibration = Calibration.between(means, spreads, history)
    draws = means[rng.integers(400, size=200_000)] + 0.5 * rng.standard_normal((200_000, 2))
    new = calibration(draws)
    for level in (0.01, 0.1, 0.5, 0.9, 0.99):
        below = (new[:, 0] < np.quantile(history[:, 0], level, method="hazen")).mean()
        assert abs(below - level) < 5 * math.sqrt(level * (1 - level) / 200_000) + 0.002  # linear between knots
    np.testing.assert_array_equal(new[:, 1], draws[:, 1])  # nothing to calibrate to
    assert calibration(np.array([calibration.backward(0, 0.3), 0.0]))[0] == pytest.approx(0.3, abs=1e-12)
    far = calibration(np.array([[-9.0, 0.0], [9.0, 0.0]]))[:, 0]
    assert far[0] < history[:, 0].min()
    assert far[1] > history[:, 0].max()


def test_calibrated_marginals_pass_where_free_ones_fail():
    rng = np.random.default_rng(1)
    history = 0.01 * rng.standard_t(2.5, (3000, 40))
    shares = {}
    for marginals in ("free", "calibrated"):
        codec = ReturnsCodec.fit(history, names(40), window=1, marginals=marginals).at(15.0)
        k = rng.integers(codec.K, size=3000)
        measures = codec.compare(codec.items(codec.around(k, 15.0, rng), k, rng)).measures
        shares[marginals] = next(m.value for m in measures if m.name == "KS pass")
    assert shares["free"] < 0.5
    assert shares["calibrated"] > 0.9


def test_fixed_returns_are_met_on_the_day_asked():
    codec, beta = made_codec(window=3), 30.0
    codec, fixes = codec.at(beta), ["T1=-0.05", "T4@3=0.02"]
    mixture = Mixture.of(codec.bank, beta, codec.factors(beta)).given(*codec.observe(fixes))
    codec = codec.hold(fixes)
    z, k = mixture.sample(200, np.random.default_rng(0))
    new = codec.items(z, k, np.random.default_rng(0))
    np.testing.assert_allclose(new[:, 0, 1], -0.05, atol=1e-10)
    np.testing.assert_allclose(new[:, 2, 4], 0.02, atol=1e-10)
    assert new[:, 1, 1].std() > 0.001


def test_the_rest_follows_the_conditional_law():
    """Against rejection: of 600,000 linear, calibrated draws those whose first ticker lies within 0.0005 of -0.02."""
    codec, beta = made_codec(N=3, seed=3, window=1).at(20.0).hold(["T0=-0.02"]), 20.0
    mixture = Mixture.of(codec.bank, beta, codec.factors(beta))
    rng = np.random.default_rng(0)
    z, k = mixture.sample(600_000, rng)
    free = codec.items(z, k, rng)[:, 0]
    near = free[np.abs(free[:, 0] + 0.02) < 0.0005]
    held = codec.items(*mixture.given(*codec.observe(["T0=-0.02"])).sample(len(near), rng), rng)[:, 0]
    assert len(near) > 3000
    for ticker in (1, 2):
        a, b = near[:, ticker], held[:, ticker]
        assert abs(a.mean() - b.mean()) < 5 * a.std() * math.sqrt(2 / len(a))
        assert a.std() == pytest.approx(b.std(), rel=0.1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SPX=-0.05", r"no ticker 'SPX'; the nearest names are SPY\.$"),
        ("spy=-0.05", r"no ticker 'spy'; the nearest names are SPY\.$"),
        ("XXX=-0.05", r"no ticker 'XXX'; there are 3, such as SPY, QQQ, STILL\.$"),
        ("SPY=low", "write TICKER=LOG-RETURN"),
        ("SPY", "write TICKER=LOG-RETURN"),
        ("SPY=nan", "write TICKER=LOG-RETURN"),
        ("SPY@4=-0.05", "between 1 and 3"),
        ("SPY@0=-0.05", "between 1 and 3"),
        ("SPY=-5", "write -0.05 for a fall by 5 %"),
        ("STILL=0.01", "never changes"),
    ],
)
def test_impossible_fixes(text, said):
    history = made_returns(N=3)
    history[:, 2] = 0
    codec = ReturnsCodec.fit(history, ["SPY", "QQQ", "STILL"], window=3)
    with pytest.raises(InputError, match=said):
        codec.observe([text])
    with pytest.raises(InputError, match="already"):
        codec.observe(["SPY=0.01", "SPY@1=0.02"])
    with pytest.raises(InputError, match="not linear"):
        ReturnsCodec.fit(history, ["SPY", "QQQ", "STILL"], mode="projection").observe(["SPY=0.01"])


# --- The paper's projection


def test_projection_is_the_papers_formula_with_the_historical_moments():
    history, beta = made_returns(), 25.0
    codec = made_codec(mode="projection").at(beta)
    X = history - history.mean(1, keepdims=True)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(codec.bank.patterns, X, rtol=1e-10)
    np.testing.assert_array_equal(codec.bank.values, history)
    rng = np.random.default_rng(0)
    xi = X[rng.integers(300, size=20_000)] + rng.standard_normal((20_000, 6)) / math.sqrt(beta)
    new = codec.items(xi, np.zeros(20_000, int), rng)[:, 0]
    p = np.exp(beta * xi @ X.T)
    raw = (p / p.sum(1, keepdims=True)) @ history
    slopes = np.polyfit(raw[:, 2], new[:, 2], 1)
    np.testing.assert_allclose(np.polyval(slopes, raw[:, 2]), new[:, 2], atol=1e-10)  # an affine map, nothing else
    np.testing.assert_allclose(new.std(0), history.std(0), rtol=0.06)  # 4,096 draws of heavy tails set the map
    assert (np.abs(new.mean(0) - history.mean(0)) < 5 * history.std(0) / math.sqrt(4096)).all()


def test_projection_may_leave_memories_out():
    codec = made_codec(mode="projection")
    log_r = np.where(np.arange(300) < 5, 0.0, -np.inf)
    gain, shift = codec.at(25.0, log_r)._projection.correction
    raw = (codec.at(25.0, log_r).items(codec.coordinates.stored[50:60], None, None)[:, 0] - shift) / gain
    assert (raw <= codec.history[:5].max(0) + 1e-12).all()  # a mean of five days, whatever the state
    assert (raw >= codec.history[:5].min(0) - 1e-12).all()


# --- Paths


def test_followers_are_drawn_by_attention_on_volatility():
    before, weights = np.array([0.1, 0.2, 0.25, 0.9]), np.array([1.0, 2.0, 1.0, 1.0])
    drawn = Followers(before, weights, 0.1).draw(np.full(100_000, 0.2), np.random.default_rng(0).random(100_000))
    expected = weights * np.exp(-((0.2 - before) ** 2) / 0.02)
    expected /= expected.sum()
    shares = np.bincount(drawn, minlength=4) / 100_000
    assert (np.abs(shares - expected) < 5 * np.sqrt(expected * (1 - expected) / 100_000) + 1e-9).all()


def test_volatility_before_and_at_the_end_of_windows():
    codec = made_codec(days=40, window=5)
    history = codec.history
    each = np.square((history - history.mean(0)) / history.std(0)).mean(1)
    trailing = np.array([each[max(0, t - 2) : t + 1].mean() for t in range(40)])
    ranks = np.array([(trailing < value).mean() for value in trailing])
    before, end = volatilities(codec, memory_days=3)
    assert math.isnan(before[0])
    np.testing.assert_allclose(before[1:], ranks[:39])
    np.testing.assert_allclose(end, np.roll(ranks, -4))


def test_linked_paths_cluster_and_independent_windows_forget_at_the_seams():
    rng = np.random.default_rng(0)
    volatility = np.where(np.arange(1500) // 50 % 5 == 4, 0.04, 0.008)[:, None]
    history = volatility * (0.7 * rng.standard_normal((1500, 1)) + 0.7 * rng.standard_normal((1500, 8)))
    codec = ReturnsCodec.fit(history, names(8), window=5).at(60.0)
    there = squares_autocorrelation(codec.history[None])
    linked, free = (
        squares_autocorrelation(chain_windows(codec, 60.0, 8, 1500, np.random.default_rng(0), linked=linked))
        for linked in (True, False)
    )
    assert there > 0.1
    assert abs(linked - there) < there / 3
    assert free < there / 2


def test_paths_have_the_days_asked_repeat_and_obey_weights():
    codec = made_codec(window=4, marginals="free")
    paths = [chain_windows(codec, 1e12, 3, 10, np.random.default_rng(2)) for _ in range(2)]
    assert paths[0].shape == (3, 10, 6)
    np.testing.assert_array_equal(*paths)
    weights = np.zeros(codec.K)
    weights[[20, 40]] = 1
    only = chain_windows(codec, 1e12, 3, 12, np.random.default_rng(2), weights=weights).reshape(9, 4, 6)
    distance = np.abs(only[:, None] - codec.stored[[20, 40]]).max((2, 3)).min(1)
    assert distance.max() < 1e-5
    with pytest.raises(InputError, match="in its order"):
        chain_windows(codec.refit(codec.stored[::2]), 50.0, 1, 8, np.random.default_rng(0))


def test_linked_windows_follow_the_last_one_s_volatility():
    """Memories, read off paths that recall them: each begins after days as volatile as those the last one ends with."""
    codec = made_codec(window=4, marginals="free")
    each = np.square((codec.history - codec.history.mean(0)) / codec.history.std(0)).mean(1)
    trailing = np.array([each[max(0, t - 2) : t + 1].mean() for t in range(300)])
    ranks = np.array([(trailing < value).mean() for value in trailing])
    windows = chain_windows(codec, 1e12, 20, 24, np.random.default_rng(0)).reshape(20, 6, 1, 4, 6)
    k = np.abs(windows - codec.stored).max((3, 4)).argmin(2)
    assert (k[:, 1:] > 0).all()
    ends = ranks[(k + 3) % 300]
    assert np.abs(ends[:, :-1] - ranks[k[:, 1:] - 1]).max() < 0.03  # six bandwidths of 0.005
    assert np.abs(ends[:, :1] - ranks[k[:, 2:] - 1]).max() > 0.5  # which no other window's end would give


# --- Files


def test_prices_become_log_returns(tmp_path):
    frame = pd.DataFrame({"date": ["2024-01-02", "2024-01-03", "2024-01-04"], "A": [100, 110, 99], "B": [2, 1, 4]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = read_history(tmp_path / "a.csv")
    np.testing.assert_allclose(found.log_returns, np.log([[1.1, 0.5], [0.9, 4.0]]))
    assert found.tickers == ("A", "B")
    assert found.dates == ("2024-01-03", "2024-01-04")
    np.testing.assert_array_equal(found.last_prices, [99, 4])


@pytest.mark.parametrize(
    "form", ["reversed", "semicolons", "tabs", "day first", "index", "digits", "parquet", "blank line"]
)
def test_one_history_in_many_files(tmp_path, form):
    history = made_returns(days=40, N=3)
    frame = frame_of(history)
    path = tmp_path / ("a.parquet" if form == "parquet" else "a.csv")
    times = pd.to_datetime(frame["date"])
    if form == "reversed":
        frame[::-1].to_csv(path, index=False)
    elif form == "semicolons":
        frame.to_csv(path, index=False, sep=";", decimal=",")
    elif form == "tabs":
        frame.to_csv(path, index=False, sep="\t")
    elif form in ("day first", "digits"):
        frame["date"] = times.dt.strftime("%d/%m/%Y" if form == "day first" else "%Y%m%d")
        frame.to_csv(path, index=False)
    elif form == "index":
        frame.set_index(times)[["T0", "T1", "T2"]].rename_axis(None).to_csv(path)
    elif form == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
        frame.set_index(times.rename("when")).drop(columns="date").to_parquet(path)
    else:
        path.write_text(frame.to_csv(index=False).replace("\n", "\n\n", 5) + "\n\n")
    found = read_history(path)
    np.testing.assert_allclose(found.log_returns, history, atol=1e-12)
    assert found.dates[0] == "2022-01-04"
    assert any("sorted" in note for note in found.notes) == (form == "reversed")


DAYS = ("2024-01-02", "2024-01-03", "2024-01-04")


@pytest.mark.parametrize(
    ("numbers", "expected", "note"),
    [
        (("1,226", "1,5", "2,25"), (1.226, 1.5, 2.25), "numbers such as 1,5 were read with a decimal comma"),
        (("0,226", "0,301", "0,412"), (0.226, 0.301, 0.412), "numbers such as 0,226 were read with a decimal comma"),
        (("1.226,50", "98,5", "1.300,25"), (1226.5, 98.5, 1300.25), "with a decimal comma"),
        (("1,226", "998.5", "2,251"), (1226, 998.5, 2251), "commas in numbers such as 1,226 were read as marks"),
        (("1,226.50", "998", "2,251"), (1226.5, 998, 2251), "read as marks between thousands"),
        (("1,226,000", "998", "2,251"), (1226000, 998, 2251), "read as marks between thousands"),
        (("1226.5", "998", "2251"), (1226.5, 998, 2251), None),
    ],
    ids=str,
)
@pytest.mark.parametrize("separator", ["\t", ";"], ids=["tabs", "semicolons"])
def test_commas_mean_one_thing_in_a_file(tmp_path, separator, numbers, expected, note):
    lines = ["date", "A"], *zip(DAYS, numbers, strict=True)
    (tmp_path / "a.tsv").write_text("\n".join(separator.join(line) for line in lines))
    found = read_history(tmp_path / "a.tsv")
    np.testing.assert_allclose(found.log_returns[:, 0], np.diff(np.log(expected)), rtol=1e-12)
    assert any("comma" in text for text in found.notes) == (note is not None)
    assert note is None or any(note in text for text in found.notes)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (("1,226", "1,301", "998"), "line 2, column 'A': '1,226' may mean 1226 or 1.226, and no other number"),
        (("1,5", "12.5", "998"), r"writes '1,5' \(line 2, column 'A'\) with a decimal comma and '12.5' \(line 3"),
        (("0,5", "1,226.50", "998"), "write all numbers in one way"),
        (("12", "a,b", "998"), "line 3, column 'A': 'a,b' is no number"),
    ],
    ids=str,
)
def test_commas_that_mean_two_things(tmp_path, numbers, said):
    lines = ["date", "A"], *zip(DAYS, numbers, strict=True)
    (tmp_path / "a.tsv").write_text("\n".join("\t".join(line) for line in lines))
    with pytest.raises(InputError, match=said) as error:
        read_history(tmp_path / "a.tsv")
    assert str(tmp_path / "a.tsv") in str(error.value)


def test_dates_with_points_beside_decimal_commas(tmp_path):
    (tmp_path / "a.csv").write_text("date;A\n02.01.2024;1,5\n03.01.2024;3,0\n04.01.2024;6,0\n")
    found = read_history(tmp_path / "a.csv")
    np.testing.assert_allclose(found.log_returns[:, 0], [math.log(2)] * 2)
    assert found.dates == ("2024-01-03", "2024-01-04")


def test_returns_are_taken_as_they_stand(tmp_path):
    history = made_returns(days=40, N=3)
    frame = frame_of(history).iloc[1:].assign(**{f"T{i}": history[:, i] for i in range(3)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = read_history(tmp_path / "a.csv")
    np.testing.assert_allclose(found.log_returns, history, rtol=1e-12)
    assert found.last_prices is None
    assert any("as log-returns" in note for note in found.notes)


def test_tickers_with_gaps_and_days_without_values_are_dropped_with_a_note(tmp_path):
    frame = frame_of(made_returns(days=40, N=4))
    frame.loc[:5, "T1"] = np.nan
    frame.loc[38:, "T2"] = np.nan
    frame.loc[20, ["T0", "T1", "T2", "T3"]] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = read_history(tmp_path / "a.csv")
    assert found.tickers == ("T0", "T3")
    assert found.log_returns.shape == (39, 2)
    assert any("2 of 4 tickers miss values and were dropped: T1, T2." in note for note in found.notes)
    assert any("1 days without any value" in note for note in found.notes)


def _spoil(frame, case):
    if case == "zero price":
        frame.loc[7, "T1"] = 0.0
    elif case == "negative price":
        frame.loc[7, "T1"] = -3.0
    elif case == "no dates":
        frame = frame.drop(columns="date")
    elif case == "date twice":
        frame.loc[8, "date"] = frame.loc[7, "date"]
    elif case == "two formats":
        frame.loc[9, "date"] = "17/01/2022"
    elif case == "date missing":
        frame.loc[9, "date"] = None
    elif case == "text":
        frame["T1"] = frame["T1"].astype(object)
        frame.loc[4, "T1"] = "halted"
    elif case == "zero after a blank line":
        frame.loc[7, "T1"] = 0.0
        frame.loc[3] = np.nan
    elif case == "gaps everywhere":
        for i in range(3):
            frame.loc[5 + i, f"T{i}"] = np.nan
    elif case == "few days":
        frame = frame.iloc[:4]
    elif case == "one day":
        frame = frame.iloc[:1]
    elif case == "constant":
        frame[["T0", "T1", "T2"]] = 5.0
    elif case == "only dates":
        frame = frame[["date"]]
    return frame


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("zero price", r"line 9 \(2022-01-12\), column 'T1': a price of 0 has no log-return"),
        ("zero after a blank line", r"line 9 \(2022-01-12\), column 'T1'"),
        ("negative price", "column 'T1': a price of -3"),
        ("no dates", "has no column of dates among T0, T1, T2"),
        ("date twice", "line 9 and line 10: the date 2022-01-12 stands twice"),
        ("two formats", "line 11, column 'date': '17/01/2022' is no date written as the others are"),
        ("date missing", "line 11: the date is missing"),
        ("text", "line 6, column 'T1': 'halted' is no number"),
        ("gaps everywhere", "every ticker misses a value"),
        ("few days", "3 returns make 1 windows of 3 days"),
        ("one day", "two are the least"),
        ("constant", "all alike"),
        ("only dates", "no column but its dates"),
    ],
)
def test_bad_histories_are_one_line(tmp_path, case, said):
    path = tmp_path / "prices.csv"
    _spoil(frame_of(made_returns(days=40, N=3)), case).to_csv(path, index=False)
    with pytest.raises(InputError, match=said) as error:
        ReturnsCodec.read(path, window=3)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"date,A,A\n2024-01-02,1,2\n", "the name 'A' stands twice"),
        (b"date,A,\n2024-01-02,1,2\n", "column 3 has no name"),
        (b"date,A\n2024-01-02,1\n2024-01-03,1,2\n2024-01-04,1\n", "no regular table"),
        (b"date,A\n2024-01-02,1,5\n2024-01-03,1,2\n", "no regular table"),
        (b"\x89PNG\xff\xfe\x00", "no text in UTF-8"),
    ],
)
def test_files_that_are_no_table(tmp_path, content, said):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_history(tmp_path / "a.csv")


def test_files_that_are_not_there_or_not_parquet(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_history(tmp_path / "a.csv")
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_history(tmp_path / "a.parquet")


def test_a_day_without_differences_has_no_place_in_the_projection(tmp_path):
    history = made_returns(days=40, N=3)
    history[6] = 0.01
    with pytest.raises(InputError, match="on day 7 all 3 tickers move alike"):
        ReturnsCodec.fit(history, names(3), mode="projection")


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("output", ["returns", "prices"])
def test_written_scenarios_read_back(tmp_path, format, window, output):
    if format == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    codec = made_codec(window=window, output=output, last_prices=np.arange(1.0, 7.0))
    items = codec.stored[10:20]
    written = []
    for sizes in ((10,), (4, 6)):
        stream = io.BytesIO()
        writer = codec.writer(stream, format, SETTINGS)
        first = 0
        for size in sizes:
            writer.write(batch(items[first : first + size], first))
            first += size
        writer.close()
        written.append(stream.getvalue())
    assert format == "parquet" or written[0] == written[1]
    path = tmp_path / f"new.{format}"
    path.write_bytes(written[1])
    assert codec.same(codec.read_new(path), items).all()
    frame = pd.read_csv(path) if format == "csv" else pd.read_parquet(path)
    assert list(frame.columns) == ["scenario", *(["day"] if window > 1 else []), *codec.tickers]
    assert frame["scenario"].tolist() == np.repeat(np.arange(1, 11), window).tolist()
    if output == "prices":
        expected = np.arange(1.0, 7.0) * np.exp(items.sum(1))
        np.testing.assert_allclose(frame[list(codec.tickers)].to_numpy()[window - 1 :: window], expected, rtol=1e-9)


def test_prices_start_at_100_without_any():
    codec = made_codec(output="prices", window=1)
    assert any("start at 100" in note for note in codec.notes)
    stream = io.BytesIO()
    codec.writer(stream, "csv", SETTINGS).write(batch(codec.stored[:1]))
    first = float(stream.getvalue().decode().splitlines()[1].split(",")[1])
    assert first == pytest.approx(100 * math.exp(codec.history[0, 0]), rel=1e-9)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_file_holds_what_the_option_says(tmp_path, format):
    """Positive returns are no prices; a file that makes sense only as the other is refused with the option to pass."""
    if format == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    last = np.array([0.5, 2.0, 30.0, 400.0, 100.0, 100.0])
    returns, prices = (made_codec(output=output, last_prices=last) for output in ("returns", "prices"))
    risen = np.abs(returns.stored[10:11]) + 1e-4
    for name, codec in (("returns", returns), ("prices", prices)):
        with open(tmp_path / f"{name}.{format}", "wb") as stream:
            writer = codec.writer(stream, format, SETTINGS)
            writer.write(batch(risen))
            writer.close()
    np.testing.assert_allclose(returns.read_new(tmp_path / f"returns.{format}"), risen, rtol=1e-9)
    np.testing.assert_allclose(prices.read_new(tmp_path / f"prices.{format}"), risen, rtol=1e-9)
    with pytest.raises(InputError, match="seems to hold prices, and is read as log-returns: pass --output prices"):
        returns.read_new(tmp_path / f"prices.{format}")
    with pytest.raises(InputError, match="seems to hold log-returns, and is read as prices: pass --output returns"):
        prices.read_new(tmp_path / f"returns.{format}")


def test_prices_below_zero_are_returns(tmp_path):
    (tmp_path / "a.csv").write_text("scenario,T0,T1\n1,0.1,-0.1\n")
    with pytest.raises(InputError, match="prices must be positive; read log-returns with --output returns"):
        made_codec(N=2, output="prices").read_new(tmp_path / "a.csv")


def test_longer_paths_are_cut_into_windows(tmp_path):
    codec = made_codec(window=3)
    stream = io.BytesIO()
    codec.writer(stream, "csv", SETTINGS).write(batch(codec.history[None, :7]))
    (tmp_path / "a.csv").write_bytes(stream.getvalue())
    new = codec.read_new(tmp_path / "a.csv")
    np.testing.assert_allclose(new, codec.history[:6].reshape(2, 3, 6), atol=1e-10)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scenario,T0\n1,0.1\n", "no column 'T1'"),
        ("scenario,day,T0,T1\n1,1,0.1,x\n1,2,0,0\n", "line 2, column 'T1': 'x' is no number"),
        ("scenario,day,T0,T1\n1,1,0.1,0\n1,2,0,0\n2,1,0,0\n", "the days 1 to 2"),
        ("scenario,T0,T1\n1,0.1,-0.1\n", "have 1 days and the window 2"),
        ("scenario,T0,T1\n", "holds no scenario"),
    ],
)
def test_scenarios_that_do_not_fit(tmp_path, text, said):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        made_codec(N=2, window=2).read_new(tmp_path / "a.csv")


# --- Measures


def test_a_history_compares_well_with_itself():
    codec = made_codec(window=4)
    result = codec.compare(codec.history[None])
    found = {measure.name: measure for measure in result.measures}
    assert found["KS pass"].value == 1
    assert found["correlation error"].value == pytest.approx(0, abs=1e-12)
    for name in ("excess kurtosis", "expected shortfall 1 %", "ACF of squares, lags 1 to 10"):
        assert found[name].value == pytest.approx(found[name].ideal)
    assert [part.name for part in result.parts] == names(6)
    assert max(part.distance for part in result.parts) == 0
    assert {m.name for m in codec.compare(codec.stored[:, :1]).measures} == set(found) - {
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


def test_tickers_at_rest_do_not_spoil_measures():
    history = made_returns(days=60, N=3)
    history[:, 1] = 0
    result = compare_returns(history[None, :40], history, tuple(names(3)))
    assert all(np.isfinite(measure.value) for measure in result.measures)


# --- State


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"mode": "projection"}], ids=str)
def test_saved_codecs_are_the_same(tmp_path, options):
    history = made_returns(days=60)
    dates = [str(day) for day in np.arange("2023-12-01", "2024-01-30", dtype="datetime64[D]")]
    codec = ReturnsCodec.fit(history, names(6), dates=dates, last_prices=np.ones(6), notes=["x"], **options)
    codec.save(tmp_path / "codec.npz")
    again = load(tmp_path / "codec.npz")
    assert (again.ids, again.labels, again.notes, again.options) == (
        codec.ids,
        codec.labels,
        codec.notes,
        codec.options,
    )
    assert codec.labels[45] == "2024"
    np.testing.assert_array_equal(again.coordinates.stored, codec.coordinates.stored)
    np.testing.assert_array_equal(again.factors(9.0), codec.factors(9.0))
    np.testing.assert_array_equal(again.last_prices, codec.last_prices)


def test_refitted_on_a_half():
    codec = made_codec(window=3)
    half = codec.refit(codec.take(codec.stored, np.arange(0, codec.K, 2)))
    assert half.K == 150
    np.testing.assert_array_equal(half.stored, codec.stored[::2])
    np.testing.assert_allclose(half.decode(half.encode(half.stored)), half.stored, atol=1e-13)
    assert half.loss().items == 1


def test_windows_belong_to_the_year_they_end_in():
    dates = ["2023-12-27", "2023-12-28", "2023-12-29", "2024-01-02", "2024-01-03", "2024-01-04"]
    codec = ReturnsCodec.fit(made_returns(days=6), names(6), dates=dates, window=3)
    assert codec.labels == ("2023", "2024", "2024", "2024", "2024 and 2023", "2024 and 2023")
    assert codec.ids[1] == "2023-12-28 to 2024-01-02"
    assert codec.ids[5] == "2024-01-04 and 2023-12-27 to 2023-12-28"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"variance": 1.0}, r"^--variance \(1.0\)"),
        ({"norm": "paper"}, r"^--norm \('paper'\)"),
        ({"whiten": False}, r"^--whiten/--no-whiten \(False\)"),
        ({"marginals": "calibrated"}, r"^--marginals \('calibrated'\)"),
    ],
    ids=str,
)
def test_the_projection_refuses_what_it_would_ignore(option, said):
    with pytest.raises(InputError, match=said + " has no effect in mode 'projection'.*: leave it out, or use --mode"):
        made_codec(mode="projection", **option)
    made_codec(mode="exact", **option)


@pytest.mark.parametrize("options", [{"window": 0}, {"mode": "best"}, {"norm": "none"}, {"output": "yen"}], ids=str)
def test_options_that_do_not_exist(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        made_codec(**options)


@pytest.mark.published
@pytest.mark.skipif("STOCHATTN_DATA" not in os.environ, reason="needs the returns named by STOCHATTN_DATA")
def test_linked_windows_keep_most_of_the_market_s_clustering():
    """ACF(g²) of 64 paths of 2,500 days, every fifth ticker; benchmarks/returns.py measures the figure for all.

    A batch of 64 paths spreads by some 0.01 around its mean: linked 0.13, independent 0.06, history 0.175.
    """
    with np.load(Path(os.environ["STOCHATTN_DATA"]) / "returns.npz", allow_pickle=False) as file:
        history = np.diff(np.log(file["closes"][:, ::5].astype(float)), axis=0)
    codec, beta = ReturnsCodec.fit(history, names(history.shape[1]), window=10), 483.0  # natural
    codec = codec.at(beta)
    linked, free = (
        squares_autocorrelation(chain_windows(codec, beta, 64, 2500, np.random.default_rng(0), linked=linked))
        for linked in (True, False)
    )
    assert linked > squares_autocorrelation(history[None]) / 2
    assert linked > 1.4 * free
