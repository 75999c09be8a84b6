"""The signal generator beside its rivals, on sets of the UCR archive.

python -m benchmarks.signals [--quick] [--seeds 20] [--kept FILE] [--sets GunPoint ...] [--methods "p_beta" ...]

Half of a set, at most 100 signals, is stored, each method draws as many, and new signals are compared with as many
held-out ones. For classifiers, ten signals per class are stored, and each method draws fifty per class. No method sees
the held-out signals. The package aeon contains the sets: pip install --no-deps aeon. FILE, or signals.jsonl in a
folder, keeps what was measured, a line of JSON per set, split and method, for runs that go on.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import stochattn as sa
from stochattn._backend.arrays import Array
from stochattn.kinds.signals.generator.normalization import Normalization

from .rivals import block_bootstrap, class_gaussian_process, dtw_barycenters, jitter_scale_warp, signal_vae
from .signal_data import ARCHIVE, SETS, Split, few, halves, signal_set
from .signal_measures import Classifiers, quality

NEW_PER_STORED = 5
"""New signals per stored one, for classifiers."""
FIRST_SPLIT, N_SPLITS = 500, 20
"""Seeds of splits begin here; 0 to 9 and 400 to 419 served development, and 100 to 104, 200 to 204 and 300 to 304
earlier versions."""
OURS, STORED = "deformations (default)", "stored, replayed"
KEPT = "signals.jsonl"
"""Name of the file of measures in a folder that is given for it."""
Drawn = tuple[Array, Array]
Method = Callable[[Split, int, np.random.Generator], Drawn]
Measured = dict[tuple[str, int, str], dict[str, float]]
HEAD = {
    "train_proximity": ("train proximity", 3),
    "copies": ("copies", 3),
    "c2": ("C2*", 2),
    "spectra": ("spectra", 2),
    "autocorrelation": ("autocorrelation", 2),
    "dtw_gain": ("1-NN-DTW gain", 1),
    "rocket_gain": ("ROCKET gain", 1),
    "seconds": ("seconds", 1),
}
"""Titles and decimal places of the columns."""


def drawn_by(generator: str, **options: object) -> Method:
    """Draws of a generator of the library, and the class of each."""

    def draw(data: Split, n: int, rng: np.random.Generator) -> Drawn:
        synth = sa.fit(data.stored, "signals", labels=data.classes.astype(str), generator=generator, **options)
        batches = list(synth.batches(n, int(rng.integers(2**31))))
        source = np.concatenate([np.asarray(batch.source) for batch in batches])
        return np.concatenate([batch.items for batch in batches]), data.classes[source]

    return draw


def rival(draw: Callable[[Array, Array, Array, np.random.Generator], Array]) -> Method:
    """Draws of a rival around the stored signals, each as often as the others."""

    def drawn(data: Split, n: int, rng: np.random.Generator) -> Drawn:
        source = np.resize(rng.permutation(len(data.stored)), n)
        return draw(data.stored, data.classes, source, rng), data.classes[source]

    return drawn


def normalized(method: Method) -> Method:
    """Draws of a method, normalized as the stored signals are."""

    def drawn(data: Split, n: int, rng: np.random.Generator) -> Drawn:
        (new, classes), stored = method(data, n, rng), np.swapaxes(data.stored, 1, 2)
        return np.swapaxes(Normalization.of(stored).apply(np.swapaxes(new, 1, 2)), 1, 2), classes

    return drawn


METHODS: dict[str, Method] = {
    STORED: lambda data, n, rng: (data.stored, data.classes),
    OURS: drawn_by("deformations"),
    "windows": drawn_by("windows"),
    "p_beta": drawn_by("hopfield"),
    "DTW barycenters": rival(dtw_barycenters.draw),
    "block bootstrap": rival(block_bootstrap.draw),
    "Gaussian process": rival(class_gaussian_process.draw),
    "VAE": rival(signal_vae.draw),
    "jitter, scale, warp": rival(jitter_scale_warp.draw),
}
RIVALS = tuple(METHODS)[4:]
AUGMENTATIONS = ("DTW barycenters", "block bootstrap", "jitter, scale, warp")
"""Rivals that change stored signals. The others learn a law of all of them."""
NORMALIZED = tuple(f"{name}, normalized" for name in AUGMENTATIONS)
"""Augmentations whose signals are normalized as the stored ones are. The published methods do not normalize."""
METHODS |= {new: normalized(METHODS[name]) for new, name in zip(NORMALIZED, AUGMENTATIONS, strict=True)}


def measured(names: Sequence[str], seeds: range, kept: Path | None, methods: Sequence[str]) -> Measured:
    """Measures and seconds of each set, split and method; those that are kept are not measured again."""
    found: Measured = {}
    if kept is not None and kept.exists():
        for line in kept.read_text("utf-8").splitlines():
            row = json.loads(line)
            found[row.pop("data"), row.pop("split"), row.pop("name")] = row
    for seed in seeds:
        for name in names:
            missing = [method for method in methods if (name, seed, method) not in found]
            if not missing:
                continue
            data = signal_set(name)
            half, rare = halves(data, seed), few(data, seed)
            classifiers = Classifiers(rare, seed)
            for method in missing:
                begin, rng = time.process_time(), np.random.default_rng([seed, list(METHODS).index(method)])
                new, _ = METHODS[method](half, len(half.stored), rng)
                seconds = time.process_time() - begin
                row = {**quality(new, half)._asdict(), "seconds": seconds}
                more = METHODS[method](rare, NEW_PER_STORED * len(rare.stored), rng)
                row |= classifiers.gains(*more)._asdict()
                row |= dict(zip(("dtw_base", "rocket_base"), classifiers.base, strict=True))
                found[name, seed, method] = row
                if kept is not None:
                    with kept.open("a", encoding="utf-8") as file:
                        line = {"kind": "signals", "data": name, "split": seed, "name": method, **row}
                        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return found


def table(found: Measured, name: str, seeds: range, methods: Sequence[str]) -> Iterator[str]:
    """A Markdown table of one set: mean ± standard error over splits."""
    rows = [found[name, seed, methods[0]] for seed in seeds]
    base = ", ".join(
        f"{title} {cell([row[key] for row in rows], 1)} %"
        for key, title in (("dtw_base", "1-NN-DTW"), ("rocket_base", "ROCKET"))
    )
    yield f"\n### {name}\n\nAccuracy with stored signals only: {base}.\n"
    yield "| method | " + " | ".join(title for title, _ in HEAD.values()) + " |"
    yield "|" + "---|" * (1 + len(HEAD))
    for method in methods:
        values = [found[name, seed, method] for seed in seeds]
        cells = (cell([row[key] for row in values], places) for key, (_, places) in HEAD.items())
        yield f"| {method} | " + " | ".join(cells) + " |"


def overall(found: Measured, names: Sequence[str], seeds: range, methods: Sequence[str]) -> Iterator[str]:
    """A Markdown table of means over all sets, ± the standard error over splits."""
    yield f"\n### All {len(names)} sets\n"
    yield "| method | " + " | ".join(title for title, _ in HEAD.values()) + " |"
    yield "|" + "---|" * (1 + len(HEAD))
    for method in methods:
        means = {key: [np.mean([found[name, seed, method][key] for name in names]) for seed in seeds] for key in HEAD}
        yield f"| {method} | " + " | ".join(cell(means[key], places) for key, (_, places) in HEAD.items()) + " |"


def cell(values: Sequence[float], places: int) -> str:
    """Mean ± standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):.{places}f} ± {error:.{places}f}"


