"""Attention layers: `stochastic_attention` beside torch's own, without steps and for each further step."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .measured import Results, Row, Task
from .rivals import missing
from .timing import Contestant, in_words, ratio, side_by_side

SHAPES = {
    "GPT-2, one text of 1,024 tokens": (1, 12, 1024, 64),
    "ViT-B, 8 pictures of 197 patches": (8, 12, 197, 64),
    "BERT, 8 texts of 128 tokens": (8, 12, 128, 64),
    "a small encoder, 4 texts of 256 tokens": (4, 8, 256, 64),
}
"""(batch, heads, length, width of a head), as many keys as queries."""
TORCH, NONE, STEPS = "torch", "no steps", "steps"
WITHOUT_STEPS, A_STEP = 1.1, 1.5
N_STEPS = 10
AGAINST = "torch's scaled_dot_product_attention (float32)"


def tasks(quick: bool, device: str) -> list[Task]:
    """A task for each shape, with all keys in sight and with a causal mask."""
    rounds, aim = (5, 0.05) if quick else (15, 0.2)
    shapes = list(SHAPES)[-2:] if quick else list(SHAPES)
    return [
        Task("layers", name + (", causal" if causal else ""), partial(compare, name, causal, rounds, aim, device))
        for name in shapes
        for causal in (False, True)
    ]


def compare(
    name: str, causal: bool, rounds: int, aim: float, device: str, results: Results | None = None
) -> Sequence[Row]:
    """Our time over torch's: without steps, and what a further step adds."""
    shape = SHAPES[name]
    what = f"{name}{', causal' if causal else ''} {shape}"
    if line := missing("torch"):
        return [Row("layers", what, AGAINST, None, target=A_STEP, at_most=True, details=line)]
    import torch

    from stochattn.nn import stochastic_attention

    query, key, value = torch.randn((3, *shape), device=device)
    attend: Callable[..., Any] = torch.nn.functional.scaled_dot_product_attention
    with torch.no_grad():
        times = side_by_side(
            {
                TORCH: _calls(partial(attend, query, key, value, is_causal=causal)),
                NONE: _calls(partial(stochastic_attention, query, key, value, is_causal=causal)),
                STEPS: _calls(partial(stochastic_attention, query, key, value, is_causal=causal, n_steps=N_STEPS)),
            },
            rounds,
            aim,
        )
    theirs, none = times[TORCH], times[NONE]
    steps = [(all_of_them - without) / N_STEPS for all_of_them, without in zip(times[STEPS], none, strict=True)]
    rows = []
    for kind, ours, most in (("no steps", none, WITHOUT_STEPS), ("a further step", steps, A_STEP)):
        details = f"{in_words(statistics.median(ours))} against {in_words(statistics.median(theirs))}"
        measured = ratio(ours, theirs)
        rows.append(Row("layers", f"{kind}, {what}", AGAINST, measured, target=most, at_most=True, details=details))
    return rows


def _calls(call: Callable[[], Any]) -> Contestant:
    def advance(times: int) -> None:
        for _ in range(times):
            call()

    return Contestant(advance)
