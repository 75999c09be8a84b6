"""Portraits of ten people, evaluated on held-out portraits, and recognition of draws from a subset of one person.

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
from stochattn.kinds.images.generator.patches import LocalHeads

from . import picture_data
from .picture_baselines import Method, deformed, gaussian_mixture, p_beta, patches, replay
from .picture_data import PEOPLE, Portraits, flat, split_portraits, table

METHODS: dict[str, Method] = {
    "stored, replayed": replay,
    "p_beta, natural": p_beta("natural"),
    "Gaussian mixture": gaussian_mixture,
    "patches": patches,
    "deformations": deformed,
}
N_NEW, N_NEW_PER_PERSON = 100, 10


def quality(seeds: Sequence[int]) -> Iterator[str]:
    """K = 50 stored and 50 held out, ten people drawn for each seed: held-out metrics."""
    everyone = picture_data.portraits()
    figures: dict[str, list[list[float]]] = {}
    for seed in seeds:
        stored, held_out = (part.reshape(-1, 64, 64) for part in split_portraits(everyone, seed))
        for name, method in METHODS.items():
            found = held_out_metrics(flat(method(stored, N_NEW, seed)), flat(stored), flat(held_out))
            accuracies = found.nn_accuracy_real, found.nn_accuracy_new
            row = [found.train_proximity, found.near_copies, found.novelty_ratio, *accuracies]
            figures.setdefault(name, []).append(row)
    return table(("method", "train proximity", "copies", "novelty ratio", "1-NN real", "1-NN new"), figures, 2)


def subset_patches(stored: Any, person: int, seed: int) -> Any:
    """Draws of the patch generator from all stored portraits (10, 5, 64, 64), weighted to one person."""
    log_r = np.full(stored.shape[:2], -np.inf)
    log_r[person] = 0.0
    return LocalHeads(stored.reshape(-1, 64, 64), log_r.ravel()).sample(N_NEW_PER_PERSON, rng=PEOPLE * seed + person)


def subset_p_beta(stored: Any, person: int, seed: int) -> Any:
    """Draws of p_beta from the subset of one person."""
    return p_beta("natural")(stored[person], N_NEW_PER_PERSON, PEOPLE * seed + person)


def stored_portraits(stored: Any, person: int, seed: int) -> Any:
    """The stored portraits of one person: the result of recall, and the ceiling of the classifier accuracy."""
    return stored[person]


SUBSETS: dict[str, Callable[[Any, int, int], Any]] = {
    "true portraits (recall, ceiling)": stored_portraits,
    "p_beta, natural": subset_p_beta,
    "patches": subset_patches,
}


def recovery(seeds: Sequence[int]) -> Iterator[str]:
    """Share of subset draws whose person is recognized by two classifiers that were trained on the held-out portraits.

    The other columns are train proximity and novelty ratio on the five stored and five held-out portraits of a person.
    """
    everyone = picture_data.portraits()
    figures: dict[str, list[list[float]]] = {}
    for seed in seeds:
        people = split_portraits(everyone, seed)
        classifiers = trained(people.held_out)
        for name, draw in SUBSETS.items():
            drawn = [draw(people.stored, person, seed) for person in range(PEOPLE)]
            right = [
                100 * np.mean([classifier.predict(flat(new)) == person for person, new in enumerate(drawn)])
                for classifier in classifiers
            ]
            figures.setdefault(name, []).append([*right, *novelty(drawn, people)])
    head = "recognized by 1-NN, %", "recognized by LDA, %", "train proximity", "novelty ratio"
    return table(("subset of one person (chance 10 %)", *head), figures, 2)


def trained(portraits: Any) -> list[Any]:
    """Classifiers of portraits (10, 5, 64, 64): nearest neighbor on pixels, and LDA on 30 principal components."""
    rows, people = portraits.reshape(PEOPLE * 5, -1), np.repeat(np.arange(PEOPLE), 5)
    linear = make_pipeline(PCA(30, random_state=0), LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))
    return [KNeighborsClassifier(1).fit(rows, people), linear.fit(rows, people)]


def novelty(drawn: Sequence[Any], people: Portraits) -> tuple[float, float]:
    """Train proximity and novelty ratio, computed per person; drawn (10, n, H, W)."""
    proximity, distances, true = [], [], []
    for new, stored, held_out in zip(map(flat, drawn), *(map(flat, part) for part in people), strict=True):
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
