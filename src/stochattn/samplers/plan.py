"""A run before its first step: every argument checked, every default resolved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._backend.arrays import Array, device_name, to_numpy
from .._backend.checks import choice, count, non_negative, one_of, step_size
from .._backend.device_memory import free_bytes, gigabytes
from .._backend.random import Streams, seed_of
from .._version import __version__
from ..core.memory import MemoryBank, as_bank, fingerprint
from ..kernels.philox import streams
from .base import Sampler, State
from .draws import Checkpoint, Draws, Settings
from .start import in_rows, starting_states
from .subspace import Space, reduce

COPIES = 4  # of the chains' states that a run holds beside the kept ones


@dataclass(frozen=True, eq=False)
class Plan:
    """What a run will do. `resumed` is the checkpoint it goes on from, or None."""

    bank: MemoryBank
    memories: str  # a fingerprint of the bank
    span: bool | None
    sampler: str
    alpha: float
    betas: Array  # (n_steps,)
    constant_beta: bool
    warmup: int
    thin: int
    keep: Sequence[int]
    keep_given: bool
    chains: range
    seed: int
    start: Any
    sigma_init: float
    resumed: Checkpoint | None
    lone: bool

    @property
    def n_steps(self) -> int:
        """Steps of this run."""
        return len(self.betas)

    @property
    def first_step(self) -> int:
        """Steps taken before this run."""
        return self.resumed.step if self.resumed else 0

    def require_room(self) -> None:
        """MemoryError if the run would not fit on its device: its kept states, and some copies of the chains."""
        free = free_bytes(self.bank.patterns)
        if free is None:
            return
        d, itemsize, n = self.bank.d, self.bank.patterns.itemsize, len(self.chains)
        a_chain = (len(self.keep) + COPIES) * d * itemsize
        if n * a_chain > free:
            raise MemoryError(
                f"n_chains={n} with {len(self.keep)} kept states of d={d} need {gigabytes(n * a_chain)} on "
                f"{self.bank.patterns.device}, which has {gigabytes(free)} free. Run "
                f"n_chains={max(free // a_chain, 1)} at a time (first_chain sets them apart), or keep fewer states."
            )

    def streams(self) -> Streams:
        """The random numbers of its chains."""
        last_step = self.first_step + self.n_steps
        noise = streams(self.seed, self.chains, self.bank.patterns, self.first_step, last_step, self.lone)
        if self.resumed is not None and self.resumed.noise != type(noise).__name__:
            raise ValueError(
                f"start must be continued where it ran: its noise is of kind {self.resumed.noise}, that of this bank's "
                f"device is {type(noise).__name__}. Move the bank to the CPU or to the CUDA device that made it."
            )
        return noise

    @cached_property
    def space(self) -> Space:
        """Where the chains run."""
        space = reduce(self.bank, self.span)
        if self.resumed is not None and self.resumed.xi.shape[1] != space.bank.d:
            raise ValueError(
                f"start holds chains in {self.resumed.xi.shape[1]} dimensions, but this bank's run in {space.bank.d}. "
                "Continue with the span setting of the first run."
            )
        return space

    def starting_points(self, noise: Streams) -> Array:
        """The chains' first states, (rows, d), or None for a run that goes on."""
        if self.resumed is not None:
            return None
        return starting_states(self.start, self.bank, float(self.betas[0]), self.sigma_init, noise)

    def first_state(self, sampler: Sampler, x: Array, noise: Streams) -> State:
        """Where the chains begin: at the points x, or where the earlier run ended."""
        beta = float(self.betas[0])
        if self.resumed is not None:
            rest = self.resumed.rest
            placed = type(rest)(*(in_rows(part, noise) if np.ndim(part) else part for part in rest))
            return sampler.init(in_rows(self.resumed.xi, noise), placed, beta)
        return sampler.init(self.space.project(x), sampler.rest.from_state(x, self.space, noise), beta)

    def steps_to_next_kept(self, done: int) -> int:
        """How many steps after `done` the next state would be kept, had the run gone on; 0 if `keep` was given."""
        if self.keep_given:
            return 0
        first = self.keep[0]
        return first - done if done < first else self.thin - (done - first) % self.thin

    def steps_alike(self, done: int, most: int) -> int:
        """How many steps from `done` on, up to `most`, have one beta."""
        if self.constant_beta or most == 1:
            return most
        ahead = self.betas[done : done + most]
        return int(np.argmax(np.append(ahead != ahead[0], True)))

    def settings(self, complete: bool) -> Settings:
        """The record of it that draws carry."""
        return Settings(
            sampler=self.sampler,
            beta=float(self.betas[0]) if self.constant_beta else [float(beta) for beta in self.betas],
            alpha=self.alpha,
            n_chains=len(self.chains),
            n_steps=self.n_steps,
            warmup=self.warmup,
            thin=self.thin,
            keep=list(self.keep) if self.keep_given else None,
            start="continued" if self.resumed else self.start if isinstance(self.start, str) else "given",
            sigma_init=float(self.sigma_init),
            seed=self.seed,
            first_chain=self.chains.start,
            K=self.bank.K,
            d=self.bank.d,
            dimensions=self.space.bank.d,
            version=__version__,
            complete=complete,
            lone=self.lone,
            device=device_name(self.bank.patterns),
        )


