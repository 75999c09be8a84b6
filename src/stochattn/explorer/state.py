"""The content of a page, computed from its settings without a browser.

`PageSettings` determine the items of a page, and `Explorer` draws them and shares results between pages.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from .._backend.arrays import Array
from .._backend.checks import check_count
from .._backend.console import hide_warnings
from .._backend.html import Html
from .._backend.products import limit_to_one_thread
from ..kinds.codec import Batch, Items, distinct_names
from ..kinds.display import Control, GalleryItems
from ..kinds.generator import Adjustable, Description, Generator
from ..kinds.hopfield import HopfieldGenerator
from ..kinds.options import InputError, given_options, knob_of
from ..kinds.plain import Gaussian
from ..kinds.summary import Asked
from ..report.figures import ItemMap
from ..synthesizer.synthesizer import Synthesizer

MAX_SHOWN = 200


@dataclass(frozen=True)
class PageSettings:
    """The choices of a user.

    generator:  the name of the generator
    knob:       value of the generator's knob, the name of a rule for it, or None for the default of the generator
    novelty:    the target of mean novelty, instead of the knob
    n, seed:    the number of items, and the seed of the draws
    conditions: strings NAME=VALUE
    ratios:     (index, ratio) of stored items whose weight is not 1; a ratio of 0 leaves the item out
    """

    generator: str
    knob: float | str | None = None
    novelty: float | None = None
    n: int = 12
    seed: int = 0
    conditions: tuple[str, ...] = ()
    ratios: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        if check_count("n", self.n) > MAX_SHOWN:
            raise InputError(f"n must be at most {MAX_SHOWN}, so that a page can show them; got {self.n}. Lower n.")
        check_count("seed", self.seed, 0)
        if self.knob is not None and self.novelty is not None:
            raise InputError("choose a novelty or a position of the slider, not both: each determines the other.")


def select_only(ids: Sequence[str], selected: Array) -> str:
    """Return a regular expression that matches only the ids of the `selected` items (K,).

    >>> select_only(["a", "b", "c.d"], np.array([True, False, True]))
    '^(?!(?:b)$)'
    >>> select_only(["a", "b", "c.d"], np.array([False, False, True]))
    '^(?:c\\\\.d)$'
    """
    is_minority = 2 * np.count_nonzero(selected) <= len(ids)
    indices = np.flatnonzero(selected if is_minority else ~selected).tolist()
    # The signs = and : have a meaning on the command line.
    pattern = "|".join(re.escape(ids[k]).replace("=", r"\x3d").replace(":", r"\x3a") for k in indices)
    return f"^(?:{pattern})$" if is_minority else f"^(?!(?:{pattern})$)"


def group_by_ratio(ratios: Mapping[int, float]) -> dict[float, list[int]]:
    """Return the indices of each ratio above 0."""
    groups: dict[float, list[int]] = {}
    for k, ratio in sorted(ratios.items()):
        if ratio > 0:
            groups.setdefault(ratio, []).append(k)
    return groups


HOPFIELD = "hopfield"
NOVELTY = "novelty"
MAX_FITS, MAX_DRAWN = 12, 64  # fits and galleries that are kept, so that a user can go back to them at once
ROUNDING = 1e-9  # novelties below this are rounding errors of copies
Progress = Callable[[int, int], None]
"""Called with the number of drawn items and the total; it raises `Superseded` if the items are no longer needed."""


@dataclass(frozen=True)
class Origin:
    """How the first synthesizer was made from a file.

    kind:    the kind that the user named, or None if it was recognized
    reading: options of reading that the user set, by name
    asked:   all choices of the user
    command: writes the command for choices, a generator, n, a seed and an output
    """

    path: str
    kind: str | None
    reading: Mapping[str, object]
    asked: Asked
    command: Callable[[Asked, str, int, int, str], str]


class Superseded(Exception):
    """The settings have changed, and the result is no longer needed."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """New items, as a gallery shows them."""

    settings: PageSettings
    items: Items
    nearest: Array  # (n,) indices of stored items
    novelty: Array  # (n,)
    features: Array  # (n, p)
    html: Html
    description: Description
    notes: tuple[str, ...]
    seconds: float  # processor time of the thread that drew them


class Explorer:
    """The stored items of all pages and results computed from them. Only its memory of results changes.

    base:   the synthesizer that the user requested; a page begins with its generator and options
    origin: how the synthesizer was made, if it is known, so that a command and a program can repeat it
    """

    def __init__(self, base: Synthesizer, origin: Origin | None = None) -> None:
        self.base, self.origin, self._lock = base, origin, threading.Lock()
        self._unweighted, self._fitted = lru_cache(self._choose_generator), lru_cache(MAX_FITS)(self._fit)
        self._locks: dict[PageSettings, threading.Lock] = {}  # of fits
        self._drawn: dict[PageSettings, Drawn] = {}

    @property
    def first_settings(self) -> PageSettings:
        """The settings of a new page: the generator, knob, conditions and weights that the user requested."""
        choice, value = self.base.choice, None
        knob_field, novelty = knob_of(type(choice.options)), getattr(choice.options, NOVELTY, None)
        if knob_field is not None and novelty is None:
            name, knob = knob_field
            value = getattr(choice.options, name)
            if knob.place is not None and value is not None:
                value = value[knob.place]
        conditions = () if self.origin is None else self.origin.asked.conditions
        return PageSettings(choice.name, value, novelty, conditions=conditions)

    @property
    def adjustable_generators(self) -> tuple[str, ...]:
        """Names of the generators with a setting between recall and generation."""
        return tuple(name for name, options in self.base.kind.generators.items() if knob_of(options) is not None)

    @cached_property
    def controls(self) -> tuple[Control, ...]:
        """The controls of conditions."""
        return self.base.kind.display.controls(self.base.codec)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Distinct names of the stored items (K,)."""
        return distinct_names(self.base.codec.ids)

    @cached_property
    def item_map(self) -> ItemMap:
        """The map of the stored items by their features."""
        with limit_to_one_thread("scipy.linalg"):
            return ItemMap(self.base.codec.features(self.base.codec.stored), "arpack")

    def options(self, settings: PageSettings) -> dict[str, object]:
        """Options of the generator that differ from their defaults: the first options of the user, and the knob.

        If the knob is moved, options that a rule chose keep their values and need no second search.
        """
        options = self._first_options(settings.generator)
        if settings.novelty is not None:
            return {**options, NOVELTY: settings.novelty}
        knob_field = knob_of(self.base.kind.generators[settings.generator])
        if settings.knob is None:
            return options
        if knob_field is None:
            raise InputError(f"the generator {settings.generator!r} has no knob. Choose another generator.")
        name, knob = knob_field
        fitted = self._default(settings)
        resolved = fitted.describe().resolved
        if isinstance(fitted.generator, Adjustable) and name in fitted.generator.adjustable:
            adjustable = {option: value for option, value in resolved.items() if option in fitted.generator.adjustable}
            return {**options, **adjustable, name: settings.knob}
        options |= resolved
        values = options.get(name)
        if knob.place is not None and isinstance(values, tuple | list):
            return {**options, name: (*values[: knob.place], settings.knob, *values[knob.place + 1 :])}
        return {**options, name: settings.knob}

    def _first_options(self, generator: str) -> dict[str, object]:
        """The first options of the user for this generator, without its knob and the novelty."""
        if generator != self.base.choice.name:
            return {}
        knob_field = knob_of(type(self.base.choice.options))
        excluded = {NOVELTY} | (set() if knob_field is None else {knob_field[0]})
        return {name: x for name, x in given_options(self.base.choice.options).items() if name not in excluded}

    def _default(self, settings: PageSettings) -> Synthesizer:
        """The synthesizer with these stored items and the default of the generator for its knob; it is fitted."""
        key = PageSettings(settings.generator, ratios=settings.ratios)
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:  # pages that need the same fit wait for it, and others do not
            return self._fitted(key)

    def _choose_generator(self, name: str) -> Synthesizer:
        return self.base.with_generator(name, **self._first_options(name))

    def _fit(self, settings: PageSettings) -> Synthesizer:
        synth = self.weigh(settings, self._unweighted(settings.generator))  # shares parts of a fit that exists
        _ = synth.generator
        return synth

    def weigh(self, settings: PageSettings, synth: Synthesizer | None = None) -> Synthesizer:
        """Return a synthesizer, by default the first one, with the weights of the settings."""
        synth = self.base if synth is None else synth
        ratios = dict(settings.ratios)
        if left_out := [k for k, ratio in ratios.items() if ratio == 0]:
            synth = synth.subset(np.setdiff1d(np.arange(synth.codec.K), left_out))
        for ratio, indices in group_by_ratio(ratios).items():
            synth = synth.weight(ratio, indices)
        return synth

    def synthesizer(self, settings: PageSettings) -> Synthesizer:
        """Return the synthesizer whose samples a page with these settings shows."""
        fitted = self._default(settings)
        if settings.knob is not None or settings.novelty is not None:
            fitted = fitted.with_generator(settings.generator, **self.options(settings))
        if settings.conditions:
            fitted = fitted.condition(self.base.kind.parse_condition(self.base.codec, settings.conditions))
        return fitted

    def draw(self, settings: PageSettings, progress: Progress | None = None) -> Drawn:
        """Draw the items of these settings, each beside the nearest stored item; the last galleries are kept."""
        drawn = self._drawn.pop(settings, None) or self._draw(settings, progress)
        self._drawn[settings] = drawn
        for oldest in list(self._drawn)[:-MAX_DRAWN]:
            self._drawn.pop(oldest, None)  # another page may have removed it
        return drawn

    def has_items(self, settings: PageSettings) -> bool:
        """Whether `draw` returns at once."""
        return settings in self._drawn

    def _draw(self, settings: PageSettings, progress: Progress | None) -> Drawn:
        with hide_warnings():
            synth = self.synthesizer(settings)
            kind, codec, batches, description = synth.kind, synth.codec, [], synth.describe()
            begin = time.thread_time()
            for batch in synth.batches(settings.n, settings.seed):
                batches.append(batch)
                if progress is not None:
                    progress(batch.first + len(batch.items), settings.n)
            seconds = time.thread_time() - begin
            items = codec.join([batch.items for batch in batches])
            nearest, extra = _annotate(synth, items, batches)
            novelty = without_rounding(synth.novelty(items))
            gallery = GalleryItems(items, np.arange(settings.n), nearest, novelty, extra, with_differences=True)
            html = kind.display.gallery(codec, gallery)
            trial = self.base.trial if settings.generator == self.base.choice.name else None
            notes = (*(() if trial is None else trial.record.notes), *synth.notes)
            notes = tuple(note for note in dict.fromkeys(notes) if note not in codec.notes)
            return Drawn(settings, items, nearest, novelty, codec.features(items), html, description, notes, seconds)

    def default_hopfield(self, settings: PageSettings) -> HopfieldGenerator | None:
        """Return the generator of the settings at its default temperature if it is p_beta; None for others."""
        return _p_beta(self._default(settings).generator)

    def hopfield(self, settings: PageSettings) -> HopfieldGenerator | None:
        """Return p_beta of the same stored items, at the temperature of the settings if they have one."""
        if HOPFIELD not in self.base.kind.generators:
            return None
        hopfield = _p_beta(self.synthesizer(replace(settings, conditions=())).generator)
        if hopfield is None:
            default = replace(settings, generator=HOPFIELD, knob=None, novelty=None, conditions=())
            hopfield = _p_beta(self.synthesizer(default).generator)
        return hopfield


def _p_beta(generator: Generator) -> HopfieldGenerator | None:
    """Return the generator if it has a temperature; None for others, and for a single Gaussian, whose beta is 0."""
    return generator if isinstance(generator, HopfieldGenerator) and not isinstance(generator, Gaussian) else None


def _annotate(synth: Synthesizer, items: Items, batches: Sequence[Batch]) -> tuple[Array, dict[str, Array]]:
    """Return the stored item nearest to each item of the batches, and further columns for its heading."""
    nearest = [batch.nearest for batch in batches if batch.nearest is not None]
    if len(nearest) < len(batches):  # these items are made of several stored ones
        return synth.kind.measures.annotate(synth.codec, items, len(items))
    extra = {name: np.concatenate([batch.extra[name] for batch in batches]) for name in batches[0].extra}
    return np.concatenate(nearest), extra


def without_rounding(novelty: Array) -> Array:
    """Return novelties (n,) with those of copies exactly zero."""
    return np.where(novelty > ROUNDING, novelty, 0.0)
