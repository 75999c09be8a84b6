"""Coordinates: features of items as rows of a bank (centred, principal components, unit norm), and back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._backend.arrays import ArrayLike, NumpyArray
from .._backend.checks import one_of

NORMS = ("restored", "paper", "whole")


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A linear map from features (n, p) to coordinates (n, d), fitted on the stored items, and their norms.

    norm: "restored": rows have unit norm, and decoding restores the norm of the memory; "paper": rows have unit norm,
          which decoding does not change, as in the published pipeline; "whole": rows keep their own norms

    >>> import numpy as np
    >>> from stochattn.generators import Coordinates
    >>> Coordinates.fit(np.random.default_rng(0).normal(size=(10, 4))).stored.shape
    (10, 4)
    """

    mean: NumpyArray  # (p,)
    inward: NumpyArray | None  # (p, d) from centred features to coordinates, or None for the identity
    outward: NumpyArray | None  # (d, p) from coordinates to centred features, or None for the identity
    stored: NumpyArray  # (K, d) the stored items as rows of a bank
    norms: NumpyArray  # (K,) of the stored coordinates
    norm: str
    variance: float  # share of the features' variance that the coordinates keep

    @classmethod
    def fit(
        cls,
        features: ArrayLike,
        *,
        centre: bool = True,
        variance: float | None = 1.0,
        whiten: bool = False,
        norm: str = "restored",
    ) -> Coordinates:
        """Coordinates fitted on these features (K, p).

        variance: share of the variance that principal components keep; None for no components
        whiten:   scale components by a shrunk covariance (Ledoit-Wolf), so that isotropic noise in rows has the
                  covariance of the data in features
        """
        values = np.asarray(features, dtype=np.float64)
        one_of("norm", norm, NORMS)
        mean = values.mean(0) if centre else np.zeros(values.shape[1])
        z, inward, outward, kept = values - mean, None, None, 1.0
        if variance is not None or whiten:
            if not centre:
                raise ValueError("centre must be True for principal components, which are directions around the mean.")
            inward, outward, kept = _components(z, 1.0 if variance is None else variance, whiten)
            z = z @ inward
        norms = np.linalg.norm(z, axis=1)
        if norm != "whole":
            zero = np.flatnonzero(norms <= 1e-9 * norms.max())
            if len(zero):
                reason = f"{'equals the mean of all' if centre else 'is all zeros'}, so it has no direction to scale"
                raise ValueError(f"item {zero[0] + 1} {reason} to unit norm. Remove it, or choose the norm 'whole'.")
            z = z / norms[:, None]
        return cls(mean, inward, outward, z, norms, norm, kept)

    @property
    def d(self) -> int:
        """Dimension of a row."""
        return int(self.stored.shape[1])

    def rows(self, features: ArrayLike) -> NumpyArray:
        """Features (n, p) as rows (n, d), of unit norm unless norm is "whole"."""
        z = np.asarray(features, dtype=np.float64) - self.mean
        z = z if self.inward is None else z @ self.inward
        if self.norm == "whole":
            return z
        lengths = np.linalg.norm(z, axis=1, keepdims=True)
        return z / np.where(lengths > 0, lengths, 1.0)

    def factors(self, beta: float = math.inf) -> NumpyArray:
        """Factors that turn a row drawn around memory k into coordinates: (K, 1).

        A draw at beta has the mean squared norm 1 + d/beta; times its factor, it has that of its memory.
        """
        if self.norm != "restored":
            return np.ones((len(self.stored), 1))
        return self.norms[:, None] / math.sqrt(1 + self.d / beta)

    def features(self, coordinates: NumpyArray) -> NumpyArray:
        """Coordinates (n, d) as features (n, p)."""
        return self.mean + (coordinates if self.outward is None else coordinates @ self.outward)

    def observation(self, columns: ArrayLike, values: ArrayLike) -> tuple[NumpyArray, NumpyArray]:
        """Linear equations A z = y of coordinates, under which the features `columns` equal `values`: (r, d), (r,)."""
        indices = np.asarray(columns, dtype=np.intp)
        outward = np.eye(self.d) if self.outward is None else self.outward
        return outward[:, indices].T, np.asarray(values, dtype=np.float64) - self.mean[indices]


def _components(centred: NumpyArray, share: float, whiten: bool) -> tuple[NumpyArray, NumpyArray, float]:
    """Principal components that keep a share of the variance: inward (p, d), outward (d, p), and the share kept."""
    if not 0 < share <= 1:
        raise ValueError(f"variance must be above 0 and at most 1; got {share:g}. 0.95 keeps 95 % of it.")
    if not np.ptp(centred, axis=0).any():
        raise ValueError("the stored items are identical, so there is no variance to keep. Store different items.")
    from scipy.linalg import svd  # scikit-learn's PCA does the same, and takes a second to import

    _, singular, directions = svd(centred - centred.mean(0), full_matrices=False)  # rounding leaves a mean
    largest = np.argmax(np.abs(directions), axis=1)
    directions *= np.sign(directions[np.arange(len(directions)), largest])[:, None]
    power = singular**2
    margin = max(centred.shape) * np.finfo(float).eps  # equivalent: between rounding and real directions
    solid = int((singular > singular[0] * margin).sum())  # equivalent: as above
    kept = np.cumsum(power) / power.sum()
    d = solid if share == 1 else min(int(np.searchsorted(kept, share)) + 1, solid)
    basis, scale = directions[:d], np.ones(d)
    if whiten:
        from sklearn.covariance import ledoit_wolf_shrinkage

        shrinkage = float(ledoit_wolf_shrinkage(centred @ basis.T, assume_centered=True))
        variances = power[:d] / len(centred)
        scale = np.sqrt((1 - shrinkage) * variances + shrinkage * variances.mean())
    return basis.T / scale, basis * scale[:, None], float(kept[d - 1])
