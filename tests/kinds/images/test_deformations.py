"""Registration of images, local laws of shapes, and the generator "deformations"."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, label, map_coordinates

import stochattn as sa
from stochattn._backend.random import Purpose
from stochattn.core.neighbors import nearest_distances
from stochattn.evaluation import held_out_metrics
from stochattn.kinds.images.generator import deformations, registration
from stochattn.kinds.images.generator.deformations import (
    Deformations,
    LocalImageDistribution,
    Vary,
    draw_fields,
)
from stochattn.kinds.images.generator.patches import SettingRule
from stochattn.kinds.images.generator.registration import (
    Registration,
    SplineImages,
    blur,
    remove_light,
    resample_fields,
    resize,
    restore_values,
)
from stochattn.kinds.images.generator.window_attention import are_photographs


def rings(K=20, side=28, seed=0):
    """Ellipses of one stroke, of different places, sizes and slants: (K, side, side) float32 in [0, 1]."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] / (side - 1) * 2 - 1
    images = []
    for _ in range(K):
        cy, cx, a, b, slant = (
            rng.normal(0, 0.08, 2).tolist() + rng.uniform(0.4, 0.65, 2).tolist() + [rng.normal(0, 0.3)]
        )
        v, u = y - cy, x - cx - slant * (y - cy)
        images.append(np.exp(-(((np.hypot(u / a, v / b) - 1) / 0.22) ** 2)))
    return np.array(images, dtype=np.float32)


@pytest.fixture(scope="module")
def model():
    return Deformations(rings(40), labels=np.repeat(["a", "b"], 20))


def test_a_field_carries_one_image_onto_the_other():
    stored = rings(6)
    found = Registration(stored).fields(np.array([0, 1, 2]), np.array([3, 4, 5]))
    rows, columns = np.mgrid[:28, :28]
    for i, u in enumerate(found):
        moved = map_coordinates(stored[i], [rows + u[0], columns + u[1]], order=1, mode="nearest")
        before, after = (((one - stored[i + 3]) ** 2).mean() for one in (stored[i], moved))
        assert after < 0.1 * before
        steps = max(np.abs(np.diff(u, axis=1)).max(), np.abs(np.diff(u, axis=2)).max())
        assert steps < 1  # no pixel passes another


def test_a_image_needs_no_field_to_itself_and_pairs_do_not_change_each_other():
    registration = Registration(rings(5))
    together = registration.fields(np.array([0, 1, 2]), np.array([0, 3, 4]))
    assert np.abs(together[0]).max() < 1e-6
    assert (together[2:] == registration.fields(np.array([2]), np.array([4]))).all()


def test_shifts_are_found_in_pixels_down_and_across():
    image = rings(1)[0]
    stored = np.stack([image, np.roll(image, (2, -1), (0, 1))])
    (u,) = Registration(stored).fields(np.array([0]), np.array([1]))
    where = image > 0.5
    assert abs(u[0][where].mean() + 2) < 0.35
    assert abs(u[1][where].mean() - 1) < 0.35


def test_large_images_are_registered_at_28_pixels_and_fields_enlarged():
    small, large = (Registration(rings(4, side)) for side in (28, 84))
    assert large.shape == (28, 28)
    pairs = np.array([0, 1]), np.array([2, 3])
    field = resample_fields(large.fields(*pairs), (84, 84))
    assert field.shape == (2, 2, 84, 84)
    reference = resample_fields(small.fields(*pairs), (84, 84))
    assert np.abs(field - reference).mean() < 0.35 * np.abs(reference).mean()
    assert Registration(rings(4, 10)).shape == (28, 28)
    assert (
        np.abs(resample_fields(Registration(rings(4, 10)).fields(*pairs), (84, 84)) - reference).mean()
        < 0.7 * np.abs(reference).mean()
    )


def test_resized_and_blurred_images_keep_constants_and_means():
    x = np.random.default_rng(0).random((3, 30, 20))
    assert resize(np.full((1, 30, 20), 2.0), (11, 9)) == pytest.approx(np.full((1, 11, 9), 2.0))
    assert blur(np.full((1, 30, 20), 2.0), 3.0) == pytest.approx(np.full((1, 30, 20), 2.0))
    assert resize(x, (15, 10)).mean() == pytest.approx(x.mean(), rel=0.02)
    assert (resize(x, (30, 20)) == x).all()
    spot = np.zeros((41, 41))
    spot[20, 20] = 1
    rows = np.arange(41) - 20
    spread = blur(spot, 2.5)
    assert (spread.sum(1) * rows**2).sum() == pytest.approx(2.5**2, rel=0.01)


