"""Local heads against brute force: the attention of windows, the annealed draws, the window radius, and bad input."""

import math
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from banks import to_library
from stochattn import MemoryBank, energy
from stochattn._backend.console import Progress
from stochattn._backend.random import Purpose, generator
from stochattn.kinds.images.generator import patches as local_heads
from stochattn.kinds.images.generator import window_attention
from stochattn.kinds.images.generator.patches import (
    FALLBACK_RADIUS,
    MIN_RADIUS,
    LocalHeads,
    SettingRule,
    median_distance,
    noise_levels,
    smallest_radius,
)
from stochattn.kinds.images.generator.window_attention import ImageMemories, attend_globally, attend_windows


def blobs(K=30, size=12, channels=(), seed=0):
    """Two Gaussian spots at random places: parts that can be recombined."""
    rng = np.random.default_rng(seed)
    grid = np.arange(size)
    places = rng.uniform(2, size - 3, (K, 2, 2))
    spots = np.exp(
        -((grid - places[..., :1]) ** 2)[..., :, None] / 4 - ((grid - places[..., 1:]) ** 2)[..., None, :] / 4
    )
    images = spots.max(1)
    return images[..., None] * np.linspace(1, 0.5, *channels) if channels else images


def brute_x0(x, memories, log_r, sigma, radius, precision=1.0):
    """Pixel by pixel, in float64, by differences: (n, H, W, C), (K, H, W, C); precision of values, (1, H, W, C)."""
    precision = np.broadcast_to(precision, (1, *x.shape[1:]))
    x, memories = np.asarray(x, dtype=np.float64), np.asarray(memories, dtype=np.float64)
    x0 = np.empty_like(x)
    for i in range(x.shape[1]):
        for j in range(x.shape[2]):
            window = np.s_[:, max(i - radius, 0) : i + radius + 1, max(j - radius, 0) : j + radius + 1]
            distances = (precision[window] * (x[window][:, None] - memories[window][None]) ** 2).sum((2, 3, 4))
            logits = log_r - distances / (2 * sigma**2)
            weights = np.exp(logits - logits.max(1, keepdims=True))
            x0[:, i, j] = weights / weights.sum(1, keepdims=True) @ memories[:, i, j]
    return x0


def in_contrasts(memories: ImageMemories):
    return np.moveaxis(np.asarray(memories.rows).reshape(memories.H, memories.W, memories.C, -1), -1, 0)


@pytest.mark.parametrize("channels", [(), (3,)], ids=["gray", "colour"])
@pytest.mark.parametrize(("shape", "radius"), [((12, 12), 1), ((12, 12), 3), ((12, 12), 7), ((7, 11), 2), ((11, 3), 2)])
@pytest.mark.parametrize("triples", [2**17, 1], ids=["at once", "in blocks"])
def test_windows_equal_brute_force(library, channels, shape, radius, triples, monkeypatch):
    monkeypatch.setattr(window_attention, "MAX_TRIPLES", triples)
    K = 150 if triples == 1 else 20  # blocks have 64 memories or more
    images = blobs(K, 12, channels)[:, : shape[0], : shape[1]]
    log_r = np.random.default_rng(1).normal(size=K)
    memories = ImageMemories(to_library(images, library), log_r)
    x = np.random.default_rng(2).normal(size=(3, *shape, memories.C))
    got = attend_windows(memories, to_library(x, library), 0.7, radius, memories.half_norms(radius))
    np.testing.assert_allclose(got, brute_x0(x, in_contrasts(memories), log_r, 0.7, radius), atol=1e-10)


def test_float32_is_accurate_at_the_lowest_noise():
    """Values far from zero, σ = 0.1: a logit's rounding is multiplied by 100. 1e-3 of a contrast is a tenth of a gray
    level; sums that start from zero instead of the mean fail."""
    memories = ImageMemories((blobs(60) + 30).astype(np.float32), None)
    exact = ImageMemories(blobs(60) + 30, None)
    x = in_contrasts(exact)[:8] + 0.1 * np.random.default_rng(0).normal(size=(8, 12, 12, 1))
    got = attend_windows(memories, x.astype(np.float32), 0.1, 2, memories.half_norms(2))
    assert got.dtype == np.float32
    assert np.abs(got - brute_x0(x, in_contrasts(exact), np.zeros(60), 0.1, 2)).max() < 1e-3


