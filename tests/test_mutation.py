"""The mutation tester: what it changes, which tests it runs, and that a weak test lets a mutant survive."""

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

from mutation.changes import Mutant, chosen_mutants, equivalent_lines, lines_that_read, mutants
from mutation.covering import Covered
from mutation.faults import FAULTS

ROOT = Path(__file__).resolve().parent.parent
TOY = '''"""A module."""

LIMIT = 3


def clipped(x: int = 0) -> int:
    """At most the limit."""
    if x > LIMIT:
        return LIMIT
    return x + 1 - 1


def never_noticed(x):
    return x * 1  # a comment
'''
EQUIVALENT = """
["src/toy.py"]
'return x * 1' = "times one"
"""
STRONG = """
from toy import clipped

def test_clipped():
    assert [clipped(x) for x in (2, 3, 4)] == [2, 3, 3]
"""
WEAK = """
from toy import clipped

def test_clipped():
    assert clipped(2) == 2
"""
TESTED = """
import sys
from pathlib import Path
root = Path.cwd()
sys.path.insert(0, {tests!r})
from mutation.changes import mutants
from mutation.running import Job, run
jobs = [Job(one, [{named!r}], seconds=5.0) for one in mutants(root, root / "src" / "toy.py")]
run(root, root / "out", jobs, 1, lambda job, found, _: print(found, str(job.mutant).partition(": ")[2], sep=": "), ())
"""


def write_toy(folder, tests):
    equivalent = {"tests/mutation/equivalent.toml": EQUIVALENT}
    for name, text in {"src/toy.py": TOY, "tests/test_toy.py": tests, "pyproject.toml": "", **equivalent}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "src" / "toy.py"


def run_mutants(folder, named="tests/test_toy.py"):
    script = TESTED.format(tests=str(ROOT / "tests"), named=named)
    return subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True)


def test_every_place_is_changed_except_annotations_and_marked_lines(tmp_path):
    path = write_toy(tmp_path, STRONG)
    found = [str(mutant).partition(":")[2] for mutant in mutants(tmp_path, path)]
    assert sorted(found) == [
        "10: 1 → (2)",
        "10: 1 → (2)",
        "10: return x + 1 - 1 → return None",
        "10: x + 1 - 1 → (x + 1 + 1)",
        "10: x + 1 → (x - 1)",
        "3: 3 → (4)",
        "6: 0 → (1)",
        "8: x > LIMIT → (False)",
        "8: x > LIMIT → (not x > LIMIT)",
        "8: x > LIMIT → (x >= LIMIT)",
        "9: return LIMIT → return None",
    ]


def test_an_entry_of_two_lines_stands_for_the_first_where_the_second_follows():
    source = "if a:  # a reason\n    b()\nif a:\n    c()\n"
    assert lines_that_read("if a:", source) == [1, 3]
    assert lines_that_read("if a:\nc()", source) == [3]
    assert lines_that_read("if b:", source) == []


@pytest.mark.parametrize("file", equivalent_lines(ROOT))
def test_every_equivalent_line_stands_in_the_source(file):
    """An entry without a line protects nothing, and mutants of the changed line would come back."""
    source = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).exists() else ""
    lines = [line.strip() for line in source.splitlines()]
    for text in equivalent_lines(ROOT)[file]:
        similar = difflib.get_close_matches(text, lines, n=1, cutoff=0.3) or ["nothing similar"]
        assert lines_that_read(text, source), (
            f"tests/mutation/equivalent.toml names a line that {file} does not have: {text!r}. Write its new text "
            f"there (most similar: {similar[0]!r}), or remove the entry where a test can notice a change now."
        )


def test_the_looks_of_a_drawing_are_left_alone(tmp_path):
    (tmp_path / "toy.py").write_text("axes.plot(x, y + 1, color=1 + 2, label=3)")
    found = [str(mutant).partition(": ")[2] for mutant in mutants(tmp_path, tmp_path / "toy.py")]
    assert sorted(found) == [
        "1 → (2)",
        "3 → (4)",
        "axes.plot(x, y + 1, color=1 + 2, label=3) → (axes.plot(x, y + 1, color=1 + 2))",
        "axes.plot(x, y + 1, color=1 + 2, label=3) → pass",
        "y + 1 → (y - 1)",
    ]


def changes_of(folder, source):
    (folder / "toy.py").write_text(source)
    return sorted(str(mutant).partition(": ")[2] for mutant in mutants(folder, folder / "toy.py"))


def test_what_no_test_can_notice_by_design_is_left_alone(tmp_path):
    assert changes_of(tmp_path, "pairs = zip(x, y[1:], strict=True)") == ["1 → (2)"]
    assert changes_of(tmp_path, "rows = np.reshape(x.reshape(n, -1), (-1, 4))") == ["4 → (5)"]
    assert changes_of(tmp_path, '__all__ = ["a", *("b" * 2)]') == []
    assert changes_of(tmp_path, 'def f():\n    """Docstring of 3 words."""\n    "Comment of 4 words."') == []


def test_likenesses_of_what_is_left_alone_are_changed(tmp_path):
    assert changes_of(tmp_path, "x = parse(y, strict=True)") == [
        "True → (False)",
        "parse(y, strict=True) → (parse(y))",
    ]
    assert changes_of(tmp_path, "x = y.sum(-1)") == ["1 → (2)"]
    assert changes_of(tmp_path, "x = y.reshape(-n, k - 1)") == ["-n → (n)", "1 → (2)", "k - 1 → (k + 1)"]