def test_splines_return_stored_pixels_exactly_and_places_between_them_as_scipy_does():
    stored = np.random.default_rng(0).random((3, 12, 9, 2)).astype(np.float64)
    splines = SplineImages(stored)
    assert splines.at(np.array([2, 0]), np.zeros((2, 2, 12, 9))) == pytest.approx(stored[[2, 0]], abs=1e-9)
    u = np.random.default_rng(1).normal(0, 2, (1, 2, 12, 9))
    rows, columns = np.mgrid[:12, :9]
    places = rows + u[0, 0], columns + u[0, 1]
    places = [last - np.abs(last - np.abs(place)) for place, last in zip(places, (11, 8), strict=True)]  # reflected
    expected = np.stack([map_coordinates(stored[1, ..., c], places, order=3, mode="nearest") for c in (0, 1)], -1)
    top, left = (np.floor(place).astype(int) for place in places)
    cells = np.pad(stored[1], ((0, 1), (0, 1), (0, 0)), mode="edge")
    corners = np.array([cells[top + i, left + j] for i in (0, 1) for j in (0, 1)])
    expected = np.clip(expected, corners.min(0), corners.max(0))  # overshoots beside edges would be spots
    assert splines.at(np.array([1]), u)[0] == pytest.approx(expected, abs=0.02)
    assert (splines.at(np.array([1]), u)[0] >= corners.min(0)).all()
    assert (splines.at(np.array([1]), u)[0] <= corners.max(0)).all()


@pytest.mark.parametrize(("scale", "shrunk"), [(1.5, 1.0), (0.6, 0.2), (0.0, 0.0)])
def test_fields_have_the_mean_and_the_covariance_of_the_local_law(model, scale, shrunk):
    law = model._find_distributions([3])[0]
    assert np.abs(law.deviations.mean(0)).max() < 1e-5
    probe, n = np.random.default_rng(0).standard_normal(law.mean.shape), 4000
    rng = np.random.default_rng(1)
    found = np.array([(draw_fields([law], [rng], scale, law.spread)[0] * probe).sum() for _ in range(n)])
    variance = scale**2 * ((law.deviations * probe).sum((1, 2, 3)) ** 2).mean()
    # Four standard errors: a mean of 0.07 standard deviations, or a variance off by 9 %, would be noticed.
    assert abs(found.mean() - shrunk * (law.mean * probe).sum()) <= 4 * np.sqrt(variance / n) + 1e-6
    assert abs(found.var() - variance) <= 4 * np.sqrt(2 / n) * variance + 1e-12


def test_a_law_has_the_image_itself_as_a_member(model):
    law, others = model._find_distributions([3])[0], model._neighbors[3]
    fields = model._registration.fields(np.full(len(others), 3), others)
    assert law.mean == pytest.approx(fields.sum(0) / (len(others) + 1), abs=1e-5)
    assert law.deviations[-1] == pytest.approx(-law.mean, abs=1e-6)


def test_sources_follow_weights_evenly_from_the_first_on():
    log_r = np.log([1.0, 2.0, 3.0, 2.0, 0.0 + 1e-300, 4.0])
    model = Deformations(rings(6), log_r, labels=list("ababab"), scale=1.0)
    shares = np.exp(log_r) / np.exp(log_r).sum()
    for n in (12, 57, 1000):
        counts = np.bincount(model.kept[model.sources(n, 5)], minlength=6)
        assert np.abs(counts - n * shares).max() <= 2.5
    assert (model.sources(57, 5) == model.sources(1000, 5)[:57]).all()
    starts = np.bincount([model.kept[model.sources(1, seed)[0]] for seed in range(1300)], minlength=6)
    # chi-square with four degrees of freedom: below 23.5 in all but one of 10,000 cases
    assert (((starts - 1300 * shares) ** 2)[shares > 1e-9] / (1300 * shares)[shares > 1e-9]).sum() < 23.5


def test_neighbours_are_of_the_same_class_unless_a_class_is_tiny():
    labels = np.array(["a"] * 12 + ["b"] * 10 + ["c"] * 2)
    model = Deformations(rings(24), labels=labels, scale=1.0)
    assert [len(model._neighbors[i]) for i in (0, 12, 22)] == [11, 9, 23]
    assert model.n_neighbors == 11
    for i in range(22):
        assert set(labels[model._neighbors[i]]) == {labels[i]}
        assert i not in model._neighbors[i]
    assert {"a", "b"} & set(labels[model._neighbors[23]])
    assert Deformations(rings(5), scale=1.0).n_neighbors == 4
    large = Deformations(rings(60), scale=1.0)
    assert (large.n_neighbors, large.neighbor_share) == (32, 32 / 59)


