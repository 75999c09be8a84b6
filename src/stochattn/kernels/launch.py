"""Launches of the kernels from the host: their arguments, and the blocks in which they run."""

from __future__ import annotations

import math
import os
import warnings
from functools import lru_cache

import torch
import triton
from torch import Tensor
from triton.runtime import KernelInterface, OutOfResources

from .._backend.checks import first_line
from . import numbers
from .programs import mala, ula
from .tiled import NARROW, WIDE, PaddedMemories, TiledChains

BLOCK = 128  # memories that a program reads together
MAX_SPREAD_CHAINS = 8192  # up to this many chains are spread over many programs
MAX_DIMENSIONS = 128  # of a chain that a block advances alone, with one launch for many steps
MAX_ENTRIES = 2**23  # of the memories, which all blocks read at every step: they must stay in the cache
TRIAL_KEY = 2**40  # as large as real keys, so that a trial compiles the program that runs later
ONE_EACH = {"C": 256, "num_warps": 4}


@lru_cache
def runs_on(device: torch.device) -> bool:
    """Whether Triton compiles for this device, or interprets on it. A failure is not tried again."""
    if device.type != "cuda":
        return os.environ.get("TRITON_INTERPRET") == "1"
    if torch.version.cuda is None or torch.cuda.get_device_capability(device) < (8, 0):
        return False
    try:
        normals(torch.empty(0, device=device), TRIAL_KEY, range(1), 0, 0, 4)
    except Exception as error:  # no C compiler, a cache that cannot be written, an old driver, ...
        failed = f"Triton cannot compile for {device} here ({first_line(error)})"
        warnings.warn(f"{failed}: chains run step by step, more slowly.", RuntimeWarning, stacklevel=2)
        return False
    return True


def normals(reference: Tensor, key: int | Tensor, chains: range, step: int, purpose: int, width: int) -> Tensor:
    """Standard normals of a purpose at a step: (len(chains), width). A key on the device is a tensor (1,)."""
    out = reference.new_empty(len(chains), width)
    grid, constants = _tiles(out)
    with torch.cuda.device_of(out):
        numbers.fill[grid](out, len(chains), width, key, chains.start, step, PURPOSE=int(purpose), **constants)
    return out


def one_each(reference: Tensor, key: int, chains: range, step: int, purpose: int, degrees: int = 0) -> Tensor:
    """Standard exponentials, or chi-square numbers of three degrees or more: (len(chains),)."""
    n, out = len(chains), reference.new_empty(len(chains))
    constants = {"PURPOSE": int(purpose), "FAST": out.is_cuda and out.itemsize == 4, **ONE_EACH}
    with torch.cuda.device_of(out):
        numbers.fill_one_each[(triton.cdiv(n, ONE_EACH["C"]),)](out, n, key, chains.start, step, degrees, **constants)
    return out


def draw(patterns: Tensor, cumulative: Tensor, spread: float, key: int, first: int, n: int) -> Tensor:
    """Draws `first` to `first + n` of the mixture with these cumulative weights (K,), float64: (n, d)."""
    K, d = patterns.shape
    out = patterns.new_empty(n, d)
    memory = torch.empty(n, dtype=torch.int32, device=out.device)
    weights = torch.as_tensor(cumulative, device=out.device)
    (grid, constants), spread, halvings = _tiles(out), out.new_tensor([spread]), max(K - 1, 1).bit_length()
    with torch.cuda.device_of(out):
        numbers.pick[(triton.cdiv(n, ONE_EACH["C"]),)](memory, weights, n, key, first, K, HALVINGS=halvings, **ONE_EACH)
        numbers.draw[grid](out, patterns.contiguous(), memory, spread, n, d, key, first, **constants)
    return out


