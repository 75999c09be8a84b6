"""Protein families: items to rows of a bank, and back."""

from .codec import ProteinCodec

__all__ = ["ProteinCodec"]
