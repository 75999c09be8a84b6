"""StochasticAttention: the facade over `core` and `samplers`. It chooses beta and delegates the arithmetic."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ._backend.arrays import Array, ArrayLike, device_name, to_numpy
from ._backend.checks import choice, count, one_of
from ._backend.random import SeedLike, seed_of
from .core import conditioning, energy
from .core.conditioning import ConditionedCoordinates
from .core.memory import MemoryBank, as_bank, fingerprint
from .core.mixture import perplexity
from .core.temperature import Temperature, choose
from .samplers import SAMPLERS, run
from .samplers.draws import Checkpoint, Draws
from .samplers.exact import draw, draws_in_blocks
from .storage.mapped import rows_at_a_time, writable, write_rows

MAX_CHAINS = 2**14
"""Chains that are written to a file together: each has a random generator of its own, one kilobyte."""
CHAIN_STEPS = 1000
"""Steps of the chains that make a sample."""

Memories = MemoryBank | ArrayLike | str | os.PathLike[str]
FilePath = str | os.PathLike[str]


class StochasticAttention:
    """New examples from stored ones: samples p_beta ∝ exp(−beta E) of the modern Hopfield energy. Immutable.

    memories: (K, d) array with one row per stored example, a MemoryBank, or the name of an .npy file (see
              `MemoryBank.open`)
    beta:     a number, or the rule that chooses it: "natural" (draws are as far from the memories as these are from
              each other), "inflection", "knee" or "leave_one_out"
    novelty:  a wanted mean novelty 1 − max cos, instead of beta
    sampler:  "exact" (the default), "ula", "mala", "underdamped", or a registered one
    equal_weights: give every memory the same weight, whatever its norm (see `conditioning.equalize`); for rows of
              unequal length

    `subset`, `weight` and `condition` return the conditional model at the same beta.

    >>> model = StochasticAttention(np.eye(4), beta=50.0)
    >>> model
    StochasticAttention(K=4 memories, d=4, beta=50 (given), sampler="exact")
    >>> model.sample(3, rng=0).shape
    (3, 4)
    >>> model.condition({0: 0.5}).sample(2, rng=0)[:, 0]
    array([0.5, 0.5])
    """

    def __init__(
        self,
        memories: Memories,
        beta: float | str = "natural",
        novelty: float | None = None,
        sampler: str = "exact",
        *,
        equal_weights: bool = False,
    ) -> None:
        bank = as_bank(memories)
        self._sampler = one_of("sampler", sampler, tuple(SAMPLERS))
        self._temperature = choose(bank, beta, novelty, equal_weights=equal_weights)
        self._equal_weights = equal_weights
        self._bank = conditioning.equalize(bank, self.beta) if equal_weights else bank
        self._coordinates: ConditionedCoordinates | None = None
        self._conditioned = False
        if not equal_weights and bank.beta is None:
            _warn_if_norms_dominate(bank, self.beta)

    @property
    def bank(self) -> MemoryBank:
        """The memories; of a model with conditioned coordinates, the memories over the free ones."""
        return self._bank

    @property
    def d(self) -> int:
        """The length of a row, conditioned coordinates included."""
        return self._bank.d if self._coordinates is None else self._coordinates.d

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
        """The sampler that `sample` and `run` use by default."""
        return self._sampler

    def sample(self, n: int, rng: SeedLike = None, out: FilePath | None = None, progress: bool | None = None) -> Array:
        """n new examples: (n, d).

        The exact sampler draws them independently. The others run n chains of 1,000 steps, started in equilibrium, and
        return their last states: independent too, and with that algorithm's own law.
        out: an .npy file to write them to instead, block by block, with seed, beta and version in a .json beside it; a
        read-only memory map of it is returned, which holds the same rows. progress: whether to show a bar, as in `run`.
        """
        n = count("n", n)
        choice("progress", progress)
        if out is not None:
            path = writable(out, n * self.d * self._bank.patterns.itemsize, self._bank.source_file)
            seed = seed_of(rng)
            return write_rows(path, self._blocks(n, seed), (n, self.d), self._facts(seed), progress)
        if self._sampler == "exact":
            return self._filled(draw(self._bank, self.beta, n, seed_of(rng)))
        return self._last_states(n, rng, progress)

    def _last_states(self, n: int, rng: SeedLike, progress: bool | None, first_chain: int = 0) -> Array:
        options: dict[str, Any] = {"n_steps": CHAIN_STEPS, "keep": [CHAIN_STEPS], "start": "equilibrium"}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="interrupted", category=RuntimeWarning)
            draws = self.run(n_chains=n, rng=rng, first_chain=first_chain, progress=progress, **options)
        if not draws.settings.complete:  # there is nothing to return yet
            raise KeyboardInterrupt
        return draws.pooled()

    def _blocks(self, n: int, seed: int) -> Iterator[Array]:
        """The rows of a sample, some at a time."""
        size = rows_at_a_time(self.d)
        if self._sampler == "exact":
            yield from map(self._filled, draws_in_blocks(self._bank, self.beta, n, seed, size))
            return
        size = min(size, MAX_CHAINS)
        for begin in range(0, n, size):
            yield self._last_states(min(size, n - begin), seed, False, begin)

    def _facts(self, seed: int) -> dict[str, object]:
        """The settings that are written beside a file of samples."""
        return {
            "seed": seed,
            "beta": self.beta,
            "rule": self._temperature.rule.value,
            "novelty": self._temperature.novelty,
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

    def run(
        self,
        *,
        sampler: str | None = None,
        beta: float | Sequence[float] | Array | None = None,
        on_keep: Callable[[int, Array], object] | None = None,
        **options: Any,
    ) -> Draws:
        """Chains of this model; see `stochattn.run` for the options (n_chains, n_steps, warmup, thin, start, rng).

        States are full rows (..., d), also those of `start` and `on_keep`, with the conditioned coordinates filled in.
        """
        start, beta = options.get("start"), self.beta if beta is None else beta
        continued = isinstance(start, Draws | Checkpoint)
        sampler = self._sampler if sampler is None and not continued else sampler
        if self._coordinates is None:
            return run(self._bank, beta, sampler=sampler, on_keep=on_keep, **options)
        if start is not None and not continued and np.ndim(start) == 2:
            options["start"] = self._free(start)
        wrapped = on_keep
        if callable(on_keep):
            wrapped = lambda step, x: on_keep(step, self._filled(x))  # noqa: E731
        draws = run(self._bank, beta, sampler=sampler, on_keep=wrapped, **options)
        return replace(draws, samples=self._filled(draws.samples), settings=replace(draws.settings, d=self.d))

    def log_density(self, xi: ArrayLike) -> Array:
        """log p_beta(xi), normalised, of the free coordinates if others are conditioned; (..., d) -> (...)."""
        return energy.log_density(self._free(xi), self._bank, self.beta)

    def energy(self, xi: ArrayLike) -> Array:
        """E(xi) of Eq. 3, of the free coordinates if others are conditioned; (..., d) -> (...)."""
        return energy.energy(self._free(xi), self._bank, self.beta)

    def score(self, xi: ArrayLike) -> Array:
        """∇ log p_beta(xi), zero for conditioned coordinates; (..., d) -> (..., d)."""
        return self._filled(energy.score(self._free(xi), self._bank, self.beta), 0.0)

    def attend(self, xi: ArrayLike, beta: float | None = None, values: ArrayLike | None = None) -> Array:
        """T(xi), at this beta or another (a sharp readout), of memories or other values; (..., d) -> (..., v).

        Conditioned coordinates of the result have their values; those of xi are ignored.
        """
        attended = energy.attend(self._free(xi), self._bank, self.beta if beta is None else beta, values)
        return self._filled(attended) if values is None else attended

    def retrieve(self, xi: ArrayLike, beta: float | None = None) -> Array:
        """The fixed point of attention from xi, with the conditioned values; (..., d) -> (..., d)."""
        return self._filled(energy.retrieve(self._free(xi), self._bank, self.beta if beta is None else beta))

    def subset(self, selection: ArrayLike) -> StochasticAttention:
        """The same model with the selected memories only (booleans or indices)."""
        return self._with(conditioning.subset(self._bank, selection))

    def weight(self, r: ArrayLike, selection: ArrayLike | None = None) -> StochasticAttention:
        """The same model with memory k counted r_k times (K,), or with one ratio r for the selected memories."""
        return self._with(conditioning.weight(self._bank, r, selection))

    def condition(self, values: Mapping[int, float]) -> StochasticAttention:
        """The model given the values of some coordinates, exactly; `values` maps their indices to them.

        Its rows keep all d coordinates: samples have the values filled in, and every other method takes full rows, of
        which it ignores the conditioned coordinates. `bank` is the bank over the free coordinates.

        >>> model = StochasticAttention(np.eye(4), beta=50.0)
        >>> model.condition({0: 0.1, 2: -0.2}).sample(3, rng=0)[:, [0, 2]]
        array([[ 0.1, -0.2],
               [ 0.1, -0.2],
               [ 0.1, -0.2]])
        """
        coordinates, among_free = (self._coordinates or ConditionedCoordinates.of({}, self.d)).add(values)
        return self._with(conditioning.condition(self._bank, among_free, self.beta), coordinates)

    def with_temperature(self, temperature: Temperature) -> StochasticAttention:
        """The same model with another account of how its beta was chosen, or another beta where the bank allows it."""
        self._bank.check_beta(temperature.beta)
        other = self._with(self._bank)
        other._temperature, other._conditioned = temperature, self._conditioned
        return other

    def _with(self, bank: MemoryBank, coordinates: ConditionedCoordinates | None = None) -> StochasticAttention:
        other = object.__new__(StochasticAttention)
        other.__dict__.update(self.__dict__)
        other._bank, other._conditioned = bank, True
        other._coordinates = coordinates or self._coordinates
        return other

    def _free(self, xi: ArrayLike) -> ArrayLike:
        """The free coordinates of full rows: (..., d) -> (..., d_free)."""
        return xi if self._coordinates is None else self._coordinates.take_free(xi)

    def _filled(self, x: Array, values: float | None = None) -> Array:
        """Full rows with the conditioned values, or one value for all of these: (..., d_free) -> (..., d)."""
        return x if self._coordinates is None else self._coordinates.fill(x, values)

    def __repr__(self) -> str:
        about = f"K={self._bank.K} memories, d={self.d}"
        if len(self._bank.kept) < self._bank.K:
            about += f", {len(self._bank.kept)} selected"
        if self._coordinates is not None:
            about += f", {len(self._coordinates.indices)} coordinates conditioned"
        rule = str(self._temperature)
        if self._conditioned:
            rule += ", before conditioning"
        return f'StochasticAttention({about}, beta={self.beta:.6g} ({rule}), sampler="{self._sampler}")'


def sample(
    memories: Memories,
    n: int,
    *,
    beta: float | str = "natural",
    rng: SeedLike = None,
    out: FilePath | None = None,
    progress: bool | None = None,
    equal_weights: bool = False,
) -> Array:
    """n new examples like the memories, exact and independent: (n, d). See `StochasticAttention` and its `sample`.

    memories: (K, d) array, a MemoryBank, or the name of an .npy file: it is read once when opened, a few times more for
              beta="natural", and then only where rows are drawn
    out:      an .npy file to write to, in bounded memory; a read-only memory map of it is returned

    >>> sample(np.eye(4), 3, beta=50.0, rng=0).shape
    (3, 4)
    """
    return StochasticAttention(memories, beta, equal_weights=equal_weights).sample(n, rng, out, progress)


def _warn_if_norms_dominate(bank: MemoryBank, beta: float) -> None:
    """Unequal norms let exp(beta ‖m_k‖²/2) give all the weight to the longest memory: warn."""
    log_r = to_numpy(bank.active.log_r).astype(np.float64)
    asked = perplexity(log_r - np.logaddexp.reduce(log_r))
    effective = perplexity(to_numpy(energy.mixture_log_weights(bank.active, beta)).astype(np.float64))
    if effective < asked / 2:
        warnings.warn(
            f"p_beta weights memories by exp(beta ‖m_k‖²/2): with these norms {effective:.1f} memories of {len(log_r)} "
            "have nearly all the weight. Pass equal_weights=True, or rows of one length: MemoryBank(X).normalized().",
            UserWarning,
            stacklevel=3,
        )
