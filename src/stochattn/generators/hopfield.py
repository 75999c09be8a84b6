"""p_beta in feature coordinates: the paper's law, as a generator of any kind of data.

features --Coordinates--> rows of a MemoryBank --sampler--> draws --factors--> coordinates --Embedding--> arrays
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from .._backend.arrays import Array, to_numpy
from .._backend.checks import one_of
from .._backend.random import Purpose, generator
from ..core import temperature
from ..core.memory import MemoryBank
from ..core.metrics import cosine_novelty
from ..core.mixture import Mixture, perplexity
from ..core.neighbors import nearest_rows
from ..core.temperature import BetaRule, Temperature
from ..model import StochasticAttention
from ..samplers import SAMPLERS
from .base import Description, Generated
from .coordinates import Coordinates

CHAIN_STEPS = 1000
"""Steps of a Langevin chain, started in equilibrium, whose last state is a draw."""
N_MEASURED = 4096
"""Draws that a novelty is predicted from where the law has no closed form."""
MIN_MATTERING = 3
"""Stored items that explain a condition, below which a note says how few they are."""


class LinearObservation(NamedTuple):
    """A z = y, of coordinates z: A (r, d), y (r,)."""

    A: Array
    y: Array


class Embedding(Protocol):
    """Between a codec's arrays and the rows of a memory bank, fitted on the stored items. Immutable."""

    @property
    def coordinates(self) -> Coordinates:
        """The linear part."""

    @property
    def equal_weights(self) -> bool:
        """Whether the model must weigh memories alike, because their rows keep unequal lengths."""

    def at(self, beta: float) -> Self:
        """The embedding for draws at this beta."""

    def factors(self, beta: float) -> Array:
        """What turns a row drawn around memory k into coordinates: (K, 1) or (K, d)."""

    def arrays(self, coordinates: Array, source: Array, rng: np.random.Generator) -> Array:
        """Coordinates (n, d) drawn around the memories `source` (n,) as arrays of the codec: (n, ...)."""

    def observe(self, observation: Any) -> tuple[LinearObservation, Self]:
        """An observation as linear equations of coordinates, and the embedding whose arrays meet it exactly."""


@dataclass(frozen=True, eq=False)
class LinearEmbedding:
    """Features are the arrays, up to the shape of one array: the embedding of numbers that need no further reading."""

    coordinates: Coordinates
    shape: tuple[int, ...]

    @property
    def equal_weights(self) -> bool:
        """Rows that keep their lengths would weigh by them."""
        return self.coordinates.norm == "whole"

    def at(self, beta: float) -> Self:
        """The same at every beta."""
        return self

    def factors(self, beta: float) -> Array:
        """The lengths that decoding restores: (K, 1)."""
        return self.coordinates.factors(beta)

    def arrays(self, coordinates: Array, source: Array, rng: np.random.Generator) -> Array:
        """Coordinates (n, d) as arrays (n, *shape)."""
        return self.coordinates.features(coordinates).reshape(len(coordinates), *self.shape)

    def observe(self, observation: tuple[Array, Array]) -> tuple[LinearObservation, Self]:
        """Positions of features (r,) and their values (r,), as equations of coordinates."""
        return LinearObservation(*self.coordinates.observation(*observation)), self


