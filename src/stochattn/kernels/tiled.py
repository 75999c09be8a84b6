"""One step of chains in many dimensions, or on many memories, as products of tiles.

A state of several hundred dimensions does not fit the registers of a block, so a step takes a few launches: `scores`
multiplies states and memories, `weigh` turns logits into weights, and `read_out` multiplies weights and memories and,
for ULA, moves the states. MALA also has `propose` and `decide`. Products are of float16 pairs, as in `programs.py`, but
x is high + low: the units of states and memories are so small that low is accurate. Products take nearly all of the
time; a product whose weights are made in registers takes three times as long. Rows are padded, so that no tile is cut.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from .numbers import exponential, normals
from .programs import ACCEPT, LN2, LOG2E, STEP, propose_outside, split_float

WEIGHT_SCALE = tl.constexpr(1024.0)  # so that the low parts of weights are accurate


@triton.jit
def tile(first_row, first_column, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Offsets of a tile of a matrix with rows of this width."""
    rows = first_row + tl.arange(0, ROWS)
    return rows[:, None].to(tl.int64) * width + first_column + tl.arange(0, COLUMNS)[None, :]


@triton.jit
def product(a_high_ptr, a_low_ptr, b_high_ptr, b_low_ptr, depth, C: tl.constexpr, D: tl.constexpr, S: tl.constexpr):
    """A Bᵀ for a tile of C rows of A and D rows of B, both of this depth, without the product of the low parts."""
    total = tl.zeros([C, D], tl.float32)
    for s in range(0, depth, S):
        a_high, a_low = tl.load(a_high_ptr + s), tl.load(a_low_ptr + s)
        b_high, b_low = tl.trans(tl.load(b_high_ptr + s)), tl.trans(tl.load(b_low_ptr + s))
        total = tl.dot(a_low, b_high, total)
        total = tl.dot(a_high, b_low, total)
        total = tl.dot(a_high, b_high, total)
    return total


