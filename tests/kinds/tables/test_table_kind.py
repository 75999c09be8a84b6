"""The kind of tables: recognition, conditions from texts, notes, annotations, classes, the gallery."""

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from made_items import table, write_table
from made_tables import excel, patients
from stochattn.kinds import InputError
from stochattn.kinds.display import GalleryItems
from stochattn.kinds.registry import kind_for
from stochattn.kinds.tables.codec import TableCodec
from stochattn.kinds.tables.kind import KIND
from stochattn.kinds.tables.writing import matrix_dtype, matrix_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.csv", True), ("a.TSV", True), ("a.txt", True), ("a.parquet", True), ("a.png", False), ("a.sto", False)],
)
def test_files_are_recognised_by_their_extension(tmp_path, name, expected):
    (tmp_path / name).write_text("a,b\n1,2\n")
    assert KIND.recognizes(tmp_path / name) == expected


def test_matrices_are_tables_and_larger_arrays_are_not(tmp_path):
    for shape, expected in (((5, 3), True), ((5, 3, 3), False), ((5,), True)):
        np.save(tmp_path / "a.npy", np.zeros(shape))
        assert KIND.recognizes(tmp_path / "a.npy") == expected
        assert KIND.accepts(np.zeros(shape)) == expected
    (tmp_path / "a.npy").write_bytes(b"not an array")
    assert not KIND.recognizes(tmp_path / "a.npy")
    assert KIND.accepts(table())
    assert not KIND.accepts([[1, 2], [3, 4]])
    assert kind_for(table()).name == "table"


def test_frames_and_matrices_are_fitted():
    rng = np.random.default_rng(0)
    new = sa.fit(rng.normal(size=(30, 2))).sample(5, rng=0)
    assert (list(new), len(new)) == (["x1", "x2"], 5)
    assert sa.fit(table()).sample(5, rng=0).dtypes.equals(table().dtypes)


def test_a_table_with_dates_notes_that_it_may_be_a_history(tmp_path):
    path = tmp_path / "t.csv"
    lines = ["date,price,state", "2021-01-04,5.5,open", "2021-01-05,6.5,open", "2021-01-06,6.0,closed", ""]
    path.write_text("\n".join(lines))
    notes = sa.fit(path).notes
    assert any("rows are drawn independently. If it is a price history, pass kind='returns'" in note for note in notes)
    assert not any("price history" in note for note in sa.fit(path, kind="table").notes)
    assert not any("price history" in note for note in sa.fit(write_table(path)).notes)


def test_a_matrix_whose_columns_have_length_one_may_be_the_memories_of_the_paper():
    columns = np.random.default_rng(0).normal(size=(30, 8))
    memories = columns / np.linalg.norm(columns, axis=0)
    for array, is_noted in ((memories, True), (columns, False), (memories.T, False)):
        notes = sa.fit(array, trial=False).codec.notes
        assert any("memories of the paper have. If the array is d × K, pass" in note for note in notes) == is_noted
    assert sa.fit(memories, transpose=True, trial=False).codec.stored.shape == (8, 30)


def test_a_table_whose_consecutive_rows_are_alike_notes_that_it_may_be_a_recording(tmp_path):
    rng, time = np.random.default_rng(0), np.arange(300)
    wave = (np.sin(time / 7) + rng.normal(0, 0.1, 300)).round(3)
    noted = (
        "consecutive rows are alike, as the points of a recording are. If it is one, pass kind='signals' and window=N"
    )
    for columns, is_noted in (
        ({"voltage": wave}, True),
        ({"time": time, "voltage": wave, "current": np.roll(wave, 9)}, True),
        ({"voltage": wave[:150]}, False),
        ({"voltage": wave, "noise": rng.normal(size=300)}, False),
        ({"voltage": wave, "channel": "a"}, False),
        ({"sorted": np.sort(wave)}, False),
    ):
        frame = pd.DataFrame(columns)
        frame.to_csv(tmp_path / "a.csv", index=False)
        for source in (frame, tmp_path / "a.csv"):
            assert any(noted in note for note in sa.fit(source, trial=False).codec.notes) == is_noted, columns
    pd.DataFrame({"voltage": wave}).to_csv(tmp_path / "a.csv", index=False)
    assert not any("recording" in note for note in sa.fit(tmp_path / "a.csv", kind="table", trial=False).codec.notes)


def test_typed_values_and_texts_give_the_same_conditions(tmp_path):
    synth = sa.fit(write_table(tmp_path / "t.csv"))
    typed = synth.condition(age=40, seen=pd.Timestamp("2021-03-01"), smoker=True)
    texts = synth.condition(KIND.parse_condition(synth.codec, ["age=40", "seen=2021-03-01", "smoker=true"]))
    new = typed.sample(20, rng=0)
    pd.testing.assert_frame_equal(new, texts.sample(20, rng=0))
    assert new["age"].eq(40).all()
    assert new["seen"].eq("2021-03-01").all()
    assert new["smoker"].all()
    with pytest.raises(InputError, match=r"there is no column 'ages'\. Did you mean 'age'"):
        synth.condition(ages=40)


