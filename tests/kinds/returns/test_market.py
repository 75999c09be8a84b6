"""The market of returns: which component it is, its sign and size in draws, and the volatility around days."""

import math

import numpy as np
import pytest

from made_returns import names, synth_of
from stochattn.kinds.hopfield import Coordinates
from stochattn.kinds.returns.codec import ReturnsCodec
from stochattn.kinds.returns.generator.coordinates import Blocks
from stochattn.kinds.returns.generator.market import HALF_LIFE, MAX_JITTER, surrounding_volatility, with_market
from stochattn.kinds.returns.kind import KIND
from stochattn.report import make_report


def followed(days=600, N=8, seed=0):
    """Columns that follow a market, which falls before volatile days."""
    rng = np.random.default_rng(seed)
    market, volatility = np.empty(days), 0.01
    for t in range(days):
        market[t] = volatility * rng.standard_normal()
        volatility = 0.004 + 0.7 * volatility - 0.4 * min(market[t], 0.0)
    return market[:, None] + 0.008 * rng.standard_t(5, (days, N))


def fitted(history, window=10, **options):
    return synth_of(ReturnsCodec.fit(history, names(history.shape[1]), window=window), **options)


def leverage(paths):
    """corr(r_t, |r_{t+1}|) of the mean of all columns, over windows (n, days, N)."""
    r = paths.mean(2)
    return np.corrcoef(r[:, :-1].ravel(), np.abs(r[:, 1:]).ravel())[0, 1]


def market_of(synth):
    return synth.generator.embedding.coordinates.market


@pytest.mark.parametrize(("case", "expected"), [("alike", "mean"), ("opposed", "component"), ("one wild", "mean")])
def test_the_market_is_the_one_that_explains_more(case, expected):
    """Columns against a market have a mean that hides it; a wild column is the first component, and explains itself."""
    history = followed()
    if case == "opposed":
        history[:, ::2] *= -1
    if case == "one wild":
        history[:, 0] = 0.3 * np.random.default_rng(1).standard_normal(len(history))
        history[:, 1:] *= 3
    synth = fitted(history, beta=60.0)
    assert market_of(synth) == expected
    assert synth.describe().resolved == {"market": expected}
    for name in ("mean", "component", "none"):
        assert market_of(fitted(history, beta=60.0, market=name)) == name


@pytest.mark.parametrize("market", ["mean", "component"])
@pytest.mark.parametrize("options", [{}, {"whiten": False}, {"whiten": False, "variance": None}], ids=str)
def test_the_score_in_the_market_is_that_of_its_weights(market, options):
    """w · (x − mean), by equal weights or by the direction of largest variance, up to a factor."""
    history = followed()
    coordinates = fitted(history, beta=60.0, market=market, **options).generator.embedding.coordinates
    weights = np.ones(8) if market == "mean" else np.linalg.eigh(np.cov(history.T))[1][:, -1]
    scores = coordinates.project(history)[:, 0]
    assert abs(np.corrcoef(scores, history @ weights)[0, 1]) == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(coordinates.outward @ coordinates.inward, np.eye(8), atol=1e-10)
    new = coordinates.with_score(history, np.full(600, 1.5))
    np.testing.assert_allclose(coordinates.project(new)[:, 0], 1.5)
    np.testing.assert_allclose(coordinates.project(new)[:, 1:], coordinates.project(history)[:, 1:], atol=1e-9)


def test_draws_keep_the_sign_of_the_market_and_its_law():
    """The mean of all tickers: signs of a stored window, sizes changed, 1 % and 99 % quantiles to 6 %."""
    synth = fitted(followed(), market="mean", market_path="stored")
    codec, k = synth.codec, np.arange(600)
    new = synth.generator.decoder.around(np.repeat(k, 20), np.random.default_rng(0)).reshape(600, 20, 10, 8).mean(3)
    old = codec.stored.mean(2)[:, None]
    clear = np.abs(old - codec.history.mean()) > 5e-4
    same = np.sign(new - codec.history.mean()) == np.sign(old - codec.history.mean())
    assert same[np.broadcast_to(clear, same.shape)].mean() > 0.995
    assert np.abs(new / old - 1)[np.broadcast_to(clear, same.shape)].mean() > 0.05
    for level in (0.01, 0.99):
        assert np.quantile(new, level) == pytest.approx(
            np.quantile(codec.history.mean(1), level, method="hazen"), rel=0.06
        )


