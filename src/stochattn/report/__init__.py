"""A report on new items: one HTML file that shows whether they can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._backend.arrays import Array
from .._backend.files import write_atomically
from .._backend.html import section, tag
from .._backend.state import Plain
from .._version import __version__
from ..evaluation import as_evaluated
from ..evaluation.fidelity import Score
from ..kinds.codec import Items
from ..kinds.summary import RunSummary
from ..synthesizer.synthesizer import Synthesizer
from .checks import Verdict, verdict_on
from .evidence import Evidence, measure
from .figures import item_map
from .page import (
    counted,
    document,
    fidelity,
    gallery,
    held_out_validation,
    making,
    novelty,
    page_header,
    privacy,
    require_page,
    settings,
)

__all__ = ["Report", "build_report", "make_report", "measure", "require_page", "verdict_on", "write_report"]


class Report(NamedTuple):
    """What is said about new items: a page, and the same in numbers."""

    page: str
    evidence: Evidence
    verdict: Verdict

    def as_dict(self) -> dict[str, Plain]:
        """The verdict, its checks and the figures behind them, as plain values."""
        found, half = self.evidence, self.evidence.split_half
        fidelities = [split.fidelity for split in half.splits if split.fidelity is not None]
        names = dict.fromkeys(name for one in fidelities for name in one.scores)
        means = {
            name: np.mean([one.scores[name] for one in fidelities if name in one.scores], axis=0) for name in names
        }
        return {
            "version": __version__,
            "headline": self.verdict.headline,
            "tone": str(self.verdict.tone),
            "advice": self.verdict.advice,
            "checks": {name: one._asdict() for name, one in self.verdict.checks._asdict().items() if one.finding},
            "n": found.n,
            "stored": found.synth.codec.K,
            "novelty": float(found.to_stored.novelty.mean()),
            "diversity": {"new": found.diversity, "stored": found.stored_diversity},
            **{"copies": found.copies, "near_copies": found.too_close, "too_far": found.too_far},
            "held_out": {
                **{"splits": len(half.splits), "near_copies": half.near_copies, "membership_auc": half.membership_auc},
                "train_proximity": half.train_proximity,
                **{name: dict(zip(Score._fields, mean.tolist(), strict=True)) for name, mean in means.items()},
            },
            "measures": {one.name: {"value": one.value, "ideal": one.ideal} for one in found.comparison.measures},
        }


def build_report(synth: Synthesizer, items: Items, **options: Any) -> str:
    """The page of `make_report`, with the same arguments."""
    return make_report(synth, items, **options).page


def make_report(
    synth: Synthesizer,
    items: Items,
    *,
    source: str | None,
    samples: str | None = None,
    summary: RunSummary | None = None,
    seed: int = 0,
    command: str | None = None,
    quick: bool = False,
    worded: Callable[[str], str] = str,
    n_jobs: int | None = None,
    labels: Array | None = None,
) -> Report:
    """The report on new items; its page is an HTML file that loads nothing else. Same arguments, same bytes.

    items:   the new items, as `as_evaluated(synth)` samples them; synth need not have made them
    source, samples: files of the stored and of the new items; None if not from a file, or drawn for the report
    summary: of the run that drew them, where it is known
    seed:    of the draws, and of what the report draws itself
    command: that makes the items again, where there is one
    quick:   validate on few splits and draws, with the settings of all items
    worded:  a note, with arguments of this library as the reader knows them
    n_jobs:  workers that share the splits of the validation, as in `Synthesizer.sample`
    labels:  the class of each item (n,), where it is known and items do not say it
    """
    n = len(items)
    if n == 0:
        raise ValueError("items must hold at least one new item; got none. Draw some.")
    made = settings(synth, n, seed, source, samples, summary)
    synth = as_evaluated(synth)
    known = samples is None or summary is not None
    evidence = measure(synth, items, seed, method_known=known, quick=quick, n_jobs=n_jobs, labels=labels)
    found = verdict_on(evidence)
    sections = (
        ("gallery", "Gallery", gallery(synth, items)),
        ("fidelity", "Fidelity", fidelity(evidence)),
        ("map", "Map", item_map(evidence)),
        ("novelty", "Novelty and diversity", novelty(evidence, summary)),
        ("held-out", "Held-out validation", held_out_validation(synth, evidence.split_half)),
        ("privacy", "Privacy", privacy(evidence, found.checks.membership.passed is False)),
        ("making", "How it was made", making(evidence, made, command, worded)),
    )
    page = document(
        f"{counted(synth.kind, n, 'new')}: {found.headline}",
        synth.kind,
        page_header(evidence, found, made, [(anchor, title) for anchor, title, _ in sections]),
        tag("main", *(section(*one) for one in sections)),
        tag("footer", f"Made by stochattn {__version__}. This page is one file and loads nothing else."),
    )
    return Report(page, evidence, found)


def write_report(
    synth: Synthesizer,
    path: Path,
    n: int,
    seed: int,
    *,
    quick: bool = False,
    replace: bool = False,
    n_jobs: int | None = None,
) -> Path:
    """Write the report on n new items that are drawn for it; returns its path."""
    require_page(f"path {str(path)!r}", path, replace=replace)
    items = as_evaluated(synth).sample_items(n, seed, n_jobs)
    write_atomically(path, build_report(synth, items, source=None, seed=seed, quick=quick, n_jobs=n_jobs))
    return path
