"""From a codec to new items: choose beta, condition, draw block by block, decode. It knows both codecs and samplers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ._backend.arrays import Array, to_numpy
from ._backend.checks import one_of
from ._backend.random import Purpose, generator
from .core import conditioning, temperature
from .core.memory import MemoryBank
from .core.mixture import Mixture, perplexity
from .core.neighbors import nearest_rows
from .core.temperature import RULES
from .data.legacy import Batch, Codec, InputError, Native
from .data.selection import select, weighting
from .model import StochasticAttention

RULE_NAMES = tuple(name.replace("_", "-") for name in RULES)
TARGETS = ("native", "paper")
BLOCK, BLOCK_NUMBERS = 4096, 2**23
"""Items drawn at a time; fewer where they hold more numbers than this together. Part of what makes a result repeatable:
block b's random numbers depend on (seed, b)."""
CHAIN_STEPS = 1000
FEW = 3
"""Stored items that count, below which a plan says how few they are."""
SCARCE = 8
"""Stored items below which a note says that they are hardly enough."""
MEASURED, MEASURED_CLASSES = 4096, 40_000
"""Draws that a prediction of the exact law is made of, where it has no closed form: novelty, shares of classes."""


@dataclass(frozen=True, eq=False)
class Plan:
    """All that is decided before the first draw."""

    codec: Codec
    model: StochasticAttention
    mixture: Mixture  # of coordinates; conditioned where something is fixed
    rule: str  # how beta was chosen
    fixed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    native: Native | None = None  # this kind's own sampler, where that is the target

    @property
    def beta(self) -> float:
        """The inverse temperature."""
        return self.model.beta

    @property
    def sampler(self) -> str:
        """exact, ula or mala; native where the target is this kind's own law."""
        return self.model.sampler if self.native is None else "native"

    def rows(self, coordinates: Array, memory: Array) -> Array:
        """Coordinates (n, d) as rows of the bank, which novelty is measured among."""
        return coordinates / self.codec.factors(self.beta)[memory]

    def novelty(self, rows: Array) -> Array:
        """1 − max cos with a kept memory: (n,)."""
        unit = self._directions
        sizes = np.linalg.norm(rows, axis=1)
        return 1 - (rows @ unit.T).max(1) / np.where(sizes > 0, sizes, 1.0)

    @cached_property
    def _directions(self) -> Array:
        kept = self.codec.coordinates.stored[self.model.bank.kept]
        lengths = np.linalg.norm(kept, axis=1, keepdims=True)
        return kept / np.where(lengths > 0, lengths, 1.0)

    @property
    def target(self) -> str:
        """What is sampled: "native", this kind's own law, or "paper", p_beta."""
        return "paper" if self.native is None else "native"

    def predicted_novelty(self) -> float:
        """The exact law's mean novelty; NaN where the target is not p_beta."""
        if self.native is not None:
            return float("nan")
        if self.fixed:
            z, k = self.mixture.sample(MEASURED, generator(0, Purpose.RULE))
            return float(self.novelty(self.rows(z, k)).mean())
        return temperature.novelty_at(self._unequal, self.beta, equal_weights=self.codec.equal_weights)

    def predicted_shares(self) -> dict[str, float]:
        """The law's share of each class, where classes are known; from draws where items say their own class.

        Empty for a native sampler whose items have the class of the stored one nearest to them: it has no closed form.
        """
        if self.codec.labels is None or (self.native is not None and not self.codec.decodes_classes):
            return {}
        weights, classes = np.exp(self.mixture.log_weights), np.array(self.codec.labels)
        if self.codec.decodes_classes:
            rng = generator(0, Purpose.RULE)
            if self.native is not None:
                items, memory = self.native.draw(MEASURED_CLASSES, rng)
            else:
                z, memory = self.mixture.sample(MEASURED_CLASSES, rng)
                items = self.codec.items(z, memory, rng)
            classes = self.codec.classes(items, memory)
            weights = np.full(len(classes), 1 / len(classes))
        return {name: float(weights[classes == name].sum()) for name in sorted(set(self.codec.labels))}

    @property
    def _unequal(self) -> Any:
        """The bank before norms were divided out of its weights."""
        bank = self.model.bank
        if bank.beta is None:
            return bank
        log_r = to_numpy(bank.log_r) + self.beta / 2 * (to_numpy(bank.norms_squared) - bank.M**2)
        return type(bank)(bank.patterns, log_r)


def plan(
    codec: Codec,
    *,
    beta: float | None = None,
    novelty: float | None = None,
    rule: str | None = None,
    sampler: str = "exact",
    keep: Sequence[str] = (),
    weight: Sequence[str] = (),
    fix: Sequence[str] = (),
    target: str = "paper",
) -> Plan:
    """Choose beta for the kept and weighted items, and condition the law of draws on what is fixed.

    target: "paper" samples p_beta; "native" the law made for this kind of data, where there is one
    """
    one_of("target", target, TARGETS)
    given = [f"--{name}" for name, value in (("beta", beta), ("novelty", novelty), ("rule", rule)) if value is not None]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} both set the temperature: give one of them.")
    rule = (rule or "natural").replace("_", "-")
    if rule not in RULE_NAMES:
        raise InputError(f"--rule must be one of {', '.join(RULE_NAMES)}; got {rule!r}.")
    bank = codec.bank
    if keep:
        bank = conditioning.mask(bank, np.logical_or.reduce([select(codec, text) for text in keep]))
    for text in weight:
        chosen, ratio = weighting(codec, text)
        bank = conditioning.weight(bank, ratio, subset=chosen)
    if target == "native" and (given or sampler != "exact"):
        asked = given or [f"--sampler {sampler}"]
        raise InputError(f"{asked[0]} is for p_beta: leave it out, or pass --target paper.")
    if beta is None and novelty is None and len(bank.kept) < 2:
        raise InputError(f"--keep leaves one stored item, and the rule {rule!r} compares at least two: pass --beta.")
    if fix and sampler != "exact":
        raise InputError(f"--fix needs --sampler exact: {sampler} chains only approach the conditioned law.")
    if fix and novelty is not None:
        return _for_novelty(codec, bank, novelty, tuple(fix))
    native = codec.native(np.exp(to_numpy(bank.log_r)), fix) if target == "native" else None
    if native is not None:
        model = _beside(codec, bank)
        mixture = Mixture.of(model.bank, model.beta, codec.factors(model.beta))
        return Plan(codec, model, mixture, "natural", tuple(fix), (*_scarce(bank), *native.notes, native.about), native)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unequal norms are the codec's own doing, and it weighs them alike
        model = StochasticAttention(
            bank,
            beta=rule.replace("-", "_") if beta is None else beta,
            novelty=novelty,
            sampler=sampler,
            equal_weights=codec.equal_weights,
        )
    return _at(codec, model, tuple(fix))


