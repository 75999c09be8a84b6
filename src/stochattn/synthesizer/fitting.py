"""A fit: the stored items, how often each counts, and the generator for them, which is fitted when it is first needed.

Conditions do not change a fit: a Synthesizer shares its `Fit` with all those that `condition` makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from .._backend.arrays import Array
from .._backend.parallel import jobs_for_searches
from .._backend.products import limit_to_one_thread
from ..kinds.codec import Codec
from ..kinds.generator import LIBRARY, Adjustable, Generator
from ..kinds.kind import AnyKind, GeneratorChoice
from ..kinds.options import option_fields
from .trial import Trial


@contextmanager
def search_context(n_jobs: int | None) -> Iterator[None]:
    """A context for fits and their searches: n_jobs workers, where steps allow it, and the same bits for any number."""
    with limit_to_one_thread(LIBRARY), jobs_for_searches(n_jobs):
        yield


@dataclass(frozen=True, eq=False)
class Fit:
    """Stored items and the generator that is fitted on them. Immutable: `with_...` returns another.

    requested: the generator and options that the user requests; `choice` is what is used
    weights:   (K,) how often each stored item counts
    trial:     what chooses among generators, when one is first fitted; None where the user chose
    resolved:  options that a rule chose in an earlier session, which need not be searched again
    n_jobs:    workers of searches, as in `fit`
    """

    kind: AnyKind
    codec: Codec
    requested: GeneratorChoice
    weights: Array
    trial: Trial | None = None
    resolved: Mapping[str, object] = field(default_factory=dict)
    n_jobs: int | None = None
    _of_codec: dict[Codec, Fit] = field(default_factory=dict, init=False, repr=False)

    @property
    def choice(self) -> GeneratorChoice:
        """The generator and its options: those that the user requests, or that the trial chose."""
        if self.trial is None:
            return self.requested
        with search_context(self.n_jobs):
            return self.trial.choice

    @cached_property
    def generator(self) -> Generator:
        """The generator, without conditions, fitted when it is first needed."""
        options = replace(self.choice.options, **self.resolved)
        with search_context(self.n_jobs):
            return self.kind.fit_generator(self.choice.name, self.codec, self.weights, options)

    def with_codec(self, codec: Codec) -> Fit:
        """The fit of another codec of the same items, always the same object, so that it is fitted once."""
        if codec is self.codec:
            return self
        return self._of_codec.setdefault(codec, replace(self, codec=codec, resolved={}))

    def with_weights(self, weights: Array) -> Fit:
        """The fit with other weights (K,)."""
        return self._adjust(replace(self, weights=weights, resolved={}))

    def with_choice(self, requested: GeneratorChoice, trial: Trial | None = None) -> Fit:
        """The fit of another generator, or with other options of it."""
        return self._adjust(replace(self, requested=requested, trial=trial, resolved={}))

    def _adjust(self, other: Fit) -> Fit:
        """`other`, with the generator fitted here where it differs only in options that need no new fit."""
        fitted = vars(self).get("generator")
        if not isinstance(fitted, Adjustable) or self.choice.name != other.choice.name:
            return other
        before, after = self.choice.options, other.choice.options
        names = option_fields(type(after))
        changed = {name for name in names if getattr(before, name) != getattr(after, name)}
        if changed <= fitted.adjustable <= set(names):
            with search_context(None):
                options = {name: getattr(after, name) for name in fitted.adjustable}
                adjusted = fitted.adjusted(other.weights, **options)
            if adjusted is not None:
                vars(other)["generator"] = adjusted
        return other
