"""A classifier that is one HopfieldMemory of labeled rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from stochattn.nn import HopfieldMemory

BETAS = 2.0 ** np.arange(0, 12, 0.25)  # for unit rows: from an average of nearly all rows to the nearest row alone
USUAL = 32.0  # a row whose cosine is 0.1 larger than another's then has 25 times its weight


class Reason(NamedTuple):
    """A stored row, its label and its weight in an answer."""

    row: int
    label: str
    weight: float


@dataclass(frozen=True)
class OneMemory:
    """Labeled unit rows (K, d). A query reads the weighted average of the labels, softmax(beta X q) Y.

    beta has the highest likelihood of every label given the other rows (leave-one-out), so that the average is a
    probability. log beta has a normal prior with standard deviation 1 around log 32, which matters where the other rows
    classify every row, since the likelihood then has no maximum. A query is a stranger if its density is below that of
    all but a share of the rows, each given the others.
    """

    memory: HopfieldMemory
    labels: np.ndarray  # (K,)
    classes: np.ndarray
    threshold: float

    @classmethod
    def fit(cls, rows: np.ndarray, labels: np.ndarray, share: float = 0.05) -> OneMemory:
        """The memory of unit rows (K, d) with labels (K,); share: that of known items that may be flagged."""
        classes = np.unique(labels)
        X, Y = torch.tensor(rows), torch.tensor(labels[:, None] == classes, dtype=torch.float64)
        memory = min((HopfieldMemory(X, beta=beta, values=Y) for beta in BETAS), key=_left_out_cost)
        threshold = np.quantile(memory.log_density(X, mask=_others(X)).numpy(), share, method="inverted_cdf")
        return cls(memory, labels, classes, float(threshold))

    def probabilities(self, queries: np.ndarray) -> np.ndarray:
        """The probability of each class for unit queries (n, d): (n, classes)."""
        return np.asarray(self.memory(torch.tensor(queries), n_steps=0))

    def log_density(self, queries: np.ndarray) -> np.ndarray:
        """log p_beta of unit queries (n, d): low for strangers; (n,)."""
        return np.asarray(self.memory.log_density(torch.tensor(queries)))

    def is_stranger(self, queries: np.ndarray) -> np.ndarray:
        """Whether unit queries (n, d) are strangers: (n,)."""
        return self.log_density(queries) < self.threshold

    def reasons(self, query: np.ndarray, n: int = 3) -> list[Reason]:
        """The n rows with the largest weights in the answer for a query (d,); all weights add up to one."""
        weights = self.memory.weights(torch.tensor(query)).numpy()
        return [Reason(int(k), str(self.labels[k]), float(weights[k])) for k in np.argsort(-weights)[:n]]

    def forget(self, rows: list[int]) -> OneMemory:
        """The memory of the other rows; beta and the threshold are chosen again, since the rows had a part in them."""
        left = self.memory.remove(rows)
        return OneMemory.fit(left.patterns.numpy(), np.delete(self.labels, rows))


def _left_out_cost(memory: HopfieldMemory) -> float:
    """Minus the log of the prior of beta and of the probability of every label given the other rows."""
    read = memory(memory.patterns, n_steps=0, mask=_others(memory.patterns))
    log_prior = -(math.log(float(memory.beta) / USUAL) ** 2) / 2
    return float(-(read * memory.values).sum(-1).clamp_min(1e-300).log().sum()) - log_prior


def _others(rows: torch.Tensor) -> torch.Tensor:
    return ~torch.eye(len(rows), dtype=torch.bool)
