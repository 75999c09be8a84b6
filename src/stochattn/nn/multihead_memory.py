"""Hopfield: queries look up stored rows in heads. HopfieldPooling learns its queries, and HopfieldLayer its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from .._backend.arrays import ArrayLike
from .._backend.checks import check_choice, check_count, check_positive
from .association import Association, add_tensors, beta_tensor, positive_beta, states_like
from .hopfield import HopfieldMemory
from .steps import describe, wide

PROJECTIONS = ("query", "stored", "value", "out")


class Hopfield(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Queries (..., L, embed_dim) look up stored rows (..., K, kdim) in heads, and read values (..., K, vdim).

    In each head ξ takes `n_steps` of ξ ← softmax(beta K ξ) K from the query, and reads softmax(beta K ξ) V. The result
    is a linear map of all heads: (..., L, out_dim). n_steps = 0 is attention.

    num_heads: heads, each of head_dim numbers (embed_dim // num_heads) that reads v_head_dim numbers (head_dim)
    kdim, vdim: widths of stored rows and of values; None is embed_dim, and kdim
    out_dim:   width of the result; None is embed_dim
    project:   which of "query", "stored", "value" and "out" have a linear map. Without one, every head uses the rows as
               they are: head_dim is their width, and without "out" the result is the heads side by side.
    beta:      a number, one for each head, or an nn.Parameter; None is 1/√head_dim. learn_beta makes it a parameter.
    tolerance: with it a state stops on its own after the first step that is no longer; n_steps = None is then 1,000
    layer_norm: normalize queries, stored rows and values before their maps. head_norm: queries and rows of each head
    dropout:   the probability that a weight of the readout is zero during training

    Masks are (..., L, K), or (..., num_heads, L, K), True where a query sees a row, or numbers to add to its logits.
    A query that sees none reads zeros in every head.

    >>> import torch
    >>> from stochattn.nn import Hopfield
    >>> Hopfield(8, num_heads=2)(torch.zeros(1, 5, 8), torch.zeros(1, 7, 8)).shape
    torch.Size([1, 5, 8])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int = 1,
        *,
        head_dim: int | None = None,
        v_head_dim: int | None = None,
        kdim: int | None = None,
        vdim: int | None = None,
        out_dim: int | None = None,
        project: Iterable[str] = PROJECTIONS,
        beta: float | Tensor | None = None,
        learn_beta: bool = False,
        n_steps: int | None = 0,
        tolerance: float | None = None,
        layer_norm: bool = True,
        head_norm: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        names = (project,) if isinstance(project, str) else tuple(project)
        for name in names:
            check_choice("each of project", name, PROJECTIONS)
        self.projected = tuple(name for name in PROJECTIONS if name in names)
        self.embed_dim, self.num_heads = check_count("embed_dim", embed_dim), check_count("num_heads", num_heads)
        self.kdim = self.embed_dim if kdim is None else check_count("kdim", kdim)
        self.vdim = self.kdim if vdim is None else check_count("vdim", vdim)
        self.n_steps = None if n_steps is None and tolerance is not None else check_count("n_steps", n_steps, 0)
        self.tolerance = None if tolerance is None else check_positive("tolerance", tolerance, "None is no tolerance.")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must lie between 0 and 1, without 1; got {dropout!r}.")
        self.dropout = float(dropout)
        self.head_dim, self.v_head_dim, self.out_dim = self._widths(head_dim, v_head_dim, out_dim)
        self.widths = {"query": self.embed_dim, "stored": self.kdim, "value": self.vdim}
        self.norms = nn.ModuleDict({name: nn.LayerNorm(width) for name, width in self.widths.items() if layer_norm})
        self.head_norm = nn.LayerNorm(self.head_dim) if head_norm else None
        into = {"query": self.head_dim, "stored": self.head_dim, "value": self.v_head_dim}
        maps = {name: (width, self.num_heads * into[name]) for name, width in self.widths.items()}
        maps["out"] = (self.num_heads * self.v_head_dim, self.out_dim)
        self.maps = nn.ModuleDict({name: nn.Linear(*maps[name], bias=bias) for name in self.projected})
        chosen = 1 / math.sqrt(self.head_dim) if beta is None else beta
        add_tensors(self, False, beta=beta_tensor(chosen, (self.num_heads,), torch.empty(0), learn_beta, "head"))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the linear maps as nn.MultiheadAttention does: uniform by Glorot's rule, with biases zero."""
        for linear in self.maps.values():
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(
        self, query: Tensor, stored: Tensor | None = None, values: Tensor | None = None, *, mask: Tensor | None = None
    ) -> Tensor:
        """What the queries (..., L, embed_dim) read: (..., L, out_dim).

        stored: (..., K, kdim), the queries themselves if None; values: (..., K, vdim), the stored rows if None. Leading
        dimensions broadcast: queries (L, embed_dim) look up every bank of a batch.
        """
        stored = query if stored is None else stored
        seen, xi = self._seen(query, stored, mask)
        v = self.heads("value", stored if values is None else values)
        if v.shape[-2] != seen.patterns.shape[-2]:
            K = seen.patterns.shape[-2]
            raise ValueError(f"values must have one row for each of the K={K} stored rows; got {v.shape[-2]}.")
        out = seen.attend(xi, v, self.dropout if self.training else 0.0).to(v.dtype)
        out = out.transpose(-3, -2).flatten(-2)
        return self.maps["out"](out) if "out" in self.projected else out

    def weights(self, query: Tensor, stored: Tensor | None = None, *, mask: Tensor | None = None) -> Tensor:
        """The weights of the stored rows in the readout of each head: (..., num_heads, L, K)."""
        seen, xi = self._seen(query, query if stored is None else stored, mask)
        return seen.weights(xi)

    def energy(self, query: Tensor, stored: Tensor | None = None, *, mask: Tensor | None = None) -> Tensor:
        """E of the final states in the banks of the heads: (..., num_heads, L)."""
        seen, xi = self._seen(query, query if stored is None else stored, mask)
        return seen.energy(xi)

    def banks(self, stored: Tensor) -> Association:
        """The stored rows (..., K, kdim) as a bank per head, (..., num_heads, K, head_dim): energy, density, draws."""
        keys = self.heads("stored", stored)
        keys = wide(keys).expand(*keys.shape[:-3], self.num_heads, *keys.shape[-2:])
        return Association(keys, positive_beta(self.beta, keys))

    def _seen(self, query: Tensor, stored: Tensor, mask: Tensor | None) -> tuple[Association, Tensor]:
        """The banks of the heads as the queries see them, and the final states (..., num_heads, L, head_dim)."""
        xi, banks = self.heads("query", query), self.banks(stored)
        xi = states_like(xi, banks.patterns)
        if mask is not None and mask.ndim <= max(query.ndim, stored.ndim):
            mask = mask.unsqueeze(-3) if mask.ndim > 1 else mask
        seen = banks.with_mask(mask, xi)
        return seen, seen.iterate(xi, self.n_steps, self.tolerance, 0)

    def heads(self, name: str, x: Tensor) -> Tensor:
        """Rows (..., n, width) of "query", "stored" or "value" in heads: (..., num_heads or 1, n, width of a head)."""
        width = self.widths[name]
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim < 2 or x.shape[-1] != width:
            called = "values" if name == "value" else name
            raise ValueError(f"{called} must be a tensor of real numbers, (..., rows, {width}); got {describe(x)}.")
        x = self.norms[name](x) if name in self.norms else x
        if name in self.projected:
            x = self.maps[name](x).unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)
        else:
            x = x.unsqueeze(-3)
        return self.head_norm(x) if self.head_norm is not None and name != "value" else x

    def _widths(self, head_dim: int | None, v_head_dim: int | None, out_dim: int | None) -> tuple[int, int, int]:
        widths = {"query": self.embed_dim, "stored": self.kdim}
        fixed = {name: width for name, width in widths.items() if name not in self.projected}
        if head_dim is None:
            if not fixed and self.embed_dim % self.num_heads:
                rule = f"embed_dim must be a multiple of num_heads={self.num_heads}"
                raise ValueError(f"{rule}; got {self.embed_dim}. Or pass head_dim.")
            head_dim = next(iter(fixed.values()), self.embed_dim // self.num_heads)
        for name, width in fixed.items():
            if width != head_dim:
                rule = f"head_dim must be the width {width} of {name} rows, which have no linear map"
                raise ValueError(f'{rule}; got {head_dim}. Add "{name}" to project.')
        if v_head_dim is None:
            v_head_dim = head_dim if "value" in self.projected else self.vdim
        if "value" not in self.projected and v_head_dim != self.vdim:
            raise ValueError(f'v_head_dim must be vdim={self.vdim} without "value" in project; got {v_head_dim}.')
        joined = self.num_heads * v_head_dim
        if "out" not in self.projected and out_dim not in (None, joined):
            raise ValueError(f'out_dim must be {joined}, that of all heads, without "out" in project; got {out_dim}.')
        plain = self.embed_dim if "out" in self.projected else joined
        out_dim = plain if out_dim is None else check_count("out_dim", out_dim)
        return check_count("head_dim", head_dim), check_count("v_head_dim", v_head_dim), out_dim

    def extra_repr(self) -> str:
        """Sizes and steps, for `print`."""
        sizes = f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, head_dim={self.head_dim}"
        steps = f"n_steps={self.n_steps}" + ("" if self.tolerance is None else f", tolerance={self.tolerance:g}")
        return f"{sizes}, out_dim={self.out_dim}, {steps}"


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
        self.queries = nn.Parameter(torch.empty(check_count("n_queries", n_queries), self.hopfield.embed_dim))
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
        values = None if values is False else len(rows) if values is True else values
        read = None if values is None else _start("values", values, self.hopfield.vdim)
        if read is None and self.hopfield.vdim != self.hopfield.kdim:
            rule = f"values must be given where vdim={self.hopfield.vdim} is not kdim={self.hopfield.kdim}"
            raise ValueError(f"{rule}; got None. Pass values=True to learn them.")
        if read is not None and len(read) != len(rows):
            raise ValueError(f"values must have one row for each of the {len(rows)} patterns; got {len(read)}.")
        add_tensors(self, learn, patterns=rows, values=read)

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
    return Hopfield(check_count("hopfield", hopfield))


def _start(name: str, rows: int | ArrayLike, width: int) -> Tensor:
    """Random rows (n, width) for their number n, or the given rows, copied."""
    if isinstance(rows, int):
        return START * torch.randn(check_count(name, rows), width)
    x = torch.as_tensor(rows)
    if x.ndim != 2 or x.shape[1] != width or not len(x):
        raise ValueError(f"{name} must be a number of rows, or rows (K, {width}); got shape {tuple(x.shape)}.")
    if not x.isfinite().all():
        raise ValueError(f"{name} must be finite; some of its numbers are not.")
    return x.detach().to(torch.get_default_dtype()).clone()
