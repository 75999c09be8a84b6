"""Chains in parts that workers run beside each other, and the results of the parts put together.

Chain i depends on (seed, i) only, so a part of the chains is a run of its own, and any partition gives the same bytes.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from .._backend.arrays import Array, concatenate, on_cuda
from .._backend.products import rows_in_block
from ..storage.shards import Shards
from .draws import Checkpoint, Draws
from .plan import Earlier, Plan
from .start import Start, given_start, require_kept

MAX_PART = 2048  # chains in a part: more would not be faster, and progress is reported part by part


def parts_of(plan: Plan, n_jobs: int) -> list[Plan]:
    """At least n_jobs parts of a plan, of whole blocks of rows where there are enough; one on a device or a cluster."""
    first, last = plan.chains.start, plan.chains.stop
    block = rows_in_block(plan.bank.patterns)
    begin, end = first // block, -(-last // block)  # the blocks that hold these chains
    n_parts = min(end - begin, n_jobs * -(-len(plan.chains) // (n_jobs * MAX_PART)))
    # A device runs all chains at once, and workers of a cluster share the passes over a bank already.
    if 1 in (n_jobs, n_parts) or on_cuda(plan.bank.patterns) or isinstance(plan.bank.patterns, Shards):
        return [plan]
    edges = [begin + (end - begin) * i // n_parts for i in range(n_parts + 1)]
    start = plan.start
    if plan.earlier is None and not isinstance(start, str):
        start = given_start(start, plan.bank, len(plan.chains))  # errors are about all chains
        if start.ndim == 1:
            require_kept(np.setdiff1d(start, plan.bank.kept))
    return [_part(plan, start, range(max(a * block, first), min(b * block, last))) for a, b in pairwise(edges)]


def _part(plan: Plan, start: Start, chains: range) -> Plan:
    rows = slice(chains.start - plan.chains.start, chains.stop - plan.chains.start)
    earlier: Earlier = plan.earlier
    if earlier is not None:
        settings = replace(earlier.settings, n_chains=len(chains), first_chain=chains.start)
        state = {name: _rows(value, rows) for name, value in earlier.state.items()}
        start = earlier = replace(earlier, settings=settings, state=state)
    elif not isinstance(start, str):
        start = start[rows]  # type: ignore[index]
    return replace(plan, chains=chains, start=start, earlier=earlier)


def put_together(plan: Plan, parts: list[Draws]) -> Draws:
    """The draws of all chains from those of its parts, in their order."""
    first = parts[0]
    settings = plan.settings(complete=True, dimensions=first.settings.dimensions)

    def joined(name: str) -> Array:
        return concatenate([getattr(part, name) for part in parts])

    def state(name: str, value: Array | float) -> Array | float:
        return concatenate([part.last.state[name] for part in parts]) if np.ndim(value) else value

    last = first.last
    whole = {name: state(name, value) for name, value in last.state.items()}
    last = Checkpoint(settings, last.step, last.due, last.memories, last.noise, whole)
    samples, energies, basins, acceptance = map(joined, ("samples", "energies", "basins", "acceptance"))
    return Draws(samples, energies, basins, first.steps, acceptance, settings, last)


def _rows(value: Array | float, rows: slice) -> Array | float:
    return value if isinstance(value, float) or not np.ndim(value) else value[rows]
