"""Returns and price histories: items to rows of a bank, and back."""

from .codec import ReturnsCodec

__all__ = ["ReturnsCodec"]
