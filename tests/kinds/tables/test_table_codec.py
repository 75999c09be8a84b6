"""The table codec: encoding and decoding, conditions, states, comparisons and options."""

from datetime import date

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from made_tables import drawn, excel, hopfield, patients, saved_and_loaded, written
from stochattn.kinds import InputError
from stochattn.kinds.tables.codec import TableCodec
from stochattn.kinds.tables.columns.columns import Source
from stochattn.kinds.tables.columns.inference import TableOptions
from stochattn.kinds.tables.kind import KIND
from stochattn.kinds.tables.measures import correlation_error, kolmogorov_smirnov


@pytest.fixture
def codec(tmp_path):
    return TableCodec.read(excel(tmp_path / "t.csv", patients()))


@pytest.mark.parametrize("options", [{}, {"whiten": True}, {"norm": "restored"}, {"spread": "grown"}], ids=str)
def test_stored_rows_are_decoded_exactly(codec, options):
    stored, everyone = codec.encode(codec.stored), np.arange(codec.K)
    assert codec.same(codec.decode(stored, everyone), codec.stored).all()
    coordinates = hopfield(codec, **options).generator.embedding.coordinates
    for rows in (coordinates.rows(stored), coordinates.stored):
        assert codec.same(
            codec.decode(coordinates.features(rows * coordinates.factors()), everyone), codec.stored
        ).all()


def test_dropped_variance_is_reported_as_loss():
    codec = TableCodec.fit(patients())
    coordinates = hopfield(codec, variance=0.6).generator.embedding.coordinates
    assert 0.6 <= coordinates.variance < 1
    assert not codec.same(
        codec.decode(coordinates.features(coordinates.stored), np.arange(codec.K)), codec.stored
    ).all()


def test_new_rows_have_the_columns_dtypes_and_formats_of_stored_ones(codec):
    new, source = drawn(codec, 300)
    assert new.dtypes.equals(codec.stored.dtypes)
    assert list(new) == list(codec.stored)
    assert set(new["species"].dropna()) <= {"setosa", "virginica", "versicolor"}
    assert new["weight"].gt(0).all()
    assert new["weight"].eq(new["weight"].round(1)).all()
    assert pd.to_datetime(new["when"], format="%d.%m.%Y").notna().all()
    assert new["site"].eq(7).all()
    assert new["empty"].isna().all()
    missing = codec.stored["age"].isna().to_numpy()
    assert np.array_equal(new["age"].isna(), missing[source])


def test_imputed_rows_are_complete():
    codec = TableCodec.fit(patients(), TableOptions(missing="impute"))
    new, _ = drawn(codec, 50)
    assert new.drop(columns="empty").notna().all(axis=None)


def test_covariance_of_draws_agrees_with_stored_rows_at_any_beta():
    codec = TableCodec.fit(patients(60))
    for beta in (0.5, 3.0):
        generator = hopfield(codec, beta=beta).generator
        law, stored = generator.mixture, generator.stored_rows
        exact = (law.means.T @ law.means) / codec.K + np.diag(law.scales[0] ** 2)
        # Principal components are uncorrelated and stay so when each is shrunk.
        assert np.allclose(exact, stored.T @ stored / codec.K, atol=1e-10)


def test_conditioned_values_are_exact(codec):
    new, _ = drawn(
        codec, 40, condition=["age=44", "species=virginica", "when=2021-02-03", "weight=70,5", "smoker=True"]
    )
    assert new["age"].eq(44).all()
    assert new["species"].eq("virginica").all()
    assert new["when"].eq("03.02.2021").all()
    assert new["weight"].eq(70.5).all()
    assert new["smoker"].all()
    assert new["dose"].nunique() > 10


def test_other_columns_follow_the_conditioned_one():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(200)
    codec = TableCodec.fit(pd.DataFrame({"x": x, "y": x + 0.1 * rng.standard_normal(200)}))
    high, low = (drawn(codec, 200, condition=[text])[0]["y"].mean() for text in ("x=1.5", "x=-1.5"))
    assert high == pytest.approx(1.5, abs=0.3)
    assert low == pytest.approx(-1.5, abs=0.3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("height=3", "^condition: there is no column 'height'. Did you mean 'weight'.* Name one of age, weight"),
        ("patient=p001", "^condition patient=p001: .* it holds identifiers"),
        ("site=7", "^condition site=7: .* it is constant"),
        ("species=tulip", "^condition species=tulip: .* It has setosa, versicolor, virginica"),
        ("age=-4", "^condition age=-4: the column has no new values below 1"),
        ("when=soon", "^condition when=soon: the column holds dates, and this is not one"),
        ("age", "^condition 'age' must be NAME=VALUE, such as age=1"),
    ],
)
def test_impossible_conditions_are_errors(codec, text, why):
    with pytest.raises(InputError, match=why) as error:
        KIND.parse_condition(codec, [text])
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=r"^condition age=40: the column has no value that also meets age=30"):
        KIND.parse_condition(codec, ["age=30", "age=40"])


