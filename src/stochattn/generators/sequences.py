"""Aligned sequences as codes (n, L), 0 … 19 for symbols and 20 for a gap: identities, weights, site distributions.

`SubstitutionMixture` is the exact mixture in sequence space: a kernel keeps each symbol of a stored sequence, or draws
it again from the distribution of its site, under which the kernel is reversible. Every sequence is possible.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, ArrayLike
from .._backend.checks import count, non_negative, one_of
from ..core.mixture import pick
from ..core.neighbors import evenly
from .base import Description, Generated

N_SYMBOLS = 21
GAP = N_SYMBOLS - 1
BLOCK_ENTRIES = 2**18  # of one-hot rows that are compared at a time, in the processor's cache
MAX_SHARE = 0.5  # as many pseudo-counts as sequences: a handful of sequences cannot say how much agreement is usual
BY_MEMORY = 0.9
"""Share of the pseudo-counts that memories get by how unlike the others they are; the rest keeps symbols possible."""
RATES = np.linspace(0.05, 1.0, 20)
"""Probabilities that a symbol is drawn again; at 1 only the site's distribution is left of the stored sequence."""
RULES: dict[str, tuple[float | None, ...]] = {"natural": (None,), "likelihood": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)}
"""Pseudo-counts among which each rule chooses by the likelihood of sequences left out."""
MAX_FOLDS, MAX_LEFT_OUT, EM_ROUNDS = 100, 500, 500
"""Up to a hundred sequences are left out one by one, more in a hundred groups; of many sequences 500, evenly spaced."""


def checked_codes(codes: ArrayLike, length: int) -> Array:
    """Codes (n, length) as bytes; ValueError for anything else."""
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.shape[1] != length:
        raise ValueError(f"codes must have the shape (n, {length}), one row per sequence; got {codes.shape}.")
    if codes.dtype.kind not in "iu":
        raise ValueError(f"codes must be whole numbers from 0 to {GAP}; got {codes.dtype}. Recode letters first.")
    wrong = codes[(codes < 0) | (codes > GAP)]
    if len(wrong):
        raise ValueError(f"codes must lie from 0 to {GAP}, which is a gap; got {wrong[0]}. Recode other symbols.")
    return codes.astype(np.uint8)


def one_hot(codes: Array, dtype: type = np.float64) -> Array:
    """Codes (n, L) as indicators (n, 20 L); gaps are zeros."""
    return np.eye(N_SYMBOLS, GAP, dtype=dtype)[codes].reshape(len(codes), codes.shape[1] * GAP)


def indicators(codes: Array) -> Array:
    """Codes (n, L) as one-hot rows with a channel for gaps: (n, L, 21)."""
    return np.eye(N_SYMBOLS)[codes]


def nearest_identity(new: Array, stored: Array | None = None) -> tuple[Array, Array]:
    """For each new sequence, the stored (or other new) one with the highest identity, and that identity: (n,), (n,).

    Identity is the number of equal symbols over the number of positions where at least one of the two has a symbol.
    """
    others, L = new if stored is None else stored, new.shape[1]
    hot, gaps = one_hot(others, np.float32).T, (others == GAP).T.astype(np.float32)
    index, identity = np.empty(len(new), dtype=np.intp), np.empty(len(new))
    size = max(BLOCK_ENTRIES // (L * GAP), 1)  # equivalent: only the size of the blocks changes
    for begin in range(0, len(new), size):
        block = new[begin : begin + size]
        rows = np.arange(len(block))
        shared = one_hot(block, np.float32) @ hot
        shared /= np.maximum(L - (block == GAP).astype(np.float32) @ gaps, 1)
        if stored is None:
            shared[rows, begin + rows] = -1
        index[begin : begin + size] = best = shared.argmax(1)
        identity[begin : begin + size] = shared[rows, best]
    return index, identity


class WeightedSequences(NamedTuple):
    """Checked sequences of positive weight."""

    codes: Array  # (K, L)
    weights: Array  # (K,), adding up to one
    indices: Array  # (K,) of each among the sequences before those of weight zero were left out

    @classmethod
    def of(cls, codes: ArrayLike, weights: ArrayLike | None = None) -> WeightedSequences:
        """Sequences (K, L) with weights (K,), which are equal by default; those of weight zero are left out."""
        codes = np.asarray(codes)
        if codes.ndim != 2 or 0 in codes.shape:
            raise ValueError(f"codes must be a non-empty matrix, one row per sequence; got shape {codes.shape}.")
        codes = checked_codes(codes, codes.shape[1])
        w = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=np.float64)
        if w.shape != (len(codes),):
            raise ValueError(f"weights must have one number per sequence, ({len(codes)},); got shape {w.shape}.")
        wrong = w[~(np.isfinite(w) & (w >= 0))]
        if len(wrong):
            raise ValueError(f"weights must be finite and not negative; got {wrong[0]}. Zero leaves a sequence out.")
        w = w / max(w.max(), np.finfo(np.float64).tiny)
        kept = np.flatnonzero(w)
        if len(kept) < 2:
            raise ValueError(f"at least two sequences need a positive weight; got {len(kept)} of {len(codes)}.")
        return cls(codes[kept], w[kept] / w[kept].sum(), kept)

    @property
    def effective_size(self) -> float:
        """The number of equally weighted sequences that carry as much information: 1/Σ w²."""
        return float(1 / np.square(self.weights).sum())


