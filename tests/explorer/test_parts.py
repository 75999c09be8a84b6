"""The parts of a page: slider, controls, changes, curves, map, chain, attention and the verdict."""

import math
from dataclasses import replace

import numpy as np
import pytest

from stochattn.core import temperature
from stochattn.explorer import plots as chain
from stochattn.explorer import plots as curves
from stochattn.explorer import tools as verdict
from stochattn.explorer.fields import (
    STEPS,
    Page,
    Slider,
    change_page,
    condition_fields,
    knob_value,
    selected_state,
    setting_state,
)
from stochattn.explorer.panel import asset
from stochattn.explorer.plots import MapPlot
from stochattn.explorer.session import Session
from stochattn.explorer.state import Explorer, PageSettings
from stochattn.kinds.display import (
    ChoiceControl,
    LettersControl,
    RangeControl,
    RectangleControl,
    StepsControl,
    StretchControl,
)
from stochattn.kinds.options import InputError, Knob, knob_of
from stochattn.report.figures import ItemMap

from .explored import explorer_of

SLIDERS = (
    Slider("beta", 0.1, 1000.0, "high", True),
    Slider("scale", 0.0, 3.0, "low", False),
    Slider("width", 0.01, 1.0, "low", True),
)


@pytest.mark.parametrize("slider", SLIDERS)
def test_a_slider_recalls_on_the_left(slider):
    left, right = slider.value(0), slider.value(STEPS)
    assert (left, right) == ((slider.high, slider.low) if slider.recalls_at == "high" else (slider.low, slider.high))
    for position in range(0, STEPS + 1, 20):
        assert slider.position(slider.value(position)) == pytest.approx(position, abs=0.1)
    assert slider.position(1e9) in (0, STEPS)  # beyond the ends it stays at the end
    middle = slider.value(STEPS / 2)
    expected = math.sqrt(slider.low * slider.high) if slider.is_log else (slider.low + slider.high) / 2
    assert middle == pytest.approx(expected, rel=1e-3)


def test_the_slider_of_beta_reaches_from_uniform_attention_to_copies(explorer):
    hopfield = explorer.hopfield(explorer.first_settings)
    slider = Slider.of("beta", Knob(None, None, "high", is_log=True), hopfield)
    curve = curves.entropy_and_novelty(hopfield)
    K = len(hopfield.bank.kept)
    assert curve.entropy[0] > 0.9 * math.log(K)
    assert curve.entropy[-1] < 0.15 * math.log(K)
    assert (np.diff(curve.novelty) < 1e-3).all()
    assert slider.low < hopfield.beta < slider.high


def test_marks_are_the_rules_of_the_library(explorer):
    hopfield = explorer.hopfield(explorer.first_settings)
    equal = hopfield.embedding.equal_weights
    found = {mark.name: mark.value for mark in curves.marks(hopfield)}
    assert "natural" in found
    for name, value in found.items():
        rule = temperature.BetaRule(name.replace("-", "_"))
        assert value == temperature.by_rule(hopfield.bank, rule, equal_weights=equal)
    drawn = explorer.draw(replace(explorer.first_settings, n=1, knob="natural"))
    assert drawn.description.temperature.beta == found["natural"]


