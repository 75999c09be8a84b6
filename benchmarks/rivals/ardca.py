"""An autoregressive model of aligned sequences, like arDCA (Trinquier et al., Nature Communications 12, 5800, 2021).

p(x) = Π_i softmax(h_i + Σ_{j before i} J_ij(·, x_j))_{x_i}, sites in the order of their entropy, sequences reweighted
at 80 % identity, L2 penalties. The penalty of J is chosen by cross-validation on the stored sequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import site_softmax as sites


@dataclass(frozen=True)
class Autoregressive:
    """The fitted model."""

    model: sites.Regressions
    penalty: float

    @classmethod
    def fit(cls, codes: Any) -> Autoregressive:
        """The model of sequences (n, L) of codes 0 … 20."""
        penalty = sites.best_penalty(codes, lambda some, tried: cls(_fitted(some, tried), tried).log_density)
        return cls(_fitted(codes, penalty), penalty)

    def sample(self, n: int, rng: np.random.Generator) -> Any:
        """New sequences (n, L)."""
        stored, order, fields, dual = self.model
        codes = np.empty((n, stored.shape[1]), dtype=np.uint8)
        equal = np.zeros((n, len(stored)))
        for i in order:
            codes[:, i] = sites.draw(sites.softmax(fields[i] + equal @ dual[i]), rng)
            equal += codes[:, i, None] == stored[:, i]
        return codes

    def log_density(self, codes: Any) -> Any:
        """log p of sequences (n, L): (n,)."""
        stored, order, fields, dual = self.model
        total, equal = np.zeros(len(codes)), np.zeros((len(codes), len(stored)))
        for i in order:
            p = sites.softmax(fields[i] + equal @ dual[i])
            total += np.log(p[np.arange(len(codes)), codes[:, i]])
            equal += codes[:, i, None] == stored[:, i]
        return total


def _fitted(codes: Any, penalty: float) -> sites.Regressions:
    weights = sites.sequence_weights(codes)
    frequencies = np.einsum("n,nlq->lq", weights, np.eye(sites.N_SYMBOLS)[codes])
    entropy = -(frequencies * np.log(np.maximum(frequencies, 1e-12))).sum(1)
    order = np.argsort(entropy, kind="stable")
    equal = (codes[:, None] == codes[None]).transpose(2, 0, 1).astype(np.float64)  # (L, n, n)
    gram = np.empty_like(equal)
    gram[order] = np.cumsum(equal[order], axis=0) - equal[order]
    return sites.fit(codes, weights, order, gram, penalty)
