"""Reading and writing of table files."""

import io
from datetime import date

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from made_tables import drawn, excel, patients, saved_and_loaded, written
from stochattn.kinds import InputError
from stochattn.kinds.tables.codec import TableCodec
from stochattn.kinds.tables.kind import KIND
from stochattn.kinds.tables.writing import cast, frame_from_state, frame_state


@pytest.fixture
def codec(tmp_path):
    return TableCodec.read(excel(tmp_path / "t.csv", patients()))


def test_a_spreadsheet_export_is_read_correctly(codec):
    assert {column.name: column.type for column in codec.columns} == {
        "patient": "id",
        "age": "integer",
        "weight": "numeric",
        "smoker": "boolean",
        "species": "category",
        "when": "date",
        "site": "carried",
        "empty": "carried",
        "dose": "numeric",
    }
    assert codec.stored["age"].dtype == "Int64"
    assert codec.stored["weight"].dtype == np.float64
    assert (codec.label, codec.labels[5], set(codec.labels)) == (
        "species",
        "",
        {"", "setosa", "virginica", "versicolor"},
    )
    assert codec.ids[:2] == ("p000", "p001")
    assert sum("'site' is constant" in note or "'empty' has no values" in note for note in codec.notes) == 2


def test_csv_is_written_in_the_style_of_the_input(codec, tmp_path):
    stored = written(codec, "csv", codec.stored).decode("utf-8")
    original = (tmp_path / "t.csv").read_bytes().decode("utf-8")
    without_ids = [line.split(";", 1)[1] for line in stored.splitlines()]
    assert without_ids == [line.split(";", 1)[1] for line in original.splitlines()]
    assert stored.startswith("\ufeffpatient;age;")
    assert stored.count("\ufeff") == 1
    assert [line.split(";")[0] for line in stored.splitlines()[1:]] == [f"new-{i + 1}" for i in range(40)]


@pytest.mark.parametrize("format", ["csv", "tsv", "parquet"])
def test_written_rows_are_read_again(codec, tmp_path, format):
    if format == "parquet":
        pytest.importorskip("pyarrow")
    new, _ = drawn(codec, 30)
    content = written(codec, format, new)
    assert content == written(codec, format, drawn(codec, 30)[0])
    path = tmp_path / f"new.{format}"
    path.write_bytes(content)
    back = KIND.read_new(codec, path)
    assert back.dtypes.equals(codec.stored.dtypes)
    assert codec.same(back, new).all()


