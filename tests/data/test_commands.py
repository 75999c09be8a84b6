"""The command line as a user meets it: files to files, summaries, help, exit codes, and bad input in one line."""

import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from made_items import family, table, write_all, write_fasta, write_table
from typer.testing import CliRunner

from stochattn import outputs, pipeline
from stochattn.cli import app, reporting
from stochattn.data.proteins.writers import FastaWriter
from stochattn.data.legacy_registry import read

KINDS = {"protein": "new.fasta", "image": "new.npz", "table": "new.csv", "returns": "new.csv"}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("inputs"))


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def works(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


def refused(*words, code=2):
    """The one line of an error."""
    result = run(*words)
    assert result.exit_code == code, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    assert "Traceback" not in result.output
    return lines[0]


@pytest.mark.parametrize("kind", KINDS)
def test_new_items_of_the_same_kind_with_a_summary(inputs, kind, tmp_path):
    out = tmp_path / KINDS[kind]
    result = works("sample", inputs[kind], "-n", 25, "--seed", 7, "-o", out)
    facts = json.loads((tmp_path / f"{out.name}.json").read_text())
    assert (facts["n"], facts["seed"], facts["kind"], facts["rule"]) == (25, 7, kind, "natural")
    assert len(read(inputs[kind]).read_new(out)) == 25
    assert "25 new from" in result.stderr
    own = kind in ("protein", "image", "table")
    assert facts["target"] == ("native" if own else "paper")
    assert facts["novelty_predicted"] is None if own else abs(facts["novelty"] - facts["novelty_predicted"]) < 0.1
    assert result.stdout == ""


def test_json_is_the_summary_on_standard_output(inputs, tmp_path):
    result = works("sample", inputs["table"], "-n", 10, "--novelty", 0.1, "--json", "-o", tmp_path / "a.csv")
    facts = json.loads(result.stdout)
    assert facts["options"]["novelty"] == 0.1
    assert facts == json.loads((tmp_path / "a.csv.json").read_text())
    assert "--json and -o -" in refused("sample", inputs["table"], "--json", "-o", "-")


@pytest.mark.parametrize(
    ("kind", "begin"), [("protein", b">new-1 "), ("table", b"height,age,"), ("returns", b"scenario,")]
)
def test_standard_output(inputs, kind, begin):
    result = works("sample", inputs[kind], "-n", 3, "-o", "-")
    assert result.stdout_bytes.startswith(begin)


def test_the_same_command_gives_the_same_bytes(inputs, tmp_path):
    for name in ("a.fasta", "b.fasta"):
        works("sample", inputs["protein"], "-n", 50, "--novelty", 0.3, "--seed", 5, "-o", tmp_path / name)
    assert (tmp_path / "a.fasta").read_bytes() == (tmp_path / "b.fasta").read_bytes()


def test_conditions_reach_the_draws(inputs, tmp_path):
    out = tmp_path / "a.csv"
    works("sample", inputs["table"], "-n", 50, "--keep", "group=red", "--fix", "age=40", "-o", out)
    new = read(inputs["table"]).read_new(out)
    assert (new["age"] == 40).all()
    facts = json.loads((tmp_path / "a.csv.json").read_text())
    assert facts["classes"]["red"]["share"] == pytest.approx((new["group"] == "red").mean())
    assert facts["classes"]["red"]["predicted"] > 0.9  # noise changes the class of a few


def test_scores_are_in_the_headers(inputs, tmp_path):
    works("sample", inputs["protein"], "-n", 5, "--novelty", 0.1, "--score", "-o", tmp_path / "a.fasta")
    for line in (tmp_path / "a.fasta").read_text().splitlines()[::2]:
        assert re.search(r" identity=\d\.\d+ score=-?[\d.]+ evalue=[\d.e-]+$", line), line


def test_the_native_sampler_is_the_default_and_the_paper_s_one_option_away(inputs, tmp_path):
    out = tmp_path / "a.fasta"
    works("sample", inputs["protein"], "-n", 5, "-o", out)
    assert "sampler=native" in out.read_text()
    for words in (("--target", "paper"), ("--beta", 8), ("--novelty", 0.2), ("--norm", "paper"), ("--sampler", "mala")):
        works("sample", inputs["protein"], "-n", 5, *words, "-o", out)
        assert " beta=" in out.read_text()
    assert "is for p_beta" in refused("sample", inputs["protein"], "--target", "native", "--beta", 8, "-o", out)
    said = refused("sample", inputs["image"], "--target", "native", "--norm", "paper", "-o", tmp_path / "a.npz")
    assert "about the rows" in said
    assert "target must be one of" in refused("sample", inputs["image"], "--target", "best", "-o", tmp_path / "a.npz")


def test_streams_write_the_same_and_refuse_what_is_collected(inputs, tmp_path):
    works("sample", inputs["protein"], "-n", 30, "-o", tmp_path / "a.fasta")
    works("sample", inputs["protein"], "-n", 30, "--stream", "-o", tmp_path / "b.fasta")
    assert (tmp_path / "a.fasta").read_bytes() == (tmp_path / "b.fasta").read_bytes()
    assert "--stream cannot write npz" in refused("sample", inputs["image"], "--stream", "-o", tmp_path / "a.npz")


@pytest.mark.parametrize("kind", KINDS)
def test_inspect_names_every_rule(inputs, kind, tmp_path):
    result = works("inspect", inputs[kind], "--png", tmp_path / "a.png")
    for word in ("stored", "natural", "inflection", "knee", "leave-one-out", "entropy"):
        assert word in result.stdout
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_inspect_as_json(inputs):
    facts = json.loads(works("inspect", inputs["table"], "--json").stdout)
    assert facts["K"] == 40
    groups = table()["group"].tolist()
    assert facts["classes"] == {name: groups.count(name) for name in ("blue", "green", "red")}
    assert facts["columns"]["seen"] == "date"
    assert facts["columns"]["smoker"] == "boolean"
    assert facts["loss"]["items"] == 1
    assert facts["rules"]["natural"]["beta"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_of_samples_and_one_without(inputs, kind, tmp_path):
    out = tmp_path / KINDS[kind]
    works("sample", inputs[kind], "-n", 25, "-o", out)
    works("report", inputs[kind], out, "-o", tmp_path / "a.html")
    works("report", inputs[kind], "-n", 25, "-o", tmp_path / "b.html")
    for name in ("a.html", "b.html"):
        assert (tmp_path / name).read_text("utf-8").startswith("<!doctype html>")


def test_the_demo_makes_samples_and_a_page(tmp_path):
    works("demo", "-o", tmp_path / "demo")
    assert (tmp_path / "demo" / "new" / "contact-sheet.png").exists()
    assert (tmp_path / "demo" / "report.html").stat().st_size > 50_000


EXAMPLES = [
    line.strip()
    for command in ("sample", "inspect", "report")
    for line in CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).stdout.splitlines()
    if line.strip().startswith("stochattn ")
]


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_of_the_help_run(line, inputs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stand_in = {"family.sto": "protein", "faces/": "image", "patients.csv": "table", "prices.csv": "returns"}
    words = shlex.split(line)[1:]
    if "new.fasta" in words and words[0] == "report":
        works("sample", inputs["protein"], "-n", 20, "-o", "new.fasta")
    words = [str(inputs[stand_in[word]]) if word in stand_in else "lying" if word == "anna" else word for word in words]
    works(*words)


def test_there_are_examples():
    assert len(EXAMPLES) >= 8


def test_help_teaches_every_command():
    text = works("--help").stdout
    for word in ("sample", "inspect", "report", "demo"):
        assert word in text
    assert re.match(r"stochattn \d", works("--version").stdout)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.sto", "-o", "a.fasta"), "none.sto does not exist"),
        (("FAMILY", "-o", "a.xyz"), "the ending must say the format"),
        (("FAMILY", "-o", "a.fasta", "--format", "png"), "--format must be one of fasta, stockholm"),
        (("FAMILY", "-o", "a.fasta", "--window", "3"), "--window is for returns"),
        (("FAMILY", "-o", "a.fasta", "--as", "music"), "--as must be one of"),
        (("FAMILY", "-o", "a.fasta", "--rule", "best"), "'best'"),
        (("FAMILY", "-o", "a.fasta", "--sampler", "gibbs"), "sampler must be one of"),
        (("FAMILY", "-o", "a.fasta", "--beta", "-1"), "beta must be a positive"),
        (("FAMILY", "-o", "a.fasta", "--novelty", "0.99"), "out of reach"),
        (("FAMILY", "-o", "a.fasta", "--norm", "best"), "norm must be one of"),
        (("FAMILY", "-o", "a.fasta", "--fix", "3=W9"), "must name a column and a residue"),
        (("FAMILY", "-o", "a.fasta", "--hmm", "none.hmm"), "none.hmm is no profile HMM"),
        (("TABLE", "-o", "a.csv", "--score"), "--score and --hmm are for proteins"),
        (("TABLE", "-o", "a.csv", "--column", "age"), "--column 'age' must be a name and a value"),
        (("TABLE", "-o", "a.csv", "--range", "age=x:y"), "--range 'age=x:y' must be"),
        (("TABLE", "-o", "a.csv", "--keep", "purple"), "matches none"),
        (("TABLE", "-o", "a.csv", "--fix", "group=purple"), "purple"),
        (("TABLE", "-o", "a.csv", "--fix", "nothing=1"), "nothing"),
        (("PRICES", "-o", "a.csv", "--fix", "NONE=0.1"), "NONE"),
        (("FACES", "-o", "-", "--format", "png"), "standard output cannot take"),
    ],
)
def test_wrong_use_is_one_line(inputs, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"FAMILY": "protein", "TABLE": "table", "PRICES": "returns", "FACES": "image"}
    assert said in refused("sample", *(inputs[names[word]] if word in names else word for word in words))
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_is_said_before_any_work(inputs, tmp_path):
    (tmp_path / "file").touch()
    assert "cannot be written" in refused("sample", inputs["table"], "-o", tmp_path / "file" / "a.csv")
    assert "is a folder" in refused("sample", inputs["protein"], "--format", "fasta", "-o", tmp_path)
    out = tmp_path / "full"
    works("sample", inputs["image"], "-n", 3, "-o", out)
    assert "not an empty folder" in refused("sample", inputs["image"], "-o", out)
    works("sample", inputs["image"], "-n", 2, "--replace", "-o", out)
    assert not (out / "new-000003.png").exists()
    (out / "new-000007.png").write_text("mine")  # the earlier run made two
    assert "'new-000007.png', which was not written here" in refused("sample", inputs["image"], "--replace", "-o", out)
    (out / "new-000007.png").unlink()
    (out / "thesis.tex").write_text("mine")
    assert "'thesis.tex', which was not written here" in refused("sample", inputs["image"], "--replace", "-o", out)
    assert (out / "thesis.tex").read_text() == "mine"


