"""Shares of classes and of clusters among stored and new items."""

import numpy as np
import pytest

from stochattn.evaluation.coverage import Mode, modes


def blobs(n, share=0.5):
    """Rows on a line around 0 and around 100, this share of them around 0."""
    return np.arange(float(n))[:, None] / n + np.where(np.arange(n) < share * n, 0.0, 100.0)[:, None]


@pytest.mark.parametrize("labels", [None, ["one"] * 40], ids=["no classes", "one class"])
def test_stored_items_without_classes_to_compare_are_clustered(labels):
    """40 items are enough for two clusters of 15 or more."""
    found = modes(blobs(40, 0.75), blobs(20, 0.5), labels)
    assert sorted(mode.name for mode in found) == ["cluster 1", "cluster 2"]
    assert sorted((mode.stored, mode.new) for mode in found) == [(0.25, 0.5), (0.75, 0.5)]


def test_few_or_equal_items_have_no_clusters():
    assert modes(blobs(29), blobs(9), None) == ()
    assert modes(np.tile([0.0, 1.0], (60, 1)), np.ones((9, 2)), None) == ()


def test_an_item_counts_for_the_class_of_the_nearest_other_stored_one():
    found = modes(blobs(8), blobs(4, 0.75), ["a"] * 4 + ["b"] * 4)
    assert found == (Mode("a", 0.5, 0.75), Mode("b", 0.5, 0.25))


def test_at_most_two_thousand_stored_items_are_counted():
    """Of 2,500, of which 751 are of one class: that would be 600.8 in 2,000."""
    found = modes(blobs(2500, 751 / 2500), blobs(4), ["a"] * 751 + ["b"] * 1749)
    assert [mode.stored * 2000 for mode in found] == pytest.approx([601, 1399], abs=1e-9)


def test_a_mode_is_rare_below_half_its_share_by_two_standard_errors_of_a_count():
    """Of 100 items, 20 are expected and half is 10; two standard errors of it are 6.3."""
    assert [Mode("a", 0.2, new).is_rare(100) for new in (0.03, 0.04)] == [True, False]
    assert not Mode("a", 0.5, 0.125).is_rare(64)  # 8 of them, and the limit is 16 - 2 · 4
