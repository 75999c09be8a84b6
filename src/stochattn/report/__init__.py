"""A report on new items: one HTML file that tells whether to trust them."""

from __future__ import annotations

from typing import Any

from .._backend.html import tag
from .._version import __version__
from ..pipeline import Plan
from . import making, sections
from .evidence import measure
from .held_out import held_out
from .page import document
from .verdict import verdict

__all__ = ["build"]


def build(
    plan: Plan,
    items: Any,
    *,
    source: str,
    samples: str | None = None,
    facts: dict[str, Any] | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> str:
    """The report on these items, as the text of an HTML file that asks for nothing from elsewhere.

    plan:    how they were drawn, or would be: its codec holds the stored items
    items:   the new items, as the codec's `items` returns them
    source:  where the stored items come from; samples: where the new ones do, None if they were drawn for the report
    facts:   the summary of the run that drew them, where it is known
    seed:    of the draws, and of what the report draws itself. Same arguments, same bytes
    """
    facts, n = facts or {}, len(items)
    if n == 0:
        raise ValueError("items must hold at least one new item; got none. Draw some.")
    evidence = measure(plan, items, seed, progress, made_so=samples is None or bool(facts))
    judged = verdict(evidence)
    about = plan, n, source, samples, facts, seed
    made = making.settings(*about)
    return document(
        f"{making.counted(plan, n, 'new')}: {judged.headline}",
        sections.heading(plan, evidence, judged, made),
        tag(
            "main",
            sections.pictures_of(plan, items),
            sections.fidelity(evidence),
            sections.plane(plan, evidence),
            sections.novelty(plan, evidence, facts),
            held_out(plan, evidence.halves),
            sections.privacy(evidence),
            making.making(plan, evidence, made, making.command(*about)),
        ),
        tag("footer", f"Made by stochattn {__version__}. This page is one file and asks for nothing from elsewhere."),
    )