def test_a_history_that_was_read_as_a_table_is_pointed_out(tmp_path):
    days = [f"2024-01-{day:02d}" for day in range(1, 13)]
    (tmp_path / "one.csv").write_text("date,AAA\n" + "".join(f"{day},{100 + i % 5}\n" for i, day in enumerate(days)))
    rows = "".join(f"{day},{100 + i % 5},{'n/a?' if i == 4 else 90 + i}\n" for i, day in enumerate(days))
    (tmp_path / "odd.csv").write_text(f"date,AAA,BBB\n{rows}")
    for name in ("one.csv", "odd.csv"):
        told = works("sample", tmp_path / name, "-n", 3, "-o", tmp_path / "new.csv").stderr
        assert "If it is a price history, pass --as prices." in told
        asked = run("sample", tmp_path / name, "--as", "table", "-n", 3, "-o", tmp_path / "new.csv").stderr
        assert "price history" not in asked


def test_few_stored_items_are_called_few(tmp_path):
    write_fasta(tmp_path / "few.fasta", family(K=6))
    told = works("sample", tmp_path / "few.fasta", "-n", 3, "-o", tmp_path / "new.fasta").stderr
    assert "note: only 6 stored items count" in told


def test_how_many_are_kept_is_said(inputs, tmp_path):
    told = works("sample", inputs["table"], "-n", 3, "--keep", "group=red", "-o", tmp_path / "new.csv").stderr
    assert re.match(r"3 new from \d+ of 40 stored", told)


