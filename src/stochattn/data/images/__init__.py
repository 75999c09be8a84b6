"""Pictures: items to rows of a bank, and back."""

from .codec import ImageCodec

__all__ = ["ImageCodec"]
