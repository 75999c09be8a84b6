"""Paths of several windows: independent of each other, linked by volatility, with given weights."""

import math
import os
from pathlib import Path

import numpy as np
import pytest

import stochattn as sa
from made_returns import made_codec, names, synth_of
from stochattn.kinds.returns.codec import ReturnsCodec
from stochattn.kinds.returns.description import WindowOptions
from stochattn.kinds.returns.generator.windows import VolatilityLinks, trailing_volatility
from stochattn.kinds.returns.kind import KIND
from stochattn.kinds.returns.writing import squares_autocorrelation
from stochattn.synthesizer import drawing

RECALL = {"beta": 1e12, "marginals": "free"}
"""A beta so large that each window of a path is a stored one."""


def dated(days=300, window=3):
    """Volatility that is 0.005 or 0.04 and changes every 15 days, from June 2022 on."""
    rng = np.random.default_rng(0)
    volatility = np.where(np.arange(days) // 15 % 2 == 1, 0.04, 0.005)[:, None]
    dates = [str(np.datetime64("2022-06-01") + i) for i in range(days)]
    return ReturnsCodec.fit(volatility * rng.standard_normal((days, 5)) + 1e-3, names(5), window=window, dates=dates)


def even_returns(days):
    """Returns (days, 6), all of one law."""
    rng = np.random.default_rng(0)
    return 0.01 * rng.standard_t(5, (days, 6)) + 0.008 * rng.standard_normal((days, 1))


# --- Independence of paths


@pytest.mark.parametrize("block", [2, 4096])
@pytest.mark.parametrize("link", [True, False])
def test_the_first_of_many_paths_are_those_of_a_shorter_call(monkeypatch, link, block):
    monkeypatch.setattr(drawing, "BLOCK_NUMBERS", block * 7 * 5)
    synth = synth_of(dated(), beta=25.0, days=7, link=link)
    many = synth.sample(6, rng=0)
    assert many.shape == (6, 7, 5)
    for m in (1, 3):
        np.testing.assert_allclose(synth.sample(m, rng=0), many[:m], rtol=0, atol=1e-12)
    assert np.abs(synth.sample(6, rng=1) - many).min() > 0
    assert len(np.unique(many[:, 0].round(9), axis=0)) == 6


def test_paths_have_the_requested_days_and_are_reproducible():
    synth = synth_of(made_codec(window=4), **RECALL, days=10)
    paths = [synth.sample(3, rng=2) for _ in range(2)]
    assert paths[0].shape == (3, 10, 6)
    np.testing.assert_array_equal(*paths)
    assert synth_of(made_codec(window=4), beta=30.0, days=3).sample(2, rng=0).shape == (2, 3, 6)


def test_batches_of_paths_have_no_single_stored_item():
    batch = next(synth_of(made_codec(window=4), beta=30.0, days=10).batches(3, 0))
    assert batch.items.shape == (3, 10, 6)
    assert batch.nearest is batch.novelty is batch.source is None
    assert math.isnan(synth_of(made_codec(window=4), beta=30.0, days=10).predicted_novelty())


# --- Links


def test_the_next_window_has_the_rank_of_the_last_one():
    """By weights 1, 2, 1, 1 windows end at ranks 0.4 to 0.8 (1), and begin at 0.2 to 0.6 (1), 0.6 to 0.8 and so on."""
    before, after = np.array([0.1, 0.2, 0.3, 0.9]), np.array([1.0, 3.0, 2.0, 4.0])
    links = VolatilityLinks.of(before, after, np.array([1.0, 2.0, 1.0, 1.0]), bandwidth=1e-9)
    uniforms = np.random.default_rng(0).random((100_000, 2))
    shares = np.bincount(links.draw(np.ones(100_000, dtype=int), uniforms), minlength=4) / 100_000
    assert (np.abs(shares - [0, 0.5, 0.5, 0]) < 5 * 0.5 / math.sqrt(100_000)).all()
    assert set(links.draw(np.full(9, 3), uniforms[:9])) == {3}


@pytest.mark.parametrize("bandwidth", [0.005, 0.3])
def test_every_window_of_a_path_has_its_weight(bandwidth):
    """From windows with the law of the weights, the next has it too: 200,000 draws, chi-square, 1 in 10^6."""
    from scipy.stats import chi2

    rng = np.random.default_rng(0)
    before, after, weights = rng.random(40), rng.random(40), rng.random(40) + 0.1
    weights[7] = 0.0
    links = VolatilityLinks.of(before, after, weights, bandwidth)
    law, n = weights / weights.sum(), 200_000
    current = rng.choice(40, n, p=law)
    counts = np.bincount(links.draw(current, rng.random((n, 2))), minlength=40)
    assert counts[7] == 0
    kept = law > 0
    statistic = np.sum((counts[kept] - n * law[kept]) ** 2 / (n * law[kept]))
    assert statistic < chi2.isf(1e-6, 38)


def test_volatility_before_and_at_the_end_of_windows():
    codec = made_codec(days=40, window=5)
    volatility = trailing_volatility(codec.history, codec.blocks)
    np.testing.assert_allclose(volatility, _trailing(codec.history, first_day=lambda t: 0))
    links = VolatilityLinks.fit(codec.history, codec.blocks, np.ones(40))
    before = np.array([volatility[2], *volatility[:39]])  # the first window has no days before it, and its own count
    np.testing.assert_array_equal(links.order, np.argsort(before, kind="stable"))
    np.testing.assert_allclose(links.below, _ranks(volatility[(np.arange(40) + 4) % 40]))


def test_volatility_looks_back_within_its_run():
    codec = ReturnsCodec.fit(even_returns(40), names(6), runs=[15, 25], window=5)
    volatility = trailing_volatility(codec.history, codec.blocks)
    np.testing.assert_allclose(volatility, _trailing(codec.history, first_day=lambda t: 0 if t < 15 else 15))
    links = VolatilityLinks.fit(codec.history, codec.blocks, np.ones(40))
    before = np.array([volatility[2], *volatility[:14], volatility[17], *volatility[15:39]])
    np.testing.assert_array_equal(links.order, np.argsort(before, kind="stable"))
    ends = [*range(4, 15), 0, 1, 2, 3, *range(19, 40), 15, 16, 17, 18]
    np.testing.assert_allclose(links.below, _ranks(volatility[ends]))


def test_columns_that_never_change_have_no_volatility():
    codec = made_codec(days=40, window=5)
    with_constant = np.column_stack([codec.history, np.full(40, 0.25)])
    found = trailing_volatility(with_constant, codec.blocks)
    np.testing.assert_allclose(found, trailing_volatility(codec.history, codec.blocks))


def _trailing(history, first_day):
    """Volatility over three days, from the definition."""
    each = np.square((history - history.mean(0)) / history.std(0)).mean(1)
    return np.sqrt([each[max(first_day(t), t - 2) : t + 1].mean() for t in range(len(history))])


def _ranks(values):
    """Shares of smaller values."""
    return np.array([(values < value).mean() for value in values])


def test_linked_windows_follow_the_volatility_of_the_last_one():
    """In paths of stored windows, each window starts after days as volatile as the end of the last one."""
    codec = made_codec(window=4)
    ranks = _ranks(_trailing(codec.history, first_day=lambda t: 0))
    windows = synth_of(codec, **RECALL, days=24).sample(20, rng=0).reshape(20, 6, 1, 4, 6)
    k = np.abs(windows - codec.stored).max((3, 4)).argmin(2)
    ends = ranks[(k + 3) % 300]
    follows = k[:, 1:] > 0  # the first window has no days before it
    assert np.abs(ends[:, :-1] - ranks[k[:, 1:] - 1])[follows].max() < 0.04  # seven bandwidths of 0.005, and a rank
    assert np.abs(ends[:, :1] - ranks[k[:, 2:] - 1]).max() > 0.5  # no other window has this volatility at its end


def test_linked_paths_cluster_and_independent_windows_do_not():
    rng = np.random.default_rng(0)
    volatility = np.where(np.arange(1500) // 50 % 5 == 4, 0.04, 0.008)[:, None]
    history = volatility * (0.7 * rng.standard_normal((1500, 1)) + 0.7 * rng.standard_normal((1500, 8)))
    codec = ReturnsCodec.fit(history, names(8), window=5)
    there = squares_autocorrelation(codec.history[None])
    linked, free = (
        squares_autocorrelation(synth_of(codec, beta=60.0, days=1500, link=link).sample(8, rng=0))
        for link in (True, False)
    )
    assert there > 0.1
    assert abs(linked - there) < there / 3
    assert free < there / 2


def test_long_paths_visit_days_equally():
    """Days of 4,000 recalled windows by the run they come from: binomial, five standard errors, two runs of one law."""
    codec = ReturnsCodec.fit(even_returns(200), names(6), runs=[80, 120], window=10)
    path = synth_of(codec, **RECALL, days=200).sample(200, rng=0).reshape(-1, 10, 6)
    first = np.abs(path[:, None, 0] - codec.history[None]).max(2).argmin(1)
    assert len(first) == 4000
    share = (first < 80).mean()
    assert abs(share - 0.4) < 5 * math.sqrt(0.24 / 4000)


# --- Subsets, weights, unsupported options


@pytest.mark.parametrize("link", [True, False])
def test_paths_follow_subset_and_weight(link):
    codec = dated()
    synth = synth_of(codec, **RECALL, days=9, link=link)
    kept = codec.stored[np.array(codec.labels) == "2023"]
    for narrowed in (synth.subset("2023"), synth.weight(1e9, "2023")):
        windows = narrowed.sample(20, rng=0).reshape(60, 3, 5)
        assert np.abs(windows[:, None] - kept).max((2, 3)).min(1).max() < 1e-5
    two = synth_of(made_codec(window=4), **RECALL, days=12, link=link).subset([20, 40])
    windows = two.sample(3, rng=2).reshape(9, 4, 6)
    assert np.abs(windows[:, None] - two.codec.stored[[20, 40]]).max((2, 3)).min(1).max() < 1e-5


def test_paths_need_windows_in_their_order():
    codec = made_codec(window=4)
    half = codec.refit(codec.stored[::2])
    with pytest.raises(ValueError, match="need the history in its order"):
        synth_of(half, beta=50.0, days=8).sample(1)
    assert synth_of(half, beta=50.0, days=8, link=False).sample(1, rng=0).shape == (1, 8, 6)
    alone = synth_of(codec, **RECALL, days=8).subset([0]).sample(1, rng=0).reshape(2, 4, 6)
    np.testing.assert_allclose(alone, codec.stored[[0, 0]], atol=1e-6)


@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_paths_need_exact_draws(sampler):
    with pytest.raises(
        ValueError, match=f"days needs exact draws of windows; got sampler='{sampler}'. Leave out sampler or days"
    ):
        synth_of(made_codec(window=4), beta=50.0, days=8, sampler=sampler).sample(1)


def test_paths_take_no_conditions():
    with pytest.raises(ValueError, match="conditions hold within one stored window: leave out days"):
        synth_of(made_codec(window=4), beta=50.0, days=8).condition(T0=0.01).sample(1)


def test_windows_are_evaluated_and_not_paths():
    assert KIND.evaluated_options(WindowOptions(days=40, beta=3.0)) == WindowOptions(beta=3.0)
    half = synth_of(made_codec(window=4), beta=50.0, days=8).refit(np.arange(0, 300, 2))
    assert half.sample(2, rng=0).shape == (2, 4, 6)


def test_the_description_of_paths():
    linked, free = (synth_of(made_codec(window=4), beta=50.0, days=8, link=link).describe() for link in (True, False))
    assert linked.summary.startswith("paths of 8 days, linked by volatility windows of 4 days from p_beta at beta = 50")
    assert "independent" in free.summary
    assert linked.temperature.beta == 50.0


def test_saved_paths_are_the_same(tmp_path):
    synth = synth_of(made_codec(window=4), beta=50.0, days=10, link=False)
    synth.save(tmp_path / "a.synth")
    np.testing.assert_array_equal(sa.load(tmp_path / "a.synth").sample(2, rng=1), synth.sample(2, rng=1))


@pytest.mark.published
@pytest.mark.skipif("STOCHATTN_DATA" not in os.environ, reason="needs the returns named by STOCHATTN_DATA")
def test_linked_windows_preserve_most_of_the_market_s_clustering():
    """ACF(g²) of 64 paths of 2,500 days, every fifth ticker; benchmarks/returns.py uses all tickers.

    A batch of 64 paths spreads by some 0.01 around its mean: linked 0.13, independent 0.06, history 0.175.
    """
    with np.load(Path(os.environ["STOCHATTN_DATA"]) / "returns.npz", allow_pickle=False) as file:
        history = np.diff(np.log(file["closes"][:, ::5].astype(float)), axis=0)
    codec = ReturnsCodec.fit(history, names(history.shape[1]), window=10)
    linked, free = (
        squares_autocorrelation(synth_of(codec, beta=483.0, days=2500, link=link).sample(64, rng=0))  # natural
        for link in (True, False)
    )
    assert linked > squares_autocorrelation(history[None]) / 2
    assert linked > 1.4 * free


def test_the_calmest_window_may_follow_the_calmest():
    """Of 300 windows, the one with the least volatility before it is chosen by the least uniform number."""
    volatility = np.arange(300.0)
    links = VolatilityLinks.of(volatility, volatility, np.ones(300), bandwidth=1e-9)
    assert links.draw(np.array([0, 299]), np.array([[0.0, 0.5], [0.999, 0.5]])).tolist() == [0, 299]
