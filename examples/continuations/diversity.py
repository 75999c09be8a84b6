"""How good and how diverse continuations are, and how diverse a next token can be at a given cost: plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq


class Measures(NamedTuple):
    """Means over the continuations of each prompt, each (prompts,).

    cost: −log p a token, in nats. distance: share of positions at which two continuations differ. fourgrams: distinct
    ones of all continuations, as a share. repeats: share of the bigrams that their own continuation has had before.
    """

    cost: np.ndarray
    distance: np.ndarray
    fourgrams: np.ndarray
    repeats: np.ndarray


def measure(cost: np.ndarray, tokens: np.ndarray) -> Measures:
    """The measures of tokens (prompts, continuations, length) and their costs."""
    n = tokens.shape[1]
    counts = (tokens[..., None] == np.arange(tokens.max() + 1)).sum(1)  # (prompts, length, vocabulary)
    alike = (counts * (counts - 1)).sum(-1) / (n * (n - 1))
    fourgrams = _runs(tokens, 4).reshape(len(tokens), -1)
    bigrams = np.sort(_runs(tokens, 2), axis=-1)
    return Measures(
        cost.mean((1, 2)),
        1 - alike.mean(1),
        np.array([len(np.unique(of_prompt)) / len(of_prompt) for of_prompt in fourgrams]),
        (bigrams[..., 1:] == bigrams[..., :-1]).sum(-1).mean(1) / bigrams.shape[-1],
    )


def _runs(tokens: np.ndarray, width: int) -> np.ndarray:
    """A number for each run of `width` tokens: (..., L) to (..., L − width + 1)."""
    runs = np.lib.stride_tricks.sliding_window_view(tokens.astype(np.int64), width, axis=-1)
    return runs @ ((tokens.max() + 1) ** np.arange(width))


def at_equal_cost(plain: Measures, family: Sequence[Measures], picks: np.ndarray) -> np.ndarray:
    """Distance, fourgrams, repeats of a family at the cost of `plain`, less those of `plain`: (resamples, 3).

    picks: (resamples, prompts), the prompts whose means are taken. NaN where the family does not reach the cost.
    A monotone cubic goes through the family's settings: straight lines would cut the corners of its curve.
    """
    found = np.full((len(picks), 3), np.nan)
    for row, pick in zip(found, picks, strict=True):
        x, *ys = (np.stack(values)[:, pick].mean(1) for values in zip(*family, strict=True))
        target, *references = (values[pick].mean() for values in plain)
        x, first = np.unique(x, return_index=True)
        if x[0] <= target <= x[-1]:
            row[:] = PchipInterpolator(x, np.stack(ys, 1)[first])(target) - references
    return found


def tempered(log_p: np.ndarray, cost: float) -> np.ndarray:
    """log q_T (vocabulary,), with q_T ∝ p^(1/T) and E_q[−log p] = cost: the law of largest entropy at that cost."""

    def law(power: float) -> np.ndarray:
        scaled = power * (log_p - log_p.max())
        return scaled - np.log(np.exp(scaled).sum())

    def excess(power: float) -> float:
        return float(-np.exp(law(power)) @ log_p) - cost

    coldest, beyond_uniform = 500.0, -20.0  # a negative 1/T prefers the unlikely, which costs more than chance
    return law(coldest if excess(coldest) >= 0 else brentq(excess, beyond_uniform, coldest, xtol=1e-12))


def entropy(q: np.ndarray) -> float:
    """−Σ q log q, in nats."""
    return float(-(q[q > 0] @ np.log(q[q > 0])))


def remembered(tokens: np.ndarray) -> float:
    """(a − b) / (1 − b): a, b the chances that two tokens of one context, of two contexts agree; tokens (contexts, n).

    Both chances are counted over pairs, without bias. 0: contexts make no difference; 1: a context decides its token.
    """
    counts = (tokens[..., None] == np.arange(tokens.max() + 1)).sum(1)
    total, (n_contexts, n) = counts.sum(0), tokens.shape
    within = (counts * (counts - 1)).sum()
    across = (total * (total - 1)).sum() - within
    a, b = within / (n_contexts * n * (n - 1)), across / (n_contexts * (n_contexts - 1) * n**2)
    return float((a - b) / (1 - b)) if b < 1 else 0.0
