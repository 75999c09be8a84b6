"""What a page shows, computed from its settings. Nothing here knows of a browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from .._backend.arrays import Array
from .._backend.html import Html
from .._backend.quiet import quietly
from ..data.base import Batch, Items
from ..data.controls import Control
from ..data.gallery import GalleryItems
from ..data.item_names import distinct_names
from ..data.options import InputError, given_options, knob_of
from ..data.summary import Asked
from ..generators.base import Adjustable, Description
from ..generators.hopfield import Hopfield
from ..synthesizer import Synthesizer
from .item_map import ItemMap
from .memo import Memo
from .settings import Settings, grouped

HOPFIELD = "hopfield"
NOVELTY = "novelty"
MAX_FITS, MAX_DRAWN = 12, 64
"""Fits and galleries that are kept, so that going back to them takes no time."""
ROUNDING = 1e-9
"""Novelties below this are rounding errors of copies."""
Progress = Callable[[int, int], None]
"""Called with how many items are drawn, and of how many; it raises `Superseded` where nobody wants them any more."""


class WriteCommand(Protocol):
    """The command that draws n items and writes them to `out`."""

    def __call__(self, asked: Asked, generator: str, n: int, seed: int, out: str) -> str:
        """What to type."""


@dataclass(frozen=True)
class Origin:
    """How the first synthesizer was made from a file.

    kind:    as the user named it, or None where it was recognised
    reading: options of reading that the user gave, by name
    asked:   all choices of the user, as they were given
    """

    path: str
    kind: str | None
    reading: Mapping[str, object]
    asked: Asked
    command: WriteCommand


class Superseded(Exception):
    """The user wants something else by now."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """New items, as a gallery shows them."""

    settings: Settings
    items: Items
    nearest: Array  # (n,) indices of stored items
    novelty: Array  # (n,)
    features: Array  # (n, p)
    html: Html
    description: Description
    notes: tuple[str, ...]
    seconds: float  # of the processor, in the thread that drew them


@dataclass(frozen=True, eq=False)
class Explorer:
    """The stored items of all pages, and what was computed from them. It never changes but for what it remembers.

    base:   the synthesizer that the user asked for; its generator and options are what a page begins with
    origin: how it was made, where that is known, so that a command and a program can repeat it
    """

    base: Synthesizer
    origin: Origin | None = None
    _fits: Memo[Synthesizer] = field(default_factory=lambda: Memo(MAX_FITS))
    _drawn: Memo[Drawn] = field(default_factory=lambda: Memo(MAX_DRAWN))

    @property
    def first_settings(self) -> Settings:
        """The settings of a new page: the generator, knob, conditions and weights that the user asked for."""
        choice = self.base.choice
        named, novelty = knob_of(type(choice.options)), getattr(choice.options, NOVELTY, None)
        value = None if named is None or novelty is not None else getattr(choice.options, named[0])
        if named is not None and named[1].place is not None and value is not None:
            value = value[named[1].place]
        return Settings(
            choice.name, value, novelty, conditions=() if self.origin is None else self.origin.asked.conditions
        )

    @property
    def generators(self) -> tuple[str, ...]:
        """Names of the generators; those that are other names for the same options and law come once."""
        return tuple(self.base.kind.generators)

    @property
    def adjustable_generators(self) -> tuple[str, ...]:
        """Names of the generators that have a setting between recall and generation."""
        return tuple(name for name, options in self.base.kind.generators.items() if knob_of(options) is not None)

    @cached_property
    def controls(self) -> tuple[Control, ...]:
        """The controls of conditions."""
        return self.base.kind.controls(self.base.codec)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the stored items (K,), by which a user can tell them apart."""
        return distinct_names(self.base.codec.ids)

    @cached_property
    def item_map(self) -> ItemMap:
        """The map of the stored items."""
        return ItemMap.of(self.base.codec)

    def options(self, settings: Settings) -> dict[str, object]:
        """Options of the generator that differ from their defaults: those that the user began with, and the knob.

        Where the knob is moved, the options that a rule chose stay as they were chosen: they need no second search.
        """
        options = self._own_options(settings.generator)
        if settings.novelty is not None:
            return {**options, NOVELTY: settings.novelty}
        named = knob_of(self.base.kind.generators[settings.generator])
        if settings.knob is None:
            return options
        if named is None:
            raise InputError(f"the generator {settings.generator!r} has no knob. Choose another generator.")
        name, knob = named
        fitted = self._default(settings)
        resolved = fitted.describe().resolved
        if isinstance(fitted.generator, Adjustable) and name in fitted.generator.adjustable:
            adjusted = {one: value for one, value in resolved.items() if one in fitted.generator.adjustable}
            return {**options, **adjusted, name: settings.knob}
        chosen: dict[str, object] = {**options, **resolved}
        whole = chosen.get(name)
        if knob.place is not None and isinstance(whole, tuple | list):
            values = list(whole)
            values[knob.place] = settings.knob
            return {**chosen, name: tuple(values)}
        return {**chosen, name: settings.knob}

    def _own_options(self, generator: str) -> dict[str, object]:
        """Options that the user began with, of this generator, without its knob and the novelty."""
        if generator != self.base.choice.name:
            return {}
        named = knob_of(type(self.base.choice.options))
        moved = {NOVELTY} | (set() if named is None else {named[0]})
        return {name: x for name, x in given_options(self.base.choice.options).items() if name not in moved}

    def _default(self, settings: Settings) -> Synthesizer:
        """The synthesizer with these stored items and the generator's own choice of its knob, fitted."""

        def fit() -> Synthesizer:
            of_all = replace(settings, ratios=())
            if settings.ratios and (settings.generator, ()) in self._fits:  # what is fitted already may be shared
                synth = self.weighted(settings, self._default(of_all))
            else:
                synth = self.weighted(settings)
                synth = synth.with_generator(settings.generator, **self._own_options(settings.generator))
            _ = synth.generator
            return synth

        return self._fits.get((settings.generator, settings.ratios), fit)

    def weighted(self, settings: Settings, of_all: Synthesizer | None = None) -> Synthesizer:
        """The first synthesizer, or the one `of_all` stored items, with these counting as the settings say."""
        synth = self.base if of_all is None else of_all
        ratios = dict(settings.ratios)
        if left_out := [k for k, ratio in ratios.items() if ratio == 0]:
            synth = synth.subset(np.setdiff1d(np.arange(synth.codec.K), left_out))
        for ratio, indices in grouped(ratios).items():
            synth = synth.weight(ratio, indices)
        return synth

    def synthesizer(self, settings: Settings) -> Synthesizer:
        """The synthesizer whose samples a page with these settings shows."""
        fitted = self._default(settings)
        if settings.knob is not None or settings.novelty is not None:
            fitted = fitted.with_generator(settings.generator, **self.options(settings))
        if settings.conditions:
            fitted = fitted.condition(self.base.kind.parse_condition(self.base.codec, settings.conditions))
        return fitted

    def draw(self, settings: Settings, progress: Progress | None = None) -> Drawn:
        """The new items of these settings, each beside the stored one nearest to it."""
        while True:
            try:
                return self._drawn.get(settings, lambda: self._draw(settings, progress))
            except Superseded:  # perhaps by another page that began to draw the same: then this one goes on
                if progress is not None:
                    progress(0, settings.n)

    def is_drawn(self, settings: Settings) -> bool:
        """Whether `draw` returns at once."""
        return settings in self._drawn

    def _draw(self, settings: Settings, progress: Progress | None) -> Drawn:
        with quietly():
            synth = self.synthesizer(settings)
            kind, codec, batches, described = synth.kind, synth.codec, [], synth.describe()
            begin = time.thread_time()
            for batch in synth.batches(settings.n, settings.seed):
                batches.append(batch)
                if progress is not None:
                    progress(batch.first + len(batch.items), settings.n)
            seconds = time.thread_time() - begin
            items = codec.join([batch.items for batch in batches])
            nearest, extra = _annotations(synth, items, batches)
            novelty = without_rounding(synth.novelty(items))
            shown = GalleryItems(items, np.arange(settings.n), nearest, novelty, extra, with_differences=True)
            html = kind.gallery(codec, shown)
            notes = tuple(note for note in dict.fromkeys(synth.notes) if note not in codec.notes)
            return Drawn(settings, items, nearest, novelty, codec.features(items), html, described, notes, seconds)

    def law(self, settings: Settings) -> Hopfield | None:
        """p_beta, if it is the generator of the settings, at whatever temperature; None for other generators."""
        found = self._default(settings).generator
        return found if isinstance(found, Hopfield) else None

    def hopfield(self, settings: Settings) -> Hopfield | None:
        """p_beta over the same stored items, at the temperature of the settings if they have one; None without it."""
        if HOPFIELD not in self.base.kind.generators:
            return None
        found = self.synthesizer(replace(settings, conditions=())).generator
        if not isinstance(found, Hopfield):
            same = replace(settings, generator=HOPFIELD, knob=None, novelty=None, conditions=())
            found = self.synthesizer(same).generator
        return found if isinstance(found, Hopfield) else None


def _annotations(synth: Synthesizer, items: Items, batches: Sequence[Batch]) -> tuple[Array, dict[str, Array]]:
    """The stored item nearest to each of the items of some batches, and further columns for its heading."""
    nearest = [batch.nearest for batch in batches if batch.nearest is not None]
    if len(nearest) < len(batches):  # items that are made of many stored ones
        return synth.kind.annotate(synth.codec, items, len(items))
    extra = {name: np.concatenate([batch.extra[name] for batch in batches]) for name in batches[0].extra}
    return np.concatenate(nearest), extra


def without_rounding(novelty: Array) -> Array:
    """Novelties (n,), where those of copies are exactly zero."""
    return np.where(novelty > ROUNDING, novelty, 0.0)
