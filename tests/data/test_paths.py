"""Paths: each one's own, the same in any company, with the weights and the laws asked for; and what was run, said."""

import json
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from stochattn import paths as module
from stochattn import pipeline, sequential
from stochattn.data.legacy import InputError
from stochattn.data.returns import ReturnsCodec
from stochattn.data.returns.projection import Correction
from stochattn.data.returns.regimes import fit_regimes
from stochattn.data.tables import TableCodec
from stochattn.paths import Course, course_of, paths

COURSES = {
    "linked": Course(7),
    "unlinked": Course(7, linked=False),
    "fixed": Course(2, schedule="fixed"),
    "betas": Course(2, schedule=(30.0, 10.0)),
    "regimes": Course(2, schedule="regimes"),
}


def switching(days=300, N=5, seed=0):
    """Returns whose volatility is 0.005 or 0.04, in stretches of 15 days."""
    rng = np.random.default_rng(seed)
    rough = np.arange(days) // 15 % 2 == 1
    return np.where(rough, 0.04, 0.005)[:, None] * rng.standard_normal((days, N)) + 1e-3


def made_plan(mode="exact", window=1, beta=25.0, days=300, options=None, **choices):
    first = np.datetime64("2022-06-01")
    dates = [str(first + i) for i in range(days)]
    names = [f"T{i}" for i in range(5)]
    codec = ReturnsCodec.fit(switching(days), names, mode=mode, window=window, dates=dates, **(options or {}))
    return pipeline.plan(codec, beta=beta, **choices)


def plan_for(course, **choices):
    return made_plan("exact", 3, **choices) if course.schedule is None else made_plan("projection", **choices)


def made(plan, course, n, seed=0):
    return np.concatenate([batch.items for batch in paths(plan, course, n, seed)])


@pytest.fixture
def short_days(monkeypatch):
    """Ten steps a day instead of two hundred."""
    monkeypatch.setattr(module, "sequential", partial(sequential, inner_steps=10))


# --- Each path's own


@pytest.mark.parametrize("block", [2, 4096])
@pytest.mark.parametrize("name", COURSES)
def test_the_first_of_many_paths_are_the_few(short_days, monkeypatch, name, block):
    course = COURSES[name]
    monkeypatch.setattr(module, "MOST_NUMBERS", block * course.days * 5)
    plan = plan_for(course)
    many = made(plan, course, 6)
    assert many.shape == (6, course.days, 5)
    for m in (1, 3):
        np.testing.assert_allclose(made(plan, course, m), many[:m], rtol=0, atol=1e-12)
    assert np.abs(made(plan, course, 6, seed=1) - many).min() > 0
    firsts = many[:, 0]
    assert len(np.unique(firsts.round(9), axis=0)) == 6


@pytest.mark.parametrize("schedule", ["fixed", "regimes", (20.0,)], ids=str)
def test_a_single_day_is_a_draw_and_not_the_mean(short_days, schedule):
    plan = made_plan("projection")
    history = plan.codec.history
    days = np.array([made(plan, Course(1, schedule=schedule), 1, seed)[0, 0] for seed in range(3)])
    assert np.abs(days - history.mean(0)).min() > 1e-6
    assert np.ptp(days, axis=0).min() > 1e-6


def test_each_path_has_its_own_regimes(short_days):
    """Mean correlation of the logarithm of daily variance over 28 pairs: 0.8 where regimes are shared, 0 ± 0.1 else."""
    items = made(made_plan("projection"), Course(60, schedule="regimes"), 8)
    size = np.log(np.square(items).mean(2))
    assert np.corrcoef(size)[np.triu_indices(8, 1)].mean() < 0.3
    calm, rough = np.quantile(np.sqrt(np.square(items).mean(2)), [0.1, 0.9])
    assert rough / calm > 4  # 0.04 / 0.005 in the history, in two regimes that the paths all visit


def test_each_regime_has_the_moments_of_its_historical_days(monkeypatch):
    """500 first days, by the beta they were sampled at. In units of the regime's deviation each ticker's is 1.

    Some 250 days a regime, with a kurtosis below 6: a standard error of 0.07, less for the mean over five tickers.
    """
    betas = []

    def recorded(bank, beta, **more):
        betas.append(float(beta[0]))
        return sequential(bank, beta, inner_steps=2, **more)

    monkeypatch.setattr(module, "sequential", recorded)
    plan = made_plan("projection")
    days = made(plan, Course(1, schedule="regimes"), 500)[:, 0]
    cold = np.array(betas) == max(betas)
    regimes = fit_regimes(plan.codec.history)
    assert max(betas) / min(betas) == pytest.approx((regimes.volatility[1] / regimes.volatility[0]) ** 2)
    for regime, chosen in enumerate((cold, ~cold)):
        past = plan.codec.history[regimes.labels == regime]
        standard = (days[chosen] - past.mean(0)) / past.std(0)
        assert standard.std(0).mean() == pytest.approx(1, abs=0.2)
        assert (np.abs(standard.mean(0)) < 5 * np.sqrt(1 / chosen.sum() + 1 / 4096)).all()


def test_a_fixed_beta_has_the_historical_moments():
    """2,000 days of independent paths; the map was measured on 4,096 others. Five standard errors of both."""
    plan = made_plan("projection")
    history = plan.codec.history
    days = made(plan, Course(1, schedule="fixed"), 2000)[:, 0]
    error = np.sqrt(1 / 2000 + 1 / 4096)
    assert (np.abs(days.mean(0) - history.mean(0)) < 5 * error * history.std(0)).all()
    kurtosis = (((days - days.mean(0)) / days.std(0)) ** 4).mean(0)
    assert (np.abs(days.std(0) / history.std(0) - 1) < 5 * error * np.sqrt((kurtosis - 1) / 4)).all()


