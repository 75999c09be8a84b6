"""Windows of days: p_beta over them, and paths of several windows."""

from .blocks import Blocks
from .generator import WindowEmbedding, WindowGenerator
from .paths import PathGenerator

__all__ = ["Blocks", "PathGenerator", "WindowEmbedding", "WindowGenerator"]
