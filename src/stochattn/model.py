"""StochasticAttention: the facade over `core` and `samplers`. It chooses beta and delegates the arithmetic."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._backend.arrays import Array, ArrayLike, device_name, to_numpy
from ._backend.checks import check_choice, check_count, check_flag
from ._backend.console import hide_warnings
from ._backend.parallel import check_jobs, n_threads
from ._backend.random import SeedLike, seed_of
from .core import conditioning, energy
from .core.conditioning import ConditionedCoordinates
from .core.memory import FilePath, Memories, MemoryBank, are_columns_memories, as_bank, fingerprint
from .core.mixture import perplexity
from .core.temperature import Temperature, choose
from .samplers import SAMPLERS, run
from .samplers.draws import Checkpoint, Draws
from .samplers.exact import draw, draws_in_blocks, whole_blocks
from .samplers.loop import OnKeep
from .samplers.plan import Beta
from .storage.dask import is_dask
from .storage.mapped import check_output, rows_at_a_time, write_rows

MAX_CHAINS = 2**14  # written to a file together: each chain has its own random generator, of one kilobyte
CHAIN_STEPS = 1000  # of the chains that make a sample


@dataclass(frozen=True, init=False, eq=False, repr=False)
class StochasticAttention:
    """New examples from stored ones: samples p_beta ∝ exp(−beta E) of the modern Hopfield energy. Immutable.

    memories: (K, d) array with one row per stored example, a MemoryBank, the name of an .npy file (see
              `MemoryBank.open`), or a dask.array, which may be on many machines
    beta:     a number, or the rule that chooses it: "natural" (draws are as far from the memories as these are from
              each other), "inflection", "knee" or "leave_one_out"
    novelty:  a wanted mean novelty 1 − max cos, instead of beta
    sampler:  "exact" (the default), "ula", "mala", "underdamped", or a registered one, for `sample` and `run`
    equal_weights: give every memory the same weight, whatever its norm (see `conditioning.equalize`); for rows of
              unequal length

    `subset`, `weight` and `condition` return the conditional model at the same beta. Attributes are `bank` (over the
    free coordinates, if others are conditioned), `d`, `beta`, `temperature` (and how it was chosen) and `sampler`.

    >>> model = StochasticAttention(np.eye(4), beta=50.0)
    >>> model
    StochasticAttention(K=4 memories, d=4, beta=50 (given), sampler="exact")
    >>> model.sample(3, rng=0).shape
    (3, 4)
    """

    bank: MemoryBank
    temperature: Temperature
    sampler: str
    _equal_weights: bool
    _coordinates: ConditionedCoordinates | None
    _conditioned: bool

    def __init__(
        self,
        memories: Memories,
        beta: float | str = "natural",
        novelty: float | None = None,
        sampler: str = "exact",
        *,
        equal_weights: bool = False,
    ) -> None:
        bank, sampler = as_bank(memories), check_choice("sampler", sampler, tuple(SAMPLERS))
        if are_columns_memories(bank.patterns):
            observation = f"the {bank.d} columns of the memories have length 1, and their {bank.K} rows do not"
            how = "Columns are memories in the paper, and rows here: if X is d × K, pass X.T."
            warnings.warn(f"{observation}. {how}", UserWarning, stacklevel=2)
        temperature = choose(bank, beta, novelty, equal_weights=equal_weights)
        if equal_weights:
            bank = conditioning.equalize(bank, temperature.beta)
        elif bank.beta is None:  # unequal norms let exp(beta ‖m_k‖²/2) give all the weight to the longest memory
            log_r = to_numpy(bank.active.log_r).astype(np.float64)
            log_weights = to_numpy(energy.mixture_log_weights(bank.active, temperature.beta)).astype(np.float64)
            asked = perplexity(log_r - np.logaddexp.reduce(log_r))
            warn_if_few(perplexity(log_weights), asked, len(log_r))
        self.__dict__.update(bank=bank, temperature=temperature, sampler=sampler)
        self.__dict__.update(_equal_weights=equal_weights, _coordinates=None, _conditioned=False)

    @property
    def d(self) -> int:
        """The length of a row, conditioned coordinates included."""
        return self.bank.d if self._coordinates is None else self._coordinates.d

    @property
    def beta(self) -> float:
        """The inverse temperature, given or chosen by a rule."""
        return self.temperature.beta

    def sample(
        self,
        n: int,
        rng: SeedLike = None,
        out: FilePath | None = None,
        progress: bool | None = None,
        *,
        replace: bool = False,
        n_jobs: int | None = None,
    ) -> Array:
        """n new examples: (n, d). If the bank is a dask.array, so is the result, which draws them when it is computed.

        The exact sampler draws them independently. The others run n chains of 1,000 steps, started in equilibrium, and
        return their last states: independent too, and with the stationary distribution of that algorithm.
        out: an .npy file to write them to, block by block, with settings in a .json beside it; a read-only memory map
        of it is returned, which holds the same rows. A file that an earlier call wrote is replaced, and any other only
        with replace=True.
        n_jobs: threads of the exact sampler, by default one per core, or workers of the others (see `run`).
        """
        n, n_jobs = check_count("n", n), check_jobs(n_jobs)
        check_flag("progress", progress)
        if out is not None:
            path = check_output(out, n * self.d * self.bank.patterns.itemsize, self.bank.source_file, replace)
            seed = seed_of(rng)
            return write_rows(path, self._blocks(n, seed, n_jobs), (n, self.d), self._settings(seed), progress, replace)
        if self.sampler == "exact":
            return self._fill(draw(self.bank, self.beta, n, seed_of(rng), n_threads=n_threads(n_jobs)))
        return self._last_states(n, rng, progress, n_jobs)

    def _last_states(
        self, n: int, rng: SeedLike, progress: bool | None, n_jobs: int | None, first_chain: int = 0
    ) -> Array:
        options: dict[str, Any] = {"n_steps": CHAIN_STEPS, "keep": [CHAIN_STEPS], "start": "equilibrium"}
        with hide_warnings("interrupted"):
            draws = self.run(n_chains=n, rng=rng, first_chain=first_chain, progress=progress, n_jobs=n_jobs, **options)
        if not draws.settings.complete:  # there is nothing to return yet
            raise KeyboardInterrupt
        return draws.pooled()

    def _blocks(self, n: int, seed: int, n_jobs: int | None) -> Iterator[Array]:
        size = rows_at_a_time(self.d)
        if self.sampler == "exact":
            n_rows = whole_blocks(size, self.bank.d)
            return map(self._fill, draws_in_blocks(self.bank, self.beta, n, seed, n_rows, n_threads(n_jobs)))
        size = min(size, MAX_CHAINS)
        return (self._last_states(min(size, n - begin), seed, False, n_jobs, begin) for begin in range(0, n, size))

    def _settings(self, seed: int) -> dict[str, object]:
        bank, chosen, dtype = self.bank, self.temperature, str(self.bank.patterns.dtype).removeprefix("torch.")
        temperature = {"beta": chosen.beta, "rule": chosen.rule.value, "novelty": chosen.novelty}
        source = {"device": device_name(bank.patterns), "memories": bank.source_file}
        size = {"K": bank.K, "kept": len(bank.kept), "dtype": dtype, "fingerprint": fingerprint(bank)}
        flags = {"equal_weights": self._equal_weights, "conditioned": self._conditioned}
        return {"seed": seed, **temperature, "sampler": self.sampler, **source, **size, **flags}

    def run(
        self, *, sampler: str | None = None, beta: Beta | None = None, on_keep: OnKeep | None = None, **options: Any
    ) -> Draws:
        """Chains of this model; see `stochattn.run` for the options (n_chains, n_steps, warmup, thin, start, rng).

        States are full rows (..., d), also those of `start` and `on_keep`, with the conditioned coordinates filled in.
        """
        start = options.get("start", "memories")
        if not isinstance(start, Draws | Checkpoint):
            sampler = self.sampler if sampler is None else sampler
            if np.ndim(start) == 2:
                options["start"] = self._free(start)
        with_full_rows = (lambda step, x: on_keep(step, self._fill(x))) if callable(on_keep) else on_keep
        draws = run(self.bank, self.beta if beta is None else beta, sampler=sampler, on_keep=with_full_rows, **options)
        return replace(draws, samples=self._fill(draws.samples), settings=replace(draws.settings, d=self.d))

    def log_density(self, xi: ArrayLike) -> Array:
        """log p_beta(xi), normalized, of the free coordinates if others are conditioned; (..., d) -> (...)."""
        return energy.log_density(self._free(xi), self.bank, self.beta)

    def energy(self, xi: ArrayLike) -> Array:
        """E(xi) of Eq. 3, of the free coordinates if others are conditioned; (..., d) -> (...)."""
        return energy.energy(self._free(xi), self.bank, self.beta)

    def score(self, xi: ArrayLike) -> Array:
        """∇ log p_beta(xi), zero for conditioned coordinates; (..., d) -> (..., d)."""
        return self._fill(energy.score(self._free(xi), self.bank, self.beta), 0.0)

    def attend(self, xi: ArrayLike, beta: float | None = None, values: ArrayLike | None = None) -> Array:
        """T(xi), at this beta or another (a sharp readout), of memories or other values; (..., d) -> (..., v)."""
        attended = energy.attend(self._free(xi), self.bank, self.beta if beta is None else beta, values)
        return self._fill(attended) if values is None else attended

    def retrieve(self, xi: ArrayLike, beta: float | None = None) -> Array:
        """The fixed point of attention from xi, with the conditioned values; (..., d) -> (..., d)."""
        return self._fill(energy.retrieve(self._free(xi), self.bank, self.beta if beta is None else beta))

    def subset(self, selection: ArrayLike) -> StochasticAttention:
        """The same model with the selected memories only (booleans or indices)."""
        return self._with(bank=conditioning.subset(self.bank, selection), _conditioned=True)

    def weight(self, r: ArrayLike, selection: ArrayLike | None = None) -> StochasticAttention:
        """The same model with memory k counted r_k times (K,), or with one ratio r for the selected memories."""
        return self._with(bank=conditioning.weight(self.bank, r, selection), _conditioned=True)

    def condition(self, values: Mapping[int, float]) -> StochasticAttention:
        """The model given the values of some coordinates, exactly; `values` maps their indices to them.

        Its rows keep all d coordinates: samples have the values filled in, and every other method takes full rows, of
        which it ignores the conditioned coordinates.

        >>> model = StochasticAttention(np.eye(4), beta=50.0)
        >>> model.condition({0: 0.1, 2: -0.2}).sample(2, rng=0)[:, [0, 2]]
        array([[ 0.1, -0.2],
               [ 0.1, -0.2]])
        """
        coordinates, among_free = (self._coordinates or ConditionedCoordinates.of({}, self.d)).add(values)
        bank = conditioning.condition(self.bank, among_free, self.beta)
        return self._with(bank=bank, _coordinates=coordinates, _conditioned=True)

    def with_temperature(self, temperature: Temperature) -> StochasticAttention:
        """The same model with another record of how its beta was chosen, or at another beta if the bank allows it."""
        self.bank.check_beta(temperature.beta)
        return self._with(temperature=temperature)

    def _with(self, **changes: object) -> StochasticAttention:
        model = copy(self)
        model.__dict__.update(changes)
        return model

    def _free(self, xi: ArrayLike) -> ArrayLike:
        return xi if self._coordinates is None else self._coordinates.take_free(xi)

    def _fill(self, x: Array, values: float | None = None) -> Array:
        if self._coordinates is None:
            return x
        if is_dask(x):
            chunks, meta = (x.chunks[0], (self.d,)), np.empty((0, 0), dtype=x.dtype)
            return x.map_blocks(self._coordinates.fill, values, chunks=chunks, meta=meta)
        return self._coordinates.fill(x, values)

    def __repr__(self) -> str:
        about, rule = f"K={self.bank.K} memories, d={self.d}", str(self.temperature)
        if len(self.bank.kept) < self.bank.K:
            about += f", {len(self.bank.kept)} selected"
        if self._coordinates is not None:
            about += f", {len(self._coordinates.indices)} coordinates conditioned"
        if self._conditioned:
            rule += ", before conditioning"
        return f'StochasticAttention({about}, beta={self.beta:.6g} ({rule}), sampler="{self.sampler}")'


def sample(
    memories: Memories,
    n: int,
    *,
    beta: float | str = "natural",
    rng: SeedLike = None,
    out: FilePath | None = None,
    progress: bool | None = None,
    equal_weights: bool = False,
    replace: bool = False,
    n_jobs: int | None = None,
) -> Array:
    """n new examples like the memories, exact and independent: (n, d). See `StochasticAttention` and its `sample`.

    A file of memories is read when opened, a few times more for beta="natural", and then only where rows are drawn.

    >>> import stochattn as sa
    >>> sa.sample([[1.0, 0.0], [0.0, 1.0]], 3, beta=20.0, rng=0).shape
    (3, 2)
    """
    model = StochasticAttention(memories, beta, equal_weights=equal_weights)
    return model.sample(n, rng, out, progress, replace=replace, n_jobs=n_jobs)


def warn_if_few(effective: float, asked: float, n_kept: int) -> None:
    """Warn if norms leave less than half of the memories that multiplicities ask for, both as perplexities."""
    if effective < asked / 2:
        n = max(round(effective), 1)
        few = f"with these norms about {n} of {n_kept} memories {'has' if n == 1 else 'have'} nearly all the weight"
        remedy = "Pass equal_weights=True, or rows of one length: MemoryBank(X).normalized()."
        message = f"p_beta weights memories by exp(beta ‖m_k‖²/2): {few}. {remedy}"
        warnings.warn(message, UserWarning, stacklevel=3)