@triton.jit
def scores(
    state_high_ptr, state_low_ptr, high_ptr, low_ptr, bias_ptr, logits_ptr, top_ptr, K, beta,
    R: tl.constexpr, C: tl.constexpr, D: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """Logits, in units of log 2, of C chains and D memories, and their largest: logits (n, K), top (n, K/D)."""
    first_row, first = tl.program_id(1) * C, tl.program_id(0) * D
    states, memories = tile(first_row, 0, R, C, S), tile(first, 0, R, D, S)
    overlaps = product(
        state_high_ptr + states, state_low_ptr + states, high_ptr + memories, low_ptr + memories, R, C, D, S
    )
    bias = tl.load(bias_ptr + first + tl.arange(0, D))
    logits = overlaps * (beta * LOG2E) + bias[None, :] * LOG2E
    tl.store(logits_ptr + tile(first_row, first, K, C, D), logits)
    tl.store(top_ptr + (first_row + tl.arange(0, C)) * tl.num_programs(0) + tl.program_id(0), tl.max(logits, 1))


@triton.jit(do_not_specialize=["n_tops"])
def weigh(
    logits_ptr, top_ptr, weight_high_ptr, weight_low_ptr, total_ptr, lse_ptr, K, n_tops,
    C: tl.constexpr, S: tl.constexpr, TOPS: tl.constexpr,
):  # fmt: skip
    """Unnormalized weights of logits, as two float16 (n, K), their sum (n,), and the log-sum-exp of the logits (n,)."""
    first_row = tl.program_id(0) * C
    rows, tops = first_row + tl.arange(0, C), tl.arange(0, TOPS)
    top = tl.load(top_ptr + rows[:, None] * n_tops + tops[None, :], mask=tops[None, :] < n_tops, other=-float("inf"))
    top = tl.max(top, 1)
    places = tile(first_row, 0, K, C, S)
    total = tl.zeros([C], tl.float32)
    for k in range(0, K, S):
        real = (k + tl.arange(0, S) < K)[None, :]
        logits = tl.load(logits_ptr + places + k, mask=real, other=-float("inf"))
        weights = tl.exp2(logits - top[:, None])
        total += tl.sum(weights, 1)
        a, b = split_float(weights * WEIGHT_SCALE, 1.0)
        tl.store(weight_high_ptr + places + k, a, mask=real)
        tl.store(weight_low_ptr + places + k, b, mask=real)
    tl.store(total_ptr + rows, total)
    tl.store(lse_ptr + rows, (top + tl.log2(total)) * LN2)


@triton.jit
def attend_tile(
    weight_high_ptr, weight_low_ptr, total_ptr, high_ptr, low_ptr, first_row, first, K,
    C: tl.constexpr, D: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """Columns first to first + D of attend, (C, D). Memories are transposed, (R, K)."""
    weights, memories = tile(first_row, 0, K, C, S), tile(first, 0, K, D, S)
    sums = product(
        weight_high_ptr + weights, weight_low_ptr + weights, high_ptr + memories, low_ptr + memories, K, C, D, S
    )
    total = tl.load(total_ptr + first_row + tl.arange(0, C))
    return sums / (total * WEIGHT_SCALE)[:, None]


@triton.jit(do_not_specialize=["key", "first_chain", "step"])
def read_out_ula(
    weight_high_ptr, weight_low_ptr, total_ptr, high_ptr, low_ptr, u_ptr, state_high_ptr, state_low_ptr, K, key,
    first_chain, step, alpha, beta,
    R: tl.constexpr, C: tl.constexpr, D: tl.constexpr, S: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The rest of a step of Algorithm 1, for C chains and D of their columns, in place."""
    first_row, first = tl.program_id(1) * C, tl.program_id(0) * D
    attended = attend_tile(weight_high_ptr, weight_low_ptr, total_ptr, high_ptr, low_ptr, first_row, first, K, C, D, S)
    places = tile(first_row, first, R, C, D)
    noise = normals(key, first_chain + first_row + tl.arange(0, C), step, first, STEP, C, D, tl.float32, FAST)
    u = (1 - alpha) * tl.load(u_ptr + places) + alpha * attended + tl.sqrt(2 * alpha / beta) * noise
    a, b = split_float(u, 1.0)
    tl.store(u_ptr + places, u)
    tl.store(state_high_ptr + places, a)
    tl.store(state_low_ptr + places, b)


@triton.jit
def state_places(first_row, first, n_rows, current_ptr, R: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    """Offsets of a tile in one matrix; in the one of two that holds each chain's state; in the other, for proposals."""
    current = tl.load(current_ptr + first_row + tl.arange(0, C)).to(tl.int64)[:, None]
    places = tile(first_row, first, R, C, D)
    size = n_rows.to(tl.int64) * R
    return places, places + current * size, places + (1 - current) * size


@triton.jit
def read_out_mala(
    weight_high_ptr, weight_low_ptr, total_ptr, high_ptr, low_ptr, u_ptr, attended_ptr, current_ptr, slopes_ptr,
    moves_ptr, K, n_rows,
    R: tl.constexpr, C: tl.constexpr, D: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """attend at the proposals, and each tile's part of the two sums that decide on them: slopes, moves (n, R/D)."""
    first_row, first = tl.program_id(1) * C, tl.program_id(0) * D
    new_attended = attend_tile(
        weight_high_ptr, weight_low_ptr, total_ptr, high_ptr, low_ptr, first_row, first, K, C, D, S
    )
    _places, here, there = state_places(first_row, first, n_rows, current_ptr, R, C, D)
    new = tl.load(u_ptr + there)
    slope = new - new_attended
    move = (new - tl.load(u_ptr + here)) * (tl.load(attended_ptr + here) + new_attended)
    tl.store(attended_ptr + there, new_attended)
    parts = (first_row + tl.arange(0, C)) * tl.num_programs(0) + tl.program_id(0)
    tl.store(slopes_ptr + parts, tl.sum(slope * slope, 1))
    tl.store(moves_ptr + parts, tl.sum(move, 1))


@triton.jit
def sum_of_parts(parts_ptr, rows, n_parts, PARTS: tl.constexpr):
    """The sum of the parts of each row, (C,)."""
    part = tl.arange(0, PARTS)
    return tl.sum(
        tl.load(parts_ptr + rows[:, None] * n_parts + part[None, :], mask=part[None, :] < n_parts, other=0.0), 1
    )


@triton.jit(do_not_specialize=["n_parts", "key", "first_chain", "step", "dimensions"])
def decide(
    lse_ptr, slopes_ptr, moves_ptr, potential_ptr, along_ptr, across_ptr, current_ptr, rejected_ptr,
    n_parts, key, first_chain, step, alpha, beta, dimensions,
    C: tl.constexpr, PARTS: tl.constexpr, OUTSIDE: tl.constexpr, FIRST: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Accept or reject, also by the part outside the span. FIRST: evaluate the states, as if they were proposals."""
    rows = tl.program_id(0) * C + tl.arange(0, C)
    chain = first_chain + rows
    along, across, current = tl.load(along_ptr + rows), tl.load(across_ptr + rows), tl.load(current_ptr + rows)
    new_along, new_across = along, across
    if OUTSIDE > 0 and not FIRST:
        scale = tl.sqrt(2 * alpha / beta)
        new_along, new_across = propose_outside(
            key, chain, step, along, across, 1 - alpha, scale, dimensions, OUTSIDE, FAST
        )
    slope = sum_of_parts(slopes_ptr, rows, n_parts, PARTS) + new_along * new_along + new_across * new_across
    potential = tl.load(lse_ptr + rows) - alpha * beta / 4 * slope
    if FIRST:
        tl.store(potential_ptr + rows, potential)
        tl.store(current_ptr + rows, 1 - current)
    else:
        before = tl.load(potential_ptr + rows)
        log_ratio = potential - before - beta / 2 * sum_of_parts(moves_ptr, rows, n_parts, PARTS)
        accepted = -exponential(key, chain, step, ACCEPT, tl.float32, FAST) < log_ratio
        tl.store(potential_ptr + rows, tl.where(accepted, potential, before))
        tl.store(along_ptr + rows, tl.where(accepted, new_along, along))
        tl.store(across_ptr + rows, tl.where(accepted, new_across, across))
        tl.store(current_ptr + rows, tl.where(accepted, 1 - current, current))
        tl.store(rejected_ptr + rows, tl.load(rejected_ptr + rows) + 1 - accepted.to(tl.int32))


@triton.jit(do_not_specialize=["r", "key", "first_chain", "step"])
def propose(
    u_ptr, attended_ptr, current_ptr, state_high_ptr, state_low_ptr, r, n_rows, key, first_chain, step, alpha, beta,
    R: tl.constexpr, C: tl.constexpr, D: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Proposals of Algorithm 2, in the place for them."""
    first_row, first = tl.program_id(1) * C, tl.program_id(0) * D
    places, here, there = state_places(first_row, first, n_rows, current_ptr, R, C, D)
    inside = (first + tl.arange(0, D) < r)[None, :]
    noise = normals(key, first_chain + first_row + tl.arange(0, C), step, first, STEP, C, D, tl.float32, FAST)
    u, attended = tl.load(u_ptr + here), tl.load(attended_ptr + here)
    new = u + alpha * (attended - u) + tl.sqrt(2 * alpha / beta) * tl.where(inside, noise, 0.0)
    a, b = split_float(new, 1.0)
    tl.store(u_ptr + there, new)
    tl.store(state_high_ptr + places, a)
    tl.store(state_low_ptr + places, b)


SIDE = 64  # columns and memories are padded to multiples of it
ROWS, FEW = 128, 16  # chains are padded to multiples of ROWS; one program proposes moves of FEW of them
LENGTH = 16.0  # of the longest memory: the low parts of its entries are then well above the smallest float16
MAX_BYTES = 2**32  # of logits and weights: more chains are advanced one part after the other
MAX_ENTRY = 1e4  # of a state: float16 ends at 65,504


def split_tensor(x: Tensor, factor: float) -> tuple[Tensor, Tensor]:
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
        padded = pad(patterns / unit, (0, n_columns - r, 0, n_rows - K)).contiguous()
        bias = pad(log_r.to(patterns), (0, n_rows - K), value=-math.inf)
        return cls(*split_tensor(padded, factor), bias, r, unit, length)

    def fits(self, xi: Tensor, beta: float) -> bool:
        """Whether float16 can hold these states, and the noise at this temperature."""
        return bool(xi.abs().max() < MAX_ENTRY * self.unit) and beta * (self.length * self.unit) ** 2 > 1e-4


class Tile(NamedTuple):
    """Rows, columns and depth of the tiles of a product, and how many warps and stages it is compiled for."""

    C: int
    D: int
    S: int
    num_warps: int
    num_stages: int


WIDE, NARROW = Tile(128, 128, 64, 8, 3), Tile(64, 64, 64, 4, 3)
INTERPRETED = Tile(ROWS, SIDE, SIDE, 1, 1)  # the interpreter takes as long for a small tile as for a large one


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
        unit, (key, chain, step) = self.memories.unit, counters
        at_once = max(MAX_BYTES // (8 * len(self.memories.high)) // ROWS, 1) * ROWS
        parts = []
        for first in range(0, max(len(xi), 1), at_once):
            rows = slice(first, first + at_once)
            chunk = Chunk(self, xi[rows], along[rows], across[rows], (key, chain + first, step))
            advance = chunk.ula if self.program == "ula" else chunk.mala
            with torch.cuda.device_of(xi):
                advance(beta * unit**2, steps)
            kept = (chunk.u[:, : self.memories.r], chunk.along, chunk.across, chunk.rejected)
            parts.append([values[: chunk.n] for values in kept])
        u, along, across, n_rejected = (torch.cat(part) for part in zip(*parts, strict=True))
        return u * unit, along * unit, across * unit, n_rejected


class Chunk:
    """Chains that are advanced together: their states in units of the memories, and room for logits and weights."""

    def __init__(
        self, chains: TiledChains, xi: Tensor, along: Tensor, across: Tensor, counters: tuple[int, int, int]
    ) -> None:
        self.chains, self.memories, self.n, self.fast = chains, chains.memories, len(xi), xi.is_cuda
        self.key, self.chain, self.step = counters
        self.rows = rows = triton.cdiv(self.n, ROWS) * ROWS
        (K, R), unit = self.memories.high.shape, self.memories.unit
        self.u = pad(xi / unit, (0, R - self.memories.r, 0, rows - self.n)).contiguous()
        self.high, self.low = split_tensor(self.u, 1)
        self.along, self.across = (pad(length / unit, (0, rows - self.n)) for length in (along, across))
        self.rejected = torch.zeros(rows, dtype=torch.int32, device=xi.device)
        self.logits, self.total, self.lse = xi.new_empty(rows, K), xi.new_empty(rows), xi.new_empty(rows)
        self.weights = tuple(xi.new_empty((rows, K), dtype=torch.half) for _ in range(2))
        widest = chains.widest if self.fast else INTERPRETED
        self.scoring, self.reading = (NARROW if size % widest.D else widest for size in (K, R))
        self.top = xi.new_empty(rows, K // self.scoring.D)

    def ula(self, beta: float, steps: int) -> None:
        """Algorithm 1, `steps` times."""
        K, R = self.memories.high.shape
        for step in range(self.step, self.step + steps):
            self._weigh(beta)
            read_out_ula[self._grid(self.reading, R)](
                *self.weights, self.total, *self.chains.columns, self.u, self.high, self.low, K,
                self.key, self.chain, step, self.chains.alpha, beta,
                R=R, FAST=self.fast, **self.reading._asdict(),
            )  # fmt: skip

    def mala(self, beta: float, steps: int) -> None:
        """Algorithm 2, `steps` times; the acceptance ratio is the one of samplers/mala.py."""
        (K, R), alpha, codimension = self.memories.high.shape, self.chains.alpha, self.chains.codimension
        states, attended = (torch.stack([self.u, self.u]) for _ in range(2))
        current, potential = torch.zeros_like(self.rejected), torch.empty_like(self.total)
        slopes, moves = (self.u.new_empty(self.rows, R // self.reading.D) for _ in range(2))
        parts, few = slopes.shape[1], FEW if self.fast else ROWS

        def evaluate(step: int, first: bool) -> None:
            self._weigh(beta)
            read_out_mala[self._grid(self.reading, R)](
                *self.weights, self.total, *self.chains.columns, states, attended, current, slopes, moves, K, self.rows,
                R=R, **self.reading._asdict(),
            )  # fmt: skip
            decide[(self.rows // ROWS,)](
                self.lse, slopes, moves, potential, self.along, self.across, current, self.rejected,
                parts, self.key, self.chain, step, alpha, beta, codimension,
                C=ROWS, PARTS=triton.next_power_of_2(parts), OUTSIDE=min(codimension, 5), FIRST=first, FAST=self.fast,
            )  # fmt: skip

        evaluate(self.step, first=True)
        for step in range(self.step, self.step + steps):
            propose[R // SIDE, self.rows // few](
                states, attended, current, self.high, self.low, self.memories.r, self.rows,
                self.key, self.chain, step, alpha, beta,
                R=R, C=few, D=SIDE, FAST=self.fast,
            )  # fmt: skip
            evaluate(step, first=False)
        self.u = torch.where(current[:, None] > 0, states[1], states[0])

    def _weigh(self, beta: float) -> None:
        """Compute the weights at the states whose float16 parts are stored."""
        (K, R), tops = self.memories.high.shape, self.top.shape[1]
        scores[self._grid(self.scoring, K)](
            self.high, self.low, *self.memories[:3], self.logits, self.top, K, beta,
            R=R, **self.scoring._asdict(),
        )  # fmt: skip
        depth = min(triton.next_power_of_2(K), 512)
        C = 2048 // depth if self.fast else ROWS
        weigh[(self.rows // C,)](
            self.logits, self.top, *self.weights, self.total, self.lse, K, tops,
            C=C, S=depth, TOPS=triton.next_power_of_2(tops), num_warps=2,
        )  # fmt: skip

    def _grid(self, tile: Tile, width: int) -> tuple[int, int]:
        return width // tile.D, self.rows // tile.C
