"""Memories as the kernels read them: padded, scaled by a power of two, and split into two float16 numbers each."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

MAX_ENTRY = 1e4  # of a state: float16 ends at 65,504


def split_float(x: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """x as high + low/factor, both float16."""
    high = x.half()
    return high, ((x - high.float()) * factor).half()


class PaddedMemories(NamedTuple):
    """Memories (K, r) in a matrix of more rows and columns, which are zero. Lengths are in units of `unit`."""

    high: Tensor
    low: Tensor
    bias: Tensor  # log multiplicities, −inf for rows beyond K
    r: int
    unit: float  # a power of two, so that dividing by it is exact
    length: float  # of the longest memory, about, in these units

    @classmethod
    def of(
        cls, patterns: Tensor, log_r: Tensor, n_rows: int, n_columns: int, *, length: float = 1.0, factor: float = 1.0
    ) -> PaddedMemories:
        """Memories (K, r) in a matrix of this size. length: of the longest, about; factor: scales the low parts."""
        K, r = patterns.shape
        longest = float(patterns.norm(dim=1).max())
        unit = 2.0 ** math.ceil(math.log2(longest)) / length if longest else 1.0
        padded = patterns.new_zeros(n_rows, n_columns)
        padded[:K, :r] = patterns / unit
        bias = torch.full_like(padded[:, 0], -math.inf)
        bias[:K] = log_r
        return cls(*split_float(padded, factor), bias, r, unit, length)

    def fits(self, xi: Tensor, beta: float) -> bool:
        """Whether float16 can hold these states, and the noise at this temperature."""
        return bool(xi.abs().max() < MAX_ENTRY * self.unit) and beta * (self.length * self.unit) ** 2 > 1e-4