def test_controls_write_conditions():
    number = RangeControl("age", "age", 20.0, 78.0, is_whole=True)
    assert number.texts({}) == ()
    assert number.texts({"low": "30"}) == ("age>=30",)
    assert number.texts({"high": "30"}) == ("age<=30",)
    assert number.texts({"low": "30", "high": "40"}) == ("30<=age<=40",)
    assert number.texts({"low": "30", "high": "30"}) == ("age=30",)
    assert RangeControl("x", "x", 0.0, 1.0, decimal=",").texts({"low": "0.5"}) == ("x>=0,5",)
    assert ChoiceControl("city", "city", ("Oslo", "Bergen")).texts({"values": ["Oslo", "Bergen"]}) == (
        "city=Oslo|Bergen",
    )
    letters = LettersControl("s", "s", ("3", "12"), ((("A", 1.0),),) * 2, (1.0, 1.0), ("A", "-"))
    assert letters.texts({"12": "A", "3": "-"}) == ("3=-", "12=A")
    rectangle = RectangleControl("r", "r", 8, 9, ("a", "b"), lambda k: f"image {k}")
    sides = {"top": 1, "bottom": 3, "left": 2, "right": 9}
    assert rectangle.texts({**sides, "source": 1}) == ("1:3,2:9=b",)
    assert rectangle.texts({"source": 1}) == ()
    for unknown in ("b", 2, -1, 0.5, None):  # a page that is not ours may send anything
        assert rectangle.texts({**sides, "source": unknown}) == ("1:3,2:9=a",)
    assert rectangle.current({"source": 1})["backdrop"] == "image 1"
    with pytest.raises(InputError, match="top must be an integer"):
        rectangle.texts({**sides, "top": 1.5})
    stretch = StretchControl("t", "t", 60, ("x", "y"), ("a", "b"), lambda k: [[k]])
    assert stretch.texts({"first": 2, "last": 9, "source": 1, "channel": "y"}) == ("y@2:9=b",)
    assert stretch.texts({"first": 2, "last": 9}) == ("2:9=a",)
    assert stretch.texts({"first": 2}) == ()
    steps = StepsControl("d", "d", ("SPY", "QQQ"), 5, (0.1, 0.2))
    assert steps.texts({"SPY": {"2": -0.05, "1": 0.01}, "QQQ": {}}) == ("SPY@1=0.01", "SPY@2=-0.05")
    with pytest.raises(InputError, match="step 1: must be a number"):
        steps.texts({"SPY": {"1": "x"}})


CHOICES = {
    "protein": ("residues", lambda codec: {"2": codec.to_user(codec.stored[:1])[0][1]}),
    "image": ("rectangle", lambda codec: {"source": 2, "top": 1, "bottom": 2, "left": 1, "right": 10}),
    "table": ("age", lambda codec: {"low": "30", "high": "50"}),
    "returns": ("days", lambda codec: {"T1": {"1": -0.01, "3": 0.02}}),
    "signals": ("stretch", lambda codec: {"source": 1, "first": 1, "last": 12}),
}


def test_a_choice_in_a_control_conditions_new_items(explorer, kind):
    name, choice = CHOICES[kind]
    page = Page(replace(explorer.first_settings, n=3, knob=20.0), {})
    message = {"id": f"condition:{name}", "choice": choice(explorer.base.codec)}
    after = change_page(page, explorer, None, message)
    assert after.settings.conditions
    before, now = (explorer.draw(one.settings).features for one in (page, after))
    assert not np.array_equal(before, now)
    cleared = change_page(after, explorer, None, {**message, "choice": {}})
    assert cleared.settings == page.settings


def test_every_control_has_a_field_and_a_condition_that_its_kind_reads(explorer):
    fields = condition_fields(explorer, explorer.controls)
    assert len({field["id"] for field in fields}) == len(fields)
    types = {"range", "choice", "letters", "rectangle", "stretch", "steps", "texts", "stored", "section"}
    assert {field["type"] for field in fields} <= types


def test_a_column_of_truths_and_dates_has_its_own_control(explorers):
    explorer = explorers["table"]
    by_name = {control.name: control for control in explorer.controls}
    assert by_name["smoker"].choices == ("True", "False")
    assert by_name["seen"].kind == "date"
    for name, choice in (("smoker", {"values": ["True"]}), ("seen", {"low": "2021-03-01", "high": "2021-05-01"})):
        page = change_page(
            Page(replace(explorer.first_settings, n=5), {}),
            explorer,
            None,
            {"id": f"condition:{name}", "choice": choice},
        )
        items = explorer.draw(page.settings).items
        if name == "smoker":
            assert items[name].all()
        else:
            assert items[name].astype(str).between("2021-03-01", "2021-05-01 23").all()


