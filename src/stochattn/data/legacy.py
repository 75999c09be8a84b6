"""What a codec is: fitted on stored items, it turns items into rows of a bank and draws back into items.

items --features--> (n, p) --Coordinates--> rows of a MemoryBank --sampler--> draws
items <---items---- (n, p) <--Coordinates-- coordinates <--factors-- draws
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple, Protocol

import numpy as np

from .._backend.arrays import Array
from .._backend.files import write_whole
from .._version import __version__
from ..core.memory import MemoryBank
from ..core.neighbors import nearest_rows
from ..generators.coordinates import Coordinates


class InputError(ValueError):
    """A file or an option that cannot be used. The message is one line: file, line or column, rule and remedy."""


class Loss(NamedTuple):
    """What decode(encode(stored items)) does not give back."""

    items: float  # share of the stored items that come back exactly
    values: float  # share of their values (residues, pixels, cells) that come back exactly
    variance: float  # share of the variance that the rows keep

    def __str__(self) -> str:
        if self.items == 1:
            return "nothing: every stored item decodes to itself"
        return (
            f"{1 - self.values:.2%} of the values ({self.items:.0%} of the stored items decode to themselves; "
            f"rows keep {self.variance:.1%} of the variance)"
        )


class Batch(NamedTuple):
    """New items on their way to a file."""

    first: int  # number of the first of them, from 0
    items: Any
    nearest: Array  # (n,) index of the nearest stored item, among rows; None for paths of many windows
    novelty: Array  # (n,) 1 − max cos among rows; None likewise
    extra: dict[str, Array]  # further columns by name, (n,) each: identity, score, evalue
    memory: Array  # (n,) index of the stored item that each was drawn around; None likewise


class Measure(NamedTuple):
    """One figure about a set of new items, beside what it would ideally be."""

    name: str
    value: float
    ideal: float | None  # None where there is no ideal, only a fact
    meaning: str  # one sentence for a reader who has not met it


class Part(NamedTuple):
    """One column, position or ticker: what it looks like among stored and among new items."""

    name: str
    stored: str
    new: str
    distance: float  # 0 the same, 1 nothing in common


class Comparison(NamedTuple):
    """New items against the stored ones: figures about the whole, and its parts."""

    measures: tuple[Measure, ...]
    parts: tuple[Part, ...]


class Settings(NamedTuple):
    """What a result file carries about its making."""

    beta: float
    seed: int
    rule: str
    sampler: str
    source: str
    version: str = __version__


class Writer(Protocol):
    """Takes new items, block by block, and writes them in one format."""

    def write(self, batch: Batch) -> None:
        """Write these."""

    def close(self) -> None:
        """Write what comes after the last of them."""


class Native(Protocol):
    """A sampler made for one kind of data, which draws items themselves rather than rows of a bank."""

    @property
    def about(self) -> str:
        """One line: what it does, and how its knobs were set."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user must know about these draws, a line each."""

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Any, Array]:
        """n new items, and the stored item that each was drawn around or is nearest to: (n,)."""


