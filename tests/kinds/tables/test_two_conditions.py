"""Two conditions on one column of a table: new rows meet both, and what nothing meets is refused."""

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from command_runner import refused, works
from stochattn import Range
from stochattn.kinds import InputError
from stochattn.synthesizer import synthesizer


@pytest.fixture(scope="module")
def synth():
    rng = np.random.default_rng(0)
    days = (pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 90, 60), unit="D")).strftime("%Y-%m-%d")
    ages, cities = rng.permutation(60) + 20, rng.choice(["Oslo", "Bergen", "Rome"], 60)
    return sa.fit(pd.DataFrame({"age": ages, "day": days, "city": cities}))


@pytest.mark.parametrize(
    ("column", "first", "second", "both"),
    [
        ("age", Range(gt=40), Range(lt=60), Range(gt=40, lt=60)),
        ("age", Range(ge=40), Range(gt=40, le=60), Range(gt=40, le=60)),
        ("age", Range(ge=40, le=60), Range(ge=30, lt=60), Range(ge=40, lt=60)),
        ("age", Range(ge=40), Range(le=40), Range(ge=40, le=40)),
        ("age", {30, 41, 50}, Range(gt=40), {41, 50}),
        ("age", Range(gt=45), {30, 41, 50}, 50),
        ("age", {30, 41}, {41, 50}, 41),
        ("age", 41, Range(gt=40), 41),
        ("day", Range(le="2021-02-01"), Range(le=pd.Timestamp("2021-02-01")), Range(le="2021-02-01")),
        ("day", Range(ge="2021-02-01"), Range(lt="2021-03-01"), Range(ge="2021-02-01", lt="2021-03-01")),
        ("city", {"Oslo", "Rome"}, {"oslo", "Bergen"}, "Oslo"),
    ],
)
def test_new_rows_meet_both(synth, column, first, second, both):
    given = synth.condition({column: first}).condition({column: second})
    assert given.conditions == {column: both}
    assert synth.condition({column: both}).sample(20, rng=0).equals(given.sample(20, rng=0))


@pytest.mark.parametrize(
    ("column", "first", "second", "said"),
    [
        ("age", Range(gt=60), Range(lt=40), "condition age<40: the column has no value that also meets age>60"),
        ("age", Range(gt=40), Range(le=40), "condition age<=40: the column has no value that also meets age>40"),
        ("age", 41, 42, "condition age=42: the column has no value that also meets age=41. Leave out one of the two."),
        ("age", {30, 41}, Range(gt=50), "condition age>50: the column has no value that also meets age=30|41"),
        ("city", "Oslo", {"Rome"}, "condition city=Rome: the column has no value that also meets city=Oslo"),
    ],
)
def test_what_nothing_meets_is_refused(synth, column, first, second, said):
    with pytest.raises(InputError) as error:
        synth.condition({column: first}).condition({column: second})
    assert str(error.value).startswith(said)


def test_the_command_line_combines_them_too(inputs, tmp_path):
    out, table = tmp_path / "new.csv", inputs["table"]
    works("sample", table, "-n", 50, "--condition", "age>30", "--condition", "age<40", "-o", out)
    assert pd.read_csv(out)["age"].between(31, 39).all()
    said = refused("sample", table, "--condition", "age>40", "--condition", "age<30", "--replace", "-o", out)
    assert (
        said == "error: --condition age<30: the column has no value that also meets age>40. Leave out one of the two."
    )


@pytest.mark.parametrize("generator", ["covariance", "hopfield"])
def test_shares_under_a_rare_set_are_predicted_from_as_many_attempts_as_without_it(generator, monkeypatch):
    rng, names = np.random.default_rng(1), [f"{a}{b}" for a in "abcdefgh" for b in "klmno"]
    frame = pd.DataFrame({"city": rng.choice(names, 160), "x": rng.normal(0, 1, 160), "group": ["a", "b"] * 80})
    given = sa.fit(frame, generator=generator, label="group").condition(city={"ak", "bl", "cm"})
    n_drawn, sample = [], type(given.generator).sample

    def counted(self, n, rng):
        n_drawn.append(n)
        return sample(self, n, rng)

    monkeypatch.setattr(type(given.generator), "sample", counted)
    shares = given.predicted_shares()
    assert n_drawn == [synthesizer.MIN_CLASS_DRAWS]
    assert 0.01 < given.generator.acceptance < 0.1
    assert sum(shares.values()) == pytest.approx(1)
    assert sa.fit(frame, generator=generator).generator.acceptance == 1