def test_texts_of_conditions_become_typed_values(codec):
    texts = ["age=44", "species=Virginica", "when=2021-02-03", "weight=70,5", "smoker=true"]
    values = {"age": 44, "species": "virginica", "when": "2021-02-03", "weight": 70.5, "smoker": True}
    assert KIND.parse_condition(codec, texts) == values
    positions, features = codec.condition(values).observation
    assert len(positions) == len(features) == 3 + 2 + 3
    named = TableCodec.fit(pd.DataFrame({"a": [1.5, 2.5, 3.0], "a=b": [2, 5, 9]}))
    assert KIND.parse_condition(named, ["a=b=5", "a=2"]) == {"a=b": 5, "a": 2}


def test_conditioning_does_not_change_the_codec(codec):
    given = codec.condition({"age": 44, "when": date(2021, 2, 3)})
    assert (codec.conditioned, given.codec.conditioned) == (frozenset(), {"age", "when"})
    source = np.flatnonzero(codec.stored["age"].isna())
    features = codec.encode(codec.stored)[source]
    assert codec.decode(features, source)["age"].isna().all()
    assert given.codec.decode(features, source)["age"].notna().all()
    for codec_ in (codec, given.codec):
        assert codec_.decode(features, source)["species"].isna().sum() == 1
    with pytest.raises(AttributeError):
        codec.notes = ()


def test_values_beyond_the_stored_ones_are_noted(codec):
    assert codec.condition({"age": 105}).notes == ("age=105 lies beyond the stored values of column 'age'",)
    assert codec.condition({"age": 50}).notes == ()


def test_a_loaded_synthesizer_gives_the_same_draws(codec, tmp_path):
    again = saved_and_loaded(codec, tmp_path)
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
            "f": np.array(["u", None, "v", "u"], dtype=object),
            "g": pd.Series(["u", np.nan, "v", "u"], dtype="str"),
            "h": [date(2021, 3, 1), None, date(1501, 7, 2), date(2021, 3, 4)],
            "i": np.array([True, None, False, True], dtype=object),
            "j": pd.array([1, None, 2**60 + 1, 5], dtype="Int64"),
        }
    )
    codec = TableCodec.fit(frame)
    assert codec.same(codec.decode(codec.encode(codec.stored), np.arange(codec.K)), codec.stored).all()
    pd.testing.assert_frame_equal(saved_and_loaded(codec, tmp_path).stored, frame)
    assert drawn(codec, 5)[0].dtypes.equals(frame.dtypes)


def test_a_half_is_fitted_with_the_same_types(codec):
    half = codec.refit(codec.take(codec.stored, np.arange(0, 40, 2)))
    assert half.K == 20
    assert [c.type for c in half.columns] == [c.type for c in codec.columns]


def test_a_half_keeps_a_column_without_a_name_that_is_empty_there():
    frame = pd.DataFrame({"": [None] * 19 + ["O1"], "year": range(20), "gain": np.arange(20.0) ** 2})
    codec = TableCodec.fit(frame)
    half = codec.refit(codec.take(codec.stored, np.arange(10)))
    assert list(half.stored.columns) == ["", "year", "gain"]


def test_comparison_of_stored_rows_with_themselves_is_perfect(codec):
    measures, parts = KIND.measures.compare(codec, codec.stored)
    assert [m.value for m in measures] == pytest.approx([0, 0, 1, measures[3].ideal])
    assert measures[3].value == pytest.approx(5 / 240)  # 3 ages and 2 species of 40 rows and 6 columns
    assert [part.name for part in parts] == ["age", "weight", "smoker", "species", "when", "dose"]
    assert all(part.distance == 0 and part.stored == part.new for part in parts)


