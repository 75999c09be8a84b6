"""An exact mixture of laws of aligned sequences: each component draws site by site, except for what comes whole.

p(x) = mean_m P(gaps of x | k_m) p_m(x | gaps). Component m was made around the stored sequence k_m. It draws a residue
at each site without a gap from probabilities of its own, but

- gaps are a whole pattern (`gap_patterns`),
- the residues of a tie (`conserved`) are all there or none, except with the probability `broken`,
- sequences with an odd number of one residue are kept with probability `Parity.kept`, others always. Cysteines pair up
  in disulphide bonds, so an odd number is rare in families that have them.

The density has all of that in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from .conserved import Tie
from .gap_patterns import GapLaw
from .sequences import GAP, N_SYMBOLS

BLOCK = 1024
"""Sequences drawn at a time. Never fewer: a sequence that is drawn again takes more numbers from the stream."""
DENSITY_ENTRIES = 2**24  # of (sequences, components) or (sequences, sites of all stored ones) at a time
TINY = 1e-30
BISECTIONS = 50


class Parity(NamedTuple):
    """A residue, and how often a sequence is kept that has it an odd number of times."""

    residue: int
    kept: float


@dataclass(frozen=True, eq=False)
class SequenceMixture:
    """A mixture of components, each with residues that are independent but for ties, and a law of gaps."""

    memory: Array  # (M,) k, the stored sequence around which each component was made
    probabilities: Array  # (M, q, L) of residues
    gaps: GapLaw
    ties: tuple[Tie, ...] = ()
    broken: float = 0.0  # probability that the sites of a tie are drawn one by one
    parity: Parity | None = None

    @cached_property
    def presence(self) -> Array:
        """Probability of each tie: the mean of those of its residues, (M, T)."""
        found = [self.probabilities[:, tie.residues, tie.sites].mean(1) for tie in self.ties]
        return np.stack(found, axis=1) if found else np.empty((len(self.memory), 0))

    @cached_property
    def _below(self) -> Array:
        """Sums of the probabilities up to each residue but the last: (q − 1, M, L)."""
        return np.ascontiguousarray(np.cumsum(self.probabilities, axis=1, dtype=np.float32)[:, :-1].transpose(1, 0, 2))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n sequences (n, L), and the stored sequence around which each was made (n,). The first m of n are the m."""
        which, patterns, symbols = rng.spawn(3)
        L = self.probabilities.shape[2]
        codes, source = np.empty((n, L), dtype=np.uint8), np.empty(n, dtype=np.intp)
        for begin in range(0, n, BLOCK):
            m = np.minimum((which.random(BLOCK) * len(self.memory)).astype(np.intp), len(self.memory) - 1)
            gaps = self.gaps.sample(self.memory[m], patterns.random((BLOCK, L + 1), dtype=np.float32))
            drawn = self._accepted(m, gaps, symbols)
            codes[begin : begin + BLOCK] = drawn[: n - begin]
            source[begin : begin + BLOCK] = self.memory[m][: n - begin]
        return codes, source

    def _accepted(self, m: Array, gaps: Array, symbols: np.random.Generator) -> Array:
        """Sequences of components m (n,) with these gaps (n, L), drawn again until their parity is accepted."""
        codes = self._drawn(m, gaps, symbols)
        if self.parity is None:
            return codes
        left = np.arange(len(m))
        while len(left):
            odd = (codes[left] == self.parity.residue).sum(1) % 2 == 1
            left = left[odd & (symbols.random(len(left)) >= self.parity.kept)]
            codes[left] = self._drawn(m[left], gaps[left], symbols)
        return codes

    def _drawn(self, m: Array, gaps: Array, symbols: np.random.Generator) -> Array:
        """One draw of each component m (n,) with these gaps (n, L)."""
        n, L = gaps.shape
        uniforms = symbols.random((n, L), dtype=np.float32)
        present = np.zeros((n, len(self.ties)), dtype=bool)
        for t, tie in enumerate(self.ties):
            tied, there = symbols.random((2, n))
            complete = ~gaps[:, tie.sites].any(1)
            present[:, t] = (tied >= self.broken) & complete & (there < self.presence[m, t])
            absent = np.flatnonzero((tied >= self.broken) & ~present[:, t])
            for site, residue in zip(tie.sites, tie.residues, strict=True):  # uniforms that skip the residue
                own = self.probabilities[m[absent], residue, site]
                below = self._below[residue - 1, m[absent], site] if residue else np.zeros(len(absent), np.float32)
                u = uniforms[absent, site] * (1 - own)
                uniforms[absent, site] = np.where(u < below, u, u + own)
        codes, above = np.zeros((n, L), dtype=np.uint8), np.empty((n, L), dtype=bool)
        limits = np.empty((n, L), dtype=np.float32)  # the same memory for all residues
        for below in self._below:
            np.take(below, m, axis=0, out=limits, mode="clip")  # the mode that needs no buffer; all m are in range
            np.less_equal(limits, uniforms, out=above)
            codes += above.view(np.uint8)
        for t, tie in enumerate(self.ties):
            codes[np.ix_(np.flatnonzero(present[:, t]), tie.sites)] = tie.residues
        codes[gaps] = GAP
        return codes

    def log_density(self, codes: Array) -> Array:
        """log p of sequences (n, L): (n,)."""
        found = np.empty(len(codes))
        _, q, L = self.probabilities.shape
        size = max(DENSITY_ENTRIES // max(len(self.memory), self.gaps.stored.size, q * L), 1)
        for begin in range(0, len(codes), size):
            block = codes[begin : begin + size]
            logs = self.gaps.log_probability(block == GAP)[:, self.memory] + self._log_residues(block)
            found[begin : begin + size] = np.logaddexp.reduce(logs, axis=1) - math.log(len(self.memory))
        return found

    def _log_residues(self, codes: Array) -> Array:
        """log p_m(x | gaps of x): (n, M)."""
        M, q, L = self.probabilities.shape
        free = np.ones(L, dtype=bool)
        for tie in self.ties:
            free[tie.sites] = False
        hot = (np.eye(N_SYMBOLS, q)[codes].transpose(0, 2, 1) * free).reshape(len(codes), q * L)
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(self.probabilities.astype(np.float64)), -700).reshape(M, q * L)
        total = hot @ logs.T
        for t in range(len(self.ties)):
            total += self._log_tie(t, codes)
        if self.parity is not None:
            odd = (codes == self.parity.residue).sum(1) % 2 == 1
            chance_odd = (1 - self._expected_sign(codes == GAP)) / 2
            total += np.where(odd, np.log(self.parity.kept), 0.0)[:, None]
            total -= np.log1p(-(1 - self.parity.kept) * np.clip(chance_odd, 0, 1))
        return np.asarray(total)

    def _log_tie(self, t: int, codes: Array) -> Array:
        """log probability of the residues at the sites of a tie: (n, M)."""
        tie, presence = self.ties[t], self.presence[:, t].astype(np.float64)
        x = codes[:, tie.sites]
        there, gap = x == tie.residues, x == GAP
        single, skipping = np.ones((len(codes), len(presence))), np.ones((len(codes), len(presence)))
        for s, (site, residue) in enumerate(zip(tie.sites, tie.residues, strict=True)):
            p = self.probabilities[:, :, site].astype(np.float64)
            found = np.where(gap[:, s, None], 1.0, p[:, np.minimum(x[:, s], p.shape[1] - 1)].T)
            single *= found
            skipping *= np.where(gap[:, s, None], 1.0, found / np.maximum(1 - p[:, residue], TINY))
        absent = np.where(gap.any(1)[:, None], 1.0, 1 - presence) * skipping
        tied = np.where(there.all(1)[:, None], presence, np.where(there.any(1)[:, None], 0.0, absent))
        return np.log(np.maximum((1 - self.broken) * tied + self.broken * single, TINY**10))

    def _expected_sign(self, gaps: Array) -> Array:
        """E (−1)^(number of the residue of the parity), given gaps (n, L), before parity is looked at: (n, M)."""
        assert self.parity is not None
        signs = 1 - 2 * self.probabilities[:, self.parity.residue].astype(np.float64)  # (M, L)
        free = ~gaps
        for tie in self.ties:
            free[:, tie.sites] = False
        logs = np.log(np.maximum(np.abs(signs), TINY))
        negative = np.asarray(signs < 0)
        total = np.exp(free @ logs.T) * (1 - 2 * ((free.astype(np.int64) @ negative.T.astype(np.int64)) % 2))
        for t, tie in enumerate(self.ties):
            presence = self.presence[:, t].astype(np.float64)
            gap = np.asarray(gaps[:, tie.sites])
            single, absent = np.ones_like(total), np.ones_like(total)
            for s, (site, residue) in enumerate(zip(tie.sites, tie.residues, strict=True)):
                single *= np.where(gap[:, s, None], 1.0, signs[:, site])
                if residue != self.parity.residue:
                    left = 1 - np.maximum(1 - self.probabilities[:, residue, site].astype(np.float64), TINY)
                    sign = 1 - (1 - signs[:, site]) / (1 - left)
                    absent *= np.where(gap[:, s, None], 1.0, sign)
            whole = 1 - 2 * (np.count_nonzero(tie.residues == self.parity.residue) % 2)
            some = np.asarray(gap.any(1))[:, None]
            tied = np.where(some, absent, presence * whole + (1 - presence) * absent)
            total *= (1 - self.broken) * tied + self.broken * single
        return np.asarray(total)

    def with_odd_share(self, residue: int, most: float) -> SequenceMixture:
        """The mixture in which at most this share of draws has an odd number of the residue."""
        law = replace(self, parity=Parity(residue, 1.0))
        signs = law._expected_sign(self.gaps.stored)[self.memory, np.arange(len(self.memory))]
        odd = np.clip((1 - signs) / 2, 0, 1)  # with the gaps of the stored sequences
        low, high = 0.0, 1.0
        if odd.mean() <= most:
            return self
        for _ in range(BISECTIONS):
            kept = (low + high) / 2
            low, high = (low, kept) if (kept * odd / (1 - (1 - kept) * odd)).mean() > most else (kept, high)
        return replace(self, parity=Parity(residue, high))
