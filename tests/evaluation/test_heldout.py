"""Held-out metrics on cases whose answers are known."""

import numpy as np
import pytest

from stochattn.core.neighbors import nearest_distances
from stochattn.evaluation import held_out_metrics, nearest_neighbor_accuracy, splits
from stochattn.evaluation.split_half import IDEAL, membership_auc, train_proximity


def normal(n, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_new_examples_from_the_same_law_are_ideal():
    # 2,000 rows of each: train proximity and accuracies have standard errors of about 0.011 and 0.016 here.
    metrics = held_out_metrics(normal(2000, seed=1), normal(2000, seed=2), normal(2000, seed=3))
    assert metrics.train_proximity == pytest.approx(0.5, abs=0.05)
    assert metrics.novelty_ratio == pytest.approx(1, abs=0.08)
    assert metrics.near_copies == pytest.approx(IDEAL.near_copies, abs=0.01)
    assert metrics.nn_accuracy_real == pytest.approx(0.5, abs=0.06)
    assert metrics.nn_accuracy_new == pytest.approx(0.5, abs=0.06)


def test_copies_are_detected():
    stored, held_out = normal(300, seed=1), normal(300, seed=2)
    metrics = held_out_metrics(stored + 1e-6, stored, held_out)
    assert metrics.train_proximity == 1
    assert metrics.novelty_ratio < 1e-4
    assert metrics.near_copies == 1


def test_noise_around_stored_rows_has_accuracies_of_one_and_zero():
    stored, held_out = normal(300, 40, seed=1), normal(300, 40, seed=2)
    new = stored + 1.5 * normal(300, 40, seed=3)
    metrics = held_out_metrics(new, stored, held_out)
    assert metrics.nn_accuracy_real > 0.9
    assert metrics.nn_accuracy_new < 0.2
    assert metrics.train_proximity > 0.7


def test_distances_equal_those_of_a_plain_loop():
    rows, others = normal(7, seed=1), normal(9, seed=2)
    expected = [min(np.linalg.norm(row - other) for other in others) for row in rows]
    np.testing.assert_allclose(nearest_distances(rows, others), expected)
    own = [min(np.linalg.norm(rows[i] - rows[j]) for j in range(7) if j != i) for i in range(7)]
    np.testing.assert_allclose(nearest_distances(rows), own)


def test_ties_count_half():
    assert train_proximity([[0.0]], [[1.0]], [[-1.0]]) == 0.5
    assert nearest_neighbor_accuracy([[0.0], [2.0]], [[0.0], [2.0]]) == (0, 0)


def test_membership_auc_counts_pairs():
    rng = np.random.default_rng(0)
    members, others = rng.integers(0, 6, 40).astype(float), rng.integers(0, 5, 25).astype(float)
    pairs = [1.0 if a < b else 0.5 if a == b else 0.0 for a in members for b in others]
    found = membership_auc(members[:, None], others[:, None], np.zeros((1, 1)))
    assert found == pytest.approx(np.mean(pairs), abs=1e-12)
    assert membership_auc(members[:1, None], members[:1, None], np.zeros((1, 1))) == 0.5


def test_membership_auc_ranks_by_distance_to_the_nearest_draw():
    draws = np.array([[0.0], [10.0]])
    members, others = np.array([[0.1], [9.0], [4.0]]), np.array([[2.0], [13.0]])
    # Distances 0.1, 1 and 4 against 2 and 3: of six pairs the member is nearer in four.
    assert membership_auc(members, others, draws) == pytest.approx(4 / 6)
    with pytest.raises(ValueError, match="finite"):
        membership_auc(members, others, np.array([[np.nan]]))


def test_a_member_without_a_distance_is_an_error():
    with pytest.raises(ValueError, match="finite"):
        membership_auc(np.array([[np.nan], [1.0]]), np.array([[2.0]]), np.array([[0.0]]))


def test_distances_that_equal_the_limit_count_as_often_as_makes_one_percent():
    """Held-out distances 1, 1, 2 and 2: of those at 1 a fiftieth is the nearest percent. New ones are 0.5, 1, 1, 3."""
    stored, held_out = np.array([[0.0]]), np.array([[1.0], [-1.0], [2.0], [-2.0]])
    metrics = held_out_metrics(np.array([[0.5], [1.0], [-1.0], [3.0]]), stored, held_out)
    assert metrics.near_copies == pytest.approx(0.25 + 0.5 / 50)
    assert metrics.novelty_ratio == pytest.approx(1 / 1.5)
    many = held_out_metrics(np.arange(1.0, 5.0)[:, None], stored, np.arange(1.0, 201.0)[:, None])
    assert many.near_copies == pytest.approx(0.5)  # one percent of 200 are the distances 1 and 2


def test_there_is_no_novelty_ratio_where_held_out_rows_are_copies():
    assert np.isnan(held_out_metrics(normal(4, seed=1), normal(9), normal(9)).novelty_ratio)


def test_splits_are_disjoint_repeatable_and_different():
    first, again = (list(splits(20, 3, rng=5)) for _ in range(2))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.stored, b.stored)
        assert not set(a.stored) & set(a.held_out)
        assert len(a.stored) == len(a.held_out) == 10
    assert not np.array_equal(first[0].stored, first[1].stored)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="stored must leave"):
        list(splits(5, 1, stored=5))
    with pytest.raises(ValueError, match="new must be a non-empty matrix"):
        held_out_metrics(np.zeros(3), normal(3), normal(3))
    with pytest.raises(ValueError, match="others must have 3 columns"):
        nearest_distances(normal(4), normal(4, 2))


def test_as_many_stored_as_held_out_rows_are_compared():
    """Nearness to ten times as many rows would be nine in ten; the standard error is 0.05 here."""
    metrics = held_out_metrics(normal(500, seed=3), normal(300, seed=1), normal(30, seed=2))
    assert metrics.train_proximity == pytest.approx(0.5, abs=0.2)


def test_the_former_spelling_of_a_measure_warns():
    import stochattn.evaluation as evaluation

    with pytest.warns(DeprecationWarning, match="nearest_neighbor_accuracy"):
        assert evaluation.nearest_neighbour_accuracy is nearest_neighbor_accuracy