def test_comparison_detects_differences(codec):
    moved = codec.stored.assign(weight=codec.stored["weight"] + 1000, species="setosa")
    measures, parts = KIND.measures.compare(codec, moved)
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
    assert correlation_error(X[:, :2], Y[:, :2]) == pytest.approx(gaps[0, 1])
    assert correlation_error(X[:, :1], Y[:, :1]) == 0
    none = np.array([np.nan])
    assert [kolmogorov_smirnov(*pair) for pair in ((first, none), (none, first), (none, none))] == [1, 1, 0]


def test_bad_options_are_errors():
    frame = patients()
    for options, why in (
        ({"missing": "drop"}, "^missing must be one of keep, impute; got 'drop'"),
        ({"columns": {"age": "number"}}, "^columns: the type of 'age' must be one of .*; got 'number'"),
        ({"columns": {"height": "numeric"}}, "^columns: there is no column 'height'. .*'weight'"),
        ({"columns": {"height": "drop"}}, "^columns: there is no column 'height'. .*'weight'"),
        ({"columns": {3: "drop", "height": "drop"}}, "^columns: there is no column 3. The table has patient, age"),
        ({"ranges": {3: (0, None)}}, "^ranges: there is no column 3. The table has patient, age"),
        ({"columns": {"smoker": "drop"}, "label": "smoker"}, "^label: there is no column 'smoker'"),
        ({"label": "class"}, "^label: there is no column 'class'. The table has patient, age"),
        ({"ranges": {"ages": (0, None)}}, "^ranges: there is no column 'ages'. Did you mean 'age'"),
        ({"ranges": {"age": (6, 0)}}, "^ranges: the limits of 'age' are reversed; got 6 to 0. Pass 0 to 6"),
        ({"ranges": {"weight": (None, 10.0)}}, "outside the range"),
    ):
        with pytest.raises(InputError, match=why):
            TableCodec.fit(frame, TableOptions(**options))
    with pytest.raises(InputError, match=r"^a\.csv: label: there is no column 'class'"):
        TableCodec.fit(frame, TableOptions(label="class"), source=Source("a.csv"))
    many = pd.DataFrame({"a": [f"t{i % 600}" for i in range(1300)], "b": range(1300)})
    with pytest.raises(InputError, match="cannot be read as category: it holds 600 values, over 500"):
        TableCodec.fit(many, TableOptions(columns={"a": "category"}))
    for options, why in (
        ({"variance": 2.0}, "variance must be above 0 and at most 1"),
        ({"norm": "unit"}, "^norm must be one of restored, paper, whole; got 'unit'"),
        ({"spread": "wide"}, "^spread must be one of kept, grown; got 'wide'"),
    ):
        with pytest.raises(InputError, match=why):
            _ = hopfield(TableCodec.fit(frame), **options).generator
    with pytest.raises(InputError, match=r"must be a data frame of pandas.*got list"):
        TableCodec.fit([[1, 2]])


def test_columns_can_be_overridden():
    types = {"age": "numeric", "weight": "drop", "smoker": "carried"}
    codec = TableCodec.fit(patients(), TableOptions(columns=types, label="smoker"))
    found = dict(KIND.display.column_types(codec))
    assert (found["age"], found["smoker"]) == ("numeric", "carried")
    assert "weight" not in codec.stored
    assert set(codec.labels) == {"True", "False"}


def test_notes_and_messages_name_the_options():
    codec = TableCodec.fit(pd.DataFrame({"x": [1.5, 2.5, 4.0, 3.0], "target": [1, 2, 3, 1]}))
    assert codec.notes == ("column 'target' is read as classes; for amounts pass columns={'target': 'integer'}",)
    with pytest.raises(InputError, match=r"or set the type of a column with columns\.$"):
        TableCodec.fit(pd.DataFrame({"a": [1, 1]}))
    with pytest.raises(InputError, match=r"leave the column out with columns=\{'a': 'drop'\}"):
        TableCodec.fit(pd.DataFrame({"a": [[1], [2]]}))
    with pytest.raises(InputError, match="Set another type with columns"):
        TableCodec.fit(codec.stored, TableOptions(columns={"x": "integer"}))


