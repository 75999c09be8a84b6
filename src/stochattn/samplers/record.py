"""The record of a run: only kept states are stored, and only for them is the rest outside the span drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import Array, empty, norms_squared, to_numpy
from .._random import Streams
from ..draws import Checkpoint, Draws, Settings
from ..memory import MemoryBank
from ..subspace import Space
from .base import Field, State


class Record:
    """Where kept states go."""

    def __init__(self, bank: MemoryBank, space: Space, noise: Streams, n_kept: int) -> None:
        self.bank, self.space, self.noise = bank, space, noise
        self.field = Field(space.bank)
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
        """Store a state; return it with its rest drawn."""
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
