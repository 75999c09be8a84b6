"""The exact mixture in sequence space: stored sequences whose symbols are substituted site by site.

A kernel keeps a symbol or draws it again from the site's distribution, which makes the kernel reversible with that
distribution stationary. Density, draws and conditions are exact, and every sequence is possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from .._backend.arrays import Array, ArrayLike
from .._backend.checks import count, non_negative, one_of
from ..core.mixture import pick
from ..core.neighbors import evenly
from .base import Description, Generated
from .sequences import WeightedSequences, checked_codes, draw_symbols, site_distributions

RATES = np.linspace(0.05, 1.0, 20)
"""Probabilities that a symbol is drawn again; at 1 only the site's distribution is left of the stored sequence."""
RULES: dict[str, tuple[float | None, ...]] = {"natural": (None,), "likelihood": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)}
"""Pseudo-counts among which each rule chooses by the likelihood of sequences left out."""
MAX_FOLDS, MAX_LEFT_OUT = 100, 500
"""Up to a hundred sequences are left out one by one, more in a hundred groups; of many sequences 500, evenly spaced."""
EM_ROUNDS = 500


@dataclass(frozen=True, eq=False)
class SubstitutionMixture:
    """p(x) = Σ_k Σ_r w_kr Π_i P_i^r(x_i | m_ki) with P_i^r(b | a) = (1 − t_r) 1[a = b] + t_r pi_i(b)."""

    memories: Array  # (K, L) codes
    sites: Array  # (L, 21) pi, stationary under every P_i^r: pi_i(a) P_i^r(b | a) is symmetric in a and b
    log_weights: Array  # (K, R) log w, normalised, for each of the RATES t
    conditioned: Array  # (L,) the symbol that a site must have, −1 where it is free
    indices: Array  # (K,) of each memory among the sequences before those of weight zero were left out

    @classmethod
    def fit(cls, sequences: WeightedSequences, pseudo_counts: float | str = "natural") -> SubstitutionMixture:
        """The mixture of these sequences.

        The weights of the rates maximise the likelihood of sequences left out, under site distributions fitted without
        them. The likelihood is concave in these weights, so EM finds the one maximum.

        pseudo_counts: of the site distributions. "natural" (see `site_distributions`) suits draws. "likelihood"
                       maximises the likelihood of sequences left out: it gives the best density, and draws that vary
                       more than the stored sequences. Or a number
        """
        if isinstance(pseudo_counts, str):
            candidates = RULES[one_of("pseudo_counts", pseudo_counts, tuple(RULES))]
        else:
            candidates = (non_negative("pseudo_counts", pseudo_counts),)
        trials = []
        for number in candidates:
            chosen, left_out = _left_out_log_likelihoods(sequences, number)
            own = sequences.weights[chosen] / sequences.weights[chosen].sum()
            rate_weights = _best_rate_weights(left_out, own)
            value = float(own @ np.logaddexp.reduce(left_out + np.log(rate_weights), axis=1))
            trials.append((value, number, rate_weights))
        _, number, rate_weights = max(trials, key=lambda trial: trial[0])
        return cls(
            sequences.codes,
            site_distributions(sequences, number).mixed,
            np.log(sequences.weights)[:, None] + np.log(rate_weights),
            np.full(sequences.codes.shape[1], -1, dtype=np.int16),
            sequences.indices,
        )

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n independent sequences (n, L), and the index of the stored sequence that each was made from (n,)."""
        n = count("n", n, at_least=0)
        which, redrawn, symbols = rng.spawn(3)
        component = pick(np.cumsum(np.exp(self.log_weights).ravel()), which.random(n))
        memory, rate = component // len(RATES), component % len(RATES)
        codes = draw_symbols(self.sites.T[None], symbols.random((n, len(self.sites))))
        unchanged = redrawn.random((n, len(self.sites))) >= RATES[rate][:, None]
        codes[unchanged] = self.memories[memory][unchanged]
        codes[:, self.conditioned >= 0] = self.conditioned[self.conditioned >= 0]
        return Generated(codes, self.indices[memory])

    def condition(self, observation: Mapping[int, int]) -> SubstitutionMixture:
        """The mixture given symbols by site, counted from 0: {site: code}. Memories that explain them weigh more."""
        conditioned, last = self.conditioned.copy(), len(self.sites) - 1
        for site, symbol in observation.items():
            if count("a conditioned site", site, at_least=0) > last:
                raise ValueError(f"a conditioned site must be at most {last}, counted from 0; got {site}.")
            conditioned[site] = checked_codes([[symbol]], 1)[0, 0]
            if self.conditioned[site] not in (-1, conditioned[site]):
                raise ValueError(f"site {site} is conditioned on another symbol already. Condition on one of the two.")
        new = np.array([site for site in observation if self.conditioned[site] < 0], dtype=np.intp)
        (evidence,) = _log_kernels(conditioned[None, new], self.memories[:, new], self.sites[new])
        log_weights = self.log_weights + evidence
        log_weights = log_weights - np.logaddexp.reduce(log_weights, axis=None)
        return replace(self, log_weights=log_weights, conditioned=conditioned)

    def log_density(self, codes: ArrayLike) -> Array:
        """log p of sequences, natural logarithm; −inf where a conditioned symbol differs; (n, L) -> (n,)."""
        codes = checked_codes(codes, len(self.sites))
        free = self.conditioned < 0
        kernels = _log_kernels(codes[:, free], self.memories[:, free], self.sites[free])
        values = np.array([np.logaddexp.reduce(kernel + self.log_weights, axis=None) for kernel in kernels])
        agrees = (codes[:, ~free] == self.conditioned[~free]).all(1)
        return np.where(agrees, values, -np.inf)

    def describe(self) -> Description:
        """One sentence on the mixture and its condition."""
        n = int((self.conditioned >= 0).sum())
        given = f", given {n} conditioned site{'s' if n > 1 else ''} (exact)" if n else ""
        return Description("substitution", f"stored sequences under substitutions, site by site{given}")


def _log_kernels(codes: Array, memories: Array, sites: Array) -> Iterator[Array]:
    """For each sequence (n, L), log Π_i P_i^r(x_i | m_ki): (K, R) at a time."""
    positions = np.arange(codes.shape[1])
    for row in codes:
        redrawn = RATES * sites[positions, row][:, None]  # (L, R)
        same = (memories == row).astype(np.float64)
        yield np.log(redrawn).sum(0) + same @ np.log1p((1 - RATES) / redrawn)


def _left_out_log_likelihoods(sequences: WeightedSequences, pseudo_counts: float | None) -> tuple[Array, Array]:
    """log p of sequences at each rate, under memories and sites fitted without them: which (n,), values (n, R)."""
    chosen = evenly(len(sequences.codes), MAX_LEFT_OUT)
    values = np.empty((len(chosen), len(RATES)))
    folds = np.arange(len(chosen)) % min(len(chosen), MAX_FOLDS)
    for fold in range(folds.max() + 1):
        out = chosen[folds == fold]
        codes, weights, indices = (np.delete(field, out, axis=0) for field in sequences)
        others = WeightedSequences(codes, weights / weights.sum(), indices)
        sites = site_distributions(others, pseudo_counts).mixed
        kernels = _log_kernels(sequences.codes[out], others.codes, sites)
        values[folds == fold] = [np.logaddexp.reduce(k + np.log(others.weights)[:, None], axis=0) for k in kernels]
    return chosen, values


def _best_rate_weights(log_likelihoods: Array, weights: Array) -> Array:
    """Weights u of the rates that maximise Σ_k w_k log Σ_r u_r exp(log_likelihoods_kr): (R,), all positive."""
    relative = np.exp(log_likelihoods - log_likelihoods.max(1, keepdims=True))
    best = np.full(relative.shape[1], 1 / relative.shape[1])
    for _ in range(EM_ROUNDS):
        best = np.maximum(best * (weights / (relative @ best) @ relative), 1e-12)
        best /= best.sum()
    return best
