"""Checks, verdicts, and what sections say, on evidence that is made by hand: no report is built for it."""

import re
from dataclasses import replace

import numpy as np
import pytest

from stochattn.data.comparison import Comparison, Measure
from stochattn.data.summary import Summary
from stochattn.evaluation.fidelity import AGREEMENT, TAILS, TRAINING, TWO_SAMPLE, WITHIN, Score
from stochattn.report import evidence, verdict_on
from stochattn.report.checks import checks_of, is_distinguishable
from stochattn.report.evidence import Closeness, measure
from stochattn.report.page import counted, page_header, settings
from stochattn.report.sections import fidelity, held_out_validation, privacy
from stochattn.report.verdict import Tone

from . import made
from .parsed import Parsed

SUMMARY = Summary(
    **{"version": "9.9", "kind": "table", "source": "a.csv", "output": "new.csv", "seed": 17, "n": 3, "stored": 24},
    **{"kept": 24, "generator": "hopfield", "sampler": "exact", "novelty": 0.3},
)


@pytest.fixture(scope="module")
def synth():
    return made.synth("table", generator="hopfield", beta=5.0)


class Instead:
    """An object with some of its attributes replaced, whatever it is."""

    def __init__(self, one, **attributes):
        self.__dict__.update(attributes, one=one)

    def __getattr__(self, name):
        return getattr(self.one, name)


def test_faithful_items_are_called_new_and_faithful(synth):
    found = verdict_on(made.evidence(synth, [made.split()] * 3))
    assert (found.headline, found.tone) == ("New and faithful", Tone.GOOD)


def differing(of, distance=0.9, whole=9.0, **changed):
    """Evidence whose parts have this distance, and whose whole has this value of an ideal 1."""
    compared = Comparison((Measure(of.kind.key_measure.name, whole, 1.0, ""),), made.parts([distance]))
    return made.evidence(of, comparison=compared, **changed)


def test_parts_and_whole_that_both_differ_are_noise_if_new_items_can_be_distinguished(synth):
    certain, chance = ([made.split({TWO_SAMPLE: Score(new, 0.5, 1.0)})] * 3 for new in (1.0, 0.5))
    assert verdict_on(differing(synth, splits=certain)).headline == "Mostly noise"
    assert verdict_on(differing(synth)).headline == "Mostly noise"  # it is not known whether they can
    assert verdict_on(differing(synth, splits=chance)).headline == "New, but distributed differently"
    assert verdict_on(differing(synth, whole=1.0)).headline == "New, but distributed differently"
    assert verdict_on(differing(synth, distance=0.1)).headline == f"New, but {synth.kind.key_measure.failure}"


def test_half_way_to_certainty_is_distinguishable(synth):
    for new, expected in ((0.76, True), (0.74, False)):
        assert is_distinguishable(made.evidence(synth, [made.split({TWO_SAMPLE: Score(new, 0.5, 1.0)})])) is expected


def test_advice_on_beta_is_left_out_where_no_generator_has_one():
    synth = made.synth("table")
    without = Instead(synth, kind=Instead(synth.kind, generators={}))
    ten = np.full(40, 10.0)
    close = {"to_stored": Closeness(ten / 10, ten), "among_stored": Closeness(ten, ten)}
    assert verdict_on(made.evidence(synth, **close)).advice.startswith("With the generator “hopfield”, a lower beta")
    assert verdict_on(made.evidence(without, **close)).advice == ""


def relations(synth, n_lost, n=5):
    lost = [0.0] * n_lost + [0.8] * (n - n_lost)
    return checks_of(made.evidence(synth, [made.split(relations=(lost, [0.8] * n))] * 3)).relations


def test_columns_that_lost_their_relations_are_named(synth):
    names = synth.kind.parts(synth.codec)[0]
    for n_lost, which in ((0, ""), (2, f" ({', '.join(names[:2])})"), (3, f" ({', '.join(names[:3])})")):
        assert (
            f"{n_lost} of these lost half of that or more among new rows{which} (at most"
            in relations(synth, n_lost).finding
        )
    assert f"({', '.join(names[:3])} and others)" in relations(synth, 4).finding
    assert relations(synth, 0).passed is True
    assert relations(synth, 1).passed is False


def test_scores_are_written_with_their_limits(synth):
    scores = {
        **{TWO_SAMPLE: Score(0.6, 0.52, 1.0), TAILS: Score(0.3, 0.1, 0.9), WITHIN: Score(0.75, 0.1, 1.1)},
        **{TRAINING: Score(0.8, 0.9, 0.5), AGREEMENT: Score(0.6, 0.9, 0.5)},
    }
    found = checks_of(made.evidence(synth, [made.split(scores)]))
    texts = {name: one.finding.replace("\u00a0", " ") for name, one in found._asdict().items()}
    assert "in 60 % of cases, and the fitted rows from them in 52 % (at most 64 %" in texts["two_sample"]
    assert "by a factor of exp(0.30), and for the fitted rows of exp(0.10) (at most exp(0.50)" in texts["tails"]
    assert "by 0.75 standard deviations, and for the fitted rows by 0.10 (at most 0.60" in texts["within"]
    assert "in 80 % of cases; trained on the fitted rows, in 90 % (at least 70 %" in texts["training"]
    passed = found.two_sample.passed, found.tails.passed, found.training.passed
    assert (*passed, found.within.passed, found.agreement.passed) == (True, True, True, False, False)


