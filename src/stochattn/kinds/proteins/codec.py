"""The codec of aligned sequences: between the columns of an alignment file and codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from .. import Codec, Conditioned, InputError
from ..codec import condition_text
from . import reading
from .description import ProteinOptions
from .generator.sequences import GAP, one_hot


@dataclass(frozen=True, eq=False)
class ProteinCodec(Codec):
    """Aligned sequences as codes (n, L): letters of the alphabet from 0, 20 for a gap. Items are arrays.

    Columns with few gaps are match columns, others insertions. Features and measures use match columns only.
    """

    stored: Array  # (K, L)
    ids: tuple[str, ...]
    columns: Array  # (L,) indices of the kept columns in the alignment of the file
    width: int  # number of columns of that alignment
    notes: tuple[str, ...] = ()
    scored: bool = False  # whether new sequences are scored by a profile HMM
    profile_text: str | None = None  # the profile as hmmbuild writes it; None for a profile of the stored sequences
    insertions: tuple[int, ...] = ()  # indices of insertions among the L kept columns
    alphabet: str = "protein"  # a name in `ALPHABETS`
    names_nearest: bool = True  # whether headers of new sequences name the nearest stored one

    @classmethod
    def of(cls, source: str, alignment: reading.Alignment, options: ProteinOptions) -> ProteinCodec:
        """The codec of the sequences with few gaps in match columns; `source` names the alignment in messages."""
        limit, sequence_limit = options.max_column_gaps, options.max_sequence_gaps
        for name in ("max_column_gaps", "max_sequence_gaps"):
            if not 0 <= getattr(options, name) <= 1:
                raise InputError(f"{name} must be a share between 0 and 1; got {getattr(options, name):g}.")
        gap, inserts = alignment.codes == GAP, alignment.inserts
        match = ~inserts & (gap.mean(0) <= limit)
        if not match.any():
            raise InputError(f"{source}: every column has more than {limit:.0%} gaps; raise max_column_gaps.")
        kept = gap[:, match].mean(1) <= sequence_limit
        if kept.sum() < 2:
            few = f"{kept.sum()} of {len(kept)} have at most {sequence_limit:.0%} gaps; raise max_sequence_gaps, or"
            rule = "there is one;" if len(kept) == 1 else few
            raise InputError(f"{source}: at least two sequences are needed, and {rule} add others of the family.")
        if (alignment.codes[kept][:, match] == alignment.codes[kept][:1, match]).all():
            raise InputError(f"{source}: all sequences are equal. Store different ones.")
        inserted = ~match & ~gap[kept].all(0)
        columns = np.flatnonzero(match | inserted)
        counts = (
            ((inserts & inserted).sum(), "insert column{s} (lower case) {were} kept as insertions"),
            ((~inserts & inserted).sum(), f"column{{s}} with more than {limit:.0%} gaps {{were}} kept as insertions"),
            ((~match & ~inserted).sum(), "column{s} in which no sequence has a residue {were} dropped"),
            ((~kept).sum(), f"sequence{{s}} with more than {sequence_limit:.0%} gaps {{were}} dropped"),
        )
        forms = {True: {"s": "", "were": "was"}, False: {"s": "s", "were": "were"}}
        notes = (f"{n:,} {rule.format(**forms[n == 1])}." for n, rule in counts if n)
        ids = tuple(alignment.names[i] for i in np.flatnonzero(kept))
        profile = None if options.hmm is None else reading.read_profile(options.hmm, alignment.alphabet)
        return cls(
            stored=alignment.codes[kept][:, columns],
            ids=ids,
            columns=columns,
            width=len(inserts),
            notes=(*alignment.notes, *notes),
            scored=options.score or profile is not None,
            profile_text=profile,
            insertions=tuple(np.flatnonzero(inserted[columns]).tolist()),
            alphabet=alignment.alphabet,
            names_nearest=options.nearest,
        )

    @cached_property
    def match(self) -> Array:
        """Which of the kept columns are match columns, (L,) booleans."""
        return ~np.isin(np.arange(len(self.columns)), self.insertions)

    @property
    def places(self) -> tuple[str, ...]:
        """The match columns, counted from 1 in the alignment of the file."""
        return tuple(str(i + 1) for i in self.columns[self.match])

    @property
    def letters(self) -> reading.Alphabet:
        return reading.ALPHABETS[self.alphabet]

    @cached_property
    def profile(self) -> reading.Profile:
        text = self.profile_text
        return reading.build_profile(self.stored, self.alphabet) if text is None else reading.parse_profile(text)

    def encode(self, items: Array | Sequence[str]) -> Array:
        """Sequences as codes (n, L), from codes or from strings such as `to_user` returns."""
        if len(items) and isinstance(items[0], str):
            alignment = reading.parse_alignment(items, self.alphabet, varied=False)  # type: ignore[arg-type]
            return self.select_columns("items", alignment.codes)
        return np.asarray(items, dtype=np.uint8)

    def decode(self, arrays: Array, source: Array | None = None) -> Array:
        return arrays

    def features(self, items: Array | Sequence[str]) -> Array:
        """Match columns of sequences as one-hot channels, with zeros for gaps: (n, 20 L)."""
        return one_hot(self.encode(items)[:, self.match])

    def select_columns(self, source: str, codes: Array) -> Array:
        """Codes (n, L) in the kept columns, from codes in these or in all columns of the alignment of the file."""
        if (n := codes.shape[1]) not in (self.width, len(self.columns)):
            raise InputError(f"{source} has {n} columns, and the stored alignment {self.width}: use the same.")
        return codes[:, self.columns] if n == self.width else codes

    def refit(self, items: Array) -> ProteinCodec:
        return replace(self, stored=np.asarray(items), ids=tuple(str(i + 1) for i in range(len(items))), notes=())

    def state(self) -> dict[str, Plain]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to_user(self, items: Array) -> list[str]:
        """Sequences as strings with the columns of the alignment of the file; dropped columns are gaps."""
        codes = np.full((len(items), self.width), GAP, dtype=np.uint8)
        codes[:, self.columns] = items
        return reading.format_sequences(codes, self.alphabet)

    def condition(self, values: Mapping[int | str, str]) -> Conditioned:
        """Residues, or "-", by column of the alignment of the file, from 1: {12: "W"}."""
        observation: dict[int, int] = {}
        notes: list[str] = []
        for column, letter in values.items():
            name, number = f"condition {condition_text(column, letter)}", str(column).strip()
            if not number.isdecimal() or not isinstance(letter, str) or len(letter) != 1:
                raise InputError(f'{name} must name a column and a residue, such as {{12: "W"}}.')
            if not 1 <= int(number) <= self.width:
                raise InputError(f"{name}: the alignment has columns 1 to {self.width}. Name one of them.")
            if int(number) - 1 not in self.columns:
                raise InputError(f"{name}: no stored sequence has a residue in this column. Name another.")
            position = int(np.searchsorted(self.columns, int(number) - 1))
            codes = {"-": GAP, **{residue: code for code, residue in enumerate(self.letters.letters)}}
            if (symbol := letter.upper()) not in codes:
                choices = f"Choose one of {', '.join(self.letters.letters)}, or - for a gap"
                raise InputError(f"{name}: the alphabet ({self.alphabet}) has no such letter. {choices}.")
            before = observation.setdefault(position, codes[symbol])
            if before != codes[symbol]:
                raise InputError(f"{name}: the column is conditioned on {str(self.letters.symbols[before])!r} already.")
            if codes[symbol] not in self.stored[:, position]:
                what = "a gap" if symbol == "-" else symbol
                notes.append(f"no stored sequence has {what} in column {number}: draws extrapolate.")
        return Conditioned(self, observation, tuple(dict.fromkeys(notes)))
