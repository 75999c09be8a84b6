"""New items as one Zarr array, whose chunks are written by one process, or by the workers of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .._backend.zarr_files import ZarrRows, create_zarr
from .base import Batch, Codec, Settings
from .kind import AnyKind

if TYPE_CHECKING:
    from .tally import Sampled

MAX_CHUNK_BYTES = 2**22


def create_array(synth: Sampled, n: int, seed: int, settings: Settings, folder: Path, blocks_per_part: int) -> None:
    """Describe the array of n new items in an empty folder; `ChunkWriter` fills it.

    A chunk holds whole blocks, and a part, of this many blocks, whole chunks: no two workers write to one chunk. The
    first item tells the shape.
    """
    first = next(synth.batches(1, seed))
    row = synth.kind.as_array(synth.codec, first.items, 0)  # equivalent: its shape and dtype do not depend on the place
    blocks, block_bytes = 1, synth.block_size * row.nbytes
    while blocks_per_part % (2 * blocks) == 0 and 2 * blocks * block_bytes <= MAX_CHUNK_BYTES:
        blocks *= 2
    attributes = {**synth.kind.array_attributes(synth.codec), "stochattn": settings._asdict()}
    create_zarr(folder, (n, *row.shape[1:]), blocks * synth.block_size, row.dtype, attributes)


class ChunkWriter:
    """Writes new items to an array that `create_array` described."""

    def __init__(self, kind: AnyKind, codec: Codec, folder: Path) -> None:
        self._kind, self._codec, self._rows = kind, codec, ZarrRows(folder)

    def write(self, batch: Batch) -> None:
        """Write these."""
        self._rows.write(batch.first, self._kind.as_array(self._codec, batch.items, batch.first))

    def close(self) -> None:
        """Write the items that do not fill a chunk."""
        self._rows.close()
