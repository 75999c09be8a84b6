"""Compares new sequences with the stored ones, writes them (FASTA and Stockholm), and shows them on a page."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ..._backend.html import Html, join, tag, text
from ...core.neighbors import spaced_indices
from .. import Batch, Comparison, Measure, Part, Settings, Values
from ..display import GalleryItems, card_heading, lay_out, stored_name
from .codec import ProteinCodec
from .generator.sequences import GAP as GAP
from .generator.sequences import nearest_identity
from .generator.sequences import one_hot as one_hot
from .reading import LETTERS as LETTERS
from .reading import MAX_EVALUE, build_profile, score

TINY = 1e-10  # ε of the published divergences
CONSERVED, MIN_CONSERVED = "conserved sites kept", 0.95
"""Name of a measure, and the share of stored sequences that agree in a conserved column."""
N_INFORMATION_POSITIONS = 20  # as published
MAX_PAIR_POSITIONS = 120  # evenly spaced beyond that: pairs cost the square
MAX_POSITIONS = 600  # that a page shows
BLOCK = 10  # residues that stay together when a line of a page wraps


def compare_sequences(codec: ProteinCodec, items: Array) -> Comparison:
    """New sequences (n, L) against the stored ones."""
    letters = codec.letters.symbols
    _, evalues = score(np.asarray(items), build_profile(codec.stored, codec.alphabet), len(items))
    members = float((evalues < MAX_EVALUE).mean())
    new, stored = np.asarray(items)[:, codec.match], codec.stored[:, codec.match]
    _, identity = nearest_identity(new, stored)
    diversity, stored_diversity = pairwise_diversity(new), pairwise_diversity(stored)
    by_position = float(position_divergences(stored, new).mean())
    kept, stored_kept = conserved_share(new, stored), conserved_share(stored, stored)
    above_note = "Share with a higher identity to a stored one than 99 % of the stored ones have to another."
    kept_note = "Share of residues kept in columns in which 95 % of the stored sequences agree."
    composition_note = "KL of amino acid frequencies; a model without any correlation reaches 0.00 too."
    information_note = "Over 20 positions; a model without any correlation reaches 0.93, so it shows little."
    pairs_note = "Connected pair frequencies; a model without correlation gives 0. Few samples lower it by their noise."
    measures = (
        Measure("identity to nearest", float(identity.mean()), None, "Equal residues with the nearest stored one."),
        Measure("identity above stored pairs", above_stored_pairs(identity, stored), 0.0, above_note),
        Measure("pairwise diversity", diversity, stored_diversity, "Share of positions in which two sequences differ."),
        Measure(CONSERVED, kept, stored_kept, kept_note),
        Measure("composition divergence", composition_divergence(stored, new), 0.0, composition_note),
        Measure("position divergence", by_position, 0.0, "Mean KL of the frequencies at each position."),
        Measure("mutual information r", mutual_information_r(stored, new), 1.0, information_note),
        Measure("pair correlation r", connected_r(stored, new), 1.0, pairs_note),
        Measure("profile pass", members, 1.0, "Share at E < 0.01 of a profile HMM of the stored ones."),
    )
    old_shares, new_shares, parts = residue_shares(stored), residue_shares(new), []
    for i, (place, p, q) in enumerate(zip(codec.places, old_shares, new_shares, strict=True)):
        distance, values = float(np.abs(p - q).sum() / 2), partial(_make_values, letters, stored[:, i], new[:, i])
        parts.append(Part(place, _format_commonest(letters, p), _format_commonest(letters, q), distance, values))
    return Comparison(measures, tuple(parts))


def _make_values(letters: Array, stored: Array, new: Array) -> Values:
    return Values(letters[stored[stored < GAP]], letters[new[new < GAP]])


def conserved_share(new: Array, stored: Array) -> float:
    """Share of new residues in conserved columns that are the conserved ones; NaN without such residues."""
    counts = _counts(stored)
    columns = np.flatnonzero(counts[:, :GAP].max(1) >= MIN_CONSERVED * len(stored))
    seen, wanted = new[:, columns], counts[columns, :GAP].argmax(1)
    residues = seen != GAP
    return float((seen == wanted)[residues].mean()) if residues.any() else float("nan")


def above_stored_pairs(identity: Array, stored: Array) -> float:
    """Share of identities (n,) above the 99 % quantile of identities of stored sequences with their nearest one."""
    _, identities = nearest_identity(stored)
    different = identities[identities < 1] if (identities < 1).any() else np.array([0.99])
    return float((identity > np.quantile(different, 0.99)).mean())


def pairwise_diversity(codes: Array) -> float:
    """Mean share of positions in which two of the sequences differ, over all pairs; a gap counts as a letter."""
    n, counts = len(codes), _counts(codes)
    if n < 2:
        return float("nan")
    return float(1 - ((counts * (counts - 1)).sum(1) / (n * (n - 1))).mean())


def composition_divergence(stored: Array, new: Array) -> float:
    """KL divergence of the 20 amino acid frequencies, stored from new."""
    p, q = (_counts(codes)[:, :GAP].sum(0) for codes in (stored, new))
    return float(_divergence(p / max(p.sum(), 1), q / max(q.sum(), 1), TINY))


def position_divergences(stored: Array, new: Array, tiny: float = TINY) -> Array:
    """KL divergence of the frequencies at each position: (L,).

    It is mostly a count of the letters that are stored but not generated: each costs p log(p/tiny).
    """
    return _divergence(residue_shares(stored), residue_shares(new), tiny)


def mutual_information_r(stored: Array, new: Array) -> float:
    """Pearson correlation of the mutual informations between 20 evenly spaced positions."""
    chosen = spaced_indices(stored.shape[1], N_INFORMATION_POSITIONS)
    return _correlation(*(_mutual_informations(codes[:, chosen]) for codes in (stored, new)))


def connected_r(stored: Array, new: Array) -> float:
    """Pearson correlation of the connected pair frequencies f_ij(a, b) − f_i(a) f_j(b) over all pairs of positions."""
    chosen = spaced_indices(stored.shape[1], MAX_PAIR_POSITIONS)
    different = np.kron(np.triu(np.ones((len(chosen),) * 2, dtype=bool), 1), np.ones((GAP, GAP), dtype=bool))
    return _correlation(*(np.cov(one_hot(x[:, chosen]), rowvar=False, bias=True)[different] for x in (stored, new)))


def _counts(codes: Array) -> Array:
    """Counts of codes at each position: (L, 21)."""
    return np.array([np.bincount(column, minlength=GAP + 1) for column in codes.T], dtype=np.float64)


def residue_shares(codes: Array) -> Array:
    """Amino acid frequencies at each position, without gaps: (L, 20)."""
    counts = _counts(codes)[:, :GAP]
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)


def _format_commonest(letters: Array, frequencies: Array) -> str:
    top = np.argsort(-frequencies, kind="stable")[:3]
    return " ".join(f"{letters[a]} {frequencies[a]:.0%}" for a in top if frequencies[a] > 0)


def _divergence(p: Array, q: Array, tiny: float) -> Array:
    return np.where(p > 0, p * np.log((p + tiny) / (q + tiny)), 0.0).sum(-1)


def _mutual_informations(codes: Array) -> Array:
    """Of every pair of positions (n, P), over the sequences in which neither is a gap: (P (P − 1)/2,)."""
    values = []
    for first, second in combinations(codes.T.astype(int), 2):
        is_pair = (first != GAP) & (second != GAP)
        joint = np.bincount(first[is_pair] * GAP + second[is_pair], minlength=GAP**2).reshape(GAP, GAP)
        joint = joint / max(joint.sum(), 1)
        outer = joint.sum(1)[:, None] * joint.sum(0)[None]
        seen = joint > 0
        values.append(np.sum(joint[seen] * np.log(joint[seen] / outer[seen])))
    return np.array(values)


def _correlation(first: Array, second: Array) -> float:
    return float(np.corrcoef(first, second)[0, 1]) if first.std() > 0 and second.std() > 0 else 0.0


class FastaWriter:
    """Writes a record per sequence, whose header has the settings and, unless confidential, the nearest stored id."""

    record = ">{name} {header}\n{row}\n"

    def __init__(self, stream: BinaryIO, codec: ProteinCodec, settings: Settings) -> None:
        self.stream, self.codec = stream, codec
        how = f"generator={settings.generator}" if settings.beta is None else f"beta={settings.beta:.6g}"
        self.settings_text = f"{how} seed={settings.seed} version={settings.version}"

    def write(self, batch: Batch) -> None:
        headers = [self.settings_text] * len(batch.items)
        if batch.nearest is not None and self.codec.names_nearest:
            headers = [f"{self.settings_text} nearest={self.codec.ids[k]}" for k in batch.nearest.tolist()]
        for key, values in batch.extra.items():
            form = {"identity": ".3f", "evalue": ".3g"}.get(key, ".1f")
            headers = [f"{line} {key}={value:{form}}" for line, value in zip(headers, values.tolist(), strict=True)]
        pairs = zip(headers, self.codec.to_user(batch.items), strict=True)
        rows = enumerate(pairs, batch.first + 1)
        records = [self.record.format(name=f"new-{i}", header=header, row=row) for i, (header, row) in rows]
        self.stream.write("".join(records).encode("utf-8"))

    def close(self) -> None:
        """Nothing comes after the last record."""


class StockholmWriter(FastaWriter):
    """Writes one block with a line per sequence, as in Pfam, so that records can be written as they are drawn."""

    record = "#=GS {name} DE {header}\n{name:<16} {row}\n"

    def __init__(self, stream: BinaryIO, codec: ProteinCodec, settings: Settings) -> None:
        super().__init__(stream, codec, settings)
        comments = f"#=GF CC   {self.settings_text}\n#=GF CC   source={settings.source}"
        stream.write(f"# STOCKHOLM 1.0\n{comments}\n".encode())

    def close(self) -> None:
        self.stream.write(b"//\n")


def sequence_gallery(codec: ProteinCodec, shown: GalleryItems) -> Html:
    """Aligned residues in blocks that wrap at the width of the page; residues that differ are marked."""
    length, cards = min(len(codec.columns), MAX_POSITIONS), []
    for i, k in enumerate(shown.nearest.tolist()):
        new, old = codec.letters.symbols[shown.items[i]], codec.letters.symbols[codec.stored[k]]
        marked = [text(a) if a == b else tag("mark", a) for a, b in zip(new, old, strict=True)]
        blocks = []
        for at in range(0, length, BLOCK):
            part = slice(at, at + BLOCK)
            spans = ("at", f"{codec.columns[at] + 1}"), ("new", join(marked[part])), ("old", "".join(old[part]))
            blocks.append(tag("div", *(tag("span", content, class_=which) for which, content in spans)))
        heading = card_heading(shown, i, stored_name(codec.ids, codec.labels, k))
        cards.append(tag("div", heading, tag("div", *blocks, class_="residues"), class_="item"))
    about = "New above, nearest stored below, in columns of the alignment; residues that differ are marked."
    if hidden := len(codec.columns) - length:
        about += f" The first {length:,} positions are shown, {hidden:,} are not."
    return join([tag("p", about, class_="note"), lay_out(cards, "items")])
