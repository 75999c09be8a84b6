"""Amounts, percentages and times as people write them, in conditions and in data frames."""

import numpy as np
import pandas as pd
import pytest
from command_runner import read_new, refused, works

import stochattn as sa
from stochattn.data import InputError
from stochattn.data.delimited_numbers import Notation, NumberForm

N = 40


def amounts():
    rng = np.random.default_rng(0)
    return {
        "price": [f"${x:,.2f}" for x in rng.uniform(500, 2000, N)],
        "rate": [f"{x}%" for x in rng.permutation(N) + 1],
        "x": rng.normal(0, 1, N).round(3),
    }


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    rng, path = np.random.default_rng(1), tmp_path_factory.mktemp("shop") / "shop.csv"
    frame = pd.DataFrame(amounts())
    frame["visits"] = [f"{x:,}" for x in rng.integers(900, 3000, N)]
    frame["when"] = [f"2021-{m:02d}-{m + 10} {m + 8:02d}:00:00+02:00" for m in rng.integers(1, 12, N)]
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("price=$1,200.50", lambda new: (new["price"] == 1200.5).all()),
        ("price=1200.5", lambda new: (new["price"] == 1200.5).all()),
        ("$900<=price<$1,200", lambda new: new["price"].between(900, 1200).all()),
        ("visits=1,137", lambda new: (new["visits"] == 1137).all()),
        ("visits=1,137|1,200", lambda new: set(new["visits"]) == {1137, 1200}),
        ("rate=2%", lambda new: (new["rate"] == 2).all()),
        ("rate>30 %", lambda new: (new["rate"] > 30).all()),
        ("when=2021-03-13 11:00:00+02:00", lambda new: (new["when"] == "2021-03-13 11:00:00+02:00").all()),
        ("when<2021-03-13 11:00:00+02:00", lambda new: (new["when"] < "2021-03-13 11:00:00+02:00").all()),
    ],
)
def test_a_condition_is_read_as_the_cells_of_its_column_are(shop, condition, holds, tmp_path):
    works("sample", shop, "-n", 20, "--condition", condition, "-o", tmp_path / "new.csv")
    assert holds(read_new(shop, tmp_path / "new.csv"))


def test_a_condition_with_another_currency_is_refused(shop, tmp_path):
    said = refused("sample", shop, "--condition", "price=€1,200", "-o", tmp_path / "new.csv")
    assert "--condition price=€1,200: the column holds numbers, and this is not one" in said


def test_decimal_commas_and_separators_of_the_file_hold_for_conditions(tmp_path):
    rng = np.random.default_rng(2)
    prices = [f"{x:.2f} €".replace(".", ",") for x in rng.uniform(5, 40, N)]
    counts = [f"{x:,}".replace(",", ".") for x in rng.integers(1000, 9999, N)]
    lines = ["price;n", *(f"{a};{b}" for a, b in zip(prices, counts, strict=True))]
    (tmp_path / "eu.csv").write_text("\n".join(lines) + "\n")
    words = ("--condition", "price=12,50 €", "--condition", "n=2.137")
    works("sample", tmp_path / "eu.csv", "-n", 3, *words, "-o", tmp_path / "new.csv")
    assert (tmp_path / "new.csv").read_text() == "price;n\n" + "12,50 €;2.137\n" * 3


def test_a_selection_is_read_as_the_cells_are_too(shop):
    synth = sa.fit(shop)
    stored = synth.codec.stored["visits"]
    found = synth.kind.select(synth.codec, "visits", f"{stored[5]:,}")
    assert found.tolist() == (stored == stored[5]).tolist()


@pytest.mark.parametrize(
    ("text", "number"), [("$1,200.50", 1200.5), (" $3", 3.0), ("1200", 1200.0), ("-$2", -2.0), ("€5", np.nan)]
)
def test_numbers_in_a_notation(text, number):
    np.testing.assert_equal(Notation(form=NumberForm("$", thousands=",")).number(text), number)
    assert np.isnan(Notation().number("$3"))


@pytest.mark.parametrize("dtype", ["str", "object", "string"])
def test_amounts_in_a_data_frame_are_modelled_and_written_as_they_were(dtype):
    frame = pd.DataFrame(amounts()).astype({"price": dtype, "rate": dtype})
    frame.loc[3, "price"] = None
    synth = sa.fit(frame)
    assert [str(column.type) for column in synth.codec.columns] == ["numeric", "integer", "numeric"]
    assert synth.notes[0].startswith("column 'price': cells such as $1,455.44 are read as numbers")
    new = synth.sample(200, rng=0)
    assert new["price"].dropna().str.fullmatch(r"\$(\d,)?\d+\.\d\d").all()
    assert new["rate"].str.fullmatch(r"\d+%").all()
    kept = synth.codec.decode(synth.codec.encode(frame), np.arange(N))
    assert synth.codec.same(kept, frame).all()
    assert (kept.dtypes == frame.dtypes).all() or dtype == "object"  # texts become str
    assert set(synth.condition(price="$1,200.50").sample(5, rng=0)["price"]) == {"$1,200.50"}
    assert set(synth.condition(rate=sa.Range(le=2)).sample(50, rng=0)["rate"]) == {"1%", "2%"}
    with pytest.raises(InputError, match="holds numbers, and this is not one"):
        synth.condition(price="£5")


def test_a_written_data_frame_of_amounts_is_read_back(tmp_path):
    frame = pd.DataFrame(amounts())
    synth = sa.fit(frame)
    synth.write(tmp_path / "new.csv", 30, rng=0)
    pd.testing.assert_frame_equal(synth.kind.read_new(synth.codec, tmp_path / "new.csv"), synth.sample(30, rng=0))
    synth.save(tmp_path / "a.synth")
    pd.testing.assert_frame_equal(sa.load(tmp_path / "a.synth").sample(9, rng=1), synth.sample(9, rng=1))


def test_texts_that_are_not_all_amounts_stay_texts():
    frame = pd.DataFrame({**amounts(), "price": ["$5", "five", *(["$6", "$7"] * 19)]})
    assert str(sa.fit(frame).codec.columns[0].type) == "category"


@pytest.mark.parametrize(
    ("cells", "new"),
    [
        (pd.Categorical([f"Kim {i % 600} of Elm Road" for i in range(1200)]), "new-1"),
        (pd.Categorical([f"p{i}" for i in range(1200)]), "new-1"),
        (pd.Categorical([70000 + i % 600 for i in range(1200)]), 70600),
        (pd.Categorical([70000 + i for i in range(1200)]), 71200),
    ],
    ids=["sentences", "names", "numbers", "distinct numbers"],
)
def test_categories_that_name_rows_are_not_repeated(cells, new):
    frame = pd.DataFrame({"who": cells, "x": np.random.default_rng(0).normal(0, 1, 1200)})
    synth = sa.fit(frame)
    assert str(synth.codec.columns[0].type) == "id"
    assert "column 'who' has" in synth.notes[0]
    made = synth.sample(3, rng=0)["who"]
    assert made[0] == new
    assert not set(made) & set(frame["who"])
    assert sa.fit(frame, columns={"who": "id"}).sample(3, rng=0)["who"].tolist() == made.tolist()


def test_categories_that_repeat_are_classes():
    frame = pd.DataFrame({"group": pd.Categorical(["a", "b", "c", "a", "b", "c"] * 5), "x": np.arange(30.0) % 7})
    assert set(sa.fit(frame).sample(50, rng=0)["group"]) == {"a", "b", "c"}
