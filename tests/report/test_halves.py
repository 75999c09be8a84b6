"""Draws from halves of stored items, judged by the other halves, where the answer is known."""

import numpy as np
import pandas as pd
import pytest

from stochattn import pipeline
from stochattn.data.proteins import ProteinCodec
from stochattn.data.returns import ReturnsCodec
from stochattn.data.tables import TableCodec
from stochattn.evaluation import split_half as halves
from stochattn.evaluation.heldout import judge

from . import made


def test_cold_draws_tell_all_the_sources_that_were_drawn():
    """Thirty draws leave out a member of a half of fifteen with probability (14/15)^30, and then it looks like another.

    The number left out has a standard deviation below 1.4 a split, so the mean AUC of ten one of some 0.016.
    """
    rng = np.random.default_rng(2)
    family = ProteinCodec.fit(rng.integers(0, 20, (30, 25)), [str(i) for i in range(30)])
    found = halves.half_splits(pipeline.plan(family, beta=1e5), 40, seed=0)
    assert (len(found.halves), found.items) == (10, 30)
    assert found.auc == pytest.approx(1 - (14 / 15) ** 30 / 2, abs=0.05)


def test_draws_of_a_gaussian_tell_nothing():
    """At a very low beta, and with the spread kept, draws follow a Gaussian that 150 rows of 2 columns hardly shape.

    AUC of ten splits: standard error of one is √(1/(6·150)) = 0.033 under chance, so 0.57 is two of them.
    """
    rng = np.random.default_rng(3)
    table = TableCodec.fit(pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"]))
    found = halves.half_splits(pipeline.plan(table, beta=1e-3), 40, seed=0)
    assert abs(found.auc - 0.5) < 0.07


def test_the_rule_is_applied_anew_to_each_half(monkeypatch):
    seen = []
    choose = halves.plan_of

    def remembering(codec, **options):
        seen.append((codec.K, options))
        return choose(codec, **options)

    monkeypatch.setattr(halves, "plan_of", remembering)
    codec = made.codec("protein", K=20)
    for options, expected in (
        ({}, {"rule": "natural"}),
        ({"beta": 40.0}, {"beta": 40.0}),
        ({"novelty": 0.2}, {"novelty": 0.2}),
    ):
        seen.clear()
        halves.half_splits(pipeline.plan(codec, **options), 40, seed=0)
        assert seen == [(10, expected)] * 10


def test_same_seed_same_figures():
    plan = pipeline.plan(made.codec("table"))
    assert halves.half_splits(plan, 40, seed=4) == halves.half_splits(plan, 40, seed=4)
    assert halves.half_splits(plan, 40, seed=4) != halves.half_splits(plan, 40, seed=5)


def test_too_few_items_are_not_split():
    found = halves.half_splits(pipeline.plan(made.codec("protein", K=7)), 40, seed=0)
    assert found.halves == ()
    assert np.isnan(found.auc)
    assert "at least 8" in found.lacking


def test_windows_that_are_split_share_no_day():
    rng = np.random.default_rng(5)
    codec = ReturnsCodec.fit(0.01 * rng.normal(size=(50, 3)), ["a", "b", "c"], window=4)
    assert codec.K == 50
    assert codec.apart(np.arange(50)).tolist() == list(range(0, 47, 4))
    assert codec.apart(np.array([0, 2, 5, 6, 10])).tolist() == [0, 5, 10]
    assert halves.half_splits(pipeline.plan(codec), 40, seed=0).items == 12


def test_work_is_bounded_whatever_the_size():
    assert halves.affordable(60, 100, 10) == 60
    assert halves.affordable(10**6, 20, 5) == 1000
    assert 20 <= halves.affordable(10**6, 10**6, 5) < 100
    assert halves.affordable(12, 10**9, 5) == 12


def test_more_draws_tell_more():
    """Ten times as many draws leave hardly a stored item without one near it."""
    plan = pipeline.plan(made.codec("table", K=40))
    few, many = (halves.half_splits(plan, n, seed=0) for n in (20, 2000))
    assert (few.draws, many.draws) == (20, 2000)
    assert many.auc > few.auc + 0.02


def test_judgement_and_measures_are_of_the_drawn_half(monkeypatch):
    """One split by hand: the same half fitted, the same draws, against the same other half."""
    seen = []
    plan = pipeline.plan(made.codec("table", K=30), beta=50.0)
    monkeypatch.setattr(
        halves, "draw_items", lambda *args: seen.append((args, pipeline.draw_items(*args))) or seen[-1][1]
    )
    found = halves.half_splits(plan, 20, seed=3).halves
    assert len(found) == len(seen) == 10
    (fitted, n, _), (items, _, _) = seen[0]
    inside = fitted.codec.stored
    order = np.random.default_rng([3, 0]).permutation(30)
    outside = plan.codec.take(plan.codec.stored, np.sort(order[15:]))
    rows = [fitted.codec.features(some) for some in (items, inside, outside)]
    assert found[0].judgement == judge(*rows)
    assert n == 20
    truth = plan.codec.refit(outside)
    assert found[0].new == truth.compare(items).measures
    assert found[0].stored == truth.compare(inside).measures


def test_copies_lean_on_their_half_and_a_gaussian_does_not():
    rng = np.random.default_rng(6)
    table = TableCodec.fit(pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc")))
    cold, hot = (halves.half_splits(pipeline.plan(table, beta=beta), 200, seed=0) for beta in (1e6, 1e-3))
    assert cold.closer == 1.0
    # 10 splits of 100 against 100: the share's standard error is at most 0.05 a split, by chance 0.5
    assert hot.closer == pytest.approx(0.5, abs=0.05)


def test_a_native_sampler_is_judged_by_itself(monkeypatch):
    seen = []
    plan = pipeline.plan(made.codec("table", K=30), target="native")

    def remembering(fitted, *args):
        seen.append(fitted.native)
        return pipeline.draw_items(fitted, *args)

    monkeypatch.setattr(halves, "draw_items", remembering)
    found = halves.half_splits(plan, 20, seed=3)
    assert len(found.halves) == len(seen) == 5
    assert all(type(sampler) is type(plan.native) for sampler in seen)
    assert all(len(sampler.kept) == 15 for sampler in seen)
