"""Shapes of new pictures, evaluated on held-out ones: deformations, with patches and augmentation beside them.

STOCHATTN_DATA=FOLDER python -m benchmarks.shapes [--quick] [--seeds 5] [--only digits few] [--out FOLDER]

Settings are chosen on stored pictures only. The splits differ from those on which the generator was developed. The last
400 pictures of each digit train the classifiers; they are neither stored nor held out. `--methods deformations` leaves
out the other methods.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import label
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from stochattn.evaluation import held_out_metrics
from stochattn.kinds.images.generator.deformations import Deformations

from . import picture_data
from .contact_sheets import contact_sheet
from .picture_baselines import Method, deformed, elastic_affine, patches, replay
from .picture_data import DIGITS, N_CLASSIFIER, digits, flat, photo_patches, split, split_portraits
from .picture_features import frechet, networks

FIRST_SPLIT = 300
"""Seeds of splits begin here: 0 to 9, 1000 to 1009 and 2000 to 2009 served development."""
FIRST_PHOTO_SPLIT = 400
"""Likewise for patches of photographs, of which 300 to 302 served development too."""
METHODS: dict[str, Method] = {
    "stored, replayed": replay,
    "stored, affine and elastic": elastic_affine,
    "patches": patches,
    "deformations": deformed,
}
SPLITS_OF_PORTRAITS = 4
"""Fifty portraits are few, and the train proximity of one split has a standard deviation of 0.05."""
INK, TOUCHING = 0.35, np.ones((3, 3))
"""Level from which a pixel is part of a stroke, and which pixels touch: also those at a corner."""
Figures = dict[str, list[list[float]]]


def two_sample(found: Any) -> float:
    """C2*: 1/2 plus the mean of |accuracy − 1/2| of the nearest-neighbor test over real and new pictures."""
    return 0.5 + (abs(found.nn_accuracy_real - 0.5) + abs(found.nn_accuracy_new - 0.5)) / 2


def broken(pictures: Any) -> float:
    """Percentage of pictures in more than one piece."""
    return 100 * float(np.mean([label(one > INK, TOUCHING)[1] > 1 for one in pictures]))


def quality(seeds: Sequence[int], K: int = 250) -> Iterator[str]:
    """All ten digits, each on its own, K stored, K held out and K new."""
    data = digits()
    measures = networks(data)
    figures: Figures = {}
    for seed in seeds:
        rows: Figures = {}
        for digit in DIGITS:
            stored, held_out = split(data[digit], K, K, FIRST_SPLIT + 10 * seed + digit)
            truth = {name: hidden(held_out) for name, hidden in measures.items()}
            own = {name: frechet(hidden(stored), truth[name]) for name, hidden in measures.items()}
            for name, method in METHODS.items():
                new = method(stored, K, seed)
                found = held_out_metrics(flat(new), flat(stored), flat(held_out))
                ratios = [frechet(hidden(new), truth[key]) / own[key] for key, hidden in measures.items()]
                pieces = broken(new) - broken(stored)
                row = [found.train_proximity, found.near_copies, two_sample(found), *ratios, pieces]
                for key in (name, f"{name}, digit 3") if digit == 3 else (name,):
                    rows.setdefault(key, []).append(row)
        for name, of_digits in rows.items():
            figures.setdefault(name, []).append(list(np.mean(of_digits, axis=0)))
    head = "train proximity", "copies", "C2*", "Fréchet over stored, convolutional", "perceptron", "pieces, points"
    return lines(("method", *head), figures, 3)


def few(seeds: Sequence[int], K: int = 10, n: int = 100) -> Iterator[str]:
    """Gain in accuracy on 2,000 held-out digits of classifiers trained with n new digits per class beside K stored."""
    data, figures = digits(), Figures()
    for seed in seeds:
        stored, held_out = zip(*(split(data[d], K, 200, FIRST_SPLIT + seed) for d in DIGITS), strict=True)
        every, classes = np.concatenate(stored), np.repeat(DIGITS, K)
        test, truth = np.concatenate(held_out), np.repeat(DIGITS, 200)
        arms: dict[str, tuple[Any, Any]] = {"stored only": (every[:0], classes[:0])}
        for name in [name for name in ("stored, affine and elastic", "patches") if name in METHODS]:
            of_classes = [METHODS[name](one, n, 10 * seed + d) for d, one in zip(DIGITS, stored, strict=True)]
            arms[name] = np.concatenate(of_classes), np.repeat(DIGITS, n)
        model = Deformations(every, labels=classes)
        new, source = model.draw(n * len(DIGITS), seed)
        arms["deformations"] = new, classes[source]
        arms["deformations, twice the scale"] = (
            model.with_scale(2 * model.scale).draw(len(new), seed)[0],
            classes[source],
        )
        arms["deformations, then affine and elastic"] = _augmented(new, seed), classes[source]
        base: list[float] = []
        for name, (more, of_more) in arms.items():
            train, of_train = np.concatenate([every, more]), np.concatenate([classes, of_more])
            scores = [100 * fitted(train, of_train, test, truth, seed) for fitted in (_svm, _cnn)]
            base = base or scores
            figures.setdefault(name, []).append([b for a, c in zip(scores, base, strict=True) for b in (a, a - c)])
    return lines(("trained on", "SVM, %", "gain", "CNN, %", "gain"), figures, 1)


def _augmented(pictures: Any, seed: int) -> Any:
    moved = [elastic_affine(one[None], 1, seed * 10_000 + i)[0] for i, one in enumerate(pictures)]
    return np.array(moved)


def _svm(train: Any, labels: Any, test: Any, truth: Any, seed: int) -> float:
    return float(SVC(C=10).fit(flat(train), labels).score(flat(test), truth))


def _cnn(train: Any, labels: Any, test: Any, truth: Any, seed: int, steps: int = 600) -> float:
    """A small convolutional network with the same number of steps whatever the number of pictures."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    net = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10)),
    )
    x, y = torch.tensor(train, dtype=torch.float32)[:, None], torch.tensor(np.asarray(labels), dtype=torch.long)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(steps):
        some = torch.randint(len(x), (64,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[some]), y[some]).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        found = net(torch.tensor(test, dtype=torch.float32)[:, None]).argmax(1).numpy()
    return float(np.mean(found == truth))


