"""Stored items of every kind, made up, with names that try to break out of a page."""

import numpy as np
import pandas as pd

from stochattn import pipeline
from stochattn.data.images import ImageCodec
from stochattn.data.proteins import ProteinCodec
from stochattn.data.returns import ReturnsCodec
from stochattn.data.tables import TableCodec

KINDS = ("protein", "image", "table", "returns")
SCRIPT = "<script>window.pwned=1</script>"
IMAGE = '"><img src=x onerror="window.pwned=1">'
NAMES = (SCRIPT, IMAGE, "'><svg onload=pwned=1>", "αβγ δ&amp;", "漢字", "🧬", "שלום עולם", "a$b_{c}^$\x00\u202e")

SOURCE = f"folder/{SCRIPT}{IMAGE}"


def names(n):
    return [f"{NAMES[i % len(NAMES)]} {i}" for i in range(n)]


def sequences(rng, n, n_positions=30):
    """A family: two ancestors, each position kept with probability 0.6 and else drawn anew."""
    ancestors = rng.integers(0, 20, (2, n_positions))
    kept = rng.random((n, n_positions)) < 0.6
    return np.where(kept, ancestors[rng.integers(2, size=n)], rng.integers(0, 21, (n, n_positions))).astype(np.uint8)


def codec(kind, K=24, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "protein":
        return ProteinCodec.fit(sequences(rng, K), names(K), notes=(f"note {SCRIPT}",))
    if kind == "image":
        blob = np.exp(-np.square(np.arange(8) - rng.uniform(2, 6, (K, 1))) / 4)
        pictures = (255 * blob[:, :, None] * blob[:, None, :]).astype(np.uint8)
        return ImageCodec.fit(pictures, names(K), [NAMES[i % 2] for i in range(K)])
    if kind == "table":
        number = rng.normal(size=K)
        columns = {
            SCRIPT: number,
            IMAGE: rng.choice(NAMES[:4], K),
            "whole": rng.integers(0, 90, K),
            "same": np.full(K, 7.5),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, K), unit="D"),
            "partly": np.where(np.arange(K) % 5 == 0, np.nan, number + rng.normal(size=K)),
        }
        return TableCodec.fit(pd.DataFrame(columns))
    return ReturnsCodec.fit(0.01 * rng.standard_t(4, (K, 4)), NAMES[:4], window=3 if K > 4 else 1)


def drawn(plan, n, seed=1):
    blocks = [batch.items for batch in pipeline.batches(plan, n, seed)]
    return pd.concat(blocks, ignore_index=True) if isinstance(blocks[0], pd.DataFrame) else np.concatenate(blocks)
