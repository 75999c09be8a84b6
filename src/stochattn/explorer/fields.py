"""The fields of the forms and their present state as plain values, and changes of the page by a user.

`Slider` maps positions on the page, from recall to generation, to values of the generator's knob.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import SystemRandom
from typing import NamedTuple

import numpy as np

from .._backend.arrays import to_numpy
from .._backend.checks import check_choice, check_count, check_non_negative, check_positive
from .._backend.html import number
from .._backend.state import Plain
from ..core.neighbors import neighbor_distances
from ..kinds.display import Choice, Control
from ..kinds.hopfield import HopfieldGenerator
from ..kinds.options import InputError, Knob
from .state import MAX_SHOWN, NOVELTY, Drawn, Explorer, PageSettings

STEPS = 200
DIGITS = 4  # significant digits of a value, so that a command that repeats it stays short
MAX_PROBES = 256  # memories whose neighbors set the scale of beta
SHARP, DIFFUSE = 30.0, 0.5
"""The ends of the slider. The sharp end is a multiple of the beta at which noise is as large as the distance between
memories. The diffuse end is in units of the inverse spread of overlaps; attention is nearly uniform there."""


class Slider(NamedTuple):
    """The values of a knob between two ends. Position 0, on the left, is recall; position `STEPS` is generation."""

    option: str
    low: float
    high: float
    recalls_at: str
    is_log: bool
    n_stops: int = STEPS  # the number of positions; few if each takes long to draw, so that all can be prepared

    @classmethod
    def of(cls, option: str, knob: Knob, hopfield: HopfieldGenerator | None) -> Slider | None:
        """Create the slider of a knob; None if its ends depend on memories, and there are none."""
        if knob.low is not None and knob.high is not None:
            return cls(option, knob.low, knob.high, knob.recalls_at, knob.is_log)
        return None if hopfield is None else cls(option, *beta_range(hopfield), knob.recalls_at, knob.is_log)

    def value(self, position: float) -> float:
        """Return the value at a position from 0 to `STEPS`, rounded."""
        share = min(max(round(position / STEPS * self.n_stops) / self.n_stops, 0.0), 1.0)
        share = share if self.recalls_at == "low" else 1 - share
        if self.is_log:
            value = math.exp((1 - share) * math.log(self.low) + share * math.log(self.high))
        else:
            value = (1 - share) * self.low + share * self.high
        return float(f"{value:.{DIGITS}g}")

    @property
    def stops(self) -> list[float]:
        """The values at its positions, from recall on."""
        return [self.value(STEPS * i / self.n_stops) for i in range(self.n_stops + 1)]

    def position(self, value: float) -> float:
        """Return the position of a value, within the ends."""
        inside = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return STEPS * (share if self.recalls_at == "low" else 1 - share)


def beta_range(hopfield: HopfieldGenerator) -> tuple[float, float]:
    """Return a beta at which attention is nearly uniform and a beta at which draws are nearly copies."""
    bank = hopfield.bank.active
    rows = to_numpy(bank.patterns).astype(np.float64)
    gaps = neighbor_distances(bank, MAX_PROBES) if len(rows) > 1 else np.zeros(1)
    distance = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else bank.M or 1.0
    spread = float(np.ptp(rows @ rows[0])) or bank.M**2 or 1.0
    sharp, diffuse = SHARP * bank.d / distance**2, DIFFUSE / spread
    return min(diffuse, sharp / 1000), sharp


Field = dict[str, Plain]
Message = Mapping[str, Plain]  # what the page sends when a control changes: its id and further values
CONDITION, TYPED, STORED, SELECTED = "condition:", "typed", "stored", "selected"
MARKED = "beta"  # the knob that has marks, and curves
MAX_STORED = 1000  # stored items that the list shows
SAME_ID = "Examples with the same id are chosen together."
GENERATOR, KNOB, N, SEED, NEW_SEED = "generator", "knob", "n", "seed", "new-seed"


class Page(NamedTuple):
    """What a user has set on a page.

    settings: what determines the items that are shown
    choices:  the choice in each control of conditions, by its name
    typed:    further conditions, as strings
    """

    settings: PageSettings
    choices: Mapping[str, Choice]
    typed: tuple[str, ...] = ()


class Mark(NamedTuple):
    """A value of the knob that has a name."""

    name: str
    value: float
    help: str


def setting_fields(explorer: Explorer) -> list[Field]:
    """Return the fields of the form of settings."""
    options = [{"value": name, "label": name} for name in explorer.base.kind.generators]
    return [
        {"type": "section", "id": "draw", "label": "New " + explorer.base.kind.items},
        {"type": "select", "id": GENERATOR, "label": "Generator", "options": options},
        {"type": "slider", "id": KNOB, "label": "Recall ↔ generation", "steps": STEPS, "hint": ""},
        {"type": "number", "id": NOVELTY, "label": "Novelty instead", "min": 0, "placeholder": "e.g. 0.2"},
        {"type": "number", "id": N, "label": "Number", "min": 1, "max": MAX_SHOWN, "step": 1, "width": "half"},
        {"type": "number", "id": SEED, "label": "Seed", "min": 0, "step": 1, "width": "half"},
        {"type": "button", "id": NEW_SEED, "label": "Draw others", "primary": True},
    ]


def explain_missing_knob(generator: str, adjustable: Sequence[str]) -> str:
    """Say that a generator has no knob, and which generators have one; empty if it has one."""
    if generator in adjustable:
        return ""
    remedy = f" Choose {' or '.join(adjustable)} to have one." if adjustable else ""
    return f"The generator {generator} has no setting between recall and generation.{remedy}"


def setting_state(
    settings: PageSettings,
    slider: Slider | None,
    marks: Sequence[Mark],
    drawn: Drawn | None,
    has_novelty: bool,
    adjustable: Sequence[str] = (),
) -> dict[str, Field]:
    """Return the state of the form of settings; `adjustable` names the generators that have a slider."""
    knob: Field = {"has_marks": slider is not None and slider.option == MARKED, "disabled": slider is None}
    if slider is None:
        hint = explain_missing_knob(settings.generator, adjustable)
        knob |= {"marks": [], "step": 1, "text": "", "position": STEPS / 2, "hint": hint}
    else:
        value = knob_value(settings, slider, marks, drawn)
        rule = f" ({settings.knob})" if isinstance(settings.knob, str) else ""
        label = f"{slider.option}: chosen by a rule" if value is None else f"{slider.option} {number(value, 3)}{rule}"
        shown = [{**mark._asdict(), "label": mark.name, "position": slider.position(mark.value)} for mark in marks]
        knob |= {"marks": shown if knob["has_marks"] else [], "text": label, "hint": ""}
        knob |= {"position": None if value is None else slider.position(value)}
        knob |= {"step": STEPS / slider.n_stops}  # an arrow key goes to the next position
    return {
        GENERATOR: {"value": settings.generator},
        KNOB: knob,
        NOVELTY: {"value": settings.novelty, "disabled": not has_novelty},
        N: {"value": settings.n},
        SEED: {"value": settings.seed},
        NEW_SEED: {},
    }


def knob_value(
    settings: PageSettings, slider: Slider | None, marks: Sequence[Mark], drawn: Drawn | None
) -> float | None:
    """Return the value of the knob as set, or as a rule chose it for the drawn items; None if it is not known yet."""
    if isinstance(settings.knob, int | float):
        return float(settings.knob)
    for mark in marks:
        if mark.name == settings.knob:
            return mark.value
    if drawn is None or slider is None or drawn.settings.generator != settings.generator:
        return None
    if drawn.description.temperature is not None:
        return drawn.description.temperature.beta
    value = drawn.description.resolved.get(slider.option)
    first = value[0] if isinstance(value, tuple | list) and value else value  # the knob moves the first of its numbers
    return float(first) if isinstance(first, int | float) and math.isfinite(first) else None


def format_error(error: Exception) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def condition_fields(explorer: Explorer, controls: Sequence[Control]) -> list[Field]:
    """Return the fields of the form of conditions: controls, conditions as strings, and the stored items."""
    kind, names = explorer.base.kind, explorer.names
    stored: Field = {"type": "stored", "id": STORED, "label": f"Stored {kind.items}", "ids": list(names[:MAX_STORED])}
    stored["hint"] = "" if names == explorer.base.codec.ids else SAME_ID
    fields: list[Field] = [{"type": "section", "id": "conditions", "label": "Conditions", "folded": False}]
    fields += [{**control.fixed(), "id": CONDITION + control.name} for control in controls]
    if kind.condition_help:
        hint = f"As on the command line: {kind.condition_help}."
        fields.append({"type": "texts", "id": TYPED, "label": "Other conditions", "hint": hint})
    fields.append({"type": "section", "id": "stored-section", "label": f"Stored {kind.items}", "folded": True})
    return [*fields, stored]


def condition_state(page: Page, controls: Sequence[Control], selected: int) -> dict[str, Field]:
    """Return the state of the form of conditions; `selected` is a stored item, or -1."""
    return {
        **{CONDITION + control.name: control.current(page.choices.get(control.name, {})) for control in controls},
        TYPED: {"value": list(page.typed)},
        STORED: {"ratios": [list(pair) for pair in page.settings.ratios], "selected": selected},
    }


def selected_state(settings: PageSettings, names: Sequence[str], selected: int) -> Field:
    """Return the state of the field that changes the weight of the stored item `selected`, or -1 for none."""
    if selected < 0:
        return {"name": "", "ratio": 1.0, "disabled": True}
    return {"name": names[selected], "ratio": dict(settings.ratios).get(selected, 1.0), "disabled": False}


MAX_NEW_SEED = 10_000
MAX_RATIO = 64.0  # the largest weight of a stored item; the smallest above 0 is its inverse


def change_page(page: Page, explorer: Explorer, slider: Slider | None, message: Message) -> Page:
    """Return the page after a change of one of its fields."""
    name = str(message["id"])
    if name == STORED:
        return page._replace(settings=_change_weight(page.settings, explorer.base.codec.ids, message))
    if name == TYPED:
        value = message.get("value")
        page = page._replace(typed=tuple(map(str, value)) if isinstance(value, list | tuple) else ())
    elif name.startswith(CONDITION):
        choice = message.get("choice")
        control = name.removeprefix(CONDITION)
        page = page._replace(choices={**page.choices, control: choice if isinstance(choice, dict) else {}})
    else:
        return page._replace(settings=_change_settings(page.settings, explorer, slider, message))
    conditions = [
        condition for control in explorer.controls for condition in control.texts(page.choices.get(control.name, {}))
    ]
    return page._replace(settings=replace(page.settings, conditions=(*conditions, *page.typed)))


def _change_weight(settings: PageSettings, ids: Sequence[str], message: Message) -> PageSettings:
    """Leave a stored item out or take it back, or let it count twice or half as often."""
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
    same = [k for k, identifier in enumerate(ids) if identifier == ids[index]]  # an id selects all of them
    changed = dict(settings.ratios) | dict.fromkeys(same, ratios[str(action)])
    return replace(settings, ratios=tuple(sorted((k, ratio) for k, ratio in changed.items() if ratio != 1)))


def _change_settings(
    settings: PageSettings, explorer: Explorer, slider: Slider | None, message: Message
) -> PageSettings:
    """Return the settings after a change in the form of settings."""
    name, value = message["id"], message.get("value")
    if name == GENERATOR:
        generator = check_choice("generator", value, tuple(explorer.base.kind.generators))
        return replace(settings, generator=generator, knob=None, novelty=None)
    if name == KNOB:
        if "mark" in message:
            return replace(settings, knob=str(message["mark"]), novelty=None)
        if slider is None:
            return settings
        position = check_non_negative("position", message.get("position"))
        return replace(settings, knob=slider.value(position), novelty=None)
    if name == NOVELTY and value is None:
        return replace(settings, novelty=None)
    if name == NOVELTY:
        novelty = check_positive(NOVELTY, value, "0 is exact recall, which no finite beta gives.")
        return replace(settings, knob=None, novelty=novelty)
    if name == N:
        return replace(settings, n=check_count("n", value))
    if name == SEED:
        return replace(settings, seed=check_count("seed", value, 0))
    if name == NEW_SEED:
        return replace(settings, seed=SystemRandom().randrange(MAX_NEW_SEED))
    raise InputError(f"there is no control {name!r}.")
