"""The generator "deformations": stored pictures of other shapes, and the patch generator under conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from .._backend.arrays import Array
from .base import Description, Generated
from .deformations import Deformations
from .patches import ConditionedPixels, PatchGenerator


@dataclass(frozen=True, eq=False)
class DeformationGenerator:
    """New pictures, each a stored one of another shape."""

    levels: Array  # (K_kept, h, w) or (K_kept, h, w, 3) stored pictures of positive weight, floats in [0, 1]
    weights: Array  # (K_kept,) how often each of them counts
    kept: Array  # (K_kept,) their indices among all stored pictures
    labels: Array | None = None  # (K_kept,) their classes
    scale: float | None = None  # None for the matched-distance rule
    block_items: ClassVar[int] = 64
    adjustable: ClassVar[frozenset[str]] = frozenset({"scale"})

    @classmethod
    def fit(
        cls, levels: Array, weights: Array, labels: Sequence[str] | None = None, scale: float | None = None
    ) -> DeformationGenerator:
        """The generator of stored pictures (K, h, w[, 3]) that count `weights` (K,) times."""
        kept = np.flatnonzero(weights > 0)
        of_kept = None if labels is None else np.array(labels)[kept]
        return cls(levels[kept], np.asarray(weights)[kept], kept, of_kept, scale)

    def adjusted(self, weights: Array, *, scale: float | None = None) -> DeformationGenerator | None:
        """The same local laws at another scale; None where a rule must choose it, or weights (K,) are others."""
        same = np.array_equal(np.flatnonzero(weights > 0), self.kept) and np.array_equal(
            weights[self.kept], self.weights
        )
        if scale is None or not same:
            return None
        other = replace(self, scale=scale)
        vars(other)["model"] = self.model.with_scale(scale)
        return other

    @cached_property
    def model(self) -> Deformations:
        """The local laws. The scale is searched for here, when it is first needed."""
        return Deformations(self.levels, np.log(self.weights), labels=self.labels, scale=self.scale)

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new pictures (n, h, w[, 3]) as levels, and the stored one that each is a deformation of."""
        drawn, source = self.model.draw(n, int(rng.integers(2**63)))
        return Generated(np.asarray(drawn), self.kept[source])

    def condition(self, observation: ConditionedPixels) -> PatchGenerator:
        """The patch generator of pictures that have these values: a deformation would move them."""
        return ConditionedPictures(self.levels, self.weights, self.kept).condition(observation)

    def describe(self) -> Description:
        """The scale and how it was set, and the number of neighbours."""
        model = self.model
        scale = f"scale {model.scale:.3g} ({model.scale_rule.value})"
        summary = f"stored pictures moved as the nearest ({model.n_neighbors}) differ from them, {scale}"
        note = "the stored pictures differ in their levels and hardly in shape: choose the generator 'patches'."
        notes = () if model.differ_in_shape else (note,)
        return Description("deformations", summary, notes, resolved={"scale": model.scale})


@dataclass(frozen=True, eq=False)
class ConditionedPictures(PatchGenerator):
    """The patch generator in place of deformations, under conditions."""

    def describe(self) -> Description:
        """That of the patch generator; its radius is no option of deformations."""
        note = "conditioned pictures are drawn by the generator 'patches', which keeps pixels in place."
        return replace(super().describe(), notes=(note,), resolved={})
