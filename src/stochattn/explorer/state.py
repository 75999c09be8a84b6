"""What a page shows, computed from its settings. Nothing here knows of a browser.

The map: stored and new items along the two directions in which the stored ones vary most.

Results that several sessions share: each is computed once, by the first thread that asks for it.

The settings of a page: everything that determines which items it shows.

Which novelties the galleries of a page had, by the value of the generator's knob.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np

from .._backend.arrays import Array
from .._backend.checks import check_count
from .._backend.console import hide_warnings
from .._backend.html import Html
from .._backend.products import limit_to_one_thread
from ..kinds.codec import Batch, Codec, Items, distinct_names
from ..kinds.controls import Control
from ..kinds.gallery import GalleryItems
from ..kinds.generator import Adjustable, Description, Generator
from ..kinds.hopfield import HopfieldGenerator
from ..kinds.options import InputError, given_options, knob_of
from ..kinds.plain import Gaussian
from ..kinds.summary import Asked
from ..synthesizer.synthesizer import Synthesizer

MAX_FITTED = 2000  # stored items that decide the directions
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class ItemMap:
    """Features (n, p) as points of a plane: (x − mean) · directions."""

    mean: Array  # (p,)
    directions: Array  # (p, 2)
    stored: Array  # (K, 2)
    shares: tuple[float, float]  # of the variance

    @classmethod
    def of(cls, codec: Codec) -> ItemMap:
        """The map of the stored items."""
        with limit_to_one_thread("scipy.linalg"):
            return cls._of(codec.features(codec.stored))

    @classmethod
    def _of(cls, features: Array) -> ItemMap:
        mean = features.mean(0)
        centred = (features - mean).astype(np.float32)
        some = centred[:: max(len(centred) // MAX_FITTED, 1)]
        # The smaller of both matrices of products has the same eigenvalues.
        if some.shape[0] <= some.shape[1]:
            values, vectors = np.linalg.eigh((some @ some.T).astype(np.float64))
            directions = some.T.astype(np.float64) @ vectors[:, ::-1][:, :2]
        else:
            values, vectors = np.linalg.eigh((some.T @ some).astype(np.float64))
            directions = vectors[:, ::-1][:, :2]
        lengths = np.linalg.norm(directions, axis=0)
        directions = directions / np.where(lengths > TINY, lengths, 1.0)
        plane = np.zeros((features.shape[1], 2))
        plane[:, : directions.shape[1]] = directions
        total = float(max(values.sum(), TINY))
        shares = [float(max(value, 0.0)) / total for value in values[::-1][:2]] + [0.0, 0.0]
        return cls(mean, plane, centred @ plane, (shares[0], shares[1]))

    def points(self, features: Array) -> Array:
        """Features (n, p) as points (n, 2)."""
        return np.asarray((features - self.mean) @ self.directions)


T = TypeVar("T")


class Memo(Generic[T]):
    """The last results by key, at most `size`. Errors are not kept: the next call tries again."""

    def __init__(self, size: int) -> None:
        self._size, self._lock = size, threading.Lock()
        self._known: OrderedDict[Hashable, Future[T]] = OrderedDict()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of `compute` for this key; a thread that asks while another computes it waits for that one."""
        with self._lock:
            known = self._known.get(key)
            mine = known is None
            if known is None:
                known = self._known[key] = Future()
            self._known.move_to_end(key)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        if mine:
            try:
                known.set_result(compute())
            except BaseException as error:
                with self._lock:
                    if self._known.get(key) is known:
                        del self._known[key]
                known.set_exception(error)
        return known.result()

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            known = self._known.get(key)
            return known is not None and known.done()


MAX_SHOWN = 200


