"""A pairwise Potts model by pseudo-likelihood (plmDCA; Ekeberg et al., Physical Review E 87, 012707, 2013).

Each site is regressed on all others, J_ij is the mean of the two estimates, and sequences are drawn by Gibbs sampling.
The penalty of J is chosen by cross-validation of the pseudo-likelihood on the stored sequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import site_softmax as sites

SWEEPS = 200
"""Gibbs sweeps from independent sites; figures after 50 are the same."""


@dataclass(frozen=True)
class Potts:
    """The fitted model."""

    model: sites.Regressions
    penalty: float

    @classmethod
    def fit(cls, codes: Any) -> Potts:
        """The model of sequences (n, L) of codes 0 … 20."""
        penalty = sites.best_penalty(
            codes, lambda some, penalty: cls(_fitted(some, penalty), penalty).log_pseudo_likelihood
        )
        return cls(_fitted(codes, penalty), penalty)

    def log_pseudo_likelihood(self, codes: Any) -> Any:
        """Σ_i log p(x_i | others) of sequences (n, L): (n,)."""
        equal, dual_sums, total = *self._sums(codes), np.zeros(len(codes))
        for i in range(codes.shape[1]):
            total += np.log(self._conditional(i, codes, equal, dual_sums)[np.arange(len(codes)), codes[:, i]])
        return total

    def sample(self, n: int, rng: np.random.Generator) -> Any:
        """New sequences (n, L), each from a chain of its own."""
        stored, _, fields, dual = self.model
        L = stored.shape[1]
        start = [sites.draw(np.tile(sites.softmax(fields[i]), (n, 1)), rng) for i in range(L)]
        codes = np.stack(start, axis=1).astype(np.uint8)
        equal, dual_sums = self._sums(codes)
        for _ in range(SWEEPS):
            for i in rng.permutation(L):
                new = sites.draw(self._conditional(i, codes, equal, dual_sums), rng)
                equal += (new[:, None] == stored[:, i]).astype(float) - (codes[:, i, None] == stored[:, i])
                dual_sums += (dual[i][:, new] - dual[i][:, codes[:, i]]).T
                codes[:, i] = new
        return codes

    def _sums(self, codes: Any) -> tuple[Any, Any]:
        """Σ_j 1[x_j = x_nj] and Σ_j A_j[n, x_j] of sequences (m, L): (m, n) each."""
        stored, _, _, dual = self.model
        equal = (codes[:, None] == stored[None]).sum(2).astype(float)
        return equal, sum((dual[j][:, codes[:, j]].T for j in range(codes.shape[1])), np.zeros_like(equal))

    def _conditional(self, i: int, codes: Any, equal: Any, dual_sums: Any) -> Any:
        """p(x_i | others) from the mean of both estimates of J: (m, q)."""
        stored, _, fields, dual = self.model
        others = equal - (codes[:, i, None] == stored[:, i])
        back = (dual_sums - dual[i][:, codes[:, i]].T) @ np.eye(sites.N_SYMBOLS)[stored[:, i]]
        return sites.softmax(fields[i] + (others @ dual[i] + back) / 2)


def _fitted(codes: Any, penalty: float) -> sites.Regressions:
    equal = (codes[:, None] == codes[None]).transpose(2, 0, 1).astype(np.float64)
    return sites.fit(codes, sites.sequence_weights(codes), np.arange(codes.shape[1]), equal.sum(0) - equal, penalty)
