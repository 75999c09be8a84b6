"""Images before their code is loaded: the files that are read, and the options of reading and of generators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from ..._backend.arrays import ArrayLike, NumpyArray
from ..._backend.checks import check_choice, check_non_negative
from ..options import HopfieldOptions, InputError, KindDescription, Knob, NoOptions, option

IMAGE_EXTENSIONS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
MAX_SCALE = 10.0  # of deformations
Features: TypeAlias = Callable[[NumpyArray], ArrayLike]
"""Images (n, H, W, C) -> features (n, f); or a torch module of (n, C, H, W) -> (n, ...)."""


class Vary(Enum):
    """What a new image has of its own."""

    SHAPES = "shapes"
    LEVELS = "levels"


@dataclass(frozen=True)
class ImageOptions:
    """Options of reading."""

    size: str | None = option(None, "Resize images. [the most common size, at most 128 pixels a side]", metavar="WxH")
    color: bool | None = option(None, "Read images in color or in gray. [in color if any image has color]")
    ids: Sequence[str] | None = None  # a name for each image, in place of the names that were read
    labels: Sequence[str] | None = None  # the class of each image, in place of the classes that were read


@dataclass(frozen=True)
class DeformationOptions:
    """Options of the generator "deformations"."""

    scale: float | None = option(
        None,
        "How far shapes vary, in standard deviations among neighbors; 0 recalls. [matched-distance rule]",
        knob=Knob(0.0, 3.0),
    )
    vary: str | None = option(
        None,
        "What varies: shapes, or levels. [levels where the stored images have no shapes in common]",
        choices=tuple(way.value for way in Vary),
    )
    features: Features | None = option(  # noqa: RUF009
        None,
        "What distances are measured in: a function of arrays (n, h, w, c), values from 0 to 1, or a torch module.",
        python_only=True,
    )
    scale_rule: str | None = None  # how the scale was set, where it was found before

    def __post_init__(self) -> None:
        if self.scale is not None and check_non_negative("scale", self.scale) > MAX_SCALE:
            rule = f"scale must be at most {MAX_SCALE:g}; got {self.scale:g}"
            raise ValueError(f"{rule}. Shapes vary about as stored at 1.")
        if self.vary is not None:
            check_choice("vary", self.vary, tuple(way.value for way in Vary))


@dataclass(frozen=True)
class PatchOptions:
    """Options of the generator "patches"."""

    warp: float | None = option(
        None, "Warp images by this many pixels on average; 0 for none. [1 where no class has over 30 images]"
    )
    radius: float | None = option(
        None,
        "Window radius in pixels per unit of noise: large recalls, small recombines. [matched-distance rule]",
        knob=Knob(0.5, 16.0, "high", is_log=True),
    )

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                check_non_negative(name, value)


@dataclass(frozen=True)
class ImageHopfieldOptions(HopfieldOptions):
    """Options of the generator "hopfield".

    By default new images are blends and exaggerations without white noise, and stored ones decode to themselves. The
    published setting is centre=False, variance=None, whiten=False, norm="paper".
    """

    centre: bool = option(True, "Draw around the mean image; the paper does not.")
    whiten: bool = option(True, "Scale components so that noise follows the directions in which images differ.")


class ImageDescription(KindDescription):
    """Images of one size, gray or RGB."""

    name, item, items, part = "image", "image", "images", "region"
    inputs = "a folder of images, or an array of them (.npz, .npy, .zarr)"
    condition_help = "pixel 12,30=128, rectangle 1:20,1:64=ID"
    codec_options = ImageOptions
    generators = MappingProxyType(
        {"deformations": DeformationOptions, "patches": PatchOptions, "hopfield": ImageHopfieldOptions}
        | dict.fromkeys(("gaussian", "rescaled"), NoOptions)
    )

    def recognizes(self, path: Path) -> bool:
        from ..._backend.array_files import npy_header, zarr_header

        extension, header = path.suffix.lower(), zarr_header(path)
        if header is not None:
            return header.ndim > 2
        if path.is_dir() or extension == ".npz":
            return True
        if extension in IMAGE_EXTENSIONS:
            raise InputError(f"{path} is one image, and at least two are needed: name the folder of them.")
        if extension != ".npy":
            return False
        header = npy_header(path)
        return header is None or header.ndim > 2  # reading a file without a header says what is wrong

    def accepts(self, data: object) -> bool:
        return getattr(data, "ndim", 0) in (3, 4) and hasattr(data, "dtype")


DESCRIPTION = ImageDescription()
