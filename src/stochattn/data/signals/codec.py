"""Signals of one length: floats (n, channels, points) as items, time first in the arrays of generators."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from ...generators.normalisation import Normalisation
from .. import Codec, Conditioned, InputError
from ..item_names import index_of


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
                f"condition {key!r}: values must be numbers or the id of a signal; got {value!r}."
            ) from None
        if given.ndim == 1 and (given.shape == (shape[0],) and shape[1] == 1):
            given = given[:, None]
        elif given.ndim == 1 and shape[0] == 1:
            given = given[None]
        if given.ndim == 2 and given.shape == (shape[0], self.length):
            given = given[:, columns]
        if given.ndim and given.shape != shape:
            rule = f"must be a number, an array of shape {shape}, or one as long as a signal"
            raise InputError(f"condition {key!r}: values {rule}; got shape {given.shape}.")
        if np.isinf(given).any():
            raise InputError(f"condition {key!r}: values must be finite; got infinity. NaN leaves a point free.")
        return np.broadcast_to(given, shape)


def _similar(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    others = " and others" if len(known) > 3 else ""
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known[:3])}{others}."
