"""Many small vision transformers of one shape as one network, so that a GPU trains all of them at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

from stochattn.nn import langevin_states

CLASSES = 10
STEPS, ALPHA = 3, 0.01  # Langevin steps of a query in training


@dataclass(frozen=True)
class Regularization:
    """What M networks do in training, with a number for each of them, (M,); None does nothing.

    dropout: the probability to drop a number after the embedding, the attention and each map of the MLP; attention: to
    drop a weight of the attention; beta: inverse temperature of the Langevin steps, in units of the layer's own scale
    """

    dropout: Tensor | None = None
    attention: Tensor | None = None
    beta: Tensor | None = None


@dataclass(frozen=True)
class Shape:
    """Sizes of a network: tokens of an image, pixels of a token, and those of the transformer.

    position: the standard deviation of the position embeddings at the start; tokens have about one after their map
    """

    tokens: int
    pixels: int
    width: int = 64
    heads: int = 4
    layers: int = 4
    hidden: int = 128
    position: float = 0.1


class Networks(nn.Module):
    """M vision transformers (pre-norm, mean of the tokens) whose parameters (M, ...) are those of single networks.

    Network m starts as a function of seeds[m], so that networks with equal seeds have equal weights.
    """

    def __init__(self, shape: Shape, seeds: list[int]) -> None:
        super().__init__()
        self.shape = shape
        made = [_weights(shape, torch.Generator().manual_seed(seed)) for seed in seeds]
        for name in made[0]:
            self.register_parameter(name, nn.Parameter(torch.stack([one[name] for one in made])))

    def forward(self, x: Tensor, training: Regularization | None = None) -> Tensor:
        """Logits (M, B, classes) of images (M, B, tokens, pixels); without `training`, nothing is random."""
        on = training or Regularization()
        x = _dropped(self._map("embed", x) + self.position[:, None], on.dropout)
        for i in range(self.shape.layers):
            read = self._attended(self._map(f"qkv{i}", self._norm(f"first{i}", x)), on)
            x = x + _dropped(self._map(f"out{i}", read), on.dropout)
            hidden = gelu(self._map(f"up{i}", self._norm(f"second{i}", x)))
            x = x + _dropped(self._map(f"down{i}", _dropped(hidden, on.dropout)), on.dropout)
        return self._map("head", self._norm("last", x).mean(2, keepdim=True))[:, :, 0]

    def _attended(self, qkv: Tensor, on: Regularization) -> Tensor:
        """Multi-head attention of queries, keys and values (M, B, tokens, 3 width): (M, B, tokens, width)."""
        (M, B, T, _), heads = qkv.shape, self.shape.heads
        q, k, v = qkv.reshape(M * B, T, 3, heads, -1).permute(2, 0, 3, 1, 4)
        if on.beta is not None:
            beta = (on.beta / math.sqrt(q.shape[-1])).repeat_interleave(B)[:, None, None, None]
            q = langevin_states(q, k, n_steps=STEPS, alpha=ALPHA, beta=beta)
        if on.attention is None:
            read = scaled_dot_product_attention(q, k, v)
        else:  # torch's attention takes one probability for all networks
            weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
            read = _dropped(weights.unflatten(0, (M, B)), on.attention).flatten(0, 1) @ v
        return read.transpose(1, 2).reshape(M, B, T, -1)

    def _map(self, name: str, x: Tensor) -> Tensor:
        """A linear map of each network: (M, B, tokens, in) -> (M, B, tokens, out)."""
        weight, bias = getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias")
        return torch.baddbmm(bias[:, None], x.flatten(1, 2), weight).unflatten(1, x.shape[1:3])

    def _norm(self, name: str, x: Tensor) -> Tensor:
        scale, shift = (getattr(self, f"{name}_{part}")[:, None, None] for part in ("scale", "shift"))
        return torch.addcmul(shift, layer_norm(x, x.shape[-1:]), scale)


def _weights(shape: Shape, generator: torch.Generator) -> dict[str, Tensor]:
    """The random parameters of one network; linear maps are (in, out)."""
    width = shape.width
    maps, norms = {"embed": (shape.pixels, width), "head": (width, CLASSES)}, ["last"]
    for i in range(shape.layers):
        maps |= {f"qkv{i}": (width, 3 * width), f"out{i}": (width, width)}
        maps |= {f"up{i}": (width, shape.hidden), f"down{i}": (shape.hidden, width)}
        norms += [f"first{i}", f"second{i}"]
    made = {"position": shape.position * torch.randn(shape.tokens, width, generator=generator)}
    for name, size in maps.items():
        made[f"{name}_weight"] = torch.randn(size, generator=generator) / math.sqrt(size[0])
        made[f"{name}_bias"] = torch.zeros(size[1])
    for name in norms:
        made |= {f"{name}_scale": torch.ones(width), f"{name}_shift": torch.zeros(width)}
    return made


def _dropped(x: Tensor, p: Tensor | None) -> Tensor:
    """Dropout of x (M, ...) with a probability for each of M networks, (M,)."""
    if p is None:
        return x
    p = p.view(-1, *[1] * (x.ndim - 1))
    return x * ((torch.rand_like(x) >= p) / (1 - p))
