"""The texts of this example: sentences of eight topics, corrupted sentences, and foreign texts."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

CORRUPTIONS = ("typos", "dropped", "shuffled")
FOREIGN = ("letters", "code", "languages")
RATES = (1 / 6, 1 / 3, 2 / 3)  # share of corrupted words
LETTERS = list("abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class Texts:
    """Texts with their kind, topic (-1: none), source (index of the original sentence) and half, each (n,).

    All texts with the same source are in the same half.
    """

    text: np.ndarray
    kind: np.ndarray
    topic: np.ndarray
    source: np.ndarray
    half: np.ndarray

    def is_kind(self, *kinds: str) -> np.ndarray:
        """Whether each text has one of these kinds, (n,)."""
        return np.isin(self.kind, kinds)


def corrupted(sentence: str, kind: str, rate: float, rng: np.random.Generator) -> str:
    """The sentence with a share of its words, at least two, misspelt, dropped or permuted."""
    words = sentence.rstrip(".").split()
    chosen = rng.choice(len(words), max(2, round(rate * len(words))), replace=False)
    if kind == "dropped":
        words = [word for i, word in enumerate(words) if i not in chosen]
    elif kind == "shuffled":
        for i, word in zip(chosen, [words[i] for i in np.roll(chosen, 1)], strict=True):
            words[i] = word
    else:
        for i in chosen:
            place = rng.integers(len(words[i]))
            words[i] = words[i][:place] + str(rng.choice(LETTERS)) + words[i][place + 1 :]
    return " ".join(words) + "."


def collect(seed: int = 0, max_per_kind: int | None = None) -> Texts:
    """All texts, at most `max_per_kind` per kind and topic; each clear sentence also with three kinds of corruption."""
    rng = np.random.default_rng(seed)
    with Path(__file__).with_name("sentences.toml").open("rb") as file:
        written = tomllib.load(file)
    rows: list[tuple[str, str, int, int, int]] = []
    for topic, group in enumerate(written["topics"].values()):
        for kind in ("clear", "mixed"):
            for i, sentence in enumerate(group[kind][:max_per_kind]):
                known = (topic, len(rows), (i + topic) % 2)
                rows.append((sentence, kind, *known))
                if kind == "clear":
                    rows += [(corrupted(sentence, name, RATES[i % 3], rng), name, *known) for name in CORRUPTIONS]
    # three random words of six letters have about as many tokens as a sentence
    letters = [" ".join("".join(rng.choice(LETTERS, 6)) for _ in range(3)) + "." for _ in range(16)]
    for kind, texts in {"letters": letters, **written["foreign"]}.items():
        rows += [(text, kind, -1, len(rows) + i, (i + 1) % 2) for i, text in enumerate(texts[:max_per_kind])]
    return Texts(*(np.array(column) for column in zip(*rows, strict=True)))
