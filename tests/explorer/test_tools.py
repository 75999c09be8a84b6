"""Save and the verdict of a page: errors, double clicks and the end of a page."""

import asyncio
from typing import ClassVar

import pytest

from stochattn.explorer import tools as tools_view
from stochattn.explorer.state import Explorer
from stochattn.explorer.tools import Cancelled, Tools


class Recorded:
    """A verdict that takes as long as nobody cancels it."""

    made: ClassVar[list] = []

    def __init__(self, synth, seed):
        self.cancelled = False
        self.made.append(self)

    def result(self):
        import time

        end = time.monotonic() + 5
        while not self.cancelled and time.monotonic() < end:
            time.sleep(0.01)
        raise Cancelled

    def cancel(self):
        self.cancelled = True


@pytest.fixture
def drawn(explorers):
    return explorers["table"].draw(explorers["table"].first_settings)


@pytest.fixture
def recorded(monkeypatch):
    monkeypatch.setattr(Recorded, "made", [])
    monkeypatch.setattr(tools_view, "VerdictProcess", Recorded)
    return Recorded.made


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nothing happened in ten seconds")


def run(explorer, drawn, work):
    """Tools of a page after some work on them in an event loop."""

    async def inside():
        tools = Tools(explorer)
        tools._drawn = drawn
        await work(tools)
        return tools

    return asyncio.run(inside())


def test_an_error_of_any_kind_in_a_verdict_is_shown_and_the_button_is_reset(explorers, drawn, monkeypatch):
    def fail(synth, seed):
        import pickle

        raise pickle.PicklingError("no pickle\n of a lambda")

    monkeypatch.setattr(tools_view, "VerdictProcess", fail)

    async def work(tools):
        tools._on_message({"id": "verdict"})
        await until(lambda: not tools._is_judging)

    tools = run(explorers["table"], drawn, work)
    assert "no pickle of a lambda" in tools.verdict.object
    assert tools.form.state["verdict"]["label"] != "Cancel"


def test_an_error_of_any_kind_in_save_is_shown_and_the_button_is_enabled(explorers, drawn, monkeypatch):
    def fail(explorer, settings, out):
        raise RuntimeError("the disk\nis gone")

    monkeypatch.setattr(tools_view, "save", fail)

    async def work(tools):
        await tools._save(drawn)

    state = run(explorers["table"], drawn, work).form.state["save"]
    assert state["error"] == "the disk is gone"
    assert not state.get("disabled")


def test_a_double_click_starts_no_second_verdict(explorers, drawn, recorded):
    async def work(tools):
        tools._on_message({"id": "verdict"})
        tools._on_message({"id": "verdict"})
        await until(lambda: "Cancelled." in tools.verdict.object)

    tools = run(explorers["table"], drawn, work)
    assert len(recorded) <= 1
    assert "Cancelled." in tools.verdict.object


def test_a_page_that_closes_while_its_verdict_starts_ends_it(explorers, drawn, recorded, monkeypatch):
    explorer = Explorer(explorers["table"].base)

    async def work(tools):
        class Closing(Recorded):
            def __init__(self, synth, seed):
                super().__init__(synth, seed)
                tools.close()

        monkeypatch.setattr(tools_view, "VerdictProcess", Closing)
        tools._on_message({"id": "verdict"})
        await until(lambda: not tools._is_judging)

    run(explorer, drawn, work)
    assert [one.cancelled for one in recorded] == [True]
