"""Shares of classes and of clusters among stored and new items."""

from math import comb

import numpy as np
import pytest

from stochattn.evaluation.inspection import CHANCE, Mode, compute_chance, count_categories, count_modes, is_beyond
from stochattn.kinds import Part, Values


def blobs(n, share=0.5):
    """Rows on a line around 0 and around 100, this share of them around 0."""
    return np.arange(float(n))[:, None] / n + np.where(np.arange(n) < share * n, 0.0, 100.0)[:, None]


@pytest.mark.parametrize("labels", [None, ["one"] * 40], ids=["no classes", "one class"])
def test_stored_items_without_classes_to_compare_are_clustered(labels):
    """40 items are enough for two clusters of 15 or more."""
    found = count_modes(blobs(40, 0.75), blobs(20, 0.5), labels)
    assert sorted(mode.name for mode in found) == ["cluster 1", "cluster 2"]
    assert sorted((mode.stored, mode.new) for mode in found) == [(0.25, 0.5), (0.75, 0.5)]


def test_few_or_equal_items_have_no_clusters():
    assert count_modes(blobs(29), blobs(9), None) == ()
    assert count_modes(np.tile([0.0, 1.0], (60, 1)), np.ones((9, 2)), None) == ()


def test_an_item_counts_for_the_class_of_the_nearest_other_stored_one():
    found = count_modes(blobs(8), blobs(4, 0.75), ["a"] * 4 + ["b"] * 4)
    assert found == (Mode("a", 4, 8, 3, 4), Mode("b", 4, 8, 1, 4))


def test_an_item_that_says_its_class_counts_for_that():
    """Of a class that no stored item has, and far from those of the class that it says."""
    found = count_modes(blobs(8), blobs(4, 0.75), ["a"] * 4 + ["b"] * 4, ["b", "b", "b", "c"])
    assert found == (Mode("a", 4, 8, 0, 4), Mode("b", 4, 8, 3, 4))


def test_at_most_two_thousand_stored_items_are_counted():
    """Of 2,500, of which 751 are of one class: that would be 600.8 in 2,000."""
    found = count_modes(blobs(2500, 751 / 2500), blobs(4), ["a"] * 751 + ["b"] * 1749)
    assert [mode.n_stored for mode in found] == [601, 1399]


@pytest.mark.parametrize(("n_new", "is_rare"), [(0, True), (1, True), (2, False)])
def test_a_mode_is_rare_below_half_its_share_where_chance_does_not_explain_it(n_new, is_rare):
    """By counting the ways to call 60 of 120 items new, so that at most so many of those with the mode are new."""
    n_stored, fewer = 14, range(n_new + 1)
    ways = sum(comb(n_stored + n_new, i) * comb(120 - n_stored - n_new, 60 - i) for i in fewer)
    assert (ways / comb(120, 60) <= CHANCE) is is_rare
    assert Mode("a", n_stored, 60, n_new, 60).is_rare() is is_rare
    assert not Mode("a", n_stored, 60, n_new, 60).is_rare(n_tests=1000)
    assert not Mode("a", 500, 1000, 300, 1000).is_rare()  # certainly less, and more than half


def test_categories_are_those_of_parts_that_are_checked_separately():
    values = Values(np.array(["x", "x", "y"]), np.array(["x", "z"]))
    parts = [Part("city", "", "", 0.5, lambda: values, checked_separately) for checked_separately in (True, False)]
    assert count_categories(parts) == (Mode("city: x", 2, 3, 1, 2), Mode("city: y", 1, 3, 0, 2))


def test_numbers_that_15_or_more_stored_items_share_are_categories():
    values = Values(np.repeat([30011.0, 30012.5, 3.0], [15, 15, 14]), np.array([30011.0]), numbers_may_be_codes=True)
    parts = [Part("code", "", "", 0.5, lambda: values, checked_separately=True)]
    assert count_categories(parts) == (Mode("code: 30011", 15, 44, 1, 1), Mode("code: 30012.5", 15, 44, 0, 1))
    values = values._replace(numbers_may_be_codes=False)  # such as brightness
    assert count_categories(parts) == ()


@pytest.mark.parametrize("share", [0.0, 0.3], ids=["real", "another"])
def test_parts_of_real_items_differ_by_chance(share):
    """The null: of 300 pairs of real sets, few have a chance below 5 %. The power: of 300 others, nearly all have."""
    rng = np.random.default_rng(0)

    def chances():
        stored, new = rng.normal(size=80).round(1), rng.normal(2 * (rng.random(80) < share), 1).round(1)
        yield compute_chance(Values(stored, new))
        names, other = (
            rng.choice(list("aaabbc"), 80),
            np.where(rng.random(80) < share, "c", rng.choice(list("aaabbc"), 80)),
        )
        yield compute_chance(Values(names, other))
        yield compute_chance(
            Values(stored, stored, gaps=(int(rng.binomial(80, 0.1)), int(rng.binomial(80, 0.1 + share))))
        )

    below = (np.array([list(chances()) for _ in range(100)]) < 0.05).mean(0)
    assert (below <= 0.08).all() if share == 0 else (below >= 0.7).all()


def test_a_count_beyond_a_limit_is_more_than_chance_gives():
    """Of 100 items at a limit of 1 %, six or more have a probability of 0.0005, five or more of 0.0034."""
    assert [is_beyond(count, 100, 0.01) for count in (5, 6)] == [False, True]
