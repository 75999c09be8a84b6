"""Between an item's features and the rows of a bank: centre, principal components, scaling, unit norm; and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._backend.arrays import Array
from .._backend.checks import one_of

NORMS = ("restored", "paper", "whole")
_ARRAYS = ("mean", "inward", "outward", "stored", "norms")


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A linear map from features (n, p) to coordinates (n, d), fitted on the stored items, and their lengths.

    mean:        (p,)
    inward:      (p, d) from centred features to coordinates, or None where these are the same
    outward:     (d, p) the way back, or None
    stored:      (K, d) the stored items as rows of a bank
    norms:       (K,) lengths of the stored coordinates
    norm:        "restored": rows have unit norm, and decoding puts the length of the memory back;
                 "paper": rows have unit norm, and decoding leaves them so, as the published pipeline does;
                 "whole": rows keep their own lengths
    variance:    share of the features' variance that the coordinates keep
    """

    mean: Array
    inward: Array | None
    outward: Array | None
    stored: Array
    norms: Array
    norm: str
    variance: float

    @classmethod
    def fit(
        cls,
        features: Any,
        *,
        centre: bool = True,
        variance: float | None = 1.0,
        whiten: bool = False,
        norm: str = "restored",
    ) -> Coordinates:
        """Coordinates for these features (K, p).

        variance: share to keep in principal components; 1.0 keeps all of it; None makes no components
        whiten:   scale components by a shrunk covariance (Ledoit-Wolf), so that round noise among rows follows the
                  data's own directions among features
        """
        features = np.asarray(features, dtype=np.float64)
        one_of("norm", norm, NORMS)
        components = variance is not None or whiten
        if components and not centre:
            raise ValueError("centre must be True for principal components, which are directions around the mean.")
        mean = features.mean(0) if centre else np.zeros(features.shape[1])
        centred = features - mean
        inward, outward, kept = None, None, 1.0
        if components:
            inward, outward, kept = _components(centred, 1.0 if variance is None else variance, whiten)
            centred = centred @ inward
        norms = np.linalg.norm(centred, axis=1)
        if norm != "whole":
            zero = np.flatnonzero(norms <= 1e-9 * norms.max(initial=0.0))
            if len(zero):
                where = "equals the mean of all" if centre else "is all zeros"
                raise ValueError(
                    f"item {zero[0] + 1} {where}, and has no direction that unit norm could keep. "
                    "Remove it, or choose the norm 'whole'."
                )
            centred = centred / norms[:, None]
        return cls(mean, inward, outward, centred, norms, norm, kept)

    def arrays(self) -> dict[str, Array]:
        """What `from_arrays` makes it from again."""
        parts = {name: getattr(self, name) for name in _ARRAYS if getattr(self, name) is not None}
        return {f"coordinates_{name}": part for name, part in parts.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], norm: str, variance: float) -> Coordinates:
        """The coordinates whose `arrays` these are."""
        parts = {name: arrays.get(f"coordinates_{name}") for name in _ARRAYS}
        return cls(**parts, norm=norm, variance=variance)

    @property
    def d(self) -> int:
        """Dimension of a row."""
        return int(self.stored.shape[1])

    def rows(self, features: Any) -> Array:
        """Features (n, p) as rows (n, d), of unit norm unless norm is "whole"."""
        z = np.asarray(features, dtype=np.float64) - self.mean
        z = z if self.inward is None else z @ self.inward
        if self.norm == "whole":
            return z
        lengths = np.linalg.norm(z, axis=1, keepdims=True)
        return z / np.where(lengths > 0, lengths, 1.0)

    def factors(self, beta: float | None = None) -> Array:
        """What turns a row drawn around memory k into coordinates: its length, less what noise added to it: (K, 1).

        A draw at beta has the mean squared length 1 + d/beta, and decoding means it to have its memory's.
        """
        if self.norm != "restored":
            return np.ones((len(self.stored), 1))
        stretch = 1.0 if beta is None else math.sqrt(1 + self.d / beta)
        return self.norms[:, None] / stretch

    def features(self, coordinates: Any) -> Array:
        """Coordinates (n, d) as features (n, p)."""
        return self.mean + (coordinates if self.outward is None else coordinates @ self.outward)

    def observation(self, columns: Any, values: Any) -> tuple[Array, Array]:
        """That the features `columns` equal `values`, as linear equations A z = y of coordinates: (r, d), (r,)."""
        columns = np.asarray(columns, dtype=np.intp)
        y = np.asarray(values, dtype=np.float64) - self.mean[columns]
        if self.outward is not None:
            return self.outward[:, columns].T, y
        A = np.zeros((len(columns), self.d))
        A[np.arange(len(columns)), columns] = 1
        return A, y


def _components(centred: Array, share: float, whiten: bool) -> tuple[Array, Array, float]:
    """Principal components to a share of the variance, scaled if asked: inward (p, d), outward (d, p), share kept."""
    if not 0 < share <= 1:
        raise ValueError(f"variance must lie above 0 and not above 1; got {share:g}. 0.95 keeps 95 % of it.")
    if not np.ptp(centred, axis=0).any():
        raise ValueError("the stored items are all alike: there is nothing to vary. Store different ones.")
    from sklearn.covariance import ledoit_wolf_shrinkage
    from sklearn.decomposition import PCA

    pca = PCA(svd_solver="full").fit(centred)
    power = pca.singular_values_**2
    solid = int((pca.singular_values_ > pca.singular_values_[0] * max(centred.shape) * np.finfo(float).eps).sum())
    kept = np.cumsum(power) / power.sum()
    d = solid if share == 1 else min(int(np.searchsorted(kept, share)) + 1, solid)
    basis, scale = pca.components_[:d], np.ones(d)
    if whiten:
        shrinkage = float(ledoit_wolf_shrinkage(centred @ basis.T, assume_centered=True))
        variances = power[:d] / len(centred)
        scale = np.sqrt((1 - shrinkage) * variances + shrinkage * variances.mean())
    return basis.T / scale, basis * scale[:, None], float(kept[d - 1])
