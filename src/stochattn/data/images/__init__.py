"""Pictures as a kind of data."""

from .kind import ImageKind

__all__ = ["KIND", "ImageKind"]

KIND = ImageKind()
