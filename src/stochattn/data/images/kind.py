"""Pictures as a kind of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import numpy as np

from ..._backend.arrays import Array, to_numpy
from ..._backend.checks import non_negative
from ..._backend.html import Html
from ...generators.base import Generator
from ...generators.coordinates import Coordinates
from ...generators.hopfield import Hopfield
from ...generators.local_heads import MIN_WINDOW_RADIUS
from ...generators.patches import PatchGenerator
from ...storage.blockwise import slices
from ..base import Format, Settings, Writer
from ..comparison import Comparison
from ..gallery import GalleryItems
from ..kind import KeyMeasure, Kind
from ..options import HopfieldOptions, InputError, option
from .arrays import as_levels
from .codec import ImageCodec
from .comparison import compare_pictures, picture_gallery
from .conditions import parse_conditions
from .embedding import ImageEmbedding
from .pictures import ARRAY_EXTENSIONS, PICTURE_EXTENSIONS, of_array, read, read_of_shape
from .writers import MAX_ON_SHEET, FolderWriter, StreamWriter

BLOCK_ENTRIES = 2**24
"""Pictures are compared with the stored ones in blocks of at most this many values."""
MAX_WARPED_CLASS = 30
"""Pictures of a class, or of all without classes, up to which warps add what the stored ones do not show."""
DEFAULT_WARP, WARPED_SIDE = 1.0, 28
"""Root mean square displacement of the default warps in pixels, and the side below which it shrinks with pictures."""


@dataclass(frozen=True)
class ImageOptions:
    """Options of reading.

    ids, labels: a name and a class for each picture, in place of those that were read
    """

    size: str | None = option(
        None,
        "Resize pictures to this width and height. [the most common size, with at most 128 pixels along a side]",
        metavar="WxH",
    )
    colour: bool | None = option(None, "Read pictures in colour or in grey. [in colour if any picture has colour]")
    ids: Sequence[str] | None = None
    labels: Sequence[str] | None = None


@dataclass(frozen=True)
class PatchOptions:
    """Options of the generator "patches"."""

    warp: float | None = option(
        None,
        "Warp new pictures by this many pixels on average; 0 for none. [1 where no class has more than 30 pictures]",
    )
    radius: float | None = option(
        None, "Window radius in pixels per unit of noise: large recalls, small recombines. [matched-distance rule]"
    )

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                non_negative(name, value)


@dataclass(frozen=True)
class ImageHopfieldOptions(HopfieldOptions):
    """Options of the generator "hopfield".

    With these defaults noise follows the directions in which the stored pictures differ, each by as much as they do:
    new pictures are blends and exaggerations, without white noise, and every stored picture decodes to itself. The
    published setting is centre=False, variance=None, whiten=False, norm="paper".
    """

    centre: bool = option(True, "Draw around the mean picture; the paper does not.")
    whiten: bool = option(
        True, "Scale components so that noise follows the directions in which stored pictures differ."
    )


class ImageKind(Kind["ImageCodec"]):
    """Pictures of one size, grey or RGB."""

    name, item, items, part = "image", "picture", "pictures", "region"
    inputs = "a folder of pictures, or an array of them (.npz, .npy)"
    condition_help = "pixel 12,30=128, rectangle 1:20,1:64=ID"
    codec_options = ImageOptions
    generators = MappingProxyType({"patches": PatchOptions, "hopfield": ImageHopfieldOptions})
    formats = (
        Format("png", ("",)),
        Format("npz", (".npz",), collected=True),
        Format("npy", (".npy",), collected=True),
        Format("sheet", (".png",), max_items=MAX_ON_SHEET),
    )
    key_measure = KeyMeasure("sharpness", 0.3, "As sharp as the stored", "they are blurred or noisy")
    style = (files(__package__) / "style.css").read_text("utf-8")

    def recognises(self, path: Path) -> bool:
        """A folder, an .npz file, or an .npy file with more than two axes."""
        if path.is_dir():
            return True
        extension = path.suffix.lower()
        if extension in PICTURE_EXTENSIONS:
            raise InputError(f"{path} is one picture, and at least two are needed: name the folder of them.")
        return extension in ARRAY_EXTENSIONS and (extension == ".npz" or _axes(path) > 2)

    def accepts(self, data: object) -> bool:
        """An array with three or four axes."""
        return getattr(data, "ndim", 0) in (3, 4) and hasattr(data, "dtype")

    def read(self, path: Path, options: ImageOptions) -> ImageCodec:
        """The codec of a folder of pictures, an .npz or an .npy file."""
        return _named(read(path, options.size, options.colour), options).require_variety(str(path))

    def codec_of(self, data: object, options: ImageOptions) -> ImageCodec:
        """The codec of an array (n, h, w), (n, h, w, 3) or (n, 3, h, w), at the size it has if no other is chosen."""
        levels, notes = as_levels(to_numpy(data), "images")
        codec = ImageCodec(levels, tuple(str(i + 1) for i in range(len(levels))), notes=notes)
        codec = of_array(codec, options.size or f"{levels.shape[2]}x{levels.shape[1]}", options.colour)
        return _named(codec, options).require_variety("images")

    def codec_from_state(self, state: dict[str, object]) -> ImageCodec:
        """The codec whose `state` this is."""
        return ImageCodec(**state)  # type: ignore[arg-type]

    def fit_generator(
        self, name: str, codec: ImageCodec, weights: Array, options: PatchOptions | ImageHopfieldOptions
    ) -> Generator:
        """Local heads over windows, or p_beta; p_beta also where every window covers the picture, with a note."""
        if isinstance(options, ImageHopfieldOptions):
            dark = ("norm='paper' leaves pictures at unit length, so that they come out dark.",)
            return _hopfield(codec, weights, options, dark if options.norm == "paper" else ())
        if max(codec.shape[:2]) > MIN_WINDOW_RADIUS + 1:
            warp = _default_warp(codec, weights > 0) if options.warp is None else options.warp
            return PatchGenerator.fit(codec.encode(codec.stored), weights, warp, options.radius)
        size = f"{codec.shape[1]}x{codec.shape[0]}"
        if options.warp:
            raise InputError(
                f"warp={options.warp:g} is for the generator 'patches', and pictures of {size} are too small for it: "
                "leave warp out."
            )
        note = f"pictures of {size} are too small for the generator 'patches': 'hopfield' is used instead."
        return _hopfield(codec, weights, ImageHopfieldOptions(), (note,))

    def parse_condition(self, codec: ImageCodec, texts: Sequence[str]) -> Mapping[object, object]:
        """Texts ROW,COLUMN=LEVEL and ROW:ROW,COLUMN:COLUMN=ID, counted from 1, as values for `ImageCodec.condition`."""
        return parse_conditions(texts, codec.stored, codec.ids)

    def writer(self, codec: ImageCodec, place: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        """A writer of PNG files into a folder, of an array file, or of a contact sheet."""
        if isinstance(place, Path):
            return FolderWriter(place, codec, settings)
        return StreamWriter(place, format.name, codec, settings)

    def read_new(self, codec: ImageCodec, path: Path) -> Array:
        """Pictures of the stored ones' size from a folder of PNG files, an .npz or an .npy file."""
        return read_of_shape(Path(path), codec.shape)

    def same(self, codec: ImageCodec, first: Array, second: Array) -> Array:
        """Which values are equal: (n, h·w) or (n, h·w·3)."""
        return (np.asarray(first) == np.asarray(second)).reshape(len(first), -1)

    def compare(self, codec: ImageCodec, items: Array) -> Comparison:
        """New pictures against the stored ones."""
        items, near = np.asarray(items), None
        if codec.labels is not None:
            parts = slices(len(items), max(BLOCK_ENTRIES // items[0].size, 1))
            near = np.concatenate([self.annotate(codec, items[part], len(items))[0] for part in parts])
        return compare_pictures(items, codec.stored, codec.labels, near)

    def gallery(self, codec: ImageCodec, shown: GalleryItems) -> Html:
        """New pictures beside the stored ones nearest to them."""
        return picture_gallery(codec, shown)


def _hopfield(codec: ImageCodec, weights: Array, options: ImageHopfieldOptions, notes: tuple[str, ...]) -> Hopfield:
    try:
        coordinates = Coordinates.fit(
            codec.features(codec.stored),
            centre=options.centre,
            variance=options.variance,
            whiten=options.whiten,
            norm=options.norm,
        )
    except ValueError as error:
        raise InputError(str(error)) from None
    embedding = ImageEmbedding(coordinates, codec.shape, notes)
    return Hopfield.fit(embedding, weights, beta=options.beta, novelty=options.novelty, sampler=options.sampler)


def _default_warp(codec: ImageCodec, counted: Array) -> float:
    """Warp of new pictures in pixels, where the stored pictures that are `counted` (K,) are few."""
    if codec.largest_class(counted) > MAX_WARPED_CLASS:
        return 0.0
    return DEFAULT_WARP * min(1.0, min(codec.shape[:2]) / WARPED_SIDE)


def _named(codec: ImageCodec, options: ImageOptions) -> ImageCodec:
    """The codec with the ids and labels of the options, where these are given."""
    for name, values in (("ids", options.ids), ("labels", options.labels)):
        if values is not None and len(values) != codec.K:
            raise InputError(f"{name} must name each of the {codec.K} pictures; got {len(values)}.")
    ids = codec.ids if options.ids is None else tuple(map(str, options.ids))
    return replace(codec, ids=ids, labels=codec.labels if options.labels is None else tuple(map(str, options.labels)))


def _axes(path: Path) -> int:
    """Axes of the array in an .npy file."""
    try:
        return int(np.load(path, mmap_mode="r", allow_pickle=False).ndim)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} is not an array file ({type(error).__name__}): save one with numpy.save.") from None
