"""Files written by commands: atomic, and never in place of the input or of other files."""

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest

import stochattn as sa
from command_runner import refused, run, works
from made_items import family, write_fasta, write_table
from stochattn.kinds.options import InputError
from stochattn.kinds.proteins.sequences import FastaWriter
from stochattn.kinds.summary import RunSummary, read_summary


def test_an_unwritable_output_is_an_error_before_sampling(inputs, tmp_path):
    (tmp_path / "file").touch()
    assert "cannot be written" in refused("sample", inputs["table"], "-o", tmp_path / "file" / "a.csv")
    assert "is a folder" in refused("sample", inputs["protein"], "--format", "fasta", "-o", tmp_path)
    out = tmp_path / "full"
    works("sample", inputs["image"], "-n", 3, "-o", out)
    assert "not an empty folder" in refused("sample", inputs["image"], "-o", out)
    works("sample", inputs["image"], "-n", 2, "--replace", "-o", out)
    assert not (out / "new-000003.png").exists()
    (out / "new-000007.png").write_text("mine")  # the earlier run wrote two
    assert "'new-000007.png', which an earlier run did not write" in refused(
        "sample", inputs["image"], "--replace", "-o", out
    )
    (out / "new-000007.png").unlink()
    (out / "thesis.tex").write_text("mine")
    assert "'thesis.tex', which an earlier run did not write" in refused(
        "sample", inputs["image"], "--replace", "-o", out
    )
    assert (out / "thesis.tex").read_text() == "mine"


def test_the_input_is_never_the_output(inputs, tmp_path):
    source = write_table(tmp_path / "patients.csv")
    before = source.read_bytes()
    (tmp_path / "link.csv").symlink_to(source)
    for out in (source, tmp_path / "link.csv", tmp_path / "." / "patients.csv"):
        assert "is the input" in refused("sample", source, "-o", out)
    assert "must end in .html" in refused("report", source, "-o", source)
    (tmp_path / "page.html").symlink_to(source)
    assert "is an input of the report" in refused("report", source, "-o", tmp_path / "page.html")
    assert source.read_bytes() == before
    faces = inputs["image"]
    for out in (faces, faces / "lying", faces.parent, faces / "lying" / ".."):
        assert "is the input, contains it or is inside it" in refused(
            "sample", faces, "--replace", "--format", "png", "-o", out
        )


def test_a_file_that_is_not_a_summary_is_not_replaced_by_one(inputs, tmp_path):
    (tmp_path / "a.csv.json").write_text("{}")
    assert "which is not a summary" in refused("sample", inputs["table"], "-o", tmp_path / "a.csv")
    assert (tmp_path / "a.csv.json").read_text() == "{}"