BAD = {
    "empty": (b"", "the file is empty"),
    "header only": (b"a,b\n", "column names and no rows"),
    "one row": (b"a,b\n1,2\n", "at least two rows that are not empty; it has one row"),
    "same names": (b"a,b,a\n1,2,3\n2,3,4\n", "line 1: columns 1, 3 have the same name 'a'"),
    "long line": (b"a,b\n1,2\n1,2,3\n", "line 3: has 3 values where the first line has 2"),
    "short line": (b"a,b\n1,2\n5\n1,2\n", "line 3: has 1 value where the first line has 2"),
    "end of file in a cell": (b"a,b\n1,2\n3,4\x1a\n", "line 3: holds the control character 0x1a. Remove it"),
    "binary": (b"PK\x03\x04\x00\x00a,b\n1,2\n", "is a binary file"),
    "letter": (
        b"Dear Anna,\n,thanks\n,Bob\n",
        "'Dear Anna' holds cells that are not modeled, column 2 holds identifiers",
    ),
    "nothing varies": (b"a,b\n1,\n1,\n", "has no column to model"),
    "infinite": (b"a,b\n1,2\n3,inf\n", "line 3, column 'b': is infinite"),
    "two formats": (b"a,when\n1,2021-03-01\n2,04/05/2021\n", "line 3, column 'when': dates are in two formats"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_errors_of_one_line(tmp_path, name):
    content, why = BAD[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        TableCodec.read(path)
    assert why in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


FILES = {
    "latin-1": ("name,x\nMüller,1\nMüller,2\nÖzil,4\n".encode("latin-1"), ",", "name"),
    "tabs": (b"a\tb\n1\t2\n2\t5\n", "\t", "a"),
    "spaces": (b"1.0 2.5\n2.0 3.5\n4.0 9.5\n", " ", "column 1"),
    "bars": (b"a|b\n1|2\n2|5\n", "|", "a"),
    "named": (b"sep=;\r\na;b\r\n1,5;2\r\n2,5;5\r\n", ";", "a"),
    "utf-16": ("a\tb\r\n1\tä\r\n2\tö\r\n4\tä\r\n".encode("utf-16"), "\t", "a"),
    "times": (
        b"start time,end time\n2021-03-01 10:00,2021-03-01 11:30\n2021-03-02 09:00,2021-03-03 11:30\n",
        ",",
        "start time",
    ),
    "full names": (
        b"full name,home town\nAnn Lee,New York\nBob Ray,New York\nAnn Lee,San Jose\nBob Ray,San Jose\n",
        ",",
        "full name",
    ),
    "quoted": (b'a,b\n"1","x, y"\n2,"x, y"\n3,z\n4,z\n', ",", "a"),
}


@pytest.mark.parametrize("name", FILES)
def test_many_ways_to_write_a_table(tmp_path, name):
    content, delimiter, first = FILES[name]
    path = tmp_path / "t.txt"
    path.write_bytes(content)
    codec = TableCodec.read(path)
    assert (codec.style.delimiter, next(iter(codec.stored))) == (delimiter, first)
    assert codec.same(codec.decode(codec.encode(codec.stored), np.arange(codec.K)), codec.stored).all()
    out = tmp_path / "out.txt"
    out.write_bytes(written(codec, "csv", codec.stored, block=1))
    assert codec.same(KIND.read_new(codec, out), codec.stored).all()
    assert out.read_bytes().replace(b'"', b"") == content.replace(b'"', b"").removeprefix(b"sep=;\r\n")


def test_zip_codes_keep_their_zeros(tmp_path):
    (tmp_path / "t.csv").write_text("zip,x\n01234,1\n01234,2\n99999,5\n")
    assert TableCodec.read(tmp_path / "t.csv").stored["zip"].tolist() == ["01234", "01234", "99999"]


def test_long_whole_numbers_with_gaps_are_read_exactly(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("big,huge,vast,x\n9007199254740995,18446744073709551000,28446744073709551001,1\n,,,2\n7,8,9,5\n")
    stored = TableCodec.read(path).stored
    assert stored["big"].dtype == "Int64"
    assert stored["big"].tolist() == [9007199254740995, pd.NA, 7]
    assert stored["huge"].tolist() == [18446744073709551000, pd.NA, 8]
    assert stored["vast"].dropna().tolist() == ["28446744073709551001", "9"]
    path.write_text("big,x\n9007199254740995,1\n7,5\n")
    assert TableCodec.read(path).stored["big"].dtype == np.int64


def test_missing_cells_are_written_as_they_were(tmp_path):
    path = tmp_path / "t.csv"
    lines = ["a;b;c;when;d"]
    lines += ["1,5;n/a;?;2021-03-01;x", ";2;3;NULL;y", "2,5;n/a;4;2021-03-02;x", ";5;?;2021-03-05;NA", "4,5;7;9;NULL;y"]
    path.write_text("\n".join([*lines, ";;;;z"]) + "\n")
    codec = TableCodec.read(path)
    assert codec.stored["b"].dtype == codec.stored["c"].dtype == "Int64"
    assert "column 'c': ? is read as missing" in codec.notes
    content = written(codec, "csv", codec.stored, block=2).decode()
    # The most frequent text of a column's missing cells stands for all of them.
    assert content.splitlines() == [*lines, ";n/a;?;NULL;z"]
    path.write_text(content)
    assert codec.same(KIND.read_new(codec, path), codec.stored).all()
    assert (
        KIND.select(codec, "b", "n/a").tolist()
        == KIND.select(codec, "b", "").tolist()
        == codec.stored["b"].isna().tolist()
    )
    path.write_text("a,b\n-,1\nx,2\n-,3\nx,5\n")
    assert TableCodec.read(path).stored["a"].tolist() == ["-", "x", "-", "x"]


def test_padded_decimals_survive_one_odd_value(tmp_path):
    path = tmp_path / "t.csv"
    cells = [f"{2 + i / 50:.2f}" for i in range(40)] + ["9.899999"]
    path.write_text("\n".join(["price", *cells]) + "\n")
    codec = TableCodec.read(path)
    assert written(codec, "csv", codec.stored).decode().splitlines() == ["price", *cells]
    new = written(codec, "csv", drawn(codec, 200)[0]).decode().splitlines()[1:]
    assert {len(cell.partition(".")[2]) for cell in new if cell != "9.899999"} == {2}
    path.write_text("price\n2.5\n" + "\n".join(cells) + "\n")  # a value that shows that decimals are not padded
    assert "2.00" not in written(TableCodec.read(path), "csv", codec.stored).decode().splitlines()


def test_tables_of_numbers_are_written_as_matrices(tmp_path):
    frame = patients()[["age", "weight", "smoker", "dose"]]
    codec = TableCodec.fit(frame)
    new, _ = drawn(codec, 30)
    path = tmp_path / "new.npy"
    path.write_bytes(written(codec, "npy", new))
    matrix = np.load(path)
    assert (matrix.shape, matrix.dtype) == ((30, 4), np.float64)
    assert np.array_equal(matrix[:, 1], new["weight"])
    assert np.array_equal(np.isnan(matrix[:, 0]), new["age"].isna())
    back = KIND.read_new(codec, path)
    assert back.dtypes.equals(frame.dtypes)
    assert codec.same(back, new).all()
    again = TableCodec.read(path)
    assert list(again.stored) == ["x1", "x2", "x3", "x4"]
    assert again.stored["x4"].tolist() == new["dose"].tolist()
    whole = TableCodec.fit(pd.DataFrame({"a": [1, 5, 3], "b": [2**60 + 1, 7, 7]}))
    path.write_bytes(written(whole, "npy", whole.stored))
    assert np.load(path).tolist() == [[1, 2**60 + 1], [5, 7], [3, 7]]
    assert not any(format.collected for format in KIND.formats)


def test_a_matrix_has_a_dtype_for_all_blocks():
    codec = TableCodec.fit(pd.DataFrame({"a": pd.array([1, 5, 3], dtype="Int64"), "b": [2, 7, 9]}))
    items = pd.DataFrame({"a": pd.array([1, 2, None], dtype="Int64"), "b": [3, 4, 5]})  # None in the last block
    matrix = np.load(io.BytesIO(written(codec, "npy", items, block=2)))
    np.testing.assert_array_equal(matrix, [[1, 3], [2, 4], [np.nan, 5]])


def test_values_that_a_matrix_cannot_store_are_errors(codec, tmp_path):
    with pytest.raises(InputError, match=r"column 'patient' is not numeric .* columns=.'patient': 'drop'"):
        written(codec, "npy", codec.stored)
    mixed = TableCodec.fit(pd.DataFrame({"a": [1.5, 5, 3], "b": [2**60 + 1, 7, 7]}))
    with pytest.raises(InputError, match="column 'b' has integers of over 15 digits"):
        written(mixed, "npy", mixed.stored)
    np.save(tmp_path / "new.npy", np.zeros((3, 2)))
    with pytest.raises(InputError, match="has 2 columns, and the stored table 9"):
        KIND.read_new(codec, tmp_path / "new.npy")


def test_days_of_parquet_are_preserved(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    days = [date(2021, 3, 1), None, date(1501, 7, 2), date(2021, 12, 24), date(2021, 3, 1)]
    pq.write_table(
        pa.table({"day": pa.array(days, pa.date32()), "x": [1.5, 2.5, 3.0, 7.5, 9.0]}), tmp_path / "t.parquet"
    )
    codec = TableCodec.read(tmp_path / "t.parquet")
    assert codec.columns[0].type == "date"
    assert codec.same(codec.decode(codec.encode(codec.stored), np.arange(codec.K)), codec.stored).all()
    new, _ = drawn(codec, 20)
    for format in ("parquet", "csv"):
        path = tmp_path / f"new.{format}"
        path.write_bytes(written(codec, format, new))
        back = KIND.read_new(codec, path)
        assert {type(cell) for cell in back["day"].dropna()} == {date}
        assert codec.same(back, new).all()
    assert pq.read_schema(tmp_path / "new.parquet").field("day").type == pa.date32()
    again = saved_and_loaded(codec, tmp_path)
    assert codec.same(again.stored, codec.stored).all()
    assert codec.same(drawn(again, 20)[0], new).all()


def test_rows_and_columns_without_values_are_dropped(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,\n1,2,\n,,\n3,5,\n4,inf,\n")
    with pytest.raises(InputError, match="line 5, column 'b'"):
        TableCodec.read(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("a,b,\n1,2,\n,,\n3,5,\n")
    codec = TableCodec.read(tmp_path / "t.csv")
    assert codec.stored.to_dict("list") == {"a": [1, 3], "b": [2, 5]}
    assert "1 row without any value is left out" in codec.notes


def test_parquet_and_arrays_are_read(tmp_path):
    np.save(tmp_path / "t.npy", np.array([[1.0, 2.5], [2.0, 3.5], [4.0, 1.5]]))
    assert list(TableCodec.read(tmp_path / "t.npy").stored) == ["x1", "x2"]
    np.save(tmp_path / "t.npy", np.zeros(3))
    with pytest.raises(InputError, match=r"got shape \(3,\)"):
        TableCodec.read(tmp_path / "t.npy")
    pytest.importorskip("pyarrow")
    patients().to_parquet(tmp_path / "t.parquet")
    codec = TableCodec.read(tmp_path / "t.parquet")
    assert codec.same(codec.decode(codec.encode(codec.stored), np.arange(codec.K)), codec.stored).all()
    (tmp_path / "t.parquet").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        TableCodec.read(tmp_path / "t.parquet")


@pytest.mark.parametrize("identifier", [lambda i: f"{i:05d}", lambda i: str(10**25 + i)], ids=["padded", "long"])
def test_texts_that_all_look_like_numbers_are_identifiers(tmp_path, identifier):
    path = tmp_path / "patients.csv"
    path.write_text("patient,age\n" + "".join(f"{identifier(i)},{i * 7 % 60}\n" for i in range(40)))
    synth = sa.fit(path)
    assert (
        "column 'patient' has nearly all distinct strings, and is read as identifiers, which are not modeled"
        in synth.notes
    )
    assert list(synth.sample(2, rng=0).patient) == ["new-1", "new-2"]


def test_a_big_endian_matrix_is_a_table(tmp_path):
    rows = np.random.default_rng(0).normal(size=(30, 3))
    for name, kind in (("big.npy", ">f8"), ("little.npy", "<f8")):
        np.save(tmp_path / name, rows.astype(kind))
    big, little = (sa.fit(tmp_path / name).sample(5, rng=0) for name in ("big.npy", "little.npy"))
    pd.testing.assert_frame_equal(big, little)


def test_new_rows_get_the_dtypes_of_stored_ones():
    texts = pd.Series(["1", "2", "1", "x"], dtype="object")
    grades = pd.Categorical([1, 2, 1, 2], categories=[2, 1])
    times = pd.to_datetime(["2021-03-01 10:15", "2021-03-02 11:15", "2021-03-05 09:15", "2021-03-07 08:15"])
    dates = ["01.03.2021", "15.03.2021", "14.04.2021", "02.03.2021"]
    stored = pd.DataFrame({"code": texts, "grade": grades, "time": times, "date": dates, "n": [1, 5, 3, 2]})
    codec = TableCodec.fit(stored)
    new = stored.assign(code=[1, 2, 1, 2], grade=[1, 2, 2, 1], n=[1.0, 2.0, 3.0, 4.0])
    found = cast(new.set_index("n", drop=False), codec.columns, "new")
    expected = stored.assign(code=pd.Series(["1", "2", "1", "2"], dtype="object"), n=[1, 2, 3, 4])
    expected["grade"] = pd.Categorical([1, 2, 2, 1], categories=[2, 1])
    pd.testing.assert_frame_equal(found, expected)


def test_days_may_all_be_missing_in_new_rows():
    codec = TableCodec.fit(pd.DataFrame({"day": [date(2021, 3, 1), date(2021, 3, 5)], "x": [1.5, 2.5]}))
    for gone in ([np.nan, np.nan], [None, None]):
        found = cast(pd.DataFrame({"day": gone, "x": [1.0, 2.0]}), codec.columns, "new")
        assert (found["day"].dtype, found["day"].isna().tolist()) == (object, [True, True])


def test_each_sign_of_a_missing_object_survives_saving():
    frame = pd.DataFrame({"a": np.array(["u", np.nan, None, 2.5], dtype=object)})
    found = frame_from_state(frame_state(frame))["a"].tolist()
    assert (found[0], found[2], found[3]) == ("u", None, 2.5)
    assert np.isnan(found[1])
