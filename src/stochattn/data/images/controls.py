"""The control of a page that keeps a rectangle of a stored picture."""

from __future__ import annotations

from ..._backend.html import png
from ..controls import Control, RectangleControl
from .codec import ImageCodec
from .output import picture_png
from .showing import ShownLevels


def picture_controls(codec: ImageCodec) -> tuple[Control, ...]:
    """A rectangle, drawn on a stored picture, that new pictures have in common with it."""
    (height, width), levels = codec.shape[:2], ShownLevels.of(codec.stored)

    def shown(k: int) -> str:
        return png(picture_png(levels.stretched(codec.stored[k])))

    return (RectangleControl("rectangle", "Rectangle to keep", height, width, codec.ids, shown),)
