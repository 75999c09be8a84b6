"""The host's side of the kernels: what they are given, and in which blocks they run."""

from __future__ import annotations

import math
import os
import warnings
from functools import lru_cache
from typing import Any

import torch
import triton
from triton.runtime.errors import OutOfResources

from .._backend.arrays import Array
from .._backend.device_memory import first_line
from . import draws
from .programs import mala, ula

BLOCK = 128  # memories that are looked at together
MOST_FEW = 8192  # chains: so few are spread over many programs
LARGEST = 1e4  # of a state, in lengths of the longest memory: halves end at 65,504
KEY = 2**40  # of the size that keys have, so that a trial compiles what is run later
ONE_EACH = {"C": 256, "num_warps": 4}


@lru_cache
def runs_on(device: Any) -> bool:
    """Whether Triton compiles for this device, or interprets on it. What fails here once is not tried again."""
    if device.type != "cuda":
        return os.environ.get("TRITON_INTERPRET") == "1"
    if torch.version.cuda is None or torch.cuda.get_device_capability(device) < (8, 0):
        return False
    try:
        normals(torch.empty(0, device=device), KEY, 0, 1, 0, 0, 4)
    except Exception as error:  # no C compiler, a cache that cannot be written, a driver too old: whatever it is
        warnings.warn(
            f"Triton cannot compile for {device} here ({first_line(error)}): chains run step by step, more slowly.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


def normals(reference: Array, key: int, first_chain: int, n: int, step: int, purpose: int, width: int) -> Array:
    """Standard normals: (n, width)."""
    out = reference.new_empty(n, width)
    grid, tile = _tiles(n, width)
    with _on(out):
        draws.fill[grid](out, n, width, key, first_chain, step, PURPOSE=purpose, FAST=_fast(out), **tile)
    return out


def one_each(reference: Array, key: int, first_chain: int, n: int, step: int, purpose: int, degrees: int) -> Array:
    """Exponentials, or chi-square numbers if `degrees` is not 0: (n,)."""
    out = reference.new_empty(n)
    grid = (triton.cdiv(n, ONE_EACH["C"]),)
    with _on(out):
        draws.fill_one_each[grid](out, n, key, first_chain, step, degrees, PURPOSE=purpose, FAST=_fast(out), **ONE_EACH)
    return out


def draw(patterns: Array, cumulative: Any, spread: float, key: int, first: int, n: int) -> Array:
    """Draws from the mixture: (n, d)."""
    K, d = patterns.shape
    out = patterns.new_empty(n, d)
    memory = torch.empty(n, dtype=torch.int32, device=out.device)
    weights = torch.as_tensor(cumulative, device=out.device)
    halvings, rows = max(K - 1, 1).bit_length(), (triton.cdiv(n, ONE_EACH["C"]),)
    (grid, tile), spread = _tiles(n, d), out.new_tensor([spread])
    with _on(out):
        draws.pick[rows](memory, weights, n, key, first, K, HALVINGS=halvings, **ONE_EACH)
        draws.draw[grid](out, patterns.contiguous(), memory, spread, n, d, key, first, FAST=_fast(out), **tile)
    return out


def chains(sampler: str, patterns: Array, log_r: Array, alpha: float, outside: int) -> Chains | None:
    """Chains whose program fits the device, or None."""
    made = Chains(sampler, patterns, log_r, alpha, outside)
    nowhere = patterns.new_zeros(1, patterns.shape[1])
    try:
        made.advance(nowhere, nowhere[:, 0], nowhere[:, 0], key=KEY, first_chain=0, first_step=0, beta=1.0, steps=0)
    except OutOfResources:
        return None
    return made


class Chains:
    """Chains of one sampler on memories (K, r), moved many steps at a time.

    Lengths are divided by a power of two near the longest memory's, which is exact.
    """

    def __init__(self, sampler: str, patterns: Array, log_r: Array, alpha: float, outside: int) -> None:
        K, self.r = patterns.shape
        self.sampler, self.alpha, self.outside = sampler, alpha, outside
        self.too_large: set[tuple[int, ...]] = set()
        longest = float(patterns.norm(dim=1).max())
        self.unit = 2.0 ** math.ceil(math.log2(longest)) if longest else 1.0
        rows = max(triton.next_power_of_2(K), 16) if K <= BLOCK else triton.cdiv(K, BLOCK) * BLOCK
        padded = patterns.new_zeros(rows, max(triton.next_power_of_2(self.r), 16))
        padded[:K, : self.r] = patterns / self.unit
        self.high = padded.half()
        self.low = ((padded - self.high.float()) * 2048).half()
        self.bias = torch.full_like(padded[:, 0], -math.inf)
        self.bias[:K] = log_r

    def fits(self, xi: Array, beta: float) -> bool:
        """Whether halves can hold these states, and the noise at this temperature."""
        return bool(xi.abs().max() < LARGEST * self.unit) and beta * self.unit**2 > 1e-4

    def advance(
        self,
        xi: Array,
        along: Array,
        across: Array,
        *,
        key: int,
        first_chain: int,
        first_step: int,
        beta: float,
        steps: int,
    ) -> tuple[Array, Array, Array, Array]:
        """States (n, r), the two scalars of `subspace.Walking` and the number of refused proposals, (n,) each."""
        u, along, across = ((part / self.unit).contiguous() for part in (xi, along, across))
        refused = torch.zeros(len(u), dtype=torch.int32, device=u.device)
        numbers = (len(u), self.r, len(self.high), key, first_chain, first_step, steps, self.alpha, beta * self.unit**2)
        memories = (self.high, self.low, self.bias)
        if self.sampler == "ula":
            self._launch(ula, u, *memories, *numbers)
        else:
            outside = min(self.outside, 5)
            self._launch(mala, u, along, across, refused, *memories, *numbers, self.outside, OUTSIDE=outside)
        return u * self.unit, along * self.unit, across * self.unit, refused

    def _launch(self, program: Any, u: Array, *arguments: Any, **constants: Any) -> None:
        on_chip = max(self.high.shape) <= BLOCK
        for block in self._blocks(len(u)):
            if block in self.too_large:
                continue
            C, B = block
            constants |= {"R": self.high.shape[1], "B": B, "C": C, "ON_CHIP": on_chip, "FAST": u.is_cuda}
            try:
                with _on(u):
                    program[(triton.cdiv(len(u), C),)](u, *arguments, **constants, num_warps=4)
                return
            except OutOfResources:  # told before anything ran
                self.too_large.add(block)
        raise OutOfResources(0, 0, f"each of the blocks {sorted(self.too_large)}")

    def _blocks(self, n: int) -> list[tuple[int, int]]:
        """Chains and memories that a program takes together, the fastest first; smaller ones are for smaller chips."""
        K, R = self.high.shape
        if max(K, R) <= BLOCK:
            return [(16, K), (64, K)] if n <= MOST_FEW else [(64, K), (16, K)]
        least, few, many = (min(size, K) for size in (32, 64, BLOCK))
        if R <= 64:
            return [(64, many), (64, few), (16, few)]
        if R <= BLOCK or self.sampler == "ula":
            return [(64, few), (16, few), (16, least)]
        return [(16, few), (16, least)]


def _tiles(n: int, width: int) -> tuple[tuple[int, int], dict[str, int]]:
    """The programs that fill a matrix (n, width), and the tile that each of them fills: 4,096 entries."""
    D = min(max(triton.next_power_of_2(width), 16), 1024)
    C = 4096 // D
    return (triton.cdiv(n, C), triton.cdiv(width, D)), {"C": C, "D": D, "num_warps": 4}


def _fast(out: Array) -> bool:
    return bool(out.is_cuda and out.dtype == torch.float32)


def _on(tensor: Array) -> Any:
    """Triton launches on the current device, which need not be the tensor's."""
    return torch.cuda.device_of(tensor)
