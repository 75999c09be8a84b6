"""ShardedMemory: a bank whose rows are on several processes of torch.distributed, usually one per GPU.

Layers take it as their memories: queries are the same on all ranks, and so are results and gradients. Each rank
computes all draws and chains. They have the random numbers of a bank in one process, and agree with it up to the
rounding of sums.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from .._backend.arrays import ArrayLike, NumpyArray, full_precision, like, on_cuda, to_numpy
from .._backend.checks import check_choice, check_count, check_flag
from .._backend.console import Progress
from .._backend.random import SeedLike, seed_of
from ..core.memory import MemoryBank, check_states
from ..core.ranks import ShardedBank
from ..kernels.philox import draw_numbers
from ..model import warn_if_few
from ..samplers.base import ChainAttention
from ..samplers.complement import Space
from ..samplers.draws import Draws
from ..samplers.exact import fill_draws, require_room, uniforms_of
from ..samplers.loop import ChainBatch, OnKeep, check_on_keep
from ..samplers.plan import SAMPLERS, AnySampler, Beta, Plan, Start, StartMemories, random_positions, require_kept
from ..storage.ranks import Checked, Fact, Group, checksum

CHAIN_SAMPLERS = ("ula", "mala", "underdamped")  # whose only access to the memories is `ChainAttention`
BLOCK = 2**20  # multiplicities that ranks exchange at a time
MAX_FACT = 100  # characters of an argument that ranks compare; of a longer one they compare a digest


class ShardedMemory:
    """K memories in d dimensions, some of the rows on each rank, with p_beta ∝ exp(−beta E) as `StochasticAttention`.

    patterns: (K_shard, d) the rows of this rank, tensor (shared, not copied) or array; (0, d) if it has none. The bank
              is the rows of rank 0, then those of rank 1, and so on.
    beta:     a number, the same on every rank
    log_r:    (K_shard,) log multiplicities of these rows; None is zeros, −inf masks a memory out
    values:   (K_shard, v) what these rows stand for, which `read` averages, or None
    equal_weights: give every memory the same weight, whatever its norm, as in `StochasticAttention`
    group:    the process group; None is that of `torch.distributed.init_process_group`

    All ranks must make the same calls with the same arguments, and all get the same results; each call first compares
    the arguments. States may have gradients, which are right on every rank if all compute the same loss and call
    backward. Attributes are `beta`, `K` and `d` of the whole bank, and `first`, the number of this rank's first row.

    >>> from stochattn.nn import ShardedMemory
    >>> import torch, torch.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> ShardedMemory(torch.eye(4), beta=20.0).sample(5, rng=0).shape
    torch.Size([5, 4])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        patterns: ArrayLike,
        *,
        beta: float,
        log_r: ArrayLike | None = None,
        values: ArrayLike | None = None,
        equal_weights: bool = False,
        group: Group = None,
    ) -> None:
        self.bank = ShardedBank(patterns, log_r, values, beta, equal_weights, group)
        self.beta, self.K, self.d, self.first = float(beta), self.bank.outline.K, self.bank.outline.d, self.bank.first
        if not equal_weights:
            perplexities = self.bank.perplexities(self.beta)
            if self.bank.ranks.rank == 0:
                warn_if_few(*perplexities, int(self.bank.n_kept.sum()))

    def attend(self, xi: ArrayLike, beta: float | None = None) -> Tensor:
        """T(xi), the average of the memories (Eq. 4), at the beta of the bank or another; (..., d) -> (..., d)."""
        rows, at = self.agree_on_states("attend", xi, beta)
        return self.bank.attend(rows, at)

    def read(self, xi: ArrayLike, beta: float | None = None) -> Tensor:
        """The average of the values with the weights of attention; (..., d) -> (..., v)."""

        def require_values() -> dict[str, Fact]:
            if self.bank.shard.values is None:
                raise ValueError("values must be given to ShardedMemory before they can be read; it has none.")
            return {}

        rows, at = self.agree_on_states("read", xi, beta, require_values)
        return self.bank.attend(rows, at, self.bank.shard.values)

    def energy(self, xi: ArrayLike) -> Tensor:
        """E(xi) of Eq. 3; (..., d) -> (...)."""
        rows, beta = self.agree_on_states("energy", xi)
        outline = self.bank.outline
        return self.bank.table_energy(rows, beta) + outline.log_total_r / beta + outline.M**2 / 2

    def log_density(self, xi: ArrayLike) -> Tensor:
        """log p_beta(xi), normalized; (..., d) -> (...)."""
        rows, beta = self.agree_on_states("log_density", xi)
        constants = self.bank.log_z(beta) + self.d / 2 * math.log(2 * math.pi / beta)
        return -beta * self.bank.table_energy(rows, beta) - constants

    def score(self, xi: ArrayLike) -> Tensor:
        """∇ log p_beta(xi) = beta (T(xi) − xi); (..., d) -> (..., d)."""
        rows, beta = self.agree_on_states("score", xi)
        return beta * (self.bank.attend(rows, beta) - rows)

    def sample(self, n: int, rng: SeedLike = None) -> Tensor:
        """n exact, independent draws: (n, d), the rows of `StochasticAttention.sample` on the whole bank.

        A draw may lie around another memory only if its uniform is within rounding of the border between two, 1e-15
        times K at most in float64. On the CPU all other rows have the same bits.
        """

        def check() -> Checked[int]:
            seed, count = seed_of(rng), check_count("n", n)
            return Checked(count, {"n": count, "rng": None if rng is None else seed}, {"seed": seed})

        n, facts = self.bank.ranks.agree("sample", check)
        outline, seed = self.bank.outline, cast(int, facts[0]["seed"])
        require_room(outline, n, copies=3)  # the memories, their sum over ranks, and the noise
        if on_cuda(outline.patterns):
            uniforms, normals = draw_numbers(outline.patterns, seed, range(n))
            return self.bank.centers(to_numpy(uniforms), self.beta) + self.beta**-0.5 * normals
        centers = to_numpy(self.bank.centers(uniforms_of(seed, range(n), self.d), self.beta))
        samples = np.empty_like(centers)
        fill_draws(samples, centers, np.arange(n), self.beta, seed, range(n))
        return like(samples, outline.patterns)

    def run(
        self,
        *,
        sampler: str = "ula",
        beta: Beta | None = None,
        n_chains: int | None = None,
        n_steps: int = 5000,
        warmup: int | None = None,
        thin: int = 100,
        keep: Iterable[int] | None = None,
        start: Start = "memories",
        sigma_init: float = 0.01,
        rng: SeedLike = None,
        first_chain: int | None = None,
        progress: bool | None = None,
        on_keep: OnKeep | None = None,
        **options: object,
    ) -> Draws:
        """Chains of "ula", "mala" or "underdamped", with the arguments of `stochattn.run`: one exchange per step.

        They are the chains of `stochattn.run(span=False)` on the whole bank, up to rounding. Ctrl-C returns no draws.
        """

        def check() -> Checked[ShardedPlan]:
            check_choice("sampler", sampler, CHAIN_SAMPLERS)
            check_on_keep(on_keep)
            check_flag("progress", progress)
            seed = seed_of(rng)
            plan = ShardedPlan(
                self.bank,
                self.beta if beta is None else beta,
                sampler=sampler,
                n_chains=n_chains,
                n_steps=n_steps,
                warmup=warmup,
                thin=thin,
                keep=keep,
                start=start,
                sigma_init=sigma_init,
                rng=None if rng is None else seed,
                first_chain=first_chain,
                options=options,
            )
            return Checked(plan, {"rng": None if rng is None else seed, **_facts(plan)}, {"seed": plan.seed})

        ranks = self.bank.ranks
        plan, facts = ranks.agree("run", check)
        plan.seed = cast(int, facts[0]["seed"])
        label = f"{plan.sampler}, {len(plan.chains)} chains on {ranks.size} ranks"
        bar = Progress(plan.kept.n_steps, label, progress if ranks.rank == 0 else False)
        with full_precision(plan.bank.patterns), plan.streams() as noise, bar:
            chains = ChainBatch(plan, noise)
            chains.loop(threading.Event(), bar, on_keep)
            draws = chains.draws()
        sums = ranks.gather(torch.tensor(checksum(draws.samples), device=plan.bank.patterns.device))
        if bool((sums != sums[0]).any()):
            raise RuntimeError("ranks computed different chains from the same numbers. Use one kind of device.")
        return draws

    def agree_on_states(
        self, call: str, xi: ArrayLike, beta: float | None = None, further: Callable[[], Mapping[str, Fact]] = dict
    ) -> tuple[Tensor, float]:
        """xi (..., d) as a tensor like the memories, and beta, both checked, if all ranks make this call with the same.

        further: other facts that must be the same, from checks that may fail
        """

        def check() -> Checked[tuple[Tensor, float]]:
            at = self.beta if beta is None else beta
            at = at if at == math.inf else self.bank.outline.check_beta(at)
            rows: Tensor = check_states(xi, self.bank.outline)
            same: dict[str, Fact] = {"beta": at, **further()}
            same |= {"the shape of xi": list(rows.shape), "xi": f"numbers with the checksum {checksum(rows)}"}
            same["whether xi needs a gradient"] = bool(rows.requires_grad and torch.is_grad_enabled())
            return Checked((rows, at), same)

        return self.bank.ranks.agree(call, check)[0]

    def __repr__(self) -> str:
        ranks, shard = self.bank.ranks, self.bank.shard
        rows = f"rows {self.first} to {self.first + len(shard.patterns) - 1}" if len(shard.patterns) else "no rows"
        about = f"K={self.K} memories, d={self.d}, beta={self.beta:.6g}, {shard.dtype}"
        return f"ShardedMemory({about}, {rows} on rank {ranks.rank} of {ranks.size})"


