"""Pictures as rows of a memory bank, for the generator "hopfield"; conditioned pixels as equations of coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ..._backend.arrays import Array
from ...generators.coordinates import Coordinates
from ...generators.hopfield import LinearEmbedding, LinearObservation
from ...generators.patches import ConditionedPixels
from ..options import InputError

MAX_EQUATIONS = 1000
"""Equations of a condition; the time to solve them grows with the square of their number."""
NEGLIGIBLE = 1e-9
"""Singular values below this share of the largest are rounding errors."""


@dataclass(frozen=True, eq=False)
class ImageEmbedding(LinearEmbedding):
    """Levels are linear in coordinates.

    notes: what a user must know about draws, a line each
    """

    notes: tuple[str, ...] = ()

    def observe(self, observation: ConditionedPixels) -> tuple[LinearObservation, Self]:  # type: ignore[override]
        """The equations A z = y, and the embedding with a note where a rectangle is met in part.

        Single pixels are met exactly. Pictures that vary in K − 1 directions are determined by as many pixels, so that
        a large rectangle would only return its own picture: it takes at most half of the directions, those that
        explain most of it.
        """
        coordinates = self.coordinates
        A, y = _equations(observation.pixels, observation.levels, coordinates)
        shortest, basis = _solve_exactly(A, y, observation, coordinates)
        if not observation.rectangles.any():
            return LinearObservation(A, y), self
        more, levels = _equations(observation.rectangles, observation.levels, coordinates)
        if coordinates.outward is None:
            return LinearObservation(np.concatenate([A, more]), np.concatenate([y, levels])), self
        # Only directions that single pixels leave free can serve the rectangle, so that both are met together.
        left, sizes, right = np.linalg.svd(more - more @ basis.T @ basis, full_matrices=False)
        rank = int((sizes > NEGLIGIBLE * np.linalg.norm(more)).sum())
        r = min(rank, max(min(coordinates.d // 2, MAX_EQUATIONS) - len(basis), 1))
        targets = left[:, :r].T @ (levels - more @ shortest) / sizes[:r]
        observed = LinearObservation(np.concatenate([A, right[:r]]), np.concatenate([y, targets]))
        if r == rank:
            return observed, self
        share = float((sizes[:r] ** 2).sum() / max((sizes**2).sum(), np.finfo(float).tiny))
        note = (
            f"the conditioned rectangle is met in {r} of {rank} directions, {share:.0%} of its variation: all of them "
            "would leave nothing to vary outside it."
        )
        return observed, replace(self, notes=(*self.notes, note))


def _equations(mask: Array, levels: Array, coordinates: Coordinates) -> tuple[Array, Array]:
    """That the masked features have these levels: (r, d), (r,)."""
    indices = np.flatnonzero(mask)
    if coordinates.outward is None and len(indices) > MAX_EQUATIONS:
        raise InputError(
            f"the conditions name {len(indices):,} values, and at most {MAX_EQUATIONS:,} can be met without principal "
            "components: choose a smaller rectangle, or the default variance."
        )
    return coordinates.observation(indices, levels.ravel()[indices])


def _solve_exactly(A: Array, y: Array, asked: ConditionedPixels, coordinates: Coordinates) -> tuple[Array, Array]:
    """The shortest z with A z = y, (d,), and an orthonormal basis of A's rows, (r, d); InputError if there is none."""
    if not len(A):
        return np.zeros(coordinates.d), np.zeros((0, coordinates.d))
    constant = np.abs(A).sum(1) <= NEGLIGIBLE
    for i in np.flatnonzero(constant & (np.abs(y) > 1e-6)):
        place = tuple(np.argwhere(asked.pixels)[i])
        level, always = asked.levels[place] * 255, coordinates.mean.reshape(asked.levels.shape)[place] * 255
        raise InputError(
            f"the pixel in row {place[0]} and column {place[1]}, counted from 0, cannot be {level:g}: it is "
            f"{always:.0f} in every stored picture, and so in every new one."
        )
    left, sizes, right = np.linalg.svd(A, full_matrices=False)
    solid = sizes > NEGLIGIBLE * sizes[0]
    inside = left[:, solid].T @ y
    if np.linalg.norm(y - left[:, solid] @ inside) > 1e-6 * max(1.0, float(np.linalg.norm(y))):
        raise InputError(
            f"these {len(y)} levels cannot be met together: the stored pictures vary in {coordinates.d} directions. "
            "Condition on fewer pixels."
        )
    return right[solid].T @ (inside / sizes[solid]), right[solid]
