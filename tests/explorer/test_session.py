"""The loop that keeps a page up to date, without a browser."""

import asyncio
from dataclasses import replace

import pytest

from stochattn.explorer.session import Session
from stochattn.explorer.sliders import Slider
from stochattn.explorer.state import Explorer, Superseded


def test_a_closed_page_prepares_no_further_positions(explorers, monkeypatch):
    session, drawn = Session(Explorer(explorers["table"].base)), []
    session.slider = Slider("beta", 1.0, 100.0, "high", True, n_stops=8)

    def draw(self, settings, progress=None):
        drawn.append(settings.knob)
        if len(drawn) == 2:
            session.close()
            progress(1, 2)
            raise AssertionError("the draw went on after the page was closed")

    monkeypatch.setattr(Explorer, "draw", draw)
    asyncio.run(session._prepare())
    assert drawn == session.slider.stops[:2]


def test_a_closed_page_stops_the_draw_that_is_under_way(explorers):
    explorer = Explorer(explorers["table"].base)
    session = Session(explorer)
    session._wanted = settings = replace(explorer.first_settings, n=3)
    session.close()
    with pytest.raises(Superseded):
        session._draw(settings)
    assert not explorer.is_drawn(settings)
