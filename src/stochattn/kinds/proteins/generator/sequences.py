"""Aligned sequences as codes (n, L), 0 … 19 for symbols and 20 for a gap: identities, weights, and sites.

The distribution of residues at each site without a gap: discounted counts and pseudo-counts.

pi(a) = (c(a) − min(d, c(a)))/(n + θ) + share q(a) with share = (θ + Σ_b min(d, c(b)))/(n + θ) and n = Σ_b c(b).

The discount d of each residue at a site, whatever its count c, is that of the Pitman-Yor process. A residue that occurs
once loses most of its share, and a conserved one almost nothing. In the posterior of a Dirichlet mixture (d = 0), all
lose in proportion: residues that occur once are then drawn too often, and unseen ones, which are 4 % to 20 % of a
left-out sequence, half as often as they should be. θ is a multiple, the same at all sites, of the pseudo-counts of the
Dirichlet mixture. q is the mean of the expectation of the Dirichlet mixture and of the residues by which other stored
sequences replace those at the site.

Two errors are balanced. Frequencies without pseudo-counts agree with left-out sequences as much as these agree with
each other, but two draws agree more than two stored sequences. Pseudo-counts lower both. With the chosen multiple, the
excess of agreement between two draws equals the lack of agreement between a draw and a left-out sequence. Among the
discounts that allow this, the best by the likelihood of left-out sequences is chosen.

The priors are Dirichlet mixtures. Proteins: nine components by Sjölander et al. (Computer Applications in the
Biosciences 12, 327, 1996; "Blocks9"). Nucleotides: four components by Wheeler and Eddy (Bioinformatics 29, 2487, 2013;
nhmmer). HMMER uses both, and `tests/kinds/proteins/test_site_laws.py` compares posterior means with those of HMMER.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array, ArrayLike
from ....core.neighbors import spaced_indices

N_SYMBOLS = 21
GAP = N_SYMBOLS - 1
BLOCK_ENTRIES = 2**18  # of one-hot rows that are compared at a time, in the processor's cache
MAX_SHARE = 0.5  # as many pseudo-counts as sequences: a few sequences do not show how much agreement is typical
BY_MEMORY = 0.9
"""Share of the pseudo-counts that memories get for being unlike the others; the rest makes all symbols possible."""


def check_codes(codes: ArrayLike, length: int) -> Array:
    """Codes (n, length) as bytes; ValueError for anything else."""
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.shape[1] != length:
        raise ValueError(f"codes must have the shape (n, {length}), one row per sequence; got {codes.shape}.")
    if codes.dtype.kind not in "iu":
        raise ValueError(f"codes must be integers from 0 to {GAP}; got {codes.dtype}. Recode letters first.")
    invalid = codes[(codes < 0) | (codes > GAP)]
    if len(invalid):
        raise ValueError(f"codes must lie from 0 to {GAP}, which is a gap; got {invalid[0]}. Recode other symbols.")
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
    references, L = new if stored is None else stored, new.shape[1]
    hot, gaps = one_hot(references, np.float32).T, (references == GAP).T.astype(np.float32)
    index, identity = np.empty(len(new), dtype=np.intp), np.empty(len(new))
    size = max(BLOCK_ENTRIES // (L * GAP), 1)
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
    """Sequences with positive weight."""

    codes: Array  # (K, L)
    weights: Array  # (K,), adding up to one
    indices: Array  # (K,) among all sequences, with those of weight zero

    @classmethod
    def of(cls, codes: ArrayLike, weights: ArrayLike | None = None) -> WeightedSequences:
        """Sequences (K, L) with weights (K,), equal by default, of which at least two are positive."""
        codes = np.asarray(codes, dtype=np.uint8)
        w = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=np.float64)
        w = w / max(w.max(), np.finfo(np.float64).tiny)
        kept = np.flatnonzero(w)
        return cls(codes[kept], w[kept] / w[kept].sum(), kept)

    @property
    def effective_size(self) -> float:
        """The number of equally weighted sequences that carry as much information: 1/Σ w²."""
        return float(1 / np.square(self.weights).sum())


def site_distributions(sequences: WeightedSequences) -> SiteMixture:
    """pi = (1 − share) f + share f S, with S(b | a) how often one sequence has b where another has a, over all sites.

    Draws from pi agree with the stored sequences as much as these agree with each other. Frequencies f agree too much,
    Σ f² instead of the share of equal symbols among pairs; the share (Σ f² − pairs)/(Σ f² − Σ f · f S) of pseudo-counts
    removes the excess.
    """
    hot, w, size = indicators(sequences.codes), sequences.weights, sequences.effective_size
    f = np.einsum("k,kla->la", w, hot)
    pairs = np.maximum(f.T @ f - np.diag(np.einsum("k,kla->a", np.square(w), hot)), 0)  # of two different sequences
    pairs /= max(1 - 1 / size, 1e-12)  # a single sequence, left of two, has no pair
    composition = (f.sum(0) * size + 1) / (f.sum() * size + N_SYMBOLS)
    # A few pairs of unrelated symbols make every substitution possible.
    joint = pairs + N_SYMBOLS / 2 * np.outer(composition, composition) / size
    substituted = f @ (joint / joint.sum(1, keepdims=True))
    agreement, substituted_agreement = float((f * f).sum()), float((f * substituted).sum())
    share = min((agreement - float(np.trace(pairs))) / max(agreement - substituted_agreement, 1e-12), MAX_SHARE)
    share = max(share, 1 / (1 + sequences.codes.size))  # at least as if one symbol of all sequences were another
    return SiteMixture(f, substituted, np.full(len(f), share))


def relative_substitution_rates(sequences: WeightedSequences) -> Array:
    """Relative substitution rates at which draws around each sequence agree with the others as it does itself: (K,).

    Agreement t_k = Σ_i f_i(x_ki), without the sequence itself, also varies by chance, so the variance of independent
    sites is subtracted. Rates are proportional to Σ f² − t_k, with the mean BY_MEMORY.
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
    """Codes (n, L) drawn from probabilities (n or 1, 21, L), which need not be normalized, at uniforms (n, L)."""
    below = uniforms * probabilities.sum(1)
    codes, running = np.zeros(uniforms.shape, dtype=np.uint8), np.zeros_like(probabilities[:, 0])
    for symbol in range(probabilities.shape[1] - 1):
        running += probabilities[:, symbol]
        codes += running <= below
    return codes