def test_what_modes_are_called():
    assert made.evidence(made.synth("table")).mode_name == "clusters"
    assert made.evidence(made.synth("image", generator="hopfield")).mode_name == "classes"


def test_as_many_items_are_measured_as_the_work_allows(monkeypatch, synth):
    """A product of p features and d columns for each item, and the distance to each of K stored ones in both."""
    p, (K, d) = evidence.n_features(synth.codec), synth.stored_rows.shape
    monkeypatch.setattr(evidence, "MAX_WORK", 10.5 * (p * d + K * (p + d)))
    monkeypatch.setattr(evidence, "MIN_MEASURED", 1)
    some, rows = evidence._measured(synth, synth.codec.stored)
    assert len(some) == len(rows) == 10
    monkeypatch.setattr(evidence, "MIN_MEASURED", 15)
    assert len(evidence._measured(synth, synth.codec.stored)[0]) == 15


def test_items_of_unknown_origin_are_validated_in_place_of_draws(monkeypatch, synth):
    seen = []

    def validation(*_, samples, **__):
        seen.append(samples)
        return made.evidence(synth).split_half

    monkeypatch.setattr(evidence, "split_half_validation", validation)
    items = synth.codec.stored[:9]
    for known in (True, False):
        measure(synth, items, seed=0, progress=False, method_known=known)
    assert seen[0] is None
    assert seen[1] is items


def test_settings_are_those_of_the_summary_or_of_the_call(synth):
    drawn = dict(settings(synth, 3, 5, "a.csv", None, None))
    assert (drawn["Seed"], drawn["New"], drawn["Conditions"]) == ("5", "3 rows", "<bdi>none</bdi>")
    read = dict(settings(synth, 3, 5, "a.csv", "new.csv", SUMMARY))
    assert (read["Seed"], read["Version"]) == ("17", "stochattn 9.9")
    assert not {"Weights", "Settings", "Compared with"} & drawn.keys()


def test_settings_say_that_weights_are_unequal(synth):
    weighted = replace(synth, weights=np.linspace(0.5, 1.0, 24))
    assert dict(settings(weighted, 3, 5, None, None, None))["Weights"] == "unequal"
    assert "Weights" not in dict(settings(replace(synth, weights=np.full(24, 3.0)), 3, 5, None, None, None))


def test_long_descriptions_are_cut(synth):
    long = Instead(synth, describe=lambda: replace(synth.describe(), summary="x" * 500))
    unknown = dict(settings(long, 3, 5, None, "new.csv", None))["Compared with"]
    assert unknown == "x" * 299 + "…"
    assert dict(settings(long, 3, 5, None, None, None))["Generator"] == f"{'hopfield: ' + 'x' * 289}…"


def test_one_item_is_counted_in_the_singular(synth):
    texts = [counted(synth.kind, n, adjective) for n, adjective in ((1, ""), (1, "new"), (2, ""), (1200, "new"))]
    assert texts == ["1 row", "1 new row", "2 rows", "1,200 new rows"]


def header(found):
    return Parsed(page_header(found, verdict_on(found), [("Seed", "1")], [("map", "Map")])).text


def test_the_header_has_the_spread_of_the_auc_over_splits(synth):
    auc = "AUC of membership inference"
    assert f"0.55 ± 0.07{auc}" in header(made.evidence(synth, [made.split(auc=one) for one in (0.5, 0.6)]))
    assert f"0.50{auc}" in header(made.evidence(synth, [made.split(auc=0.5)]))
    assert f"–{auc}" in header(made.evidence(synth))


@pytest.mark.parametrize(("n", "folded", "left_out"), [(12, 0, 0), (13, 1, 0), (60, 48, 0), (61, 48, 1), (62, 48, 2)])
def test_twelve_parts_are_open_and_at_most_sixty_are_shown(synth, n, folded, left_out):
    found = made.evidence(synth, comparison=Comparison((), made.parts(np.linspace(0, 1, n))))
    page = fidelity(found)
    assert len(re.findall('class="bar"', page)) == min(n, 60)
    assert (f"<summary>{folded} more" in page) is (folded > 0)
    assert ("are left out" in page) is (left_out > 0)
    assert left_out == 0 or f"{left_out} more with smaller distances are left out." in page
    assert Parsed(page).text.index(f"part {n - 1}") < Parsed(page).text.index(f"part {left_out}")


def test_distances_of_stored_pairs_are_a_line_of_the_plot_where_there_are_any(monkeypatch, synth):
    lines = []

    def plot(new, stored, marked, label):
        lines.append(marked)
        return "data:,"

    monkeypatch.setattr("stochattn.report.figures.cumulative", plot)
    page = privacy(made.evidence(synth, [made.split()] * 2), False)
    nothing = Closeness(np.zeros(0), np.zeros(0))
    without = privacy(made.evidence(synth, [made.split()] * 2, among_stored=nothing), False)
    assert lines[0].keys() == {"closest 1 % of stored pairs"}
    assert lines[0]["closest 1 % of stored pairs"] == pytest.approx(1.01)
    assert lines[1] == {}
    rows = [re.findall(r"<td>(.*?)</td>", re.findall("<tr>.*?</tr>", one)[-1]) for one in (page, without)]
    assert [row[2] for row in rows] == ["1\u00a0%", "–"]
    assert page.count('<div class="plots">') == 1


def test_whole_items_are_not_called_parts(synth):
    found = made.evidence(synth, [made.split()] * 2).split_half
    assert "Distances are between parts" not in held_out_validation(synth, found)
