"""The generator "deformations": stored pictures of other shapes or levels, and the patch generator under conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from .._backend.arrays import Array
from ..core.neighbors import nearest_distances
from .base import Description, Generated, few_sources
from .deformations import Deformations, ScaleRule, Vary
from .patches import ConditionedPixels, PatchGenerator
from .picture_comparison import Features

CONDITIONED = "conditioned pictures are drawn by the generator 'patches', which keeps pixels in place."
N_BEST, MIN_COMMON = 10, 0.8
"""Stored pictures that fit a condition best, and the share of them that must have one class for it to be chosen."""
MIN_SHARE, MAX_FITTING = 1 / 8, 3
"""A condition on this share of a picture or more leaves little to vary if so few stored pictures, or fewer, fit it as
well as pictures usually fit their nearest one."""


@dataclass(frozen=True, eq=False)
class DeformationGenerator:
    """New pictures, each a stored one of another shape, or with other levels."""

    levels: Array  # (K_kept, h, w) or (K_kept, h, w, 3) stored pictures of positive weight, floats in [0, 1]
    weights: Array  # (K_kept,) how often each of them counts
    kept: Array  # (K_kept,) their indices among all stored pictures
    labels: Array | None = None  # (K_kept,) their classes
    scale: float | None = None  # None for the matched-distance rule
    vary: Vary | None = None  # None for levels where the stored pictures have no shapes in common
    features: Features | None = None  # what distances are measured in, in place of pixels
    scale_rule: ScaleRule | None = None  # how the scale was set, where it was found before
    known: Deformations | None = None  # those of the same pictures with other weights or another scale
    block_items: ClassVar[int] = 64
    adjustable: ClassVar[frozenset[str]] = frozenset({"scale", "vary"})

    @classmethod
    def fit(
        cls,
        levels: Array,
        weights: Array,
        labels: Sequence[str] | None = None,
        scale: float | None = None,
        vary: Vary | None = None,
        features: Features | None = None,
        scale_rule: ScaleRule | None = None,
    ) -> DeformationGenerator:
        """The generator of stored pictures (K, h, w[, 3]) that count `weights` (K,) times."""
        kept = np.flatnonzero(weights > 0)
        of_kept = None if labels is None else np.array(labels)[kept]
        return cls(levels[kept], np.asarray(weights)[kept], kept, of_kept, scale, vary, features, scale_rule)

    def adjusted(
        self, weights: Array, *, scale: float | None = None, vary: str | None = None
    ) -> DeformationGenerator | None:
        """The same local laws with other weights (K,), scale or choice of what varies; None where other pictures count.

        Neighbours are found among the pictures that count, and fields in units of their levels.
        """
        if not np.array_equal(np.flatnonzero(weights > 0), self.kept):
            return None
        known = vars(self).get("model", self.known)  # a model that is not needed yet is not found here
        chosen = None if vary is None else Vary(vary)
        of_kept = np.asarray(weights)[self.kept]
        return replace(self, weights=of_kept, scale=scale, vary=chosen, scale_rule=None, known=known)

    @cached_property
    def model(self) -> Deformations:
        """The local laws. The scale is searched for here, when it is first needed."""
        return Deformations(
            self.levels,
            np.log(self.weights),
            labels=self.labels,
            scale=self.scale,
            vary=self.vary,
            features=self.features,
            known=self.known,
        )

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new pictures (n, h, w[, 3]) as levels, and the stored one that each is a deformation of."""
        drawn, source = self.model.draw(n, int(rng.integers(2**63)))
        return Generated(np.asarray(drawn), self.kept[source])

    def condition(self, observation: ConditionedPixels) -> PatchGenerator:
        """The patch generator of pictures that have these values: a deformation would move them.

        It combines pictures of the class that nearly all of those that fit best have, if there is one.
        """
        rows = self.levels[:, observation.pixels | observation.rectangles].astype(np.float64)
        values = observation.levels[observation.pixels | observation.rectangles]
        distances = np.sqrt(((rows - values) ** 2).sum(1))
        notes, chosen = [CONDITIONED], np.ones(len(rows), dtype=bool)
        given = [name for name in ("scale", "vary", "features") if getattr(self, name) is not None]
        if given and self.scale_rule is None:
            notes.append(f"{' and '.join(given)} had no effect, because no lines are moved.")
        name = None if self.labels is None else _common(self.labels[np.argsort(distances, kind="stable")[:N_BEST]])
        if self.labels is not None and name is not None:
            chosen = self.labels == name
            notes.append(f"they are combined from stored pictures of the class {name}, which fit the condition best.")
        if rows.shape[1] >= MIN_SHARE * self.levels[0].size:
            typical = float(np.median(nearest_distances(rows)))
            fitting = int((distances[chosen] <= typical).sum())
            if fitting <= MAX_FITTING:
                notes.append(f"{few_sources(fitting, 'picture')}, and many are near-copies.")
        found = ConditionedPictures(self.levels[chosen], self.weights[chosen], self.kept[chosen], observed=tuple(notes))
        return found.condition(observation)

    def describe(self) -> Description:
        """What varies, the scale and how it was set, and the number of neighbours."""
        model = self.model
        rule = model.scale_rule if self.scale_rule is None else self.scale_rule
        seen = "" if self.features is None else " by features"
        how = f"as the nearest{seen} ({model.n_neighbors}) differ from them"
        moved = f"stored pictures moved {how}"
        levels = f"stored pictures with other levels, {how}"
        summary = f"{moved if model.vary is Vary.SHAPES else levels}, scale {model.scale:.3g} ({rule.value})"
        note = "the stored pictures have no shapes in common, so that levels vary; vary='shapes' moves their lines."
        notes = (note,) if self.vary is None and model.vary is Vary.LEVELS else ()
        found = {"scale": model.scale, "scale_rule": rule.name, "vary": model.vary.value}
        return Description("deformations", summary, notes, resolved=found)


def _common(names: Array) -> str | None:
    """The class that nearly all of these pictures have, if there is one."""
    classes, counts = np.unique(names, return_counts=True)
    return str(classes[counts.argmax()]) if counts.max() >= MIN_COMMON * len(names) else None


@dataclass(frozen=True, eq=False)
class ConditionedPictures(PatchGenerator):
    """The patch generator in place of deformations, under conditions."""

    observed: tuple[str, ...] = ()  # what is known about the draws, a line each

    def describe(self) -> Description:
        """That of the patch generator; its radius is no option of deformations."""
        return replace(super().describe(), notes=self.observed, resolved={})
