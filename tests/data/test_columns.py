"""Columns to features and back, kind by kind."""

import math
from datetime import date

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, norm
from sklearn.covariance import ledoit_wolf, ledoit_wolf_shrinkage

from stochattn.data.legacy import InputError
from stochattn.data.tables import TableCodec, filling
from stochattn.data.tables.columns import Levels, Source
from stochattn.data.tables.kinds import fit_column
from stochattn.data.tables.ranks import Ranks, decimals_of, limits_of


def column(cells, kind=None, limits=(None, None), label=False, name="x", **series):
    return fit_column(pd.Series(cells, name=name, **series), Source("t.csv"), kind, limits, label)


def there_and_back(cells, **options):
    fitted, _ = column(cells, **options)
    series = pd.Series(cells, name="x")
    back = fitted.cells(fitted.features(series) + 1e-12)
    assert back.dtype == series.dtype
    return fitted, back.tolist()


def test_scores_are_normal_quantiles_of_mid_ranks():
    ranks = Ranks.fit(np.array([3.0, 1.0, 2.0, 2.0, np.nan]), -math.inf, math.inf, None)
    scores = norm.ppf([1 / 8, 4 / 8, 7 / 8])
    assert np.allclose(ranks.scores, scores / np.std([scores[0], scores[1], scores[1], scores[2]]))
    assert ranks.values.tolist() == [1, 2, 3]
    assert np.isnan(ranks.forward([np.nan])).all()


def test_between_values_the_map_is_linear_and_its_own_inverse():
    x = np.array([0.1, 0.5, 2.0, 2.0, 7.0, 9.5])
    ranks = Ranks.fit(x, -math.inf, math.inf, None)
    assert ranks.back(ranks.forward(x)).tolist() == x.tolist()
    middle = (ranks.last[2] + ranks.first[3]) / 2
    assert ranks.back([middle])[0] == pytest.approx(4.5)
    probes = np.array([-20.0, 0.3, 1.1, 5.0, 9.0, 30.0])
    assert np.allclose(ranks.back(ranks.forward(probes)), probes)


def test_tails_go_on_at_the_slope_of_the_outer_quarter():
    x = np.arange(9.0)
    ranks = Ranks.fit(x, -math.inf, math.inf, None)
    slope = (x[8] - x[6]) / (ranks.scores[8] - ranks.scores[6])
    assert ranks.back([ranks.last[-1] + 3.0])[0] == pytest.approx(8 + 3 * slope)
    assert ranks.back([ranks.first[0] - 3.0])[0] == pytest.approx(-3 * slope)


def test_a_tail_with_a_limit_never_reaches_it():
    ranks = Ranks.fit(np.array([1.0, 2.0, 4.0, 8.0]), 0.0, 9.0, None)
    far = ranks.back([-6.0, 6.0])
    assert 0 < far[0] < 1
    assert 8 < far[1] < 9
    assert np.allclose(ranks.back(ranks.forward([0.2, 8.9])), [0.2, 8.9])
    near = ranks.first[0] - 1e-5
    assert (1 - ranks.back([near])[0]) / 1e-5 == pytest.approx(ranks.slopes[0], rel=1e-3)


def test_a_shared_value_keeps_its_share():
    x = np.concatenate((np.zeros(80), np.linspace(1, 5, 20)))
    ranks = Ranks.fit(x, 0.0, math.inf, None)
    scale = ranks.scores[-1] / norm.ppf(99.5 / 100)
    drawn = ranks.back(np.random.default_rng(0).standard_normal(200_000) * scale)
    # Scores from the first rank of zero to the last, 79.5 of 100, decode to zero, and so does all below.
    # The standard error of a share of 0.8 among 200,000 is 0.0009.
    assert abs((drawn == 0).mean() - 0.795) < 0.004


@pytest.mark.parametrize(
    ("numbers", "decimals"),
    [([1, 2, 30], 0), ([1.5, 2.0], 1), ([0.15, 1.1, 0.29], 2), ([0.1 + 0.2], None), ([1e20], None), ([0.0], 0)],
)
def test_decimals(numbers, decimals):
    assert decimals_of(np.array(numbers, dtype=float)) == decimals


