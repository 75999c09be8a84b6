"""The texts of this example: sentences of eight topics, the same with faults, and texts of other kinds."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

CORRUPTIONS = ("typos", "dropped", "shuffled")
STRANGERS = ("letters", "code", "languages")
RATES = (1 / 6, 1 / 3, 2 / 3)  # the share of words that a corruption touches
LETTERS = list("abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class Texts:
    """Texts and what is known of them, arrays (n,): topic -1 is none, source is the sentence a text was made from.

    The texts of one source are in the same half.
    """

    text: np.ndarray
    kind: np.ndarray
    topic: np.ndarray
    source: np.ndarray
    half: np.ndarray

    def of(self, *kinds: str) -> np.ndarray:
        """Whether each text is of one of these kinds, (n,)."""
        return np.isin(self.kind, kinds)


def corrupted(sentence: str, kind: str, rate: float, rng: np.random.Generator) -> str:
    """The sentence with a share of its words misspelt, dropped or put in each other's place; two words at least."""
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


def collect(seed: int = 0, most: int | None = None) -> Texts:
    """The written texts, at most so many of a kind and topic; each clear sentence also with faults of three kinds."""
    rng = np.random.default_rng(seed)
    with Path(__file__).with_name("sentences.toml").open("rb") as file:
        written = tomllib.load(file)
    rows: list[tuple[str, str, int, int, int]] = []
    for topic, group in enumerate(written["topics"].values()):
        for kind in ("clear", "mixed"):
            for i, sentence in enumerate(group[kind][:most]):
                known = (topic, len(rows), (i + topic) % 2)
                rows.append((sentence, kind, *known))
                if kind == "clear":
                    rows += [(corrupted(sentence, fault, RATES[i % 3], rng), fault, *known) for fault in CORRUPTIONS]
    # three words of six letters have about as many tokens as a sentence
    letters = [" ".join("".join(rng.choice(LETTERS, 6)) for _ in range(3)) + "." for _ in range(16)]
    for kind, texts in {"letters": letters, **written["strangers"]}.items():
        rows += [(text, kind, -1, len(rows) + i, (i + 1) % 2) for i, text in enumerate(texts[:most])]
    return Texts(*(np.array(column) for column in zip(*rows, strict=True)))
