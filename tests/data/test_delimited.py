"""The reader of delimited text that all kinds of data share."""

import numpy as np
import pandas as pd
import pytest

from stochattn.data import InputError
from stochattn.data.delimited import read_table, read_texts


def written(folder, text, name="t.csv"):
    (folder / name).write_text(text)
    return folder / name


def test_typed_columns_and_texts_of_one_file(tmp_path):
    path = written(tmp_path, "date,A,B\n2024-01-02,1,2.5\n\n2024-01-03,3,\n2024-01-04,NA,4.5\n")
    typed, texts = read_table(path), read_texts(path)
    assert typed.frame["A"].dtype == "Int64"
    assert typed.frame["B"].dtype == np.float64
    assert texts.frame["A"].tolist()[:2] == ["1", "3"]
    assert texts.frame.isna().sum().tolist() == typed.frame.isna().sum().tolist() == [0, 1, 1]
    assert [texts.place(row) for row in range(3)] == ["line 2", "line 4", "line 5"]
    assert typed.lines == texts.lines


@pytest.mark.parametrize(
    ("cells", "expected", "decimal", "note"),
    [
        (("1,226", "1,5", "2,25"), ["1.226", "1.5", "2.25"], ",", "numbers such as 1,5 were read with a decimal comma"),
        (("1.226,50", "98,5", "7"), ["1226.50", "98.5", "7"], ",", "with a decimal comma"),
        (("1,226", "998.5", "2,251"), ["1226", "998.5", "2251"], ".", "were read as thousands separators"),
        (("1,226,000", "998", "2,251"), ["1226000", "998", "2251"], ".", "were read as thousands separators"),
        (("1226.5", "998", "2251"), ["1226.5", "998", "2251"], ".", None),
    ],
    ids=str,
)
@pytest.mark.parametrize("delimiter", ["\t", ";"], ids=["tabs", "semicolons"])
def test_commas_in_numbers_mean_one_thing_in_a_file(tmp_path, delimiter, cells, expected, decimal, note):
    lines = [delimiter.join(line) for line in (("day", "A"), *zip("abc", cells, strict=True))]
    read = read_texts(written(tmp_path, "\n".join(lines), "t.tsv"))
    assert read.frame["A"].tolist() == expected
    assert (read.style.delimiter, read.style.decimal) == (delimiter, decimal)
    assert (note is None and read.notes == ()) or note in read.notes[0]


def test_commas_that_may_mean_two_things_are_errors(tmp_path):
    path = written(tmp_path, "day\tA\na\t1,226\nb\t1,301\n")
    with pytest.raises(InputError, match=r"line 2, column 'A': '1,226' may mean 1226 or 1\.226, and no other number"):
        read_texts(path)
    path = written(tmp_path, "day\tA\na\t1,5\nb\t12.5\n")
    with pytest.raises(InputError, match=r"writes '1,5' \(line 2, column 'A'\) .* '12.5' \(line 3, column 'A'\)"):
        read_texts(path)


def test_lines_that_end_early_are_missing_cells_of_texts_and_errors_of_tables(tmp_path):
    path = written(tmp_path, "day,A,B\na,1\nb,2,3\n")
    assert read_texts(path).frame["B"].isna().tolist() == [True, False]
    with pytest.raises(InputError, match="line 2: has 2 values where the first line has 3"):
        read_table(path)
    path = written(tmp_path, "day,A\na,1,5\nb,2\n")
    for read in (read_table, read_texts):
        with pytest.raises(InputError, match="line 2: has 3 values where the first line has 2"):
            read(path)


def test_parquet_keeps_its_types_and_its_index_becomes_a_column(tmp_path):
    pytest.importorskip("pyarrow")
    index = pd.date_range("2021-01-04", periods=3, name="when")
    pd.DataFrame({"A": [1.5, 2.5, 3.5]}, index=index).to_parquet(tmp_path / "t.parquet")
    read = read_texts(tmp_path / "t.parquet")
    assert list(read.frame) == ["when", "A"]
    assert read.frame["when"].dtype.kind == "M"
    assert read.place(1) == "row 2"


@pytest.mark.parametrize("read", [read_table, read_texts])
def test_files_that_cannot_be_read_are_errors(tmp_path, read):
    with pytest.raises(InputError, match="does not exist: name a CSV, TSV or Parquet file"):
        read(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path)
    with pytest.raises(InputError, match="the file is empty"):
        read(written(tmp_path, " \n"))
    with pytest.raises(InputError, match="line 1: columns 2, 3 have the same name 'A'"):
        read(written(tmp_path, "day,A,A\na,1,2\nb,3,4\n"))
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read(written(tmp_path, "no", "t.parquet"))


@pytest.mark.parametrize("array", [np.array([["a", "b"], ["c", "d"]]), np.ones((3, 2), dtype=complex)])
def test_a_matrix_must_hold_numbers(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InputError, match=r"a\.npy: a matrix must hold numbers; got .*Put texts into"):
        read_table(tmp_path / "a.npy")