def test_the_nearest_images_are_the_neighbours():
    stored = rings(50)
    rows = stored.reshape(50, -1)
    distances = ((rows[:, None] - rows) ** 2).sum(2)
    found = np.array(Deformations(stored, scale=1.0)._neighbors)
    assert (np.sort(found, 1) == np.sort(np.argsort(distances, 1)[:, 1:33], 1)).all()


def test_images_that_are_left_out_are_neither_sources_nor_neighbours():
    log_r = np.zeros(20)
    log_r[:5] = -np.inf
    stored = rings(20)
    new, source = (model := Deformations(stored, log_r)).draw(40, 3)
    assert source.min() == 5
    without = Deformations(stored[5:])
    assert model.scale == without.scale
    assert new == pytest.approx(without.draw(40, 3)[0], abs=1e-6)


def test_new_images_are_as_far_from_stored_ones_as_these_are_from_each_other():
    model = Deformations(rings(100))
    assert model.scale_rule is SettingRule.MATCHED_DISTANCE
    rows = model.images.reshape(100, -1)
    target = np.median(nearest_distances(rows))
    drawn = model.around(model.sources(96, 0), 0, model.scale, Purpose.RULE).reshape(96, -1)
    assert 0.94 * target < np.median(nearest_distances(drawn, rows)) <= target
    assert Deformations(rings(40), scale=0.5).scale_rule is SettingRule.GIVEN


def test_lines_stay_in_one_piece(model):
    new, stored = model.sample(60, rng=1), model.images[..., 0]
    assert all(label(one > 0.4, np.ones((3, 3)))[1] == 1 for one in stored)
    assert np.mean([label(one > 0.4, np.ones((3, 3)))[1] == 1 for one in new]) > 0.95
    assert new.min() >= stored.min()
    assert new.max() <= stored.max()


def test_images_unlike_all_others_are_held_back(model):
    spreads = np.array([law.spread for law in model._find_distributions(np.arange(40))])
    outlier, usual = int(spreads.argmax()), model._typical_spread
    assert spreads[outlier] > 1.05 * usual
    law = model._find_distributions([outlier])[0]
    rng = deformations.generator(9, Purpose.DRAW, 0)
    held_back = draw_fields([law], [rng], 2.0, usual)[0]
    free = draw_fields([law], [deformations.generator(9, Purpose.DRAW, 0)], 2.0, np.inf)[0]
    assert held_back - law.mean == pytest.approx((free - law.mean) * usual / law.spread, abs=1e-5)
    moved = model._splines.at(np.array([outlier]), held_back[None])
    expected = restore_values(moved, model.images[outlier][None])[..., 0]
    assert model.around(np.array([outlier]), 9, 2.0) == pytest.approx(expected, abs=1e-6)


def test_channels_move_together_and_photographs_are_compared_without_their_light():
    gray = rings(12, 32)
    model = Deformations(np.repeat(gray[..., None], 3, 3), scale=1.0)
    new = model.sample(5, rng=0)
    assert new.shape == (5, 32, 32, 3)
    assert (new[..., 0] == new[..., 1]).all()
    light = np.linspace(0.2, 0.9, 32)[None, :, None] * np.linspace(0.3, 1, 12)[:, None, None]
    photographs = 0.3 + 0.4 * light + 0.1 * gray
    photographs = photographs + 0.02 * np.random.default_rng(0).random(photographs.shape)
    assert are_photographs(photographs)
    compared = remove_light(photographs[..., None])
    correlations = [
        np.corrcoef(one.ravel(), blur(other, 1.0).ravel())[0, 1] for one, other in zip(compared, gray, strict=True)
    ]
    assert min(correlations) > 0.5


def test_draws_do_not_depend_on_how_many_there_are_nor_on_laws_that_were_kept(model, monkeypatch):
    new, source = model.draw(50, 4)
    assert (model.draw(7, 4)[0] == new[:7]).all()
    monkeypatch.setattr(deformations, "MAX_DISTRIBUTION_BYTES", 1)
    forgetful = Deformations(rings(40), labels=np.repeat(["a", "b"], 20), scale=model.scale)
    assert (forgetful.draw(50, 4)[0] == new).all()
    assert not forgetful._cache
    assert (forgetful.draw(50, 4)[1] == source).all()
    with pytest.raises(ValueError, match="n must be at least 1"):
        model.sample(0)


