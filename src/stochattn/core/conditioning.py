"""Conditioning maps a bank to a bank: every sampler and every density then follows the conditional distribution.

The target stays a mixture of the same Gaussians; a subset, weights and conditioned coordinates change log r_k only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .._backend.arrays import Array, ArrayLike, as_floats, empty, like, to_numpy
from .._backend.checks import check_indices, check_positive
from ..storage.mapped import as_mapped_rows, is_mapped
from .energy import inner_products
from .memory import MemoryBank, require_bank

__all__ = ["ConditionedCoordinates", "condition", "equalize", "fill", "subset", "weight"]


def subset(bank: MemoryBank, selection: ArrayLike) -> MemoryBank:
    """The bank with r_k = 0 outside a selection, (K,) booleans or indices (Eq. 13); memories keep their indices.

    >>> subset(MemoryBank([[1.0], [2.0], [3.0]]), [0, 2]).kept
    array([0, 2])
    """
    mask = selection_mask(selection, require_bank(bank).K, "memories")
    return bank.with_log_r(np.where(mask, to_numpy(bank.log_r), -np.inf), bank.beta, "selection")


def weight(bank: MemoryBank, r: ArrayLike, selection: ArrayLike | None = None) -> MemoryBank:
    """The bank with its multiplicities times r: one r for each memory, or one ratio ρ for a selection (soft bias).

    r: (K,) non-negative numbers, or a single ρ > 0 if a selection (booleans or indices) is given

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.energy.weights([0.5, 0.5], sa.conditioning.weight(bank, [3.0, 1.0]), beta=1.0).round(6)
    array([0.75, 0.25])
    """
    require_bank(bank)
    if selection is None:
        ratios = to_numpy(as_floats(r, "r")).astype(np.float64)
        if ratios.shape != (bank.K,):
            rule = f"r must have one entry for each of the K={bank.K} memories; got shape {ratios.shape}"
            raise ValueError(f"{rule}. To weight some memories alike, pass weight(bank, ratio, selection=indices).")
    else:
        ratio = check_positive("r", r, "It multiplies the weight of the selection.")
        ratios = np.where(selection_mask(selection, bank.K, "memories"), ratio, 1.0)
    if (ratios < 0).any():
        raise ValueError(f"r must not be negative; got {ratios.min():g}. Use 0 to leave a memory out.")
    with np.errstate(divide="ignore"):
        return bank.with_log_r(to_numpy(bank.log_r) + np.log(ratios), bank.beta, "r")


def equalize(bank: MemoryBank, beta: float) -> MemoryBank:
    """The bank whose mixture at this beta weights memory k by r_k alone, whatever its norm.

    Without its factor exp(beta ‖m_k‖²/2), by which the longest memory soon takes everything, p_beta is the kernel
    density estimate of bandwidth beta^(−1/2). The result holds at that beta only.

    >>> import stochattn as sa
    >>> bank = sa.conditioning.equalize(sa.MemoryBank([[1.0], [2.0]]), beta=10.0)
    >>> sa.energy.mixture_log_weights(bank, 10.0).round(6)
    array([-0.693147, -0.693147])
    """
    if require_bank(bank).beta is not None:
        raise ValueError("bank must not be conditioned or equalized already: equalize first, then condition.")
    factor = bank.check_beta(beta) / 2 * (bank.norms_squared - bank.M**2)
    return bank.with_log_r(bank.log_r - factor, float(beta))


@dataclass(frozen=True, eq=False)
class ConditionedCoordinates:
    """Values of some of d coordinates.

    >>> import stochattn as sa
    >>> conditioned = sa.conditioning.ConditionedCoordinates.of({0: 0.5, -1: 2.0}, d=4)
    >>> conditioned.free, conditioned.values
    (array([1, 2]), array([0.5, 2. ]))
    """

    indices: Array  # (n,) integers, rising
    values: Array  # (n,) float64
    d: int

    @classmethod
    def of(cls, values: Mapping[int, float], d: int) -> ConditionedCoordinates:
        """From a mapping of indices to values; negative indices count from the end."""
        if not isinstance(values, Mapping):
            raise TypeError(f"values must map coordinates to their values, such as {{0: 0.5}}; got {values!r}.")
        keys = np.array(list(values), dtype=None if values else np.intp)
        outside = [key for key in keys.tolist() if not -d <= key < d] if keys.dtype.kind in "iu" else []
        if outside:
            rule = f"values must name coordinates from 0 to {d - 1}, of which there are {d}; coordinate {outside[0]}"
            raise ValueError(f"{rule} does not exist. Pass {{coordinate: value}}, such as {{{d - 1}: 0.5}}.")
        indices = check_indices(keys, d, "the coordinates in values", "coordinates")
        if len(np.unique(indices)) < len(indices):
            raise ValueError(f"values must name each coordinate once; got {list(values)}.")
        numbers = to_numpy(as_floats(np.array(list(values.values()), dtype=np.float64), "values"))
        order = np.argsort(indices)
        return cls(indices[order], numbers[order], d)

    @property
    def free(self) -> Array:
        """Indices of the coordinates that are not conditioned: (d − n,)."""
        return np.delete(np.arange(self.d), self.indices)

    def take_free(self, xi: ArrayLike) -> Array:
        """The free coordinates of full rows: (..., d) -> (..., d − n)."""
        x = as_floats(xi, "xi")
        if x.ndim == 0 or x.shape[-1] != self.d:
            raise ValueError(f"xi must have d={self.d} columns, the conditioned ones included; got {tuple(x.shape)}.")
        return x[..., like(self.free, x, keep_dtype=True)]

    def fill(self, x: Array, values: float | None = None) -> Array:
        """Full rows of the free coordinates and the conditioned values, or one value for all of these: (..., d)."""
        full = empty((*x.shape[:-1], self.d), x)
        full[..., like(self.indices, x, keep_dtype=True)] = like(self.values, x) if values is None else values
        full[..., like(self.free, x, keep_dtype=True)] = x
        return full

    def add(self, values: Mapping[int, float]) -> tuple[ConditionedCoordinates, dict[int, float]]:
        """These values with further ones, and the further ones by their index among the free coordinates."""
        new = ConditionedCoordinates.of(values, self.d)
        repeated = np.intersect1d(new.indices, self.indices)
        if len(repeated):
            raise ValueError(f"values must name free coordinates; coordinate {repeated[0]} is conditioned already.")
        among_free = np.searchsorted(self.free, new.indices).tolist()
        union = {int(i): float(v) for part in (self, new) for i, v in zip(part.indices, part.values, strict=True)}
        return ConditionedCoordinates.of(union, self.d), dict(zip(among_free, new.values.tolist(), strict=True))


def condition(bank: MemoryBank, values: Mapping[int, float], beta: float) -> MemoryBank:
    """The bank over the free coordinates, given the values of the conditioned ones: p_beta(x_free | x_conditioned).

    Conditioning multiplies r_k by exp(beta m_k,conditioned · values), so the result holds at that beta only.
    values: maps coordinates to their values, such as {0: 0.1, 5: -0.2}; `fill` puts samples and values together

    >>> condition(MemoryBank([[1.0, 0.0], [0.0, 1.0]]), {0: 0.5}, beta=2.0)
    MemoryBank(K=2 memories, d=1, norms 0 to 1, weighted, float64)
    """
    conditioned = ConditionedCoordinates.of(values, require_bank(bank).d)
    if len(conditioned.indices) == bank.d:
        raise ValueError(f"values must leave at least one of the d={bank.d} coordinates free; they leave none.")
    on, off = (like(indices, bank.patterns, keep_dtype=True) for indices in (conditioned.indices, conditioned.free))
    numbers = like(conditioned.values, bank.patterns)
    columns, free = (
        as_mapped_rows(bank.patterns).select_columns(indices) if is_mapped(bank.patterns) else bank.patterns[:, indices]
        for indices in (on, off)
    )
    log_r = bank.log_r + bank.check_beta(beta) * inner_products(numbers, columns)
    # A common factor does not change the mixture; without it log r stays small.
    top = log_r[like(bank.kept, bank.patterns, keep_dtype=True)].max()
    return MemoryBank(free, log_r - top, bank.values, float(beta))


def fill(samples: ArrayLike, values: Mapping[int, float]) -> Array:
    """Full rows (..., d) from samples of the free coordinates (..., d_free) and the conditioned values.

    >>> import stochattn as sa
    >>> sa.conditioning.fill([[0.1, 0.2]], {0: 9.0})
    array([[9. , 0.1, 0.2]])
    """
    samples = as_floats(samples, "samples")
    if samples.ndim == 0:
        raise ValueError("samples must hold free coordinates along its last axis, (..., d_free); got a single number.")
    return ConditionedCoordinates.of(values, samples.shape[-1] + len(values)).fill(samples)


def selection_mask(selection: ArrayLike, n: int, of: str) -> Array:
    """A selection among n items, by n booleans or by indices, as booleans: (n,)."""
    array = to_numpy(selection)
    if array.dtype == np.bool_ and array.shape != (n,):
        raise ValueError(f"selection must have {n} booleans, one each; got shape {array.shape}.")
    takes = "booleans, or integers"
    indices = np.flatnonzero(array) if array.dtype == np.bool_ else check_indices(array, n, "selection", of, takes)
    if not len(indices):
        raise ValueError(f"selection selects none of the {n} {of}. Select some.")
    return np.isin(np.arange(n), indices)
