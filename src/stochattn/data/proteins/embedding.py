"""Sequences as rows of a memory bank: principal components of one-hot channels, and the way back to residues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import one_of, positive
from ...generators.coordinates import Coordinates
from ...generators.hopfield import LinearEmbedding, LinearObservation
from ...generators.sequences import GAP, indicators, one_hot
from ..options import HopfieldOptions, option

GAPS = ("zeros", "symbol")
BLOCK = 256  # sequences read out at a time, so that their channels stay in the processor's cache
PUBLISHED_GAP = 1e-10  # the published decode has a gap where no channel reaches this value, which noise rules out


@dataclass(frozen=True)
class ProteinHopfieldOptions(HopfieldOptions):
    """Options of p_beta among principal components of one-hot sequences."""

    variance: float | None = option(0.95, "Share of the variance that principal components keep. [0.95]")
    gaps: str = option("zeros", "Gaps as zeros (the paper's way), or as a 21st symbol. [zeros]", choices=GAPS)
    decode_temperature: float | None = option(
        None, "Draw residues from softmax(channels/temperature); 0.1 is mild. [the likeliest residue]"
    )


@dataclass(frozen=True, eq=False)
class ProteinEmbedding(LinearEmbedding):
    """Between codes (n, L) and rows. Coordinates read one-hot channels with zeros for gaps: (n, 20 L)."""

    published: bool = False  # whether to decode as the paper does: the largest channel, at norm one
    decode_temperature: float | None = None  # None decodes each position to its largest channel
    conditioned: tuple[tuple[int, int], ...] = ()  # codes by position that every decoded sequence has

    @classmethod
    def fit(cls, codes: Array, options: ProteinHopfieldOptions) -> ProteinEmbedding:
        """The embedding of stored sequences (K, L)."""
        one_of("gaps", options.gaps, GAPS)
        temperature = options.decode_temperature
        if temperature is not None:
            positive("decode_temperature", temperature, "Leave it out to decode each position to its likeliest letter.")
        as_zeros = options.gaps == "zeros"
        channels = one_hot(codes) if as_zeros else indicators(codes).reshape(len(codes), -1)
        coordinates = Coordinates.fit(channels, variance=options.variance, whiten=options.whiten, norm=options.norm)
        if not as_zeros:
            coordinates = _without_gap_channel(coordinates)
        published = options.norm == "paper" and as_zeros and temperature is None
        return cls(coordinates, codes.shape[1:], published, temperature)

    def arrays(self, coordinates: Array, source: Array, rng: np.random.Generator) -> Array:
        """Coordinates (n, d) as codes (n, L): the largest channel of each position or a draw, and the condition."""
        codes = np.empty((len(coordinates), *self.shape), dtype=np.uint8)
        if self.published:
            channels = self.coordinates.features(coordinates).reshape(*codes.shape, GAP)
            codes[:] = np.where(channels.max(-1) < PUBLISHED_GAP, GAP, channels.argmax(-1))
        else:
            for begin in range(0, len(codes), BLOCK):
                z = coordinates[begin : begin + BLOCK].astype(np.float32)
                codes[begin : begin + BLOCK] = self._read_out(z, rng)
        for position, code in self.conditioned:
            codes[:, position] = code
        return codes

    def observe(self, observation: Mapping[int, int]) -> tuple[LinearObservation, Self]:  # type: ignore[override]
        """That positions have these codes: the channel of the residue is one, or the channels of a gap add up to zero.

        The other channels of the position are left to the law, in which they are then small: conditioning on all of
        them would cost a dozen directions per residue. Decoding then sets the residue itself.
        """
        rows, values = [], []
        for position, code in observation.items():
            first = position * GAP
            channels = list(range(first, first + GAP)) if code == GAP else [first + code]
            A, y = self.coordinates.observation(channels, [float(code != GAP)] * len(channels))
            rows.append(A.sum(0))
            values.append(y.sum())
        equations = LinearObservation(np.array(rows), np.array(values))
        return equations, replace(self, conditioned=tuple(observation.items()))

    def _read_out(self, z: Array, rng: np.random.Generator) -> Array:
        """Coordinates (n, d) as codes (n, L): the largest of 21 channels at each position, or a draw."""
        offset, outward = self._readout
        channels = (z @ outward + offset).reshape(len(z), GAP + 1, -1)
        if self.decode_temperature is not None:  # the largest of logits plus Gumbel noise is a draw from their softmax
            channels /= np.float32(self.decode_temperature)
            channels += rng.gumbel(size=channels.shape).astype(np.float32)
        best = channels.max(1)
        codes = np.zeros(best.shape, dtype=np.uint8)
        for channel in range(1, GAP + 1):  # three times as fast as argmax over a middle axis
            np.maximum(codes, (channels[:, channel] == best).view(np.uint8) * np.uint8(channel), out=codes)
        return codes

    @cached_property
    def _readout(self) -> tuple[Array, Array]:
        """From coordinates to 21 channels of each position, channel by channel: offset (1, 21 L), map (d, 21 L).

        One-hot channels of a position add up to one, or to zero for a gap: the gap's channel is one minus their sum.
        """
        mean, outward = self.coordinates.mean[None], self.coordinates.outward
        outward = np.eye(mean.size) if outward is None else outward
        maps = []
        for total, rows in ((1, mean), (0, outward)):
            channels = rows.reshape(len(rows), -1, GAP)
            channels = np.concatenate([channels, total - channels.sum(-1, keepdims=True)], axis=-1)
            maps.append(channels.transpose(0, 2, 1).reshape(len(rows), -1).astype(np.float32))
        return maps[0], maps[1]


def _without_gap_channel(coordinates: Coordinates) -> Coordinates:
    """Coordinates of 21 channels per position as coordinates of 20: the gap's channel is one minus the others' sum."""
    if coordinates.inward is None or coordinates.outward is None:
        raise ValueError('gaps="symbol" needs principal components: pass variance as a number, such as 0.95.')
    d = coordinates.d
    mean = coordinates.mean.reshape(-1, GAP + 1)[:, :GAP].ravel()
    by_channel = coordinates.inward.reshape(-1, GAP + 1, d)
    inward = (by_channel[:, :GAP] - by_channel[:, GAP:]).reshape(-1, d)
    outward = coordinates.outward.reshape(d, -1, GAP + 1)[..., :GAP].reshape(d, -1)
    return replace(coordinates, mean=mean, inward=inward, outward=outward)
