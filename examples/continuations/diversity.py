"""Cost and diversity of continuations, and the largest entropy of the next token at a given cost, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq


class Measures(NamedTuple):
    """Means over the continuations of each prompt, each (prompts,).

    cost:      −log p per token, in nats
    distance:  share of positions at which two continuations differ
    fourgrams: share of distinct 4-grams among all continuations
    repeats:   share of bigrams that occurred before in the same continuation
    """

    cost: np.ndarray
    distance: np.ndarray
    fourgrams: np.ndarray
    repeats: np.ndarray


def measure(cost: np.ndarray, tokens: np.ndarray) -> Measures:
    """The measures of tokens (prompts, continuations, length) and their costs."""
    n = tokens.shape[1]
    counts = (tokens[..., None] == np.arange(tokens.max() + 1)).sum(1)  # (prompts, length, vocabulary)
    agreement = (counts * (counts - 1)).sum(-1) / (n * (n - 1))
    fourgrams = _ngrams(tokens, 4).reshape(len(tokens), -1)
    bigrams = np.sort(_ngrams(tokens, 2), axis=-1)
    return Measures(
        cost.mean((1, 2)),
        1 - agreement.mean(1),
        np.array([len(np.unique(of_prompt)) / len(of_prompt) for of_prompt in fourgrams]),
        (bigrams[..., 1:] == bigrams[..., :-1]).sum(-1).mean(1) / bigrams.shape[-1],
    )


def _ngrams(tokens: np.ndarray, width: int) -> np.ndarray:
    """A unique number for each n-gram of `width` tokens: (..., L) -> (..., L − width + 1)."""
    ngrams = np.lib.stride_tricks.sliding_window_view(tokens.astype(np.int64), width, axis=-1)
    return ngrams @ ((tokens.max() + 1) ** np.arange(width))


def at_equal_cost(plain: Measures, family: Sequence[Measures], picks: np.ndarray) -> np.ndarray:
    """Distance, fourgrams, repeats of a family minus those of `plain` at the same cost: (resamples, 3).

    picks: (resamples, prompts), the prompts of each resample. The result is NaN if no setting has the cost of `plain`.
    A monotone cubic interpolates between the settings of the family, because their curve is not linear.
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
    """log q_T (vocabulary,) with q_T ∝ p^(1/T) and E_q[−log p] = cost: the distribution of largest entropy."""

    def law(power: float) -> np.ndarray:
        scaled = power * (log_p - log_p.max())
        return scaled - np.log(np.exp(scaled).sum())

    def excess(power: float) -> float:
        return float(-np.exp(law(power)) @ log_p) - cost

    coldest, beyond_uniform = 500.0, -20.0  # a negative 1/T prefers unlikely tokens
    return law(coldest if excess(coldest) >= 0 else brentq(excess, beyond_uniform, coldest, xtol=1e-12))


def entropy(q: np.ndarray) -> float:
    """−Σ q log q, in nats."""
    return float(-(q[q > 0] @ np.log(q[q > 0])))


def context_agreement(tokens: np.ndarray) -> float:
    """(a − b) / (1 − b) for tokens (contexts, n): agreement within a context, corrected for chance as in Cohen's kappa.

    a and b are the probabilities that two tokens of one context and of two contexts agree, estimated over pairs.
    0: the context has no effect; 1: the context determines the token.
    """
    counts = (tokens[..., None] == np.arange(tokens.max() + 1)).sum(1)
    total, (n_contexts, n) = counts.sum(0), tokens.shape
    within = (counts * (counts - 1)).sum()
    across = (total * (total - 1)).sum() - within
    a, b = within / (n_contexts * n * (n - 1)), across / (n_contexts * (n_contexts - 1) * n**2)
    return float((a - b) / (1 - b)) if b < 1 else 0.0
