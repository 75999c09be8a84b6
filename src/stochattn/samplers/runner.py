"""The one loop that drives every sampler."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from types import FrameType

from .._backend.arrays import Array, ArrayLike, device_name, full_precision, to_numpy, zero_counts
from .._backend.checks import choice, first_line, is_out_of_memory, non_negative
from .._backend.progress import Progress
from .._backend.random import SeedLike, Streams
from ..core.memory import MemoryBank, as_bank
from ..kernels.philox import Philox
from .draws import Draws
from .plan import BetaSchedule, KeptSteps, Plan, Start, checkpoint_of, sampler_and_options, seed_and_chains
from .record import Record

# A chunk takes some tenths of a second at most, so that Ctrl-C takes effect: the multiplications, and the steps.
MAX_DEVICE_PRODUCTS, MAX_CPU_PRODUCTS = 5 * 10**12, 10**9
MAX_LAUNCH_STEPS, MAX_CPU_STEPS = 20_000, 32

OnKeep = Callable[[int, Array], object]


def run(
    bank: MemoryBank | ArrayLike,
    beta: float | Sequence[float] | Array,
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
    **options: object,
) -> Draws:
    """Run chains and return the states kept after `warmup` steps, every `thin`-th, up to `n_steps`.

    bank:       a MemoryBank, or an array of memories (K, d)
    beta:       a number, or one for each step (annealing)
    sampler:    "ula" (Algorithm 1, the default), "mala" (Algorithm 2), "underdamped", "exact", or a registered one
    n_chains:   30 by default
    warmup:     2,000 by default, 0 when continuing an earlier run
    keep:       the steps after which to keep a state, instead of warmup and thin
    start:      "memories", "sphere", "equilibrium", memory indices (n_chains,), states (n_chains, d), or earlier draws
                (or their `last`) to continue: the result is that of one uninterrupted run
    sigma_init: spread of the starts around memories
    rng:        seed, numpy or torch Generator; chain i depends on (seed, first_chain + i) only
    span:       None runs in the span of the memories when that is smaller than d; True and False force it
    on_keep:    called with the step and the states (n_chains, d) each time states are kept
    options:    alpha=0.01 (ula, mala); step_size=0.1, friction=1.0 (underdamped); by default those of an earlier run

    Ctrl-C, or a device whose memory runs out, ends the run early with a warning and returns the states kept so far
    (`draws.settings.complete` is False). On a CUDA device chains have noise of their own, see `kernels/philox.py`.
    """
    bank, earlier = as_bank(bank), checkpoint_of(start)
    name, options = sampler_and_options(sampler, options, earlier)
    seed, chains = seed_and_chains(rng, n_chains, first_chain, earlier)
    kept = KeptSteps.of(n_steps, warmup, thin, keep, due=earlier.due if earlier else None)
    betas = BetaSchedule.of(beta, kept.n_steps, bank)
    sigma, span = non_negative("sigma_init", sigma_init), choice("span", span)
    if on_keep is not None and not callable(on_keep):
        raise TypeError(f"on_keep must be a function of a step and states; got {on_keep!r}.")
    plan = Plan(bank, name, options, betas, kept, seed, chains, start, sigma, span, earlier)
    return _run(plan, choice("progress", progress), on_keep)


class _Chains:
    """The chains of a run, and where they stand: whole whenever an interrupt may arrive."""

    def __init__(self, plan: Plan, noise: Streams) -> None:
        self.plan, self.noise, self.done = plan, noise, 0
        self.sampler, self.state = plan.begin(noise)
        self.n_rejected = zero_counts(noise.rows, plan.bank.patterns)  # (rows, 1)
        self.record = Record(plan.bank, self.sampler, noise, len(plan.kept.steps))
        K, r = self.sampler.space.bank.patterns.shape
        products = int(noise.rows * K * r)
        self.max_steps = min(max(MAX_CPU_PRODUCTS // products, 1), MAX_CPU_STEPS)
        if self.sampler.independent:  # skips to the last draw of a chunk, which numpy's streams cannot
            self.max_steps = MAX_LAUNCH_STEPS if isinstance(noise, Philox) else 1
        self.fused = self.sampler.fused() if isinstance(noise, Philox) else None
        self.max_launch_steps = min(MAX_LAUNCH_STEPS, max(MAX_DEVICE_PRODUCTS // products, 1))

    def advance(self, beta: float, most: int) -> int:
        """Up to `most` steps in bounded time, in one launch where a kernel can take them; how many they are."""
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

    def loop(self, stop: threading.Event, bar: Progress, on_keep: OnKeep | None) -> None:
        plan, due = self.plan, chain(self.plan.kept.steps, (0,))
        next_kept = next(due)
        while self.done < plan.n_steps and not stop.is_set():
            beta = plan.betas[self.done]
            most = plan.betas.steps_at_constant_beta(self.done, (next_kept or plan.n_steps) - self.done)
            steps = self.advance(beta, most)
            if self.done == next_kept:
                self.noise.step = plan.first_step + self.done
                self.state = self.record.keep(self.state, beta, self.noise.step)
                next_kept = next(due)
                if on_keep is not None:
                    on_keep(self.noise.step, self.record.latest)
            if steps > 1 or self.done % 32 == 0:
                bar.update(self.done)

    def draws(self) -> Draws:
        last = self.plan.checkpoint(self.done, self.noise, self.state)
        acceptance = 1 - to_numpy(self.n_rejected)[self.noise.active_rows, 0] / max(self.done, 1)
        return self.record.draws(acceptance, self.plan.settings(complete=self.done == self.plan.n_steps), last)


def _run(plan: Plan, progress: bool | None, on_keep: OnKeep | None) -> Draws:
    label = f"{plan.sampler}, {len(plan.chains)} chains"
    with (
        full_precision(plan.bank.patterns),
        plan.streams() as noise,
        Progress(plan.n_steps, label, progress) as bar,
        _interruptible() as stop,
    ):
        chains = _Chains(plan, noise)
        try:
            chains.loop(stop, bar, on_keep)
        except KeyboardInterrupt:  # from the user's own handler, or from a second Ctrl-C, which stops at once
            if stop.is_set():
                raise
        except (RuntimeError, MemoryError) as error:
            _keep_if_out_of_memory(error, plan, chains.record)
        draws = chains.draws()
    if not draws.settings.complete:
        warnings.warn(
            f"interrupted after {chains.done} of {plan.n_steps} steps; the {len(draws.steps)} states kept so far are "
            "returned. Continue with start=draws.",
            RuntimeWarning,
            stacklevel=3,
        )
    return draws


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Turn Ctrl-C into a request to stop after the current step, so that no kept state is half written."""
    stop = threading.Event()
    replaces_default = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )

    def request(number: int, frame: FrameType | None) -> None:
        if stop.is_set():  # the second Ctrl-C stops at once
            raise KeyboardInterrupt
        stop.set()

    if replaces_default:
        signal.signal(signal.SIGINT, request)
    try:
        yield stop
    finally:
        if replaces_default:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _keep_if_out_of_memory(error: RuntimeError | MemoryError, plan: Plan, record: Record) -> None:
    """Warn if a device ran out of memory after some states were kept; raise everything else."""
    if not is_out_of_memory(error):
        raise error
    if not record.steps:
        raise MemoryError(
            f"{len(plan.chains)} chains on K={plan.bank.K} memories do not fit on {device_name(plan.bank.patterns)}: "
            f"{first_line(error)} Run fewer chains at a time, each with its own first_chain."
        ) from error
    warnings.warn(f"out of memory: {first_line(error)}", RuntimeWarning, stacklevel=4)
