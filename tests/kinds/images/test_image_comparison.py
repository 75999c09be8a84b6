"""Features that distances between images are measured in."""

from __future__ import annotations

import re

import numpy as np
import pytest

import stochattn as sa
from stochattn.core.neighbors import nearest_distances
from stochattn.kinds.images.generator.deformations import Deformations
from stochattn.kinds.images.generator.patches import SettingRule
from stochattn.kinds.images.generator.registration import feature_rows


def bars(K=70, seed=0):
    """A vertical bar at some place, of some brightness: (K, 12, 12) float32 in [0, 1]."""
    rng = np.random.default_rng(seed)
    place, level = rng.uniform(3, 8, (K, 1, 1)), rng.uniform(0.5, 1, (K, 1, 1))
    bar = np.exp(-((np.arange(12) - place) ** 2) / 3)
    return (level * np.repeat(bar, 12, axis=1)).astype(np.float32)


def brightness(images):
    """The mean level of images, times a hundred."""
    return 100 * images.mean((1, 2))


def test_neighbours_are_the_nearest_by_features():
    stored = bars()
    means = stored.mean((1, 2))
    model = Deformations(stored, scale=1.0, features=brightness)
    distances = np.abs(means[:, None] - means)
    np.fill_diagonal(distances, np.inf)
    assert (np.array(model._neighbors) == np.argsort(distances, 1, kind="stable")[:, :32]).mean() > 0.99
    by_pixels = Deformations(stored, scale=1.0)
    assert (np.array(model._neighbors) != np.array(by_pixels._neighbors)).mean() > 0.5


def test_the_rule_compares_distances_of_features():
    stored, side = bars(), np.linspace(-1, 1, 12)

    def place(images):
        return (images * side[None, None, :, None]).sum((1, 2)) / images.sum((1, 2))

    model = Deformations(stored, features=place)
    drawn = model.around(model.typical_sources, 0, model.scale, sa._backend.random.Purpose.RULE)[..., None]
    rows = place(stored[..., None])
    medians = [np.median(nearest_distances(*given)) for given in ((place(drawn), rows), (rows,))]
    assert medians[0] <= medians[1]
    assert model.scale_rule in (SettingRule.MATCHED_DISTANCE, SettingRule.LARGEST, SettingRule.LEAST)
    assert model.scale != Deformations(stored).scale


def test_pixels_are_compared_without_features_and_batches_do_not_matter():
    stored = bars(150)[..., None]
    assert (feature_rows(None, stored) == stored.reshape(150, -1)).all()
    sizes = []

    def counted(images):
        sizes.append(len(images))
        return brightness(images)

    assert feature_rows(counted, stored) == pytest.approx(brightness(stored))
    assert sizes == [64, 64, 22]


@pytest.mark.parametrize(
    ("features", "found"),
    [
        (lambda images: images.mean((1, 2, 3)), "float32 of shape (64,) for 64 images"),
        (lambda images: images[:1, :, 0, 0], "float32 of shape (1, 12) for 64 images"),
        (lambda images: images.reshape(len(images), -1)[:, :0], "float32 of shape (64, 0) for 64 images"),
        (lambda images: np.full((len(images), 2), "a"), "<U1 of shape (64, 2) for 64 images"),
        (lambda images: np.where(np.arange(2) > 0, np.nan, brightness(images)), "NaN or infinity"),
    ],
    ids=["flat", "too few", "none", "texts", "NaN"],
)
def test_features_that_are_no_rows_of_numbers_are_an_error(features, found):
    with pytest.raises(ValueError, match=re.escape(found)):
        Deformations(bars(), features=features)


def test_features_must_be_a_function():
    with pytest.raises(TypeError, match=r"features must be a function of images .* or a torch module; got str"):
        sa.fit(bars(), features="resnet18").sample(1)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_torch_module_gets_channels_first_and_keeps_its_mode(channels):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Dropout(0.5), torch.nn.AdaptiveAvgPool2d(1))
    images = np.random.default_rng(0).random((5, 12, 12, channels)).astype(np.float32)
    module.train()
    found = feature_rows(module, images)
    assert module.training
    module.eval()
    batch = torch.tensor(np.broadcast_to(images, (5, 12, 12, 3)).transpose(0, 3, 1, 2).copy())
    with torch.no_grad():
        assert found == pytest.approx(module(batch)[:, :, 0, 0].numpy(), abs=1e-6)
    feature_rows(module, images)
    assert not module.training


def test_a_torch_module_chooses_the_neighbours_of_a_synthesizer():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(200, 3))
    synth = sa.fit(bars(40), features=module)
    assert "as the nearest by features (32) differ" in synth.describe().summary
    assert synth.sample(3, rng=0).shape == (3, 12, 12)
    rows = feature_rows(module, synth.codec.encode(synth.codec.stored)[..., None])
    distances = ((rows[:, None] - rows) ** 2).sum(2)
    assert synth.generator.model._neighbors[7][0] == np.argsort(distances[7])[1]


def test_a_synthesizer_with_features_is_evaluated_but_not_saved(tmp_path):
    synth = sa.fit(bars(16), features=brightness)
    assert len(synth.evaluate(20).splits) == 5
    with pytest.raises(TypeError, match=r"with features= cannot be saved: .* Fit again where you need it"):
        synth.save(tmp_path / "one.synth")
    assert not list(tmp_path.iterdir())
    with pytest.raises(sa.kinds.InputError, match="features is not an option of image data with"):
        synth.with_generator("patches", features=brightness)
