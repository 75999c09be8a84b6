"""MemoryBank: the stored examples, checked once; quantities derived from them are computed on demand and cached."""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeAlias

import numpy as np

from .._backend import arrays
from .._backend.arrays import Array, ArrayLike, NumpyArray, as_floats, concatenate, like, namespace, to_numpy
from .._backend.checks import check_beta, check_indices
from ..storage import mapped
from ..storage.blockwise import span_basis, span_coordinates, spans_all_dimensions, squares_of_columns
from ..storage.dask import DaskRows, is_dask
from ..storage.mapped import is_mapped

FilePath: TypeAlias = str | os.PathLike[str]
MAX_OFF_UNIT = 1e-3
"""How far a squared length may be from 1 to be that of a vector of length 1, at the precision of float16."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class MemoryBank:
    """K memories in d dimensions, one per row (the paper's X is this transposed).

    patterns: (K, d), numpy or torch, float32 or float64 (other real types are converted), or a dask.array of rows.
    log_r:    (K,) log multiplicities b_k of the paper's Eq. 13; None means zeros, -inf masks a memory out.
    values:   (K, v) what each memory stands for in another space (Algorithm 3's raw matrix M), or None.
    beta:     the only beta at which log_r is valid, for a bank that `condition` or `equalize` made, or None.

    copy:     False shares the memory of `patterns` and `values`, for large banks: whoever changes these arrays changes
              the bank, even if they are read-only now. A memory map opened for reading is never copied (see `open`).

    >>> MemoryBank([[1.0, 0.0], [0.0, 2.0], [0.6, 0.8]])
    MemoryBank(K=3 memories, d=2, norms 1 to 2, float64)
    """

    patterns: Array
    log_r: Array
    values: Array | None
    beta: float | None
    norms_squared: Array  # (K,) ‖m_k‖² of every memory
    K: int  # memories, masked ones included
    d: int  # dimensions
    source_file: str | None  # the file that the memories are read from

    def __init__(
        self,
        patterns: ArrayLike,
        log_r: ArrayLike | None = None,
        values: ArrayLike | None = None,
        beta: float | None = None,
        *,
        progress: bool | None = None,
        copy: bool = True,
    ) -> None:
        rows = DaskRows.of(patterns) if is_dask(patterns) else patterns
        memories, norms = mapped.check_patterns(rows, progress, copy)
        self._set(memories, _check_log_r(log_r, memories), _check_values(values, memories, copy), beta, norms)

    def _set(self, patterns: Array, log_r: Array, values: Array | None, beta: float | None, norms: Array) -> MemoryBank:
        vars(self).update(patterns=patterns, log_r=log_r, values=values, beta=beta, norms_squared=norms)
        (K, d), name = patterns.shape, getattr(patterns, "filename", None)
        vars(self).update(K=K, d=d, source_file=None if name is None else str(name))
        return self

    @classmethod
    def open(cls, path: FilePath, log_r: ArrayLike | None = None, *, progress: bool | None = None) -> Self:
        """The bank of a matrix in an .npy file, which may be larger than memory: it is mapped, not loaded.

        The header is checked first, and one pass computes the norms and refuses rows that are not finite. Half
        precision is computed in float32 and integers in float64. Draws read the rows that they need; energies and
        densities pass over the file block by block. progress: as in `run`.
        """
        return cls(mapped.open_matrix(path), log_r, progress=progress)

    def with_log_r(self, log_r: ArrayLike, beta: float | None, name: str = "log_r") -> MemoryBank:
        """The same memories with other multiplicities (K,), valid at `beta` alone if it is given; errors say `name`."""
        log_r = _check_log_r(log_r, self.patterns, name)
        return object.__new__(MemoryBank)._set(self.patterns, log_r, self.values, beta, self.norms_squared)

    @cached_property
    def kept(self) -> NumpyArray:
        """Indices of the memories that are not masked out: (K_kept,)."""
        return np.flatnonzero(to_numpy(self.log_r) > -math.inf)

    @cached_property
    def active(self) -> MemoryBank:
        """The bank of the kept memories only, which has the same distribution."""
        return self if len(self.kept) == self.K else self._take(self.kept)

    @cached_property
    def M(self) -> float:
        """max ‖m_k‖ over the kept memories (Eq. 3)."""
        return math.sqrt(float(self._kept_norms_squared.max()))

    @cached_property
    def _largest_square(self) -> float:
        """max ‖m_k‖² over all memories, also those that are masked out, whose logits are computed too."""
        return float(self.norms_squared.max())

    @property
    def _kept_norms_squared(self) -> Array:
        return self.norms_squared[like(self.kept, self.patterns, keep_dtype=True)]

    @cached_property
    def log_total_r(self) -> float:
        """log of the sum of the multiplicities; log K when all are one."""
        return float(np.logaddexp.reduce(to_numpy(self.log_r)[self.kept].astype(np.float64)))

    @cached_property
    def gram(self) -> Array:
        """Inner products of the memories: (K, K)."""
        if is_mapped(self.patterns) and mapped.is_large(self.patterns):
            size = f"K² numbers, {self.K**2 * 8 / 2**30:.0f} GiB. Take fewer memories: MemoryBank(bank.patterns[rows])"
            raise ValueError(f"the Gram matrix of K={self.K} memories is {size}.")
        return self.patterns[:] @ self.patterns[:].T

    @cached_property
    def sigma_max(self) -> float:
        """Largest singular value of the kept memories (Prop. 1)."""
        patterns = self.active.patterns
        gram = squares_of_columns(patterns) if len(patterns) > self.d else self.active.gram
        return math.sqrt(max(float(namespace(gram).linalg.eigvalsh(gram)[-1]), 0.0))

    @cached_property
    def basis(self) -> Array:
        """Orthonormal basis of the span of the kept memories: (d, rank)."""
        patterns, what = self.active.patterns, "the span of fewer memories than dimensions (run chains with span=False)"
        if len(patterns) <= self.d:
            mapped.require_small(patterns, what)
        return like(span_basis(patterns, self.K), self.patterns)

    @cached_property
    def coordinates(self) -> Array:
        """The kept memories in that basis: (K_kept, rank)."""
        patterns = self.active.patterns
        if isinstance(patterns, DaskRows):
            return patterns.project(to_numpy(self.basis))
        return span_coordinates(patterns, to_numpy(self.basis)) if is_mapped(patterns) else patterns @ self.basis

    @cached_property
    def rank(self) -> int:
        """Dimension of the span of the kept memories (1 if all of them are zero)."""
        full = spans_all_dimensions(self.active.patterns, self._kept_norms_squared, self.K)
        return self.d if full else int(self.basis.shape[1])

    def check_beta(self, beta: float) -> float:
        """beta as a float; ValueError if this bank is valid at another beta only, or its floats cannot hold logits."""
        beta = check_beta(beta)
        least, most = arrays.safe_range(self.patterns)
        if not least <= beta <= most or beta * self._largest_square > most:
            dtype = str(self.patterns.dtype).removeprefix("torch.")
            rule = f"beta, and beta times the largest squared norm, must be numbers that {dtype} can represent"
            remedy = "Rescale the memories, or choose a beta near 1/‖m‖²."
            raise ValueError(f"{rule}; got beta={beta:g} and a squared norm of {self._largest_square:g}. {remedy}")
        if self.beta is not None and not math.isclose(beta, self.beta, rel_tol=1e-9):
            rule = f"beta must be {self.beta:g}, at which this bank was conditioned or equalized"
            raise ValueError(f"{rule}; got {beta:g}. Condition the original bank at the beta you want.")
        return beta

    def lengths(self) -> Array:
        """‖m_k‖ of every memory: (K,). ValueError for a zero row, which has no direction; 1 if it is masked out."""
        norms = namespace(self.patterns).sqrt(self.norms_squared)
        zero = self.kept[to_numpy(norms)[self.kept] == 0]
        if len(zero):
            remedy = f"Remove it: bank.remove({zero.tolist()[:5]})"
            reason = f"row {zero[0]} is all zeros ({len(zero)} in all). {remedy}"
            raise ValueError(f"patterns must not contain a zero row where norms are needed; {reason}.")
        return arrays.zeros_to_ones(norms)

    def unit_patterns(self) -> Array:
        """The memories scaled to unit norm: (K, d). No kept memory may be zero."""
        if is_mapped(self.patterns):
            return mapped.as_mapped_rows(self.patterns).divide_rows(self.lengths())
        return self.patterns / self.lengths()[:, None]

    def normalized(self) -> MemoryBank:
        """The bank with every memory scaled to unit norm."""
        if self.beta is not None:
            raise ValueError("a conditioned or equalized bank cannot be normalized: its log_r belongs to these norms.")
        return MemoryBank(self.unit_patterns(), self.log_r, self.values)

    def add(self, patterns: ArrayLike, log_r: ArrayLike | None = None, values: ArrayLike | None = None) -> MemoryBank:
        """A new bank with further memories at the end; `values` is needed if this bank has them."""
        if (values is None) != (self.values is None):
            has = "none" if self.values is None else "them"
            raise ValueError(f"values must be given exactly when the bank has them; this one has {has}.")
        mapped.require_small(self.patterns, "adding to it")
        new = MemoryBank(check_states(patterns, self, "patterns"), log_r, values)
        patterns, log_r = concatenate((self.patterns[:], new.patterns)), concatenate((self.log_r, new.log_r))
        values = None if self.values is None or new.values is None else concatenate((self.values, new.values))
        return MemoryBank(patterns, log_r, values, self.beta)

    def remove(self, indices: ArrayLike) -> MemoryBank:
        """A new bank without the memories at these indices."""
        left = np.delete(np.arange(self.K), check_indices(indices, self.K, "indices", "memories"))
        if not len(left):
            raise ValueError(f"indices must leave at least one memory; got all K={self.K}.")
        return self._take(left)

    def _take(self, indices: NumpyArray) -> MemoryBank:
        rows = like(indices, self.patterns, keep_dtype=True)
        values, log_r = None if self.values is None else self.values[rows], self.log_r[rows]
        if not is_mapped(self.patterns):
            return MemoryBank(self.patterns[rows], log_r, values, self.beta)
        patterns = mapped.as_mapped_rows(self.patterns).take(rows)
        return object.__new__(MemoryBank)._set(patterns, log_r, values, self.beta, self.norms_squared[rows])

    def __repr__(self) -> str:
        norms = np.sqrt(to_numpy(self._kept_norms_squared))
        low, high = f"{norms.min():.3g}", f"{norms.max():.3g}"
        parts = (
            f"K={self.K} memories, d={self.d}, norms {low}" + (f" to {high}" if low != high else ""),
            f"{len(self.kept)} kept" if len(self.kept) < self.K else None,
            "weighted" if np.ptp(to_numpy(self.log_r)[self.kept]) > 0 else None,
            f"values in {self.values.shape[1]} dimensions" if self.values is not None else None,
            str(self.patterns.dtype).removeprefix("torch."),
        )
        return f"MemoryBank({', '.join(part for part in parts if part)})"


Memories: TypeAlias = "ArrayLike | MemoryBank | FilePath"


def fingerprint(bank: MemoryBank) -> str:
    """A digest of a bank's shape, multiplicities and up to 64 of its memories, by which the bank is recognized."""
    rows = np.linspace(0, bank.K - 1, min(bank.K, 64)).round().astype(np.int64)
    digest = hashlib.blake2b(repr((bank.K, bank.d)).encode(), digest_size=16)
    for array in (bank.log_r, bank.patterns[like(rows, bank.patterns, keep_dtype=True)]):
        digest.update(np.ascontiguousarray(to_numpy(array)).tobytes())
    return digest.hexdigest()


def require_bank(bank: object) -> MemoryBank:
    """The bank, if it is a MemoryBank."""
    if not isinstance(bank, MemoryBank):
        raise TypeError(f"bank must be a MemoryBank; got {type(bank).__name__}. Wrap an array: MemoryBank(X).")
    return bank


def as_bank(memories: Memories) -> MemoryBank:
    """The bank itself, or a new bank of an array of memories or of an .npy file."""
    if isinstance(memories, MemoryBank):
        return memories
    return MemoryBank.open(memories) if isinstance(memories, str | os.PathLike) else MemoryBank(memories)


def check_states(xi: ArrayLike, bank: MemoryBank, name: str = "xi") -> Array:
    """xi as finite floats in the bank's library and dtype, as wide as the memories: (..., d)."""
    rows = like(as_floats(xi, name), require_bank(bank).patterns)
    if rows.ndim == 0 or rows.shape[-1] != bank.d:
        raise width_error(tuple(rows.shape), bank.K, bank.d, name)
    return rows


def width_error(shape: tuple[int, ...], K: int, d: int, name: str = "xi") -> ValueError:
    """The error for states whose shape is not (..., d), with K memories; it says what looks transposed."""
    width = shape[-1] if shape else 0
    hint = " The bank looks transposed: rows are memories here, so pass X.T." if width == K != d else ""
    if len(shape) == 2 and shape[0] == d:
        hint = f" {name} looks transposed: its rows are states here, so pass {name}.T."
    return ValueError(f"{name} must have d={d} columns to match the bank (K={K} memories, d={d}); got {width}.{hint}")


def _check_log_r(log_r: ArrayLike | None, patterns: Array, name: str = "log_r") -> Array:
    K = len(patterns)
    logs = like(np.zeros(K) if log_r is None else log_r, patterns)
    plain = to_numpy(logs)
    if plain.shape != (K,):
        raise ValueError(f"{name} must have one entry for each of the K={K} memories; got shape {plain.shape}.")
    if np.isnan(plain).any() or (plain == math.inf).any():
        raise ValueError(f"{name} must hold finite numbers, or -inf to mask a memory out; got NaN or +inf.")
    if not np.isfinite(plain).any():
        raise ValueError(f"{name} must leave at least one memory with a positive weight; it leaves none of the K={K}.")
    return arrays.freeze(logs)


def _check_values(values: ArrayLike | None, patterns: Array, copy: bool) -> Array | None:
    if values is None:
        return None
    if np.ndim(values) == 1:
        rule = f"values must be a matrix with one row per memory, (K, v); got shape {tuple(np.shape(values))}"
        raise ValueError(f"{rule}. Pass values[:, None] for one number per memory, or one-hot rows for class labels.")
    rows, K = mapped.check_matrix(like(as_floats(values, "values"), patterns), "values"), len(patterns)
    if len(rows) != K:
        raise ValueError(f"values must have one row for each of the K={K} memories; got {len(rows)} rows.")
    return arrays.freeze(rows, copy)


def are_columns_memories(X: Array) -> bool:
    """Whether the columns of a matrix look like the memories of the paper, all of length 1, and its rows do not.

    Columns with mean zero are scaled features, which may have length 1 too, as in scikit-learn's diabetes data.
    """
    if not isinstance(X, np.ndarray) or isinstance(X, np.memmap) or X.ndim != 2 or min(X.shape) < 2:
        return False
    if X.dtype.kind != "f" or not abs(float(X[:, 0] @ X[:, 0]) - 1) < MAX_OFF_UNIT:  # most matrices are decided here
        return False
    columns, rows = np.einsum("kd,kd->d", X, X), np.einsum("kd,kd->k", X, X)
    is_centered = np.abs(X.mean(0)).max() < MAX_OFF_UNIT / np.sqrt(len(X))
    are_units = np.abs(columns - 1).max() < MAX_OFF_UNIT <= np.abs(rows - 1).max()
    return bool(are_units and not is_centered)
