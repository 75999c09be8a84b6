"""Columns that name rows instead of describing them, numbers that are codes, and times with zones."""

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.kinds import InputError
from stochattn.kinds.tables.codec import TableCodec
from stochattn.kinds.tables.columns.columns import Source
from stochattn.kinds.tables.columns.inference import are_row_numbers, fit_column, have_name_of_ids


def column(name, cells, day_first=False, **series):
    return fit_column(pd.Series(cells, name=name, **series), Source("t.csv", (), day_first))


def test_three_rows_do_not_repeat_identifiers_or_remarks(tmp_path):
    (tmp_path / "t.csv").write_text(
        "name,remark,sex,age\nAnna Berg,came late with a cough,m,20\nBert Roth,none of it,f,35\nCarl Otto,ok,m,50\n"
    )
    synth = sa.fit(tmp_path / "t.csv")
    new = synth.sample(50, rng=0)
    for name in ("name", "remark"):
        assert not set(new[name]) & set(synth.codec.stored[name])
        assert any(f"column {name!r}" in note for note in synth.notes)
    assert set(new["sex"]) == {"m", "f"}


TEXTS = {
    "all differ": ("x", ["a", "b", "c"], "id"),
    "two rows": ("x", ["a", "b"], "id"),
    "values repeat": ("sex", ["m", "f", "m"], "category"),
    "four groups": ("blood", ["A", "B", "AB", "0"] * 3, "category"),
    "single words": ("town", ["Graz", "Linz", "Rom", "Paris", "Wien"] * 2, "category"),
    "32 makers in 50 cars": (
        "maker",
        [f"maker{c}" for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef" + "ABCDEFGHIABCDEFGHI"],
        "category",
    ),
    "most rows alone": (
        "maker",
        [f"maker{c}" for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef" + "ABCDEFAAAAAAAAAAAA"],
        "id",
    ),
    "names twice": ("who", [f"Person {i // 2}" for i in range(40)], "id"),
    "names twice, few": ("who", ["Anna Berg", "Bert Roth", "Carl Otto", "Dora Kurz"] * 2, "id"),
    "groups with digits": ("stage", [f"stage {i % 4}" for i in range(40)], "category"),
    "visits": ("patient", [f"p{i // 5}" for i in range(40)], "id"),
    "shops": ("shop_id", [f"s{i % 3}" for i in range(40)], "category"),
    "mails": ("contact", [f"u{i % 8}@x.org" for i in range(80)], "id"),
    "names among others": ("helper", ["none"] * 30 + [f"Anna Berg{i}" for i in range(10)], "id"),
    "remarks": ("remark", ["none"] * 30 + [f"came late with cough {i}" for i in range(10)], "id"),
    "one remark": ("remark", ["none", "none", "came late with a cough"], "id"),
    "one text": ("remark", [None, None, "cough"], "id"),
    "answers": ("answer", ["I do not agree", "I do agree somewhat", "I do not know"] * 8, "category"),
    "answers, two of them once": (
        "answer",
        ["I do not agree", "I do agree somewhat"] * 8 + ["I do not know yet", "I will say nothing here"],
        "category",
    ),
    "a remark beside answers": ("remark", ["none", "some"] * 3 + ["came late with a cough"], "category"),
    "few mails": (
        "contact",
        ["a@x.org", "b@x.org", "c@x.org", "fax", "mail", "phone", "none", "post"] * 10,
        "category",
    ),
    "two remarks beside words": (
        "remark",
        ["none", "some", "few"] * 4 + ["came late with cough", "came late with fever"],
        "id",
    ),
    "one remark beside words": ("remark", ["none", "some", "few"] * 4 + ["came late with a cough"], "category"),
    "nearly all differ": ("town", [*"abcdefghij", "a"], "id"),
    "nine in ten differ": ("town", [*"abcdefghi", "a"], "id"),
    "many": ("x", [f"w{'abcdefghij'[i % 10]}{'klmnopqrst'[i // 10 % 10]}{i // 100}" for i in range(600)] * 8, "id"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_texts_that_name_rows_are_identifiers_and_classes_are_not(case):
    name, cells, type = TEXTS[case]
    fitted, note = column(name, cells, dtype="str")
    assert fitted.type == type
    assert bool(note) == (type == "id")


def test_the_note_says_what_becomes_of_free_text():
    cells = [f"came late with cough {i}" for i in range(8)]
    assert column("remark", cells)[1] == (
        " holds free text, which is not modeled and never repeated: new rows get new numbers"
    )
    assert "for classes pass columns={'who': 'category'}" in column("who", [f"Person {i // 2}" for i in range(40)])[1]


def test_a_label_may_have_many_classes():
    cells = pd.Series(["a", "b", "c", "d", "a"], name="species")
    assert fit_column(cells, Source())[0].type == "id"
    assert fit_column(cells, Source(), label=True)[0].type == "category"


def test_categories_of_pandas_stay_categories():
    assert column("who", pd.Categorical(["Anna", "Bert", "Carl"]))[0].type == "category"


NUMBERS = {
    "patients": ("patient_id", range(1000, 1120, 3), "id"),
    "camel case": ("PatientID", [12, 7, 9], "id"),
    "nr": ("Patient Nr.", [5, 3, 9], "id"),
    "hash": ("#", [5, 3, 9], "id"),
    "floats": ("id", [3.0, 1.0, 2.0], "id"),
    "visits": ("subject", [1, 1, 2, 2, 3, 3, 4, 4], "id"),
    "shops": ("shop_id", [1, 2, 3] * 10, "integer"),
    "ages of patients": ("patient_age", [30, 40, 50], "integer"),
    "rows": ("lfd", range(101, 141), "id"),
    "few rows": ("lfd", range(101, 105), "integer"),
    "years": ("season", range(1990, 2020), "integer"),
    "years and more": ("season", range(2080, 2102), "id"),
    "orders": ("order", range(100_001, 100_031), "id"),
    "days": ("day", range(40), "integer"),
    "variable": ("t", range(40), "integer"),
    "squares": ("size", np.arange(40) ** 2, "integer"),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_whole_numbers_that_name_or_count_rows_are_identifiers(case):
    name, cells, type = NUMBERS[case]
    fitted, note = column(name, list(cells))
    assert fitted.type == type
    assert ("new rows are numbered from the last one on" in note) == (type == "id")


def test_words_of_names_tell_persons_and_times():
    """Six visits of five persons, and whole numbers that rise by one."""
    visits = np.array([7, 7, 3, 9, 12, 1])
    for name in ("patient", "email", "mobile", "ssn", "Username", "home address", "customer_id"):
        assert have_name_of_ids(name, visits, 5)
    for name in ("visits", "size", "number"):
        assert not have_name_of_ids(name, visits, 5)
    for name in ("year", "step", "age", "Jahr", "study_week"):
        assert not are_row_numbers(name, np.arange(40))
    assert are_row_numbers("order", np.arange(40))


def test_new_patients_have_new_numbers():
    frame = pd.DataFrame({"patient_id": np.arange(20) * 3 + 1000, "age": np.arange(20) * 7 % 60})
    assert sa.fit(frame).sample(3, rng=0)["patient_id"].tolist() == [1058, 1059, 1060]
    amounts = sa.fit(frame, columns={"patient_id": "integer"}).sample(3, rng=0)["patient_id"]
    assert amounts.max() < 1200


CODES = {
    "sex": ([1.0, 2.0] * 20, "category"),
    "standardised": ([-0.04464164, 0.05068012] * 20, "category"),
    "doses": ([0.5, 1.0, 2.0] * 10, "category"),
    "cylinders": ([4.0, 6.0, 8.0] * 10, "category"),
    "truth": ([0.0, 1.0] * 20, "boolean"),
    "scale": ([0.1, 0.2, 0.3, 0.4] * 10, "numeric"),
    "counts": ([1.0, 2.0, 3.0] * 10, "integer"),
    "few rows": ([1.5, 2.5] * 4, "numeric"),
    "many values": ([i / 4 for i in range(11)] * 10, "numeric"),
    "whole numbers": ([4, 6, 8] * 10, "integer"),
}


@pytest.mark.parametrize("case", CODES)
def test_few_numbers_with_decimals_are_codes(case):
    cells, type = CODES[case]
    fitted, note = column("x", cells)
    assert fitted.type == type
    assert ("read as categories; for amounts pass" in note) == (type == "category")


def test_codes_are_the_only_values_of_new_rows(tmp_path):
    rng = np.random.default_rng(0)
    rows = "".join(f"{rng.integers(1, 3)}.0,{rng.normal():.3f}\n" for _ in range(60))
    (tmp_path / "t.csv").write_text(f"sex,x\n{rows}")
    synth = sa.fit(tmp_path / "t.csv")
    assert set(synth.sample(200, rng=0)["sex"]) == {1.0, 2.0}
    synth.write(tmp_path / "new.csv", 50, rng=0)
    assert {line.split(",")[0] for line in (tmp_path / "new.csv").read_text().splitlines()[1:]} == {"1.0", "2.0"}
    assert set(synth.condition(sex=2).sample(5, rng=0)["sex"]) == {2.0}


# --- Times with zones


@pytest.mark.parametrize(
    "cells",
    [
        ["2021-03-01T10:15:00+02:00", "2021-03-09T11:30:00+02:00", "2021-04-05T09:00:00+02:00"],
        ["2021-03-01 10:15:00-0500", "2021-03-09 11:30:00-0500", "2021-04-05 09:00:00-0400"],
        ["2021-03-01 10:15:00 +05:30", "2021-03-09 11:30:00 +05:30", "2021-04-05 09:00:00 +05:30"],
        ["2021-03-01T10:15:00.125Z", "2021-03-09T11:30:00.250Z", "2021-04-05T09:00:00.500Z"],
        ["2021-03-01 10:15:00 UTC", "2021-03-09 11:30:00 UTC", "2021-04-05 09:00:00 UTC"],
        ["01/03/2021 10:15 +01:00", "09/03/2021 11:30 +01:00", "25/04/2021 09:00 +02:00"],
    ],
    ids=lambda cells: cells[0],
)
def test_times_with_zones_are_times_and_keep_the_zone(cells):
    fitted, _ = column("when", cells)
    assert fitted.type == "date"
    series = pd.Series(cells, name="when")
    assert fitted.cells(fitted.features(series)).tolist() == cells
    new = fitted.cells(np.linspace(-2, 2, 40)[:, None])
    assert {len(cell) for cell in new} == {len(cells[0])}
    zones = {cell[19:] if cell[4] == "-" else cell[16:] for cell in cells} if "." not in cells[0] else {"Z"}
    assert {next((zone for zone in zones if cell.endswith(zone)), None) for cell in new} == zones
    middle = fitted.condition(cells[1])[0]
    assert fitted.cells(middle[None]).tolist() == [cells[1]]


def test_a_moment_of_another_zone_is_the_same_moment():
    fitted, _ = column("when", ["2021-03-01 10:15:00-05:00", "2021-03-09 11:15:00-05:00", "2021-04-05 09:15:00-04:00"])
    for moment in ("2021-04-01 12:15:00-04:00", pd.Timestamp("2021-04-01 16:15", tz="UTC")):
        assert fitted.cells(fitted.condition(moment)[0][None]).tolist() == ["2021-04-01 11:15:00-05:00"]
    assert fitted.cells(fitted.condition("2021-03-05 08:15")[0][None]).tolist() == ["2021-03-05 08:15:00-05:00"]


def test_iso_dates_beside_decimal_commas_are_dates(tmp_path):
    rows = "".join(f"2021-03-{i % 12 + 1:02d};{i},{i % 10}\n" for i in range(40))
    (tmp_path / "t.csv").write_text(f"when;x\n{rows}")
    codec = TableCodec.read(tmp_path / "t.csv")
    assert [str(one.type) for one in codec.columns] == ["date", "numeric"]
    assert codec.columns[0].date_scale.format == "%Y-%m-%d"
    assert codec.notes == ()
    assert column("when", ["01.02.2021", "03.04.2021"], day_first=True)[0].date_scale.format == "%d.%m.%Y"


def test_dates_of_two_kinds_are_still_an_error():
    with pytest.raises(InputError, match=r"dates are in two formats, '2021-03-01' and '01\.04\.2021'"):
        column("when", ["2021-03-01", "01.04.2021"], day_first=True)


def test_days_come_first_beside_decimal_commas(tmp_path):
    rows = "".join(f"{i % 12 + 1:02d}/03/2021;{i},5\n" for i in range(24))
    (tmp_path / "t.csv").write_text(f"when;x\n{rows}")
    assert TableCodec.read(tmp_path / "t.csv").columns[0].date_scale.format == "%d/%m/%Y"


def test_decoded_rows_have_no_identifier_of_a_stored_row():
    rows = pd.DataFrame({"patient": [f"P{7 * i:04d}" for i in range(30)], "age": np.arange(30) + 20})
    codec = sa.fit(rows, "table").codec
    decoded = codec.decode(codec.encode(codec.stored), np.arange(30))
    assert not set(decoded["patient"]) & set(rows["patient"])
    assert decoded["age"].tolist() == rows["age"].tolist()


def visits(n_patients=12, n_visits=4):
    """Measurements of patients at dates that are written day first, sorted by patient and date."""
    rng = np.random.default_rng(0)
    patient, visit = np.repeat(np.arange(n_patients), n_visits), np.tile(np.arange(n_visits), n_patients)
    date = pd.Timestamp("2021-01-20") + pd.to_timedelta(7 * visit + patient, unit="D")
    frame = {"patient": patient + 1, "visit": visit + 1, "date": date.strftime("%d.%m.%Y"), "site": patient % 3}
    return pd.DataFrame({**frame, "weight": rng.normal(70, 9, len(patient)).round(1)})


@pytest.mark.parametrize(
    ("frame", "pair"),
    [
        (visits()[["patient", "visit", "weight"]].sample(frac=1, random_state=0), ("patient", "visit")),
        (visits()[["patient", "date", "weight"]].rename(columns={"patient": "rat"}), ("rat", "date")),  # in turn
        (
            visits()[["patient", "visit", "weight"]].rename(columns={"patient": "rat"}).sample(frac=1, random_state=0),
            ("rat", "visit"),
        ),
        (visits()[["patient", "visit", "weight"]].rename(columns={"visit": "Days"}), ("patient", "Days")),
        (visits()[["patient", "visit", "weight"]].rename(columns={"visit": "age"}), ("patient", "age")),
        (visits().assign(age=30)[["patient", "age", "weight"]], None),  # the same age in all rows, which is no time
        (visits()[["site", "date", "weight"]], None),  # several rows of a site on a day, in no order
        (visits(48, 1)[["patient", "date", "weight"]], None),  # a row each
        (visits()[["patient", "weight"]], None),  # no time
    ],
)
def test_a_note_says_that_rows_of_the_same_id_are_not_independent(frame, pair):
    notes = [note for note in sa.fit(frame, "table").notes if "not independent" in note]
    assert len(notes) == (pair is not None)
    assert pair is None or notes[0].startswith(f"column {pair[0]!r} repeats beside {pair[1]!r}")
