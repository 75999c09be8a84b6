"""Amounts, percentages and times as people write them, in conditions and in data frames."""

import re
from datetime import datetime

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from command_runner import read_new, refused, works
from stochattn.kinds import InputError
from stochattn.kinds.delimited.numbers import Notation, NumberForm

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


def random(seed):
    return np.random.default_rng(seed)


def seconds(cells):
    return pd.to_timedelta(pd.Series(cells)).dt.total_seconds().to_numpy()


def clock_times(cells):
    return np.array([datetime.strptime(cell, "%I:%M %p") for cell in cells], dtype="M8[m]").astype(float)


def plain(cells):
    """Amounts as a reader of them would type them into a calculator."""
    signs = str.maketrans({" ": "", "\u202f": "", "−": "-", "+": "", "(": "-", ")": ""})
    return np.array([float(cell.translate(signs).removesuffix("kg").replace(",", ".")) for cell in cells])


def months(cells):
    return np.array([datetime.strptime(cell, "%b %Y") for cell in cells], dtype="M8[D]").astype(float)


NOTATIONS = {
    "times of day": ([f"{m // 60:02d}:{m % 60:02d}:00" for m in random(0).integers(0, 1440, N)], seconds),
    "before noon": (
        [f"{h}:{m:02d} AM" for h, m in zip(random(1).integers(5, 11, N), range(N), strict=True)],
        clock_times,
    ),
    "durations": ([f"{h}:{m:02d}:05" for h, m in zip(random(2).integers(0, 90, N), range(N), strict=True)], seconds),
    "days": ([str(pd.Timedelta(int(s), unit="s")) for s in random(3).integers(0, 10**6, N)], seconds),
    "hours and minutes": ([f"{m // 60}h {m % 60}m" for m in random(15).integers(0, 600, N)], seconds),
    "parts that are not zero": (
        [
            (f"PT{m // 60}H" if m >= 60 else "PT") + (f"{m % 60}M" if m % 60 else "")
            for m in 15 * random(16).integers(1, 24, N)
        ],
        seconds,
    ),
    "days and hours": ([f"{h // 24} days {h % 24:02d} hours" for h in random(17).integers(48, 600, N)], seconds),
    "months": ([f"{datetime(2000, m % 12 + 1, 1):%b} {2015 + m // 12}" for m in random(18).integers(0, 99, N)], months),
    "quarters": (
        [f"{2015 + q // 4}Q{q % 4 + 1}" for q in random(4).integers(0, 30, N)],
        lambda cells: pd.PeriodIndex(cells, freq="Q").asi8.astype(float),
    ),
    "weeks": (
        [str(np.datetime64("2015-01-05") + 7 * int(w)) for w in random(5).integers(0, 300, N)],
        lambda cells: np.array([datetime.strptime(f"{cell}-1", "%G-W%V-%u") for cell in cells], dtype="M8[D]").astype(
            float
        ),
    ),
    "short dates": (
        [str(day) for day in np.datetime64("2008-01-01") + random(6).integers(0, 2000, N)],
        lambda cells: np.array([datetime.strptime(cell, "%d.%m.%y") for cell in cells], dtype="M8[D]").astype(float),
    ),
    "short dates with the day first": (
        [f"{d[8:]}/{d[5:7]}/{d[2:4]}" for d in map(str, np.datetime64("2008-01-20") + random(6).integers(0, 2000, N))],
        lambda cells: np.array([datetime.strptime(cell, "%d/%m/%y") for cell in cells], dtype="M8[D]").astype(float),
    ),
    "negatives in parentheses": ([f"({-x:.2f})" if x < 0 else f"{x:.2f}" for x in random(7).normal(20, 50, N)], plain),
    "units": ([f"{x} kg" for x in random(8).integers(50, 99, N)], plain),
    "separators": ([f"{x:,}".replace(",", " ") for x in random(9).integers(9000, 99000, N)], plain),
    "narrow separators": ([f"{x:,}".replace(",", "\u202f") for x in random(9).integers(9000, 99000, N)], plain),
    "a typeset minus": ([f"{x:.1f}".replace("-", "−") for x in random(10).normal(0, 5, N)], plain),
    "a plus": ([f"{x:+d}" for x in random(11).integers(-9, 40, N)], plain),
    "no zero": ([f"{x:.2f}"[1:] for x in random(12).uniform(0, 0.9, N)], plain),
    "exponents": ([f"{x:.2E}" for x in np.exp(random(13).normal(8, 1, N))], plain),
    "a decimal comma": ([f"{x:.1f}".replace(".", ",") for x in random(14).normal(50, 5, N)], plain),
}
NOTATIONS["weeks"] = (
    ["{}-W{:02d}".format(*datetime.fromisoformat(d).isocalendar()) for d in NOTATIONS["weeks"][0]],
    NOTATIONS["weeks"][1],
)
NOTATIONS["short dates"] = (
    [f"{d[8:]}.{d[5:7]}.{d[2:4]}" for d in NOTATIONS["short dates"][0]],
    NOTATIONS["short dates"][1],
)