def test_decimals_of_single_precision():
    assert decimals_of(np.array([0.1, 2.35], dtype=np.float32)) == 2


def test_a_few_odd_values_do_not_set_the_decimals():
    prices = np.round(np.random.default_rng(0).uniform(1, 9, 177), 2)
    with_odd = np.append(prices, 9.899999)
    assert decimals_of(with_odd) == 2
    fitted, back = there_and_back(with_odd.tolist())
    assert back == with_odd.tolist()
    new = fitted.cells(np.linspace(-3, 3, 500)[:, None])
    assert new.isin(with_odd).mean() < 0.9
    assert [value for value in new if round(value, 2) != value and value != 9.899999] == []
    assert fitted.cells(fitted.value("9.899999")[0][None])[0] == 9.899999
    # Where most are zero, the others are what varies; and a tenth of the values is more than a few.
    mostly_zero = np.concatenate((np.zeros(960), prices[:40]))
    assert decimals_of(mostly_zero) == 2
    assert decimals_of(np.array([1.5] * 5 + [1.25] * 5 + [2.0] * 50 + [2.125, 3.375, 4.625])) == 3
    assert decimals_of(np.append(prices, 1e15)) == 2


def test_a_smallest_value_of_more_decimals_stays_within_the_limits():
    prices = np.append(np.round(np.random.default_rng(0).uniform(1, 9, 177), 2), 0.004)
    fitted, back = there_and_back(prices.tolist())
    assert fitted.how.decimals == 2
    assert back[-1] == 0.004
    assert limits_of(-prices, 2, "numeric") == (-math.inf, -0.004)


def test_limits_come_from_the_sign_and_from_crowded_ends():
    free = (-math.inf, math.inf)
    assert limits_of(np.array([-1.0, 2.0]), None, "numeric") == free
    assert limits_of(np.array([0.0, 2.0]), None, "numeric") == (0, math.inf)
    assert limits_of(np.array([0.5, 2.0]), 1, "numeric") == (0.1, math.inf)
    assert limits_of(np.array([3.0, 2.0]), 0, "integer") == (1, math.inf)
    assert limits_of(np.array([-0.5, -2.0]), None, "numeric") == (-math.inf, 0)
    assert limits_of(np.array([1, 2, 3, 4, 5, 5, 5.0]), 0, "integer") == (1, 5)
    assert limits_of(np.array([1, 1, 1, 5.0]), 0, "date") == free


@pytest.mark.parametrize(
    ("cells", "options", "kind"),
    [
        ([1.5, 2.25, -3.0], {}, "numeric"),
        ([1, 2, 7], {}, "integer"),
        ([1.0, 2.0, None], {}, "integer"),
        ([0, 1, 1], {}, "boolean"),
        ([True, False, True], {}, "boolean"),
        (["yes", "no", "yes"], {}, "boolean"),
        (["a", "b", "a", "c", "a", "b"], {}, "category"),
        (["p1", "p2", "p3", "p4", "p5"], {}, "id"),
        ([3, 1, 2], {"name": "id"}, "id"),
        ([2, 1, 2, 3], {"label": True}, "category"),
        (["2021-03-01", "2021-04-01", None], {}, "date"),
        ([5, 5, 5], {}, "carried"),
        ([None, None], {"dtype": float}, "carried"),
    ],
)
def test_inferred_kinds(cells, options, kind):
    assert column(cells, **options)[0].kind == kind


def test_stored_cells_come_back_exactly():
    assert there_and_back([0.1 + 0.2, 1 / 3, -7e10])[1] == [0.1 + 0.2, 1 / 3, -7e10]
    assert there_and_back([3, 1, 2, 2, 100])[1] == [3, 1, 2, 2, 100]
    assert there_and_back(["b", "a", "b", "b"])[1] == ["b", "a", "b", "b"]
    assert there_and_back([True, False, False])[1] == [True, False, False]
    texts = ["1.3.2021", "28.11.2021", "13.1.2021"]
    fitted, back = there_and_back(texts)
    assert (fitted.clock.format, back) == ("%d.%m.%Y", texts)
    stamps = pd.to_datetime(["2021-03-01 10:00", "2021-03-02 11:30"]).tolist()
    assert there_and_back(stamps)[1] == stamps
    zoned = pd.to_datetime(["2021-03-01 10:00", "2021-07-02 11:30"]).tz_localize("Europe/Vienna").tolist()
    assert there_and_back(zoned)[1] == zoned


