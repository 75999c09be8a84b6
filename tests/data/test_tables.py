"""Tables from files to rows of a bank, and draws back into files."""

import io
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stochattn import StochasticAttention
from stochattn.core.mixture import Mixture
from stochattn.data.legacy import Batch, InputError, Settings, read_state
from stochattn.data.tables import TableCodec
from stochattn.data.tables.measures import correlation_error, kolmogorov_smirnov

SETTINGS = Settings(beta=2.0, seed=1, rule="natural", sampler="exact", source="t.csv")


def patients(n=40, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    frame = pd.DataFrame(
        {
            "patient": [f"p{i:03d}" for i in range(n)],
            "age": pd.array(age, dtype="Int64"),
            "weight": np.round(rng.lognormal(4.2, 0.2, n), 1),
            "smoker": rng.random(n) < 0.4,
            "species": np.array(["setosa", "virginica", "versicolor"])[rng.integers(0, 3, n)],
            "when": pd.date_range("2021-01-04", periods=n, freq="3D").strftime("%d.%m.%Y"),
            "site": 7,
            "empty": np.full(n, np.nan),
        }
    )
    frame["dose"] = np.round(frame["weight"] * 0.5 + rng.normal(0, 2, n), 2)
    frame.loc[[3, 11, 20], "age"] = pd.NA
    frame.loc[[5, 11], "species"] = None
    return frame


def excel(path: Path, frame: pd.DataFrame) -> Path:
    """As a spreadsheet with a continental locale exports it."""
    cells = frame.assign(
        smoker=frame["smoker"].map({True: "TRUE", False: "FALSE"}),
        weight=frame["weight"].map("{:.1f}".format).str.replace(".", ","),
        dose=frame["dose"].map("{:.2f}".format).str.replace(".", ","),
    )
    path.write_bytes(cells.to_csv(index=False, sep=";", lineterminator="\r\n").encode("utf-8-sig"))
    return path


def drawn(codec: TableCodec, n: int, seed: int = 0, fixes=()):
    model = StochasticAttention(codec.bank, equal_weights=codec.equal_weights)
    law = Mixture.of(model.bank, model.beta, codec.factors(model.beta))
    law = law.given(*codec.observe(fixes)) if fixes else law
    z, k = law.sample(n, np.random.default_rng(seed))
    return codec.items(z, k, np.random.default_rng(seed)), k


def written(codec: TableCodec, format: str, items, block=7) -> bytes:
    stream = io.BytesIO()
    writer = codec.writer(stream, format, SETTINGS)
    for first in range(0, len(items), block):
        part = codec.take(items, np.arange(first, min(first + block, len(items))))
        none = np.zeros(len(part), dtype=int)
        writer.write(Batch(first=first, items=part, nearest=none, novelty=none, extra={}, memory=none))
    writer.close()
    return stream.getvalue()


@pytest.fixture
def codec(tmp_path):
    return TableCodec.read(excel(tmp_path / "t.csv", patients()))


def test_a_spreadsheet_export_is_read_as_it_is_meant(codec):
    assert {column.name: column.kind for column in codec.columns} == {
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
    assert sum("'site' is constant" in note or "'empty' holds no value" in note for note in codec.notes) == 2


@pytest.mark.parametrize("options", [{}, {"whiten": True}, {"norm": "restored"}, {"spread": "grown"}])
def test_stored_rows_come_back_exactly(tmp_path, options):
    codec = TableCodec.read(excel(tmp_path / "t.csv", patients()), **options)
    assert codec.loss().items == 1
    assert codec.same(codec.decode(codec.encode(codec.stored)), codec.stored).all()


def test_cutting_variance_is_a_measured_loss():
    loss = TableCodec.fit(patients(), variance=0.6).loss()
    assert loss.items < 1
    assert 0.6 <= loss.variance < 1


def test_new_rows_have_the_columns_dtypes_and_formats_of_stored_ones(codec):
    new, memory = drawn(codec, 300)
    assert new.dtypes.equals(codec.stored.dtypes)
    assert list(new) == list(codec.stored)
    assert set(new["species"].dropna()) <= {"setosa", "virginica", "versicolor"}
    assert new["weight"].gt(0).all()
    assert new["weight"].eq(new["weight"].round(1)).all()
    assert pd.to_datetime(new["when"], format="%d.%m.%Y").notna().all()
    assert new["site"].eq(7).all()
    assert new["empty"].isna().all()
    gaps = codec.stored["age"].isna().to_numpy()
    assert np.array_equal(new["age"].isna(), gaps[memory])


def test_imputed_rows_are_complete():
    codec = TableCodec.fit(patients(), missing="impute")
    new, _ = drawn(codec, 50)
    assert new.drop(columns="empty").notna().all(axis=None)


def test_covariance_of_draws_is_that_of_stored_rows_whatever_beta():
    codec = TableCodec.fit(patients(60))
    for beta in (0.5, 3.0):
        law = Mixture.of(StochasticAttention(codec.bank, beta=beta, equal_weights=True).bank, beta, codec.factors(beta))
        stored = codec.coordinates.stored
        exact = (law.means.T @ law.means) / codec.K + np.diag(law.scales[0] ** 2)
        # Principal components are uncorrelated, so that shrinking each leaves them so.
        assert np.allclose(exact, stored.T @ stored / codec.K, atol=1e-10)


def test_fixed_values_come_back_as_asked(codec):
    new, _ = drawn(codec, 40, fixes=["age=44", "species=virginica", "when=2021-02-03", "weight=70,5", "smoker=True"])
    assert new["age"].eq(44).all()
    assert new["species"].eq("virginica").all()
    assert new["when"].eq("03.02.2021").all()
    assert new["weight"].eq(70.5).all()
    assert new["smoker"].all()
    assert new["dose"].nunique() > 10


def test_the_rest_follows_what_is_fixed():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(200)
    codec = TableCodec.fit(pd.DataFrame({"x": x, "y": x + 0.1 * rng.standard_normal(200)}))
    high, low = (drawn(codec, 200, fixes=[text])[0]["y"].mean() for text in ("x=1.5", "x=-1.5"))
    assert high == pytest.approx(1.5, abs=0.3)
    assert low == pytest.approx(-1.5, abs=0.3)


@pytest.mark.parametrize(
    ("fix", "why"),
    [
        ("height=3", "there is no column 'height'. Did you mean 'weight'.* one of the columns age, weight"),
        ("patient=p001", "an identifier"),
        ("site=7", "constant"),
        ("species=tulip", "It has setosa, versicolor, virginica"),
        ("age=-4", "has nothing below 1"),
        ("when=soon", "is no date"),
        ("age", "write column=value"),
    ],
)
def test_impossible_fixes_are_refused(codec, fix, why):
    with pytest.raises(InputError, match=why) as error:
        codec.observe([fix])
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"--fix {fix}: ")
    with pytest.raises(InputError, match="fixed twice"):
        codec.observe(["age=30", "age=40"])


def test_values_beyond_the_stored_ones_are_noted(codec):
    codec.observe(["age=105"])
    assert codec.notes[-1] == "age=105 lies beyond the stored values of column 'age'"


def test_csv_is_written_in_the_style_it_was_read(codec, tmp_path):
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
    back = codec.read_new(path)
    assert back.dtypes.equals(codec.stored.dtypes)
    assert codec.same(back, new).all()


def test_saved_and_read_again_it_draws_the_same(codec, tmp_path):
    codec.save(tmp_path / "codec.npz")
    again = TableCodec.from_state(*read_state(tmp_path / "codec.npz"))
    pd.testing.assert_frame_equal(again.stored, codec.stored)
    pd.testing.assert_frame_equal(drawn(again, 20)[0], drawn(codec, 20)[0])
    assert (again.ids, again.labels, again.notes) == (codec.ids, codec.labels, codec.notes)
    assert written(again, "csv", codec.stored) == written(codec, "csv", codec.stored)


def test_every_dtype_survives_saving(tmp_path):
    frame = pd.DataFrame(
        {
            "a": pd.Categorical(["x", "y", None, "x"], categories=["z", "y", "x"], ordered=True),
            "b": pd.to_datetime(["2021-01-01", None, "2021-01-03", "2021-01-09"]).tz_localize("UTC"),
            "c": pd.array([True, None, False, True], dtype="boolean"),
            "d": np.array([1, 2, 3, 5], dtype=np.int16),
            "e": np.array([0.5, np.nan, 1.5, 2.5], dtype=np.float32),
        }
    )
    codec = TableCodec.fit(frame)
    assert codec.loss().items == 1
    codec.save(tmp_path / "codec.npz")
    pd.testing.assert_frame_equal(TableCodec.from_state(*read_state(tmp_path / "codec.npz")).stored, frame)
    assert drawn(codec, 5)[0].dtypes.equals(frame.dtypes)


def test_a_half_is_fitted_with_the_same_kinds(codec):
    half = codec.refit(codec.take(codec.stored, np.arange(0, 40, 2)))
    assert half.K == 20
    assert [c.kind for c in half.columns] == [c.kind for c in codec.columns]


def test_comparison_of_stored_rows_with_themselves_is_perfect(codec):
    measures, parts = codec.compare(codec.stored)
    assert [m.value for m in measures] == pytest.approx([0, 0, 1, measures[3].ideal])
    assert measures[3].value == pytest.approx(5 / 240)  # 3 ages and 2 species of 40 rows and 6 columns
    assert [part.name for part in parts] == ["age", "weight", "smoker", "species", "when", "dose"]
    assert all(part.distance == 0 and part.stored == part.new for part in parts)


def test_comparison_sees_what_differs(codec):
    moved = codec.stored.assign(weight=codec.stored["weight"] + 1000, species="setosa")
    measures, parts = codec.compare(moved)
    by_name = {part.name: part for part in parts}
    share = float((codec.stored["species"].dropna() == "setosa").mean())
    assert by_name["weight"].distance == 1
    assert by_name["species"].distance == pytest.approx(1 - share)
    assert measures[2].value == 0


def test_measures_against_brute_force():
    from scipy.stats import ks_2samp

    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 9, 40).astype(float), rng.integers(2, 12, 23).astype(float)
    assert kolmogorov_smirnov(first, second) == pytest.approx(ks_2samp(first, second).statistic)
    X, Y = rng.standard_normal((30, 3)), rng.standard_normal((20, 3))
    gaps = np.abs(np.corrcoef(X.T) - np.corrcoef(Y.T))
    assert correlation_error(X, Y) == pytest.approx((gaps[0, 1] + gaps[0, 2] + gaps[1, 2]) / 3)


