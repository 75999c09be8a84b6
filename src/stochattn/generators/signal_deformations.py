"""The generator "deformations": stored signals, moved in time and in value, and windows of noise under conditions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from .._backend.arrays import Array
from .base import Description, Generated
from .stratified import stratified
from .time_deformations import Component, LocalLaws
from .time_window_fit import fit_time_windows
from .time_windows import TimeWindowGenerator, WindowSetting

SCALE = 0.9
"""s of `time_deformations`. At 1, a new signal would have its place from the local law alone; 0 recalls."""
MAX_WARPS, MAX_COMPONENTS = 12, 2000
"""Warps of a signal, at most, and components of the law, unless signals are more."""


@dataclass(frozen=True, eq=False)
class SignalDeformations:
    """New signals (n, T, C) by the local laws of those that count."""

    signals: Array  # (K, T, C) stored signals of positive weight, in units
    shares: Array  # (K,) of new signals that are drawn around each
    classes: Array  # (K,)
    sources: Array  # (K,) what draws name as their source
    unit: float = 1.0  # a power of two, so that squares of tiny and huge values are floats, and values stay exact
    scale: float = SCALE
    neighbors: int | None = None  # None for a third of the class, within limits
    known: LocalLaws | None = None  # those of the same signals, perhaps at another scale
    adjustable: ClassVar[frozenset[str]] = frozenset({"scale"})

    @classmethod
    def fit(
        cls, signals: Array, weights: Array, classes: Array, scale: float | None = None, neighbors: int | None = None
    ) -> SignalDeformations:
        """The generator of signals (K, T, C) of classes (K,) that count `weights` (K,) times."""
        kept = np.flatnonzero(weights > 0)
        shares = weights[kept] / weights[kept].sum()
        own = signals[kept].astype(np.float64)
        unit = 2.0 ** min(math.frexp(float(np.abs(own).max()))[1], 1023) if own.any() else 1.0
        return cls(own / unit, shares, classes[kept], kept, unit, SCALE if scale is None else scale, neighbors)

    def adjusted(self, weights: Array, *, scale: float | None = None) -> SignalDeformations | None:
        """The same local laws at another scale and with other weights (K,); None where other signals count."""
        if not np.array_equal(np.flatnonzero(weights > 0), self.sources):
            return None
        own = np.asarray(weights)[self.sources]
        known = vars(self).get("laws", self.known)  # laws that are not needed yet are not found here
        return replace(self, shares=own / own.sum(), scale=SCALE if scale is None else scale, known=known)

    @cached_property
    def laws(self) -> LocalLaws:
        """The local laws of the signals."""
        if self.known is not None:
            return self.known.with_scale(self.scale)
        return LocalLaws(self.signals, self.classes, self.scale, self.neighbors)

    @cached_property
    def warps(self) -> Array:
        """Weights h of the warps of each signal, the same in every fit: (K, L, k + 1)."""
        K = len(self.signals)
        k = self.laws.n_neighbors(K - 1)
        return np.random.default_rng(0).standard_normal((K, int(np.clip(MAX_COMPONENTS // K, 1, MAX_WARPS)), k + 1))

    @cached_property
    def lags(self) -> Array:
        """Where in a signal each of its warps begins, 0 in classes that are aligned, the same in every fit: (K, L)."""
        half = self.signals.shape[1] // 2
        anywhere = np.random.default_rng(1).integers(-half, half + 1, self.warps.shape[:2])
        return np.where(np.isin(self.classes, list(self.laws.shifted))[:, None], anywhere, 0)

    def component(self, i: int, j: int) -> Component:
        """The law around signal i at its warp j."""
        return self.laws.component(i, self.warps[i, j], int(self.lags[i, j]))

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n new signals (n, T, C), and the stored one that each was drawn around. The first m are the m draws."""
        which, choices, noise = rng.spawn(3)
        i, j = stratified(np.log(self.shares), n, which), choices.integers(self.warps.shape[1], size=n)
        values = np.stack([self.component(*place).draw(noise) for place in zip(i.tolist(), j.tolist(), strict=True)])
        return Generated(self.unit * values.reshape(n, *self.signals.shape[1:]), self.sources[i])

    def log_density(self, arrays: Array) -> Array:
        """log density of signals (n, T, C), that of a mixture of K · L normal laws; (n,)."""
        values = np.asarray(arrays, dtype=np.float64).reshape(len(arrays), -1) / self.unit
        found, L = np.full(len(values), -np.inf), self.warps.shape[1]
        for i, share in enumerate(self.shares):
            for j in range(L):
                found = np.logaddexp(found, np.log(share / L) + self.component(i, j).log_density(values))
        return found - values.shape[1] * math.log(self.unit)

    def condition(self, observation: tuple[Array, Array]) -> TimeWindowGenerator:
        """The generator `windows`, given that features at positions t·C + c (r,) have these values (r,)."""
        asked = dict.fromkeys(WindowSetting._fields)
        fitted = fit_time_windows(self.unit * self.signals, self.shares, self.classes, asked)
        parts = {name: getattr(fitted, name) for name in fitted.__dataclass_fields__}
        return ConditionedSignals(**parts | {"sources": self.sources}).condition(observation)

    def describe(self) -> Description:
        """The scale and the number of neighbours."""
        sizes = np.unique(self.classes, return_counts=True)[1]
        found = sorted({self.laws.n_neighbors(int(n) - 1) for n in sizes})
        near = f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"
        summary = f"stored signals moved as the nearest ({near}) differ from them, scale {self.scale:.3g}"
        if self.laws.shifted:
            some = (
                "" if len(self.laws.shifted) == len(sizes) else f" in {len(self.laws.shifted)} of {len(sizes)} classes"
            )
            summary += f", and shifted in time{some}, because signals are not aligned"
        return Description("deformations", summary, resolved={"scale": self.scale})


@dataclass(frozen=True, eq=False)
class ConditionedSignals(TimeWindowGenerator):
    """The generator `windows` in place of deformations, under conditions."""

    def describe(self) -> Description:
        """That of windows; its setting is no option of deformations."""
        note = "conditioned signals are drawn by the generator 'windows', whose law given the values is exact."
        found = super().describe()
        return replace(found, notes=(*found.notes, note), resolved={})
