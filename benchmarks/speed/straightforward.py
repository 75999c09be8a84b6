"""Direct implementations of Algorithms 1 and 2: one chain at a time, in the full space, NumPy float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def softmax(z: Any) -> Any:
    e = np.exp(z - z.max())
    return e / e.sum()


def energy(xi: Any, X: Any, beta: float) -> float:
    z = beta * (X @ xi)
    top = z.max()
    return 0.5 * float(xi @ xi) - float(top + np.log(np.exp(z - top).sum())) / beta


def ula_chain(xi: Any, X: Any, beta: float, alpha: float, n_steps: int, rng: np.random.Generator) -> Any:
    scale = math.sqrt(2 * alpha / beta)
    for _ in range(n_steps):
        a = softmax(beta * (X @ xi))
        xi = (1 - alpha) * xi + alpha * (a @ X) + scale * rng.standard_normal(len(xi))
    return xi


def mala_chain(xi: Any, X: Any, beta: float, alpha: float, n_steps: int, rng: np.random.Generator) -> Any:
    scale = math.sqrt(2 * alpha / beta)
    for _ in range(n_steps):
        mu = (1 - alpha) * xi + alpha * (softmax(beta * (X @ xi)) @ X)
        proposal = mu + scale * rng.standard_normal(len(xi))
        mu_back = (1 - alpha) * proposal + alpha * (softmax(beta * (X @ proposal)) @ X)
        log_r = -beta * (energy(proposal, X, beta) - energy(xi, X, beta))
        log_r -= beta / (4 * alpha) * (np.sum((xi - mu_back) ** 2) - np.sum((proposal - mu) ** 2))
        if math.log(rng.random()) < log_r:
            xi = proposal
    return xi


CHAINS = {"ula": ula_chain, "mala": mala_chain}
