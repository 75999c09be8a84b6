"""The host side of `tiled_programs.py`: chains of any number of dimensions and memories."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from . import tiled_programs
from .memories import PaddedMemories, split_float

SIDE = 64  # columns and memories are padded to multiples of it
ROWS, FEW = 128, 16  # chains are padded to multiples of ROWS; FEW of them are moved by a program
LENGTH = 16.0  # of the longest memory: the low parts of its entries are then well above the smallest float16
MAX_BYTES = 2**32  # of logits and weights: more chains are advanced one part after the other


class Tile(NamedTuple):
    """Rows, columns and depth of the tiles of a product, and how many warps and stages it is compiled for."""

    rows: int
    columns: int
    depth: int
    num_warps: int
    num_stages: int

    @property
    def compilation(self) -> dict[str, int]:
        """Options of the compiler."""
        return {"num_warps": self.num_warps, "num_stages": self.num_stages}


WIDE, NARROW = Tile(128, 128, 64, 8, 3), Tile(64, 64, 64, 4, 3)
INTERPRETED = Tile(ROWS, SIDE, SIDE, 1, 1)  # the interpreter takes as long for a small tile as for a large one


class Counters(NamedTuple):
    """The key of the random numbers, the first chain and the first step."""

    key: int
    chain: int
    step: int


class TiledChains:
    """Chains on memories (K, r) whose states are too large for the registers of a block."""

    def __init__(
        self, program: str, patterns: Tensor, log_r: Tensor, alpha: float, codimension: int, widest: Tile = WIDE
    ) -> None:
        self.program, self.alpha, self.codimension, self.widest = program, alpha, codimension, widest
        sizes = (triton.cdiv(size, SIDE) * SIDE for size in patterns.shape)
        self.memories = PaddedMemories.of(patterns, log_r, *sizes, length=LENGTH)
        self.columns = self.memories.high.T.contiguous(), self.memories.low.T.contiguous()
        self.fits = self.memories.fits

    def advance(
        self, xi: Tensor, along: Tensor, across: Tensor, counters: tuple[int, int, int], beta: float, steps: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """States (n, r), the two lengths of `RadialComplement`, and the number of rejected proposals, (n,) each."""
        unit, counters = self.memories.unit, Counters(*counters)
        at_once = max(MAX_BYTES // (8 * len(self.memories.high)) // ROWS, 1) * ROWS
        parts = []
        for first in range(0, max(len(xi), 1), at_once):
            rows = slice(first, first + at_once)
            here = counters._replace(chain=counters.chain + first)
            chunk = Chunk(self.memories, self.columns, xi[rows], along[rows], across[rows], here, self.widest)
            with torch.cuda.device_of(xi):
                if self.program == "ula":
                    chunk.ula(self.alpha, beta * unit**2, steps)
                else:
                    chunk.mala(self.alpha, beta * unit**2, steps, self.codimension)
            parts.append(chunk.result())
        u, along, across, n_rejected = (torch.cat(part) for part in zip(*parts, strict=True))
        return u * unit, along * unit, across * unit, n_rejected


class Chunk:
    """Chains that are advanced together: their states in units of the memories, and room for logits and weights."""

    def __init__(
        self,
        memories: PaddedMemories,
        columns: tuple[Tensor, Tensor],
        xi: Tensor,
        along: Tensor,
        across: Tensor,
        counters: Counters,
        widest: Tile,
    ) -> None:
        self.memories, self.columns, self.counters, self.n = memories, columns, counters, len(xi)
        (K, R), rows = memories.high.shape, triton.cdiv(len(xi), ROWS) * ROWS
        self.fast, self.rows, self.widest = xi.is_cuda, rows, widest
        self.u = xi.new_zeros(rows, R)
        self.u[: self.n, : memories.r] = xi / memories.unit
        self.high, self.low = split_float(self.u, 1)
        self.along, self.across = (_pad(length / memories.unit, rows) for length in (along, across))
        self.rejected = torch.zeros(rows, dtype=torch.int32, device=xi.device)
        self.logits, self.total, self.lse = xi.new_empty(rows, K), xi.new_empty(rows), xi.new_empty(rows)
        self.weights = tuple(xi.new_empty((rows, K), dtype=torch.half) for _ in range(2))
        self.scoring, self.reading = (self._tile(size) for size in (K, R))
        self.top = xi.new_empty(rows, K // self.scoring.columns)

    def result(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """States, lengths outside and rejected proposals of the chains."""
        u = self.u[: self.n, : self.memories.r]
        return u, self.along[: self.n], self.across[: self.n], self.rejected[: self.n]

    def ula(self, alpha: float, beta: float, steps: int) -> None:
        """Algorithm 1, `steps` times."""
        K, R = self.memories.high.shape
        for step in range(self.counters.step, self.counters.step + steps):
            self._weigh(beta)
            tiled_programs.read_out_ula[self._grid(self.reading, R)](
                *self.weights, self.total, *self.columns, self.u, self.high, self.low, K,
                self.counters.key, self.counters.chain, step, alpha, beta,
                R=R, C=self.reading.rows, D=self.reading.columns, S=self.reading.depth, FAST=self.fast,
                **self.reading.compilation,
            )  # fmt: skip

    def mala(self, alpha: float, beta: float, steps: int, codimension: int) -> None:
        """Algorithm 2, `steps` times; the acceptance ratio is the one of samplers/mala.py."""
        K, R = self.memories.high.shape
        states, attended = (torch.stack([self.u, self.u]) for _ in range(2))
        current, potential = torch.zeros_like(self.rejected), torch.empty_like(self.total)
        slopes, moves = (self.u.new_empty(self.rows, R // self.reading.columns) for _ in range(2))
        parts, few = slopes.shape[1], FEW if self.fast else ROWS

        def evaluate() -> None:
            self._weigh(beta)
            tiled_programs.read_out_mala[self._grid(self.reading, R)](
                *self.weights, self.total, *self.columns, states, attended, current, slopes, moves, K, self.rows,
                R=R, C=self.reading.rows, D=self.reading.columns, S=self.reading.depth, **self.reading.compilation,
            )  # fmt: skip

        def decide(step: int, first: bool) -> None:
            tiled_programs.decide[(self.rows // ROWS,)](
                self.lse, slopes, moves, potential, self.along, self.across, current, self.rejected,
                parts, self.counters.key, self.counters.chain, step, alpha, beta, codimension,
                C=ROWS, PARTS=triton.next_power_of_2(parts), OUTSIDE=min(codimension, 5), FIRST=first, FAST=self.fast,
            )  # fmt: skip

        evaluate()
        decide(self.counters.step, first=True)
        for step in range(self.counters.step, self.counters.step + steps):
            tiled_programs.propose[R // SIDE, self.rows // few](
                states, attended, current, self.high, self.low, self.memories.r, self.rows,
                self.counters.key, self.counters.chain, step, alpha, beta,
                R=R, C=few, D=SIDE, FAST=self.fast,
            )  # fmt: skip
            evaluate()
            decide(step, first=False)
        self.u = torch.where(current[:, None] > 0, states[1], states[0])

    def _weigh(self, beta: float) -> None:
        """Compute the weights at the states whose float16 parts are stored."""
        (K, R), tops = self.memories.high.shape, self.top.shape[1]
        tiled_programs.scores[self._grid(self.scoring, K)](
            self.high, self.low, *self.memories[:3], self.logits, self.top, K, beta,
            R=R, C=self.scoring.rows, B=self.scoring.columns, S=self.scoring.depth, **self.scoring.compilation,
        )  # fmt: skip
        depth = min(triton.next_power_of_2(K), 512)
        C = 2048 // depth if self.fast else ROWS
        tiled_programs.weigh[(self.rows // C,)](
            self.logits, self.top, *self.weights, self.total, self.lse, K, tops,
            C=C, S=depth, TOPS=triton.next_power_of_2(tops), num_warps=2,
        )  # fmt: skip

    def _grid(self, tile: Tile, width: int) -> tuple[int, int]:
        return width // tile.columns, self.rows // tile.rows

    def _tile(self, width: int) -> Tile:
        if not self.fast:
            return INTERPRETED
        return NARROW if width % self.widest.columns else self.widest


def _pad(x: Tensor, rows: int) -> Tensor:
    out = x.new_zeros(rows)
    out[: len(x)] = x
    return out
