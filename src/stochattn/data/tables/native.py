"""The sampler made for tables: covariance kernels around the features of stored rows, as the pipeline draws from them.

Features of equal cells are first spread over all that decode to these cells, so that the likelihood which chooses the
width of kernels has no points of infinite density. Categories are decoded with an offset for each value, which gives
every value the share that it has among the stored rows: the largest of a few normal variables rarely is a rare one.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ...core.memory import MemoryBank
from ...core.mixture import perplexity
from ...generators.coordinates import Coordinates
from ...generators.covariance import CovarianceKernels, choose_width
from ...generators.neighborhoods import Width
from ..legacy import InputError
from .columns import Levels

if TYPE_CHECKING:
    from .codec import TableCodec

FEWEST = 8
"""Rows from which on the width of kernels is chosen by likelihood."""
FEW_ROWS = Width(0.5, 1.0, 0)
"""The width for fewer: halfway between the stored rows and one Gaussian."""
MOST_JUDGED = 1000
"""Rows by which a width is chosen; of larger tables, a random part."""
LOCAL_ENTRIES = 2**22
"""Numbers in covariances of neighbourhoods, beyond which all rows share one."""
WIDE = 200
"""Features beyond which kernels live in the span of the stored rows."""
LOOSE, JUDGED_LOOSE = 0.1, 0.3
"""How far apart equal categories are spread, of the way to the next, for kernels and for the choice of their width: the
likelihood favours copies of rows where categories lie close, and kernels lose what ties rows to their class where they
lie far apart."""
CALIBRATED, ROUNDS, CLOSE = 4096, 200, 0.002
"""Draws that shares of categories are brought to the stored ones with, in how many steps at most, and how closely."""
FEW_MATTER = 3
UNLIKELY = 2.0
"""Nats by which fixed values are less likely than the oddest stored row's, from where on a note says so."""


class TableSampler(NamedTuple):
    """Covariance kernels of rows of a table.

    codec:   decodes features; its fixed columns stay as they are fixed
    space:   from features to the coordinates of kernels, centred; principal components of very wide tables
    kernels: around the kept rows, given what is fixed
    kept:    (kept,) their numbers among all that are stored
    offsets: (p,) added to features before they are decoded
    about:   one line on how it was made
    notes:   a line for whatever is odd about what is fixed
    """

    codec: TableCodec
    space: Coordinates
    kernels: CovarianceKernels
    kept: Array
    offsets: Array
    about: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, codec: TableCodec, weights: Array, fixes: tuple[str, ...] = ()) -> TableSampler:
        """Kernels around the rows of positive weight (K,), their width chosen by likelihood."""
        codec = copy(codec)  # what is fixed becomes part of it, and of no other sampler
        notes, codec.notes = codec.notes, ()
        kept = np.flatnonzero(weights > 0)
        stored = codec.features(codec.take(codec.stored, kept))
        features = loosened(codec, stored)
        space = Coordinates.fit(features, variance=None if features.shape[1] <= WIDE else 1.0, norm="whole")
        try:
            width, how = _width(space.rows(loosened(codec, stored, JUDGED_LOOSE)))
            kernels = CovarianceKernels.fit(MemoryBank(space.stored, np.log(weights[kept])), width=width)
        except ValueError as error:
            raise InputError(f"the kept rows of the table: {error}") from None
        offsets = _offsets(codec, stored, weights[kept], space.features(kernels.sample(CALIBRATED, _rng())[0]))
        about = f"covariance kernels: {width} ({how})"
        odd: tuple[str, ...] = ()
        if fixes:
            free, kernels = kernels, _given(codec, space, kernels, fixes)
            odd = (*codec.notes, *_unheard_of(free, kernels, space.stored), *_few(kernels))
        codec.notes = notes
        return cls(codec, space, kernels, kept, offsets, about, odd)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Any, Array]:
        """n new rows, and the stored one that each was drawn around (n,)."""
        z, k = self.kernels.sample(n, rng)
        features = self.space.features(z)
        at = 0
        for column in self.codec.columns:
            if column.name not in self.codec.fixed:
                features[:, at : at + column.width] += self.offsets[at : at + column.width]
            at += column.width
        memory = self.kept[k]
        return self.codec.decoded(features, memory), memory

    def log_density(self, frame: Any) -> Array:
        """How likely rows of a data frame are: log density of their features, in nats; (n,).

        For comparing rows with each other or with stored ones: its unit is that of features, not of cells.
        """
        return self.kernels.log_density(self.space.rows(self.codec.features(frame)))


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def loosened(codec: TableCodec, features: Array, by: float = LOOSE) -> Array:
    """Features (n, p) with equal cells spread over all that decode to them."""
    rng = _rng()
    ends = np.cumsum([column.width for column in codec.columns])[:-1]
    parts = zip(codec.columns, np.split(features, ends, axis=1), strict=True)
    return np.concatenate([column.loosened(part, rng, by) for column, part in parts], axis=1)


