"""Reads images from a folder, an array file or an array in memory: uint8 values, of one size, gray or RGB."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from ..._backend.array_files import ArrayHeader, named_strings, zarr_header
from ..._backend.arrays import Array, to_numpy
from ..._backend.checks import first_line
from .. import InputError
from ..item_files import folders_of, list_visible_files, load_arrays
from ..options import describe_extension, with_count
from ..summary import SUMMARY
from .codec import CONTACT_SHEET, NEW_NAME, SHAPES, TABLE, ImageCodec, convert_pixels
from .description import IMAGE_EXTENSIONS, ImageOptions

IMAGE_NAMES = ("images", "X", "x", "data", "arr_0")
LABEL_NAMES = ("target", "labels", "y", "label")
ID_NAMES = ("ids", "names")
MISSING = ("<NA>", "NaT")  # how pandas writes missing values
DECODERS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
MAX_SIDE = 128  # images are shrunk to this number of pixels along the longer side, unless a size is given
MAX_PIXELS = 2**26  # of all images together: as numbers, and again as components, they take about 2 GB
MAX_CHROMA_NOISE = 12  # by which the channels of a gray pixel may differ in a JPEG file
MIN_COLORED_SHARE = 0.001  # an image has color if the channels of a larger share of its pixels differ by more
TRANSPARENT = "image has transparent parts, placed on white", "images have transparent parts, placed on white"
DEEP = "image has more than 8 bits, scaled to 0 to 255", "images have more than 8 bits, scaled to 0 to 255"
ONLY_FIRST = "and only the first was read"
FRAMES = f"file has several images, {ONLY_FIRST}", f"files have several images, {ONLY_FIRST}"
_SOURCES = "name a folder of images, an .npz or an .npy file, or a Zarr array"


def read(path: Path, options: ImageOptions, parts: Sequence[Path] = ()) -> ImageCodec:
    """The images of a folder, a file or a Zarr array, or of the files `parts`."""
    if not parts and _is_folder(path):
        codec = _from_folder(path, options)
    else:
        codec = _resize_all(_join(parts) if parts else _read_arrays(path), options.size, options.color)
    return _name_images(codec, options).require_variety(str(path))


def convert_array(array: Array, options: ImageOptions) -> ImageCodec:
    """The images of an array, at their own size unless another is given."""
    levels, notes = convert_pixels(array, "images", rescale=True)
    codec = ImageCodec(levels, tuple(str(i + 1) for i in range(len(levels))), notes=notes)
    codec = _resize_all(codec, options.size or f"{levels.shape[2]}x{levels.shape[1]}", options.color)
    return _name_images(codec, options).require_variety("images")


def _name_images(codec: ImageCodec, options: ImageOptions) -> ImageCodec:
    """The codec with the ids and labels of the options; InputError where a name is missing or has several values."""
    for name, values in (("ids", options.ids), ("labels", options.labels)):
        if values is None:
            continue
        if not hasattr(values, "__len__"):
            rule = f"{name} must have a name for each of the {codec.K} images, such as a list"
            raise InputError(f"{rule}; got {values!r}.")
        names = list(values if isinstance(values, list | tuple | str) else to_numpy(values))
        if len(names) != codec.K:
            raise InputError(f"{name} must name each of the {codec.K} images; got {len(names)}.")
        for i, value in enumerate(names):
            if np.ndim(value):
                rule = f"{name} must have one name for each image; image {i + 1} has {np.size(value)} values"
                raise InputError(f"{rule}. If they are one-hot, pass the number of the class, {name}.argmax(1).")
            if value is None or (isinstance(value, float | np.floating) and np.isnan(value)) or str(value) in MISSING:
                raise InputError(f"{name}: image {i + 1} has {value}. Give it a name, or leave the image out.")
        codec = replace(codec, **{name: tuple(map(str, names))})  # type: ignore[arg-type]
    return codec


def read_new_images(path: Path, shape: tuple[int, ...]) -> Array:
    """New images (n, h, w[, 3]) of this shape, from a folder, a file or a Zarr array; InputError for others."""
    if path.suffix.lower() in IMAGE_EXTENSIONS and path.is_file():
        remedy = "Write the new images to a folder or an .npz file, and name that"
        raise InputError(f"{path} is one image, such as a contact sheet, and not several. {remedy}.")
    if _is_folder(path):
        arrays = [(file, np.asarray(load(file)[0])[None]) for file in _list_files(path)[0]]
    else:
        arrays = [(path, _read_arrays(path, rescale=False).stored)]
    wanted = f"{shape[1]}x{shape[0]}"
    for file, levels in arrays:
        if levels.shape[1:3] != shape[:2]:
            got = f"{levels.shape[2]}x{levels.shape[1]}"
            raise InputError(f"{file} is {got} pixels, and the stored images are {wanted}: resize it to {wanted}.")
    joined = np.concatenate([levels for _, levels in arrays])
    if len(shape) == 2 and joined.ndim == 4 and any(map(_has_color, joined)):
        raise InputError(f"{path} has images in color, and the stored ones are gray: make them gray.")
    return convert_color(joined, len(shape) == 3)[0]


def read_new_labels(path: Path) -> Array | None:
    """The classes of new images: sub-folders, the table that a writer wrote beside them, or an array of the file."""
    if not _is_folder(path):
        labels = _read_arrays(path, rescale=False).labels
        return None if labels is None else np.array(labels)
    names = [file.relative_to(path).as_posix() for file in _list_files(path)[0]]
    if folders := folders_of(names):
        return np.array(folders)
    try:
        rows = list(csv.DictReader(io.StringIO((path / TABLE).read_text("utf-8"))))
        classes = {NEW_NAME.format(int(row["number"])): row["class"] for row in rows}
        return np.array([classes[name] for name in names])
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, ValueError, TypeError):
        return None


def load(file: Path) -> tuple[Image.Image, list[tuple[str, str]]]:
    """The first frame of an image file as RGB on white, rotated as its metadata say, and remarks."""
    with _open(file) as source:
        image: Image.Image = source
        remarks = [FRAMES] if getattr(source, "n_frames", 1) > 1 else []
        image.load()
        if source.format != "PNG":
            image = ImageOps.exif_transpose(image)
        if image.mode.startswith(("I", "F")):  # 16 bits, or floats from 0 to 1 or 255
            levels = np.asarray(image).astype(np.float64)
            top = 65535.0 if image.mode.startswith("I") else 1.0 if levels.max() <= 1 else 255.0
            if not ((levels >= 0) & (levels <= top)).all():
                raise ValueError(f"pixel values outside 0 to {top:.0f}")
            image = Image.fromarray(np.rint(levels * (255 / top)).astype(np.uint8))
            remarks.append(DEEP)
        if image.mode in ("RGBA", "LA", "PA", "RGBa") or "transparency" in image.info:
            layer = image.convert("RGBA")
            if np.asarray(layer)[..., 3].min() < 255:
                remarks.append(TRANSPARENT)
            image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
        return image.convert("RGB"), remarks


def resize(image: Image.Image, target: tuple[int, int]) -> Array:
    """The image at this width and height, cropped around its center if its shape differs: (h, w[, 3])."""
    return np.asarray(ImageOps.fit(image, target, Image.Resampling.LANCZOS))


def convert_color(images: Array, color: bool | None) -> tuple[Array, tuple[str, ...]]:
    """Images as RGB or gray, by default RGB if any has color, and a note if they differ."""
    if images.ndim == 3:
        return (np.repeat(images[..., None], 3, axis=3) if color else images), ()
    n, n_colored = len(images), sum(map(_has_color, images))
    if color or (color is None and n_colored):
        note = f"{n_colored} of {n} images have color, and all are kept as RGB; color=False makes them gray"
        return images, (note,) if 0 < n_colored < n else ()
    is_noisy = color is None and (images != images[..., :1]).any()
    note = f"color differences of up to {MAX_CHROMA_NOISE} of 255 were ignored as noise; color=True keeps them"
    gray = np.stack([np.asarray(Image.fromarray(image).convert("L")) for image in images])
    return gray, (note,) if is_noisy else ()


def _has_color(image: Array) -> bool:
    spread = image.max(2).astype(np.int16) - image.min(2)
    return bool((spread > MAX_CHROMA_NOISE).mean() > MIN_COLORED_SHARE)


def _choose_size(sizes: Counter[tuple[int, int]], size: str | None) -> tuple[tuple[int, int], tuple[str, ...]]:
    """Width and height of all images, as given or the most common one, and a note if images are resized."""
    match = re.fullmatch(r"([1-9]\d{0,3})[x×]([1-9]\d{0,3})", str(size).strip().lower())
    if size is not None and not match:
        raise InputError(f"size must be width x height in pixels, such as 64x48; got {size!r}.")
    n, common = sizes.total(), sizes.most_common(1)[0][0]
    sides = match.groups() if match else (max(1, round(side * min(1.0, MAX_SIDE / max(common)))) for side in common)
    width, height = map(int, sides)
    if n * width * height > MAX_PIXELS:
        side = int((MAX_PIXELS / n / (width * height)) ** 0.5 * min(width, height))
        rule = f"{n:,} images of {width}x{height} have more than the limit of {MAX_PIXELS:,} pixels"
        raise InputError(f"{rule}: choose a smaller size, such as {side}x{side}.")
    changed = n - sizes[width, height]
    note = f"{f'all {n}' if changed == n else f'{changed} of {n}'} images were resized to {width}x{height} pixels"
    note += ", cropped where the shape differs" + ("" if match else "; size= chooses another")
    return (width, height), (note,) if changed else ()


def _resize_all(codec: ImageCodec, size: str | None, color: bool | None) -> ImageCodec:
    images, current = codec.stored, (codec.shape[1], codec.shape[0])
    target, notes = _choose_size(Counter({current: len(images)}), size)
    if target != current:
        images = np.stack([resize(Image.fromarray(image), target) for image in images])
    images, color_notes = convert_color(images, color)
    return replace(codec, stored=images, notes=(*codec.notes, *notes, *color_notes))


def _from_folder(folder: Path, options: ImageOptions) -> ImageCodec:
    files, n_skipped = _list_files(folder)
    target, size_notes = _choose_size(Counter(map(_read_size, files)), options.size)
    images = np.empty((len(files), target[1], target[0], 3), dtype=np.uint8)
    counts = Counter[tuple[str, str]]()
    for i, file in enumerate(files):
        image, remarks = load(file)
        images[i] = resize(image, target)
        counts.update(remarks)
    skipped = "file is not an image and was skipped", "files are not images and were skipped"
    skip_notes = [with_count(n_skipped, *skipped)] if n_skipped else []
    file_notes = [with_count(counts[remark], *remark) for remark in (TRANSPARENT, DEEP, FRAMES) if counts[remark]]
    images, color_notes = convert_color(images, options.color)
    notes = (*skip_notes, *size_notes, *file_notes, *color_notes)
    ids = tuple(file.relative_to(folder).as_posix() for file in files)
    return ImageCodec(images, ids, folders_of(ids), notes)


def _list_files(folder: Path) -> tuple[list[Path], int]:
    """Visible image files below a folder, sorted by name, and how many other files there are."""
    files = list_visible_files(folder)
    ours = {file for file in files if file.name in (CONTACT_SHEET, TABLE, SUMMARY) and file.with_name(TABLE).exists()}
    images = [file for file in files if file.suffix.lower() in IMAGE_EXTENSIONS and file not in ours]
    if not images:
        content = "no file" if not files else f"no image among its {with_count(len(files), 'file', 'files')}"
        raise InputError(f"{folder} has {content}: add images that end in {', '.join(IMAGE_EXTENSIONS)}.")
    return images, len(files) - len(images) - len(ours)


def _read_size(file: Path) -> tuple[int, int]:
    """Width and height of the image as it is shown, from the header of the file."""
    with _open(file) as image:
        is_rotated = image.format != "PNG" and image.getexif().get(ExifTags.Base.Orientation, 1) >= 5
        return (image.height, image.width) if is_rotated else (image.width, image.height)


@contextmanager
def _open(file: Path) -> Iterator[Image.Image]:
    """The open image; any failure becomes one line that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pixels can be read even if metadata are damaged
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=DECODERS) as image:
                yield image
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        limit = f"{Image.MAX_IMAGE_PIXELS:,}"
        raise InputError(f"{file} has more than the limit of {limit} pixels: shrink or remove it.") from None
    except Exception as error:  # decoders raise errors of many types
        cause = first_line(error)
        if isinstance(error, UnidentifiedImageError):
            is_empty = file.is_file() and file.stat().st_size == 0
            cause = "the file is empty" if is_empty else "its format is not supported"
        raise InputError(f"{file} cannot be read as an image ({cause}): replace or remove it.") from None


