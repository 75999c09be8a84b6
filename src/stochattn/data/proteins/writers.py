"""New sequences in files (FASTA and Stockholm, in the columns of the alignment that was read), and on a page."""

from __future__ import annotations

from typing import BinaryIO

from ..._backend.html import Html, joined, tag, text
from ..base import Batch, Settings
from ..gallery import GalleryItems, card_heading, laid_out, stored_name
from .alignment import SYMBOLS
from .codec import ProteinCodec

MAX_POSITIONS = 600
BLOCK = 10  # residues that stay together when a line of a page wraps


class FastaWriter:
    """One record per sequence; its header says how it was generated and which stored sequence it is nearest to."""

    record = ">{name} {header}\n{row}\n"

    def __init__(self, place: BinaryIO, codec: ProteinCodec, settings: Settings) -> None:
        self.place, self.codec = place, codec
        how = f"generator={settings.generator}" if settings.beta is None else f"beta={settings.beta:.6g}"
        self.settings_text = f"{how} seed={settings.seed} version={settings.version}"

    def write(self, batch: Batch) -> None:
        """Write these, called new-1, new-2, …"""
        headers = [self.settings_text] * len(batch.items)
        if batch.nearest is not None:
            headers = [f"{self.settings_text} nearest={self.codec.ids[k]}" for k in batch.nearest.tolist()]
        for key, values in batch.extra.items():
            form = {"identity": ".3f", "evalue": ".3g"}.get(key, ".1f")
            headers = [f"{line} {key}={value:{form}}" for line, value in zip(headers, values.tolist(), strict=True)]
        rows = enumerate(zip(headers, self.codec.to_user(batch.items), strict=True), batch.first + 1)
        records = [self.record.format(name=f"new-{i}", header=header, row=row) for i, (header, row) in rows]
        self.place.write("".join(records).encode("utf-8"))

    def close(self) -> None:
        """Nothing comes after the last record."""


class StockholmWriter(FastaWriter):
    """One block with one line per sequence, as in Pfam: records can be written as they come."""

    record = "#=GS {name} DE {header}\n{name:<16} {row}\n"

    def __init__(self, place: BinaryIO, codec: ProteinCodec, settings: Settings) -> None:
        super().__init__(place, codec, settings)
        comments = f"#=GF CC   {self.settings_text}\n#=GF CC   source={settings.source}\n"
        place.write(f"# STOCKHOLM 1.0\n{comments}".encode())

    def close(self) -> None:
        """Write the mark that ends an alignment."""
        self.place.write(b"//\n")


def sequence_gallery(codec: ProteinCodec, shown: GalleryItems) -> Html:
    """Aligned residues in blocks that wrap at the width of the page; residues that differ are marked."""
    length = min(codec.length, MAX_POSITIONS)
    cards = []
    for i, k in enumerate(shown.nearest.tolist()):
        new, old = SYMBOLS[shown.items[i]], SYMBOLS[codec.stored[k]]
        marked = [text(a) if a == b else tag("mark", a) for a, b in zip(new, old, strict=True)]
        blocks = [
            tag(
                "div",
                tag("span", f"{codec.columns[at] + 1}", class_="at"),
                tag("span", joined(marked[at : at + BLOCK]), class_="new"),
                tag("span", "".join(old[at : at + BLOCK]), class_="old"),
            )
            for at in range(0, length, BLOCK)
        ]
        heading = card_heading(shown, i, stored_name(codec.ids, codec.labels, k))
        cards.append(tag("div", heading, tag("div", *blocks, class_="residues"), class_="item"))
    about = "New above, nearest stored below, in columns of the alignment; residues that differ are marked."
    hidden = codec.length - length
    more = f" The first {length:,} positions are shown, {hidden:,} are not." if hidden else ""
    return joined([tag("p", about + more, class_="note"), laid_out(cards, "items")])
