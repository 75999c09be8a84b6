"""The kind of data "image": pictures of one size, in gray or in color."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO, Self, TypeAlias

import numpy as np

from ..._backend.arrays import Array, to_numpy
from ...core.mixture import equations
from .. import Display, Format, InputError, KeyMeasure, Kind, Measures, NoOptions, Settings, Writer
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

GeneratorOptions: TypeAlias = DeformationOptions | PatchOptions | ImageHopfieldOptions | NoOptions
MISSING = ("<NA>", "NaT")  # how pandas writes values that are missing


def _with_names(codec: ImageCodec, options: ImageOptions) -> ImageCodec:
    """The codec with the ids and labels of the options, (K,) texts or numbers, where they are given.

    InputError where a name is missing or has several values.
    """
    for name, values in (("ids", options.ids), ("labels", options.labels)):
        if values is None:
            continue
        if not hasattr(values, "__len__"):
            rule = f"{name} must have a name for each of the {codec.K} pictures, such as a list"
            raise InputError(f"{rule}; got {values!r}.")
        names = list(values if isinstance(values, list | tuple | str) else to_numpy(values))
        if len(names) != codec.K:
            raise InputError(f"{name} must name each of the {codec.K} pictures; got {len(names)}.")
        for i, value in enumerate(names):
            if np.ndim(value):
                rule = f"{name} must have one name for each picture; picture {i + 1} has {np.size(value)} values"
                raise InputError(f"{rule}. If they are one-hot, pass the number of the class, {name}.argmax(1).")
            if value is None or (isinstance(value, float | np.floating) and np.isnan(value)) or str(value) in MISSING:
                raise InputError(f"{name}: picture {i + 1} has {value}. Give it a name, or leave the picture out.")
        codec = replace(codec, **{name: tuple(map(str, names))})  # type: ignore[arg-type]
    return codec


MAX_WARPED_CLASS = 30  # pictures of a class, or of all, up to which warps add what the stored ones do not show
DEFAULT_WARP, WARPED_SIDE = 1.0, 28  # warps by so many pixels (RMS), and by less where a side is shorter than this
MAX_EQUATIONS = 1000  # of a condition; the time to solve them grows with the square of their number
NEGLIGIBLE = 1e-9  # singular values below this share of the largest are rounding errors


def _pixel_of_each_level(codec: ImageCodec) -> tuple[tuple[str, ...], Array]:
    height, width, channels = (*codec.shape, 1)[:3]
    names = tuple(f"pixel {row},{column}" for row in range(height) for column in range(width))
    return names, np.repeat(np.arange(height * width), channels)


class ImageKind(ImageDescription, Kind["ImageCodec"]):
    """Pictures of one size, grey or RGB."""

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
        named_parts=_pixel_of_each_level,
        statistics=image_statistics,
    )
    display = Display(
        image_gallery, style=(files(__package__) / "style.css").read_text("utf-8"), controls=image_controls
    )
    parse_condition = staticmethod(parse_conditions)

    def read(self, path: Path, options: ImageOptions) -> ImageCodec:
        return _with_names(read(path, options.size, options.colour), options).require_variety(str(path))

    def read_files(self, paths: Sequence[Path], options: ImageOptions) -> ImageCodec:
        codec = read(paths[0].parent, options.size, options.colour, paths)
        return _with_names(codec, options).require_variety(str(paths[0].parent))

    def codec_of(self, data: object, options: ImageOptions) -> ImageCodec:
        codec = convert_array(to_numpy(data), options.size, options.colour)
        return _with_names(codec, options).require_variety("images")

    def codec_from_state(self, state: dict[str, object]) -> ImageCodec:
        return ImageCodec(**state)  # type: ignore[arg-type]

    def fit_generator(self, name: str, codec: ImageCodec, weights: Array, options: GeneratorOptions) -> Generator:
        """Deformations, local heads over windows, p_beta or a plain one; p_beta also where pictures are tiny."""
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
            usual = DEFAULT_WARP * min(1.0, min(codec.shape[:2]) / WARPED_SIDE) if few else 0.0
            warp = usual if options.warp is None else options.warp
            return PatchGenerator.fit(codec.encode(codec.stored), weights, warp, options.radius)
        note, small = "", f"pictures of {codec.shape[1]}x{codec.shape[0]} are too small for"
        if not isinstance(options, ImageHopfieldOptions):
            for option_name, value in vars(options).items():
                if value is not None and (value or option_name == "scale"):
                    setting = option_name if callable(value) else f"{option_name}={value}"
                    rule = f"{setting} is for the generator {name!r}, and {small} it"
                    raise InputError(f"{rule}: leave {option_name} out.")
            note, options = f"{small} the generator {name!r}: 'hopfield' is used instead.", ImageHopfieldOptions()
        elif options.norm == "paper":
            note = "norm='paper' leaves pictures at unit length, so that they come out dark."
        features, o = codec.features(codec.stored), options
        try:
            linear = Coordinates.fit(features, centre=o.centre, variance=o.variance, whiten=o.whiten, norm=o.norm)
        except ValueError as error:
            raise InputError(str(error)) from None
        embedding = ImageEmbedding(linear, codec.shape, (note,) if note else ())
        return HopfieldGenerator.of(embedding, weights, options)

    def writer(self, codec: ImageCodec, destination: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        return ImageWriter(destination, format.name, codec, settings)

    def as_array(self, codec: ImageCodec, items: Array, first: int) -> Array:
        """Pictures (n, h, w) or (n, h, w, 3), levels from 0 to 255."""
        return np.asarray(items)

    def read_new(self, codec: ImageCodec, path: Path) -> Array:
        return read_new_images(path, codec.shape)

    def read_labels(self, codec: ImageCodec, path: Path) -> Array | None:
        labels = None if codec.labels is None else read_new_labels(path)
        return None if labels is None else np.array(labels)


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
        level, always = asked.levels[place] * 255, coordinates.mean.reshape(asked.levels.shape)[place] * 255
        pixel = f"the pixel in row {place[0]} and column {place[1]}, counted from 0,"
        raise InputError(f"{pixel} cannot be {level:g}: it is {always:.0f} in every stored picture. Leave it out.")
    try:
        basis, values = equations(A, y)
    except ValueError:
        rule = f"these {len(y)} levels cannot be met together: the stored pictures vary in {coordinates.d} directions"
        raise InputError(f"{rule}. Condition on fewer pixels.") from None
    return basis.T @ values, basis


KIND = ImageKind()
