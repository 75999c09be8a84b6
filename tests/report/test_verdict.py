"""Verdicts on new items whose quality is known, and the limits that decide."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.evaluation.fidelity import Fidelity, Relations, Score
from stochattn.evaluation.split_half import HeldOutMetrics, SplitHalfResult, SplitMetrics
from stochattn.report import evidence, judge, measure
from stochattn.report.checks import run_checks
from stochattn.report.evidence import Closeness

from . import made
from .made import build_report


def measured(synth, items, quick=False):
    return measure(synth, items, seed=0, progress=False, quick=quick)


def table(values, columns="abcdefgh", **options):
    frame = pd.DataFrame(values, columns=list(columns)[: values.shape[1]])
    return frame, sa.fit(frame, "table", **options)


def family():
    return made.proteins(made.sequences(np.random.default_rng(0), 60), generator="hopfield")


@pytest.mark.usefixtures("unrendered_figures")
def test_copies_are_called_copies():
    synth = made.synth("protein", beta=1e6)
    page = build_report(synth, synth.sample_items(50, 1), source="x")
    assert "<title>50 new sequences: Close to copies, and they reveal their sources</title>" in page
    assert "100\u00a0% equal a stored sequence in every value" in page
    assert "Lower beta, or raise novelty, to move them away" in page


def test_noise_is_called_noise():
    noise = np.random.default_rng(1).integers(0, 20, (200, 30)).astype(np.uint8)
    found = judge(measured(family(), noise))
    assert found.headline.startswith("Mostly noise")
    assert found.tone == "bad"


def test_one_item_repeated_is_too_similar():
    item = made.sequences(np.random.default_rng(9), 1).repeat(100, axis=0)
    assert judge(measured(family(), item)).headline.startswith("Too similar to each other")


def test_independent_draws_of_the_source_are_new_and_faithful():
    rng = np.random.default_rng(2)
    mixing = np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 1.0]])
    stored, fresh = (rng.normal(size=(300, 2)) @ mixing for _ in range(2))
    _, synth = table(stored, beta=1e-3)  # at which draws reveal nothing about their sources
    found = judge(measured(synth, pd.DataFrame(fresh, columns=list("abc"))))
    assert (found.headline, found.tone) == ("New and faithful", "good")


def test_shuffled_columns_lose_their_correlations():
    rng = np.random.default_rng(3)
    stored, fresh = (rng.normal(size=(300, 1)) + 0.1 * rng.normal(size=(300, 4)) for _ in range(2))
    _, synth = table(stored, beta=1e-3)
    fresh = pd.DataFrame(fresh, columns=list("abcd")).apply(lambda column: rng.permutation(column))
    found = measured(synth, fresh)
    whole = run_checks(found).whole
    assert "correlation error" in whole.finding
    assert whole.passed is False
    assert judge(found).tone == "bad"
    at_usual_distances = replace(found, to_stored=found.among_stored, modes=())
    assert judge(at_usual_distances).headline == f"New, but {synth.kind.measures.key.failure}"


def test_the_distribution_of_conditioned_draws_is_not_checked():
    synth = made.synth("table", generator="hopfield")
    conditioned = synth.condition({"whole": 40})
    items = conditioned.sample_items(40, 1)
    found = measured(conditioned, items)
    assert found.conditioned
    checks = run_checks(found)
    assert [check.passed for check in (checks.diversity, checks.parts, checks.whole)] == [None, None, None]
    assert checks.membership.passed is None
    assert "leaves out the conditions" in checks.membership.finding
    assert not measured(synth, items, quick=True).conditioned
    assert measured(made.change_fit(synth, weights=np.arange(1.0, 25.0)), items, quick=True).conditioned
    assert measured(synth.subset(np.arange(12)), items, quick=True).conditioned


def test_advice_on_beta_names_the_generator_that_has_one():
    found = measured(made.synth("table"), made.synth("table").codec.stored)
    assert found.synth.describe().temperature is None
    assert judge(found).advice.startswith("With the generator “hopfield”, lower beta")


@cache
def faithful():
    """Measurements of faithful draws."""
    stored = np.random.default_rng(0).standard_normal((60, 3))
    _, synth = table(stored, generator="hopfield")
    fresh = pd.DataFrame(np.random.default_rng(1).standard_normal((60, 3)), columns=list("abc"))
    return measured(synth, fresh)


def verdict_with(**changed):
    """The verdict on faithful draws with some of the measurements replaced."""
    return judge(replace(faithful(), **changed))


@pytest.mark.parametrize(("share", "headline"), [(0.2, "Close to copies"), (0.4, "Close variants"), (0.6, "New and")])
def test_distances_decide_between_copies_variants_and_new(share, headline):
    """Limits are a quarter and a half of the distance between stored items."""
    ten = np.full(50, 10.0)
    found = verdict_with(to_stored=Closeness(share * ten, ten), among_stored=Closeness(ten, ten))
    assert headline in found.headline


@pytest.mark.parametrize(("copies", "headline"), [(0.2, "Close to copies"), (0.05, "some copies"), (0.0, "New and")])
def test_the_share_of_exact_copies_decides_the_verdict(copies, headline):
    assert headline in verdict_with(copies=copies).headline


def test_far_is_measured_by_distances_between_stored_items():
    """Of stored distances 1 … 100 the 95th percentile is 95.05: 60 of 100 new ones beyond it are noise, 40 are not."""
    among = Closeness(np.arange(1.0, 101.0), np.ones(100))
    for beyond, noise in ((60, True), (40, False)):
        to = Closeness(np.r_[np.full(beyond, 96.0), np.full(100 - beyond, 94.0)], np.ones(100))
        assert ("Mostly noise" in verdict_with(to_stored=to, among_stored=among).headline) is noise


def test_train_proximity_decides_whether_items_are_stored_ones_with_noise(monkeypatch):
    synth = made.synth("table", generator="hopfield")
    items = synth.sample_items(40, 1)
    for proximity, expected in ((0.76, "Stored rows with noise"), (0.74, "New and faithful")):
        scores = {"two-sample accuracy": Score(0.5, 0.5, 1.0), "distance of the parts": Score(0.1, 0.1, 1.0)}
        alike = Fidelity(scores, Relations((0.5,), (0.5,)))
        split = SplitMetrics(HeldOutMetrics(proximity, 1.0, 0.01, 0.6, 0.4), 0.5, (), (), alike)
        result = SplitHalfResult((split,) * 5, 24)
        monkeypatch.setattr(evidence, "split_half_validation", lambda *_, result=result, **__: result)
        found = measured(synth, items)
        found = replace(found, copies=0.0, comparison=found.resampled, to_stored=found.among_stored)
        assert judge(found).headline == expected
        unknown = judge(replace(found, method_known=False))
        assert (unknown.headline, unknown.tone) == ("New, but not all could be judged", "fair")
        assert unknown.advice == "Not judged: privacy."


def test_days_of_overlapping_windows_are_not_duplicates():
    synth = made.returns(0.01 * np.random.default_rng(0).standard_t(4, (60, 3)), list("abc"), window=5)
    found = measured(synth, synth.sample_items(40, 1))
    assert found.stored_duplicates == 0
    assert len(found.among_stored.distance) == 60
    assert 0.5 < found.distance_ratio < 2
