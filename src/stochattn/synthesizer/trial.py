"""A trial of generators on held-out items, which chooses the generator for "auto".

A generator is fitted on half of at most `MAX_ITEMS` stored items. The other half judges new items by three measures:
the accuracy of distinguishing them from held-out items, the share of near-copies, and the key measure of the kind. Each
becomes a loss on one scale,

    loss = (value of new items − value of stored ones) / (worst value − value of stored ones)

from 0, for held-out items, to 1. Near-copies, which are ratios, count by logarithms. A generator passes if the worst of
the three losses is at most `PASSED`. The default of the kind is tried first, and nothing else if it passes. If none
passes, a warning says so. The best is used if its loss is at most `CONVINCING`, and else the last resort.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple, cast

import numpy as np

from .._backend.arrays import Array
from .._backend.console import hide_warnings
from .._backend.products import limit_to_one_thread
from ..core.neighbors import nearest_distances, spaced_indices
from ..kinds.codec import Codec, Items
from ..kinds.comparison import share_near, two_sample_accuracy
from ..kinds.generator import LIBRARY, Description, Generator
from ..kinds.kind import AUTO, AnyKind, GeneratorChoice
from ..kinds.options import given_options, knob_of
from ..kinds.summary import Attempt, TrialRecord

MIN_ITEMS, MAX_ITEMS, MAX_VALUES = 40, 200, 2**19  # stored items that a trial needs, and the most items and values
MIN_WHOLE = 8  # the fewest items if each has several vectors, such as the days of a window, which count instead
MAX_VECTORS, MIN_DRAWS = 400, 50  # the most vectors of each set that a classifier compares, and the fewest new items
PASSED, CONVINCING = 0.5, 0.8  # losses: half-way, as in a verdict, and so far that nobody would take new items for real
NEAREST = 0.05  # share of held-out items that say what is near: five of a hundred, as one may be near by chance
N_DIVISIONS = 8  # divisions into halves that tell how much the key measure of real items varies
MAX_COPIES = 0.5  # share of copies among draws, above which copies are intended, or a condition leaves nothing else
FACTORS = (2.0, 4.0)  # by which the knob of the default is turned if it does not pass


class _Result(NamedTuple):
    """The result of one choice: its losses by measure, and how the generator describes itself; None without a fit."""

    choice: GeneratorChoice
    attempt: Attempt
    losses: tuple[float, ...]
    least: float  # the worst of the losses of values that are a standard error better
    about: Description | None

    @property
    def passed(self) -> bool:
        """Whether new items are more like held-out items than like the worst ones, as far as the measures tell."""
        return self.least <= PASSED


class _Half:
    """The fitted half of the items and the held-out half, and the measures that judge new items by both."""

    def __init__(self, kind: AnyKind, codec: Codec) -> None:
        kept = kind.measures.non_overlapping(codec, np.arange(codec.K))
        n_values = codec.features(codec.take(codec.stored, kept[:1])).size
        n = int(min(len(kept), MAX_ITEMS, max(MAX_VALUES // n_values, MIN_ITEMS)))
        chosen = np.random.default_rng(0).permutation(kept)[:n]
        self.kind, self.items, self.n_fitted = kind, codec.take(codec.stored, chosen), n // 2
        self.fitted, held_out = (codec.take(codec.stored, np.sort(half)) for half in np.split(chosen, [n // 2]))
        self.codec, self.reference = codec.refit(self.fitted), codec.refit(held_out)
        self.vectors, self.real = self._vectors(self.fitted), self._vectors(held_out)
        self.statistics = kind.measures.statistics(codec, held_out)
        self.to_fitted = nearest_distances(self.real, self.vectors)
        self.near_share = max(NEAREST, 1 / len(self.real))

    def _vectors(self, items: Items) -> Array:
        vectors = self.kind.measures.comparable(self.codec, items)
        return vectors[spaced_indices(len(vectors), MAX_VECTORS)]

    @cached_property
    def chance(self) -> tuple[float, float]:
        """Accuracies for the fitted items themselves, of vectors and of statistics."""
        return self._measure_accuracies(self.fitted, self.vectors)

    @cached_property
    def key(self) -> float:
        """How far the key measure of the fitted items is from its ideal."""
        return self._measure_key(self.fitted, self.reference)

    def _measure_accuracies(self, items: Items, vectors: Array) -> tuple[float, float]:
        """Accuracies of distinguishing items from held-out ones, by vectors and by statistics; at least one half."""
        statistics = self.kind.measures.statistics(self.codec, items)
        by_vectors = max(two_sample_accuracy(self.real, vectors), 0.5)
        if statistics is None or self.statistics is None:
            return by_vectors, 0.5
        return by_vectors, max(two_sample_accuracy(self.statistics, statistics), 0.5)

    @cached_property
    def key_error(self) -> float:
        """Standard deviation of `key` over other divisions of the same items into halves."""
        rng, values = np.random.default_rng(2), []
        for _ in range(N_DIVISIONS):
            halves = np.split(rng.permutation(2 * self.n_fitted), 2)
            first, second = (self.codec.take(self.items, np.sort(half)) for half in halves)
            with suppress(ValueError):  # of a half that cannot be read alone
                values.append(self._measure_key(first, self.codec.refit(second)))
        finite = [value for value in values if math.isfinite(value)]
        return float(np.std(finite)) if finite else 0.0

    def _measure_key(self, items: Items, reference: Codec) -> float:
        """How far the key measure of items is from its ideal; NaN if it is not measured."""
        measures, name = self.kind.measures.compare(reference, items).measures, self.kind.measures.key.name
        distances = (abs(measure.value - (measure.ideal or 0.0)) for measure in measures if measure.name == name)
        return next(distances, math.nan)

    def judge(self, choice: GeneratorChoice) -> _Result:
        """Fit a generator on the fitted half, and judge what it draws by the other."""
        kind, options, slack = self.kind, given_options(choice.options), self.kind.measures.key.slack
        try:
            generator = kind.fit_generator(choice.name, self.codec, np.ones(self.n_fitted), choice.options)
            about = generator.describe()
            items = self._draw(generator)
            vectors = self._vectors(items)
            accuracies = self._measure_accuracies(items, vectors)
            near = share_near(nearest_distances(vectors, self.vectors), self.to_fitted, self.near_share)
            first = self.codec.take(items, np.arange(min(self.n_fitted, len(items))))  # as many as fitted
            key = (self._measure_key(first, self.reference) - self.key) / (2 * slack)
            chances = self.chance if max(accuracies) > (1 + PASSED) / 2 else (0.5, 0.5)  # only if it may matter
        except ValueError as error:
            return _Result(choice, Attempt(choice.name, options, failure=str(error)), (1.0, 1.0, 1.0), 1.0, None)
        worst = max((0, 1), key=lambda i: (accuracies[i] - chances[i]) / max(1 - chances[i], 1e-9))
        accuracy, chance, n = accuracies[worst], chances[worst], min(len(vectors), len(self.real))

        def compute_losses(errors: float) -> tuple[float, ...]:
            """Losses by the three measures, of values that are this many standard errors better."""
            better = accuracy - errors * math.sqrt(accuracy * (1 - accuracy) / (2 * n))
            fewer = near - errors * math.sqrt(max(near * (1 - near), 0.0) / n)
            q = self.near_share
            of_limit = errors / math.sqrt(q * len(self.real))  # the error of the log of the limit, of few distances
            by_accuracy = (better - chance) / (1 - chance) if chance < 1 else 0.0
            by_near = (math.log(fewer / q) - of_limit) / math.log(1 / q) if fewer > q else 0.0
            by_key = key - errors * self.key_error / (2 * slack) if errors and key > PASSED else key
            values = by_accuracy, by_near, by_key if math.isfinite(by_key) else 0.0
            return tuple(float(np.clip(value, 0.0, 1.0)) for value in values)

        losses, missed = compute_losses(0.0), slack * 2 * key if math.isfinite(key) else None
        attempt = Attempt(choice.name, options, accuracy, chance, near, key_measure=missed, loss=max(losses))
        return _Result(choice, attempt, losses, max(compute_losses(1.0)), about)

    def _draw(self, generator: Generator) -> Items:
        draws = generator.sample(max(self.n_fitted, MIN_DRAWS), np.random.default_rng(1))
        items = self.codec.decode(draws.values, draws.source)
        copies = self.codec.exact_copies(items)  # a synthesizer replaces them unless stored items repeat as often
        if copies is None or not self.codec.share_repeated <= copies.mean() <= MAX_COPIES:
            return items
        return self.codec.take(items, np.flatnonzero(~copies))


@dataclass(frozen=True, eq=False)
class Trial:
    """The choice of a generator for all stored items of a codec, which is made when it is first needed.

    All synthesizers of the same items share it. It is the same for any seed, number of workers, condition and weight.
    It may differ for another order of the items, which decides the halves.
    """

    kind: AnyKind
    codec: Codec
    default: GeneratorChoice

    @classmethod
    def of(cls, kind: AnyKind, codec: Codec, name: str, choice: GeneratorChoice) -> Trial | None:
        """The trial if the user leaves the generator and its options to this package, else None."""
        return cls(kind, codec, choice) if name == AUTO and not given_options(choice.options) else None

    @property
    def is_done(self) -> bool:
        """Whether the choice is made, so that asking for it takes no time."""
        return "record" in vars(self)

    @cached_property
    def record(self) -> TrialRecord:
        """The attempts and the choice; `load` sets the record of an earlier session."""
        with limit_to_one_thread(LIBRARY), hide_warnings(), np.errstate(all="ignore"):
            return self._run()

    @property
    def choice(self) -> GeneratorChoice:
        """The generator and its options."""
        name, options = self.record.generator, self.record.options
        values = {key: tuple(x) if isinstance(x, list) else x for key, x in options.items()}
        return GeneratorChoice(name, self.kind.generators[name](**values))

    def _run(self) -> TrialRecord:
        kind, codec = self.kind, self.codec
        kept = kind.measures.non_overlapping(codec, np.arange(codec.K))
        n = len(kept)
        if n < MIN_WHOLE or n * len(kind.measures.comparable(codec, codec.take(codec.stored, kept[:1]))) < MIN_ITEMS:
            return self._record_untested(n)
        untried = f"no generator was tried on held-out {kind.items}, as half of the stored ones cannot be fitted alone."
        try:
            half = _Half(kind, codec)
            first = half.judge(self.default)
        except ValueError:  # whose reason is about a half, which the user does not know
            return self._record(self.default, note=untried)
        if first.about is None or first.passed:
            return self._record(self.default, [first], note=untried if first.about is None else "")
        results = [first]
        for choice in self._candidates(first):
            if any(result.passed for result in results):
                break
            results.append(half.judge(choice))
        best = min(results, key=lambda result: (not result.passed, max(result.losses)))
        if best.passed or (best.least <= CONVINCING and not first.about.doubt):
            return self._record_best(half, first, best, results)
        warning = self._warning(first.about.doubt or self._failure(best))
        if not kind.last_resort:
            return self._record(best.choice, results, warning=warning)
        results.append(half.judge(self._last_resort))
        return self._record(self._last_resort, results, warning=warning)

    def _candidates(self, first: _Result) -> Iterator[GeneratorChoice]:
        """The default with its knob turned away from what fails, and the alternatives of the kind."""
        assert first.about is not None
        towards_recall = max(first.losses) > first.losses[1]
        turn = partial(turn_knob, self.default, first.about, towards_recall=towards_recall)
        yield from filter(None, map(turn, FACTORS))
        for name in self.kind.alternatives:
            yield GeneratorChoice(name, self.kind.generators[name]())

    def _record(
        self, choice: GeneratorChoice, results: Sequence[_Result] = (), warning: str = "", note: str = ""
    ) -> TrialRecord:
        options = {name: list(x) if isinstance(x, tuple) else x for name, x in given_options(choice.options).items()}
        return TrialRecord(choice.name, options, tuple(result.attempt for result in results), warning, note)

    def _record_untested(self, n: int) -> TrialRecord:
        """The default if too few items are stored to hold some out; the last resort if the default doubts itself."""
        kind, codec, default = self.kind, self.codec, self.default
        if kind.last_resort:
            with suppress(ValueError):
                doubt = kind.fit_generator(default.name, codec, np.ones(codec.K), default.options).describe().doubt
                if doubt:
                    return self._record(self._last_resort, warning=self._warning(doubt))
        few = f"this needs {MIN_ITEMS} stored ones, and there are {n}"
        return self._record(default, note=f"generators were not compared on held-out {kind.items}: {few}.")

    @property
    def _last_resort(self) -> GeneratorChoice:
        return GeneratorChoice(self.kind.last_resort, self.kind.generators[self.kind.last_resort]())

    def _record_best(self, half: _Half, first: _Result, best: _Result, results: list[_Result]) -> TrialRecord:
        """The best, or the default if it is convincing and within the standard error of a loss by accuracy."""
        is_better = max(best.losses) <= max(first.losses) - math.sqrt(0.5 / half.n_fitted)
        choice, items = first if first.least <= CONVINCING and not is_better else best, self.kind.items
        new, old = (_describe_choice(result.choice) for result in (choice, first))
        warning = note = ""
        if not best.passed:
            failure = f"with {new}, which is used, {self._failure(choice)}"
            remedy = f"Store more {items} that are alike, and look at new ones before you use them"
            warning = f"None of the generators passes a trial on held-out {items}: {failure}. {remedy}."
        elif choice is first:
            note = f"with {new}, which is used, {self._failure(first)}; no generator is better by more than chance."
        if choice is not first:
            note = f"generator {new} was chosen on held-out {items}, because with {old} {self._failure(first)}."
        return self._record(choice.choice, results, warning=warning, note=note)

    def _failure(self, result: _Result) -> str:
        items, attempt = self.kind.items, result.attempt
        worst = int(np.argmax(result.losses))
        if worst == 0:
            return f"a classifier tells new {items} from held-out ones with an accuracy of {attempt.two_sample:.2f}"
        if worst == 1:
            share = f"{attempt.near_copies:.0%} of new {items}"
            return f"{share} are as near to a stored one as {NEAREST:.0%} of held-out ones are"
        return f"{self.kind.measures.key.failure} ({self.kind.measures.key.name})"

    def _warning(self, reason: str) -> str:
        items, n = self.kind.items, self.codec.K
        used = f"'{self.kind.last_resort}' is used. " if self.kind.last_resort else ""
        remedy = f"Store more {items} that are alike, or pass trial=False for the default '{self.default.name}'"
        return f"None of the generators produces convincing {items} from these {n}: {reason}. {used}{remedy}."


def turn_knob(
    choice: GeneratorChoice, about: Description, factor: float, *, towards_recall: bool
) -> GeneratorChoice | None:
    """A choice with its knob turned by a factor from where a fit set it; None without a knob or at its end."""
    named = knob_of(type(choice.options))
    if named is None:
        return None
    name, knob = named
    value = about.resolved.get(name, about.temperature.beta if about.temperature is not None else None)
    places = [value] if knob.place is None else list(cast(Sequence[object], value or ()))
    number = places[knob.place or 0] if places else None
    if not isinstance(number, int | float) or not number:
        return None
    is_up = (knob.recalls_at == "high") is towards_recall
    least, most = (-math.inf if knob.low is None else knob.low), (math.inf if knob.high is None else knob.high)
    turned = min(max(number * factor if is_up else number / factor, least), most)
    if turned == number:
        return None
    places[knob.place or 0] = turned
    new = turned if knob.place is None else tuple(places)
    resolved = {key: x for key, x in about.resolved.items() if key in vars(choice.options) and key != "scale_rule"}
    return replace(choice, options=replace(choice.options, **{**resolved, name: new}))


def _describe_choice(choice: GeneratorChoice) -> str:
    options = given_options(choice.options).items()
    words = (f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}" for name, value in options)
    return f"{choice.name} ({', '.join(words)})" if options else choice.name
