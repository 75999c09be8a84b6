"""Items, arrays and files: the codec between items and arrays, and what passes between codecs, generators and writers.

items --Codec.encode--> arrays --Generator--> new arrays --Codec.decode--> new items

An item is one stored or new example as the codec holds it: a sequence, an image, a row of a table. This module also has
the values that conditions take, and the unique names of stored items.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from .._backend.arrays import Array
from .._backend.state import Plain
from .._version import __version__
from .options import InputError

Items = Any  # an array whose first axis counts items, a data frame, or any sequence


class Settings(NamedTuple):
    """How a result was made, as its file says it.

    >>> from stochattn.kinds import Settings
    >>> Settings(seed=0, generator="covariance", source="patients.csv").beta is None
    True
    """

    seed: int
    generator: str
    source: str
    beta: float | None = None
    version: str = __version__


class Batch(NamedTuple):
    """New items on their way to a file.

    first:   number of the first of them, from 0
    nearest: (n,) index of the stored item that each is nearest to
    novelty: (n,) 1 − the largest cosine with a stored row
    extra:   further columns by name, (n,) each
    source:  (n,) index of the stored item that each was drawn around
    Items that are made of many stored ones have no nearest item, novelty and source: they are None.

    >>> import numpy as np
    >>> from stochattn.kinds import Batch
    >>> Batch(0, np.zeros((2, 3)), None, None, {}, source=np.array([4, 7])).source
    array([4, 7])
    """

    first: int
    items: Items
    nearest: Array | None
    novelty: Array | None
    extra: dict[str, Array]
    source: Array | None


class Writer(Protocol):
    """Takes new items, block by block, and writes them in one format.

    >>> from stochattn.kinds import Batch
    >>> class Printer:
    ...     def write(self, batch: Batch) -> None:
    ...         print(batch.items)
    ...     def close(self) -> None:
    ...         print("complete")
    >>> Printer().write(Batch(0, ["a", "b"], None, None, {}, None))
    ['a', 'b']
    """

    def write(self, batch: Batch) -> None:
        """Write these items."""

    def close(self) -> None:
        """Write what comes after the last item."""


@dataclass(frozen=True)
class Format:
    """An output format.

    extensions: file name extensions that ask for it; "" is a folder, and its writer gets an empty folder
    collected:  whether the writer holds all items until the end
    max_items:  how many items a file can show, or None
    in_chunks:  whether it is one Zarr array, a folder of chunks that several processes write; see `Kind.as_array`

    >>> from stochattn.kinds import Format
    >>> Format("csv", (".csv",)).in_parts, Format("folder", ("",)).is_folder
    (True, True)
    """

    name: str
    extensions: tuple[str, ...]
    collected: bool = False
    max_items: int | None = None
    in_chunks: bool = False

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of files."""
        return self.in_chunks or self.extensions == ("",)

    @property
    def in_parts(self) -> bool:
        """Whether the workers of a scheduler can write it, as chunks of one array or as a folder of such files."""
        return self.in_chunks or (not self.is_folder and self.max_items is None)


ZARR = Format("zarr", (".zarr",), in_chunks=True)  # `Kind.as_array` in a Zarr array


class Conditioned(NamedTuple):
    """The codec whose decode meets a condition, what generators are conditioned on, and notes for the user.

    >>> import stochattn as sa
    >>> codec = sa.fit(["MKVL", "MRIL", "MKIL"]).codec
    >>> codec.condition({1: "K"})._fields
    ('codec', 'observation', 'notes')
    """

    codec: Codec
    observation: Any
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class Range:
    """Values between two ends, either of which may be left out: `Range(ge=40, lt=60)` is 40 <= value < 60.

    ge, gt: the lower end, included or excluded; le, lt: the upper end, included or excluded

    >>> import stochattn as sa
    >>> sa.Range(ge=40, lt=60)
    Range(ge=40, lt=60)
    """

    ge: Any = None
    gt: Any = None
    le: Any = None
    lt: Any = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise InputError("a Range needs at least one end: pass ge, gt, le or lt, such as Range(ge=40).")
        for included, excluded in (("ge", "gt"), ("le", "lt")):
            if getattr(self, included) is not None and getattr(self, excluded) is not None:
                raise InputError(f"a Range takes {included} or {excluded}, not both; got {self!r}. Pass one of them.")

    @property
    def low(self) -> Any:
        """The lower end, or None."""
        return self.gt if self.ge is None else self.ge

    @property
    def high(self) -> Any:
        """The upper end, or None."""
        return self.lt if self.le is None else self.le

    def __repr__(self) -> str:
        return f"Range({', '.join(f'{name}={end!r}' for name, end in self.ends().items())})"

    def ends(self) -> dict[str, Any]:
        """The ends that are not left out, by name."""
        return {name: end for name, end in vars(self).items() if end is not None}