def test_mutants_are_drawn_by_seed_and_stay_when_another_line_changes(tmp_path):
    path = write_toy(tmp_path, STRONG)
    drawn = {str(one).rpartition(":")[2] for one in chosen_mutants(tmp_path, path, 5, seed=0)}
    assert drawn == {str(one).rpartition(":")[2] for one in chosen_mutants(tmp_path, path, 5, seed=0)}
    assert drawn != {str(one).rpartition(":")[2] for one in chosen_mutants(tmp_path, path, 5, seed=1)}
    path.write_text(TOY + "\n\ndef other(y):\n    return y * 7\n")
    assert len(drawn & {str(one).rpartition(":")[2] for one in chosen_mutants(tmp_path, path, 5, seed=0)}) >= 3


def test_different_tests_are_preferred_to_one_with_many_parameters():
    covered = object.__new__(Covered)
    covered.seconds = {f"test_many[{i}]": 0.1 for i in range(50)} | {"test_other": 1.0, "test_slow": 9.0}
    covered._tests = {"toy.py": {1: {*covered.seconds, ""}}}
    found = covered.tests(Mutant("toy.py", range(1, 2), 0, 1, "y", "x"), max_seconds=2.0)
    assert "test_other" in found
    assert "test_slow" not in found
    assert 1.8 < covered.duration(found) < 2.1


def test_all_tests_of_a_file_are_chosen_for_a_line_that_runs_at_import_even_if_a_test_imported_it():
    covered = object.__new__(Covered)
    covered.seconds = {}
    covered._tests = {"toy.py": {1: {"", "test_that_imported_it"}, 9: {"test_of_a_function"}}}
    found = covered.tests(Mutant("toy.py", range(1, 2), 0, 1, "y", "x"), max_seconds=60.0)
    assert set(found) == {"test_that_imported_it", "test_of_a_function"}
    found = covered.tests(Mutant("toy.py", range(9, 10), 0, 1, "y", "x"), max_seconds=60.0)
    assert found == ["test_of_a_function"]
    covered.seconds = {"tests/a.py::test_help_shows_the_form_of_values": 0.1}
    assert len(covered.tests(Mutant("toy.py", range(1, 2), 0, 1, "y", "x"), max_seconds=60.0)) == 3


@pytest.mark.parametrize("named", ["tests/test_toy.py", "tests/test_toy.py::test_clipped"])
def test_a_strong_test_kills_mutants_that_survive_a_weak_one(tmp_path, named):
    """Tests in a file run in a new process; those that are named are collected once, and a function is replaced."""
    survived = {}
    for name, tests in {"strong": STRONG, "weak": WEAK}.items():
        (tmp_path / name).mkdir()
        write_toy(tmp_path / name, tests)
        printed = run_mutants(tmp_path / name, named).stdout.splitlines()
        assert len(printed) == 11
        survived[name] = sorted(line.partition(": ")[2] for line in printed if line.startswith("survived"))
    assert survived["strong"] == ["0 → (1)", "x > LIMIT → (x >= LIMIT)"]  # the default is not tested; the limit is 3
    assert survived["weak"] == [
        "0 → (1)",
        "3 → (4)",
        "return LIMIT → return None",
        "x > LIMIT → (False)",
        "x > LIMIT → (x >= LIMIT)",
    ]


def test_a_loop_without_end_is_noticed(tmp_path):
    path = write_toy(tmp_path, STRONG)
    path.write_text("def clipped(x):\n    while x > 3:\n        x -= 1\n    return x\n")
    assert "timed out: x -= 1 → x += 1" in run_mutants(tmp_path, "tests/test_toy.py::test_clipped").stdout.splitlines()


def test_a_failure_of_pytest_itself_is_not_taken_for_a_killed_mutant(tmp_path):
    write_toy(tmp_path, STRONG)
    (tmp_path / "tests" / "conftest.py").write_text("def pytest_collection_modifyitems(items):\n    1 / 0\n")
    result = run_mutants(tmp_path)
    assert result.returncode == 1
    assert result.stdout == ""
    assert "pytest itself fails" in result.stderr


def test_the_text_of_every_known_fault_stands_in_the_source_once():
    for fault in FAULTS:
        mutant = fault.mutant(ROOT)
        assert mutant.source[mutant.begin : mutant.end] == fault.right, fault.name
        assert mutant.mutated != mutant.source, fault.name


def test_a_mutant_is_known_after_comments_and_docstrings_have_changed(tmp_path):
    path = tmp_path / "a.py"
    path.write_text('def f(x):\n    """Twice x."""\n    return x * 2 + x * 2\n')
    before = {one.key for one in mutants(tmp_path, path)}
    assert len(before) == len(mutants(tmp_path, path))  # the second product is another place
    path.write_text(
        '"""A module."""\n\n\ndef f(x):\n    """Two times x.\n\n    Or 4 x."""\n    return x * 2 + x * 2  # twice\n'
    )
    assert {one.key for one in mutants(tmp_path, path)} == before
    path.write_text("def f(x):\n    return x * 2 + 2 * x\n")
    assert not {one.key for one in mutants(tmp_path, path)} & before
