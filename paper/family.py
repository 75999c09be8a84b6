"""A protein family as the paper encodes, decodes and evaluates it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import stochattn as sa
from stochattn.kinds.proteins.sequences import (
    GAP,
    LETTERS,
    TINY,
    composition_divergence,
    connected_r,
    mutual_information_r,
    one_hot,
    position_divergences,
)

from .sources import DataError

__all__ = [
    "GAP",
    "LETTERS",
    "Family",
    "composition_divergence",
    "connected_r",
    "identity",
    "independent_sites",
    "mutual_information_r",
    "one_hot",
    "position_divergence",
    "profile_test",
    "read_family",
]

Array = Any


@dataclass(frozen=True, eq=False)
class Family:
    """An alignment (K, L) of codes, its unit-norm principal components as memories, and their decoder.

    norms (K,) are the norms of the components before normalisation; the published decoder ignores them.
    """

    alignment: Array
    bank: sa.MemoryBank
    norms: Array
    mean: Array
    components: Array

    @property
    def length(self) -> int:
        """Number of positions."""
        return int(self.alignment.shape[1])

    def decode(self, rows: Array, norms: Array | float = 1.0) -> Array:
        """Decode rows (n, d) times norms to codes (n, L): the letter with the largest channel at each position."""
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
        raise DataError(f"{path} is not a Stockholm alignment ({type(error).__name__}): fetch it again.") from None
    letters = letters[:, (~np.isin(letters, LETTERS)).mean(0) <= 0.5]
    letters = letters[(~np.isin(letters, LETTERS)).mean(1) <= 0.3]
    alignment = np.where(np.isin(letters, LETTERS), np.searchsorted(LETTERS, letters), GAP)
    pca = PCA(0.95, svd_solver="full")
    scores = pca.fit_transform(one_hot(alignment))
    bank = sa.MemoryBank(scores).normalized()
    return Family(alignment, bank, np.linalg.norm(scores, axis=1), pca.mean_, pca.components_)


def identity(sequences: Array, stored: Array) -> Array:
    """Share of positions equal to the nearest stored sequence; (n, L), (K, L) -> (n,).

    A stored gap counts as a mismatch, as in the published values: the published code tested for another gap letter.
    """
    same = (sequences[:, None] == stored[None]) & (stored[None] != GAP)
    return same.mean(-1).max(-1)


def position_divergence(stored: Array, made: Array, tiny: float = TINY) -> float:
    """The KL divergence of the letter frequencies, averaged over positions."""
    return float(position_divergences(stored, made, tiny).mean())


def profile_test(sequences: Array, profile: Path) -> tuple[float, float]:
    """Share of sequences with E < 0.01 under a profile HMM, and the median E-value, without gaps."""
    from pyhmmer.easel import TextSequence
    from pyhmmer.hmmer import hmmsearch
    from pyhmmer.plan7 import HMMFile

    try:
        with HMMFile(path := str(profile)) as file:
            hmm = file.read()
        if hmm is None:
            raise EOFError
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} is not a profile HMM ({type(error).__name__}): fetch it again.") from None
    texts = ["".join(LETTERS[row[row != GAP]]) for row in sequences]
    targets = [TextSequence(name=str(i).encode(), sequence=text).digitize(hmm.alphabet) for i, text in enumerate(texts)]
    hits = next(iter(hmmsearch(hmm, targets, E=10.0)))
    values = np.full(len(sequences), np.inf)
    for hit in hits:
        values[int(hit.name)] = hit.evalue
    return float((values < 0.01).mean()), float(np.median(values))


def independent_sites(stored: Array, n: int, rng: int) -> Array:
    """The null model: each position is drawn from its frequencies, independently of all others."""
    generator = np.random.default_rng(rng)
    columns = [generator.choice(column[column != GAP], size=n) for column in stored.T]
    return np.stack(columns, axis=1)
