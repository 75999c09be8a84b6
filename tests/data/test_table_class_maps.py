"""The map from ranks among all rows to ranks among the rows of a class."""

import math

import numpy as np
import pytest

from stochattn.data.tables.class_maps import TAIL, _knots
from stochattn.data.tables.scales import Distinct, Ranks

EVERY = np.repeat([0.0, 1, 2, 5, 7, 9], [6, 5, 8, 4, 7, 6])


def ranks_of(numbers, low=-math.inf, high=math.inf):
    return Ranks.fit(Distinct.of(numbers), low, high, None)


def knots_of(numbers, **limits):
    ranks = ranks_of(EVERY, **limits)
    x, z = _knots(ranks, ranks.forward(numbers))
    assert (np.diff(x) > 0).all()
    assert (np.diff(z) > 0).all()
    return ranks, x, z


@pytest.mark.parametrize("own", [[1.0, 2, 5, 9], [0.0, 2, 5, 7], [1.0, 2, 5, 7]], ids=["largest", "least", "neither"])
def test_ranks_of_a_value_among_all_rows_become_its_ranks_among_those_of_the_class(own):
    """Between values: the last rank of the first, both ends of those in the middle, the first rank of the last."""
    numbers = np.repeat(own, [4, 5, 3, 6])
    ranks, x, z = knots_of(numbers)
    among_all, within = np.searchsorted(ranks.values, own), ranks_of(numbers)
    ends = [(0, "last"), (1, "first"), (1, "last"), (2, "first"), (2, "last"), (3, "first")]
    for i, end in ends:
        found = np.interp(getattr(ranks, end)[among_all[i]], x, z)
        assert found == pytest.approx(getattr(within, end)[i], abs=1e-9), (own[i], end)


def test_tails_go_on_as_far_as_scores_do():
    """Single values at both ends, so that these are no limits: 1 is the least, and negative numbers are stored too."""
    every = np.concatenate([EVERY, [-3.0, 12.0]])
    ranks, numbers = ranks_of(every), np.array([-3.0, 1, 1, 2, 2, 5, 5, 12])
    x, z = _knots(ranks, ranks.forward(numbers))
    within = ranks_of(numbers)
    assert z[0] == pytest.approx(within.first[0] - TAIL[-1])
    assert z[-1] == pytest.approx(within.last[-1] + TAIL[-1])
    values = ranks.inverse(x)
    assert values[0] < -3
    assert values[-1] > 12


@pytest.mark.parametrize("high", [12.0, 30.0])
def test_tails_stay_within_the_limits_of_all_rows(high):
    ranks, x, _ = knots_of(np.array([1.0, 2, 2, 5, 5, 7]), low=0.0, high=high)
    values = ranks.inverse(x)
    assert np.isfinite(x).all()
    assert values.min() >= 0
    assert 7 < values.max() <= high


def test_one_value_stays_within_its_ranks():
    ranks, x, z = knots_of(np.full(6, 5.0))
    assert (x[0], x[-1]) == (ranks.first[3], ranks.last[3])
    assert (z[0], z[-1]) == (-4.0, 4.0)
