"""Pictures from a folder, an array file or an array in memory: levels from 0 to 255, of one size, grey or RGB."""

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

from ..._backend.array_files import ArrayFileError, ArrayHeader, named_strings, npz_headers, read_npy, read_npz
from ..._backend.arrays import Array, ArrayLike
from ..._backend.checks import first_line
from ..._backend.zarr_files import read_zarr, zarr_header
from .. import InputError
from ..options import describe_extension, with_count
from ..summary import SUMMARY
from .codec import CONTACT_SHEET, NEW_NAME, SHAPES, TABLE, ImageCodec, as_levels
from .description import PICTURE_EXTENSIONS

IMAGE_NAMES = ("images", "X", "x", "data", "arr_0")
LABEL_NAMES = ("target", "labels", "y", "label")
ID_NAMES = ("ids", "names")
DECODERS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
MAX_SIDE = 128  # pixels along the longer side that pictures are shrunk to, unless a size is asked for
MAX_PIXELS = 2**26  # of all pictures together: as numbers, and once more as components, they take some 2 GB
MAX_BYTES = 2**30  # of the arrays that are read from a compressed file
MAX_CHROMA_NOISE = 12  # levels by which JPEG lets the channels of a grey pixel differ
MIN_COLOURED_SHARE = 0.001  # of pixels beyond that noise, above which a picture has colour
REMARKS = TRANSPARENT, DEEP, FRAMES = (
    ("picture has transparent parts, placed on white", "pictures have transparent parts, placed on white"),
    ("picture has more than 256 levels, scaled to 0 to 255", "pictures have more than 256 levels, scaled to 0 to 255"),
    (
        "file has several pictures, and only the first was read",
        "files have several pictures, and only the first was read",
    ),
)
_SOURCES = "name a folder of pictures, an .npz or an .npy file, or a Zarr array"


def read(path: Path, size: str | None, colour: bool | None, parts: Sequence[Path] = ()) -> ImageCodec:
    """The pictures of a folder, a file or a Zarr array, or of files that are `parts`; options as in `ImageOptions`."""
    if parts:
        return _at_size(_joined(parts), size, colour)
    return _from_folder(path, size, colour) if _is_folder(path) else _at_size(_read_arrays(path), size, colour)


def of_array(array: ArrayLike, size: str | None, colour: bool | None) -> ImageCodec:
    """The pictures of an array, at the size they have if no other is chosen."""
    levels, notes = as_levels(np.asarray(array), "images", rescale=True)
    codec = ImageCodec(levels, tuple(str(i + 1) for i in range(len(levels))), notes=notes)
    return _at_size(codec, size or f"{levels.shape[2]}x{levels.shape[1]}", colour)


def read_of_shape(path: Path, shape: tuple[int, ...]) -> Array:
    """New pictures (n, h, w[, 3]) of this shape, from a folder, a file or a Zarr array; InputError for others."""
    if _is_folder(path):
        pictures = [(file, np.asarray(load(file)[0])[None]) for file in _picture_files(path)[0]]
    else:
        pictures = [(path, _read_arrays(path, rescale=False).stored)]
    wanted = f"{shape[1]}x{shape[0]}"
    for file, levels in pictures:
        if levels.shape[1:3] != shape[:2]:
            found = f"{levels.shape[2]}x{levels.shape[1]}"
            raise InputError(f"{file} is {found} pixels, and the stored pictures are {wanted}: resize it to {wanted}.")
    images = np.concatenate([levels for _, levels in pictures])
    if len(shape) == 2 and images.ndim == 4 and any(map(_has_colour, images)):
        raise InputError(f"{path} has pictures in colour, and the stored ones are grey: make them grey.")
    return in_colour(images, len(shape) == 3)[0]


def labels_of_new(path: Path) -> tuple[str, ...] | None:
    """The classes of new pictures: sub-folders, the table that a writer wrote beside them, or an array of the file."""
    if not _is_folder(path):
        return _read_arrays(path, rescale=False).labels
    names = [file.relative_to(path).as_posix() for file in _picture_files(path)[0]]
    if any("/" in name for name in names):
        return tuple(name.split("/")[0] if "/" in name else "(none)" for name in names)
    try:
        rows = list(csv.DictReader(io.StringIO((path / TABLE).read_text("utf-8"))))
        listed = {NEW_NAME.format(int(row["number"])): row["class"] for row in rows}
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, ValueError, TypeError):
        return None
    return tuple(listed[name] for name in names) if set(names) <= set(listed) else None


