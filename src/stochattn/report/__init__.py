"""A report on new items: one HTML file that says whether they can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from .._backend.files import write_atomically
from .._backend.html import tag
from .._backend.state import Plain
from .._version import __version__
from ..evaluation import as_evaluated
from ..evaluation.fidelity import Score
from ..kinds.codec import Items
from ..kinds.summary import RunSummary
from ..synthesizer.synthesizer import Synthesizer
from . import page
from .checks import Verdict, judge
from .evidence import Evidence, measure
from .figures import item_map
from .page import require_page

__all__ = ["Report", "judge", "make_report", "measure", "require_page", "write_report"]


class Report(NamedTuple):
    """A report on new items: the page, and its content as numbers."""

    page: str
    evidence: Evidence
    verdict: Verdict

    def as_dict(self) -> dict[str, Plain]:
        """The verdict, its checks and the figures behind them, as plain values."""
        evidence, half = self.evidence, self.evidence.split_half
        scores: dict[str, list[Score]] = {}
        for split in half.splits:
            for name, score in split.fidelity.scores.items() if split.fidelity is not None else ():
                scores.setdefault(name, []).append(score)
        return {
            "version": __version__,
            "headline": self.verdict.headline,
            "tone": str(self.verdict.tone),
            "advice": self.verdict.advice,
            "checks": {name: check._asdict() for name, check in self.verdict.checks._asdict().items() if check.finding},
            "n": evidence.n,
            "stored": evidence.synth.codec.K,
            "novelty": float(evidence.to_stored.novelty.mean()),
            "diversity": {"new": evidence.diversity, "stored": evidence.stored_diversity},
            "copies": evidence.copies,
            "near_copies": evidence.too_close,
            "too_far": evidence.too_far,
            "held_out": {
                "splits": len(half.splits),
                "near_copies": half.near_copies,
                "membership_auc": half.membership_auc,
                "train_proximity": half.train_proximity,
                **{name: Score(*np.mean(values, axis=0).tolist())._asdict() for name, values in scores.items()},
            },
            "measures": {m.name: {"value": m.value, "ideal": m.ideal} for m in evidence.comparison.measures},
        }


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
    reword: Callable[[str], str] = str,
    n_jobs: int | None = None,
    labels: Array | None = None,
) -> Report:
    """Report on new items; the page is an HTML file that loads nothing else. Equal arguments give equal bytes.

    items:   the new items, as `as_evaluated(synth)` samples them; synth need not have made them
    source, samples: files of the stored and of the new items; None if items are not from a file or drawn for the report
    summary: the summary of the run that drew the items, if it is known
    seed:    seed of the draws, and of the draws of the report itself
    command: the command that makes the items again, if there is one
    quick:   whether to validate on few splits and draws, with the settings of all items
    reword:  rewrites a note in terms of what the reader types, such as options of the command line
    n_jobs:  workers that share the splits of the validation, as in `Synthesizer.sample`
    labels:  the class of each item (n,), if the items themselves do not say it
    """
    n = len(items)
    if n == 0:
        raise ValueError("items must hold at least one new item; got none. Draw some.")
    rows = page.settings(synth, n, seed, source, samples, summary)
    synth = as_evaluated(synth)
    method_known = samples is None or summary is not None
    evidence = measure(synth, items, seed, method_known=method_known, quick=quick, n_jobs=n_jobs, labels=labels)
    verdict = judge(evidence)
    sections = (
        ("gallery", "Gallery", page.gallery(synth, items)),
        ("fidelity", "Fidelity", page.fidelity(evidence)),
        ("map", "Map", item_map(evidence)),
        ("novelty", "Novelty and diversity", page.novelty(evidence, summary)),
        ("held-out", "Held-out validation", page.held_out_validation(synth, evidence.split_half)),
        ("privacy", "Privacy", page.privacy(evidence, verdict.checks.membership.passed is False)),
        ("making", "How it was made", page.making(evidence, rows, command, reword)),
    )
    html = page.document(
        f"{page.count_items(synth.kind, n, 'new')}: {verdict.headline}",
        synth.kind,
        page.page_header(evidence, verdict, rows, [(anchor, title) for anchor, title, _ in sections]),
        tag("main", *(tag("section", tag("h2", title), content, id=anchor) for anchor, title, content in sections)),
        tag("footer", f"Made by stochattn {__version__}. This page is one file and loads nothing else."),
    )
    return Report(html, evidence, verdict)


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
    """Draw n new items, write the report on them, and return its path."""
    require_page(f"path {str(path)!r}", path, replace=replace)
    items = as_evaluated(synth).sample_items(n, seed, n_jobs)
    report = make_report(synth, items, source=None, seed=seed, quick=quick, n_jobs=n_jobs)
    write_atomically(path, report.page)
    return path
