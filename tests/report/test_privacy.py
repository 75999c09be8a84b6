"""Distances to stored items, against brute force."""

import numpy as np
import pytest

from stochattn.evaluation import privacy


def test_closest_by_brute_force(monkeypatch):
    monkeypatch.setattr(privacy, "BLOCK_ENTRIES", 40)  # several blocks
    rng = np.random.default_rng(1)
    rows, stored = rng.normal(size=(23, 4)), rng.normal(size=(9, 4))
    found = privacy.closest(3 * rows, 3 * stored, rows, stored)
    distances = 3 * np.sqrt(np.square(rows[:, None] - stored).sum(-1)).min(1)
    cosines = [max(x @ m / np.sqrt((x @ x) * (m @ m)) for m in stored) for x in rows]
    np.testing.assert_allclose(found.distance, distances, rtol=1e-12)
    np.testing.assert_allclose(found.novelty, 1 - np.array(cosines), atol=1e-12)


def test_stored_items_are_compared_with_others_only():
    stored = np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0], [3.0, 0.0]])
    found = privacy.closest_other(stored, stored, 10)
    np.testing.assert_allclose(found.distance, [1, 1, 0, 0])
    np.testing.assert_allclose(found.novelty, [0, 0, 0, 0], atol=1e-12)
    assert len(privacy.closest_other(stored[:1], stored[:1], 10).distance) == 0
    assert len(privacy.closest_other(stored, stored, 3).distance) == 3


def test_leaving_out_by_brute_force():
    stored = np.vstack([np.eye(3), -np.ones((1, 3))])  # all at obtuse or right angles: itself, left in, would win
    found = privacy.closest_other(stored, stored, 12)
    for k, row in enumerate(stored):
        others = np.delete(stored, k, axis=0)
        cosines = others @ row / np.linalg.norm(others, axis=1) / np.linalg.norm(row)
        assert found.distance[k] == pytest.approx(np.linalg.norm(others - row, axis=1).min(), rel=1e-12)
        assert found.novelty[k] == pytest.approx(1 - cosines.max(), abs=1e-12)


def test_nearly_equal_rows_keep_their_distance():
    stored = np.array([[1e4, 0.0], [0.0, 1e4]])
    assert privacy.closest(stored[:1] + 1e-7 * np.eye(1, 2), stored, stored[:1], stored).distance[0] == pytest.approx(
        1e-7, rel=1e-3
    )
