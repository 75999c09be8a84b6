"""Groups of components: their directions, which p_beta draws, and their lengths, which draws keep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array

FIRST_GROUP = 4
"""Components in the first group; each further group has twice as many as the one before."""
MARKET_SHARE = 0.75
"""Share of the market in the squared norm of a row. Noise is alike in all dimensions of a row, so that it changes the
size of the market a little and turns the other directions far. With this share, 8 to 26 % of draws (10 to 200 columns)
have the day that they were drawn around as their nearest stored day. With no more noise than equal shares of all
dimensions give, 22 to 90 % do."""


class Groups(NamedTuple):
    """Groups of consecutive components, and the share of each in the squared norm of a row."""

    sizes: Array  # (groups,)
    shares: Array  # (groups,), adding up to one

    @classmethod
    def of(cls, c: int, market: bool) -> Groups:
        """Groups of c components with equal shares of all dimensions; market: the first component by itself."""
        if not market:
            sizes = group_sizes(c)
            return cls(sizes, sizes / c)
        sizes = group_sizes(c - 1)
        shares = (MARKET_SHARE, *(1 - MARKET_SHARE) * sizes / (c - 1))
        return cls(np.array([1, *sizes]), np.array(shares))

    def by_component(self, values: Array) -> Array:
        """Values of groups for each of their components: (..., groups) -> (..., c)."""
        return np.repeat(values, self.sizes, axis=-1)

    def lengths(self, z: Array) -> Array:
        """Lengths of the groups of components: (n, c) -> (n, groups)."""
        return np.sqrt(np.add.reduceat(np.square(z), np.cumsum(self.sizes) - self.sizes, axis=1))

    def with_lengths(self, z: Array, lengths: Array) -> Array:
        """Components (n, c) with the same directions, and groups of these lengths (n, groups): (n, c)."""
        return z * self.by_component(lengths / np.maximum(self.lengths(z), 1e-300))

    def split(self, z: Array) -> tuple[Array, Array]:
        """Components (n, c) as directions of groups, of unit norm together: (n, c); and lengths (n, groups)."""
        lengths, starts = self.lengths(z), np.cumsum(self.sizes) - self.sizes
        # A group of length zero has no direction. Any will do, at a length too small to be seen.
        smallest = 1e-12 * max(float(lengths.max(initial=0.0)), 1e-300)
        zero = lengths <= smallest
        lengths = np.where(zero, smallest, lengths)
        directions = np.where(self.by_component(zero), 0.0, z / self.by_component(lengths))
        directions[:, starts] = np.where(zero, 1.0, directions[:, starts])
        return directions * self.by_component(np.sqrt(self.shares)), lengths


def group_sizes(c: int) -> Array:
    """Sizes 4, 8, 16 … of the groups that c components are taken in; the last has all that remain.

    >>> group_sizes(30)
    array([ 4,  8, 18])
    """
    sizes, size = [], FIRST_GROUP
    while c >= 3 * size:  # this group, and at least one of twice its size after it
        sizes.append(size)
        c, size = c - size, 2 * size
    return np.array([*sizes, c])
