"""What the measurements amount to, in plain words and by thresholds that are stated."""

from __future__ import annotations

import math
from typing import NamedTuple

from .._backend.html import number, share
from ..evaluation.privacy import GIVEN_AWAY
from .evidence import Evidence

COPIES, MANY_COPIES = 0.01, 0.1
NEARLY_COPIES, VARIANTS = 0.25, 0.5
TOO_FAR = 0.5
UNLIKE = 0.15
ALIKE = 0.5
LEANING = 0.98
"""Share of draws that are nearer to the half they were made of, above which each is one of its items with noise."""
WHOLE: dict[str, tuple[str, float, str, str]] = {
    # Pair correlations of few sequences are mostly noise, which copies alone keep: the profile judges, site by site.
    "protein": ("profile pass", 0.2, "Members of the family, site by site", "they leave the family"),
    "image": ("sharpness", 0.3, "As sharp as the stored", "they are blurred or noisy"),
    "table": ("correlation error", 0.1, "Columns of numbers go together", "what goes together is lost"),
    "returns": ("correlation error", 0.3, "Tickers go together", "what goes together is lost"),
}
"""Of each kind the measure of items as a whole, how much worse than by chance it may be, what it says, and what its
failure means."""
AWAY = "A lower beta, or a higher novelty, moves them away."
BACK = "A higher beta, or a lower novelty, brings them back to the data."
UNJUDGED = "Whether they are distributed as they should be is not judged: some were kept, weighted or fixed."
FEW = 30
"""Fewer new items than this carry no verdict on their distribution."""


class Check(NamedTuple):
    """One question about the new items."""

    passed: bool | None  # None where it cannot be judged
    finding: str


class Verdict(NamedTuple):
    """The headline, how bad it is, and the checks behind it."""

    headline: str
    tone: str  # "good", "fair" or "bad"
    advice: str
    checks: tuple[Check, ...]


def verdict(evidence: Evidence) -> Verdict:
    """Judge the evidence."""
    copies, near, far = _copies(evidence), _near(evidence), _far(evidence)
    alike, unlike, together = _alike(evidence), _unlike(evidence), _together(evidence)
    leaning, known = _leaning(evidence), _known(evidence)
    if evidence.copies > MANY_COPIES + evidence.twins or evidence.nearness < NEARLY_COPIES:
        found = (
            "These are close to copies",
            "bad",
            _advice(evidence, AWAY),
        )
    elif alike.passed is False:
        found = "Too much alike", "bad", "They vary less than the stored items do."
    elif far.passed is False or (unlike.passed is False and together.passed is False):
        found = (
            "Mostly noise",
            "bad",
            _advice(evidence, BACK),
        )
    elif unlike.passed is False:
        found = (
            "New, but unlike the stored ones",
            "bad",
            "Their values are distributed otherwise: see Fidelity.",
        )
    elif together.passed is False:
        found = (
            f"New, but {WHOLE[evidence.kind][3]}",
            "bad",
            _advice(evidence, BACK),
        )
    elif near.passed is False:
        found = (
            "Close variants of the stored ones",
            "fair",
            _advice(evidence, AWAY),
        )
    elif leaning.passed is False:
        found = "Stored ones with noise", "fair", "Each leans on one stored item, as no true new item would."
    elif copies.passed is False:
        found = "New and faithful, with some copies among them", "fair", "Drop those that equal a stored item."
    elif evidence.conditioned:
        found = (
            "New",
            "good",
            "Whether they are distributed as they should be is not judged: some were kept, weighted or fixed.",
        )
    else:
        found = "New and faithful", "good", "They differ from the stored items, and are distributed as these are."
    return _told(
        *found, evidence.n, known.passed is False, (copies, near, far, leaning, alike, unlike, together, known)
    )


def _told(headline: str, tone: str, advice: str, n: int, known: bool, checks: tuple[Check, ...]) -> Verdict:
    """The verdict, with what few items and what sources that show through do to it."""
    if n < FEW:
        headline += f", as far as {n} can tell" if n > 1 else ", as far as one can tell"
    if known:
        headline += ", but they give away their sources" if tone == "good" else ", and they give away their sources"
        advice += " Do not share them where the stored items are confidential."
        tone = "fair" if tone == "good" else tone
    return Verdict(headline, tone, advice, checks)


