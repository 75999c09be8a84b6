"""Protein families before their code is loaded: the files that are read, and options of reading and of generators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..options import HopfieldOptions, KindDescription, NoOptions, option

GAPS = ("zeros", "symbol")
ALPHABETS = ("protein", "dna", "rna")


@dataclass(frozen=True)
class ProteinOptions:
    """Options of reading."""

    alignment: str | None = option(
        None, "Which alignment of a Stockholm file: identifier, accession or number. [the first]", metavar="NAME"
    )
    alphabet: str | None = option(
        None, "Letters of the sequences: protein, dna or rna. [recognized]", choices=ALPHABETS
    )
    max_column_gaps: float = option(0.5, "Columns with a larger share of gaps count as insertions. [0.5]")
    max_sequence_gaps: float = option(0.3, "Drop sequences with a larger share of gaps. [0.3]")
    score: bool = option(
        False, "Write a bit score and an E-value into each header, by a profile HMM of the stored sequences."
    )
    hmm: str | None = option(None, "Score by this profile HMM instead: a file made by hmmbuild.", metavar="FILE")
    nearest: bool = option(
        True, "Name the nearest stored sequence in headers. Leave it out where identifiers are confidential. [named]"
    )


@dataclass(frozen=True)
class ProteinHopfieldOptions(HopfieldOptions):
    """Options of p_beta among principal components of one-hot sequences."""

    variance: float | None = option(0.95, "Share of the variance that principal components keep. [0.95]")
    gaps: str = option("zeros", "Gaps as zeros (the paper's way), or as a 21st symbol. [zeros]", choices=GAPS)
    decode_temperature: float | None = option(
        None, "Draw residues at random, the likely ones more often; 0.1 is mild. [the most likely residue]"
    )


class ProteinDescription(KindDescription):
    """Aligned sequences of a protein family."""

    name, item, items, part = "protein", "sequence", "sequences", "position"
    inputs = "an alignment of proteins, DNA or RNA (Stockholm, FASTA, A2M, Clustal)"
    condition_help = "residue 12=W"
    suffixes = (
        *(".sto", ".stk", ".sth", ".stockholm", ".fasta", ".fa", ".faa", ".fas", ".afa", ".a2m", ".a3m", ".aln"),
        *(".fna", ".clustal", ".clw", ".psi", ".psiblast", ".msa"),
    )
    codec_options = ProteinOptions
    generators = MappingProxyType({"latent": NoOptions, "hopfield": ProteinHopfieldOptions, "gaussian": NoOptions})

    def accepts(self, data: object) -> bool:
        values = data.values() if isinstance(data, Mapping) else data if isinstance(data, list | tuple) else ()
        return bool(values) and all(isinstance(value, str) for value in values)


DESCRIPTION = ProteinDescription()
