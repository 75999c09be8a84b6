"""A run before its first step: the beta of each step, the steps after which states are kept, where chains start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._backend.arrays import Array, ArrayLike, device_name, free_bytes, gigabytes, to_numpy
from .._backend.checks import count
from .._backend.random import SeedLike, Streams, seed_of
from .._version import __version__
from ..core.memory import MemoryBank, fingerprint
from ..kernels.philox import streams
from .base import AnySampler, ChainState, map_arrays, state_values
from .complement import Space, reduce
from .draws import Checkpoint, Draws, Settings
from .registry import SAMPLERS, checked_options
from .start import in_rows, starting_states

N_STATE_COPIES = 4  # of the chains' states that a run holds beside the kept ones
WARMUP = 2000  # steps, of a run that does not continue another one

Start = str | ArrayLike | Draws | Checkpoint


@dataclass(frozen=True, eq=False)
class BetaSchedule:
    """The inverse temperature of every step: `values` (n_steps,)."""

    values: Array
    constant: bool

    @classmethod
    def of(cls, beta: float | Sequence[float] | Array, n_steps: int, bank: MemoryBank) -> BetaSchedule:
        """A number for all steps, or one for each of them."""
        if np.ndim(beta) == 0:
            number = bank.check_beta(beta)  # type: ignore[arg-type]
            return cls(np.broadcast_to(np.float64(number), (n_steps,)), True)
        betas = np.asarray(to_numpy(beta), dtype=np.float64)
        if betas.shape != (n_steps,):
            raise ValueError(
                f"beta must be one number or one for each of the {n_steps} steps; got shape {betas.shape}."
            )
        if not (np.isfinite(betas) & (betas > 0)).all():
            raise ValueError(f"beta must be positive and finite at every step; its smallest value is {betas.min():g}.")
        for extreme in (betas.min(), betas.max()):
            bank.check_beta(float(extreme))
        return cls(betas, False)

    def __getitem__(self, step: int) -> float:
        return float(self.values[step])

    def steps_at_constant_beta(self, done: int, most: int) -> int:
        """How many steps from `done` on, up to `most`, have the same beta."""
        if self.constant or most == 1:
            return most
        ahead = self.values[done : done + most]
        return int(np.argmax(np.append(ahead != ahead[0], True)))

    def recorded(self) -> float | list[float]:
        """The beta of all steps, or those of every step."""
        return self[0] if self.constant else [float(beta) for beta in self.values]


@dataclass(frozen=True, eq=False)
class KeptSteps:
    """After which of `n_steps` steps a state is kept; `given` if the caller listed them."""

    n_steps: int
    warmup: int
    thin: int
    steps: Sequence[int]
    given: bool

    @classmethod
    def of(cls, n_steps: int, warmup: int | None, thin: int, keep: Iterable[int] | None, due: int | None) -> KeptSteps:
        """Every `thin`-th step after `warmup`, or those in `keep`.

        due: None, or for a run that continues another one the steps until the next state is due (0 if that is open)
        """
        first = due if warmup is None and due else None
        if warmup is None:
            warmup = WARMUP if due is None else 0
        n_steps, warmup, thin = count("n_steps", n_steps), count("warmup", warmup, 0), count("thin", thin)
        if keep is not None:
            return cls(n_steps, warmup, thin, _listed(keep, n_steps), True)
        first = first or warmup + thin
        if first > n_steps:
            raise ValueError(
                f"n_steps must be at least {first} (warmup + thin), or no state is kept; got {n_steps}. "
                "Lower warmup or thin."
            )
        return cls(n_steps, warmup, thin, range(first, n_steps + 1, thin), False)

    def steps_to_next(self, done: int) -> int:
        """How many steps after `done` the next state would be kept if the run continued; 0 if the steps were listed."""
        if self.given:
            return 0
        first = self.steps[0]
        return first - done if done < first else self.thin - (done - first) % self.thin


def _listed(keep: Iterable[int], n_steps: int) -> list[int]:
    if not isinstance(keep, Iterable):
        raise TypeError(f"keep must hold steps, such as [1000, 2000]; got {keep!r}.")
    steps = [count("keep", step) for step in keep]
    if not steps or steps != sorted(set(steps)) or steps[-1] > n_steps:
        raise ValueError(f"keep must hold rising steps from 1 to n_steps={n_steps}; got {steps[:8]}.")
    return steps


@dataclass(frozen=True, eq=False)
class Plan:
    """What a run will do. `earlier` is the checkpoint from which it continues, or None."""

    bank: MemoryBank
    sampler: str
    options: Mapping[str, object]
    betas: BetaSchedule
    kept: KeptSteps
    seed: int
    chains: range
    start: Start
    sigma_init: float
    span: bool | None
    earlier: Checkpoint | None

    def __post_init__(self) -> None:
        if self.earlier is not None and fingerprint(self.bank) != self.earlier.memories:
            raise ValueError("start must come from a run on this bank; its memories or multiplicities are different.")
        free = free_bytes(self.bank.patterns)
        d, n, n_kept = self.bank.d, len(self.chains), len(self.kept.steps)
        bytes_per_chain = (n_kept + N_STATE_COPIES) * d * self.bank.patterns.itemsize
        if free is not None and n * bytes_per_chain > free:
            raise MemoryError(
                f"n_chains={n} with {n_kept} kept states of d={d} need {gigabytes(n * bytes_per_chain)} on "
                f"{self.bank.patterns.device}, which has {gigabytes(free)} free. Run "
                f"n_chains={max(free // bytes_per_chain, 1)} at a time (each with its own first_chain), or keep fewer "
                "states."
            )

    @property
    def n_steps(self) -> int:
        """Steps of this run."""
        return self.kept.n_steps

    @property
    def first_step(self) -> int:
        """Steps taken before this run."""
        return self.earlier.step if self.earlier else 0

    def streams(self) -> Streams:
        """The random numbers of its chains."""
        noise = streams(self.seed, self.chains, self.bank.patterns, self.first_step, self.first_step + self.n_steps)
        if self.earlier is not None and self.earlier.noise != type(noise).__name__:
            raise ValueError(
                f"start must be continued where it ran: its noise is of kind {self.earlier.noise}, that of this bank's "
                f"device is {type(noise).__name__}. Move the bank to the CPU or to the CUDA device that made it."
            )
        return noise

    @cached_property
    def space(self) -> Space:
        """Where the chains run."""
        space = reduce(self.bank, self.span)
        if self.earlier is not None and self.earlier.dimensions != space.bank.d:
            raise ValueError(
                f"start holds chains in {self.earlier.dimensions} dimensions, but this bank's run in {space.bank.d}. "
                "Continue with the span setting of the first run."
            )
        return space

    def begin(self, noise: Streams) -> tuple[AnySampler, ChainState]:
        """The sampler, and the state of its chains before the first step."""
        kind = SAMPLERS[self.sampler]
        options = kind.Options(**self.options)
        if self.earlier is not None:
            sampler = kind(self.space, options)  # type: ignore[call-arg]
            return sampler, sampler.restore(map_arrays(lambda rows: in_rows(rows, noise), self.earlier.state))
        # Before the span is computed, so that a start that does not fit fails at once.
        x = starting_states(self.start, self.bank, self.betas[0], self.sigma_init, noise)
        sampler = kind(self.space, options)  # type: ignore[call-arg]
        return sampler, sampler.init(noise, x, self.betas[0])

    def checkpoint(self, done: int, noise: Streams, state: ChainState) -> Checkpoint:
        """Where the run stands after `done` steps."""
        return Checkpoint(
            sampler=self.sampler,
            options=self.options,
            seed=self.seed,
            first_chain=self.chains.start,
            n_chains=len(self.chains),
            step=self.first_step + done,
            due=self.kept.steps_to_next(done),
            memories=fingerprint(self.bank),
            dimensions=self.space.bank.d,
            noise=type(noise).__name__,
            state=map_arrays(lambda rows: rows[noise.active_rows], state_values(state)),
        )

    def settings(self, complete: bool) -> Settings:
        """The record of it that draws carry."""
        return Settings(
            sampler=self.sampler,
            options=self.options,
            beta=self.betas.recorded(),
            n_chains=len(self.chains),
            n_steps=self.n_steps,
            warmup=self.kept.warmup,
            thin=self.kept.thin,
            keep=list(self.kept.steps) if self.kept.given else None,
            start="continued" if self.earlier else self.start if isinstance(self.start, str) else "given",
            sigma_init=self.sigma_init,
            seed=self.seed,
            first_chain=self.chains.start,
            K=self.bank.K,
            d=self.bank.d,
            dimensions=self.space.bank.d,
            version=__version__,
            complete=complete,
            device=device_name(self.bank.patterns),
        )


def checkpoint_of(start: Start) -> Checkpoint | None:
    """The checkpoint that `start` holds, if any."""
    return start.last if isinstance(start, Draws) else start if isinstance(start, Checkpoint) else None


def seed_and_chains(
    rng: SeedLike, n_chains: int | None, first_chain: int | None, earlier: Checkpoint | None
) -> tuple[int, range]:
    """The seed and the numbers of the chains, which an earlier run sets for a run that continues it."""
    if earlier is None:
        first = count("first_chain", first_chain or 0, 0)
        return seed_of(rng), range(first, first + count("n_chains", 30 if n_chains is None else n_chains))
    for name, value in (("rng", rng), ("n_chains", n_chains), ("first_chain", first_chain)):
        if value is not None:
            raise ValueError(f"{name} must not be given when a run continues an earlier one, which sets it.")
    return earlier.seed, range(earlier.first_chain, earlier.first_chain + earlier.n_chains)


def sampler_and_options(
    sampler: str | None, options: Mapping[str, object], earlier: Checkpoint | None
) -> tuple[str, dict[str, object]]:
    """The name of the sampler and all its options; an earlier run sets the sampler, and the options not given."""
    if earlier is None:
        sampler = sampler or "ula"
        return sampler, checked_options(sampler, options)
    if sampler not in (None, earlier.sampler):
        raise ValueError(f"sampler must be that of the run to continue, {earlier.sampler!r}; got {sampler!r}.")
    return earlier.sampler, checked_options(earlier.sampler, {**earlier.options, **options})
