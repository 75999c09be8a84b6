"""Data frames put together from the arrays of their columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .._backend.arrays import Array
from . import lazy_pandas as pd

PLAIN_KINDS = "iufb"
"""NumPy's whole numbers, floats and truth values, which need nothing of pandas."""


def frame_of(arrays: Mapping[str, Array | pd.api.extensions.ExtensionArray]) -> pd.DataFrame:
    """The frame of columns by name; those of one of NumPy's dtypes are put together, in a fraction of the time."""
    groups: dict[np.dtype, list[str]] = {}
    for name, array in arrays.items():
        if isinstance(array, np.ndarray):
            groups.setdefault(array.dtype, []).append(name)
    blocks = [pd.DataFrame(np.stack([arrays[name] for name in names], 1), columns=names) for names in groups.values()]
    grouped = {name for names in groups.values() for name in names}
    others = {name: array for name, array in arrays.items() if name not in grouped}
    if others:
        blocks.append(pd.DataFrame(others))
    return in_order(blocks, list(arrays))


def in_order(blocks: list[pd.DataFrame], names: list[str]) -> pd.DataFrame:
    """The columns of several frames in one, in the order of these names."""
    if len(blocks) == 1:
        return blocks[0]
    return pd.concat(blocks, axis=1)[names]