def condition_text(name: object, value: object) -> str:
    """A condition as it is written on the command line: age=40, 40<=age<60, city=Bergen|Oslo."""
    if isinstance(value, AbstractSet):
        return f"{name}={'|'.join(sorted(map(str, value)))}"
    if not isinstance(value, Range):
        return f"{name}={value}"
    if value.high is None:
        return f"{name}{'>' if value.ge is None else '>='}{value.low}"
    low = "" if value.low is None else f"{value.low}{'<' if value.ge is None else '<='}"
    return f"{low}{name}{'<' if value.le is None else '<='}{value.high}"


def plain_conditions(conditions: Mapping[Any, Any]) -> dict[Any, Plain]:
    """Conditions as plain values: the ends of a range by name, and the members of a set."""
    sets = {name: value for name, value in conditions.items() if isinstance(value, AbstractSet)}
    ranges = {name: value.ends() for name, value in conditions.items() if isinstance(value, Range)}
    return {**conditions, **ranges, **{name: {"members": sorted(value, key=str)} for name, value in sets.items()}}


def restore_conditions(state: Mapping[Any, Plain]) -> dict[Any, Any]:
    """The conditions of which `plain_conditions` made plain values."""
    plain = {name: value for name, value in state.items() if isinstance(value, dict)}
    restored = {name: set(ends["members"]) if "members" in ends else Range(**ends) for name, ends in plain.items()}
    return {**state, **restored}


_FORMER = {"both": "combine", "checked": "check_items"}  # methods until version 0.2, and their names now


def _warn_of_former(name: str) -> None:
    warnings.warn(f"Codec.{name} is now called Codec.{_FORMER[name]}.", DeprecationWarning, stacklevel=3)