def _read_arrays(path: Path, rescale: bool = True) -> ImageCodec:
    """The images of an array file, with ids and classes if it has them; for `rescale`, see `convert_pixels`."""
    extension = path.suffix.lower()
    if not path.exists():
        raise InputError(f"{path} does not exist: {_SOURCES}.")
    if extension not in (".npz", ".npy") and not path.is_dir():
        rule = "is one image" if extension in IMAGE_EXTENSIONS else describe_extension(extension)
        raise InputError(f"{path} {rule}: {_SOURCES}.")
    content = f"{'' if extension == '.npz' else 'a table as a matrix, or '}images {SHAPES}"
    arrays, name = load_arrays(path, _choose_array, (*ID_NAMES, *LABEL_NAMES), content)
    images, notes = convert_pixels(arrays[name], f"{path}, array {name!r}" if len(arrays) > 1 else str(path), rescale)
    ids = named_strings(arrays, ID_NAMES, len(images)) or tuple(str(i + 1) for i in range(len(images)))
    labels = named_strings(arrays, LABEL_NAMES, len(images))
    if labels is not None and "nan" in labels:  # from floats
        rule = f"{path}: image {labels.index('nan') + 1} has the class NaN"
        raise InputError(f"{rule}. Give it a class, or leave the image out.")
    wide = next((name for name in LABEL_NAMES if name in arrays and arrays[name].shape[:1] == (len(images),)), None)
    if labels is None and wide is not None:
        ignored = f"array {wide!r} of shape {arrays[wide].shape} has no class for each image, and was ignored"
        notes = (*notes, f"{ignored}; if it is one-hot, save its argmax(1)")
    return ImageCodec(images, ids, labels, notes)


