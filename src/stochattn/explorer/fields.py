"""The fields of the forms and their present state as plain values.

`Slider` maps positions on the page, from recall to generation, to values of the generator's knob.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .._backend.arrays import to_numpy
from .._backend.html import number
from .._backend.state import Plain
from ..core.neighbors import neighbor_distances
from ..kinds.display import Choice, Control
from ..kinds.hopfield import HopfieldGenerator
from ..kinds.options import Knob
from .state import MAX_SHOWN, NOVELTY, Drawn, Explorer, PageSettings

STEPS = 200
DIGITS = 4
"""Significant digits of a value, so that a command that repeats it stays short."""
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
Message = Mapping[str, Plain]
"""What the page sends when a control changes: its id and further values."""
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
    options = [{"value": name, "label": name} for name in explorer.generators]
    return [
        {"type": "section", "id": "draw", "label": "New " + explorer.base.kind.items},
        {"type": "select", "id": GENERATOR, "label": "Generator", "options": options},
        {
            "type": "slider",
            "id": KNOB,
            "label": "Recall ↔ generation",
            "steps": STEPS,
            "left": "recall",
            "right": "generation",
            "hint": "",
        },
        {
            "type": "number",
            "id": NOVELTY,
            "label": "Novelty instead",
            "min": 0,
            "step": "any",
            "placeholder": "e.g. 0.2",
        },
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
    value = knob_value(settings, slider, marks, drawn)
    has_marks = slider is not None and slider.option == MARKED
    knob: Field = {"has_marks": has_marks, "disabled": slider is None}
    if slider is None:
        hint = explain_missing_knob(settings.generator, adjustable)
        knob |= {"marks": [], "step": 1, "text": "", "position": STEPS / 2, "hint": hint}
    else:
        rule = f" ({settings.knob})" if isinstance(settings.knob, str) else ""
        label = f"{slider.option}: chosen by a rule" if value is None else f"{slider.option} {number(value, 3)}{rule}"
        knob |= {"step": STEPS / slider.n_stops}  # an arrow key goes to the next position
        knob |= {"text": label, "position": None if value is None else slider.position(value), "hint": ""}
        knob["marks"] = [
            {**mark._asdict(), "label": mark.name, "position": slider.position(mark.value)}
            for mark in (marks if has_marks else ())
        ]
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
    if isinstance(settings.knob, str):
        value = next((mark.value for mark in marks if mark.name == settings.knob), None)
        if value is not None:
            return value
    if drawn is None or slider is None or drawn.settings.generator != settings.generator:
        return None
    if drawn.description.temperature is not None:
        return drawn.description.temperature.beta
    return _as_number(drawn.description.resolved, slider.option)


def format_error(error: Exception) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def _as_number(resolved: Mapping[str, object], name: str) -> float | None:
    """Return the value of an option, or the first of its numbers, which a knob moves."""
    value = resolved.get(name)
    first = value[0] if isinstance(value, tuple | list) and value else value
    return float(first) if isinstance(first, int | float) and math.isfinite(first) else None


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


def selected_fields(items: str) -> list[Field]:
    """Return the fields of the stored item that is selected on the map, which change its weight."""
    return [
        {"type": "section", "id": "map", "label": "", "plain": True},
        {"type": "selected", "id": SELECTED, "label": f"Selected of the stored {items}"},
    ]


def selected_state(settings: PageSettings, names: Sequence[str], selected: int) -> Field:
    """Return the state of this field; `selected` is a stored item, or -1."""
    if selected < 0:
        return {"name": "", "ratio": 1.0, "disabled": True}
    return {"name": names[selected], "ratio": dict(settings.ratios).get(selected, 1.0), "disabled": False}
