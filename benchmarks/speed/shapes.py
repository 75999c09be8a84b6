"""The shapes of the benchmarks, and random banks of these shapes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

BETA, ALPHA = 2000.0, 0.01
N_CHAINS, N_STEPS = 30, 5000
KEEP = (0.4, 0.54, 0.7, 0.84, 0.98)
"""The protocol of the paper: 30 chains, 5,000 steps, states kept at 2,000, 2,700, 3,500, 4,200 and 4,900."""
FACTORS = 12
BLOCK = 2**12


class Shape(NamedTuple):
    """The shape of a bank, and the name of the data with this shape."""

    name: str
    K: int
    d: int

    def __str__(self) -> str:
        return f"{self.name} (K {self.K:,}, d {self.d:,})"


PROTEIN = Shape("protein", 68, 59)
MNIST = Shape("MNIST", 100, 784)
OLIVETTI = Shape("Olivetti", 100, 4096)
FINANCE = Shape("finance", 2766, 424)
SMALL = (PROTEIN, MNIST, OLIVETTI, FINANCE)
DENSE = (Shape("square of 256", 256, 256), Shape("square of 300", 300, 300), Shape("thousand", 1000, 784))
"""Further shapes for a GPU: memories that span many dimensions."""
LARGE = tuple(Shape("large", K, 784) for K in (10**4, 10**5, 10**6))


def memories(K: int, d: int, dtype: Any = np.float32) -> Any:
    """Read-only unit rows (K, d), positive and correlated like pixels, generated in blocks."""
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((FACTORS, d)).astype(np.float32) / 3
    rows = np.empty((K, d), dtype=dtype)
    for begin in range(0, K, BLOCK):
        part = rows[begin : begin + BLOCK]
        np.exp(rng.standard_normal((len(part), FACTORS), dtype=np.float32) @ loadings, out=part)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    rows.flags.writeable = False
    return rows


def kept_steps(n_steps: int) -> list[int]:
    """The steps at which the protocol keeps a state, scaled to the length of the run."""
    return sorted({max(1, round(share * n_steps)) for share in KEEP})


def last_step(n_steps: int) -> list[int]:
    """The last step alone."""
    return [n_steps]
