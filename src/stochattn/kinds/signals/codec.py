"""Signals of one length: floats (n, channels, points) as items, time first in the arrays of generators.

What a file of signals holds, before it is checked: signals of one length or of several, or long recordings.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from .. import Codec, Conditioned, InputError
from ..codec import index_of
from ..comparison import rows_are_smooth
from .generator.normalisation import Normalisation


@dataclass(frozen=True, eq=False)
class SignalCodec(Codec):
    """Signals (n, C, T); in arrays (n, T, C).

    flat:   whether a user sees signals of one channel as (n, T)
    step:   new values are multiples of this number, where all stored ones are: 1 for whole numbers; None otherwise
    limits: new values are not outside these: 0 and infinity where no stored value is negative
    rate, bits: points per second and bits of a point, of signals from WAV files
    columns, label_column, id_column: names of the columns of a CSV file, in their order, and those of classes and ids
    known_normalisation: that of signals of which these are a part
    known:  positions t·C + c (r,) and values (r,) that new signals have
    """

    stored: Array
    ids: tuple[str, ...]
    channels: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    flat: bool = False
    step: float | None = None
    limits: tuple[float, float] = (-np.inf, np.inf)
    rate: int | None = None
    bits: int | None = None
    columns: tuple[str, ...] = ()
    label_column: str | None = None
    id_column: str | None = None
    known: tuple[Array, Array] | None = None
    known_normalisation: Normalisation | None = None

    @property
    def length(self) -> int:
        """Points of a signal."""
        return int(self.stored.shape[2])

    @property
    def classes(self) -> Array:
        """The class of each stored signal as a number, all zero without classes: (K,)."""
        return np.unique([""] * self.K if self.labels is None else self.labels, return_inverse=True)[1]

    @cached_property
    def normalisation(self) -> Normalisation:
        """What normalised signals have in common, and new ones have without conditions; rounding would break it."""
        if self.known_normalisation is not None:
            return self.known_normalisation
        if self.step is not None and self.bits is None:
            return Normalisation.none(self.length, len(self.channels))
        return Normalisation.of(np.swapaxes(self.stored, 1, 2))

    def encode(self, items: Array) -> Array:
        values = np.asarray(items, dtype=np.float64)
        values = values[:, None] if values.ndim == 2 else values  # of one channel
        if values.shape[1:] != self.stored.shape[1:]:
            shape = (len(values), *self.stored.shape[1:])
            raise InputError(f"signals must be an array of shape {shape}; got {np.shape(items)}.")
        return np.ascontiguousarray(np.swapaxes(values, 1, 2))

    def decode(self, arrays: Array, source: Array | None = None) -> Array:
        values = np.array(arrays, dtype=np.float64)
        if self.known is None:
            values = self.normalisation.applied(np.clip(values, *self.limits))
        if self.step is not None:
            values = np.rint(values / self.step) * self.step
        values = np.clip(values, *self.limits)
        if self.known is not None:  # exactly, whatever was rounded
            positions, given = self.known
            values.reshape(len(values), -1)[:, positions] = given
        return np.ascontiguousarray(np.swapaxes(values, 1, 2))

    def refit(self, items: Array) -> SignalCodec:
        """The same options with other signals. Those that are stored here keep their class."""
        signals = np.asarray(items, dtype=np.float64)
        if len(signals) < 2 or (signals == signals[:1]).all():
            raise InputError("a part of the stored signals has nothing to vary: store more, and different ones.")
        ids = tuple(str(i + 1) for i in range(len(signals)))
        return replace(
            self,
            stored=signals,
            ids=ids,
            labels=self.labels_among(signals),
            notes=(),
            known=None,
            known_normalisation=self.normalisation,
        )

    def to_user(self, items: Array) -> Array:
        return np.asarray(items)[:, 0] if self.flat else np.asarray(items)

    def state(self) -> dict[str, Plain]:
        return {one.name: getattr(self, one.name) for one in fields(self) if not one.name.startswith("known")}

    def condition(self, values: Mapping[object, object]) -> Conditioned:
        """Values of points {t: value} and of stretches of time {(start, stop): values}, counted from 0.

        Keys (channel, t) and (channel, (start, stop)) name one channel. `stop` is excluded. Values are a number, an
        array (channels, stop - start), or (stop - start,) of one channel, an array as long as a signal, or the id of a
        stored signal. NaN in an array leaves a point free.
        """
        found = np.full((len(self.channels), self.length), np.nan)
        for key, value in values.items():
            rows, columns = self._place(key)
            here, given = found[rows, columns], self._values(key, value, rows, columns)
            if (np.abs(here - given) > 0).any():  # NaN, where nothing is known, is not larger
                raise InputError(f"condition {key!r} contradicts another one of the same point: remove one of them.")
            found[rows, columns] = np.where(np.isnan(given), here, given)
        flat = found.T.ravel()
        positions = np.flatnonzero(~np.isnan(flat))
        if not len(positions):
            raise InputError("the conditions name no value: every point is NaN. Give the value of a point.")
        observation = positions, flat[positions]
        return Conditioned(replace(self, known=observation), observation)

    def _place(self, key: object) -> tuple[slice, slice]:
        """The channels and points that a key names."""
        rows, when = slice(0, len(self.channels)), key
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str):
            if key[0] not in self.channels:
                raise InputError(
                    f"condition {key!r}: no channel is called {key[0]!r}; {_similar(*key[:1], self.channels)}"
                )
            rows, when = slice(i := self.channels.index(key[0]), i + 1), key[1]
        if isinstance(when, slice):
            start, stop, step = when.indices(self.length)
        elif isinstance(when, int | np.integer):
            start, step = int(when) + (self.length if when < 0 else 0), 1
            stop = start + 1
        elif isinstance(when, tuple) and len(when) == 2 and all(isinstance(end, int | np.integer) for end in when):
            (start, stop), step = map(int, when), 1
        else:
            rule = "must be a point t, a stretch (start, stop), or one of these after the name of a channel"
            raise InputError(f"condition {key!r} {rule}.")
        if step != 1 or not 0 <= start < stop <= self.length:
            raise InputError(f"condition {key!r}: points must lie within 0 to {self.length - 1}; got {when!r}.")
        return rows, slice(start, stop)

    def _values(self, key: object, value: object, rows: slice, columns: slice) -> Array:
        """Values at a place, as (channels, points)."""
        shape = rows.stop - rows.start, columns.stop - columns.start
        if isinstance(value, str):
            if (k := index_of(self.ids, value)) is None:
                rule = f"no stored signal has the id {value!r}"
                raise InputError(f"condition {key!r}: {rule}; {_similar(value, self.ids)}")
            return np.asarray(self.stored[k][rows, columns])
        try:
            given = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"condition {key!r}: the values must be numbers or the id of a signal; got {value!r}."
            ) from None
        if given.ndim == 1 and (given.shape == (shape[0],) and shape[1] == 1):
            given = given[:, None]
        elif given.ndim == 1 and shape[0] == 1:
            given = given[None]
        if given.ndim == 2 and given.shape == (shape[0], self.length):
            given = given[:, columns]
        if given.ndim and given.shape != shape:
            rule = f"must be a number, an array of shape {shape}, or one as long as a signal"
            raise InputError(f"condition {key!r}: the values {rule}; got shape {given.shape}.")
        if np.isinf(given).any():
            raise InputError(f"condition {key!r}: the values must be finite; got infinity. NaN leaves a point free.")
        return np.broadcast_to(given, shape)


def _similar(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    others = " and others" if len(known) > 3 else ""
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known[:3])}{others}."


MAX_DIFFERENCE = 0.1  # of lengths, over the longest, up to which signals are cut to the shortest


@dataclass(frozen=True, eq=False)
class Found:
    """Signals (n, C, T) as read; `flat` where the file has no channels, the others as in `SignalCodec`.

    unequal: n signals (C, points) instead, where their lengths differ
    """

    signals: Array
    ids: tuple[str, ...]
    channels: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    _: KW_ONLY
    flat: bool
    step: float | None = None
    rate: int | None = None
    bits: int | None = None
    columns: tuple[str, ...] = ()
    label_column: str | None = None
    id_column: str | None = None
    unequal: tuple[Array, ...] = ()

    def with_signals(self, signals: Sequence[Array]) -> Found:
        """The same with these signals (C, points), of one length or of several."""
        if len({signal.shape[1] for signal in signals}) == 1:
            return replace(self, signals=np.stack(signals), unequal=())
        return replace(self, signals=np.empty((0, len(self.channels), 0)), unequal=tuple(signals))

    def of_one_length(self, where: str, length: int | None = None, resample: int | None = None) -> Found:
        """The same with equally long signals: their first `length` points, or all of them as `resample` points."""
        signals = list(self.unequal or self.signals)
        lengths = [signal.shape[1] for signal in signals] or [0]
        low, high = min(lengths), max(lengths)
        if low == high and length is None and resample is None:
            return self
        if resample is not None and self.bits is not None:
            raise InputError(f"{where}: resample would change the rate of WAV files. Cut them with length={low}.")
        if resample is not None:
            found = self.with_signals([_resampled(signal, resample) for signal in signals])
            found, how = found.without_columns(), f"stretched to {resample:,}"
        else:
            if length is None and low >= (1 - MAX_DIFFERENCE) * high:
                length = low
            if length is None:
                rule = f"{where}: signals have {low:,} to {high:,} points, and must be equally long"
                how = "" if self.bits is not None else f", or stretch them with resample={high}"
                raise InputError(f"{rule}. Cut them to their first points with length={low}{how}.")
            if not 1 <= length <= low:
                which = "signals have" if low == high else "the shortest signal has"
                raise InputError(f"length must be 1 to {low}, the points that {which}; got {length}.")
            found, how = self.with_signals([signal[:, :length] for signal in signals]), f"cut to their first {length:,}"
        if low == high:
            return found
        return replace(found, notes=(*self.notes, f"signals have {low:,} to {high:,} points, and all were {how}"))

    def in_windows(self, n: int, where: str) -> Found:
        """Windows of n points of each signal; of one recording where a matrix has more rows, its points, than columns.

        Windows of a recording whose class changes are left out, and so is a column that counts the points.
        """
        signals, channels, notes, classes = list(self.unequal or self.signals), self.channels, self.notes, None
        is_matrix = self.flat and len(self.signals) > self.signals.shape[2]
        if is_matrix and not rows_are_smooth(self.signals[:, 0]):
            values, classes = self.signals[:, 0].T, self.labels
            names = [name for name in self.columns if name not in (self.label_column, self.id_column)]
            names = names or [str(c + 1) for c in range(len(values))]
            steps = np.diff(values, axis=1)
            clocks = (steps[:, 0] != 0) & (np.ptp(steps, axis=1) <= 1e-6 * np.abs(steps[:, 0]))
            if clocks.any() and not clocks.all():
                notes = (*notes, f"column {names[int(clocks.argmax())]!r} counts the points, and is left out")
                values, names = (
                    values[~clocks],
                    [name for name, is_clock in zip(names, clocks, strict=True) if not is_clock],
                )
            signals, channels = [values], tuple(names)
        windows = [(k, at) for k, one in enumerate(signals) for at in range(0, one.shape[1] - n + 1, n)]
        if classes is not None:
            windows = [(k, at) for k, at in windows if len(set(classes[at : at + n])) == 1]
        total = sum(signal.shape[1] for signal in signals)
        if len(windows) < 2:
            raise InputError(f"{where}: window={n} cuts {total:,} points into fewer than two windows. Lower window.")
        labels = None
        if self.labels is not None:
            labels = tuple(self.labels[k if classes is None else at] for k, at in windows)
        n_whole = sum(signal.shape[1] // n for signal in signals)
        changing = f"; {n_whole - len(windows):,} more in which the class changes were left out"
        cut = f"{total:,} points were cut into {len(windows):,} windows of {n:,}{changing * (n_whole > len(windows))}"
        found = replace(self, channels=channels, labels=labels, notes=(*notes, cut), flat=len(channels) == 1)
        found = replace(found, ids=tuple(str(i + 1) for i in range(len(windows))))
        return found.with_signals([signals[k][:, at : at + n] for k, at in windows]).without_columns()

    def without_columns(self) -> Found:
        """The same without the names of columns, which are not the points any more."""
        return replace(self, columns=(), label_column=None, id_column=None)


def _resampled(signal: Array, n: int) -> Array:
    """A signal (C, points) at n points that are evenly spaced from its first to its last, by linear interpolation."""
    points = signal.shape[1]
    return np.stack([np.interp(np.linspace(0, points - 1, n), np.arange(points), channel) for channel in signal])
