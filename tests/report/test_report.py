"""The report as text: what it says, that nothing from a file gets through unescaped, that it is the same each time."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from stochattn import pipeline, report
from stochattn.data.legacy import Measure
from stochattn.data.proteins import ProteinCodec
from stochattn.data.returns import ReturnsCodec
from stochattn.data.tables import TableCodec
from stochattn.evaluation.heldout import Judgement
from stochattn.evaluation.privacy import Closeness
from stochattn.evaluation.split_half import Half, HalfSplits
from stochattn.report import evidence, page
from stochattn.report.evidence import measure
from stochattn.report.held_out import held_out
from stochattn.report.verdict import verdict

from . import made

SECTIONS = ("gallery", "fidelity", "map", "novelty", "held-out", "privacy", "making")


class Parsed(HTMLParser):
    """Elements and attributes of a page, and its text."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("kind", made.KINDS)
def test_a_report_has_all_sections(reports, kind):
    parsed = Parsed(reports[kind])
    assert [a["id"] for tag, a in parsed.elements if tag == "section"] == list(SECTIONS)
    thing = {"protein": "sequences", "image": "pictures", "table": "rows", "returns": "scenarios"}[kind]
    text = "".join(parsed.text)
    assert f"40 new {thing} from 24 stored" in text
    assert "New 1" in text or kind == "image"
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
    assert made.SCRIPT in "".join(parsed.text)  # it is there, as text
    assert "url(" not in reports[kind]
    assert "\x00" not in reports[kind]


@pytest.mark.parametrize("kind", made.KINDS)
def test_same_arguments_same_bytes(reports, kind):
    plan = pipeline.plan(made.codec(kind))
    again = report.build(plan, made.drawn(plan, 40), source=made.SOURCE, seed=1)
    assert again.encode() == reports[kind].encode()


@pytest.mark.parametrize(
    ("kind", "K", "n"), [("protein", 3, 3), ("image", 3, 3), ("table", 3, 3), ("returns", 3, 3), ("table", 24, 1)]
)
def test_few_items(kind, K, n):
    plan = pipeline.plan(made.codec(kind, K=K))
    text = report.build(plan, made.drawn(plan, n), source="x")
    assert ("as far as 3 can tell" if n == 3 else "as far as one can tell") in text
    assert "judged from 30 items on" in text


@pytest.mark.parametrize("kind", ["protein", "image", "table"])
def test_two_stored_items(kind):
    plan = pipeline.plan(made.codec(kind, K=2))
    assert "Membership was not tested" in report.build(plan, made.drawn(plan, 5), source="x")


def test_a_hundred_thousand_items_are_measured_on_some(monkeypatch):
    plan = pipeline.plan(made.codec("table"))
    text = report.build(plan, made.drawn(plan, 100_000), source="x")
    assert "Measured on 5,000 of the 100,000" in text
    assert "Measured on 20,000 of the 100,000" in text
    assert "2,000 of 100,000 new and all 24 stored" in text
    assert len(text) < 5_000_000


def test_copies_are_called_copies():
    plan = pipeline.plan(made.codec("protein"), beta=1e6)
    text = report.build(plan, made.drawn(plan, 50), source="x")
    assert "<title>50 new sequences: These are close to copies, and they give away their sources</title>" in text
    assert "100\u00a0% equal a stored item in every value" in text


def test_noise_is_called_noise():
    codec = ProteinCodec.fit(made.sequences(np.random.default_rng(0), 60), [str(i) for i in range(60)])
    noise = np.random.default_rng(1).integers(0, 20, (200, 30)).astype(np.uint8)
    found = verdict(measure(pipeline.plan(codec), noise, seed=0, progress=False))
    assert found.headline.startswith("Mostly noise")
    assert found.tone == "bad"


def test_one_item_repeated_is_too_much_alike():
    codec = ProteinCodec.fit(made.sequences(np.random.default_rng(0), 60), [str(i) for i in range(60)])
    item = made.sequences(np.random.default_rng(9), 1).repeat(100, axis=0)
    found = verdict(measure(pipeline.plan(codec), item, seed=0, progress=False))
    assert found.headline.startswith("Too much alike")


def test_fresh_draws_of_the_source_are_new_and_faithful():
    rng = np.random.default_rng(2)
    mixing = np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 1.0]])
    stored, fresh = (pd.DataFrame(rng.normal(size=(300, 2)) @ mixing, columns=list("abc")) for _ in range(2))
    plan = pipeline.plan(TableCodec.fit(stored), beta=1e-3)  # at which draws tell nothing of their sources
    found = verdict(measure(plan, fresh, seed=0, progress=False))
    assert (found.headline, found.tone) == ("New and faithful", "good")