def _copies(evidence: Evidence) -> Check:
    limit = COPIES + evidence.twins
    why = ", as some stored items equal each other" if evidence.twins else ""
    return Check(
        evidence.copies <= limit,
        f"{share(evidence.copies)} equal a stored item in every value (at most {share(limit)}{why}).",
    )


def _near(evidence: Evidence) -> Check:
    if math.isnan(evidence.nearness):
        return Check(None, "Too few different stored items to tell how far apart they are.")
    return Check(
        evidence.nearness >= VARIANTS,
        f"Their median distance to the nearest stored item is {share(evidence.nearness)} of that between stored items "
        f"(at least {share(VARIANTS)}; below {share(NEARLY_COPIES)} they count as copies).",
    )


def _far(evidence: Evidence) -> Check:
    if math.isnan(evidence.too_far):
        return Check(None, "Too few stored items to tell what is far.")
    return Check(
        evidence.too_far <= TOO_FAR,
        f"{share(evidence.too_far)} are further from every stored item than 95 % of these are from each other "
        f"(at most {share(TOO_FAR)}).",
    )


def _alike(evidence: Evidence) -> Check:
    if evidence.n < FEW or not evidence.stored_diversity > 0:
        return Check(None, f"Diversity is judged from {FEW} items on.")
    ratio = evidence.diversity / evidence.stored_diversity
    finding = f"They are {share(ratio)} as diverse as the stored ones (at least {share(ALIKE)})."
    return Check(None if evidence.conditioned else ratio >= ALIKE, finding + _condition(evidence))


def _unlike(evidence: Evidence) -> Check:
    new, redrawn = evidence.unlikeness
    if evidence.n < FEW or math.isnan(new) or math.isnan(redrawn):
        return Check(None, f"Single {evidence.single}s are judged from {FEW} items on.")
    finding = (
        f"Single {evidence.single}s differ by {number(new, 2)} on average, on a scale from 0 to 1; those of stored "
        f"items drawn again by {number(redrawn, 2)} (at most {number(redrawn + UNLIKE, 2)})."
    )
    return Check(None if evidence.conditioned else new <= redrawn + UNLIKE, finding + _condition(evidence))


def _together(evidence: Evidence) -> Check:
    name, slack, claim, _ = WHOLE[evidence.kind]
    found = {measure.name: measure for measure in evidence.comparison.measures}.get(name)
    redrawn = {measure.name: measure.value for measure in evidence.redrawn.measures}.get(name, math.nan)
    if evidence.n < FEW or found is None or found.ideal is None or not math.isfinite(found.value + redrawn):
        return Check(None, f"{claim}: judged from {FEW} items on.")
    finding = (
        f"{claim}: {name} {number(found.value, 2)}, ideally {number(found.ideal, 2)}, and "
        f"{number(redrawn, 2)} for stored items drawn again (at most {slack} worse)."
    )
    good = abs(found.value - found.ideal) <= abs(redrawn - found.ideal) + slack
    return Check(None if evidence.conditioned else good, finding + _condition(evidence))


def _condition(evidence: Evidence) -> str:
    return " Not judged, because some items were kept, weighted or fixed." if evidence.conditioned else ""


def _leaning(evidence: Evidence) -> Check:
    closer = evidence.halves.closer
    finding = (
        f"Drawn from half of the stored items, {share(closer)} are nearer to that half than to the other "
        f"(ideally half of them; at most {share(LEANING)})."
    )
    return _by_halves(evidence, closer <= LEANING, finding, "Nothing could be held out")


def _known(evidence: Evidence) -> Check:
    found = evidence.halves
    finding = (
        f"Stored items can be told from others by their distance to samples with an AUC of {number(found.auc, 2)} "
        f"(0.5 is chance; at most {GIVEN_AWAY}, but for its standard error)."
    )
    return _by_halves(evidence, found.certain_auc <= GIVEN_AWAY, finding, "Membership was not tested")


def _by_halves(evidence: Evidence, passed: bool, finding: str, without: str) -> Check:
    """A check of what half-splits found: none without them, and no judgement of items that were made otherwise."""
    if not evidence.halves.halves:
        return Check(None, f"{without}: {evidence.halves.lacking}.")
    if not evidence.made_so:
        return Check(None, f"{finding} Of draws by this method with nothing fixed, which these may not be: not judged.")
    return Check(passed, finding)


def _advice(evidence: Evidence, about_beta: str) -> str:
    """What to do: p_beta has a temperature; a sampler made for the kind has none to turn."""
    return f"{about_beta} That is p_beta: --target paper." if evidence.native else about_beta