@pytest.mark.parametrize("name", NOTATIONS)
def test_everyday_columns_are_numbers_and_new_cells_are_written_like_stored_ones(name, tmp_path):
    cells, meaning = NOTATIONS[name]
    pd.DataFrame({"seen": cells, "x": random(20).normal(0, 1, N).round(3)}).to_csv(tmp_path / "a.csv", index=False)
    synth = sa.fit(tmp_path / "a.csv")
    column = synth.codec.columns[0]
    ours, theirs = column.numbers(synth.codec.stored["seen"]), meaning(cells)
    assert np.corrcoef(ours, theirs)[0, 1] == pytest.approx(1, abs=1e-12)
    synth.write(tmp_path / "new.csv", 60, rng=0)
    new = pd.read_csv(tmp_path / "new.csv", dtype=str)["seen"].tolist()
    shape = [re.sub(r"\d+", "0", re.sub(r"\d{2,}", "00", cell)) for cell in (*cells, *new)]
    assert set(shape[N:]) <= set(shape[:N])
    assert len(set(new) - set(cells)) > 2 or name == "quarters"
    stored = synth.codec.decode(synth.codec.encode(synth.codec.stored), np.arange(N))
    assert synth.codec.same(stored, synth.codec.stored).all()
    assert np.isfinite(meaning(new)).all()
    notes = [note for note in synth.notes if "new ones are written the same way" in note]
    shown = re.fullmatch("column 'seen': cells such as (.*) are read as .*", notes[0])[1] if notes else "-"
    assert re.fullmatch(r"-?\d+(\.\d+)?", shown) is None  # an example of what is special about them


def of_hours(minutes):
    return [f"{m // 60:02d}:{m % 60:02d}" for m in minutes]


@pytest.mark.parametrize(
    ("written", "step", "start"),
    [
        (of_hours, 15, 0),
        (of_hours, 15, 7),
        (of_hours, 5, 0),
        (lambda minutes: [f"{m // 60}h {m % 60}m" for m in minutes], 30, 0),
        (lambda minutes: [f"{m // 60}h {m % 60}m" for m in minutes], 30, 10),
        (lambda minutes: pd.to_timedelta(minutes, "min"), 1440, 0),
        (lambda minutes: pd.to_timedelta(minutes - 4000, "min"), 60, 0),
    ],
)
def test_new_times_and_durations_are_in_the_steps_of_the_stored_ones(written, step, start):
    minutes = step * random(1).integers(1, 47 if start or step < 30 else 90, 80) + start
    synth = sa.fit(pd.DataFrame({"t": written(minutes), "x": random(2).normal(size=80)}))
    possible = written(step * np.arange(-200, 300) + start) if step == 60 else written(step * np.arange(300) + start)
    assert set(synth.sample(500, rng=0)["t"]) <= set(possible)


def test_times_in_other_steps_are_in_order_and_have_conditions():
    start = 15 * random(1).integers(28, 70, 80)
    end = start + 5 * random(2).integers(0, 24, 80)
    stored = pd.DataFrame({"start": of_hours(start), "end": of_hours(end), "x": random(3).normal(size=80)})
    synth = sa.fit(stored)
    for new in (synth.sample(500, rng=0), synth.condition("10:03<=end<12:00").sample(100, rng=0)):
        assert (new["start"] <= new["end"]).all()
        assert set(new["start"].str[-2:]) <= {"00", "15", "30", "45"}
        assert set(new["end"].str[-1]) <= {"0", "5"}
    assert new["end"].between("10:05", "11:55").all()
    with pytest.raises(InputError, match="has times such as 10:00"):
        synth.condition(start="10:07")
    later = sa.fit(stored.assign(end=of_hours(start + 45)))
    assert any("end = start + 45" in note for note in later.notes)
    extra = 10 * random(4).integers(0, 9, 80)
    frame = pd.DataFrame({"start": of_hours(start), "b": of_hours(extra), "total": of_hours(start + extra)})
    summed = sa.fit(frame, constraints=["total = start + b"])
    new = summed.sample(200, rng=0).apply(lambda cells: cells.str[:2].astype(int) * 60 + cells.str[3:].astype(int))
    assert (new["total"] == new["start"] + new["b"]).all()


