"""The fields of the form: which there are for a kind of data, and what each shows now. All of it is plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .._backend.html import number
from .._backend.state import Plain
from ..data.controls import Choice, Control
from .settings import MAX_SHOWN, Settings
from .sliders import STEPS, Slider
from .state import NOVELTY, Drawn, Explorer

Field = dict[str, Plain]
Message = Mapping[str, Plain]
"""What the page sends when a control changes: {id, ...}."""
CONDITION, TYPED, STORED, SELECTED = "condition:", "typed", "stored", "selected"
MARKED = "beta"  # the knob that has marks, and curves
MAX_STORED = 1000  # stored items that the list shows
SAME_ID = "Those with the same id are chosen together."
GENERATOR, KNOB, N, SEED, NEW_SEED = "generator", "knob", "n", "seed", "new-seed"


class Page(NamedTuple):
    """What a user has set on a page.

    settings: what determines the items that are shown
    choices:  what is chosen in each control of conditions, by its name
    typed:    further conditions, as texts
    """

    settings: Settings
    choices: Mapping[str, Choice]
    typed: tuple[str, ...] = ()


class Mark(NamedTuple):
    """A value of the knob that has a name."""

    name: str
    value: float
    help: str


def setting_fields(explorer: Explorer) -> list[Field]:
    """The fields of the first form."""
    options = [{"value": name, "label": name} for name in explorer.generators]
    return [
        {"type": "section", "id": "draw", "label": "New " + explorer.base.kind.items},
        {"type": "select", "id": GENERATOR, "label": "Generator", "options": options},
        {
            **{"type": "slider", "id": KNOB, "label": "Recall ↔ generation", "steps": STEPS},
            **{"left": "recall", "right": "generation", "hint": ""},
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


def without_knob(generator: str, adjustable: Sequence[str]) -> str:
    """That a generator has no setting between recall and generation, and which have one; empty where it has one."""
    if generator in adjustable:
        return ""
    others = f" Choose {' or '.join(adjustable)} to have one." if adjustable else ""
    return f"The generator {generator} has no setting between recall and generation.{others}"


def setting_state(
    settings: Settings,
    slider: Slider | None,
    marks: Sequence[Mark],
    drawn: Drawn | None,
    has_novelty: bool,
    adjustable: Sequence[str] = (),
) -> dict[str, Field]:
    """What the fields of the first form show; `adjustable` names the generators that have a slider."""
    value = knob_value(settings, slider, marks, drawn)
    has_marks = slider is not None and slider.option == MARKED
    shown = [{**mark._asdict(), "label": mark.name} for mark in marks] if has_marks else []
    for one, mark in zip(shown, marks, strict=False):
        one["position"] = 0 if slider is None else slider.position(mark.value)
    knob: Field = {"marks": shown, "has_marks": has_marks, "disabled": slider is None}
    knob["step"] = 1 if slider is None else STEPS / slider.n_stops  # so that an arrow key goes to the next position
    if slider is None:
        knob |= {"text": "", "position": STEPS / 2, "hint": without_knob(settings.generator, adjustable)}
    else:
        rule = f" ({settings.knob})" if isinstance(settings.knob, str) else ""
        known = value is not None
        knob |= {"text": f"{slider.option} {number(value, 3)}{rule}" if known else f"{slider.option}: chosen by a rule"}
        knob |= {"position": slider.position(value) if value is not None else None, "hint": ""}
    return {
        GENERATOR: {"value": settings.generator},
        KNOB: knob,
        NOVELTY: {"value": settings.novelty, "disabled": not has_novelty},
        N: {"value": settings.n},
        SEED: {"value": settings.seed},
        NEW_SEED: {},
    }


def knob_value(settings: Settings, slider: Slider | None, marks: Sequence[Mark], drawn: Drawn | None) -> float | None:
    """The value of the knob: as set, or as the rule of the drawn items chose it; None where it is not known yet."""
    if isinstance(settings.knob, int | float):
        return float(settings.knob)
    if isinstance(settings.knob, str):
        named = next((mark.value for mark in marks if mark.name == settings.knob), None)
        if named is not None:
            return named
    if drawn is None or slider is None or drawn.settings.generator != settings.generator:
        return None
    if drawn.description.temperature is not None:
        return drawn.description.temperature.beta
    return _as_number(drawn.description.resolved, slider.option)


def message_of(error: Exception) -> str:
    """The message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def _as_number(resolved: Mapping[str, object], name: str) -> float | None:
    """The value of an option, or the first of its numbers, which is the one that a knob moves."""
    value = resolved.get(name)
    first = value[0] if isinstance(value, tuple | list) and value else value
    return float(first) if isinstance(first, int | float) and math.isfinite(first) else None


def condition_fields(explorer: Explorer, controls: Sequence[Control]) -> list[Field]:
    """The fields of the second form: conditions by the type of what they condition, as texts, and the stored items."""
    kind, names = explorer.base.kind, explorer.names
    stored: Field = {"type": "stored", "id": STORED, "label": f"Stored {kind.items}", "ids": list(names[:MAX_STORED])}
    stored["hint"] = "" if names == explorer.base.codec.ids else SAME_ID
    found: list[Field] = [{"type": "section", "id": "conditions", "label": "Conditions", "folded": False}]
    found += [{**control.fixed(), "id": CONDITION + control.name} for control in controls]
    if kind.condition_help:
        help = f"As on the command line: {kind.condition_help}."
        found.append({"type": "texts", "id": TYPED, "label": "Other conditions", "hint": help})
    found.append({"type": "section", "id": "stored-section", "label": f"Stored {kind.items}", "folded": True})
    return [*found, stored]


def condition_state(page: Page, controls: Sequence[Control], selected: int) -> dict[str, Field]:
    """What the fields of the second form show; `selected` is a stored item, or -1."""
    found: dict[str, Field] = {CONDITION + one.name: one.current(page.choices.get(one.name, {})) for one in controls}
    found[TYPED] = {"value": list(page.typed)}
    found[STORED] = {"ratios": [list(one) for one in page.settings.ratios], "selected": selected}
    return found


def selected_field(items: str) -> Field:
    """The field of the stored item that is selected on the map, which leaves it out or changes how often it counts."""
    return {"type": "selected", "id": SELECTED, "label": f"Selected of the stored {items}"}


def selected_state(settings: Settings, names: Sequence[str], selected: int) -> Field:
    """What this field shows; `selected` is a stored item, or -1."""
    if selected < 0:
        return {"name": "", "ratio": 1.0, "disabled": True}
    return {"name": names[selected], "ratio": dict(settings.ratios).get(selected, 1.0), "disabled": False}