def _is_folder(path: Path) -> bool:
    """Whether it is a folder of image files, which a Zarr array is not."""
    return path.is_dir() and zarr_header(path) is None


def _join(parts: Sequence[Path]) -> ImageCodec:
    """The images of several array files, named by numbers, and their classes if every file has classes."""
    codecs = [_read_arrays(part) for part in parts]
    for part, codec in zip(parts, codecs, strict=True):
        if codec.shape != codecs[0].shape:
            rule = f"its images have the shape {codec.shape}, and those of {parts[0].name} {codecs[0].shape}"
            raise InputError(f"{part}: {rule}. Save images of one shape in all parts.")
    images = np.concatenate([codec.stored for codec in codecs])
    notes = dict.fromkeys(note for codec in codecs for note in codec.notes)
    labels = tuple(label for codec in codecs for label in codec.labels or ())
    ids = tuple(str(i + 1) for i in range(len(images)))
    return ImageCodec(images, ids, labels if len(labels) == len(images) else None, tuple(notes))


def _choose_array(headers: dict[str, ArrayHeader], path: Path) -> str:
    arrays = {name: header for name, header in headers.items() if not header.dtype.hasobject}
    candidates = [name for name, array in arrays.items() if array.ndim in (3, 4) and array.dtype.kind in "buif"]
    names = [name for name in IMAGE_NAMES if name in candidates]
    matrices = [] if candidates else [name for name, array in arrays.items() if array.ndim == 2]
    if matrices:
        rule = f"array {matrices[0]!r} has the shape {arrays[matrices[0]].shape}, one row per example, as in a table"
        raise InputError(f"{path}: {rule}. Save it as a two-dimensional .npy file, or save images {SHAPES}.")
    if names or len(candidates) == 1:
        return (names or candidates)[0]
    shown = ", ".join(f"{name} {arrays[name].shape}" for name in (candidates or list(arrays))[:12])
    if candidates:
        raise InputError(f"{path} has several arrays that could be images: {shown}. Name one of them 'images'.")
    unreadable = [name for name in headers if name not in arrays]
    objects = f"Python objects ({', '.join(unreadable)}), which are not read"
    content = objects if unreadable else f"no images ({shown or 'no array'})"
    raise InputError(f"{path} has {content}: save numbers, {SHAPES}.")
