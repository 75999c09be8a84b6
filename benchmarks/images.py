"""New pictures by local heads, judged on held-out ones beside p_beta, a Gaussian mixture and replay; and their speed.

STOCHATTN_DATA=FOLDER python -m benchmarks.images [--quick] [--seeds 5] [--out FOLDER]

Settings are chosen on stored pictures alone. The last 400 pictures of each digit train the classifier whose last
hidden layer measures Fréchet distances, and are neither stored nor held out. All on one core.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import stochattn
from stochattn.evaluate import judge
from stochattn.local_heads import LocalHeads
from stochattn.mixture import Mixture
from stochattn.warps import random_warps

APART = 400
"""Pictures of each digit that are kept for the classifier."""
DIGITS = range(10)
Method = Callable[[Any, int, int], Any]
"""Stored pictures (K, H, W), how many, seed -> new pictures (n, H, W)."""


def replay(stored: Any, n: int, seed: int) -> Any:
    return stored[np.random.default_rng(seed).integers(len(stored), size=n)]


def p_beta(rule: str) -> Method:
    """Exact draws of p_beta among unit rows, each given the length of its memory."""

    def draw(stored: Any, n: int, seed: int) -> Any:
        rows = flat(stored).astype(np.float64)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        model = stochattn.StochasticAttention(rows / norms, beta=rule)
        drawn, _ = Mixture.of(model.bank, model.beta, norms).sample(n, np.random.default_rng(seed))
        return drawn.reshape(n, *stored.shape[1:])

    return draw


def gaussian_mixture(stored: Any, n: int, seed: int) -> Any:
    """A mixture of Gaussians, full or diagonal, among 50 principal components; the number of them by BIC."""
    components = PCA(min(50, len(stored) - 1), random_state=0).fit(flat(stored).astype(np.float64))
    rows = components.transform(flat(stored))
    fits = [
        GaussianMixture(k, covariance_type=kind, reg_covar=1e-3, random_state=seed).fit(rows)
        for kind in ("full", "diag")
        for k in range(1, 9)
    ]
    best = min(fits, key=lambda fit: fit.bic(rows))
    return np.clip(components.inverse_transform(best.sample(n)[0]), 0, 1).reshape(n, *stored.shape[1:])


def local_heads(stored: Any, n: int, seed: int) -> Any:
    return LocalHeads(stored).sample(n, rng=seed)


def interpolation(stored: Any, n: int, seed: int) -> Any:
    """Points between a stored picture and one of its five nearest others, as SMOTE makes them."""
    rng, rows = np.random.default_rng(seed), flat(stored)
    neighbours = np.argsort(((rows[:, None] - rows[None]) ** 2).sum(2), axis=1)[:, 1:6]
    one = rng.integers(len(rows), size=n)
    other = neighbours[one, rng.integers(neighbours.shape[1], size=n)]
    return stored[one] + rng.random((n, 1, 1)) * (stored[other] - stored[one])


def warped(method: Method) -> Method:
    return lambda stored, n, seed: random_warps(method(stored, n, seed), rng=seed)


QUALITY: dict[str, Method] = {
    "stored, drawn again": replay,
    "p_beta, inflection (paper)": p_beta("inflection"),
    "p_beta, natural": p_beta("natural"),
    "p_beta, leave-one-out": p_beta("leave_one_out"),
    "Gaussian mixture": gaussian_mixture,
    "local heads": local_heads,
}
ADDED: dict[str, Method] = {
    "p_beta, natural": p_beta("natural"),
    "interpolation (SMOTE)": interpolation,
    "local heads": local_heads,
    "local heads, warped": warped(local_heads),
    "stored, warped": warped(replay),
}


def flat(pictures: Any) -> Any:
    return pictures.reshape(len(pictures), -1)


def digits() -> dict[int, Any]:
    """Pictures of each digit, values from 0 to 1: (n, 28, 28) float32."""
    with np.load(folder() / "mnist.npz", allow_pickle=False) as file:
        return {digit: file[f"digit{digit}"].astype(np.float32) / 255 for digit in DIGITS}


def folder() -> Path:
    if "STOCHATTN_DATA" not in os.environ:
        sys.exit("STOCHATTN_DATA must name the folder that holds mnist.npz and olivetti.npz.")
    return Path(os.environ["STOCHATTN_DATA"])


def split(pictures: Any, K: int, held_out: int, seed: int) -> tuple[Any, Any]:
    order = np.random.default_rng(seed).permutation(len(pictures) - APART)
    return pictures[order[:K]], pictures[order[K : K + held_out]]


def features(data: dict[int, Any]) -> Callable[[Any], Any]:
    """Pictures -> (n, 64), the last hidden layer of a small convolutional classifier of all ten digits.

    Two layers of 3 × 3 convolutions (16, 32), each halved by pooling, 64 units, ten classes; Adam, 10 epochs.
    """
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    convolutions = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)]
    body = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(800, 64), nn.ReLU())
    network = nn.Sequential(body, nn.Linear(64, 10))
    optimiser = torch.optim.Adam(network.parameters(), 1e-3)
    apart = torch.tensor(np.concatenate([data[digit][-APART:] for digit in DIGITS]))[:, None]
    labels = torch.tensor(np.repeat(DIGITS, APART))
    for _ in range(10):
        for batch in torch.randperm(len(apart)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(apart[batch]), labels[batch]).backward()
            optimiser.step()

    def hidden(pictures: Any) -> Any:
        with torch.no_grad():
            return body(torch.tensor(pictures, dtype=torch.float32)[:, None]).numpy().astype(np.float64)

    return hidden


def frechet(first: Any, second: Any) -> float:
    """‖μ₁ − μ₂‖² + tr(C₁ + C₂ − 2 (C₁C₂)^½), with full covariances."""
    C1, C2 = np.cov(first.T), np.cov(second.T)
    values, vectors = np.linalg.eigh(C1)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ C2 @ root), 0)).sum()
    return float(((first.mean(0) - second.mean(0)) ** 2).sum() + np.trace(C1) + np.trace(C2) - 2 * cross)


def quality(data: dict[int, Any], digit: int, seeds: Sequence[int]) -> Iterator[str]:
    """One digit, K = 300 stored and 300 held out: the judge's figures and Fréchet distances to the held-out ones."""
    head = ("method", "closer", "copies", "novelty ratio", "1-NN real", "1-NN new", "Fréchet", "Fréchet / mixture's")
    hidden = features(data)
    figures: dict[str, list[list[float]]] = {}
    for seed in seeds:
        stored, held_out = split(data[digit], 300, 300, seed)
        truth = hidden(held_out)
        for name, method in QUALITY.items():
            new = method(stored, 300, seed)
            verdict = judge(flat(new), flat(stored), flat(held_out))
            told = verdict.told_real, verdict.told_new
            distance = frechet(hidden(new), truth)
            figures.setdefault(name, []).append(
                [verdict.closer, verdict.copies, verdict.novelty_ratio, *told, distance, distance]
            )
        figures.setdefault("the stored ones themselves", []).append([np.nan] * 5 + [frechet(hidden(stored), truth)] * 2)
    rival = np.array(figures["Gaussian mixture"])[:, 5]
    for runs in figures.values():
        for run, distance in zip(runs, rival, strict=True):
            run[6] /= distance
    return table(head, figures, 2)


