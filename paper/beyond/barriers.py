"""Barriers between memories: saddles of the energy, and the rates at which Langevin dynamics crosses them.

Two memories of equal norm at distance s have the energy E(x) = x²/2 − log(2 cosh(beta s x/2))/beta along their axis. Its
minima are near ±s/2 and its saddle is the midpoint, so the barrier is beta ΔE = b − log 2 with b = beta s²/8. The
saddle is sharp: its curvature grows with beta, so Kramers' quadratic expansion is not exact there. The flux through
the axis is, since ∫ dx/cosh(beta s x/2) = 2π/(beta s):

    rate = (2/π) √(b/π) exp(−b)    per unit of time, which is 1/alpha steps,

√(2/π) = 0.80 times the rate of Kramers. It depends on beta and the distance through b alone, and other dimensions do
not change it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

import stochattn as sa

N_NEWTON = 50
SHARP = math.sqrt(2 / math.pi)  # the exact rate through a saddle between two memories, as a share of Kramers' rate

Array = Any


@dataclass(frozen=True, eq=False)
class Saddle:
    """A stationary point between two memories, in the coordinates of the bank.

    barrier: beta (E(saddle) − E(minimum)), for the minimum of the first memory
    rate:    crossings per unit of time out of that minimum, by Kramers' formula with the factor √(2/π)
    index:   the number of negative curvatures; 1 for a saddle
    """

    point: Array
    barrier: float
    rate: float
    index: int


def pair_rate(b: Array) -> Array:
    """Crossings per unit of time between two memories of equal norm at b = beta s²/8: (2/π) √(b/π) exp(−b)."""
    return 2 / math.pi * np.sqrt(np.asarray(b) / math.pi) * np.exp(-np.asarray(b))


def energy(x: Array, patterns: Array, beta: float) -> float:
    """½‖x‖² − logsumexp(beta patterns x)/beta."""
    return float(0.5 * x @ x - logsumexp(beta * (patterns @ x)) / beta)


def gradient(x: Array, patterns: Array, beta: float) -> Array:
    """x − attend(x), (d,)."""
    return x - softmax(beta * (patterns @ x)) @ patterns


def hessian(x: Array, patterns: Array, beta: float) -> Array:
    """I − beta Cov(patterns) under the softmax weights at x, (d, d)."""
    weights = softmax(beta * (patterns @ x))
    centred = patterns - weights @ patterns
    return np.eye(len(x)) - beta * (centred.T * weights) @ centred


def stationary(x: Array, patterns: Array, beta: float) -> Array:
    """The stationary point that Newton's method reaches from x, (d,)."""
    for _ in range(N_NEWTON):
        step = np.linalg.solve(hessian(x, patterns, beta), gradient(x, patterns, beta))
        x = x - step * min(1.0, 0.1 / max(float(np.linalg.norm(step)), 1e-300))
        if np.linalg.norm(step) < 1e-12:
            break
    return x


def minimum(k: int, patterns: Array, beta: float) -> Array:
    """The minimum of the energy in the basin of memory k, by the iteration x ← attend(x) from the memory."""
    x = patterns[k]
    for _ in range(2000):
        following = softmax(beta * (patterns @ x)) @ patterns
        if np.linalg.norm(following - x) < 1e-13:
            break
        x = following
    return x


def in_span(patterns: Array) -> Array:
    """The memories in orthonormal coordinates of their span, (K, r): outside of it the energy is ½‖x‖²."""
    _, values, basis = np.linalg.svd(np.asarray(patterns, dtype=np.float64), full_matrices=False)
    return patterns @ basis[values > 1e-10 * values[0]].T


def saddle(i: int, j: int, patterns: Array, beta: float) -> Saddle:
    """The stationary point near the midpoint of memories i and j, and the rate from i through it."""
    well = minimum(i, patterns, beta)
    point = stationary((patterns[i] + patterns[j]) / 2, patterns, beta)
    barrier = beta * (energy(point, patterns, beta) - energy(well, patterns, beta))
    curvatures = np.linalg.eigvalsh(hessian(point, patterns, beta))
    index = int((curvatures < 0).sum())
    logs = np.log(np.abs(curvatures)).sum() - np.linalg.slogdet(hessian(well, patterns, beta))[1]
    rate = SHARP * abs(curvatures[0]) / (2 * math.pi) * math.exp(-0.5 * logs - barrier)
    return Saddle(point, barrier, rate, index)


def exit_rates(patterns: Array, beta: float) -> Array:
    """Rates (K,) per unit of time at which each memory is left: the sum of `pair_rate` over all other memories.

    Exact for two memories. For more it neglects memories other than the pair at their midpoint.
    """
    gram = patterns @ patterns.T
    norms = np.diag(gram)
    b = beta / 8 * np.maximum(norms[:, None] + norms[None] - 2 * gram, 0)
    rates = pair_rate(b)
    np.fill_diagonal(rates, 0)
    return rates.sum(1)


def crossings(
    bank: sa.MemoryBank, beta: float, sampler: str, alpha: float, n_chains: int, n_steps: int, thin: int, seed: int
) -> tuple[int, float]:
    """Crossings of chains that start in equilibrium, and the time observed in units of 1/alpha steps.

    A chain has crossed when the weight of another memory exceeds CORE at a kept state, so a chain that returns from a
    saddle, or that is between memories, has not. Chains begin in the core of the memory of their start.
    """
    draws = sa.run(
        bank,
        beta,
        sampler=sampler,
        alpha=alpha,
        n_chains=n_chains,
        n_steps=n_steps,
        thin=thin,
        warmup=0,
        start=np.arange(n_chains) % bank.K,
        sigma_init=1 / math.sqrt(beta),
        rng=seed,
    )
    states = np.asarray(draws.samples, dtype=np.float64)
    current = np.arange(n_chains) % bank.K
    count = 0
    for t in range(states.shape[1]):
        weights = softmax(beta * (states[:, t] @ bank.patterns.T), axis=1)
        reached = weights.argmax(1)
        moved = (weights.max(1) > CORE) & (reached != current)
        count += int(moved.sum())
        current = np.where(moved, reached, current)
    return count, n_chains * n_steps * alpha


CORE = 0.98