def test_a_window_over_everything_is_the_attention_of_a_bank():
    memories = ImageMemories(blobs(20), None)
    flat, sigma = in_contrasts(memories).reshape(20, -1), 3.0
    x = np.random.default_rng(0).normal(size=(4, 12, 12, 1))
    equal_norms = -(flat**2).sum(1) / (2 * sigma**2)  # turns exp(xi·m/σ²) into exp(−‖xi − m‖²/2σ²)
    expected = energy.attend(x.reshape(4, -1), MemoryBank(flat, equal_norms), 1 / sigma**2)
    np.testing.assert_allclose(
        attend_globally(memories, x, sigma, 11, memories.half_norms(11)).reshape(4, -1), expected, atol=1e-12
    )
    windows = attend_windows(memories, x, sigma, 11, memories.half_norms(11))
    np.testing.assert_allclose(windows.reshape(4, -1), expected, atol=1e-12)


def test_samples_equal_brute_force_annealing(library):
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
    heads = LocalHeads(to_library(images, library), log_r, radius=1.7)
    np.testing.assert_allclose(heads.sample(3, rng=4), mean + contrast * x[..., 0], atol=1e-8)


def test_a_image_depends_on_seed_and_number_only(library):
    heads = LocalHeads(to_library(blobs().astype(np.float32), library), radius=2)
    many = np.asarray(heads.sample(40, rng=3))
    assert many.dtype == np.float32
    assert np.array_equal(many[:5], np.asarray(heads.sample(5, rng=3)))
    assert not np.array_equal(many[:5], np.asarray(heads.sample(5, rng=4)))
    assert np.abs(many[16:21] - many[:5]).max() > 0.1  # batches do not repeat


def test_numpy_and_torch_agree():
    drawn = LocalHeads(blobs(), radius=2).sample(4, rng=0)
    tensor = LocalHeads(torch.tensor(blobs()), radius=2).sample(4, rng=0)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor, drawn, atol=1e-8)


def test_scale_and_offset_of_values_do_not_matter():
    heads, scaled = LocalHeads(blobs(), radius=2), LocalHeads(7 + 200 * blobs(), radius=2)
    np.testing.assert_allclose(scaled.sample(3, rng=1), 7 + 200 * heads.sample(3, rng=1), atol=1e-6)


def test_masked_memories_are_ignored():
    images, log_r = blobs(), np.zeros(30)
    log_r[10:] = -np.inf
    masked, fewer = LocalHeads(images, log_r, radius=2), LocalHeads(images[:10], radius=2)
    assert np.array_equal(masked.sample(3, rng=0), fewer.sample(3, rng=0))


def test_a_large_radius_recalls_memories_by_their_multiplicity():
    """Share of a memory with multiplicity 3 beside one with 1: 3/4. 600 draws: standard error 0.018; the start, noise
    around the mean, changes it by a few hundredths. Without multiplicities the share would be 0.5."""
    images = blobs(2)
    drawn = LocalHeads(images, np.log([3.0, 1.0]), radius=1000).sample(600, rng=0)
    distances = np.linalg.norm((drawn[:, None] - images[None]).reshape(600, 2, -1), axis=2)
    assert distances.min(1).max() < 0.02
    assert (distances.argmin(1) == 0).mean() == pytest.approx(0.75, abs=0.08)


def test_small_windows_give_new_images_within_the_range_of_memories():
    images = blobs(40)
    drawn = LocalHeads(images, radius=1.5).sample(32, rng=0)
    nearest = np.sqrt(((drawn[:, None] - images[None]) ** 2).sum((2, 3))).min(1)
    assert np.median(nearest) > 0.5  # a memory's neighbour is at 1.2
    assert (drawn >= images.min(0) - 1e-9).all()
    assert (drawn <= images.max(0) + 1e-9).all()


def bands(K=100, seed=0):
    """Three bands of independent brightness, which windows can recombine."""
    brightness = np.random.default_rng(seed).normal(size=(K, 3))
    return (np.repeat(brightness, 10, axis=1)[:, :, None] * np.ones(10)).astype(np.float32)


