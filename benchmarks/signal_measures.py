"""Measures of new signals, between the stored signals that they were made from and held-out ones.

Train proximity, copies and C2* are those of `stochattn.evaluation.held_out_metrics`. Spectra and autocorrelation are
distances to the held-out signals, over those of the stored ones. Gains are the accuracy on held-out signals of
classifiers trained with new signals beside the stored ones, less the accuracy without new ones, in points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stochattn._backend.arrays import Array
from stochattn.evaluation import held_out_metrics
from stochattn.kinds.signals.writing import autocorrelation_distance, spectral_distance

from . import dtw
from .signal_data import Split

BAND_SHARE = 0.1
"""Widest warp of the nearest-neighbor classifier, over the length of a signal (Sakoe and Chiba 1978)."""
N_KERNELS, TAPS = 600, 9


class Quality(NamedTuple):
    """Measures of new signals between stored and held-out ones."""

    train_proximity: float
    copies: float
    c2: float
    spectra: float
    autocorrelation: float


class Gains(NamedTuple):
    """What classifiers gain from new signals beside few stored ones, in points."""

    dtw_gain: float
    rocket_gain: float


def quality(new: Array, split: Split) -> Quality:
    """The measures of new signals (n, C, T)."""
    stored, held_out = split.stored, split.held_out
    found = held_out_metrics(*(scaled(x, stored).reshape(len(x), -1) for x in (new, stored, held_out)))
    c2 = 0.5 + (abs(found.nn_accuracy_real - 0.5) + abs(found.nn_accuracy_new - 0.5)) / 2
    ratios = [
        distance(new, held_out) / distance(stored, held_out)
        for distance in (spectral_distance, autocorrelation_distance)
    ]
    return Quality(found.train_proximity, found.near_copies, c2, *ratios)


def scaled(signals: Array, stored: Array) -> Array:
    """Signals (n, C, T) with channels in units of the standard deviation of the stored ones."""
    scale = stored.std((0, 2), keepdims=True)
    return np.asarray(signals / np.where(scale > 0, scale, 1.0))


class RandomKernels:
    """Features of signals by random convolutions (Dempster, Petitjean and Webb 2020).

    Each kernel has nine weights for some of the channels, a dilation and a threshold, a quantile of its output on one
    signal. Its features are the share of points above the threshold, and the largest value.
    """

    def __init__(self, signals: Array, rng: np.random.Generator) -> None:
        _, C, T = signals.shape
        largest = max((T - 1) / (TAPS - 1), 1.0)
        drawn = np.floor(2 ** rng.uniform(0, np.log2(largest) + 1e-9, N_KERNELS)).astype(int)
        self.groups = []
        for dilation in np.unique(drawn):
            n = int((drawn == dilation).sum())
            weights = rng.standard_normal((n, C, TAPS))
            weights -= weights.mean(2, keepdims=True)
            used = rng.random((n, C)) < 2 / max(C, 2)
            used[np.arange(n), rng.integers(C, size=n)] = True
            weights = (weights * used[:, :, None]).reshape(n, -1)
            seen = self._convolved(signals[rng.integers(len(signals), size=1)], weights, int(dilation))[0]
            thresholds = np.quantile(seen, rng.random(n), axis=0).diagonal()
            self.groups.append((int(dilation), weights, thresholds))

    @staticmethod
    def _convolved(signals: Array, weights: Array, dilation: int) -> Array:
        """Outputs of kernels (m, C·TAPS) at every point of signals (n, C, T), ends continued: (n, T, m)."""
        n, C, T = signals.shape
        places = np.clip(np.arange(T)[:, None] + dilation * (np.arange(TAPS) - TAPS // 2), 0, T - 1)
        return np.asarray(signals[:, :, places].transpose(0, 2, 1, 3).reshape(n, T, C * TAPS) @ weights.T)

    def features(self, signals: Array) -> Array:
        """(n, 2 · N_KERNELS) of signals (n, C, T)."""
        found = []
        for dilation, weights, thresholds in self.groups:
            parts = [self._convolved(signals[i : i + 16], weights, dilation) for i in range(0, len(signals), 16)]
            found.append(np.concatenate([(part > thresholds).mean(1) for part in parts]))
            found.append(np.concatenate([part.max(1) for part in parts]))
        return np.concatenate(found, axis=1)


@dataclass(frozen=True, eq=False)
class Classifiers:
    """Classifiers of held-out signals, trained on the stored signals of a split and on new ones."""

    split: Split
    seed: int

    @cached_property
    def _band(self) -> int:
        return max(round(BAND_SHARE * self.split.stored.shape[2]), 1)

    @cached_property
    def _nearest(self) -> tuple[Array, Array]:
        """Distances of held-out signals to the nearest stored one, and its class."""
        far = np.full(len(self.split.held_out), np.inf)
        found, which = dtw.nearest(self._scaled(self.split.held_out), self._scaled(self.split.stored), self._band, far)
        return found, self.split.classes[which]

    @cached_property
    def _features(self) -> tuple[RandomKernels, Array, Array]:
        kernels = RandomKernels(self.split.stored, np.random.default_rng(self.seed))
        return kernels, kernels.features(self.split.stored), kernels.features(self.split.held_out)

    @cached_property
    def base(self) -> tuple[float, float]:
        """Accuracies without new signals, of nearest neighbors and of random kernels, in percent."""
        none = self.split.stored[:0], self.split.classes[:0]
        return self.nearest_accuracy(*none), self.kernel_accuracy(*none)

    def _scaled(self, signals: Array) -> Array:
        return scaled(signals, self.split.stored).astype(np.float32)

    def nearest_accuracy(self, new: Array, classes: Array) -> float:
        """Accuracy of the nearest neighbor under dynamic time warping among stored and new signals, in percent."""
        distances, found = self._nearest
        if len(new):
            _, which = dtw.nearest(self._scaled(self.split.held_out), self._scaled(new), self._band, distances)
            found = np.where(which >= 0, classes[which], found)
        return 100 * float((found == self.split.truth).mean())

    def kernel_accuracy(self, new: Array, classes: Array) -> float:
        """Accuracy of a ridge classifier on random kernels, trained on stored and new signals, in percent."""
        kernels, stored, held_out = self._features
        more = kernels.features(new) if len(new) else stored[:0]
        rows, labels = np.concatenate([stored, more]), np.concatenate([self.split.classes, classes])
        model = make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=np.logspace(-3, 4, 8)))
        return 100 * float(model.fit(rows, labels).score(held_out, self.split.truth))

    def gains(self, new: Array, classes: Array) -> Gains:
        """What classifiers gain from new signals (n, C, T) of classes (n,)."""
        without = self.base
        return Gains(self.nearest_accuracy(new, classes) - without[0], self.kernel_accuracy(new, classes) - without[1])
