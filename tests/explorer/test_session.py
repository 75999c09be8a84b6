"""The loop that keeps a page up to date, without a browser."""

import asyncio
from dataclasses import replace

import pytest

from stochattn.explorer.fields import Slider
from stochattn.explorer.session import Session
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
    settings = replace(explorer.first_settings, n=3)
    session.page = session.page._replace(settings=settings)
    session.close()
    with pytest.raises(Superseded):
        session._draw(settings)
    assert not explorer.has_items(settings)


def test_a_stored_item_stays_selected_only_if_it_was_changed(explorers):
    explorer = Explorer(explorers["table"].base)
    session = Session(explorer)

    async def use():
        session.drawn = explorer.draw(replace(explorer.first_settings, n=3))
        session.plots._drawn = session.drawn
        for cause, stays in (("stored", True), ("new-seed", False)):
            session.gallery.selected = 1
            nearest = session._stored
            assert nearest == session.drawn.nearest[1]
            assert session.plots.selected.state["selected"]["name"] == explorer.names[nearest]
            session._cause = cause
            session._push_gallery()
            assert session.gallery.selected == -1
            assert session._stored == (nearest if stays else -1)
            assert session.plots.map.stored.selected.indices == ([nearest] if stays else [])
        session.plots.map.select(-1, -1)
        session._stored, session._cause = 0, "stored"
        session._push_gallery()
        assert session.plots.map.stored.selected.indices == [0]

    asyncio.run(use())


def test_the_control_beside_the_map_changes_the_selected_item(explorers):
    session = Session(Explorer(explorers["table"].base))

    async def use():
        session._on_map(-1, 2)
        session._on_weigh({"id": "selected", "action": "toggle"})
        assert session.page.settings.ratios == ((2, 0.0),)
        assert session.plots.selected.state["selected"]["ratio"] == 0.0
        session._on_weigh({"id": "selected", "action": "other"})
        session.close()

    asyncio.run(use())
    assert "action must be reset" in session.plots.selected.state["selected"]["error"]
