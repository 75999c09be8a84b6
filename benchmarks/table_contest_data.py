"""The tables on which the table generator and its rivals are compared, and their halves.

They come from scikit-learn and from the packages palmerpenguins, pydataset and statsmodels, which the extra
`benchmarks` installs. Rows with missing cells are left out, because not all rivals accept them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets

MAX_STORED = 300


class Contest(NamedTuple):
    """A table, the column that a forest predicts, and whether this holds classes."""

    name: str
    frame: pd.DataFrame
    target: str
    classes: bool


class Halves(NamedTuple):
    """As many stored as held-out rows."""

    stored: pd.DataFrame
    held_out: pd.DataFrame


def package(name: str) -> object:
    """A package that the tables come from; SystemExit with the remedy where it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        extra = "Install the extra `benchmarks`: pip install 'stochattn[benchmarks]'."
        raise SystemExit(f"benchmarks: the package {name.split('.')[0]} is not installed. {extra}") from None


def _of_sklearn(load: Callable[..., object], classes: bool = True, **options: bool) -> pd.DataFrame:
    data = load(as_frame=True, **options)
    frame = data.frame.copy()
    if classes:
        names = data.target_names
        frame["target"] = [str(names[place]) for place in frame["target"]]
    return frame


def _digits() -> pd.DataFrame:
    data = datasets.load_digits(as_frame=True).frame
    return data.assign(target=[f"digit {digit}" for digit in data["target"]])


def _penguins() -> pd.DataFrame:
    return package("palmerpenguins").load_penguins().drop(columns="year")


def _fair() -> pd.DataFrame:
    frame = package("statsmodels.datasets").fair.load_pandas().data
    return frame.assign(affairs=np.where(frame["affairs"] > 0, "yes", "no"))


def _anes96() -> pd.DataFrame:
    frame = package("statsmodels.datasets").anes96.load_pandas().data
    return frame.drop(columns="logpopul").assign(vote=np.where(frame["vote"] > 0, "Dole", "Clinton"))


def _of_pydataset(name: str, *dropped: str) -> pd.DataFrame:
    return package("pydataset").data(name).drop(columns=list(dropped))


SOURCES: dict[str, tuple[Callable[[], pd.DataFrame], str, bool]] = {
    "iris": (lambda: _of_sklearn(datasets.load_iris), "target", True),
    "wine": (lambda: _of_sklearn(datasets.load_wine), "target", True),
    "breast cancer": (lambda: _of_sklearn(datasets.load_breast_cancer), "target", True),
    "digits 8×8": (_digits, "target", True),
    "diabetes": (lambda: _of_sklearn(datasets.load_diabetes, classes=False, scaled=False), "target", False),
    "penguins": (_penguins, "species", True),
    "fair": (_fair, "affairs", True),
    "anes96": (_anes96, "vote", True),
    "crabs": (lambda: _of_pydataset("crabs", "index"), "sp", True),
    "Pima": (lambda: _of_pydataset("Pima.tr"), "type", True),
    "tips": (lambda: _of_pydataset("tips"), "time", True),
    "Salaries": (lambda: _of_pydataset("Salaries"), "rank", True),
    "Housing": (lambda: _of_pydataset("Housing"), "price", False),
    "Boston": (lambda: _of_pydataset("Boston"), "medv", False),
}


def contests(names: tuple[str, ...] = tuple(SOURCES)) -> list[Contest]:
    """The tables of these names, without rows that have missing cells."""
    found = []
    for name in names:
        load, target, classes = SOURCES[name]
        found.append(Contest(name, load().dropna().reset_index(drop=True), target, classes))
    return found


def halves(contest: Contest, seed: int) -> Halves:
    """A random split in two halves of at most MAX_STORED rows each, classes in equal proportions as far as possible."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(contest.frame))
    if contest.classes:  # every class alternates between the halves
        codes = contest.frame[contest.target].astype("category").cat.codes.to_numpy()[order]
        order = order[np.argsort(codes, kind="stable")]
    size = min(MAX_STORED, len(order) // 2)
    sides = (rng.permutation(order[0::2])[:size], rng.permutation(order[1::2])[:size])
    return Halves(*(contest.frame.iloc[side].reset_index(drop=True) for side in sides))
