"""The kind of data "image": images of one size, in gray or in color."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np

from ..._backend.arrays import Array, to_numpy
from ...core.mixture import equations
from .. import Display, Format, InputError, KeyMeasure, Kind, Measures, Settings, Writer
from ..codec import ZARR
from ..generator import Generator
from ..hopfield import Coordinates, HopfieldGenerator, LinearEmbedding, LinearObservation
from ..plain import Gaussian, GaussianCoordinates, Rescaled
from .codec import ImageCodec, parse_conditions
from .description import DeformationOptions, ImageDescription, ImageHopfieldOptions, ImageOptions, PatchOptions
from .generator.deformations import DeformationGenerator
from .generator.patches import MIN_WINDOW_RADIUS, ConditionedPixels, PatchGenerator
from .reading import convert_array, read, read_new_images, read_new_labels
from .writing import MAX_ON_SHEET, TEXTURE, ImageWriter, compare_images, image_controls, image_gallery, image_statistics

MAX_WARPED_CLASS = 30  # images of a class, or of all, up to which warps add what the stored ones do not show
DEFAULT_WARP, WARPED_SIDE = 1.0, 28  # warps by so many pixels (RMS), and by less where a side is shorter than this
MAX_EQUATIONS = 1000  # of a condition; the time to solve them grows with the square of their number
NEGLIGIBLE = 1e-9  # singular values below this share of the largest are rounding errors


def _pixel_of_each_value(codec: ImageCodec) -> tuple[tuple[str, ...], Array]:
    height, width, channels = (*codec.shape, 1)[:3]
    names = tuple(f"pixel {row},{column}" for row in range(height) for column in range(width))
    return names, np.repeat(np.arange(height * width), channels)


class ImageKind(ImageDescription, Kind["ImageCodec"]):
    """Images of one size, gray or RGB."""

    alternatives, last_resort = ("patches", "hopfield", "gaussian"), "rescaled"
    formats = (
        Format("png", ("",)),
        Format("npz", (".npz",), collected=True),
        Format("npy", (".npy",), collected=True),
        Format("sheet", (".png",), max_items=MAX_ON_SHEET),
        ZARR,
    )
    measures = Measures(
        key=KeyMeasure(TEXTURE, 0.1, "As sharp as the stored", "they are blurred, streaked or noisy"),
        compare=compare_images,
        same=lambda codec, first, second: (np.asarray(first) == np.asarray(second)).reshape(len(first), -1),
        named_parts=_pixel_of_each_value,
        statistics=image_statistics,
    )
    display = Display(
        image_gallery, style=(files(__package__) / "style.css").read_text("utf-8"), controls=image_controls
    )
    parse_condition = staticmethod(parse_conditions)

    def read(self, path: Path, options: ImageOptions) -> ImageCodec:
        return read(path, options)

    def read_files(self, paths: Sequence[Path], options: ImageOptions) -> ImageCodec:
        return read(paths[0].parent, options, paths)

    def codec_of(self, data: object, options: ImageOptions) -> ImageCodec:
        return convert_array(to_numpy(data), options)

    def codec_from_state(self, state: dict[str, object]) -> ImageCodec:
        return ImageCodec(**state)  # type: ignore[arg-type]

    def fit_generator(self, name: str, codec: ImageCodec, weights: Array, options: object) -> Generator:
        """Deformations, local heads over windows, p_beta or a plain one; p_beta also where images are tiny."""
        if name == "gaussian":
            normal = GaussianCoordinates.fit_weighted(codec.features(codec.stored), weights)
            return Gaussian.around(ImageEmbedding(normal, codec.shape), weights)
        if name == "rescaled":
            conditional = self.fit_generator("deformations", codec, weights, DeformationOptions())
            return Rescaled(codec.encode(codec.stored), weights, self.items, conditional, limits=(0.0, 1.0))
        tiny = max(codec.shape[:2]) <= MIN_WINDOW_RADIUS + 1
        if isinstance(options, DeformationOptions) and not tiny:
            return DeformationGenerator.fit(codec.encode(codec.stored), weights, codec.labels, options)
        if isinstance(options, PatchOptions) and not tiny:
            few = codec.largest_class(weights > 0) <= MAX_WARPED_CLASS
            default = DEFAULT_WARP * min(1.0, min(codec.shape[:2]) / WARPED_SIDE) if few else 0.0
            warp = default if options.warp is None else options.warp
            return PatchGenerator.fit(codec.encode(codec.stored), weights, warp, options.radius)
        note, small = "", f"images of {codec.shape[1]}x{codec.shape[0]} are too small for"
        if not isinstance(options, ImageHopfieldOptions):
            for option_name, value in vars(options).items():
                if value is not None and (value or option_name == "scale"):
                    setting = option_name if callable(value) else f"{option_name}={value}"
                    rule = f"{setting} is for the generator {name!r}, and {small} it"
                    raise InputError(f"{rule}: leave {option_name} out.")
            note, options = f"{small} the generator {name!r}: 'hopfield' is used instead.", ImageHopfieldOptions()
        elif options.norm == "paper":
            note = "norm='paper' leaves images at unit length, so that they are dark."
        settings = {name: getattr(options, name) for name in ("centre", "variance", "whiten", "norm")}
        try:
            linear = Coordinates.fit(codec.features(codec.stored), **settings)
        except ValueError as error:
            raise InputError(str(error)) from None
        embedding = ImageEmbedding(linear, codec.shape, (note,) if note else ())
        return HopfieldGenerator.of(embedding, weights, options)

    def writer(self, codec: ImageCodec, destination: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        return ImageWriter(destination, format.name, codec, settings)

    def as_array(self, codec: ImageCodec, items: Array, first: int) -> Array:
        """Images (n, h, w) or (n, h, w, 3), pixel values from 0 to 255."""
        return np.asarray(items)

    def read_new(self, codec: ImageCodec, path: Path) -> Array:
        return read_new_images(path, codec.shape)

    def read_labels(self, codec: ImageCodec, path: Path) -> Array | None:
        return None if codec.labels is None else read_new_labels(path)


@dataclass(frozen=True, eq=False)
class ImageEmbedding(LinearEmbedding):
    """Images as rows of a memory bank: pixel values are linear in coordinates."""

    notes: tuple[str, ...] = ()

    def observe(self, observation: ConditionedPixels) -> tuple[LinearObservation, Self]:  # type: ignore[override]
        """The equations A z = y, and the embedding with a note where a rectangle is met in part.

        Single pixels are met exactly. A rectangle of K − 1 pixels or more would only return its own image: it takes at
        most half of the directions in which images vary, those that explain most of it.
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
        left, sizes, right = np.linalg.svd(more - more @ basis.T @ basis, full_matrices=False)
        rank = int((sizes > NEGLIGIBLE * np.linalg.norm(more)).sum())
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
    for i in np.flatnonzero((np.abs(A).sum(1) <= NEGLIGIBLE) & (np.abs(y) > 1e-6)):
        place = tuple(np.argwhere(asked.pixels)[i])
        value, mean = (levels[place] * 255 for levels in (asked.levels, coordinates.mean.reshape(asked.levels.shape)))
        pixel = f"the pixel in row {place[0]} and column {place[1]}, counted from 0,"
        raise InputError(f"{pixel} cannot be {value:g}: it is {mean:.0f} in every stored image. Leave it out.")
    try:
        basis, values = equations(A, y)
    except ValueError:
        rule = f"these {len(y)} values cannot be met together: the stored images vary in {coordinates.d} directions"
        raise InputError(f"{rule}. Condition on fewer pixels.") from None
    return basis.T @ values, basis


KIND = ImageKind()