def test_the_correction_pools_the_betas_of_a_schedule():
    """One map for all days, under which hot and cold days together have the historical deviation."""
    plan = made_plan("projection")
    bank, history, betas = plan.model.bank, plan.codec.history, (200.0, 5.0)
    correction = Correction.measured(bank, betas, history)
    rng, days = np.random.default_rng(5), []
    for beta in betas:
        xi = bank.patterns[rng.integers(bank.K, size=20_000)] + rng.standard_normal((20_000, 5)) / np.sqrt(beta)
        p = np.exp(beta * xi @ bank.patterns.T)
        days.append(correction(p / p.sum(1, keepdims=True) @ history))
    np.testing.assert_allclose(np.concatenate(days).std(0), history.std(0), rtol=0.06)  # 4,096 draws set the map
    assert (days[0].std(0) > 1.2 * days[1].std(0)).all()


# --- Conditions


@pytest.mark.parametrize("linked", [True, False])
def test_windows_obey_keep_and_weight(linked):
    recall = {"window": 3, "beta": 1e12, "options": {"marginals": "free"}}
    plan = made_plan(**recall, keep=["2023"])
    kept = plan.codec.stored[np.array(plan.codec.labels) == "2023"]
    windows = made(plan, Course(9, linked), 20).reshape(60, 3, 5)
    assert np.abs(windows[:, None] - kept).max((2, 3)).min(1).max() < 1e-5
    heavy = made_plan(**recall, weight=["2023:1e9"])
    windows = made(heavy, Course(9, linked), 20).reshape(60, 3, 5)
    assert np.abs(windows[:, None] - kept).max((2, 3)).min(1).max() < 1e-5


@pytest.mark.parametrize("schedule", ["fixed", (1e4,), "regimes"], ids=str)
def test_sequences_obey_keep_and_weight(short_days, schedule):
    """So cold that a day is a memory: three are kept, and each of their maps is affine, one for each regime."""
    n = 12 if schedule == "regimes" else 40
    maps = 2 if schedule == "regimes" else 1
    for choice in ({"keep": ["2022-07-0[123]"]}, {"weight": ["2022-07-0[123]:1e12"]}):
        days = made(made_plan("projection", beta=1e4, **choice), Course(1, schedule=schedule), n)[:, 0]
        assert 1 < len(np.unique(days.round(6), axis=0)) <= 3 * maps


# --- What may be asked, and what is said of it


@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_other_samplers_are_refused(sampler):
    with pytest.raises(InputError, match=f"--days draws windows exactly, and cannot with --sampler {sampler}"):
        course_of(made_plan(window=3, sampler=sampler), 9, True, None)
    with pytest.raises(InputError, match="--schedule runs Algorithm 3"):
        course_of(made_plan("projection", sampler=sampler), 9, True, "regimes")
    assert course_of(made_plan(window=3, sampler=sampler), None, True, None) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((5, True, "fixed"), "needs --mode projection"),
        ((None, True, "fixed"), "needs --mode projection"),
    ],
)
def test_schedules_need_the_projection(options, said):
    with pytest.raises(InputError, match=said):
        course_of(made_plan(), *options)
    with pytest.raises(InputError, match="needs --days"):
        course_of(made_plan("projection"), None, True, "fixed")
    with pytest.raises(InputError, match="--fix holds within"):
        course_of(made_plan(fix=["T0=0.01"]), 5, True, None)


def test_schedules_in_words_and_numbers():
    plan = made_plan("projection")
    assert course_of(plan, 3, True, "regimes") == Course(3, True, "regimes")
    assert course_of(plan, 3, True, "16:4").schedule == pytest.approx((16.0, 8.0, 4.0))
    assert course_of(plan, 2, True, "7,9").schedule == (7.0, 9.0)
    for text in ("7,9", "7:0", "7:inf", "7:nan", "hot", "1:2:3", ""):
        with pytest.raises(InputError, match="must be fixed, regimes, FIRST:LAST"):
            course_of(plan, 3, True, text)


def test_only_returns_have_days():
    pandas = pytest.importorskip("pandas")
    table = TableCodec.fit(pandas.DataFrame({"x": np.arange(9.0), "y": np.arange(9.0) ** 2}))
    with pytest.raises(InputError, match="are for returns, and this is read as table"):
        course_of(pipeline.plan(table, beta=5.0), 5, True, None)


def test_a_course_says_what_is_run():
    windows, days = made_plan(window=3), made_plan("projection")
    assert Course(60).describe(windows) == {"days": 60, "linked": True}
    assert Course(60, linked=False).describe(windows) == {"days": 60, "linked": False}
    assert Course(3).describe(windows) == {"days": 3, "linked": False}  # a single window
    ran = {"sampler": "sequential mala (Algorithm 3)", "days": 2, "linked": False}
    assert Course(2, schedule="regimes").describe(days) == {**ran, "schedule": "regimes"}
    said = Course(2, schedule=(30.0, 10.0)).describe(days)
    assert json.loads(json.dumps(said)) == {**ran, "schedule": [30.0, 10.0]}


def test_an_interrupted_sequence_is_no_path(monkeypatch):
    broken = SimpleNamespace(
        values=np.zeros((1, 1, 5)), draws=SimpleNamespace(settings=SimpleNamespace(complete=False))
    )
    monkeypatch.setattr(module, "sequential", lambda *_, **__: broken)
    with pytest.raises(KeyboardInterrupt):
        made(made_plan("projection"), Course(4, schedule="fixed"), 1)
