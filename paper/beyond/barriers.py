"""Barriers between memories: saddles of the energy, and the rates at which Langevin dynamics crosses them.

Along the axis of two memories of equal norm at distance s the energy is E(x) = x²/2 − log(2 cosh(beta s x/2))/beta. Its
minima are near ±s/2 and its saddle is the midpoint, so the barrier is beta ΔE = b − log 2 with b = beta s²/8. The
curvature at the saddle grows with beta, so Kramers' quadratic expansion is not exact there, and the flux through the
axis is used instead. In units of time of 1/alpha steps the mean time to cross from one memory to the other is

    T = √(π/b) e^b ∫ du e^(u²/4b) / (2 cosh u) [Φ(u/√(2b) + √(2b)) + Φ(u/√(2b) − √(2b))]  →  √(π/b) e^b π/2,

with u = beta s x/2 and the integral between the points at which a memory counts as reached. The rate 1/T depends on
beta and s through b alone, and other dimensions do not change it. Kramers' rate is √(π/2) = 1.25 times the limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, softmax

import stochattn as sa

N_NEWTON = 50
MAX_MEMORIES = 150  # whose exit rates are computed
N_NODES = 64  # of the quadrature
SETTLE = 1.5  # units of time before crossings are counted
CORE = 0.999  # a chain has reached a memory whose weight exceeds this
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
    """Crossings 1/T per unit of time between two memories of equal norm at b = beta s²/8, for b of any shape.

    A memory is reached where its weight 1/(1 + e^(−2u)) is CORE, or at its minimum near u = 2b if that is closer.

    >>> round(float(pair_rate(40.0) / (2 / math.pi * math.sqrt(40 / math.pi) * math.exp(-40))), 2)
    1.03
    """
    b = np.asarray(b, dtype=np.float64)[..., None]
    end = np.minimum(math.log(CORE / (1 - CORE)) / 2, 2 * b)
    nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
    u, wide = end * nodes, np.sqrt(2 * b)
    below = ndtr(u / wide + wide) + ndtr(u / wide - wide)
    integral = (weights * end * np.exp(u**2 / (4 * b)) / (2 * np.cosh(u)) * below).sum(-1)
    return np.sqrt(b[..., 0] / math.pi) * np.exp(-b[..., 0]) / integral


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


def log_exit_rates(patterns: Array, beta: float) -> Array:
    """Logarithms of the rates per unit of time at which memories are left: of the sum of all their pair rates.

    Exact for two memories. For more it neglects memories other than the pair at their midpoint. Of more than
    MAX_MEMORIES memories as many are chosen evenly; all others are where they lead.
    """
    chosen = np.unique(np.linspace(0, len(patterns) - 1, min(len(patterns), MAX_MEMORIES)).astype(int))
    norms = (patterns**2).sum(1)
    b = beta / 8 * np.maximum(norms[chosen, None] + norms[None] - 2 * patterns[chosen] @ patterns.T, 1e-12)
    # Apart from √b e^(−b), rates change slowly with b, so that factor is interpolated.
    grid = np.geomspace(1e-3, 300, 400)
    factor = np.log(pair_rate(grid)) + grid - 0.5 * np.log(grid)
    logs = np.interp(b, grid, factor) - b + 0.5 * np.log(b)
    logs[np.arange(len(chosen)), chosen] = -np.inf  # a memory does not cross to itself
    return logsumexp(logs, axis=1)


def crossings(
    bank: sa.MemoryBank, beta: float, sampler: str, alpha: float, n_chains: int, n_steps: int, thin: int, seed: int
) -> tuple[int, float]:
    """Crossings of chains that start in their basins, and the time observed in units of 1/alpha steps.

    A chain has crossed when the weight of another memory than the last one exceeds CORE at a kept state, so a chain
    that returns from a saddle, or that is between memories, has not. The first SETTLE units of time are not counted.
    """
    settle = round(SETTLE / alpha)
    start = np.arange(n_chains) % bank.K
    draws = sa.run(
        bank,
        beta,
        sampler=sampler,
        alpha=alpha,
        n_chains=n_chains,
        n_steps=settle + n_steps,
        thin=thin,
        warmup=0,
        start=start,
        sigma_init=1 / math.sqrt(beta),
        rng=seed,
    )
    reached = np.empty(draws.samples.shape[:2], dtype=int)
    for t in range(reached.shape[1]):  # one state at a time, since all weights of many memories need much memory
        logits = beta * (np.asarray(draws.samples[:, t]) @ bank.patterns.T)
        top = logits.max(1, keepdims=True)
        inside = np.exp(logits - top).sum(1) < 1 / CORE
        reached[:, t] = np.where(inside, logits.argmax(1), start if t == 0 else reached[:, t - 1])
    moved = np.diff(reached, axis=1, prepend=start[:, None]) != 0
    counted = thin * np.arange(1, reached.shape[1] + 1) > settle
    return int(moved[:, counted].sum()), n_chains * n_steps * alpha