def test_calibrated_days_have_the_calibrated_score_in_the_market():
    """Tickers are calibrated one by one, which changes their mean; the days are then moved along the market."""
    synth = fitted(followed(), market_path="stored")
    embedding, noise = synth.generator.decoder, np.random.default_rng(0).standard_normal((40, 80))
    coordinates, source = embedding.coordinates, np.arange(0, 600, 15)
    drawn = coordinates.project(embedding.draw_windows(source, noise, 1.0).reshape(400, 8))[:, 0]
    scores = coordinates.scores(embedding.beta, coordinates.days[source].ravel(), noise.reshape(400, 8)[:, 0])
    np.testing.assert_allclose(drawn, embedding.market_calibration(scores[:, None])[:, 0], rtol=1e-9, atol=1e-12)


def test_a_market_preserves_leverage():
    """Of 3,000 windows, with a standard error of 0.01; without a market, noise flips its sign and half is lost.

    0.03 are lost to the noise of the tickers, and 0.03 to new signs where the effect is as strong as here.
    """
    there = leverage(followed()[None])
    kept, lost = (leverage(fitted(followed(), market=name, beta=15.0).sample(3000, rng=0)) for name in ("auto", "none"))
    assert there < -0.3
    assert abs(kept - there) < 0.07
    assert lost > there + 0.15


def test_no_day_is_a_copy():
    synth = fitted(followed())
    new = synth.sample(300, rng=0).reshape(-1, 8) / synth.codec.history.std(0)
    old = synth.codec.history / synth.codec.history.std(0)
    nearest = np.sqrt(((new[:, None] - old) ** 2).sum(2).min(1))
    assert nearest.min() > 0.05


def test_volatility_around_days_by_its_definition():
    days = np.random.default_rng(0).standard_normal((30, 3)) * [1, 2, 0]
    runs, found = (12, 18), surrounding_volatility(days, (12, 18))
    run_of, decay = np.repeat([0, 1], runs), 0.5 ** (1 / HALF_LIFE)
    for t in (0, 5, 11, 12, 29):
        weights = np.array([decay ** abs(t - s) * (run_of[s] == run_of[t]) * (s != t) for s in range(30)])
        mean = np.square(days).mean(0)
        local = (weights @ np.square(days) + mean) / (weights.sum() + 1)
        ratio = np.array([*(local / np.where(mean > 0, mean, 1.0))[:2], 1.0])
        np.testing.assert_allclose(found[t], np.sqrt(ratio / ratio.mean()), rtol=1e-12)
    np.testing.assert_allclose(surrounding_volatility(days, (1,) * 30), 1.0)


def test_tickers_stay_volatile_at_the_same_times():
    """Ticker 0 is volatile in the first half of a year, ticker 1 in the second; noise alike at all times mixes them."""
    rng = np.random.default_rng(0)
    history = 0.01 * rng.standard_normal((500, 1)) + 0.004 * rng.standard_normal((500, 8))
    first = np.arange(500) % 250 < 125
    history[first, 0] += 0.03 * rng.standard_normal(250)
    history[~first, 1] += 0.03 * rng.standard_normal(250)
    synth = fitted(history, window=20)
    inside = np.flatnonzero((np.arange(500) % 250 < 105) & (np.arange(500) < 480))  # windows of volatile days
    new = synth.generator.decoder.around(inside, np.random.default_rng(0))
    assert new[..., 0].std() / new[..., 1].std() > 1.6
    assert history[first, 0].std() / history[first, 1].std() > 2.5


def test_short_windows_of_two_tickers_have_no_market():
    history = followed(N=2)
    assert market_of(fitted(history, window=3, beta=30.0)) == "none"
    assert market_of(fitted(history, window=10, beta=30.0)) != "none"
    assert np.isfinite(fitted(history, window=3).sample(20, rng=0)).all()


def test_a_mean_that_never_changes_is_no_market():
    history = followed(N=4)
    history = np.concatenate([history, -history], axis=1)
    assert market_of(fitted(history, beta=30.0)) == "component"
    with pytest.raises(ValueError, match=r"market='mean': the mean of all columns never changes\. Pass"):
        fitted(history, beta=30.0, market="mean").sample(1)
    with pytest.raises(ValueError, match="market"):
        fitted(history, beta=30.0, market="index").sample(1)