def test_the_matched_distance_rule_keeps_draws_as_far_as_neighbours_are():
    images = bands()
    flat = images.reshape(100, -1).astype(np.float64)
    gaps = np.linalg.norm(flat[:, None] - flat[None], axis=2)
    target = np.median(gaps[gaps > 0].reshape(100, 99).min(1))

    def typical(radius):
        drawn = LocalHeads(images, radius=radius).sample(256, rng=8).reshape(256, -1)
        return np.median(np.linalg.norm(drawn[:, None] - flat[None], axis=2).min(1))

    heads = LocalHeads(images)
    assert MIN_RADIUS < heads.radius < 4
    assert heads.radius_rule is SettingRule.MATCHED_DISTANCE
    # Independent draws, whose median has a standard error of about 7 %.
    assert typical(heads.radius) == pytest.approx(target, rel=0.2)
    assert typical(2 * heads.radius) < 0.8 * target
    assert LocalHeads(images, radius=2).radius_rule is SettingRule.GIVEN


@pytest.mark.parametrize(("near", "batches"), [(0, 1), (1, 1), (3, 2), (8, 6), (13, 2), (15, 1)])
def test_the_rule_stops_early_if_the_first_draws_are_conclusive(near, batches, monkeypatch):
    """`near` of 16 draws in each batch are nearer to the memory than the target. Three standard errors are 6 of 16,
    8.5 of 32 and 10.4 of 48 away from half: 3 of 16 fails the first by one, and 6 of 32 passes the second."""
    monkeypatch.setattr(local_heads, "usable_cores", lambda: 1)  # more cores draw batches ahead
    drawn = []

    class Annealing:
        batch = 16
        memories = SimpleNamespace(to_images=lambda x: x)

        def draw(self, first, seed, purpose):
            drawn.append(first)
            return np.where(np.arange(16) < near, 1.0, 3.0)[:, None]

    distance = median_distance(Annealing(), np.zeros((1, 1)), 2.0, 96)
    assert drawn == list(range(0, 16 * batches, 16))
    assert distance == (2.0 if near == 8 else 3.0 if near < 8 else 1.0)


@pytest.mark.parametrize("largest", [3.0, 7.7, 21.0])
def test_the_search_ends_within_five_percent_below_the_largest_radius(monkeypatch, largest):
    monkeypatch.setattr(local_heads, "median_distance", lambda annealing, _, target, __: (annealing < largest) * target)
    monkeypatch.setattr(local_heads, "Annealing", lambda _, radius: radius)
    found = LocalHeads(bands(40)).radius
    assert largest / 1.051 < found < largest


def test_the_search_ends_where_windows_cover_the_longer_side(monkeypatch):
    monkeypatch.setattr(local_heads, "median_distance", lambda _, __, target, ___: target)
    monkeypatch.setattr(local_heads, "Annealing", lambda _, radius: radius)
    memories = ImageMemories(np.random.default_rng(0).random((5, 12, 40)), None)
    largest = 40 / noise_levels(memories)[-1]
    assert largest / 1.6 < LocalHeads(np.random.default_rng(0).random((5, 12, 40))).radius < 1.6 * largest


def test_a_bar_shows_the_progress_of_the_search_and_of_the_draws(monkeypatch):
    updates = []

    class Bar(Progress):
        def update(self, done):
            updates.append((self.label, self.shown, done, self.total))

    monkeypatch.setattr(local_heads, "Progress", Bar)
    heads = LocalHeads(bands(40))
    assert updates[0] == ("choosing the window radius", False, 1, 6)
    assert [done for _, _, done, _ in updates] == sorted(done for _, _, done, _ in updates)
    assert updates[-1][2] == 5
    updates.clear()
    heads.sample(20, rng=0)
    assert updates == [("drawing images", False, done, 20) for done in (8, 16, 20)]


@pytest.mark.parametrize(
    ("shape", "min_radius", "sigma_min"),
    [((28, 28), 2, 0.1), ((64, 64), 5, 0.22), ((8, 200), 2, 0.1), ((12, 12), 2, 0.1)],
)
def test_the_smallest_window_is_as_large_a_part_of_larger_images(shape, min_radius, sigma_min):
    memories = ImageMemories(np.random.default_rng(0).random((3, *shape)), None)
    assert smallest_radius(memories) == min_radius
    assert noise_levels(memories)[-1] == pytest.approx(sigma_min)


