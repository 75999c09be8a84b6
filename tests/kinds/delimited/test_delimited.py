"""The reader of delimited text that all kinds of data share."""

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from command_runner import refused
from stochattn.kinds import InputError
from stochattn.kinds.delimited.notations import notation_of
from stochattn.kinds.delimited.numbers import Notation, NumberForm
from stochattn.kinds.delimited.reading import numbers_beside_dates, read_first_rows, read_table, read_texts


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


def test_lines_of_numbers_that_differ_in_length_may_be_signals(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("0.5,1.5,2.5\n0.5,1.5\n0.5,1.5,2.5\n")
    remedy = "If each line is a signal, pass --kind signals and --length N or --resample N."
    assert refused("inspect", path).endswith(remedy)
    path.write_text("a,b,c\n0.5,1.5\n0.5,1.5,2.5\n")
    assert "signal" not in refused("inspect", path)


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
    with pytest.raises(InputError, match="does not exist: name a CSV, TSV, Excel or Parquet file"):
        read(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="is a folder, not a table"):
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
    with pytest.raises(InputError, match=r"a\.npy: a matrix must hold numbers; got .*Put strings into"):
        read_table(tmp_path / "a.npy")


def test_a_column_beside_dates_holds_numbers_if_most_of_its_cells_are(tmp_path):
    rows = ["2021-01-04,1.5,open,", "2021-01-05,2.5,2.5,", "2021-01-06,shut,,", "2021-01-07,3.5,,"]
    path = written(tmp_path, "\n".join(["date,most,half,none", *rows]))
    assert numbers_beside_dates(read_first_rows(path)) == [True, False, True]


def test_tabs_delimit_a_tsv_file_whose_cells_have_commas(tmp_path):
    read = read_table(written(tmp_path, "a,b\tc\nx,y\t3\nz,y\t6\n", "t.tsv"))
    assert read.frame.to_dict("list") == {"a,b": ["x,y", "z,y"], "c": [3, 6]}
    assert list(read_table(written(tmp_path, "a;b\n1;2\n3;5\n", "t.tsv")).frame) == ["a", "b"]


def test_the_delimiter_is_one_that_cuts_all_lines_equally(tmp_path):
    read = read_table(written(tmp_path, "a, b, c;x\n1;2\n3;4\n"))
    assert read.frame.to_dict("list") == {"a, b, c": [1, 3], "x": [2, 4]}


def test_texts_without_their_separators(tmp_path):
    path = written(tmp_path, 'day,views\na,"1,137"\nb,98\n')
    assert read_texts(path).frame["views"].tolist() == ["1137", "98"]
    read = read_texts(written(tmp_path, "price;fee\n1,50 €;$3\n2,25 €;$4\n"))
    assert read.frame.to_dict("list") == {"price": ["1.50", "2.25"], "fee": ["3", "4"]}
    assert read.style.decimal == ","
    read = read_texts(written(tmp_path, "day;x\na;1,5e3\nb;7\n"))
    assert (read.frame["x"].tolist(), read.style.decimal) == (["1.5e3", "7"], ",")


def test_a_damaged_file_of_utf_16_is_read_as_far_as_possible(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe" + "a,b\n1,x\n2,y".encode("utf-16-le") + b"\x00")
    read = read_table(tmp_path / "t.csv", header=True)
    assert (list(read.frame), read.style.encoding) == (["a", "b"], "utf-16")


def test_an_empty_column_has_no_decimals(tmp_path):
    assert read_table(written(tmp_path, "a,b,c\n1.50,,x\n2.25,,y\n")).style.decimals == {"a": 2}


def test_the_notation_of_texts():
    assert notation_of(["$1,200.50", "$3.00"]) == Notation(".", NumberForm("$", "", ","), 2)
    assert notation_of(["1,50 €", "12,25 €"]) == Notation(",", NumberForm("", " €"), 2)
    assert notation_of(["$3", "three"]) is None
    assert notation_of(["3", "4"]) is None


def test_a_text_may_mean_a_number_without_the_form_of_its_column():
    dollars = Notation(form=NumberForm("$", thousands=","))
    np.testing.assert_array_equal([dollars.number(text) for text in ("1e3", "five", " $5 ")], [1000, np.nan, 5])


@pytest.mark.parametrize(
    ("dates", "found"),
    [
        (("05/01/2020", "01/02/2020", "03/03/2020", "02/04/2020"), True),  # in order with the day first
        (("01/05/2020", "02/01/2020", "03/03/2020", "04/02/2020"), True),  # with the month first
        (("2020-04-02", "2020-03-03", "2020-02-01", "2020-01-05"), True),  # the latest first
        (("05/01/2020", "01/09/2020", "03/03/2020", "02/04/2020"), False),
        (("05/01/2020", "05/01/2020", "03/03/2020", "02/04/2020"), False),
    ],
)
def test_dates_are_in_order_with_the_day_or_the_month_first(tmp_path, dates, found):
    path = tmp_path / "prices.csv"
    path.write_text("when,A,B\n" + "".join(f"{date},{i + 1}.5,{i * 3 + 2}.25\n" for i, date in enumerate(dates)))
    assert numbers_beside_dates(read_first_rows(path)) == ([True, True] if found else [])


@pytest.mark.parametrize("kind", ["table", "returns"])
def test_a_folder_in_place_of_a_table_is_refused_with_a_remedy(kind, tmp_path):
    with pytest.raises(InputError, match="is a folder, not a table: name a CSV"):
        sa.fit(tmp_path, kind)
