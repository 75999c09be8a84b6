"""p_beta in feature coordinates: the paper's distribution as a generator for any kind of data.

features --Coordinates--> rows of a MemoryBank --sampler--> draws --factors--> coordinates --embedding--> arrays
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from .._backend.arrays import Array, ArrayLike, NumpyArray, to_numpy
from .._backend.checks import check_choice
from .._backend.console import hide_warnings
from .._backend.random import Purpose, generator
from ..core import temperature
from ..core.memory import MemoryBank
from ..core.metrics import cosine_novelty
from ..core.mixture import Mixture, perplexity
from ..core.neighbors import nearest_rows
from ..core.temperature import BetaRule, Temperature
from .generator import NO_DENSITY, Description, Generated, few_sources
from .options import NORMS, HopfieldOptions
from .regions import FeatureObservation, Region, Restricted, rarity_notes

if TYPE_CHECKING:
    from ..model import StochasticAttention


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A linear map from features (n, p) to rows of a bank (n, d) and back, and the norms of the stored items.

    norm: "restored": rows have unit norm, and decoding restores the norm of the memory; "paper": rows have unit norm,
          which decoding does not change, as in the published pipeline; "whole": rows keep their own norms

    >>> import numpy as np
    >>> from stochattn.kinds import Coordinates
    >>> Coordinates.fit(np.random.default_rng(0).normal(size=(10, 4))).stored.shape
    (10, 4)
    """

    mean: NumpyArray  # (p,)
    inward: NumpyArray | None  # (p, d) from centered features to coordinates, or None for the identity
    outward: NumpyArray | None  # (d, p) from coordinates to centered features, or None for the identity
    stored: NumpyArray  # (K, d) the stored items as rows of a bank
    norms: NumpyArray  # (K,) of the stored coordinates
    norm: str
    variance: float  # share of the features' variance that the coordinates keep

    @classmethod
    def fit(
        cls,
        features: ArrayLike,
        *,
        centre: bool = True,
        variance: float | None = 1.0,
        whiten: bool = False,
        norm: str = "restored",
    ) -> Coordinates:
        """Coordinates fitted on these features (K, p).

        variance: share of the variance that principal components keep; None for no components
        whiten:   whether a shrunk covariance (Ledoit-Wolf) scales components, so that isotropic noise in rows has the
                  covariance of the data in features
        """
        values = np.asarray(features, dtype=np.float64)
        check_choice("norm", norm, NORMS)
        mean = values.mean(0) if centre else np.zeros(values.shape[1])
        z, inward, outward, kept = values - mean, None, None, 1.0
        if variance is not None or whiten:
            if not centre:
                raise ValueError("centre must be True for principal components, which are directions around the mean.")
            inward, outward, kept = _fit_components(z, 1.0 if variance is None else variance, whiten)
            z = z @ inward
        norms = np.linalg.norm(z, axis=1)
        if norm != "whole":
            zero = np.flatnonzero(norms <= 1e-9 * norms.max())
            if len(zero):
                reason = f"{'equals the mean of all' if centre else 'is all zeros'}, so it has no direction to scale"
                raise ValueError(f"item {zero[0] + 1} {reason} to unit norm. Remove it, or choose the norm 'whole'.")
            z = z / norms[:, None]
        return cls(mean, inward, outward, z, norms, norm, kept)

    @property
    def d(self) -> int:
        return int(self.stored.shape[1])

    def rows(self, features: ArrayLike) -> NumpyArray:
        """Features (n, p) as rows (n, d), of unit norm unless norm is "whole"."""
        z = np.asarray(features, dtype=np.float64) - self.mean
        z = z if self.inward is None else z @ self.inward
        if self.norm == "whole":
            return z
        lengths = np.linalg.norm(z, axis=1, keepdims=True)
        return z / np.where(lengths > 0, lengths, 1.0)

    def factors(self, beta: float = math.inf) -> NumpyArray:
        """Factors (K, 1) of rows drawn around each memory: its norm over √(1 + d/beta), the mean norm of a draw."""
        if self.norm != "restored":
            return np.ones((len(self.stored), 1))
        return self.norms[:, None] / math.sqrt(1 + self.d / beta)

    def features(self, coordinates: NumpyArray) -> NumpyArray:
        """Coordinates (n, d) as features (n, p)."""
        return self.mean + (coordinates if self.outward is None else coordinates @ self.outward)

    def observation(self, columns: ArrayLike, values: ArrayLike) -> tuple[NumpyArray, NumpyArray]:
        """Equations A z = y of coordinates z, under which the features `columns` equal `values`: (r, d) and (r,)."""
        indices = np.asarray(columns, dtype=np.intp)
        outward = np.eye(self.d) if self.outward is None else self.outward
        return outward[:, indices].T, np.asarray(values, dtype=np.float64) - self.mean[indices]


