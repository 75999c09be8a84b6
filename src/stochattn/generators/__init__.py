"""Generators: each samples arrays like those it was fitted on, and knows nothing of files."""

from .base import Description, Generated, Generator
from .coordinates import Coordinates
from .hopfield import Hopfield, LinearEmbedding, LinearObservation

__all__ = ["Coordinates", "Description", "Generated", "Generator", "Hopfield", "LinearEmbedding", "LinearObservation"]