def test_new_cells_are_rounded_and_stay_in_their_dtype():
    fitted, _ = column(np.array([1, 5, 9], dtype=np.uint8))
    cells = fitted.cells(np.array([[-1e6], [1e6]]))
    assert cells.dtype == np.uint8
    assert cells.tolist() == [1, 255]  # positive whole numbers stay positive
    prices, _ = column([1.25, 3.5, 10.75])
    assert all(round(value, 2) == value for value in prices.cells(np.linspace(-3, 3, 50)[:, None]))


def test_ranges_limit_new_values_and_must_hold_for_stored_ones():
    fitted, _ = column([0.2, 0.5, 0.9], limits=(None, 1.0))
    assert fitted.cells(np.array([[99.0]]))[0] <= 1
    with pytest.raises(InputError, match=r"t.csv, column 'x': stored values run from 0.2 to 0.9, outside"):
        column([0.2, 0.5, 0.9], limits=(None, 0.8))


def test_a_category_block_has_the_variance_of_one_numeric_column():
    series = pd.Series(["a"] * 5 + ["b"] * 3 + ["c"] * 2)
    block = Levels.fit(series).forward(series)
    assert block.var(0).sum() == pytest.approx(1)
    numeric = column(np.arange(10.0) ** 3)[0].features(pd.Series(np.arange(10.0) ** 3))
    assert numeric.var() == pytest.approx(1)


def test_whole_days_stay_whole_days():
    fitted, _ = column(["2021-03-01", "2021-04-01", "2021-06-15"])
    cells = fitted.cells(np.linspace(-2, 2, 9)[:, None])
    assert pd.to_datetime(cells, format="%Y-%m-%d").dt.hour.eq(0).all()


def test_whole_local_days_stay_whole_local_days():
    days = pd.Series(pd.to_datetime(["2021-03-01", "2021-07-02", "2021-12-24"]).tz_localize("Europe/Vienna"), name="x")
    fitted, _ = fit_column(days, Source())
    cells = fitted.cells(np.linspace(-2, 2, 200)[:, None])
    assert cells.dtype == days.dtype
    assert cells.nunique() > 50
    assert (cells.dt.hour == 0).all()
    assert fitted.cells(fitted.features(days)).tolist() == days.tolist()
    summer = fitted.cells(fitted.value("2021-08-01")[0][None])[0]
    assert summer == pd.Timestamp("2021-08-01", tz="Europe/Vienna")
    # The second of two equal hours on the clock is told by the zone's own clocks no longer.
    twice = pd.to_datetime(["2021-10-30 00:30", "2021-10-31 00:30", "2021-10-31 01:30"], utc=True)
    hours = pd.Series(twice.tz_convert("Europe/Vienna"), name="x")
    fitted, _ = fit_column(hours, Source())
    assert fitted.cells(fitted.features(hours)).tolist() == hours.tolist()


def test_dates_before_1678_come_back():
    old = pd.Series(np.array(["1492-10-12", "1066-10-14", "2021-03-01"], dtype="M8[s]"), name="x")
    fitted, _ = fit_column(old, Source())
    back = fitted.cells(fitted.features(old))
    assert back.dtype == old.dtype
    assert back.tolist() == old.tolist()
    assert fitted.cells(fitted.value("1588-08-08")[0][None]).tolist() == [pd.Timestamp("1588-08-08")]
    assert fitted.cells(np.array([[-1e9], [1e9]])).dt.year.tolist() == [1, 9999]


def test_days_as_objects_come_back_as_such():
    days = [date(2021, 3, 1), None, date(1501, 7, 2), date(2021, 12, 24)]
    fitted, _ = column(days)
    assert fitted.kind == "date"
    series = pd.Series(days, dtype=object)
    assert fitted.cells(fitted.features(series.dropna())).tolist() == [days[0], *days[2:]]
    new = fitted.cells(np.linspace(-1, 1, 9)[:, None])
    assert {type(cell) for cell in new} == {date}
    assert fitted.matches(series, "2021-03-01").tolist() == [True, False, False, False]