# fmt: off
_PROTEIN_WEIGHTS = (0.178091, 0.056591, 0.0960191, 0.0781233, 0.0834977, 0.0904123, 0.114468, 0.0682132, 0.234585)
_PROTEIN = (  # in the order ACDEFGHIKLMNPQRSTVWY
    (0.270671, 0.039848, 0.017576, 0.016415, 0.014268, 0.131916, 0.012391, 0.022599, 0.020358, 0.030727,
     0.015315, 0.048298, 0.053803, 0.020662, 0.023612, 0.216147, 0.147226, 0.065438, 0.003758, 0.009621),
    (0.021465, 0.010300, 0.011741, 0.010883, 0.385651, 0.016416, 0.076196, 0.035329, 0.013921, 0.093517,
     0.022034, 0.028593, 0.013086, 0.023011, 0.018866, 0.029156, 0.018153, 0.036100, 0.071770, 0.419641),
    (0.561459, 0.045448, 0.438366, 0.764167, 0.087364, 0.259114, 0.214940, 0.145928, 0.762204, 0.247320,
     0.118662, 0.441564, 0.174822, 0.530840, 0.465529, 0.583402, 0.445586, 0.227050, 0.029510, 0.121090),
    (0.070143, 0.011140, 0.019479, 0.094657, 0.013162, 0.048038, 0.077000, 0.032939, 0.576639, 0.072293,
     0.028240, 0.080372, 0.037661, 0.185037, 0.506783, 0.073732, 0.071587, 0.042532, 0.011254, 0.028723),
    (0.041103, 0.014794, 0.005610, 0.010216, 0.153602, 0.007797, 0.007175, 0.299635, 0.010849, 0.999446,
     0.210189, 0.006127, 0.013021, 0.019798, 0.014509, 0.012049, 0.035799, 0.180085, 0.012744, 0.026466),
    (0.115607, 0.037381, 0.012414, 0.018179, 0.051778, 0.017255, 0.004911, 0.796882, 0.017074, 0.285858,
     0.075811, 0.014548, 0.015092, 0.011382, 0.012696, 0.027535, 0.088333, 0.944340, 0.004373, 0.016741),
    (0.093461, 0.004737, 0.387252, 0.347841, 0.010822, 0.105877, 0.049776, 0.014963, 0.094276, 0.027761,
     0.010040, 0.187869, 0.050018, 0.110039, 0.038668, 0.119471, 0.065802, 0.025430, 0.003215, 0.018742),
    (0.452171, 0.114613, 0.062460, 0.115702, 0.284246, 0.140204, 0.100358, 0.550230, 0.143995, 0.700649,
     0.276580, 0.118569, 0.097470, 0.126673, 0.143634, 0.278983, 0.358482, 0.661750, 0.061533, 0.199373),
    (0.005193, 0.004039, 0.006722, 0.006121, 0.003468, 0.016931, 0.003647, 0.002184, 0.005019, 0.005990,
     0.001473, 0.004158, 0.009055, 0.003630, 0.006583, 0.003172, 0.003690, 0.002967, 0.002772, 0.002686),
)
_NUCLEOTIDE_WEIGHTS = (0.24, 0.26, 0.08, 0.42)
_NUCLEOTIDE = ((0.16, 0.45, 0.12, 0.39), (0.09, 0.03, 0.09, 0.04), (1.29, 0.40, 6.58, 0.51), (1.74, 1.49, 1.57, 1.95))
# fmt: on


