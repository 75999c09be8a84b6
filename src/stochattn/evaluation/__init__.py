"""Evaluation: held-out metrics, split-half validation, membership inference, and an inspection of the stored items."""

from ..kinds.comparison import nearest_neighbour_accuracy
from .split_half import as_evaluated, held_out_metrics, split_half_validation, splits

__all__ = ["as_evaluated", "held_out_metrics", "nearest_neighbour_accuracy", "split_half_validation", "splits"]