def test_times_told_finer_than_floats_are_carried():
    stamps = pd.Series(pd.to_datetime([1, 2**60 + 1, 2**60 + 3], unit="ns").as_unit("ns"), name="x")
    fitted, note = fit_column(stamps, Source())
    assert fitted.kind == "carried"
    assert "too short" in note


def test_long_numbers():
    assert column([1.5e17, 2.5e17, -3e17])[0].kind == "numeric"
    assert there_and_back([1.5e17, 2.5e17, -3e17])[1] == [1.5e17, 2.5e17, -3e17]
    assert column([2**60 + 1, 2**60 + 2, 5])[0].kind == "id"
    assert column([2**60 + 1, 2**60 + 2, 5, 5])[0].kind == "carried"
    for kind in ("integer", "numeric"):
        with pytest.raises(InputError, match=f"cannot be read as {kind}: it holds whole numbers of over 15 digits"):
            column([2**60 + 1, 2**60 + 2, 5], kind)
    assert there_and_back([2**60 + 1, 2**60 + 2, 2**60 + 1], kind="category")[1] == [2**60 + 1, 2**60 + 2, 2**60 + 1]


def test_day_and_month_are_told_apart_by_the_whole_column():
    assert column(["01/02/2021", "13/02/2021"])[0].clock.format == "%d/%m/%Y"
    fitted, note = column(["01/02/2021", "03/04/2021"])
    assert fitted.clock.format == "%m/%d/%Y"
    assert "dates are read as %m/%d/%Y" in note
    assert column(["2021-02-01", "2021-03-04"])[1] is None


def test_dates_in_two_formats_are_refused_with_both():
    with pytest.raises(InputError) as error:
        fit_column(pd.Series(["2021-03-01", "03/04/2021"], name="when"), Source("t.csv", (2, 3)))
    assert str(error.value).startswith(
        "t.csv, line 3, column 'when': dates are in two formats, '2021-03-01' and '03/04/2021'."
    )


def test_a_text_among_dates_makes_them_texts():
    assert column(["2021-03-01", "unknown", "unknown", "2021-03-01"])[0].kind == "category"


@pytest.mark.parametrize(
    ("cells", "kind", "why"),
    [
        (["a", "b"], "numeric", "not numbers"),
        ([1.5, 2.0], "integer", "holds fractions"),
        ([1, 2, 3], "boolean", "3 different values"),
        (["a", "b"], "date", "holds no dates"),
        ([1.5, 2.5], "id", "identifiers are texts"),
    ],
)
def test_a_kind_that_does_not_fit_is_refused(cells, kind, why):
    with pytest.raises(InputError, match=f"cannot be read as {kind}: it .*{why}"):
        column(cells, kind)


def test_infinite_and_strange_cells_are_refused():
    with pytest.raises(InputError, match=r"t.csv, row 2, column 'x': is infinite"):
        column([1.0, np.inf, 2.0])
    with pytest.raises(InputError, match=r"column 'x': cells of type object \(list\)"):
        column([[1], [2]])


def test_values_given_as_text():
    ages, _ = column([20, 30, 60])
    features, beyond = ages.value("40")
    assert ages.cells(features[None])[0] == 40
    assert (beyond, ages.value("70")[1]) == (False, True)
    when, _ = column(["01.03.2021", "15.03.2021", "14.04.2021"])
    assert when.value("2021-03-15")[0] == when.value("15.03.2021")[0] == when.features(pd.Series(["15.03.2021"]))[0]
    for text, why in (("-3", "has nothing below 1"), ("40.5", "has whole numbers"), ("old", "this is none")):
        with pytest.raises(InputError, match=why):
            ages.value(text)
    with pytest.raises(InputError, match=r"^--fix x=c: column 'x' has no such value. It has a, b\.$"):
        column(["a", "b", "a", "b"])[0].value("c")
    with pytest.raises(InputError, match=r"Did you mean 'setosa'\? It has setosa, virginica\."):
        column(["setosa", "virginica"] * 2)[0].value("setossa")
    with pytest.raises(InputError, match=r"^--fix x=soon: column 'x' holds dates, and this is no date\."):
        when.value("soon")


