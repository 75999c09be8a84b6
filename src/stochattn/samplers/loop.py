"""The one loop that drives every sampler: warm-up, thinning, progress, interruption and the record of kept states."""

from __future__ import annotations

import hashlib
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .._arrays import Array, is_torch, like, namespace, norms_squared, to_numpy
from .._checks import choice, count, one_of, step_size
from .._progress import Progress
from .._random import Streams, seed_of
from .._version import __version__
from ..draws import Checkpoint, Draws, Settings
from ..memory import MemoryBank, as_bank
from ..subspace import Space, reduce
from .base import Field, Sampler, State
from .exact import exact
from .mala import mala
from .start import starting_states
from .ula import ula

SAMPLERS: dict[str, Callable[[Space, float], Sampler]] = {"exact": exact, "ula": ula, "mala": mala}


def run(
    bank: Any,
    beta: float | Sequence[float],
    *,
    sampler: str | None = None,
    n_chains: int | None = None,
    n_steps: int = 5000,
    warmup: int | None = None,
    thin: int = 100,
    keep: Sequence[int] | None = None,
    alpha: float = 0.01,
    start: Any = "memories",
    sigma_init: float = 0.01,
    rng: Any = None,
    first_chain: int | None = None,
    span: bool | None = None,
    progress: bool | None = None,
    on_keep: Callable[[int, Array], object] | None = None,
) -> Draws:
    """Run chains and return the states kept after `warmup` steps, every `thin`-th, up to `n_steps`.

    bank:        a MemoryBank, or an array of memories (K, d)
    beta:        a number, or one for each step (annealing)
    sampler:     "exact", "ula" (Algorithm 1, the default) or "mala" (Algorithm 2)
    n_chains:    30 by default
    warmup:      2,000 by default, 0 when going on from an earlier run
    keep:        the steps after which to keep a state, instead of warmup and thin
    start:       "memories", "sphere", "equilibrium", memory indices (n_chains,), states (n_chains, d), or earlier draws
                 (or their `last`) to go on from: the result is that of one uninterrupted run
    sigma_init:  spread of the starts around memories
    rng:         seed, numpy or torch Generator; chain i depends on (seed, first_chain + i) only
    span:        None runs in the span of the memories when that is smaller than d; True and False force it
    on_keep:     called with the step and the states (n_chains, d) each time states are kept

    Ctrl-C ends the run early and returns what was kept so far (`draws.settings.complete` is False), with a warning.
    """
    bank = as_bank(bank)
    step_size(alpha)
    choice("span", span)
    choice("progress", progress)
    if on_keep is not None and not callable(on_keep):
        raise TypeError(f"on_keep must be a function of a step and states; got {on_keep!r}.")
    resumed = start.last if isinstance(start, Draws) else start if isinstance(start, Checkpoint) else None
    sampler = one_of("sampler", sampler or (resumed.sampler if resumed else "ula"), tuple(SAMPLERS))
    n_steps = count("n_steps", n_steps)
    warmup = count("warmup", (0 if resumed else 2000) if warmup is None else warmup, 0)
    kept_steps = _kept_steps(n_steps, warmup, thin, keep)
    betas = _schedule(beta, n_steps, bank)
    space = reduce(bank, span)
    memories = _fingerprint(bank)
    if resumed is None:
        first_step, seed = 0, seed_of(rng)
        first_chain = count("first_chain", first_chain or 0, 0)
        chains = range(first_chain, first_chain + count("n_chains", 30 if n_chains is None else n_chains))
    else:
        _require_same(resumed, sampler, space, memories, {"rng": rng, "n_chains": n_chains, "first_chain": first_chain})
        first_step, seed = resumed.step, resumed.seed
        chains = range(resumed.first_chain, resumed.first_chain + resumed.n_chains)

    make = SAMPLERS[sampler](space, alpha)
    last_step = first_step + n_steps
    with Streams(seed, chains, bank.patterns, first_step, last_step) as noise:
        if resumed is None:
            x = starting_states(start, bank, float(betas[0]), sigma_init, noise)
            state = make.init(space.project(x), make.rest.from_state(x, space, noise), float(betas[0]))
        else:
            state = make.init(_in_rows(resumed.xi, noise), _rest_in_rows(resumed.rest, noise), float(betas[0]))
        record = _Record(bank, space, noise, len(kept_steps))
        accepted = like(np.zeros((noise.rows, 1)), bank.patterns)
        done, rejects, due = 0, False, chain(kept_steps, (0,))
        next_kept = next(due)
        with Progress(n_steps, f"{sampler}, {len(chains)} chains", progress) as bar, _interruptible() as stop:
            while done < n_steps and not stop:
                noise.step, b = first_step + done, float(betas[done])
                state, moved = make.step(noise, state, b)
                done += 1
                if moved is not None:
                    accepted += moved
                    rejects = True
                if done == next_kept:
                    noise.step = first_step + done
                    state = record.keep(state, b, noise.step)
                    next_kept = next(due)
                    if on_keep is not None:
                        on_keep(noise.step, record.latest)
                if done % 32 == 0:
                    bar.at(done)
        busy = noise.busy
        if done < n_steps:
            warnings.warn(
                f"interrupted after {done} of {n_steps} steps; the {record.n} states kept so far are returned. "
                "Continue with start=draws.",
                RuntimeWarning,
                stacklevel=2,
            )
        settings = Settings(
            sampler=sampler,
            beta=float(betas[0]) if np.ndim(beta) == 0 else [float(b) for b in betas],
            alpha=float(alpha),
            n_chains=len(chains),
            n_steps=n_steps,
            warmup=warmup,
            thin=thin,
            start="continued" if resumed else start if isinstance(start, str) else "given",
            sigma_init=float(sigma_init),
            seed=seed,
            first_chain=chains.start,
            K=bank.K,
            d=bank.d,
            dimensions=space.bank.d,
            version=__version__,
            complete=done == n_steps,
        )
        acceptance = to_numpy(accepted)[busy, 0].astype(np.float64) / max(done, 1) if rejects else np.ones(len(chains))
        rest = type(state.rest)(*(part[busy] if np.ndim(part) else part for part in state.rest))
        last = Checkpoint(sampler, seed, chains.start, first_step + done, memories, state.xi[busy], rest)
        return record.draws(acceptance, settings, last)


