"""Smooth random warps: their size, their smoothness and their invariants."""

import numpy as np
import pytest
import torch

from stochattn.kinds.images.generator.patches import PatchGenerator, random_warps


def ramps(n, size=40):
    """Images whose value is the column: a warp shows its displacement along the row."""
    return np.broadcast_to(np.arange(size, dtype=np.float64), (n, size, size))


def test_displacements_have_the_amplitude_and_are_smooth():
    """Root mean square over 400 fields of 40 × 40: about 9 independent vectors each give a standard error of 1.2 %."""
    moved = (random_warps(ramps(400), amplitude=0.8, rng=0) - ramps(400))[:, :, 5:-5]  # without clipped edges
    assert np.sqrt((moved**2).mean()) == pytest.approx(0.8, rel=0.06)
    assert abs(moved.mean()) < 0.05
    steps = np.diff(moved, axis=1)
    assert np.sqrt((steps**2).mean()) < 0.2 * 0.8  # a node every ten pixels


def test_rows_and_columns_have_equal_displacements():
    images = np.stack([ramps(1)[0], ramps(1)[0].T])
    moved = np.stack([random_warps(images, rng=seed) - images for seed in range(150)])[:, :, 5:-5, 5:-5]
    along_row, along_column = np.sqrt((moved**2).mean((0, 2, 3)))
    assert along_row == pytest.approx(along_column, rel=0.12)


def test_no_amplitude_changes_nothing_and_constants_stay():
    images = np.random.default_rng(0).random((3, 9, 7))
    assert np.array_equal(random_warps(images, amplitude=0, rng=0), images)
    np.testing.assert_allclose(random_warps(np.full((2, 9, 7), 0.3), rng=0), 0.3, atol=1e-12)


def test_values_stay_within_the_image_s_range():
    images = np.random.default_rng(0).random((20, 12, 12))
    moved = random_warps(images, amplitude=3, rng=0)
    assert moved.max() <= images.max()
    assert moved.min() >= images.min()
    assert np.abs(moved - images).max() > 0.3


def test_channels_move_together_and_images_do_not():
    image = np.random.default_rng(0).random((1, 12, 12))
    coloured = random_warps(np.repeat(image, 2, 0)[..., None] * [1.0, 2.0, 4.0], rng=0)
    np.testing.assert_allclose(coloured[..., 1:], coloured[..., :1] * [2.0, 4.0], atol=1e-12)
    assert np.abs(coloured[0] - coloured[1]).max() > 0.1


def test_a_warp_depends_on_seed_and_number_only():
    images = np.random.default_rng(0).random((5, 12, 12))
    assert np.array_equal(random_warps(images, rng=1)[:2], random_warps(images[:2], rng=1))
    assert not np.array_equal(random_warps(images, rng=1), random_warps(images, rng=2))


def test_libraries_and_dtypes_are_kept():
    images = np.random.default_rng(0).random((2, 12, 12)).astype(np.float32)
    moved = random_warps(torch.tensor(images), rng=0)
    assert moved.dtype == torch.float32
    np.testing.assert_allclose(moved, random_warps(images, rng=0), atol=1e-6)


def test_tiny_images_work():
    assert random_warps(np.ones((2, 1, 1)), rng=0).shape == (2, 1, 1)
    assert random_warps(np.ones((2, 1, 30)), rng=0).shape == (2, 1, 30)


def test_images_are_not_warped_by_default():
    levels = np.random.default_rng(0).random((4, 12, 12))
    plain, warped = (PatchGenerator.fit(levels, np.ones(4), radius=2.0, **options) for options in ({}, {"warp": 0.5}))
    assert plain.describe().notes == ()
    assert plain.describe().resolved == {"radius": 2.0}
    assert PatchGenerator(levels, np.ones(4), np.arange(4)).warp == 0
    assert warped.describe().notes == ("new images are warped by 0.5 px; warp=0 switches that off.",)
    moved = random_warps(plain.sample(2, np.random.default_rng(1)).values, 0.5, warp_seed())
    np.testing.assert_allclose(warped.sample(2, np.random.default_rng(1)).values, moved)


def warp_seed():
    return int(np.random.default_rng(1).integers(2**63))
