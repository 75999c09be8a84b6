"""How often the verdict of a report is wrong: false alarms on real rows, and planted faults that it misses.

Tables of pydataset, in the extra `benchmarks`, are divided at random into stored and new rows. A false alarm
is a check that fails real new rows. A fault is noticed if the verdict or a failed check names it.

python -m benchmarks.verdicts [--rows 100] [--seeds 2] [--full]
"""

from __future__ import annotations

import argparse
import zlib
from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd

import stochattn as sa
from stochattn.report import Verdict, judge, measure

from .table_contest_data import package

TABLES = [
    *("airquality", "birthwt", "Pima.tr", "biopsy", "esoph", "infert", "Boston", "cats"),
    *("crabs", "Melanoma", "anorexia", "survey", "veteran", "lung", "mpg", "Prestige"),
    *("Davis", "Chile", "SLID", "Caschool", "Mroz", "Housing", "Computers", "Salaries"),
    *("Hitters", "diamonds", "msleep", "movies", "midwest", "turnout", "iqitems", "bfi"),
    *("sat.act", "epi.bfi", "voteincome", "Aids2", "nwtco", "mexico", "stagec", "Ornstein"),
]
"""Tables whose rows are independent, as those of repeated measures are not."""
Fault = Callable[[pd.DataFrame, pd.DataFrame, np.random.Generator], tuple[pd.DataFrame, str]]


def names_of(rows: pd.DataFrame, *, numeric: bool) -> list[str]:
    """Columns of many numbers, or of few categories."""
    few = {name: rows[name].nunique() <= 12 for name in rows if name != "person_id"}
    is_number = {name: pd.api.types.is_numeric_dtype(rows[name]) for name in few}
    return [
        name for name in few if is_number[name] is numeric and few[name] is not numeric and rows[name].nunique() > 1
    ]


def empty_cells(stored: pd.DataFrame, new: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, str]:
    name = [*names_of(stored, numeric=False), *names_of(stored, numeric=True)][0]
    return new.assign(**{name: new[name].mask(rng.random(len(new)) < 0.3)}), name


def constant(stored: pd.DataFrame, new: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, str]:
    name = names_of(stored, numeric=True)[0]
    return new.assign(**{name: stored[name].dropna().sort_values().iloc[len(stored[name].dropna()) // 2]}), name


def identifiers(stored: pd.DataFrame, new: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, str]:
    return new.assign(person_id=rng.permutation(stored["person_id"])[: len(new)]), "person_id"


def repeats(stored: pd.DataFrame, new: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, str]:
    n = round(0.13 * len(new))
    again = new.iloc[:n].assign(person_id=new["person_id"].iloc[len(new) - n :].to_numpy())
    return pd.concat([new.iloc[: len(new) - n], again], ignore_index=True), "equal an earlier"


def swap(stored: pd.DataFrame, new: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, str]:
    numbers = stored[names_of(stored, numeric=True)]
    numbers = max((numbers.select_dtypes(dtype) for dtype in ("float64", "int64")), key=lambda same: same.shape[1])
    low, _, *_ = means = numbers.mean().sort_values().index
    high = means[-1]
    return new.assign(**{low: new[high], high: new[low]}), str(low)


def category(stored: pd.DataFrame, new: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, str]:
    name = names_of(stored, numeric=False)[-1]
    shares = stored[name].value_counts(normalize=True)
    value = shares[shares >= 0.2].index[-1]
    return new[new[name] != value].reset_index(drop=True), str(value)


FAULTS: dict[str, Fault] = {
    "30 % of a column missing": empty_cells,
    "a constant column": constant,
    "identifiers of stored rows": identifiers,
    "13 % of rows repeated": repeats,
    "two columns swapped": swap,
    "a category of 20 % or more missing": category,
}


def halves(name: str, n: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """At most n stored and as many new rows of a table, each with the identifier of a person."""
    rng, rows = np.random.default_rng([seed, zlib.crc32(name.encode())]), package("pydataset").data(name)
    rows = rows.iloc[rng.permutation(len(rows))[: 2 * min(n, len(rows) // 2)]].reset_index(drop=True)
    rows.insert(0, "person_id", [f"P{number}" for number in rng.choice(90_000, len(rows), replace=False)])
    return rows.iloc[: len(rows) // 2].reset_index(drop=True), rows.iloc[len(rows) // 2 :].reset_index(drop=True)


def verdict(stored: pd.DataFrame, new: pd.DataFrame, seed: int, *, quick: bool) -> Verdict:
    """The verdict on new rows of which it is not known how they were made."""
    return judge(measure(sa.fit(stored, "table"), new, seed, False, method_known=False, quick=quick))


def main() -> None:
    """Print a line for each false alarm and each fault that was missed, and then both rates."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100, help="stored rows, and as many new ones")
    parser.add_argument("--seeds", type=int, default=2, help="random divisions of each table")
    parser.add_argument("--full", action="store_true", help="full reports instead of quick ones")
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES, metavar="TABLE")
    options = parser.parse_args()
    n_real, alarms, noticed, planted = 0, Counter[str](), Counter[str](), Counter[str]()
    for name in options.tables:
        for seed in range(options.seeds):
            stored, new = halves(name, options.rows, seed)
            checks = verdict(stored, new, seed, quick=not options.full).checks._asdict()
            failed = [check for check, result in checks.items() if result.passed is False]
            n_real, alarms = n_real + 1, alarms + Counter(failed or ["none"])
            if failed:
                print(f"{name}, division {seed}: real rows fail {', '.join(failed)}", flush=True)
        for fault, plant in FAULTS.items():
            try:
                broken, word = plant(stored, new, np.random.default_rng(0))
            except (IndexError, ValueError):  # no column that could have the fault
                continue
            result = verdict(stored, broken, 0, quick=not options.full)
            findings = [check.finding for check in result.checks if check.passed is False]
            is_named = any(word in text for text in (result.headline, result.advice, *findings))
            planted[fault] += 1
            noticed[fault] += is_named
            if not is_named:
                print(f"{name}: {fault} is missed ({word}): {result.headline}", flush=True)
    print(f"real rows: {n_real - alarms.pop('none', 0)} of {n_real} reports with a failed check: {dict(alarms)}")
    for fault, n in planted.items():
        print(f"{fault}: {noticed[fault]} of {n} noticed")


if __name__ == "__main__":
    main()
