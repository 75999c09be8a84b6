"""The page of the quality benchmarks: its parts, run by any number of workers."""

import sys
from types import SimpleNamespace

import pytest

from benchmarks import quality
from benchmarks.summary_lines import LINES


@pytest.fixture
def modules(monkeypatch):
    """The commands of the modules that make the parts, which are recorded and not run."""
    calls = []

    def run(command, **options):
        calls.append(command)
        name = command[2].removeprefix("benchmarks.")
        failed = name in failing
        return SimpleNamespace(
            returncode=int(failed), stdout=f"table of {name}\n", stderr="Traceback\nValueError: no data"
        )

    failing = set()
    monkeypatch.setattr(quality.subprocess, "run", run)
    monkeypatch.setattr(quality, "LINES", ())  # these tables have no figures
    return SimpleNamespace(calls=calls, failing=failing)


def written(monkeypatch, out, jobs):
    monkeypatch.setattr(sys, "argv", ["quality", "--quick", "--jobs", str(jobs), "--out", str(out)])
    quality.main()
    return out.read_text()


@pytest.mark.parametrize("jobs", [1, 3, -1])
def test_the_page_does_not_depend_on_the_number_of_workers(modules, monkeypatch, tmp_path, jobs):
    page = written(monkeypatch, tmp_path / "page.md", jobs)
    tables = [f"table of {part.module}" for part in quality.PARTS]
    assert all(table in page for table in tables)
    assert [page.index(table) for table in tables] == sorted(page.index(table) for table in tables)
    assert sorted(command[2] for command in modules.calls) == sorted(
        [*(f"benchmarks.{part.module}" for part in quality.PARTS), "benchmarks.rows"]
    )


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_part_that_fails_is_one_line(modules, monkeypatch, tmp_path, jobs):
    modules.failing.add("density")
    with pytest.raises(SystemExit, match=r"^benchmarks\.density failed: ValueError: no data$"):
        written(monkeypatch, tmp_path / "page.md", jobs)
    assert not (tmp_path / "page.md").exists()


def test_sequences_that_were_made_are_passed_on_to_the_parts_that_keep_them(modules, monkeypatch, tmp_path):
    arguments = ["quality", "--only", "proteins,density", "--kept", "made", "--out", str(tmp_path / "page.md")]
    monkeypatch.setattr(sys, "argv", arguments)
    quality.main()
    commands = {command[2]: command[3:] for command in modules.calls}
    assert commands == {"benchmarks.proteins": ["--kept", "made"], "benchmarks.density": []}


def test_a_table_that_the_summary_lacks_does_not_lose_the_page(modules, monkeypatch, tmp_path):
    monkeypatch.setattr(quality, "LINES", LINES)
    with pytest.raises(
        SystemExit, match=r"page\.md has no new summary: the section 'Images: deformations' must have a table"
    ):
        written(monkeypatch, tmp_path / "page.md", 1)
    assert "table of shapes" in (tmp_path / "page.md").read_text()