def test_tensors_give_the_same_images():
    torch = pytest.importorskip("torch")
    stored = rings(12)
    expected = Deformations(stored, scale=1.5).sample(6, rng=2)
    found = Deformations(torch.tensor(stored), scale=1.5).sample(6, rng=2)
    assert isinstance(found, torch.Tensor)
    assert found.numpy() == pytest.approx(expected, abs=1e-4)


def test_laws_of_tensors_are_drawn_together_as_one_by_one(model):
    """Laws of 19, 3 and 19 neighbours: weights of the second end in zeros."""
    torch = pytest.importorskip("torch")
    arrays = [
        model._find_distributions([3])[0],
        LocalImageDistribution.of(model._find_distributions([4])[0].deviations[:3]),
        model._find_distributions([25])[0],
    ]
    tensors = [
        LocalImageDistribution(torch.tensor(law.mean), torch.tensor(law.deviations), law.spread) for law in arrays
    ]
    for scale, usual in ((0.6, np.inf), (1.5, 0.5 * arrays[0].spread)):
        rngs = [np.random.default_rng(i) for i in range(3)]
        one_by_one = [draw_fields([law], [np.random.default_rng(i)], scale, usual)[0] for i, law in enumerate(arrays)]
        assert draw_fields(tensors, rngs, scale, usual).numpy() == pytest.approx(np.stack(one_by_one), abs=1e-5)


@pytest.fixture(params=["tensors as if on a GPU", "cuda"])
def on_gpu(request, monkeypatch):
    """The device of tensors that are drawn in blocks of one size, as on a GPU."""
    torch = pytest.importorskip("torch")
    if request.param != "cuda":
        for module in (deformations, registration):
            monkeypatch.setattr(module, "on_cuda", lambda x: isinstance(x, torch.Tensor))
        return "cpu"
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return "cuda"


@pytest.mark.parametrize("vary", list(Vary))
def test_blocks_on_a_gpu_give_the_same_images(on_gpu, vary, monkeypatch):
    torch = pytest.importorskip("torch")
    labels = np.repeat(["a", "b", "c"], [9, 7, 4])
    expected, source = Deformations(rings(20), labels=labels, scale=0.8, vary=vary).draw(50, 2)
    monkeypatch.setattr(deformations, "MAX_DRAWS_ON_GPU", 20)
    monkeypatch.setattr(registration, "PAIRS_ON_GPU", 23)
    made = Deformations(torch.tensor(rings(20), device=on_gpu), labels=labels, scale=0.8, vary=vary)
    found, of_found = made.draw(50, 2)
    assert (of_found == source).all()
    assert np.abs(found.cpu().numpy() - expected).mean() < 1e-4  # on a GPU, few pixels of equal level change places
    assert torch.equal(made.draw(7, 2)[0], found[:7])
    again = Deformations(torch.tensor(rings(20), device=on_gpu), labels=labels, scale=0.8, vary=vary)
    assert torch.equal(again.draw(7, 2)[0], found[:7])  # laws that were found beside others


@pytest.mark.parametrize(("vary", "in_law"), [(Vary.SHAPES, 2 * 40 * 28), (Vary.LEVELS, 40 * 28)])
def test_blocks_on_a_gpu_fit_into_its_memory(on_gpu, vary, in_law, monkeypatch):
    """The widest law has six neighbours and the image itself; numbers have four bytes."""
    torch = pytest.importorskip("torch")
    stored = np.concatenate([rings(12), rings(12)[:, :12]], axis=1)
    made = Deformations(torch.tensor(stored, device=on_gpu), labels=["a"] * 7 + ["b"] * 5, scale=0.8, vary=vary)
    assert made._draws_at_a_time == 256
    bytes_of_one = 4 * (7 * in_law + deformations.TEMPORARY * 40 * 28)
    for limit, n in ((9 * bytes_of_one, 9), (9 * bytes_of_one - 1, 8)):
        monkeypatch.setattr(deformations, "MAX_DRAW_BYTES", limit)
        assert made._draws_at_a_time == n
    monkeypatch.setattr(deformations, "MAX_DRAW_BYTES", 1)
    assert made._draws_at_a_time == 1
    assert made.sample(2, rng=0).shape == (2, 40, 28)