def require_left_out(is_passed: Mapping[str, bool], reason: str = "every state attends to all memories") -> None:
    """ValueError for the first argument that is passed although a ShardedMemory takes the place of it."""
    for name in [name for name, passed in is_passed.items() if passed]:
        raise ValueError(f"{name} must be left out with a ShardedMemory: {reason}.")


def _facts(plan: Plan) -> dict[str, Fact]:
    """What must be the same on all ranks for a run, beside the seed."""
    start: object = plan.start
    if plan.earlier is not None:
        start = (plan.earlier.step, _digest(plan.earlier.state["xi"]))
    elif not isinstance(plan.start, str):
        start = _digest(plan.start)
    facts: dict[str, object] = {"sampler": plan.sampler, "options": asdict(plan.options), "start": start}
    facts |= {"n_chains": len(plan.chains), "first_chain": plan.chains.start, "n_steps": plan.kept.n_steps}
    facts |= {"the kept steps": plan.kept.steps, "sigma_init": plan.sigma_init, "beta": plan.beta}
    return {name: _short(value) for name, value in facts.items()}


def _short(value: object) -> str:
    """The value as text, or its digest if that is long."""
    text = str(value)
    return text if len(text) <= MAX_FACT else f"{text[:MAX_FACT]}… with the digest {_digest(text)}"


def _digest(value: str | ArrayLike) -> str:
    data = value.encode() if isinstance(value, str) else np.ascontiguousarray(to_numpy(value)).tobytes()
    return hashlib.blake2b(data, digest_size=8).hexdigest()


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


class ShardedPlan(Plan):
    """A run on all ranks, in the full space: the span of memories on several ranks is not computed."""

    def __init__(self, sharded: ShardedBank, beta: Beta, **arguments: Any) -> None:
        super().__init__(sharded.outline, beta, span=False, **arguments)
        self.sharded = sharded

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
