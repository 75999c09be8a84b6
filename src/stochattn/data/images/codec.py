"""Pictures as rows: levels over 255, around their mean picture, in directions in which the stored ones differ."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import non_negative, one_of
from ...core.neighbors import nearest_rows
from ...generators.coordinates import Coordinates
from ..legacy import Codec, Comparison, InputError, Native, Settings, Writer
from .arrays import as_levels, has_colour, in_colour, read_arrays
from .fixes import directions, held, pixels
from .measures import compare
from .native import LocalPictures, default_warp, too_small
from .pictures import ENDINGS, load, picture_files, read
from .writers import ArrayWriter, FolderWriter, SheetWriter

BLOCK_ENTRIES = 2**24
"""Pictures are decoded in blocks of at most this many values."""


class Options(NamedTuple):
    """How pictures become rows, see `Coordinates.fit`; and how far new ones are warped, None for `default_warp`."""

    centre: bool = True
    variance: float | None = 1.0
    whiten: bool = True
    norm: str = "restored"
    warp: float | None = None


class ImageCodec(Codec):
    """Pictures of one size, grey (n, h, w) or RGB (n, h, w, 3), uint8.

    With the default options noise follows the directions in which the stored pictures differ, each by as much as they
    do: new pictures are blends and exaggerations, not pictures under snow, and every stored one decodes to itself.
    centre=False, variance=None, whiten=False, norm="paper" is the published setting. Levels outside 0 to 255 are
    clipped on decoding.
    """

    kind: ClassVar[str] = "image"
    native_name: ClassVar[str] = "local heads"
    formats: ClassVar[dict[str, tuple[str, ...]]] = {
        "png": ("",),
        "npz": (".npz",),
        "npy": (".npy",),
        "sheet": (".png",),
    }
    collected: ClassVar[tuple[str, ...]] = ("npz", "npy")

    def __init__(
        self,
        images: Array,
        ids: tuple[str, ...],
        labels: tuple[str, ...] | None,
        notes: tuple[str, ...],
        options: Options,
        source: str = "images",
    ) -> None:
        self.stored, self.ids, self.labels, self.options, self._source = images, ids, labels, options, source
        self._default_warp: float | None = None  # what others decided that this one was refitted from
        if len(images) < 2:
            raise InputError(f"{source} holds one picture, and new ones need at least two: add others like it.")
        dark = ("norm='paper' leaves pictures at unit length, so that they come out dark",)
        self.notes = (*notes, *dark) if options.norm == "paper" else notes
        centre, variance, whiten, norm, warp = options
        if warp is not None:
            non_negative("warp", warp)
        try:
            self.coordinates = Coordinates.fit(
                self.features(images), centre=centre, variance=variance, whiten=whiten, norm=norm
            )
        except ValueError as error:
            named = re.sub(r"^item (\d+)", lambda match: f"picture {ids[int(match[1]) - 1]}", str(error))
            raise InputError(f"{source}: {named}") from None

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        size: str | None = None,
        colour: bool | None = None,
        centre: bool = True,
        variance: float | None = 1.0,
        whiten: bool = True,
        norm: str = "restored",
        warp: float | None = None,
    ) -> ImageCodec:
        """A codec of the pictures in a folder, an .npz or an .npy file.

        size:   "64x48", wide by high; by default the most common one, with its longer side at most 128
        colour: RGB (True) or grey (False); by default RGB if any picture has colour
        warp:   root mean square displacement of new pictures in pixels, 0 for none; by default 1 where no class has
                more than 30 pictures, and 0 elsewhere. For local heads alone
        """
        found = read(path, size, colour)
        options = Options(centre, variance, whiten, norm, warp)
        return cls(found.images, found.ids, found.labels, found.notes, options, str(path))

    @classmethod
    def fit(
        cls,
        images: Any,
        ids: Iterable[str] | None = None,
        labels: Iterable[Any] | None = None,
        *,
        colour: bool | None = None,
        centre: bool = True,
        variance: float | None = 1.0,
        whiten: bool = True,
        norm: str = "restored",
        warp: float | None = None,
    ) -> ImageCodec:
        """A codec of pictures in an array (n, h, w), (n, h, w, 3) or (n, 3, h, w), at the size they have."""
        levels, notes = as_levels(images, "images")
        levels, about_colour = in_colour(levels, colour)
        names = tuple(str(i + 1) for i in range(len(levels))) if ids is None else tuple(map(str, ids))
        classes = None if labels is None else tuple(map(str, labels))
        for what, values in (("ids", names), ("labels", classes)):
            if values is not None and len(values) != len(levels):
                raise InputError(f"{what} must name each of the {len(levels)} pictures; got {len(values)}.")
        return cls(levels, names, classes, (*notes, *about_colour), Options(centre, variance, whiten, norm, warp))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a picture: (h, w) or (h, w, 3)."""
        return tuple(self.stored.shape[1:])

    def features(self, items: Any) -> Array:
        """Levels over 255: (n, h·w) or (n, h·w·3)."""
        return np.asarray(items).reshape(len(items), -1) / 255.0

    def items(self, coordinates: Array, memory: Array, rng: np.random.Generator) -> Array:
        """Pictures of these coordinates, rounded and clipped to 0 to 255: (n, h, w) or (n, h, w, 3) uint8."""
        images = np.empty((len(coordinates), *self.shape), dtype=np.uint8)
        size = max(BLOCK_ENTRIES // len(self.coordinates.mean), 1)
        for i in range(0, len(images), size):
            levels = np.rint(self.coordinates.features(coordinates[i : i + size]) * 255)
            images[i : i + size] = np.clip(levels, 0, 255).reshape(-1, *self.shape)
        return images

    def annotate(self, items: Any, rows: Array) -> tuple[Array, dict[str, Array]]:
        """The stored picture nearest to each by its pixels, as the eye compares them: rows may be scaled otherwise."""
        return self._nearest(items), {}

    def same(self, first: Any, second: Any) -> Array:
        """Which pixels are equal: (n, h·w) or (n, h·w·3)."""
        return (np.asarray(first) == np.asarray(second)).reshape(len(first), -1)

    def take(self, items: Any, indices: Any) -> Array:
        """Some of the pictures."""
        return np.asarray(items)[indices]

    def observe(self, fixes: Iterable[str]) -> tuple[Array, Array]:
        """Pixels `ROW,COLUMN=LEVEL` (or RED/GREEN/BLUE) and rectangles `ROW:ROW,COLUMN:COLUMN=ID`, counted from 1.

        A pixel gets its level exactly. A rectangle is as in the stored picture of that id: exactly while it leaves
        enough directions to vary in, and otherwise in those that make up most of it, which adds a note.
        """
        A, y, note = directions(pixels(fixes, self.stored, self.ids), self.coordinates)
        if note and note not in self.notes:
            self.notes = (*self.notes, note)
        return A, y

    def native(self, weights: Array, fixes: Iterable[str] = ()) -> Native | None:
        """Local heads; None where every window covers the picture, which adds a note."""
        fixes = tuple(fixes)
        fixed = held(pixels(fixes, self.stored, self.ids), self.shape) if fixes else None
        if too_small(self.shape):
            height, width = self.shape[:2]
            note = f"pictures of {width}x{height} are too small for local heads: p_beta is sampled instead"
            self.notes = self.notes if note in self.notes else (*self.notes, note)
            return None
        return LocalPictures.of(self.stored, weights, fixed, self._warp(weights))

    def at(self, beta: float, log_r: Any = None) -> ImageCodec:
        """The codec itself; InputError where new pictures are to be warped, which p_beta does not."""
        if self.options.warp:
            raise InputError(f"--warp {self.options.warp:g} is for local heads, and p_beta is sampled: leave it out.")
        return self

    def _warp(self, weights: Array) -> float:
        """How far new pictures are warped, of stored ones that count `weights` (K,) times."""
        given = self.options.warp if self.options.warp is not None else self._default_warp
        return default_warp(self.shape, self.labels, weights > 0) if given is None else float(given)

    def writer(self, place: BinaryIO | Path, format: str, settings: Settings) -> Writer:
        """A writer of PNG files into a folder, of an array file, or of a contact sheet."""
        one_of("format", format, tuple(self.formats))
        if isinstance(place, Path):
            return FolderWriter(place, self.ids, settings, self.labels)
        if format == "sheet":
            return SheetWriter(place, settings)
        return ArrayWriter(place, format, self.ids, settings, self.labels)

    def read_new(self, path: Path) -> Array:
        """Pictures of the stored ones' size from a folder of PNG files, an .npz or an .npy file."""
        path, (height, width) = Path(path), self.shape[:2]
        if path.is_dir():
            files = picture_files(path)[0]
            images = []
            for file in files:
                image = load(file).image
                self._check_size(file, image.size)
                images.append(np.asarray(image))
            levels = np.stack(images)
        elif path.suffix.lower() in ENDINGS:
            raise InputError(f"{path} is one picture: give a folder of new pictures, an .npz or an .npy file.")
        elif not path.exists():
            raise InputError(f"{path} does not exist: give a folder of new pictures, an .npz or an .npy file.")
        else:
            levels = read_arrays(path, stretch=False).images
            self._check_size(path, (levels.shape[2], levels.shape[1]))
        if len(self.shape) == 2 and levels.ndim == 4 and any(map(has_colour, levels)):
            raise InputError(f"{path} holds pictures in colour, and the stored ones are grey: make them grey.")
        return in_colour(levels, len(self.shape) == 3)[0].reshape(-1, height, width, *self.shape[2:])

    def _check_size(self, file: Path, size: tuple[int, int]) -> None:
        height, width = self.shape[:2]
        if size != (width, height):
            raise InputError(
                f"{file} is {size[0]}x{size[1]} pixels, and the stored pictures are {width}x{height}: "
                f"bring it to {width}x{height}."
            )

    def compare(self, items: Any) -> Comparison:
        """New pictures against the stored ones."""
        items = np.asarray(items)
        near = None if self.labels is None else self._nearest(items)
        return compare(items, self.stored, self.labels, near)

    def _nearest(self, items: Array) -> Array:
        """Index of the stored picture nearest to each, by pixels: (n,)."""
        stored = self.features(self.stored)
        size = max(BLOCK_ENTRIES // len(self.coordinates.mean), 1)
        blocks = (items[i : i + size] for i in range(0, len(items), size))
        return np.concatenate([nearest_rows(self.features(block), stored) for block in blocks])

    def refit(self, items: Any) -> ImageCodec:
        """A codec with the same options, of other pictures of the same shape; they are warped as these would be."""
        names = tuple(str(i + 1) for i in range(len(items)))
        other = ImageCodec(np.asarray(items), names, None, (), self.options, self._source)
        other._default_warp = self._warp(np.ones(self.K))
        return other

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Names, classes, notes and options; and the pictures, from which the rest follows."""
        facts = {
            "ids": self.ids,
            "labels": self.labels,
            "notes": self.notes,
            "options": self.options._asdict(),
            "source": self._source,
        }
        return facts, {"images": self.stored}

    @classmethod
    def from_state(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> ImageCodec:
        """The codec of that state."""
        labels = None if facts["labels"] is None else tuple(facts["labels"])
        options = Options(**facts["options"])
        codec = cls(arrays["images"], tuple(facts["ids"]), labels, (), options, facts["source"])
        codec.notes = tuple(facts["notes"])
        return codec
