"""Local heads against brute force: the attention of windows, the whole anneal, the natural reach, and bad input."""

import math

import numpy as np
import pytest
import torch

from conftest import to_library
from stochattn import MemoryBank, energy, window_attention
from stochattn._random import Purpose, generator
from stochattn.local_heads import FEW_MEMORIES_REACH, LEAST_REACH, Anneal, LocalHeads, natural_reach
from stochattn.window_attention import PictureMemories, attend_whole, attend_windows


def blobs(K=30, size=12, channels=(), seed=0):
    """Two Gaussian spots at random places: parts that can be recombined."""
    rng = np.random.default_rng(seed)
    grid = np.arange(size)
    places = rng.uniform(2, size - 3, (K, 2, 2))
    spots = np.exp(
        -((grid - places[..., :1]) ** 2)[..., :, None] / 4 - ((grid - places[..., 1:]) ** 2)[..., None, :] / 4
    )
    pictures = spots.max(1)
    return pictures[..., None] * np.linspace(1, 0.5, *channels) if channels else pictures


def brute_x0(x, memories, log_r, sigma, radius):
    """Pixel by pixel, in float64, by differences: (n, H, W, C), (K, H, W, C)."""
    x, memories = np.asarray(x, dtype=np.float64), np.asarray(memories, dtype=np.float64)
    x0 = np.empty_like(x)
    for i in range(x.shape[1]):
        for j in range(x.shape[2]):
            window = np.s_[:, max(i - radius, 0) : i + radius + 1, max(j - radius, 0) : j + radius + 1]
            distances = ((x[window][:, None] - memories[window][None]) ** 2).sum((2, 3, 4))
            logits = log_r - distances / (2 * sigma**2)
            weights = np.exp(logits - logits.max(1, keepdims=True))
            x0[:, i, j] = weights / weights.sum(1, keepdims=True) @ memories[:, i, j]
    return x0


def in_contrasts(memories: PictureMemories):
    return np.moveaxis(np.asarray(memories.rows).reshape(memories.H, memories.W, memories.C, -1), -1, 0)


@pytest.mark.parametrize("channels", [(), (3,)], ids=["grey", "colour"])
@pytest.mark.parametrize(("shape", "radius"), [((12, 12), 1), ((12, 12), 3), ((12, 12), 7), ((7, 11), 2), ((11, 3), 2)])
@pytest.mark.parametrize("held", [2**17, 1], ids=["at once", "in blocks"])
def test_windows_equal_brute_force(library, channels, shape, radius, held, monkeypatch):
    monkeypatch.setattr(window_attention, "CACHED", held)
    K = 150 if held == 1 else 20  # blocks hold 64 memories or more
    images = blobs(K, 12, channels)[:, : shape[0], : shape[1]]
    log_r = np.random.default_rng(1).normal(size=K)
    memories = PictureMemories(to_library(images, library), log_r)
    x = np.random.default_rng(2).normal(size=(3, *shape, memories.C))
    got = attend_windows(memories, to_library(x, library), 0.7, radius, memories.half_norms(radius))
    np.testing.assert_allclose(got, brute_x0(x, in_contrasts(memories), log_r, 0.7, radius), atol=1e-10)


def test_float32_keeps_its_digits_at_the_lowest_noise():
    """Values far from zero, σ = 0.1: a logit's rounding is multiplied by 100. 1e-3 of a contrast is a tenth of a grey
    level; sums that start from zero, not from the mean, miss it by far."""
    memories = PictureMemories((blobs(60) + 30).astype(np.float32), None)
    exact = PictureMemories(blobs(60) + 30, None)
    x = in_contrasts(exact)[:8] + 0.1 * np.random.default_rng(0).normal(size=(8, 12, 12, 1))
    got = attend_windows(memories, x.astype(np.float32), 0.1, 2, memories.half_norms(2))
    assert got.dtype == np.float32
    assert np.abs(got - brute_x0(x, in_contrasts(exact), np.zeros(60), 0.1, 2)).max() < 1e-3


def test_a_window_over_everything_is_the_attention_of_a_bank():
    memories = PictureMemories(blobs(20), None)
    flat, sigma = in_contrasts(memories).reshape(20, -1), 3.0
    x = np.random.default_rng(0).normal(size=(4, 12, 12, 1))
    equal_norms = -(flat**2).sum(1) / (2 * sigma**2)  # turns exp(xi·m/σ²) into exp(−‖xi − m‖²/2σ²)
    expected = energy.attend(x.reshape(4, -1), MemoryBank(flat, equal_norms), 1 / sigma**2)
    np.testing.assert_allclose(attend_whole(memories, x, sigma).reshape(4, -1), expected, atol=1e-12)
    windows = attend_windows(memories, x, sigma, 11, memories.half_norms(11))
    np.testing.assert_allclose(windows.reshape(4, -1), expected, atol=1e-12)


