"""Samplers whose quality is known, and the verdict that each deserves: they are fitted on halves like any other."""

import numpy as np
import pytest

from stochattn.evaluation import fidelity
from stochattn.kinds import comparison
from stochattn.report import judge, measure
from stochattn.report.checks import run_checks

from .planted import planted

COPIES, NOISE, DISTINGUISHABLE = "Close to copies", "Mostly noise", "New, but distinguishable from stored"
CLASSES, RELATED = "New, but their classes are wrong", "New, but relations between positions are lost"
DESERVED = {
    "none": dict.fromkeys(("table", "image", "protein", "returns"), ("good", "New and faithful")),
    "replay": dict.fromkeys(("table", "image", "protein", "returns"), ("bad", COPIES)),
    "noise": dict.fromkeys(("table", "image", "protein", "returns"), ("bad", NOISE)),
    "blur": {
        **{"table": ("fair", DISTINGUISHABLE), "image": ("bad", "Too similar to each other")},
        **{"protein": ("bad", NOISE), "returns": ("fair", DISTINGUISHABLE)},
    },
    "shuffled classes": {"table": ("bad", NOISE), "image": ("bad", CLASSES)},
    "a dropped mode": {
        **dict.fromkeys(("table", "image"), ("bad", "New, but some classes are missing")),
        **{"protein": ("bad", "New, but some clusters are missing")},
        **{"returns": ("bad", "New, but distributed differently")},
    },
    "one part permuted": {
        **{"table": ("bad", "New, but correlations between columns are lost"), "image": ("fair", DISTINGUISHABLE)},
        **{"protein": ("bad", RELATED), "returns": ("bad", "New, but correlations between tickers are lost")},
    },
    "gaussian": {
        **{"table": ("fair", DISTINGUISHABLE), "image": ("bad", "New, but distributed differently")},
        **{"protein": ("bad", NOISE), "returns": ("bad", "New, but their extremes are wrong")},
    },
}
CLASS_CHECKS = ("training", "agreement", "within")
N_TREES = 20  # with a third of the trees that users have, every verdict is the same
pytestmark = pytest.mark.usefixtures("forests_of_halves_are_trained_once")
CASES = [(defect, kind, *deserved) for defect, kinds in DESERVED.items() for kind, deserved in kinds.items()]


@pytest.fixture(scope="module")
def known():
    """What forests found, by their arguments, and the evidence on samplers, by defect and kind of data."""
    return {}


@pytest.fixture
def evidence_on(known):
    """A function that measures a sampler once for all tests."""

    def evidence(defect, kind):
        if (defect, kind) not in known:
            synth = planted(kind, defect)
            known[defect, kind] = measure(synth, synth.sample_items(300, 1), 0, False)
        return known[defect, kind]

    return evidence


@pytest.fixture
def forests_of_halves_are_trained_once(known, monkeypatch):
    """All samplers of a kind are judged on the same halves, so that forests without new items are the same for all."""

    def remembered(function):
        def call(*rows):
            flat = [one for some in rows for one in (some if isinstance(some, tuple) else (some,))]
            key = function.__name__, *(one.tobytes() for one in flat)
            if key not in known:
                known[key] = function(*rows)
            return known[key]

        return call

    monkeypatch.setattr(comparison, "N_TREES", N_TREES)
    for name in ("two_sample_accuracy", "train_classifier"):
        monkeypatch.setattr(fidelity, name, remembered(getattr(fidelity, name)))


@pytest.mark.parametrize(("defect", "kind", "tone", "headline"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_a_sampler_gets_the_verdict_that_it_deserves(defect, kind, tone, headline, evidence_on):
    found = judge(evidence_on(defect, kind))
    assert found.headline.startswith(headline)
    assert found.tone == tone


@pytest.mark.parametrize("kind", ["table", "image"])
@pytest.mark.parametrize(("defect", "passed"), [("none", True), ("shuffled classes", False)])
def test_each_check_of_classes_notices_shuffled_ones_by_itself(defect, kind, passed, evidence_on):
    """Any of them decides the verdict, so that the verdict does not show whether the others work."""
    checks = run_checks(evidence_on(defect, kind))
    assert {name: getattr(checks, name).passed for name in CLASS_CHECKS} == dict.fromkeys(CLASS_CHECKS, passed)


def mean_score(evidence, name):
    scores = [split.fidelity.scores for split in evidence.split_half.splits]
    return np.mean([one[name] for one in scores if name in one], axis=0)


def test_within_a_class_random_classes_are_the_worst(evidence_on):
    """Random classes of stored items are as far from held-out ones as shuffled classes of new items of the true law."""
    new, stored, worst = mean_score(evidence_on("shuffled classes", "table"), fidelity.WITHIN)
    assert worst == pytest.approx(new, rel=0.15)
    assert stored < 0.4 * worst


def test_classifiers_are_scored_on_items_that_they_have_not_seen(evidence_on):
    """A forest names the class of each item that it was trained on: copies would score 1 on the stored items."""
    new, stored, _ = mean_score(evidence_on("replay", "image"), fidelity.TRAINING)
    assert 0.6 < new < 0.95
    assert 0.6 < stored < 0.95


@pytest.mark.parametrize(("defect", "passed"), [("none", True), ("one part permuted", False)])
def test_few_new_pictures_are_related_as_as_many_stored_ones_are(defect, passed):
    """Of 51 relations, 50 new pictures of the true law lose 4 to 22 beside 150 stored ones, and 0 to 2 beside 50."""
    synth = planted("image", defect)
    found = run_checks(measure(synth, synth.sample_items(50, 1), 0, False)).relations
    assert found.passed is passed
