"""Banks and array libraries that several tests use."""

import numpy as np
import torch

from stochattn import MemoryBank, conditioning

BANKS = ("unit", "unequal", "subset", "weights")
LIBRARIES = ("numpy", "torch")


def to_library(x, library):
    return torch.tensor(np.asarray(x)) if library == "torch" else np.asarray(x)


def ingredients(kind: str):
    """Five memories in twelve dimensions, with moves between them at beta = 8, and multiplicities."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((5, 12)) + 0.8
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    if kind == "unequal":
        X *= np.array([0.8, 0.9, 1.0, 1.1, 1.2])[:, None]
    r = {"subset": [1.0, 0.0, 1.0, 1.0, 0.0], "weights": [0.3, 1.0, 2.0, 0.5, 4.0]}.get(kind, [1.0] * 5)
    return X, np.array(r)


def make_bank(kind: str, library: str = "numpy", dtype=np.float64) -> MemoryBank:
    """Those ingredients as a bank, by the library's own conditioning."""
    assert kind in BANKS
    X, r = ingredients(kind)
    bank = MemoryBank(to_library(X.astype(dtype), library))
    if kind == "subset":
        return conditioning.subset(bank, [0, 2, 3])
    return conditioning.weight(bank, r) if kind == "weights" else bank
