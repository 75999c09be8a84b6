"""The one loop that drives every sampler."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from .._backend.arrays import Array, device_name, full_precision, to_numpy, zeros
from .._backend.checks import choice
from .._backend.device_memory import first_line, is_out_of_memory
from .._backend.progress import Progress
from .base import Sampler
from .chunk import stretch
from .draws import Checkpoint, Draws
from .exact import exact
from .interrupt import interruptible
from .mala import mala
from .plan import Plan, plan
from .record import Record
from .subspace import Space
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
    lone: bool = False,
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
    lone:        True computes a single chain as a vector: several times faster on a large bank, and equal to the same
                 chain in company to rounding instead of to the last bit
    on_keep:     called with the step and the states (n_chains, d) each time states are kept

    Ctrl-C ends the run early and returns what was kept so far (`draws.settings.complete` is False), with a warning;
    so does a device whose memory runs out on the way. On a CUDA device float32 chains in up to 256 dimensions run many
    steps in one launch; chains there have noise of their own, and depend on (seed, chain) in the same way.
    """
    planned = plan(
        bank,
        beta,
        samplers=SAMPLERS,
        sampler=sampler,
        n_chains=n_chains,
        n_steps=n_steps,
        warmup=warmup,
        thin=thin,
        keep=keep,
        alpha=alpha,
        start=start,
        sigma_init=sigma_init,
        rng=rng,
        first_chain=first_chain,
        span=span,
        lone=lone,
    )
    choice("progress", progress)
    planned.require_room()
    if on_keep is not None and not callable(on_keep):
        raise TypeError(f"on_keep must be a function of a step and states; got {on_keep!r}.")
    draws = _drive(planned, progress, on_keep)
    if not draws.settings.complete:
        done = draws.last.step - planned.first_step
        warnings.warn(
            f"interrupted after {done} of {planned.n_steps} steps; the {len(draws.steps)} states kept so far are "
            "returned. Continue with start=draws.",
            RuntimeWarning,
            stacklevel=2,
        )
    return draws


def _drive(plan: Plan, progress: bool | None, on_keep: Callable[[int, Array], object] | None) -> Draws:
    label = f"{plan.sampler}, {len(plan.chains)} chains"
    with (
        full_precision(plan.bank.patterns),
        plan.streams() as noise,
        Progress(plan.n_steps, label, progress) as bar,
        interruptible() as stop,
    ):
        x = plan.starting_points(noise)  # before the span is computed: a start that does not fit is told at once
        sampler = SAMPLERS[plan.sampler](plan.space, plan.alpha)
        state = plan.first_state(sampler, x, noise)
        record = Record(plan.bank, plan.space, noise, len(plan.keep), sampler.field)
        advance = stretch(plan.sampler, sampler, plan.space, plan.alpha, noise)
        rejections = zeros(noise.rows, plan.bank.patterns)
        done, due = 0, chain(plan.keep, (0,))
        next_kept = next(due)
        try:
            while done < plan.n_steps and not stop:
                beta = float(plan.betas[done])
                noise.step = plan.first_step + done
                most = plan.steps_alike(done, (next_kept or plan.n_steps) - done)
                state, rejected, steps = advance(state, beta, most)
                done += steps
                if rejected is not None:
                    rejections += rejected
                if done == next_kept:
                    noise.step = plan.first_step + done
                    state = record.keep(state, beta, noise.step)
                    next_kept = next(due)
                    if on_keep is not None:
                        on_keep(noise.step, record.latest)
                if steps > 1 or done % 32 == 0:
                    bar.at(done)
        except KeyboardInterrupt:  # from a handler that is not ours, or from a second Ctrl-C, which means it
            if stop:
                raise
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if not record.n:
                where = device_name(plan.bank.patterns)
                raise MemoryError(
                    f"{len(plan.chains)} chains on K={plan.bank.K} memories do not fit on {where}: {first_line(error)} "
                    "Run fewer chains at a time (first_chain sets them apart)."
                ) from error
            warnings.warn(f"out of memory: {first_line(error)}", RuntimeWarning, stacklevel=3)
        busy = noise.busy
        last = Checkpoint(
            sampler=plan.sampler,
            seed=plan.seed,
            first_chain=plan.chains.start,
            step=plan.first_step + done,
            due=plan.steps_to_next_kept(done),
            memories=plan.memories,
            xi=state.xi[busy],
            rest=type(state.rest)(*(part[busy] if np.ndim(part) else part for part in state.rest)),
            lone=plan.lone,
            noise=type(noise).__name__,
        )
        acceptance = 1 - to_numpy(rejections)[busy, 0] / max(done, 1)
        return record.draws(acceptance, plan.settings(complete=done == plan.n_steps), last)
