"""Protein families as a kind of data, and sequences as rows of a memory bank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np

from ..._backend.arrays import Array
from ..._backend.checks import check_choice, check_positive
from .. import Display, Format, InputError, KeptMeasure, KeyMeasure, Kind, Measures, Settings, Writer
from ..codec import condition_text
from ..display import Control, LettersControl
from ..generator import Generator
from ..hopfield import Coordinates, HopfieldGenerator, LinearEmbedding, LinearObservation
from .codec import ProteinCodec
from .description import GAPS, ProteinDescription, ProteinHopfieldOptions, ProteinOptions
from .generator.latent import CalibratedLatent
from .generator.sequences import GAP, WeightedSequences, indicators, nearest_identity, one_hot
from .reading import MAX_EVALUE, join_alignments, parse_alignment, read_alignment, score
from .sequences import CONSERVED, FastaWriter, StockholmWriter, compare_sequences, residue_shares, sequence_gallery

MAX_LETTERS = 5  # of a column of the logo, the most frequent ones


def sequence_controls(codec: ProteinCodec) -> tuple[Control, ...]:
    """A logo of the match columns. The height of a column is its information, as a share of the largest possible."""
    names = codec.letters.symbols
    most = np.log2(max(len(codec.letters.letters), 2))
    letters, heights = [], []
    for shares in residue_shares(codec.stored[:, codec.match]):
        seen = shares[shares > 0]
        heights.append(float(max(1 + (seen * np.log2(seen)).sum() / most, 0.0)) if len(seen) else 0.0)
        order = np.argsort(-shares, kind="stable")[:MAX_LETTERS]
        letters.append(tuple((str(names[code]), float(shares[code])) for code in order if shares[code] > 0))
    alphabet = (*map(str, codec.letters.letters), "-")
    return (LettersControl("residues", "Residues", codec.places, tuple(letters), tuple(heights), alphabet),)


BLOCK = 256  # sequences read out at a time, so that their channels stay in the processor's cache
PUBLISHED_GAP = 1e-10  # the published decode has a gap where no channel reaches this value, which noise rules out


def _annotate(codec: ProteinCodec, items: Array, n_total: int) -> tuple[Array, dict[str, Array]]:
    """The stored sequence with the highest identity and that identity; a profile's score and E-value if asked."""
    nearest, identity = nearest_identity(items[:, codec.match], codec.stored[:, codec.match])
    extra = {"identity": identity}
    if codec.scored:
        extra["score"], extra["evalue"] = score(items, codec.profile, n_total)
    return nearest, extra


def _summarize(extra: Mapping[str, Array]) -> dict[str, float]:
    """Mean identity to the nearest stored sequence, share of members by E-value, median bit score of hits."""
    figures = {"identity": float(np.mean(extra["identity"]))} if "identity" in extra else {}
    if "evalue" in extra:
        hits = extra["score"][np.isfinite(extra["score"])]
        figures["profile_pass"] = float((extra["evalue"] < MAX_EVALUE).mean())
        figures["score"] = float(np.median(hits)) if len(hits) else float("nan")
    return figures


