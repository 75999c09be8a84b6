"""Snapshots of one chain, read out at a large beta, without burn-in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import energy, neighbors

from .. import drawing
from ..data import Data
from ..progress import stage
from ..protocol import SIGMA_INIT, shortened
from ..results import Figure, Result
from . import faces

Array = Any


def run(data: Data, seed: int, quick: bool) -> Result:
    """Figure trajectories: a chain among digits 3 at β = 50, one among faces at β = 200."""
    digits = data.digits(3, 100)
    portraits, subjects = data.faces()
    stage("a chain among digits")
    top = _snapshots(digits, 94, 50.0, 2000.0, (1000, 5000, 10_000, 25_000, 50_000), SIGMA_INIT, seed, quick)
    stage("a chain among faces")
    bottom = _snapshots(
        portraits, 0, 200.0, faces.BETA_READ, (100, 500, 1000, 2000, 3000), faces.SIGMA_INIT, seed, quick
    )
    finding = (
        f"the digits are {_listed(k + 1 for k in top[2])}, the subjects {_listed(subjects[k] for k in bottom[2])}. "
        "Which basins a chain visits depends on the seed."
    )
    return Result(
        [],
        [Figure("trajectories", _CAPTION, lambda: _draw(digits, portraits, subjects, top, bottom), _CLAIM, finding)],
    )


_CAPTION = (
    "One chain each, from step 0: digits 3 at β = 50 from memory 95, read out at β = 2000 (top), and faces at β = 200 "
    "from subject 0, read out at β = 10,000 (bottom)."
)
_CLAIM = (
    "the digit chain is at memories 95, 95, 100, 18, 53, 96 at the six steps, which shows mixing within about 5,000 "
    "steps; the face chain has left subject 0 at T = 100 and visits subjects 6, 7, 4, 6, 8."
)


def _listed(values: Iterable[int]) -> str:
    return ", ".join(str(value) for value in values)


def _snapshots(
    bank: sa.MemoryBank,
    memory: int,
    beta: float,
    beta_read: float,
    steps: tuple[int, ...],
    sigma: float,
    seed: int,
    quick: bool,
) -> tuple[list[int], Array, Array]:
    """The steps, the readouts and the memory nearest to each."""
    begin = bank.patterns[memory] + sigma * np.random.default_rng(seed).standard_normal(bank.d)
    keep = [shortened(step, quick) for step in steps]
    draws = sa.run(bank, beta, sampler="ula", n_chains=1, n_steps=keep[-1], keep=keep, start=begin[None], rng=seed)
    states = np.concatenate([begin[None], draws.samples[0]])
    readouts = energy.attend(states, bank, beta_read)
    return [0, *keep], readouts, neighbors.nearest_memory(readouts, bank)[0]


def _draw(digits: sa.MemoryBank, portraits: sa.MemoryBank, subjects: Array, top: Any, bottom: Any) -> Any:
    figure, axes = drawing.subplots(2, 6, size=(2.3, 2.9))
    for axis, step, row, k in zip(axes[0], *top, strict=True):
        axis.imshow(row.reshape(drawing.square(digits.d)), cmap="gray")
        axis.set_title(f"T = {step:,}\nmemory {k + 1}")
    for axis, step, row, k in zip(axes[1], *bottom, strict=True):
        axis.imshow(row.reshape(drawing.square(portraits.d)), cmap="gray")
        axis.set_title(f"T = {step:,}\nsubject {subjects[k]}")
    for axis in axes.flat:
        axis.axis("off")
    return figure
