"""The paper's way from a state back to returns: an attention-weighted mean of stored days, corrected in each ticker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ...core.energy import attend
from ...core.memory import MemoryBank

N_FOR_CORRECTION = 4096
"""Draws that the affine correction is measured on; always the same ones."""


class Correction(NamedTuple):
    """A fixed affine map of each ticker: what it gives does not depend on how many values it is given at once."""

    gain: Array  # (N,)
    shift: Array  # (N,)

    @classmethod
    def measured(cls, bank: MemoryBank, betas: Sequence[float], history: Array) -> Correction:
        """The map that gives projected draws, at these betas taken together, the mean and deviation of days (T, N)."""
        rng, r = np.random.default_rng(0), np.exp(bank.log_r)
        each = -(-N_FOR_CORRECTION // len(betas))
        parts = []
        for beta in betas:
            k = rng.choice(bank.K, each, p=r / r.sum())
            xi = bank.patterns[k] + rng.standard_normal((len(k), bank.d)) / math.sqrt(beta)
            parts.append(attend(xi, bank, beta, values=bank.values).reshape(-1, history.shape[1]))
        raw = np.concatenate(parts)
        spread = raw.std(0)
        gain = np.where(spread > 1e-12, history.std(0) / np.where(spread > 1e-12, spread, 1.0), 1.0)
        return cls(gain, history.mean(0) - gain * raw.mean(0))

    def __call__(self, values: Array) -> Array:
        """Projected values (..., N), corrected."""
        return values * self.gain + self.shift


class Projection(NamedTuple):
    """M softmax(beta X xi) with a fixed affine correction of each ticker, so that blocks of draws are treated alike."""

    bank: MemoryBank
    beta: float
    correction: Correction

    @classmethod
    def at(cls, bank: MemoryBank, beta: float, history: Array) -> Projection:
        """The projection whose draws have the historical (T, N) mean and standard deviation in each ticker."""
        return cls(bank, beta, Correction.measured(bank, (beta,), history))

    def items(self, xi: Array, shape: tuple[int, int, int]) -> Array:
        """States (n, d) as log-returns of this shape, (n, window, N)."""
        return self.correction(attend(xi, self.bank, self.beta, values=self.bank.values).reshape(shape))
