"""New pictures from windows of stored ones: local attention heads, annealed noise, illumination and warps."""

from .local_heads import LocalHeads
from .patch_generator import ConditionedPixels, PatchGenerator

__all__ = ["ConditionedPixels", "LocalHeads", "PatchGenerator"]
