"""Scores of a column within a class, against quantiles of the class and against knots worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from stochattn.kinds.tables.columns.scales import Distinct, Ranks
from stochattn.kinds.tables.generator.class_fit import _drop_flat_knots, _number_knots, fit_class_map
from stochattn.kinds.tables.generator.classes import interpolate

OTHER = SimpleNamespace(width=2, transform=None)  # a column of categories


def ranks_of(numbers, decimals=None):
    """The ranks of numbers without limits."""
    return Ranks.fit(Distinct.of(np.asarray(numbers, dtype=float)), -np.inf, np.inf, decimals)


def mapped(ranks, features, rows, deviations=1.0):
    """The coordinates (K, 3) of a column of categories and one of these scores (K,)."""
    every = np.column_stack([np.ones((len(features), 2)), features])
    columns = [OTHER, SimpleNamespace(width=1, transform=ranks)]
    out = fit_class_map(columns, every, rows, np.full(3, deviations)).forward(every)
    np.testing.assert_array_equal(out[:, :2], 1.0)  # categories have no map
    return out[:, 2]


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e12])
@pytest.mark.parametrize(("K", "n_pieces"), [(8, 1), (11, 1), (24, 2), (40, 3), (100, 8), (150, 8)])
def test_numbers_of_a_class_are_mapped_by_straight_pieces_between_its_quantiles(K, n_pieces, unit):
    """Pieces of 12 rows at least, and 8 at most; beyond the class they go on at the slope of the last piece."""
    rng = np.random.default_rng(K)
    numbers = np.concatenate([rng.gamma(2, 3, K), rng.gamma(5, 4, 200)]) * unit
    ranks = ranks_of(numbers)
    own = np.sort(numbers[:K])
    places = np.round(np.linspace(0, K - 1, n_pieces + 1)).astype(int)
    expected = interpolate(numbers, own[places], norm.ppf((places + 0.5) / K))
    np.testing.assert_allclose(mapped(ranks, ranks.forward(numbers), np.arange(K)), expected, atol=1e-9)


@pytest.mark.parametrize("counts", [(30, 20, 7, 3), (8, 5, 3), (2, 4, 2, 12)])
def test_values_that_many_rows_of_a_class_share_keep_their_ranks_in_it(counts):
    """Many are three rows, and one in eight of the class."""
    K = sum(counts)
    numbers = np.concatenate([np.repeat(np.arange(float(len(counts))), counts), np.repeat([0.0, 1.0, 2.0, 5.0], 9)])
    ranks = ranks_of(numbers, 0)
    scores, rows = ranks.forward(numbers), np.arange(K)
    spread = scores.copy()
    spread[rows] = ranks.jitter(scores[rows, None], np.random.default_rng(0))[:, 0]
    columns = [SimpleNamespace(width=1, transform=ranks)]
    found = fit_class_map(columns, scores[:, None], rows, np.ones(1)).forward(spread[:, None])[rows, 0]
    order = np.argsort(spread[rows])
    ends = np.cumsum(counts)
    frequent = [(end - n, end - 1) for n, end in zip(counts, ends, strict=True) if n >= max(3, K / 8)]
    places = np.unique(np.concatenate([np.round(np.linspace(0, K - 1, max(1, K // 12) + 1)), np.ravel(frequent)]))
    places = places.astype(int)
    np.testing.assert_allclose(found[order[places]], norm.ppf((places + 0.5) / K), atol=1e-9)


def draw_column(numbers, decimals):
    """Numbers that 4,000 normal draws give in a class which holds all rows."""
    ranks = ranks_of(numbers, decimals)
    columns = [SimpleNamespace(width=1, transform=ranks)]
    one = fit_class_map(columns, ranks.forward(numbers)[:, None], np.arange(len(numbers)), np.ones(1))
    normal = np.random.default_rng(1).standard_normal((4000, 1))
    return ranks.inverse(one.inverse(normal)[:, 0])


@pytest.mark.parametrize("decimals", [1, 4])
def test_integers_among_a_few_fractions_stay_as_frequent_as_they_are(decimals):
    """Years of school, of which some are fractions: 4,000 draws tell shares apart that differ by 0.04."""
    rng = np.random.default_rng(0)
    years = rng.binomial(20, 0.6, 400).astype(float)
    years[:80] = (years[:80] + rng.uniform(0.1, 0.9, 80)).round(decimals)
    new = draw_column(years, decimals)
    assert np.mean(new % 1 == 0) == pytest.approx(0.8, abs=0.04)
    assert np.mean(new == 12) == pytest.approx(np.mean(years == 12), abs=0.04)


def test_two_scores_of_one_number_are_no_error():
    """Cells that were filled in have scores between those of stored numbers, which decode to the same number."""
    numbers = np.repeat(np.arange(10.0), 6)
    ranks = ranks_of(numbers, 0)
    scores = ranks.forward(numbers)
    scores[:3] += 0.3 * (ranks.last[0] - ranks.scores[0])
    assert np.isfinite(mapped(ranks, scores, np.arange(60))).all()


def test_numbers_that_rounding_makes_equal_are_no_values_of_their_own():
    """New numbers have whole values that no row has, as rounding alone makes 60 rows equal."""
    ages = np.random.default_rng(0).normal(50, 12, 60).round()
    assert np.isin(draw_column(ages, 0), ages).mean() < 0.9


def test_classes_of_few_rows_are_shifted_and_scaled():
    numbers = np.random.default_rng(0).normal(size=60)
    ranks = ranks_of(numbers)
    scores, rows = ranks.forward(numbers), np.arange(7)
    centered = scores - scores[rows].mean()
    np.testing.assert_allclose(mapped(ranks, scores, rows, 0.25), centered / 0.25)
    np.testing.assert_allclose(mapped(ranks, scores, rows, 1e-9), centered / 1e-3)  # for a column that is constant


def test_the_only_value_of_a_class_is_spread_over_its_ranks():
    """Scores of unit variance fill all but a thousandth of them at either end, where four deviations end."""
    numbers = np.concatenate([np.full(20, 3.0), np.arange(20.0)])
    ranks = ranks_of(numbers, 0)
    first, last = (float(side[list(ranks.values).index(3.0)]) for side in (ranks.first, ranks.last))
    step = 1e-3 * (last - first)
    columns = [SimpleNamespace(width=1, transform=ranks)]
    one = fit_class_map(columns, ranks.forward(numbers)[:, None], np.arange(20), np.ones(1))
    scores = np.array([first, first + step, (first + last) / 2, last - step, last])
    expected = [-4.0, -np.sqrt(3), 0.0, np.sqrt(3), 4.0]
    np.testing.assert_allclose(one.forward(scores[:, None])[:, 0], expected, atol=1e-9)


def test_a_class_whose_cells_are_all_filled_with_one_number_stays_near_the_nearest_stored_one():
    numbers = np.arange(20.0)
    ranks = ranks_of(numbers, 0)
    filled = float(ranks.scores[4]) + 0.01
    columns, features = [SimpleNamespace(width=1, transform=ranks)], np.append(ranks.scores, np.full(10, filled))
    (knots,) = fit_class_map(columns, features[:, None], np.arange(20, 30), np.ones(1)).knots
    inside = 1e-3 - 2e-6
    np.testing.assert_allclose(knots[0] - ranks.scores[4], [-1e-3, -inside, inside, 1e-3], atol=1e-12)


def test_numbers_of_a_scale_are_spread_over_what_is_rounded_to_them():
    """0 twice, 1 once and 3 three times: whole numbers reach half a unit, and shared ones 99 % of it."""
    ranks = ranks_of([0, 0, 1, 3, 3, 3], 0)
    scores, numbers = _number_knots(ranks)
    (a, b, c), (d, _, f) = ranks.first, ranks.last
    np.testing.assert_allclose(scores, [a - 1, a, d, b, c, f, f + 1])
    low, high = ranks.slopes
    np.testing.assert_allclose(numbers, [-0.495 - low, -0.495, 0.495, 1.0, 2.505, 3.495, 3.495 + high])
    close = ranks_of([0, 0, 0.5, 3, 3, 3], 0)  # half the way to the next number, where this is less
    np.testing.assert_allclose(_number_knots(close)[1][1:-1], [-0.2475, 0.2475, 0.5, 2.505, 3.495])
    tenths = ranks_of([0, 0, 1, 3, 3, 3], 1)
    np.testing.assert_allclose(_number_knots(tenths)[1][1:-1], [-0.0495, 0.0495, 1.0, 2.9505, 3.0495])
    free = ranks_of([0, 0, 1, 3, 3, 3])
    np.testing.assert_allclose(_number_knots(free)[1][1:-1], [-0.495, 0.495, 1.0, 2.01, 3.99])


def test_knots_that_do_not_rise_on_one_side_are_left_out():
    first, second = _drop_flat_knots(np.array([0.0, 1.0, 1.0, 2.0, 3.0]), np.array([5.0, 6.0, 7.0, 8.0, 8.0]))
    assert first.tolist() == [0.0, 1.0, 2.0]
    assert second.tolist() == [5.0, 6.0, 8.0]
