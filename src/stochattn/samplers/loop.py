"""The loop that drives every sampler and records the states that are kept.

Workers may run parts of the chains at the same time. Chain i depends on (seed, i) only, so a part is a run of its own,
and any partition gives the same bytes.
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from operator import itemgetter
from types import FrameType

import numpy as np

from .._backend import arrays
from .._backend.arrays import Array, ArrayLike, concatenate, empty, full_precision, norms_squared, on_cuda, to_numpy
from .._backend.checks import check_flag, first_line, is_out_of_memory
from .._backend.console import Progress
from .._backend.parallel import check_jobs, effective_jobs, in_workers
from .._backend.products import ROWS_PER_BLOCK, limit_to_one_thread, rows_in_block
from .._backend.random import SeedLike, Streams
from ..core.memory import MemoryBank, as_bank
from ..kernels.philox import Philox
from ..storage.blockwise import is_sharded, slices
from .base import ChainAttention, Sampler, map_arrays, state_values
from .complement import choose_space
from .draws import Checkpoint, Draws
from .plan import SAMPLERS, Beta, Plan, Start, require_kept, start_rows

MAX_PART = 2048  # chains in a part: more would not be faster, and progress is reported part by part


def parts_of(plan: Plan, n_jobs: int) -> list[Plan]:
    """At least n_jobs parts of a plan, in whole blocks of rows; fewer for few chains, one on a device or cluster."""
    first, last = plan.chains.start, plan.chains.stop
    block = rows_in_block(plan.bank.patterns)
    begin, end = first // block, -(-last // block)  # the blocks that hold these chains
    n_parts = min(end - begin, n_jobs * -(-len(plan.chains) // (n_jobs * MAX_PART)))
    # A device runs all chains at once, and workers of a cluster share the passes over a bank already.
    if 1 in (n_jobs, n_parts) or on_cuda(plan.bank.patterns) or is_sharded(plan.bank.patterns):
        return [plan]
    edges = [begin + (end - begin) * i // n_parts for i in range(n_parts + 1)]
    start = plan.start
    if plan.earlier is None and not isinstance(start, str):
        start = start_rows(start, plan.bank, len(plan.chains))  # errors are about all chains
        if start.ndim == 1:
            require_kept(np.setdiff1d(start, plan.bank.kept))
    return [_part(plan, start, range(max(a * block, first), min(b * block, last))) for a, b in pairwise(edges)]


def _part(plan: Plan, start: Start, chains: range) -> Plan:
    part, earlier = copy(plan), plan.earlier
    rows = slice(chains.start - plan.chains.start, chains.stop - plan.chains.start)
    part.chains, part.start = chains, start
    if earlier is not None:
        settings = replace(earlier.settings, n_chains=len(chains), first_chain=chains.start)
        state = {name: value[rows] if np.ndim(value) else value for name, value in earlier.state.items()}  # type: ignore[index]
        part.start = part.earlier = replace(earlier, settings=settings, state=state)
    elif not isinstance(start, str):
        part.start = start[rows]  # type: ignore[index]
    return part


# A chunk takes some tenths of a second at most, so that Ctrl-C takes effect: the multiplications, and the steps.
MAX_DEVICE_PRODUCTS, MAX_CPU_PRODUCTS = 5 * 10**12, 10**9
MAX_LAUNCH_STEPS, MAX_CPU_STEPS = 20_000, 32
MAX_DEVICE_ENTRIES, MAX_CPU_ENTRIES = 2**25, 2**19  # of kept states that are completed together

OnKeep = Callable[[int, Array], object]


def run(
    bank: MemoryBank | ArrayLike,
    beta: Beta,
    *,
    sampler: str | None = None,
    n_chains: int | None = None,
    n_steps: int = 5000,
    warmup: int | None = None,
    thin: int = 100,
    keep: Iterable[int] | None = None,
    start: Start = "memories",
    sigma_init: float = 0.01,
    rng: SeedLike = None,
    first_chain: int | None = None,
    span: bool | None = None,
    progress: bool | None = None,
    on_keep: OnKeep | None = None,
    n_jobs: int | None = None,
    **options: object,
) -> Draws:
    """Run chains and return the states kept after `warmup` steps, every `thin`-th, up to `n_steps`.

    bank:       a MemoryBank, or an array of memories (K, d)
    beta:       a number, or one for each step (annealing)
    sampler:    "ula" (Algorithm 1, the default), "mala" (Algorithm 2), "underdamped", "exact", or a registered one
    n_chains:   30 by default; warmup: 2,000 by default, 0 when continuing an earlier run
    keep:       the steps after which to keep a state, instead of warmup and thin. In the span of the memories a state
                does not depend on which others are kept; outside it, where a Langevin chain is drawn from one kept
                state to the next, its numbers do and their distribution does not (span=False: neither does)
    start:      "memories", "sphere", "equilibrium", memory indices (n_chains,), states (n_chains, d), or earlier draws
                (or their `last`) to continue: the result is that of one uninterrupted run
    sigma_init: spread of the starts around memories
    rng:        seed, numpy or torch Generator; chain i depends on (seed, first_chain + i), and on CUDA or not
    span:       None runs in the span of the memories when that is smaller than d; True and False force it
    on_keep:    called with the step and the states (n_chains, d) each time states are kept; with one job only
    n_jobs:     workers that share the chains (joblib), with the same draws: -1 for one per core, None for this process
                unless `joblib.parallel_config` is active. A CUDA device runs all chains itself
    options:    alpha=0.01 (ula, mala); step_size=0.1, friction=1.0 (underdamped); by default those of an earlier run

    Ctrl-C, or a device whose memory runs out, ends the run early with a warning and returns the states kept so far
    (`draws.settings.complete` is False); with several workers Ctrl-C raises KeyboardInterrupt.

    >>> import numpy as np, stochattn as sa
    >>> sa.run(np.eye(3), 20.0, sampler="mala", n_chains=4, n_steps=200, warmup=100, thin=50, rng=0).samples.shape
    (4, 2, 3)
    """
    plan = Plan(
        as_bank(bank),
        beta,
        sampler=sampler,
        n_chains=n_chains,
        n_steps=n_steps,
        warmup=warmup,
        thin=thin,
        keep=keep,
        start=start,
        sigma_init=sigma_init,
        rng=rng,
        first_chain=first_chain,
        span=span,
        options=options,
    )
    progress, n_jobs = check_flag("progress", progress), check_jobs(n_jobs)
    on_keep = check_on_keep(on_keep, n_jobs)
    parts = [plan] if on_keep is not None else parts_of(plan, effective_jobs(n_jobs))
    return _run(plan, progress, on_keep) if len(parts) == 1 else _run_parts(plan, parts, n_jobs, progress)


def check_on_keep(on_keep: OnKeep | None, n_jobs: int | None = None) -> OnKeep | None:
    """The function to call with kept states, or None; it sees the states of all chains, so it needs one job."""
    if on_keep is not None and not callable(on_keep):
        raise TypeError(f"on_keep must be a function of a step and states; got {on_keep!r}.")
    if on_keep is not None and n_jobs not in (None, 1):
        rule = f"n_jobs must be 1 or None with on_keep, which is called with the states of all chains; got {n_jobs}"
        raise ValueError(f"{rule}. Leave out one of them.")
    return on_keep


class ChainBatch:
    """The chains of a run: their state, complete whenever an interrupt may arrive, and the states kept so far."""

    def __init__(self, plan: Plan, noise: Streams) -> None:
        self.plan, self.noise, self.done = plan, noise, 0
        self.sampler, self.state = plan.begin(noise)
        self.n_rejected = arrays.zero_counts(noise.rows, plan.bank.patterns)  # (rows, 1)
        K, r = self.sampler.space.bank.patterns.shape
        products = int(noise.rows * K * r)
        self.max_steps = min(max(MAX_CPU_PRODUCTS // products, 1), MAX_CPU_STEPS)
        if self.sampler.independent:  # skips to the last draw of a chunk, which numpy's streams cannot
            self.max_steps = MAX_LAUNCH_STEPS if isinstance(noise, Philox) else 1
        self.fused = self.sampler.fused() if isinstance(noise, Philox) else None
        self.max_launch_steps = min(MAX_LAUNCH_STEPS, max(MAX_DEVICE_PRODUCTS // products, 1))
        self.attention = self.sampler.attention or ChainAttention(self.sampler.space.bank)
        self.attention.active_rows = noise.active_rows
        shape = len(plan.chains), len(plan.kept.steps)
        self.samples = empty((*shape, plan.bank.d), plan.bank.patterns)
        self.energies, self.basins = np.empty(shape), np.empty(shape, dtype=np.int64)
        self.steps: list[int] = []

    def loop(self, stop: threading.Event, bar: Progress, on_keep: OnKeep | None) -> None:
        plan, due = self.plan, chain(self.plan.kept.steps, (0,))
        next_kept, n_steps = next(due), plan.kept.n_steps
        while self.done < n_steps and not stop.is_set():
            beta = float(plan.betas[self.done])
            most = plan.steps_at_constant_beta(self.done, (next_kept or n_steps) - self.done)
            steps = self._advance(beta, most)
            if self.done == next_kept:
                self._keep(beta)
                next_kept = next(due)
                if on_keep is not None:
                    on_keep(self.steps[-1], self.samples[:, len(self.steps) - 1])
            if steps > 1 or self.done % 32 == 0:
                bar.update(self.done)

    def _advance(self, beta: float, most: int) -> int:
        """Take up to `most` steps in bounded time, in one launch where a kernel can; return how many were taken."""
        self.noise.step = self.plan.first_step + self.done
        steps = min(most, self.max_launch_steps)
        advanced = None if self.fused is None else self.fused(self.noise, self.state, beta, steps)
        if advanced is None:
            steps = min(most, self.max_steps)
            advanced = self.sampler.advance(self.noise, self.state, beta, steps)
        self.state, n_rejected = advanced
        self.done += steps
        if n_rejected is not None:
            self.n_rejected += n_rejected
        return steps

    def _keep(self, beta: float) -> None:
        """Store the states after drawing their complement, some rows at a time because d may be large."""
        bank, noise, state = self.plan.bank, self.noise, self.state
        noise.step = self.plan.first_step + self.done
        lse = to_numpy(self.attention.evaluate(state.xi, beta)[1])[:, 0]
        nearest, half_squares = to_numpy(self.attention.nearest(state.xi)), np.empty_like(lse)
        at, active, complement = len(self.steps), noise.active_rows, state.complement
        # Whole blocks of rows, whose temporary arrays take some 4 MB each (on a device, 128 MB).
        entries = MAX_DEVICE_ENTRIES if isinstance(noise, Philox) else MAX_CPU_ENTRIES
        for rows in slices(noise.rows, max(entries // bank.d // ROWS_PER_BLOCK, 1) * ROWS_PER_BLOCK):
            part = map_arrays(itemgetter(rows), complement)
            x, drawn = part.draw(state.xi[rows], self.sampler.space, partial(noise.at_kept, rows=rows))
            for field, new in zip(complement, drawn, strict=True):
                if np.ndim(field):
                    field[rows] = new  # only the running chains hold these arrays
            half_squares[rows] = to_numpy(norms_squared(x)) / 2
            first, last = max(rows.start, active.start), min(rows.stop, active.stop)
            chains = slice(first - active.start, last - active.start)
            self.samples[chains, at] = x[first - rows.start : last - rows.start]
        constants = bank.log_total_r / beta + bank.M**2 / 2
        self.energies[:, at] = (half_squares - lse / beta + constants)[active]
        self.basins[:, at] = self.plan.numbers(nearest[active])
        self.steps.append(noise.step)
        # The arrays of the complement are written already; its numbers are those of the drawn one.
        fields = (old if np.ndim(old) else new for old, new in zip(complement, drawn, strict=True))
        self.state = state._replace(complement=type(complement)(*fields))

    def draws(self) -> Draws:
        plan, active, n_kept = self.plan, self.noise.active_rows, len(self.steps)
        acceptance = 1 - to_numpy(self.n_rejected)[active, 0] / max(self.done, 1)
        settings = plan.settings(self.done == plan.kept.n_steps, self.sampler.space.bank.d)
        state = state_values(map_arrays(itemgetter(active), self.state))
        now, noise = plan.first_step + self.done, type(self.noise).__name__
        last = Checkpoint(settings, now, plan.kept.due(self.done), plan.fingerprint, noise, state)
        samples, energies, basins = (x[:, :n_kept] for x in (self.samples, self.energies, self.basins))
        return Draws(samples, energies, basins, np.array(self.steps, dtype=np.int64), acceptance, settings, last)


def _run(plan: Plan, progress: bool | None, on_keep: OnKeep | None) -> Draws:
    bank, n_steps, label = plan.bank, plan.kept.n_steps, f"{plan.sampler}, {len(plan.chains)} chains"
    with (
        full_precision(bank.patterns),
        limit_to_one_thread(),
        plan.streams() as noise,
        Progress(n_steps, label, progress) as bar,
        _interruptible() as stop,
    ):
        chains = ChainBatch(plan, noise)
        try:
            chains.loop(stop, bar, on_keep)
        except KeyboardInterrupt:  # from the user's own handler, or from a second Ctrl-C, which stops at once
            if stop.is_set():
                raise
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if not chains.steps:
                size = f"{len(plan.chains)} chains on K={bank.K} memories"
                remedy = "Run fewer chains at a time, each with its own first_chain."
                problem = f"{size} do not fit on {arrays.device_name(bank.patterns)}: {first_line(error)}"
                raise MemoryError(f"{problem} {remedy}") from error
            warnings.warn(f"out of memory: {first_line(error)}", RuntimeWarning, stacklevel=3)
        draws = chains.draws()
    if not draws.settings.complete:
        kept = f"the {len(draws.steps)} states kept so far are returned. Continue with start=draws."
        warnings.warn(f"interrupted after {chains.done} of {n_steps} steps; {kept}", RuntimeWarning, stacklevel=3)
    return draws


def _run_parts(plan: Plan, parts: list[Plan], n_jobs: int | None, progress: bool | None) -> Draws:
    """The draws of all chains, from those of the parts in their order."""
    label, draws_of_parts = f"{plan.sampler}, {len(plan.chains)} chains", list[Draws]()
    with limit_to_one_thread():
        choose_space(plan.bank, plan.span)  # the bank keeps the span, and takes it along to the workers
    work = partial(_run_part, SAMPLERS[plan.sampler])
    with Progress(len(plan.chains), label, progress) as bar, in_workers(work, parts, n_jobs) as results:
        for draws in results:
            draws_of_parts.append(draws)
            bar.update(draws.last.settings.first_chain + draws.settings.n_chains - plan.chains.start)
    first = draws_of_parts[0]
    settings = plan.settings(complete=True, dimensions=first.settings.dimensions)
    joined = {
        name: concatenate([getattr(draws, name) for draws in draws_of_parts])
        for name in ("samples", "energies", "basins", "acceptance")
    }
    state = {
        name: concatenate([draws.last.state[name] for draws in draws_of_parts]) if np.ndim(value) else value
        for name, value in first.last.state.items()
    }
    return replace(first, **joined, settings=settings, last=replace(first.last, settings=settings, state=state))


def _run_part(sampler: type[Sampler[object]], plan: Plan) -> Draws:
    """The draws of some chains, in a worker that may not know the caller's samplers yet."""
    SAMPLERS.setdefault(plan.sampler, sampler)
    with full_precision(plan.bank.patterns), limit_to_one_thread(), plan.streams() as noise:
        chains = ChainBatch(plan, noise)
        chains.loop(threading.Event(), Progress(plan.kept.n_steps, "", False), None)
        return chains.draws()


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Turn Ctrl-C into a request to stop after the current step, so that no kept state is half written."""
    stop = threading.Event()

    def request(number: int, frame: FrameType | None) -> None:
        if stop.is_set():  # the second Ctrl-C stops at once
            raise KeyboardInterrupt
        stop.set()

    default, on_main = signal.default_int_handler, threading.current_thread() is threading.main_thread()
    if not on_main or signal.getsignal(signal.SIGINT) is not default:
        yield stop
        return
    signal.signal(signal.SIGINT, request)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, default)