def test_changes_of_the_first_form(explorer):
    page, slider = Page(explorer.first_settings, {}), Slider("beta", 0.1, 1000.0, "high", True)

    def after(**message):
        return change_page(page, explorer, slider, message).settings

    assert after(id="knob", position=0).knob == 1000.0
    assert after(id="knob", mark="knee").knob == "knee"
    assert after(id="novelty", value=0.3).novelty == 0.3
    assert after(id="novelty", value=None).novelty is None
    assert after(id="n", value=7).n == 7
    assert after(id="seed", value=9).seed == 9
    assert after(id="new-seed").seed >= 0
    assert len({after(id="new-seed").seed for _ in range(5)}) > 1
    with pytest.raises(TypeError, match=r"n must be an integer; got 2\.5"):
        after(id="n", value=2.5)
    with pytest.raises(TypeError, match="seed must be an integer; got None"):
        after(id="seed", value=None)
    with pytest.raises(ValueError, match="novelty"):
        after(id="novelty", value=-0.2)
    with pytest.raises(ValueError, match=r"generator must be one of .*hopfield.*; got 'other'"):
        after(id="generator", value="other")
    with pytest.raises(InputError, match="no control"):
        after(id="other")


def test_clicks_on_stored_items(explorers):
    explorer = explorers["table"]
    page = Page(explorer.first_settings, {})

    def click(page, index, action):
        return change_page(page, explorer, None, {"id": "stored", "index": index, "action": action})

    off = click(page, 3, "toggle")
    assert off.settings.ratios == ((3, 0.0),)
    assert click(off, 3, "toggle").settings.ratios == ()
    twice = click(click(page, 2, "more"), 2, "more")
    assert twice.settings.ratios == ((2, 4.0),)
    assert click(page, 2, "less").settings.ratios == ((2, 0.5),)
    assert click(off, 3, "more").settings.ratios == ()
    assert click(click(twice, 5, "toggle"), 0, "more").settings.ratios == ((0, 2.0), (2, 4.0), (5, 0.0))
    assert change_page(twice, explorer, None, {"id": "stored", "action": "reset"}).settings.ratios == ()
    with pytest.raises(InputError, match="no stored item"):
        click(page, 4000, "toggle")
    with pytest.raises(InputError, match="action must be reset, toggle, more, less; got 'other'"):
        click(page, 3, "other")


def test_the_slider_shows_what_a_rule_chose(explorer):
    settings = explorer.first_settings
    drawn = explorer.draw(settings)
    hopfield = explorer.hopfield(settings)
    slider = Slider.of(*knob_of(explorer.base.kind.generators["hopfield"]), hopfield)
    assert knob_value(settings, slider, (), drawn) == hopfield.beta
    state = setting_state(settings, slider, (), drawn, True)
    assert state["knob"]["position"] == pytest.approx(slider.position(hopfield.beta))
    assert setting_state(settings, None, (), None, False)["novelty"]["disabled"]
    marks = tuple(curves.marks(hopfield))
    moved = replace(settings, knob="natural")
    assert knob_value(moved, slider, marks, None) == marks[0].value
    assert knob_value(replace(settings, knob=2.5), slider, (), None) == 2.5


def test_the_map_has_the_principal_components(explorer):
    from sklearn.decomposition import PCA

    codec = explorer.base.codec
    features = codec.features(codec.stored)
    found, pca = ItemMap(features, "arpack"), PCA(2, svd_solver="full").fit(features)
    assert found.shares == pytest.approx(pca.explained_variance_ratio_, rel=1e-4)
    expected = pca.transform(features)
    for mine, theirs in zip(found.stored.T, expected.T, strict=True):
        assert abs(np.corrcoef(mine, theirs)[0, 1]) > 1 - 1e-6
        assert np.abs(mine).max() == pytest.approx(np.abs(theirs).max(), rel=1e-4)
    assert found.project(features) == pytest.approx(found.stored, abs=1e-4 * np.abs(found.stored).max())


@pytest.mark.parametrize("algorithm", chain.ALGORITHMS)
def test_a_chain_walks_from_noise_down_to_a_memory(explorer, algorithm):
    settings = replace(explorer.first_settings, knob="natural")
    hopfield = explorer.hopfield(settings)
    walk = chain.walk(hopfield, algorithm, 1, 120)
    assert len(walk.rows) == len(walk.energies) == len(walk.basins) == 121
    energies = np.asarray(hopfield.model.energy(walk.rows))
    assert walk.energies == pytest.approx(energies, rel=1e-6, abs=1e-8)
    assert np.median(walk.energies[-40:]) < walk.energies[0]
    assert np.linalg.norm(walk.rows[0]) == pytest.approx(hopfield.bank.M)
    assert 0.5 < walk.acceptance <= 1
    assert walk.crossings == sum(a != b for a, b in zip(walk.basins, walk.basins[1:], strict=False))
    items = chain.decode(explorer.base, hopfield, walk.rows[-3:], walk.basins[-3:])
    assert len(items) == 3
    again = chain.walk(hopfield, algorithm, 1, 120)
    assert np.array_equal(again.rows, walk.rows)


