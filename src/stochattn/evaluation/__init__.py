"""Evaluation: held-out metrics, split-half validation, membership inference, and an inspection of the stored items."""

from .heldout import held_out_metrics, membership_auc, nearest_neighbour_accuracy, splits, train_proximity
from .inspection import inspect
from .split_half import SplitHalfResult, as_evaluated, split_half_validation

__all__ = [
    "SplitHalfResult",
    "as_evaluated",
    "held_out_metrics",
    "inspect",
    "membership_auc",
    "nearest_neighbour_accuracy",
    "split_half_validation",
    "splits",
    "train_proximity",
]
