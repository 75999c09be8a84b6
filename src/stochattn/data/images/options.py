"""Options of reading pictures, and of the generators that draw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..._backend.arrays import Array, to_numpy
from ..._backend.checks import non_negative, one_of
from ...generators.deformation_generator import DeformationGenerator
from ...generators.deformations import ScaleRule, Vary, checked_scale
from ...generators.picture_comparison import Features
from .. import HopfieldOptions, InputError, Knob, option
from .codec import ImageCodec

MISSING = ("<NA>", "NaT")  # how pandas writes values that are missing


@dataclass(frozen=True)
class ImageOptions:
    """Options of reading."""

    size: str | None = option(None, "Resize pictures. [the most common size, at most 128 pixels a side]", metavar="WxH")
    colour: bool | None = option(None, "Read pictures in colour or in grey. [in colour if any picture has colour]")
    ids: Sequence[str] | None = None  # a name for each picture, in place of those that were read
    labels: Sequence[str] | None = None  # likewise a class

    def named(self, codec: ImageCodec) -> ImageCodec:
        """The codec with these ids and labels, where they are given."""
        given = {name: _names(name, x, codec.K) for name in ("ids", "labels") if (x := getattr(self, name)) is not None}
        return replace(codec, **given)  # type: ignore[arg-type]


@dataclass(frozen=True)
class DeformationOptions:
    """Options of the generator "deformations"."""

    scale: float | None = option(
        None,
        "How far shapes vary, in standard deviations among neighbours; 0 recalls. [matched-distance rule]",
        knob=Knob(0.0, 3.0),
    )
    vary: str | None = option(
        None,
        "What varies: shapes, or levels. [levels where the stored pictures have no shapes in common]",
        choices=tuple(one.value for one in Vary),
    )
    features: Features | None = option(  # noqa: RUF009
        None,
        "What distances are measured in: a function of arrays (n, h, w, c), levels from 0 to 1, or a torch module.",
        python_only=True,
    )
    scale_rule: str | None = None  # how the scale was set, where it was found before

    def __post_init__(self) -> None:
        if self.scale is not None:
            checked_scale(self.scale)
        if self.vary is not None:
            one_of("vary", self.vary, tuple(one.value for one in Vary))

    def fit(self, codec: ImageCodec, weights: Array) -> DeformationGenerator:
        """The generator with these options."""
        vary = None if self.vary is None else Vary(self.vary)
        rule = None if self.scale_rule is None else ScaleRule[self.scale_rule]
        levels, labels = codec.encode(codec.stored), codec.labels
        return DeformationGenerator.fit(levels, weights, labels, self.scale, vary, self.features, rule)


@dataclass(frozen=True)
class PatchOptions:
    """Options of the generator "patches"."""

    warp: float | None = option(
        None, "Warp pictures by this many pixels on average; 0 for none. [1 where no class has over 30 pictures]"
    )
    radius: float | None = option(
        None,
        "Window radius in pixels per unit of noise: large recalls, small recombines. [matched-distance rule]",
        knob=Knob(0.5, 16.0, "high", is_log=True),
    )

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                non_negative(name, value)


@dataclass(frozen=True)
class ImageHopfieldOptions(HopfieldOptions):
    """Options of the generator "hopfield".

    By default new pictures are blends and exaggerations without white noise, and stored ones decode to themselves. The
    published setting is centre=False, variance=None, whiten=False, norm="paper".
    """

    centre: bool = option(True, "Draw around the mean picture; the paper does not.")
    whiten: bool = option(True, "Scale components so that noise follows the directions in which pictures differ.")


def _names(name: str, values: object, K: int) -> tuple[str, ...]:
    """A name for each of K pictures, (K,) texts or numbers; InputError where one is missing or has several values."""
    if not hasattr(values, "__len__"):
        rule = f"{name} must have a name for each of the {K} pictures, such as a list"
        raise InputError(f"{rule}; got {values!r}.")
    given = list(values if isinstance(values, list | tuple | str) else to_numpy(values))
    if len(given) != K:
        raise InputError(f"{name} must name each of the {K} pictures; got {len(given)}.")
    for i, value in enumerate(given):
        if np.ndim(value):
            found = f"{name} must have one name for each picture; picture {i + 1} has {np.size(value)} values"
            raise InputError(f"{found}. If they are one-hot, pass the number of the class, {name}.argmax(1).")
        if value is None or (isinstance(value, float | np.floating) and np.isnan(value)) or str(value) in MISSING:
            raise InputError(f"{name}: picture {i + 1} has {value}. Give it a name, or leave the picture out.")
    return tuple(map(str, given))