def test_conditions_are_saved_with_their_types(tmp_path):
    synth = sa.fit(write_table(tmp_path / "t.csv")).condition(age=40, seen=pd.Timestamp("2021-03-01"), group="red")
    synth.save(tmp_path / "t.synth")
    pd.testing.assert_frame_equal(sa.load(tmp_path / "t.synth").sample(20, rng=0), synth.sample(20, rng=0))


def test_stored_rows_are_their_own_nearest_rows_and_have_their_class():
    codec = TableCodec.fit(patients())
    nearest, extra = KIND.measures.annotate(codec, codec.take(codec.stored, np.array([4, 17])), 2)
    assert (nearest.tolist(), extra) == ([4, 17], {})
    assert KIND.measures.items_have_labels
    assert KIND.measures.labels_of(codec, codec.stored, np.zeros(codec.K, dtype=int)).tolist() == list(codec.labels)
    assert KIND.display.column_types(codec)[:2] == (("patient", "id"), ("age", "integer"))


def test_identifiers_are_numbered_across_blocks(tmp_path, monkeypatch):
    from stochattn.synthesizer import drawing

    monkeypatch.setattr(drawing, "BLOCK", 8)
    new = sa.fit(excel(tmp_path / "t.csv", patients())).sample(20, rng=0)
    assert new["patient"].tolist() == [f"new-{i + 1}" for i in range(20)]


def test_shares_of_classes_are_predicted_from_draws(tmp_path):
    frame = patients(80).dropna(subset="species")
    synth = sa.fit(frame, width=(0.5, 1.0, 0)).weight(4, "setosa")
    weights = np.where(frame["species"] == "setosa", 4, 1)
    expected = weights[frame["species"] == "setosa"].sum() / weights.sum()
    # The calibration of shares has 4,096 draws: a standard error of 0.008.
    assert synth.predicted_shares()["setosa"] == pytest.approx(expected, abs=0.03)


def test_the_gallery_marks_differences_and_escapes_text():
    frame = pd.DataFrame({"<b>": [1.0, 2.0, 3.0, 4.0], "kind": ["<i>a</i>", "b", "b", "<i>a</i>"]})
    codec = TableCodec.fit(frame)
    new = frame.iloc[:2].assign(**{"<b>": [1.0, 3.9]})
    shown = GalleryItems(new, np.arange(2), np.array([0, 1]), np.array([0.0, 0.3]), {})
    page = KIND.display.gallery(codec, shown)
    assert "<b></b>" not in page
    assert "&lt;b&gt;" in page
    assert "<i>a</i>" not in page
    assert page.count("<mark") == 1
    assert '<mark class="far">3.9</mark>' in page


def test_the_gallery_shows_each_new_row_above_its_nearest_stored_row():
    frame = pd.DataFrame({"x": [0.1, 0.2, 0.3, 0.4], "when": pd.date_range("2021-03-01 10:00", periods=4, freq="14h")})
    codec = TableCodec.fit(frame)
    new = frame.iloc[:2].assign(x=[0.125, 0.2])
    page = str(KIND.display.gallery(codec, GalleryItems(new, np.arange(2), np.array([3, 1]), np.array([0.2, 0.3]), {})))
    rows = page.partition("<tbody>")[2].split("<tr")[1:]
    assert [row.partition(">")[0].strip() for row in rows] == ['class="new"', 'class="old"'] * 2
    assert "<td>0.4</td>" in rows[1]
    assert "<td>0.2</td>" in rows[3]
    assert "2021-03-01 10:00:00" in rows[0]
    assert "<td>2021-03-02</td>" in rows[3]  # midnight
    assert '<mark class="far">0.125</mark>' in rows[0]
    near = KIND.display.gallery(codec, GalleryItems(new, np.arange(2), np.array([0, 1]), np.array([0.2, 0.3]), {}))
    assert "<mark>0.125</mark>" in near  # differs by less than half the standard deviation, which is 0.129


def test_a_comparison_says_what_columns_hold():
    when = pd.to_datetime(["2021-03-01", "2021-03-04", "2021-03-02", None])
    frame = pd.DataFrame({"c": ["a", "a", "a", "b"], "when": when, "x": [1.5, 2.5, np.nan, 3.5]})
    parts = {part.name: part for part in KIND.measures.compare(TableCodec.fit(frame), frame).parts}
    assert parts["c"].stored == "a 75%, b 25%"
    assert parts["when"].stored == "2021-03-01 00:00:00 to 2021-03-04 00:00:00, 25% missing"
    assert parts["x"].stored == "mean 2.5, sd 0.816, 1.5 to 3.5, 25% missing"
    values = parts["when"].values()
    assert [values.as_text(number) for number in values.stored] == ["2021-03-01", "2021-03-04", "2021-03-02"]
    many = pd.DataFrame({"c": list("aaaabbbccdde"), "x": range(12)})
    shown = KIND.measures.compare(TableCodec.fit(many), many).parts[0].new
    assert shown == "a 33%, b 25%, c 17% and 2 more"