def classes(seeds: Sequence[int], K: int = 30, n: int = 300) -> Iterator[str]:
    """Ten digits, K stored each: agreement of a classifier, trained on other digits, with the class, and shares."""
    data, figures = digits(), Figures()
    others = np.concatenate([data[d][-N_CLASSIFIER:] for d in DIGITS])
    judge = SVC(C=10).fit(flat(others), np.repeat(DIGITS, N_CLASSIFIER))
    for seed in seeds:
        stored = np.concatenate([split(data[d], K, 1, FIRST_SPLIT + seed)[0] for d in DIGITS])
        labels = np.repeat(DIGITS, K)

        def agreement(pictures: Any, of_pictures: Any) -> float:
            return 100 * float(judge.score(flat(pictures), of_pictures))

        def shares(pictures: Any) -> float:
            return 100 * float(
                np.abs(np.bincount(judge.predict(flat(pictures)), minlength=10) / len(pictures) - 0.1).max()
            )

        figures.setdefault("stored", []).append([agreement(stored, labels), shares(stored)])
        for name, given in (("deformations, classes given", labels), ("deformations, without classes", None)):
            new, source = Deformations(stored, labels=given).draw(n, seed)
            figures.setdefault(name, []).append([agreement(new, labels[source]), shares(new)])
    return lines(("digits", "classifier agrees, %", "largest error of a share, points"), figures, 1)


def faces(seeds: Sequence[int]) -> Iterator[str]:
    """Ten people, five stored and five held-out portraits each, 100 new; four times as many splits."""
    everyone, figures = picture_data.portraits(), Figures()
    for seed in range(len(seeds) * SPLITS_OF_PORTRAITS):
        stored, held_out = (part.reshape(-1, 64, 64) for part in split_portraits(everyone, FIRST_SPLIT + seed))
        for name in [name for name in ("patches", "deformations") if name in METHODS]:
            found = held_out_metrics(flat(METHODS[name](stored, 100, seed)), flat(stored), flat(held_out))
            figures.setdefault(name, []).append([found.train_proximity, found.near_copies, two_sample(found)])
    return lines(("portraits", "train proximity", "copies", "C2*"), figures, 3)


def photographs(seeds: Sequence[int], K: int = 200) -> Iterator[str]:
    """Patches of two photographs in color, K stored, K held out and K new."""
    figures = Figures()
    for side in (16, 32):
        every = photo_patches(side)
        for seed in seeds:
            order = np.random.default_rng(FIRST_PHOTO_SPLIT + seed).permutation(len(every))
            stored, held_out = every[order[:K]], every[order[K : 2 * K]]
            found = held_out_metrics(flat(deformed(stored, K, seed)), flat(stored), flat(held_out))
            row = [found.train_proximity, found.near_copies, two_sample(found)]
            figures.setdefault(f"deformations, {side} x {side}", []).append(row)
    return lines(("patches", "train proximity", "copies", "C2*"), figures, 3)


