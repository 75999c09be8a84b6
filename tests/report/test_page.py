"""Checks, verdicts, and what sections say, on evidence that is made by hand: no report is built for it."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ks_2samp

from stochattn.evaluation.fidelity import AGREEMENT, PARTS, TAILS, TRAINING, TWO_SAMPLE, WITHIN, Score
from stochattn.kinds.comparison import Comparison, Measure, Part, Values
from stochattn.kinds.summary import RunSummary
from stochattn.report import evidence, figures, judge
from stochattn.report.checks import Tone, is_distinguishable, run_checks
from stochattn.report.evidence import Classes, Closeness, measure
from stochattn.report.figures import item_map
from stochattn.report.page import (
    count_items,
    fidelity,
    held_out_validation,
    making,
    novelty,
    page_header,
    privacy,
    settings,
)

from . import made
from .parsed import Parsed

SUMMARY = RunSummary(
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
    found = judge(made.evidence(synth, [made.split()] * 3))
    assert (found.headline, found.tone) == ("New and faithful", Tone.GOOD)


def differing(of, distance=0.9, whole=9.0, **changed):
    """Evidence whose parts have this distance, and whose whole has this value of an ideal 1."""
    compared = Comparison((Measure(of.kind.measures.key.name, whole, 1.0, ""),), made.parts([distance]))
    return made.evidence(of, comparison=compared, **changed)


def test_parts_and_whole_that_both_differ_are_noise_if_new_items_can_be_distinguished(synth):
    certain, chance = ([made.split({TWO_SAMPLE: Score(new, 0.5, 1.0)})] * 3 for new in (1.0, 0.5))
    assert judge(differing(synth, splits=certain)).headline == "Mostly noise"
    assert judge(differing(synth)).headline == "Mostly noise"  # it is not known whether they can
    assert judge(differing(synth, splits=chance)).headline == "New, but distributed differently"
    assert judge(differing(synth, whole=1.0)).headline == "New, but distributed differently"
    assert judge(differing(synth, distance=0.1)).headline == f"New, but {synth.kind.measures.key.failure}"


def test_a_tenth_of_copies_is_not_yet_close_to_copies(synth):
    assert judge(made.evidence(synth, [made.split()] * 3, copies=0.1)).headline.endswith("with some copies")
    found = judge(made.evidence(synth, [made.split()] * 3, copies=0.11))
    assert found.headline == "Close to copies"
    assert found.advice == "Lower beta, or raise novelty, to move them away from the stored ones."


@pytest.mark.parametrize(("copies", "headline"), [(1.0, "These are stored rows"), (0.98, "Close to copies")])
def test_items_that_all_are_stored_ones_are_called_so_unless_the_method_made_them(synth, copies, headline):
    evidence = made.evidence(synth, [made.split()] * 3, copies=copies)
    assert judge(replace(evidence, method_known=False)).headline == headline
    assert judge(evidence).headline == "Close to copies"


def test_items_that_reveal_their_sources_are_not_good(synth):
    found = judge(made.evidence(synth, [made.split(auc=0.9)] * 3))
    assert (found.headline, found.tone) == ("New and faithful, but they reveal their sources", Tone.FAIR)
    copies = judge(made.evidence(synth, [made.split(auc=0.9)] * 3, copies=0.5))
    assert (copies.headline, copies.tone) == ("Close to copies, and they reveal their sources", Tone.BAD)


def test_one_split_decides_on_membership(synth):
    passed = [run_checks(made.evidence(synth, [made.split(auc=auc)])).membership.passed for auc in (0.59, 0.61)]
    assert passed == [True, False]


def test_a_tenth_of_draws_may_be_near_copies(synth):
    splits = ([made.split(near_copies=share)] * 3 for share in (0.09, 0.12))
    assert [run_checks(made.evidence(synth, some)).near_copies.passed for some in splits] == [True, False]


def test_thirty_items_have_a_distribution(synth):
    for n, known in ((29, False), (30, True)):
        found = run_checks(made.evidence(synth, n=n))
        assert [one.passed is not None for one in (found.diversity, found.parts, found.whole)] == [known] * 3


def test_a_measure_without_an_ideal_is_not_checked(synth):
    fact = Comparison((Measure(synth.kind.measures.key.name, 3.0, None, ""),), ())
    assert run_checks(made.evidence(synth, comparison=fact)).whole.passed is None


def test_parts_without_a_distance_have_no_marginals(synth):
    for some, known in ((0.1, True), (np.nan, False)):
        splits = [made.split(), made.split({PARTS: Score(some, 0.1, 1.0)})]
        assert bool(run_checks(made.evidence(synth, splits)).marginals.finding) is known


def test_half_way_to_certainty_is_distinguishable(synth):
    for new, expected in ((0.76, True), (0.74, False)):
        assert is_distinguishable(made.evidence(synth, [made.split({TWO_SAMPLE: Score(new, 0.5, 1.0)})])) is expected


def test_advice_on_beta_is_left_out_where_no_generator_has_one():
    synth = made.synth("table")
    without = Instead(synth, kind=Instead(synth.kind, generators={}))
    ten = np.full(40, 10.0)
    close = {"to_stored": Closeness(ten / 10, ten), "among_stored": Closeness(ten, ten)}
    assert judge(made.evidence(synth, **close)).advice.startswith("With the generator “hopfield”, lower beta")
    assert judge(made.evidence(without, **close)).advice == ""


def relations(synth, n_lost, n=5):
    lost = [0.0] * n_lost + [0.8] * (n - n_lost)
    return run_checks(made.evidence(synth, [made.split(relations=(lost, [0.8] * n))] * 3)).relations


def test_columns_that_lost_their_relations_are_named(synth):
    names = synth.kind.measures.parts(synth.codec)[0]
    for n_lost, which in ((0, ""), (2, f" ({', '.join(names[:2])})"), (3, f" ({', '.join(names[:3])})")):
        assert (
            f"{n_lost} of these lost half of that or more among new rows{which} (at most"
            in relations(synth, n_lost).finding
        )
    assert f"({', '.join(names[:3])} and 1 more)" in relations(synth, 4).finding
    assert relations(synth, 0).passed is True
    assert relations(synth, 1).passed is False
    assert [relations(synth, n_lost, n=50).passed for n_lost in (1, 2)] == [True, False]


def test_scores_are_written_with_their_limits(synth):
    scores = {
        **{TWO_SAMPLE: Score(0.6, 0.52, 1.0), TAILS: Score(0.3, 0.1, 0.9), WITHIN: Score(0.75, 0.1, 1.1)},
        **{TRAINING: Score(0.8, 0.9, 0.5), AGREEMENT: Score(0.6, 0.9, 0.5)},
    }
    found = run_checks(made.evidence(synth, [made.split(scores)]))
    texts = {name: one.finding.replace("\u00a0", " ") for name, one in found._asdict().items()}
    assert "in 60 % of cases, and the fitted rows from them in 52 % (ideally 50 %; at most 64 %" in texts["two_sample"]
    assert "by a factor of 1.35, and for the fitted rows by 1.11 (ideally 1; at most 1.65" in texts["tails"]
    assert "by 0.75 standard deviations, and for the fitted rows by 0.10 (at most 0.60" in texts["within"]
    assert "in 80 % of cases; trained on the fitted rows, in 90 % (at least 70 %" in texts["training"]
    passed = found.two_sample.passed, found.tails.passed, found.training.passed
    assert (*passed, found.within.passed, found.agreement.passed) == (True, True, True, False, False)


def test_distances_where_stored_items_are_equal(synth):
    zero = Closeness(np.zeros(4), np.zeros(4))
    assert np.isnan(made.evidence(synth, among_stored=zero).distance_ratio)
    some = Closeness(np.array([0.0, 0.0, 1.0, 2.0]), np.zeros(4))
    assert made.evidence(synth, among_stored=some).closest_pairs == pytest.approx(1.01)


def test_unequal_weights_are_a_condition(synth):
    assert not made.evidence(synth).conditioned
    assert made.evidence(made.change_fit(synth, weights=np.arange(1.0, 25.0))).conditioned
    assert made.evidence(synth.condition({"whole": 40})).conditioned


@pytest.mark.parametrize(("n_values", "n"), [(1, 5000), (2**24, 50), (2**14, 1024)])
def test_as_many_items_are_compared_as_have_few_values(synth, n_values, n):
    many = synth.codec.take(synth.codec.stored, np.arange(5001) % 24)
    assert evidence._compare(synth, many, n_values, 0)[0] == n


def test_what_modes_are_called():
    assert made.evidence(made.synth("table")).mode_name == "clusters"
    assert made.evidence(made.synth("image", generator="hopfield")).mode_name == "classes"


def test_as_many_items_are_measured_as_the_work_allows(monkeypatch, synth):
    """A product of p features and d columns for each item, and the distance to each of K stored ones in both."""
    p, (K, d) = evidence.count_features(synth.codec), synth.stored_rows.shape
    monkeypatch.setattr(evidence, "MAX_WORK", 10.5 * (p * d + K * (p + d)))
    monkeypatch.setattr(evidence, "MIN_MEASURED", 1)
    some, rows = evidence._select_measured(synth, synth.codec.stored)
    assert len(some) == len(rows) == 10
    monkeypatch.setattr(evidence, "MIN_MEASURED", 15)
    assert len(evidence._select_measured(synth, synth.codec.stored)[0]) == 15


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
    weighted = made.change_fit(synth, weights=np.linspace(0.5, 1.0, 24))
    assert dict(settings(weighted, 3, 5, None, None, None))["Weights"] == "unequal"
    assert "Weights" not in dict(settings(made.change_fit(synth, weights=np.full(24, 3.0)), 3, 5, None, None, None))


def test_long_descriptions_are_cut(synth):
    long = Instead(synth, describe=lambda: replace(synth.describe(), summary="x" * 500))
    unknown = dict(settings(long, 3, 5, None, "new.csv", None))["Compared with"]
    assert unknown == "x" * 299 + "…"
    assert dict(settings(long, 3, 5, None, None, None))["Generator"] == f"{'hopfield: ' + 'x' * 289}…"


def test_one_item_is_counted_in_the_singular(synth):
    texts = [count_items(synth.kind, n, adjective) for n, adjective in ((1, ""), (1, "new"), (2, ""), (1200, "new"))]
    assert texts == ["1 row", "1 new row", "2 rows", "1,200 new rows"]


def test_settings_have_the_given_options_and_the_stored_items_used(synth):
    default = made.synth("table")
    without = dict(settings(default, 3, 5, None, None, None))
    assert not {"Options", "Settings", "Source"} & without.keys()
    assert without["Read from"] == "drawn for this report"
    assert without["Stored"] == "24 rows"
    assert dict(settings(synth, 3, 5, None, None, None))["Options"] == "<bdi>beta=5.0</bdi>"
    some = default.subset(np.arange(12)).with_resolved(default.describe().resolved)
    chosen = dict(settings(some, 3, 5, None, "new.csv", SUMMARY))
    assert chosen["Settings"] == "as recorded by the run that made them"
    assert chosen["Stored"] == "24 rows, 12 of them used"
    assert chosen["Read from"] == "<bdi>new.csv</bdi>"


@pytest.mark.parametrize(("n", "left_out"), [(0, 0), (50, 0), (51, 1)])
def test_fifty_notes_are_listed(synth, n, left_out):
    noted = Instead(synth, codec=Instead(synth.codec, notes=tuple(f"note {i}" for i in range(n))))
    page = making(made.evidence(noted), [("Seed", "1")], None)
    assert page.count("<li>") == min(n, 50)
    assert ("None: nothing was dropped" in page) is (n == 0)
    assert (f"{left_out} more notes are left out." in page) is (left_out > 0)
    assert "To make it again" not in page
    assert "<pre>stochattn sample</pre>" in making(made.evidence(noted), [], "stochattn sample")


def header(found):
    return Parsed(page_header(found, judge(found), [("Seed", "1")], [("map", "Map")])).text


def test_the_header_has_the_spread_of_the_auc_over_splits(synth):
    auc = "AUC of membership inference"
    assert f"0.55 ± 0.07{auc}" in header(made.evidence(synth, [made.split(auc=one) for one in (0.5, 0.6)]))
    assert f"0.50{auc}" in header(made.evidence(synth, [made.split(auc=0.5)]))
    assert f"–{auc}" in header(made.evidence(synth))


def test_checks_in_the_header_have_the_colours_of_their_outcome(synth):
    found = made.evidence(synth, copies=0.05)
    page = page_header(found, judge(found), [], [])
    assert '<span class="sign bad" aria-label="failed" role="img">✗</span>' in page
    assert '<span class="sign good" aria-label="passed" role="img">✓</span>' in page
    assert '<span class="sign open" aria-label="not checked" role="img">·</span>' in page


def test_bars_are_as_long_as_distances_and_unknown_ones_are_last(synth):
    page = fidelity(made.evidence(synth, comparison=Comparison((), made.parts([np.nan, 0.25, 1.5, -0.1]))))
    assert re.findall(r'style="width:([\d.]+)%', page) == ["100.0", "25.0", "0.0", "0.0"]
    assert re.findall(r"part \d", Parsed(page).text)[-1] == "part 0"
    assert "Measured on" not in page
    assert "Measured on 30 of the 40, evenly spaced." in fidelity(made.evidence(synth, n_compared=30))


@pytest.mark.usefixtures("unrendered_figures")
def test_novelty_of_new_and_of_stored_items(monkeypatch, synth):
    curves = []
    monkeypatch.setattr(figures, "entropy", lambda *arguments: curves.append(arguments) or "data:,")
    page = novelty(made.evidence(synth), SUMMARY)
    text = Parsed(page).text
    assert re.search(r"novelty of storedmedian.*?others0\.150", text)
    assert re.search(r"novelty as drawn.*?rows0\.300", text)
    (betas, _, ceiling, lines), *_ = curves
    assert ceiling == pytest.approx(np.log(24))
    assert lines["chosen β = 5"] == 5.0
    assert (betas[0], betas[-1]) == (pytest.approx(min(lines.values()) / 30), pytest.approx(max(lines.values()) * 30))


def shown_map(monkeypatch, **changed):
    """The colours of a map and its text."""
    drawn = []
    monkeypatch.setattr(figures, "plane", lambda *arguments: drawn.append(arguments) or "data:,")
    text = Parsed(item_map(made.evidence(**changed))).text
    return drawn[0][3], text


def test_a_map_says_how_many_items_it_shows(monkeypatch, synth):
    assert "All 40 new and all 24 stored rows" in shown_map(monkeypatch, of=synth)[1]
    monkeypatch.setattr(figures, "MAX_POINTS", 30)
    assert "30 of 40 new and all 24 stored rows" in shown_map(monkeypatch, of=synth)[1]


def test_one_class_has_no_colour(monkeypatch, synth):
    one, two = (Classes(np.array(["a", last] * 12), np.array(["a"] * 40)) for last in "ab")
    assert shown_map(monkeypatch, of=synth, classes=one)[0] is None
    assert len(set(shown_map(monkeypatch, of=synth, classes=two)[0][0])) == 2


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
    days = made.returns(0.01 * np.random.default_rng(0).standard_t(4, (12, 2)), "ab", window=2)
    assert "2 per scenario" in held_out_validation(days, found)


def test_parts_that_differ_are_named_and_so_are_those_that_are_swapped(synth):
    rng = np.random.default_rng(0)
    low, high, new_low, new_high = (rng.normal(mean, 1, 80) for mean in (0, 5, 0, 5))
    stored_and_new = {
        "low": (low, new_high),
        "high": (high, new_low),
        "same": (low, new_low),
        "unlike": (low, 9 + new_low),
    }

    def part(name, checked_separately=True):
        values = Values(*stored_and_new[name])
        return Part(name, "", "", ks_2samp(*values[:2]).statistic, lambda: values, checked_separately)

    parts = (*map(part, stored_and_new), part("unlike", checked_separately=False))
    evidence = made.evidence(synth, comparison=Comparison((), parts))
    assert [one.name for one in evidence.different_parts] == ["unlike", "low", "high"]
    assert evidence.swapped_parts == (("low", "high"),)
    assert made.evidence(synth).different_parts == ()