def test_rows_are_matched_by_what_the_file_says(codec):
    for text in ("TRUE", "True", "true"):
        assert KIND.select(codec, "smoker", text).tolist() == codec.stored["smoker"].tolist()
        assert drawn(codec, 5, condition=[f"smoker={text}"])[0]["smoker"].all()
    assert codec.ids[int(np.flatnonzero(KIND.select(codec, "patient", "p007"))[0])] == "p007"
    assert KIND.select(codec, "when", "07.01.2021").tolist() == KIND.select(codec, "when", "2021-01-07").tolist()
    assert np.flatnonzero(KIND.select(codec, "when", "2021-01-07")).tolist() == [1]
    weight = codec.stored["weight"][4]
    assert np.array_equal(KIND.select(codec, "weight", str(weight).replace(".", ",")), codec.stored["weight"] == weight)
    age = int(codec.stored["age"][0])
    assert np.array_equal(KIND.select(codec, "age", str(age)), (codec.stored["age"] == age).fillna(False))
    assert KIND.select(codec, "site", "7").all()
    assert not KIND.select(codec, "species", "tulip").any()
    assert KIND.select(codec, "wieght", "3") is None


def test_far_more_columns_than_rows():
    wide = pd.DataFrame(np.random.default_rng(0).standard_normal((5, 1000)).round(3)).rename(columns="c{}".format)
    wide.iloc[0, 0] = np.nan
    codec = TableCodec.fit(wide)
    assert codec.same(codec.decode(codec.encode(codec.stored), np.arange(codec.K)), codec.stored).all()
    assert hopfield(codec).generator.embedding.coordinates.d == 4
    assert "1,000 features and 5 rows" in codec.notes[-1]
    assert "If the file is transposed" in codec.notes[-1]


def test_samples_train_a_classifier_as_well_as_stored_rows():
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


def test_cells_are_the_same_if_they_are_equal_or_both_missing():
    codec = TableCodec.fit(pd.DataFrame({"x": [1.5, 2.5, np.nan, 4.0], "n": [1, 5, 7, 9]}))
    first = pd.DataFrame({"x": [1.5, 2.5, np.nan, np.nan], "n": [1, 5, 7, 9]})
    second = pd.DataFrame({"x": [1.5, np.nan, 3.0, np.nan], "n": pd.array([1, None, 8, 9], dtype="Int64")})
    expected = [[True, True], [False, False], [False, False], [True, True]]
    for one, other in ((first, second), (second, first)):
        same = codec.same(one, other)
        assert (same.dtype, same.tolist()) == (bool, expected)


def test_a_named_label_is_the_only_one():
    frame = pd.DataFrame({"target": [1, 2, 3, 1, 2, 3], "kind": ["a", "b"] * 3, "x": [0.5, 1.5, 2.5, 4.5, 3.5, 7.5]})
    assert dict(KIND.display.column_types(TableCodec.fit(frame)))["target"] == "category"
    codec = TableCodec.fit(frame, TableOptions(label="kind"))
    assert (dict(KIND.display.column_types(codec))["target"], codec.label) == ("integer", "kind")


def test_rows_are_numbered_anew_when_tables_are_joined(codec):
    parts = [codec.take(codec.stored, rows) for rows in ([3, 5], [0, 7, 9])]
    pd.testing.assert_frame_equal(codec.join(parts), codec.take(codec.stored, [3, 5, 0, 7, 9]))


def test_a_condition_beyond_an_end_that_rows_share_says_what_is_possible():
    """Ages that are capped at 89: a larger one needs other limits, and the message names both ways out."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": np.minimum(rng.integers(18, 110, 200), 89), "dose": rng.gamma(3, 1, 200)})
    synth = sa.fit(frame, "table")
    limit = "the column has no new values above 89: many stored rows have this value"
    why = f"{limit}, so it is taken as the end of the scale"
    for value, text in ((90, "age=90"), (sa.Range(gt=89), "age>89")):
        with pytest.raises(InputError) as caught:
            synth.condition(age=value)
        remedy = "Choose values from 1 to 89, or widen its limits with ranges."
        assert str(caught.value) == f"condition {text}: {why}. {remedy}"
    with pytest.raises(InputError, match=r"below 1\. Choose values from 1 to 89"):
        synth.condition(age=-5)
    with pytest.raises(InputError, match=r"below 0\. Choose values of at least 0, or widen"):
        synth.condition(dose=-5)
    wider = sa.fit(frame, "table", ranges={"age": (1, 120)})
    assert set(wider.condition(age=90).sample(5, rng=0)["age"]) == {90}
