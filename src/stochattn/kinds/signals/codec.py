"""The codec of signals of one length: items (n, channels, points), arrays of generators (n, points, channels)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from .. import Codec, Conditioned, InputError
from ..codec import Items, index_of, parse_interval, suggest_ids
from .generator.normalization import Normalization


@dataclass(frozen=True, eq=False)
class SignalCodec(Codec):
    """Signals (n, C, T); in arrays (n, T, C).

    stored: (K, C, T); a list of arrays (C, points) where a file has signals of several lengths, until `cut_to_length`
    flat:   whether users get signals of one channel as (n, T)
    step:   new values are multiples of this number because all stored values are: 1 for integers; None otherwise
    limits: new values lie between these: 0 and infinity if no stored value is negative
    rate, bits: points per second and bits of a point, for signals from WAV files
    columns, label_column, id_column: names of the columns of a CSV file, in their order, and those of classes and ids
    shared_normalization: the normalization of the signals of which these are a part
    conditions: positions t·C + c (r,) and values (r,) that new signals must have
    """

    stored: Items
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
    conditions: tuple[Array, Array] | None = None
    shared_normalization: Normalization | None = None

    @property
    def length(self) -> int:
        return int(self.stored.shape[2])

    @property
    def classes(self) -> Array:
        """The class of each stored signal as a number, all zero without classes: (K,)."""
        return np.unique([""] * self.K if self.labels is None else self.labels, return_inverse=True)[1]

    @cached_property
    def normalization(self) -> Normalization:
        """The rule that stored signals follow, and new ones too unless they are rounded or conditioned."""
        if self.shared_normalization is not None:
            return self.shared_normalization
        if self.step is not None and self.bits is None:
            return Normalization((self.length, len(self.channels)))
        return Normalization.of(np.swapaxes(self.stored, 1, 2))

    def encode(self, items: Array) -> Array:
        values = np.asarray(items, dtype=np.float64)
        values = values[:, None] if values.ndim == 2 else values  # of one channel
        if values.shape[1:] != self.stored.shape[1:]:
            shape = (len(values), *self.stored.shape[1:])
            raise InputError(f"signals must be an array of shape {shape}; got {np.shape(items)}.")
        return np.ascontiguousarray(np.swapaxes(values, 1, 2))

    def decode(self, arrays: Array, source: Array | None = None) -> Array:
        values = np.array(arrays, dtype=np.float64)
        if self.conditions is None:
            values = self.normalization.apply(np.clip(values, *self.limits))
        if self.step is not None:
            values = np.rint(values / self.step) * self.step
        values = np.clip(values, *self.limits)
        if self.conditions is not None:  # rounding must not change conditioned values
            positions, conditioned = self.conditions
            values.reshape(len(values), -1)[:, positions] = conditioned
        return np.ascontiguousarray(np.swapaxes(values, 1, 2))

    def refit(self, items: Array) -> SignalCodec:
        """A codec with the same options for other signals; signals that are stored here keep their class."""
        signals = np.asarray(items, dtype=np.float64)
        if len(signals) < 2 or (signals == signals[:1]).all():
            raise InputError("a part of the stored signals are all equal, so there is nothing to vary: store more.")
        ids = tuple(str(i + 1) for i in range(len(signals)))
        codec = replace(self, conditions=None, shared_normalization=self.normalization)
        return replace(codec, stored=signals, ids=ids, labels=self.labels_among(signals), notes=())

    def to_user(self, items: Array) -> Array:
        return np.asarray(items)[:, 0] if self.flat else np.asarray(items)

    def state(self) -> dict[str, Plain]:
        unsaved = ("conditions", "shared_normalization")  # which conditions and parts of the data set
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in unsaved}

    def condition(self, values: Mapping[object, object]) -> Conditioned:
        """Values of points {t: value} and of stretches of time {(start, stop): values}, counted from 0.

        Keys (channel, t) and (channel, (start, stop)) name one channel. `stop` is excluded. Values are a number, an
        array (channels, stop - start), or (stop - start,) of one channel, an array as long as a signal, or the id of a
        stored signal. NaN in an array leaves a point free.
        """
        wanted = np.full((len(self.channels), self.length), np.nan)
        for key, value in values.items():
            rows, columns = self._locate(key)
            before, asked = wanted[rows, columns], self._read_values(key, value, rows, columns)
            if (np.abs(before - asked) > 0).any():  # comparisons with NaN, which leaves a point free, are false
                raise InputError(f"condition {key!r} contradicts another condition on the same point: remove one.")
            wanted[rows, columns] = np.where(np.isnan(asked), before, asked)
        flat = wanted.T.ravel()
        positions = np.flatnonzero(~np.isnan(flat))
        if not len(positions):
            raise InputError("every value of the conditions is NaN: give the value of at least one point.")
        observation = positions, flat[positions]
        return Conditioned(replace(self, conditions=observation), observation)

    def _locate(self, key: object) -> tuple[slice, slice]:
        """The channels and points that a key names."""
        rows, when = slice(0, len(self.channels)), key
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str):
            if key[0] not in self.channels:
                rule = f"no channel is called {key[0]!r}; {suggest_ids(key[0], self.channels)}"
                raise InputError(f"condition {key!r}: {rule}")
            rows, when = slice(i := self.channels.index(key[0]), i + 1), key[1]
        if (interval := parse_interval(when, self.length)) is None:
            rule = "must be a point t, a stretch (start, stop), or one of these after the name of a channel"
            raise InputError(f"condition {key!r} {rule}.")
        if interval == (0, 0):
            raise InputError(f"condition {key!r}: points must lie within 0 to {self.length - 1}; got {when!r}.")
        return rows, slice(*interval)

    def _read_values(self, key: object, value: object, rows: slice, columns: slice) -> Array:
        """The values of a condition on these channels and points: (channels, points)."""
        shape = rows.stop - rows.start, columns.stop - columns.start
        if isinstance(value, str):
            if (k := index_of(self.ids, value)) is None:
                rule = f"no stored signal has the id {value!r}; {suggest_ids(value, self.ids)}"
                raise InputError(f"condition {key!r}: {rule}")
            return np.asarray(self.stored[k][rows, columns])
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            rule = f"the values must be numbers or the id of a signal; got {value!r}"
            raise InputError(f"condition {key!r}: {rule}.") from None
        if array.shape == (shape[0],) and shape[1] == 1:
            array = array[:, None]
        elif array.ndim == 1 and shape[0] == 1:
            array = array[None]
        if array.ndim == 2 and array.shape == (shape[0], self.length):
            array = array[:, columns]
        if array.ndim and array.shape != shape:
            rule = f"must be a number, an array of shape {shape}, or one as long as a signal"
            raise InputError(f"condition {key!r}: the values {rule}; got shape {array.shape}.")
        if np.isinf(array).any():
            raise InputError(f"condition {key!r}: the values must be finite; got infinity. NaN leaves a point free.")
        return np.broadcast_to(array, shape)
