"""New signals against held-out ones, beside augmentations, on generated signals of four families.

python -m benchmarks.signals [--quick]

    train proximity  share of new signals nearer to a stored signal than to any of as many held-out ones; 0.5 is ideal
    near-copies      share at less than a third of the median distance from a stored signal to its nearest neighbour
    spectra          distance of mean log spectra to held-out signals, over that of the stored ones
    autocorrelation  the same of autocorrelations
    1-NN gain        accuracy of nearest neighbours on held-out signals with new beside stored ones, less without
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import stochattn as sa
from stochattn._backend.arrays import Array
from stochattn.core.neighbors import nearest_distances, nearest_rows
from stochattn.data.signals.output import autocorrelation_distance, spectral_distance

from .rivals.signal_augmentation import block_bootstrap, jitter_scale_warp

POINTS, STORED, HELD_OUT, NEW, SPLITS = 150, 50, 200, 200, 5
Labelled = tuple[Array, Array]


def gestures(n: int, rng: np.random.Generator) -> Labelled:
    """A plateau with a rise and a fall at varying times, and in one class a dip after it, as in GunPoint."""
    t, classes = np.arange(POINTS) / POINTS, np.arange(n) % 2
    rise, fall = (rng.normal(at, 0.03, (n, 1)) for at in (0.25, 0.7))
    speed, height = 0.03 * np.exp(rng.normal(0, 0.2, (n, 1))), rng.normal(1, 0.1, (n, 1))
    plateau = height * (1 / (1 + np.exp((rise - t) / speed)) - 1 / (1 + np.exp((fall - t) / speed)))
    dip = rng.normal(0.2, 0.08, (n, 1)) * np.exp(-(((t - fall - 0.07) / 0.04) ** 2) / 2)
    return plateau - classes[:, None] * dip + rng.normal(0, 0.03, (n, POINTS)), classes


def heartbeats(n: int, rng: np.random.Generator) -> Labelled:
    """A narrow peak and a wave after it, which is lower in one class; both come early or late."""
    t, classes = np.arange(POINTS) / POINTS, np.arange(n) % 2
    at = rng.normal(0.4, 0.03, (n, 1))
    peak = rng.normal(1, 0.15, (n, 1)) * np.exp(-(((t - at) / 0.015) ** 2) / 2)
    height = rng.normal(0.3, 0.06, (n, 1)) - 0.12 * classes[:, None]
    return peak + height * np.exp(-(((t - at - 0.25) / 0.05) ** 2) / 2) + rng.normal(0, 0.05, (n, POINTS)), classes


def motions(n: int, rng: np.random.Generator) -> Labelled:
    """Oscillations of arbitrary phase, faster in one class."""
    t, classes = np.arange(POINTS) / POINTS, np.arange(n) % 2
    rate = (4 + classes[:, None]) * np.exp(rng.normal(0, 0.1, (n, 1)))
    waves = np.sin(2 * np.pi * (rate * t + rng.random((n, 1))))
    return rng.normal(1, 0.2, (n, 1)) * waves + rng.normal(0, 0.3, (n, POINTS)), classes


def autoregressive(n: int, rng: np.random.Generator) -> Labelled:
    """Second-order autoregressions with different resonances."""
    classes, x = np.arange(n) % 2, np.zeros((n, POINTS + 50))
    first = np.where(classes, 1.5, 1.65)
    for i in range(2, POINTS + 50):
        x[:, i] = first * x[:, i - 1] - 0.8 * x[:, i - 2] + rng.normal(size=n)
    return x[:, 50:], classes


FAMILIES = (gestures, heartbeats, motions, autoregressive)


def drawn_by(generator: str) -> Callable[[Array, Array, np.random.Generator], Labelled]:
    """Draws of a generator of the library, and the class of each."""

    def draw(signals: Array, classes: Array, rng: np.random.Generator) -> Labelled:
        synth = sa.fit(signals, "signals", labels=classes.astype(str), generator=generator)
        batches = list(synth.batches(NEW, int(rng.integers(2**31))))
        new = np.concatenate([batch.items[:, 0] for batch in batches])
        return new, classes[np.concatenate([batch.source for batch in batches])]

    return draw


def _augmented(signals: Array, classes: Array, rng: np.random.Generator) -> Labelled:
    source = rng.integers(len(signals), size=NEW)
    return jitter_scale_warp(signals, source, rng), classes[source]


def _bootstrapped(signals: Array, classes: Array, rng: np.random.Generator) -> Labelled:
    source = rng.integers(len(signals), size=NEW)
    return block_bootstrap(signals, classes, source, rng), classes[source]


METHODS = {
    "windows (default)": drawn_by("windows"),
    "p_beta": drawn_by("hopfield"),
    "block bootstrap": _bootstrapped,
    "jitter, scale, warp": _augmented,
}


def measures(new: Labelled, stored: Labelled, other: Labelled) -> dict[str, float]:
    """The measures of new signals, given stored and held-out ones (n, T) with their classes (n,)."""
    x, y, held = new[0], stored[0], other[0]
    near, twin = nearest_distances(x, y), nearest_distances(x, held[: len(y)])
    usual = float(np.median(nearest_distances(y)))

    def accuracy(examples: Array, classes: Array) -> float:
        return float((classes[nearest_rows(held, examples)] == other[1]).mean())

    both = np.concatenate([y, x]), np.concatenate([stored[1], new[1]])
    found = {"train proximity": float((near < twin).mean()), "near-copies": float((near < usual / 3).mean())}
    for name, distance in (("spectra", spectral_distance), ("autocorrelation", autocorrelation_distance)):
        found[name] = distance(x[:, None], held[:, None]) / distance(y[:, None], held[:, None])
    return found | {"1-NN gain": 100 * (accuracy(*both) - accuracy(*stored))}


def main() -> None:
    """Print a table for each family."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.signals", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one split")
    n_splits = 1 if parser.parse_args().quick else SPLITS
    for f, family in enumerate(FAMILIES):
        results: dict[str, list[dict[str, float]]] = {name: [] for name in METHODS}
        for split in range(n_splits):
            rng = np.random.default_rng([f, split])
            stored, other = family(STORED, rng), family(HELD_OUT, rng)
            for name, method in METHODS.items():
                results[name].append(measures(method(*stored, rng), stored, other))
        print(f"\n{family.__name__}, {STORED} stored, {n_splits} splits\n")
        names = list(results["p_beta"][0])
        print("| method | " + " | ".join(names) + " |\n|---" + "|---" * len(names) + "|")
        for method_name, found in results.items():
            values = np.array([list(one.values()) for one in found])
            errors = values.std(0) / np.sqrt(max(n_splits - 1, 1))
            cells = (f"{m:.2f} ± {e:.2f}" for m, e in zip(values.mean(0), errors, strict=True))
            print(f"| {method_name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