def test_links_and_devices_are_kept(inputs, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    works("sample", inputs["table"], "-n", 3, "--replace", "-o", tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert read_summary(tmp_path / "link.csv") == read_summary(tmp_path / "real.csv")
    assert (tmp_path / "real.csv").read_text().startswith("height,")
    works("sample", inputs["table"], "-n", 3, "--format", "csv", "-o", "/dev/null")
    assert not os.path.isfile("/dev/null")


def test_a_summary_that_cannot_be_written_changes_nothing(inputs, tmp_path, monkeypatch):
    out = tmp_path / "a.csv"
    works("sample", inputs["table"], "-n", 3, "-o", out)
    before = out.read_bytes(), (tmp_path / "a.csv.json").read_bytes()
    monkeypatch.setattr(RunSummary, "to_json", lambda *given, **options: "\ud800".encode().decode())
    run("sample", inputs["table"], "-n", 9, "-o", out)
    assert (out.read_bytes(), (tmp_path / "a.csv.json").read_bytes()) == before


def test_names_that_are_not_text_are_escaped_in_the_summary(tmp_path):
    source = write_table(tmp_path / "caf\udce9.csv")
    works("sample", source, "-n", 3, "-o", tmp_path / "a.csv")
    assert json.loads((tmp_path / "a.csv.json").read_text())["n"] == 3


@pytest.mark.skipif(os.name == "nt", reason="Windows does not say how much memory is free")
def test_more_items_than_fit_into_memory_or_on_the_disk_are_refused_with_figures(inputs, tmp_path):
    synth, n = sa.fit(inputs["table"]), 10**15
    with pytest.raises(ValueError, match=r"n=1,000,000,000,000,000 new rows take .* of memory, .* free.*`write`"):
        synth.sample(n)
    for name in ("new.csv", "new.parquet"):
        with pytest.raises(ValueError, match=r"take about .* of disk space, and .* GB are free\. Draw fewer"):
            synth.write(tmp_path / name, n)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(MemoryError, match="Draw n="):
        sa.StochasticAttention(np.eye(4), beta=50.0).sample(n)


def test_a_full_disk_keeps_the_old_file(inputs, tmp_path, monkeypatch):
    out = tmp_path / "a.fasta"
    out.write_text("old")

    def full(self, batch):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(FastaWriter, "write", full)
    assert "No space left" in refused("sample", inputs["protein"], "--replace", "-o", out, code=1)
    assert out.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.fasta"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_keeps_the_old_file(tmp_path, number):
    source = write_fasta(tmp_path / "family.fasta", family(60, 60))
    out = tmp_path / "out" / "a.fasta"
    out.parent.mkdir()
    out.write_text("old")
    command = [sys.executable, "-m", "stochattn", "sample", str(source), "-n", "10000000", "--replace", "-o", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(out.parent.glob(".*.part/new/a.fasta")) and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert said.splitlines()[-1] == "error: interrupted; no output was changed."
    assert "Traceback" not in said
    assert out.read_text() == "old"
    assert [p.name for p in out.parent.iterdir()] == ["a.fasta"]


def is_running(group):
    """Whether a process group has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def command_with_workers(folder, early=False):
    """A command that draws with two workers: its process, which leads a group, and its output. It has begun to draw."""
    source = write_fasta(folder / "family.fasta", family(60, 60))
    out = folder / "out" / "a.fasta"
    out.parent.mkdir()
    words = ["sample", str(source), "-n", "50000000", "--jobs", "2", "-o", str(out)]
    command = [sys.executable, "-m", "stochattn", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # the file is opened before the workers begin, and written when they have drawn
        opened = [path.stat().st_size for path in out.parent.glob(".*.part/new/a.fasta")]
        if opened and (early or opened[0]):
            break
        time.sleep(0.02)
    return process, out


def ends(process, number, everyone):
    """What the command says after a signal to it, or to its whole group; no process of the group may be left."""
    try:
        (os.killpg if everyone else os.kill)(process.pid, number)
        _, said = process.communicate(timeout=60)
        deadline = time.monotonic() + 20
        while is_running(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not is_running(process.pid)
    finally:
        if is_running(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return said


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="process groups are a matter of POSIX")
@pytest.mark.parametrize("early", [True, False], ids=["while workers begin", "while workers draw"])
def test_ctrl_c_ends_all_workers(tmp_path, early):
    """As a terminal sends it: to the command and its workers. One line, no file, and no process is left."""
    process, out = command_with_workers(tmp_path, early)
    said = ends(process, signal.SIGINT, everyone=True)
    assert process.returncode == 130
    lines = [line for line in said.splitlines() if not line.endswith((" so far", " left", "(0 %)"))]
    assert lines == ["error: interrupted; no output was changed."]
    assert list(out.parent.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="process groups are a matter of POSIX")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGKILL"])
def test_workers_end_with_their_command(tmp_path, number):
    """Also if it is killed, and cannot end them."""
    process, _ = command_with_workers(tmp_path)
    ends(process, getattr(signal, number), everyone=False)


@pytest.mark.parametrize("name", ["numpy", "typer", "stochattn.kinds.registry"])
def test_ctrl_c_while_the_program_imports_is_one_line(name):
    code = """if True:
        import os, signal, sys

        class Press:
            @staticmethod
            def find_spec(name, *given):
                if name == sys.argv[1]:
                    os.kill(os.getpid(), signal.SIGINT)

        sys.meta_path.insert(0, Press)
        from stochattn.__main__ import main
        main()
    """
    done = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "error: interrupted; no output was changed.\n"


def test_a_reader_that_closes_the_pipe_causes_no_traceback(inputs):
    command = f"{sys.executable} -m stochattn sample {inputs['protein']} -n 200000 -o - | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith(">new-1 ")
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_file_that_no_earlier_run_wrote_is_replaced_only_on_request(inputs, tmp_path):
    out = tmp_path / "a.csv"
    out.write_text("my,own\n1,2\n")
    said = refused("sample", inputs["table"], "-n", 3, "-o", out)
    assert "exists, and is not what an earlier run wrote: name another file, or pass --replace" in said
    assert out.read_text() == "my,own\n1,2\n"
    works("sample", inputs["table"], "-n", 3, "--replace", "-o", out)
    works("sample", inputs["table"], "-n", 4, "-o", out)  # its own result, as it wrote it
    out.write_text(out.read_text().replace("4", "5"))  # the user has corrected something
    changed = out.read_text()
    assert "is not what an earlier run wrote" in refused("sample", inputs["table"], "-n", 3, "-o", out)
    assert out.read_text() == changed


@pytest.mark.parametrize("words", [("inspect", "--png", "a.png"), ("report", "-n", 20, "-o", "a.html")])
def test_a_plot_and_a_page_replace_only_their_like(inputs, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, *options = words
    out = tmp_path / options[-1]
    out.write_text("mine")
    assert "--replace" in refused(command, inputs["table"], *options)
    assert out.read_text() == "mine"
    works(command, inputs["table"], *options, "--replace")
    works(command, inputs["table"], *options)
    assert out.stat().st_size > 1000


def test_the_demo_writes_into_its_own_folder_only(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    assert "'thesis.tex', which the demo did not write" in refused("demo", "-o", tmp_path / "mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "digits.npz").write_text("mine")
    assert "'digits.npz', which the demo did not write" in refused("demo", "-o", tmp_path / "other")

    def fails(*given, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("stochattn.synthesizer.writing.write_samples", fails)
    assert run("demo", "-o", tmp_path / "new" / "demo").exit_code == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "other"]


def test_python_replaces_what_it_wrote_and_other_files_on_request(inputs, tmp_path):
    synth, path = sa.fit(inputs["table"]), tmp_path / "a"
    for write in (
        lambda **options: synth.save(path, **options),
        lambda **options: synth.write(path, 3, rng=0, format="csv", **options),
        lambda **options: synth.report(path, n=20, **options),
    ):
        path.write_text("mine")
        with pytest.raises(
            InputError, match="is not what an earlier run wrote: name another file, or pass replace=True"
        ):
            write()
        assert path.read_text() == "mine"
        write(replace=True)
        write()
        with pytest.raises(InputError, match=r"the folder .*missing does not exist: create it first, with mkdir -p"):
            synth.save(tmp_path / "missing" / "a")


def test_folders_are_not_created(inputs, tmp_path):
    for words in (
        ("sample", inputs["table"], "-o", tmp_path / "a b" / "new.csv"),
        ("sample", inputs["image"], "-o", tmp_path / "a b" / "new"),
        ("report", inputs["table"], "-o", tmp_path / "a b" / "new.html"),
        ("inspect", inputs["table"], "--png", tmp_path / "a b" / "new.png"),
    ):
        said = refused(*words)
        assert f"the folder {tmp_path}/a b does not exist: create it first, with mkdir -p '{tmp_path}/a b'" in said
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_one_line(inputs, tmp_path, monkeypatch):
    if os.path.exists("/dev/full"):
        said = refused("sample", inputs["table"], "-n", 3, "--format", "csv", "-o", "/dev/full", code=1)
        assert "No space left on device" in said

    def read_only(**given):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    said = refused("sample", inputs["table"], "-n", 3, "-o", tmp_path / "a.csv")
    assert said.endswith("cannot be written (Read-only file system): name another place.")


def test_a_file_that_grows_too_large_keeps_the_old_one(inputs, tmp_path):
    out = tmp_path / "a.csv"
    works("sample", inputs["table"], "-n", 3, "-o", out)
    before = out.read_bytes()
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (99_000, 99_000))\n"
        "from stochattn.__main__ import main; main()"
    )
    command = [sys.executable, "-c", limited, "sample", inputs["table"], "-n", "9000", "-o", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "error: File too large" in done.stderr
    assert out.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.csv.json"]