class Codec(ABC):
    """Items to arrays and back, fitted on stored items. It knows nothing of sampling, and never changes.

    ids, labels: (K,) the name of each stored item, and its class; None without classes
    notes:       a line for everything that was dropped, mapped or assumed while reading
    original:    the codec without conditions, where conditions change how this one encodes items
    unconditioned: the codec whose arrays generators are fitted on, where `condition` returns one for other arrays than
                 those of the codec that was conditioned

    >>> import stochattn as sa
    >>> codec = sa.fit(["MKVL", "MRIL", "MKIL"]).codec
    >>> codec.K, codec.encode(codec.stored).shape
    (3, (3, 4))
    """

    if not TYPE_CHECKING:  # type checkers know only the present names

        def __init_subclass__(cls, **options):
            """Methods that a codec defines by an earlier name take the place of the present ones."""
            super().__init_subclass__(**options)
            for former in _FORMER.keys() & vars(cls).keys():
                _warn_of_former(former)
                setattr(cls, _FORMER[former], vars(cls)[former])

        def __getattr__(self, name):
            """Methods by their names until version 0.2."""
            if name not in _FORMER:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            _warn_of_former(name)
            return getattr(self, _FORMER[name])

    stored: Items
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    original: Codec | None = None
    unconditioned: Codec | None = None

    @property
    def K(self) -> int:
        """How many items are stored."""
        return len(self.ids)

    @abstractmethod
    def encode(self, items: Items) -> Array:
        """Items as the arrays that generators sample: (n, ...)."""

    @abstractmethod
    def decode(self, arrays: Array, source: Array | None = None) -> Items:
        """Arrays as items. What arrays do not say comes from the stored items `source` (n,)."""

    def features(self, items: Items) -> Array:
        """Items as vectors of numbers, whose distances say how different the items are: (n, p)."""
        return np.asarray(self.encode(items), dtype=np.float64).reshape(len(items), -1)

    @abstractmethod
    def refit(self, items: Items) -> Codec:
        """A codec with the same options, fitted on other items of the same shape."""

    @abstractmethod
    def state(self) -> dict[str, Plain]:
        """Plain values and arrays by name, of which `Kind.codec_from_state` makes the same codec."""

    def condition(self, values: Mapping[Any, Any]) -> Conditioned:
        """The codec, and what generators are conditioned on, given values by name; InputError for impossible ones.

        Where the observation is (positions, values) of features, "hopfield" and "gaussian" meet it exactly, so that
        `decode` needs to do nothing for a condition. Other observations are for generators of the kind itself.
        """
        raise InputError("this kind of data takes no conditions: leave them out.")

    def combine(self, name: Any, first: Any, second: Any) -> Any:
        """The condition that is met where two conditions of a name are met; InputError where nothing meets both."""
        raise InputError(f"{name} is conditioned on {first!r} already; got {second!r}. Choose one of the two.")

    def labels_among(self, arrays: Array) -> tuple[str, ...] | None:
        """Classes of arrays (n, ...) that are all among `stored`; None if one is not, or without classes."""
        if self.labels is None:
            return None
        stored = np.ascontiguousarray(self.stored)
        label_of = {array.tobytes(): label for array, label in zip(stored, self.labels, strict=True)}
        with suppress(KeyError):
            return tuple(label_of[array.tobytes()] for array in np.ascontiguousarray(arrays))
        return None

    def check_items(self, items: Any) -> Items:
        """Items that a user passes, as the codec holds them; InputError for anything else."""
        try:
            n = len(items)
        except TypeError:
            raise InputError(f"items must be new examples, as sample returns them; got {items!r}.") from None
        if n == 0:
            raise InputError("items must hold at least one example; it is empty.")
        return items

    def exact_copies(self, items: Items) -> Array | None:
        """Which items equal one that is stored once, (n,) booleans; None for kinds whose copies are not drawn again."""
        return None

    @property
    def share_repeated(self) -> float:
        """The share of stored items that equal another one."""
        return 0.0

    def take(self, items: Items, indices: Array) -> Items:
        """Some of the items, in an array, a list or a tuple; other collections need a method of their own."""
        if isinstance(items, np.ndarray):
            return items[np.asarray(indices)]
        if isinstance(items, list | tuple):
            return type(items)(items[i] for i in np.arange(len(items))[np.asarray(indices)])
        raise self._unknown_collection("take", items)

    def join(self, batches: Sequence[Items]) -> Items:
        """Items one after the other, in an array, a list or a tuple; other collections need a method of their own."""
        if len(batches) == 1:
            return batches[0]
        if all(isinstance(batch, np.ndarray) for batch in batches):
            return np.concatenate(batches)
        if all(isinstance(batch, list | tuple) for batch in batches):
            return type(batches[0])(chain.from_iterable(batches))
        raise self._unknown_collection("join", batches[-1])

    def _unknown_collection(self, method: str, items: Items) -> TypeError:
        rule = f"{type(self).__name__} must define {method} for items in a {type(items).__name__}"
        return TypeError(f"{rule}: the default is for arrays, lists and tuples.")

    def to_user(self, items: Items) -> Any:
        """Items as users of the library get them."""
        return items


def distinct_names(ids: Sequence[str]) -> tuple[str, ...]:
    """Unique ids (K,): the number of the item follows an id that several items have, a (1), b, a (3) for a, b, a."""
    counts, names = Counter(ids), []
    for k, name in enumerate(ids):
        if counts[name] > 1:
            name = f"{name} ({k + 1})"
            while name in counts:  # the id of another item
                name = f"{name} ({k + 1})"
        names.append(name)
    return tuple(names)


def index_of(ids: Sequence[str], name: str) -> int | None:
    """The first stored item with this id, or the one with this distinct name; None if there is none."""
    return next((names.index(name) for names in (ids, distinct_names(ids)) if name in names), None)


def suggest_ids(name: str, names: Sequence[str]) -> str:
    """The end of a message about a name that does not exist: the most similar names, or the first few of all."""
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    more = " and others" if len(names) > 3 else ""
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names[:3])}{more}."


def parse_interval(key: object, length: int) -> tuple[int, int] | None:
    """Start and stop that an index, a slice or a pair (start, stop) names on an axis; None for anything else.

    Negative indices count from the end. An interval outside of the axis, or with a step, is empty.

    >>> parse_interval(-1, 5), parse_interval((1, 3), 5), parse_interval((1, 9), 5), parse_interval("a", 5)
    ((4, 5), (1, 3), (0, 0), None)
    """
    step = 1
    if isinstance(key, slice):
        start, stop, step = key.indices(length)
    elif isinstance(key, int | np.integer):
        start = int(key) + (length if key < 0 else 0)
        stop = start + 1
    elif isinstance(key, tuple) and len(key) == 2 and all(isinstance(end, int | np.integer) for end in key):
        start, stop = map(int, key)
    else:
        return None
    return (start, stop) if step == 1 and 0 <= start < stop <= length else (0, 0)
