"""MemoryBank: the stored examples, checked once, with what is derived from them computed once on demand."""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .._backend.arrays import Array, concatenate, floats, frozen_copy, like, namespace, or_one, to_numpy
from .._backend.checks import inverse_temperature
from .._backend.progress import Progress
from ..storage.blockwise import MANY, blocks
from ..storage.mapped import is_large, is_mapped, lazily, opened, require_small, source_of
from .memory_checks import checked_log_r, checked_matrix, checked_patterns

QR_NUMBERS = 2**22
"""Numbers of the memories that a step of the QR decomposition takes, or d² if that is more."""


@dataclass(frozen=True, eq=False, repr=False)
class MemoryBank:
    """K memories in d dimensions, a row each (the paper's X is this transposed).

    patterns: (K, d), numpy or torch, float32 or float64 (other real types are converted).
    log_r:    (K,) log multiplicities b_k of the paper's Eq. 13; None means zeros, -inf masks a memory out.
    values:   (K, v) what each memory stands for in another space (Algorithm 3's raw matrix M), or None.
    beta:     the only beta at which log_r holds, for banks that `clamp` and `equalize` made; None for all others.

    Arrays are copied, except two kinds: a memory map opened for reading (see `open`), and an array that is read-only
    and owns its data. A writable view that was taken of such an array before it became read-only still writes to the
    bank, whose norms then no longer fit: drop such views first.

    >>> MemoryBank([[1.0, 0.0], [0.0, 2.0], [0.6, 0.8]])
    MemoryBank(K=3 memories, d=2, norms 1 to 2, float64)
    """

    patterns: Array
    log_r: Array = None
    values: Array = None
    beta: float | None = None
    norms_squared: Array = field(init=False)  # (K,) ‖m_k‖² of every memory

    def __post_init__(self) -> None:
        patterns, norms = checked_patterns(self.patterns)
        K = patterns.shape[0]
        log_r = _zeros(K, patterns) if self.log_r is None else checked_log_r(self.log_r, patterns)
        values = self.values
        if values is not None:
            values = checked_matrix(like(floats(values, "values"), patterns), "values")
            if len(values) != K:
                raise ValueError(
                    f"values must have a row for each of the K={K} memories; got {len(values)} rows. "
                    "Row k of values is what memory k stands for."
                )
            values = frozen_copy(values)
        self._set(patterns, frozen_copy(log_r), values, self.beta, norms)

    def _set(self, patterns: Array, log_r: Array, values: Array, beta: float | None, norms: Array) -> None:
        parts = {"patterns": patterns, "log_r": log_r, "values": values, "beta": beta, "norms_squared": norms}
        self.__dict__.update(parts)

    @classmethod
    def open(cls, path: Any, log_r: Any = None, *, progress: bool | None = None) -> MemoryBank:
        """The bank of a matrix in an .npy file, which may be larger than memory: it is mapped, not loaded.

        The header and the size are checked before anything is read, and one pass computes the norms and finds what is
        not finite. Half precision is computed in float32 and whole numbers in float64, block by block. Draws then read
        the rows drawn, energies and densities pass through the file. progress: as in `run`.
        """
        patterns, norms = checked_patterns(opened(path), progress)
        bank = object.__new__(cls)
        log_r = _zeros(len(patterns), patterns) if log_r is None else checked_log_r(log_r, patterns)
        bank._set(patterns, frozen_copy(log_r), None, None, norms)
        return bank

    def with_log_r(self, log_r: Any, beta: float | None) -> MemoryBank:
        """The same memories with other multiplicities (K,), which hold at `beta` only unless that is None."""
        bank = object.__new__(MemoryBank)
        bank._set(
            self.patterns, frozen_copy(checked_log_r(log_r, self.patterns)), self.values, beta, self.norms_squared
        )
        return bank

    @property
    def K(self) -> int:
        """Number of memories, masked ones included."""
        return int(self.patterns.shape[0])

    @property
    def d(self) -> int:
        """Dimension of a memory."""
        return int(self.patterns.shape[1])

    @property
    def source_file(self) -> str | None:
        """The file that the memories are read from, or None."""
        return source_of(self.patterns)

    @cached_property
    def kept(self) -> Array:
        """Indices of the memories that are not masked out."""
        return np.flatnonzero(to_numpy(self.log_r) > -math.inf)

    @cached_property
    def active(self) -> MemoryBank:
        """The bank of the kept memories alone: the same law, without the dead rows."""
        return self if len(self.kept) == self.K else self._take(self.kept)

    @cached_property
    def M(self) -> float:
        """max ‖m_k‖ over the kept memories (Eq. 3)."""
        return math.sqrt(float(self._kept_norms_squared.max()))

    @property
    def _kept_norms_squared(self) -> Array:
        whole = len(self.kept) == self.K
        return self.norms_squared if whole else self.norms_squared[like(self.kept, self.patterns, keep_dtype=True)]

    @cached_property
    def log_total_r(self) -> float:
        """log of the sum of the multiplicities; log K when all are one."""
        log_r = to_numpy(self.log_r)[self.kept].astype(np.float64)
        return float(np.logaddexp.reduce(log_r))

    @cached_property
    def gram(self) -> Array:
        """Inner products of the memories: (K, K)."""
        if is_mapped(self.patterns) and is_large(self.patterns):
            raise ValueError(
                f"the Gram matrix of K={self.K} memories in a file is K² numbers, {self.K**2 * 8 / 2**30:.0f} GiB. "
                "Take fewer memories: MemoryBank(bank.patterns[rows])."
            )
        return self.patterns[:] @ self.patterns[:].T

    @cached_property
    def sigma_max(self) -> float:
        """Largest singular value of the kept memories (Prop. 1)."""
        patterns = self.active.patterns
        if len(patterns) > self.d:
            gram = sum(rows.T @ rows for rows in (patterns[block] for block in blocks(*patterns.shape)))
        else:
            gram = self.active.gram
        return math.sqrt(max(float(namespace(gram).linalg.eigvalsh(gram)[-1]), 0.0))

    @cached_property
    def basis(self) -> Array:
        """Orthonormal basis of the span of the kept memories: (d, rank).

        Singular vectors are unique up to a sign at best; numpy computes them for every library, so that the same
        memories give the same chains. It does so in float64: in float32 a direction that matters can look like noise.
        Many memories are brought to triangular form block by block: d² numbers, and none of the digits that squaring
        them for a Gram matrix would lose.
        """
        patterns = self.active.patterns
        if len(patterns) > self.d:
            triangle = _triangle(patterns)
        else:
            require_small(patterns, "the span of fewer memories than dimensions (run chains with span=False)")
            triangle = _float64(patterns)
        _, singular, rows = np.linalg.svd(triangle, full_matrices=False)
        noise = singular[0] * max(self.K, self.d) * np.finfo(singular.dtype).eps
        return like(rows[: max(int((singular > noise).sum()), 1)].T, self.patterns)

    @cached_property
    def coordinates(self) -> Array:
        """The kept memories in that basis: (K_kept, rank)."""
        patterns = self.active.patterns
        if not is_mapped(patterns):
            return patterns @ self.basis
        coordinates = np.empty((len(patterns), self.rank), dtype=patterns.dtype)
        for block in blocks(*patterns.shape):
            np.matmul(patterns[block], self.basis, out=coordinates[block])
        coordinates.flags.writeable = False  # a bank made of them then need not copy them
        return coordinates

    @cached_property
    def rank(self) -> int:
        """Dimension of the span of the kept memories (1 if all of them are zero).

        Of many memories, the first 2 d are enough if they span all d dimensions.
        """
        patterns = self.active.patterns
        if len(patterns) > max(self.d, MANY):
            most = math.sqrt(float(self._kept_norms_squared.sum()))  # no singular value is larger
            noise = most * max(self.K, self.d) * np.finfo(np.float64).eps
            if np.linalg.svd(_float64(patterns[: 2 * self.d]), compute_uv=False)[-1] > noise:
                return self.d
        return int(self.basis.shape[1])

    def at(self, beta: float) -> float:
        """beta, checked: positive, finite, and the one this bank was made for if it was made for one."""
        beta = inverse_temperature(beta)
        if self.beta is not None and not math.isclose(beta, self.beta, rel_tol=1e-9):
            raise ValueError(
                f"beta must be {self.beta:g}, at which this bank was clamped or equalised; got {beta:g}. "
                "Condition the original bank at the beta you want."
            )
        return beta

    def lengths(self) -> Array:
        """‖m_k‖ of every memory: (K,). A zero row has no direction: an error, or 1 where it is masked out."""
        norms = namespace(self.patterns).sqrt(self.norms_squared)
        zero = self.kept[to_numpy(norms)[self.kept] == 0]
        if len(zero):
            raise ValueError(
                f"patterns must not hold a zero row where norms are needed; row {zero[0]} is all zeros "
                f"({len(zero)} in all). Remove it: bank.remove({zero.tolist()[:5]})."
            )
        return or_one(norms)

    def unit_patterns(self) -> Array:
        """The memories scaled to unit norm, of which no kept one may be zero: (K, d)."""
        if is_mapped(self.patterns):
            return lazily(self.patterns).over(self.lengths())
        return self.patterns / self.lengths()[:, None]

    def normalized(self) -> MemoryBank:
        """The bank with every memory scaled to unit norm."""
        if self.beta is not None:
            raise ValueError("a clamped or equalised bank cannot be normalised: its log_r belongs to these norms.")
        return MemoryBank(self.unit_patterns(), self.log_r, self.values)

    def add(self, patterns: Any, log_r: Any = None, values: Any = None) -> MemoryBank:
        """A new bank with further memories at the end; `values` is needed if this bank has them."""
        if (values is None) != (self.values is None):
            has, got = ("has", "none") if self.values is not None else ("has no", "some")
            raise ValueError(f"values must be given exactly when the bank has them; this one {has} values, got {got}.")
        require_small(self.patterns, "adding to it")
        new = MemoryBank(like(floats(patterns, "patterns"), self.patterns), log_r, values)
        if new.d != self.d:
            raise ValueError(_width_message("patterns", new.d, self.K, self.d))
        return MemoryBank(
            concatenate((self.patterns[:], new.patterns)),
            concatenate((self.log_r, new.log_r)),
            None if values is None else concatenate((self.values, new.values)),
            self.beta,
        )

    def remove(self, indices: Any) -> MemoryBank:
        """A new bank without the memories at these indices."""
        gone = np.unique(checked_indices(indices, self.K, "indices", "memories"))
        if len(gone) == self.K:
            raise ValueError(f"indices must leave at least one memory; got all K={self.K}.")
        return self._take(np.delete(np.arange(self.K), gone))

    def _take(self, indices: Any) -> MemoryBank:
        rows = like(np.asarray(indices, dtype=np.int64), self.patterns, keep_dtype=True)
        values = None if self.values is None else self.values[rows]
        if not is_mapped(self.patterns):
            return MemoryBank(self.patterns[rows], self.log_r[rows], values, self.beta)
        bank = object.__new__(MemoryBank)
        parts = (self.log_r[rows], values, self.beta, self.norms_squared[rows])
        bank._set(lazily(self.patterns).take(rows), *parts)
        return bank

    def __repr__(self) -> str:
        norms = np.sqrt(to_numpy(self._kept_norms_squared))
        low, high = f"{norms.min():.3g}", f"{norms.max():.3g}"
        parts = [f"K={self.K} memories, d={self.d}", f"norms {low} to {high}" if low != high else f"norms {low}"]
        if len(self.kept) < self.K:
            parts.append(f"{len(self.kept)} kept by the mask")
        if np.ptp(to_numpy(self.log_r)[self.kept]) > 0:
            parts.append("weighted")
        if self.values is not None:
            parts.append(f"values in {self.values.shape[1]} dimensions")
        parts.append(str(self.patterns.dtype).removeprefix("torch."))
        return f"MemoryBank({', '.join(parts)})"


