"""One chain of a Langevin algorithm from noise to a memory, step by step; and which memories a state attends to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, to_numpy
from .._backend.quiet import quietly
from .._backend.random import Purpose, generator
from ..core import energy
from ..data.base import Items
from ..generators.hopfield import Hopfield
from ..synthesizer import Synthesizer

N_STEPS = 300
ALGORITHMS = {"ula": "Algorithm 1 (unadjusted)", "mala": "Algorithm 2 (Metropolis-adjusted)"}
STEP_SIZE = 0.05  # alpha: a relaxation time is 20 steps


class Walk(NamedTuple):
    """A chain of n steps and its start: rows (n + 1, d), energies (n + 1,), and the nearest memory (n + 1,)."""

    rows: Array
    energies: Array
    basins: Array
    acceptance: float

    @property
    def crossings(self) -> int:
        """How often the chain is nearer to another memory than one step before."""
        return int((self.basins[1:] != self.basins[:-1]).sum())


def walk(hopfield: Hopfield, algorithm: str, seed: int, n_steps: int = N_STEPS) -> Walk:
    """A chain that starts at noise: a random direction, as long as the longest memory."""
    model, bank = hopfield.model, hopfield.model.bank
    start = generator(seed, Purpose.ORDER).standard_normal(bank.d)
    start *= (bank.M or 1.0) / np.linalg.norm(start)
    with quietly():
        draws = model.run(
            sampler=algorithm,
            start=start[None],
            n_chains=1,
            n_steps=n_steps,
            keep=range(1, n_steps + 1),
            rng=seed,
            progress=False,
            alpha=STEP_SIZE,
        )
    rows = np.concatenate([start[None], to_numpy(draws.samples)[0]])
    energies = np.append(float(to_numpy(model.energy(start[None]))[0]), draws.energies[0])
    first = int(np.argmax(to_numpy(energy.weights(start[None], bank, model.beta))[0]))
    return Walk(rows, energies, np.append(first, draws.basins[0]), float(draws.acceptance[0]))


def decoded(synth: Synthesizer, hopfield: Hopfield, rows: Array, basins: Array) -> Items:
    """Rows (n, d) of a chain, nearest to the memories `basins` (n,), as items."""
    embedding = hopfield.embedding.at(hopfield.beta)
    z = rows * embedding.factors(hopfield.beta)[basins]
    arrays = embedding.arrays(z, basins, np.random.default_rng(0))
    return synth.codec.decode(arrays, basins)


class Attention(NamedTuple):
    """The memories with the largest attention weights, and these weights, the largest first."""

    indices: Array
    weights: Array


def attention(hopfield: Hopfield, features: Array, most: int = 10) -> Attention:
    """softmax(beta X xi) of an item with these features (p,), over stored items."""
    row = hopfield.embed(features[None])
    found = to_numpy(energy.weights(row, hopfield.model.bank, hopfield.beta))[0]
    order = np.argsort(-found, kind="stable")[:most]
    return Attention(order, found[order])
