"""Portraits of ten people: new ones evaluated on held-out ones, and the share of masked draws that show the person.

STOCHATTN_DATA=FOLDER python -m benchmarks.portraits [--seeds 5]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from stochattn.core.neighbors import nearest_distances
from stochattn.evaluation.split_half import held_out_metrics, train_proximity
from stochattn.generators.local_heads import LocalHeads

from . import picture_data
from .picture_data import PEOPLE, Portraits, flat, split_portraits, table
from .picture_rivals import Method, gaussian_mixture, local_heads, p_beta, replay

METHODS: dict[str, Method] = {
    "stored, drawn again": replay,
    "p_beta, natural": p_beta("natural"),
    "Gaussian mixture": gaussian_mixture,
    "local heads": local_heads,
}
NEW, NEW_OF_ONE = 100, 10
"""New portraits of anyone, and of each person by a mask."""


def quality(seeds: Sequence[int]) -> Iterator[str]:
    """K = 50 stored and 50 held out, ten people drawn for each seed: held-out metrics."""
    everyone = picture_data.portraits()
    figures: dict[str, list[list[float]]] = {}
    for seed in seeds:
        stored, held_out = (half.reshape(-1, 64, 64) for half in split_portraits(everyone, seed))
        for name, method in METHODS.items():
            found = held_out_metrics(flat(method(stored, NEW, seed)), flat(stored), flat(held_out))
            accuracies = found.nn_accuracy_real, found.nn_accuracy_new
            row = [found.train_proximity, found.copies, found.novelty_ratio, *accuracies]
            figures.setdefault(name, []).append(row)
    return table(("method", "train proximity", "copies", "novelty ratio", "1-NN real", "1-NN new"), figures, 2)


def masked_heads(stored: Any, person: int, seed: int) -> Any:
    """Local heads over all stored portraits (10, 5, 64, 64), with a mask that leaves one person's."""
    log_r = np.full(stored.shape[:2], -np.inf)
    log_r[person] = 0.0
    return LocalHeads(stored.reshape(-1, 64, 64), log_r.ravel()).sample(NEW_OF_ONE, rng=PEOPLE * seed + person)


def masked_p_beta(stored: Any, person: int, seed: int) -> Any:
    """p_beta under the mask: the others' weights are zero, so that it is p_beta of the person's own bank."""
    return p_beta("natural")(stored[person], NEW_OF_ONE, PEOPLE * seed + person)


def true_ones(stored: Any, person: int, seed: int) -> Any:
    """The person's stored portraits: the result of recall, and the best that a classifier of the other half can do."""
    return stored[person]


MASKED: dict[str, Callable[[Any, int, int], Any]] = {
    "true portraits (recall, and the ceiling)": true_ones,
    "p_beta, natural": masked_p_beta,
    "local heads": masked_heads,
}


def recovery(seeds: Sequence[int]) -> Iterator[str]:
    """Share of masked draws whose person is named by two classifiers, trained on the other half of the portraits.

    Beside it, over the person's own five stored and five held-out portraits: train proximity and the novelty ratio.
    """
    everyone = picture_data.portraits()
    figures: dict[str, list[list[float]]] = {}
    for seed in seeds:
        halves = split_portraits(everyone, seed)
        classifiers = trained(halves.held_out)
        for name, draw in MASKED.items():
            drawn = [draw(halves.stored, person, seed) for person in range(PEOPLE)]
            right = [
                100 * np.mean([classifier.predict(flat(new)) == person for person, new in enumerate(drawn)])
                for classifier in classifiers
            ]
            figures.setdefault(name, []).append([*right, *novelty(drawn, halves)])
    head = "named by 1-NN, %", "named by LDA, %", "train proximity", "novelty ratio"
    return table(("one person by a mask (chance 10 %)", *head), figures, 2)


def trained(portraits: Any) -> list[Any]:
    """The nearest neighbour among pixels, and linear discriminants of 30 principal components, of (10, 5, 64, 64)."""
    rows, people = portraits.reshape(PEOPLE * 5, -1), np.repeat(np.arange(PEOPLE), 5)
    linear = make_pipeline(PCA(30, random_state=0), LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))
    return [KNeighborsClassifier(1).fit(rows, people), linear.fit(rows, people)]


def novelty(drawn: Sequence[Any], halves: Portraits) -> tuple[float, float]:
    """Share nearer to the person's stored than to the held-out portraits; median distance over the held-out ones'."""
    proximity, distances, true = [], [], []
    for new, stored, held_out in zip(map(flat, drawn), *(map(flat, half) for half in halves), strict=True):
        proximity.append(train_proximity(new, stored, held_out))
        distances.append(nearest_distances(new, stored))
        true.append(nearest_distances(held_out, stored))
    return float(np.mean(proximity)), float(np.median(np.concatenate(distances)) / np.median(np.concatenate(true)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.portraits", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        print(*quality(seeds), "", *recovery(seeds), sep="\n")


if __name__ == "__main__":
    main()