@pytest.mark.parametrize("spelling", ["< 0.5", "<0.50"])
def test_two_spellings_of_a_limit_are_one_limit(spelling):
    measured = np.random.default_rng(0).gamma(2, 1, 200).round(1)
    cells = ["<0.5" if x < 0.5 and i % 3 else spelling if x < 0.5 else np.float64(x) for i, x in enumerate(measured)]
    for column in ([str(cell) for cell in cells], cells):
        synth = sa.fit(pd.DataFrame({"crp": column, "b": np.random.default_rng(1).normal(size=200)}))
        assert dict(synth.kind.display.column_types(synth.codec))["crp"] == "numeric"
        new = synth.sample(500, rng=0)["crp"].astype(str)
        assert (new == "<0.5").mean() == pytest.approx((measured < 0.5).mean(), abs=0.02)
        assert spelling not in set(new)
        assert new[new != "<0.5"].astype(float).min() >= 0.5


def test_limits_of_detection_are_as_frequent_as_they_were_and_nothing_is_measured_beyond_them():
    measured = np.exp(random(0).normal(-0.5, 1.5, 200)).round(2)
    cells = [f"<{0.1}" if x < 0.1 else ">5" if x > 5 else f"{x:.2f}" for x in measured]
    frame = pd.DataFrame({"crp": cells, "log": np.log(measured + 0.01).round(3)})
    synth = sa.fit(frame)
    assert any("cells such as <0.1 are read as numbers" in note for note in synth.notes)
    new = synth.sample(2000, rng=0)
    numbers = new["crp"][~new["crp"].isin(["<0.1", ">5"])].astype(float)
    assert numbers.between(0.1, 5).all()
    for limit in ("<0.1", ">5"):
        assert (new["crp"] == limit).mean() == pytest.approx(cells.count(limit) / 200, abs=0.02)
    assert new["log"][new["crp"] == "<0.1"].mean() < np.log(0.2)  # they are small, and not a class without an order
    assert set(synth.condition(crp="<0.1").sample(5, rng=0)["crp"]) == {"<0.1"}
    assert not set(synth.condition(crp=sa.Range(ge=0.1, le=1)).sample(50, rng=0)["crp"]) & {"<0.1", ">5"}
    half = synth.refit(np.flatnonzero((measured > 0.2) & (measured < 4)))  # of rows without limits, as in validation
    assert half.sample(20, rng=0)["crp"].astype(float).between(0.1, 5).all()


@pytest.mark.parametrize(
    ("written", "digits"),
    [(lambda x, i: repr(x), 1), (lambda x, i: f"{x:.2f}" if i % 3 else f"{x:g}", 0), (lambda x, i: f"{x:g}", 0)],
    ids=["as Python writes", "padded or not", "as R writes"],
)
def test_limits_stand_beside_numbers_of_several_decimals(written, digits, tmp_path):
    measured = [float(x) for x in [1.0, 2.0, 0.59, 1.5, *random(3).gamma(2, 1, 196).round(2)]]
    cells = ["<0.2" if x < 0.2 else written(x, i) for i, x in enumerate(measured)]
    pd.DataFrame({"crp": cells, "age": random(4).integers(20, 80, 200)}).to_csv(tmp_path / "a.csv", index=False)
    for source in (tmp_path / "a.csv", pd.read_csv(tmp_path / "a.csv")):
        synth = sa.fit(source)
        assert dict(synth.kind.display.column_types(synth.codec))["crp"] == "numeric"
        new = synth.sample(800, rng=0)["crp"]
        assert (new == "<0.2").mean() == pytest.approx(np.mean(np.less(measured, 0.2)), abs=0.02)
        numbers = new[new != "<0.2"]
        assert numbers.astype(float).min() >= 0.2
        assert all(len(cell.partition(".")[2]) >= digits for cell in numbers)
        stored = synth.codec.decode(synth.codec.encode(synth.codec.stored), np.arange(200))["crp"]
        assert [float(cell) for cell in stored if cell != "<0.2"] == [x for x in measured if x >= 0.2]


def test_numbers_with_a_zero_at_the_end_are_padded(tmp_path):
    cells = [f"{x:.2f}" if i % 3 else f"{x:.2f}7" for i, x in enumerate(random(0).normal(5, 2, N))]
    pd.DataFrame({"x": [*cells, "3.10"], "y": range(N + 1)}).to_csv(tmp_path / "a.csv", index=False)
    works("sample", tmp_path / "a.csv", "-n", 9, "--condition", "x=4", "-o", tmp_path / "new.csv")
    assert {line.partition(",")[0] for line in (tmp_path / "new.csv").read_text().splitlines()[1:]} == {"4.00"}