class SiteDistributions(NamedTuple):
    """pi = (1 − share) frequencies + share substituted."""

    frequencies: Array  # (L, 21) f, of the sequences
    substituted: Array  # (L, 21) f S, with S(b | a) how often one sequence has b where another has a, over all sites
    share: float  # of pseudo-counts

    @property
    def mixed(self) -> Array:
        """pi, positive everywhere: (L, 21)."""
        return (1 - self.share) * self.frequencies + self.share * self.substituted


def site_distributions(sequences: WeightedSequences, pseudo_counts: float | None = None) -> SiteDistributions:
    """Site distributions with a share pseudo_counts/(pseudo_counts + effective size) of pseudo-counts.

    By default, draws from them agree with the stored sequences as much as these agree with each other: frequencies f
    agree too much, Σ f² against the share of equal symbols among pairs, and the share (Σ f² − pairs)/(Σ f² − Σ f · f S)
    of pseudo-counts removes the excess.
    """
    hot, w, size = indicators(sequences.codes), sequences.weights, sequences.effective_size
    f = np.einsum("k,kla->la", w, hot)
    pairs = np.maximum(f.T @ f - np.diag(np.einsum("k,kla->a", np.square(w), hot)), 0)  # of two different sequences
    pairs /= max(1 - 1 / size, 1e-12)  # a single sequence, left of two, has no pair
    composition = (f.sum(0) * size + 1) / (f.sum() * size + N_SYMBOLS)
    # A few pairs of unrelated symbols make every substitution possible.
    joint = pairs + N_SYMBOLS / 2 * np.outer(composition, composition) / size
    substituted = f @ (joint / joint.sum(1, keepdims=True))
    if pseudo_counts is None:
        own, drawn = float((f * f).sum()), float((f * substituted).sum())
        share = min((own - float(np.trace(pairs))) / max(own - drawn, 1e-12), MAX_SHARE)
    else:
        share = pseudo_counts / (pseudo_counts + size)
    # At least as if one symbol of all sequences were another.
    return SiteDistributions(f, substituted, max(share, 1 / (1 + sequences.codes.size)))


def relative_substitution_rates(sequences: WeightedSequences) -> Array:
    """Parts of the pseudo-counts at which draws around each sequence agree with the others as itself does: (K,).

    Agreement t_k = Σ_i f_i(x_ki), without the sequence itself, also varies by chance: only the variance beyond that of
    independent sites counts. Parts are proportional to Σ f² − t_k, with the mean BY_MEMORY.
    """
    sites = site_distributions(sequences)
    f, w, L = sites.frequencies, sequences.weights, len(sites.frequencies)
    agreement = (f[np.arange(L), sequences.codes].sum(1) - w * L) / (1 - w)
    mean = w @ agreement
    variance = w @ np.square(agreement - mean)
    by_chance = ((sites.mixed * f * f).sum(1) - np.square((sites.mixed * f).sum(1))).sum()
    real = math.sqrt(max(1 - by_chance / variance, 0.0)) if variance > 0 else 0.0
    excess = np.maximum((f * f).sum() - mean - real * (agreement - mean), 0.0)
    return excess * (BY_MEMORY / ((w @ excess) or 1.0))