def speed(seeds: Sequence[int]) -> Iterator[str]:
    """Seconds to fit and draw, all cores."""
    mixed = np.concatenate([split(digits()[d], 30, 1, FIRST_SPLIT)[0] for d in DIGITS])
    everyone = picture_data.portraits()[:20].reshape(-1, 64, 64)
    figures = Figures()
    for name, stored, n in (("100 digits from 300", mixed, 100), ("60 portraits from 200", everyone, 60)):
        for seed in seeds:
            begin, used = time.perf_counter(), time.process_time()
            Deformations(stored).sample(n, rng=seed)
            figures.setdefault(name, []).append([time.perf_counter() - begin, time.process_time() - used])
    return lines(("deformations", "seconds", "seconds of processor time"), figures, 1)


def rates(seeds: Sequence[int], n: int = 4096) -> Iterator[str]:
    """Pictures per second on a GPU, n at a time, local laws known."""
    import torch

    mixed = np.concatenate([split(digits()[d], 30, 1, FIRST_SPLIT)[0] for d in DIGITS])
    everyone, figures = picture_data.portraits()[:20].reshape(-1, 64, 64), Figures()
    for name, stored in (("digits, 300 stored", mixed), ("portraits, 200 stored", everyone)):
        model = Deformations(torch.tensor(stored, device="cuda"))
        for seed in (-1, *seeds):  # the first draw finds the laws
            torch.cuda.synchronize()
            begin = time.perf_counter()
            model.sample(n, rng=seed + 1)
            torch.cuda.synchronize()
            if seed >= 0:
                figures.setdefault(name, []).append([n / (time.perf_counter() - begin)])
    return lines(("stored", "per second"), figures, 0)


def lines(head: Sequence[str], figures: Figures, places: int) -> Iterator[str]:
    """A Markdown table: mean ± standard error over splits."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for name, runs in figures.items():
        means, errors = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))
        cells = [f"{mean:.{places}f} ± {error:.{places}f}" for mean, error in zip(means, errors, strict=True)]
        yield "| " + " | ".join([name, *cells]) + " |"


def write_figures(out: Path) -> None:
    """Write new_digits.png, two rows of new and held-out digits, and new_portraits.png, forty of each, mixed."""
    out.mkdir(parents=True, exist_ok=True)
    parts = [split(digits()[d], 30, 2, FIRST_SPLIT) for d in DIGITS]
    stored, held_out = np.concatenate([one for one, _ in parts]), np.stack([one for _, one in parts])
    new, source = Deformations(stored, labels=np.repeat(DIGITS, 30)).draw(200, 0)
    rows = {"held out": held_out[:, 0], "held out ": held_out[:, 1]}
    for i in range(4):
        rows["new" + " " * i] = np.stack([new[source // 30 == d][i] for d in DIGITS])
    contact_sheet(rows, out / "new_digits.png")
    stored, held_out = (part.reshape(-1, 64, 64) for part in split_portraits(picture_data.portraits(), FIRST_SPLIT))
    faces = np.concatenate([deformed(stored, 40, 0), held_out[:40]])[mixed_order()]
    tens = {f"{first + 1} to {first + 10}": faces[first : first + 10] for first in range(0, 80, 10)}
    contact_sheet(tens, out / "new_portraits.png")


def mixed_order() -> Any:
    """Which of forty new (0 to 39) and forty held-out portraits (40 to 79) stands at each place of the sheet: (80,)."""
    return np.random.default_rng(0).permutation(80)


TABLES: dict[str, Callable[[Sequence[int]], Iterator[str]]] = {
    "digits": quality,
    "few": few,
    "classes": classes,
    "portraits": faces,
    "photographs": photographs,
    "speed": speed,
    "gpu": rates,  # not by default
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="splits, at least 2")
    parser.add_argument("--quick", action="store_true", help="two splits")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="also write the figures there")
    parser.add_argument(
        "--only", nargs="+", choices=TABLES, default=[name for name in TABLES if name != "gpu"], metavar="TABLE"
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    options = parser.parse_args()
    for name in set(METHODS) - set(options.methods):
        del METHODS[name]
    seeds = range(2 if options.quick else options.seeds)
    if len(seeds) < 2:
        parser.error("--seeds must be at least 2: a standard error needs two splits.")
    warnings.simplefilter("ignore")
    for name in options.only:
        with threadpool_limits(None if name == "speed" else 1):
            print(f"\n{(TABLES[name].__doc__ or '').strip()}\n", *TABLES[name](seeds), sep="\n", flush=True)
    if options.out:
        write_figures(options.out)


if __name__ == "__main__":
    main()