def test_conditions_choose_windows_in_which_the_market_moves():
    """Given that ticker 0 falls by 4 %, the others fall too, by what the linear regression on it says or more."""
    history = followed()
    new = fitted(history).condition(T0=-0.04).sample(300, rng=0)
    np.testing.assert_allclose(new[:, 0, 0], -0.04, atol=1e-10)
    slope = np.cov(history[:, 0], history[:, 1:].mean(1))[0, 1] / history[:, 0].var()
    assert new[:, 0, 1:].mean() == pytest.approx(-0.04 * slope, rel=0.4)
    assert math.isfinite(new.std())


def test_without_a_market_days_keep_their_components():
    """Two columns are enough for a market, if one is asked for."""
    history = followed(N=2)
    day = Coordinates(history.mean(0), None, None, history - history.mean(0), np.ones(len(history)), "whole", 1.0)
    found, name = with_market(day, history, "none", 30)
    assert name == "none"
    np.testing.assert_array_equal(found.inward, np.eye(2))
    np.testing.assert_array_equal(found.outward, np.eye(2))
    assert [with_market(day, history, asked, 30)[1] for asked in ("mean", "component")] == ["mean", "component"]


def test_coordinates_of_noise_around_a_window_give_the_window_of_that_noise():
    embedding = fitted(followed(days=200), beta=30.0, market_path="stored").generator.decoder
    source, noise = np.array([0, 7, 3]), np.random.default_rng(0).standard_normal((3, embedding.coordinates.d))
    rows = embedding.coordinates.stored[source] + noise / np.sqrt(30.0)
    coordinates = rows * embedding.coordinates.factors(30.0, source)
    found = embedding.arrays(coordinates, source, np.random.default_rng(1))
    np.testing.assert_allclose(found, embedding.draw_windows(source, noise, 1.0), rtol=1e-9, atol=1e-12)


def test_windows_are_separate_if_each_run_has_one():
    assert [Blocks((5, 3), 3, step).is_separate for step in (3, 4, 5, 6)] == [False, False, True, True]


@pytest.mark.parametrize(("beta", "largest"), [(1e5, None), (2.0, MAX_JITTER)])
def test_scores_vary_less_at_a_larger_beta_and_never_by_more_than_a_fifth(beta, largest):
    coordinates = fitted(followed(days=200), beta=30.0).generator.embedding.coordinates
    days, noise = np.arange(200), np.random.default_rng(0).standard_normal(200)
    jitter = largest or math.sqrt(10 / (beta * coordinates.groups.shares[0]))
    expected = coordinates.components[:, 0] * np.exp(jitter * noise - jitter**2)
    np.testing.assert_allclose(coordinates.scores(beta, days, noise), expected)


def market_path(windows):
    """The mean of all columns of windows (n, days, N), centred and of unit norm: (n, days)."""
    path = windows.mean(2) - windows.mean((1, 2), keepdims=True)[..., 0]
    return path / np.linalg.norm(path, axis=1, keepdims=True)


def test_the_market_takes_a_new_path_that_keeps_its_behaviour():
    """Windows are as close to the nearest stored one as stored ones are to those that share no day with them.

    Of 2,500 windows: sums over 30 days and returns of consecutive days vary as in the history, within 12 %.
    """
    history = followed(days=1500)
    synth = fitted(history, window=30)
    new, stored = synth.sample(2500, rng=0), synth.codec.stored
    similar = market_path(stored) @ market_path(stored).T
    apart = np.abs(np.arange(1500)[:, None] - np.arange(1500))
    similar[np.minimum(apart, 1500 - apart) < 30] = -1
    own, nearest = np.median(similar.max(1)), np.median((market_path(new) @ market_path(stored).T).max(1))
    assert nearest < own + 0.03
    recalled = fitted(history, window=30, market_path="stored").sample(200, rng=0)
    assert np.median((market_path(recalled) @ market_path(stored).T).max(1)) > own + 0.2
    totals = [windows.mean(2).sum(1).std() for windows in (new, stored)]
    assert totals[0] == pytest.approx(totals[1], rel=0.12)
    assert leverage(new) == pytest.approx(leverage(stored), abs=0.07)


