"""Rivals of the table generator and the measures that judge them, on small tables."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import quality, table_contest, table_contest_data, table_forest_gap
from benchmarks.rivals import arf, cart, copula, smote
from benchmarks.table_contest_data import Contest, halves
from benchmarks.table_contest_measures import Judge, c2st, copies, two_sample_auc


def contest(n=120):
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b"], n)
    x = rng.normal(size=n) + 4 * (kind == "b")
    frame = pd.DataFrame(
        {"x": x.round(2), "n": rng.poisson(3, n), "y": (x + rng.normal(size=n)).round(1), "kind": kind}
    )
    return Contest("made", frame, "kind", True)


@pytest.mark.parametrize("rival", [cart, arf, copula, smote])
def test_rivals_keep_columns_shares_and_dependence(rival):
    """With 400 draws, shares of the class vary by 0.025 and the correlation of x and y (0.91) by 0.01."""
    stored = contest().frame
    new = rival.draw(stored, 400, np.random.default_rng(1))
    assert list(new) == list(stored)
    assert new.dtypes.equals(stored.dtypes)
    assert (new["kind"] == "a").mean() == pytest.approx((stored["kind"] == "a").mean(), abs=0.11)
    assert new[["x", "y"]].corr().iloc[0, 1] > 0.7
    assert set(new["kind"]) == {"a", "b"}


def test_carts_draw_stored_cells_and_smote_stays_between_rows():
    stored = contest().frame
    assert set(cart.draw(stored, 200, np.random.default_rng(0))["x"]) <= set(stored["x"])
    new = smote.draw(stored, 200, np.random.default_rng(0), "kind")
    assert new["x"].between(stored["x"].min(), stored["x"].max()).all()
    for name in "ab":  # within classes
        own = stored.loc[stored["kind"] == name, "x"]
        assert new.loc[new["kind"] == name, "x"].between(own.min(), own.max()).all()


def test_the_judge_tells_copies_and_noise_from_true_rows():
    made = contest(240)
    split = halves(made, 0)
    judge = Judge(made, split)
    same = judge.scores(split.stored)
    assert same.copies == 1
    assert same.train_proximity > 0.95
    assert same.forest_gap == 0
    assert abs(same.auc - 0.5) < 0.15
    rng = np.random.default_rng(0)
    shuffled = split.stored.apply(lambda column: rng.permutation(column.to_numpy()))
    broken = judge.scores(shuffled.astype(split.stored.dtypes.to_dict()))
    assert broken.auc > 0.75
    assert broken.forest_gap < -0.2


def test_measures_are_what_their_definitions_say():
    rng = np.random.default_rng(0)
    assert c2st(rng.normal(size=(300, 2)) + 9, rng.normal(size=(300, 2))) == 1
    assert c2st(rng.normal(size=(300, 2)), rng.normal(size=(300, 2))) < 0.57  # |accuracy − ½| has a mean of 0.023
    assert two_sample_auc(rng.normal(size=(60, 1)) + 9, rng.normal(size=(60, 1))) > 0.99
    assert copies(np.array([0.0, 5.0]), np.arange(1.0, 101.0)) == 0.5
    assert copies(np.ones(10), np.ones(100)) == pytest.approx(0.01)  # ties: as many as true rows have


def test_halves_do_not_share_rows_and_have_equal_classes():
    made = contest(121)
    split = halves(made, 3)
    assert len(split.stored) == len(split.held_out) == 60
    counts = [part["kind"].value_counts() for part in split]
    assert abs(counts[0]["a"] - counts[1]["a"]) <= 1


def test_a_missing_package_and_an_unknown_page_are_named(monkeypatch):
    with pytest.raises(SystemExit, match=r"no_such_package is not installed.*stochattn\[benchmarks\]"):
        table_contest_data.package("no_such_package")
    with pytest.raises(SystemExit, match="got 'chairs'"):
        quality.chosen("tables,chairs")
    assert [part.module for part in quality.chosen("tables")] == ["table_contest"]


def test_methods_that_are_asked_for_are_measured_and_kept_alone(tmp_path):
    kept = tmp_path / "kept.jsonl"
    found = table_contest.measured(("iris",), range(1), kept, ["stored rows"])
    assert list(found) == [("iris", 0, "stored rows")]
    assert found["iris", 0, "stored rows"][2:4] == [0.0, 1.0]  # the gap and copies of stored rows
    assert len(kept.read_text("utf-8").splitlines()) == 1
    assert table_contest.measured(("iris",), range(1), kept, ["stored rows"]) == found  # nothing is measured again
    assert len(kept.read_text("utf-8").splitlines()) == 1


class Recorder(Judge):
    """A judge that keeps what it is asked to judge, and trains no forests."""

    last = None

    def __init__(self, contest, split):
        self.split, self.asked = split, []
        Recorder.last = self

    def forest_gap(self, new):
        self.asked.append(new)
        return float(len(self.asked))


def test_forest_gaps_of_true_rows_are_of_other_rows_and_of_repeated_stored_ones(monkeypatch):
    made = contest(240)
    made = made._replace(frame=made.frame.assign(row=np.arange(240)))
    monkeypatch.setattr(table_forest_gap, "Judge", Recorder)
    assert table_forest_gap.of_true_rows(made, 0) == [1.0, 2.0]
    stored, held_out = Recorder.last.split
    second, repeated = Recorder.last.asked
    assert len(stored) == len(held_out) == len(second) == len(repeated) == 80
    assert len({*stored["row"], *held_out["row"], *second["row"]}) == 240
    shares = [(part["kind"] == "a").sum() for part in (stored, held_out, second)]
    assert max(shares) - min(shares) <= 1
    assert set(repeated["row"]) < set(stored["row"])
    assert 0.5 < repeated["row"].nunique() / 80 < 0.76  # 0.63 is expected, with a standard error of 0.035


def test_forest_gaps_of_new_rows_are_of_as_many_rows_as_are_held_out_and_of_more(monkeypatch):
    monkeypatch.setattr(table_forest_gap, "Judge", Recorder)
    assert table_forest_gap.of_new_rows(contest(), 0) == [2.0, 4.0]  # the mean of 1, 2 and 3; and the fourth
    *few, more = Recorder.last.asked
    assert [len(new) for new in few] == [60, 60, 60]
    assert len(more) == 300
    assert not few[0].equals(few[1])