def test_versions_are_not_numbers_and_times_have_conditions(tmp_path):
    rng, n = random(3), 60
    frame = pd.DataFrame(
        {
            "version": rng.choice(["3.9", "3.10", "3.11"], n),
            "start": [f"{h:02d}:{m:02d}" for h, m in zip(rng.integers(7, 19, n), rng.integers(0, 60, n), strict=True)],
        }
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    synth = sa.fit(tmp_path / "a.csv")
    assert set(synth.sample(90, rng=0)["version"]) == {"3.9", "3.10", "3.11"}
    assert synth.condition("08:00<=start<09:30").sample(40, rng=0)["start"].between("08:00", "09:29").all()
    texts = pd.DataFrame({"needs": rng.choice(["3.0", "3.9", "3.11"], n), "x": rng.normal(size=n)})
    assert dict(sa.fit(texts).kind.display.column_types(sa.fit(texts).codec))["needs"] == "category"
    with pytest.raises(InputError, match="column holds times, and this is not one"):
        synth.condition(start="soon")


@pytest.mark.parametrize("shape", ["{}.{}.{}", "+49{}{}{}{}", "+49 {}0 {}1"])
def test_addresses_versions_and_telephones_are_neither_dates_nor_numbers(shape, tmp_path):
    frame = pd.DataFrame(
        {"c": [shape.format(*row) for row in random(5).integers(11, 99, (N, 4))], "x": np.arange(N) % 7}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    for source in (frame, tmp_path / "a.csv"):
        assert set(sa.fit(source).sample(3, rng=0)["c"]) == {"new-1", "new-2", "new-3"}


def measured(word, n_words, numbers, name="x"):
    """The text of a table with a column of numbers, the first of which are replaced by a word."""
    cells = [*[word] * n_words, *numbers[n_words:]]
    return "".join([f"{name},group\n", *(f"{cell},{'ab'[i % 2]}\n" for i, cell in enumerate(cells))])


ORDER = np.random.default_rng(4).permutation(50)
DECIMALS = [f"{1 + x / 7:.2f}" for x in ORDER]
WHOLE = [str(8 + 3 * x) for x in ORDER]
CODES = [str(10115 + 37 * x) for x in ORDER]


@pytest.mark.parametrize(
    ("word", "n_words", "numbers", "type"),
    [
        ("n.n.", 2, DECIMALS, "numeric"),
        ("not detected", 5, DECIMALS, "numeric"),
        ("n.d.", 1, ["<0.1", "<0.1", *DECIMALS[2:]], "numeric"),
        ("unknown", 2, WHOLE, "integer"),
    ],
)
def test_few_words_among_numbers_are_missing_cells(tmp_path, word, n_words, numbers, type):
    path, new = tmp_path / "t.csv", tmp_path / "new.csv"
    path.write_text(measured(word, n_words, numbers))
    synth = sa.fit(path)
    assert dict(synth.kind.display.column_types(synth.codec))["x"] == type
    assert synth.codec.stored["x"].isna().sum() == n_words
    assert f"column 'x': {word} is read as missing" in synth.codec.notes
    works("sample", path, "-n", 60, "-o", new)
    cells = [line.split(",")[0] for line in new.read_text().splitlines()[1:]]
    assert 0 < cells.count(word) < 20
    few = tmp_path / "few.csv"  # in which more than one in ten cells are words
    few.write_text(f"x,group\n{word},a\n{numbers[9]},b\n")
    assert read_new(path, few)["x"].isna().tolist() == [True, False]


@pytest.mark.parametrize(
    ("word", "n_words", "numbers", "name"),
    [
        ("n.n.", 6, DECIMALS, "x"),
        ("abroad", 1, CODES, "zip"),
        ("rotary", 2, ["4", "6", "8", "6", "4"] * 10, "cylinders"),
        ("dev", 1, DECIMALS, "version"),
        ("12a", 1, WHOLE, "house"),
    ],
)
def test_words_among_codes_and_many_words_are_kept(tmp_path, word, n_words, numbers, name):
    path = tmp_path / "t.csv"
    path.write_text(measured(word, n_words, numbers, name))
    assert sa.fit(path, columns={"group": "category"}).codec.stored[name].tolist()[0] == word


@pytest.mark.parametrize(("word", "numbers"), [("abroad", CODES), ("rotary", ["4", "6", "8", "6", "4"] * 10)])
def test_words_among_numbers_that_are_called_amounts_are_missing_cells(tmp_path, word, numbers):
    path = tmp_path / "t.csv"
    path.write_text(measured(word, 2, numbers))
    codec = sa.fit(path, columns={"x": "integer"}).codec
    assert codec.stored["x"].tolist()[2:] == list(map(int, numbers[2:]))
    assert codec.stored["x"].isna().sum() == 2