def test_a_large_beta_recalls_the_market_too():
    synth = fitted(followed(days=300), window=10, beta=1e9, marginals="free")
    new, source = synth.generator.sample(50, np.random.default_rng(0))[:2]
    np.testing.assert_allclose(new, synth.codec.stored[source], atol=1e-3)


def test_conditioned_days_are_not_reversed_and_the_others_are():
    synth = fitted(followed(days=300), window=5).condition({"T0": -0.03, ("T3", 2): 0.01})
    sample = synth.generator.sample(400, np.random.default_rng(0))
    np.testing.assert_allclose(sample.values[:, 0, 0], -0.03, atol=1e-9)
    np.testing.assert_allclose(sample.values[:, 1, 3], 0.01, atol=1e-9)
    same = np.sign(sample.values.mean(2)) == np.sign(synth.codec.stored[sample.source].mean(2))
    assert (same.mean(0)[:2] > 0.8).all()
    assert (np.abs(same.mean(0)[2:] - 0.5) < 0.15).all()


def test_the_density_with_a_new_market_adds_up_over_signs():
    """Two days, two memories, by the sum over all signs of the day; noise is small beside the moves of the market."""
    generator = fitted(followed(days=40), window=2, beta=2000.0).generator
    signs, coordinates, beta = generator.embedding.signs, generator.embedding.coordinates, generator.beta
    rows, expected = coordinates.stored[[3, 20, 31]] * np.repeat([-1.0, 1.0], 8), np.zeros(3)
    recall = generator.decoder.recall
    for k, days in enumerate(coordinates.days):
        for pattern in ([1, 1], [1, -1], [-1, 1], [-1, -1]):
            chance = np.exp(signs.log_probabilities(np.array([pattern]), days[None], recall))[0, 0]
            reverse = np.repeat(pattern * signs.signs[days], 8)
            away = np.square(rows - coordinates.stored[k] * reverse).sum(1)
            expected += chance * np.exp(-beta / 2 * away) * (beta / (2 * np.pi)) ** 8 / len(coordinates.days)
    features = coordinates.features(rows * coordinates.factors(math.inf, np.array([3, 20, 31])))
    np.testing.assert_allclose(generator.log_density(features), np.log(expected), rtol=1e-6)


def test_drawn_signs_have_their_probabilities():
    signs = fitted(followed(days=60), window=3).generator.embedding.signs
    days = np.tile([[10, 11, 12]], (40_000, 1))
    drawn = signs.draw_flips(days, np.random.default_rng(0).random(days.shape), 0.3) * signs.signs[days]
    patterns = np.array(np.meshgrid(*[[1.0, -1.0]] * 3)).reshape(3, -1).T
    chances = np.exp(signs.log_probabilities(patterns, days[:1], 0.3))[:, 0]
    assert chances.sum() == pytest.approx(1)
    shares = (drawn[:, None] == patterns).all(2).mean(0)
    np.testing.assert_allclose(shares, chances, atol=5 * 0.5 / 200)


@pytest.mark.parametrize(("path", "expected"), [("new", True), ("stored", False)])
def test_a_verdict_says_whether_the_market_follows_stored_windows(path, expected):
    """The largest correlation of a path with the stored ones, and of a stored path with those of other days."""
    synth = fitted(followed(), window=30, market_path=path)
    new = synth.sample(60, rng=0)
    verdict = make_report(synth, new, source=None, quick=True).verdict
    assert verdict.checks.recall.passed is expected
    assert (verdict.headline == "New, but the market follows stored scenarios") is not expected
    assert ("market_path='new'" in verdict.advice) is not expected
    history, days = synth.codec.history.mean(1), synth.codec.blocks.days
    ours, theirs = (
        np.median([max(np.corrcoef(a, history[k])[0, 1] for k in others) for a, others in pairs])
        for pairs in (
            [(path, days) for path in new.mean(2)],
            [(history[k], [o for o in days if not set(o) & set(k)]) for k in days[::30]],
        )
    )
    found = {measure.name: measure for measure in KIND.measures.compare(synth.codec, new).measures}
    measure = found["similarity of the market, equal weights"]
    assert (measure.value, measure.ideal) == pytest.approx((ours, theirs))
