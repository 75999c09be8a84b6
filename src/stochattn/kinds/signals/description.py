"""Signals before their code is loaded: the files that are read, and the options of reading and of generators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ..._backend.checks import check_count, check_non_negative
from ..delimited import SHEET_HELP
from ..options import HopfieldOptions, InputError, KindDescription, Knob, NoOptions, option

WAV_EXTENSIONS = (".wav", ".wave")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")  # a folder with these is not of signals
MAX_SCALE = 3.0  # of deformations; beyond it, signals are unlike any stored one
MAX_FIRST_LINE = 2**20  # bytes that are read to see whether a file begins with numbers
MIN_POINTS = 3


@dataclass(frozen=True)
class SignalOptions:
    """Options of reading."""

    label: str | None = option(
        None, "Column of a CSV that holds classes: its name, first, last, or none to use no classes. [detected]"
    )
    length: int | None = option(None, "Cut signals to their first points. [all points]")
    resample: int | None = option(None, "Stretch signals of different lengths to this number of points.")
    window: int | None = option(None, "Cut long recordings into windows of this number of points.")
    sheet: str | None = option(None, SHEET_HELP)
    labels: Sequence[str] | None = None  # the class of each signal, in place of the classes that were read
    ids: Sequence[str] | None = None  # the name of each signal, in place of the names that were read
    channels: Sequence[str] | None = None  # names of the channels

    def __post_init__(self) -> None:
        for name, least in (("length", 1), ("resample", MIN_POINTS), ("window", MIN_POINTS)):
            if (value := getattr(self, name)) is not None:
                check_count(name, value, least)
        if self.length is not None and self.resample is not None:
            raise InputError(f"length and resample must not both be given; got {self.length} and {self.resample}.")


@dataclass(frozen=True)
class TimeWindowOptions:
    """Options of the generator "windows"; those that are None are chosen by the likelihood of left-out signals."""

    width: float | None = option(
        None,
        "Share of the variance of new signals that is noise, above 0. [by likelihood]",
        knob=Knob(0.01, 1.0, is_log=True),
    )
    spacing: int | None = option(None, "Points from one window of noise to the next; 0 for one window. [by likelihood]")
    pooled: float | None = option(None, "Share of the noise that varies as the signals of all classes. [by likelihood]")
    roughness: float | None = option(None, "White noise, over that in the stored signals. [by likelihood]")
    slide: int | None = option(
        None, "Points by which parts of noise may come from an earlier or later time. [by likelihood]"
    )
    shift: int | None = option(None, "Points by which signals may be shifted to align them. [0, or a tenth of them]")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                check_non_negative(name, value)
        for name in ("width", "pooled"):
            value = getattr(self, name)
            if value is not None and (value > 1 or (value == 0 and name == "width")):
                least = "above 0" if name == "width" else "at least 0"
                raise ValueError(f"{name} must be {least} and at most 1; got {value:g}. Leave it out to choose it.")


@dataclass(frozen=True)
class SignalDeformationOptions:
    """Options of the generator "deformations"."""

    scale: float | None = option(
        None, "How far new signals are from the stored ones that they move; 0 recalls. [0.9]", knob=Knob(0.0, MAX_SCALE)
    )
    neighbors: int | None = option(None, "Stored signals by which one is moved. [a third of its class, 3 to 16]")

    def __post_init__(self) -> None:
        if self.scale is not None and check_non_negative("scale", self.scale) > MAX_SCALE:
            raise ValueError(f"scale must be 0 to {MAX_SCALE:g}; got {self.scale:g}. 0.9 is the default.")
        if self.neighbors is not None:
            check_count("neighbors", self.neighbors)


def _begins_with_numbers(path: Path) -> bool:
    """Whether the first line of a .tsv file holds a class and the points of a signal."""
    from ..smoothing import MIN_POINTS as MIN_UCR_POINTS

    try:
        with path.open("rb") as stream:
            cells = [float(cell) for cell in stream.readline(MAX_FIRST_LINE).split(b"\t")]
    except (OSError, ValueError):
        return False
    return len(cells) > MIN_UCR_POINTS


class SignalDescription(KindDescription):
    """Signals of one length, with one or several channels."""

    name, item, items, part = "signals", "signal", "signals", "channel"
    inputs = (
        "signals (.ts, .tsv of the UCR archive, a folder of WAV files, .npz with an array signals; where the kind is "
        "named also .npy, CSV)"
    )
    condition_help = "value of a point 12=0.5, stretch of time 1:100=ID, of one channel x@1:100=ID"
    suffixes = (".ts",)
    codec_options = SignalOptions
    generators = MappingProxyType(
        {"deformations": SignalDeformationOptions, "windows": TimeWindowOptions, "hopfield": HopfieldOptions}
        | dict.fromkeys(("gaussian", "rescaled"), NoOptions)
    )

    def recognizes(self, path: Path) -> bool:
        """Whether it is a .ts file, a .tsv file of the UCR archive, a folder of WAV files, or an .npz with "signals".

        Other arrays and CSV files are images or tables unless the user names the kind.
        """
        extension = path.suffix.lower()
        if extension in WAV_EXTENSIONS and path.is_file():
            raise InputError(f"{path} is one signal, and at least two are needed: name the folder of them.")
        if path.is_dir():
            endings = {file.suffix.lower() for file in path.rglob("*")}
            return bool(endings & set(WAV_EXTENSIONS)) and not endings & set(IMAGES)
        if extension == ".npz":
            from ..._backend.array_files import ArrayFileError, npz_headers

            try:
                return "signals" in npz_headers(path)
            except (ArrayFileError, OSError):
                return False
        if extension != ".tsv" or not _begins_with_numbers(path):
            return super().recognizes(path)
        from .formats import is_ucr_file  # only a file that may hold signals loads their code

        return is_ucr_file(path)


DESCRIPTION = SignalDescription()
