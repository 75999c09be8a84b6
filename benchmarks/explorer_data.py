"""Files of each kind of data for the explorer, and how a user changes each of its controls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from .explorer_page import Step
from .files import random_family

PER_DIGIT = 30


class Case(NamedTuple):
    """A file, options of the command, and the steps that set the i-th value of its own control of conditions."""

    path: Path
    options: tuple[str, ...]
    condition: Callable[[int], list[Step]]


def shared_steps(i: int) -> dict[str, list[Step]]:
    """The i-th change of each control that all kinds have."""
    return {
        "slider": [("#knob", 20 + 17 * i % 160, "input")],
        "seed": [("#seed", 1000 + i, "change")],
        "draw others": [("#new-seed", None, "click")],
        "number": [("#n", 8 + i, "change")],
        "weight of a stored example": [
            (f".stored-list li[data-index='{i}'] button[aria-label*='twice']", None, "click")
        ],
    }


def novelty_steps(i: int) -> list[Step]:
    """The i-th wanted novelty, for p_beta."""
    return [("#novelty", round(0.08 + 0.005 * i, 3), "change")]


def cases(folder: Path) -> dict[str, Case]:
    """A small file of each kind."""
    return {
        "table": Case(table(folder / "patients.csv"), (), _range),
        "proteins": Case(random_family(folder / "family.fasta"), (), _letter),
        "pictures": Case(digits(folder / "digits.npz"), (), _rectangle),
        "returns": Case(prices(folder / "prices.csv"), (), _first_day),
        "signals": Case(signals(folder / "signals.npy"), ("--kind", "signals"), _stretch),
    }


def _range(i: int) -> list[Step]:
    return [("[id='condition:age-low']", 25 + i, "change")]


def _letter(i: int) -> list[Step]:
    return [(f".column:nth-child({i + 1}) .letter", None, "click")]


def _rectangle(i: int) -> list[Step]:
    sides = {"top": 1, "bottom": 2 + i % 3, "left": 1, "right": 2 + i // 3 % 6}
    found: list[Step] = [(f"[id$='-{side}']", value, "") for side, value in sides.items()]
    return [*found, ("[id$='-right']", None, "change")]


def _first_day(i: int) -> list[Step]:
    return [(".step input[data-step='1']", 2 * i - 20, "change")]


def _stretch(i: int) -> list[Step]:
    return [("[id$='-first']", 1, ""), ("[id$='-last']", 20 + i, "change")]


def table(path: Path, K: int = 150) -> Path:
    """A table with columns of several types."""
    rng = np.random.default_rng(0)
    group = rng.choice(["red", "green", "blue"], K)
    shift = np.select([group == "red", group == "green"], [0.0, 2.0], 4.0)
    frame = pd.DataFrame(
        {
            "height": np.round(rng.normal(170, 8, K) + 3 * shift, 1),
            "age": rng.integers(20, 80, K),
            "smoker": rng.random(K) < 0.3,
            "group": group,
            "score": np.round(rng.normal(0, 1, K) + shift, 2),
        }
    )
    frame.to_csv(path, index=False)
    return path


def digits(path: Path) -> Path:
    """Digits of 8 x 8 pixels, some of each class."""
    x, labels = load_digits(return_X_y=True)
    kept = np.concatenate([np.flatnonzero(labels == digit)[:PER_DIGIT] for digit in range(10)])
    np.savez(path, images=(x[kept].reshape(-1, 8, 8) / 16).astype(np.float32), labels=labels[kept])
    return path


def prices(path: Path, days: int = 300, tickers: int = 8) -> Path:
    """Daily prices of tickers that have a market in common."""
    rng = np.random.default_rng(0)
    returns = 0.006 * (rng.standard_t(4, (days, 1)) + rng.standard_t(4, (days, tickers)))
    frame = pd.DataFrame(100 * np.exp(returns.cumsum(0)), columns=[f"T{i}" for i in range(tickers)]).round(4)
    frame.insert(0, "date", pd.bdate_range("2022-01-03", periods=days).strftime("%Y-%m-%d"))
    frame.to_csv(path, index=False)
    return path


def signals(path: Path, K: int = 60, length: int = 128) -> Path:
    """Damped waves with noise."""
    rng, t = np.random.default_rng(0), np.linspace(0, 1, length)
    rate, phase, damping = (rng.random((3, K, 1)).T + np.array([2.0, 0.0, 0.0])).T
    waves = np.sin(2 * np.pi * rate * t + phase) * np.exp(-3 * damping * t)
    np.save(path, waves + 0.05 * rng.standard_normal((K, length)))
    return path


def many_pictures(path: Path, K: int = 1000, size: int = 64) -> Path:
    """Pictures of size x size gray levels: a bright spot somewhere on a smooth ground."""
    rng, axis = np.random.default_rng(0), np.linspace(-1, 1, size)
    x, y, width = 0.5 * rng.standard_normal((3, K, 1, 1))
    spots = np.exp(-((axis[None, None] - x) ** 2 + (axis[None, :, None] - y) ** 2) / (0.05 + 0.2 * width**2))
    np.save(path, np.clip(255 * (0.8 * spots + 0.1 + 0.02 * rng.standard_normal(spots.shape)), 0, 255).astype(np.uint8))
    return path
