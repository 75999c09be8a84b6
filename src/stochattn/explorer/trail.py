"""Which novelties the galleries of a page had, by the value of the generator's knob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .settings import Settings
from .state import Drawn


class Trail:
    """Mean novelties by value of the knob, of galleries that differ in nothing else but their seed and number."""

    def __init__(self) -> None:
        self._same: Settings | None = None
        self._points: dict[float, float] = {}

    def with_gallery(self, drawn: Drawn, value: float | None) -> Mapping[float, float]:
        """The novelties so far and that of this gallery, whose knob has this value; None is not known."""
        same = replace(drawn.settings, knob=None, novelty=None, n=1, seed=0)
        if same != self._same:
            self._same, self._points = same, {}
        if value is not None:
            self._points[value] = float(drawn.novelty.mean())
        return dict(self._points)
