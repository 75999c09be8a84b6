"""The parts of the picture benchmarks: distances, disjoint splits, baselines, tables and contact sheets."""

import numpy as np
import pytest

from benchmarks import shapes
from benchmarks.contact_sheets import contact_sheet
from benchmarks.picture_baselines import p_beta, vae
from benchmarks.picture_data import N_CLASSIFIER, Portraits, split, split_portraits, table
from benchmarks.picture_features import frechet
from benchmarks.portraits import novelty, trained


def with_moments(mean, covariance, n=50):
    """Rows with exactly this mean and covariance."""
    raw = np.random.default_rng(0).standard_normal((n, len(mean)))
    raw -= raw.mean(0)
    white = np.linalg.solve(np.linalg.cholesky(np.cov(raw.T)), raw.T).T
    return mean + white @ np.linalg.cholesky(covariance).T


def test_frechet_distance_of_gaussians():
    first = with_moments([0.0, 0.0], np.diag([4.0, 9.0]))
    second = with_moments([3.0, 4.0], np.diag([1.0, 1.0]))
    assert frechet(first, second) == pytest.approx(25 + (2 - 1) ** 2 + (3 - 1) ** 2)
    # Covariances that do not commute, by scipy's matrix root.
    from scipy.linalg import sqrtm

    A, B = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[5.0, -2.0], [-2.0, 1.0]])
    expected = np.trace(A + B - 2 * sqrtm(A @ B).real)
    assert frechet(with_moments([0.0, 0.0], A), with_moments([0.0, 0.0], B)) == pytest.approx(expected)


def test_digits_that_train_classifiers_are_neither_stored_nor_held_out():
    pictures = np.arange(1000.0).reshape(-1, 1, 1)
    for seed in range(3):
        parts = np.concatenate(split(pictures, 300, 300, seed)).ravel()
        assert len(set(parts)) == 600
        assert parts.max() < 1000 - N_CLASSIFIER


def test_portraits_of_ten_people_are_split_in_half():
    everyone = np.arange(400.0).reshape(40, 10, 1, 1)
    stored, held_out = split_portraits(everyone, 3)
    people = stored.reshape(10, 5) // 10
    assert (people == held_out.reshape(10, 5) // 10).all()
    assert (people == people[:, :1]).all()
    assert len(set(people[:, 0])) == 10
    assert len(set(np.concatenate([stored, held_out]).ravel())) == 100
    assert set(stored.ravel() % 10) == set(range(10))  # a random half, not the first


def blobs(rng, spread=0.05):
    """Five portraits of each of ten people, noise around one picture per person: (10, 5, 8, 8)."""
    return np.random.default_rng(1).random((10, 1, 8, 8)) + spread * rng.standard_normal((10, 5, 8, 8))


def test_classifiers_recognize_people_on_new_portraits():
    rng = np.random.default_rng(0)
    classifiers, others = trained(blobs(rng)), blobs(rng).reshape(50, -1)
    for classifier in classifiers:
        assert (classifier.predict(others) == np.repeat(np.arange(10), 5)).all()
        assert np.mean(classifier.predict(rng.permutation(others)) == np.repeat(np.arange(10), 5)) < 0.5


def test_novelty_of_recall_and_of_true_portraits():
    rng = np.random.default_rng(2)
    people = Portraits(blobs(rng), blobs(rng))
    assert novelty(people.stored, people) == (1.0, 0.0)
    proximity, ratio = novelty(blobs(rng), people)
    assert proximity == pytest.approx(0.5, abs=0.22)  # 50 draws: three standard errors
    assert ratio == pytest.approx(1, abs=0.1)


def test_novelty_ratio_is_a_ratio_of_distances_to_the_stored():
    black, gray, white = (np.full((10, 5, 8, 8), level) for level in (0.0, 0.4, 1.0))
    assert novelty(gray, Portraits(black, white)) == pytest.approx((1.0, 0.4))


def test_readout_of_a_cold_draw_is_a_stored_picture_and_of_a_hot_one_an_average():
    stored = np.random.default_rng(3).random((6, 10, 10))
    cold = p_beta("natural", readout=True)(stored, 5, 0).reshape(5, -1)
    distances = np.linalg.norm(cold[:, None] - stored.reshape(1, 6, -1), axis=2).min(1)
    np.testing.assert_allclose(distances, 0, atol=1e-6)
    hot = p_beta("inflection", readout=True)(stored, 5, 0).reshape(5, -1)
    assert (np.linalg.norm(hot[:, None] - stored.reshape(1, 6, -1), axis=2).min(1) > 0.1).any()


def test_the_vae_is_reproducible_and_its_pixels_are_between_0_and_1(monkeypatch):
    monkeypatch.setattr("benchmarks.picture_baselines.EPOCHS", 20)
    stored = (np.random.default_rng(4).random((20, 6, 6)) > 0.5).astype(np.float32)
    first, again, other = vae(stored, 4, 0), vae(stored, 4, 0), vae(stored, 4, 1)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01
    assert first.shape == (4, 6, 6)
    assert 0 <= first.min() <= first.max() <= 1


def test_a_table_has_means_deviations_and_dashes():
    lines = list(table(("name", "a", "b"), {"x": [[1.0, np.nan], [3.0, np.nan]], "y": [[1234.5, 2.0]]}, 1))
    assert lines == ["| name | a | b |", "|---|---|---|", "| x | 2.0 ± 1.0 | – |", "| y | 1,234.5 | 2.0 |"]


def test_a_contact_sheet_shows_its_rows(tmp_path):
    from PIL import Image

    contact_sheet({"dark": np.zeros((3, 8, 8)), "bright": np.ones((3, 8, 8))}, tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as picture:
        levels = np.asarray(picture)
    height = len(levels) // 2
    assert levels[height // 2, -height // 2] == 0
    assert levels[height + height // 2, -height // 2] == 255
    assert (levels[:height, :100] < 128).any()  # a label


def test_portraits_have_four_times_as_many_splits(monkeypatch):
    """Of two splits that are asked for, eight are made, each of other people."""
    seen, everyone = [], np.random.default_rng(0).random((40, 10, 64, 64), dtype=np.float32)

    def copies(stored, n, seed):
        seen.append((seed, stored[0, 0, 0]))
        return stored[:n]

    monkeypatch.setattr(shapes.picture_data, "portraits", lambda: everyone)
    monkeypatch.setattr(shapes, "METHODS", {"deformations": copies})
    *_, row = shapes.faces(range(2))
    assert [seed for seed, _ in seen] == list(range(8))
    assert len({first for _, first in seen}) == 8
    assert row.startswith("| deformations | 1.000 ± 0.000 |")
