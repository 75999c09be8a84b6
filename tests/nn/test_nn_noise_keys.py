"""Keys of the noise of layers: on a GPU, and from a seed."""

import numpy as np
import torch

from stochattn import kernels
from stochattn.nn.steps import DeviceNoise, noise_source


def test_keys_are_drawn_from_the_generator_and_use_62_bits(monkeypatch):
    monkeypatch.setattr(kernels, "layer_launcher", lambda like: kernels)
    generator = torch.Generator().manual_seed(0)
    keys = torch.cat([DeviceNoise(None, torch.zeros(2), generator).key for _ in range(64)])
    assert keys.shape == (64,)
    assert len(keys.unique()) == 64
    assert 0 <= keys.min() < 2**60
    assert 2**61 < keys.max() < 2**62
    assert DeviceNoise(None, torch.zeros(2), torch.Generator().manual_seed(0)).key == keys[0]


def test_noise_of_a_seed_is_that_of_its_children_by_step():
    """Step t of a seed has the numbers of child t of numpy's SeedSequence, and not those of seed t and step."""
    add = noise_source(torch.zeros(2, 3), None, seed=7)
    for step in (1, 2, 3):
        word = np.random.SeedSequence(7).spawn(4)[step].generate_state(1, np.uint64)[0]
        expected = torch.randn(2, 3, generator=torch.Generator().manual_seed(int(word) >> 1))
        torch.testing.assert_close(add(torch.zeros(2, 3), 1.0), expected)
