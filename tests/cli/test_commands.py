"""The command line: options, help, exit codes and one-line errors."""

import json
import re
import shlex
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import stochattn as sa
from command_runner import APP, KINDS, read_new, refused, works
from made_items import family, table, write_fasta
from stochattn.cli import run
from stochattn.cli.options import _convert
from stochattn.kinds.summary import read_summary
from stochattn.synthesizer import drawing
from stochattn.synthesizer.synthesizer import Synthesizer


@pytest.mark.parametrize("kind", KINDS)
def test_new_items_of_the_same_kind_with_a_summary(inputs, kind, tmp_path):
    out = tmp_path / KINDS[kind]
    result = works("sample", inputs[kind], "-n", 25, "--seed", 7, "-o", out)
    facts = json.loads((tmp_path / f"{out.name}.json").read_text())
    synth = sa.fit(inputs[kind])
    assert (facts["n"], facts["seed"], facts["kind"]) == (25, 7, kind)
    assert len(read_new(inputs[kind], out)) == 25
    assert f"25 new {synth.kind.items} from" in result.stderr
    assert facts["generator"] == next(iter(synth.kind.generators))
    has_temperature = kind == "returns"
    assert facts["rule"] == ("natural" if has_temperature else None)
    if has_temperature:
        assert abs(facts["novelty"] - facts["novelty_predicted"]) < 0.1
    else:
        assert facts["novelty_predicted"] is None
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


def test_conditions_apply_to_the_draws(inputs, tmp_path):
    out = tmp_path / "a.csv"
    works("sample", inputs["table"], "-n", 50, "--subset", "group=red", "--condition", "age=40", "-o", out)
    new = read_new(inputs["table"], out)
    assert (new["age"] == 40).all()
    facts = json.loads((tmp_path / "a.csv.json").read_text())
    assert facts["classes"]["red"]["share"] == pytest.approx((new["group"] == "red").mean())
    assert facts["classes"]["red"]["predicted"] > 0.9  # noise changes the class of a few


def test_scores_are_in_the_headers(inputs, tmp_path):
    works("sample", inputs["protein"], "-n", 5, "--novelty", 0.1, "--score", "-o", tmp_path / "a.fasta")
    for line in (tmp_path / "a.fasta").read_text().splitlines()[::2]:
        assert re.search(r" identity=\d\.\d+ score=-?[\d.]+ evalue=[\d.e-]+$", line), line


def test_the_generator_of_the_kind_is_the_default_and_an_option_selects_p_beta(inputs, tmp_path):
    out = tmp_path / "a.fasta"
    works("sample", inputs["protein"], "-n", 5, "-o", out)
    assert " beta=" not in out.read_text()
    assert read_summary(out).generator == "latent"
    for words in (
        ("--generator", "hopfield"),
        ("--beta", 8),
        ("--beta", "knee"),
        ("--novelty", 0.2),
        ("--norm", "paper"),
        ("--sampler", "mala"),
    ):
        works("sample", inputs["protein"], "-n", 5, *words, "-o", out)
        assert " beta=" in out.read_text()
        assert read_summary(out).generator == "hopfield"
    said = refused("sample", inputs["protein"], "--generator", "latent", "--beta", 8, "-o", out)
    assert "beta is not an option of protein data with the generator 'latent'" in said
    said = refused("sample", inputs["image"], "--generator", "patches", "--norm", "paper", "-o", tmp_path / "a.npz")
    assert "norm is not an option of image data with the generator 'patches'" in said
    said = refused("sample", inputs["image"], "--generator", "best", "-o", tmp_path / "a.npz")
    assert "generator must be one of" in said


def test_streams_write_the_same_and_reject_collected_formats(inputs, tmp_path):
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


@pytest.mark.usefixtures("unrendered_figures")
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_report_of_samples_and_one_without(inputs, kind, tmp_path):
    out = tmp_path / KINDS[kind]
    works("sample", inputs[kind], "-n", 25, "-o", out)
    works("report", inputs[kind], out, "-o", tmp_path / "a.html", "--quick")
    works("report", inputs[kind], "-n", 25, "-o", tmp_path / "b.html", "--quick")
    for name in ("a.html", "b.html"):
        assert (tmp_path / name).read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.slow
def test_the_demo_writes_samples_and_a_report(tmp_path):
    works("demo", "-o", tmp_path / "demo")
    assert (tmp_path / "demo" / "new" / "new-000100.png").exists()
    assert (tmp_path / "demo" / "report.html").stat().st_size > 50_000


EXAMPLES = [
    line.strip()
    for command in ("sample", "inspect", "report")
    for line in CliRunner().invoke(APP, [command, "--help"], env={"COLUMNS": "200"}).stdout.splitlines()
    if line.strip().startswith("stochattn ")
]