@dataclass(frozen=True, eq=False)
class Hopfield:
    """Draws of p_beta ∝ exp(−beta E) over embedded items, with lengths restored.

    model:   the bank of the stored items at the chosen beta
    mixture: the law of coordinates, conditioned where an observation was made
    """

    embedding: Embedding
    model: StochasticAttention
    mixture: Mixture
    observation: Any = None
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        embedding: Embedding,
        weights: Array,
        *,
        beta: float | str | None = None,
        novelty: float | None = None,
        sampler: str = "exact",
    ) -> Self:
        """p_beta over the embedded items of positive weight (K,).

        beta: a number, or the rule that chooses it, "natural" by default; novelty: a wanted mean novelty instead
        sampler: "exact", or the Langevin chains that draw
        """
        one_of("sampler", sampler, tuple(SAMPLERS))
        if beta is not None and novelty is not None:
            raise ValueError(f"beta and novelty must not both be given; got beta={beta!r} and novelty={novelty!r}.")
        with np.errstate(divide="ignore"):
            bank = MemoryBank(embedding.coordinates.stored, np.log(np.asarray(weights, dtype=np.float64)))
        rule = "natural" if beta is None else beta.replace("-", "_") if isinstance(beta, str) else beta
        if isinstance(rule, str) and novelty is None and len(bank.kept) < 2:
            raise ValueError(f"one stored item is left, and the rule {rule!r} compares two. Pass beta as a number.")
        equal = embedding.equal_weights
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unequal norms are the embedding's doing, and it weighs them alike
            model = StochasticAttention(bank, beta=rule, novelty=novelty, sampler=sampler, equal_weights=equal)
        return cls._at(embedding, model)

    @classmethod
    def _at(cls, embedding: Embedding, model: StochasticAttention) -> Self:
        mixture = Mixture.of(model.bank, model.beta, embedding.factors(model.beta))
        return cls(embedding.at(model.beta), model, mixture)

    @property
    def beta(self) -> float:
        """The inverse temperature."""
        return self.model.beta

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n draws, exact or the last states of chains; rows are as drawn."""
        z, source = self._coordinates(n, rng)
        rows = z / self.embedding.factors(self.beta)[source]
        return Generated(self.embedding.arrays(z, source, rng.spawn(1)[0]), source, rows)

    def _coordinates(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        if self.model.sampler == "exact":
            return self.mixture.sample(n, rng)
        rows = to_numpy(self.model.sample(n, int(rng.integers(2**63)), progress=False))
        source = self.model.bank.kept[nearest_rows(rows, self.stored_rows)]
        return rows * self.embedding.factors(self.beta)[source], source

    def condition(self, observation: Any) -> Hopfield:
        """The law given an observation, exactly; a wanted novelty is that of the conditional law."""
        if self.model.sampler != "exact":
            raise ValueError(
                f"conditions need exact draws: {self.model.sampler!r} chains only approach the conditional law. "
                'Leave out sampler, or pass sampler="exact".'
            )
        if self.model.temperature.rule is BetaRule.NOVELTY and self.observation is None:
            return self._for_novelty(observation)
        return self._given(observation)

    def _given(self, observation: Any) -> Hopfield:
        equations, embedding = self.embedding.observe(observation)
        mixture = Mixture.of(self.model.bank, self.beta, self.embedding.factors(self.beta)).condition(*equations)
        n_mattering = perplexity(mixture.log_weights)
        few = n_mattering < MIN_MATTERING and len(self.model.bank.kept) >= 2 * MIN_MATTERING
        note = f"{n_mattering:.1f} stored items explain the condition: draws stay close to them."
        return replace(
            self, embedding=embedding, mixture=mixture, observation=observation, notes=(note,) if few else ()
        )

    def _for_novelty(self, observation: Any) -> Hopfield:
        """The conditional law at the beta that gives it the wanted novelty: a condition alone moves draws away."""
        from scipy.optimize import brentq

        novelty = float(self.model.temperature.novelty or 0.0)
        bank = self.plain_bank

        def at(log_beta: float) -> Hopfield:
            model = StochasticAttention(bank, beta=float(np.exp(log_beta)), equal_weights=self.embedding.equal_weights)
            return self._at(self.embedding, model)._given(observation)

        scale = math.log(bank.d / bank.M**2)
        low, high = scale - 12, scale + 12
        least, most = (at(end).predicted_novelty() for end in (high, low))
        if not least < novelty < most:
            raise ValueError(
                f"novelty={novelty:g} is out of reach under this condition, which allows {least:.2f} to {most:.2f}. "
                "Ask for one of these, or condition on less."
            )
        found = at(brentq(lambda b: at(b).predicted_novelty() - novelty, low, high, xtol=1e-4))
        return replace(found, model=found.model.with_temperature(Temperature(found.beta, BetaRule.NOVELTY, novelty)))

    def log_density(self, features: Array) -> Array:
        """log p_beta of rows of features (n, p), normalised; of a law without a condition."""
        if self.observation is not None:
            raise ValueError("a conditioned law lives on a subspace and has no density over all rows.")
        return self.model.log_density(self.embed(features))

    def embed(self, features: Array) -> Array:
        """Features (n, p) as rows (n, d)."""
        return self.embedding.coordinates.rows(features)

    @cached_property
    def stored_rows(self) -> Array:
        """Rows of the stored items that count: (K_kept, d)."""
        return self.embedding.coordinates.stored[self.model.bank.kept]

    def source_probabilities(self) -> Array:
        """How often each stored item is drawn around: (K,)."""
        return np.exp(self.mixture.log_weights)

    def predicted_novelty(self) -> float:
        """The mean novelty of exact draws, 1 − max cos among the rows that count."""
        if self.observation is None:
            return temperature.novelty_at(self.plain_bank, self.beta, equal_weights=self.embedding.equal_weights)
        z, source = self.mixture.sample(N_MEASURED, generator(0, Purpose.RULE))
        return float(cosine_novelty(z / self.embedding.factors(self.beta)[source], self.stored_rows).mean())

    @property
    def plain_bank(self) -> MemoryBank:
        """The bank before norms were divided out of its weights."""
        bank = self.model.bank
        if bank.beta is None:
            return bank
        log_r = to_numpy(bank.log_r) + self.beta / 2 * (to_numpy(bank.norms_squared) - bank.M**2)
        return MemoryBank(bank.patterns, log_r)

    def describe(self) -> Description:
        """The temperature and the sampler."""
        chosen = self.model.temperature
        return Description(
            "hopfield",
            f"p_beta at beta = {chosen.beta:.6g} ({chosen}), {self.model.sampler} draws",
            (*getattr(self.embedding, "notes", ()), *self.notes),
            chosen,
            self.model.sampler,
        )
