"""Protein families: an alignment to unit rows of principal components, and draws back to aligned sequences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import one_of, positive
from ...generators.coordinates import Coordinates
from ..legacy import Codec, Comparison, InputError, Native, Settings, Writer
from . import sequences
from .alignment import Alignment, aligned, cleaned, read_alignment
from .measures import compare_sequences
from .profiles import build_profile, read_profile, score
from .sequences import GAP, LETTERS
from .writers import FastaWriter, StockholmWriter

GAPS = ("zeros", "symbol")
IN_CACHE = 256
"""Sequences read out at a time, so that their channels stay in the processor's cache."""
PUBLISHED_GAP = 1e-10
"""The published decode calls a position a gap when no channel reaches this, which noise never leaves true."""


@dataclass(frozen=True, eq=False)
class ProteinCodec(Codec):
    """Aligned sequences, as codes (n, L): 0 … 19 for amino acids, 20 for a gap.

    columns:     (L,) which columns of the file's alignment are kept; width: how many it has
    gaps:        "zeros", one-hot with 20 channels as in the paper, or "symbol", a 21st channel
    temperature: None decodes each position to its largest channel; a number draws it from softmax(channels/temperature)
    profile:     a profile HMM that new sequences are scored by (see `scored`), or None
    """

    kind: ClassVar[str] = "protein"
    native_name: ClassVar[str] = "a calibrated latent"
    formats: ClassVar[dict[str, tuple[str, ...]]] = {
        "fasta": (".fasta", ".fa", ".faa", ".afa"),
        "stockholm": (".sto", ".stk", ".stockholm"),
    }

    stored: Array
    ids: tuple[str, ...]
    coordinates: Coordinates
    columns: Array
    width: int
    gaps: str = "zeros"
    temperature: float | None = None
    options: tuple[tuple[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    profile: Any = None
    n_scored: int = 1
    held: tuple[tuple[int, int], ...] = ()

    @classmethod
    def read(cls, path: str | Path, **options: Any) -> ProteinCodec:
        """The codec of an alignment file; options as in `of`."""
        return cls._of(str(path), read_alignment(Path(path)), **options)

    @classmethod
    def of(cls, sequences: Mapping[str, str] | Sequence[str], **options: Any) -> ProteinCodec:
        """The codec of aligned texts, by name or in order.

        options: max_column_gaps=0.5, max_sequence_gaps=0.3: columns and then sequences with more are dropped, and
                 counted; others as in `fit`
        """
        return cls._of("sequences", aligned(sequences), **options)

    @classmethod
    def _of(
        cls,
        source: str,
        alignment: Alignment,
        max_column_gaps: float = 0.5,
        max_sequence_gaps: float = 0.3,
        **options: Any,
    ) -> ProteinCodec:
        kept, columns, notes = cleaned(source, alignment, max_column_gaps, max_sequence_gaps)
        ids = tuple(name for name, keep in zip(alignment.names, kept, strict=True) if keep)
        codes = alignment.codes[kept][:, columns]
        width = alignment.codes.shape[1]
        return cls.fit(codes, ids, columns=columns, width=width, notes=(*alignment.notes, *notes), **options)

    @classmethod
    def fit(
        cls,
        codes: Any,
        ids: Iterable[str],
        *,
        columns: Any = None,
        width: int | None = None,
        gaps: str = "zeros",
        temperature: float | None = None,
        notes: tuple[str, ...] = (),
        variance: float = 0.95,
        whiten: bool = False,
        norm: str = "restored",
    ) -> ProteinCodec:
        """The codec of sequences (K, L); `variance`, `whiten` and `norm` are those of `Coordinates.fit`."""
        codes = np.asarray(codes, dtype=np.uint8)
        one_of("gaps", gaps, GAPS)
        if temperature is not None:
            positive("temperature", temperature, "Leave it out to decode each position to its likeliest letter.")
        coordinates = Coordinates.fit(_channels(codes, gaps), variance=variance, whiten=whiten, norm=norm)
        columns = np.arange(codes.shape[1]) if columns is None else np.asarray(columns)
        options = (("variance", variance), ("whiten", whiten), ("norm", norm))
        return cls(codes, tuple(ids), coordinates, columns, width or codes.shape[1], gaps, temperature, options, notes)

    @property
    def length(self) -> int:
        """Positions."""
        return int(self.stored.shape[1])

    @property
    def n_channels(self) -> int:
        """Channels of a position."""
        return GAP if self.gaps == "zeros" else GAP + 1

    def features(self, items: Any) -> Array:
        """Sequences as one-hot channels: (n, L · channels)."""
        return _channels(np.asarray(items), self.gaps)

    def items(self, coordinates: Array, memory: Array, rng: np.random.Generator) -> Array:
        """Coordinates as sequences: at each position the largest of the 20 channels and the gap's, or a draw."""
        codes = self._decoded(coordinates, rng)
        for position, letter in self.held:
            codes[:, position] = letter
        return codes

    def _decoded(self, coordinates: Array, rng: np.random.Generator) -> Array:
        if self.coordinates.norm == "paper" and self.gaps == "zeros" and self.temperature is None:
            channels = self.coordinates.features(coordinates).reshape(len(coordinates), self.length, GAP)
            return np.where(channels.max(-1) < PUBLISHED_GAP, GAP, channels.argmax(-1)).astype(np.uint8)
        z = coordinates.astype(np.float32)
        blocks = [self._read_out(z[i : i + IN_CACHE], rng) for i in range(0, len(z), IN_CACHE)]
        return np.concatenate(blocks) if blocks else np.empty((0, self.length), dtype=np.uint8)

    def _read_out(self, z: Array, rng: np.random.Generator) -> Array:
        offset, outward = self._readout
        channels = (z @ outward + offset).reshape(len(z), GAP + 1, self.length)
        if self.temperature is not None:  # the largest of logits plus Gumbel noise is a draw from their softmax
            channels /= np.float32(self.temperature)
            channels += rng.gumbel(size=channels.shape).astype(np.float32)
        return _largest(channels)

    @cached_property
    def _readout(self) -> tuple[Array, Array]:
        """From coordinates to 21 channels of each position, channel by channel: offset (21 L,), map (d, 21 L).

        One-hot channels of a position add up to one, unless it is a gap: what they lack is the gap's own channel.
        """
        c, L = self.n_channels, self.length
        offset = self.coordinates.mean.reshape(1, L, c)
        outward = (np.eye(L * c) if self.coordinates.outward is None else self.coordinates.outward).reshape(-1, L, c)
        if self.gaps == "zeros":
            offset = np.concatenate([offset, 1 - offset.sum(-1, keepdims=True)], axis=-1)
            outward = np.concatenate([outward, -outward.sum(-1, keepdims=True)], axis=-1)
        by_channel = [x.transpose(0, 2, 1).reshape(len(x), -1).astype(np.float32) for x in (offset, outward)]
        return by_channel[0][0], by_channel[1]

    def same(self, first: Any, second: Any) -> Array:
        """Which residues are equal."""
        return np.asarray(first) == np.asarray(second)

    def take(self, items: Any, indices: Any) -> Array:
        """Some of the sequences."""
        return np.asarray(items)[indices]

    def observe(self, fixes: Iterable[str]) -> tuple[Array, Array]:
        """`12=W`: column 12 of the file's alignment, from 1, holds a W: its channel is one. `12=-`: a gap.

        The other channels of the position are left to the law, in which they then are small: fixing them all would
        cost a dozen directions a residue. `hold` sees to it that the residue is decoded.
        """
        rows, values = [], []
        for position, letter in self._all_fixed(fixes):
            first = position * self.n_channels
            channels = [first + letter] if letter < self.n_channels else list(range(first, first + GAP))
            A, y = self.coordinates.observation(channels, [float(letter < self.n_channels)] * len(channels))
            if letter < self.n_channels:
                rows.append(A[0])
                values.append(y[0])
            else:  # without a channel of its own, a gap is what the others do not add up to
                rows.append(A.sum(0))
                values.append(y.sum())
        return np.array(rows), np.array(values)

    def hold(self, fixes: Iterable[str]) -> ProteinCodec:
        """The codec that decodes the fixed residues."""
        return replace(self, held=tuple(self._all_fixed(fixes)))

    def native(self, weights: Array, fixes: Iterable[str] = ()) -> Native | None:
        """The calibrated latent sampler; with fixed residues, the exact mixture in sequence space."""
        from .native import native_sampler

        fixed = dict(self._all_fixed(fixes))
        try:
            return native_sampler(self.stored, weights, fixed)
        except ValueError:  # one sequence, say: p_beta has something to say about it, if only an error
            return None

    def _all_fixed(self, fixes: Iterable[str]) -> list[tuple[int, int]]:
        fixed: dict[int, int] = {}
        for fix in fixes:
            position, letter = self._fixed(fix)
            if fixed.setdefault(position, letter) != letter:
                raise InputError(f"--fix {fix!r}: this column is fixed to {_letter(fixed[position])!r} already.")
        return list(fixed.items())

    def _fixed(self, fix: str) -> tuple[int, int]:
        place, _, letter = (part.strip() for part in fix.partition("="))
        if not place.isdigit() or len(letter) != 1:
            raise InputError(f"--fix {fix!r} must name a column and a residue, such as 12=W.")
        where = np.flatnonzero(self.columns == int(place) - 1)
        if not 1 <= int(place) <= self.width:
            raise InputError(f"--fix {fix!r}: the alignment has columns 1 to {self.width}; name one of them.")
        if not len(where):
            raise InputError(
                f"--fix {fix!r}: column {place} was dropped, because too many of its places are gaps or it is an "
                "insert; raise --max-column-gaps to keep it."
            )
        position = int(where[0])
        seen = sorted({_letter(code) for code in self.stored[:, position]})
        if letter.upper() not in seen:
            raise InputError(
                f"--fix {fix!r}: no stored sequence has {letter!r} in column {place}, so no draw can; "
                f"there are {', '.join(seen)}."
            )
        return position, GAP if letter == "-" else int(np.searchsorted(LETTERS, letter.upper()))

    def writer(self, place: BinaryIO | Path, format: str, settings: Settings) -> Writer:
        """FASTA or Stockholm, in the columns of the file that was read."""
        makers = {"fasta": FastaWriter, "stockholm": StockholmWriter}
        if isinstance(place, Path):
            raise TypeError("sequences are written to a stream, not to a folder.")
        return makers[format](place, settings, self.ids, self.columns, self.width)

    def read_new(self, path: Path) -> Array:
        """Sequences aligned to this family, in its file's columns or in the kept ones."""
        alignment = read_alignment(Path(path))
        got = alignment.codes.shape[1]
        if got == self.width:
            return alignment.codes[:, self.columns]
        if got == self.length:
            return alignment.codes
        raise InputError(
            f"{path} has {got} columns, and the stored alignment {self.width}: compare sequences in the same columns."
        )

    def presented(self, items: Any) -> list[str]:
        """Sequences as texts, in the columns of the alignment that was read."""
        return sequences.texts(items, self.columns, self.width)

    def annotate(self, items: Any, rows: Array) -> tuple[Array, dict[str, Array]]:
        """The stored sequence that each shares most residues with, and that identity."""
        nearest, identity = sequences.nearest_identity(items, self.stored)
        extra = {"identity": identity}
        if self.profile is not None:
            bits, evalues = score(items, self.profile, self.n_scored)
            extra |= {"score": bits, "evalue": evalues}
        return nearest, extra

    def scored(self, n: int, path: Path | None = None) -> ProteinCodec:
        """The codec that also scores new sequences: by a profile file, or one built from the stored sequences.

        n: how many there will be, which E-values refer to
        """
        profile = build_profile(self.stored) if path is None else read_profile(path)
        return replace(self, profile=profile, n_scored=n)

    def compare(self, items: Any) -> Comparison:
        """Identity, frequencies, pairs of positions, near-copies, and a profile built from the stored sequences."""
        return compare_sequences(np.asarray(items), self.stored, self.columns)

    def refit(self, items: Any) -> ProteinCodec:
        """The same options on other sequences."""
        codes = np.asarray(items)
        ids = [str(i + 1) for i in range(len(codes))]
        return self.fit(
            codes,
            ids,
            columns=self.columns,
            width=self.width,
            gaps=self.gaps,
            temperature=self.temperature,
            **dict(self.options),
        )

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All it needs to be made again."""
        facts = {
            "ids": list(self.ids),
            "width": self.width,
            "gaps": self.gaps,
            "temperature": self.temperature,
            "options": dict(self.options),
            "notes": list(self.notes),
            "variance": self.coordinates.variance,
        }
        return facts, {"stored": self.stored, "columns": self.columns, **self.coordinates.arrays()}

    @classmethod
    def from_state(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> ProteinCodec:
        """The codec of that state."""
        options = facts["options"]
        return cls(
            arrays["stored"],
            tuple(facts["ids"]),
            Coordinates.from_arrays(arrays, options["norm"], facts["variance"]),
            arrays["columns"],
            facts["width"],
            facts["gaps"],
            facts["temperature"],
            tuple(options.items()),
            tuple(facts["notes"]),
        )


def _channels(codes: Array, gaps: str) -> Array:
    if gaps == "zeros":
        return sequences.one_hot(codes)
    return (codes[:, :, None] == np.arange(GAP + 1)).reshape(len(codes), -1).astype(np.float64)


def _largest(channels: Array) -> Array:
    """Index of the largest channel; (n, channels, L) -> (n, L). Three times as fast as argmax over a middle axis."""
    best = channels.max(1)
    codes = np.zeros(best.shape, dtype=np.uint8)
    for channel in range(1, channels.shape[1]):
        np.maximum(codes, (channels[:, channel] == best).view(np.uint8) * np.uint8(channel), out=codes)
    return codes


def _letter(code: int) -> str:
    return "-" if code == GAP else str(LETTERS[code])
