"""Softmax regressions of each site of aligned sequences on other sites, with an L2 penalty, by kernels.

The coefficients that minimize a loss with an L2 penalty are sums over the n sequences (the representer theorem):
J_i(a; j, b) = Σ_n A_i[n, a] 1[x_nj = b]. The (L, n, q) numbers A replace the (L q)² numbers J, and a logit at site i is
h_i(a) + Σ_n A_i[n, a] · (number of the sites j that i may depend on, at which the sequence equals sequence n).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

N_SYMBOLS = 21
THETA = 0.8
"""Sequences with a larger share of equal symbols count as one, as in the published methods."""
STEPS, TOLERANCE = 500, 1e-3
PENALTIES = (0.03, 0.1, 0.3)
"""L2 penalties of couplings among which cross-validation on the stored sequences chooses; arDCA's example has 0.02."""
FIELD_PENALTY = 0.001
FOLDS = 3


class Regressions(NamedTuple):
    """Sequences x (n, L), the order of their sites (L,), h (L, q) and A (L, n, q)."""

    codes: Any
    order: Any
    fields: Any
    dual: Any


def sequence_weights(codes: Any) -> Any:
    """1 over the number of sequences that are alike, (n,), normalized."""
    alike = (codes[:, None] == codes[None]).mean(2) >= THETA
    weights = 1 / alike.sum(1)
    return weights / weights.sum()


def fit(codes: Any, weights: Any, order: Any, gram: Any, penalty: float) -> Regressions:
    """Minimize −Σ_n w_n log p(x_ni | others) + penalty |J_i|² + FIELD_PENALTY |h_i|² at each site i.

    gram: (L, n, n), equal symbols of two sequences at the sites that site i may depend on

    Accelerated gradient steps in the space of functions change A by w (p − y) + 2 penalty A.
    """
    n, L = codes.shape
    y = np.eye(N_SYMBOLS)[codes.T]  # (L, n, q)
    steepest = 0.5 * np.linalg.eigvalsh(gram * np.sqrt(np.outer(weights, weights))).max(1) + 0.5
    step = 1 / (steepest + 2 * penalty)[:, None, None]
    dual, fields = np.zeros((L, n, N_SYMBOLS)), np.zeros((L, 1, N_SYMBOLS))
    old_dual, old_fields = dual, fields
    for t in range(STEPS):
        momentum = t / (t + 3)
        ahead, ahead_fields = dual + momentum * (dual - old_dual), fields + momentum * (fields - old_fields)
        error = weights[:, None] * (softmax(gram @ ahead + ahead_fields) - y)
        slope, slope_fields = (
            error + 2 * penalty * ahead,
            error.sum(1, keepdims=True) + 2 * FIELD_PENALTY * ahead_fields,
        )
        old_dual, old_fields = dual, fields
        dual, fields = ahead - step * slope, ahead_fields - step * slope_fields
        if max(np.abs(slope).max() * n, np.abs(slope_fields).max()) < TOLERANCE:
            break
    return Regressions(codes, order, fields[:, 0], dual)


def softmax(logits: Any) -> Any:
    """Over the last axis."""
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def draw(probabilities: Any, rng: np.random.Generator) -> Any:
    """Symbols (n,) from probabilities (n, q)."""
    below = rng.random(len(probabilities))[:, None] > np.cumsum(probabilities, axis=1)
    return np.minimum(below.sum(1), N_SYMBOLS - 1)


def best_penalty(codes: Any, score: Callable[[Any, float], Callable[[Any], Any]]) -> float:
    """The penalty under which left-out sequences score best; score(fitted, penalty) is the score of a fitted model."""
    fold = np.random.default_rng(0).permutation(len(codes)) % FOLDS

    def left_out(penalty: float) -> float:
        parts = [score(codes[fold != f], penalty)(codes[fold == f]) for f in range(FOLDS)]
        return float(np.concatenate(parts).mean())

    return max((left_out(penalty), penalty) for penalty in PENALTIES)[1]
