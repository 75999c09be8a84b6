"""Pictures from the patch generator, evaluated on held-out ones, with p_beta, a Gaussian mixture, a VAE and replay.

STOCHATTN_DATA=FOLDER python -m benchmarks.images [--quick] [--seeds 5] [--out FOLDER]

Settings are chosen on stored pictures only. The last 400 pictures of each digit train the classifiers whose hidden
layers give the Fréchet distances; they are neither stored nor held out. Everything runs on one core.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from stochattn.evaluation import held_out_metrics
from stochattn.kinds.images.generator.patches import LocalHeads

from . import portraits, temperatures
from .contact_sheets import write_contact_sheets
from .picture_baselines import Method, gaussian_mixture, interpolation, p_beta, patches, replay, vae, warped
from .picture_data import DIGITS, digits, flat, split, table
from .picture_features import Features, frechet, networks

OTHERS = tuple(digit for digit in DIGITS if digit != 3)
"""All digits except 3, whose held-out results were known when settings were chosen."""
OURS, MIXTURE = "patches", "Gaussian mixture"
QUALITY: dict[str, Method] = {
    "stored, replayed": replay,
    "p_beta, inflection (paper)": p_beta("inflection"),
    "p_beta, natural": p_beta("natural"),
    "p_beta, leave-one-out": p_beta("leave_one_out"),
    "readout of p_beta, inflection": p_beta("inflection", readout=True),
    "readout of p_beta, natural": p_beta("natural", readout=True),
    MIXTURE: gaussian_mixture,
    "VAE": vae,
    OURS: patches,
}
CONFIRMED = ("p_beta, natural", MIXTURE, "VAE", OURS)
ADDED: dict[str, Method] = {
    "p_beta, natural": p_beta("natural"),
    "interpolation (SMOTE)": interpolation,
    "patches": patches,
    "patches, warped": warped(patches),
    "stored, warped": warped(replay),
}
HEAD = (
    *("method", "train proximity", "copies", "novelty ratio", "1-NN real", "1-NN new"),
    *("Fréchet, convolutional", "relative to mixture", "Fréchet, perceptron", "relative to mixture"),
)


def evaluated(
    pictures: Any, seed: int, methods: Sequence[str], measures: dict[str, Features], K: int = 300
) -> dict[str, list[float]]:
    """The columns of HEAD for each method on one split: K stored, K held out, K new."""
    stored, held_out = split(pictures, K, K, seed)
    truth = {name: hidden(held_out) for name, hidden in measures.items()}

    def distances(new: Any) -> list[float]:
        return [frechet(hidden(new), truth[name]) for name, hidden in measures.items()]

    figures, frechets = {}, {"stored": distances(stored)}
    for name in methods:
        new = QUALITY[name](stored, K, seed)
        found = held_out_metrics(flat(new), flat(stored), flat(held_out))
        frechets[name] = distances(new)
        accuracies = found.nn_accuracy_real, found.nn_accuracy_new
        figures[name] = [found.train_proximity, found.near_copies, found.novelty_ratio, *accuracies]
    figures["stored"] = [np.nan] * 5
    for name, row in figures.items():
        for own, baseline in zip(frechets[name], frechets[MIXTURE], strict=True):
            row += [own, own / baseline]
    return figures


def quality(data: dict[int, Any], seeds: Sequence[int], measures: dict[str, Features]) -> Iterator[str]:
    """Digit 3, K = 300 stored and 300 held out: held-out metrics and Fréchet distances to the held-out digits."""
    figures: dict[str, list[list[float]]] = {}
    for seed in seeds:
        for name, row in evaluated(data[3], seed, tuple(QUALITY), measures).items():
            figures.setdefault(name, []).append(row)
    return table(HEAD, figures, 2)


def confirmation(data: dict[int, Any], others: Sequence[int], measures: dict[str, Features]) -> Iterator[str]:
    """The patch generator on each other digit, split with seeds from 5, and means of all methods over these digits."""
    columns = [0, 1, 2, 3, 4, 6, 8]
    rows: dict[str, list[list[float]]] = {}
    means: dict[str, list[list[float]]] = {}
    for seed, digit in enumerate(others, start=5):
        for name, row in evaluated(data[digit], seed, CONFIRMED, measures).items():
            kept = [row[i] for i in columns]
            means.setdefault(f"all {len(others)}: {name}", []).append(kept)
            if name == OURS:
                rows[f"{digit}: {OURS}"] = [kept]
    ratios = "Fréchet relative to mixture, convolutional", "Fréchet relative to mixture, perceptron"
    return table(("digit: method", *HEAD[1:6], *ratios), rows | means, 2)


def added(data: dict[int, Any], seeds: Sequence[int], K: int = 10, n: int = 100) -> Iterator[str]:
    """Accuracy (%) on 2,000 held-out digits of an SVM trained on K stored and n new ones per class."""
    figures: dict[str, list[list[float]]] = {}
    for seed in seeds:
        stored, held_out = zip(*(split(data[digit], K, 200, seed) for digit in DIGITS), strict=True)
        test, truth = flat(np.concatenate(held_out)), np.repeat(DIGITS, 200)

        def accuracy(new: Sequence[Any], stored: Any = stored, test: Any = test, truth: Any = truth) -> float:
            train = flat(np.concatenate([*stored, *new]))
            labels = np.concatenate([np.repeat(DIGITS, K), np.repeat(DIGITS, n if new else 0)])
            return 100 * float(SVC(C=10).fit(train, labels).score(test, truth))

        stored_only = accuracy([])
        figures.setdefault("stored only", []).append([stored_only, 0.0])
        for name, method in ADDED.items():
            with_new = accuracy([method(one, n, 10 * seed + digit) for digit, one in zip(DIGITS, stored, strict=True)])
            figures.setdefault(f"+ {name}", []).append([with_new, with_new - stored_only])
    return table(("trained on", "accuracy, %", "gain, points"), figures, 1)


def speed(data: dict[int, Any], rounds: int) -> Iterator[str]:
    """Milliseconds per picture of 28 × 28 on one core, K = 300, float32, and seconds to choose the window radius."""
    stored, _ = split(data[3], 300, 1, 0)
    begin = time.process_time()
    heads = LocalHeads(stored)
    chosen = time.process_time() - begin
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        heads.sample(64, rng=0)
        times.append(1e3 * (time.process_time() - begin) / 64)
    head = "ms per picture, median", "minimum", "window radius, s"
    return table(("K = 300", *head), {OURS: [[float(np.median(times)), min(times), chosen]]}, 1)


def all_tables(seeds: Sequence[int], quick: bool) -> Iterator[tuple[str, Iterator[str]]]:
    """Title and lines of each table; the lines are computed lazily."""
    data = digits()
    runs = f"{len(seeds)} seed{'s' * (len(seeds) > 1)}"
    yield "MNIST 3, speed", speed(data, 3 if quick else 9)
    yield f"MNIST 3, 300 stored; {runs}", quality(data, seeds, measures := networks(data))
    others = OTHERS[:1] if quick else OTHERS
    names = ", ".join(map(str, others))
    yield f"MNIST {names}, settings unchanged, 300 stored; one split each", confirmation(data, others, measures)
    yield f"MNIST, ten digits, 10 stored and 100 new per digit; {runs}", added(data, seeds)
    yield f"MNIST 3, temperatures of p_beta; {runs}", temperatures.temperatures(data[3], seeds)
    yield f"MNIST 3, draws of p_beta at these temperatures; {runs}", temperatures.draws(data[3], seeds)
    yield f"Olivetti, ten people, five stored portraits each; {runs}", portraits.quality(seeds)
    yield f"Olivetti, subset of one person; {runs}", portraits.recovery(seeds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.images", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, one other digit")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="also write the figures there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for title, lines in all_tables(range(1 if options.quick else options.seeds), options.quick):
            print(f"\n{title}\n", *lines, sep="\n", flush=True)
        if options.out:
            write_contact_sheets(options.out)
            temperatures.draw_figure(options.out / "temperatures.png")


if __name__ == "__main__":
    main()