class _Record:
    """Where kept states go: only they are stored, and only for them is the rest outside the span drawn."""

    def __init__(self, bank: MemoryBank, space: Space, noise: Streams, n_kept: int) -> None:
        self.bank, self.space, self.noise = bank, space, noise
        self.field = Field(space.bank)
        n_chains = len(noise.chains)
        xp = namespace(bank.patterns)
        options = {"device": bank.patterns.device} if is_torch(bank.patterns) else {}
        self.samples = xp.empty((n_chains, n_kept, bank.d), dtype=bank.patterns.dtype, **options)
        self.energies = np.empty((n_chains, n_kept))
        self.basins = np.empty((n_chains, n_kept), dtype=np.int64)
        self.steps: list[int] = []

    @property
    def n(self) -> int:
        return len(self.steps)

    @property
    def latest(self) -> Array:
        return self.samples[:, self.n - 1]

    def keep(self, state: State, beta: float, step: int) -> State:
        busy, j = self.noise.busy, self.n
        x, rest = state.rest.settle(state.xi, self.space, self.noise)
        self.samples[:, j] = x[busy]
        _, lse = self.field.at(state.xi, beta)
        constants = self.bank.log_total_r / beta + self.bank.M**2 / 2
        self.energies[:, j] = to_numpy(norms_squared(x) / 2 - lse[:, 0] / beta)[busy] + constants
        self.basins[:, j] = self.bank.kept[to_numpy(self.field.nearest(state.xi))[busy]]
        self.steps.append(step)
        return state._replace(rest=rest)

    def draws(self, acceptance: Any, settings: Settings, last: Checkpoint) -> Draws:
        n = self.n
        return Draws(
            self.samples[:, :n],
            self.energies[:, :n],
            self.basins[:, :n],
            np.array(self.steps, dtype=np.int64),
            acceptance,
            settings,
            last,
        )


def _kept_steps(n_steps: int, warmup: int, thin: int, keep: Sequence[int] | None) -> Sequence[int]:
    if keep is None:
        if warmup + count("thin", thin) > n_steps:
            raise ValueError(
                f"n_steps must be at least warmup + thin = {warmup + thin}, or no state is kept; got {n_steps}. "
                "Lower warmup or thin."
            )
        return range(warmup + thin, n_steps + 1, thin)
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


def _fingerprint(bank: MemoryBank) -> str:
    """Enough of a bank to tell it from another: its shape, its multiplicities and up to 64 of its memories."""
    rows = np.linspace(0, bank.K - 1, min(bank.K, 64)).round().astype(np.int64)
    digest = hashlib.blake2b(repr((bank.K, bank.d)).encode(), digest_size=16)
    for array in (bank.log_r, bank.patterns[like(rows, bank.patterns, keep_dtype=True)]):
        digest.update(np.ascontiguousarray(to_numpy(array)).tobytes())
    return digest.hexdigest()


def _require_same(resumed: Checkpoint, sampler: str, space: Space, memories: str, settled: dict[str, object]) -> None:
    for name, value in settled.items():
        if value is not None:
            raise ValueError(f"{name} must not be given when a run goes on from an earlier one, which settles it.")
    if sampler != resumed.sampler:
        raise ValueError(f"sampler must be that of the run to continue, {resumed.sampler!r}; got {sampler!r}.")
    if memories != resumed.memories:
        raise ValueError("start must come from a run on this bank; its memories or multiplicities are others.")
    if resumed.xi.shape[1] != space.bank.d:
        raise ValueError(
            f"start holds chains in {resumed.xi.shape[1]} dimensions, but this bank's run in {space.bank.d}. "
            "Continue with the span setting of the first run."
        )


def _in_rows(x: Array, noise: Streams) -> Array:
    placed = like(np.zeros((noise.rows, x.shape[1])), noise.reference)
    placed[noise.busy] = like(x, noise.reference)
    return placed


def _rest_in_rows(rest: Any, noise: Streams) -> Any:
    return type(rest)(*(_in_rows(part, noise) if np.ndim(part) else part for part in rest))


class _Stop(NamedTuple):
    """Whether Ctrl-C was pressed."""

    asked: threading.Event

    def __bool__(self) -> bool:
        return self.asked.is_set()


@contextmanager
def _interruptible() -> Iterator[_Stop]:
    """Turn Ctrl-C into a request to stop after the current step, so that no kept state is half written."""
    stop = _Stop(threading.Event())
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )

    def ask(number: int, frame: Any) -> None:
        if stop:  # the second Ctrl-C means it
            raise KeyboardInterrupt
        stop.asked.set()

    if ours:
        signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