@pytest.mark.slow
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


def test_help_explains_every_command():
    text = works("--help").stdout
    for word in ("sample", "inspect", "report", "demo"):
        assert word in text
    assert re.match(r"stochattn \d", works("--version").stdout)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.sto", "-o", "a.fasta"), "none.sto does not exist"),
        (("FAMILY", "-o", "a.xyz"), "must have an extension that names the format"),
        (("FAMILY", "-o", "a.fasta", "--format", "png"), "format must be one of fasta, stockholm"),
        (("FAMILY", "-o", "a.fasta", "--window", "3"), "--window is an option of signals and returns data, and"),
        (("FAMILY", "-o", "a.fasta", "--kind", "music"), "kind must be one of"),
        (("FAMILY", "-o", "a.fasta", "--beta", "best"), "'best'"),
        (("FAMILY", "-o", "a.fasta", "--sampler", "gibbs"), "sampler must be one of"),
        (("FAMILY", "-o", "a.fasta", "--beta", "-1"), "beta must be a positive"),
        (("FAMILY", "-o", "a.fasta", "--novelty", "0.99"), "novelty must lie between 0.00 and"),
        (("FAMILY", "-o", "a.fasta", "--norm", "best"), "norm must be one of"),
        (("FAMILY", "-o", "a.fasta", "--condition", "3=W9"), "must name a column and a residue"),
        (("FAMILY", "-o", "a.fasta", "--hmm", "none.hmm"), "none.hmm"),
        (("TABLE", "-o", "a.csv", "--score"), "--score is an option of protein data, and"),
        (("TABLE", "-o", "a.csv", "--column", "age"), "--column 'age' must have the form NAME=TYPE"),
        (("TABLE", "-o", "a.csv", "--range", "age=x:y"), "--range 'age=x:y' must have the form NAME=LOW:HIGH"),
        (("TABLE", "-o", "a.csv", "--subset", "purple"), "matches none"),
        (("TABLE", "-o", "a.csv", "--condition", "group=purple"), "purple"),
        (("TABLE", "-o", "a.csv", "--condition", "nothing=1"), "nothing"),
        (("PRICES", "-o", "a.csv", "--condition", "NONE=0.1"), "NONE"),
        (("FACES", "-o", "-", "--format", "png"), "standard output cannot take"),
    ],
)
def test_wrong_use_is_one_line(inputs, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"FAMILY": "protein", "TABLE": "table", "PRICES": "returns", "FACES": "image"}
    assert said in refused("sample", *(inputs[names[word]] if word in names else word for word in words))
    assert list(tmp_path.iterdir()) == []


def test_a_history_that_was_read_as_a_table_is_noted(tmp_path):
    days = [f"2024-01-{day:02d}" for day in range(1, 13)]
    (tmp_path / "one.csv").write_text("date,AAA\n" + "".join(f"{day},{100 + i % 5}\n" for i, day in enumerate(days)))
    rows = "".join(f"{day},{100 + i % 5},{'open' if i % 4 == 0 else 90 + i}\n" for i, day in enumerate(days))
    (tmp_path / "odd.csv").write_text(f"date,AAA,BBB\n{rows}")
    for name in ("one.csv", "odd.csv"):
        told = works("sample", tmp_path / name, "-n", 3, "-o", tmp_path / "new.csv").stderr
        assert "price history" in told
        told = works("sample", tmp_path / name, "--kind", "table", "-n", 3, "-o", tmp_path / "new.csv").stderr
        assert "price history" not in told


def test_few_stored_items_are_noted(tmp_path):
    write_fasta(tmp_path / "few.fasta", family(K=6))
    told = works("sample", tmp_path / "few.fasta", "-n", 3, "-o", tmp_path / "new.fasta").stderr
    assert "note: only 6 stored sequences count" in told


def test_a_summary_has_the_number_of_items_of_positive_weight(inputs, tmp_path):
    told = works("sample", inputs["table"], "-n", 3, "--subset", "group=red", "-o", tmp_path / "new.csv").stderr
    assert re.match(r"3 new rows from \d+ of 40 stored", told)


def test_one_option_sets_the_temperature(inputs, tmp_path):
    for words in (("--beta", 3, "--novelty", 0.1), ("--beta", "knee", "--novelty", 0.1)):
        said = refused("sample", inputs["table"], *words, "-o", tmp_path / "a.csv")
        assert "--beta and --novelty must not both be given" in said