def test_pairs_on_a_gpu_are_in_blocks_of_one_size(on_gpu, monkeypatch):
    torch, sizes, fields = pytest.importorskip("torch"), [], Registration._fields
    monkeypatch.setattr(registration, "PAIRS_ON_GPU", 4)
    monkeypatch.setattr(
        Registration, "_fields", lambda self, *pair: (sizes.append(len(pair[0])), fields(self, *pair))[1]
    )
    found = Registration(torch.tensor(rings(6), device=on_gpu)).fields(np.array([0, 1, 2, 3, 4]), np.full(5, 5))
    assert (sizes, len(found)) == ([4, 4], 5)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="at least two"):
        Deformations(rings(1), scale=1.0)
    with pytest.raises(ValueError, match="are equal"):
        Deformations(np.ones((3, 8, 8)))
    with pytest.raises(ValueError, match="scale must be"):
        sa.fit((255 * rings(4)).astype(np.uint8), scale=-1.0)
    with pytest.raises(ValueError, match="scale must be at most 10; got 1e\\+39"):
        sa.fit((255 * rings(4)).astype(np.uint8), scale=1e39)


def test_a_scale_of_zero_recalls():
    stored = np.rint(255 * rings(8)).astype(np.float32) / 255
    new, source = Deformations(stored, scale=0.0).draw(8, 0)
    assert new == pytest.approx(stored[source], abs=1e-5)
    smooth = rings(8)  # pixels of nearly one level may change places
    new, source = Deformations(smooth, scale=0.0).draw(8, 0)
    assert new == pytest.approx(smooth[source], abs=1e-3)


def test_two_images_have_many_shapes_between_them():
    new = Deformations(rings(2), scale=1.0).sample(20, rng=0)
    assert len(np.unique(new.reshape(20, -1), axis=0)) == 20


def test_a_small_class_leaves_the_others_their_neighbours():
    labels = np.array(["a"] * 40 + ["b"] * 3)
    model = Deformations(rings(43), labels=labels, scale=1.0)
    assert [len(model._neighbors[i]) for i in (0, 41)] == [32, 2]


def test_small_digits_are_as_different_from_each_other_as_true_ones():
    datasets = pytest.importorskip("sklearn.datasets")
    images = np.random.default_rng(0).permutation(datasets.load_digits().images)[:300].astype(np.float32)
    model = Deformations(images)
    assert model.scale_rule is SettingRule.MATCHED_DISTANCE
    new = model.sample(300, rng=0).reshape(300, -1)
    assert np.median(nearest_distances(new)) > 0.9 * np.median(nearest_distances(images.reshape(300, -1)))


def test_images_that_are_nearly_alike_get_the_least_scale():
    stored = np.repeat(rings(20), 2, axis=0)
    stored[1::2] += 1e-4
    assert Deformations(stored).scale_rule is SettingRule.LEAST


def test_levels_vary_where_images_do_not_differ_in_shape():
    levels = np.linspace(40, 200, 12).astype(np.uint8)
    synth = sa.fit(np.ones((12, 8, 8), np.uint8) * levels[:, None, None])
    assert any("no shapes in common, so pixel values vary; vary='shapes'" in note for note in synth.notes)
    new = synth.sample(40, rng=0)
    assert np.ptp(new, axis=(1, 2)).max() <= 1
    assert len(set(new[:, 0, 0]) - set(levels.tolist())) > 10


def test_fields_do_not_depend_on_the_black_level_and_elongated_images_are_reduced():
    stored = rings(4)
    pairs = np.array([0, 1]), np.array([2, 3])
    expected = Registration(stored).fields(*pairs)
    assert Registration(stored + 100).fields(*pairs) == pytest.approx(expected, abs=0.02)
    h, w = Registration(np.zeros((2, 16, 1500))).shape
    assert h * w <= 4 * 28**2 + 2 * w


def test_a_few_digits_are_told_from_unrelated_images():
    """By medians: the nearest of nine digits are as near as unrelated images are to what is drawn around them."""
    datasets = pytest.importorskip("sklearn.datasets")
    digits = datasets.load_digits()
    shapes = [(16 * digits.images[digits.target == digit][:9]).astype(np.uint8) for digit in (0, 2, 8)]
    china, flower = (photograph.mean(2).astype(np.uint8) for photograph in datasets.load_sample_images().images)
    unrelated = [image[i : i + 32, j : j + 32] for image in (china, flower) for i in (50, 350) for j in (40, 500)]
    assert [sa.fit(images, "image").choice.name for images in shapes] == ["deformations"] * 3
    synth = sa.fit(np.stack(unrelated), "image")
    assert synth.choice.name == "rescaled"
    assert "no shapes in common" in synth.describe().notes[0]


def test_images_that_differ_in_more_than_shape_get_the_largest_scale():
    noise = np.random.default_rng(0).random((12, 16, 16))
    model = Deformations(0.2 * noise + rings(12, 16))
    assert (model.scale_rule, model.scale) == (SettingRule.LARGEST, pytest.approx(1.4))
    light = 40 * blur(np.random.default_rng(1).standard_normal((65, 16, 16)), 4.0)
    many = Deformations(light + rings(65, 16), vary=Vary.SHAPES)
    assert many.scale == pytest.approx(2.1 - 0.7 * 32 / 64)


