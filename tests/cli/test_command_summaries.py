"""Summaries next to results, and reports that use a summary."""

import html
import json
import re
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pytest

import stochattn as sa
from command_runner import refused, works
from made_items import write_table
from stochattn.cli import commands
from stochattn.cli.commands import Request
from stochattn.cli.options import KindOptions
from stochattn.kinds.registry import kind_names, kind_of
from stochattn.kinds.summary import RunSummary, read_summary
from stochattn.kinds.tables.generator import covariance
from stochattn.synthesizer.writing import write_samples


@pytest.mark.slow
@pytest.mark.usefixtures("unrendered_figures")
def test_reports_trust_a_summary_only_if_it_is_of_these_samples(inputs, tmp_path):
    out = tmp_path / "a.csv"
    works("sample", inputs["table"], "-n", 30, "--beta", 3, "--seed", 8, "--condition", "age=40", "-o", out)
    page = tmp_path / "a.html"
    works("report", inputs["table"], out, "--quick")
    text = page.read_text()
    assert "age=40" in text
    assert "--seed 8" in text
    assert "--beta: the summary beside" in refused("report", inputs["table"], out, "--beta", 5)
    assert "-n is for reports" in refused("report", inputs["table"], out, "-n", 5)
    other = write_table(tmp_path / "others.csv", seed=3)
    result = works("report", other, out, "--quick")
    assert "was made from other data than" in result.stderr
    (tmp_path / "a.csv.json").write_text('{"beta": "x", "options": []}')
    assert "is not a summary that this version can read" in works("report", inputs["table"], out, "--quick").stderr


def test_samples_that_do_not_fit_their_summary_are_refused(inputs, tmp_path):
    out = tmp_path / "a.csv"
    works("sample", inputs["table"], "-n", 30, "-o", out)
    content = out.read_bytes()
    out.write_bytes(content[:-2] + b"9\n")  # as long as before
    said = refused("report", inputs["table"], out)
    assert f"{out} is not what its summary {out}.json was written for" in said
    assert f"generate it again, or delete {out}.json" in said
    out.write_bytes(content)
    folder = tmp_path / "new"
    works("sample", inputs["image"], "-n", 3, "-o", folder)
    assert read_summary(folder).fits(folder)
    (folder / "new-000001.png").rename(folder / "new-000004.png")
    assert f"generate it again, or delete {folder}/_summary.json" in refused("report", inputs["image"], folder)


@pytest.mark.parametrize("kind", ["table", "image"])
def test_a_renamed_or_moved_input_is_recognised_by_its_content(inputs, kind, tmp_path):
    source, out = tmp_path / inputs[kind].name, tmp_path / {"table": "a.csv", "image": "a.npz"}[kind]
    copy = shutil.copytree if inputs[kind].is_dir() else shutil.copy
    copy(inputs[kind], source)
    works("sample", source, "-n", 30, "--beta", 3, "--seed", 8, "-o", out)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = source.rename(elsewhere / f"other{source.suffix}")
    assert commands._find_summary(out, moved).seed == 8
    changed = next(file for file in [moved, *sorted(moved.rglob("*.*"))] if file.is_file())
    changed.write_bytes(changed.read_bytes() + b"\n")
    assert commands._find_summary(out, moved) is None


def test_reports_fit_the_synthesizer_of_the_samples_again(inputs, tmp_path):
    asked = ("--subset", "group=red", "--weight", "smoker=True:3", "--condition", "age=40", "--beta", 3)
    works("sample", inputs["table"], "-n", 5, *asked, "-o", tmp_path / "a.csv")
    options = KindOptions.of([kind_of(name) for name in kind_names()])
    summary = read_summary(tmp_path / "a.csv")
    again = Request(options, inputs["table"], kind_of(summary.kind), summary.generator, summary).synthesizer()
    stored = sa.fit(inputs["table"]).codec.stored
    first = sa.fit(inputs["table"], beta=3.0).subset(np.asarray(stored["group"] == "red"))
    first = first.weight(3.0, np.asarray(stored["smoker"].astype(str) == "True")).condition(age=40)
    assert dict(again.conditions) == {"age": 40}
    np.testing.assert_array_equal(again.weights, first.weights)
    assert (again.weights == 0).any()
    assert (again.weights == 3).any()
    np.testing.assert_allclose(again.generator.source_probabilities(), first.generator.source_probabilities())


def test_summaries_of_version_0_1_with_a_former_name_of_an_option_are_understood(tmp_path):
    images, new = tmp_path / "images.npz", tmp_path / "new.npz"
    np.savez(images, images=np.random.default_rng(0).integers(0, 256, (12, 8, 8), dtype=np.uint8))
    works("sample", images, "-n", 3, "--color", "--generator", "gaussian", "-o", new)
    summary, options = read_summary(new), KindOptions.of([kind_of(name) for name in kind_names()])
    former = replace(summary, options={"colour": True})
    request = commands._restore_request(Request.of(options, images, {}), former, new, None)
    assert request.asked.options == {"color": True}
    assert request.synthesizer().codec.shape == (8, 8, 3)


@pytest.mark.slow
@pytest.mark.usefixtures("unrendered_figures")
def test_reports_repeat_the_command_that_made_the_samples(inputs, tmp_path):
    out = tmp_path / "a.csv"
    words = ("--norm", "restored", "--column", "age=numeric", "--no-whiten", "--subset", "group=red", "--novelty", 0.1)
    works("sample", inputs["table"], "-n", 30, *words, "--seed", 8, "-o", out)
    first = out.read_bytes()
    works("report", inputs["table"], out)
    shown = html.unescape(re.search(r"<pre>(stochattn sample .*?)</pre>", (tmp_path / "a.html").read_text()).group(1))
    assert "--novelty 0.1" in shown
    works(*shlex.split(shown)[1:])
    assert out.read_bytes() == first


