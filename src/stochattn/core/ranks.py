"""ShardedBank: the rows of a bank on several ranks. Equations are those of `energy.py` and `mixture.py`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from .._backend.arrays import ArrayLike, NumpyArray, as_floats, is_torch, like, norms_squared, safe_range, to_numpy
from .._backend.checks import check_beta
from .._backend.products import logsumexp
from ..storage.blockwise import Sums, attention, blocks
from ..storage.ranks import Checked, Fact, Group, RankGroup
from .memory import MemoryBank
from .neighbors import nearest_index


@dataclass(frozen=True, eq=False)
class Shard:
    """The rows of one rank, which may be none: patterns (K_shard, d), log_r (K_shard,), values (K_shard, v) or None."""

    patterns: Tensor
    log_r: Tensor
    values: Tensor | None
    norms_squared: Tensor  # (K_shard,)

    @classmethod
    def of(cls, patterns: ArrayLike, log_r: ArrayLike | None, values: ArrayLike | None) -> Shard:
        """The checked rows of a rank. Tensors are shared, and arrays are copied."""
        rows = _matrix(patterns, "patterns")
        K = len(rows)
        logs: Tensor = rows.new_zeros(K) if log_r is None else like(log_r, rows)
        if logs.shape != (K,):
            raise ValueError(f"log_r must have one entry for each of the {K} rows of a shard; got {tuple(logs.shape)}.")
        if bool((logs.isnan() | (logs == math.inf)).any()):
            raise ValueError("log_r must hold finite numbers, or -inf to mask a memory out; got NaN or +inf.")
        read = None if values is None else _matrix(values, "values").to(rows)
        if read is not None and len(read) != K:
            raise ValueError(f"values must have one row for each of the {K} rows of a shard; got {len(read)}.")
        # All squares at once would be as large as the rows.
        norms = [norms_squared(rows[block]) for block in blocks(*rows.shape)]
        return cls(rows, logs, read, torch.cat(norms) if norms else rows.new_zeros(0))

    @cached_property
    def kept(self) -> NumpyArray:
        """Indices in the shard of the memories that are not masked out."""
        return np.flatnonzero(to_numpy(self.log_r) > -math.inf)

    @property
    def dtype(self) -> str:
        """The name of its dtype."""
        return str(self.patterns.dtype).removeprefix("torch.")


class ShardedBank:
    """A bank whose rows are on the ranks of a group. Ranks must call its methods together, with equal arguments.

    shard:   the rows of this rank
    firsts:  the number of the first row of each rank, and at the end the number of all rows
    outline: a bank with the facts of all memories, K, d, M and log Σ r_k, but not the memories: its patterns (K, d) are
             a view of a single zero, with the dtype and the device of the memories
    """

    def __init__(
        self,
        patterns: ArrayLike,
        log_r: ArrayLike | None,
        values: ArrayLike | None,
        beta: float,
        equal_weights: bool,
        group: Group,
    ) -> None:
        self.ranks = RankGroup(group, patterns)

        def check() -> Checked[Shard]:
            shard = Shard.of(patterns, log_r, values)
            self.ranks.require_backend(shard.patterns.device)
            same: dict[str, Fact] = {"d": shard.patterns.shape[1], "dtype": shard.dtype}
            same |= {"device": shard.patterns.device.type, "beta": check_beta(beta)}
            same |= {"equal_weights": bool(equal_weights)}
            same["the width of values"] = None if shard.values is None else shard.values.shape[1]
            norms, kept = shard.norms_squared, shard.norms_squared[shard.log_r > -math.inf]
            by_rank: dict[str, Fact] = {"K": len(shard.patterns), "kept": len(shard.kept)}
            by_rank |= {"largest": _largest(norms), "largest kept": _largest(kept)}
            return Checked(shard, same, by_rank)

        self.shard, facts = self.ranks.agree("ShardedMemory", check)
        sizes, self.n_kept, norms, kept_norms = (
            np.array([of_rank[name] for of_rank in facts]) for name in ("K", "kept", "largest", "largest kept")
        )
        self.firsts = np.concatenate(([0], np.cumsum(sizes)))
        largest, K, n_kept = float(norms.max()), int(self.firsts[-1]), int(self.n_kept.sum())
        M = _check_M(largest, float(kept_norms.max()), n_kept, K, self.shard.patterns)
        if equal_weights:  # as `conditioning.equalize`
            factor = float(beta) / 2 * (self.shard.norms_squared - M**2)
            self.shard = replace(self.shard, log_r=self.shard.log_r - factor)
        zero = self.shard.patterns.new_zeros(())
        self.outline, rows = object.__new__(MemoryBank), zero.expand(K, self.shard.patterns.shape[1])
        self.outline._set(rows, zero.expand(K), None, float(beta) if equal_weights else None, zero.expand(K))
        vars(self.outline).update(M=M, log_total_r=self._log_sum(self.shard.log_r), _largest_square=largest)
        self.outline.check_beta(beta)
        # log Σ r_k exp(beta ‖m_k‖²/2)
        self.log_z = lru_cache(maxsize=1)(lambda beta: self._log_sum(self._mixture_logits(beta)))
        self.cumulative = lru_cache(maxsize=1)(self._cumulative)

    @property
    def first(self) -> int:
        """The number of the first row of this rank."""
        return int(self.firsts[self.ranks.rank])

    def sums(self, xi: Tensor, beta: float, values: Tensor | None = None, row_stable: bool = False) -> Sums:
        """The sums of attention over the memories of all ranks; (n, d), for `attention` in `storage/blockwise.py`."""
        patterns, log_r = self.shard.patterns, self.shard.log_r
        v = 0 if values is None else values.shape[1]
        if xi.requires_grad and torch.is_grad_enabled():
            xi = self.ranks.replicate(xi)
        if len(self.shard.kept):
            here = attention(xi, patterns, log_r, beta, values=values, row_stable=row_stable)
        else:
            none = xi[:, :1] * 0  # with the gradient zero, so that this rank takes part in backward too
            lowest = torch.full_like(none, -1e300 if xi.itemsize == 8 else -1e37, requires_grad=False)
            here = Sums(lowest, none, none.expand(-1, v), none[:, :0])
        return self.ranks.merge(here, beta == math.inf)

    def attend(self, xi: Tensor, beta: float, values: Tensor | None = None) -> Tensor:
        """T(xi), the weighted average of the memories, or of the values of the shards; (..., d) -> (..., v)."""
        read = self.shard.patterns if values is None else values
        mean: Tensor = self.sums(xi.reshape(-1, self.outline.d), beta, read).mean
        return mean.reshape((*xi.shape[:-1], read.shape[1]))

    def table_energy(self, xi: Tensor, beta: float) -> Tensor:
        """½‖xi‖² − lse_beta(X xi); (..., d) -> (...)."""
        lse = self.sums(xi.reshape(-1, self.outline.d), beta).logsumexp
        return norms_squared(xi) / 2 - lse.reshape(xi.shape[:-1]) / beta

    def nearest(self, xi: Tensor) -> Tensor:
        """The number of the kept memory nearest to each row: (n, d) -> (n,)."""
        shard = self.shard
        closeness, number = (xi.new_full((len(xi),), value, dtype=torch.float64) for value in (-math.inf, 0.0))
        if len(shard.kept):
            half = torch.where(shard.log_r > -math.inf, shard.norms_squared / 2, math.inf)
            k: Tensor = nearest_index(xi, shard.patterns, half, row_stable=True)
            closeness = ((xi * shard.patterns[k]).sum(-1) - half[k]).double()
            number = (k + self.first).double()  # exact below 2^53
        parts = self.ranks.gather(torch.stack((closeness, number)))  # (size, 2, n)
        best: Tensor = parts[:, 0].argmax(0)
        return parts[:, 1].gather(0, best[None])[0].long()

    def rows(self, numbers: NumpyArray) -> Tensor:
        """The memories with these numbers (n,): (n, d)."""
        return self._gather(self.shard.patterns, numbers - self.first, self.firsts[1:], numbers)

    def log_r_at(self, numbers: NumpyArray) -> NumpyArray:
        """The log multiplicities of the memories with these numbers: (n,)."""
        return to_numpy(self._gather(self.shard.log_r, numbers - self.first, self.firsts[1:], numbers))

    def kept_numbers(self, positions: NumpyArray) -> NumpyArray:
        """The numbers of the memories at these positions among those that are kept: (n,)."""
        ends = np.cumsum(self.n_kept)
        numbers = torch.from_numpy(self.shard.kept + self.first).to(self.shard.patterns.device)
        return to_numpy(self._gather(numbers, positions - (ends - self.n_kept)[self.ranks.rank], ends, positions))

    def centers(self, uniforms: NumpyArray, beta: float) -> Tensor:
        """The memories that `mixture.pick` picks at these uniforms among all rows: (n,) -> (n, d)."""
        borders, ends = self.cumulative(beta)
        target = uniforms * ends[-1]
        return self._gather(self.shard.patterns, np.searchsorted(borders, target, side="right"), ends, target)

    def _gather(self, values: Tensor, indices: NumpyArray, ends: NumpyArray, keys: NumpyArray) -> Tensor:
        """The values at indices (n,) of the shard of rank i, where ends[i − 1] ≤ key < ends[i]: (n, ...)."""
        owner = np.searchsorted(ends, keys, side="right")
        here = torch.from_numpy(np.flatnonzero(owner == self.ranks.rank)).to(values.device)
        result = values.new_zeros((len(indices), *values.shape[1:]))
        result[here] = values[torch.from_numpy(indices).to(values.device)[here]]
        return self.ranks.sum(result)

    def perplexities(self, beta: float) -> tuple[float, float]:
        """exp(−Σ p log p) of the weights of the mixture, and of the multiplicities alone (see `mixture.perplexity`)."""
        effective = self._perplexity(self._mixture_logits(beta), self.log_z(beta))
        return effective, self._perplexity(self.shard.log_r, self.outline.log_total_r)

    def _perplexity(self, logits: Tensor, log_sum: float) -> float:
        log_p = logits[logits > -math.inf].double() - log_sum
        return math.exp(-float(self.ranks.numbers(float((log_p.exp() * log_p).sum()), logits.device).sum()))

    def _mixture_logits(self, beta: float) -> Tensor:
        return self.shard.log_r + beta / 2 * self.shard.norms_squared

    def _log_sum(self, logits: Tensor) -> float:
        here = float(logsumexp(logits.double())) if len(logits) else -math.inf
        return float(np.logaddexp.reduce(self.ranks.numbers(here, logits.device)))

    def _cumulative(self, beta: float) -> tuple[NumpyArray, NumpyArray]:
        """Cumulative weights of the mixture over all rows: at the rows of this rank, and at the end of each rank."""
        log_weights = self._mixture_logits(beta) - self.log_z(beta)
        borders = np.cumsum(np.exp(to_numpy(log_weights).astype(np.float64)))
        totals = self.ranks.numbers(float(borders[-1]) if len(borders) else 0.0, log_weights.device)
        ends = np.cumsum(totals)
        before = ends[self.ranks.rank - 1] if self.ranks.rank else 0.0
        return before + borders, ends


def _matrix(x: ArrayLike, name: str) -> Tensor:
    """x as a matrix of finite float32 or float64 with one row per memory, or with no rows: (K_shard, d)."""
    rows = as_floats(x, name)
    if rows.ndim != 2 or not rows.shape[1]:
        rule = f"{name} must be a matrix with one row per memory, (K, d)"
        raise ValueError(f"{rule}; got shape {tuple(rows.shape)}. A shard without rows has the shape (0, d).")
    return rows.detach() if is_torch(rows) else torch.tensor(rows)


def _largest(norms: Tensor) -> float:
    return float(norms.max()) if len(norms) else 0.0


def _check_M(largest: float, largest_kept: float, n_kept: int, K: int, reference: Tensor) -> float:
    """max ‖m_k‖ over the kept memories of all ranks, if there are some and floats hold all squared norms."""
    if not K:
        raise ValueError("patterns must have rows on at least one rank; every shard is empty.")
    if not n_kept:
        raise ValueError(f"log_r must leave at least one memory with a positive weight; it leaves none of the K={K}.")
    least, most = safe_range(reference)
    if largest > most or 0 < largest < least:
        wrong = f"the largest is {largest:g}. Rescale them on all ranks."
        raise ValueError(f"patterns must have squared norms that {reference.dtype} can represent; {wrong}")
    return math.sqrt(largest_kept)