def load(file: Path) -> tuple[Image.Image, list[tuple[str, str]]]:
    """A picture file as upright RGB, and remarks; transparent parts are white, the first of several frames is used."""
    with _decoding(file) as opened:
        image: Image.Image = opened
        remarks = [FRAMES] if getattr(opened, "n_frames", 1) > 1 else []
        image.load()
        if opened.format != "PNG":
            image = ImageOps.exif_transpose(image)
        if image.mode.startswith(("I", "F")):  # 16 bits, or floats from 0 to 1 or 255
            levels = np.asarray(image).astype(np.float64)
            top = 65535.0 if image.mode.startswith("I") else 1.0 if levels.max() <= 1 else 255.0
            if not ((levels >= 0) & (levels <= top)).all():
                raise ValueError(f"levels outside 0 to {top:.0f}")
            image = Image.fromarray(np.rint(levels * (255 / top)).astype(np.uint8))
            remarks.append(DEEP)
        if image.mode in ("RGBA", "LA", "PA", "RGBa") or "transparency" in image.info:
            layer = image.convert("RGBA")
            if np.asarray(layer)[..., 3].min() < 255:
                remarks.append(TRANSPARENT)
            image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
        return image.convert("RGB"), remarks


def resized(image: Image.Image, target: tuple[int, int]) -> Array:
    """The picture at this width and height; if its shape differs, its centre: (h, w[, 3])."""
    return np.asarray(ImageOps.fit(image, target, Image.Resampling.LANCZOS))


def in_colour(images: Array, colour: bool | None) -> tuple[Array, tuple[str, ...]]:
    """Pictures as RGB or as grey, as asked; by default RGB if any has colour. With a note where they differ."""
    if images.ndim == 3:
        return (np.repeat(images[..., None], 3, axis=3) if colour else images), ()
    n, coloured = len(images), sum(map(_has_colour, images))
    if colour or (colour is None and coloured):
        mixed = f"{coloured} of {n} pictures have colour, and all are kept as RGB; colour=False makes them grey"
        return images, (mixed,) if 0 < coloured < n else ()
    noisy = colour is None and (images != images[..., :1]).any()
    ignored = f"colour differences of up to {MAX_CHROMA_NOISE} levels were ignored as noise; colour=True keeps them"
    grey = np.stack([np.asarray(Image.fromarray(image).convert("L")) for image in images])
    return grey, (ignored,) if noisy else ()


def _has_colour(image: Array) -> bool:
    spread = image.max(2).astype(np.int16) - image.min(2)
    return bool((spread > MAX_CHROMA_NOISE).mean() > MIN_COLOURED_SHARE)


def _target(sizes: Counter[tuple[int, int]], size: str | None) -> tuple[tuple[int, int], tuple[str, ...]]:
    """Width and height of all pictures, as asked or the most common one, and a note where pictures are resized."""
    asked = re.fullmatch(r"([1-9]\d{0,3})[x×]([1-9]\d{0,3})", str(size).strip().lower())
    if size is not None and not asked:
        raise InputError(f"size must be width x height in pixels, such as 64x48; got {size!r}.")
    n, common = sizes.total(), sizes.most_common(1)[0][0]
    sides = asked.groups() if asked else (max(1, round(side * min(1.0, MAX_SIDE / max(common)))) for side in common)
    width, height = map(int, sides)
    if n * width * height > MAX_PIXELS:
        fits = int((MAX_PIXELS / n / (width * height)) ** 0.5 * min(width, height))
        many = f"{n:,} pictures of {width}x{height} have more than {MAX_PIXELS:,} pixels, the limit"
        raise InputError(f"{many}: choose a smaller size, such as {fits}x{fits}.")
    changed = n - sizes[width, height]
    note = f"{f'all {n}' if changed == n else f'{changed} of {n}'} pictures were resized to {width}x{height} pixels"
    note += ", cropped where the shape differs" + ("" if asked else "; size= chooses another")
    return (width, height), (note,) if changed else ()


