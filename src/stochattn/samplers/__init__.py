"""The samplers: exact draws, ULA (Algorithm 1), MALA (Algorithm 2), underdamped and sequential (Algorithm 3)."""

from .exact import draw
from .loop import run
from .plan import SAMPLERS, register_sampler
from .sequential import Paths, sequential

__all__ = ["SAMPLERS", "Paths", "draw", "register_sampler", "run", "sequential"]
