"""Tables at equal perplexity and of one step, and the picture of the example."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from rich import box
from rich.table import Table

from ..pictures import save
from .diversity import at_equal_cost

if TYPE_CHECKING:
    from .__main__ import Study

COMPARED_AT = (0.2, 0.3, 0.5, 0.7, 1.0)
PLAIN = "temperature"


def table_of(title: str, headings: Sequence[str]) -> Table:
    """An empty table that fits into 80 columns."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    return table


def matched_table(study: Study, seed: int) -> Table:
    """One row per measure and temperature; one column per family with its difference to plain sampling."""
    families, n_prompts = [family for family in study.measured if family != PLAIN], len(study.prompts)
    picks = np.random.default_rng(seed).integers(n_prompts, size=(300, n_prompts))
    picks[0] = np.arange(n_prompts)
    title = f"{study.name}: compared with T, in %"
    table = table_of(title, ("", "T", "ppl", "plain", *(family.replace(", ", "\n") for family in families)))
    plain = {decoding.temperature: m for decoding, m in zip(study.families[PLAIN], study.measured[PLAIN], strict=True)}
    gains = {T: [at_equal_cost(plain[T], study.measured[family], picks) for family in families] for T in COMPARED_AT}
    for column, name in enumerate(("distance", "4-grams", "repeats")):
        for T in COMPARED_AT:
            found = [f"{np.exp(plain[T].cost.mean()):.1f}", f"{100 * plain[T][column + 1].mean():.1f}"]
            table.add_row(name, f"{T:g}", *found, *(difference(gain[:, column], n_prompts) for gain in gains[T]))
        table.add_section()
    return table


def difference(gain: np.ndarray, n_prompts: int) -> str:
    """The difference over all prompts (first entry) and its bootstrap error; a dash if no setting has the cost."""
    if np.isnan(gain[0]) or np.isnan(gain).mean() > 0.1:
        return "-"
    error = np.nanstd(gain[1:]) * np.sqrt(
        n_prompts / (n_prompts - 1)
    )  # the bootstrap underestimates the variance by (n − 1) / n
    return f"{100 * gain[0]:+.1f} ± {100 * error:.1f}"


def step_table(study: Study) -> Table:
    """One row per decoding: cost and entropy of the next token, the largest possible entropy, and the agreement."""
    table = table_of(f"{study.name}: one step", ("", "cost", "entropy", "tempered", "loss", "agreement"))
    for name, law in study.next_tokens.items():
        means = [f"{values.mean():.3f}" for values in (law.cost, law.entropy, law.tempered)]
        loss = f"{law.divergence.mean():.3f} ± {standard_error(law.divergence):.3f}"
        agreement = f"{100 * law.agreement.mean():.1f} ± {100 * standard_error(law.agreement):.1f}"
        table.add_row(name, *means, loss, agreement)
    return table


def standard_error(values: np.ndarray) -> float:
    """Standard error of the mean of values (n,)."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def picture(studies: Sequence[Study], path: Path) -> None:
    """Write distance over perplexity for each model, and entropy over cost of one step of the last model."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(studies) + 1, figsize=(9, 4))
    for study, axis in zip(studies, axes, strict=False):
        draw_diversity(axis, study)
    axes[0].legend(fontsize=7, loc="lower right")
    draw_step(axes[-1], studies[-1])
    figure.tight_layout(pad=0.5)
    save(figure, path)


def draw_diversity(axis: Any, study: Study) -> None:
    """Distance over perplexity, one line per family."""
    for (family, measured), marker in zip(study.measured.items(), "os^vD", strict=True):
        x, y = [np.exp(m.cost.mean()) for m in measured], [m.distance.mean() for m in measured]
        label = family if family == PLAIN else f"noise, {family}"
        style = {"color": "black", "lw": 1.8, "zorder": 3} if family == PLAIN else {"lw": 1.0}
        axis.errorbar(x, y, [standard_error(m.distance) for m in measured], marker=marker, ms=4, label=label, **style)
    axis.set(xscale="log", xlabel="perplexity under the plain model", ylabel="distance of two continuations")
    axis.set_title(study.name, fontsize=9)
    low, high = axis.get_xlim()
    ticks = [tick for tick in (1, 2, 3, 5, 10, 20, 50, 100) if low < tick < high]
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.set_xticks([], minor=True)


def draw_step(axis: Any, study: Study) -> None:
    """Mean entropy over mean cost of the next token: the tempered curve, which is the maximum, and each decoding."""
    axis.plot(*study.tempered_curve, color="black", lw=1.8, label="temperature")
    for marker, prefix in (("s", "greedy"), ("D", "T = 0.7"), ("x", "last layer")):
        laws = [law for name, law in study.next_tokens.items() if name.startswith(prefix)]
        x, y = [law.cost.mean() for law in laws], [law.entropy.mean() for law in laws]
        axis.plot(
            x, y, marker, ms=5, label=f"noise, {prefix}", color={"greedy": "C0", "T = 0.7": "C3"}.get(prefix, "C4")
        )
    axis.set(xlabel="cost of the next token, nats", ylabel="its entropy, nats")
    axis.set_title(f"{study.name}: one step", fontsize=9)
    axis.legend(fontsize=7, loc="lower right")
