"""The exact mixture in sequence space: stored sequences whose residues are exchanged site by site.

A kernel keeps a residue or draws it anew from the site's law, which makes it reversible with that law stationary.
Density, draws and fixed residues are exact, and no sequence is impossible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import count, non_negative, one_of
from .sites import Family, checked_codes, checked_family, draw_index, draw_letters, site_laws

RATES = np.linspace(0.05, 1.0, 20)
"""Chances that a residue is drawn anew; at 1 nothing of the stored sequence is left but its site's law."""
PSEUDO_COUNTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
RULES = ("natural", "likelihood")
MOST_FOLDS, MOST_LEFT_OUT = 100, 500
"""Up to a hundred sequences are left out one by one, more in a hundred groups; of a large family 500 evenly spaced."""
EM_ROUNDS = 500


@dataclass(frozen=True, eq=False)
class SubstitutionMixture:
    """p(x) = Σ_k Σ_r w_kr Π_i P_i^r(x_i | m_ki) with P_i^r(b | a) = (1 − t_r) 1[a = b] + t_r pi_i(b).

    memories:    (K, L) codes 0 … 19, 20 for a gap
    site_laws:   (L, 21) pi, stationary under every P_i^r: pi_i(a) P_i^r(b | a) is symmetric in a and b
    rates:       (R,) t, above 0 and at most 1
    log_weights: (K, R), normalised
    fixed:       (L,) the residue a site must have, −1 where it is free
    kept:        (K,) what number each memory has among the sequences it was fitted on
    """

    memories: Array
    site_laws: Array
    rates: Array
    log_weights: Array
    fixed: Array
    kept: Array

    @classmethod
    def fit(cls, codes: Any, weights: Any = None, *, pseudo_counts: float | str = "natural") -> SubstitutionMixture:
        """The mixture of sequences (K, L) with weights (K,); zero leaves a sequence out.

        pseudo_counts: of the site laws. "natural" (see `site_laws`) suits draws; "likelihood" takes those with the
                       highest likelihood of sequences left out, for the best density: its draws are too varied to score
                       as the family does. Or a number

        The law of the rates has the highest likelihood of sequences left out, with site laws fitted without them. The
        likelihood is concave in that law, so EM finds the one maximum.
        """
        family = checked_family(codes, weights)
        trials = []
        for number in _to_try(pseudo_counts):
            chosen, left_out = _left_out_log_likelihoods(family, number)
            own = family.weights[chosen] / family.weights[chosen].sum()
            law = _best_law(left_out, own)
            value = float(own @ np.logaddexp.reduce(left_out + np.log(law), axis=1))
            trials.append((value, number, law))
        _, number, law = max(trials, key=lambda trial: trial[0])
        return cls(
            family.codes,
            site_laws(family, number).mixed,
            RATES,
            np.log(family.weights)[:, None] + np.log(law),
            np.full(family.codes.shape[1], -1, dtype=np.int16),
            family.kept,
        )

    @property
    def length(self) -> int:
        """Sites."""
        return int(self.memories.shape[1])

    def log_density(self, codes: Any) -> Array:
        """log p of sequences, natural logarithm; −inf where a fixed residue differs; (n, L) -> (n,)."""
        codes = checked_codes(codes, self.length)
        free = self.fixed < 0
        kernels = _log_kernels(codes[:, free], self.memories[:, free], self.site_laws[free], self.rates)
        values = np.array([np.logaddexp.reduce(kernel + self.log_weights, axis=None) for kernel in kernels])
        agrees = (codes[:, ~free] == self.fixed[~free]).all(1)
        return np.where(agrees, values, -np.inf)

    def given(self, fixed: Mapping[int, int]) -> SubstitutionMixture:
        """The law given residues by position, from 0: {position: code}. Memories that explain them weigh more."""
        sites = np.array([count("a fixed position", site, at_least=0) for site in fixed], dtype=np.intp)
        residues = checked_codes(np.array([list(fixed.values())], dtype=None if fixed else np.uint8), len(sites))
        if len(sites) and sites.max() >= self.length:
            raise ValueError(f"a fixed position must be at most {self.length - 1}, counted from 0; got {sites.max()}.")
        clash = [int(s) for s, a in zip(sites, residues[0], strict=True) if self.fixed[s] not in (-1, a)]
        if clash:
            raise ValueError(f"fixed names position {clash[0]}, where this law has another residue already.")
        new = self.fixed[sites] < 0
        sites, residues = sites[new], residues[:, new]
        (evidence,) = _log_kernels(residues, self.memories[:, sites], self.site_laws[sites], self.rates)
        log_weights = self.log_weights + evidence
        log_weights = log_weights - np.logaddexp.reduce(log_weights, axis=None)
        whole = self.fixed.copy()
        whole[sites] = residues[0]
        return replace(self, log_weights=log_weights, fixed=whole)

    def sample(self, n: int, rng: np.random.Generator, fixed: Mapping[int, int] | None = None) -> tuple[Array, Array]:
        """n independent sequences (n, L), and the stored one each was made from (n,). The first m of n are the m."""
        n, law = count("n", n, at_least=0), self.given(fixed) if fixed else self
        which, exchanged, letters = rng.spawn(3)
        component = draw_index(np.exp(law.log_weights).ravel(), which.random(n))
        memory, rate = component // len(law.rates), component % len(law.rates)
        codes = draw_letters(law.site_laws.T[None], letters.random((n, law.length)))
        keeps = exchanged.random((n, law.length)) >= law.rates[rate][:, None]
        codes[keeps] = law.memories[memory][keeps]
        codes[:, law.fixed >= 0] = law.fixed[law.fixed >= 0]
        return codes, law.kept[memory]