def test_the_input_is_never_the_output(inputs, tmp_path):
    source = write_table(tmp_path / "patients.csv")
    before = source.read_bytes()
    (tmp_path / "link.csv").symlink_to(source)
    for out in (source, tmp_path / "link.csv", tmp_path / "." / "patients.csv"):
        assert "is the input" in refused("sample", source, "-o", out)
    assert "must end in .html" in refused("report", source, "-o", source)
    (tmp_path / "page.html").symlink_to(source)
    assert "is what the report is about" in refused("report", source, "-o", tmp_path / "page.html")
    assert source.read_bytes() == before
    faces = inputs["image"]
    for out in (faces, faces / "lying", faces.parent, faces / "lying" / ".."):
        assert "is the input, or holds it, or lies in it" in refused(
            "sample", faces, "--replace", "--format", "png", "-o", out
        )


def test_a_file_that_is_no_summary_is_not_replaced_by_one(inputs, tmp_path):
    (tmp_path / "a.csv.json").write_text("{}")
    assert "which is no summary" in refused("sample", inputs["table"], "-o", tmp_path / "a.csv")
    assert (tmp_path / "a.csv.json").read_text() == "{}"


def test_links_and_devices_stay_what_they_are(inputs, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    works("sample", inputs["table"], "-n", 3, "-o", tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("height,")
    works("sample", inputs["table"], "-n", 3, "--format", "csv", "-o", "/dev/null")
    assert not os.path.isfile("/dev/null")


def test_a_summary_that_cannot_be_written_leaves_everything_as_it_was(inputs, tmp_path, monkeypatch):
    out = tmp_path / "a.csv"
    works("sample", inputs["table"], "-n", 3, "-o", out)
    before = out.read_bytes(), (tmp_path / "a.csv.json").read_bytes()
    monkeypatch.setattr(outputs, "as_json", lambda *given, **options: "\ud800".encode().decode())
    run("sample", inputs["table"], "-n", 9, "-o", out)
    assert (out.read_bytes(), (tmp_path / "a.csv.json").read_bytes()) == before


def test_names_that_are_no_text_are_escaped_in_the_summary(tmp_path):
    source = write_table(tmp_path / "caf\udce9.csv")
    works("sample", source, "-n", 3, "-o", tmp_path / "a.csv")
    assert json.loads((tmp_path / "a.csv.json").read_text())["n"] == 3


def test_reports_trust_a_summary_only_if_it_is_of_these_samples(inputs, tmp_path):
    out = tmp_path / "a.csv"
    works("sample", inputs["table"], "-n", 30, "--beta", 3, "--seed", 8, "--fix", "age=40", "-o", out)
    page = tmp_path / "a.html"
    works("report", inputs["table"], out)
    text = page.read_text()
    assert "age=40" in text
    assert "--seed 8" in text
    assert "how " in refused("report", inputs["table"], out, "--beta", 5)
    assert "-n is for reports" in refused("report", inputs["table"], out, "-n", 5)
    other = write_table(tmp_path / "others.csv", seed=3)
    result = works("report", other, out)
    assert "was made from" in result.stderr
    out.write_bytes(out.read_bytes() + b"180.0,30,True,red,2021-03-01,1.0\n")
    assert "no summary of" in works("report", inputs["table"], out).stderr
    (tmp_path / "a.csv.json").write_text('{"beta": "x", "options": []}')
    works("report", inputs["table"], out)


def test_reports_plan_again_what_was_asked(inputs, tmp_path):
    asked = ("--keep", "group=red", "--weight", "smoker=True:3", "--fix", "age=40", "--beta", 3)
    works("sample", inputs["table"], "-n", 5, *asked, "-o", tmp_path / "a.csv")
    again = reporting._again(read(inputs["table"]), outputs.read_summary(str(tmp_path / "a.csv")))
    first = pipeline.plan(read(inputs["table"]), beta=3.0, keep=["group=red"], weight=["smoker=True:3"], fix=["age=40"])
    assert again.fixed == ("age=40",)
    np.testing.assert_allclose(again.mixture.log_weights, first.mixture.log_weights)
    assert np.isneginf(again.mixture.log_weights).any()


def test_one_option_sets_the_temperature(inputs, tmp_path):
    for words in (
        ("--beta", 3, "--novelty", 0.1),
        ("--beta", 3, "--rule", "knee"),
        ("--rule", "knee", "--novelty", 0.1),
    ):
        assert "both set the temperature" in refused("sample", inputs["table"], *words, "-o", tmp_path / "a.csv")


@pytest.mark.parametrize("words", [("sample", "x.csv"), ("sample", "x.csv", "-o", "y.csv", "-n", "0"), ("smaple",)])
def test_wrong_use_that_the_parser_finds_is_one_line_too(words):
    done = subprocess.run([sys.executable, "-m", "stochattn", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("error: ")


def test_a_full_disk_leaves_the_old_file(inputs, tmp_path, monkeypatch):
    out = tmp_path / "a.fasta"
    out.write_text("old")

    def full(self, batch):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(FastaWriter, "write", full)
    assert "No space left" in refused("sample", inputs["protein"], "-o", out, code=1)
    assert out.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.fasta"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_the_old_file(tmp_path, number):
    source = write_fasta(tmp_path / "family.fasta", family(60, 60))
    out = tmp_path / "out" / "a.fasta"
    out.parent.mkdir()
    out.write_text("old")
    command = [sys.executable, "-m", "stochattn", "sample", str(source), "-n", "50000000", "-o", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(out.parent.glob(".a.fasta.*.part")) and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert said.strip() == "error: interrupted; no output was changed."
    assert out.read_text() == "old"
    assert [p.name for p in out.parent.iterdir()] == ["a.fasta"]


def test_a_reader_that_goes_away_is_no_error_to_shout_about(inputs):
    command = f"{sys.executable} -m stochattn sample {inputs['protein']} -n 200000 -o - | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith(">new-1 ")
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_fault_of_the_program_is_one_line_too(inputs, monkeypatch, tmp_path):
    def broken(*given, **options):
        raise RuntimeError("odd")

    monkeypatch.setattr(pipeline, "draw", broken)
    assert "fault of the program" in refused("sample", inputs["table"], "--beta", 9, "-o", tmp_path / "a.csv", code=1)


def test_summaries_know_shares_and_copies(inputs):
    plan = pipeline.plan(read(inputs["image"]), beta=1e9)
    tally = outputs.Tally(plan)
    for batch in pipeline.batches(plan, 200, 0):
        tally.add(batch)
    facts = outputs.summary(plan, tally, 0, "x", "y", {})
    assert facts["copies"] == 1
    assert facts["novelty"] == pytest.approx(0, abs=1e-6)
    assert sum(share["share"] for share in facts["classes"].values()) == pytest.approx(1)
    assert np.isclose(sum(share["predicted"] for share in facts["classes"].values()), 1)
