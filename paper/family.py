"""A protein family as the paper encodes, decodes and judges it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import stochattn as sa

from .sources import DataError

LETTERS = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
GAP = len(LETTERS)  # the code of a gap, beside 0 … 19 for the amino acids
TINY = 1e-10  # the published ε of the composition's KL and of the decode
N_MI_POSITIONS = 20

Array = Any


@dataclass(frozen=True, eq=False)
class Family:
    """An alignment (K, L) of codes; its unit-norm principal components as memories; and the way back.

    norms (K,) are those of the components before they were scaled to one: the published decode forgets them.
    """

    alignment: Array
    bank: sa.MemoryBank
    norms: Array
    mean: Array
    components: Array

    @property
    def length(self) -> int:
        """Positions."""
        return int(self.alignment.shape[1])

    def decode(self, rows: Array, norms: Array | float = 1.0) -> Array:
        """Rows (n, d), times norms, back to sequences of codes (n, L): the largest channel of each position."""
        channels = self.mean + (rows * np.reshape(norms, (-1, 1))) @ self.components
        channels = channels.reshape(len(rows), self.length, len(LETTERS))
        return np.where(channels.max(-1) < TINY, GAP, channels.argmax(-1))


def read_family(path: Path) -> Family:
    """A Stockholm alignment as the paper prepares it: sparse columns and rows dropped, one-hot, PCA, unit norm."""
    from pyhmmer.easel import MSAFile
    from sklearn.decomposition import PCA

    try:
        with MSAFile(path, format="stockholm") as file:
            content = file.read()
        if content is None:
            raise EOFError
        letters = np.array([list(row.upper()) for row in content.alignment])
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} is no Stockholm alignment ({type(error).__name__}): fetch it again.") from None
    letters = letters[:, (~np.isin(letters, LETTERS)).mean(0) <= 0.5]
    letters = letters[(~np.isin(letters, LETTERS)).mean(1) <= 0.3]
    alignment = np.where(np.isin(letters, LETTERS), np.searchsorted(LETTERS, letters), GAP)
    pca = PCA(0.95, svd_solver="full")
    scores = pca.fit_transform(one_hot(alignment))
    bank = sa.MemoryBank(scores).normalized()
    return Family(alignment, bank, np.linalg.norm(scores, axis=1), pca.mean_, pca.components_)


def one_hot(alignment: Array) -> Array:
    """(n, L) codes -> (n, 20 L); gaps are zeros."""
    return (alignment[:, :, None] == np.arange(len(LETTERS))).reshape(len(alignment), -1).astype(float)


def identity(sequences: Array, stored: Array) -> Array:
    """Share of positions equal to the nearest stored sequence; (n, L), (K, L) -> (n,).

    A stored gap counts as a mismatch, as in the published figures, whose code looked for another gap letter.
    """
    same = (sequences[:, None] == stored[None]) & (stored[None] != GAP)
    return same.mean(-1).max(-1)


def composition_divergence(stored: Array, made: Array) -> float:
    """KL of the 20 amino acid frequencies, stored from made."""
    p, q = (np.bincount(x[x != GAP].ravel(), minlength=GAP).astype(float) for x in (stored, made))
    return _divergence(p / p.sum(), q / q.sum())


def position_divergence(stored: Array, made: Array, tiny: float = TINY) -> float:
    """The mean over positions of the KL of that position's frequencies.

    A letter that is stored and was not made costs p log(p/tiny): the value is mostly a count of such letters, times
    log(1/tiny).
    """
    p, q = (_frequencies(x) for x in (stored, made))
    return float(np.mean([_divergence(a, b, tiny) for a, b in zip(p, q, strict=True)]))


def mutual_information_r(stored: Array, made: Array) -> float:
    """Pearson correlation of the mutual informations between 20 evenly spaced positions."""
    chosen = np.unique(np.linspace(0, stored.shape[1] - 1, N_MI_POSITIONS).round().astype(int))
    pairs = np.triu_indices(len(chosen), 1)
    first, second = (_mutual_information(x[:, chosen])[pairs] for x in (stored, made))
    return _correlation(first, second)


def connected_r(stored: Array, made: Array) -> float:
    """Pearson correlation of the connected pair frequencies f_ij(a, b) − f_i(a) f_j(b) over all pairs of positions."""
    L = stored.shape[1]
    different = np.kron(np.triu(np.ones((L, L), dtype=bool), 1), np.ones((len(LETTERS), len(LETTERS)), dtype=bool))
    first, second = (np.cov(one_hot(x), rowvar=False, bias=True)[different] for x in (stored, made))
    return _correlation(first, second)


def profile_test(sequences: Array, profile: Path) -> tuple[float, float]:
    """Share of sequences that pass a profile HMM at E < 0.01, and the median E-value, gaps stripped."""
    from pyhmmer.easel import TextSequence
    from pyhmmer.hmmer import hmmsearch
    from pyhmmer.plan7 import HMMFile

    try:
        with HMMFile(path := str(profile)) as file:
            hmm = file.read()
        if hmm is None:
            raise EOFError
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} is no profile HMM ({type(error).__name__}): fetch it again.") from None
    texts = ["".join(LETTERS[row[row != GAP]]) for row in sequences]
    targets = [TextSequence(name=str(i).encode(), sequence=text).digitize(hmm.alphabet) for i, text in enumerate(texts)]
    hits = next(iter(hmmsearch(hmm, targets, E=10.0)))
    values = np.full(len(sequences), np.inf)
    for hit in hits:
        values[int(hit.name)] = hit.evalue
    return float((values < 0.01).mean()), float(np.median(values))


def independent_sites(stored: Array, n: int, rng: int) -> Array:
    """The null model: every position drawn from its own frequencies, independently of all others."""
    generator = np.random.default_rng(rng)
    columns = [generator.choice(column[column != GAP], size=n) for column in stored.T]
    return np.stack(columns, axis=1)


def _frequencies(sequences: Array) -> Array:
    counts = one_hot(sequences).reshape(len(sequences), -1, len(LETTERS)).sum(0)
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)


def _divergence(p: Array, q: Array, tiny: float = TINY) -> float:
    return float(np.sum(np.where(p > 0, p * np.log((p + tiny) / (q + tiny)), 0.0)))


def _mutual_information(sequences: Array) -> Array:
    """(n, P) codes -> (P, P), over the pairs in which neither is a gap."""
    n_positions = sequences.shape[1]
    information = np.zeros((n_positions, n_positions))
    for i in range(n_positions):
        for j in range(i + 1, n_positions):
            joint = np.zeros((GAP, GAP))
            both = (sequences[:, i] != GAP) & (sequences[:, j] != GAP)
            np.add.at(joint, (sequences[both, i], sequences[both, j]), 1)
            joint /= max(joint.sum(), 1)
            outer = joint.sum(1)[:, None] * joint.sum(0)[None]
            seen = joint > 0
            information[i, j] = np.sum(joint[seen] * np.log(joint[seen] / outer[seen]))
    return information


def _correlation(first: Array, second: Array) -> float:
    return float(np.corrcoef(first, second)[0, 1]) if first.std() > 0 and second.std() > 0 else 0.0
