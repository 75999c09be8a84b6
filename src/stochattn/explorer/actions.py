"""What a user does on the page, as changes of its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import SystemRandom

from .._backend.checks import positive
from .._backend.state import Plain
from ..data.options import InputError
from .fields import CONDITION, GENERATOR, KNOB, NEW_SEED, SEED, STORED, TYPED, Message, N, Page
from .settings import Settings, with_same_id
from .sliders import Slider
from .state import NOVELTY, Explorer

MAX_NEW_SEED = 10_000
MAX_RATIO = 64.0
"""How often a stored item counts at most, in place of once; and one over the least."""


def changed(page: Page, explorer: Explorer, slider: Slider | None, message: Message) -> Page:
    """The page after a change of one of its fields."""
    name = str(message["id"])
    if name == STORED:
        return page._replace(settings=_weighted(page.settings, explorer.base.codec.ids, message))
    if name != TYPED and not name.startswith(CONDITION):
        return page._replace(settings=_changed_settings(page.settings, explorer, slider, message))
    if name == TYPED:
        value = message.get("value")
        page = page._replace(typed=tuple(map(str, value)) if isinstance(value, list | tuple) else ())
    else:
        choice = message.get("choice")
        page = page._replace(
            choices={**page.choices, name.removeprefix(CONDITION): choice if isinstance(choice, dict) else {}}
        )
    texts = [text for one in explorer.controls for text in one.texts(page.choices.get(one.name, {}))]
    return page._replace(settings=replace(page.settings, conditions=(*texts, *page.typed)))


def _weighted(settings: Settings, ids: Sequence[str], message: Message) -> Settings:
    """The settings after a click on a stored item: left out or back, or counting twice or half as often."""
    action, index = message.get("action"), message.get("index")
    if action == "reset":
        return replace(settings, ratios=())
    if not isinstance(index, int) or not 0 <= index < len(ids):
        raise InputError(f"there is no stored item with the number {index!r}.")
    ratio = dict(settings.ratios).get(index, 1.0)
    ratios = {"toggle": 0.0 if ratio else 1.0, "more": min(2 * (ratio or 0.5), MAX_RATIO), "less": ratio / 2}
    if ratios["less"] < 1 / MAX_RATIO:
        ratios["less"] = 0.0
    if action not in ratios:
        raise InputError(f"action must be reset, {', '.join(ratios)}; got {action!r}.")
    return settings.with_ratio(with_same_id(ids, index), ratios[str(action)])


def _changed_settings(settings: Settings, explorer: Explorer, slider: Slider | None, message: Message) -> Settings:
    """The settings after a change of one of the fields of the first form."""
    name, value = message["id"], message.get("value")
    if name == GENERATOR:
        if value not in explorer.generators:
            raise InputError(f"generator must be one of {', '.join(explorer.generators)}; got {value!r}.")
        return replace(settings, generator=str(value), knob=None, novelty=None)
    if name == KNOB:
        if "mark" in message:
            return replace(settings, knob=str(message["mark"]), novelty=None)
        if slider is None:
            return settings
        return replace(settings, knob=slider.value(_number("position", message.get("position"))), novelty=None)
    if name == NOVELTY:
        if value is None:
            return replace(settings, novelty=None)
        wanted = positive(NOVELTY, _number(NOVELTY, value), "0 is exact recall, which no finite beta gives.")
        return replace(settings, knob=None, novelty=wanted)
    if name == N:
        return replace(settings, n=_whole("n", value))
    if name == SEED:
        return replace(settings, seed=_whole("seed", value))
    if name == NEW_SEED:
        return replace(settings, seed=SystemRandom().randrange(MAX_NEW_SEED))
    raise InputError(f"there is no control {name!r}.")


def _number(name: str, value: Plain) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name} must be a number; got {value!r}.")
    return float(value)


def _whole(name: str, value: Plain) -> int:
    number = _number(name, value)
    if number != int(number):
        raise InputError(f"{name} must be a whole number; got {value!r}.")
    return int(number)
