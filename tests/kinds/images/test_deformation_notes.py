"""What the generator "deformations" says about itself, and limits of its local laws."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from test_deformations import rings

import stochattn as sa
from stochattn.kinds.images.description import DeformationOptions
from stochattn.kinds.images.generator import deformations
from stochattn.kinds.images.generator import deformations as deformation_generator
from stochattn.kinds.images.generator.deformations import DeformationGenerator, Deformations, Vary, _are_near_copies
from stochattn.kinds.images.generator.registration import _bilinear, feature_rows, find_neighbors, remove_light
from stochattn.kinds.images.generator.window_attention import are_photographs
from stochattn.kinds.images.writing import _difference


def test_moved_images_need_no_note():
    generator = DeformationGenerator.fit(rings(12, 14), np.ones(12), None, DeformationOptions())
    assert generator.describe().resolved["vary"] == "shapes"
    assert generator.describe().notes == ()


@pytest.mark.parametrize(("others", "common"), [(2, "a"), (3, None)])
def test_a_class_is_chosen_if_eight_of_the_ten_best_have_it(others, common):
    assert deformation_generator._common(np.array(["a"] * (10 - others) + ["b"] * others)) == common


@pytest.mark.parametrize(("n_alike", "noted"), [(3, True), (4, False)])
def test_three_stored_images_that_fit_a_condition_are_few(n_alike, noted):
    stored = (255 * rings(30)).astype(np.uint8)
    dark = (stored[:n_alike] // 8).astype(np.uint8)
    condition = {((0, 28), (0, 20)): str(31)}
    notes = sa.fit(np.concatenate([stored, dark])).condition(condition).notes
    assert any("near-copies" in note for note in notes) is noted


def test_a_scale_that_a_rule_found_before_is_no_option_without_effect(tmp_path):
    sa.fit((255 * rings(12)).astype(np.uint8)).save(tmp_path / "one.synth")
    loaded = sa.load(tmp_path / "one.synth")
    assert loaded.generator.options.scale is not None
    assert not any("no effect" in note for note in loaded.condition({(3, 4): 120}).notes)


def test_the_share_of_neighbours_is_that_of_the_others_in_a_class():
    assert Deformations(rings(65, 10), scale=1.0).neighbor_share == 0.5
    assert Deformations(rings(20, 10), scale=1.0).neighbor_share == 1.0


def test_no_more_laws_are_kept_than_there_is_room_for(monkeypatch):
    model = Deformations(rings(12, 10), scale=1.0)
    size = model._cache[0].deviations.nbytes
    monkeypatch.setattr(deformations, "MAX_DISTRIBUTION_BYTES", 3 * size)
    model._cache.clear()
    model._find_distributions(np.arange(12))
    assert list(model._cache) == [0, 1, 2]


@pytest.mark.parametrize("unit", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(("n", "limit"), [(19, 0.7), (20, 0.6)])
def test_near_copies_do_not_depend_on_the_unit_of_distances(unit, n, limit):
    stored = unit * np.linspace(1, 2, n)
    assert _are_near_copies((limit - 0.05) * stored, stored)
    assert not _are_near_copies((limit + 0.05) * stored, stored)


def test_neighbours_of_images_that_are_alike_come_in_their_order():
    found = find_neighbors(np.zeros((60, 3)), np.zeros(60, int))
    assert (found[0] == np.arange(1, 33)).all()
    assert (found[40] == np.arange(32)).all()


def lit_faces(K=40, side=28):
    """A bright spot at some height under light from the right of different strength: (K, side, side) float32."""
    rng, y = np.random.default_rng(0), np.linspace(-1, 1, side)
    spots = np.exp(-((y[:, None] - rng.normal(0, 0.2, (K, 1, 1))) ** 2 + y**2) / 0.1)
    light = rng.uniform(0, 0.4, (K, 1, 1)) * (1 + y)
    return (0.5 * spots + 0.05 * rng.random((K, side, side)) + light).astype(np.float32)


def test_shapes_are_compared_without_light_and_levels_with_it():
    lit = lit_faces()
    assert are_photographs(lit[..., None])
    models = [Deformations(lit, scale=1.0, vary=vary) for vary in (Vary.SHAPES, Vary.LEVELS)]
    rows = models[0]._registration.images, lit
    assert np.corrcoef(remove_light(lit[..., None]).mean(1).ravel(), rows[0].mean(1).ravel())[0, 1] > 0.99
    found = [np.array(model._neighbors) for model in models]
    for own, seen in zip(found, rows, strict=True):
        assert (own == np.array(find_neighbors(seen.reshape(40, -1), np.zeros(40, int)))).all()
    assert (found[0] != found[1]).mean() > 0.3


def test_a_weaker_light_does_not_change_what_photographs_are_compared_by():
    lit = lit_faces(4)[..., None]
    assert are_photographs(lit / 4)
    assert np.allclose(remove_light(lit / 4), remove_light(lit), atol=1e-4)


def test_a_module_that_returns_one_number_for_a_image_is_an_error_in_words():
    import torch

    class Mean(torch.nn.Module):
        def forward(self, x):
            return x.mean((1, 2, 3))

    with pytest.raises(ValueError, match=r"Mean returned float32 of shape \(5,\) for 5 images"):
        feature_rows(Mean(), rings(5, 8)[..., None])


@pytest.mark.parametrize(("shift", "expected"), [((0.0, 4.5), 5.0), ((0.0, -9.0), 0.0), ((7.0, 0.0), None)])
def test_edges_are_continued_outwards(shift, expected):
    ramp = np.tile(np.arange(6.0), (5, 1))  # 0 to 5 from left to right
    u = np.broadcast_to(np.array(shift)[None, :, None, None], (1, 2, 5, 6))
    found = _bilinear(ramp.ravel(), np.zeros((1, 1, 1), dtype=np.intp), u)[0]
    wanted = ramp if expected is None else np.clip(ramp + shift[1], 0, 5)
    assert np.allclose(found, wanted)


def test_a_difference_in_one_colour_is_shown_as_a_difference():
    stored = np.full((4, 4, 3), 100, dtype=np.uint8)
    new = stored.copy()
    new[1, 2, 0] = 160
    shown = np.asarray(Image.open(io.BytesIO(_difference(new, stored))))[..., 3]
    assert shown[1, 2] == 120
    assert shown.sum() == 120
