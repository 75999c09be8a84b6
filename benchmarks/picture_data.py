"""Stored and held-out pictures from the folder STOCHATTN_DATA, and Markdown tables of results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DIGITS = range(10)
N_CLASSIFIER = 400
"""Number of pictures per digit that train the classifiers; they are neither stored nor held out."""
PEOPLE = 10
"""Number of people in one bank of portraits."""


def folder() -> Path:
    if "STOCHATTN_DATA" not in os.environ:
        sys.exit("STOCHATTN_DATA must name the folder that contains mnist.npz and olivetti.npz.")
    return Path(os.environ["STOCHATTN_DATA"])


def digits() -> dict[int, Any]:
    """Pictures of each digit, values from 0 to 1: (n, 28, 28) float32."""
    with np.load(folder() / "mnist.npz", allow_pickle=False) as file:
        return {digit: file[f"digit{digit}"].astype(np.float32) / 255 for digit in DIGITS}


def portraits() -> Any:
    """Ten portraits of each of forty people, values from 0 to 1: (40, 10, 64, 64) float32."""
    with np.load(folder() / "olivetti.npz", allow_pickle=False) as file:
        return (file["images"].astype(np.float32) / float(file["scale"])).reshape(40, 10, 64, 64)


def split(pictures: Any, K: int, held_out: int, seed: int) -> tuple[Any, Any]:
    """K stored and some held-out pictures of a digit, without those that train the classifiers."""
    order = np.random.default_rng(seed).permutation(len(pictures) - N_CLASSIFIER)
    return pictures[order[:K]], pictures[order[K : K + held_out]]


class Portraits(NamedTuple):
    """Portraits of ten people, five stored and five held out per person: (10, 5, 64, 64)."""

    stored: Any
    held_out: Any


def split_portraits(everyone: Any, seed: int) -> Portraits:
    """Ten of the forty people, drawn for each seed, with a random half of the portraits stored."""
    rng = np.random.default_rng(seed)
    people = everyone[rng.choice(len(everyone), PEOPLE, replace=False)]
    mixed = rng.permuted(np.tile(np.arange(10), (PEOPLE, 1)), axis=1)
    chosen = people[np.arange(PEOPLE)[:, None], mixed]
    return Portraits(chosen[:, :5], chosen[:, 5:])


def photo_patches(side: int) -> Any:
    """Squares that two photographs of scikit-learn are cut into, values from 0 to 1: (n, side, side, 3) float32."""
    from sklearn.datasets import load_sample_images

    parts = []
    for photograph in load_sample_images().images:
        down, across = photograph.shape[0] // side, photograph.shape[1] // side
        tiles = photograph[: down * side, : across * side].reshape(down, side, across, side, 3)
        parts.append(tiles.swapaxes(1, 2).reshape(-1, side, side, 3))
    return np.concatenate(parts).astype(np.float32) / 255


def flat(pictures: Any) -> Any:
    """One row per picture: (n, H, W) -> (n, H·W)."""
    return pictures.reshape(len(pictures), -1)


def table(head: Sequence[str], figures: Mapping[str, Sequence[Sequence[float]]], places: int) -> Iterator[str]:
    """The lines of a Markdown table: mean ± standard deviation over runs, one row per name."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for name, runs in figures.items():
        means, sds = np.mean(runs, axis=0), np.std(runs, axis=0)
        cells = [
            "–" if np.isnan(mean) else f"{mean:,.{places}f}" + (f" ± {sd:,.{places}f}" if len(runs) > 1 else "")
            for mean, sd in zip(means, sds, strict=True)
        ]
        yield "| " + " | ".join([name, *cells]) + " |"