@dataclass(frozen=True)
class PageSettings:
    """What a user chose.

    generator:  by name
    knob:       value of the generator's knob, the name of a rule for it, or None for the generator's own choice
    novelty:    the wanted mean novelty, in place of the knob
    n, seed:    how many items are shown, and from which random numbers
    conditions: texts NAME=VALUE
    ratios:     (index, ratio) of stored items that do not count once, by index; a ratio of 0 leaves one out
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
            raise InputError("choose a novelty or a position of the slider, not both: each decides the other.")

    def with_ratio(self, indices: Sequence[int], ratio: float) -> PageSettings:
        """The same settings, where these stored items count `ratio` times."""
        if not 0 <= ratio < np.inf:
            raise InputError(f"weight must be a number from 0 on; got {ratio!r}. 0 leaves an example out.")
        ratios = {**dict(self.ratios), **dict.fromkeys(map(int, indices), float(ratio))}
        return replace(self, ratios=tuple(sorted((k, r) for k, r in ratios.items() if r != 1)))


def select_only(ids: Sequence[str], selected: Array) -> str:
    """A regular expression that matches the ids of the `selected` items (K,) and of no others.

    >>> select_only(["a", "b", "c.d"], np.array([True, False, True]))
    '^(?!(?:b)$)'
    >>> select_only(["a", "b", "c.d"], np.array([False, False, True]))
    '^(?:c\\\\.d)$'
    """
    chosen = selected if 2 * np.count_nonzero(selected) <= len(ids) else ~selected
    listed = "|".join(_escaped(ids[k]) for k in np.flatnonzero(chosen).tolist())
    return f"^(?:{listed})$" if chosen is selected else f"^(?!(?:{listed})$)"


def _escaped(text: str) -> str:
    """A text as a part of a regular expression, without = and :, which have a meaning on the command line."""
    return re.escape(text).replace("=", r"\x3d").replace(":", r"\x3a")


def with_same_id(ids: Sequence[str], k: int) -> list[int]:
    """The stored items that have the id of item k, which only together can be named."""
    return [i for i, one in enumerate(ids) if one == ids[k]]


def grouped(ratios: Mapping[int, float]) -> dict[float, list[int]]:
    """The indices of each ratio, without those that are left out."""
    groups: dict[float, list[int]] = {}
    for k, ratio in sorted(ratios.items()):
        if ratio > 0:
            groups.setdefault(ratio, []).append(k)
    return groups


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

    settings: PageSettings
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
    def first_settings(self) -> PageSettings:
        """The settings of a new page: the generator, knob, conditions and weights that the user asked for."""
        choice = self.base.choice
        named, novelty = knob_of(type(choice.options)), getattr(choice.options, NOVELTY, None)
        value = None if named is None or novelty is not None else getattr(choice.options, named[0])
        if named is not None and named[1].place is not None and value is not None:
            value = value[named[1].place]
        return PageSettings(
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
        return self.base.kind.display.controls(self.base.codec)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the stored items (K,), by which a user can tell them apart."""
        return distinct_names(self.base.codec.ids)

    @cached_property
    def item_map(self) -> ItemMap:
        """The map of the stored items."""
        return ItemMap.of(self.base.codec)

    def options(self, settings: PageSettings) -> dict[str, object]:
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

    def _default(self, settings: PageSettings) -> Synthesizer:
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

    def weighted(self, settings: PageSettings, of_all: Synthesizer | None = None) -> Synthesizer:
        """The first synthesizer, or the one `of_all` stored items, with these counting as the settings say."""
        synth = self.base if of_all is None else of_all
        ratios = dict(settings.ratios)
        if left_out := [k for k, ratio in ratios.items() if ratio == 0]:
            synth = synth.subset(np.setdiff1d(np.arange(synth.codec.K), left_out))
        for ratio, indices in grouped(ratios).items():
            synth = synth.weight(ratio, indices)
        return synth

    def synthesizer(self, settings: PageSettings) -> Synthesizer:
        """The synthesizer whose samples a page with these settings shows."""
        fitted = self._default(settings)
        if settings.knob is not None or settings.novelty is not None:
            fitted = fitted.with_generator(settings.generator, **self.options(settings))
        if settings.conditions:
            fitted = fitted.condition(self.base.kind.parse_condition(self.base.codec, settings.conditions))
        return fitted

    def draw(self, settings: PageSettings, progress: Progress | None = None) -> Drawn:
        """The new items of these settings, each beside the stored one nearest to it."""
        while True:
            try:
                return self._drawn.get(settings, lambda: self._draw(settings, progress))
            except Superseded:  # perhaps by another page that began to draw the same: then this one goes on
                if progress is not None:
                    progress(0, settings.n)

    def is_drawn(self, settings: PageSettings) -> bool:
        """Whether `draw` returns at once."""
        return settings in self._drawn

    def _draw(self, settings: PageSettings, progress: Progress | None) -> Drawn:
        with hide_warnings():
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
            html = kind.display.gallery(codec, shown)
            trial = self.base.trial if settings.generator == self.base.choice.name else None
            notes = (*(() if trial is None else trial.record.notes), *synth.notes)
            notes = tuple(note for note in dict.fromkeys(notes) if note not in codec.notes)
            return Drawn(settings, items, nearest, novelty, codec.features(items), html, described, notes, seconds)

    def law(self, settings: PageSettings) -> HopfieldGenerator | None:
        """p_beta, if it is the generator of the settings, at whatever temperature; None for other generators."""
        return _p_beta(self._default(settings).generator)

    def hopfield(self, settings: PageSettings) -> HopfieldGenerator | None:
        """p_beta over the same stored items, at the temperature of the settings if they have one; None without it."""
        if HOPFIELD not in self.base.kind.generators:
            return None
        found = _p_beta(self.synthesizer(replace(settings, conditions=())).generator)
        if found is None:
            same = replace(settings, generator=HOPFIELD, knob=None, novelty=None, conditions=())
            found = _p_beta(self.synthesizer(same).generator)
        return found


def _p_beta(generator: Generator) -> HopfieldGenerator | None:
    """A generator that has a temperature; None for others, and for one Gaussian, whose beta vanishes."""
    return generator if isinstance(generator, HopfieldGenerator) and not isinstance(generator, Gaussian) else None


def _annotations(synth: Synthesizer, items: Items, batches: Sequence[Batch]) -> tuple[Array, dict[str, Array]]:
    """The stored item nearest to each of the items of some batches, and further columns for its heading."""
    nearest = [batch.nearest for batch in batches if batch.nearest is not None]
    if len(nearest) < len(batches):  # items that are made of many stored ones
        return synth.kind.measures.annotate(synth.codec, items, len(items))
    extra = {name: np.concatenate([batch.extra[name] for batch in batches]) for name in batches[0].extra}
    return np.concatenate(nearest), extra


def without_rounding(novelty: Array) -> Array:
    """Novelties (n,), where those of copies are exactly zero."""
    return np.where(novelty > ROUNDING, novelty, 0.0)


class Trail:
    """Mean novelties by value of the knob, of galleries that differ in nothing else but their seed and number."""

    def __init__(self) -> None:
        self._same: PageSettings | None = None
        self._points: dict[float, float] = {}

    def with_gallery(self, drawn: Drawn, value: float | None) -> Mapping[float, float]:
        """The novelties so far and that of this gallery, whose knob has this value; None is not known."""
        same = replace(drawn.settings, knob=None, novelty=None, n=1, seed=0)
        if same != self._same:
            self._same, self._points = same, {}
        if value is not None:
            self._points[value] = float(drawn.novelty.mean())
        return dict(self._points)
