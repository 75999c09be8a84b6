"""Tables: items to rows of a bank, and back."""

from .codec import TableCodec

__all__ = ["TableCodec"]