def added(data: dict[int, Any], seeds: Sequence[int], K: int = 10, n: int = 100) -> Iterator[str]:
    """Accuracy (%) of a support vector machine on 2,000 held-out digits: K stored a class, and n new ones a class."""
    figures: dict[str, list[list[float]]] = {}
    for seed in seeds:
        stored, held_out = zip(*(split(data[digit], K, 200, seed) for digit in DIGITS), strict=True)
        test, truth = flat(np.concatenate(held_out)), np.repeat(DIGITS, 200)

        def accuracy(new: Sequence[Any], stored: Any = stored, test: Any = test, truth: Any = truth) -> float:
            train = flat(np.concatenate([*stored, *new]))
            labels = np.concatenate([np.repeat(DIGITS, K), np.repeat(DIGITS, n if new else 0)])
            return 100 * float(SVC(C=10).fit(train, labels).score(test, truth))

        alone = accuracy([])
        figures.setdefault("stored alone", []).append([alone, 0.0])
        for name, method in ADDED.items():
            with_new = accuracy([method(one, n, 10 * seed + digit) for digit, one in zip(DIGITS, stored, strict=True)])
            figures.setdefault(f"+ {name}", []).append([with_new, with_new - alone])
    return table(("trained on", "accuracy, %", "gain, points"), figures, 1)


