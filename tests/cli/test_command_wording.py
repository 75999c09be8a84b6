"""Messages of the library in the words of the command line."""

import numpy as np
import pytest

from command_runner import refused, works
from stochattn.cli.messages import _compare_with_natural, label_reading
from stochattn.cli.options import KindOptions
from stochattn.kinds.registry import kind_names, kind_of

WORDING = KindOptions.of([kind_of(name) for name in kind_names()])


@pytest.mark.parametrize(
    ("message", "typed"),
    [
        ("format must be one of csv, tsv.", "--format must be one of csv, tsv."),
        ("beta and novelty must not both be given.", "--beta and --novelty must not both be given."),
        ("out 'a' is one sheet; got n=300. Lower n.", "-o 'a' is one sheet; got -n 300. Lower -n."),
        ("it exists: pass replace=True to replace it.", "it exists: pass --replace to replace it."),
        ("by 0.4 px; warp=0 switches that off.", "by 0.4 px; --warp 0 switches that off."),
        ("pass columns={'sex': 'integer'}", "pass --column sex=integer"),
        ("pass columns={'Dose (mg)': 'numeric'}", "pass --column 'Dose (mg)=numeric'"),
        ("sheet='May 2020' reads another", "--sheet 'May 2020' reads another"),
        ("a.csv: columns: there is no column 'x'.", "a.csv: --column: there is no column 'x'."),
        ("Widen it with ranges, or drop it.", "Widen it with --range, or drop it."),
        ("Leave out sampler or days.", "Leave out --sampler or --days."),
        ("paths need their order: pass link=False.", "paths need their order: pass --no-link."),
        ("pass kind='returns'", "pass --kind returns"),
        ('Leave out sampler, or pass sampler="exact".', "Leave out --sampler, or pass --sampler exact."),
        ("not recognized: pass kind=, one of table.", "not recognized: pass --kind, one of table."),
        (
            "beta is not an option of protein data; there are score, max_column_gaps.",
            "--beta is not an option of protein data; there are --score, --max-column-gaps.",
        ),
        # What a user typed, or what is not an argument, stays.
        ("condition width=5: is constant.", "--condition width=5: is constant."),
        ("--condition 'width=5' matches none.", "--condition 'width=5' matches none."),
        ("folder/beta=3/a.csv: has no column 'beta=3'", "folder/beta=3/a.csv: has no column 'beta=3'"),
        ("a.csv, line 1: columns 3 and 4 have the same name", "a.csv, line 1: columns 3 and 4 have the same name"),
        ("the kind of data has values and a window", "the kind of data has values and a window"),
    ],
)
def test_arguments_are_named_as_they_are_typed(message, typed):
    assert WORDING.reword(message) == typed


def test_notes_on_the_page_of_a_report_name_options(tmp_path):
    rows = (f"{i % 3},{i * 7 % 11}.5,{i * 5 % 13}" for i in range(24))
    (tmp_path / "a.csv").write_text("\n".join(["class,x,y", *rows]) + "\n")
    works("report", tmp_path / "a.csv", "-n", 20, "--quick", "--subset", "class=1", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "is read as classes; for amounts pass --column class=integer" in page
    assert "columns={" not in page


def test_errors_and_notes_of_commands_name_options(inputs, tmp_path):
    said = refused("sample", inputs["table"], "--range", "heigth=0:5", "-o", tmp_path / "a.csv")
    assert "--range: there is no column 'heigth'" in said
    said = refused("sample", inputs["table"], "--width", "0.5", "-o", tmp_path / "a.csv")
    assert "--width must be of the form NOISE:POOLED:NEIGHBORS; got '0.5'" in said  # signals have a number instead
    said = refused("sample", inputs["table"], "--beta", "leave-on-out", "-o", tmp_path / "a.csv")
    assert "Did you mean 'leave-one-out'?" in said
    said = refused("sample", inputs["table"], "--beta", "0", "-o", tmp_path / "a.csv")
    assert "--beta natural picks one" in said
    done = works("sample", inputs["table"], "-n", 2, "--beta", "leave-one-out", "-o", tmp_path / "a.csv")
    assert '("leave-one-out")' in done.stderr
    (tmp_path / "one.csv").write_text("a,b\n1,2\n")
    said = refused("sample", tmp_path / "one.csv", "-o", tmp_path / "a.csv")
    assert "one.csv: a table needs at least two rows that are not empty; it has one row. Store more." in said
    patches = works("sample", inputs["image"], "-n", 2, "--generator", "patches", "-o", tmp_path / "a.npz")
    assert "--warp 0 switches that off" in patches.stderr


def test_a_condition_on_a_sum_names_the_option_for_relations(tmp_path):
    rows = "".join(f"{i * 7 % 40},{i * 11 % 40},{i * 7 % 40 + i * 11 % 40}\n" for i in range(40))
    (tmp_path / "a.csv").write_text(f"net,tax,gross\n{rows}")
    said = refused("sample", tmp_path / "a.csv", "--condition", "gross=30", "-o", tmp_path / "new.csv")
    remedy = "Condition on 'net' and 'tax', or state other relations with --constraint."
    assert said.endswith(f"--condition gross=30: the column is gross = net + tax. {remedy}")


def test_reading_a_large_table_begins_with_an_estimate(tmp_path):
    path = tmp_path / "a.csv"
    with path.open("wb") as file:
        file.truncate(50_000_000)  # takes no room
    assert label_reading(path) == f"reading {path} (50 MB, usually about 25 s)"
    with path.open("wb") as file:
        file.truncate(19_000_000)
    assert label_reading(path) == f"reading {path}"
    assert label_reading(tmp_path) == f"reading {tmp_path}"


def test_inspect_says_whether_a_beta_is_hotter_or_colder_than_the_natural_one():
    assert "too hot" in _compare_with_natural(0.4, 1.0)
    assert "cold" in _compare_with_natural(2.1, 1.0)
    assert _compare_with_natural(1.0, 1.0) == _compare_with_natural(9.0, None) == ""


def test_the_former_spelling_of_an_option_is_accepted(tmp_path):
    np.save(tmp_path / "images.npy", np.random.default_rng(0).integers(0, 256, (12, 6, 6, 3), dtype=np.uint8))
    words = ["sample", tmp_path / "images.npy", "--kind", "image", "--no-trial", "-n", 2]
    works(*words, "--no-colour", "-o", tmp_path / "former.npy")
    works(*words, "--no-color", "-o", tmp_path / "present.npy")
    assert (tmp_path / "former.npy").read_bytes() == (tmp_path / "present.npy").read_bytes()
