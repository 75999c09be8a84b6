"""A kind whose items are a tuple of strings, and which defines no more than it must, does all that others do."""

import numpy as np
import pytest
from molecules import KIND, molecules

import stochattn as sa
from stochattn.kinds import register_kind, registry
from stochattn.kinds.registry import read_new
from stochattn.kinds.summary import read_summary


@pytest.fixture(autouse=True)
def _registered():
    register_kind(KIND)
    yield
    registry._REGISTERED.pop("molecule")


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "alcohols.smi"
    file.write_text("\n".join(molecules()))
    return file


@pytest.mark.parametrize("generator", ["hopfield", "gaussian"])
def test_a_condition_is_met_without_help_of_decode(path, generator):
    synth = sa.fit(path, generator=generator)
    new = synth.condition(length=6).sample(50, rng=0)
    assert {len(text) for text in new} == {6}
    assert len({len(text) for text in synth.sample(50, rng=0)}) > 1
    assert synth.condition(synth.kind.parse_condition(synth.codec, ["length = 5"])).sample(1, rng=0) != new[:1]


def test_options_of_the_generator_reach_it(path):
    assert sa.fit(path, beta=30.0).describe().temperature.beta == 30.0
    assert sa.fit(path, novelty=0.1).predicted_novelty() == pytest.approx(0.1, abs=1e-3)
    assert sa.fit(path, sampler="ula").describe().sampler == "ula"
    assert sa.fit(path, variance=0.5).generator.bank.d < sa.fit(path).generator.bank.d


def test_items_in_tuples_are_saved_written_read_and_measured(path, tmp_path, monkeypatch):
    monkeypatch.setattr("stochattn.synthesizer.drawing.BLOCK", 7)
    synth = sa.fit(path)
    new = synth.sample(20, rng=1)  # three blocks
    assert isinstance(new, tuple)
    synth.save(tmp_path / "a.synth")
    assert sa.load(tmp_path / "a.synth").sample(20, rng=1) == new
    summary = synth.write(tmp_path / "new.smi", 20, rng=1)
    assert summary == read_summary(tmp_path / "new.smi")
    assert read_new(synth.kind, synth.codec, tmp_path / "new.smi") == new
    assert synth.subset(np.arange(5)).kept.tolist() == [0, 1, 2, 3, 4]
    assert sa.fit(molecules()).codec == synth.codec  # of texts in memory


def test_files_of_one_folder_may_have_other_letters_and_lengths(tmp_path):
    parts, whole = tmp_path / "parts.smi", tmp_path / "whole.smi"
    parts.mkdir()
    for number, texts in enumerate(("CCO CC CCC", "CCNCCN NC CO")):
        (parts / f"part-{number:05}.smi").write_text(texts)
    whole.write_text("CCO CC CCC CCNCCN NC CO")
    assert sa.fit(parts).codec == sa.fit(whole).codec
    assert len(sa.fit(parts).sample(3, rng=0)) == 3


@pytest.mark.slow
@pytest.mark.usefixtures("unrendered_figures")
def test_a_report_is_made(path, tmp_path):
    page = sa.fit(path).report(tmp_path / "page.html", n=30, quick=True).read_text("utf-8")
    assert "30 new molecules" in page
