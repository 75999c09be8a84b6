"""Protein families as a kind of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ..._backend.html import Html
from ...generators.base import Generator
from ...generators.hopfield import Hopfield
from ...generators.latent import CalibratedLatent
from ...generators.sequences import WeightedSequences, nearest_identity
from ..base import Format, Settings, Writer
from ..comparison import Comparison
from ..gallery import GalleryItems
from ..kind import KeyMeasure, Kind
from ..options import InputError, NoOptions
from .alignment import EXTENSIONS, aligned, passed, read_alignment, score
from .codec import ProteinCodec, ProteinOptions
from .embedding import ProteinEmbedding, ProteinHopfieldOptions
from .sequences import FastaWriter, StockholmWriter, compare_sequences, sequence_gallery


class ProteinKind(Kind["ProteinCodec"]):
    """Aligned sequences of a protein family."""

    name, item, items, part = "protein", "sequence", "sequences", "position"
    inputs = "a protein alignment (Stockholm, FASTA, A2M, Clustal)"
    condition_help = "residue 12=W"
    codec_options = ProteinOptions
    generators = MappingProxyType({"latent": NoOptions, "hopfield": ProteinHopfieldOptions})
    formats = Format("fasta", (".fasta", ".fa", ".faa", ".afa")), Format("stockholm", (".sto", ".stk", ".stockholm"))
    # Pair correlations of few sequences are mostly noise, which only copies reproduce; a profile looks site by site.
    key_measure = KeyMeasure("profile pass", 0.2, "Members of the family, site by site", "they leave the family")

    def recognises(self, path: Path) -> bool:
        return path.suffix.lower() in EXTENSIONS and not path.is_dir()

    def accepts(self, data: object) -> bool:
        values = data.values() if isinstance(data, Mapping) else data if isinstance(data, list | tuple) else ()
        return bool(values) and all(isinstance(value, str) for value in values)

    def read(self, path: Path, options: ProteinOptions) -> ProteinCodec:
        return ProteinCodec.of(str(path), read_alignment(path), options)

    def codec_of(self, data: Mapping[str, str] | Sequence[str], options: ProteinOptions) -> ProteinCodec:
        return ProteinCodec.of("sequences", aligned(data), options)

    def codec_from_state(self, state: Mapping[str, object]) -> ProteinCodec:
        return ProteinCodec(**state)  # type: ignore[arg-type]

    def fit_generator(
        self, name: str, codec: ProteinCodec, weights: Array, options: NoOptions | ProteinHopfieldOptions
    ) -> Generator:
        """The calibrated latent, or p_beta among principal components of one-hot sequences."""
        if isinstance(options, ProteinHopfieldOptions):
            embedding = ProteinEmbedding.fit(codec.stored, options)
            return Hopfield.fit(embedding, weights, beta=options.beta, novelty=options.novelty, sampler=options.sampler)
        if np.count_nonzero(weights) < 2:
            remedy = "Select more, or pass a number for beta, as beta=20, to draw around it."
            raise InputError(f"the generator {name!r} compares at least two sequences, and one is selected. {remedy}")
        return CalibratedLatent(WeightedSequences.of(codec.stored, weights))

    def parse_condition(self, codec: ProteinCodec, texts: Sequence[str]) -> dict[int, str]:
        """12=W: column 12 of the file's alignment, counted from 1, has a W; 12=- a gap."""
        values: dict[int, str] = {}
        for text in texts:
            column, _, letter = (part.strip() for part in text.partition("="))
            if not column.isdecimal() or len(letter) != 1:
                raise InputError(f"a condition must name a column and a residue, such as 12=W; got {text!r}.")
            if (other := values.setdefault(int(column), letter)).upper() != letter.upper():
                raise InputError(f"condition {text!r}: column {column} is conditioned on {other!r} already.")
        return values

    def writer(self, codec: ProteinCodec, place: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        made = StockholmWriter if format.name == "stockholm" else FastaWriter
        return made(place, codec, settings)  # type: ignore[arg-type]  # no format is a folder

    def read_new(self, codec: ProteinCodec, path: Path) -> Array:
        """Sequences aligned to the stored ones, in the columns of their file or in the kept ones."""
        return codec.in_kept_columns(str(path), read_alignment(Path(path)).codes)

    def same(self, codec: ProteinCodec, first: Array, second: Array) -> Array:
        return np.asarray(first) == np.asarray(second)

    def annotate(self, codec: ProteinCodec, items: Array, n_total: int) -> tuple[Array, dict[str, Array]]:
        """The stored sequence with the highest identity and that identity; a profile's score and E-value if asked."""
        nearest, identity = nearest_identity(items, codec.stored)
        extra = {"identity": identity}
        if codec.scored:
            bits, evalues = score(items, codec.profile, n_total)
            extra |= {"score": bits, "evalue": evalues}
        return nearest, extra

    def compare(self, codec: ProteinCodec, items: Array) -> Comparison:
        return compare_sequences(np.asarray(items), codec.stored, codec.columns)

    def summarize(self, extra: Mapping[str, Array]) -> dict[str, float]:
        """Mean identity to the nearest stored sequence, share of members by E-value, median bit score of hits."""
        figures: dict[str, float] = {}
        if "identity" in extra:
            figures["identity"] = float(np.mean(extra["identity"]))
        if "evalue" in extra:
            hits = extra["score"][np.isfinite(extra["score"])]
            figures["profile_pass"] = passed(extra["evalue"])
            figures["score"] = float(np.median(hits)) if len(hits) else float("nan")
        return figures

    def gallery(self, codec: ProteinCodec, shown: GalleryItems) -> Html:
        return sequence_gallery(codec, shown)


KIND = ProteinKind()