def test_shuffled_columns_have_lost_what_goes_together():
    rng = np.random.default_rng(3)
    stored, fresh = (pd.DataFrame(rng.normal(size=(300, 1)) + 0.1 * rng.normal(size=(300, 4))) for _ in range(2))
    stored.columns = fresh.columns = list("abcd")
    fresh = fresh.apply(lambda column: rng.permutation(column))
    found = verdict(measure(pipeline.plan(TableCodec.fit(stored), beta=1e-3), fresh, seed=0, progress=False))
    assert "correlation error" in found.checks[6].finding
    assert found.checks[6].passed is False
    assert found.tone == "bad"


def test_conditioned_draws_are_not_judged_by_their_distribution():
    plan = pipeline.plan(made.codec("table"), fix=["whole=40"])
    found = measure(plan, made.drawn(plan, 40), seed=0, progress=False)
    assert found.conditioned
    assert [check.passed for check in verdict(found).checks[4:7]] == [None, None, None]
    assert not measure(pipeline.plan(made.codec("table")), made.drawn(plan, 40), seed=0, progress=False).conditioned


def test_parts_beyond_sixty_are_counted():
    rng = np.random.default_rng(4)
    plan = pipeline.plan(ProteinCodec.fit(made.sequences(rng, 12, 75), [str(i) for i in range(12)]))
    text = report.build(plan, made.drawn(plan, 30), source="x")
    assert "15 more with smaller distances are left out" in text
    assert len(re.findall('class="bar"', text)) == 60


def test_residues_that_differ_are_marked():
    codec = made.codec("protein")
    new = codec.stored[:1].copy()
    new[0, 7] = (new[0, 7] + 1) % 20
    text = report.build(pipeline.plan(codec), new, source="x")
    marked = re.findall("<mark>(.)</mark>", text)
    assert marked == [("ACDEFGHIKLMNPQRSTVWY")[new[0, 7]]]


def test_settings_come_from_the_run_where_it_is_known():
    plan = pipeline.plan(made.codec("table"), novelty=0.3)
    facts = {
        "version": "9.9",
        "seed": 17,
        "sampler": "exact",
        "novelty": 0.301,
        "options": {
            "novelty": 0.3,
            "keep": ["it's"],
            "reading": {"as_": "table", "columns": ["a=category"], "whiten": False},
        },
    }
    items = made.drawn(plan, 3)
    text = "".join(Parsed(report.build(plan, items, source="a b.csv", samples="new.csv", facts=facts)).text)
    assert "stochattn 9.9" in text
    assert (
        "stochattn sample 'a b.csv' -n 3 --novelty 0.3 --keep 'it'\"'\"'s' --as table --column a=category --no-whiten "
        "--seed 17 -o new.csv" in text
    )
    unknown = "".join(Parsed(report.build(plan, items, source="a b.csv", samples="new.csv")).text)
    assert "not known: no summary lies beside the samples" in unknown
    assert "stochattn report 'a b.csv' new.csv" in unknown


def test_warning_follows_the_limit(monkeypatch):
    plan = pipeline.plan(made.codec("table"))
    items = made.drawn(plan, 40)
    for auc, warned in ((0.61, True), (0.6, False)):
        half = Half(Judgement(0.5, 1.0, 0.01, 0.5, 0.5), auc, (), ())
        monkeypatch.setattr(evidence, "half_splits", lambda *_, half=half: HalfSplits((half,) * 5, 24))
        text = report.build(plan, items, source="x")
        assert ("Samples give away their sources" in text) is warned
        assert ("they give away their sources" in text) is warned


def test_no_items_is_an_error():
    plan = pipeline.plan(made.codec("protein"))
    with pytest.raises(ValueError, match="at least one new item"):
        report.build(plan, np.empty((0, 30), dtype=np.uint8), source="x")


