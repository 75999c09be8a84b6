"""Arrays as users may pass or save them: dtypes, byte orders, strides, scales, missing values, subclasses."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

SHAPES = ((20, 3), (7, 12), (6, 8, 8), (5, 6, 6, 3), (2, 2), (1, 4), (0, 3), (9, 1), (12,), (), (4, 4, 4, 4, 4), (3, 0))
DTYPES = ("<f8", ">f8", "<f4", ">f4", "<f2", "u1", "<i2", ">i4", "<u8", "?", "<c8", "<M8[D]", "<U3", "S2")
SCALES = (1.0, 255.0, 0.0, 1e-300, 1e-155, 1e-40, 1e9, 1e77, 1e155, 1e300)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """An array of random numbers of any form."""
    shape, dtype = draw(st.sampled_from(SHAPES)), np.dtype(draw(st.sampled_from(DTYPES)))
    values = np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape) * draw(st.sampled_from(SCALES))
    with np.errstate(all="ignore"):
        array = np.zeros(shape, dtype) if dtype.kind == "M" else np.asarray(values).astype(dtype)
    if dtype.kind == "f" and array.size:
        for place in draw(st.lists(st.integers(0, array.size - 1), max_size=2)):
            array.reshape(-1)[place] = draw(st.sampled_from([np.nan, np.inf, -np.inf, 0.0, np.finfo(dtype).max]))
    if array.ndim and len(array) and draw(st.booleans()):
        array[-1] = array[0] if draw(st.booleans()) else 0
    return array


@st.composite
def arrays_in_memory(draw: st.DrawFn) -> np.ndarray:
    """An array with strides, flags or a subclass that a file cannot have."""
    array = draw(arrays())
    form = draw(st.sampled_from(["plain", "every second", "reversed", "transposed", "read-only", "subclass", "masked"]))
    if form == "every second" and array.ndim:
        return np.repeat(array, 2, axis=0)[::2]
    if form == "reversed" and array.ndim:
        return array[::-1]
    if form == "transposed":
        return np.asfortranarray(array)
    if form == "read-only":
        array.flags.writeable = False
    if form == "subclass" and array.ndim == 2:
        return np.asmatrix(array)
    return np.ma.masked_array(array) if form == "masked" else array
