"""The way of the data: nothing is read, recognized, described or resolved twice."""

from command_runner import works
from tools.way import trace, way_of_table, write_patients


def test_a_condition_is_resolved_once():
    way = trace(way_of_table(trial=False))
    assert way.calls["resolve_relations"] == 1
    assert way.calls["kind_for"] == 1


def test_the_command_line_recognizes_a_file_and_describes_the_generator_once(tmp_path):
    path = tmp_path / "patients.csv"
    write_patients(path)
    way = trace(
        lambda: works("sample", path, "-n", 20, "--condition", "age=40", "--no-trial", "-o", tmp_path / "new.csv")
    )
    assert way.calls["kind_for"] == 1
    assert way.calls["_description"] == 1