def test_all_features_predict_a_label_that_a_table_does_not_have():
    codec = TableCodec.fit(pd.DataFrame({"x": [1.5, 2.5, 4.0, 3.0], "colour": ["red", "blue", "red", "blue"]}))
    assert codec.label is None
    np.testing.assert_array_equal(KIND.measures.predictors(codec, codec.stored), codec.encode(codec.stored))


def test_numeric_columns_of_any_dtype_are_a_matrix():
    columns = {"a": np.array([1, 2, 3]), "b": pd.array([True, False, True], dtype="boolean")}
    frame = pd.DataFrame(columns | {"c": pd.array([1, None, 3], dtype="Int64"), "d": [0.5, 1.0, 2.0]})
    matrix, long = matrix_of(frame)
    np.testing.assert_array_equal(matrix, [[1, 1, 1, 0.5], [2, 0, np.nan, 1], [3, 1, 3, 2]])
    assert (matrix.dtype, matrix_dtype(frame), long) == (np.float64, np.float64, [])
    whole = pd.DataFrame({"a": columns["a"], "b": pd.array([2**60, 1, 2], dtype="Int64")})
    assert matrix_of(whole)[1] == ["b"]
    assert matrix_dtype(whole) == np.int64
    np.testing.assert_array_equal(matrix_of(whole)[0], [[1, 2**60], [2, 1], [3, 2]])
    edge = pd.DataFrame({"a": [2**53 - 1, 1 - 2**53], "b": [2**53, 0], "c": [0, -(2**53)]})
    assert matrix_of(edge)[1] == ["b", "c"]
    assert matrix_dtype(pd.DataFrame({"a": np.array([1.5, np.nan], dtype=np.float32)})) == np.float32


# --- Densities of rows


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"patient": [f"p{i}" for i in range(60)], "sex": rng.choice(["F", "M"], 60)})
    frame["age"], frame["dose"] = rng.integers(20, 80, 60), rng.normal(5, 1, 60).round(1)
    frame["when"] = pd.date_range("2024-01-01", periods=60).strftime("%Y-%m-%d")
    return sa.fit(frame, "table"), frame


@pytest.mark.parametrize("generator", ["covariance", "hopfield"])
def test_rows_that_are_never_drawn_have_no_density(scored, generator):
    synth, frame = scored
    synth = synth.with_generator(generator)
    usual = synth.log_density(frame[:6])
    assert np.isfinite(usual).all()
    odd = frame[:6].copy()
    odd.loc[1, "sex"] = "X"
    odd.loc[2, "age"] = -1  # ages are positive
    odd.loc[3, "when"] = "some day"
    odd.loc[4, "sex"] = None  # missing: it is filled
    found = synth.log_density(odd)
    assert np.isneginf(found).tolist() == [False, True, True, True, False, False]
    np.testing.assert_array_equal(found[[0, 5]], usual[[0, 5]])
    above = sa.fit(frame, "table", ranges={"age": (0, 99)}).with_generator(generator)
    assert np.isneginf(above.log_density(frame[:3].assign(age=[99, 100, 0]))).tolist() == [False, True, False]


def test_densities_need_no_columns_that_are_not_modeled(scored):
    synth, frame = scored
    expected = synth.log_density(frame[:5])
    np.testing.assert_array_equal(synth.log_density(frame[:5].drop(columns="patient").assign(more=1)), expected)
    np.testing.assert_array_equal(synth.log_density(frame[:5][frame.columns[::-1]]), expected)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda frame: frame.to_numpy(),
            r"items must be a data frame of pandas, .*; got numpy\.ndarray",
        ),
        (lambda frame: frame.drop(columns=["age"]), r"got patient, sex, dose, when\. Add or rename age\."),
        (lambda frame: frame.rename(columns={"sex": "a", "age": "b"}), r"Add or rename sex, age\."),
        (
            lambda frame: frame.rename(columns={"patient": "age"}),
            r"each column that is modeled once; got age, sex, age",
        ),
        (lambda frame: frame.assign(age="old"), "items: column 'age' must hold numbers; got cells such as 'old'"),
    ],
)
def test_frames_without_a_density_are_one_line(scored, change, said):
    synth, frame = scored
    with pytest.raises(InputError, match=said) as error:
        synth.log_density(change(frame[:5]))
    assert "\n" not in str(error.value)


def test_columns_that_are_not_dates_have_no_density():
    frame = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=40), "x": np.arange(40) * 7 % 40 / 8})
    synth = sa.fit(frame, "table")
    with pytest.raises(InputError, match="items: column 'when' must hold dates; got cells such as 'soon'"):
        synth.log_density(frame[:2].assign(when=["soon", "later"]))


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e200])
def test_infinite_and_huge_numbers_have_no_density(value):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 9, 60), "sex": rng.choice(["a", "b"], 60)})
    found = sa.fit(frame).log_density(pd.DataFrame({"age": [value, 40.0], "sex": ["a", "a"]}))
    assert found[0] == -np.inf
    assert np.isfinite(found[1])