def test_samples_equal_a_brute_force_anneal(library):
    images, log_r = blobs(20, 9), np.linspace(0, 1, 20)
    r = np.exp(log_r)[:, None, None] / np.exp(log_r).sum()
    mean = (r * images).sum(0)
    variance = (r * (images - mean) ** 2).sum(0)
    contrast = math.sqrt((variance**2).sum() / variance.sum())
    sigmas = np.geomspace(math.sqrt(variance.sum()) / contrast, 0.1, 25)
    x = sigmas[0] * np.stack([generator(4, Purpose.START, i).standard_normal((9, 9, 1)) for i in range(3)])
    for t, sigma in enumerate(sigmas):
        radius = max(round(1.7 * sigma), 2)
        x0 = brute_x0(x, ((images - mean) / contrast)[..., None], log_r, sigma, radius)
        x = x0 if t == 24 else x0 + sigmas[t + 1] / sigma * (x - x0)
    heads = LocalHeads(to_library(images, library), log_r, reach=1.7)
    np.testing.assert_allclose(heads.sample(3, rng=4), mean + contrast * x[..., 0], atol=1e-8)


def test_a_picture_depends_on_seed_and_number_only(library):
    heads = LocalHeads(to_library(blobs().astype(np.float32), library), reach=2)
    many = np.asarray(heads.sample(40, rng=3))
    assert many.dtype == np.float32
    assert np.array_equal(many[:5], np.asarray(heads.sample(5, rng=3)))
    assert not np.array_equal(many[:5], np.asarray(heads.sample(5, rng=4)))
    assert np.abs(many[16:21] - many[:5]).max() > 0.1  # batches do not repeat


def test_numpy_and_torch_agree():
    drawn = LocalHeads(blobs(), reach=2).sample(4, rng=0)
    tensor = LocalHeads(torch.tensor(blobs()), reach=2).sample(4, rng=0)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor, drawn, atol=1e-8)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_tensors_stay_on_their_device():
    images = blobs(channels=(3,)).astype(np.float32)
    tensor = LocalHeads(torch.tensor(images, device="cuda"), reach=2).sample(130, rng=0)
    assert tensor.is_cuda
    far = np.abs(tensor.cpu().numpy() - LocalHeads(images, reach=2).sample(130, rng=0)).reshape(130, -1).max(1)
    assert np.median(far) < 1e-3  # a draw near a boundary between memories may fall either way


def test_scale_and_offset_of_values_do_not_matter():
    heads, scaled = LocalHeads(blobs(), reach=2), LocalHeads(7 + 200 * blobs(), reach=2)
    np.testing.assert_allclose(scaled.sample(3, rng=1), 7 + 200 * heads.sample(3, rng=1), atol=1e-6)


def test_masked_memories_might_as_well_not_be_there():
    images, log_r = blobs(), np.zeros(30)
    log_r[10:] = -np.inf
    masked, fewer = LocalHeads(images, log_r, reach=2), LocalHeads(images[:10], reach=2)
    assert np.array_equal(masked.sample(3, rng=0), fewer.sample(3, rng=0))


def test_a_large_reach_recalls_memories_by_their_multiplicity():
    """Share of a memory counted thrice beside one counted once: 3/4. 600 draws: standard error 0.018; the start, noise
    around the mean, costs some hundredths. Without multiplicities the share would be 0.5."""
    images = blobs(2)
    drawn = LocalHeads(images, np.log([3.0, 1.0]), reach=1000).sample(600, rng=0)
    distances = np.linalg.norm((drawn[:, None] - images[None]).reshape(600, 2, -1), axis=2)
    assert distances.min(1).max() < 0.02
    assert (distances.argmin(1) == 0).mean() == pytest.approx(0.75, abs=0.08)


def test_small_windows_make_new_pictures_within_the_memories_range():
    images = blobs(40)
    drawn = LocalHeads(images, reach=1.5).sample(32, rng=0)
    nearest = np.sqrt(((drawn[:, None] - images[None]) ** 2).sum((2, 3))).min(1)
    assert np.median(nearest) > 0.5  # a memory's neighbour is at 1.2
    assert (drawn >= images.min(0) - 1e-9).all()
    assert (drawn <= images.max(0) + 1e-9).all()


