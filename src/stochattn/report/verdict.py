"""What the measurements mean: checks with stated limits, and the headline that follows from them."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

from .._backend.html import number, share
from ..data.comparison import Measure
from .evidence import Evidence

MAX_COPIES, MIN_CLOSE_COPIES = 0.01, 0.1  # shares that equal a stored item: allowed, and enough for “close to copies”
MIN_DISTANCE_RATIO, COPY_DISTANCE_RATIO = 0.5, 0.25  # of `Evidence.distance_ratio`: allowed, and that of near-copies
MAX_TOO_FAR = 0.5  # share of items further from the stored ones than 95 % of these are from each other
MAX_EXTRA_PART_DISTANCE = 0.15  # mean distance of the parts beyond that of stored items drawn again
MIN_RELATIVE_DIVERSITY = 0.5
MAX_TRAIN_PROXIMITY = 0.98  # share nearer to the half they were made from; above it, each is a stored item with noise
MAX_MEMBERSHIP_AUC = 0.6  # above it, samples are said to reveal their sources; 0.5 is chance
MIN_ITEMS = 30  # new items that checks of a distribution need
HOPFIELD = "hopfield"
AWAY = "a lower beta, or a higher novelty, moves them away from the stored ones."
BACK = "a higher beta, or a lower novelty, moves them back to the stored ones."


class Tone(StrEnum):
    """How good the news is; also the class of the box that shows it."""

    GOOD, FAIR, BAD = "good", "fair", "bad"


class Check(NamedTuple):
    """The answer to one question, in a sentence or two; `passed` is None where it is not checked."""

    passed: bool | None
    finding: str


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
    checks, item, items = checks_of(evidence), evidence.synth.kind.item, evidence.synth.kind.items
    failed = {name for name, check in checks._asdict().items() if check.passed is False}
    copied = evidence.copies > MIN_CLOSE_COPIES + evidence.stored_duplicates
    copied = copied or evidence.distance_ratio < COPY_DISTANCE_RATIO
    noisy = "far" in failed or {"parts", "whole"} <= failed
    if evidence.synth.describe().temperature is not None:
        away, back = (effect[0].upper() + effect[1:] for effect in (AWAY, BACK))
    else:  # which generator has a beta, where this one has none
        known = HOPFIELD in evidence.synth.kind.generators
        away, back = (f"With the generator “{HOPFIELD}”, {effect}" if known else "" for effect in (AWAY, BACK))
    unlike = "Their values do not follow the stored ones: see Fidelity."
    unchecked = "Their distribution is not checked, because a subset, weights or conditions change it."
    too_close, equal = f"Each is too close to one stored {item}.", f"Drop those that equal a stored {item}."
    findings = (
        (copied, "Close to copies", Tone.BAD, away),
        ("diversity" in failed, "Too similar to each other", Tone.BAD, f"They vary less than the stored {items} do."),
        (noisy, "Mostly noise", Tone.BAD, back),
        ("parts" in failed, "New, but distributed differently", Tone.BAD, unlike),
        ("whole" in failed, f"New, but {evidence.synth.kind.key_measure.failure}", Tone.BAD, back),
        ("near" in failed, f"Close variants of stored {items}", Tone.FAIR, away),
        ("train_proximity" in failed, f"Stored {items} with noise", Tone.FAIR, too_close),
        ("copies" in failed, "New and faithful, with some copies", Tone.FAIR, equal),
        (evidence.conditioned, "New", Tone.GOOD, unchecked),
        (True, "New and faithful", Tone.GOOD, f"They differ from the stored {items} and follow the same distribution."),
    )
    headline, tone, advice = next((title, tone, advice) for applies, title, tone, advice in findings if applies)
    if evidence.n < MIN_ITEMS:
        headline += f", as far as {f'{evidence.n} {items}' if evidence.n > 1 else 'one'} can show"
    if "membership" in failed:
        headline += f", {'but' if tone is Tone.GOOD else 'and'} they reveal their sources"
        advice += f" Do not share them if the stored {items} are confidential."
        tone = Tone.FAIR if tone is Tone.GOOD else tone
    return Verdict(headline, tone, advice, checks)


def checks_of(evidence: Evidence) -> Checks:
    """All checks of the evidence."""
    item, items, ratio = evidence.synth.kind.item, evidence.synth.kind.items, evidence.distance_ratio
    limit = MAX_COPIES + evidence.stored_duplicates
    doubled = f", because some stored {items} are duplicates" if evidence.stored_duplicates else ""
    copies = f"{share(evidence.copies)} equal a stored {item} in every value (at most {share(limit)}{doubled})."
    near = (
        f"Their median distance to the nearest stored {item} is {share(ratio)} of the distance between stored "
        f"{items} (at least {share(MIN_DISTANCE_RATIO)}; below {share(COPY_DISTANCE_RATIO)} they count as copies)."
    )
    far = (
        f"{share(evidence.too_far)} are further from every stored {item} than 95 % of stored {items} are from "
        f"their nearest neighbour (at most {share(MAX_TOO_FAR)})."
    )
    no_distances = f"Too few different stored {items} to measure the distance between them."
    # Train proximity and membership inference of the method say nothing about items made in another way.
    found, why = evidence.split_half, "this validation leaves out the conditions" if evidence.synth.conditions else ""
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
    error = found.membership_auc_std / len(found.splits) ** 0.5 if len(found.splits) > 1 else 0.0
    no_proximity = f"There is no held-out validation: {found.reason}."
    no_membership = f"Membership inference was not tested: {found.reason}."
    return Checks(
        _check(evidence.copies - limit, copies),
        _check(MIN_DISTANCE_RATIO - ratio, near, no_distances),
        _check(evidence.too_far - MAX_TOO_FAR, far, f"Too few stored {items} to tell which distances are large."),
        _check(found.train_proximity - MAX_TRAIN_PROXIMITY, proximity, no_proximity, why),
        *_distribution_checks(evidence),
        _check(found.membership_auc - error - MAX_MEMBERSHIP_AUC, membership, no_membership, why),
    )


def _distribution_checks(evidence: Evidence) -> tuple[Check, Check, Check]:
    """Diversity, the parts, and the whole, which need many items."""
    kind, key, items = evidence.synth.kind, evidence.synth.kind.key_measure, evidence.synth.kind.items
    ratio = evidence.diversity / evidence.stored_diversity if evidence.stored_diversity > 0 else math.nan
    limit = f"{share(ratio)} of that of the stored {items} (at least {share(MIN_RELATIVE_DIVERSITY)})"
    subject, (new, resampled) = f"The distribution of each {kind.part}", evidence.part_distances
    most = resampled + MAX_EXTRA_PART_DISTANCE
    parts = (
        f"{subject} differs by {number(new, 2)} on average, on a scale from 0 to 1; for stored {items} "
        f"drawn again it differs by {number(resampled, 2)} (at most {number(most, 2)})."
    )
    unknown = Measure(key.name, math.nan, None, "")
    both = (evidence.comparison, evidence.resampled)
    found, again = (next((one for one in some.measures if one.name == key.name), unknown) for some in both)
    ideal = math.nan if found.ideal is None else found.ideal
    whole = (
        f"{key.claim}: {key.name} {number(found.value, 2)}, ideally {number(ideal, 2)}; for stored "
        f"{items} drawn again it is {number(again.value, 2)} (at most {key.slack} worse)."
    )
    excess = abs(found.value - ideal) - (abs(again.value - ideal) + key.slack)

    def check(excess: float, finding: str, subject: str) -> Check:
        why = "a subset, weights or conditions change the distribution" if evidence.conditioned else ""
        unknown = f"{subject} checked for {MIN_ITEMS} or more new {items}."
        return _check(excess if evidence.n >= MIN_ITEMS else math.nan, finding, unknown, why)

    return (
        check(MIN_RELATIVE_DIVERSITY - ratio, f"Their diversity is {limit}.", "Diversity is"),
        check(new - most, parts, f"{subject} is"),
        check(excess, whole, f"{key.claim}:"),
    )


def _check(excess: float, finding: str, unknown: str = "", why: str = "") -> Check:
    """By how far a value is beyond its limit; `unknown` is said if that is NaN, `why` is a reason not to check it."""
    if not math.isfinite(excess):
        return Check(None, unknown)
    return Check(None, f"{finding} Not checked, because {why}.") if why else Check(excess <= 0, finding)