def speed(data: dict[int, Any], rounds: int) -> Iterator[str]:
    """Milliseconds of one core's time for a picture of 28 × 28, K = 300, float32, and seconds for the natural reach."""
    stored, _ = split(data[3], 300, 1, 0)
    begin = time.process_time()
    heads = LocalHeads(stored)
    chosen = time.process_time() - begin
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        heads.sample(64, rng=0)
        times.append(1e3 * (time.process_time() - begin) / 64)
    head = "ms a picture, median", "least", "natural reach, s"
    return table(("K = 300", *head), {"local heads": [[float(np.median(times)), min(times), chosen]]}, 1)


def table(head: Sequence[str], figures: dict[str, list[list[float]]], digits: int) -> Iterator[str]:
    """The lines of a Markdown table: mean ± standard deviation over runs."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for name, runs in figures.items():
        means, sds = np.mean(runs, axis=0), np.std(runs, axis=0)
        cells = [
            "–" if np.isnan(mean) else f"{mean:.{digits}f}" + (f" ± {sd:.{digits}f}" if len(runs) > 1 else "")
            for mean, sd in zip(means, sds, strict=True)
        ]
        yield "| " + " | ".join([name, *cells]) + " |"


def contact_sheet(rows: Sequence[Any], path: Path) -> None:
    """Rows of pictures with values from 0 to 1, with lines between."""
    from PIL import Image

    framed = [np.concatenate(list(np.pad(row, ((0, 0), (1, 1), (1, 1)), constant_values=0.4)), 1) for row in rows]
    levels = np.round(255 * np.clip(np.concatenate(framed), 0, 1)).astype(np.uint8)
    scale = max(1, round(1000 / levels.shape[1]))
    Image.fromarray(levels).resize((levels.shape[1] * scale, levels.shape[0] * scale), 0).save(path)


def contact_sheets(data: dict[int, Any], out: Path) -> None:
    """Stored, held-out, p_beta (natural) and local heads, a row each: threes, and portraits of ten people."""
    out.mkdir(parents=True, exist_ok=True)
    stored, held_out = split(data[3], 300, 300, 0)
    new = [method(stored, 16, 0) for method in (p_beta("natural"), local_heads)]
    contact_sheet([stored[:16], held_out[:16], *new], out / "threes.png")
    with np.load(folder() / "olivetti.npz", allow_pickle=False) as file:
        faces = file["images"].astype(np.float32) / float(file["scale"])
    stored = faces[:100]
    new = [method(stored, 20, 0) for method in (p_beta("natural"), local_heads)]
    contact_sheet([stored[::10], faces[100:200:10], new[0][:10], new[1][:10], new[1][10:]], out / "portraits.png")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.images", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two seeds")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="also write contact sheets there")
    options = parser.parse_args()
    seeds = range(2 if options.quick else options.seeds)
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        data = digits()
        for title, lines in (
            ("MNIST, speed", speed(data, 3 if options.quick else 9)),
            ("MNIST, ten digits, 10 stored of each, 100 new of each", added(data, seeds)),
            ("MNIST 3, 300 stored", quality(data, 3, seeds)),
        ):
            print(f"\n{title}; {len(seeds)} seeds\n", *lines, sep="\n", flush=True)
        if options.out:
            contact_sheets(data, options.out)


if __name__ == "__main__":
    main()
