"""Stratified choices of kernels: each stored row is drawn around as often as its weight says, without lumps."""

from __future__ import annotations

import math

import numpy as np

from .._backend.arrays import Array
from ..core.mixture import pick


def stratified(log_weights: Array, n: int, rng: np.random.Generator) -> Array:
    """Kernels (n,) of weights (K,), chosen in rounds of K: the first m of n are those of a call for m.

    In each round, one uniform number lies in each of K intervals of length 1/K, in random order. Every number is
    uniform, so that each draw has the law of the mixture; equal weights choose each kernel once in a round.
    Independent choices would leave out a third of the kernels among K draws, and draw around others three times.
    """
    orders, inside = rng.spawn(2)
    K = len(log_weights)
    places = np.array([orders.permutation(K) for _ in range(math.ceil(n / K))]).ravel()
    u = (places[:n] + inside.random(n)) / K
    return np.asarray(pick(np.cumsum(np.exp(log_weights)), u))
