"""How new sequences of a protein family compare with held-out ones: one figure per measure."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ks_2samp

from stochattn.evaluation import nearest_neighbor_accuracy
from stochattn.kinds.proteins.generator.sequences import GAP, indicators, nearest_identity
from stochattn.kinds.proteins.reading import build_profile, score
from stochattn.kinds.proteins.sequences import connected_r

CONSERVED = 0.95
CYSTEINE = 1
NO_HIT = -1e3
CATALYTIC = {"PF00069": "KEDND"}
"""Residues without which a kinase does not work (K72, E91, D166, N171 and D184 of protein kinase A). All stored
sequences have them, and they are found as the invariant columns that follow in this order: see `catalytic_columns`."""


class Figures(NamedTuple):
    """Results of one method on one split; comments begin with the ideal value."""

    score_ks: float  # 0; cross-fitted, see `cross_fitted_ks`
    identity_excess: float  # 0; mean identity to the nearest stored sequence, new minus held-out
    near_copies: float  # 1/(n_held_out + 1); share with a higher identity than any held-out sequence
    accuracy_real: float  # 0.5; leave-one-out 1-NN accuracy in Hamming distance on held-out sequences
    accuracy_new: float  # 0.5; the same on new sequences
    accuracy: float  # 0.5; their mean
    pair_r: float  # 1; correlation of connected pair frequencies C_ij, new and held-out
    odd_cysteines: float  # as stored; share of sequences with an odd number
    conserved: float  # as held-out; share of residues kept in columns that 95 % of the stored sequences agree on
    catalytic: float  # 1; share of sequences with all catalytic residues, where they are known
    run_ratio: float  # 1; mean length of a run of gaps, new over stored and held-out
    log_likelihood: float  # high; of held-out sequences, nats per site


HEADS = (
    *("HMM-score KS", "identity excess", "near-copies", "1-NN real", "1-NN new", "1-NN mean", "C_ij r"),
    *("odd cysteines", "conserved kept", "catalytic", "gap-run ratio", "nats/site"),
)


def evaluated(new: Any, log_likelihood: float, stored: Any, held_out: Any, catalytic: Any) -> Figures:
    """Figures of new sequences (n, L): several times the number of held-out ones, or fewer than twice as many."""
    m = len(held_out)
    identity, true = (nearest_identity(codes, stored)[1] for codes in (new, held_out))
    rows, real = (indicators(codes).reshape(len(codes), -1) for codes in (new, held_out))
    # Each set has the size of the held-out half; the average over sets has a smaller variance.
    sets = [nearest_neighbor_accuracy(real, rows[i : i + m]) for i in range(0, max(len(new) - m, 0) + 1, m)]
    accuracy_real, accuracy_new = np.mean(sets, axis=0)
    frequencies = indicators(stored)[:, :, :GAP].mean(0)
    columns = np.flatnonzero(frequencies.max(1) >= CONSERVED)
    residues = frequencies.argmax(1)
    return Figures(
        cross_fitted_ks(new, held_out),
        float(identity.mean() - true.mean()),
        float((identity > true.max()).mean()),
        float(accuracy_real),
        float(accuracy_new),
        float(accuracy_real + accuracy_new) / 2,
        connected_r(held_out, new),
        float(((new == CYSTEINE).sum(1) % 2).mean()),
        float((new[:, columns] == residues[columns]).mean()) if len(columns) else np.nan,
        float((new[:, catalytic] == residues[catalytic]).all(1).mean()) if len(catalytic) else np.nan,
        mean_run(new) / mean_run(np.concatenate([stored, held_out])),
        log_likelihood,
    )


def cross_fitted_ks(new: Any, held_out: Any) -> float:
    """KS statistic of bit scores, new against held-out, under profiles that saw neither.

    Held-out sequences are split in two parts; each is scored by a profile of the other, and new ones by both profiles.
    """
    order = np.random.default_rng(0).permutation(len(held_out))
    parts = held_out[order[::2]], held_out[order[1::2]]
    scores: tuple[list[Any], list[Any]] = ([], [])
    for scored, other in (parts, parts[::-1]):
        profile = build_profile(other)
        for found, codes in zip(scores, (new, scored), strict=True):
            found.append(np.nan_to_num(score(codes, profile, len(held_out))[0], nan=NO_HIT))
    return float(ks_2samp(*(np.concatenate(found) for found in scores)).statistic)


def mean_run(codes: Any) -> float:
    """Mean length of a run of gaps."""
    gaps = codes == GAP
    opened = gaps & ~np.pad(gaps, ((0, 0), (1, 0)))[:, :-1]
    return float(gaps.sum() / max(opened.sum(), 1))


def catalytic_columns(family: str, codes: Any) -> Any:
    """Positions of the catalytic residues of a family in its alignment (K, L); none where they are not known."""
    if family not in CATALYTIC:
        return np.empty(0, dtype=np.intp)
    invariant = np.flatnonzero((codes == codes[0]).all(0) & (codes[0] != GAP))
    letters = "".join("ACDEFGHIKLMNPQRSTVWY"[codes[0, i]] for i in invariant)
    # GxG of the loop, VAIK, the E of helix C, HRDxK, xxN, DFG, and the R of helix I
    found = [
        letters.index("K"),
        letters.index("E"),
        letters.index("DKN"),
        letters.index("DKN") + 2,
        letters.rindex("D"),
    ]
    return invariant[found]
