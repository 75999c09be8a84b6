"""Exact draws and chains of a bank whose rows are on several ranks. Each rank computes all of them.

Draws and chains have the random numbers of a bank in one process, and agree with it up to the rounding of sums.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from .._backend.arrays import NumpyArray, full_precision, like, on_cuda, to_numpy
from .._backend.console import Progress
from ..core.memory import MemoryBank
from ..core.ranks import ShardedBank
from ..kernels.philox import draw_numbers
from ..storage.ranks import checksum
from .base import ChainAttention
from .complement import Space
from .draws import Draws
from .exact import fill_draws, require_room, uniforms_of
from .loop import ChainBatch, OnKeep
from .plan import SAMPLERS, AnySampler, Plan, StartMemories, random_positions, require_kept

CHAIN_SAMPLERS = ("ula", "mala", "underdamped")  # whose only access to the memories is `ChainAttention`

BLOCK = 2**20
"""Multiplicities that ranks exchange at a time."""


def draw(bank: ShardedBank, beta: float, n: int, seed: int) -> Tensor:
    """n independent draws from p_beta, the same on all ranks: (n, d). Draw i depends on (seed, i) only."""
    outline, rows = bank.outline, range(n)
    require_room(outline, n, copies=3)  # the memories, their sum over ranks, and the noise
    if on_cuda(outline.patterns):
        uniforms, normals = draw_numbers(outline.patterns, seed, rows)
        return bank.centers(to_numpy(uniforms), beta) + beta**-0.5 * normals
    centers = to_numpy(bank.centers(uniforms_of(seed, rows, outline.d), beta))
    samples = np.empty_like(centers)
    fill_draws(samples, centers, np.arange(n), beta, seed, rows)
    draws: Tensor = like(samples, outline.patterns)
    return draws


class ShardedAttention(ChainAttention):
    """Attention over the memories of all ranks. No kernel has all of them."""

    has_kernel = False

    def __init__(self, bank: ShardedBank) -> None:
        self.bank = bank

    def nearest(self, xi: Tensor) -> Tensor:
        return self.bank.nearest(xi)

    def _attend(self, xi: Tensor, beta: float, factor: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
        sums = self.bank.sums(xi, beta, self.bank.shard.patterns, row_stable=True)
        return sums.mean * factor, sums.total, sums.top


class ShardedStart(StartMemories):
    """The memories of all ranks near which chains may start."""

    def __init__(self, sharded: ShardedBank) -> None:
        self.sharded = sharded

    def at(self, indices: NumpyArray) -> Tensor:
        require_kept(indices[self.sharded.log_r_at(indices) == -np.inf])
        return self.sharded.rows(indices)

    def in_equilibrium(self, uniforms: NumpyArray, beta: float) -> Tensor:
        return self.sharded.centers(uniforms, beta)

    def in_random_order(self, seed: int, chains: range) -> Tensor:
        kept = random_positions(seed, chains, int(self.sharded.n_kept.sum()))
        return self.sharded.rows(self.sharded.kept_numbers(kept))


@dataclass(eq=False)
class ShardedPlan(Plan):
    """A run on all ranks, in the full space: the span of memories on several ranks is not computed."""

    sharded: ShardedBank

    def create_sampler(self) -> AnySampler:
        d = self.bank.d
        # samplers take only d from this bank, and attention from all ranks
        space = Space(MemoryBank(self.sharded.shard.patterns.new_zeros((1, d))), None, d)
        sampler = SAMPLERS[self.sampler](space, self.options)  # type: ignore[call-arg]
        sampler.attention = ShardedAttention(self.sharded)
        return sampler

    def memories(self) -> StartMemories:
        return ShardedStart(self.sharded)

    @cached_property
    def fingerprint(self) -> str:
        K, d = self.bank.K, self.bank.d
        rows = np.linspace(0, K - 1, min(K, 64)).round().astype(np.int64)
        digest = hashlib.blake2b(repr((K, d)).encode(), digest_size=16)
        for first in range(0, K, BLOCK):  # all multiplicities, as for a bank in one process
            digest.update(self.sharded.log_r_at(np.arange(first, min(first + BLOCK, K))).tobytes())
        digest.update(np.ascontiguousarray(to_numpy(self.sharded.rows(rows))).tobytes())
        return digest.hexdigest()

    def numbers(self, nearest: NumpyArray) -> NumpyArray:
        return nearest


def run_on_ranks(plan: ShardedPlan, progress: bool | None, on_keep: OnKeep | None) -> Draws:
    """The draws of a plan, the same on all ranks. Ctrl-C ends it at once: ranks would stop after different steps."""
    label = f"{plan.sampler}, {len(plan.chains)} chains on {plan.sharded.ranks.size} ranks"
    shown = progress if plan.sharded.ranks.rank == 0 else False
    with (
        full_precision(plan.bank.patterns),
        plan.streams() as noise,
        Progress(plan.kept.n_steps, label, shown) as bar,
    ):
        chains = ChainBatch(plan, noise)
        chains.loop(threading.Event(), bar, on_keep)
        draws = chains.draws()
    sums = plan.sharded.ranks.gather(torch.tensor(checksum(draws.samples), device=plan.bank.patterns.device))
    if bool((sums != sums[0]).any()):
        raise RuntimeError(
            "ranks computed different chains from the same numbers. Use one kind of device on all ranks."
        )
    return draws
