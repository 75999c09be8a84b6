"""Baselines on a CPU, each in its best configuration: the loops of the paper, vectorized NumPy, BlackJAX.

A baseline is `(patterns, alpha, n_chains, sampler) -> advance` at BETA; `advance(n_steps)` advances all chains and
returns their states (n_chains, d). Chains start at memories. Code is compiled before `advance` is returned. A test
checks each baseline against the law of its sampler.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from .shapes import BETA
from .straightforward import CHAINS

Advance = Callable[[int], Any]
SEGMENT = 100
"""Number of steps that BlackJAX compiles into one call; longer runs repeat it."""


def missing(*packages: str) -> str | None:
    """A message about the packages that are not installed, or None."""
    absent = [name for name in packages if find_spec(name) is None]
    return f"not measured: {', '.join(absent)} not installed (make bench installs it)" if absent else None


def chain_by_chain(patterns: Any, alpha: float, n_chains: int, sampler: str) -> Advance:
    """One chain after another in the full space, float64."""
    X = np.asarray(patterns, dtype=np.float64)
    chains, rng = X[np.arange(n_chains) % len(X)], np.random.default_rng(0)

    def advance(n_steps: int) -> Any:
        for i in range(n_chains):
            chains[i] = CHAINS[sampler](chains[i], X, BETA, alpha, n_steps, rng)
        return chains

    return advance


def vectorized(patterns: Any, alpha: float, n_chains: int, sampler: str) -> Advance:
    """All chains as one matrix in the full space, in the dtype of the patterns, with reused arrays and SFC64."""
    X, keys = patterns, np.ascontiguousarray(patterns.T)
    xi = X[np.arange(n_chains) % len(X)]
    rng = np.random.Generator(np.random.SFC64(0))
    noise, scale = np.empty_like(xi), math.sqrt(2 * alpha / BETA)

    def proposal_mean(xi: Any) -> tuple[Any, Any]:
        """(1 - alpha) xi + alpha attend(xi), and the log-sum-exp of the logits: (n, d) -> (n, d), (n,)."""
        weights = xi @ keys
        weights *= BETA
        top = weights.max(1, keepdims=True)
        weights -= top
        np.exp(weights, out=weights)
        total = weights.sum(1, keepdims=True)
        mean = weights @ X
        mean *= alpha / total
        mean += (1 - alpha) * xi
        return mean, (top + np.log(total))[:, 0]

    def make_noise() -> None:
        rng.standard_normal(out=noise, dtype=noise.dtype)
        np.multiply(noise, scale, out=noise)

    def ula(n_steps: int) -> Any:
        nonlocal xi
        for _ in range(n_steps):
            xi, _ = proposal_mean(xi)
            make_noise()
            xi += noise
        return xi

    def mala(n_steps: int) -> Any:
        mean, lse = proposal_mean(xi)
        half_squares = _squares(xi) / 2
        for _ in range(n_steps):
            make_noise()
            proposal = mean + noise
            back, lse_there = proposal_mean(proposal)
            half_squares_there = _squares(proposal) / 2
            log_ratio = lse_there - lse - BETA * (half_squares_there - half_squares)
            log_ratio -= BETA / (4 * alpha) * (_squares(xi - back) - _squares(noise))
            accept = np.log(rng.random(n_chains)) < log_ratio
            for old, new in ((xi, proposal), (mean, back), (lse, lse_there), (half_squares, half_squares_there)):
                old[accept] = new[accept]
        return xi

    return {"ula": ula, "mala": mala}[sampler]


def _squares(x: Any) -> Any:
    return np.einsum("ij,ij->i", x, x)


def blackjax_mala(patterns: Any, alpha: float, n_chains: int) -> Advance:
    """MALA of BlackJAX: jit, vmap over chains, scan over steps; `advance.acceptance()` is the mean of the last segment.

    Its proposal is x + step grad log p + √(2 step) eps, so step = alpha / beta. The keys are Threefry, because the
    other generators of JAX are slower on a CPU.
    """
    import blackjax
    import jax

    configuration: Any = jax.config
    configuration.update("jax_enable_x64", patterns.dtype == np.float64)
    X = jax.numpy.asarray(patterns)

    def log_density(xi: Any) -> Any:
        return jax.nn.logsumexp(BETA * (X @ xi)) - BETA / 2 * xi @ xi

    kernel = blackjax.mala(log_density, alpha / BETA)

    @jax.jit
    def segment(key: Any, states: Any) -> tuple[Any, Any, Any]:
        def step(states: Any, key: Any) -> tuple[Any, Any]:
            states, info = jax.vmap(kernel.step)(jax.random.split(key, n_chains), states)
            return states, info.acceptance_rate.mean()

        key, used = jax.random.split(key)
        states, acceptance = jax.lax.scan(step, states, jax.random.split(used, SEGMENT))
        return key, states, acceptance.mean()

    carry: Any = (jax.random.key(0), jax.vmap(kernel.init)(X[np.arange(n_chains) % len(X)]), None)
    segment(*carry[:2])[0].block_until_ready()

    def advance(n_steps: int) -> Any:
        nonlocal carry
        if n_steps % SEGMENT:
            raise ValueError(f"n_steps must be a multiple of {SEGMENT}, the length of a compiled call; got {n_steps}.")
        for _ in range(n_steps // SEGMENT):
            carry = segment(*carry[:2])
        return np.asarray(carry[1].position)

    advance.acceptance = lambda: float(carry[2])  # type: ignore[attr-defined]
    return advance