def _log_kernels(codes: Array, memories: Array, laws: Array, rates: Array) -> Iterator[Array]:
    """Of each sequence (n, L), log Π_i P_i^r(x_i | m_ki): (K, R) at a time."""
    sites = np.arange(codes.shape[1])
    for row in codes:
        anew = rates * laws[sites, row][:, None]  # (L, R)
        same = (memories == row).astype(np.float64)
        yield np.log(anew).sum(0) + same @ np.log1p((1 - rates) / anew)


def _to_try(pseudo_counts: float | str) -> tuple[float | None, ...]:
    if isinstance(pseudo_counts, str):
        return {"natural": (None,), "likelihood": PSEUDO_COUNTS}[one_of("pseudo_counts", pseudo_counts, RULES)]
    return (non_negative("pseudo_counts", pseudo_counts),)


def _left_out_log_likelihoods(family: Family, pseudo_counts: float | None) -> tuple[Array, Array]:
    """log p of sequences under each rate, memories and site laws fitted without them: which (n,), values (n, R)."""
    K = len(family.codes)
    chosen = np.unique(np.linspace(0, K - 1, min(K, MOST_LEFT_OUT)).round().astype(np.intp))
    values = np.empty((len(chosen), len(RATES)))
    folds = np.arange(len(chosen)) % min(len(chosen), MOST_FOLDS)
    for fold in range(folds.max() + 1):
        out = chosen[folds == fold]
        rest = family.without(np.isin(np.arange(K), out))
        laws = site_laws(rest, pseudo_counts).mixed
        kernels = _log_kernels(family.codes[out], rest.codes, laws, RATES)
        values[folds == fold] = [np.logaddexp.reduce(k + np.log(rest.weights)[:, None], axis=0) for k in kernels]
    return chosen, values


def _best_law(log_likelihoods: Array, weights: Array) -> Array:
    """The law u of the rates with the highest Σ_k w_k log Σ_r u_r exp(log_likelihoods_kr): (R,), nowhere zero."""
    relative = np.exp(log_likelihoods - log_likelihoods.max(1, keepdims=True))
    law = np.full(relative.shape[1], 1 / relative.shape[1])
    for _ in range(EM_ROUNDS):
        law = np.maximum(law * (weights / (relative @ law) @ relative), 1e-12)
        law /= law.sum()
    return law