class ProteinKind(ProteinDescription, Kind["ProteinCodec"]):
    """Reads alignments, fits their generators, and compares, shows and writes sequences."""

    alternatives = ("hopfield", "gaussian")
    formats = Format("fasta", (".fasta", ".fa", ".faa", ".afa")), Format("stockholm", (".sto", ".stk", ".stockholm"))
    # Pair correlations of few sequences are mostly noise, which only copies reproduce; a profile looks site by site.
    measures = Measures(
        key=KeyMeasure("profile pass", 0.2, "Members of the family, site by site", "they leave the family"),
        kept=KeptMeasure(CONSERVED, "Conserved sites are kept", "conserved sites change"),
        compare=compare_sequences,
        annotate=_annotate,
        summarize=_summarize,
        same=lambda codec, first, second: np.asarray(first) == np.asarray(second),
        named_parts=lambda codec: (codec.places, np.repeat(np.arange(len(codec.places)), GAP)),
    )
    display = Display(
        sequence_gallery, style=(files(__package__) / "style.css").read_text("utf-8"), controls=sequence_controls
    )

    def read(self, path: Path, options: ProteinOptions) -> ProteinCodec:
        return ProteinCodec.of(str(path), read_alignment(path, options.alignment, options.alphabet), options)

    def read_files(self, paths: Sequence[Path], options: ProteinOptions) -> ProteinCodec:
        alignments = [read_alignment(path, options.alignment, options.alphabet) for path in paths]
        return ProteinCodec.of(str(paths[0].parent), join_alignments(paths, alignments), options)

    def codec_of(self, data: Mapping[str, str] | Sequence[str], options: ProteinOptions) -> ProteinCodec:
        if options.alignment is not None:
            raise InputError(f"alignment={options.alignment!r} chooses one of a file: leave it out for sequences.")
        return ProteinCodec.of("sequences", parse_alignment(data, options.alphabet), options)

    def codec_from_state(self, state: Mapping[str, object]) -> ProteinCodec:
        return ProteinCodec(**state)  # type: ignore[arg-type]

    def fit_generator(self, name: str, codec: ProteinCodec, weights: Array, options: object) -> Generator:
        if isinstance(options, ProteinHopfieldOptions):
            return HopfieldGenerator.of(ProteinEmbedding.fit(codec.stored, codec.match, options), weights, options)
        if np.count_nonzero(weights) < 2:
            remedy = "Select more, or pass a number for beta, as beta=20, to draw around it."
            raise InputError(f"the generator {name!r} compares at least two sequences, and one is selected. {remedy}")
        bandwidth = 1.0 if name == "gaussian" else None  # at 1, all sequences share one Gaussian of the components
        return CalibratedLatent(WeightedSequences.of(codec.stored, weights), bandwidth, codec.letters.prior)

    def parse_condition(self, codec: ProteinCodec, texts: Sequence[str]) -> dict[int, str]:
        """12=W: column 12 of the file's alignment, counted from 1, has a W; 12=- a gap."""
        values: dict[int, str] = {}
        for text in texts:
            column, _, letter = (part.strip() for part in text.partition("="))
            if not column.isdecimal() or len(letter) != 1:
                raise InputError(f"a condition must name a column and a residue, such as 12=W; got {text!r}.")
            if (earlier := values.setdefault(int(column), letter)).upper() != letter.upper():
                raise InputError(f"condition {text!r}: column {column} is conditioned on {earlier!r} already.")
        return values

    def prepare_for_density(
        self, codec: ProteinCodec, items: Array | Sequence[str]
    ) -> tuple[Array | Sequence[str], Array | None]:
        """Sequences as strings by name or in a list, or as codes."""
        if isinstance(items, Mapping):
            items = list(items.values())
        if isinstance(items, str) or not len(items):
            rule = "items must be sequences, as strings by name or in a list; got"
            raise InputError(f"{rule} {'one string' if isinstance(items, str) else 'none'}. Pass a list of strings.")
        return items, None

    def writer(self, codec: ProteinCodec, destination: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        writer = StockholmWriter if format.name == "stockholm" else FastaWriter
        return writer(destination, codec, settings)  # type: ignore[arg-type]  # no format is a folder

    def read_new(self, codec: ProteinCodec, path: Path) -> Array:
        """Sequences aligned to the stored ones, in the columns of their file or in the kept ones."""
        return codec.select_columns(str(path), read_alignment(Path(path), alphabet=codec.alphabet).codes)

    def check_condition(self, codec: ProteinCodec, options: object, observation: Mapping[int, int]) -> None:
        """InputError also for what the directions in which stored sequences differ cannot give."""
        super().check_condition(codec, options, observation)
        if not isinstance(options, ProteinHopfieldOptions):
            return
        for position, code in observation.items():
            column, residue = int(codec.columns[position]) + 1, str(codec.letters.symbols[code])
            where, instead = f"condition {condition_text(column, residue)}", "Choose another, or generator='latent'."
            if position in codec.insertions:
                raise InputError(f"{where}: the column is an insertion, which this generator leaves out. {instead}")
            if code not in codec.stored[:, position]:
                rule = f"no stored sequence has {residue} in this column, and this generator needs one"
                raise InputError(f"{where}: {rule}. {instead}")


@dataclass(frozen=True, eq=False)
class ProteinEmbedding(LinearEmbedding):
    """Between codes (n, L) and rows. Coordinates read one-hot channels with zeros for gaps: (n, 20 L)."""

    match: Array  # (L,) which columns are match columns; insertions are gaps
    published: bool = False  # whether to decode as the paper does: the largest channel, at norm one
    decode_temperature: float | None = None  # None decodes each position to its largest channel
    conditioned: tuple[tuple[int, int], ...] = ()  # codes by match column that every decoded sequence has

    @classmethod
    def fit(cls, codes: Array, match: Array, options: ProteinHopfieldOptions) -> ProteinEmbedding:
        """The embedding of the match columns (L,) of stored sequences (K, L)."""
        codes = codes[:, match]
        check_choice("gaps", options.gaps, GAPS)
        temperature = options.decode_temperature
        if temperature is not None:
            remedy = "Leave it out to decode each position to its most probable letter."
            check_positive("decode_temperature", temperature, remedy)
        as_zeros = options.gaps == "zeros"
        channels = one_hot(codes) if as_zeros else indicators(codes).reshape(len(codes), -1)
        fitted = Coordinates.fit(channels, variance=options.variance, whiten=options.whiten, norm=options.norm)
        if not as_zeros:  # coordinates of 20 channels per position: the gap's channel is one minus the others' sum
            if fitted.inward is None or fitted.outward is None:
                raise ValueError('gaps="symbol" needs principal components: pass variance as a number, such as 0.95.')
            mean = fitted.mean.reshape(-1, GAP + 1)[:, :GAP].ravel()
            by_channel = fitted.inward.reshape(-1, GAP + 1, fitted.d)
            inward = (by_channel[:, :GAP] - by_channel[:, GAP:]).reshape(-1, fitted.d)
            outward = fitted.outward.reshape(fitted.d, -1, GAP + 1)[..., :GAP].reshape(fitted.d, -1)
            fitted = replace(fitted, mean=mean, inward=inward, outward=outward)
        published = options.norm == "paper" and as_zeros and temperature is None
        return cls(fitted, codes.shape[1:], match, published, temperature)

    def arrays(self, coordinates: Array, source: Array, rng: np.random.Generator) -> Array:
        """Coordinates (n, d) as codes (n, L): the largest channel of each position or a draw, and the condition."""
        codes = np.empty((len(coordinates), *self.shape), dtype=np.uint8)
        if self.published:
            channels = self.coordinates.features(coordinates).reshape(*codes.shape, GAP)
            codes[:] = np.where(channels.max(-1) < PUBLISHED_GAP, GAP, channels.argmax(-1))
        else:
            for begin in range(0, len(codes), BLOCK):
                codes[begin : begin + BLOCK] = self._read_out(coordinates[begin : begin + BLOCK], rng)
        for position, code in self.conditioned:
            codes[:, position] = code
        rows = np.full((len(codes), len(self.match)), GAP, dtype=np.uint8)
        rows[:, self.match] = codes
        return rows

    def observe(self, observation: Mapping[int, int]) -> tuple[LinearObservation, Self]:  # type: ignore[override]
        """That positions have these codes: the channel of the residue is one, or the channels of a gap add up to zero.

        The other channels of the position are left to the mixture, in which they are then small: conditioning on all of
        them would cost a dozen directions per residue. Decoding sets the residue itself. `ProteinKind.check_condition`
        refuses insertions, and residues that no stored sequence has, whose channels are zero in the whole span.
        """
        equations = []
        observation = {int(self.match[:position].sum()): code for position, code in observation.items()}
        for position, code in observation.items():
            channels = [position * GAP + residue for residue in (range(GAP) if code == GAP else [code])]
            A, y = self.coordinates.observation(channels, [float(code != GAP)] * len(channels))
            equations.append((A.sum(0), y.sum()))
        observed = LinearObservation(np.array([a for a, _ in equations]), np.array([y for _, y in equations]))
        return observed, replace(self, conditioned=tuple(observation.items()))

    def _read_out(self, z: Array, rng: np.random.Generator) -> Array:
        """Coordinates (n, d) as codes (n, L): the largest of 21 channels at each position, or a draw."""
        offset, outward = self._readout
        channels = (z.astype(np.float32) @ outward + offset).reshape(len(z), GAP + 1, -1)
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
        """From coordinates to 21 channels, the last 1 minus the sum of the others: offset (1, 21 L), map (d, 21 L)."""
        mean, outward = self.coordinates.mean, self.coordinates.outward
        rows = np.vstack([mean, np.eye(len(mean)) if outward is None else outward])
        channels = rows.reshape(len(rows), -1, GAP)
        totals = np.eye(len(rows), 1)[..., None]  # of the 21 channels: 1 for the mean, 0 for directions
        channels = np.concatenate([channels, totals - channels.sum(-1, keepdims=True)], axis=-1)
        maps = channels.transpose(0, 2, 1).reshape(len(rows), -1).astype(np.float32)
        return maps[:1], maps[1:]


KIND = ProteinKind()