def _at_size(found: ImageCodec, size: str | None, colour: bool | None) -> ImageCodec:
    images, own = found.stored, (found.shape[1], found.shape[0])
    target, notes = _target(Counter({own: len(images)}), size)
    if target != own:
        images = np.stack([resized(Image.fromarray(image), target) for image in images])
    images, about_colour = in_colour(images, colour)
    return replace(found, stored=images, notes=(*found.notes, *notes, *about_colour))


def _from_folder(folder: Path, size: str | None, colour: bool | None) -> ImageCodec:
    files, n_others = _picture_files(folder)
    target, about_size = _target(Counter(map(_size, files)), size)
    images = np.empty((len(files), target[1], target[0], 3), dtype=np.uint8)
    counts = Counter[tuple[str, str]]()
    for i, file in enumerate(files):
        image, remarks = load(file)
        images[i] = resized(image, target)
        counts.update(remarks)
    skipped = (
        (with_count(n_others, "file is not a picture and was skipped", "files are not pictures and were skipped"),)
        if n_others
        else ()
    )
    remarked = (with_count(counts[remark], *remark) for remark in REMARKS if counts[remark])
    images, about_colour = in_colour(images, colour)
    notes = (*skipped, *about_size, *remarked, *about_colour)
    ids = tuple(file.relative_to(folder).as_posix() for file in files)
    labels = tuple(name.split("/")[0] if "/" in name else "(none)" for name in ids)
    return ImageCodec(images, ids, labels if any("/" in name for name in ids) else None, notes)


def _picture_files(folder: Path) -> tuple[list[Path], int]:
    """Visible picture files below a folder, sorted by name, and how many others there are."""
    below = sorted(folder.rglob("*"), key=lambda file: file.relative_to(folder).as_posix())
    hidden = {file for file in below if any(part.startswith(".") for part in file.relative_to(folder).parts)}
    files = [file for file in below if file.is_file() and file not in hidden]
    ours = {file for file in files if file.name in (CONTACT_SHEET, TABLE, SUMMARY) and file.with_name(TABLE).exists()}
    pictures = [file for file in files if file.suffix.lower() in PICTURE_EXTENSIONS and file not in ours]
    if not pictures:
        content = "no file" if not files else f"no picture among its {with_count(len(files), 'file', 'files')}"
        raise InputError(f"{folder} has {content}: add pictures that end in {', '.join(PICTURE_EXTENSIONS)}.")
    return pictures, len(files) - len(pictures) - len(ours)


def _size(file: Path) -> tuple[int, int]:
    """Width and height as shown, from the file's header."""
    with _decoding(file) as image:
        turned = image.format != "PNG" and image.getexif().get(ExifTags.Base.Orientation, 1) >= 5
        return (image.height, image.width) if turned else (image.width, image.height)