def fingerprint(bank: MemoryBank) -> str:
    """Enough of a bank to tell it from another: its shape, its multiplicities and up to 64 of its memories."""
    rows = np.linspace(0, bank.K - 1, min(bank.K, 64)).round().astype(np.int64)
    digest = hashlib.blake2b(repr((bank.K, bank.d)).encode(), digest_size=16)
    for array in (bank.log_r, bank.patterns[like(rows, bank.patterns, keep_dtype=True)]):
        digest.update(np.ascontiguousarray(to_numpy(array)).tobytes())
    return digest.hexdigest()


def require_bank(bank: Any) -> MemoryBank:
    """bank, if it is one."""
    if not isinstance(bank, MemoryBank):
        raise TypeError(f"bank must be a MemoryBank; got {type(bank).__name__}. Wrap an array: MemoryBank(X).")
    return bank


def as_bank(patterns_or_bank: Any) -> MemoryBank:
    """The bank itself, or a new one around an array of memories, or around those in an .npy file."""
    if isinstance(patterns_or_bank, MemoryBank):
        return patterns_or_bank
    if isinstance(patterns_or_bank, str | os.PathLike):
        return MemoryBank.open(patterns_or_bank)
    return MemoryBank(patterns_or_bank)


def states(xi: Any, bank: MemoryBank, name: str = "xi") -> Array:
    """xi as finite floats in the bank's namespace and dtype, its last axis checked against the bank: (..., d)."""
    xi = like(floats(xi, name), require_bank(bank).patterns)
    if xi.ndim == 0 or xi.shape[-1] != bank.d:
        raise ValueError(_width_message(name, xi.shape[-1] if xi.ndim else 0, bank.K, bank.d))
    return xi