def test_attention_weights_of_a_stored_item_are_on_itself(explorer):
    hopfield = explorer.hopfield(replace(explorer.first_settings, knob=explorer_beta(explorer)))
    codec = explorer.base.codec
    features = codec.features(codec.stored)
    found = chain.attention(hopfield, features[4], n=len(features))
    indices, weights = list(found), np.array(list(found.values()))
    assert weights.sum() == pytest.approx(1.0)
    assert (np.diff(weights) <= 0).all()
    row = np.asarray(hopfield.embed(features[4:5]))[0]
    logits = hopfield.beta * np.asarray(hopfield.model.bank.patterns) @ row + np.asarray(hopfield.model.bank.log_r)
    expected = np.exp(logits - np.logaddexp.reduce(logits))
    assert weights == pytest.approx(expected[indices], rel=1e-6, abs=1e-12)


def explorer_beta(explorer):
    return explorer.hopfield(explorer.first_settings).beta


@pytest.mark.slow
def test_the_verdict_is_that_of_a_report_and_can_be_cancelled(explorers):
    synth = explorers["table"].synthesizer(explorers["table"].first_settings)
    process = verdict.VerdictProcess(synth, 0, 40)
    cancelled = verdict.VerdictProcess(synth, 0, 4000)
    cancelled.cancel()
    with pytest.raises(verdict.Cancelled):
        cancelled.result()
    assert cancelled._process.exitcode != 0
    found, auc = process.result()
    page = verdict.verdict_html(found, auc)
    assert found.tone in ("good", "fair", "bad")
    assert found.headline in page
    assert sum(bool(check.finding) for check in found.checks) > 5


def test_a_verdict_that_fails_says_why(explorers):
    process = verdict.VerdictProcess(explorers["table"].base, -1, 0)
    with pytest.raises(ValueError, match="the verdict failed: "):
        process.result()


def test_a_slow_generator_has_few_positions_that_can_be_prepared():
    slider = Slider("radius", 0.5, 16.0, "high", True, n_stops=4)
    assert slider.stops == [16.0, 6.727, 2.828, 1.189, 0.5]
    assert {slider.value(position) for position in range(STEPS + 1)} == set(slider.stops)


def test_an_arrow_key_goes_to_the_next_position_of_the_slider():
    slider = Slider("radius", 0.5, 16.0, "high", True, n_stops=8)
    for one, step in ((slider, STEPS / 8), (slider._replace(n_stops=STEPS), 1), (None, 1)):
        assert setting_state(PageSettings("hopfield", 2.0), one, (), None, True)["knob"]["step"] == step
    assert "input.step = state.step" in asset("form.js")


def test_a_day_of_a_column_with_times_lasts_until_the_next_day(tmp_path):
    days = RangeControl("seen", "seen", "2021-01-01", "2021-12-31", "date", is_timed=True)
    assert days.texts({"low": "2021-12-31", "high": "2021-12-31"}) == ("2021-12-31<=seen<2022-01-01",)
    assert days.texts({"high": "2021-02-28"}) == ("seen<2021-03-01",)
    assert days.texts({"low": "2021-02-28"}) == ("seen>=2021-02-28",)
    with pytest.raises(InputError, match="seen: must be a day such as 2021-05-01; got '2021-02-30'"):
        days.texts({"high": "2021-02-30"})
    times = [
        f"2021-05-{1 + i % 3:02d} {(7 * i) % 24:02d}:{(13 * i) % 60:02d}:00,2021-05-{1 + i % 3:02d}" for i in range(60)
    ]
    lines = [f"{one},{i * 0.37 % 5:.2f}" for i, one in enumerate(times)]
    (tmp_path / "times.csv").write_text("\n".join(["seen,day,x", *lines]))
    explorer = explorer_of(tmp_path / "times.csv", generator="hopfield")
    assert {one.name: one.is_timed for one in explorer.controls if one.kind == "date"} == {"seen": True, "day": False}
    message = {"id": "condition:seen", "choice": {"low": "2021-05-03", "high": "2021-05-03"}}
    page = change_page(Page(replace(explorer.first_settings, n=5), {}), explorer, None, message)
    seen = explorer.draw(page.settings).items["seen"].astype(str)
    assert seen.str.startswith("2021-05-03").all()


