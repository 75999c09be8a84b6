"""Levels of pictures that people look at, on a page or on a contact sheet. Files of new pictures keep their levels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._backend.arrays import Array

WHITE = 255
MIN_RANGE = 128  # stored pictures with fewer levels between the darkest and the brightest are hard to see


class ShownLevels(NamedTuple):
    """The levels that are shown as black and as white."""

    low: int = 0
    high: int = WHITE

    @classmethod
    def of(cls, stored: Array) -> ShownLevels:
        """The range of stored pictures if it is small, as that of digits with levels from 0 to 16; else all levels.

        One range for all pictures lets new ones be compared with stored ones.
        """
        low, high = int(stored.min()), int(stored.max())
        return cls(low, high) if 0 < high - low < MIN_RANGE else cls()

    @property
    def is_narrow(self) -> bool:
        """Whether pictures are shown with other levels than they have."""
        return self != ShownLevels()

    def stretched(self, images: Array) -> Array:
        """Pictures (..., h, w[, 3]) of levels low … high, as levels 0 … 255; levels beyond them are black or white."""
        if not self.is_narrow:
            return images
        share = (images.astype(np.float32) - self.low) / (self.high - self.low)
        return np.clip(np.rint(WHITE * share), 0, WHITE).astype(np.uint8)
