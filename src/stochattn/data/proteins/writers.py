"""New sequences in files: FASTA and Stockholm, in the columns of the alignment that was read."""

from __future__ import annotations

from typing import BinaryIO

from ..._backend.arrays import Array
from ..legacy import Batch, Settings
from .sequences import texts


class FastaWriter:
    """A record for each sequence; its header says how it was made and what it is nearest to."""

    def __init__(self, place: BinaryIO, settings: Settings, ids: tuple[str, ...], columns: Array, width: int) -> None:
        self.place, self.ids, self.columns, self.width = place, ids, columns, width
        self.settings = settings
        how = "sampler=native" if settings.sampler == "native" else f"beta={settings.beta:.6g}"
        self.tail = f"{how} seed={settings.seed} version={settings.version}"

    def write(self, batch: Batch) -> None:
        """Write these."""
        self.place.write(
            "".join(
                f">{name} {about}\n{row}\n"
                for name, about, row in zip(self.names(batch), self.headers(batch), self.rows(batch.items), strict=True)
            ).encode("utf-8")
        )

    def close(self) -> None:
        """Nothing comes after the last record."""

    def names(self, batch: Batch) -> list[str]:
        """new-1, new-2, …"""
        return [f"new-{batch.first + i + 1}" for i in range(len(batch.items))]

    def headers(self, batch: Batch) -> list[str]:
        """What each header says after the name."""
        near = [self.ids[k] for k in batch.nearest.tolist()]
        lines = [f"{self.tail} nearest={name}" for name in near]
        for key, values in batch.extra.items():
            form = ".3f" if key == "identity" else ".3g" if key == "evalue" else ".1f"
            lines = [f"{line} {key}={value:{form}}" for line, value in zip(lines, values.tolist(), strict=True)]
        return lines

    def rows(self, codes: Array) -> list[str]:
        """Sequences in the columns of the file that was read: dropped columns are gaps."""
        return texts(codes, self.columns, self.width)


class StockholmWriter(FastaWriter):
    """One block of one line a sequence, which Pfam uses: it can be written as it comes."""

    def __init__(self, place: BinaryIO, settings: Settings, ids: tuple[str, ...], columns: Array, width: int) -> None:
        super().__init__(place, settings, ids, columns, width)
        place.write(f"# STOCKHOLM 1.0\n#=GF CC   {self.tail}\n#=GF CC   source={settings.source}\n".encode())

    def write(self, batch: Batch) -> None:
        """Write these."""
        lines = []
        for name, about, row in zip(self.names(batch), self.headers(batch), self.rows(batch.items), strict=True):
            lines.append(f"#=GS {name} DE {about}\n{name:<16} {row}\n")
        self.place.write("".join(lines).encode("utf-8"))

    def close(self) -> None:
        """The mark that ends an alignment."""
        self.place.write(b"//\n")
