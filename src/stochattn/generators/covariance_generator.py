"""Covariance kernels as a generator of features: of rows of numbers, some of them one-hot.

Equal features are first jittered over all values that mean the same, so that the likelihood which chooses the width of
kernels has no points of infinite density. One-hot blocks get an offset for each value, which gives every value the
share that it has among the stored rows: the largest of a few normal variables is rarely that of a rare value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from .._backend.arrays import Array
from ..core.memory import MemoryBank
from ..core.mixture import perplexity
from .base import Description, Generated
from .coordinates import Coordinates
from .covariance import CovarianceKernels
from .neighborhoods import Width, choose_width

MIN_ROWS = 8
"""Rows from which on the width of kernels is chosen by likelihood."""
FEW_ROWS_WIDTH = Width(0.5, 1.0, 0)
"""The width for fewer: halfway between the stored rows and one Gaussian."""
MAX_SCORED = 1000
"""Rows by which a width is chosen; of more rows, a random part."""
MAX_LOCAL_ENTRIES = 2**22
"""Numbers in covariances of neighbourhoods, beyond which all rows share one."""
MAX_FEATURES = 200
"""Features beyond which kernels live in the span of the stored rows."""
JITTER, JITTER_OF_SEARCH = 0.1, 0.3
"""How far equal one-hot values are jittered, as a share of the way to the next, for kernels and for the search of their
width. With little jitter the likelihood favours copies of rows; with much, kernels lose what ties rows to their class.
"""
N_CALIBRATION, N_CALIBRATION_STEPS, MAX_SHARE_ERROR = 4096, 200, 0.002
"""Draws with which shares of one-hot values are brought to the stored ones, in how many steps at most, how closely."""
MIN_EXPLAINING = 3
"""Stored rows that explain a condition, below which a note says how few they are."""
MAX_UNLIKELY = 2.0
"""Nats by which a condition may be less likely than that of the most unusual stored row before a note says so."""


@dataclass(frozen=True)
class FeatureLayout:
    """Blocks of features (n, p) that are one-hot, and a function (features, rng, amount) -> features that mean the
    same, no two of them equal; `amount` is how far one-hot values move, as a share of the way to the next.
    """

    one_hot: tuple[slice, ...]
    jitter: Callable[[Array, np.random.Generator, float], Array]


@dataclass(frozen=True, eq=False)
class CovarianceGenerator:
    """Covariance kernels around the rows of features that count, in centred coordinates.

    sources:  (K,) what draws name as their source
    offsets:  (p,) added to drawn features
    searched: whether the width was chosen by a rule
    """

    space: Coordinates
    kernels: CovarianceKernels
    sources: Array
    offsets: Array
    searched: bool
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        features: Array,
        weights: Array,
        layout: FeatureLayout,
        *,
        width: Width | None = None,
        sources: Array | None = None,
    ) -> CovarianceGenerator:
        """Kernels around features (K, p) that count `weights` (K,) times, all positive; width None chooses it."""
        space = Coordinates.fit(
            layout.jitter(features, _rng(), JITTER),
            variance=None if features.shape[1] <= MAX_FEATURES else 1.0,
            norm="whole",
        )
        used = width or _search(space.rows(layout.jitter(features, _rng(), JITTER_OF_SEARCH)))
        kernels = CovarianceKernels.fit(MemoryBank(space.stored, np.log(weights)), width=used)
        drawn = space.features(kernels.sample(N_CALIBRATION, _rng())[0])
        offsets = np.zeros(features.shape[1])
        for block in layout.one_hot:
            counts = np.bincount(np.argmax(features[:, block], axis=1), weights, block.stop - block.start)
            offsets[block] = share_offsets(drawn[:, block], counts / counts.sum())
        sources = np.arange(len(features)) if sources is None else sources
        return cls(space, kernels, sources, offsets, width is None)

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new rows of features (n, p), and the stored row that each was drawn around."""
        z, k = self.kernels.sample(n, rng)
        return Generated(self.space.features(z) + self.offsets, self.sources[k])

    def condition(self, observation: tuple[Array, Array]) -> CovarianceGenerator:
        """The generator given that the features at positions (r,) equal values (r,), whole one-hot blocks at a time."""
        positions, values = observation
        try:
            kernels = self.kernels.condition(*self.space.observation(positions, values))
        except np.linalg.LinAlgError as error:
            raise ValueError(f"the condition cannot be met ({error}): condition on fewer values.") from None
        offsets = self.offsets.copy()
        offsets[positions] = 0.0
        notes = () if kernels.observed is None else tuple(self._notes_on(kernels, *kernels.observed))
        return replace(self, kernels=kernels, offsets=offsets, notes=notes)

    def _notes_on(self, given: CovarianceKernels, rows: Array, values: Array) -> Iterator[str]:
        """Notes where a condition is far less likely than the values of any stored row, or explained by few rows."""
        likely = self.kernels.log_density_of(rows, values[None])[0]
        if likely < self.kernels.log_density_of(rows, self.space.stored @ rows.T).min() - MAX_UNLIKELY:
            yield "the conditioned values, alone or together, are unlike anything stored: draws extrapolate"
        n_explaining = perplexity(given.log_weights)
        if n_explaining < MIN_EXPLAINING and len(given.log_weights) >= 2 * MIN_EXPLAINING:
            yield f"{n_explaining:.1f} stored rows explain the condition: draws stay close to them"

    def log_density(self, values: Array) -> Array:
        """log density of rows of features, normalised; (n, p) -> (n,). Without a condition."""
        return self.kernels.log_density(self.space.rows(values))

    def describe(self) -> Description:
        """The width of the kernels and how it was chosen."""
        n_rows, width = len(self.sources), self.kernels.width
        few = f"set for fewer than {MIN_ROWS} rows"
        how = "as given" if not self.searched else few if n_rows < MIN_ROWS else "by the likelihood of left-out rows"
        summary = f"covariance kernels: {width} ({how})"
        return Description("covariance", summary, self.notes, resolved={"width": tuple(width)})


def share_offsets(features: Array, shares: Array) -> Array:
    """b (L,) such that value j is the largest of features + b (n, L) in the share_j (L,) of rows; -inf for none."""
    offsets = np.where(shares > 0, 0.0, -np.inf)
    present = shares > 0
    step, n = float(features.std()) / 2, len(features)
    best, smallest = offsets, np.inf
    for _ in range(N_CALIBRATION_STEPS):
        found = np.bincount(np.argmax(features + offsets, axis=1), minlength=len(shares)) / n
        error = float(np.abs(found - shares).max())
        if error < smallest:
            best, smallest = offsets.copy(), error
        elif error > smallest:
            step *= 0.9  # it oscillates
        if error < MAX_SHARE_ERROR:
            break
        offsets[present] += step * np.log((shares[present] + 1 / n) / (found[present] + 1 / n))
    return best


def _rng() -> np.random.Generator:
    """Fitting is deterministic: it always uses the same stream."""
    return np.random.default_rng(0)


def _search(rows: Array) -> Width:
    """The width of kernels around rows (K, d), by the likelihood of left-out rows where there are enough."""
    K, d = rows.shape
    if K < MIN_ROWS:
        return FEW_ROWS_WIDTH
    shape = "local" if K * d**2 <= MAX_LOCAL_ENTRIES else "pooled"
    scored = rows if K <= MAX_SCORED else rows[np.sort(_rng().permutation(K)[:MAX_SCORED])]
    width = choose_width(scored, shape=shape)
    return width._replace(neighbours=round(width.neighbours * K / len(scored)))
