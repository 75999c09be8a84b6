"""Layers that learn their queries (HopfieldPooling) or their stored rows (HopfieldLayer)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .._backend.arrays import ArrayLike
from .._backend.checks import count
from .association import Association
from .hopfield import HopfieldMemory
from .multihead_memory import Hopfield

START = 0.02  # standard deviation of learned rows at the start


class HopfieldPooling(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Pooling of rows by learned queries: (..., K, kdim) -> (..., n_queries out_dim).

    hopfield:  the lookup, or embed_dim for `Hopfield(embed_dim)`
    n_queries: how many queries are learned

    >>> import torch
    >>> from stochattn.nn import HopfieldPooling
    >>> HopfieldPooling(8, n_queries=2)(torch.zeros(3, 7, 8)).shape
    torch.Size([3, 16])
    """

    def __init__(self, hopfield: Hopfield | int, n_queries: int = 1) -> None:
        super().__init__()
        self.hopfield = _lookup(hopfield)
        self.queries = nn.Parameter(torch.empty(count("n_queries", n_queries), self.hopfield.embed_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw queries and linear maps again."""
        self.hopfield.reset_parameters()
        nn.init.normal_(self.queries, std=START)

    def forward(self, stored: Tensor, values: Tensor | None = None, *, mask: Tensor | None = None) -> Tensor:
        """What the queries read from stored rows (..., K, kdim), side by side: (..., n_queries out_dim).

        values: (..., K, vdim), the stored rows if None; mask: (..., n_queries or 1, K), as in `Hopfield`
        """
        return self.hopfield(self._queries(stored), stored, values, mask=mask).flatten(-2)

    def weights(self, stored: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """The weights of the stored rows: (..., num_heads, n_queries, K)."""
        return self.hopfield.weights(self._queries(stored), stored, mask=mask)

    def _queries(self, stored: Tensor) -> Tensor:
        return self.queries.expand(*stored.shape[:-2], *self.queries.shape)

    def extra_repr(self) -> str:
        """The number of queries, for `print`."""
        return f"n_queries={len(self.queries)}"


class HopfieldLayer(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Lookup of queries in learned rows: (..., L, embed_dim) -> (..., L, out_dim).

    hopfield: the lookup, or embed_dim for `Hopfield(embed_dim)`
    patterns: how many rows are learned, or the rows (K, kdim) that learning starts from
    values:   rows (K, vdim) that are read, learned too, or True to draw them at random; None reads the patterns
    learn:    whether patterns and values are parameters; otherwise they are buffers

    >>> import torch
    >>> from stochattn.nn import HopfieldLayer
    >>> HopfieldLayer(8, patterns=16)(torch.zeros(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        hopfield: Hopfield | int,
        patterns: int | ArrayLike,
        *,
        values: ArrayLike | bool | None = None,
        learn: bool = True,
    ) -> None:
        super().__init__()
        self.hopfield = _lookup(hopfield)
        rows = _start("patterns", patterns, self.hopfield.kdim)
        given = None if values is False else len(rows) if values is True else values
        read = None if given is None else _start("values", given, self.hopfield.vdim)
        if read is None and self.hopfield.vdim != self.hopfield.kdim:
            rule = f"values must be given where vdim={self.hopfield.vdim} is not kdim={self.hopfield.kdim}"
            raise ValueError(f"{rule}; got None. Pass values=True to learn them.")
        if read is not None and len(read) != len(rows):
            raise ValueError(f"values must have one row for each of the {len(rows)} patterns; got {len(read)}.")
        for name, x in (("patterns", rows), ("values", read)):
            if learn:
                self.register_parameter(name, None if x is None else nn.Parameter(x))
            else:
                self.register_buffer(name, x)

    def forward(self, query: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """What the queries read: (..., L, embed_dim) -> (..., L, out_dim); mask: (..., L, K), as in `Hopfield`."""
        return self.hopfield(query, self.patterns, self.values, mask=mask)

    def weights(self, query: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """The weights of the learned rows: (..., num_heads, L, K)."""
        return self.hopfield.weights(query, self.patterns, mask=mask)

    def energy(self, query: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """E of the final states in the banks of the heads: (..., num_heads, L)."""
        return self.hopfield.energy(query, self.patterns, mask=mask)

    def banks(self) -> Association:
        """The learned rows as one bank for each head, with gradients: energy, density and exact draws."""
        return self.hopfield.banks(self.patterns)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def memory(self) -> HopfieldMemory:
        """A copy of the banks of the heads, (num_heads, K, head_dim) with values, to inspect, save or sample."""
        banks, heads = self.banks(), self.hopfield.num_heads
        values = self.hopfield.heads("value", self.patterns if self.values is None else self.values)
        beta, values = banks.beta.detach().expand(heads), values.detach().expand(heads, -1, -1)
        return HopfieldMemory(banks.patterns.detach(), beta=beta, values=values)

    def extra_repr(self) -> str:
        """The number of rows, for `print`."""
        return f"K={len(self.patterns)} patterns, values={self.values is not None}"


def _lookup(hopfield: Hopfield | int) -> Hopfield:
    if isinstance(hopfield, Hopfield):
        return hopfield
    if isinstance(hopfield, nn.Module):
        raise TypeError(f"hopfield must be a Hopfield or a width; got {type(hopfield).__name__}.")
    return Hopfield(count("hopfield", hopfield))


def _start(name: str, rows: int | ArrayLike, width: int) -> Tensor:
    """Random rows (n, width) for their number n, or the given rows, copied."""
    if isinstance(rows, int):
        return START * torch.randn(count(name, rows), width)
    made = torch.as_tensor(rows)
    if made.ndim != 2 or made.shape[1] != width or not len(made):
        raise ValueError(f"{name} must be a number of rows, or rows (K, {width}); got shape {tuple(made.shape)}.")
    if not made.isfinite().all():
        raise ValueError(f"{name} must be finite; some of its numbers are not.")
    return made.detach().to(torch.get_default_dtype()).clone()
