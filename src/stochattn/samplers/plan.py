"""A run before its first step: its sampler, the beta of each step, the steps after which states are kept, its chains.

Chains start near memories, on the unit sphere, in equilibrium, or at states of the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from .._backend import arrays
from .._backend.arrays import Array, ArrayLike, NumpyArray, detach, empty, free_bytes, gigabytes, like, to_numpy
from .._backend.checks import check_choice, check_count, check_flag, check_indices, check_non_negative, suggest_names
from .._backend.random import Purpose, SeedLike, Streams, generator, seed_of
from .._version import __version__
from ..core.memory import MemoryBank, check_states, fingerprint
from ..core.mixture import cumulative_weights, pick
from ..kernels.philox import streams
from .base import Sampler, map_arrays
from .complement import choose_space
from .draws import Checkpoint, Draws, RunSettings
from .exact import Exact
from .langevin import ULA
from .mala import MALA
from .underdamped import Underdamped

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

STARTS = ("memories", "sphere", "equilibrium")
START_CHOICES = f"one of {STARTS}, memory indices (n_chains,), states (n_chains, d), or draws to continue"

Start = str | ArrayLike | Draws | Checkpoint


class StartMemories:
    """The memories of a bank near which chains start, as rows (n_chains, d)."""

    def __init__(self, bank: MemoryBank) -> None:
        self.bank = bank

    def at(self, indices: NumpyArray) -> Array:
        """The memories with these indices; ValueError if one of them has weight zero."""
        require_kept(np.setdiff1d(indices, self.bank.kept))
        return self._rows(indices)

    def in_equilibrium(self, uniforms: NumpyArray, beta: float) -> Array:
        """The memories that these uniforms pick with the weights of the mixture."""
        return self._rows(pick(cumulative_weights(self.bank, beta), uniforms))

    def in_random_order(self, seed: int, chains: range) -> Array:
        """A different memory for each chain, as long as there are enough."""
        return self._rows(self.bank.kept[random_positions(seed, chains, len(self.bank.kept))])

    def _rows(self, indices: NumpyArray) -> Array:
        return self.bank.patterns[like(indices.astype(np.int64), self.bank.patterns, keep_dtype=True)]


def random_positions(seed: int, chains: range, n_kept: int) -> NumpyArray:
    """The position of the memory near which each chain starts, among those that are kept, in a random order."""
    order = generator(seed, Purpose.ORDER).permutation(n_kept)
    return np.asarray(order[np.asarray(chains) % n_kept])


def require_kept(excluded: NumpyArray) -> None:
    """ValueError if there are indices of memories with weight zero."""
    if len(excluded):
        raise ValueError(f"start must name memories with positive weight; memory {excluded[0]} has weight zero.")


def draw_start(
    start: Start,
    bank: MemoryBank,
    beta: float,
    sigma_init: float,
    noise: Streams,
    memories: StartMemories | None = None,
) -> Array:
    """The first states of the chains (see `run`), with idle rows at zero: (rows, d)."""
    spread, memories = sigma_init, memories or StartMemories(bank)
    if isinstance(start, str):
        check_choice("start", start, STARTS)
        if start == "sphere":
            directions = noise.at_start(bank.d)
            lengths = (directions * directions).sum(-1)[:, None] ** 0.5
            return directions / (lengths + (lengths == 0))
        if start == "equilibrium":
            near, spread = memories.in_equilibrium(noise.uniform_at_start(), beta), beta**-0.5
        else:
            near = memories.in_random_order(noise.seed, noise.chains)
    else:
        rows = start_rows(start, bank, len(noise.chains))
        if rows.ndim == 2:
            return in_rows(rows, noise)
        near = memories.at(rows)
    x = noise.at_start(bank.d)
    x *= spread
    x[noise.active_rows] += near
    return x


def start_rows(start: Start, bank: MemoryBank, n_chains: int) -> Array:
    """The checked indices of memories (n_chains,), or states (n_chains, d), at which the chains start."""
    rows = to_numpy(start)
    if rows.dtype.kind not in "fiu":
        raise TypeError(f"start must be {START_CHOICES}; got {type(start).__name__}.")
    if rows.ndim == 1 and rows.dtype.kind in "iu":
        rows = check_indices(rows, bank.K, "start", "memories")
    else:
        rows = detach(check_states(start, bank, "start"))
        if rows.ndim != 2:
            raise ValueError(f"start must be {START_CHOICES}; got an array of shape {tuple(rows.shape)}.")
    if len(rows) != n_chains:
        raise ValueError(f"start must have one entry for each of the {n_chains} chains; got {len(rows)}.")
    return rows


def in_rows(x: Array, noise: Streams) -> Array:
    """x (n_chains, ...) in the rows of the chains, with idle rows at zero: (rows, ...), in its own dtype."""
    x = like(x, noise.reference, keep_dtype=True)
    rows = empty((noise.rows, *x.shape[1:]), x)
    rows[...] = 0
    rows[noise.active_rows] = x
    return rows


AnySampler: TypeAlias = Sampler[Any]  # with a state of any type
SAMPLERS: dict[str, type[AnySampler]] = {"exact": Exact, "ula": ULA, "mala": MALA, "underdamped": Underdamped}
N_STATE_COPIES = 4  # of the chains' states that a run holds beside the kept ones
WARMUP = 2000  # steps, of a run that does not continue another one

Beta = float | Sequence[float] | Array
Earlier = Checkpoint | None


def register_sampler(name: str, sampler: type[AnySampler]) -> None:
    """Make a subclass of `stochattn.samplers.base.Sampler` known by name: `run(bank, beta, sampler=name)` drives it.

    >>> import stochattn as sa
    >>> from stochattn.samplers import SAMPLERS
    >>> sa.register_sampler("ula", SAMPLERS["ula"])
    """
    if not (isinstance(sampler, type) and issubclass(sampler, Sampler)):
        raise TypeError(f"sampler must be a subclass of Sampler; got {sampler!r}.")
    if not is_dataclass(getattr(sampler, "Options", None)) or not hasattr(sampler, "State"):
        raise TypeError(f"{sampler.__name__} must name its Options (a dataclass), its State and its Outside.")
    if SAMPLERS.get(name, sampler) is not sampler:
        raise ValueError(f"there is a sampler {name!r} already. Choose another name.")
    SAMPLERS[name] = sampler


class KeptSteps(NamedTuple):
    """The steps of a run, out of `n_steps`, after which a state is kept: a range, or the list of the caller."""

    n_steps: int
    warmup: int
    thin: int
    steps: range | list[int]

    @classmethod
    def of(cls, n_steps: int, warmup: int | None, thin: int, keep: Iterable[int] | None, earlier: Earlier) -> KeptSteps:
        """Every `thin`-th step after `warmup`, or those in `keep`; an earlier run sets when the next state is due."""
        due = earlier.due if earlier and warmup is None else 0
        if warmup is None:
            warmup = 0 if earlier else WARMUP
        n_steps, warmup = check_count("n_steps", n_steps), check_count("warmup", warmup, 0)
        thin = check_count("thin", thin)
        if keep is not None:
            if not isinstance(keep, Iterable):
                raise TypeError(f"keep must hold steps, such as [1000, 2000]; got {keep!r}.")
            steps = [check_count("keep", step) for step in keep]
            if not steps or steps != sorted(set(steps)) or steps[-1] > n_steps:
                raise ValueError(f"keep must hold rising steps from 1 to n_steps={n_steps}; got {steps[:8]}.")
            return cls(n_steps, warmup, thin, steps)
        first = due or warmup + thin
        if first > n_steps:
            rule = f"n_steps must be at least {first} (warmup + thin), or no state is kept"
            raise ValueError(f"{rule}; got {n_steps}. Lower warmup or thin.")
        return cls(n_steps, warmup, thin, range(first, n_steps + 1, thin))

    def due(self, done: int) -> int:
        """How many steps after `done` the next state would be kept if the run continued; 0 if the steps were listed."""
        if isinstance(self.steps, list):
            return 0
        first = self.steps.start
        return first - done if done < first else self.thin - (done - first) % self.thin


class Plan:
    """What a run will do: the arguments of `run`, all checked. `beta` is that of all steps, or a list.

    `earlier` is the checkpoint that the run continues, or None.
    """

    def __init__(
        self,
        bank: MemoryBank,
        beta: Beta,
        *,
        sampler: str | None,
        n_chains: int | None,
        n_steps: int,
        warmup: int | None,
        thin: int,
        keep: Iterable[int] | None,
        start: Start,
        sigma_init: float,
        rng: SeedLike,
        first_chain: int | None,
        span: bool | None,
        options: Mapping[str, object],
    ) -> None:
        last = start.last if isinstance(start, Draws) else start
        self.bank, self.start, self.earlier = bank, start, last if isinstance(last, Checkpoint) else None
        self.sampler, self.options = choose_sampler(sampler, options, self.earlier)
        self.seed, self.chains = seed_and_chains(rng, n_chains, first_chain, self.earlier)
        self.kept = KeptSteps.of(n_steps, warmup, thin, keep, self.earlier)
        self.beta = check_schedule(beta, self.kept.n_steps, bank)
        self.sigma_init, self.span = check_non_negative("sigma_init", sigma_init), check_flag("span", span)
        self.first_step = self.earlier.step if self.earlier else 0
        self.betas = np.broadcast_to(np.asarray(self.beta, dtype=np.float64), (self.kept.n_steps,))
        free, n, n_kept = free_bytes(bank.patterns), len(self.chains), len(self.kept.steps)
        bytes_per_chain = (n_kept + N_STATE_COPIES) * bank.d * bank.patterns.itemsize
        if free is not None and n * bytes_per_chain > free:
            raise MemoryError(
                f"n_chains={n} with {n_kept} kept states of d={bank.d} need {gigabytes(n * bytes_per_chain)} on "
                f"{bank.patterns.device}, which has {gigabytes(free)} free. Run n_chains="
                f"{max(free // bytes_per_chain, 1)} at a time (each with its own first_chain), or keep fewer states."
            )

    def steps_at_constant_beta(self, done: int, most: int) -> int:
        """How many steps from `done` on, up to `most`, have the same beta."""
        if isinstance(self.beta, float) or most == 1:
            return most
        ahead = self.betas[done : done + most]
        return int(np.argmax(np.append(ahead != ahead[0], True)))

    def streams(self) -> Streams:
        end = self.first_step + self.kept.n_steps
        noise = streams(self.seed, self.chains, self.bank.patterns, self.first_step, end)
        if self.earlier is not None and self.earlier.noise != type(noise).__name__:
            kinds = f"with noise of kind {self.earlier.noise}, not {type(noise).__name__} as on this bank's device"
            raise ValueError(f"start must be continued where it ran, {kinds}. Move the bank to that device.")
        return noise

    def begin(self, noise: Streams) -> tuple[AnySampler, Any]:
        """The sampler, and the state of its chains before the first step."""
        earlier, beta = self.earlier, float(self.betas[0])
        if earlier is None:  # before the span is computed, so that a start that does not fit fails at once
            x = draw_start(self.start, self.bank, beta, self.sigma_init, noise, self.memories())
            sampler = self.create_sampler()
            return sampler, sampler.init(noise, x, beta)
        if self.fingerprint != earlier.memories:
            raise ValueError("start must come from a run on this bank; its memories or multiplicities are different.")
        sampler = self.create_sampler()
        dimensions = sampler.space.bank.d
        if earlier.settings.dimensions != dimensions:
            ran = f"start holds chains in {earlier.settings.dimensions} dimensions"
            raise ValueError(f"{ran}, but this bank's run in {dimensions}. Use the span setting of the first run.")
        return sampler, map_arrays(lambda rows: in_rows(rows, noise), sampler.restore(earlier.state))

    def create_sampler(self) -> AnySampler:
        return SAMPLERS[self.sampler](choose_space(self.bank, self.span), self.options)  # type: ignore[call-arg]

    def memories(self) -> StartMemories:
        return StartMemories(self.bank)

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.bank)

    def numbers(self, nearest: NumpyArray) -> NumpyArray:
        """The numbers in the bank of the memories that `ChainAttention.nearest` found: (n,)."""
        return np.asarray(self.bank.kept[nearest])

    def settings(self, complete: bool, dimensions: int) -> RunSettings:
        """The record of the run that its draws carry."""
        kept, chains, bank = self.kept, self.chains, self.bank
        keep = kept.steps if isinstance(kept.steps, list) else None
        start = "continued" if self.earlier else self.start if isinstance(self.start, str) else "given"
        return RunSettings(
            sampler=self.sampler,
            options=asdict(self.options),
            beta=self.beta,
            n_chains=len(chains),
            n_steps=kept.n_steps,
            warmup=kept.warmup,
            thin=kept.thin,
            keep=keep,
            start=start,
            sigma_init=self.sigma_init,
            seed=self.seed,
            first_chain=chains.start,
            K=bank.K,
            d=bank.d,
            dimensions=dimensions,
            version=__version__,
            complete=complete,
            device=arrays.device_name(bank.patterns),
        )


def seed_and_chains(rng: SeedLike, n_chains: int | None, first: int | None, earlier: Earlier) -> tuple[int, range]:
    """The seed and the numbers of the chains, which an earlier run sets for a run that continues it."""
    if earlier is not None:
        for name, value in (("rng", rng), ("n_chains", n_chains), ("first_chain", first)):
            if value is not None:
                raise ValueError(f"{name} must not be given when a run continues an earlier one, which sets it.")
        before = earlier.settings
        rng, n_chains, first = before.seed, before.n_chains, before.first_chain
    first = check_count("first_chain", first or 0, 0)
    return seed_of(rng), range(first, first + check_count("n_chains", 30 if n_chains is None else n_chains))


def choose_sampler(
    sampler: str | None, options: Mapping[str, object], earlier: Earlier
) -> tuple[str, DataclassInstance]:
    """The name of the sampler and its checked options; an earlier run sets the sampler, and options left out."""
    if earlier is not None:
        before = earlier.settings
        if sampler not in (None, before.sampler):
            raise ValueError(f"sampler must be that of the run to continue, {before.sampler!r}; got {sampler!r}.")
        sampler, options = before.sampler, {**before.options, **options}
    name = check_choice("sampler", sampler or "ula", tuple(SAMPLERS))
    kind = SAMPLERS[name].Options
    names = [field.name for field in fields(kind)]
    unknown = [option for option in options if option not in names]
    if unknown:
        takes = f"has the options {', '.join(names)}" if names else "has no options"
        arguments = [*signature(Plan).parameters, "progress", "on_keep", "n_jobs"]  # of `run`
        like = suggest_names(unknown[0], [*arguments, *names])
        raise TypeError(f"run has no argument {unknown[0]!r}, and sampler {name!r} {takes}. {like}".rstrip())
    return name, kind(**options)


def check_schedule(beta: Beta, n_steps: int, bank: MemoryBank) -> float | list[float]:
    """The beta of all steps, or the list of those of each step."""
    if np.ndim(beta) == 0:
        return bank.check_beta(beta)  # type: ignore[arg-type]
    betas = np.asarray(to_numpy(beta), dtype=np.float64)
    if betas.shape != (n_steps,):
        raise ValueError(f"beta must be one number or one for each of the {n_steps} steps; got shape {betas.shape}.")
    if not (np.isfinite(betas) & (betas > 0)).all():
        raise ValueError(f"beta must be positive and finite at every step; its smallest value is {betas.min():g}.")
    for extreme in (betas.min(), betas.max()):
        bank.check_beta(float(extreme))
    return [float(value) for value in betas]
