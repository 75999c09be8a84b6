"""What a user does on the page, as changes of its settings."""

from __future__ import annotations

from dataclasses import replace
from random import SystemRandom

from .._backend.checks import positive
from .._backend.state import Plain
from ..data.options import InputError
from .fields import GENERATOR, KNOB, NEW_SEED, SEED, Message, N
from .settings import Settings
from .sliders import Slider
from .state import NOVELTY

MAX_NEW_SEED = 10_000


def changed(settings: Settings, slider: Slider | None, message: Message) -> Settings:
    """The settings after a change of one of the fields of the first form."""
    name, value = message["id"], message.get("value")
    if name == GENERATOR:
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
