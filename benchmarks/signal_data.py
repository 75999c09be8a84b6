"""The signals on which the signal generator and its rivals are compared: sets of the UCR archive, and made-up ones.

The package aeon contains the sets. It is not imported, only its files are read, so that
`pip install --no-deps aeon` is enough; the extra `benchmarks` installs it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stochattn._backend.arrays import Array
from stochattn.kinds.signals.formats import read_ts

ARCHIVE = ("ItalyPowerDemand", "GunPoint", "ArrowHead", "BasicMotions", "OSULeaf")
"""Sets of the archive."""
MAX_STORED, FEW, MAX_TEST, POINTS = 100, 10, 250, 150
"""Signals of a half, at most; stored signals per class and held-out ones, for classifiers; length of made-up ones."""


class SignalSet(NamedTuple):
    """Signals (n, C, T) of classes (n,)."""

    name: str
    signals: Array
    classes: Array


class Split(NamedTuple):
    """Stored and held-out signals with their classes."""

    stored: Array
    classes: Array
    held_out: Array
    truth: Array


def archive_folder() -> Path:
    """The folder of aeon's data; SystemExit with the remedy where the package is not installed."""
    found = find_spec("aeon")
    for folder in (found.submodule_search_locations or ()) if found else ():
        if (data := Path(folder) / "datasets" / "data").is_dir():
            return data
    remedy = "Install it: pip install --no-deps aeon, or pip install 'stochattn[benchmarks]'."
    raise SystemExit(f"benchmarks: the package aeon, which contains the signals, is not installed. {remedy}")


def archive_set(name: str) -> SignalSet:
    """Both parts of a set of the archive."""
    parts = [read_ts(archive_folder() / name / f"{name}_{part}.ts") for part in ("TRAIN", "TEST")]
    labels = np.array([label for part in parts for label in part.labels or ()])
    return SignalSet(name, np.concatenate([part.signals for part in parts]), np.unique(labels, return_inverse=True)[1])


def halves(data: SignalSet, seed: int) -> Split:
    """As many stored as held-out signals, at most MAX_STORED, classes in their shares."""
    n = min(len(data.signals) // 2, MAX_STORED)
    counts = {label: n * share for label, share in _shares(data).items()}
    return _split(data, seed, counts, counts)


def few(data: SignalSet, seed: int) -> Split:
    """FEW stored signals per class, or half of a smaller one, and at most MAX_TEST held-out ones."""
    shares = _shares(data)
    stored = {label: min(FEW, share * len(data.signals) / 2) for label, share in shares.items()}
    return _split(data, seed, stored, {label: MAX_TEST * share for label, share in shares.items()})


def _shares(data: SignalSet) -> dict[int, float]:
    labels, counts = np.unique(data.classes, return_counts=True)
    return dict(zip(labels.tolist(), (counts / counts.sum()).tolist(), strict=True))


def _split(data: SignalSet, seed: int, n_stored: dict[int, float], n_held_out: dict[int, float]) -> Split:
    rng, stored, others = np.random.default_rng([seed, len(data.signals)]), [], []
    for label, n in n_stored.items():
        own, k = rng.permutation(np.flatnonzero(data.classes == label)), round(n)
        stored.append(own[:k])
        others.append(own[k:][: round(n_held_out[label])])
    a, b = (rng.permutation(np.concatenate(parts)) for parts in (stored, others))
    return Split(data.signals[a], data.classes[a], data.signals[b], data.classes[b])


def gestures(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A plateau with a rise and a fall at varying times, and in one class a dip after it, as in GunPoint."""
    t, classes = np.arange(POINTS) / POINTS, np.arange(n) % 2
    rise, fall = (rng.normal(at, 0.03, (n, 1)) for at in (0.25, 0.7))
    speed, height = 0.03 * np.exp(rng.normal(0, 0.2, (n, 1))), rng.normal(1, 0.1, (n, 1))
    plateau = height * (1 / (1 + np.exp((rise - t) / speed)) - 1 / (1 + np.exp((fall - t) / speed)))
    dip = rng.normal(0.2, 0.08, (n, 1)) * np.exp(-(((t - fall - 0.07) / 0.04) ** 2) / 2)
    return plateau - classes[:, None] * dip + rng.normal(0, 0.03, (n, POINTS)), classes


def heartbeats(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A narrow peak and a wave after it, which is lower in one class; both come early or late."""
    t, classes = np.arange(POINTS) / POINTS, np.arange(n) % 2
    at = rng.normal(0.4, 0.03, (n, 1))
    peak = rng.normal(1, 0.15, (n, 1)) * np.exp(-(((t - at) / 0.015) ** 2) / 2)
    height = rng.normal(0.3, 0.06, (n, 1)) - 0.12 * classes[:, None]
    return peak + height * np.exp(-(((t - at - 0.25) / 0.05) ** 2) / 2) + rng.normal(0, 0.05, (n, POINTS)), classes


def motions(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Oscillations of arbitrary phase, faster in one class."""
    t, classes = np.arange(POINTS) / POINTS, np.arange(n) % 2
    rate = (4 + classes[:, None]) * np.exp(rng.normal(0, 0.1, (n, 1)))
    waves = np.sin(2 * np.pi * (rate * t + rng.random((n, 1))))
    return rng.normal(1, 0.2, (n, 1)) * waves + rng.normal(0, 0.3, (n, POINTS)), classes


def autoregressions(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Second-order autoregressions with different resonances."""
    classes, x = np.arange(n) % 2, np.zeros((n, POINTS + 50))
    first = np.where(classes, 1.5, 1.65)
    for i in range(2, POINTS + 50):
        x[:, i] = first * x[:, i - 1] - 0.8 * x[:, i - 2] + rng.normal(size=n)
    return x[:, 50:], classes


MADE_UP: dict[str, Callable[[int, np.random.Generator], tuple[Array, Array]]] = {
    one.__name__: one for one in (gestures, heartbeats, motions, autoregressions)
}
SETS = (*ARCHIVE, *MADE_UP)


def signal_set(name: str) -> SignalSet:
    """A set by its name; 300 signals of made-up ones."""
    if name in ARCHIVE:
        return archive_set(name)
    signals, classes = MADE_UP[name](300, np.random.default_rng(list(MADE_UP).index(name)))
    return SignalSet(name, signals[:, None], classes)
