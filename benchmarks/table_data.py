"""The tables of the benchmark, and their splits into stored and held-out rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets


class Task(NamedTuple):
    """A table, and whether its target is categorical."""

    name: str
    frame: Any
    classes: bool


def tasks() -> list[Task]:
    found = []
    for name, load in (
        ("wine", datasets.load_wine),
        ("breast cancer", datasets.load_breast_cancer),
        ("diabetes", lambda **options: datasets.load_diabetes(scaled=False, **options)),
    ):
        data = load(as_frame=True)
        frame = data.frame.copy()
        if name != "diabetes":
            frame["target"] = frame["target"].map(dict(enumerate(data.target_names))).astype(str)
        found.append(Task(name, frame, name != "diabetes"))
    return [*found, Task("people", people(), True)]


def people(n: int = 600) -> Any:
    """A simulated table of dependent numbers, counts, booleans and categories."""
    rng = np.random.default_rng(7)
    place = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    age = np.clip(np.round(rng.normal(35 + 5 * place, 11)), 18, 90).astype(int)
    retired = rng.random(n) < 1 / (1 + np.exp((45 - age) / 6))
    job = np.where(retired, "retired", np.where(rng.random(n) < 0.3 + 0.1 * place, "office", "field"))
    mean_income = 9.5 + 0.02 * age - 0.5 * retired + 0.2 * (job == "office")
    visits = rng.poisson(1 + 0.05 * np.maximum(age - 30, 0) + 2 * retired)
    smoker = rng.random(n) < 0.25 - 0.15 * (job == "office")
    pressure = np.round(110 + 0.5 * age + 6 * smoker + rng.normal(0, 8, n), 1)
    risk = 0.05 * (age - 45) + smoker + 0.06 * (pressure - 135) + 0.3 * (visits - 3) + rng.logistic(0, 0.7, n)
    columns = {
        "age": age,
        "city": np.array(["north", "east", "south", "west"])[place],
        "job": job,
        "income": np.exp(rng.normal(mean_income, 0.4)).round(0),
        "visits": visits,
        "smoker": smoker,
        "pressure": pressure,
        "target": np.where(risk > 0, "high", "low"),
    }
    return pd.DataFrame(columns)


def split(task: Task, K: int, seed: int) -> tuple[Any, Any]:
    """K stored rows, with at least two of each class, and all other rows as held out."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        order = rng.permutation(len(task.frame))
        stored = task.frame.iloc[order[:K]].reset_index(drop=True)
        every = stored["target"].value_counts().reindex(task.frame["target"].unique(), fill_value=0)
        if not task.classes or every.min() > 1:
            return stored, task.frame.iloc[order[K:]].reset_index(drop=True)
    raise RuntimeError("no split with two rows of every class")