def test_the_synthesizer_draws_deformations_by_default_in_the_shares_of_classes():
    stored = (255 * rings(30)).astype(np.uint8)
    synth = sa.fit(stored, labels=["a"] * 20 + ["b"] * 10)
    described = synth.describe()
    assert described.name == "deformations"
    found = synth.generator.model
    assert described.resolved == {"scale": found.scale, "scale_rule": found.scale_rule.name, "vary": "shapes"}
    assert "the nearest (19) differ" in described.summary
    batch = synth.generator.sample(60, np.random.default_rng(0))
    assert np.abs(np.bincount(np.asarray(batch.source) // 20, minlength=2) - [40, 20]).max() <= 1


def test_conditioned_images_are_drawn_by_patches_and_say_so():
    stored = (255 * rings(20)).astype(np.uint8)
    synth = sa.fit(stored).condition({(3, 4): 120})
    assert (synth.sample(3, rng=0)[:, 3, 4] == 120).all()
    assert synth.describe().name == "patches"
    assert synth.describe().resolved == {}
    assert any("'patches', which keeps pixels in place" in note for note in synth.notes)
    assert not any("no effect" in note for note in synth.notes)


def test_options_without_effect_on_conditioned_images_are_noted():
    stored = (255 * rings(12)).astype(np.uint8)
    notes = sa.fit(stored, scale=0.5).condition({(3, 4): 120}).notes
    assert "scale had no effect, because no lines are moved." in notes


def test_conditioned_images_are_combined_within_the_class_that_fits_best():
    bright, dark = 255 - 200 * rings(12, 12), 200 * rings(14, 12, seed=1)
    stored = np.concatenate([bright, dark]).astype(np.uint8)
    synth = sa.fit(stored, labels=["bright"] * 12 + ["dark"] * 14)
    clear = synth.condition({((0, 6), (0, 12)): "20"})
    assert any("stored images of the class dark, which fit the condition best" in note for note in clear.notes)
    assert (np.asarray(clear.generator.sample(8, np.random.default_rng(0)).source) >= 12).all()
    assert (clear.sample(8, rng=0)[:, 6:].mean((1, 2)) < 150).all()
    middle = np.repeat([130, 131], 13)
    mixed = sa.fit(np.where(np.arange(144).reshape(12, 12) == 5, middle[:, None, None], stored), labels=["a", "b"] * 13)
    assert not any("of the class" in note for note in mixed.condition({(0, 5): 130}).notes)


def test_a_condition_that_few_stored_images_fit_is_noted():
    stored = (255 * rings(40)).astype(np.uint8)
    stored[7] = 255 - stored[7]
    few = sa.fit(stored).condition({((0, 28), (0, 20)): "8"})
    assert any("about 1 stored image explains the condition" in note and "near-copies" in note for note in few.notes)
    assert not any("near-copies" in note for note in sa.fit(stored).condition({((0, 2), (0, 28)): "1"}).notes)


@pytest.mark.parametrize(
    ("labels", "error"),
    [
        ([None, *"abcde"], r"labels: \w+ 1 has None. Give it a name"),
        ([*"abcde", float("nan")], r"labels: \w+ 6 has nan. Give it a name"),
        (np.eye(6), r"one name for each \w+; \w+ 1 has 6 values. If they are one-hot, .* labels.argmax\(1\)"),
        (5, r"labels must have a name for each of the 6 \w+, such as a list; got 5"),
        (list("abc"), r"labels must name each of the 6 \w+; got 3"),
    ],
    ids=["None", "NaN", "one-hot", "number", "few"],
)
def test_labels_that_name_no_class_are_an_error(labels, error):
    with pytest.raises(sa.kinds.InputError, match=error):
        sa.fit(rings(6), labels=labels)


def test_labels_may_be_numbers_and_tensors():
    torch = pytest.importorskip("torch")
    for labels in (np.arange(6) % 2, torch.arange(6) % 2, [0, 1] * 3):
        assert sa.fit(rings(6), labels=labels).codec.labels == ("0", "1") * 3


def test_labels_of_files_are_checked(tmp_path):
    images = (255 * rings(6)).astype(np.uint8)
    np.savez(tmp_path / "one.npz", images=images, labels=np.array([0, 1, np.nan, 0, 1, 0]))
    with pytest.raises(sa.kinds.InputError, match="image 3 has the class NaN"):
        sa.fit(tmp_path / "one.npz")
    np.savez(tmp_path / "two.npz", images=images, labels=np.eye(6))
    synth = sa.fit(tmp_path / "two.npz")
    assert synth.codec.labels is None
    assert any("'labels' of shape (6, 6) has no class for each image" in note for note in synth.notes)


def test_coefficients_of_many_images_are_found_when_they_are_needed(monkeypatch):
    stored, u = rings(6)[..., None], np.random.default_rng(0).normal(0, 2, (3, 2, 28, 28)).astype(np.float32)
    expected = SplineImages(stored).at(np.array([4, 1, 4]), u)
    monkeypatch.setattr(SplineImages, "MAX_BYTES", 0)
    assert (found := SplineImages(stored)).coefficients is None
    assert found.at(np.array([4, 1, 4]), u) == pytest.approx(expected, abs=1e-6)


def test_parts_of_the_stored_images_keep_their_classes():
    stored = (255 * rings(20)).astype(np.uint8)
    synth = sa.fit(stored, labels=["a", "b"] * 10)
    assert synth.refit(np.array([1, 2, 3, 8])).codec.labels == ("b", "a", "b", "a")
    assert synth.codec.refit(stored[:4] ^ 1).labels is None
    assert sa.fit(stored).refit(np.array([1, 2, 3])).codec.labels is None


@pytest.mark.parametrize("condition", [{(3, 4): 0.5}, {((0, 4), (0, 4)): np.full((4, 4), 0.25)}], ids=["pixel", "part"])
def test_levels_of_conditions_are_whole_numbers(condition):
    with pytest.raises(sa.kinds.InputError, match=r"values are integers from 0 to 255, .*: multiply by 255"):
        sa.fit(rings(6)).condition(condition)


def textures(K=60, side=16, seed=0):
    """Smooth noise around a level of its own, with a contrast of its own: (K, side, side, 3) float32."""
    rng = np.random.default_rng(seed)
    noise = blur(rng.standard_normal((K, 3, side, side)), 0.8)
    contrast, level = rng.uniform(0.01, 0.6, (K, 1, 1, 1)), rng.uniform(0.2, 0.8, (K, 3, 1, 1))
    return np.clip(np.moveaxis(level + contrast * noise, 1, 3), 0, 1).astype(np.float32)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_moved_images_get_the_levels_of_another_image_in_their_own_order(library):
    rng = np.random.default_rng(0)
    moved = rng.permuted(np.tile(np.linspace(0, 1, 30)[:, None], (4, 1, 3)), axis=1).reshape(4, 5, 6, 3)
    images = rng.random((4, 5, 6, 3))
    given = moved, images
    if library == "torch":
        torch = pytest.importorskip("torch")
        given = torch.tensor(moved), torch.tensor(images)
    found = np.asarray(restore_values(*given))
    for i in range(4):
        for c in range(3):
            pairs = dict(zip(sorted(moved[i, ..., c].ravel()), sorted(images[i, ..., c].ravel()), strict=True))
            for (y, x), level in np.ndenumerate(moved[i, ..., c]):
                around = moved[i, max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2, c]
                assert found[i, y, x, c] == np.clip(pairs[level], around.min(), around.max())


def test_lines_become_wider_where_a_image_has_more_bright_pixels():
    moved, image = np.zeros((1, 9, 9, 1)), np.zeros((1, 9, 9, 1))
    moved[0, 4, 4], image[0, :3, :3] = 1.0, 0.5
    expected = np.zeros((9, 9))
    expected[3:6, 3:6] = 0.5
    assert (restore_values(moved, image)[0, ..., 0] == expected).all()
    image[0, :5, :5] = 0.5  # more than there are pixels beside the line: the others stay as they are
    assert (restore_values(moved, image)[0, ..., 0] == expected).all()


def test_new_images_have_nearly_the_levels_of_the_image_that_they_are_deformations_of(model):
    new, source = model.draw(30, 2)
    stored, scale = model.images[..., 0], model.scale
    moved = []
    for i, law in enumerate(model._find_distributions(source)):
        field = draw_fields([law], [deformations.generator(2, Purpose.DRAW, i)], scale, model._typical_spread)[0]
        moved.append(model._splines.at(source[i : i + 1], field[None])[0, ..., 0])
    levels, before, of_source = (np.sort(x.reshape(30, -1), 1) for x in (new, np.array(moved), stored[source]))
    assert np.abs(levels - of_source).mean() < 0.25 * np.abs(before - of_source).mean()
    assert not (new == stored[source]).all((1, 2)).any()


@pytest.mark.parametrize(("scale", "shrunk"), [(1.0, 1.0), (0.6, 0.2)])
def test_levels_have_the_mean_and_the_covariance_of_the_neighbours(scale, shrunk):
    stored = 0.5 + 0.02 * np.random.default_rng(0).standard_normal((40, 6, 6)).astype(np.float32)
    stored[0], stored[1] = 0, 1  # levels are not cut off between these
    model, i, n = Deformations(stored, scale=scale, vary=Vary.LEVELS), 5, 4000
    members = stored[[*model._neighbors[i], i]].reshape(-1, 36).astype(np.float64)
    probe = np.random.default_rng(1).standard_normal(36)
    found = model.around(np.full(n, i), 3, scale).reshape(n, -1) @ probe
    mean = members[-1] + shrunk * (members.mean(0) - members[-1])
    variance = scale**2 * ((members - members.mean(0)) @ probe).var()
    # Four standard errors: a mean of 0.07 standard deviations, or a variance off by 9 %, would be noticed.
    assert abs(found.mean() - mean @ probe) <= 4 * np.sqrt(variance / n) + 1e-5
    assert abs(found.var() - variance) <= 4 * np.sqrt(2 / n) * variance


def test_levels_of_textures_vary_because_moved_textures_are_near_copies():
    stored, held_out = textures(120), textures(120, seed=1)
    model = Deformations(stored)
    assert model.vary is Vary.LEVELS
    assert 0 < model.scale <= 1
    new = model.sample(100, rng=0)
    found = held_out_metrics(*(x.reshape(len(x), -1) for x in (new, stored, held_out)))
    moved = Deformations(stored, vary=Vary.SHAPES).sample(100, rng=0)
    copied = held_out_metrics(*(x.reshape(len(x), -1) for x in (moved, stored, held_out)))
    assert found.near_copies <= 0.05 < 0.15 < copied.near_copies
    assert new.min() >= stored.min()
    assert new.max() <= stored.max()


def test_the_nearest_images_by_levels_are_the_neighbours_where_levels_vary():
    stored = textures(50)
    rows = stored.reshape(50, -1)
    distances = ((rows[:, None] - rows) ** 2).sum(2)
    found = np.array(Deformations(stored, scale=1.0, vary=Vary.LEVELS)._neighbors)
    assert (np.sort(found, 1) == np.sort(np.argsort(distances, 1)[:, 1:33], 1)).all()
    assert Deformations(stored, scale=1.0).vary is Vary.SHAPES


def test_shapes_of_few_images_still_vary(model):
    assert model.vary is Vary.SHAPES
    assert Deformations(rings(8)).vary is Vary.SHAPES


def test_what_varies_is_an_option_that_is_saved_with_how_the_scale_was_found(tmp_path):
    stored = np.rint(255 * textures(40)).astype(np.uint8)
    synth = sa.fit(stored)
    assert synth.describe().resolved["vary"] == "levels"
    assert "stored images with other pixel values, as the nearest (32) differ" in synth.describe().summary
    synth.save(tmp_path / "one.synth")
    loaded = sa.load(tmp_path / "one.synth")
    assert loaded.describe().summary == synth.describe().summary
    assert "as given" not in loaded.describe().summary
    assert "scale 2.5 (as given)" in loaded.with_generator("deformations", scale=2.5).describe().summary
    assert (loaded.sample(5, rng=0) == synth.sample(5, rng=0)).all()
    given = sa.fit(stored, vary="shapes", scale=0.7)
    assert "moved as the nearest (32) differ from them, scale 0.7 (as given)" in given.describe().summary
    assert given.notes == ()
    with pytest.raises(ValueError, match="vary must be one of 'shapes', 'levels'; got 'colours'"):
        sa.fit(stored, vary="colours")


def test_borders_are_reflected_and_not_streaked():
    """Crops of one scene are moved by pixels from beyond their edges, which the nearest pixel would repeat."""
    rng = np.random.default_rng(0)
    scene = gaussian_filter(rng.standard_normal((60, 60)), 1.0)
    crops = np.array([scene[y : y + 32, x : x + 32] for y, x in rng.integers(0, 20, (30, 2))])
    new = Deformations(crops, scale=1.5, vary=Vary.SHAPES).sample(60, rng=0)

    def share_of_repeats(images):
        return np.mean([np.abs(images[:, a] - images[:, b]) < 1e-2 * crops.std() for a, b in ((0, 1), (-1, -2))])

    assert share_of_repeats(new) < share_of_repeats(crops) + 0.1