def test_natural_reach_keeps_draws_as_far_as_neighbours_are():
    """Three bands of independent brightness, which windows can recombine."""
    brightness = np.random.default_rng(0).normal(size=(100, 3))
    images = (np.repeat(brightness, 10, axis=1)[:, :, None] * np.ones(10)).astype(np.float32)
    flat = images.reshape(100, -1).astype(np.float64)
    gaps = np.linalg.norm(flat[:, None] - flat[None], axis=2)
    target = np.median(gaps[gaps > 0].reshape(100, 99).min(1))

    def typical(reach):
        drawn = LocalHeads(images, reach=reach).sample(256, rng=8).reshape(256, -1)
        return np.median(np.linalg.norm(drawn[:, None] - flat[None], axis=2).min(1))

    reach = natural_reach(images)
    assert LEAST_REACH < reach < 4
    # Of other draws than the rule's, whose median has a standard error of some 7 %.
    assert typical(reach) == pytest.approx(target, rel=0.2)
    assert typical(2 * reach) < 0.8 * target
    assert LocalHeads(images).reach == reach


def test_few_memories_cannot_be_far_from_and_get_a_coherent_reach():
    assert natural_reach(blobs(3, 16)) == FEW_MEMORIES_REACH


def test_one_memory_is_all_there_is():
    picture = blobs(1)
    np.testing.assert_allclose(LocalHeads(picture, reach=2).sample(2, rng=0), picture[[0, 0]], atol=1e-12)
    with pytest.raises(ValueError, match="there is one"):
        LocalHeads(picture)


def test_identical_memories_come_back():
    picture = blobs(1).astype(np.float32)[[0] * 5]
    np.testing.assert_allclose(LocalHeads(picture, reach=2).sample(2, rng=0), picture[:2], atol=1e-6)
    with pytest.raises(ValueError, match="duplicate"):
        natural_reach(picture)


def test_constant_pixels_stay_constant():
    images = blobs()
    images[:, :3] = 0.25
    assert np.abs(LocalHeads(images, reach=2).sample(5, rng=0)[:, :3] - 0.25).max() < 1e-12


def test_pictures_smaller_than_the_window_are_recalled():
    images = np.random.default_rng(0).random((6, 3, 2))
    drawn = LocalHeads(images, reach=1).sample(8, rng=0)
    assert np.abs(drawn[:, None] - images[None]).max((2, 3)).min(1).max() < 0.05
    with pytest.raises(ValueError, match="larger than the smallest window, 5 pixels wide"):
        natural_reach(images)


def test_whole_numbers_become_float32_and_single_rows_work():
    images = (255 * blobs()).astype(np.uint8)
    assert LocalHeads(images, reach=2).sample(1, rng=0).dtype == np.float32
    assert LocalHeads(images[:, :1], reach=2).sample(2, rng=0).shape == (2, 1, 12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"images": np.zeros((4, 5))}, r"images must be \(K, H, W\)"),
        ({"images": np.zeros((0, 5, 5))}, "none of them zero"),
        ({"images": np.full((2, 5, 5), np.nan)}, "images must be finite"),
        ({"images": blobs(3), "log_r": [0.0, 0.0]}, "one entry for each of the K=3"),
        ({"images": blobs(3), "log_r": np.full(3, -np.inf)}, "at least one memory"),
        ({"images": blobs(3), "log_r": [0.0, np.nan, 0.0]}, "NaN"),
        ({"images": blobs(3), "reach": -1.0}, "reach must be"),
        ({"images": blobs(3), "reach": np.nan}, "reach must be"),
        ({"images": blobs(3), "reach": 2, "anneal": Anneal(sigma_max=0.05)}, "must exceed"),
        ({"images": blobs(3), "reach": 2, "anneal": Anneal(sigma_min=0.0)}, "sigma_min must be a positive"),
        ({"images": blobs(3), "reach": 2, "anneal": Anneal(steps=1)}, "steps must be at least 2"),
        ({"images": blobs(3), "reach": 2, "anneal": Anneal(floor=0)}, "floor must be at least 1"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        LocalHeads(**arguments)


def test_the_number_of_draws_is_checked():
    with pytest.raises(ValueError, match="n must be at least 1"):
        LocalHeads(blobs(3), reach=2).sample(0)
