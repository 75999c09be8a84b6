"""The record of a run: only kept states are stored, and only for them is the complement drawn."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np

from .._backend.arrays import Array, empty, norms_squared, to_numpy
from .._backend.products import ROWS_PER_BLOCK
from .._backend.random import Streams
from ..core.memory import MemoryBank
from ..kernels.philox import Philox
from .attention import ChainAttention
from .base import AnySampler, ChainState
from .complement import Complement
from .draws import Checkpoint, Draws, Settings

BLOCK_ENTRIES = 2**19
DEVICE_BLOCK_ENTRIES = 2**25  # launches are expensive there, and memory is not


class Record:
    """The kept states of a run, with their energies and basins."""

    def __init__(self, bank: MemoryBank, sampler: AnySampler, noise: Streams, n_kept: int) -> None:
        self.bank, self.space, self.noise = bank, sampler.space, noise
        self.attention = sampler.attention or ChainAttention(self.space.bank)
        n_chains = len(noise.chains)
        self.samples = empty((n_chains, n_kept, bank.d), bank.patterns)
        self.energies = np.empty((n_chains, n_kept))
        self.basins = np.empty((n_chains, n_kept), dtype=np.int64)
        self.steps: list[int] = []

    @property
    def latest(self) -> Array:
        """The states kept last: (n_chains, d)."""
        return self.samples[:, len(self.steps) - 1]

    def keep(self, state: ChainState, beta: float, step: int) -> ChainState:
        """Store a state; return it with its complement drawn. Some rows at a time, since d may be large."""
        lse = to_numpy(self.attention.evaluate(state.xi, beta)[1])[:, 0]
        nearest = to_numpy(self.attention.nearest(state.xi))
        constants = self.bank.log_total_r / beta + self.bank.M**2 / 2
        at, active, complement = len(self.steps), self.noise.active_rows, state.complement
        for rows in self._blocks():
            x, complement = self._draw(state, rows)
            filled = slice(max(rows.start, active.start), min(rows.stop, active.stop))
            here = slice(filled.start - rows.start, filled.stop - rows.start)
            chains = slice(filled.start - active.start, filled.stop - active.start)
            self.samples[chains, at] = x[here]
            half_squares = to_numpy(norms_squared(x))[here] / 2
            self.energies[chains, at] = half_squares - lse[filled] / beta + constants
            self.basins[chains, at] = self.bank.kept[nearest[filled]]
        self.steps.append(step)
        whole = state.complement  # its arrays are written already; the numbers are those of the drawn one
        fields = (old if _is_array(old) else new for old, new in zip(whole, complement, strict=True))
        replaced: ChainState = state._replace(complement=type(whole)(*fields))  # type: ignore[attr-defined]
        return replaced

    def _draw(self, state: ChainState, rows: slice) -> tuple[Array, Complement]:
        """The full states of some rows, and their complement, which is written into that of `state` too."""
        complement = state.complement
        part = type(complement)(*(field[rows] if _is_array(field) else field for field in complement))
        x, drawn = part.draw(state.xi[rows], self.space, lambda width: self.noise.at_kept(width, rows))
        for whole, new in zip(complement, drawn, strict=True):
            if _is_array(whole):
                whole[rows] = new  # only the running chains hold these arrays
        return x, drawn

    def _blocks(self) -> list[slice]:
        """Slices of whole blocks of rows, whose temporary arrays take some 4 MB each (on a device, 128 MB)."""
        entries = DEVICE_BLOCK_ENTRIES if isinstance(self.noise, Philox) else BLOCK_ENTRIES
        size = max(entries // self.bank.d // ROWS_PER_BLOCK, 1) * ROWS_PER_BLOCK
        return [slice(begin, min(begin + size, self.noise.rows)) for begin in range(0, self.noise.rows, size)]

    def draws(self, acceptance: Array, settings: Settings, last: Checkpoint) -> Draws:
        """What `run` returns."""
        samples, energies, basins = (x[:, : len(self.steps)] for x in (self.samples, self.energies, self.basins))
        return Draws(samples, energies, basins, np.array(self.steps, dtype=np.int64), acceptance, settings, last)


def _is_array(field: Array | float) -> TypeGuard[Array]:
    return np.ndim(field) > 0
