"""A small character-level GPT-2 with random weights, and its training on the documentation of Python."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
VOCABULARY = len(CHARACTERS)
WINDOW = 64


def small_gpt2(initializer_range: float, seed: int) -> GPT2LMHeadModel:
    """GPT-2 with four layers, four heads, width 64, random weights and no dropout."""
    torch.manual_seed(seed)
    size = {"vocab_size": VOCABULARY, "n_positions": 128, "n_embd": 64, "n_layer": 4, "n_head": 4}
    no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    no_ends = {"bos_token_id": None, "eos_token_id": None}
    return GPT2LMHeadModel(GPT2Config(**size, **no_dropout, **no_ends, initializer_range=initializer_range)).eval()


def documentation() -> tuple[torch.Tensor, torch.Tensor]:
    """The language documentation in every Python installation as character codes: training and held-out text."""
    from pydoc_data.topics import topics

    number = {character: i for i, character in enumerate(CHARACTERS)}
    text = "\n".join(topics[name] for name in sorted(topics))
    numbers = torch.tensor([number.get(character, number[" "]) for character in text])
    return numbers[: 9 * len(numbers) // 10], numbers[9 * len(numbers) // 10 :]


def train(model: GPT2LMHeadModel, text: torch.Tensor, n_steps: int, seed: int, on_step: Callable[[], None]) -> None:
    """Train the model to predict the next character on 32 random windows per step; calls `on_step` after each."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=n_steps, pct_start=0.1)
    for _ in range(n_steps):
        loss = cost_per_character(model, text, 32, generator)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        on_step()


def cost_per_character(
    model: GPT2LMHeadModel, text: torch.Tensor, n_windows: int, generator: torch.Generator
) -> torch.Tensor:
    """Mean −log p of a character, in nats, over random windows of the text."""
    starts = torch.randint(len(text) - WINDOW, (n_windows, 1), generator=generator)
    x = text[starts + torch.arange(WINDOW + 1)]
    return cross_entropy(model(x[:, :-1]).logits.flatten(0, 1), x[:, 1:].flatten())