def test_text_is_escaped_and_cut():
    assert page.text('<a href="x">\'&') == "&lt;a href=&quot;x&quot;&gt;&#x27;&amp;"
    assert page.text("abcdef", most=4) == "abc…"
    assert page.text("a\x00b\x1b\udc80") == "a\ufffdb\ufffd?"
    assert page.tag("b", "<i>", page.Html("<i>")) == "<b>&lt;i&gt;<i></b>"
    assert page.tag("p", class_='"x') == '<p class="&quot;x"></p>'


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0"), (0.12345, "0.123"), (12.345, "12.3"), (1234.5, "1,234"), (1e-5, "1e-05"), (None, "–"), (np.nan, "–")],
)
def test_numbers(value, expected):
    assert page.number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0 %"), (0.0004, "< 0.1 %"), (0.0125, "1.2 %"), (0.5, "50 %"), (0.995, "99.5 %"), (0.99999, "> 99.9 %")],
)
def test_shares(value, expected):
    assert page.share(value) == expected.replace(" %", "\u00a0%")


def judged(**changed):
    """The verdict on faithful draws with some of the measurements replaced."""
    stored = np.random.default_rng(0).standard_normal((60, 3))
    codec = TableCodec.fit(pd.DataFrame(stored, columns=list("abc")))
    fresh = pd.DataFrame(np.random.default_rng(1).standard_normal((60, 3)), columns=list("abc"))
    found = measure(pipeline.plan(codec), fresh, seed=0, progress=False)
    return verdict(replace(found, **changed))


@pytest.mark.parametrize(("share", "headline"), [(0.2, "close to copies"), (0.4, "Close variants"), (0.6, "New and")])
def test_distances_decide_between_copies_variants_and_new(share, headline):
    """Limits are a quarter and a half of the distance between stored items."""
    ten = np.full(50, 10.0)
    found = judged(near=Closeness(share * ten, ten), apart=Closeness(ten, ten))
    assert headline in found.headline


@pytest.mark.parametrize(("copies", "headline"), [(0.2, "close to copies"), (0.05, "some copies"), (0.0, "New and")])
def test_exact_copies_are_few_or_many(copies, headline):
    assert headline in judged(copies=copies).headline


def test_what_is_far_is_measured_by_the_stored_items_own_distances():
    """Of stored distances 1 … 100 the 95th percentile is 95.05: 60 of 100 new ones beyond it are noise, 40 are not."""
    apart = Closeness(np.arange(1.0, 101.0), np.ones(100))
    for beyond, noise in ((60, True), (40, False)):
        near = Closeness(np.r_[np.full(beyond, 96.0), np.full(100 - beyond, 94.0)], np.ones(100))
        assert ("Mostly noise" in judged(near=near, apart=apart).headline) is noise


def half(closer=0.5, auc=0.5, value=1.0):
    measures = tuple((Measure("pairs", v, 1.0, "of pairs"),) for v in (value, 0.9))
    return Half(Judgement(closer, 1.0, 0.01, 0.6, 0.4), auc, *measures)


def test_leaning_on_the_stored_ones_is_told(monkeypatch):
    plan = pipeline.plan(made.codec("table"))
    items = made.drawn(plan, 40)
    for closer, expected in ((0.99, "Stored ones with noise"), (0.97, "New and faithful")):
        monkeypatch.setattr(evidence, "half_splits", lambda *_, c=closer: HalfSplits((half(c),) * 5, 24))
        found = measure(plan, items, seed=0, progress=False)
        found = replace(found, copies=0.0, comparison=found.redrawn, near=found.apart)
        assert verdict(found).headline == expected
        unknown = replace(found, made_so=False)
        assert verdict(unknown).headline == "New and faithful"


def test_held_out_figures_are_means_over_splits():
    splits = HalfSplits((half(0.4, value=1.0), half(0.8, value=3.0)), 24, draws=7)
    text = "".join(Parsed(held_out(pipeline.plan(made.codec("table")), splits)).text)
    assert "24 of 24 stored items were split in halves 2 times" in text
    assert re.search(r"nearer to their own half.*?0\.60 ± 0\.28\s*1\.00\s*0\.500", text, re.DOTALL)
    assert re.search(r"pairs.*?2\.00 ± 1\.41\s*0\.90 ± 0\s*1\.00", text, re.DOTALL)
    lacking = "".join(Parsed(held_out(pipeline.plan(made.codec("table")), HalfSplits((), 3, "too few"))).text)
    assert "Nothing could be held out: too few." in lacking


def test_days_of_overlapping_windows_are_no_twins():
    rng = np.random.default_rng(0)
    codec = ReturnsCodec.fit(0.01 * rng.standard_t(4, (60, 3)), list("abc"), window=5)
    plan = pipeline.plan(codec)
    found = measure(plan, made.drawn(plan, 40), seed=0, progress=False)
    assert found.twins == 0
    assert len(found.apart.distance) == 60
    assert 0.5 < found.nearness < 2
