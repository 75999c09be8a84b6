"""The map: stored and new items along the two directions in which the stored ones vary most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._backend.arrays import Array
from .._backend.blas import single_threaded
from ..data.base import Codec

MAX_FITTED = 2000  # stored items that decide the directions
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class ItemMap:
    """Features (n, p) as points of a plane: (x − mean) · directions."""

    mean: Array  # (p,)
    directions: Array  # (p, 2)
    stored: Array  # (K, 2)
    shares: tuple[float, float]  # of the variance

    @classmethod
    def of(cls, codec: Codec) -> ItemMap:
        """The map of the stored items."""
        with single_threaded("scipy.linalg"):
            return cls._of(codec.features(codec.stored))

    @classmethod
    def _of(cls, features: Array) -> ItemMap:
        mean = features.mean(0)
        centred = (features - mean).astype(np.float32)
        some = centred[:: max(len(centred) // MAX_FITTED, 1)]
        # The smaller of both matrices of products has the same eigenvalues.
        if some.shape[0] <= some.shape[1]:
            values, vectors = np.linalg.eigh((some @ some.T).astype(np.float64))
            directions = some.T.astype(np.float64) @ vectors[:, ::-1][:, :2]
        else:
            values, vectors = np.linalg.eigh((some.T @ some).astype(np.float64))
            directions = vectors[:, ::-1][:, :2]
        lengths = np.linalg.norm(directions, axis=0)
        directions = directions / np.where(lengths > TINY, lengths, 1.0)
        plane = np.zeros((features.shape[1], 2))
        plane[:, : directions.shape[1]] = directions
        total = float(max(values.sum(), TINY))
        shares = [float(max(value, 0.0)) / total for value in values[::-1][:2]] + [0.0, 0.0]
        return cls(mean, plane, centred @ plane, (shares[0], shares[1]))

    def points(self, features: Array) -> Array:
        """Features (n, p) as points (n, 2)."""
        return np.asarray((features - self.mean) @ self.directions)