def _scarce(bank: MemoryBank) -> tuple[str, ...]:
    """A note where very few stored items count."""
    if len(bank.kept) >= SCARCE:
        return ()
    return (f"only {len(bank.kept)} stored items count: new ones are guesses around them. Twenty or more are meant.",)


def _beside(codec: Codec, bank: MemoryBank) -> StochasticAttention:
    """p_beta beside a native sampler, which needs none: at the natural beta, or at d/M² where duplicates leave none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return StochasticAttention(bank, equal_weights=codec.equal_weights)
        except ValueError:
            return StochasticAttention(bank, beta=bank.d / bank.M**2, equal_weights=codec.equal_weights)


def _at(codec: Codec, model: StochasticAttention, fixed: tuple[str, ...], rule: str = "") -> Plan:
    codec = copy(codec.at(model.beta, model.bank.log_r))  # what is fixed becomes part of it, and of no other plan
    mixture = Mixture.of(model.bank, model.beta, codec.factors(model.beta))
    notes: tuple[str, ...] = ()
    if fixed:
        try:
            mixture = mixture.given(*codec.observe(fixed))
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"--fix {' '.join(fixed)}: {error} Fix fewer values, or raise --variance.") from None
        codec = codec.hold(fixed)
        count = perplexity(mixture.log_weights)
        if count < FEW and len(model.bank.kept) >= 2 * FEW:
            notes = (f"what is fixed leaves {count:.1f} stored items that matter: draws stay close to them.",)
    notes = (*_scarce(model.bank), *notes)
    return Plan(codec, model, mixture, rule or _rule_text(model.temperature), fixed, notes)


def _for_novelty(codec: Codec, bank: MemoryBank, novelty: float, fixed: tuple[str, ...]) -> Plan:
    """The plan whose draws have this novelty given what is fixed, which moves them away from the memories by itself."""
    from scipy.optimize import brentq

    def planned(log_beta: float) -> Plan:
        model = StochasticAttention(bank, beta=float(np.exp(log_beta)), equal_weights=codec.equal_weights)
        return _at(codec, model, fixed, f"for novelty {novelty:g}")

    scale = np.log(bank.d / bank.M**2)
    low, high = scale - 12, scale + 12
    least, most = (planned(end).predicted_novelty() for end in (high, low))
    if not least < novelty < most:
        raise InputError(
            f"novelty={novelty:g} is out of reach with {', '.join(fixed)} fixed, which allows {least:.2f} to "
            f"{most:.2f}. Ask for one of these, or fix less."
        )
    return planned(brentq(lambda b: planned(b).predicted_novelty() - novelty, low, high, xtol=1e-4))


def draw(plan: Plan, n: int, seed: int, block: int = 0) -> tuple[Array, Array]:
    """Coordinates (n, d) of a block, and the memory of each (n,)."""
    rng = generator(seed, Purpose.DRAW, block)
    if plan.sampler == "exact":
        return plan.mixture.sample(n, rng)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="interrupted", category=RuntimeWarning)
        draws = plan.model.run(
            n_chains=n, n_steps=CHAIN_STEPS, keep=[CHAIN_STEPS], start="equilibrium", rng=int(rng.integers(2**63))
        )
    if not draws.settings.complete:
        raise KeyboardInterrupt
    rows = to_numpy(draws.pooled())
    kept = plan.model.bank.kept
    memory = kept[nearest_rows(rows, plan.codec.coordinates.stored[kept])]
    return rows * plan.codec.factors(plan.beta)[memory], memory


def draw_items(plan: Plan, n: int, seed: int, block: int = 0) -> tuple[Any, Array, Array]:
    """New items of a block, the memory of each (n,), and their rows (n, d), as drawn or as encoded."""
    if plan.native is not None:
        items, memory = plan.native.draw(n, generator(seed, Purpose.DRAW, block))
        return items, memory, plan.codec.encode(items)
    z, memory = draw(plan, n, seed, block)
    return plan.codec.items(z, memory, generator(seed, Purpose.DECODE, block)), memory, plan.rows(z, memory)


def batches(plan: Plan, n: int, seed: int) -> Iterator[Batch]:
    """n new items in blocks; the first m of n are the m items that a shorter call gives."""
    size = max(min(BLOCK, BLOCK_NUMBERS // plan.codec.p), 1)
    for first in range(0, n, size):
        items, memory, rows = draw_items(plan, min(size, n - first), seed, first // size)
        closest, extra = plan.codec.annotate(items, rows)
        yield Batch(first, items, closest, plan.novelty(rows), extra, memory)


def _rule_text(chosen: Any) -> str:
    return f"for novelty {chosen.novelty:g}" if chosen.novelty is not None else str(chosen.rule)