class Codec(ABC):
    """Items to rows and back. A kind of data is a subclass; the constructor's options are its own.

    stored:      the items it was fitted on, as `items` returns them
    ids:         (K,) a name for each of them
    labels:      (K,) a class for each of them, or None
    coordinates: the linear part, fitted
    notes:       one line for whatever was dropped, mapped or assumed while reading
    formats:     output formats, each with the endings that ask for it; the first is the default. The ending "" is a
                 folder: its writer gets an empty folder, every other one a binary stream
    collected:   formats whose writers hold all items until the end
    decodes_classes: whether new items say their own class, rather than have their memory's
    native_name: what the sampler made for this kind is called, where there is one
    """

    kind: ClassVar[str]
    formats: ClassVar[dict[str, tuple[str, ...]]]
    collected: ClassVar[tuple[str, ...]] = ()
    decodes_classes: ClassVar[bool] = False
    native_name: ClassVar[str] = ""
    stored: Any
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    coordinates: Coordinates
    notes: tuple[str, ...] = ()

    @abstractmethod
    def features(self, items: Any) -> Array:
        """Items as numbers: (n, p)."""

    @abstractmethod
    def items(self, coordinates: Array, memory: Array, rng: np.random.Generator) -> Any:
        """Coordinates (n, d) as items; `memory` (n,) is the stored item each was drawn around, or is nearest to."""

    @abstractmethod
    def same(self, first: Any, second: Any) -> Array:
        """Which values of two sets of items are equal: (n, values) booleans."""

    @abstractmethod
    def take(self, items: Any, indices: Any) -> Any:
        """Some of the items."""

    @abstractmethod
    def observe(self, fixes: Iterable[str]) -> tuple[Array, Array]:
        """`--fix` texts as linear equations A z = y of coordinates: (r, d), (r,); InputError for impossible ones."""

    def native(self, weights: Array, fixes: Iterable[str] = ()) -> Native | None:
        """The sampler made for this kind, of stored items that count `weights` (K,) times; None where there is none."""
        return None

    def hold(self, fixes: Iterable[str]) -> Codec:
        """The codec that decodes these values as they are fixed, whatever its decode draws or rounds."""
        return self

    @abstractmethod
    def writer(self, place: BinaryIO | Path, format: str, settings: Settings) -> Writer:
        """Something to write new items with, into an open binary stream or an empty folder."""

    @abstractmethod
    def read_new(self, path: Path) -> Any:
        """Items of the same shape as the stored ones, from a file such as `writer` writes."""

    @abstractmethod
    def compare(self, items: Any) -> Comparison:
        """New items against the stored ones."""

    @abstractmethod
    def refit(self, items: Any) -> Codec:
        """A codec with the same options, fitted on other items of the same shape (a half of the stored ones, say)."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All it needs to be made again, as something for json and arrays."""

    @classmethod
    @abstractmethod
    def from_state(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Codec:
        """The codec of that state."""

    @property
    def K(self) -> int:
        """How many items are stored."""
        return len(self.ids)

    @property
    def p(self) -> int:
        """How many numbers an item has as features."""
        return int(self.features(self.take(self.stored, np.arange(1))).shape[1])

    @property
    def bank(self) -> MemoryBank:
        """The stored items as a bank."""
        return MemoryBank(self.coordinates.stored)

    @property
    def equal_weights(self) -> bool:
        """Whether the model must weigh memories alike, because their rows keep unequal lengths."""
        return self.coordinates.norm == "whole"

    def factors(self, beta: float | None = None) -> Array:
        """What turns a row drawn around memory k into coordinates: (K, 1) or (K, d)."""
        return self.coordinates.factors(beta)

    def encode(self, items: Any) -> Array:
        """Items as rows: (n, d)."""
        return self.coordinates.rows(self.features(items))

    def decode(self, rows: Any, beta: float | None = None, rng: int = 0) -> Any:
        """Rows as items; each gets the length of the nearest memory.

        beta: at which the rows were drawn; None for rows without noise, such as the stored ones
        """
        rows = np.asarray(rows, dtype=np.float64)
        memory = nearest_rows(rows, self.coordinates.stored)
        return self.items(rows * self.factors(beta)[memory], memory, np.random.default_rng(rng))

    def at(self, beta: float, log_r: Any = None) -> Codec:
        """The codec for draws at this beta, with these log-multiplicities (K,); few decodes depend on either."""
        return self

    def annotate(self, items: Any, rows: Array) -> tuple[Array, dict[str, Array]]:
        """The nearest stored item of each new one (n,), and further columns (n,) for its header, by name."""
        return nearest_rows(rows, self.coordinates.stored), {}

    def classes(self, items: Any, memory: Array) -> Array:
        """The class of each new item: that of its memory, or what the item itself says: (n,)."""
        return np.array(self.labels)[memory]

    def presented(self, items: Any) -> Any:
        """Items as a user of the library wants to see them."""
        return items

    def comparable(self, items: Any) -> Array:
        """Items as numbers whose distances tell how unlike they look, whatever rows are made of them: (n, p)."""
        return self.features(items)

    def apart(self, kept: Array) -> Array:
        """Those of these stored items that share nothing, so that a half of them is not within the other: (m,)."""
        return kept

    def loss(self) -> Loss:
        """What is lost on the way to rows and back, measured on the stored items."""
        same = self.same(self.decode(self.coordinates.stored), self.stored).reshape(self.K, -1)
        return Loss(float(same.all(1).mean()), float(same.mean()), self.coordinates.variance)

    def save(self, path: str | Path) -> None:
        """Write an .npz file: arrays, and a json text with everything else. No pickle."""
        facts, arrays = self.state()
        text = json.dumps({"kind": self.kind, "version": __version__, **facts})
        buffer = io.BytesIO()
        np.savez_compressed(buffer, codec=np.array(text), **arrays)
        write_whole(Path(path), buffer.getvalue())


def read_state(path: str | Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """What `save` wrote."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return json.loads(str(arrays.pop("codec"))), arrays
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise InputError(f"{path} is no codec ({type(error).__name__}): save one with codec.save(path).") from None
