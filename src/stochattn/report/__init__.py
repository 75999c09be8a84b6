"""A report on new items: one HTML file that shows whether they can be trusted."""

from __future__ import annotations

from pathlib import Path

from .._backend.files import write_whole
from .._backend.html import section, tag
from .._version import __version__
from ..data.base import Items
from ..data.summary import Summary
from ..evaluation import as_evaluated
from ..synthesizer import Synthesizer
from .evidence import measure
from .page import counted, document, making, page_header, require_page, settings
from .sections import fidelity, gallery, held_out_validation, item_map, novelty, privacy
from .verdict import verdict_on

__all__ = ["build_report", "measure", "require_page", "verdict_on", "write_report"]


def build_report(
    synth: Synthesizer,
    items: Items,
    *,
    source: str | None,
    samples: str | None = None,
    summary: Summary | None = None,
    seed: int = 0,
    command: str | None = None,
) -> str:
    """The report on new items, as the text of an HTML file that loads nothing else. Same arguments, same bytes.

    items:   the new items, as `as_evaluated(synth)` samples them; synth need not have made them
    source, samples: files of the stored and of the new items; None if not from a file, or drawn for the report
    summary: of the run that drew them, where it is known
    seed:    of the draws, and of what the report draws itself
    command: that makes the items again, where there is one
    """
    n = len(items)
    if n == 0:
        raise ValueError("items must hold at least one new item; got none. Draw some.")
    made = settings(synth, n, seed, source, samples, summary)
    synth = as_evaluated(synth)
    evidence = measure(synth, items, seed, method_known=samples is None or summary is not None)
    found = verdict_on(evidence)
    sections = (
        ("gallery", "Gallery", gallery(synth, items)),
        ("fidelity", "Fidelity", fidelity(evidence)),
        ("map", "Map", item_map(evidence)),
        ("novelty", "Novelty and diversity", novelty(evidence, summary)),
        ("held-out", "Held-out validation", held_out_validation(synth, evidence.split_half)),
        ("privacy", "Privacy", privacy(evidence, found.checks.membership.passed is False)),
        ("making", "How it was made", making(evidence, made, command)),
    )
    return document(
        f"{counted(synth.kind, n, 'new')}: {found.headline}",
        synth.kind,
        page_header(evidence, found, made, [(anchor, title) for anchor, title, _ in sections]),
        tag("main", *(section(*one) for one in sections)),
        tag("footer", f"Made by stochattn {__version__}. This page is one file and loads nothing else."),
    )


def write_report(synth: Synthesizer, path: Path, n: int, seed: int, *, replace: bool = False) -> Path:
    """Write the report on n new items that are drawn for it; returns its path."""
    require_page(f"path {str(path)!r}", path, replace=replace)
    write_whole(path, build_report(synth, as_evaluated(synth).sample_items(n, seed), source=None, seed=seed))
    return path
