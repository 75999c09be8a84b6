"""What a page shows is what the library draws, what its code draws, and what its command writes."""

import shlex
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import stochattn as sa
from stochattn.cli import build_app
from stochattn.explorer import state
from stochattn.explorer import tools as code
from stochattn.explorer.state import Explorer, PageSettings, Superseded, select_only
from stochattn.kinds.images.generator.registration import Registration
from stochattn.kinds.options import InputError
from stochattn.kinds.signals.generator import deformations as time_deformations

from .explored import explorer_of, made_items

APP = build_app()


def shown(explorer, settings):
    """The items on the page, as a user of the library sees them."""
    return explorer.base.codec.to_user(explorer.draw(settings).items)


def equal(first, second):
    if hasattr(first, "equals"):
        return first.equals(second)
    return np.array_equal(np.asarray(first), np.asarray(second))


VARIANTS = {
    "default": {},
    "knob": {"knob": 7.25},
    "rule": {"knob": "leave-one-out"},
    "novelty": {"novelty": 0.1},
    "ratios": {"ratios": ((1, 0.0), (2, 3.0), (4, 0.5))},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_code_draws_what_is_shown(explorer, variant):
    settings = replace(explorer.first_settings, n=4, seed=3, **VARIANTS[variant])
    names = {}
    exec(code.python_lines(explorer, settings), names)
    assert equal(names["new"], shown(explorer, settings))


def test_conditions_hold_and_the_code_repeats_them(explorer, kind, condition):
    settings = replace(explorer.first_settings, n=3, conditions=(condition,), knob=20.0)
    names = {}
    exec(code.python_lines(explorer, settings), names)
    assert names["synth"].conditions
    assert equal(names["new"], shown(explorer, settings))
    assert not equal(names["new"], shown(explorer, replace(settings, conditions=())))


@pytest.mark.parametrize("variant", ["default", "everything"])
def test_a_saved_file_has_the_bytes_of_the_command(explorer, kind, condition, variant, tmp_path, monkeypatch):
    settings = replace(explorer.first_settings, n=3, seed=5)
    if variant == "everything":
        settings = replace(settings, knob=9.5, conditions=(condition,), ratios=((0, 0.0), (3, 2.5)))
    (tmp_path / "page").mkdir()
    (tmp_path / "typed").mkdir()
    out = code.default_output(explorer)
    monkeypatch.chdir(tmp_path / "page")
    code.save(explorer, settings, out)
    monkeypatch.chdir(tmp_path / "typed")
    words = shlex.split(code.command(explorer, settings, out))
    assert words[:2] == ["stochattn", "sample"]
    result = CliRunner().invoke(APP, words[1:])
    assert result.exit_code == 0, result.output
    files = [
        {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()} for root in tmp_path.iterdir()
    ]
    assert files[0] == files[1]  # the summary beside the items included
    assert files[0]


@pytest.mark.parametrize(("kind", "generator", "values"), [
    ("table", "covariance", (0.05, 0.5)), ("signals", "windows", (0.05, 0.5)), ("image", "patches", (3.0, 1.0)),
])  # fmt: skip
def test_other_generators_have_a_knob_of_their_own(inputs, kind, generator, values):
    explorer = explorer_of(inputs[kind], generator=generator)
    settings = [replace(explorer.first_settings, n=3, knob=value) for value in values]
    first, second = (explorer.draw(one).items for one in settings)
    assert not equal(first, second)
    names = {}
    exec(code.python_lines(explorer, settings[0]), names)
    assert equal(names["new"], shown(explorer, settings[0]))
    resolved = explorer.synthesizer(replace(settings[0], knob=None)).describe().resolved
    chosen = explorer.options(settings[0])
    assert set(resolved) <= set(chosen)  # what a rule chose is not chosen again
    assert explorer.synthesizer(settings[0]).describe().resolved.keys() == resolved.keys()


def test_a_generator_without_a_knob_says_so(explorers):
    settings = replace(explorers["protein"].first_settings, generator="latent", knob=0.5)
    with pytest.raises(InputError, match="'latent' has no knob"):
        explorers["protein"].draw(settings)


def test_a_page_begins_with_what_the_user_asked_for(inputs):
    explorer = explorer_of(
        inputs["table"], generator="hopfield", beta="12.5", conditions=["age=40"], subset=["group=red"]
    )
    first = explorer.first_settings
    assert (first.generator, first.knob, first.conditions) == ("hopfield", 12.5, ("age=40",))
    assert (explorer.draw(replace(first, n=5)).items["age"] == 40).all()
    drawn_around = explorer.synthesizer(first).kept
    assert set(explorer.base.codec.stored["group"].iloc[drawn_around]) == {"red"}
    left = replace(first, ratios=((int(drawn_around[0]), 0.0),))
    asked = code.record_choices(explorer, left)
    assert len(asked.subset) == 1  # several would be joined by or
    typed = CliRunner().invoke(APP, [*shlex.split(code.command(explorer, left, "-"))[1:]])
    assert typed.exit_code == 0, typed.output


def test_with_a_wanted_novelty_the_slider_has_no_value(inputs):
    first = explorer_of(inputs["table"], generator="hopfield", novelty="0.2").first_settings
    assert (first.knob, first.novelty) == (None, 0.2)


def test_in_a_notebook_the_code_continues_with_the_users_own_synthesizer(inputs):
    synth = sa.fit(inputs["table"], generator="hopfield", beta=4.0).condition(age=40).weight(2.0, [0])
    explorer = Explorer(synth)
    settings = replace(explorer.first_settings, n=4, knob=2.0, ratios=((1, 0.0),))
    names = {"synth": synth}
    exec(code.python_lines(explorer, settings), names)
    assert equal(names["new"], shown(explorer, settings))
    assert (names["new"]["age"] == 40).all()
    assert code.command(explorer, settings, "new.csv") is None


def test_settings_are_checked():
    for wrong in ({"n": 0}, {"n": 1001}, {"n": 2.5}, {"seed": -1}, {"knob": 1.0, "novelty": 0.2}):
        with pytest.raises((ValueError, TypeError)):
            PageSettings("hopfield", **wrong)


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_selection_matches_these_ids_and_no_others(share):
    rng = np.random.default_rng(0)
    ids = ["a", "aa", "a|b", "x=1", "x:2", "(", "seq.1", "seqX1", " a", "é", "$", "^a", "\\", "a b"]
    import re

    for _ in range(20):
        selected = rng.random(len(ids)) < share
        if not selected.any() or selected.all():
            continue
        pattern = select_only(ids, selected)
        assert "=" not in pattern
        assert [re.search(pattern, one) is not None for one in ids] == selected.tolist()


def test_pages_share_a_fit_and_an_error_is_tried_again(explorers, monkeypatch):
    explorer, calls, results = Explorer(explorers["table"].base), [], []

    def weigh(settings, synth):
        calls.append(settings)
        time.sleep(0.05)
        if len(calls) == 1:
            raise ZeroDivisionError
        return synth

    monkeypatch.setattr(explorer, "weigh", weigh)
    with pytest.raises(ZeroDivisionError):
        explorer.synthesizer(explorer.first_settings)
    threads = [
        threading.Thread(target=lambda: results.append(explorer.synthesizer(explorer.first_settings))) for _ in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(calls) == 2
    assert len(results) == 4
    assert len({id(synth.generator) for synth in results}) == 1


def test_a_page_does_not_wait_for_the_fit_of_another_page(explorers, monkeypatch):
    explorer, begun, may_end = Explorer(explorers["table"].base), threading.Event(), threading.Event()
    fitted, weigh = explorer.synthesizer(explorer.first_settings), explorer.weigh

    def weigh_slowly(settings, synth):
        begun.set()
        assert may_end.wait(60)
        return weigh(settings, synth)

    monkeypatch.setattr(explorer, "weigh", weigh_slowly)
    other = threading.Thread(target=explorer.synthesizer, args=(replace(explorer.first_settings, ratios=((0, 0.0),)),))
    other.start()
    assert begun.wait(60)
    results = []
    page = threading.Thread(target=lambda: results.append(explorer.synthesizer(explorer.first_settings)), daemon=True)
    page.start()
    page.join(10)
    may_end.set()
    other.join()
    assert results == [fitted]


def test_the_last_galleries_are_kept(explorers, monkeypatch):
    monkeypatch.setattr(state, "MAX_DRAWN", 2)
    explorer = Explorer(explorers["table"].base)
    first, second, third = (replace(explorer.first_settings, n=1, seed=seed) for seed in range(3))
    drawn = explorer.draw(first)
    explorer.draw(second)
    assert explorer.draw(first) is drawn
    explorer.draw(third)
    assert [explorer.has_items(settings) for settings in (first, second, third)] == [True, False, True]


def test_a_superseded_draw_stops_and_another_page_goes_on(explorers):
    explorer = Explorer(explorers["table"].base)
    settings = replace(explorer.first_settings, n=3, seed=77)
    begun, go = threading.Event(), threading.Event()

    def superseded(done, of):
        begun.set()
        go.wait(10)
        raise Superseded

    failures = []

    def first():
        try:
            explorer.draw(settings, superseded)
        except Superseded as error:
            failures.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait(10)
    found = []
    other = threading.Thread(target=lambda: found.append(explorer.draw(settings, lambda done, of: None)))
    other.start()
    go.set()
    thread.join(10)
    other.join(10)
    assert len(failures) == 1
    assert len(found[0].items) == 3


def test_errors_of_impossible_conditions_name_them(explorers):
    settings = replace(explorers["table"].first_settings, conditions=("age=1000",))
    with pytest.raises(InputError, match="age=1000"):
        explorers["table"].draw(settings)


@pytest.mark.parametrize("kind", ["table", "protein", "returns", "signals", "image"])
def test_a_shared_fit_has_the_bits_of_a_new_one(inputs, kind):
    fitted = sa.fit(inputs[kind], generator="hopfield")
    fitted.describe()
    shared = fitted.weight(2.0, [1]).with_generator("hopfield", beta=6.5).subset(np.arange(2, 9))
    assert vars(shared.generator_fit)["generator"].embedding is fitted.generator.embedding
    new = sa.fit(inputs[kind], generator="hopfield", beta=6.5).weight(2.0, [1]).subset(np.arange(2, 9))
    assert equal(shared.sample(5, rng=1), new.sample(5, rng=1))
    assert shared.generator.beta == new.generator.beta == 6.5
    other = fitted.with_generator("hopfield", variance=0.9)
    assert "generator" not in vars(other.generator_fit)


WEIGHTS = {1: 3.0, 4: 0.5}
"""How often some stored items count."""


def weighted(synth):
    for k, ratio in WEIGHTS.items():
        synth = synth.weight(ratio, [k])
    return synth


def test_shapes_are_not_found_again_for_other_weights_and_scales(tmp_path, monkeypatch):
    fitted = sa.fit(made_items.write_pictures(tmp_path / "large", 6, 16))
    fitted.describe()
    fitted.generator.model._find_distributions(np.arange(12))
    changes = {
        "scale": lambda one: one.with_generator("deformations", scale=0.5),
        "weights": weighted,
        "both": lambda one: weighted(one).with_generator("deformations", scale=0.5),
        "levels": lambda one: one.with_generator("deformations", scale=0.5, vary="levels"),
        "rule": lambda one: one.with_generator("deformations", scale=0.5).with_generator("deformations"),
    }
    found = []
    with monkeypatch.context() as patched:
        patched.setattr(Registration, "fields", lambda *given: pytest.fail("a field is found again"))
        for change in changes.values():
            shared = change(fitted)
            assert "generator" in vars(shared.generator_fit)
            found.append((shared.sample(4, rng=0), shared.describe()))
            for part in ("_splines", "_registration"):
                assert getattr(shared.generator.model, part) is getattr(fitted.generator.model, part)
    for change, (items, described) in zip(changes.values(), found, strict=True):
        new = change(sa.fit(tmp_path / "large"))  # nothing is fitted yet, so that nothing can be shared
        assert np.array_equal(items, new.sample(4, rng=0))
        assert described == new.describe()
    assert "generator" not in vars(fitted.subset([0, 1, 2, 3]).generator_fit)  # neighbours are others


def test_a_fit_that_nobody_needed_is_not_made_for_other_weights(tmp_path, monkeypatch):
    fitted = sa.fit(made_items.write_pictures(tmp_path / "large", 6, 16))
    _ = fitted.generator
    with monkeypatch.context() as patched:
        patched.setattr(Registration, "fields", lambda *given: pytest.fail("shapes are found"))
        other = fitted.weight(3.0, [1])
    assert np.array_equal(other.sample(2, rng=0), sa.fit(tmp_path / "large").weight(3.0, [1]).sample(2, rng=0))


def test_a_loaded_scale_is_chosen_again_for_other_weights(tmp_path):
    new = sa.fit(made_items.write_pictures(tmp_path / "large", 6, 16))
    new.save(tmp_path / "large.synth")
    loaded = sa.load(tmp_path / "large.synth")
    loaded.describe()
    assert weighted(loaded).describe() == weighted(new).describe()
    given = loaded.with_generator("deformations", scale=0.5).describe()
    assert given == new.with_generator("deformations", scale=0.5).describe()
    assert "as given" in given.summary


def test_warps_are_not_found_again_for_other_weights_and_scales(inputs, monkeypatch):
    fitted = sa.fit(inputs["signals"], kind="signals", generator="deformations")
    before = fitted.sample(3, rng=0)
    for i in range(fitted.codec.K):
        fitted.generator.distributions.distribution(i)
    with monkeypatch.context() as patched:
        patched.setattr(time_deformations, "register", lambda *given: pytest.fail("a warp is found again"))
        shared = [weighted(fitted), weighted(fitted).with_generator("deformations", scale=0.4)]
        found = [one.sample(5, rng=0) for one in shared]
        back = shared[1].with_generator("deformations")
        assert np.array_equal(back.sample(5, rng=0), found[0])  # calibrated for its own scale
    for items, scale in zip(found, (None, 0.4), strict=True):
        new = weighted(sa.fit(inputs["signals"], kind="signals", generator="deformations", scale=scale))
        assert np.array_equal(items, new.sample(5, rng=0))
    assert np.array_equal(fitted.sample(3, rng=0), before)
    assert "generator" not in vars(fitted.subset(np.arange(5)).generator_fit)


def test_laws_at_another_scale_share_those_that_are_kept(monkeypatch):
    rng = np.random.default_rng(0)
    laws = time_deformations.LocalDistributions(rng.standard_normal((5, 20, 1)), np.zeros(5), 0.9)
    laws.distribution(0)
    other = laws.with_scale(0.5)
    assert other.distribution(0) is laws.distribution(0)
    other.distribution(1)
    assert laws.distribution(1) is other.distribution(1)
    n_bytes = sum(part.nbytes for part in laws.distribution(0))
    monkeypatch.setattr(time_deformations, "MAX_DISTRIBUTION_BYTES", 3 * n_bytes)
    assert [other.distribution(i) is laws.distribution(i) for i in (2, 3)] == [True, False]  # both fill the same room
    assert laws.with_scale(0.9) is laws


@pytest.mark.parametrize(
    ("kind", "generator"), [("signals", "deformations"), ("image", "deformations"), ("table", "hopfield")]
)
def test_other_weights_on_a_page_share_the_first_fit(inputs, tmp_path, kind, generator):
    path = made_items.write_pictures(tmp_path / "large", 6, 16) if kind == "image" else inputs[kind]
    explorer = explorer_of(path, generator=generator, **({"kind": kind} if kind == "signals" else {}))
    first = replace(explorer.first_settings, n=3)
    before = explorer.draw(first)
    settings = replace(first, ratios=tuple(WEIGHTS.items()))
    fitted = explorer.synthesizer(first).generator
    shared = explorer.synthesizer(settings).generator
    name = {"signals": "computed", "image": "computed", "table": "embedding"}[kind]
    own = {"signals": "distributions", "image": "model", "table": "embedding"}[kind]
    assert getattr(shared, name) is getattr(fitted, own)
    names = {}
    exec(code.python_lines(explorer, settings), names)
    assert equal(names["new"], shown(explorer, settings))
    assert not equal(explorer.base.codec.to_user(before.items), names["new"])


def test_the_slider_keeps_what_varies(tmp_path):
    plain = np.linspace(20, 230, 12).round().astype(np.uint8)[:, None, None] * np.ones((1, 14, 14), np.uint8)
    np.save(tmp_path / "plain.npy", plain)  # pictures without any shape
    explorer = explorer_of(tmp_path / "plain.npy")
    first = replace(explorer.first_settings, n=2)
    assert explorer.synthesizer(first).describe().resolved["vary"] == "levels"
    moved = replace(first, knob=0.5)
    assert explorer.options(moved) == {"scale": 0.5, "vary": "levels"}
    assert explorer.synthesizer(moved).describe().resolved["vary"] == "levels"
    names = {}
    exec(code.python_lines(explorer, moved), names)
    assert equal(names["new"], shown(explorer, moved))


def test_the_time_of_a_draw_does_not_count_what_other_threads_do(explorers):
    explorer, done = Explorer(explorers["table"].base), threading.Event()

    def progress(drawn, of):
        """Lets another thread use the processor for half a second before the draw goes on."""

        def work():
            begin = time.thread_time()
            while time.thread_time() - begin < 0.5:
                pass
            done.set()

        threading.Thread(target=work, daemon=True).start()
        done.wait(60)

    drawn = explorer.draw(replace(explorer.first_settings, n=2, seed=91), progress)
    assert drawn.seconds < 0.4


def test_functions_among_the_options_are_left_out_of_the_code_with_a_comment(explorers, monkeypatch):
    monkeypatch.setattr(Explorer, "options", lambda self, settings: {"beta": 3.0, "features": lambda rows: rows})
    for explorer in (explorers["table"], Explorer(explorers["table"].base)):
        lines = code.python_lines(explorer, explorer.first_settings)
        compile(lines, "code", "exec")
        assert "# Add features=..., your function, which cannot be written here." in lines
        assert "beta=3.0" in lines
        assert "lambda" not in lines