@pytest.mark.usefixtures("unrendered_figures")
def test_a_summary_that_a_python_program_wrote_is_not_enough_to_repeat_it(inputs, tmp_path):
    out = tmp_path / "a.csv"
    sa.fit(inputs["table"], beta=3.0).subset([0, 1, 2, 3]).write(out, 30, rng=0)
    assert not read_summary(out).recorded
    result = works("report", inputs["table"], out)
    assert "note: " in result.stderr
    assert "was written by a Python program" in result.stderr


def test_summaries_contain_shares_and_copies(inputs, tmp_path):
    summary = write_samples(sa.fit(inputs["image"], beta=1e9), 200, 0, str(tmp_path / "new.npz"))
    assert summary.copies == 1
    assert summary.novelty == pytest.approx(0, abs=1e-6)
    assert sum(one.share for one in summary.classes.values()) == pytest.approx(1)
    assert np.isclose(sum(one.predicted for one in summary.classes.values()), 1)


def test_a_summary_is_saved_as_json_and_read_back(inputs, tmp_path):
    out = tmp_path / "a.csv"
    works("sample", inputs["table"], "-n", 9, "--range", "age=0:120", "--beta", 3, "--no-whiten", "-o", out)
    summary = read_summary(out)
    assert summary.options == {"ranges": ["age=0:120"], "beta": 3.0, "whiten": False}
    assert RunSummary.from_json(summary.to_json()) == summary
    for content in ("[]", "{}", summary.to_json().replace('"n": 9', '"n": "nine"')):
        with pytest.raises(ValueError, match=r"summary|n must be"):
            RunSummary.from_json(content)


@pytest.mark.usefixtures("unrendered_figures")
def test_the_summary_of_a_file_has_its_size_and_those_of_folders_and_streams_have_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("matrix.npy", rng.normal(size=(30, 2)))
    synth = sa.fit("matrix.npy")
    file, folder, stream = (
        write_samples(synth, 5, 0, out, format) for out, format in (("a.npy", None), ("a.zarr", None), ("-", "csv"))
    )
    assert file.bytes == (tmp_path / "a.npy").stat().st_size
    assert (folder.bytes, stream.bytes, stream.sha256) == (None, None, None)
    assert file.fits("a.npy")
    (tmp_path / "a.npy").write_bytes(b"other")
    assert not file.fits("a.npy")


def test_a_quick_report_prints_its_verdict_as_json(inputs, tmp_path):
    new = tmp_path / "new.csv"
    works("sample", inputs["table"], "-n", 60, "-o", new)
    done = works("report", inputs["table"], new, "--quick", "--json")
    values = json.loads(done.stdout)
    assert values["tone"] in ("good", "fair", "bad")
    assert f"{values['headline']}. " in done.stderr
    summary = json.loads((tmp_path / "new.csv.json").read_text())
    assert set(summary["resolved"]) == {"width", "classes"}


@pytest.mark.usefixtures("unrendered_figures")
@pytest.mark.parametrize(("kind", "ending"), [("table", "csv"), ("returns", "csv"), ("protein", "fasta")])
def test_summaries_and_reports_count_the_same_near_copies(inputs, tmp_path, kind, ending):
    """Of returns these are days, of which any window copies some: as windows, all of them were near-copies."""
    new = tmp_path / f"new.{ending}"
    works("sample", inputs[kind], "-n", 60, "-o", new)
    values = json.loads(works("report", inputs[kind], new, "--quick", "--json").stdout)
    summary = json.loads((tmp_path / f"new.{ending}.json").read_text())
    assert summary["near_copies"] == pytest.approx(values["near_copies"], abs=1e-3)
    assert summary["near_copies"] < 0.5


@pytest.mark.usefixtures("unrendered_figures")
def test_a_report_does_not_search_again_for_the_settings_of_a_summary(inputs, tmp_path, monkeypatch):
    new, searched = tmp_path / "new.csv", []
    works("sample", inputs["table"], "-n", 60, "-o", new)
    search = covariance._search
    monkeypatch.setattr(covariance, "_search", lambda rows: searched.append(len(rows)) or search(rows))
    works("report", inputs["table"], new)
    assert searched == [read_summary(new).stored // 2] * 5  # of the halves, which are fitted afresh
    assert "as recorded by the run that made them" in new.with_suffix(".html").read_text()


def test_a_summary_names_the_generator_that_drew_under_conditions(inputs, tmp_path):
    for given, used in (((), "deformations"), (("--condition", "2,2=100"), "patches")):
        done = works("sample", inputs["image"], "-n", 2, *given, "-o", tmp_path / f"{used}.npz")
        instead = " (instead of deformations, because of the conditions)" if given else ""
        assert f"\ngenerator {used}{instead}: " in done.stderr
        written = json.loads(str(np.load(tmp_path / f"{used}.npz")["settings"]))
        assert written["generator"] == used


def test_a_summary_has_the_temperature_and_what_is_measured_of_its_kind(inputs, tmp_path):
    works("sample", inputs["protein"], "-n", 8, "--generator", "hopfield", "--beta", 7.5, "-o", tmp_path / "new.fasta")
    summary = json.loads((tmp_path / "new.fasta.json").read_text())
    assert (summary["beta"], summary["rule"]) == (7.5, "given")
    assert summary["figures"]
    assert all(isinstance(value, float) for value in summary["figures"].values())
