"""Which stored items a selection names."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .._backend.arrays import Array
from ..core.conditioning import chosen
from .base import Codec
from .kind import AnyKind
from .options import InputError, listed


class _Weighted(Protocol):
    """What a selection asks of a Synthesizer, which stands above this package."""

    @property
    def kind(self) -> AnyKind: ...
    @property
    def codec(self) -> Codec: ...
    @property
    def weights(self) -> Array: ...


def selected(synth: _Weighted, selection: Any, verb: str) -> Array:
    """Stored items as booleans (K,), of which at least one counts; `verb` is for the message if none does."""
    names, labels = np.asarray(selection), synth.codec.labels
    if names.dtype.kind != "U":
        found = chosen(names, synth.codec.K, "selection", "stored items")
    elif labels is None:
        raise InputError("selection names a class, and the stored items have none. Pass booleans or indices.")
    else:
        known, found = sorted(set(labels)), np.isin(np.array(labels), names)
        missing = np.setdiff1d(names, known).tolist()
        if missing:
            raise InputError(f"selection: there is no class {missing[0]!r}; there are {listed(known, 6)}.")
    if not (synth.weights[found] > 0).any():
        rule = f"selection {verb} none of the {synth.codec.K} stored {synth.kind.items} that count"
        raise InputError(f"{rule}. Select some of them.")
    return np.asarray(found)
