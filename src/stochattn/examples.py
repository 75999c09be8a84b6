"""Stored examples of one kind of data, and new ones like them, in Python as on the command line.

    faces = sa.for_images("faces/")                # a folder, a file or an array
    new = faces.sample(100, rng=0)                 # (100, h, w), uint8
    faces.given(keep=["anna"]).sample(10, rng=0)   # of one class
    faces.judge()                                  # on halves of them

Each kind has a sampler of its own (docs/quality.md); `given(target="paper")`, or a beta, gives p_beta.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

import numpy as np

from ._backend.checks import count, one_of
from ._backend.random import seed_of
from .data.legacy import Codec
from .evaluation.split_half import HalfSplits, half_splits
from .paths import course_of, paths
from .pipeline import Plan, batches
from .pipeline import plan as plan_of

JUDGED = 1000
LISTS = ("keep", "weight", "fix")
CHOICES = ("beta", "novelty", "rule", "target", *LISTS)


class Examples:
    """Stored examples, read by a codec, and the choices under which new ones are drawn. Immutable.

    choices: as in `pipeline.plan`: beta, novelty, rule, keep, weight, fix, target
    """

    def __init__(self, codec: Codec, **choices: Any) -> None:
        for name, value in choices.items():
            one_of("a choice", name, CHOICES)
            if name in LISTS and isinstance(value, str):
                raise TypeError(f"{name} must be a list of texts, such as [{value!r}]; got the text alone.")
        self._codec, self._choices = codec, choices

    @property
    def codec(self) -> Codec:
        """What turns examples into rows and back; its `stored` are the examples, its `notes` what reading them did."""
        return self._codec

    @cached_property
    def plan(self) -> Plan:
        """All that is decided before the first draw: temperature, weights, the sampler made for this kind."""
        temperature = any(self._choices.get(name) is not None for name in ("beta", "novelty", "rule"))
        return plan_of(self._codec, **{"target": "paper" if temperature else "native", **self._choices})

    def given(self, **choices: Any) -> Examples:
        """The same examples under other choices, beside those made already.

        keep, weight, fix: lists of texts, as on the command line: ["anna"], ["anna:3"], ["age=40"]
        beta, novelty, rule: a temperature of p_beta;  target: "native" or "paper"
        """
        return Examples(self._codec, **{**self._choices, **choices})

    def sample(self, n: int, rng: Any = None) -> Any:
        """n new examples: aligned texts, pictures (n, h, w[, 3]) uint8, a frame, or log-returns (n, days, tickers).

        The first m of n are the m that a shorter call with the same seed gives.
        """
        items = [batch.items for batch in batches(self.plan, count("n", n), seed_of(rng))]
        return self._codec.presented(_joined(items))

    def paths(self, n: int, days: int, rng: Any = None, *, linked: bool = True) -> Any:
        """n paths of log-returns of this many days, windows strung together by their volatility: (n, days, tickers)."""
        course = course_of(self.plan, count("days", days), linked, None)
        if course is None:
            raise ValueError("days must be given.")
        return _joined([batch.items for batch in paths(self.plan, course, count("n", n), seed_of(rng))])

    def judge(self, n: int = JUDGED, rng: Any = 0) -> HalfSplits:
        """How n draws from halves of the examples stand to the other halves: see `halves`."""
        return half_splits(self.plan, count("n", n), seed_of(rng))

    def __repr__(self) -> str:
        choices = "".join(f", {key}={value!r}" for key, value in self._choices.items())
        return f"Examples({self._codec.K} of kind {self._codec.kind}{choices})"


def for_proteins(sequences: Any, **options: Any) -> Examples:
    """Examples of a protein family: an alignment file, a list of aligned texts, or texts by name."""
    from .data.proteins import ProteinCodec

    return Examples(_read(ProteinCodec, sequences, ProteinCodec.of, options))


def for_images(images: Any, **options: Any) -> Examples:
    """Examples of pictures: a folder, an .npz or .npy file, or an array (K, h, w[, 3]) with `labels` and `ids`."""
    from .data.images import ImageCodec

    return Examples(_read(ImageCodec, images, ImageCodec.fit, options))


def for_table(table: Any, **options: Any) -> Examples:
    """Examples of a table's rows: a file, or a data frame."""
    from .data.tables import TableCodec

    return Examples(_read(TableCodec, table, TableCodec.fit, options))


def for_returns(returns: Any, **options: Any) -> Examples:
    """Examples of a history: a file or a data frame of prices or log-returns, a row a day.

    values: "prices" or "returns"; "auto" takes values for returns where more than one in twenty is negative
    """
    from .data.returns import ReturnsCodec

    return Examples(_read(ReturnsCodec, returns, ReturnsCodec.of, options))


def _read(kind: Any, what: Any, fit: Any, options: dict[str, Any]) -> Codec:
    codec: Codec = (kind.read if isinstance(what, str | os.PathLike) else fit)(what, **options)
    return codec


def _joined(blocks: list[Any]) -> Any:
    if isinstance(blocks[0], np.ndarray):
        return np.concatenate(blocks)
    import pandas as pd

    return pd.concat(blocks, ignore_index=True)
