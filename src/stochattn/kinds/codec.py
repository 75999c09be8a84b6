"""Items, arrays and files: the codec between items and arrays, and what passes between codecs, generators and writers.

items --Codec.encode--> arrays --Generator--> new arrays --Codec.decode--> new items

An item is one stored or new example as the codec holds it: a sequence, a picture, a row of a table.

Values that conditions allow, and unique names of stored items.
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

Items = Any
"""Items as their codec holds them: an array whose first axis counts them, a data frame, or any sequence."""


class Settings(NamedTuple):
    """What a result file carries about its making.

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
    nearest, source: (n,) indices of the stored items that each is nearest to, drawn around; None for many
    novelty: (n,) 1 − max cos with a stored row; None likewise
    extra:   further columns by name, (n,) each

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
    >>> class Counter:
    ...     n = 0
    ...     def write(self, batch: Batch) -> None:
    ...         self.n += len(batch.items)
    ...     def close(self) -> None:
    ...         print(self.n)
    >>> writer = Counter()
    >>> writer.write(Batch(0, ["a", "b"], None, None, {}, None))
    >>> writer.close()
    2
    """

    def write(self, batch: Batch) -> None:
        """Write these."""

    def close(self) -> None:
        """Write what comes after the last of them."""


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
        """Whether the workers of a scheduler can write it: as chunks of one array, or as a folder of such files."""
        return self.in_chunks or (not self.is_folder and self.max_items is None)


ZARR = Format("zarr", (".zarr",), in_chunks=True)
"""The format of kinds whose items are arrays of numbers: `Kind.as_array`, in a Zarr array."""


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
        ends = (f"{name}={end!r}" for name, end in self.ends().items())
        return f"Range({', '.join(ends)})"

    def ends(self) -> dict[str, Any]:
        """The ends that are given, by name."""
        return {name: end for name, end in vars(self).items() if end is not None}


def condition_text(name: object, value: object) -> str:
    """A condition as it is written on the command line: age=40, 40<=age<60, city=Bergen|Oslo."""
    if isinstance(value, Range):
        low = "" if value.low is None else f"{value.low}{'<' if value.ge is None else '<='}"
        high = "" if value.high is None else f"{'<' if value.le is None else '<='}{value.high}"
        if low and not high:
            return f"{name}{'>' if value.ge is None else '>='}{value.low}"
        return f"{low}{name}{high}"
    return f"{name}={'|'.join(sorted(map(str, value)))}" if isinstance(value, AbstractSet) else f"{name}={value}"


def plain_conditions(conditions: Mapping[Any, Any]) -> dict[Any, Plain]:
    """Conditions as plain values: the ends of a range by name, and the members of a set."""

    def plain(value: object) -> Plain:
        if isinstance(value, Range):
            return value.ends()
        return {"members": sorted(value, key=str)} if isinstance(value, AbstractSet) else value

    return {name: plain(value) for name, value in conditions.items()}


def conditions_of(state: Mapping[Any, Plain]) -> dict[Any, Any]:
    """The conditions whose `plain_conditions` these are."""

    def value(plain: Plain) -> Any:
        if not isinstance(plain, dict):
            return plain
        return set(plain["members"]) if "members" in plain else Range(**plain)

    return {name: value(plain) for name, plain in state.items()}


_FORMER = {"both": "combine", "checked": "check_items"}
"""Methods of `Codec` until version 0.2, and what each is called now."""


def _warn_of_former(name: str) -> None:
    warnings.warn(f"Codec.{name} is now called Codec.{_FORMER[name]}.", DeprecationWarning, stacklevel=3)


class Codec(ABC):
    """Items to arrays and back, fitted on stored items. It knows nothing of sampling, and never changes.

    ids, labels: (K,) a name for each of them, and a class for each of them or None
    notes:       one line for whatever was dropped, mapped or assumed while reading
    original:    the codec without conditions, where this one encodes items in another way because of conditions
    unconditioned: of a codec that `condition` returns, the one whose arrays generators are fitted on, where that is
                 not the codec that was conditioned

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
        """Arrays as items; what arrays do not say is that of the stored items `source` (n,)."""

    def features(self, items: Items) -> Array:
        """Items as vectors of numbers, whose distances tell how unlike items are: (n, p)."""
        return np.asarray(self.encode(items), dtype=np.float64).reshape(len(items), -1)

    @abstractmethod
    def refit(self, items: Items) -> Codec:
        """A codec with the same options, fitted on other items of the same shape."""

    @abstractmethod
    def state(self) -> dict[str, Plain]:
        """All it needs to be made again by `Kind.codec_from_state`: plain values and arrays, by name."""

    def condition(self, values: Mapping[Any, Any]) -> Conditioned:
        """The codec, and what generators are conditioned on, given values by name; InputError for impossible ones.

        Where the observation is (positions, values) of features, "hopfield" and "gaussian" meet it exactly, so that
        `decode` needs to do nothing for a condition. Other observations are for generators of the kind itself.
        """
        raise InputError("this kind of data takes no conditions: leave them out.")

    def combine(self, name: Any, first: Any, second: Any) -> Any:
        """The condition that is met where two different ones of a name are; InputError where nothing meets both."""
        raise InputError(f"{name} is conditioned on {first!r} already; got {second!r}. Choose one of the two.")

    def labels_among(self, arrays: Array) -> tuple[str, ...] | None:
        """Classes of arrays (n, ...) that are all among `stored`, as in a part of it; None where one is not."""
        if self.labels is None:
            return None
        stored = np.ascontiguousarray(self.stored)
        label_of = {array.tobytes(): label for array, label in zip(stored, self.labels, strict=True)}
        with suppress(KeyError):
            return tuple(label_of[array.tobytes()] for array in np.ascontiguousarray(arrays))
        return None

    def check_items(self, items: Any) -> Items:
        """Items that a user passes, as the codec holds them; InputError where they are none."""
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
        """Items as a user of the library wants to see them."""
        return items


def distinct_names(ids: Sequence[str]) -> tuple[str, ...]:
    """The ids (K,), unique: where several items have the same one, the number of the item follows it, counted from 1.

    >>> distinct_names(["a", "b", "a"])
    ('a (1)', 'b', 'a (3)')
    """
    counts, names = Counter(ids), []
    for k, name in enumerate(ids):
        if counts[name] > 1:
            name = f"{name} ({k + 1})"
            while name in counts:  # the id of another item
                name = f"{name} ({k + 1})"
        names.append(name)
    return tuple(names)


def index_of(ids: Sequence[str], name: str) -> int | None:
    """The stored item with this id, the first of several, or with this distinct name; None if there is none.

    >>> [index_of(["a", "b", "a"], name) for name in ("b", "a", "a (3)", "c")]
    [1, 0, 2, None]
    """
    for names in (ids, distinct_names(ids)):
        if name in names:
            return names.index(name)
    return None


def suggest_ids(name: str, names: Sequence[str]) -> str:
    """The end of a message on a name that does not exist: those most like it, or the first few of all.

    >>> suggest_ids("temprature", ["temperature", "load"]), suggest_ids("zz", ["a", "b", "c", "d"])
    ('did you mean temperature?', 'there are a, b, c and others.')
    """
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