def checked_indices(indices: Any, n: int, name: str, of: str) -> Array:
    """indices as a flat array of whole numbers below n; negative ones count from the end."""
    array = np.atleast_1d(to_numpy(indices))
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be booleans, or whole numbers from 0 to {n - 1}; got {indices!r}.")
    array = array.astype(np.intp).ravel()
    outside = array[(array < -n) | (array >= n)]
    if len(outside):
        raise ValueError(f"{name} must lie between 0 and {n - 1} (there are {n} {of}); got {outside[0]}.")
    return array % n


def _float64(rows: Array) -> Array:
    return to_numpy(rows).astype(np.float64)


def _triangle(patterns: Array) -> Array:
    """R of the QR decomposition of more than d memories, taken in block by block: (d, d)."""
    K, d = patterns.shape
    size = min(max(min(MANY, QR_NUMBERS // d), d), K)
    stacked = np.empty((d + size, d))  # the triangle so far, and the next memories under it
    above = 0
    with Progress(K, "finding the span") as bar:
        for begin in range(0, K, size):
            end = min(begin + size, K)
            stacked[above : above + end - begin] = to_numpy(patterns[begin:end])
            triangle = np.linalg.qr(stacked[: above + end - begin], mode="r")
            above = len(triangle)
            stacked[:above] = triangle
            bar.at(end)
    return triangle


def _width_message(name: str, got: int, K: int, d: int) -> str:
    hint = (
        " The bank looks transposed: rows are memories here, so pass X.T."
        if got == K and d != K
        else " Each row is one example of the same kind as the memories."
    )
    return f"{name} must have d={d} columns to match the bank (K={K} memories, d={d}); got {got}.{hint}"


def _zeros(K: int, patterns: Array) -> Array:
    return like(np.zeros(K), patterns)
