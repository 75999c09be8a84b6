"""The text of the report, escaping of text from files, and reproducibility."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn._backend import html
from stochattn.evaluation.inspection import inspect
from stochattn.evaluation.split_half import HeldOutMetrics, SplitHalfResult, SplitMetrics
from stochattn.kinds.comparison import Measure
from stochattn.kinds.registry import kind_of
from stochattn.kinds.summary import RunSummary, as_json
from stochattn.report import evidence, make_report
from stochattn.report.page import held_out_validation

from . import made
from .made import build_report
from .parsed import Parsed

SECTIONS = ["gallery", "fidelity", "map", "novelty", "held-out", "privacy", "making"]


def page_of(synth, n, **options):
    return build_report(synth, synth.sample_items(n, 1), **{"source": "x", "quick": True, **options})


@pytest.mark.parametrize("kind", made.KINDS)
def test_a_report_has_all_sections(reports, kind):
    parsed = Parsed(reports[kind])
    assert [a["id"] for tag, a in parsed.elements if tag == "section"] == SECTIONS
    links = [a["href"] for tag, a in parsed.elements if tag == "a"]
    assert links == [f"#{section}" for section in SECTIONS]
    assert f"40 new {kind_of(kind).items} from 24 stored" in parsed.text
    assert "Held-out validation" in parsed.text
    assert "New 1" in parsed.text or kind == "image"
    assert len(reports[kind]) < 1_000_000


@pytest.mark.parametrize("kind", made.KINDS)
def test_nothing_from_a_file_becomes_an_element(reports, kind):
    parsed = Parsed(reports[kind])
    tags = {tag for tag, _ in parsed.elements}
    assert not tags & {"script", "iframe", "object", "embed", "form", "base"}
    for tag, attributes in parsed.elements:
        assert not any(key.startswith("on") for key in attributes), (tag, attributes)
        if tag == "img":
            assert attributes["src"].startswith("data:image/")
        assert not attributes.get("href", "#").startswith(("http", "//", "javascript"))
    assert made.SCRIPT in parsed.text  # it appears as text
    assert "url(" not in reports[kind]
    assert "\x00" not in reports[kind]


@pytest.mark.parametrize("kind", made.KINDS)
def test_same_arguments_same_bytes(reports, kind):
    again = page_of(made.synth(kind, generator="hopfield"), 40, source=made.SOURCE, seed=1, quick=False)
    assert again.encode() == reports[kind].encode()


@pytest.mark.slow
@pytest.mark.parametrize("kind", made.KINDS)
def test_default_generators_are_reported(kind):
    synth = made.synth(kind)
    parsed = Parsed(page_of(synth, 40))
    assert [a["id"] for tag, a in parsed.elements if tag == "section"] == SECTIONS
    described = synth.describe()
    assert f"{described.name}: {described.summary}"[:150] in parsed.text
    has_temperature = described.temperature is not None
    assert ("Entropy of attention against beta" in [a.get("alt") for _, a in parsed.elements]) is has_temperature
    assert ("predicted novelty" in parsed.text) is has_temperature


@pytest.mark.parametrize(
    ("kind", "K", "n"), [("protein", 3, 3), ("image", 3, 3), ("table", 3, 3), ("returns", 3, 3), ("table", 24, 1)]
)
def test_few_items(kind, K, n):
    synth = made.synth(kind, K=K, generator="hopfield")
    page = page_of(synth, n)
    assert (f"as far as 3 {synth.kind.items} can show" if n == 3 else "as far as one can show") in page
    assert "checked for 30 or more new" in page


@pytest.mark.parametrize("kind", ["protein", "image", "table"])
def test_two_stored_items(kind):
    page = page_of(made.synth(kind, K=2, generator="hopfield"), 5)
    assert "Membership inference was not tested" in page
    assert "There is no held-out validation" in page


def test_a_sample_of_a_hundred_thousand_items_is_measured():
    page = page_of(made.synth("table", generator="hopfield"), 100_000)
    assert "Measured on 5,000 of the 100,000" in page
    assert "Measured on 20,000 of the 100,000" in page
    assert "2,000 of 100,000 new and all 24 stored" in page
    assert len(page) < 5_000_000


@pytest.mark.usefixtures("unrendered_figures")
def test_only_the_number_of_parts_beyond_sixty_is_shown():
    page = page_of(made.proteins(made.sequences(np.random.default_rng(4), 12, 75), generator="hopfield"), 30)
    assert "15 more with smaller distances are left out" in page
    assert len(re.findall('class="bar"', page)) == 60


@pytest.mark.usefixtures("unrendered_figures")
def test_residues_that_differ_are_marked():
    synth = made.synth("protein", generator="hopfield")
    new = synth.codec.stored[:1].copy()
    new[0, 7] = (new[0, 7] + 1) % 20
    marked = re.findall("<mark>(.)</mark>", build_report(synth, new, source="x", quick=True))
    assert marked == [made.LETTERS[new[0, 7]]]


def summary(**changed):
    facts = {
        **{"version": "9.9", "kind": "table", "source": "a b.csv", "output": "new.csv", "seed": 17, "n": 3},
        **{"stored": 24, "kept": 24, "generator": "hopfield", "sampler": "exact", "novelty": 0.301},
    }
    return RunSummary(**{**facts, **changed})


@pytest.mark.usefixtures("unrendered_figures")
def test_settings_come_from_the_summary_if_there_is_one():
    synth = made.synth("table", novelty=0.3)
    items = synth.sample_items(3, 1)
    options = {"source": "a b.csv", "samples": "new.csv", "quick": True}
    options["command"] = "stochattn sample 'a b.csv' --novelty 0.3"
    known = Parsed(build_report(synth, items, summary=summary(conditions=("it's=1",)), **options)).text
    assert "stochattn 9.9" in known
    assert "Seed17" in known
    assert "it's=1" in known
    assert "for novelty 0.3" in known
    assert "novelty=0.3" in known  # the given option
    assert "novelty as drawn" in known
    assert "stochattn sample 'a b.csv' --novelty 0.3" in known
    unknown = Parsed(build_report(synth, items, **options)).text
    assert "not known: there is no summary beside the samples" in unknown
    assert "it is not known how these rows were made" in unknown
    assert "stochattn 9.9" not in unknown


@pytest.mark.usefixtures("unrendered_figures")
def test_a_page_without_a_command_shows_none():
    synth = made.synth("table", generator="hopfield")
    assert "To make it again" not in page_of(synth, 3)
    assert "To make it again" in page_of(synth, 3, command="x")


@pytest.mark.usefixtures("unrendered_figures")
def test_a_report_on_new_draws_is_written_atomically(tmp_path):
    synth = made.synth("protein", generator="hopfield")
    path = synth.report(tmp_path / "page.html", n=5, rng=3, quick=True)
    assert path == tmp_path / "page.html"
    assert path.read_text("utf-8") == build_report(synth, synth.sample_items(5, 3), source=None, seed=3, quick=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]
    assert "Source" not in path.read_text("utf-8")


@pytest.mark.usefixtures("unrendered_figures")
def test_paths_are_reported_by_their_windows():
    log_returns = 0.01 * np.random.default_rng(0).standard_t(4, (60, 3))
    windows, paths = (made.returns(log_returns, "abc", window=5, **days) for days in ({}, {"days": 12}))
    page = build_report(paths, windows.sample_items(40, 1), source="x", quick=True)
    assert "days=12" in page
    assert (
        page.partition("<main>")[2].partition('id="making"')[0]
        == (page_of(windows, 40).partition("<main>")[2].partition('id="making"')[0])
    )


def split(train_proximity=0.5, auc=0.5, value=1.0):
    measures = tuple((Measure("pairs", v, 1.0, "of pairs"),) for v in (value, 0.9))
    return SplitMetrics(HeldOutMetrics(train_proximity, 1.0, 0.01, 0.6, 0.4), auc, *measures)


@pytest.mark.usefixtures("unrendered_figures")
def test_the_privacy_warning_follows_the_limit(monkeypatch):
    synth = made.synth("table", generator="hopfield")
    items = synth.sample_items(40, 1)
    for auc, warned in ((0.61, True), (0.6, False)):
        result = SplitHalfResult((split(auc=auc),) * 5, 24)
        monkeypatch.setattr(evidence, "split_half_validation", lambda *_, result=result, **__: result)
        page = build_report(synth, items, source="x")
        assert ("Samples reveal their sources" in page) is warned
        assert ("they reveal their sources" in page) is warned


def test_held_out_values_are_means_over_splits():
    synth = made.synth("table", generator="hopfield")
    result = SplitHalfResult((split(0.4, value=1.0), split(0.8, value=3.0)), 24, n_draws=7)
    text = Parsed(held_out_validation(synth, result)).text
    assert "24 of 24 stored rows were split into halves at random, 2 times" in text
    assert "with its settings chosen by the same rules, 7 new rows were drawn" in text
    assert re.search(r"train proximity.*?0\.60 ± 0\.28\s*1\.00\s*0\.500", text, re.DOTALL)
    assert re.search(r"pairs.*?2\.00 ± 1\.41\s*0\.90 ± 0\s*1\.00", text, re.DOTALL)
    none = Parsed(held_out_validation(synth, SplitHalfResult((), 3, "too few"))).text
    assert "There is no held-out validation: too few." in none


def test_the_held_out_section_lists_ignored_settings():
    synth = made.synth("table", generator="hopfield", beta=5.0)
    result = SplitHalfResult((split(),) * 2, 24, n_draws=7)
    assert "left out" not in held_out_validation(synth, result)
    assert "at the same β" in held_out_validation(synth, result)
    assert "Conditions were left out" in held_out_validation(synth.condition({"whole": 40}), result)
    weighted = made.change_fit(synth, weights=np.arange(1.0, 25.0))
    assert "Weights were left out" in held_out_validation(weighted, result)
    assert "between parts" not in held_out_validation(synth, result)
    assert "parts of scenarios, 3 per scenario" in held_out_validation(made.synth("returns"), result)


def test_no_items_is_an_error():
    with pytest.raises(ValueError, match="at least one new item"):
        build_report(made.synth("protein"), np.empty((0, 30), dtype=np.uint8), source="x")


def test_text_is_escaped_and_truncated():
    assert html.text('<a href="x">\'&') == "&lt;a href=&quot;x&quot;&gt;&#x27;&amp;"
    assert html.text("abcdef", 4) == "abc…"
    assert html.text("a\x00b\x1b\udc80") == "a\ufffdb\ufffd?"
    assert html.tag("b", "<i>", html.Html("<i>")) == "<b>&lt;i&gt;<i></b>"
    assert html.tag("p", class_='"x') == '<p class="&quot;x"></p>'


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0"), (0.12345, "0.123"), (12.345, "12.3"), (1234.5, "1,234"), (1e-5, "1e-05"), (None, "–"), (np.nan, "–")],
)
def test_numbers(value, expected):
    assert html.number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0 %"), (0.0004, "< 0.1 %"), (0.0125, "1.2 %"), (0.5, "50 %"), (0.995, "99.5 %"), (0.99999, "> 99.9 %")],
)
def test_shares(value, expected):
    assert html.share(value) == expected.replace(" %", "\u00a0%")


def test_a_report_in_numbers_has_its_verdict_and_every_check():
    synth = made.synth("table", K=40)
    found = make_report(synth, synth.sample_items(40, 1), source="x", quick=True)
    values = json.loads(as_json(found.as_dict()))
    assert f"<title>40 new rows: {values['headline']}</title>" in found.page
    assert values["held_out"]["splits"] == 3
    assert set(values["held_out"]["two-sample accuracy"]) == {"new", "stored", "worst"}
    assert values["checks"]["copies"] == {"passed": True, "finding": found.verdict.checks.copies.finding}
    assert 0 <= values["near_copies"] <= 1
    assert "with the settings that were chosen for all" in found.page


def test_the_size_of_rows_is_that_of_inspect_and_other_generators_have_features():
    """A column of 0 and 1 has two features, and one dimension among the rows of p_beta."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=60), "ill": rng.integers(0, 2, 60), "old": rng.integers(0, 2, 60)})
    for options, size in (({}, "Features</dt><dd>60 × 5<"), ({"beta": 5.0}, "Rows of p_beta</dt><dd>60 × 3<")):
        synth = sa.fit(frame, "table", **options)
        page = make_report(synth, synth.sample_items(40, 1), source="x", quick=True).page
        assert size in page
    assert inspect(synth).bank.d == 3
