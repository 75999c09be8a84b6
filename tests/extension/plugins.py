"""An input of every kind of data. A new kind adds one entry here, and all contract tests run over it."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import sensors

import made_items


@dataclass(frozen=True)
class Example:
    """A kind of data, and what the contract tests need to know about one input of it.

    write:      writes the input to a folder and returns its path
    condition:  a condition in the syntax of the command line
    value:      the conditioned value of each new item, from what `sample` returns
    expected:   what this value must be
    impossible: a condition that names something that does not exist
    """

    kind: str
    write: Callable[[Path], Path]
    condition: str
    value: Callable[[Any], Any]
    expected: Any
    impossible: str


EXAMPLES = (
    Example(
        "protein",
        lambda folder: made_items.write_stockholm(folder / "family.sto", made_items.family()),
        "3=D",
        lambda texts: [text[2] for text in texts],
        "D",
        "999=W",
    ),
    Example(
        "image",
        lambda folder: made_items.write_pictures(folder / "faces"),
        "2,3=200",
        lambda images: images[:, 1, 2],
        200,
        "99,1=3",
    ),
    Example(
        "table",
        lambda folder: made_items.write_table(folder / "patients.csv"),
        "age=40",
        lambda frame: frame["age"],
        40,
        "nothing=1",
    ),
    Example(
        "returns",
        lambda folder: made_items.write_prices(folder / "prices.csv"),
        "T0=-0.02",
        lambda scenarios: scenarios[:, 0, 0],
        -0.02,
        "NONE=0.1",
    ),
    Example(
        "signals",
        lambda folder: made_items.write_ts(folder / "beats.ts"),
        "12=0.25",
        lambda signals: signals[:, 11],
        0.25,
        "99=1",
    ),
    Example(
        "sensor",
        lambda folder: sensors.write_readings(folder / "readings.sensors"),
        "a=0.5",
        lambda readings: readings[:, 0],
        0.5,
        "z=1",
    ),
)
