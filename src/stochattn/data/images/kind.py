"""Pictures as a kind of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from ...generators.patches.patch_generator import PatchGenerator, is_too_small
from ...storage.blockwise import slices
from ..base import Format, Settings, Writer
from ..comparison import Comparison
from ..gallery import GalleryItems
from ..kind import KeyMeasure, Kind
from ..options import HopfieldOptions, InputError, option
from .codec import ARRAY_EXTENSIONS, PICTURE_EXTENSIONS, ImageCodec, parse_conditions
from .embedding import ImageEmbedding
from .output import MAX_ENTRIES, MAX_ON_SHEET, FolderWriter, StreamWriter, compare_pictures, picture_gallery

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

    def named(self, codec: ImageCodec) -> ImageCodec:
        """The codec with these ids and labels, where they are given."""
        given = {name: tuple(map(str, x)) for name in ("ids", "labels") if (x := getattr(self, name)) is not None}
        for name, values in given.items():
            if len(values) != codec.K:
                raise InputError(f"{name} must name each of the {codec.K} pictures; got {len(values)}.")
        return replace(codec, **given)  # type: ignore[arg-type]


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

    def recognises(self, path: Path) -> bool:
        """A folder, an .npz file, or an .npy file with more than two axes."""
        extension = path.suffix.lower()
        if path.is_dir() or extension not in (*PICTURE_EXTENSIONS, ".npy"):
            return path.is_dir() or extension in ARRAY_EXTENSIONS
        if extension in PICTURE_EXTENSIONS:
            raise InputError(f"{path} is one picture, and at least two are needed: name the folder of them.")
        try:
            return bool(np.load(path, mmap_mode="r", allow_pickle=False).ndim > 2)
        except (OSError, ValueError, EOFError) as error:
            reason = type(error).__name__
            raise InputError(f"{path} is not an array file ({reason}): save one with numpy.save.") from None

    def accepts(self, data: object) -> bool:
        return getattr(data, "ndim", 0) in (3, 4) and hasattr(data, "dtype")

    def read(self, path: Path, options: ImageOptions) -> ImageCodec:
        from .reading import read  # which needs Pillow

        return options.named(read(path, options.size, options.colour)).require_variety(str(path))

    def codec_of(self, data: object, options: ImageOptions) -> ImageCodec:
        """The codec of an array (n, h, w), (n, h, w, 3) or (n, 3, h, w), at the size it has if no other is chosen."""
        from .reading import of_array

        return options.named(of_array(to_numpy(data), options.size, options.colour)).require_variety("images")

    def codec_from_state(self, state: dict[str, object]) -> ImageCodec:
        return ImageCodec(**state)  # type: ignore[arg-type]

    def fit_generator(
        self, name: str, codec: ImageCodec, weights: Array, options: PatchOptions | ImageHopfieldOptions
    ) -> Generator:
        """Local heads over windows, or p_beta; p_beta also where every window covers the picture, with a note."""
        if isinstance(options, ImageHopfieldOptions):
            dark = ("norm='paper' leaves pictures at unit length, so that they come out dark.",)
            return _hopfield(codec, weights, options, dark if options.norm == "paper" else ())
        if not is_too_small(codec.shape):
            warp = _default_warp(codec, weights > 0) if options.warp is None else options.warp
            return PatchGenerator.fit(codec.encode(codec.stored), weights, warp, options.radius)
        small = f"pictures of {codec.shape[1]}x{codec.shape[0]} are too small for"
        if options.warp:
            raise InputError(f"warp={options.warp:g} is for the generator 'patches', and {small} it: leave warp out.")
        note = f"{small} the generator 'patches': 'hopfield' is used instead."
        return _hopfield(codec, weights, ImageHopfieldOptions(), (note,))

    def parse_condition(self, codec: ImageCodec, texts: Sequence[str]) -> Mapping[object, object]:
        return parse_conditions(codec, texts)

    def writer(self, codec: ImageCodec, place: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        if isinstance(place, Path):
            return FolderWriter(place, codec, settings)
        return StreamWriter(place, format.name, codec, settings)

    def read_new(self, codec: ImageCodec, path: Path) -> Array:
        from .reading import read_of_shape

        return read_of_shape(Path(path), codec.shape)

    def same(self, codec: ImageCodec, first: Array, second: Array) -> Array:
        return (np.asarray(first) == np.asarray(second)).reshape(len(first), -1)

    def compare(self, codec: ImageCodec, items: Array) -> Comparison:
        items, near = np.asarray(items), None
        if codec.labels is not None:
            parts = slices(len(items), max(MAX_ENTRIES // items[0].size, 1))
            near = np.concatenate([self.annotate(codec, items[part], len(items))[0] for part in parts])
        return compare_pictures(items, codec.stored, codec.labels, near)

    def gallery(self, codec: ImageCodec, shown: GalleryItems) -> Html:
        return picture_gallery(codec, shown)


KIND = ImageKind()


def _hopfield(codec: ImageCodec, weights: Array, options: ImageHopfieldOptions, notes: tuple[str, ...]) -> Hopfield:
    features, o = codec.features(codec.stored), options
    try:
        linear = Coordinates.fit(features, centre=o.centre, variance=o.variance, whiten=o.whiten, norm=o.norm)
    except ValueError as error:
        raise InputError(str(error)) from None
    embedding = ImageEmbedding(linear, codec.shape, notes)
    return Hopfield.fit(embedding, weights, beta=o.beta, novelty=o.novelty, sampler=o.sampler)


def _default_warp(codec: ImageCodec, counted: Array) -> float:
    """Warp of new pictures in pixels, where the stored pictures that are `counted` (K,) are few."""
    if codec.largest_class(counted) > MAX_WARPED_CLASS:
        return 0.0
    return DEFAULT_WARP * min(1.0, min(codec.shape[:2]) / WARPED_SIDE)