def draw_symbols(probabilities: Array, uniforms: Array) -> Array:
    """Codes (n, L) drawn from probabilities (n or 1, 21, L), which need not be normalised, at uniforms (n, L)."""
    below = uniforms * probabilities.sum(1)
    codes, running = np.zeros(uniforms.shape, dtype=np.uint8), np.zeros_like(probabilities[:, 0])
    for symbol in range(probabilities.shape[1] - 1):
        running += probabilities[:, symbol]
        codes += running <= below
    return codes


@dataclass(frozen=True, eq=False)
class SubstitutionMixture:
    """p(x) = Σ_k Σ_r w_kr Π_i P_i^r(x_i | m_ki) with P_i^r(b | a) = (1 − t_r) 1[a = b] + t_r pi_i(b)."""

    sequences: WeightedSequences  # m, K of them
    sites: Array  # (L, 21) pi, stationary under every P_i^r: pi_i(a) P_i^r(b | a) is symmetric in a and b
    log_weights: Array  # (K, R) log w, normalised, for each of the RATES t
    conditioned: Array  # (L,) the symbol that a site must have, −1 where it is free

    @classmethod
    def fit(cls, sequences: WeightedSequences, pseudo_counts: float | str = "natural") -> SubstitutionMixture:
        """The mixture of these sequences; weights of rates maximise the likelihood of sequences left out, by EM.

        pseudo_counts: of the site distributions, a number or a rule. "natural" (see `site_distributions`) suits draws,
                       "likelihood" that of sequences left out: the best density, and draws that vary too much
        """
        if isinstance(pseudo_counts, str):
            candidates = RULES[one_of("pseudo_counts", pseudo_counts, tuple(RULES))]
        else:
            candidates = (non_negative("pseudo_counts", pseudo_counts),)
        trials = []
        for number in candidates:
            chosen, left_out = _left_out_log_likelihoods(sequences, number)
            own = sequences.weights[chosen] / sequences.weights[chosen].sum()
            log_rates = np.log(_best_rate_weights(left_out, own))
            value = float(own @ np.logaddexp.reduce(left_out + log_rates, axis=1))
            trials.append((value, number, log_rates))
        _, number, log_rates = max(trials, key=lambda trial: trial[0])
        log_weights, free = np.log(sequences.weights)[:, None] + log_rates, np.full(sequences.codes.shape[1], -1)
        return cls(sequences, site_distributions(sequences, number).mixed, log_weights, free)

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n independent sequences (n, L), and the index of the stored sequence that each was made from (n,)."""
        n = count("n", n, at_least=0)
        which, redrawn, symbols = rng.spawn(3)
        component = pick(np.cumsum(np.exp(self.log_weights).ravel()), which.random(n))
        memory, rate = component // len(RATES), component % len(RATES)
        codes = draw_symbols(self.sites.T[None], symbols.random((n, len(self.sites))))
        unchanged = redrawn.random((n, len(self.sites))) >= RATES[rate][:, None]
        codes[unchanged] = self.sequences.codes[memory][unchanged]
        codes[:, self.conditioned >= 0] = self.conditioned[self.conditioned >= 0]
        return Generated(codes, self.sequences.indices[memory])

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
        (evidence,) = _log_kernels(conditioned[None, new], self.sequences.codes[:, new], self.sites[new])
        joint = self.log_weights + evidence
        return replace(self, log_weights=joint - np.logaddexp.reduce(joint, axis=None), conditioned=conditioned)

    def log_density(self, codes: ArrayLike) -> Array:
        """log p of sequences, natural logarithm; −inf where a conditioned symbol differs; (n, L) -> (n,)."""
        codes = checked_codes(codes, len(self.sites))
        free = self.conditioned < 0
        kernels = _log_kernels(codes[:, free], self.sequences.codes[:, free], self.sites[free])
        values = np.array([np.logaddexp.reduce(kernel + self.log_weights, axis=None) for kernel in kernels])
        return np.where((codes[:, ~free] == self.conditioned[~free]).all(1), values, -np.inf)

    def describe(self) -> Description:
        """One sentence on the mixture and its condition."""
        n = int((self.conditioned >= 0).sum())
        given = f", given {n} conditioned site{'s' if n > 1 else ''} (exact)" if n else ""
        return Description("substitution", f"stored sequences under substitutions, site by site{given}")


def _log_kernels(codes: Array, memories: Array, sites: Array) -> Iterator[Array]:
    """log Π_i P_i^r(x_i | m_ki) of each sequence (n, L): (K, R) at a time."""
    for row in codes:
        redrawn = RATES * sites[np.arange(len(row)), row][:, None]  # (L, R)
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
