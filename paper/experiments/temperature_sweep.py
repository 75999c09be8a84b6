"""One chain at 25 temperatures on random patterns: from noise to recall."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import energy, metrics

from .. import drawing
from ..data import Data
from ..expected import expected
from ..progress import stage
from ..protocol import average, from_sphere
from ..results import Figure, Measured, Result

N_STEPS, WARMUP = 10_000, 2000
THIN = 10  # the paper keeps every state, but successive states are correlated
N_CHAINS = 8  # number of chains, for the spread of one chain as in the paper
N_EXACT = 20_000


def run(data: Data, seed: int, quick: bool) -> Result:
    """Figure experiments (a), with the numbers behind it."""
    bank = data.synthetic("exp1")
    published = expected(__file__)["experiments-a"]
    rows: dict[str, dict[str, Measured]] = {}
    curve: list[tuple[float, ...]] = []
    for name in published.rows:
        beta = float(name.removeprefix("β = "))
        stage(name)
        draws = from_sphere(bank, beta, N_STEPS, WARMUP, seed, quick, n_chains=N_CHAINS, thin=THIN)
        cosine, entropy = metrics.max_cosine(draws.samples, bank), energy.entropy(draws.samples, bank, beta)
        exact = sa.StochasticAttention(bank, beta=beta).sample(N_EXACT, rng=seed)
        law = metrics.max_cosine(exact, bank), energy.entropy(exact, bank, beta)
        rows[name] = {
            f"{quantity}{suffix}": average(statistic(values, axis=1), float(statistic(exact_values)))
            for quantity, values, exact_values in zip(("cosine", "entropy"), (cosine, entropy), law, strict=True)
            for suffix, statistic in (("", np.mean), (" std", np.std))
        }
        curve.append((beta, cosine.mean(), cosine.std(), entropy.mean(), entropy.std(), law[0].mean(), law[1].mean()))
    table = published.against(
        rows,
        notes=(
            "The published values come from the result files of the authors, from one chain; ours are means over "
            f"{N_CHAINS} chains. Our runs keep every {THIN}th state, because successive states are correlated; the "
            "published run keeps all.",
        ),
    )
    values = np.array(curve)
    return Result(
        [table],
        [Figure("experiments-a", _CAPTION, lambda: _draw(values, bank.K), _CLAIM, _finding(values, bank.K))],
    )


_CAPTION = (
    "Random patterns, d = 64, K = 16: cosine to the nearest pattern and attention entropy against β. Points: chains "
    "(bars: standard deviation of a state); lines: the exact law; crosses: published values. The band is the paper's "
    "β = 5 to 10."
)

_CLAIM = "cosine and entropy both have a smooth transition centred near β = 5 to 10."


def _finding(curve: Any, K: int) -> str:
    """Where each curve of the exact law is half-way."""
    beta, law_cosine, law_entropy = curve[:, 0], curve[:, 5], curve[:, 6]
    middle = (law_cosine[0] + law_cosine[-1]) / 2
    cosine = math.exp(np.interp(middle, law_cosine, np.log(beta)))
    entropy = math.exp(np.interp(-math.log(K) / 2, -law_entropy, np.log(beta)))
    return (
        f"both are smooth, with different centres: under the exact law the entropy is half of log K at β = "
        f"{entropy:.1f}, and the cosine is half-way between its ends at β = {cosine:.0f}."
    )


def _draw(curve: Any, K: int) -> Any:
    beta, cosine, cosine_std, entropy, entropy_std, law_cosine, law_entropy = curve.T
    printed = expected(__file__)["experiments-a"].rows
    figure, left = drawing.subplots(1, 1, size=(8.4, 5.0))
    right = left.twinx()
    left.axvspan(5, 10, color=drawing.ORANGE, alpha=0.25, lw=0)
    for axis, mean, spread, law, quantity, colour, marker, scale in (
        (left, cosine, cosine_std, law_cosine, "cosine", drawing.BLUE, "o", 1.0),
        (right, entropy, entropy_std, law_entropy, "entropy", drawing.RED, "s", math.log(K)),
    ):
        axis.errorbar(beta, mean / scale, spread / scale, fmt=marker, ms=6, color=colour, elinewidth=0.8)
        axis.plot(beta, law / scale, color=colour, lw=1)
        axis.plot(
            beta, [row[quantity].value / scale for row in printed.values()], "x", color=drawing.BLACK, ms=7, zorder=3
        )
        axis.tick_params(axis="y", colors=colour)
    left.set(xscale="log", xlabel="inverse temperature β", ylim=(0, 1.03))
    left.set_ylabel("max cosine", color=drawing.BLUE)
    right.set_ylabel("entropy H/log K", color=drawing.RED)
    right.set_ylim(-0.02, 1.03)
    right.spines["right"].set_visible(True)
    right.grid(False)
    return figure
