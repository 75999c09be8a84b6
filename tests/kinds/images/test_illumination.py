"""Separation of illumination and detail, and its use by local heads."""

import numpy as np
import pytest

import stochattn as sa
from stochattn.kinds.images.generator.patches import LocalHeads
from stochattn.kinds.images.generator.window_attention import ILLUMINATION_WEIGHT, Illumination, are_photographs


def shaded(n, side=32, seed=0):
    """Images of the same bars with different illumination."""
    rng = np.random.default_rng(seed)
    place = np.linspace(-1, 1, side)
    bars = 0.3 * (np.sin(16 * np.pi * place) > 0)
    slopes = rng.uniform(-0.3, 0.3, (n, 2))
    illumination = slopes[:, :1, None] * place[None, :, None] + slopes[:, 1:, None] * place[None, None, :]
    shifted = np.stack([np.roll(bars, k) for k in rng.integers(0, 4, n)])
    return (0.5 + illumination + shifted[:, None, :]).astype(np.float32)


@pytest.mark.parametrize("shape", [(3, 32, 40, 1), (2, 24, 25, 3)])
def test_split_and_joined_images_are_unchanged(shape):
    images = np.random.default_rng(0).random(shape)
    illumination = Illumination(images)
    parts = illumination.split(images)
    assert parts.shape == (*shape[:3], 2 * shape[3])
    np.testing.assert_allclose(illumination.join(parts), images, atol=1e-12)


def test_illumination_is_the_lowest_waves_and_detail_has_none_of_them():
    place = (np.arange(32) + 0.5) / 32
    slow, fast = (
        np.cos(2 * np.pi * place),
        np.cos(20 * np.pi * place),
    )  # waves number 2 and 20; the first 4 are illumination
    image = (slow[:, None] * slow + fast[:, None] * fast)[None, :, :, None]
    parts = Illumination(image).split(image)
    np.testing.assert_allclose(parts[0, ..., 0] / ILLUMINATION_WEIGHT, slow[:, None] * slow, atol=1e-12)
    np.testing.assert_allclose(parts[0, ..., 1], fast[:, None] * fast, atol=1e-12)


def test_a_seam_of_illumination_is_made_smooth():
    """Two greys side by side in the illumination alone: the joined image has no jump larger than the waves allow."""
    illumination = Illumination(np.zeros((1, 64, 64, 1)))
    parts = np.zeros((1, 64, 64, 2))
    parts[:, :, 32:, 0] = ILLUMINATION_WEIGHT
    joined = illumination.join(parts)[0, :, :, 0]
    assert np.abs(np.diff(joined, axis=1)).max() < 0.2
    assert joined[:, 8].mean() < 0.2 < 0.8 < joined[:, 56].mean()


def test_drawings_and_small_images_are_not_photographs():
    assert are_photographs(shaded(5))
    ink = np.zeros((4, 32, 32))
    ink[:, 10:20, 10:20] = np.random.default_rng(0).random((4, 10, 10))
    assert not are_photographs(ink)
    assert not are_photographs(shaded(5)[:, :23])
    assert are_photographs(shaded(5)[:, :24])


def test_photographs_may_have_any_offset():
    assert are_photographs(shaded(5) + 100)


def test_the_illumination_of_a_tiny_side_is_its_mean():
    images = np.random.default_rng(0).random((2, 2, 3, 1))
    illumination = Illumination(images).split(images)[..., :1] / ILLUMINATION_WEIGHT
    np.testing.assert_allclose(illumination, np.broadcast_to(images.mean((1, 2), keepdims=True), images.shape))


def test_heads_mix_illumination_and_detail_of_different_images():
    """Bars are vertical: true images change slowly along columns, and heads without separation produce seams."""
    stored = shaded(40)
    new = LocalHeads(stored, radius=2.5).sample(8, rng=0)
    assert new.shape == (8, 32, 32)
    np.testing.assert_array_equal(new, LocalHeads(stored, radius=2.5, illumination=True).sample(8, rng=0))
    unsplit = LocalHeads(stored, radius=2.5, illumination=False).sample(8, rng=0)
    true, ours, theirs = (np.abs(np.diff(images, axis=1)).mean() for images in (stored, new, unsplit))
    assert ours - true < 0.6 * (theirs - true)


def test_a_window_beyond_the_image_recalls():
    stored = shaded(6)
    new = LocalHeads(stored, radius=1e3).sample(4, rng=0)
    gaps = np.abs(new[:, None] - stored[None]).max((2, 3)).min(1)
    assert gaps.max() < 1e-4


def test_conditioned_pixels_need_heads_that_do_not_split():
    stored = shaded(6)
    mask = np.zeros((32, 32), dtype=bool)
    mask[3, 4] = True
    with pytest.raises(ValueError, match="illumination=False"):
        LocalHeads(stored, radius=2).sample(1, rng=0, conditioned=(mask, stored[0]))
    assert (
        LocalHeads(stored, radius=2, illumination=False).sample(1, rng=0, conditioned=(mask, stored[0]))[0, 3, 4]
        == stored[0, 3, 4]
    )


def test_tensors():
    torch = pytest.importorskip("torch", reason="needs torch")
    stored = shaded(12)
    new = LocalHeads(torch.tensor(stored), radius=2.5).sample(3, rng=0)
    np.testing.assert_allclose(new.numpy(), LocalHeads(stored, radius=2.5).sample(3, rng=0), atol=1e-3)


def test_illumination_of_stored_photographs_is_split_and_that_of_drawings_is_not():
    photos = sa.fit((255 * np.clip(shaded(10), 0, 1)).astype(np.uint8), warp=0, radius=2)
    ink = np.zeros((10, 32, 32), dtype=np.uint8)
    ink[np.arange(10), 5:20, np.arange(8, 18)] = 255
    drawings = sa.fit(ink, warp=0, radius=2)
    assert photos.generator.heads.memories.illumination is not None
    assert drawings.generator.heads.memories.illumination is None
    assert photos.condition({(3, 4): 100}).generator.heads.memories.illumination is None


def test_illumination_has_a_smaller_weight_than_detail():
    """Two images differ in illumination and one in detail: the first two are neighbours."""
    place = np.linspace(-1, 1, 32)
    bars, others = 0.2 * np.sign(np.sin(16 * np.pi * place)), 0.2 * np.sign(np.cos(16 * np.pi * place))
    images = np.stack([bars + 0 * place[:, None], bars + 0.4 * place[:, None], others + 0 * place[:, None]])[..., None]
    parts = Illumination(images).split(images).reshape(3, -1)
    assert np.linalg.norm(parts[0] - parts[1]) < 0.6 * np.linalg.norm(parts[0] - parts[2])
    plain = images.reshape(3, -1)
    assert np.linalg.norm(plain[0] - plain[1]) > 0.7 * np.linalg.norm(plain[0] - plain[2])
