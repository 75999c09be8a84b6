"""Noise in attention as a regularizer of training, against dropout, on a small vision transformer and few images.

python -m examples.noise_regularizer [--quick] [--device cuda] [--images 200 1000] [--position 0.1]
    [--seeds 16] [--out FILE]

The question, the measure, the settings and the rule below were fixed before the run. A first test of 20 training steps
on digits lowered the step size of the noise from 0.1 to the library's 0.01, because evaluation has no steps.

**Data.** MNIST (if STOCHATTN_DATA names a folder with mnist.npz; the digits of scikit-learn otherwise), with 200 and
with 1,000 images to train on, 1,000 to choose the setting and 4,000 to test (digits: 100 and 500, 300, 900). Every seed
has its own split. The default is the smaller number alone, whose run decided that neither arm with noise wins.

**Training.** A vision transformer of four layers, four heads and width 64 sees an image as 16 tokens. 1,200 steps of
Adam with decoupled weight decay 0.1, batches of 64, peak rate 0.001 with warm-up and cosine. Nothing is random in
evaluation. Position embeddings start with a standard deviation of 0.1. Found after the run: this is too small for
networks to use positions well (--position 1.0 has a higher accuracy without any regularization).

**Arms.** Each has eight settings, the same number of steps, and for a seed the same weights at the start and the same
batches. *Weight decay* alone; *dropout* after embedding, attention and MLP; *attention dropout* of weights;
*attention noise*: queries take three Langevin steps among their keys in training, with the library's step size 0.01, at
an inverse temperature beta from 30 down to 0.01 times the scale of the layer; *both dropouts*; *dropout and noise*.
Steps cost additional time, which is not counted.

**Measure and rule.** A seed chooses the setting of an arm by its validation accuracy (nats, the mean -log probability
of the right class, decide ties), and the measure is the test accuracy of this setting. Attention noise wins if it is
better than dropout and better than attention dropout, by more than two standard errors of the paired difference over 16
seeds, for both numbers of training images. Dropout and noise wins if it is better than dropout and than both dropouts
in the same sense. An arm loses if one of its rivals is better than it in that sense.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.table import Table

from ..options import command, parsed, require_writable, torch_device
from .network import Regularization, Shape
from .training import Images, Scores, digits, mnist, split, train

N_STEPS, DECAY = 1200, 0.1
DECAYS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
BETAS = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
FEW_RATES, SOME_RATES, SOME_BETAS = (0.1, 0.3), (0.1, 0.3, 0.5, 0.7), (10.0, 1.0, 0.1, 0.01)
RIVALS = {
    "attention noise": ("dropout", "attention dropout"),
    "dropout and noise": ("dropout", "both dropouts"),
}


@dataclass(frozen=True)
class Setting:
    """One setting of an arm."""

    dropout: float | None = None
    attention: float | None = None
    beta: float | None = None
    decay: float = DECAY

    def __str__(self) -> str:
        shown = {name: x for name, x in vars(self).items() if x is not None and (name != "decay" or x != DECAY)}
        return ", ".join(f"{name} {x:g}" for name, x in shown.items()) or f"decay {DECAY:g}"


ARMS = {
    "weight decay": [Setting(decay=x) for x in DECAYS],
    "dropout": [Setting(dropout=x) for x in RATES],
    "attention dropout": [Setting(attention=x) for x in RATES],
    "attention noise": [Setting(beta=x) for x in BETAS],
    "both dropouts": [Setting(dropout=x, attention=y) for x, y in product(FEW_RATES, SOME_RATES)],
    "dropout and noise": [Setting(dropout=x, beta=y) for x, y in product(FEW_RATES, SOME_BETAS)],
}


@dataclass(frozen=True)
class Result:
    """What an arm reached: validation and test scores of all settings, and the setting (S,) that each seed chose."""

    settings: list[Setting]
    validation: Scores
    test: Scores

    @property
    def chosen(self) -> np.ndarray:
        """The setting of the highest validation accuracy for each seed; nats decide ties."""
        return np.lexsort((self.validation.nats, -self.validation.accuracy), axis=0)[0]

    def of_chosen(self, scores: np.ndarray) -> np.ndarray:
        """Scores (S,) of the chosen settings, of scores (C, S)."""
        return np.take_along_axis(scores, self.chosen[None], 0)[0]


def run(
    images: Images, shape: Shape, n_training: int, seeds: list[int], n_steps: int, n_settings: int, device: torch.device
) -> dict[str, Result]:
    """The results of all arms for a number of training images of each class."""
    splits, found = split(images, n_training, seeds, device), {}
    for name, settings in ARMS.items():
        tried = settings[:: len(settings) // n_settings]
        numbers = {field: _column(tried, field, device) for field in ("dropout", "attention", "beta")}
        decay = torch.tensor([one.decay for one in tried], device=device)
        scores = train(shape, splits, seeds, Regularization(**numbers), decay, n_steps)
        found[name] = Result(tried, *scores)
    return found


def _column(settings: list[Setting], name: str, device: torch.device) -> torch.Tensor | None:
    values = [getattr(one, name) for one in settings]
    return None if None in values else torch.tensor(values, device=device)


def difference(arm: Result, rival: Result) -> tuple[float, float]:
    """The mean paired difference of the test accuracies of two arms over seeds, and its standard error."""
    gaps = arm.of_chosen(arm.test.accuracy) - rival.of_chosen(rival.test.accuracy)
    return float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))


def verdict(arm: str, runs: list[dict[str, Result]]) -> str:
    """What the rule says about an arm: it wins, it loses, or neither."""
    gaps = {rival: [difference(found[arm], found[rival]) for found in runs] for rival in RIVALS[arm]}
    if all(mean > 2 * error for pairs in gaps.values() for mean, error in pairs):
        return "wins"
    if lost := [rival for rival, pairs in gaps.items() if all(mean < -2 * error for mean, error in pairs)]:
        return f"loses to {' and to '.join(lost)}"
    return "neither wins nor loses"


def table(title: str, found: dict[str, Result]) -> Table:
    """Test scores of the arms, and paired differences in percentage points of accuracy."""
    made = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("arm", "most chosen", "accuracy", "nats", "- dropout", "- attention dropout", "- both dropouts"):
        made.add_column(heading, justify="left" if heading in ("arm", "most chosen") else "right")
    for name, arm in found.items():
        accuracy, nats = arm.of_chosen(arm.test.accuracy), arm.of_chosen(arm.test.nats)
        root = np.sqrt(len(accuracy))
        gaps = []
        for rival in ("dropout", "attention dropout", "both dropouts"):
            mean, error = difference(arm, found[rival])
            gaps.append("" if rival == name else f"{100 * mean:+.2f} ± {100 * error:.2f}")
        made.add_row(
            name,
            str(arm.settings[np.bincount(arm.chosen).argmax()]),
            f"{100 * accuracy.mean():.2f} ± {100 * accuracy.std(ddof=1) / root:.2f}",
            f"{nats.mean():.3f} ± {nats.std(ddof=1) / root:.3f}",
            *gaps,
        )
    return made


def as_json(found: dict[str, Result]) -> dict[str, object]:
    """All scores of all settings and seeds, as lists of numbers."""
    return {
        name: {
            "settings": [str(one) for one in arm.settings],
            "chosen": arm.chosen.tolist(),
            **{
                f"{part} {measure}": np.round(getattr(getattr(arm, part), measure), 5).tolist()
                for part, measure in product(("validation", "test"), ("accuracy", "nats"))
            },
        }
        for name, arm in found.items()
    }


def main() -> None:
    parser = command("noise_regularizer", __doc__, "networks that learned little")
    parser.add_argument("--device", default="cpu", help="device of torch: cpu, or cuda for the whole run (default cpu)")
    parser.add_argument(
        "--images", type=int, nargs="+", help="numbers of training images, tens (default 200; digits 100)"
    )
    parser.add_argument("--position", type=float, default=0.1, help="scale of first position embeddings (default 0.1)")
    parser.add_argument("--seeds", type=int, default=16, help="number of seeds, 2 or more (default 16)")
    parser.add_argument("--out", type=Path, help="JSON file of all scores")
    options = parsed(parser, seeds=2)
    device, console = torch_device(parser, options.device), Console(width=140)
    if options.out is not None:
        require_writable(parser, options.out)
    torch.set_float32_matmul_precision("high")
    images = replace(digits(), validation=10, test=20) if options.quick else mnist() or digits()
    most = 10 * (images.tokens.shape[1] - images.validation - images.test)
    for n in options.images or ():
        if n % 10 or not 10 <= n <= most:
            parser.error(f"--images must be multiples of 10 from 10 to {most}; got {n}")
    sizes = [images.training] if options.quick else [n // 10 for n in options.images or [10 * images.training]]
    n_steps, n_settings, seeds = (3, 2, 2) if options.quick else (N_STEPS, len(DECAYS), options.seeds)
    shape, runs, began = images.shape(options.position), {}, time.perf_counter()
    for n_training in sizes:
        found = runs[10 * n_training] = run(images, shape, n_training, list(range(seeds)), n_steps, n_settings, device)
        console.print(table(f"{images.name}, {10 * n_training:,} images, {n_steps:,} steps, {seeds} seeds", found))
        if options.out is not None:
            scores = {str(n): as_json(one) for n, one in runs.items()}
            options.out.write_text(json.dumps({"data": images.name, "n_steps": n_steps, "scores": scores}) + "\n")
    for arm in RIVALS:
        console.print(f"{arm} {verdict(arm, list(runs.values()))} by the rule.", highlight=False)
    console.print(f"{time.perf_counter() - began:.0f} seconds on {device}.", highlight=False)


if __name__ == "__main__":
    main()