def _fit_components(centered: NumpyArray, share: float, whiten: bool) -> tuple[NumpyArray, NumpyArray, float]:
    """Principal components that keep a share of the variance: inward (p, d), outward (d, p), and the share kept."""
    if not 0 < share <= 1:
        raise ValueError(f"variance must be above 0 and at most 1; got {share:g}. 0.95 keeps 95 % of it.")
    if not np.ptp(centered, axis=0).any():
        raise ValueError("the stored items are identical, so there is no variance to keep. Store different items.")
    from scipy.linalg import svd  # scikit-learn's PCA does the same, and takes a second to import

    _, singular, directions = svd(centered - centered.mean(0), full_matrices=False)  # rounding leaves a mean
    largest = np.argmax(np.abs(directions), axis=1)
    directions *= np.sign(directions[np.arange(len(directions)), largest])[:, None]
    power = singular**2
    rank = int((singular > singular[0] * max(centered.shape) * np.finfo(float).eps).sum())
    kept = np.cumsum(power) / power.sum()
    d = rank if share == 1 else min(int(np.searchsorted(kept, share)) + 1, rank)
    basis, scale = directions[:d], np.ones(d)
    if whiten:
        from sklearn.covariance import ledoit_wolf_shrinkage

        shrinkage = float(ledoit_wolf_shrinkage(centered @ basis.T, assume_centered=True))
        variances = power[:d] / len(centered)
        scale = np.sqrt((1 - shrinkage) * variances + shrinkage * variances.mean())
    return basis.T / scale, basis * scale[:, None], float(kept[d - 1])


N_MEASURED, MIN_MATTERING = 4096, 3  # draws that predict a conditional novelty; sources below which a note says so


class LinearObservation(NamedTuple):
    """A z = y, of coordinates z: A (r, d), y (r,); and perhaps a region in which other features B z + origin lie.

    >>> import numpy as np
    >>> from stochattn.kinds import LinearObservation
    >>> LinearObservation(np.eye(1, 3), np.array([0.5])).A.shape
    (1, 3)
    """

    A: Array
    y: Array
    region: tuple[Array, Array, Region] | None = None  # B (r, d), origin (r,), and the region