@pytest.mark.parametrize("words", [("sample", "x.csv"), ("sample", "x.csv", "-o", "y.csv", "-n", "0"), ("smaple",)])
def test_parser_errors_are_one_line(words):
    done = subprocess.run([sys.executable, "-m", "stochattn", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("report", "x.csv", "--jobs", "two"), "--jobs must be an integer; got 'two'."),
        (("sample", "x.csv", "-o", "y.csv", "-n", "5.5"), "-n must be an integer; got '5.5'."),
        (("sample", "x.csv", "-o", "y.csv", "-n", "0"), "-n must be 1 or more; got '0'."),
    ],
)
def test_numbers_that_the_parser_refuses_are_named_as_other_options_are(words, said, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["stochattn", *words])
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # of the process that runs the tests
    with pytest.raises(SystemExit) as end:
        run(APP)
    assert end.value.code == 2
    assert capsys.readouterr().err == f"error: {said} (See stochattn {words[0]} --help.)\n"


def test_internal_errors_are_one_line(inputs, monkeypatch, tmp_path):
    def broken(*given, **options):
        raise RuntimeError("odd")

    monkeypatch.setattr(Synthesizer, "batches", broken)
    assert "fault of the program" in refused("sample", inputs["table"], "--beta", 9, "-o", tmp_path / "a.csv", code=1)


def test_option_values_are_converted_to_their_types(inputs, tmp_path):
    out = tmp_path / "a.csv"
    said = refused("sample", inputs["returns"], "--window", "soon", "-o", out)
    assert said == "error: --window must be an integer; got 'soon'."
    said = refused("sample", inputs["table"], "--variance", "most", "-o", out)
    assert said == "error: --variance must be a number; got 'most'."
    works("sample", inputs["image"], "-n", 2, "--variance", "none", "-o", tmp_path / "a.npz")
    assert read_summary(tmp_path / "a.npz").options == {"variance": "none"}


def test_an_empty_kind_or_generator_is_an_error(inputs, tmp_path):
    for flag in ("kind", "generator"):
        said = refused("sample", inputs["table"], f"--{flag}", "", "-o", tmp_path / "a.csv")
        assert f"{flag} must be one of " in said
        assert "got ''" in said


def test_an_empty_part_is_none_only_where_its_type_allows_it():
    assert _convert(tuple[str, ...], "a,,b") == ("a", "", "b")
    assert _convert(tuple[str | None, ...], "a,,b") == ("a", None, "b")
    assert _convert(tuple[float | None, float | None], ":5") == (None, 5.0)
    with pytest.raises(ValueError, match="could not convert"):
        _convert(tuple[float, float], ":5")


def test_help_says_units_and_days():
    text = " ".join(re.sub("[│ \n]+", " ", works("sample", "--help").stdout).split())
    for words in (
        "pixels per unit of noise",
        "pixels on average",
        "0.1 is mild",
        "log-return of a ticker",
        "third day",
    ):
        assert words in text
    assert "--condition" not in works("inspect", "--help").stdout


def test_any_number_of_jobs_gives_the_same_files(inputs, tmp_path, monkeypatch, large_forests):
    """With forests of the usual size, which worker processes have too."""
    monkeypatch.setattr(drawing, "BLOCK", 7)
    for jobs in (1, 2):
        works("sample", inputs["table"], "-n", 20, "--jobs", jobs, "-o", tmp_path / f"{jobs}.csv")
        works("report", inputs["table"], "-n", 20, "--quick", "--jobs", jobs, "-o", tmp_path / f"{jobs}.html")
    for name in ("csv", "html"):
        assert (tmp_path / f"1.{name}").read_bytes() == (tmp_path / f"2.{name}").read_bytes()
    for command in ("sample", "report"):
        said = refused(command, inputs["table"], "--jobs", 0, "-o", tmp_path / "new.html")
        assert "--jobs must be a number of workers, or -1 for all cores; got 0" in said


FORMS = {
    **{"size": "WxH", "classes": "COLUMN", "hmm": "FILE", "alignment": "NAME", "column": "NAME=TYPE"},
    **{"range": "NAME=LOW:HIGH", "constraint": "RELATION", "marginals": "calibrated|free", "gaps": "zeros|symbol"},
    **{"values": "auto|prices|returns", "fill": "none|previous", "output": "returns|prices", "vary": "shapes|levels"},
    **{"norm": "restored|paper|whole", "market": "auto|mean|component|none", "alphabet": "protein|dna|rna"},
}


def test_help_shows_the_form_of_values_and_all_choices():
    lines = CliRunner().invoke(APP, ["sample", "--help"], env={"COLUMNS": "250"}).stdout.splitlines()
    shown = {words[1][2:]: words[2] for words in map(str.split, lines) if len(words) > 2 and words[1][:2] == "--"}
    assert {name: shown.get(name) for name in FORMS} == FORMS
    assert "features" not in shown  # a function cannot be written on the command line
