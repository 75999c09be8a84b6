"""Attention layers: `stochastic_attention` compared with torch, without steps and per further step."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from .baselines import missing
from .measured import Results, Row, Task
from .timing import Candidate, format_seconds, ratio, side_by_side


class Layer(NamedTuple):
    """Sizes of an attention layer with as many keys as queries."""

    name: str
    batch: int
    heads: int
    length: int
    width: int
    key_heads: int | None = None
    mask: str = ""

    def __str__(self) -> str:
        heads = f"{self.heads} heads" + (f" ({self.key_heads} of keys)" if self.key_heads else "")
        sizes = f"{self.batch} x {heads} x {self.length:,} x {self.width}"
        return f"{self.name}, {sizes}{', ' + self.mask if self.mask else ''}"


CAUSAL, PADDED = "causal", "padded"
LAYERS = (
    Layer("a small encoder", 4, 8, 256, 64),
    Layer("BERT", 8, 12, 128, 64),
    Layer("BERT", 8, 12, 128, 64, mask=PADDED),
    Layer("ViT-B", 8, 12, 197, 64),
    Layer("GPT-2", 1, 12, 1024, 64),
    Layer("GPT-2", 1, 12, 1024, 64, mask=CAUSAL),
    Layer("Llama", 1, 32, 512, 128, key_heads=8, mask=CAUSAL),
)
TORCH, NONE, STEPS = "torch", "no steps", "steps"
MAX_WITHOUT_STEPS, MAX_PER_STEP = 1.1, 1.5
N_STEPS = 10
AGAINST = "torch's scaled_dot_product_attention (float32)"


def tasks(quick: bool, device: str) -> list[Task]:
    """A task for each layer."""
    rounds, target_seconds = (5, 0.05) if quick else (15, 0.2)
    layers = LAYERS[::2] if quick else LAYERS
    return [Task("layers", str(layer), partial(compare, layer, rounds, target_seconds, device)) for layer in layers]


def compare(
    layer: Layer, rounds: int, target_seconds: float, device: str, results: Results | None = None
) -> Sequence[Row]:
    """Ratios of our time to that of torch: without steps, and for a further step."""
    if line := missing("torch"):
        return [Row("layers", str(layer), AGAINST, None, target=MAX_PER_STEP, at_most=True, details=line)]
    import torch

    from stochattn.nn import stochastic_attention

    shape = (layer.batch, layer.heads, layer.length, layer.width)
    query = torch.randn(shape, device=device)
    key, value = torch.randn((2, layer.batch, layer.key_heads or layer.heads, *shape[2:]), device=device)
    masking: dict[str, Any] = {"is_causal": layer.mask == CAUSAL}
    if layer.mask == PADDED:  # lengths decrease over the batch
        lengths = layer.length - torch.arange(layer.batch, device=device) * layer.length // (2 * layer.batch)
        masking["attn_mask"] = (torch.arange(layer.length, device=device) < lengths[:, None])[:, None, None]
    torch_only = {"enable_gqa": True} if layer.key_heads else {}
    attend: Callable[..., Any] = torch.nn.functional.scaled_dot_product_attention
    ours = partial(stochastic_attention, query, key, value, **masking)
    with torch.no_grad():
        times = side_by_side(
            {
                TORCH: _calls(partial(attend, query, key, value, **masking, **torch_only)),
                NONE: _calls(ours),
                STEPS: _calls(partial(ours, n_steps=N_STEPS)),
            },
            rounds,
            target_seconds,
        )
    theirs, none = times[TORCH], times[NONE]
    steps = [(with_steps - without) / N_STEPS for with_steps, without in zip(times[STEPS], none, strict=True)]
    rows = []
    for kind, mine, maximum in (("no steps", none, MAX_WITHOUT_STEPS), ("a further step", steps, MAX_PER_STEP)):
        details = f"{format_seconds(statistics.median(mine))} against {format_seconds(statistics.median(theirs))}"
        measured = ratio(mine, theirs)
        target = maximum if device == "cpu" else None  # on a GPU the overhead of Python dominates small layers
        rows.append(Row("layers", f"{kind}, {layer}", AGAINST, measured, target=target, at_most=True, details=details))
    return rows


def _calls(call: Callable[[], Any]) -> Candidate:
    def advance(times: int) -> None:
        for _ in range(times):
            call()

    return Candidate(advance)
