"""What a file of signals holds, before it is checked."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from ..._backend.arrays import Array


@dataclass(frozen=True, eq=False)
class Found:
    """Signals (n, C, T) as read; `flat` where the file has no channels, the others as in `SignalCodec`."""

    signals: Array
    ids: tuple[str, ...]
    channels: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    _: KW_ONLY
    flat: bool
    step: float | None = None
    rate: int | None = None
    bits: int | None = None
    columns: tuple[str, ...] = ()
    label_column: str | None = None
    id_column: str | None = None
