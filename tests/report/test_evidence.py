"""Distances to stored items, against brute force."""

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.core.neighbors import nearest_distances
from stochattn.report import evidence, measure
from stochattn.report.evidence import measure_stored_closeness

from . import made


def test_closeness_by_brute_force():
    rng = np.random.default_rng(1)
    items, stored = (pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd")) for n in (23, 9))
    synth = sa.fit(stored, "table", generator="hopfield")
    found = measure(synth, items, seed=0, progress=False).to_stored
    vectors, others = synth.codec.features(items), synth.codec.features(synth.codec.stored)
    distances = np.sqrt(np.square(vectors[:, None] - others).sum(-1)).min(1)
    cosines = [max(x @ m / np.sqrt((x @ x) * (m @ m)) for m in synth.stored_rows) for x in synth.rows(items)]
    np.testing.assert_allclose(found.distance, distances, rtol=1e-12)
    np.testing.assert_allclose(found.novelty, 1 - np.array(cosines), atol=1e-12)


def test_stored_items_are_compared_with_others_only():
    stored = np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0], [3.0, 0.0]])
    found = measure_stored_closeness(stored, stored, 10)
    np.testing.assert_allclose(found.distance, [1, 1, 0, 0])
    np.testing.assert_allclose(found.novelty, [0, 0, 0, 0], atol=1e-12)
    assert len(measure_stored_closeness(stored[:1], stored[:1], 10).distance) == 0
    assert len(measure_stored_closeness(stored, stored, 3).distance) == 3


def test_leaving_one_out_by_brute_force():
    stored = np.vstack([np.eye(3), -np.ones((1, 3))])  # all at obtuse or right angles: the row itself would be nearest
    found = measure_stored_closeness(stored, stored, 12)
    for k, row in enumerate(stored):
        others = np.delete(stored, k, axis=0)
        cosines = others @ row / np.linalg.norm(others, axis=1) / np.linalg.norm(row)
        assert found.distance[k] == pytest.approx(np.linalg.norm(others - row, axis=1).min(), rel=1e-12)
        assert found.novelty[k] == pytest.approx(1 - cosines.max(), abs=1e-12)


def test_nearly_equal_rows_keep_their_distance():
    stored = np.array([[1e4, 0.0], [0.0, 1e4]])
    assert nearest_distances(stored[:1] + 1e-7 * np.eye(1, 2), stored)[0] == pytest.approx(1e-7, rel=1e-3)


@pytest.mark.parametrize(
    ("K", "generator", "quick", "total"),
    [(24, "hopfield", False, 12), (24, "covariance", False, 7), (24, "hopfield", True, 5), (7, "hopfield", False, 2)],
)
def test_progress_ends_at_its_total_however_many_splits_there_are(monkeypatch, K, generator, quick, total):
    bars = []

    class Recorded(evidence.Progress):
        def __enter__(self):
            bars.append(self)
            return super().__enter__()

    monkeypatch.setattr(evidence, "Progress", Recorded)
    synth = made.synth("table", K=K, generator=generator)
    measure(synth, synth.sample_items(10, 1), seed=0, progress=False, quick=quick)
    assert [(bar.done, bar.total) for bar in bars] == [(total, total)]
