"""Protein families: aligned sequences, between the columns of their alignment and codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from ..._backend.arrays import Array
from ..._backend.state import Plain
from .. import Codec, Conditioned, InputError
from ..controls import condition_text
from ..options import with_count
from .description import ProteinOptions
from .generator.sequences import GAP, one_hot
from .reading import (
    ALPHABETS,
    Alignment,
    Alphabet,
    Profile,
    aligned,
    build_profile,
    parsed_profile,
    read_profile,
    texts,
)


@dataclass(frozen=True, eq=False)
class ProteinCodec(Codec):
    """Aligned sequences as codes (n, L): letters of the alphabet from 0, 20 for a gap. Items and arrays are the same.

    Columns with few gaps are match columns, others insertions. Features and measures see match columns only.
    """

    stored: Array  # (K, L)
    ids: tuple[str, ...]
    columns: Array  # (L,) indices of the columns of the file's alignment that are kept
    width: int  # number of columns of that alignment
    notes: tuple[str, ...] = ()
    scored: bool = False  # whether new sequences are scored by a profile HMM
    profile_text: str | None = None  # that profile, as hmmbuild writes it; None for one of the stored sequences
    insertions: tuple[int, ...] = ()  # positions, among the L kept ones, of insertions
    alphabet: str = "protein"  # its name
    names_nearest: bool = True  # whether headers of new sequences name the nearest stored one

    @classmethod
    def of(cls, source: str, alignment: Alignment, options: ProteinOptions) -> ProteinCodec:
        """The codec of the columns, and then the sequences, with few gaps; `source` names the alignment in messages."""
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
            found = "there is one;" if len(kept) == 1 else few
            raise InputError(f"{source}: at least two sequences are needed, and {found} add others of the family.")
        if (alignment.codes[kept][:, match] == alignment.codes[kept][:1, match]).all():
            raise InputError(f"{source}: the sequences are all alike. Store different ones.")
        inserted = ~match & ~gap[kept].all(0)
        columns = np.flatnonzero(match | inserted)
        sparse, gapped = (f"with more than {share:.0%} gaps" for share in (limit, sequence_limit))
        counts = (
            (
                (inserts & inserted).sum(),
                "insert column (lower case) was kept as insertions",
                "insert columns (lower case) were kept as insertions",
            ),
            (
                (~inserts & inserted).sum(),
                f"column {sparse} was kept as insertions",
                f"columns {sparse} were kept as insertions",
            ),
            (
                (~match & ~inserted).sum(),
                "column in which no sequence has a residue was dropped",
                "columns in which no sequence has a residue were dropped",
            ),
            ((~kept).sum(), f"sequence {gapped} was dropped", f"sequences {gapped} were dropped"),
        )
        ids = tuple(alignment.names[i] for i in np.flatnonzero(kept))
        profile = None if options.hmm is None else read_profile(options.hmm, alignment.alphabet)
        return cls(
            stored=alignment.codes[kept][:, columns],
            ids=ids,
            columns=columns,
            width=len(inserts),
            notes=(*alignment.notes, *(f"{with_count(n, *words)}." for n, *words in counts if n)),
            scored=options.score or profile is not None,
            profile_text=profile,
            insertions=tuple(np.flatnonzero(inserted[columns]).tolist()),
            alphabet=alignment.alphabet,
            names_nearest=options.nearest,
        )

    @cached_property
    def match(self) -> Array:
        """Which of the kept columns are match columns: (L,)."""
        found = np.ones(len(self.columns), dtype=bool)
        found[list(self.insertions)] = False
        return found

    @property
    def letters(self) -> Alphabet:
        """The alphabet."""
        return ALPHABETS[self.alphabet]

    @cached_property
    def profile(self) -> Profile:
        text = self.profile_text
        return build_profile(self.stored, self.alphabet) if text is None else parsed_profile(text)

    def encode(self, items: Array | Sequence[str]) -> Array:
        """Sequences as codes (n, L): codes as they are, or texts as `to_user` gives them."""
        if len(items) and isinstance(items[0], str):
            found = aligned(items, self.alphabet, varied=False)  # type: ignore[arg-type]
            return self.in_kept_columns("items", found.codes)
        return np.asarray(items, dtype=np.uint8)

    def decode(self, arrays: Array, source: Array | None = None) -> Array:
        return arrays

    def features(self, items: Array | Sequence[str]) -> Array:
        """Match columns of sequences as one-hot channels, with zeros for gaps: (n, 20 L)."""
        return one_hot(self.encode(items)[:, self.match])

    def in_kept_columns(self, source: str, codes: Array) -> Array:
        """Codes in the columns of the file's alignment, or in the kept ones, as codes (n, L) in the kept ones."""
        if (n := codes.shape[1]) not in (self.width, len(self.columns)):
            raise InputError(f"{source} has {n} columns, and the stored alignment {self.width}: use the same.")
        return codes[:, self.columns] if n == self.width else codes

    def refit(self, items: Array) -> ProteinCodec:
        return replace(self, stored=np.asarray(items), ids=tuple(str(i + 1) for i in range(len(items))), notes=())

    def state(self) -> dict[str, Plain]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to_user(self, items: Array) -> list[str]:
        """Sequences as texts in the columns of the file's alignment; dropped columns are gaps."""
        whole = np.full((len(items), self.width), GAP, dtype=np.uint8)
        whole[:, self.columns] = items
        return texts(whole, self.alphabet)

    def condition(self, values: Mapping[int | str, str]) -> Conditioned:
        """Residues by column of the file's alignment, from 1: {12: "W"}, or "-"; codes by kept position."""
        observation: dict[int, int] = {}
        notes: list[str] = []
        for column, letter in values.items():
            given, number = f"condition {condition_text(column, letter)}", str(column).strip()
            if not number.isdecimal() or not isinstance(letter, str) or len(letter) != 1:
                raise InputError(f'{given} must name a column and a residue, such as {{12: "W"}}.')
            if not 1 <= int(number) <= self.width:
                raise InputError(f"{given}: the alignment has columns 1 to {self.width}. Name one of them.")
            if int(number) - 1 not in self.columns:
                raise InputError(f"{given}: no stored sequence has a residue in this column. Name another.")
            position = int(np.searchsorted(self.columns, int(number) - 1))
            codes = {"-": GAP, **{one: code for code, one in enumerate(self.letters.letters)}}
            if (symbol := letter.upper()) not in codes:
                known = f"Choose one of {', '.join(self.letters.letters)}, or - for a gap"
                raise InputError(f"{given}: the alphabet ({self.alphabet}) has no such letter. {known}.")
            other = observation.setdefault(position, codes[symbol])
            if other != codes[symbol]:
                raise InputError(f"{given}: the column is conditioned on {str(self.letters.symbols[other])!r} already.")
            if codes[symbol] not in self.stored[:, position]:
                what = "a gap" if symbol == "-" else symbol
                notes.append(f"no stored sequence has {what} in column {number}: draws extrapolate.")
        return Conditioned(self, observation, tuple(dict.fromkeys(notes)))