def _width(rows: Array) -> tuple[Width, str]:
    """A width for kernels around rows (K, d), and how it was chosen."""
    K, d = rows.shape
    if K < FEWEST:
        return FEW_ROWS, f"set for fewer than {FEWEST} rows"
    shape = "local" if K * d**2 <= LOCAL_ENTRIES else "pooled"
    some = rows if K <= MOST_JUDGED else rows[np.sort(_rng().permutation(K)[:MOST_JUDGED])]
    width = choose_width(some, shape=shape)
    return width._replace(neighbours=round(width.neighbours * K / len(some))), "by the likelihood of left-out rows"


def _offsets(codec: TableCodec, stored: Array, weights: Array, drawn: Array) -> Array:
    """Offsets (p,) with which values of drawn features (n, p) are as frequent as those of stored ones (K, p)."""
    offsets = np.zeros(stored.shape[1])
    at = 0
    for column in codec.columns:
        own = slice(at, at + column.width)
        at += column.width
        if isinstance(column.how, Levels):
            counts = np.bincount(column.how.back(stored[:, own]), weights, column.width)
            offsets[own] = share_offsets(drawn[:, own], counts / counts.sum())
    return offsets


def share_offsets(features: Array, shares: Array) -> Array:
    """b (L,) such that value j is the largest of features + b (n, L) in the share_j (L,) of rows; -inf for none."""
    offsets = np.where(shares > 0, 0.0, -np.inf)
    present = shares > 0
    step, n = float(features.std()) / 2, len(features)
    best, least = offsets, np.inf
    for _ in range(ROUNDS):
        found = np.bincount(np.argmax(features + offsets, axis=1), minlength=len(shares)) / n
        off = float(np.abs(found - shares).max())
        if off < least:
            best, least = offsets.copy(), off
        elif off > least:
            step *= 0.9  # it oscillates
        if off < CLOSE:
            break
        offsets[present] += step * np.log((shares[present] + 1 / n) / (found[present] + 1 / n))
    return best


def _given(
    codec: TableCodec, space: Coordinates, kernels: CovarianceKernels, fixes: tuple[str, ...]
) -> CovarianceKernels:
    """The kernels given what is fixed."""
    observed = space.observation(*codec.fixed_features(fixes))
    try:
        return kernels.given(*observed)
    except (ValueError, np.linalg.LinAlgError) as error:
        raise InputError(f"--fix {' '.join(fixes)}: {error} Fix fewer values.") from None


def _unheard_of(free: CovarianceKernels, given: CovarianceKernels, stored: Array) -> tuple[str, ...]:
    """A note where what is fixed is far less likely than what any stored row has in its place."""
    if given.observed is None:
        return ()
    rows, values = given.observed
    likely, least = free.log_density_of(rows, values[None])[0], free.log_density_of(rows, stored @ rows.T).min()
    if likely >= least - UNLIKELY:
        return ()
    return ("what is fixed is unlike anything stored, alone or together: the rest is guessed from afar",)


def _few(kernels: CovarianceKernels) -> tuple[str, ...]:
    """A note where what is fixed leaves few rows that matter."""
    count = perplexity(kernels.log_weights)
    if count >= FEW_MATTER or len(kernels.log_weights) < 2 * FEW_MATTER:
        return ()
    return (f"what is fixed leaves {count:.1f} stored rows that matter: draws stay close to them",)