def plan(
    bank: Any,
    beta: Any,
    *,
    samplers: Iterable[str],
    sampler: str | None,
    n_chains: int | None,
    n_steps: int,
    warmup: int | None,
    thin: int,
    keep: Sequence[int] | None,
    alpha: float,
    start: Any,
    sigma_init: float,
    rng: Any,
    first_chain: int | None,
    span: bool | None,
    lone: bool,
) -> Plan:
    """The arguments of `run`, checked, as a Plan."""
    bank = as_bank(bank)
    resumed = start.last if isinstance(start, Draws) else start if isinstance(start, Checkpoint) else None
    sampler = one_of("sampler", sampler or (resumed.sampler if resumed else "ula"), tuple(samplers))
    n_steps = count("n_steps", n_steps)
    first_kept = resumed.due if resumed and resumed.due and warmup is None else None
    warmup = count("warmup", (0 if resumed else 2000) if warmup is None else warmup, 0)
    first_kept = warmup + count("thin", thin) if first_kept is None else first_kept
    memories = fingerprint(bank)
    if resumed is None:
        seed, first = seed_of(rng), count("first_chain", first_chain or 0, 0)
        chains = range(first, first + count("n_chains", 30 if n_chains is None else n_chains))
    else:
        _require_same(resumed, sampler, memories, {"rng": rng, "n_chains": n_chains, "first_chain": first_chain})
        seed, chains = resumed.seed, range(resumed.first_chain, resumed.first_chain + resumed.n_chains)
    if choice("lone", lone) and len(chains) > 1:
        raise ValueError(f"lone=True is for one chain; got n_chains={len(chains)}. Leave lone out.")
    return Plan(
        bank=bank,
        memories=memories,
        span=choice("span", span),
        sampler=sampler,
        alpha=step_size(alpha),
        betas=_schedule(beta, n_steps, bank),
        constant_beta=np.ndim(beta) == 0,
        warmup=warmup,
        thin=count("thin", thin),
        keep=_kept_steps(n_steps, first_kept, thin, keep),
        keep_given=keep is not None,
        chains=chains,
        seed=seed,
        start=start,
        sigma_init=non_negative("sigma_init", sigma_init),
        resumed=resumed,
        lone=bool(lone or (resumed is not None and resumed.lone)),
    )


def _kept_steps(n_steps: int, first: int, thin: int, keep: Sequence[int] | None) -> Sequence[int]:
    if keep is None:
        if first > n_steps:
            raise ValueError(
                f"n_steps must be at least {first} (warmup + thin), or no state is kept; got {n_steps}. "
                "Lower warmup or thin."
            )
        return range(first, n_steps + 1, thin)
    if not isinstance(keep, Iterable):
        raise TypeError(f"keep must hold steps, such as [1000, 2000]; got {keep!r}.")
    steps = [count("keep", step) for step in keep]
    if not steps or steps != sorted(set(steps)) or steps[-1] > n_steps:
        raise ValueError(f"keep must hold rising steps from 1 to n_steps={n_steps}; got {steps[:8]}.")
    return steps


def _schedule(beta: float | Sequence[float], n_steps: int, bank: MemoryBank) -> Array:
    if np.ndim(beta) == 0:
        return np.broadcast_to(np.float64(bank.at(beta)), (n_steps,))  # type: ignore[arg-type]
    betas = np.asarray(to_numpy(beta), dtype=np.float64)
    if betas.shape != (n_steps,):
        raise ValueError(f"beta must be one number or one for each of the {n_steps} steps; got shape {betas.shape}.")
    if not (np.isfinite(betas) & (betas > 0)).all():
        raise ValueError(f"beta must be positive and finite at every step; its smallest value is {betas.min():g}.")
    for extreme in (betas.min(), betas.max()):
        bank.at(float(extreme))
    return betas


def _require_same(resumed: Checkpoint, sampler: str, memories: str, settled: dict[str, object]) -> None:
    for name, value in settled.items():
        if value is not None:
            raise ValueError(f"{name} must not be given when a run goes on from an earlier one, which settles it.")
    if sampler != resumed.sampler:
        raise ValueError(f"sampler must be that of the run to continue, {resumed.sampler!r}; got {sampler!r}.")
    if memories != resumed.memories:
        raise ValueError("start must come from a run on this bank; its memories or multiplicities are others.")
