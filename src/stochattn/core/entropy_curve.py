"""Attention entropy against beta, with its derivatives in closed form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike, shifted_exp_inplace
from .memory import MemoryBank, states
from .neighbors import evenly
from .probe_draws import in_float64, n_probes


class EntropyCurve(NamedTuple):
    """Attention entropy against beta, averaged over probe states; all (n_betas,)."""

    beta: Array
    entropy: Array  # H, nats
    slope: Array  # dH/dbeta = −beta Var_p(e)   (Eq. 10)
    curvature: Array  # d²H/dbeta² = −Var − beta mu_3; its zero is Eq. 11


class ProbeAttention(NamedTuple):
    """Overlaps of probe states with the memories; what entropy curves are made of."""

    overlaps: Array  # (n_probes, K)
    log_r: Array  # (K,)

    @classmethod
    def of(cls, bank: MemoryBank, probes: ArrayLike | None) -> ProbeAttention:
        """Overlaps of the probes, or of the memories themselves, with the kept memories."""
        bank = bank.active
        patterns = in_float64(bank.patterns)
        if probes is None:
            chosen = patterns[evenly(len(patterns), n_probes(len(patterns), 512))]
        else:
            chosen = np.atleast_2d(in_float64(states(probes, bank, "probes")))
        return cls(chosen @ patterns.T, in_float64(bank.log_r))

    def moments(self, beta: float) -> tuple[float, float, float]:
        """H, dH/dbeta and d²H/dbeta², averaged over the probes.

        With logits l = beta e + b: dH = −Cov(e, l), d²H = −Var(e) − ⟨(e − ē)² (l − l̄)⟩; without b, Eq. 10 and 11.
        """
        logits = beta * self.overlaps + self.log_r
        p = logits.copy()
        top = shifted_exp_inplace(p)
        total = p.sum(1, keepdims=True)
        p /= total
        e = self.overlaps - (p * self.overlaps).sum(1, keepdims=True)
        mean = (p * logits).sum(1, keepdims=True)
        centred = logits - mean
        pe = p * e
        entropy = (top + np.log(total) - mean).mean()
        slope = -(pe * centred).sum(1).mean()
        curvature = -(pe * e * (1 + centred)).sum(1).mean()
        return float(entropy), float(slope), float(curvature)