class DirichletMixture(NamedTuple):
    """Σ_c weight_c Dirichlet(alpha_c), the prior of the residue probabilities of a site."""

    weights: Array  # (C,)
    alpha: Array  # (C, q)

    @property
    def n_letters(self) -> int:
        return int(self.alpha.shape[1])

    def posterior(self, counts: Array) -> tuple[Array, Array]:
        """The expected residue probabilities, (1 − share) frequencies + share pseudo, at sites with counts (L, q).

        Returns the share of pseudo-counts (L,), small at sites with few different residues, and their distribution.
        """
        from scipy.special import gammaln

        totals, sizes = counts.sum(1), self.alpha.sum(1)
        # log P(counts | component) without the factor that all components share
        evidence = [
            gammaln(size) - gammaln(totals + size) + (gammaln(counts + alpha) - gammaln(alpha)).sum(1)
            for alpha, size in zip(self.alpha, sizes, strict=True)
        ]
        logs = np.log(self.weights) + np.stack(evidence, axis=1)
        component = np.exp(logs - logs.max(1, keepdims=True))
        component /= component.sum(1, keepdims=True)
        per_count = component / (totals[:, None] + sizes)  # (L, C)
        pseudo = per_count @ self.alpha
        share = pseudo.sum(1)
        return share, pseudo / share[:, None]


PROTEIN = DirichletMixture(np.array(_PROTEIN_WEIGHTS), np.array(_PROTEIN))
NUCLEOTIDE = DirichletMixture(np.array(_NUCLEOTIDE_WEIGHTS), np.array(_NUCLEOTIDE))


MAX_LEFT_OUT = 100
DISCOUNTS = np.linspace(0.0, 1.0, 11)
MAX_SCALE, BISECTIONS, TINY = 4.0, 20, 1e-9
"""Multiples of the pseudo-counts of the Dirichlet mixture, from 0, and halvings of the interval."""


class SiteMixture(NamedTuple):
    """pi = (1 − share) frequencies + share pseudo, at each site."""

    frequencies: Array  # (L, q) of residues after the discount; `pseudo` at sites without residues
    pseudo: Array  # (L, q)
    share: Array  # (L,)

    @property
    def mixed(self) -> Array:
        """pi, positive everywhere: (L, q)."""
        return (1 - self.share)[:, None] * self.frequencies + self.share[:, None] * self.pseudo


class Discount(NamedTuple):
    """The discount d of each count, and the multiple of the pseudo-counts of the Dirichlet mixture."""

    counts: float = 0.0
    scale: float = 1.0


class Sites(NamedTuple):
    """Statistics of the residues at each site."""

    counts: Array  # (L, q)
    prior_share: Array  # (L,) of pseudo-counts of the Dirichlet mixture
    prior_pseudo: Array  # (L, q) the distribution of these pseudo-counts
    exchanged: Array  # (L, q) distribution of residues by which other sequences replace those at the site

    @classmethod
    def of(cls, frequencies: Array, size: float, prior: DirichletMixture) -> Sites:
        """Sites with these frequencies of residues (L, q) among `size` sequences; the remaining share is gaps."""
        counts = size * frequencies
        composition = (counts.sum(0) + 1) / (counts.sum() + prior.n_letters)
        # A few pairs of unrelated residues make every exchange possible.
        pairs = counts.T @ counts / size + prior.n_letters / 2 * np.outer(composition, composition)
        np.fill_diagonal(pairs, 0.0)
        totals = counts.sum(1, keepdims=True)
        present = np.where(totals > 0, counts / np.maximum(totals, TINY), composition)
        return cls(counts, *prior.posterior(counts), present @ (pairs / pairs.sum(1, keepdims=True)))

    @property
    def pseudo(self) -> Array:
        """q, positive everywhere: (L, q)."""
        return (self.prior_pseudo + self.exchanged) / 2

    @property
    def theta(self) -> Array:
        """Pseudo-counts of the Dirichlet mixture, whose share is θ/(n + θ): (L,)."""
        return self.counts.sum(1) * self.prior_share / np.maximum(1 - self.prior_share, TINY)

    def mix(self, discount: Discount) -> SiteMixture:
        """pi with this discount."""
        totals, removed = self.counts.sum(1), np.minimum(discount.counts, self.counts)
        theta, left = discount.scale * self.theta, totals - removed.sum(1)
        share = np.where(left > TINY, (theta + removed.sum(1)) / np.maximum(totals + theta, TINY), 1.0)
        # At least as if one residue at all sites of all sequences were another.
        share = np.maximum(share, 1 / (1 + totals.sum()))
        remaining = (self.counts - removed) / np.maximum(left, TINY)[:, None]
        frequencies = np.where(left[:, None] > TINY, remaining, self.pseudo)
        return SiteMixture(frequencies, self.pseudo, share)


