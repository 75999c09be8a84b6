"""Returns and price histories: files to windows of log-returns, and scenarios to files."""

from .codec import ReturnsCodec
from .kind import KIND, ReturnsOptions, WindowOptions

__all__ = ["KIND", "ReturnsCodec", "ReturnsOptions", "WindowOptions"]
