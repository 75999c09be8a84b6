"""The paper's way from a state back to returns: an attention-weighted mean of stored days, corrected in each ticker."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..._arrays import Array
from ...energy import attend
from ...memory import MemoryBank

N_FOR_CORRECTION = 4096
"""Draws that the affine correction is measured on; always the same ones."""


class Projection(NamedTuple):
    """M softmax(beta X xi) with a fixed affine correction of each ticker, so that blocks of draws are treated alike."""

    bank: MemoryBank
    beta: float
    gain: Array  # (N,)
    shift: Array  # (N,)

    @classmethod
    def at(cls, bank: MemoryBank, beta: float, history: Array) -> Projection:
        """The projection whose draws have the historical (T, N) mean and standard deviation in each ticker."""
        rng = np.random.default_rng(0)
        r = np.exp(bank.log_r)
        k = rng.choice(bank.K, N_FOR_CORRECTION, p=r / r.sum())
        xi = bank.patterns[k] + rng.standard_normal((len(k), bank.d)) / math.sqrt(beta)
        raw = attend(xi, bank, beta, values=bank.values).reshape(-1, history.shape[1])
        spread = raw.std(0)
        gain = np.where(spread > 1e-12, history.std(0) / np.where(spread > 1e-12, spread, 1.0), 1.0)
        return cls(bank, beta, gain, history.mean(0) - gain * raw.mean(0))

    def items(self, xi: Array, shape: tuple[int, int, int]) -> Array:
        """States (n, d) as log-returns of this shape, (n, window, N)."""
        return attend(xi, self.bank, self.beta, values=self.bank.values).reshape(shape) * self.gain + self.shift