@dataclass(frozen=True, eq=False)
class LinearEmbedding:
    """The map between a codec's arrays and rows of a bank. If arrays are not features, override the last two methods.

    >>> import numpy as np
    >>> from stochattn.kinds import Coordinates, LinearEmbedding
    >>> rows = np.random.default_rng(0).normal(size=(10, 4))
    >>> LinearEmbedding(Coordinates.fit(rows), (4,)).factors(beta=20.0).shape
    (10, 1)
    """

    coordinates: Coordinates
    shape: tuple[int, ...]
    conditions: tuple[Array, Array] | None = field(default=None, kw_only=True)  # positions of features (r,), and values

    @classmethod
    def of(cls, arrays: Array, options: HopfieldOptions) -> Self:
        """The embedding of stored arrays (K, ...), with the principal components and norms of these options."""
        rows = arrays.reshape(len(arrays), -1)
        coordinates = Coordinates.fit(rows, variance=options.variance, whiten=options.whiten, norm=options.norm)
        return cls(coordinates, arrays.shape[1:])

    @property
    def equal_weights(self) -> bool:
        """Whether the model must weigh memories equally, because their rows keep unequal lengths."""
        return self.coordinates.norm == "whole"

    def at(self, beta: float) -> Self:
        """The embedding for draws at this beta."""
        return self

    def factors(self, beta: float) -> Array:
        """The factors of each memory that turn rows drawn around it into coordinates: (K, 1) or (K, d)."""
        return self.coordinates.factors(beta)

    def arrays(self, coordinates: Array, source: Array, rng: np.random.Generator) -> Array:
        """Coordinates (n, d) drawn around the memories `source` (n,) as arrays (n, *shape)."""
        features = self.coordinates.features(coordinates)
        if self.conditions is not None:
            positions, values = self.conditions
            features[:, positions] = values  # exactly, without rounding errors
        return features.reshape(len(coordinates), *self.shape)

    def decode(
        self, coordinates: Array, source: Array, factors: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Arrays of coordinates (n, d) drawn around the memories `source`, and the rows (n, d) with their novelty."""
        return self.arrays(coordinates, source, rng), coordinates / factors

    def observe(self, observation: tuple[Array, Array] | FeatureObservation) -> tuple[LinearObservation, Self]:
        """Values (r,) of the features at positions (r,) as equations, and the embedding whose arrays meet them."""
        positions, values, region = FeatureObservation(*observation)
        equations = LinearObservation(*self.coordinates.observation(positions, values))
        if region is not None:
            rows, mean = self.coordinates.observation(region.positions, np.zeros(len(region.positions)))
            equations = equations._replace(region=(rows, -mean, region))
        return equations, replace(self, conditions=(positions, values))


@dataclass(frozen=True, eq=False)
class HopfieldGenerator:
    """Draws of p_beta ∝ exp(−beta E) over embedded items, with lengths restored.

    >>> import numpy as np
    >>> from stochattn.kinds import Coordinates, HopfieldGenerator, LinearEmbedding
    >>> rows = np.random.default_rng(0).normal(size=(10, 4))
    >>> generator = HopfieldGenerator.fit(LinearEmbedding(Coordinates.fit(rows), (4,)), np.ones(10))
    >>> generator.sample(3, np.random.default_rng(0)).values.shape
    (3, 4)
    """

    embedding: LinearEmbedding
    bank: MemoryBank
    beta_or_rule: float | str
    novelty: float | None  # the requested mean, for which beta is solved; None for the beta or the rule
    sampler: str
    observation: Any = None
    adjustable: ClassVar[frozenset[str]] = frozenset({"beta", "novelty"})

    @classmethod
    def fit(
        cls,
        embedding: LinearEmbedding,
        weights: Array,
        *,
        beta: float | str | None = None,
        novelty: float | None = None,
        sampler: str = "exact",
    ) -> Self:
        """p_beta over the embedded items with positive weight (K,); other arguments as in `StochasticAttention`."""
        HopfieldOptions(beta=beta, novelty=novelty, sampler=sampler)  # an impossible one is an error
        with np.errstate(divide="ignore"):
            log_r = np.log(np.asarray(weights, dtype=np.float64))
            bank = MemoryBank(embedding.coordinates.stored, log_r, copy=False)
        rule = "natural" if beta is None else beta.replace("-", "_") if isinstance(beta, str) else beta
        if isinstance(rule, str) and novelty is None and len(bank.kept) < 2:
            raise ValueError(f"one stored item is left, and the rule {rule!r} compares two. Pass beta as a number.")
        return cls(embedding, bank, rule, novelty, sampler)

    @classmethod
    def of(cls, embedding: LinearEmbedding, weights: Array, options: HopfieldOptions) -> Self:
        """p_beta over the embedded items, with the temperature and the sampler of these options."""
        return cls.fit(embedding, weights, beta=options.beta, novelty=options.novelty, sampler=options.sampler)

    def adjusted(self, weights: Array, *, beta: float | str | None = None, novelty: float | None = None) -> Self:
        """p_beta over the same embedded items, with these weights (K,) and this temperature."""
        return type(self).fit(self.embedding, weights, beta=beta, novelty=novelty, sampler=self.sampler)

    @cached_property
    def model(self) -> StochasticAttention:
        """The bank at the chosen beta. Under a condition, a requested novelty is that of the conditional mixture."""
        if self.novelty is not None and not self.has_known_novelty:
            return self._solve_for_novelty(self.novelty)
        from ..model import StochasticAttention  # and the samplers, which other generators do not need

        with hide_warnings():  # unequal norms are the embedding's doing, and it weighs them alike
            equal = self.embedding.equal_weights
            return StochasticAttention(self.bank, self.beta_or_rule, self.novelty, self.sampler, equal_weights=equal)

    @property
    def has_known_novelty(self) -> bool:
        """Whether draws have the novelty of p_beta, which the model knows."""
        return self.observation is None

    def _solve_for_novelty(self, novelty: float) -> StochasticAttention:
        from scipy.optimize import brentq

        def at(log_beta: float) -> HopfieldGenerator:
            return replace(self, beta_or_rule=float(np.exp(log_beta)), novelty=None)

        low, high = (math.log(self.bank.d / self.bank.M**2) + shift for shift in (-12, 12))
        least, most = (at(end).predicted_novelty() for end in (high, low))
        if not least < novelty < most:
            where, remedy = "of this generator", "Ask for a novelty in this range"
            if self.observation is not None:
                where, remedy = "under this condition", f"{remedy}, or condition on less"
            reach = f"which allows {least:.2f} to {most:.2f}"
            raise ValueError(f"novelty={novelty:g} is out of reach {where}, {reach}. {remedy}.")
        model = at(brentq(lambda b: at(b).predicted_novelty() - novelty, low, high, xtol=1e-4)).model
        return model.with_temperature(Temperature(model.beta, BetaRule.NOVELTY, novelty))

    @property
    def beta(self) -> float:
        return self.model.beta

    @cached_property
    def _observed(self) -> tuple[LinearObservation | None, LinearEmbedding]:
        at_beta = self.embedding.at(self.beta)
        return (None, at_beta) if self.observation is None else at_beta.observe(self.observation)

    @property
    def decoder(self) -> LinearEmbedding:
        """The embedding at this beta, whose arrays meet the condition."""
        return self._observed[1]

    @cached_property
    def mixture(self) -> Mixture:
        """The mixture of coordinates, given the equations of an observation."""
        mixture = Mixture.of(self.model.bank, self.beta, self.embedding.factors(self.beta))
        equations = self._observed[0]
        return mixture if equations is None or not len(equations.y) else mixture.condition(equations.A, equations.y)

    @cached_property
    def restricted(self) -> Restricted | None:
        """The mixture given the region of an observation too; None without a region."""
        region = None if self._observed[0] is None else self._observed[0].region
        return None if region is None else Restricted.of(self.mixture, *region)

    def _draw_exactly(self, n: int, rng: np.random.Generator) -> tuple[Array, Array, Array | None]:
        """Exact draws of coordinates (n, d), the memory of each (n,), and its features in the region, or None."""
        return (*self.mixture.sample(n, rng), None) if self.restricted is None else self.restricted.sample(n, rng)

    def sample(self, n: int, rng: np.random.Generator) -> Generated:
        """n draws, exact or the last states of chains; rows are as drawn."""
        factors, inside = self.decoder.factors(self.beta), None
        if self.sampler == "exact":
            z, source, inside = self._draw_exactly(n, rng)
        else:
            states = to_numpy(self.model.sample(n, int(rng.integers(2**63)), progress=False))
            source = self.bank.kept[nearest_rows(states, self.stored_rows)]
            z = states * factors[source]
        values, rows = self.decoder.decode(z, source, factors[source], rng.spawn(1)[0])
        if self.restricted is not None:
            values[:, self.restricted.region.positions] = inside  # the values that were accepted, without rounding
        return Generated(values, source, rows)

    def condition(self, observation: Any) -> Self:
        require_exact(self.sampler)
        conditioned = replace(self, observation=observation)
        if self.novelty is None:
            vars(conditioned)["model"] = self.model  # a condition does not change it
            _ = conditioned.mixture, conditioned.restricted  # impossible observations are an error here, not later
        return conditioned

    @property
    def acceptance(self) -> float:
        """The share of attempts that become draws; 1 unless a region is conditioned on."""
        return 1.0 if self.restricted is None else self.restricted.acceptance

    def log_density(self, features: Array) -> Array:
        if self.observation is not None:
            raise ValueError(NO_DENSITY)
        return self.model.log_density(self.embed(features))

    def embed(self, features: Array) -> Array:
        return self.embedding.coordinates.rows(features)

    @cached_property
    def stored_rows(self) -> Array:
        return self.embedding.coordinates.stored[self.bank.kept]

    def source_probabilities(self) -> Array:
        return np.exp(self.mixture.log_weights) if self.restricted is None else self.restricted.shares

    def predicted_novelty(self) -> float:
        if self.observation is None:
            return temperature.novelty_at(self.bank, self.beta, equal_weights=self.embedding.equal_weights)
        z, source, _ = self._draw_exactly(N_MEASURED, generator(0, Purpose.RULE))
        return float(cosine_novelty(z / self.decoder.factors(self.beta)[source], self.stored_rows).mean())

    def describe(self) -> Description:
        chosen, notes = self.model.temperature, tuple(getattr(self.decoder, "notes", ()))
        notes += () if self.restricted is None else rarity_notes(self.restricted.probability)
        n_mattering = perplexity(self.mixture.log_weights if self.restricted is None else self.restricted.log_shares)
        few = n_mattering < MIN_MATTERING and len(self.bank.kept) >= 2 * MIN_MATTERING
        if few and self.observation is not None:
            notes += (f"{few_sources(n_mattering, 'item')}.",)
        rule = str(chosen).replace("_", "-")  # as the option `beta` names it
        summary = f"p_beta at beta = {chosen.beta:.6g} ({rule}), {self.sampler} draws"
        return Description("hopfield", summary, notes, chosen, self.sampler)


def require_exact(sampler: str) -> None:
    """ValueError for a sampler that cannot be given conditions."""
    if sampler != "exact":
        reason = f"{sampler!r} chains only approach the conditional distribution"
        raise ValueError(f'conditions need exact draws: {reason}. Leave out sampler, or pass sampler="exact".')
