"""Pictures from files: a folder or an array becomes levels from 0 to 255, of one size, grey or RGB."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps

from ..._backend.arrays import Array
from ..options import InputError
from ..summary import SUMMARY
from .arrays import read_arrays
from .codec import ImageCodec

PICTURE_EXTENSIONS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
ARRAY_EXTENSIONS = (".npz", ".npy")
DECODERS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
MAX_SIDE = 128
"""Pictures are shrunk to this many pixels along the longer side, unless a size is asked for."""
MAX_PIXELS = 2**26
"""Pixels of all pictures together: as numbers, and once more as components, they take some 2 GB."""
MAX_CHROMA_NOISE, MIN_COLOURED_SHARE = 12, 0.001
"""A picture has colour if the channels of more than this share of its pixels differ by more than so many levels, the
noise that JPEG leaves in a grey one."""
CONTACT_SHEET, TABLE = "contact-sheet.png", "samples.csv"
"""Files beside the pictures in a folder of new ones."""
REMARKS = TRANSPARENT, DEEP, FRAMES = (
    "pictures have transparent parts, placed on white",
    "pictures have more than 256 levels, scaled to 0 to 255",
    "files have several pictures, and only the first was read",
)
_SOURCES = "name a folder of pictures, an .npz or an .npy file"


def read(path: Path, size: str | None = None, colour: bool | None = None) -> ImageCodec:
    """The pictures of a folder, an .npz or an .npy file.

    size:   "64x48", wide by high; by default the most common one, shrunk to `MAX_SIDE`
    colour: RGB or grey; by default RGB if any picture has colour
    """
    if path.is_dir():
        return _from_folder(path, _parse_size(size), colour)
    _require_array_file(path)
    return of_array(read_arrays(path), size, colour)


def of_array(found: ImageCodec, size: str | None, colour: bool | None) -> ImageCodec:
    """Pictures of an array at a size and in colour or grey, with notes on what was changed; see `read`."""
    images, wanted, notes = found.stored, _parse_size(size), found.notes
    own = images.shape[2], images.shape[1]
    target = _target(len(images), own, wanted)
    if target != own:
        images = np.stack([resized(Image.fromarray(image), target) for image in images])
        notes = (*notes, _resized(len(images), len(images), target, wanted))
    images, about_colour = in_colour(images, colour)
    return replace(found, stored=images, notes=(*notes, *about_colour))


def read_of_shape(path: Path, shape: tuple[int, ...]) -> Array:
    """New pictures (n, h, w[, 3]) of this shape, from a folder, an .npz or an .npy file; InputError for others."""
    if path.is_dir():
        pictures = [(file, np.asarray(load(file)[0])[None]) for file in _picture_files(path)[0]]
    else:
        _require_array_file(path)
        pictures = [(path, read_arrays(path, rescale=False).stored)]
    for file, levels in pictures:
        if levels.shape[1:3] != shape[:2]:
            wanted = f"{shape[1]}x{shape[0]}"
            raise InputError(
                f"{file} is {levels.shape[2]}x{levels.shape[1]} pixels, and the stored pictures are {wanted}: "
                f"resize it to {wanted}."
            )
    images = np.concatenate([levels for _, levels in pictures])
    if len(shape) == 2 and images.ndim == 4 and any(map(_has_colour, images)):
        raise InputError(f"{path} has pictures in colour, and the stored ones are grey: make them grey.")
    return in_colour(images, len(shape) == 3)[0]


def load(file: Path) -> tuple[Image.Image, list[str]]:
    """A picture file as upright RGB, and remarks; transparent parts are white, the first of several frames is used."""
    with _decoding(file) as opened:
        image: Image.Image = opened
        remarks = [FRAMES] if getattr(opened, "n_frames", 1) > 1 else []
        image.load()
        if opened.format != "PNG":
            image = ImageOps.exif_transpose(image)
        if image.mode.startswith(("I", "F")):
            image = _from_deep(image)
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


def _require_array_file(path: Path) -> None:
    extension = path.suffix.lower()
    if not path.exists():
        raise InputError(f"{path} does not exist: {_SOURCES}.")
    if extension in PICTURE_EXTENSIONS:
        raise InputError(f"{path} is one picture: {_SOURCES}.")
    if extension not in ARRAY_EXTENSIONS:
        raise InputError(f"{path} has the extension {extension!r}: {_SOURCES}.")


def _parse_size(size: str | None) -> tuple[int, int] | None:
    """Width and height of a text such as "64x48"."""
    if size is None:
        return None
    match = re.fullmatch(r"([1-9]\d{0,3})[x×]([1-9]\d{0,3})", str(size).strip().lower())
    if not match:
        raise InputError(f"size must be width x height in pixels, such as 64x48; got {size!r}.")
    return int(match[1]), int(match[2])


def _target(n: int, size: tuple[int, int], wanted: tuple[int, int] | None) -> tuple[int, int]:
    """The wanted size, or this one shrunk to `MAX_SIDE`; InputError if n such pictures do not fit into memory."""
    shrink = min(1.0, MAX_SIDE / max(size))
    width, height = wanted or (max(1, round(size[0] * shrink)), max(1, round(size[1] * shrink)))
    if n * width * height > MAX_PIXELS:
        fits = int((MAX_PIXELS / n / (width * height)) ** 0.5 * min(width, height))
        raise InputError(
            f"{n:,} pictures of {width}x{height} have more than {MAX_PIXELS:,} pixels, the limit: choose a smaller "
            f"size, such as {fits}x{fits}."
        )
    return width, height


def _resized(count: int, n: int, target: tuple[int, int], wanted: tuple[int, int] | None) -> str:
    remedy = "" if wanted else "; size= chooses another"
    which = f"all {n}" if count == n else f"{count} of {n}"
    return f"{which} pictures were resized to {target[0]}x{target[1]} pixels, cropped where the shape differs{remedy}"


def _picture_files(folder: Path) -> tuple[list[Path], int]:
    """Visible picture files below a folder, sorted by name, and how many others there are."""
    try:
        below = sorted(folder.rglob("*"), key=lambda file: file.relative_to(folder).as_posix())
    except OSError as error:
        raise InputError(f"{folder} cannot be listed ({error.strerror}): check its permissions.") from None
    visible = [file for file in below if not any(part.startswith(".") for part in file.relative_to(folder).parts)]
    files = [file for file in visible if file.is_file()]
    ours = {file for file in files if file.name in (CONTACT_SHEET, TABLE, SUMMARY) and file.with_name(TABLE).exists()}
    pictures = [file for file in files if file.suffix.lower() in PICTURE_EXTENSIONS and file not in ours]
    if not pictures:
        content = "no file" if not files else f"no picture among its {len(files)} files"
        raise InputError(f"{folder} has {content}: add pictures that end in {', '.join(PICTURE_EXTENSIONS)}.")
    return pictures, len(files) - len(pictures) - len(ours)


def _from_folder(folder: Path, wanted: tuple[int, int] | None, colour: bool | None) -> ImageCodec:
    files, others = _picture_files(folder)
    sizes = Counter(map(_size, files))
    target = _target(len(files), sizes.most_common(1)[0][0], wanted)
    images = np.empty((len(files), target[1], target[0], 3), dtype=np.uint8)
    counts = Counter[str]()
    for i, file in enumerate(files):
        image, remarks = load(file)
        images[i] = resized(image, target)
        counts.update(remarks)
    n_resized = len(files) - sizes[target]
    notes = [f"{others} files are not pictures and were skipped"] if others else []
    notes += [_resized(n_resized, len(files), target, wanted)] if n_resized else []
    notes += [f"{counts[remark]} {remark}" for remark in REMARKS if counts[remark]]
    images, about_colour = in_colour(images, colour)
    ids = tuple(file.relative_to(folder).as_posix() for file in files)
    labels = tuple(name.split("/")[0] if "/" in name else "(none)" for name in ids)
    return ImageCodec(images, ids, labels if any("/" in name for name in ids) else None, (*notes, *about_colour))


def _size(file: Path) -> tuple[int, int]:
    """Width and height as shown, from the file's header."""
    with _decoding(file) as image:
        turned = image.format != "PNG" and image.getexif().get(ExifTags.Base.Orientation, 1) >= 5
        return (image.height, image.width) if turned else (image.width, image.height)


def _from_deep(image: Image.Image) -> Image.Image:
    """A grey picture of 16 bits, or of floats from 0 to 1 or 255, as one of 8 bits."""
    levels = np.asarray(image).astype(np.float64)
    if not np.isfinite(levels).all():
        raise ValueError("levels that are not finite")
    top = 65535.0 if image.mode.startswith("I") else 1.0 if levels.max() <= 1 else 255.0
    if levels.min() < 0 or levels.max() > top:
        raise ValueError(f"levels outside 0 to {top:.0f}")
    return Image.fromarray(np.rint(levels * (255 / top)).astype(np.uint8))


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
        empty = file.is_file() and file.stat().st_size == 0
        cause = "the file is empty" if empty else str(error).split("\n")[0].replace(repr(str(file)), "file")
        raise InputError(f"{file} cannot be read as a picture ({cause}): replace or remove it.") from None
