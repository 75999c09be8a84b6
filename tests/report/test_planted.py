"""Samplers whose quality is known, and the verdict that each deserves: they are fitted on halves like any other."""

import pytest

from stochattn.evaluation import fidelity
from stochattn.report import measure, verdict_on

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
N_TREES = 20  # with a third of the trees that users have, every verdict is the same
pytestmark = pytest.mark.usefixtures("forests_of_halves_are_trained_once")
CASES = [(defect, kind, *deserved) for defect, kinds in DESERVED.items() for kind, deserved in kinds.items()]


@pytest.fixture(scope="module")
def known():
    """What forests found, by their arguments."""
    return {}


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

    monkeypatch.setattr(fidelity, "N_TREES", N_TREES)
    for name in ("two_sample_accuracy", "_classifier"):
        monkeypatch.setattr(fidelity, name, remembered(getattr(fidelity, name)))


@pytest.mark.parametrize(("defect", "kind", "tone", "headline"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_a_sampler_gets_the_verdict_that_it_deserves(defect, kind, tone, headline):
    synth = planted(kind, defect)
    found = verdict_on(measure(synth, synth.sample_items(300, 1), 0, False))
    assert found.headline.startswith(headline)
    assert found.tone == tone