def test_very_wide_images_and_pairs_work():
    columns = np.random.default_rng(0).normal(size=(30, 10))
    wide = np.repeat(columns, 20, axis=1)[:, None, :] * np.ones((1, 8, 1))
    heads = LocalHeads(wide)
    assert heads.radius >= MIN_RADIUS
    assert heads.sample(2, rng=0).shape == (2, 8, 200)
    pair = LocalHeads(blobs(2))
    assert pair.radius == FALLBACK_RADIUS
    assert pair.radius_rule is SettingRule.FALLBACK
    assert np.isfinite(pair.sample(3, rng=0)).all()


def test_too_few_memories_get_the_fallback_radius():
    assert LocalHeads(blobs(3, 16)).radius == FALLBACK_RADIUS


# Conditioned pixels


def test_conditioned_pixels_equal_brute_force_annealing(library):
    images, log_r, mask = blobs(20, 9), np.linspace(0, 1, 20), np.zeros((9, 9), dtype=bool)
    mask[:4, 2:] = True
    truth = blobs(1, 9, seed=7)[0]
    r = np.exp(log_r)[:, None, None] / np.exp(log_r).sum()
    mean = (r * images).sum(0)
    variance = (r * (images - mean) ** 2).sum(0)
    contrast = math.sqrt((variance**2).sum() / variance.sum())
    sigmas = np.geomspace(math.sqrt(variance.sum()) / contrast, 0.1, 25)
    x = sigmas[0] * np.stack([generator(4, Purpose.START, i).standard_normal((9, 9)) for i in range(3)])
    x[:, mask] = ((truth - mean) / contrast)[mask]
    for t, sigma in enumerate(sigmas):
        radius, precision = max(round(1.7 * sigma), 2), np.where(mask, 16.0, 1.0)[None, ..., None]
        x0 = brute_x0(x[..., None], ((images - mean) / contrast)[..., None], log_r, sigma, radius, precision)[..., 0]
        x0[:, mask] = ((truth - mean) / contrast)[mask]
        x = x0 if t == 24 else x0 + sigmas[t + 1] / sigma * (x - x0)
    heads = LocalHeads(to_library(images, library), log_r, radius=1.7)
    image = to_library(truth, library)
    mask = torch.tensor(mask) if library == "torch" else mask
    np.testing.assert_allclose(heads.sample(3, rng=4, conditioned=(mask, image)), mean + contrast * x, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_conditioned_values_are_exact(library, dtype):
    images, truth = blobs(20, 12, (3,)).astype(dtype), blobs(1, 12, (3,), seed=5)[0].astype(dtype)
    truth[0, 0] = 1.7, 0.1, -0.3  # outside the range of all memories
    heads = LocalHeads(to_library(images, library), radius=2)
    mask = np.zeros((12, 12), dtype=bool)
    mask[0, 0] = mask[5:9, 3:7] = True
    drawn = np.asarray(heads.sample(3, rng=0, conditioned=(mask, truth)))
    assert drawn.dtype == dtype
    assert np.array_equal(drawn[:, mask], np.broadcast_to(truth[mask], (3, 17, 3)))
    one_channel = np.zeros((12, 12, 3), dtype=bool)
    one_channel[4, 4, 1] = True
    drawn = np.asarray(heads.sample(3, rng=0, conditioned=(one_channel, truth)))
    assert (drawn[:, 4, 4, 1] == truth[4, 4, 1]).all()
    assert (drawn[:, 4, 4, 0] != truth[4, 4, 0]).all()
    unread = np.where(one_channel, truth, np.nan)
    assert np.array_equal(drawn, np.asarray(heads.sample(3, rng=0, conditioned=(one_channel, unread))))


def test_all_or_no_pixels_may_be_conditioned():
    heads, truth = LocalHeads(blobs(), radius=2), blobs(1, seed=5)[0]
    assert np.array_equal(
        heads.sample(2, rng=0, conditioned=(np.ones((12, 12), bool), truth)), truth[None].repeat(2, 0)
    )
    nothing = heads.sample(2, rng=0, conditioned=(np.zeros((12, 12), bool), truth))
    np.testing.assert_allclose(nothing, heads.sample(2, rng=0), atol=1e-9)


def test_pixels_around_conditioned_pixels_fit_them():
    """Waves whose phase the upper half shows. Without a bond between halves a completion would miss the truth by as
    much as an unconditional draw does; 12 images, 8 draws each, and the ratio's standard error is some 0.05."""
    rng = np.random.default_rng(0)
    phases = rng.uniform(0, 2 * np.pi, (92, 1, 1))
    waves = np.sin(np.arange(16)[None, :, None] / 3 + np.arange(16)[None, None] / 3 + phases)
    stored, truths, mask = waves[:80], waves[80:], np.zeros((16, 16), dtype=bool)
    mask[:8] = True
    heads = LocalHeads(stored, radius=2)
    free = heads.sample(32, rng=0)[:, 8:]
    given = [heads.sample(8, rng=1, conditioned=(mask, truth))[:, 8:] - truth[8:] for truth in truths]
    missed = np.mean([np.linalg.norm(gap, axis=(1, 2)).mean() for gap in given])
    by_chance = np.mean([np.linalg.norm(free - truth[8:], axis=(1, 2)).mean() for truth in truths])
    assert missed < 0.5 * by_chance


@pytest.mark.skipif("STOCHATTN_DATA" not in os.environ, reason="needs the digits under STOCHATTN_DATA")
def test_lower_halves_of_held_out_digits_follow_from_their_upper_halves():
    with np.load(Path(os.environ["STOCHATTN_DATA"]) / "mnist.npz", allow_pickle=False) as file:
        digits = file["digit3"].astype(np.float32) / 255
    stored, truths, mask = digits[:200], digits[200:212], np.zeros((28, 28), dtype=bool)
    mask[:14] = True
    heads = LocalHeads(stored, radius=2)
    free = heads.sample(32, rng=0)[:, 14:]
    given = [heads.sample(8, rng=1, conditioned=(mask, truth))[:, 14:] - truth[14:] for truth in truths]
    missed = np.mean([np.linalg.norm(gap, axis=(1, 2)).mean() for gap in given])
    by_chance = np.mean([np.linalg.norm(free - truth[14:], axis=(1, 2)).mean() for truth in truths])
    assert missed < 0.92 * by_chance


# Bad input


def test_one_memory_is_returned():
    image = blobs(1)
    np.testing.assert_allclose(LocalHeads(image, radius=2).sample(2, rng=0), image[[0, 0]], atol=1e-12)
    with pytest.raises(ValueError, match="there is one"):
        LocalHeads(image)


def test_identical_memories_are_returned():
    image = blobs(1).astype(np.float32)[[0] * 5]
    np.testing.assert_allclose(LocalHeads(image, radius=2).sample(2, rng=0), image[:2], atol=1e-6)
    with pytest.raises(ValueError, match="images must differ"):
        LocalHeads(image)


def test_duplicates_do_not_change_the_radius():
    """Every image twice is the same law; the nearest other image that differs is as far as before."""
    assert LocalHeads(np.concatenate([bands(40), bands(40)])).radius == LocalHeads(bands(40)).radius > MIN_RADIUS


def test_constant_pixels_stay_constant():
    images = blobs()
    images[:, :3] = 0.25
    assert np.abs(LocalHeads(images, radius=2).sample(5, rng=0)[:, :3] - 0.25).max() < 1e-12


def test_images_smaller_than_the_window_are_recalled():
    images = np.random.default_rng(0).random((6, 3, 2))
    drawn = LocalHeads(images, radius=1).sample(8, rng=0)
    assert np.abs(drawn[:, None] - images[None]).max((2, 3)).min(1).max() < 0.05


def test_single_rows_keep_their_dtype():
    images = blobs().astype(np.float32)
    assert LocalHeads(images, radius=2).sample(1, rng=0).dtype == np.float32
    assert LocalHeads(images[:, :1], radius=2).sample(2, rng=0).shape == (2, 1, 12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"images": blobs(3), "log_r": [0.0, 0.0]}, "one entry for each of the K=3"),
        ({"images": blobs(3), "log_r": np.full(3, -np.inf)}, "at least one memory"),
        ({"images": blobs(3), "log_r": [0.0, np.nan, 0.0]}, "NaN"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        LocalHeads(**arguments)


def test_the_number_of_draws_is_checked():
    with pytest.raises(ValueError, match="n must be at least 1"):
        LocalHeads(blobs(3), radius=2).sample(0)
