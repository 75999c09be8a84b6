"""Local Gaussian laws of fields or levels around stored pictures, and draws of many of them at once on a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .._backend.arrays import Array, NumpyArray, concatenate, full, is_torch, like, namespace


@dataclass(frozen=True, eq=False)
class LocalLaw:
    """Shapes around one stored picture: the mean field (2, h, w), and deviations from it (k + 1, 2, h, w).

    Or levels around it, (H, W, C) in place of (2, h, w).
    """

    mean: Array
    deviations: Array
    spread: float  # root mean square of the deviations, in pixels or levels

    @classmethod
    def of(cls, fields: Array) -> LocalLaw:
        """The law of the fields to neighbours (k, 2, h, w) and of the picture itself."""
        fields = concatenate([fields, 0 * fields[:1]])
        mean = fields.mean(0)
        deviations = fields - mean
        return cls(mean, deviations, math.sqrt(float((deviations**2).mean())))

    def field(self, rng: np.random.Generator, scale: float, usual_spread: float) -> Array:
        """t times the mean plus a draw of the given scale, less where the law is wider than usual: (2, h, w)."""
        weights = like(self.weights(rng, scale, usual_spread), self.mean)
        deviations = self.deviations.reshape(len(weights), -1)
        return _shrunk(scale) * self.mean + (weights @ deviations).reshape(self.mean.shape)

    def weights(self, rng: np.random.Generator, scale: float, usual_spread: float) -> NumpyArray:
        """What a draw is the sum of deviations with: (k + 1,)."""
        n = len(self.deviations)
        held_back = min(usual_spread / max(self.spread, float(np.finfo(np.float32).tiny)), 1.0)
        return np.asarray(rng.standard_normal(n) * (scale * held_back / math.sqrt(n)))


@dataclass(eq=False)
class FoundLaws:
    """The local laws that are known, by stored picture; shared by all `Deformations` of the same pictures."""

    laws: dict[int, LocalLaw] = field(default_factory=dict)


def fields_of(
    laws: Sequence[LocalLaw], rngs: Sequence[np.random.Generator], scale: float, usual_spread: float
) -> Array:
    """A draw of each law, from its own generator: (n, 2, h, w).

    On a GPU, starting a product takes longer than computing it. Tensors therefore get one copy of all weights and one
    product of all laws; the weights of laws of fewer neighbours end in zeros.
    """
    if not is_torch(laws[0].mean):
        return np.stack([law.field(rng, scale, usual_spread) for law, rng in zip(laws, rngs, strict=True)])
    most = max(len(law.deviations) for law in laws)
    weights = np.zeros((len(laws), 1, most))
    for row, law, rng in zip(weights[:, 0], laws, rngs, strict=True):
        row[: len(law.deviations)] = law.weights(rng, scale, usual_spread)
    torch, mean = namespace(laws[0].mean), laws[0].mean
    deviations = torch.stack([_padded(law.deviations.reshape(len(law.deviations), -1), most) for law in laws])
    drawn = (like(weights, mean) @ deviations).reshape(len(laws), *mean.shape)
    return _shrunk(scale) * torch.stack([law.mean for law in laws]) + drawn


def _padded(rows: Array, n: int) -> Array:
    """Rows (m, d), and after them as many of zeros as make n: (n, d)."""
    missing = n - len(rows)
    return concatenate([rows, full((missing, rows.shape[1]), 0.0, rows)]) if missing else rows  # equivalent: no weight


def _shrunk(scale: float) -> float:
    """t of the formula of `deformations`: how far towards the mean a draw is moved."""
    return 1 - math.sqrt(max(1 - scale**2, 0.0))
