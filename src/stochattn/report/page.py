"""The page: its header, how the items were made, and elements that several sections use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

import numpy as np

from .._backend.html import Html, joined, name, number, pairs, share, tag, text
from .._backend.places import require_file
from .._version import __version__
from ..data.kind import AnyKind
from ..data.options import given_options
from ..data.ranges import condition_text
from ..data.summary import Summary
from ..generators.base import HasRows
from ..synthesizer import Synthesizer
from .evidence import Evidence
from .verdict import Verdict

# Of a check: the sign, the class of its colour, and what a screen reader says.
SIGNS = {True: ("✓", "good", "passed"), False: ("✗", "bad", "failed"), None: ("·", "open", "not checked")}
MAX_NOTES = 50
MAX_MARK = 1000  # bytes at the beginning of a page that hold its mark
Pairs: TypeAlias = Sequence[tuple[str, str]]
_MARK = '<meta name="generator" content="stochattn report">'
"""What distinguishes a page of ours, which a later report may replace, from other files."""
_HEAD = f"""<meta charset="utf-8">{_MARK}\
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">\
<meta name="viewport" content="width=device-width, initial-scale=1">\
<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">\
<link rel="icon" href="data:,">"""


def document(title: str, kind: AnyKind, *children: str) -> str:
    """A whole page that loads nothing and that no script can run in."""
    style = files(__package__).joinpath("style.css").read_text("utf-8") + kind.style
    head = f"{_HEAD}<title>{text(title)}</title><style>{style}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{joined(children, chr(10))}</body></html>\n'


def require_page(name: str, path: Path, *, replace: bool = False) -> None:
    """InputError, before any work, if no page can be written there, or would replace a file that is not a report."""
    require_file(name, path, lambda page: _MARK.encode() in page.read_bytes()[:MAX_MARK], replace)


def page_header(evidence: Evidence, found: Verdict, settings: Pairs, contents: Pairs) -> Html:
    """Title, verdict, key figures, settings, and links to the sections (anchor, title)."""
    kind, half = evidence.synth.kind, evidence.split_half
    checks = []
    for check in filter(lambda check: check.finding, found.checks):
        sign, tone, spoken = SIGNS[check.passed]
        mark = tag("span", sign, class_=f"sign {tone}", aria_label=spoken, role="img")
        checks.append(tag("li", mark, tag("span", check.finding)))
    spread = "" if math.isnan(half.membership_auc_std) else f" ± {number(half.membership_auc_std, 2)}"
    novelty, stored = round(float(evidence.to_stored.novelty.mean()), 9), number(evidence.stored_diversity, 2)
    figures = (
        (number(novelty), "mean novelty: 1 − cosine to the nearest stored row"),
        (
            f"{share(evidence.copies)} · {share(evidence.too_close)}",
            f"exact copies · near-copies, closer to a stored {kind.item} than 99 % of these are to each other",
        ),
        (number(evidence.diversity, 2), f"diversity; the stored {kind.items} have {stored}"),
        (f"{number(half.membership_auc, 2)}{spread}", "AUC of membership inference; 0.5 is chance"),
    )
    tiles = (tag("div", tag("b", value), tag("span", meaning), class_="tile") for value, meaning in figures)
    return tag(
        "header",
        tag("p", "stochattn report", class_="eyebrow"),
        tag("h1", f"{counted(kind, evidence.n, 'new')} from {evidence.synth.codec.K:,} stored"),
        callout(found.tone, found.headline, found.advice, tag("ul", *checks)),
        tag("div", *tiles, class_="tiles"),
        pairs(settings),
        tag("nav", *(tag("a", title, href=f"#{anchor}") for anchor, title in contents), aria_label="Contents"),
    )


def settings(
    synth: Synthesizer, n: int, seed: int, source: str | None, samples: str | None, summary: Summary | None
) -> Pairs:
    """Names and values of what was stored, what was made and how; the arguments are those of `build_report`."""
    K, kept, described = synth.codec.K, len(synth.kept), synth.describe()
    rows: dict[str, str] = {
        "Stored": text(counted(synth.kind, K) + (f", {kept:,} of them used" if kept < K else "")),
        "Source": "" if source is None else name(source, 120),
        "New": text(counted(synth.kind, n)),
        "Read from": name(samples, 120) if samples else text("drawn for this report"),
    }
    if samples is not None and summary is None:
        compared = f"{described.summary}; predictions and validation are for this generator"
        rows["Made by"] = text("not known: there is no summary beside the samples")
        rows["Compared with"] = text(compared, 300)
    else:
        options, conditions = (
            ", ".join(condition_text(key, value) for key, value in values.items())
            for values in (given_options(synth.choice.options), synth.conditions)
        )
        conditions = ", ".join(summary.conditions if summary is not None else ()) or conditions or "none"
        rows |= {
            "Generator": text(f"{described.name}: {described.summary}", 300),
            "Options": name(options, 200) if options else "",
            "Settings": "as the run that made them chose and recorded them" if synth.resolved else "",
            "Conditions": name(conditions, 200),
            "Weights": "unequal" if np.ptp(synth.weights[synth.kept]) > 0 else "",
            "Seed": text(seed if summary is None else summary.seed),
            "Version": text(f"stochattn {__version__ if summary is None else summary.version}"),
        }
    return [(key, value) for key, value in rows.items() if value]


def making(evidence: Evidence, made: Pairs, command: str | None, worded: Callable[[str], str] = str) -> Html:
    """Settings, notes, what encoding loses, and the command that makes the items again, where there is one.

    worded: a note, with arguments of this library as the reader knows them
    """
    (n_rows, d), notes = evidence.synth.stored_rows.shape, evidence.synth.codec.notes
    has_rows = isinstance(evidence.synth.generator, HasRows)  # those of inspect; others draw features, which are more
    size = ("Rows of p_beta" if has_rows else "Features", f"{n_rows:,} × {d:,}")
    loss = size, ("Lost in encoding", text(evidence.loss))
    listed = tag("ul", *(tag("li", text(worded(note), 400)) for note in notes[:MAX_NOTES]))
    content = [
        pairs([*made, *loss, ("Report by", f"stochattn {__version__}")]),
        tag("h3", "Notes from reading"),
        listed if notes else tag("p", "None: nothing was dropped, changed or assumed."),
    ]
    if len(notes) > MAX_NOTES:
        content.append(tag("p", f"{len(notes) - MAX_NOTES:,} more notes are left out.", class_="note"))
    if command is not None:
        content += [tag("h3", "To make it again"), tag("pre", text(command, 2000))]
    return joined(content)


def callout(tone: str, headline: str, advice: str, *children: str) -> Html:
    """A box with a headline in the colour of its tone."""
    title = tag("strong", headline, class_="headline")
    return tag("div", title, tag("span", advice), *children, class_=f"verdict {tone}")


def counted(kind: AnyKind, n: int, adjective: str = "") -> str:
    """How many items of this kind, in words, such as “3 new rows”."""
    return " ".join(filter(None, (f"{n:,}", adjective, kind.item if n == 1 else kind.items)))


def explained(title: str, meaning: str) -> Html:
    """The name of a measure, and below it what it means."""
    return joined([tag("b", text(title)), tag("span", text(meaning, 1000), class_="soft")])