@pytest.mark.parametrize(
    ("cells", "texts"),
    [
        ([True, False, True], ("TRUE", "true", "True")),
        (["yes", "no", "yes"], ("yes", "YES")),
        ([1.0, 0.0, 1.0], ("1", "1.0", "1,0")),
    ],
)
def test_a_value_may_be_spelt_in_more_than_one_way(cells, texts):
    fitted, _ = column(cells)
    for text in texts:
        assert fitted.cells(fitted.value(text, ",")[0][None])[0] == cells[0]
        assert fitted.matches(pd.Series(cells), text, ",").tolist() == [True, False, True]
    assert not fitted.matches(pd.Series(cells), "perhaps").any()


def test_capitals_count_where_they_tell_values_apart():
    fitted, _ = column(["a", "A", "b", "a", "A", "b"])
    assert fitted.matches(pd.Series(["a", "A", "b"]), "A").tolist() == [False, True, False]
    assert fitted.matches(pd.Series(["a", "A", "b"]), "B").tolist() == [False, False, True]


def test_new_identifiers_go_on_after_the_stored_ones():
    assert column(["p1", "p2", "p3", "p4"])[0].numbered(2, 2).tolist() == ["new-3", "new-4"]
    assert column(["new-7", "new-2", "a", "b"])[0].numbered(0, 1).tolist() == ["new-8"]
    numbers = column([4, 9, 5], name="id")[0].numbered(0, 2)
    assert (numbers.tolist(), numbers.dtype) == ([10, 11], np.int64)


def test_filling_is_the_conditional_mean_of_the_shrunk_gaussian():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4)) @ rng.standard_normal((4, 4))
    gaussian, filled = filling.Filling.fit(X)
    assert np.array_equal(filled, X)
    row = np.array([[0.3, np.nan, -1.0, np.nan]])
    covariance, _ = ledoit_wolf(X)
    mean, known, gone = X.mean(0), [0, 2], [1, 3]
    gain = covariance[np.ix_(gone, known)] @ np.linalg.inv(covariance[np.ix_(known, known)])
    expected = mean[gone] + gain @ (row[0, known] - mean[known])
    assert np.allclose(gaussian.fill(row)[0, gone], expected)
    # With fewer rows than features the same figures come from the matrix of rows.
    few, _ = filling.Filling.fit(X[:3])
    covariance, _ = ledoit_wolf(X[:3])
    gain = covariance[np.ix_([3], [0, 1, 2])] @ np.linalg.inv(covariance[:3, :3])
    row = np.array([[0.3, 0.1, -1.0, np.nan]])
    assert np.allclose(few.fill(row)[0, 3], X[:3, 3].mean() + gain @ (row[0, :3] - X[:3, :3].mean(0)))


@pytest.mark.parametrize("shape", [(30, 4), (5, 60)])
def test_shrinkage_agrees_with_scikit_learn(shape):
    X = np.random.default_rng(1).standard_normal(shape) * np.geomspace(1, 9, shape[1])
    X -= X.mean(0)
    assert filling.ledoit_wolf(X) == pytest.approx(ledoit_wolf_shrinkage(X, assume_centered=True))


def test_loosened_features_mean_the_same_cells_and_lie_apart():
    """Numbers that many rows share lie as a normal law would have them; none of the features means another cell."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"count": rng.poisson(1.0, 2000), "truth": rng.random(2000) < 0.1})
    frame["group"] = rng.choice(["a", "b", "c"], 2000)
    codec = TableCodec.fit(frame)
    ends = np.cumsum([column.width for column in codec.columns])[:-1]
    for column, part in zip(codec.columns, np.split(codec.features(frame), ends, axis=1), strict=True):
        loose = column.loosened(part, np.random.default_rng(1), 0.1)
        assert (column.cells(loose) == frame[column.name]).all()
        assert len(np.unique(loose[:, 0])) == 2000
        if column.name == "count":
            # 2,000 normal values: the largest gap of the cumulative curves is below 0.036 in 99 of 100 cases.
            assert kstest(loose[:, 0] / column.how.spread, "norm").statistic < 0.036


def test_a_target_of_which_no_number_repeats_is_an_amount():
    assert column([310, 75, 141, 206, 97, 60], label=True)[0].kind == "integer"
    assert column([0, 1, 2, 0, 1, 2], label=True)[0].kind == "category"
