"""A pretrained sentence encoder, two methods to draw its embeddings at random, and the spread of draws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .tasks import unit

ROWS = 64  # texts times draws in one forward pass


class Encoder:
    """The pretrained encoder with mean pooling over the tokens of a text."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder).eval()

    def tokens(self, texts: np.ndarray) -> np.ndarray:
        """Number of tokens of each text (n,), including the two special tokens."""
        return np.array([len(row) for row in self.tokenizer(list(texts))["input_ids"]])

    def __call__(self, texts: np.ndarray, n_draws: int = 1) -> np.ndarray:
        """Embeddings (n, n_draws, d) before normalization.

        Each text is repeated within a batch. Noise is independent per row, so one pass computes all draws of a text.
        """
        import torch

        order = np.argsort(self.tokens(texts), kind="stable")  # sorted by length to reduce padding
        result = np.empty((len(texts), n_draws, self.model.config.hidden_size), np.float32)
        with torch.inference_mode():
            for rows in np.array_split(order, max(1, len(order) * n_draws // ROWS)):
                batch = self.tokenizer(list(texts[rows]), padding=True, return_tensors="pt")
                batch = {name: x.repeat_interleave(n_draws, 0) for name, x in batch.items()}
                mask = batch["attention_mask"].unsqueeze(-1)
                states = self.model(**batch).last_hidden_state
                means = (states * mask).sum(1) / mask.sum(1)
                result[rows] = means.unflatten(0, (len(rows), n_draws)).numpy()
        return result


@contextmanager
def dropout(model: Any, rate: float, *, attention_only: bool = False, seed: int = 0) -> Iterator[None]:
    """A context with dropout of this rate, in all layers or only on the attention weights."""
    import torch

    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, torch.nn.Dropout)}
    before = {name: layer.p for name, layer in layers.items()}
    for name, layer in layers.items():
        layer.p = rate if not attention_only or name.endswith("attention.self.dropout") else 0.0
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model.train()
        try:
            yield
        finally:
            model.eval()
            for name, layer in layers.items():
                layer.p = before[name]


@contextmanager
def attention(model: Any, seed: int = 0, **settings: Any) -> Iterator[None]:
    """A context with stochastic attention and these settings."""
    import torch

    from stochattn.nn import stochastic

    with stochastic(model, generator=torch.Generator().manual_seed(seed), **settings):
        yield


def spread(draws: np.ndarray) -> np.ndarray:
    """1 - the mean cosine over pairs of different draws: (n, S, d) -> (n,)."""
    S = draws.shape[1]
    squares = (unit(draws).astype(float).sum(1) ** 2).sum(-1)  # S plus the cosines of all ordered pairs
    return np.asarray(1 - (squares - S) / (S * (S - 1)))
