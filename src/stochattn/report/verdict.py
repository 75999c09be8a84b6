"""What the measurements mean: checks with stated limits, and the headline that follows from them."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

from .._backend.html import number, share
from ..data.comparison import Measure
from .evidence import Evidence

MAX_COPIES, MANY_COPIES = 0.01, 0.1
"""Shares of new items that equal a stored one: allowed, and enough for the verdict “close to copies”."""
MIN_DISTANCE_RATIO, COPY_DISTANCE_RATIO = 0.5, 0.25
"""Median distance to the nearest stored item, over that between stored items: allowed, and that of near-copies."""
MAX_TOO_FAR = 0.5
"""Share of new items that are further from the stored ones than 95 % of these are from each other."""
MAX_EXTRA_PART_DISTANCE = 0.15
"""Mean distance of the parts beyond that of stored items drawn again."""
MIN_RELATIVE_DIVERSITY = 0.5
MAX_TRAIN_PROXIMITY = 0.98
"""Share of draws nearer to the half they were made from, above which each is a stored item with noise."""
MAX_MEMBERSHIP_AUC = 0.6
"""The AUC of membership inference above which samples are said to reveal their sources; 0.5 is chance."""
MIN_ITEMS = 30
"""New items that checks of a distribution need."""
HOPFIELD = "hopfield"
AWAY = "a lower beta, or a higher novelty, moves them away from the stored ones."
BACK = "a higher beta, or a lower novelty, moves them back to the stored ones."


class Tone(StrEnum):
    """How good the news is; also the class of the box that shows it."""

    GOOD = "good"
    FAIR = "fair"
    BAD = "bad"


class Check(NamedTuple):
    """The answer to one question, in a sentence or two; `passed` is None where it is not checked."""

    passed: bool | None
    finding: str

    @property
    def failed(self) -> bool:
        """Whether it was checked, and not passed."""
        return self.passed is False


class Checks(NamedTuple):
    """All checks, in the order of the page."""

    copies: Check
    near: Check
    far: Check
    train_proximity: Check
    diversity: Check
    parts: Check
    whole: Check
    membership: Check


class Verdict(NamedTuple):
    """The headline, how good it is, what to do, and the checks behind it."""

    headline: str
    tone: Tone
    advice: str
    checks: Checks


def verdict_on(evidence: Evidence) -> Verdict:
    """The verdict on new items: the worst finding that the checks support."""
    checks = checks_of(evidence)
    headline, tone, advice = _worst_finding(evidence, checks)
    if evidence.n < MIN_ITEMS:
        headline += f", as far as {f'{evidence.n} {evidence.kind.items}' if evidence.n > 1 else 'one'} can show"
    if checks.membership.failed:
        headline += f", {'but' if tone is Tone.GOOD else 'and'} they reveal their sources"
        advice += f" Do not share them if the stored {evidence.kind.items} are confidential."
        tone = Tone.FAIR if tone is Tone.GOOD else tone
    return Verdict(headline, tone, advice, checks)


def _worst_finding(evidence: Evidence, checks: Checks) -> tuple[str, Tone, str]:
    """Headline, tone and advice."""
    item, items = evidence.kind.item, evidence.kind.items
    copied = evidence.copies > MANY_COPIES + evidence.stored_duplicates
    copied = copied or evidence.distance_ratio < COPY_DISTANCE_RATIO
    noisy = checks.far.failed or (checks.parts.failed and checks.whole.failed)
    away, back = (_with_beta(evidence, effect) for effect in (AWAY, BACK))
    unlike = "Their values do not follow the stored ones: see Fidelity."
    unchecked = "Their distribution is not checked, because a subset, weights or conditions change it."
    too_close, equal = f"Each is too close to one stored {item}.", f"Drop those that equal a stored {item}."
    faithful = f"They differ from the stored {items} and follow the same distribution."
    findings = (
        (copied, "Close to copies", Tone.BAD, away),
        (checks.diversity.failed, "Too similar to each other", Tone.BAD, f"They vary less than the stored {items} do."),
        (noisy, "Mostly noise", Tone.BAD, back),
        (checks.parts.failed, "New, but distributed differently", Tone.BAD, unlike),
        (checks.whole.failed, f"New, but {evidence.kind.key_measure.failure}", Tone.BAD, back),
        (checks.near.failed, f"Close variants of stored {items}", Tone.FAIR, away),
        (checks.train_proximity.failed, f"Stored {items} with noise", Tone.FAIR, too_close),
        (checks.copies.failed, "New and faithful, with some copies", Tone.FAIR, equal),
        (evidence.conditioned, "New", Tone.GOOD, unchecked),
        (True, "New and faithful", Tone.GOOD, faithful),
    )
    return next((headline, tone, advice) for applies, headline, tone, advice in findings if applies)


def _with_beta(evidence: Evidence, effect: str) -> str:
    """What a change of beta does, and which generator has one where this one has none."""
    if evidence.synth.describe().temperature is not None:
        return effect[0].upper() + effect[1:]
    return f"With the generator “{HOPFIELD}”, {effect}" if HOPFIELD in evidence.kind.generators else ""


def checks_of(evidence: Evidence) -> Checks:
    """All checks of the evidence."""
    copies, near, far = _distance_checks(evidence)
    train_proximity, membership = _method_checks(evidence)
    distributions = _diversity(evidence), _parts(evidence), _whole(evidence)
    return Checks(copies, near, far, train_proximity, *distributions, membership)


def _distance_checks(evidence: Evidence) -> tuple[Check, Check, Check]:
    """Whether items are copies, too near to stored ones, or too far from them."""
    item, items, ratio = evidence.kind.item, evidence.kind.items, evidence.distance_ratio
    limit = MAX_COPIES + evidence.stored_duplicates
    why = f", because some stored {items} are duplicates" if evidence.stored_duplicates else ""
    copies = f"{share(evidence.copies)} equal a stored {item} in every value (at most {share(limit)}{why})."
    near = Check(None, f"Too few different stored {items} to measure the distance between them.")
    if not math.isnan(ratio):
        finding = (
            f"Their median distance to the nearest stored {item} is {share(ratio)} of the distance between stored "
            f"{items} (at least {share(MIN_DISTANCE_RATIO)}; below {share(COPY_DISTANCE_RATIO)} they count as copies)."
        )
        near = Check(ratio >= MIN_DISTANCE_RATIO, finding)
    far = Check(None, f"Too few stored {items} to tell which distances are large.")
    if not math.isnan(evidence.too_far):
        finding = (
            f"{share(evidence.too_far)} are further from every stored {item} than 95 % of stored {items} are from "
            f"their nearest neighbour (at most {share(MAX_TOO_FAR)})."
        )
        far = Check(evidence.too_far <= MAX_TOO_FAR, finding)
    return Check(evidence.copies <= limit, copies), near, far


def _method_checks(evidence: Evidence) -> tuple[Check, Check]:
    """Train proximity and membership inference of the method, which say nothing about items made in another way."""
    found, items = evidence.split_half, evidence.kind.items
    if not found.splits:
        missing = "There is no held-out validation", "Membership inference was not tested"
        return Check(None, f"{missing[0]}: {found.reason}."), Check(None, f"{missing[1]}: {found.reason}.")
    why = "this validation leaves out the conditions" if evidence.synth.conditions else ""
    if not evidence.method_known:
        why = f"it is not known how these {items} were made"
    proximity = (
        f"Of draws from half of the stored {items}, {share(found.train_proximity)} are nearer to that half than to the "
        f"other (ideally {share(0.5)}; at most {share(MAX_TRAIN_PROXIMITY)})."
    )
    membership = (
        f"The distance to the nearest sample tells stored {items} from others with an AUC of "
        f"{number(found.membership_auc, 2)} (0.5 is chance; at most {MAX_MEMBERSHIP_AUC} plus one standard error)."
    )
    return (
        _unless(why, found.train_proximity <= MAX_TRAIN_PROXIMITY, proximity),
        _unless(why, found.membership_auc_lower <= MAX_MEMBERSHIP_AUC, membership),
    )


def _diversity(evidence: Evidence) -> Check:
    ratio = evidence.diversity / evidence.stored_diversity if evidence.stored_diversity > 0 else math.nan
    of_stored = f"{share(ratio)} of that of the stored {evidence.kind.items}"
    finding = f"Their diversity is {of_stored} (at least {share(MIN_RELATIVE_DIVERSITY)})."
    return _of_distribution(evidence, MIN_RELATIVE_DIVERSITY - ratio, finding, "Diversity is")


def _parts(evidence: Evidence) -> Check:
    subject, (new, resampled) = f"The distribution of each {evidence.kind.part}", evidence.part_distances
    limit = resampled + MAX_EXTRA_PART_DISTANCE
    finding = (
        f"{subject} differs by {number(new, 2)} on average, on a scale from 0 to 1; for stored {evidence.kind.items} "
        f"drawn again it differs by {number(resampled, 2)} (at most {number(limit, 2)})."
    )
    return _of_distribution(evidence, new - limit, finding, f"{subject} is")


def _whole(evidence: Evidence) -> Check:
    key, both = evidence.kind.key_measure, (evidence.comparison, evidence.resampled)
    unknown = Measure(key.name, math.nan, None, "")
    found, again = ({one.name: one for one in some.measures}.get(key.name, unknown) for some in both)
    ideal = math.nan if found.ideal is None else found.ideal
    finding = (
        f"{key.claim}: {key.name} {number(found.value, 2)}, ideally {number(ideal, 2)}; for stored "
        f"{evidence.kind.items} drawn again it is {number(again.value, 2)} (at most {key.slack} worse)."
    )
    excess = abs(found.value - ideal) - (abs(again.value - ideal) + key.slack)
    return _of_distribution(evidence, excess, finding, f"{key.claim}:")


def _of_distribution(evidence: Evidence, excess: float, finding: str, subject: str) -> Check:
    """A check that needs many items; `excess` is how far a value is beyond its limit, NaN where it is not known."""
    if evidence.n < MIN_ITEMS or not math.isfinite(excess):
        return Check(None, f"{subject} checked for {MIN_ITEMS} or more new {evidence.kind.items}.")
    why = "a subset, weights or conditions change the distribution" if evidence.conditioned else ""
    return _unless(why, excess <= 0, finding)


def _unless(why: str, passed: bool, finding: str) -> Check:
    return Check(None, f"{finding} Not checked, because {why}.") if why else Check(passed, finding)
