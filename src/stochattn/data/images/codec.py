"""Pictures and their levels: uint8 items of one size, floats in [0, 1] for generators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from ..base import Codec, Conditioned
from ..options import InputError
from .conditions import conditioned_pixels


@dataclass(frozen=True, eq=False)
class ImageCodec(Codec):
    """Pictures of one size, grey (n, h, w) or RGB (n, h, w, 3), uint8.

    class_size: pictures of the largest class in the data that this codec was refitted from; None if it was not
    """

    stored: Array
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    class_size: int | None = None

    def require_variety(self, where: str) -> Self:
        """The same codec; InputError, which names `where` the pictures are from, if there is nothing to vary."""
        if self.K < 2:
            raise InputError(f"{where} holds one picture, and at least two are needed: add others like it.")
        if (self.stored == self.stored[:1]).all():
            raise InputError(f"{where}: the pictures are all alike, and there is nothing to vary. Add different ones.")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a picture: (h, w) or (h, w, 3)."""
        return tuple(self.stored.shape[1:])

    def encode(self, items: Array) -> Array:
        """Levels from 0 to 1: (n, h, w[, 3]) float32."""
        return np.asarray(items).astype(np.float32) / 255

    def decode(self, arrays: Array, source: Array | None = None) -> Array:
        """Levels from 0 to 1 as pictures, rounded and clipped: (n, h, w[, 3]) uint8."""
        return np.clip(np.rint(arrays * 255), 0, 255).astype(np.uint8)

    def features(self, items: Array) -> Array:
        """Levels from 0 to 1: (n, h·w) or (n, h·w·3) float64."""
        return np.asarray(items).reshape(len(items), -1) / 255.0

    def condition(self, values: Mapping[object, object]) -> Conditioned:
        """Pixels {(row, column): level} and rectangles {((top, bottom), (left, right)): picture}, counted from 0.

        level:   from 0 to 255, or three of them for red, green and blue
        picture: the id of a stored picture, an array (h, w[, 3]) from which the rectangle is read, or an array of the
                 rectangle itself. `bottom` and `right` are excluded, as in a slice; slices are accepted where Python
                 can hash them (3.12 and later)
        """
        return Conditioned(self, conditioned_pixels(values, self.stored, self.ids))

    def largest_class(self, counted: Array) -> int:
        """Pictures of the largest class, or of all without classes, among those that are `counted` (K,) booleans."""
        if self.class_size is not None:
            return self.class_size
        return max(Counter("" if self.labels is None else self.labels[i] for i in np.flatnonzero(counted)).values())

    def refit(self, items: Array) -> ImageCodec:
        """A codec of other pictures of the same shape. It remembers the size of this one's classes."""
        ids = tuple(str(i + 1) for i in range(len(items)))
        class_size = self.largest_class(np.ones(self.K, dtype=bool))
        return ImageCodec(np.asarray(items), ids, class_size=class_size).require_variety(
            "a part of the stored pictures"
        )

    def state(self) -> dict[str, Plain]:
        """Its fields."""
        return dict(vars(self))
