"""The commands end to end on generated data: files, shapes, invariants, resuming and wrong input."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import joblib
import pytest
from typer.testing import CliRunner

from paper import progress, writing
from paper.catalogue import EXPERIMENTS
from paper.cli import app
from paper.results import Verdict

ROOT = Path(__file__).parents[2]
IMPORTED_FROM = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def command(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": IMPORTED_FROM}
    return subprocess.run(
        [sys.executable, "-m", "paper", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=900,
        **options,
    )


@pytest.fixture
def here(monkeypatch):
    """`command` without new processes, for tests that are not about these."""
    monkeypatch.setattr(progress, "_callback", None)
    terminate = signal.getsignal(signal.SIGTERM)

    def call(*arguments):
        with joblib.parallel_config(backend="sequential"):
            done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return SimpleNamespace(returncode=done.exit_code, stdout=done.stdout, stderr=done.stderr)

    yield call
    signal.signal(signal.SIGTERM, terminate)


@pytest.fixture(scope="module")
def everything(tmp_path_factory, folder):
    """A quick run of all experiments, shared by the tests below."""
    out = tmp_path_factory.mktemp("out")
    done = command("all", "--quick", "--data", folder, "--out", out, "--jobs", 2)
    assert done.returncode == 0, done.stderr
    return out, done


def records(out):
    return {name: writing.read(out / name) for name in EXPERIMENTS}


def test_every_experiment_writes_all_its_tables_and_figures(everything):
    out, _ = everything
    for name, record in records(out).items():
        assert record is not None, name
        assert {table.name for table in record["tables"]} == set(EXPERIMENTS[name].tables)
        assert {figure["name"] for figure in record["figures"]} == set(EXPERIMENTS[name].figures)
        for table in record["tables"]:
            assert (out / name / f"{table.name}.csv").stat().st_size > 100
            assert (out / name / f"{table.name}.md").read_text().startswith("### ")
        for figure in record["figures"]:
            assert (out / name / f"{figure['name']}.png").read_bytes().startswith(b"\x89PNG")
            assert (out / name / f"{figure['name']}.pdf").read_bytes().startswith(b"%PDF")
        assert record["quick"] is True
        assert record["seed"] == 0
        assert not list((out / name).glob(".*")), "no half-written file is left"


def test_every_value_is_a_number_and_no_published_value_is_missing(everything):
    out, _ = everything
    too_large = {
        "scaling": ("K = 500", "K = 1000", "K = 2000", "K = 3500"),
        "multihead": ("K = 500", "K = 1000"),
        "full-vae": ("N = 1,000", "N = 10,000"),
    }
    for name, record in records(out).items():
        for table in record["tables"]:
            for row, quantity, cell in table.items():
                if any(size in row for size in too_large.get(name, ())):
                    assert cell.verdict is Verdict.MISSING  # the generated data has 100 images only
                    continue
                assert cell.verdict is not Verdict.MISSING, (table.name, row, quantity)
                assert cell.measured.value == cell.measured.value, (table.name, row, quantity)


def test_invariants_that_hold_for_every_seed(everything):
    out, _ = everything
    tables = {table.name: table for record in records(out).values() for table in record["tables"]}
    main = tables["mnist-baselines"].cells
    assert main["Bootstrap (replay)"]["novelty"].measured.value == pytest.approx(0, abs=1e-12)
    assert main["Bootstrap (replay)"]["energy"].measured.value == pytest.approx(-0.5, abs=0.02)
    assert 0 < main["Random convex combination"]["diversity"].measured.value < 0.1
    assert main["SA (β = 200)"]["novelty"].measured.value > main["SA (β = 2000)"]["novelty"].measured.value
    for name in ("temp-spectrum-digit8", "single-chain", "noise-control", "full-vae"):
        for row, cells in tables[name].cells.items():
            if cells["novelty"].measured is None:
                continue
            total = cells["novelty"].measured.value + cells["max_cosine"].measured.value
            assert total == pytest.approx(1), (name, row)
    for row, cells in tables["stepsize-sweep"].cells.items():
        warm = cells["acceptance, equilibrium"].measured
        # 15,000 proposals: five standard errors are 0.02; the formula's own error is of order 1/√d = 0.1 at most.
        assert warm.value == pytest.approx(warm.formula, abs=0.05), row
    assert tables["olivetti-recovery"].cells["Random guess"]["recovery"].measured.value == pytest.approx(0.1)
    concentration = tables["phase-diagram"].cells
    assert 0 <= concentration["least"]["C"].measured.value <= concentration["largest"]["C"].measured.value <= 1
    shares = [cells["share"].measured.value for cells in tables["multihead-variance"].cells.values()]
    assert sum(shares) == pytest.approx(1)


def test_finished_experiments_are_not_run_again(everything, folder):
    out, first = everything
    before = {name: (out / name / "result.json").stat().st_mtime_ns for name in EXPERIMENTS}
    again = command("all", "--quick", "--data", folder, "--out", out)
    assert again.returncode == 0
    assert again.stderr.count("(done before)") == len(EXPERIMENTS)
    assert "(done before)" not in first.stderr
    assert before == {name: (out / name / "result.json").stat().st_mtime_ns for name in EXPERIMENTS}


def test_the_report_contains_every_table_and_figure(everything, here, tmp_path):
    out, _ = everything
    done = here("report", "--out", out, "--to", tmp_path / "page.md")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.md").read_text()
    assert "A quick run" in page
    assert "your own file" in page
    assert "not explained" not in page  # a quick run on other data is not expected to match
    assert "your own file" in (out / "mala" / "mala-generation.md").read_text()
    assert str(out) not in page
    for name, record in records(out).items():
        assert (f"## {name}: " in page) is bool(record["tables"] or record["figures"])
        for table in record["tables"]:
            assert f"### {table.title}" in page
    pictures = re.findall(r"!\[[^]]*\]\((page/[^)]*)\)", page)
    assert len(pictures) == sum(len(record["figures"]) for record in records(out).values())
    assert all((tmp_path / picture).is_file() for picture in pictures)
    headings = {
        re.sub(r"[^\w\- ]", "", line[3:].lower()).replace(" ", "-") for line in page.splitlines() if line[:3] == "## "
    }
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= headings


@pytest.mark.parametrize("jobs", [0, -2])
def test_jobs_are_a_number_of_experiments_or_all_cores(here, folder, tmp_path, jobs):
    done = here("run", "trajectories", "--quick", "--data", folder, "--out", tmp_path, "--jobs", jobs)
    assert done.returncode == 2
    assert done.stderr == f"error: --jobs must be a number of experiments, or -1 for one per core; got {jobs}.\n"


def test_another_seed_or_a_damaged_result_is_run_again(here, folder, tmp_path):
    options = ("--quick", "--data", folder, "--out", tmp_path)
    first = here("run", "trajectories", *options)
    assert first.returncode == 0
    record = tmp_path / "trajectories" / "result.json"
    picture = (tmp_path / "trajectories" / "trajectories.png").read_bytes()
    assert "done before" not in here("run", "trajectories", *options, "--seed", 1).stderr
    assert json.loads(record.read_text())["seed"] == 1
    assert (tmp_path / "trajectories" / "trajectories.png").read_bytes() != picture
    record.write_text(record.read_text()[:-50])
    assert "done before" not in here("run", "trajectories", *options).stderr
    assert (tmp_path / "trajectories" / "trajectories.png").read_bytes() == picture


def test_experiments_are_repeated_with_other_seeds_and_joined_on_the_page(here, folder, tmp_path):
    options = ("--quick", "--data", folder, "--out", tmp_path)
    done = here("run", "temperature-sweep", *options, "--seeds", 2)
    assert done.returncode == 0, done.stderr
    assert "temperature-sweep, seed 1000" in done.stderr
    values = [
        writing.read(place)["tables"][0].cells["β = 1"]["cosine"].measured.value
        for place in (tmp_path / "temperature-sweep", tmp_path / "temperature-sweep" / "repeat-1")
    ]
    assert values[0] != values[1]
    assert here("report", "--out", tmp_path, "--to", tmp_path / "page.md").returncode == 0
    page = (tmp_path / "page.md").read_text()
    assert "seeds 0, 1000" in page
    assert f"ours {sum(values) / 2:.4f} ±" in page
    assert here("run", "temperature-sweep", *options, "--seeds", 2).stderr.count("(done before)") == 2


def test_the_list_names_all(here):
    lines = here("list").stdout
    assert all(re.search(rf"^{name} ", lines, re.MULTILINE) for name in EXPERIMENTS)
    assert "table mnist-baselines" in lines


def one_error_line(done, match):
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.stderr
    assert re.search(match, lines[0]), lines[0]
    assert "Traceback" not in done.stderr


def test_an_unknown_experiment(here):
    one_error_line(here("run", "minst"), "there is no experiment 'minst': choose from .*mnist")
    one_error_line(here("all", "--skip", "minst"), "there is no experiment 'minst' to skip")


def test_an_output_folder_that_cannot_be_written(here, folder, tmp_path):
    (tmp_path / "file").write_text("")
    done = here("run", "mnist", "--quick", "--data", folder, "--out", tmp_path / "file" / "out")
    one_error_line(done, "results cannot be written to .*: name another folder with --out")


def test_a_missing_data_folder(here, tmp_path):
    one_error_line(here("run", "mnist", "--data", tmp_path / "no", "--out", tmp_path), "does not exist")


def test_damaged_data_stops_only_its_experiment(folder, tmp_path):
    own = tmp_path / "data"
    own.mkdir()
    for name in ("synthetic.npz", "mnist.npz", "SHA256SUMS"):
        (own / name).write_bytes((folder / name).read_bytes())
    (own / "mnist.npz").write_bytes(b"half of it")
    done = command("run", "mala", "temperature-sweep", "--quick", "--data", own, "--out", tmp_path / "out")
    one_error_line(done, r"mala: .*mnist.npz has the wrong checksum")
    assert not (tmp_path / "out" / "mala").exists()
    assert writing.read(tmp_path / "out" / "temperature-sweep") is not None


def test_all_writes_its_report_even_if_one_fails(here, folder, tmp_path):
    own = tmp_path / "data"
    own.mkdir()
    for name in ("synthetic.npz", "SHA256SUMS"):
        (own / name).write_bytes((folder / name).read_bytes())
    skips = [word for name in EXPERIMENTS if name not in ("temperature-sweep", "returns") for word in ("--skip", name)]
    done = here("all", "--quick", "--data", own, "--out", tmp_path / "out", *skips)
    one_error_line(done, r"returns: returns.npz was not found and has no public source: put a prices.csv")
    page = (tmp_path / "out" / "reproduction.md").read_text()
    assert "## temperature-sweep" in page
    assert "Not run: " in page


def test_a_report_without_results(here, tmp_path):
    one_error_line(here("report", "--out", tmp_path, "--to", tmp_path / "x.md"), "holds no finished result")
    one_error_line(here("report", "--out", tmp_path, "--to", tmp_path), "--to must name a file")


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT as Ctrl-C does on POSIX")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_keeps_finished_results(here, folder, tmp_path, jobs):
    arguments = [sys.executable, "-m", "paper", "run", "trajectories", "temperature-sweep", "--jobs", jobs]
    arguments += ["--data", str(folder), "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": IMPORTED_FROM}
    running = subprocess.Popen(arguments, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    try:
        while not (tmp_path / "trajectories" / "result.json").exists():
            assert time.monotonic() < deadline
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, text = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130, text
    assert "Results of finished experiments are kept" in text
    assert "Traceback" not in text
    assert writing.read(tmp_path / "temperature-sweep") is None
    quick = here("run", "trajectories", "--quick", "--data", folder, "--out", tmp_path)
    one_error_line(quick, "holds the result of a full run, which a quick run must not replace")
    again = here("run", "trajectories", "--data", folder, "--out", tmp_path)
    assert "done before" in again.stderr
