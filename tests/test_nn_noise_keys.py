"""Keys of the noise of layers on a GPU."""

import torch

from stochattn import kernels
from stochattn.nn.device_steps import DeviceNoise


def test_keys_are_drawn_from_the_generator_and_use_62_bits(monkeypatch):
    monkeypatch.setattr(kernels, "layer_launcher", lambda like: kernels)
    generator = torch.Generator().manual_seed(0)
    keys = torch.cat([DeviceNoise.of(torch.zeros(2), generator).key for _ in range(64)])
    assert keys.shape == (64,)
    assert len(keys.unique()) == 64
    assert 0 <= keys.min() < 2**60
    assert 2**61 < keys.max() < 2**62
    assert DeviceNoise.of(torch.zeros(2), torch.Generator().manual_seed(0)).key == keys[0]
