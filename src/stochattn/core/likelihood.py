"""The leave-one-out likelihood of the mixture: how likely each memory is given the others, as a function of beta."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from .._backend.arrays import Array, NumpyArray, to_numpy
from .._backend.products import shifted_exp_inplace
from ..storage.blockwise import blocks
from ..storage.mapped import is_large, is_mapped
from ..storage.shards import pass_over
from .memory import MemoryBank
from .neighbors import evenly, rows_in_float64
from .probes import in_float64, n_probes

MAX_PROBES = 1024
BETAS_PER_PASS, N_PASSES = 17, 4  # equivalent: more of either find the same minimum
"""Each pass over a large bank divides the range of log beta by eight; a parabola then fits to better than 1e-5."""


class LeaveOneOut:
    """Σ_k log p_beta(m_k | the other memories) over memories k or evenly spaced ones, to be maximised over beta.

    A large bank that is not in memory is passed over once for several betas; of any other bank the inner products with
    all memories are kept.
    """

    def __init__(self, bank: MemoryBank, equal_weights: bool) -> None:
        self.d, self.equal_weights = bank.d, equal_weights
        self.rows = evenly(bank.K, n_probes(bank.K, MAX_PROBES))
        self.log_r = in_float64(bank.log_r)
        self.patterns = bank.patterns
        self.in_passes = is_mapped(bank.patterns) and is_large(bank.patterns)
        if self.in_passes:
            self.probes, self.halves = rows_in_float64(bank.patterns, self.rows), in_float64(bank.norms_squared) / 2
            return
        patterns = in_float64(bank.patterns)
        self.halves = np.einsum("kd,kd->k", patterns, patterns) / 2
        # Less `halves`, these are minus half the squared distances.
        self.overlaps = patterns[self.rows] @ patterns.T - self.halves[self.rows, None]
        self.overlaps[np.arange(len(self.rows)), self.rows] = -np.inf  # leave one out

    def losses(self, log_betas: NumpyArray) -> NumpyArray:
        """Minus the mean log likelihood at each beta: (n,) -> (n,)."""
        betas = np.exp(log_betas)
        joints = self._in_a_pass(betas) if self.in_passes else [self._at_once(beta) for beta in betas]
        return np.array([self._loss(*one) for one in zip(betas, joints, strict=True)])

    def minimum(self, low: float, high: float) -> float:
        """The log beta of the least loss between two, each of which has a larger loss."""
        if not self.in_passes:
            from scipy.optimize import minimize_scalar

            def loss(log_beta: float) -> float:
                return float(self.losses(np.array([log_beta]))[0])

            return float(minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-8}).x)
        for _ in range(N_PASSES):
            grid = np.linspace(low, high, BETAS_PER_PASS)
            losses = self.losses(grid)
            best = int(np.clip(np.argmin(losses), 1, len(grid) - 2))
            low, high = grid[best - 1], grid[best + 1]
        before, at, after = losses[best - 1 : best + 2]
        bend = before - 2 * at + after
        return float(grid[best] + (high - low) / 4 * (before - after) / bend) if bend > 0 else float(grid[best])

    def _loss(self, beta: float, joint: NumpyArray) -> float:
        of_others = _logsumexp_of_others(self._log_weights(beta))[self.rows]
        return -float((joint - of_others).mean()) - self.d / 2 * math.log(beta)

    def _log_weights(self, beta: float) -> NumpyArray:
        """Log weights of the memories in the mixture, not normalised: (K,)."""
        return self.log_r if self.equal_weights else self.log_r + beta * self.halves

    def _at_once(self, beta: float) -> NumpyArray:
        """log Σ_{j≠k} r_j exp(−beta ‖m_k − m_j‖²/2), times the weights of the norms: (n_probes,)."""
        logits = beta * (self.overlaps - self.halves) + self._log_weights(beta)
        return np.asarray(shifted_exp_inplace(logits)[:, 0] + np.log(logits.sum(1)))

    def _in_a_pass(self, betas: NumpyArray) -> NumpyArray:
        """`_at_once` for several betas: (n_betas, n_probes)."""
        part = partial(_joint, own=self.rows, betas=betas, equal_weights=self.equal_weights)
        return pass_over(self.patterns, part, np.logaddexp, self.probes, self.log_r)


def _joint(
    patterns: Array,
    start: int,
    probes: NumpyArray,
    log_r: NumpyArray,
    *,
    own: NumpyArray,
    betas: NumpyArray,
    equal_weights: bool,
) -> NumpyArray:
    total = np.full((len(betas), len(probes)), -np.inf)
    half_probes = np.square(probes).sum(1)[:, None] / 2
    for block in blocks(*patterns.shape):
        keys = to_numpy(patterns[block]).astype(np.float64, copy=False)  # equivalent: a copy has the same values
        closeness = probes @ keys.T - half_probes
        here = np.flatnonzero((start + block.start <= own) & (own < start + block.stop))
        closeness[here, own[here] - start - block.start] = -np.inf
        if equal_weights:  # otherwise the weight of a memory cancels this
            closeness -= np.einsum("kd,kd->k", keys, keys) / 2
        for row, beta in zip(total, betas, strict=True):
            logits = beta * closeness + log_r[block]
            with np.errstate(invalid="ignore"):  # a block may hold nothing but the memory that is left out
                top = shifted_exp_inplace(logits)[:, 0]
                summed = np.where(top == -np.inf, -np.inf, top + np.log(logits.sum(1)))
            row[:] = np.logaddexp(row, summed)
    return total


def _logsumexp_of_others(logits: NumpyArray) -> NumpyArray:
    """log Σ_{j≠k} exp logits_j for each k, without cancellation, which subtracting k from the whole has: (K,)."""
    before = np.logaddexp.accumulate(np.concatenate(([-np.inf], logits[:-1])))
    after = np.logaddexp.accumulate(np.concatenate(([-np.inf], logits[:0:-1])))[::-1]
    return np.asarray(np.logaddexp(before, after))
