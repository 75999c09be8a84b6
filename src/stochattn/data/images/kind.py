"""Pictures as a kind of data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Self

import numpy as np

from ..._backend.array_files import npy_header
from ..._backend.arrays import Array, to_numpy
from ..._backend.zarr_files import zarr_header
from ...generators.base import Generator
from ...generators.coordinates import Coordinates
from ...generators.hopfield import Hopfield, LinearEmbedding, LinearObservation
from ...generators.local_heads import MIN_WINDOW_RADIUS
from ...generators.patches import ConditionedPixels, PatchGenerator
from .. import Format, InputError, KeyMeasure, Kind, Settings, Writer
from ..base import ZARR
from .codec import PICTURE_EXTENSIONS, ImageCodec, parse_conditions
from .controls import picture_controls
from .options import DeformationOptions, ImageHopfieldOptions, ImageOptions, PatchOptions
from .output import MAX_ON_SHEET, FolderWriter, StreamWriter, compare_pictures, picture_gallery

MAX_WARPED_CLASS = 30  # pictures of a class, or of all, up to which warps add what the stored ones do not show
DEFAULT_WARP, WARPED_SIDE = 1.0, 28  # warps by so many pixels (RMS), and by less where a side is shorter than this
MAX_EQUATIONS = 1000  # of a condition; the time to solve them grows with the square of their number
NEGLIGIBLE = 1e-9  # singular values below this share of the largest are rounding errors


class ImageKind(Kind["ImageCodec"]):
    """Pictures of one size, grey or RGB."""

    name, item, items, part = "image", "picture", "pictures", "region"
    inputs = "a folder of pictures, or an array of them (.npz, .npy, .zarr)"
    condition_help = "pixel 12,30=128, rectangle 1:20,1:64=ID"
    codec_options = ImageOptions
    generators = MappingProxyType(
        {"deformations": DeformationOptions, "patches": PatchOptions, "hopfield": ImageHopfieldOptions}
    )
    formats = (
        Format("png", ("",)),
        Format("npz", (".npz",), collected=True),
        Format("npy", (".npy",), collected=True),
        Format("sheet", (".png",), max_items=MAX_ON_SHEET),
        ZARR,
    )
    key_measure = KeyMeasure("sharpness", 0.3, "As sharp as the stored", "they are blurred or noisy")
    style = (files(__package__) / "style.css").read_text("utf-8")
    parse_condition = staticmethod(parse_conditions)
    compare, gallery = staticmethod(compare_pictures), staticmethod(picture_gallery)
    controls = staticmethod(picture_controls)

    def recognises(self, path: Path) -> bool:
        extension, chunks = path.suffix.lower(), zarr_header(path)
        if chunks is not None:
            return chunks.ndim > 2
        if path.is_dir() or extension == ".npz":
            return True
        if extension in PICTURE_EXTENSIONS:
            raise InputError(f"{path} is one picture, and at least two are needed: name the folder of them.")
        if extension != ".npy":
            return False
        header = npy_header(path)
        return header is None or header.ndim > 2  # reading a file without a header says what is wrong

    def accepts(self, data: object) -> bool:
        return getattr(data, "ndim", 0) in (3, 4) and hasattr(data, "dtype")

    def read(self, path: Path, options: ImageOptions) -> ImageCodec:
        from .reading import read  # which needs Pillow

        return options.named(read(path, options.size, options.colour)).require_variety(str(path))

    def read_parts(self, parts: Sequence[Path], options: ImageOptions) -> ImageCodec:
        from .reading import read

        found = read(parts[0].parent, options.size, options.colour, parts)
        return options.named(found).require_variety(str(parts[0].parent))

    def codec_of(self, data: object, options: ImageOptions) -> ImageCodec:
        from .reading import of_array

        return options.named(of_array(to_numpy(data), options.size, options.colour)).require_variety("images")

    def codec_from_state(self, state: dict[str, object]) -> ImageCodec:
        return ImageCodec(**state)  # type: ignore[arg-type]

    def fit_generator(
        self,
        name: str,
        codec: ImageCodec,
        weights: Array,
        options: DeformationOptions | PatchOptions | ImageHopfieldOptions,
    ) -> Generator:
        """Deformations, local heads over windows, or p_beta; also p_beta where pictures are tiny, with a note."""
        if isinstance(options, ImageHopfieldOptions):
            dark = ("norm='paper' leaves pictures at unit length, so that they come out dark.",)
            return _hopfield(codec, weights, options, dark if options.norm == "paper" else ())
        tiny = max(codec.shape[:2]) <= MIN_WINDOW_RADIUS + 1
        if isinstance(options, DeformationOptions) and not tiny:
            return options.fit(codec, weights)
        if isinstance(options, PatchOptions) and not tiny:
            few = codec.largest_class(weights > 0) <= MAX_WARPED_CLASS
            usual = DEFAULT_WARP * min(1.0, min(codec.shape[:2]) / WARPED_SIDE) if few else 0.0
            warp = usual if options.warp is None else options.warp
            return PatchGenerator.fit(codec.encode(codec.stored), weights, warp, options.radius)
        small = f"pictures of {codec.shape[1]}x{codec.shape[0]} are too small for"
        for option_name, value in vars(options).items():
            if value is not None and (value or option_name == "scale"):
                given = option_name if callable(value) else f"{option_name}={value}"
                rule = f"{given} is for the generator {name!r}, and {small} it"
                raise InputError(f"{rule}: leave {option_name} out.")
        note = f"{small} the generator {name!r}: 'hopfield' is used instead."
        return _hopfield(codec, weights, ImageHopfieldOptions(), (note,))

    def writer(self, codec: ImageCodec, place: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        if isinstance(place, Path):
            return FolderWriter(place, codec, settings)
        return StreamWriter(place, format.name, codec, settings)

    def as_array(self, codec: ImageCodec, items: Array, first: int) -> Array:
        """Pictures (n, h, w) or (n, h, w, 3), levels from 0 to 255."""
        return np.asarray(items)

    def read_new(self, codec: ImageCodec, path: Path) -> Array:
        from .reading import read_of_shape

        if (place := Path(path)).suffix.lower() in PICTURE_EXTENSIONS and place.is_file():
            remedy = "Write the new ones to a folder or an .npz file, and name that"
            raise InputError(f"{path} is one picture, such as a contact sheet, and not several. {remedy}.")
        return read_of_shape(place, codec.shape)

    def same(self, codec: ImageCodec, first: Array, second: Array) -> Array:
        return (np.asarray(first) == np.asarray(second)).reshape(len(first), -1)

    def parts(self, codec: ImageCodec) -> tuple[tuple[str, ...], Array]:
        height, width, channels = (*codec.shape, 1)[:3]
        names = tuple(f"pixel {row},{column}" for row in range(height) for column in range(width))
        return names, np.repeat(np.arange(height * width), channels)


def _hopfield(codec: ImageCodec, weights: Array, options: ImageHopfieldOptions, notes: tuple[str, ...]) -> Hopfield:
    features, o = codec.features(codec.stored), options
    try:
        linear = Coordinates.fit(features, centre=o.centre, variance=o.variance, whiten=o.whiten, norm=o.norm)
    except ValueError as error:
        raise InputError(str(error)) from None
    embedding = ImageEmbedding(linear, codec.shape, notes)
    return Hopfield.fit(embedding, weights, beta=o.beta, novelty=o.novelty, sampler=o.sampler)


@dataclass(frozen=True, eq=False)
class ImageEmbedding(LinearEmbedding):
    """Pictures as rows of a memory bank: levels are linear in coordinates."""

    notes: tuple[str, ...] = ()

    def observe(self, observation: ConditionedPixels) -> tuple[LinearObservation, Self]:  # type: ignore[override]
        """The equations A z = y, and the embedding with a note where a rectangle is met in part.

        Single pixels are met exactly. A rectangle of K − 1 pixels or more would only return its own picture: it takes
        at most half of the directions in which pictures vary, those that explain most of it.
        """
        coordinates = self.coordinates
        A, y = _equations(observation.pixels, observation.levels, coordinates)
        shortest, basis = _solve_exactly(A, y, observation, coordinates)
        if not observation.rectangles.any():
            return LinearObservation(A, y), self
        more, levels = _equations(observation.rectangles, observation.levels, coordinates)
        if coordinates.outward is None:
            return LinearObservation(np.concatenate([A, more]), np.concatenate([y, levels])), self
        # Only directions that single pixels leave free can serve the rectangle, so that both are met together.
        # equivalent: further singular vectors would not be used
        left, sizes, right = np.linalg.svd(more - more @ basis.T @ basis, full_matrices=False)
        rank = int((sizes > NEGLIGIBLE * np.linalg.norm(more)).sum())  # equivalent: no size is exactly the limit
        r = min(rank, max(min(coordinates.d // 2, MAX_EQUATIONS) - len(basis), 1))
        targets = left[:, :r].T @ (levels - more @ shortest) / sizes[:r]
        observed = LinearObservation(np.concatenate([A, right[:r]]), np.concatenate([y, targets]))
        if r == rank:
            return observed, self
        share = float((sizes[:r] ** 2).sum() / max((sizes**2).sum(), np.finfo(float).tiny))
        note = f"the conditioned rectangle is met in {r} of {rank} directions, {share:.0%} of its variation"
        return observed, replace(self, notes=(*self.notes, f"{note}: all would leave nothing to vary outside it."))


def _equations(mask: Array, levels: Array, coordinates: Coordinates) -> tuple[Array, Array]:
    indices = np.flatnonzero(mask)
    if coordinates.outward is None and len(indices) > MAX_EQUATIONS:
        rule = f"the conditions name {len(indices):,} values, and at most {MAX_EQUATIONS:,} can be met without"
        raise InputError(f"{rule} principal components: choose a smaller rectangle, or the default variance.")
    return coordinates.observation(indices, levels.ravel()[indices])


def _solve_exactly(A: Array, y: Array, asked: ConditionedPixels, coordinates: Coordinates) -> tuple[Array, Array]:
    """The shortest z with A z = y, (d,), and an orthonormal basis of A's rows, (r, d); InputError if there is none."""
    if not len(A):
        return np.zeros(coordinates.d), np.zeros((0, coordinates.d))
    for i in np.flatnonzero((np.abs(A).sum(1) <= NEGLIGIBLE) & (np.abs(y) > 1e-6)):
        place = tuple(np.argwhere(asked.pixels)[i])
        level, always = asked.levels[place] * 255, coordinates.mean.reshape(asked.levels.shape)[place] * 255
        pixel = f"the pixel in row {place[0]} and column {place[1]}, counted from 0,"
        raise InputError(f"{pixel} cannot be {level:g}: it is {always:.0f} in every stored picture. Leave it out.")
    left, sizes, right = np.linalg.svd(A, full_matrices=False)
    solid = sizes > NEGLIGIBLE * sizes[0]
    inside = left[:, solid].T @ y
    # equivalent: no residual is exactly the limit
    if np.linalg.norm(y - left[:, solid] @ inside) > 1e-6 * max(1.0, float(np.linalg.norm(y))):
        rule = f"these {len(y)} levels cannot be met together: the stored pictures vary in {coordinates.d} directions"
        raise InputError(f"{rule}. Condition on fewer pixels.")
    return right[solid].T @ (inside / sizes[solid]), right[solid]


KIND = ImageKind()