class _LeftOutResidues(NamedTuple):
    """Residues of sequences that are left out in turn, and statistics of the others at the same site: (R,) each."""

    weight: Array  # of the sequence
    occupied: Array  # share of the others with a residue at the site
    n_equal: Array  # count of the residue among the others
    totals: Array  # n
    theta: Array  # of the Dirichlet mixture
    pseudo: Array  # q of the residue
    counts: Array  # (R, q) of all residues

    @classmethod
    def of(cls, sequences: WeightedSequences, prior: DirichletMixture) -> _LeftOutResidues:
        """Up to MAX_LEFT_OUT sequences, evenly spaced."""
        f, squares, parts = residue_frequencies(sequences, prior.n_letters), np.square(sequences.weights).sum(), []
        for k in spaced_indices(len(sequences.codes), MAX_LEFT_OUT):
            row, w = sequences.codes[k], sequences.weights[k]
            positions = np.flatnonzero(row != GAP)
            cells, remaining, size = (positions, row[positions]), f.copy(), (1 - w) ** 2 / (squares - w**2)
            remaining[cells] = np.maximum(remaining[cells] - w, 0.0)
            remaining[remaining < TINY] = 0.0  # rounding errors of residues that no other sequence has
            sites = Sites.of(remaining / (1 - w), size, prior)
            totals = sites.counts.sum(1)[positions]
            statistics = sites.counts[cells], totals, sites.theta[positions], sites.pseudo[cells]
            parts.append((np.full(len(positions), w), totals / size, *statistics, sites.counts[positions]))
        return cls(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))

    def probabilities(self, removed: Array, discount: Discount) -> Array:
        """pi of each residue, with the total discount `removed` (R,) of its site: (R,)."""
        theta = discount.scale * self.theta
        kept = self.n_equal - np.minimum(discount.counts, self.n_equal)
        return (kept + (theta + removed) * self.pseudo) / np.maximum(self.totals + theta, 1e-300)


def residue_frequencies(sequences: WeightedSequences, q: int) -> Array:
    """Weighted frequencies of residues, which sum to the share of sequences without a gap at the site: (L, q)."""
    return np.stack([sequences.weights @ (sequences.codes == residue) for residue in range(q)], axis=1)


def fit_sites(sequences: WeightedSequences, prior: DirichletMixture) -> SiteMixture:
    """The site distributions of all sequences, with the discount that is best for left-out sequences."""
    f = residue_frequencies(sequences, prior.n_letters)
    return Sites.of(f, sequences.effective_size, prior).mix(choose_discount(sequences, prior))


def choose_discount(sequences: WeightedSequences, prior: DirichletMixture) -> Discount:
    """The best discount with balanced errors by the likelihood of left-out sequences; none for two sequences."""
    if len(sequences.codes) < 3:
        return Discount()
    f = residue_frequencies(sequences, prior.n_letters)
    sites, residues = Sites.of(f, sequences.effective_size, prior), _LeftOutResidues.of(sequences, prior)
    itself = np.square(sequences.weights) @ (sequences.codes != GAP)
    equal, pairs = np.square(f).sum(1) - itself, np.square(f.sum(1)) - itself  # of two different sequences, (L,)
    weights = residues.weight * residues.occupied
    if pairs.sum() < TINY or weights.sum() < TINY:  # two sequences have no residue at the same site
        return Discount()
    candidates = []
    for counts in DISCOUNTS:
        removed = np.minimum(counts, residues.counts).sum(1)

        def surplus(scale: float, counts: float = counts, removed: Array = removed) -> float:
            """The excess of agreement between two draws, less the lack of it between draws and left-out sequences."""
            excess = pairs @ np.square(sites.mix(Discount(counts, scale)).mixed).sum(1) - equal.sum()
            probabilities = residues.probabilities(removed, Discount(counts, scale))
            lack = residues.n_equal / np.maximum(residues.totals, TINY) - probabilities
            return float(excess / pairs.sum() - weights @ lack / weights.sum())

        if counts and surplus(0.0) < 0:
            break  # larger discounts lower the surplus further
        low, high = 0.0, MAX_SCALE
        for _ in range(BISECTIONS):
            scale = (low + high) / 2
            low, high = (scale, high) if surplus(scale) > 0 else (low, scale)
        discount = Discount(float(counts), high)
        value = residues.weight @ np.log(np.maximum(residues.probabilities(removed, discount), TINY))
        candidates.append((float(value), discount))
    return max(candidates)[1]
