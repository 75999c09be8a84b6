"""Windows of days: days count alike, gaps are kept, lengths survive; how long they are; odd histories."""

import math
import warnings

import numpy as np
import pytest

from stochattn import pipeline
from stochattn.data.legacy import InputError
from stochattn.data.legacy_registry import load
from stochattn.data.returns import ReturnsCodec
from stochattn.data.returns.blocks import Blocks
from stochattn.data.returns.linking import chain_windows, volatilities
from stochattn.paths import Course, paths


def made_returns(days=300, N=6, seed=0):
    rng = np.random.default_rng(seed)
    return 0.01 * rng.standard_t(5, (days, N)) + 0.008 * rng.standard_normal((days, 1))


def names(N):
    return [f"T{i}" for i in range(N)]


def fitted(days=300, N=6, seed=0, **options):
    return ReturnsCodec.fit(made_returns(days, N, seed), names(N), **options)


# --- Which days make a window


@pytest.mark.parametrize(("runs", "window", "step"), [((7, 5, 9), 4, 1), ((8, 6), 4, 2), ((12,), 12, 3), ((5,), 1, 1)])
def test_every_day_is_in_as_many_windows(runs, window, step):
    days = Blocks(runs, window, step).days
    assert days.shape == (sum(-(-run // step) for run in runs), window)
    assert np.bincount(days.ravel(), minlength=sum(runs)).tolist() == [window // step] * sum(runs)


def test_no_window_reaches_over_a_gap():
    run_of, first, length = np.repeat([0, 1, 2], [7, 5, 9]), (0, 7, 12), (7, 5, 9)
    for window in Blocks((7, 5, 9), 4).days.tolist():
        run = run_of[window[0]]
        expected = [window[0]]
        for _ in range(3):
            last = expected[-1]
            expected.append(first[run] if last == first[run] + length[run] - 1 else last + 1)
        assert window == expected


def test_stored_windows_are_those_days_and_survive_a_file(tmp_path):
    codec = fitted(60, runs=[25, 35], window=10)
    np.testing.assert_array_equal(codec.stored[20], codec.history[[20, 21, 22, 23, 24, 0, 1, 2, 3, 4]])
    np.testing.assert_array_equal(codec.stored[25], codec.history[25:35])
    assert codec.ids[20] == "days 21 to 25 and 1 to 5"
    assert codec.ids[25] == "days 26 to 35"
    np.testing.assert_allclose(codec.decode(codec.encode(codec.stored)), codec.stored, rtol=0, atol=1e-13)
    codec.save(tmp_path / "codec.npz")
    again = load(tmp_path / "codec.npz")
    assert again.blocks == Blocks((25, 35), 10, 1)
    assert again.ids == codec.ids
    np.testing.assert_array_equal(again.coordinates.stored, codec.coordinates.stored)


def test_other_windows_are_refitted_as_they_are():
    codec = fitted(60, runs=[25, 35], window=10)
    some = codec.stored[[3, 22, 40, 59]]
    again = codec.refit(some)
    np.testing.assert_array_equal(again.stored, some)
    with pytest.raises(InputError, match="2 windows of 10 days are too few"):
        codec.refit(some[:2])


def test_windows_apart_share_no_day():
    codec = fitted(60, runs=[25, 35], window=10)
    alone = codec.apart(np.arange(60))
    assert alone.tolist() == [0, 10, 25, 35, 45]
    assert codec.apart(np.array([20, 0, 5, 30])).tolist() == [20, 5, 30]  # 20 goes on at day 0


def test_a_year_that_is_kept_holds_no_days_of_another_end_of_the_history():
    dates = [str(np.datetime64("2022-11-01") + i) for i in range(120)]
    codec = fitted(120, dates=dates, window=10)
    assert codec.labels[-1] == "2023 and 2022"
    assert codec.labels[51:53] == ("2022", "2023")
    kept = pipeline.plan(codec, beta=50.0, keep=["2023"]).model.bank.kept
    assert codec.blocks.days[kept].min() == 52  # the first window that ends in 2023 begins on 23 December


def test_many_tickers_have_fewer_windows():
    """2**23 numbers at most, begun as often as a divisor of the window allows: 2,766 × 60 × 50 = 8.3 million."""
    steps = [Blocks.within((2766,), 60, N).step for N in (50, 51, 102, 424, 5000)]
    assert steps == [1, 2, 3, 10, 60]
    assert Blocks.within((2766,), 61, 424).step == 61
    assert Blocks.within((2766,), 1, 10_000).step == 1


# --- How long a window is


@pytest.mark.parametrize(
    ("days", "runs", "window", "note"),
    [
        (480, None, 60, None),
        (479, None, 59, "479 days are few for windows of 60 days: they have 59"),
        (40, None, 5, "40 days are few"),
        (7, None, 1, "7 days are few"),
        (3, None, 1, "3 days are few"),
        (300, [280, 20], 20, "300 days in 2 runs, the shortest 20, are few for windows of 60 days: they have 20"),
    ],
)
def test_windows_have_60_days_where_the_history_has_room(days, runs, window, note):
    codec = fitted(days, runs=runs)
    assert codec.options.window == window
    assert [text for text in codec.notes if "are few" in text] == [
        text for text in codec.notes if note and note in text
    ]
    assert bool(note) == any("are few" in text for text in codec.notes)


def test_the_projection_keeps_the_papers_days():
    assert fitted(mode="projection").options.window == 1
    assert fitted(mode="projection", window=5).options.window == 5


@pytest.mark.parametrize(
    ("days", "options", "said"),
    [
        (50, {"window": 60}, "50 returns make 0 windows of 60 days, and 3 are the least"),
        (61, {"window": 60}, "61 returns make 2 windows of 60 days"),
        (2, {}, "2 returns make 2 windows of 1 days, and 3 are the least"),
        (
            300,
            {"window": 60, "runs": [250, 50]},
            "window=60 is longer than the shortest of 2 runs of days, which has 50",
        ),
        (300, {"runs": [100, 100]}, "add up to the 300 days of log_returns; got 2 that add up to 200"),
        (300, {"runs": [300, 0]}, "positive lengths"),
        (300, {"runs": []}, "positive lengths"),
        (0, {}, r"must be \(days, tickers\)"),
    ],
    ids=str,
)
def test_windows_that_do_not_fit(days, options, said):
    with pytest.raises(InputError, match=said):
        fitted(days, **options)


# --- Linked paths


def test_volatility_looks_back_within_its_run():
    codec = fitted(40, runs=[15, 25], window=5)
    history = codec.history
    each = np.square((history - history.mean(0)) / history.std(0)).mean(1)
    trailing = np.array([each[max(0 if t < 15 else 15, t - 2) : t + 1].mean() for t in range(40)])
    ranks = np.array([(trailing < value).mean() for value in trailing])
    before, end = volatilities(codec, memory_days=3)
    assert np.flatnonzero(np.isnan(before)).tolist() == [0, 15]
    others = [t for t in range(40) if t not in (0, 15)]
    np.testing.assert_allclose(before[others], ranks[np.array(others) - 1])
    np.testing.assert_allclose(end, ranks[[*range(4, 15), 0, 1, 2, 3, *range(19, 40), 15, 16, 17, 18]])


def test_long_paths_visit_days_alike():
    """Days of 4,000 recalled windows by the run they come from: binomial, five standard errors, two runs of one law."""
    codec = fitted(200, runs=[80, 120], window=10, marginals="free")
    path = chain_windows(codec, 1e12, 200, 200, np.random.default_rng(0)).reshape(-1, 10, 6)
    first = np.abs(path[:, None, 0] - codec.history[None]).max(2).argmin(1)
    assert len(first) == 4000
    share = (first < 80).mean()
    assert abs(share - 0.4) < 5 * math.sqrt(0.24 / 4000)
    assert not np.isin(first.reshape(200, 20)[:, 1:], [0, 80]).any()  # no day before them to follow


# --- Lengths


@pytest.mark.parametrize("window", [1, 5])
def test_every_octave_of_every_day_keeps_its_length(window):
    codec = fitted(N=14, window=window, marginals="free").at(20.0)
    k, rng = np.arange(0, 300, 7), np.random.default_rng(0)
    new = codec.items(codec.around(k, 20.0, rng), k, rng)
    inward = codec.coordinates.inward
    then, now = ((x - codec.history.mean(0)) @ inward for x in (codec.stored[k], new))
    for part in (slice(0, 4), slice(4, 14)):
        np.testing.assert_allclose(*(np.linalg.norm(z[..., part], axis=-1) for z in (then, now)), rtol=1e-9)
        cosine = (then[..., part] * now[..., part]).sum(-1) / np.square(then[..., part]).sum(-1)
        assert cosine.max() < 0.999  # turned all the same


@pytest.mark.parametrize("N", [2, 20])
def test_calibrated_windows_have_the_quantiles_of_the_history(N):
    """100,000 days against the map's 2**16, five standard errors, and 0.003 for lines between knots.

    Tickers jump on their own, which draws spread over all: a map for a third of the noise misses by 0.02.
    """
    history = 0.01 * np.random.default_rng(4).standard_t(2.5, (400, N))
    codec, beta = ReturnsCodec.fit(history, names(N), window=2), 4.0 * N
    codec, rng = codec.at(beta), np.random.default_rng(1)
    k = np.arange(50_000) % 400
    new = codec.items(codec.around(k, beta, rng), k, rng).reshape(-1, N)
    for level in (0.01, 0.1, 0.25, 0.75, 0.9, 0.99):
        below = (new < np.quantile(history, level, axis=0, method="hazen")).mean(0)
        error = math.sqrt(level * (1 - level) * (1 / 100_000 + 1 / 2**16))
        assert (np.abs(below - level) < 5 * error + 0.003).all()


def test_what_is_fixed_is_met_by_a_window_of_sixty_days():
    plan = pipeline.plan(fitted(480), fix=["T1=-0.03", "T4@59=0.02"])
    items = next(pipeline.batches(plan, 50, 0)).items
    np.testing.assert_allclose(items[:, 0, 1], -0.03, atol=1e-9)
    np.testing.assert_allclose(items[:, 58, 4], 0.02, atol=1e-9)


# --- Odd histories


def _odd(case):
    x = made_returns(300, 4)
    return {
        "one ticker": x[:, :1],
        "constant ticker": np.column_stack([x, np.zeros(300)]),
        "sums of others": np.column_stack([x, x[:, 0] + x[:, 1]]),
        "one ticker four times": np.repeat(x[:, :1], 4, axis=1),
        "more tickers than days": made_returns(60, 100),
        "half of the days at rest": np.where(np.arange(300)[:, None] < 150, x, 0.0),
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
        "half of the days at rest",
        "some days twice",
        "nine days",
    ],
)
def test_odd_histories_give_windows_and_paths(case):
    history = _odd(case)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codec = ReturnsCodec.fit(history, names(history.shape[1]))
        plan = pipeline.plan(codec)
        items = next(pipeline.batches(plan, 300, 0)).items
        path = next(paths(plan, Course(150), 3, 0)).items
    assert np.isfinite(items).all()
    assert path.shape == (3, 150, history.shape[1])
    spread, moving = items.std((0, 1)), history.std(0) > 0
    np.testing.assert_allclose(spread[moving], history.std(0)[moving], rtol=0.3 if case == "nine days" else 0.1)
    np.testing.assert_allclose(spread[~moving], 0, atol=1e-15)
    assert codec.loss().items == 1


def test_tickers_that_are_sums_of_others_stay_so_with_free_marginals():
    history = _odd("sums of others")
    codec = ReturnsCodec.fit(history, names(5), marginals="free", whiten=False)
    items = next(pipeline.batches(pipeline.plan(codec), 50, 0)).items
    np.testing.assert_allclose(items[..., 4], items[..., 0] + items[..., 1], atol=1e-12)


@pytest.mark.parametrize("days", [np.zeros((300, 3)), np.tile([0.01, -0.02, 0.03], (300, 1))], ids=["zeros", "one day"])
def test_a_history_without_changes_is_refused(days):
    with pytest.raises(InputError, match="all alike"):
        ReturnsCodec.fit(days, names(3))


def test_a_history_that_repeats_itself_is_refused():
    codec = ReturnsCodec.fit(np.tile(made_returns(30, 3), (10, 1)), names(3))
    with pytest.raises(ValueError, match="at least half of them have a duplicate"):
        pipeline.plan(codec)


def test_windows_that_do_not_divide_a_run_are_spread_over_it():
    """Five windows of 60 days in a run of 250: they begin every 50 days, and overlap by 10 everywhere."""
    blocks = Blocks((250,), 60, 60)
    assert blocks.days[:, 0].tolist() == [0, 50, 100, 150, 200]
    counts = np.bincount(blocks.days.ravel(), minlength=250)
    assert counts.reshape(5, 50).sum(1).tolist() == [60] * 5


def test_days_are_compared_in_units_of_each_ticker():
    codec = fitted(40, window=2)
    items = codec.stored[:3]
    days = codec.comparable(items)
    assert days.shape == (6, len(codec.tickers))
    np.testing.assert_allclose(days, items.reshape(6, -1) / codec.history.std(0), rtol=1e-12)
