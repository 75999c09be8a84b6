"""Protein families: aligned sequences, read from alignment files or given as texts."""

from .codec import ProteinCodec, ProteinOptions
from .kind import KIND, ProteinHopfieldOptions

__all__ = ["KIND", "ProteinCodec", "ProteinHopfieldOptions", "ProteinOptions"]