def verdicts(found: Measured, names: Sequence[str], seeds: range) -> Iterator[str]:
    """Sentences that say where our means meet the limits, and where our gains are at least those of every rival."""

    def mean(name: str, method: str, key: str) -> float:
        return float(np.mean([found[name, seed, method][key] for seed in seeds]))

    for key, limit in (("train_proximity", 0.7), ("copies", 0.03), ("spectra", 2.0), ("autocorrelation", 2.0)):
        failed = [name for name in names if mean(name, OURS, key) > limit]
        against = f" Not on {', '.join(failed)}." if failed else ""
        yield f"- {HEAD[key][0]} at most {limit:g}: on {len(names) - len(failed)} of {len(names)} sets.{against}"
    contests = {"every rival": RIVALS, "every augmentation": AUGMENTATIONS}
    contests["every augmentation, normalized or not"] = (*AUGMENTATIONS, *NORMALIZED)
    for title, rivals in contests.items():
        for key in ("dtw_gain", "rocket_gain"):
            lost = {}
            for name in names:
                best = max(rivals, key=lambda method: mean(name, method, key))
                if mean(name, best, key) > mean(name, OURS, key) + 1e-9:
                    lost[name] = best
            against = " Not on " + ", ".join(f"{name} ({best})" for name, best in lost.items()) + "." if lost else ""
            won = f"on {len(names) - len(lost)} of {len(names)} sets"
            yield f"- {HEAD[key][0]} at least that of {title}: {won}.{against}"


def main() -> None:
    """Measure, and print a table for each set."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.signals", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two splits")
    parser.add_argument("--seeds", type=int, default=N_SPLITS, help="number of splits")
    parser.add_argument(
        "--first", type=int, default=FIRST_SPLIT, help="first split; development uses 0 to 9 and 400 to 419"
    )
    parser.add_argument("--kept", type=Path, metavar="FILE", help="file of measures to go on with")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=ARCHIVE, metavar="SET")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=tuple(METHODS), metavar="METHOD")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(options.first, options.first + (2 if options.quick else options.seeds))
    kept = options.kept
    if kept is not None and not kept.suffix:
        kept.mkdir(parents=True, exist_ok=True)
        kept = kept / KEPT
    found = measured(options.sets, seeds, kept, options.methods)
    if set(options.methods) == set(METHODS):
        print("\n".join(verdicts(found, options.sets, seeds)))
    print("\n".join(overall(found, options.sets, seeds, options.methods)))
    for name in options.sets:
        print("\n".join(table(found, name, seeds, options.methods)))


if __name__ == "__main__":
    main()
