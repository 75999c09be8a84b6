"""A kind of data in one file: readings of sensors, one row of numbers each, from CSV files that end in .sensors.

`stochattn.register_kind(KIND)` enables sampling, conditions, reports and writing of such files.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from stochattn.kinds import (
    Codec,
    Conditioned,
    Description,
    Format,
    Generated,
    HopfieldOptions,
    InputError,
    Kind,
    NoOptions,
    option,
)


@dataclass(frozen=True)
class SensorOptions:
    """Options of reading."""

    unit: str = option("volt", "Unit of the readings.")
    scale: Mapping[str, float] = option(
        {}, "Multiply a channel by a factor. May be repeated.", metavar="CHANNEL=FACTOR"
    )


@dataclass(frozen=True)
class SensorCodec(Codec):
    """Readings (n, channels): the array is the item."""

    stored: np.ndarray
    channels: tuple
    unit: str = "volt"
    notes: tuple = ()
    labels: None = None

    @property
    def ids(self):
        return tuple(f"reading {i + 1}" for i in range(len(self.stored)))

    def encode(self, items):
        return np.asarray(items, dtype=np.float64)

    def decode(self, arrays, source=None):
        return arrays

    def refit(self, items):
        return SensorCodec(items, self.channels, self.unit)

    def state(self):
        return {"stored": self.stored, "channels": self.channels, "unit": self.unit}

    def condition(self, values):
        unknown = [name for name in values if name not in self.channels]
        if unknown:
            raise InputError(f"there is no channel {unknown[0]!r}; there are {', '.join(self.channels)}.")
        positions = np.array([self.channels.index(name) for name in values])
        return Conditioned(self, (positions, np.array(list(values.values()), dtype=float)))


class SensorKind(Kind):
    """Readings of sensors."""

    name, item, items, part = "sensor", "reading", "readings", "channel"
    suffixes = (".sensors",)
    inputs = "readings of sensors (.sensors)"
    condition_help = "channel a=0.5"
    codec_options = SensorOptions
    generators = MappingProxyType({"hopfield": HopfieldOptions, "bootstrap": NoOptions})
    formats = (Format("sensors", (".sensors",)),)

    def read(self, path, options):
        rows = list(csv.reader(io.StringIO(Path(path).read_text())))
        try:
            readings, channels = np.array(rows[1:], dtype=float), tuple(rows[0])
        except (ValueError, IndexError):
            raise InputError(f"{path} must have a line of channels and rows of numbers.") from None
        factors = [float(options.scale.get(channel, 1)) for channel in channels]
        return SensorCodec(readings * factors, channels, options.unit)

    def codec_from_state(self, state):
        return SensorCodec(**state)

    def fit_generator(self, name, codec, weights, options):
        if name == "bootstrap":
            return Bootstrap(codec.stored, weights)
        return super().fit_generator(name, codec, weights, options)

    def parse_condition(self, codec, texts):
        try:
            return {name: float(value) for name, _, value in (text.partition("=") for text in texts)}
        except ValueError:
            raise InputError(f"conditions must look like CHANNEL=NUMBER; got {', '.join(texts)}.") from None

    def writer(self, codec, destination, format, settings):
        return SensorWriter(destination, codec.channels)


class SensorWriter:
    """Writes a line of channels, then rows."""

    def __init__(self, destination, channels):
        self.destination = destination
        self.destination.write((",".join(channels) + "\n").encode())

    def write(self, batch):
        self.destination.write("".join(",".join(map(repr, row)) + "\n" for row in batch.items.tolist()).encode())

    def close(self):
        pass


@dataclass(frozen=True)
class Bootstrap:
    """A minimal generator: stored readings, drawn with replacement."""

    stored: np.ndarray
    weights: np.ndarray

    def sample(self, n, rng):
        source = rng.choice(len(self.stored), n, p=self.weights / self.weights.sum())
        return Generated(self.stored[source], source)

    def condition(self, observation):
        raise InputError("the generator bootstrap takes no conditions.")

    def describe(self):
        return Description("bootstrap", "stored readings, drawn with replacement")


KIND = SensorKind()


def write_readings(path, n=30):
    """A file of readings of four correlated channels."""
    rng = np.random.default_rng(0)
    readings = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 4))
    path.write_text("a,b,c,d\n" + "".join(",".join(map(repr, row)) + "\n" for row in readings.tolist()))
    return path