BAD = {
    "empty": (b"", "the file is empty"),
    "header only": (b"a,b\n", "column names and no rows"),
    "one row": (b"a,b\n1,2\n", "at least two rows with values; it has one row"),
    "same names": (b"a,b,a\n1,2,3\n2,3,4\n", "line 1: columns 1, 3 have the same name 'a'"),
    "long line": (b"a,b\n1,2\n1,2,3\n", "line 3: has 3 values where the first line has 2"),
    "short line": (b"a,b\n1,2\n5\n1,2\n", "line 3: has 1 values where the first line has 2"),
    "binary": (b"PK\x03\x04\x00\x00a,b\n1,2\n", "is a binary file"),
    "nothing varies": (b"a,b\n1,\n1,\n", "has no column to model"),
    "infinite": (b"a,b\n1,2\n3,inf\n", "line 3, column 'b': is infinite"),
    "two formats": (b"a,when\n1,2021-03-01\n2,04/05/2021\n", "line 3, column 'when': dates are in two formats"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_in_one_line(tmp_path, name):
    content, why = BAD[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        TableCodec.read(path)
    assert why in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_bad_options_are_refused():
    frame = patients()
    for options, why in (
        ({"missing": "drop"}, "^--missing must be one of keep, impute"),
        ({"columns": {"age": "number"}}, "^--column age=number: the kind must be one of"),
        ({"columns": {"height": "numeric"}}, "^--column height=numeric: there is no column 'height'. .*'weight'"),
        ({"columns": {"height": "drop"}}, "^--column height=drop: there is no column 'height'. .*'weight'"),
        ({"columns": {"smoker": "drop"}, "label": "smoker"}, "^--label smoker: there is no column 'smoker'"),
        ({"label": "class"}, "^--label class: there is no column 'class'. The table has patient, age"),
        ({"ranges": {"ages": (0, None)}}, "^--range ages=0:: there is no column 'ages'. Did you mean 'age'"),
        ({"ranges": {"age": (6, 0)}}, "^--range age=6:0: the limits are reversed. Write age=0:6"),
        ({"ranges": {"weight": (None, 10.0)}}, "outside the range"),
        ({"variance": 2.0}, "variance must lie above 0"),
    ):
        with pytest.raises(InputError, match=why):
            TableCodec.fit(frame, **options)
    with pytest.raises(InputError, match="must be a pandas DataFrame; got list"):
        TableCodec.fit([[1, 2]])


def test_columns_can_be_overridden():
    codec = TableCodec.fit(
        patients(), columns={"age": "numeric", "weight": "drop", "smoker": "carried"}, label="smoker"
    )
    kinds = {column.name: column.kind for column in codec.columns}
    assert (kinds["age"], kinds["smoker"]) == ("numeric", "carried")
    assert "weight" not in codec.stored
    assert set(codec.labels) == {"True", "False"}


def test_notes_and_messages_name_the_options_of_the_command_line():
    codec = TableCodec.fit(pd.DataFrame({"x": [1.5, 2.5, 4.0, 3.0], "target": [1, 2, 3, 1]}))
    assert codec.notes == ("column 'target' is read as classes; --column target=integer makes them amounts",)
    with pytest.raises(InputError, match=r"or set a kind with --column NAME=KIND\.$"):
        TableCodec.fit(pd.DataFrame({"a": [1, 1]}))
    with pytest.raises(InputError, match="leave the column out with --column a=drop"):
        TableCodec.fit(pd.DataFrame({"a": [[1], [2]]}))
    with pytest.raises(InputError, match="Choose another kind with --column x=KIND"):
        TableCodec.fit(codec.stored, columns={"x": "integer"})


FILES = {
    "latin-1": ("name,x\nMüller,1\nMüller,2\nÖzil,4\n".encode("latin-1"), ",", "name"),
    "tabs": (b"a\tb\n1\t2\n2\t5\n", "\t", "a"),
    "spaces": (b"1.0 2.5\n2.0 3.5\n4.0 9.5\n", " ", "x1"),
    "bars": (b"a|b\n1|2\n2|5\n", "|", "a"),
    "named": (b"sep=;\r\na;b\r\n1,5;2\r\n2,5;5\r\n", ";", "a"),
    "utf-16": ("a\tb\r\n1\tä\r\n2\tö\r\n".encode("utf-16"), "\t", "a"),
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
    assert codec.loss().items == 1
    out = tmp_path / "out.txt"
    out.write_bytes(written(codec, "csv", codec.stored, block=1))
    assert codec.same(codec.read_new(out), codec.stored).all()
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
    assert codec.same(codec.read_new(path), codec.stored).all()
    assert codec.matches("b", "n/a").tolist() == codec.matches("b", "").tolist() == codec.stored["b"].isna().tolist()
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
    path.write_text("price\n2.5\n" + "\n".join(cells) + "\n")  # which shows that they are not padded
    assert "2.00" not in written(TableCodec.read(path), "csv", codec.stored).decode().splitlines()


def test_rows_are_matched_by_what_the_file_says(codec):
    for text in ("TRUE", "True", "true"):
        assert codec.matches("smoker", text).tolist() == codec.stored["smoker"].tolist()
        assert drawn(codec, 5, fixes=[f"smoker={text}"])[0]["smoker"].all()
    assert codec.ids[int(np.flatnonzero(codec.matches("patient", "p007"))[0])] == "p007"
    assert codec.matches("when", "07.01.2021").tolist() == codec.matches("when", "2021-01-07").tolist()
    assert np.flatnonzero(codec.matches("when", "2021-01-07")).tolist() == [1]
    weight = codec.stored["weight"][4]
    assert np.array_equal(codec.matches("weight", str(weight).replace(".", ",")), codec.stored["weight"] == weight)
    age = int(codec.stored["age"][0])
    assert np.array_equal(codec.matches("age", str(age)), (codec.stored["age"] == age).fillna(False))
    assert codec.matches("site", "7").all()
    assert not codec.matches("species", "tulip").any()
    with pytest.raises(InputError, match=r"there is no column 'wieght'. Did you mean 'weight'\?"):
        codec.matches("wieght", "3")


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
    back = codec.read_new(path)
    assert back.dtypes.equals(frame.dtypes)
    assert codec.same(back, new).all()
    again = TableCodec.read(path)
    assert list(again.stored) == ["x1", "x2", "x3", "x4"]
    assert again.stored["x4"].tolist() == new["dose"].tolist()
    whole = TableCodec.fit(pd.DataFrame({"a": [1, 5, 3], "b": [2**60 + 1, 7, 7]}))
    path.write_bytes(written(whole, "npy", whole.stored))
    assert np.load(path).tolist() == [[1, 2**60 + 1], [5, 7], [3, 7]]
    assert TableCodec.collected == ()


def test_a_matrix_takes_the_dtype_that_holds_every_block():
    codec = TableCodec.fit(pd.DataFrame({"a": pd.array([1, 5, 3], dtype="Int64"), "b": [2, 7, 9]}))
    items = pd.DataFrame({"a": pd.array([1, 2, None], dtype="Int64"), "b": [3, 4, 5]})  # a gap in the last block
    matrix = np.load(io.BytesIO(written(codec, "npy", items, block=2)))
    np.testing.assert_array_equal(matrix, [[1, 3], [2, 4], [np.nan, 5]])


def test_what_a_matrix_cannot_hold_is_refused(codec, tmp_path):
    with pytest.raises(InputError, match=r"column 'patient' is not numeric .* --column patient=drop"):
        codec.writer(io.BytesIO(), "npy", SETTINGS)
    mixed = TableCodec.fit(pd.DataFrame({"a": [1.5, 5, 3], "b": [2**60 + 1, 7, 7]}))
    with pytest.raises(InputError, match="column 'b' has whole numbers of over 15 digits"):
        written(mixed, "npy", mixed.stored)
    np.save(tmp_path / "new.npy", np.zeros((3, 2)))
    with pytest.raises(InputError, match="has 2 columns, and the stored table 9"):
        codec.read_new(tmp_path / "new.npy")


def test_days_of_parquet_stay_days(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    days = [date(2021, 3, 1), None, date(1501, 7, 2), date(2021, 12, 24), date(2021, 3, 1)]
    pq.write_table(
        pa.table({"day": pa.array(days, pa.date32()), "x": [1.5, 2.5, 3.0, 7.5, 9.0]}), tmp_path / "t.parquet"
    )
    codec = TableCodec.read(tmp_path / "t.parquet")
    assert codec.columns[0].kind == "date"
    assert codec.loss().items == 1
    new, _ = drawn(codec, 20)
    for format in ("parquet", "csv"):
        path = tmp_path / f"new.{format}"
        path.write_bytes(written(codec, format, new))
        back = codec.read_new(path)
        assert {type(cell) for cell in back["day"].dropna()} == {date}
        assert codec.same(back, new).all()
    assert pq.read_schema(tmp_path / "new.parquet").field("day").type == pa.date32()
    codec.save(tmp_path / "codec.npz")
    again = TableCodec.from_state(*read_state(tmp_path / "codec.npz"))
    assert codec.same(again.stored, codec.stored).all()
    assert codec.same(drawn(again, 20)[0], new).all()


def test_rows_and_columns_without_values_are_left_out(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,\n1,2,\n,,\n3,5,\n4,inf,\n")
    with pytest.raises(InputError, match="line 5, column 'b'"):
        TableCodec.read(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("a,b,\n1,2,\n,,\n3,5,\n")
    codec = TableCodec.read(tmp_path / "t.csv")
    assert codec.stored.to_dict("list") == {"a": [1, 3], "b": [2, 5]}
    assert "1 rows without any value are left out" in codec.notes


def test_parquet_and_arrays_are_read(tmp_path):
    np.save(tmp_path / "t.npy", np.array([[1.0, 2.5], [2.0, 3.5], [4.0, 1.5]]))
    assert list(TableCodec.read(tmp_path / "t.npy").stored) == ["x1", "x2"]
    np.save(tmp_path / "t.npy", np.zeros(3))
    with pytest.raises(InputError, match=r"got shape \(3,\)"):
        TableCodec.read(tmp_path / "t.npy")
    pytest.importorskip("pyarrow")
    patients().to_parquet(tmp_path / "t.parquet")
    codec = TableCodec.read(tmp_path / "t.parquet")
    assert codec.loss().items == 1
    (tmp_path / "t.parquet").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(InputError, match="is no Parquet file"):
        TableCodec.read(tmp_path / "t.parquet")


def test_far_more_columns_than_rows(tmp_path):
    wide = pd.DataFrame(np.random.default_rng(0).standard_normal((5, 1000)).round(3)).rename(columns="c{}".format)
    wide.iloc[0, 0] = np.nan
    codec = TableCodec.fit(wide)
    assert codec.loss().items == 1
    assert codec.coordinates.d == 4
    assert "1,000 features and 5 rows" in codec.notes[-1]
    assert "A file that is transposed has its rows as columns" in codec.notes[-1]


def test_samples_teach_a_classifier_as_well_as_the_stored_rows():
    from sklearn.datasets import load_wine
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = load_wine(as_frame=True)
    frame = data.frame.assign(target=data.frame["target"].map({0: "a", 1: "b", 2: "c"}))
    gaps = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(frame))
        stored, held_out = frame.iloc[order[:50]].reset_index(drop=True), frame.iloc[order[50:]]
        new, _ = drawn(TableCodec.fit(stored), 1000, seed)
        marks = [
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
            .fit(rows.drop(columns="target"), rows["target"])
            .score(held_out.drop(columns="target"), held_out["target"])
            for rows in (new, stored)
        ]
        gaps.append(marks[0] - marks[1])
    assert np.mean(gaps) > -0.03
