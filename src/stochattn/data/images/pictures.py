"""Pictures from files: a folder or an array becomes one block of levels 0 to 255, of one size, grey or RGB."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from ..._backend.arrays import Array
from ..legacy import InputError
from .arrays import in_colour, read_arrays

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
DECODERS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
LONGEST_SIDE = 128
MOST_VALUES = 2**26
"""Pixels of all pictures together: as numbers, and once more as components, they take some 2 GB."""
"""Pictures are shrunk to this many pixels along the longer side, unless a size is asked for."""
CONTACT_SHEET, TABLE, SUMMARY = "contact-sheet.png", "samples.csv", "summary.json"
"""What stands in a folder of new pictures beside these."""


class Pictures(NamedTuple):
    """What was read."""

    images: Array  # (n, h, w) grey or (n, h, w, 3) RGB, uint8
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None
    notes: tuple[str, ...]


def read(path: str | Path, size: str | None = None, colour: bool | None = None) -> Pictures:
    """The pictures of a folder, an .npz or an .npy file.

    size:   "64x48", wide by high; by default the most common one, shrunk to `LONGEST_SIDE`
    colour: RGB or grey; by default RGB if any picture has colour
    """
    path, wanted = Path(path), parse_size(size)
    ending = path.suffix.lower()
    if path.is_dir():
        return _from_folder(path, wanted, colour)
    if not path.exists():
        raise InputError(f"{path} does not exist: give a folder of pictures, an .npz or an .npy file.")
    if ending in ENDINGS:
        raise InputError(f"{path} is one picture, and new ones need at least two: give the folder that holds them.")
    if ending not in (".npz", ".npy"):
        raise InputError(f"{path} ends in {ending or 'nothing'!r}: pictures come as a folder, an .npz or an .npy file.")
    arrays = read_arrays(path)
    height, width = arrays.images.shape[1:3]
    target = wanted or bounded((width, height))
    require_bearable(len(arrays.images), target)
    images, notes = arrays.images, list(arrays.notes)
    if target != (width, height):
        images = np.stack([np.asarray(of_size(Image.fromarray(image), target)) for image in images])
        notes.append(_resized(len(images), len(images), target, wanted))
    images, about_colour = in_colour(images, colour)
    return Pictures(images, arrays.ids, arrays.labels, (*notes, *about_colour))


def require_bearable(n: int, size: tuple[int, int]) -> None:
    """InputError if n pictures of this size are more than fits into memory as numbers."""
    if n * size[0] * size[1] > MOST_VALUES:
        fits = int((MOST_VALUES / n / (size[0] * size[1])) ** 0.5 * min(size))
        raise InputError(
            f"{n:,} pictures of {size[0]}x{size[1]} hold more than the {MOST_VALUES:,} pixels that are taken: "
            f"choose a smaller --size, such as {fits}x{fits}."
        )


def parse_size(size: str | None) -> tuple[int, int] | None:
    """Width and height of a text such as "64x48"."""
    if size is None:
        return None
    match = re.fullmatch(r"(\d{1,4})[x×](\d{1,4})", str(size).strip().lower())
    if not match or "0" in (match[1].lstrip("0") or "0", match[2].lstrip("0") or "0"):
        raise InputError(f"size must be width x height in pixels, such as 64x48; got {size!r}.")
    return int(match[1]), int(match[2])


def bounded(size: tuple[int, int]) -> tuple[int, int]:
    """The size, or one of the same shape with its longer side at `LONGEST_SIDE`."""
    shrink = min(1.0, LONGEST_SIDE / max(size))
    return max(1, round(size[0] * shrink)), max(1, round(size[1] * shrink))


def picture_files(folder: Path) -> tuple[list[Path], int]:
    """Visible picture files below a folder, sorted by name, and how many others there are."""
    try:
        below = sorted(folder.rglob("*"), key=lambda file: file.relative_to(folder).as_posix())
    except OSError as error:
        raise InputError(f"{folder} cannot be listed ({error.strerror}): check its permissions.") from None
    visible = [file for file in below if not any(part.startswith(".") for part in file.relative_to(folder).parts)]
    files = [file for file in visible if file.is_file()]
    ours = {file for file in files if file.name in (CONTACT_SHEET, TABLE, SUMMARY) and file.with_name(TABLE).exists()}
    pictures = [file for file in files if file.suffix.lower() in ENDINGS and file not in ours]
    if not pictures:
        what = "no file" if not files else f"no picture among its {len(files)} files"
        raise InputError(f"{folder} holds {what}: put pictures there that end in {', '.join(ENDINGS)}.")
    return pictures, len(files) - len(pictures) - len(ours)


class Loaded(NamedTuple):
    """One picture file, decoded."""

    image: Image.Image  # RGB, upright
    transparent: bool
    deep: bool  # more than 8 bits a level
    frames: bool  # more than one picture in the file


def load(file: Path) -> Loaded:
    """A picture file as RGB; transparent parts are laid on white, and of several frames the first counts."""
    with _decoding(file) as opened:
        image: Image.Image = opened
        frames = getattr(opened, "n_frames", 1) > 1
        image.load()
        if opened.format != "PNG":
            image = ImageOps.exif_transpose(image)
        transparent = deep = False
        if image.mode.startswith(("I", "F")):
            image, deep = _from_deep(image), True
        if image.mode in ("RGBA", "LA", "PA", "RGBa") or "transparency" in image.info:
            layer = image.convert("RGBA")
            transparent = bool(np.asarray(layer)[..., 3].min() < 255)
            image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
        return Loaded(image.convert("RGB"), transparent, deep, frames)


def _from_folder(folder: Path, wanted: tuple[int, int] | None, colour: bool | None) -> Pictures:
    files, others = picture_files(folder)
    sizes = [_size(file) for file in files]
    target = wanted or bounded(Counter(sizes).most_common(1)[0][0])
    require_bearable(len(files), target)
    images = np.empty((len(files), target[1], target[0], 3), dtype=np.uint8)
    counts = Counter[str]()
    for i, file in enumerate(files):
        loaded = load(file)
        images[i] = np.asarray(of_size(loaded.image, target))
        counts.update(name for name in ("transparent", "deep", "frames") if getattr(loaded, name))
    resized = sum(size != target for size in sizes)
    notes = [
        f"{others} files are no pictures and were skipped" if others else "",
        _resized(resized, len(files), target, wanted) if resized else "",
        f"{counts['transparent']} pictures have transparent parts, laid on white" if counts["transparent"] else "",
        f"{counts['deep']} pictures have more than 256 levels, brought to 0 to 255" if counts["deep"] else "",
        f"{counts['frames']} files hold several pictures, of which the first was taken" if counts["frames"] else "",
    ]
    images, about_colour = in_colour(images, colour)
    ids = tuple(file.relative_to(folder).as_posix() for file in files)
    return Pictures(images, ids, _labels(ids), (*filter(None, notes), *about_colour))


def _labels(ids: tuple[str, ...]) -> tuple[str, ...] | None:
    """The first sub-folder of each picture, or None where all lie in the folder itself."""
    if not any("/" in name for name in ids):
        return None
    return tuple(name.split("/")[0] if "/" in name else "(none)" for name in ids)


def _resized(count: int, n: int, target: tuple[int, int], wanted: tuple[int, int] | None) -> str:
    remedy = "" if wanted else "; --size chooses another"
    which = f"all {n}" if count == n else f"{count} of {n}"
    return f"{which} pictures were brought to {target[0]}x{target[1]} pixels, cropped where the shape differs{remedy}"


def of_size(image: Image.Image, target: tuple[int, int]) -> Image.Image:
    """The picture at this size; where its shape differs, its middle."""
    return image if image.size == target else ImageOps.fit(image, target, Image.Resampling.LANCZOS)


def _size(file: Path) -> tuple[int, int]:
    """Width and height as shown, from the file's head."""
    with _decoding(file) as image:
        turned = image.format != "PNG" and image.getexif().get(_ORIENTATION, 1) >= 5
        return (image.height, image.width) if turned else (image.width, image.height)


_ORIENTATION = 0x0112


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
def _decoding(file: Path) -> Iterator[Any]:
    """The opened picture; whatever goes wrong with it becomes one line that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged metadata does not harm the pixels
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=DECODERS) as image:
                yield image
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        most = f"{Image.MAX_IMAGE_PIXELS:,}"
        raise InputError(f"{file} has more than {most} pixels, the most that is read: shrink or remove it.") from None
    except Exception as error:  # decoders raise whatever their parser stumbled over
        cause = "the file is empty" if _is_empty(file) else str(error).split("\n")[0].replace(repr(str(file)), "file")
        raise InputError(f"{file} cannot be read as a picture ({cause}): replace or remove it.") from None


def _is_empty(file: Path) -> bool:
    return file.is_file() and file.stat().st_size == 0
