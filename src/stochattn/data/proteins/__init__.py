"""Protein families: aligned sequences, read from alignment files or given as texts."""

from .codec import ProteinCodec, ProteinOptions
from .embedding import ProteinHopfieldOptions
from .kind import KIND

__all__ = ["KIND", "ProteinCodec", "ProteinHopfieldOptions", "ProteinOptions"]
