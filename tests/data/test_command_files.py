"""Files written by commands: atomic, and never in place of the input or of other files."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from command_runner import refused, run, works
from made_items import family, write_fasta, write_table

from stochattn.data.proteins.sequences import FastaWriter
from stochattn.data.summary import Summary, read_summary


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
    assert "is what the report is about" in refused("report", source, "-o", tmp_path / "page.html")
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
    monkeypatch.setattr(Summary, "to_json", lambda *given, **options: "\ud800".encode().decode())
    run("sample", inputs["table"], "-n", 9, "-o", out)
    assert (out.read_bytes(), (tmp_path / "a.csv.json").read_bytes()) == before


def test_names_that_are_not_text_are_escaped_in_the_summary(tmp_path):
    source = write_table(tmp_path / "caf\udce9.csv")
    works("sample", source, "-n", 3, "-o", tmp_path / "a.csv")
    assert json.loads((tmp_path / "a.csv.json").read_text())["n"] == 3


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
    command = [sys.executable, "-m", "stochattn", "sample", str(source), "-n", "50000000", "--replace", "-o", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(out.parent.glob(".*.part/new/a.fasta")) and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert said.strip() == "error: interrupted; no output was changed."
    assert out.read_text() == "old"
    assert [p.name for p in out.parent.iterdir()] == ["a.fasta"]


@pytest.mark.parametrize("name", ["numpy", "typer", "stochattn.data.registry"])
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
