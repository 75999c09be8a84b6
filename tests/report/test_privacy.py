"""Distances to stored items and membership inference, against brute force and where the answer is known."""

import numpy as np
import pandas as pd
import pytest

from stochattn import pipeline
from stochattn.codecs.proteins import ProteinCodec
from stochattn.codecs.returns import ReturnsCodec
from stochattn.codecs.tables import TableCodec
from stochattn.report import privacy

from . import made


def test_area_under_curve_counts_pairs():
    rng = np.random.default_rng(0)
    members, others = rng.integers(0, 6, 40).astype(float), rng.integers(0, 5, 25).astype(float)
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in members for b in others]
    assert privacy.area_under_curve(members, others) == pytest.approx(np.mean(pairs), abs=1e-12)


def test_closest_by_brute_force(monkeypatch):
    monkeypatch.setattr(privacy, "BLOCK_ENTRIES", 40)  # several blocks
    rng = np.random.default_rng(1)
    rows, stored = rng.normal(size=(23, 4)), rng.normal(size=(9, 4))
    found = privacy.closest(rows, stored)
    distances = np.sqrt(np.square(rows[:, None] - stored).sum(-1)).min(1)
    cosines = [max(x @ m / np.sqrt((x @ x) * (m @ m)) for m in stored) for x in rows]
    np.testing.assert_allclose(found.distance, distances, rtol=1e-12)
    np.testing.assert_allclose(found.novelty, 1 - np.array(cosines), atol=1e-12)


def test_stored_items_are_compared_with_others_only():
    stored = np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0], [3.0, 0.0]])
    found = privacy.closest_other(stored, 10)
    np.testing.assert_allclose(found.distance, [1, 1, 0, 0])
    np.testing.assert_allclose(found.novelty, [0, 0, 0, 0], atol=1e-12)
    assert len(privacy.closest_other(stored[:1], 10).distance) == 0
    assert len(privacy.closest_other(stored, 3).distance) == 3


def test_leaving_out_by_brute_force():
    stored = np.vstack([np.eye(3), -np.ones((1, 3))])  # all at obtuse or right angles: itself, left in, would win
    found = privacy.closest_other(stored, 12)
    for k, row in enumerate(stored):
        others = np.delete(stored, k, axis=0)
        cosines = others @ row / np.linalg.norm(others, axis=1) / np.linalg.norm(row)
        assert found.distance[k] == pytest.approx(np.linalg.norm(others - row, axis=1).min(), rel=1e-12)
        assert found.novelty[k] == pytest.approx(1 - cosines.max(), abs=1e-12)


def test_nearly_equal_rows_keep_their_distance():
    stored = np.array([[1e4, 0.0], [0.0, 1e4]])
    assert privacy.closest(stored[:1] + 1e-7 * np.eye(1, 2), stored).distance[0] == pytest.approx(1e-7, rel=1e-3)


def test_cold_draws_tell_all_the_sources_that_were_drawn():
    """Thirty draws leave out a member of a half of fifteen with probability (14/15)^30, and then it looks like another.

    The number left out has a standard deviation below 1.4 a split, so the mean AUC of ten one of some 0.016.
    """
    rng = np.random.default_rng(2)
    family = ProteinCodec.fit(rng.integers(0, 20, (30, 25)), [str(i) for i in range(30)])
    found = privacy.membership(pipeline.plan(family, beta=1e5), 40, seed=0)
    assert (len(found.aucs), found.items) == (10, 30)
    assert found.auc == pytest.approx(1 - (14 / 15) ** 30 / 2, abs=0.05)


def test_draws_of_a_gaussian_tell_nothing():
    """At a very low beta, and with the spread kept, draws follow a Gaussian that 150 rows of 2 columns hardly shape.

    AUC of ten splits: standard error of one is √(1/(6·150)) = 0.033 under chance, so 0.57 is two of them.
    """
    rng = np.random.default_rng(3)
    table = TableCodec.fit(pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"]))
    found = privacy.membership(pipeline.plan(table, beta=1e-3), 40, seed=0)
    assert abs(found.auc - 0.5) < 0.07


def test_the_rule_is_applied_anew_to_each_half(monkeypatch):
    seen = []
    choose = privacy.plan_of

    def remembering(codec, **options):
        seen.append((codec.K, options))
        return choose(codec, **options)

    monkeypatch.setattr(privacy, "plan_of", remembering)
    codec = made.codec("protein", K=20)
    for options, expected in (
        ({}, {"rule": "natural"}),
        ({"beta": 40.0}, {"beta": 40.0}),
        ({"novelty": 0.2}, {"novelty": 0.2}),
    ):
        seen.clear()
        privacy.membership(pipeline.plan(codec, **options), 40, seed=0)
        assert seen == [(10, {**expected, "fix": ()})] * 10


def test_same_seed_same_figures():
    plan = pipeline.plan(made.codec("table"))
    assert privacy.membership(plan, 40, seed=4) == privacy.membership(plan, 40, seed=4)
    assert privacy.membership(plan, 40, seed=4) != privacy.membership(plan, 40, seed=5)


def test_too_few_items_are_not_split():
    found = privacy.membership(pipeline.plan(made.codec("protein", K=7)), 40, seed=0)
    assert found.aucs == ()
    assert np.isnan(found.auc)
    assert "at least 8" in found.lacking


def test_windows_that_are_split_share_no_day():
    rng = np.random.default_rng(5)
    codec = ReturnsCodec.fit(0.01 * rng.normal(size=(50, 3)), ["a", "b", "c"], window=4)
    assert codec.K == 47
    assert privacy._apart(codec, np.arange(47)).tolist() == list(range(0, 47, 4))
    assert privacy._apart(codec, np.array([0, 2, 5, 6, 10])).tolist() == [0, 5, 10]
    assert privacy.membership(pipeline.plan(codec), 40, seed=0).items == 12


def test_work_is_bounded_whatever_the_size():
    assert privacy.affordable(60, 100, 10) == 60
    assert privacy.affordable(10**6, 20, 5) == 1000
    assert 20 <= privacy.affordable(10**6, 10**6, 5) < 100
    assert privacy.affordable(12, 10**9, 5) == 12


def test_more_draws_tell_more():
    """Ten times as many draws leave hardly a stored item without one near it."""
    plan = pipeline.plan(made.codec("table", K=40))
    few, many = (privacy.membership(plan, n, seed=0) for n in (20, 2000))
    assert (few.draws, many.draws) == (20, 2000)
    assert many.auc > few.auc + 0.02
