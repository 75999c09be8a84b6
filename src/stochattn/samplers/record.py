"""The record of a run: only kept states are stored, and only for them is the rest outside the span drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._backend.arrays import ROWS_PER_BLOCK, Array, empty, norms_squared, to_numpy
from .._backend.random import Streams
from ..core.memory import MemoryBank
from ..kernels.philox import Philox
from .base import Field, State
from .draws import Checkpoint, Draws, Settings
from .subspace import Space

BLOCK_ENTRIES = 2**19
DEVICE_BLOCK_ENTRIES = 2**25  # launches are dear there, and memory is not


class Record:
    """Where kept states go."""

    def __init__(self, bank: MemoryBank, space: Space, noise: Streams, n_kept: int, field: Field | None) -> None:
        self.bank, self.space, self.noise = bank, space, noise
        self.field = field or Field(space.bank)
        n_chains = len(noise.chains)
        self.samples = empty((n_chains, n_kept, bank.d), bank.patterns)
        self.energies = np.empty((n_chains, n_kept))
        self.basins = np.empty((n_chains, n_kept), dtype=np.int64)
        self.steps: list[int] = []

    @property
    def n(self) -> int:
        """How many states of each chain are kept so far."""
        return len(self.steps)

    @property
    def latest(self) -> Array:
        """The states kept last: (n_chains, d)."""
        return self.samples[:, self.n - 1]

    def keep(self, state: State, beta: float, step: int) -> State:
        """Store a state; return it with its rest drawn. Some rows at a time, since d may be large."""
        j, rest = self.n, state.rest
        lse = to_numpy(self.field.at(state.xi, beta)[1])
        nearest = to_numpy(self.field.nearest(state.xi))
        constants = self.bank.log_total_r / beta + self.bank.M**2 / 2
        after = rest
        for rows in self._blocks():
            part = type(rest)(*(field[rows] if np.ndim(field) else field for field in rest))
            normals = self.noise.at_kept(self.bank.d, rows) if self.space.rest else None
            x, after = part.settle(state.xi[rows], self.space, normals)
            for whole, drawn in zip(rest, after, strict=True):
                if np.ndim(whole):
                    whole[rows] = drawn  # nobody else holds the rest of a running chain
            busy = slice(max(rows.start, self.noise.busy.start), min(rows.stop, self.noise.busy.stop))
            here = slice(busy.start - rows.start, busy.stop - rows.start)
            chains = slice(busy.start - self.noise.busy.start, busy.stop - self.noise.busy.start)
            self.samples[chains, j] = x[here]
            halves = to_numpy(norms_squared(x))[here] / 2
            self.energies[chains, j] = halves - lse[busy, 0] / beta + constants
            self.basins[chains, j] = self.bank.kept[nearest[busy]]
        self.steps.append(step)
        return state._replace(
            rest=type(rest)(*(whole if np.ndim(whole) else drawn for whole, drawn in zip(rest, after, strict=True)))
        )

    def _blocks(self) -> list[slice]:
        """Slices of whole blocks of rows, the temporaries of which take some 4 MB each (on a device, 128 MB)."""
        entries = DEVICE_BLOCK_ENTRIES if isinstance(self.noise, Philox) else BLOCK_ENTRIES
        size = max(entries // self.bank.d // ROWS_PER_BLOCK, 1) * ROWS_PER_BLOCK
        return [slice(begin, min(begin + size, self.noise.rows)) for begin in range(0, self.noise.rows, size)]

    def draws(self, acceptance: Any, settings: Settings, last: Checkpoint) -> Draws:
        """What `run` returns."""
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