@contextmanager
def _decoding(file: Path) -> Iterator[Image.Image]:
    """The opened picture; any failure becomes one line that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged metadata does not harm the pixels
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=DECODERS) as image:
                yield image
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        most = f"{Image.MAX_IMAGE_PIXELS:,}"
        raise InputError(f"{file} has more than {most} pixels, the limit: shrink or remove it.") from None
    except Exception as error:  # decoders raise errors of many types
        cause = first_line(error)
        if isinstance(error, UnidentifiedImageError):
            empty = file.is_file() and file.stat().st_size == 0
            cause = "the file is empty" if empty else "its content is in no format that is read"
        raise InputError(f"{file} cannot be read as a picture ({cause}): replace or remove it.") from None


def _read_arrays(path: Path, rescale: bool = True) -> ImageCodec:
    """The pictures of an .npz or .npy file, with names and classes if it has them; see `as_levels`."""
    extension = path.suffix.lower()
    if not path.exists():
        raise InputError(f"{path} does not exist: {_SOURCES}.")
    if extension not in (".npz", ".npy") and not path.is_dir():
        found = "is one picture" if extension in PICTURE_EXTENSIONS else describe_extension(extension)
        raise InputError(f"{path} {found}: {_SOURCES}.")
    arrays, name = _load_arrays(path)
    images, notes = as_levels(arrays[name], f"{path}, array {name!r}" if len(arrays) > 1 else str(path), rescale)
    ids = named_strings(arrays, ID_NAMES, len(images)) or tuple(str(i + 1) for i in range(len(images)))
    labels = named_strings(arrays, LABEL_NAMES, len(images))
    if labels is not None and "nan" in labels:  # from floats; texts have names that say something
        rule = f"{path}: picture {labels.index('nan') + 1} has the class NaN"
        raise InputError(f"{rule}. Give it a class, or leave the picture out.")
    wide = next((name for name in LABEL_NAMES if name in arrays and arrays[name].shape[:1] == (len(images),)), None)
    if labels is None and wide is not None:
        ignored = f"array {wide!r} of shape {arrays[wide].shape} has no class for each picture, and was ignored"
        notes = (*notes, f"{ignored}; if it is one-hot, save its argmax(1)")
    return ImageCodec(images, ids, labels, notes)


def _is_folder(path: Path) -> bool:
    """Whether it is a folder of picture files, which a Zarr array is not."""
    return path.is_dir() and zarr_header(path) is None


def _joined(parts: Sequence[Path]) -> ImageCodec:
    """The pictures of several array files, with classes if all of them have some; numbers are their names."""
    found = [_read_arrays(part) for part in parts]
    for part, one in zip(parts, found, strict=True):
        if one.shape != found[0].shape:
            rule = f"its pictures have the shape {one.shape}, and those of {parts[0].name} {found[0].shape}"
            raise InputError(f"{part}: {rule}. Save pictures of one shape in all parts.")
    images, notes = np.concatenate([one.stored for one in found]), dict.fromkeys(n for one in found for n in one.notes)
    labels = tuple(label for one in found for label in one.labels or ())
    ids = tuple(str(i + 1) for i in range(len(images)))
    return ImageCodec(images, ids, labels if len(labels) == len(images) else None, tuple(notes))


def _load_arrays(path: Path) -> tuple[dict[str, Array], str]:
    """Pictures, ids and labels of a file, no other arrays, and the name of the pictures among them."""
    content = f"{'' if path.suffix.lower() == '.npz' else 'a table as a matrix, or '}pictures {SHAPES}"
    try:
        if path.is_dir():
            return {path.stem: read_zarr(path, MAX_BYTES)[0]}, path.stem
        with path.open("rb") as stream:
            archive = stream.read(2) == b"PK"
            stream.seek(0)
            if not archive:
                return {path.stem: read_npy(stream)}, path.stem
        headers = npz_headers(path)
        name = _which({key: header for key, header in headers.items() if not header.dtype.hasobject}, headers, path)
        return read_npz(path, {name, *ID_NAMES, *LABEL_NAMES} & set(headers), MAX_BYTES), name
    except ArrayFileError as error:
        raise InputError(f"{path} cannot be read as {path.suffix} ({error}): save it again, {content}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): choose another file.") from None


def _which(arrays: dict[str, ArrayHeader], every: dict[str, ArrayHeader], path: Path) -> str:
    """The name of the array that holds the pictures, of those that can be read."""
    able = [name for name, array in arrays.items() if array.ndim in (3, 4) and array.dtype.kind in "buif"]
    known = [name for name in IMAGE_NAMES if name in able]
    flat = [] if able else [name for name, array in arrays.items() if array.ndim == 2]
    if flat:
        found = f"array {flat[0]!r} has the shape {arrays[flat[0]].shape}, one row per example, as in a table"
        raise InputError(f"{path}: {found}. Save it as a two-dimensional .npy file, or save pictures {SHAPES}.")
    if known or len(able) == 1:
        return (known or able)[0]
    shown = ", ".join(f"{name} {arrays[name].shape}" for name in (able or list(arrays))[:12])
    if able:
        raise InputError(f"{path} has several arrays that could be pictures: {shown}. Name one of them 'images'.")
    unreadable = [name for name in every if name not in arrays]
    objects = f"Python objects ({', '.join(unreadable)}), which are not read"
    content = objects if unreadable else f"no pictures ({shown or 'no array'})"
    raise InputError(f"{path} has {content}: save numbers, {SHAPES}.")