def chains(
    program: str, patterns: Tensor, log_r: Tensor, alpha: float, codimension: int
) -> DeviceChains | TiledChains | None:
    """Chains whose program fits the device, or None."""
    small = patterns.shape[1] <= MAX_DIMENSIONS and math.prod(patterns.shape) <= MAX_ENTRIES
    state, settings = patterns.new_zeros(1, patterns.shape[1]), (program, patterns, log_r, alpha, codimension)
    beta = (float(patterns.norm(dim=1).max()) or 1.0) ** -2  # at which noise is as long as the memories
    tiled = (TiledChains(*settings, widest=tile) for tile in (WIDE, NARROW))
    for candidate in (DeviceChains(*settings),) if small else tiled:
        try:  # a step, so that every program is compiled
            candidate.advance(state, state[:, 0], state[:, 0], (TRIAL_KEY, 0, 0), beta=beta, steps=1)
        except OutOfResources:
            continue
        return candidate
    return None


class DeviceChains:
    """Chains on memories (K, r) that a block of threads advances by many steps."""

    def __init__(self, program: str, patterns: Tensor, log_r: Tensor, alpha: float, codimension: int) -> None:
        K, r = patterns.shape
        self.program, self.alpha, self.codimension = program, alpha, codimension
        self.too_large: set[tuple[int, int]] = set()
        rows = max(triton.next_power_of_2(K), 16) if K <= BLOCK else triton.cdiv(K, BLOCK) * BLOCK
        self.memories = PaddedMemories.of(patterns, log_r, rows, max(triton.next_power_of_2(r), 16), factor=2048)
        self.fits = self.memories.fits

    def advance(
        self, xi: Tensor, along: Tensor, across: Tensor, counters: tuple[int, int, int], beta: float, steps: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """States (n, r), the two lengths of `RadialComplement`, and the number of rejected proposals, (n,) each."""
        high, low, bias, r, unit, _ = self.memories
        u, along, across = ((part / unit).contiguous() for part in (xi, along, across))
        n_rejected = torch.zeros(len(u), dtype=torch.int32, device=u.device)
        arguments = (high, low, bias, len(u), r, len(high), *counters, steps, self.alpha, beta * unit**2)
        if self.program == "ula":
            self._launch(ula, u, *arguments)
        else:
            outside = min(self.codimension, 5)
            self._launch(mala, u, along, across, n_rejected, *arguments, self.codimension, OUTSIDE=outside)
        return u * unit, along * unit, across * unit, n_rejected

    def _launch(self, program: KernelInterface, u: Tensor, *arguments: Tensor | float, **constants: int) -> None:
        K, R = self.memories.high.shape
        for C, B in self._blocks(len(u)):
            if (C, B) in self.too_large:
                continue
            constants |= {"R": R, "B": B, "C": C, "ON_CHIP": K <= BLOCK, "FAST": u.is_cuda}
            try:
                with torch.cuda.device_of(u):
                    program[(triton.cdiv(len(u), C),)](u, *arguments, **constants, num_warps=4)
                return
            except OutOfResources:  # raised before anything ran
                self.too_large.add((C, B))
        raise OutOfResources(0, 0, f"each of the blocks {sorted(self.too_large)}")

    def _blocks(self, n: int) -> list[tuple[int, int]]:
        """Chains and memories of a block, the fastest first; smaller blocks are for smaller chips."""
        K, R = self.memories.high.shape
        if K <= BLOCK:
            return [(16, K), (64, K)] if n <= MAX_SPREAD_CHAINS else [(64, K), (16, K)]
        least, few, many = (min(size, K) for size in (32, 64, BLOCK))
        if R <= 64:
            return [(64, many), (64, few), (16, few)]
        return [(64, few), (16, few), (16, least)]


def _tiles(out: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    """The programs that fill a matrix, and the tile that each of them fills: 4,096 entries."""
    n, width = out.shape
    D = min(max(triton.next_power_of_2(width), 16), 1024)
    constants = {"C": 4096 // D, "D": D, "FAST": out.is_cuda and out.itemsize == 4, "num_warps": 4}
    return (triton.cdiv(n, constants["C"]), triton.cdiv(width, D)), constants