def test_a_level_that_contains_the_sign_between_values_is_chosen_alone():
    control = ChoiceControl("city", "city", ("a|b", "c"))
    assert control.texts({"values": ["a|b"]}) == ("city=a|b",)
    with pytest.raises(InputError, match=r"'a\|b' contains \|, which separates values. Choose it alone"):
        control.texts({"values": ["c", "a|b"]})


def test_stored_items_with_the_same_id_are_told_apart(explorers):
    base = explorers["table"].base
    ids = ("x", *base.codec.ids[1:5], "x", *base.codec.ids[6:])
    explorer = Explorer(replace(base, generator_fit=replace(base.generator_fit, codec=replace(base.codec, ids=ids))))
    assert explorer.names[0] == "x (1)"
    assert explorer.names[5] == "x (6)"
    assert explorer.names[1:5] == ids[1:5]
    stored = condition_fields(explorer, ())[-1]
    assert stored["ids"] == list(explorer.names)
    assert stored["hint"] == "Examples with the same id are chosen together."
    assert condition_fields(explorers["table"], ())[-1]["hint"] == ""
    shown = MapPlot(explorer.names)
    shown.show_stored(explorer.item_map, set())
    assert shown.stored.data["id"][5] == "x (6)"


def test_the_field_of_the_selected_item_shows_how_often_it_counts():
    settings, names = PageSettings("hopfield", ratios=((1, 0.0), (2, 4.0))), ("a", "b", "c")
    shown = [selected_state(settings, names, k) for k in (-1, 0, 1, 2)]
    assert [one["disabled"] for one in shown] == [True, False, False, False]
    assert [one["name"] for one in shown] == ["", "a", "b", "c"]
    assert [one["ratio"] for one in shown] == [1.0, 1.0, 0.0, 4.0]


def test_left_out_items_are_crosses_on_the_map(explorers):
    explorer = explorers["table"]
    shown = MapPlot(explorer.names)
    shown.show_stored(explorer.item_map, set())
    assert set(shown.stored.data["marker"]) == {"circle"}
    assert len(shown.stored.data["marker"]) == len(explorer.names)
    changes = []
    shown.stored.on_change("data", lambda attr, old, new: changes.append(new))
    shown.show_stored(explorer.item_map, {3})
    assert [k for k, one in enumerate(shown.stored.data["marker"]) if one == "x"] == [3]
    shown.show_stored(explorer.item_map, {3})
    assert len(changes) == 1  # nothing is sent to the browser where nothing changed
    shown.show_stored(explorer.item_map, set())
    assert set(shown.stored.data["marker"]) == {"circle"}


def test_a_generator_without_a_slider_names_those_that_have_one(explorers):
    assert explorers["protein"].adjustable_generators == ("hopfield",)
    assert explorers["image"].adjustable_generators == ("deformations", "patches", "hopfield")
    latent = setting_state(PageSettings("latent"), None, (), None, False, explorers["protein"].adjustable_generators)
    text = "The generator latent has no setting between recall and generation. Choose hopfield to have one."
    assert latent["knob"]["hint"] == text
    both = setting_state(PageSettings("a"), None, (), None, False, ("b", "c"))["knob"]["hint"]
    assert both.endswith(". Choose b or c to have one.")
    assert setting_state(PageSettings("a"), None, (), None, False)["knob"]["hint"].endswith("recall and generation.")
    waiting = setting_state(PageSettings("hopfield"), None, (), None, False, ("hopfield",))["knob"]
    assert (waiting["hint"], waiting["disabled"]) == ("", True)  # its slider comes with the first fit


def test_a_page_says_that_its_generator_has_no_slider(inputs):
    session = Session(explorer_of(inputs["protein"]))
    assert "Choose hopfield to have one." in session.form.state["knob"]["hint"]
    session = Session(explorer_of(inputs["protein"], generator="hopfield"))
    assert session.form.state["knob"]["hint"] == ""
