"""The tasks that a signal of uncertainty should solve, and its scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from .texts import CORRUPTIONS, FOREIGN, Texts


def unit(x: np.ndarray) -> np.ndarray:
    """Normalize vectors (..., d) to length one."""
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def topic_cosines(embeddings: np.ndarray, texts: Texts) -> np.ndarray:
    """Cosines (n, topics) with the mean of the clear sentences of each topic, without the source of the text itself."""
    clear = texts.is_kind("clear")
    own = embeddings[texts.source]
    inside = clear[texts.source]
    result = np.empty((len(embeddings), texts.topic.max() + 1))
    for topic in range(result.shape[1]):
        total = embeddings[clear & (texts.topic == topic)].sum(0)
        left_out = (inside & (texts.topic == topic))[:, None] * own
        result[:, topic] = (embeddings * unit(total - left_out)).sum(1)
    return result


@dataclass(frozen=True)
class Task:
    """The target of the members (n,) of a task: a class, scored by AUROC, or a number, scored by Spearman's rho."""

    members: np.ndarray
    target: np.ndarray

    @property
    def is_class(self) -> bool:
        """Whether the target is one of two classes."""
        return self.target.dtype == bool

    def score(self, signal: np.ndarray, rows: np.ndarray) -> float:
        """AUROC or Spearman's correlation of a signal (n,) with the target, over the members in these rows."""
        rows = rows[self.members[rows]]
        if self.is_class and len(np.unique(self.target[rows])) < 2:
            return float("nan")  # a resample may miss a class
        if self.is_class:
            return float(roc_auc_score(self.target[rows], signal[rows]))
        return float(spearmanr(self.target[rows], signal[rows]).statistic)

    def skill(self, signal: np.ndarray, rows: np.ndarray) -> float:
        """The score on a scale from 0 (chance) to 1 (perfect)."""
        score = self.score(signal, rows)
        return 2 * score - 1 if self.is_class else score


def tasks_of(texts: Texts, embeddings: np.ndarray) -> dict[str, Task]:
    """The five tasks; embeddings (n, d) are those without noise."""
    cosines = topic_cosines(embeddings, texts)
    others = np.where(np.arange(cosines.shape[1]) == texts.topic[:, None], -np.inf, cosines).max(1)
    margin = np.take_along_axis(cosines, texts.topic[:, None], 1)[:, 0] - others
    displacement = 1 - (embeddings * embeddings[texts.source]).sum(1)
    clear, corrupted, foreign = texts.is_kind("clear"), texts.is_kind(*CORRUPTIONS), texts.is_kind(*FOREIGN)
    sentences = texts.is_kind("clear", "mixed")
    return {
        "wrong\ntopic": Task(sentences, margin < 0),
        "small\nmargin": Task(sentences, -margin),
        "corrupted": Task(clear | corrupted, corrupted),
        "displace-\nment": Task(corrupted, displacement),
        "foreign": Task(clear | foreign, foreign),
    }


def kinds_of(texts: Texts) -> dict[str, Task]:
    """For each kind of corruption and of foreign text: the task to separate it from clear sentences."""
    clear = texts.is_kind("clear")
    return {kind: Task(clear | texts.is_kind(kind), texts.is_kind(kind)) for kind in (*CORRUPTIONS, *FOREIGN)}


def resamples(texts: Texts, half: int, n: int, seed: int) -> list[np.ndarray]:
    """n bootstrap samples of the rows of a half; all texts with the same source are drawn together."""
    rng = np.random.default_rng(seed)
    groups = [np.flatnonzero(texts.source == source) for source in np.unique(texts.source[texts.half == half])]
    return [np.concatenate([groups[i] for i in rng.integers(len(groups), size=len(groups))]) for _ in range(n)]
