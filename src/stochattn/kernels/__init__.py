"""What runs on the device in one launch. The rest of the library calls four functions and knows of nothing else here.

`normals` and `one_each` make noise, `draw` samples the mixture, `chains` moves chains over many steps. Each returns
None where it does not apply (no Triton, another dtype, more dimensions than a block can hold), and the caller goes its
plain way with the same random numbers. Tensors are on a CUDA device, or on the CPU where Triton interprets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .._backend.arrays import Array, is_torch

if TYPE_CHECKING:
    from .launch import Chains

WIDEST = 256  # dimensions of a chain that a block can hold
MOST_ENTRIES = 2**23  # of memories, which all blocks read at every step: they must stay in the cache


@lru_cache(maxsize=1)
def _launch() -> Any:
    """The module that launches kernels, or None without Triton."""
    try:
        from . import launch
    except ImportError:
        return None
    return launch


def normals(reference: Array, key: int, chains: range, step: int, purpose: int, width: int) -> Array:
    """Standard normals of a purpose at a step: (len(chains), width), or None."""
    if not _applies(reference) or not len(chains):
        return None
    return _launch().normals(reference, key, chains.start, len(chains), step, int(purpose), width)


def one_each(reference: Array, key: int, chains: range, step: int, purpose: int, degrees: int = 0) -> Array:
    """Standard exponentials, or chi-square numbers of three degrees or more: (len(chains),), or None."""
    if not _applies(reference) or not len(chains):
        return None
    return _launch().one_each(reference, key, chains.start, len(chains), step, int(purpose), degrees)


def draw(patterns: Array, cumulative: Any, spread: float, key: int, first: int, n: int) -> Array:
    """Draws `first` to `first + n` of the mixture with these cumulative weights (K,), float64: (n, d), or None."""
    if not _applies(patterns) or not n:
        return None
    return _launch().draw(patterns, cumulative, spread, key, first, n)


def chains(sampler: str, patterns: Array, log_r: Array, alpha: float, outside: int) -> Chains | None:
    """Chains on the memories patterns (K, r), with `outside` further dimensions; or None."""
    if sampler not in ("ula", "mala") or not _applies(patterns) or patterns.itemsize != 4:
        return None
    K, r = patterns.shape
    if r > WIDEST or K * r > MOST_ENTRIES:
        return None
    made: Chains | None = _launch().chains(sampler, patterns, log_r, alpha, outside)
    return made


def _applies(reference: Array) -> bool:
    return is_torch(reference) and _launch() is not None and bool(_launch().runs_on(reference.device))
