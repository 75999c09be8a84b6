"""Evaluation: held-out metrics, split-half validation, membership inference, and an inspection of the stored items."""

import warnings

from ..kinds.comparison import nearest_neighbor_accuracy
from .split_half import as_evaluated, held_out_metrics, split_half_validation, splits

__all__ = ["as_evaluated", "held_out_metrics", "nearest_neighbor_accuracy", "split_half_validation", "splits"]


def __getattr__(name: str) -> object:
    if name != "nearest_neighbour_accuracy":  # its spelling until version 0.2
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{name} is now spelled nearest_neighbor_accuracy.", DeprecationWarning, stacklevel=2)
    return nearest_neighbor_accuracy
