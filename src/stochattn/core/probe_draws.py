"""A fixed set of draws around the memories, for rules that ask how draws behave at many temperatures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, to_numpy
from .._backend.random import Purpose, generator
from ..storage.mapped import require_small
from .memory import MemoryBank
from .mixture import pick

MAX_DRAWS = 4096
MAX_PAIRS = 2**22
"""Probes or draws times memories: what one evaluation of a rule may look at. It bounds both time and memory."""


class ProbeDraws(NamedTuple):
    """Standard draws around the memories, m_k + eps/√beta, kept as their inner products: one set for every beta."""

    uniforms: Array  # (S,) which memory
    overlaps: Array  # (S, K) eps · m_j
    squares: Array  # (S,) ‖eps‖²
    patterns: Array  # (K, r)
    norms: Array  # (K,) ‖m_j‖²
    log_r: Array  # (K,)
    equal_weights: bool
    known: dict[str, Array]  # what `_between` found last

    @classmethod
    def around(cls, bank: MemoryBank, equal_weights: bool) -> ProbeDraws:
        """The draws around the memories of a bank; the same ones each time."""
        patterns = in_float64(bank.patterns)
        K, d = patterns.shape
        S = max(n_probes(K, MAX_DRAWS), 256)
        rng = generator(0, Purpose.RULE)  # never the numbers that a user's own draws are made of
        if d > 4 * K:  # only the part of eps in the span has overlaps; of the rest only its length counts
            patterns = patterns @ in_float64(bank.basis)
        eps = rng.standard_normal((S, patterns.shape[1]))
        rest = d - patterns.shape[1]
        squares = np.einsum("sd,sd->s", eps, eps) + (rng.chisquare(rest, S) if rest else 0.0)
        # Even spacing, shuffled, in place of random uniforms: each memory is then drawn as often as it should be.
        uniforms = rng.permutation((np.arange(S) + 0.5) / S)
        norms = np.einsum("kd,kd->k", patterns, patterns)
        return cls(uniforms, eps @ patterns.T, squares, patterns, norms, in_float64(bank.log_r), equal_weights, {})

    def distances(self, beta: float) -> Array:
        """Distance from each draw to its nearest memory: (S,)."""
        k, s, noise = self._picked(beta)
        nearest = (self.norms - 2 * (self._between(k) + s * self.overlaps)).min(1)
        squared = nearest + self.norms[k] + 2 * s * noise + s**2 * self.squares
        return np.sqrt(np.maximum(squared, 0))

    def novelties(self, beta: float | None) -> Array:
        """1 − max cos of each draw (S,); None is the limit of infinite temperature."""
        lengths = np.sqrt(self.norms)
        if beta is None:
            return 1 - (self.overlaps / lengths).max(1) / np.sqrt(self.squares)
        k, s, noise = self._picked(beta)
        top = ((self._between(k) + s * self.overlaps) / lengths).max(1)
        return 1 - top / np.sqrt(np.maximum(self.norms[k] + 2 * s * noise + s**2 * self.squares, 1e-300))

    def _between(self, k: Array) -> Array:
        """m_k · m_j of the memories drawn: (S, K). Kept, since memories that weigh alike are the same at every beta."""
        if "k" not in self.known or not np.array_equal(self.known["k"], k):
            self.known.update(k=k, between=self.patterns[k] @ self.patterns.T)
        return self.known["between"]

    def _picked(self, beta: float) -> tuple[Array, float, Array]:
        log_weights = self.log_r if self.equal_weights else self.log_r + beta / 2 * self.norms
        cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
        k = pick(cumulative, self.uniforms)
        return k, beta**-0.5, self.overlaps[np.arange(len(k)), k]


def in_float64(x: Array) -> Array:
    """x as a float64 array of numpy."""
    require_small(x, 'this rule (pass beta as a number, or "natural")')
    return to_numpy(x).astype(np.float64)


def n_probes(K: int, most: int) -> int:
    """How many probes to compare with K memories."""
    return min(max(MAX_PAIRS // K, 20), most)
