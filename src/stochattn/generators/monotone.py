"""Rising piecewise linear maps of single features, with their inverses and slopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._backend.arrays import Array

Knots = tuple[Array, Array]
"""Features (m,) and coordinates (m,), both strictly rising, m of 2 or more."""


@dataclass(frozen=True, eq=False)
class MonotoneMap:
    """A map from features (n, p) to coordinates (n, p), feature by feature; None for features that it leaves alone.

    Beyond its knots a map goes on at the slope of its last piece.
    """

    knots: tuple[Knots | None, ...]

    def forward(self, features: Array) -> Array:
        """Features (n, p) as coordinates (n, p)."""
        return self._mapped(features, inverse=False)

    def inverse(self, coordinates: Array) -> Array:
        """Coordinates (n, p) as features (n, p)."""
        return self._mapped(coordinates, inverse=True)

    def _mapped(self, x: Array, inverse: bool) -> Array:
        out = np.array(x, dtype=np.float64)
        for j, knots in enumerate(self.knots):
            if knots is not None:
                out[:, j] = linear(out[:, j], *(knots[::-1] if inverse else knots))
        return out

    def log_slope(self, features: Array) -> Array:
        """log of the determinant of the derivative at features (n, p): (n,)."""
        total = np.zeros(len(features))
        for j, knots in enumerate(self.knots):
            if knots is not None:
                total += np.log(np.diff(knots[1]) / np.diff(knots[0]))[_pieces(features[:, j], knots[0])]
        return total

    def at(self, positions: Array) -> MonotoneMap:
        """The map of the features at these positions (r,) only."""
        return MonotoneMap(tuple(self.knots[j] for j in np.asarray(positions).tolist()))


def affine(mean: Array, deviation: Array, mapped: Sequence[int]) -> MonotoneMap:
    """The map (x − mean) / deviation of the features `mapped`, of p features with such means and deviations (p,)."""
    knots: list[Knots | None] = [None] * len(mean)
    for j in mapped:
        knots[j] = (np.array([mean[j] - deviation[j], mean[j] + deviation[j]]), np.array([-1.0, 1.0]))
    return MonotoneMap(tuple(knots))


def _pieces(x: Array, at: Array) -> Array:
    """The piece of each number (n,), between two of the knots (m,)."""
    return np.clip(np.searchsorted(at, x, side="right") - 1, 0, len(at) - 2)


def linear(x: Array, at: Array, values: Array) -> Array:
    """The values at numbers x (n,), linear between knots and beyond."""
    j = _pieces(x, at)
    return np.asarray(values[j] + (x - at[j]) * (values[j + 1] - values[j]) / (at[j + 1] - at[j]))
