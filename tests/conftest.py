"""Banks and array libraries that the tests share."""

import numpy as np
import pytest
import torch

from stochattn import MemoryBank, conditioning

torch.set_num_threads(1)


def to_library(x, library):
    return torch.tensor(np.asarray(x)) if library == "torch" else np.asarray(x)


def make_bank(kind: str, library: str = "numpy", dtype=np.float64) -> MemoryBank:
    """Five memories in twelve dimensions, close enough to each other for chains to move between them at beta = 8."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((5, 12)) + 0.8
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    if kind == "unequal":
        X *= np.array([0.8, 0.9, 1.0, 1.1, 1.2])[:, None]
    bank = MemoryBank(to_library(X.astype(dtype), library))
    if kind == "mask":
        return conditioning.mask(bank, [0, 2, 3])
    if kind == "weights":
        return conditioning.weight(bank, [0.3, 1.0, 2.0, 0.5, 4.0])
    return bank


BANKS = ("unit", "unequal", "mask", "weights")
LIBRARIES = ("numpy", "torch")


@pytest.fixture(params=LIBRARIES)
def library(request):
    return request.param
