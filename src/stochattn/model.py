"""StochasticAttention: one object for the common path. It holds no arithmetic; it chooses beta and delegates."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ._backend.arrays import Array, device_name, to_numpy
from ._backend.checks import choice, count, one_of
from ._backend.random import seed_of
from .core import conditioning, energy
from .core.memory import MemoryBank, as_bank, fingerprint
from .core.mixture import perplexity
from .core.temperature import Temperature, choose
from .samplers import SAMPLERS, run
from .samplers.draws import Checkpoint, Draws
from .samplers.exact import draw, draws_in_blocks
from .storage.draws_file import rows_at_a_time, writable, write_rows

MOST_CHAINS = 2**14
"""Chains that are written to disk together: each has a random generator of its own, a kilobyte."""


class StochasticAttention:
    """New examples from stored ones: samples p_beta ∝ exp(−beta E) of the modern Hopfield energy. Immutable.

    memories: (K, d) array, a row per stored example, a MemoryBank, or the name of an .npy file (see `MemoryBank.open`)
    beta:     a number, or how to choose it: "natural" (draws as far from the memories as these are from each other),
              "inflection", "knee" or "leave_one_out"
    novelty:  a wanted mean novelty 1 − max cos, instead of beta
    sampler:  "exact" (the default), "ula" or "mala"
    equal_weights: weigh every memory alike, whatever its norm (see `conditioning.equalize`); for rows of unequal length

    >>> model = StochasticAttention(np.eye(4), beta=50.0)
    >>> model
    StochasticAttention(K=4 memories, d=4, beta=50 (given), sampler="exact")
    >>> model.sample(3, rng=0).shape
    (3, 4)
    """

    def __init__(
        self,
        memories: Any,
        beta: float | str = "natural",
        novelty: float | None = None,
        sampler: str = "exact",
        *,
        equal_weights: bool = False,
    ) -> None:
        bank = as_bank(memories)
        one_of("sampler", sampler, tuple(SAMPLERS))
        temperature = choose(bank, beta, novelty, equal_weights=equal_weights)
        self._equal_weights = equal_weights
        self._set(conditioning.equalize(bank, temperature.beta) if equal_weights else bank, temperature, sampler)
        if not equal_weights and bank.beta is None:
            _warn_if_few_count(bank, temperature.beta)

    def _set(self, bank: MemoryBank, temperature: Temperature, sampler: str, conditioned: bool = False) -> None:
        self._bank, self._temperature, self._sampler = bank, temperature, sampler
        self._conditioned = conditioned

    @property
    def bank(self) -> MemoryBank:
        """The memories."""
        return self._bank

    @property
    def beta(self) -> float:
        """The inverse temperature, resolved."""
        return self._temperature.beta

    @property
    def temperature(self) -> Temperature:
        """The inverse temperature, and how it was chosen."""
        return self._temperature

    @property
    def sampler(self) -> str:
        """The sampler that `sample` and `run` use unless told otherwise."""
        return self._sampler

    def sample(self, n: int, rng: Any = None, out: Any = None, progress: bool | None = None) -> Array:
        """n new examples: (n, d).

        The exact sampler draws them independently. "ula" and "mala" run n chains of 1,000 steps, started in
        equilibrium, and return their last states: independent too, and with that algorithm's own law.
        out: an .npy file to write them to instead, block by block, with seed, beta and version in a .json beside it; a
        read-only memory map of it is returned, which holds the same rows. progress: whether to show a bar, as in `run`.
        """
        n = count("n", n)
        choice("progress", progress)
        if out is not None:
            path = writable(out, n * self._bank.d * self._bank.patterns.itemsize, self._bank.source_file)
            return self._sample_to_disk(n, seed_of(rng), path, progress)
        if self._sampler == "exact":
            return draw(self._bank, self.beta, n, seed_of(rng))
        return self._last_states(n, rng, progress)

    def _last_states(self, n: int, rng: Any, progress: bool | None, first_chain: int = 0) -> Array:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="interrupted", category=RuntimeWarning)
            draws = self.run(
                n_chains=n,
                n_steps=1000,
                keep=[1000],
                start="equilibrium",
                rng=rng,
                first_chain=first_chain,
                progress=progress,
            )
        if not draws.settings.complete:  # there is nothing to return yet
            raise KeyboardInterrupt
        return draws.pooled()

    def _sample_to_disk(self, n: int, seed: int, path: Path, progress: bool | None) -> Array:
        size = rows_at_a_time(self._bank.d)
        if self._sampler == "exact":
            blocks = draws_in_blocks(self._bank, self.beta, n, seed, size)
        else:
            size = min(size, MOST_CHAINS)
            blocks = (self._last_states(min(size, n - i), seed, False, i) for i in range(0, n, size))
        settings = {
            "seed": seed,
            "beta": self.beta,
            "rule": str(self._temperature),
            "sampler": self._sampler,
            "device": device_name(self._bank.patterns),
            "memories": self._bank.source_file,
            "K": self._bank.K,
            "kept": len(self._bank.kept),
            "dtype": str(self._bank.patterns.dtype).removeprefix("torch."),
            "fingerprint": fingerprint(self._bank),
            "equal_weights": self._equal_weights,
            "conditioned": self._conditioned,
        }
        return write_rows(path, blocks, (n, self._bank.d), settings, progress)

    def run(self, *, sampler: str | None = None, beta: Any = None, **options: Any) -> Draws:
        """Chains of this model; see `stochattn.run` for the options (n_chains, n_steps, warmup, thin, start, rng)."""
        if sampler is None and not isinstance(options.get("start"), (Draws, Checkpoint)):
            sampler = self._sampler
        return run(self._bank, self.beta if beta is None else beta, sampler=sampler, **options)

    def log_density(self, xi: Any) -> Array:
        """log p_beta(xi), normalised; (..., d) -> (...)."""
        return energy.log_density(xi, self._bank, self.beta)

    def energy(self, xi: Any) -> Array:
        """E(xi) of Eq. 3; (..., d) -> (...)."""
        return energy.energy(xi, self._bank, self.beta)

    def score(self, xi: Any) -> Array:
        """∇ log p_beta(xi); (..., d) -> (..., d)."""
        return energy.score(xi, self._bank, self.beta)

    def attend(self, xi: Any, beta: float | None = None, values: Any = None) -> Array:
        """T(xi), at this beta or another (a sharp readout), of memories or other values; (..., d) -> (..., v)."""
        return energy.attend(xi, self._bank, self.beta if beta is None else beta, values)

    def retrieve(self, xi: Any, beta: float | None = None) -> Array:
        """The fixed point of attention from xi; (..., d) -> (..., d)."""
        return energy.retrieve(xi, self._bank, self.beta if beta is None else beta)

    def mask(self, keep: Any) -> StochasticAttention:
        """The same model given that only the memories `keep` exist (booleans or indices)."""
        return self._with(conditioning.mask(self._bank, keep))

    def weight(self, r: Any, subset: Any = None) -> StochasticAttention:
        """The same model with memories counted r times."""
        return self._with(conditioning.weight(self._bank, r, subset))

    def clamp(self, observed: Any, values: Any) -> StochasticAttention:
        """The model of the other coordinates, given these; `conditioning.fill` puts samples and values together."""
        return self._with(conditioning.clamp(self._bank, observed, values, self.beta))

    def with_temperature(self, temperature: Temperature) -> StochasticAttention:
        """The same model with another account of how its beta was chosen, or another beta where the bank allows it."""
        self._bank.at(temperature.beta)
        other = self._with(self._bank)
        other._set(self._bank, temperature, self._sampler, self._conditioned)
        return other

    def _with(self, bank: MemoryBank) -> StochasticAttention:
        other = object.__new__(StochasticAttention)
        other._equal_weights = self._equal_weights
        other._set(bank, self._temperature, self._sampler, conditioned=True)
        return other

    def __repr__(self) -> str:
        about = f"K={self._bank.K} memories, d={self._bank.d}"
        if len(self._bank.kept) < self._bank.K:
            about += f", {len(self._bank.kept)} kept by the mask"
        rule = str(self._temperature)
        if self._conditioned:
            rule += ", before conditioning"
        return f'StochasticAttention({about}, beta={self.beta:.6g} ({rule}), sampler="{self._sampler}")'


def sample(
    memories: Any,
    n: int,
    *,
    beta: float | str = "natural",
    rng: Any = None,
    out: Any = None,
    progress: bool | None = None,
    equal_weights: bool = False,
) -> Array:
    """n new examples like the memories, exact and independent: (n, d). See `StochasticAttention` and its `sample`.

    memories: (K, d) array, a MemoryBank, or the name of an .npy file: it is read once at opening, a few times more for
              beta="natural", and then only where rows are drawn
    out:      an .npy file to write to, in bounded memory; a read-only memory map of it is returned

    >>> sample(np.eye(4), 3, beta=50.0, rng=0).shape
    (3, 4)
    """
    return StochasticAttention(memories, beta, equal_weights=equal_weights).sample(n, rng, out, progress)


def _warn_if_few_count(bank: MemoryBank, beta: float) -> None:
    """Unequal norms let exp(beta ‖m_k‖²/2) hand everything to the longest memory; say so before it surprises."""
    log_r = to_numpy(bank.active.log_r).astype(np.float64)
    asked = perplexity(log_r - np.logaddexp.reduce(log_r))
    effective = perplexity(to_numpy(energy.mixture_log_weights(bank.active, beta)).astype(np.float64))
    if effective < asked / 2:
        warnings.warn(
            f"p_beta weighs memories by exp(beta ‖m_k‖²/2): with these norms, {effective:.1f} memories of {len(log_r)} "
            "carry it. Pass equal_weights=True, or scale rows to one length with MemoryBank(X).normalized().",
            UserWarning,
            stacklevel=3,
        )
