"""The samplers: exact draws, ULA (Algorithm 1), MALA (Algorithm 2) and the sequential sampler (Algorithm 3)."""

from .exact import draw
from .runner import SAMPLERS, run
from .sequential import Paths, sequential

__all__ = ["SAMPLERS", "Paths", "draw", "run", "sequential"]
