"""The checks behind a verdict: each a finding in a sentence, and whether it is within its limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .._backend.html import number, share
from ..data.comparison import Measure
from ..evaluation.fidelity import (
    AGREEMENT,
    PARTS,
    TAILS,
    TRAINING,
    TWO_SAMPLE,
    WITHIN,
    Fidelity,
    Judged,
    judged,
    lost_relations,
)
from .evidence import Evidence

MAX_COPIES, MIN_CLOSE_COPIES = 0.01, 0.1  # shares that equal a stored item: allowed, and enough for “close to copies”
MIN_DISTANCE_RATIO, COPY_DISTANCE_RATIO = 0.5, 0.25  # of `Evidence.distance_ratio`: allowed, and that of near-copies
MAX_TOO_FAR = 0.5  # share of items further from the stored ones than 95 % of these are from each other
MAX_EXTRA_PART_DISTANCE = 0.15  # mean distance of the parts beyond that of stored items drawn again
MAX_PART_RATIO = 2  # mean distance of the parts from held-out items, over that of the fitted half
MAX_LOST_RATIO, MAX_EXTRA_LOST = 2, 0.01  # of what all items have: lost by draws, over what the fitted half lacks
MIN_RELATIVE_DIVERSITY = 0.5
MAX_TRAIN_PROXIMITY = 0.75  # share nearer to the half they were made from: half-way from real items, 0.5, to copies, 1
MAX_NEAR_COPIES = 0.1  # of draws from a half: half-way, as a ratio, from real items, 0.01, to copies, 1
MAX_MEMBERSHIP_AUC = 0.6  # above it, samples are said to reveal their sources; 0.5 is chance
MAX_DISTINGUISHED = 0.25  # of the way from chance to certainty, for a classifier of new and held-out items
MAX_LOST_RELATIONS = 0.02  # share of the parts that others predict
MIN_ITEMS = 30  # new items that checks of a distribution need


class Check(NamedTuple):
    """The answer to one question, in a sentence or two; `passed` is None where it is not checked.

    A check without a finding does not apply to these items, such as one of classes where there are none.
    """

    passed: bool | None
    finding: str


class Checks(NamedTuple):
    """All checks, in the order of the page."""

    copies: Check
    near: Check
    far: Check
    near_copies: Check
    train_proximity: Check
    diversity: Check
    parts: Check
    whole: Check
    kept: Check
    coverage: Check
    marginals: Check
    two_sample: Check
    tails: Check
    relations: Check
    training: Check
    agreement: Check
    within: Check
    membership: Check


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
    near_copies, train_proximity, membership = _method_checks(evidence)
    diversity, parts, whole, coverage = _distribution_checks(evidence)
    marginals, two_sample, tails, relations, training, agreement, within = _fidelity_checks(evidence)
    return Checks(
        copies=_check(evidence.copies - limit, copies),
        near=_check(MIN_DISTANCE_RATIO - ratio, near, no_distances),
        far=_check(evidence.too_far - MAX_TOO_FAR, far, f"Too few stored {items} to tell which distances are large."),
        **{"near_copies": near_copies, "train_proximity": train_proximity, "membership": membership},
        **{"diversity": diversity, "parts": parts, "whole": whole, "kept": _kept(evidence), "coverage": coverage},
        **{"marginals": marginals, "two_sample": two_sample, "tails": tails, "relations": relations},
        **{"training": training, "agreement": agreement, "within": within},
    )


def _method_checks(evidence: Evidence) -> tuple[Check, Check, Check]:
    """Near-copies, train proximity and membership inference, which judge how the items were made."""
    found, item, items = evidence.split_half, evidence.synth.kind.item, evidence.synth.kind.items
    # They say nothing about items made in another way.
    why = "this validation leaves out the conditions" if evidence.synth.conditions else ""
    if not evidence.method_known:
        why = f"it is not known how these {items} were made"
    near_copies = (
        f"Of draws from half of the stored {items}, {share(found.near_copies)} are nearer to one {item} of that half "
        f"than 99 % of the other {items} are (ideally 1 %; at most {share(MAX_NEAR_COPIES)})."
    )
    proximity = (
        f"Of these draws, {share(found.train_proximity)} are nearer to the half they were made from than to the other "
        f"(ideally {share(0.5)}, for copies {share(1.0)}; at most {share(MAX_TRAIN_PROXIMITY)})."
    )
    membership = (
        f"The distance to the nearest sample tells stored {items} from others with an AUC of "
        f"{number(found.membership_auc, 2)} (0.5 is chance; at most {MAX_MEMBERSHIP_AUC} plus one standard error)."
    )
    error = found.membership_auc_std / len(found.splits) ** 0.5 if len(found.splits) > 1 else 0.0
    none = f"There is no held-out validation: {found.reason}."
    return (
        _check(found.near_copies - MAX_NEAR_COPIES, near_copies, none, why),
        _check(found.train_proximity - MAX_TRAIN_PROXIMITY, proximity, "", why),
        _check(
            found.membership_auc - error - MAX_MEMBERSHIP_AUC,
            membership,
            f"Membership inference was not tested: {found.reason}.",
            why,
        ),
    )


def _distribution_checks(evidence: Evidence) -> tuple[Check, Check, Check, Check]:
    """Diversity, the parts, the whole, and classes or clusters that are missing, which need many items."""
    kind, key, items = evidence.synth.kind, evidence.synth.kind.key_measure, evidence.synth.kind.items
    ratio = evidence.diversity / evidence.stored_diversity if evidence.stored_diversity > 0 else math.nan
    limit = f"{share(ratio)} of that of the stored {items} (at least {share(MIN_RELATIVE_DIVERSITY)})"
    subject, (new, resampled) = f"The distribution of each {kind.part}", evidence.part_distances
    most = resampled + MAX_EXTRA_PART_DISTANCE
    parts = (
        f"{subject} differs by {number(new, 2)} on average, on a scale from 0 to 1; for stored {items} "
        f"drawn again it differs by {number(resampled, 2)} (at most {number(most, 2)}).{_alone(evidence)[1]}"
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

    coverage = Check(None, "")
    if evidence.modes:
        missing = [mode for mode in evidence.modes if mode.is_rare(len(evidence.rows))]
        said = "; ".join(f"{m.name} has {share(m.new)} of them instead of {share(m.stored)}" for m in missing[:3])
        all_there = f"Each of {len(evidence.modes)} {evidence.mode_name} has at least half of its share."
        finding = f"{len(missing)} of {len(evidence.modes)} {evidence.mode_name} are rare: {said}."
        coverage = check(len(missing) - 0.5, finding if missing else all_there, "Shares of classes are")
    return (
        check(MIN_RELATIVE_DIVERSITY - ratio, f"Their diversity is {limit}.", "Diversity is"),
        check(max(new - most, _alone(evidence)[0]), parts, f"{subject} is"),
        check(excess, whole, f"{key.claim}:"),
        coverage,
    )


def _alone(evidence: Evidence) -> tuple[float, str]:
    """By how far the worst of the parts that are checked alone is beyond its limit, and a sentence on it."""
    if (worst := evidence.worst_separate_part) is None:
        return -math.inf, ""
    most = worst.resampled + MAX_EXTRA_PART_DISTANCE
    finding = f" That of {worst.name} differs by {number(worst.distance, 2)} (at most {number(most, 2)})."
    return worst.distance - most, finding


def _kept(evidence: Evidence) -> Check:
    """Whether draws from a half keep what the other half shows, as far as the half itself does."""
    wanted, items = evidence.synth.kind.kept_measure, evidence.synth.kind.items
    if wanted is None:
        return Check(None, "")
    found = [
        [
            next((one.value for one in measures if one.name == wanted.name), math.nan)
            for measures in (one.new, one.stored)
        ]
        for one in evidence.split_half.splits
    ]
    values = np.array([pair for pair in found if np.isfinite(pair).all()])
    if not len(values):
        return Check(None, "")
    (new, stored), error = values.mean(0), values[:, 0].std(ddof=min(1, len(values) - 1)) / math.sqrt(len(values))
    least = 1 - MAX_LOST_RATIO * (1 - stored) - MAX_EXTRA_LOST
    finding = (
        f"{wanted.claim}: in draws from half of the stored {items}, {share(new)} of those of the other half, and in "
        f"that half itself {share(stored)} (at least {share(least)} minus one standard error)."
    )
    return _check(least - error - new, finding)


def _marginals(evidence: Evidence, found: Sequence[Fidelity]) -> Check:
    """Whether each part is distributed as among held-out items, as far as the fitted half is."""
    values = np.array([one.scores[PARTS][:2] for one in found])
    if not len(values):
        return Check(None, "")
    (new, stored), error = values.mean(0), values[:, 0].std(ddof=min(1, len(values) - 1)) / math.sqrt(len(values))
    finding = (
        f"In draws from half of the stored {evidence.synth.kind.items}, each {evidence.synth.kind.part} differs from "
        f"that of the other half by {number(new, 2)}, and that of the half itself by {number(stored, 2)} (at most "
        f"{number(MAX_PART_RATIO * stored, 2)})."
    )
    return _check(new - error - MAX_PART_RATIO * stored, finding)


def _fidelity_checks(evidence: Evidence) -> tuple[Check, ...]:
    """Two-sample accuracy, relations between parts, and classes, on scales that the halves of the stored items set."""
    items = evidence.synth.kind.items
    found = [split.fidelity for split in evidence.split_half.splits if split.fidelity is not None]
    held_out, fitted = f"held-out {items}", f"the fitted {items}"
    percent = {
        TWO_SAMPLE: f"A classifier distinguishes new from {held_out} in {{}} of cases, and {fitted} from them in {{}} "
        "(at most {} plus one standard error; the limit is a quarter of the way to certainty).",
        TRAINING: f"Trained on new {items}, a classifier names the class of {held_out} in {{}} of cases; trained on "
        f"{fitted}, in {{}} (at least {{}} minus one standard error; the limit is half-way to one class for all).",
        AGREEMENT: f"Trained on {held_out}, it agrees with the class of new {items} in {{}} of cases, and with that of "
        f"{fitted} in {{}} (at least {{}} minus one standard error).",
    }
    checks = {}
    for name, finding in percent.items():
        checks[name] = _judged(judged(found, name, MAX_DISTINGUISHED if name == TWO_SAMPLE else 0.5), finding, share)
    if checks[TWO_SAMPLE].passed is None:
        checks[TWO_SAMPLE] = Check(
            None,
            f"Whether new {items} can be distinguished from {held_out} is not known: there is no held-out validation.",
        )
    numbers = {
        WITHIN: f"Within a class, the distribution of each feature differs from that of {held_out} by {{}} standard "
        f"deviations, and for {fitted} by {{}} (at most {{}} plus one standard error; the limit is half-way to random "
        "classes).",
        TAILS: f"The tails of each feature differ from those of {held_out} by a factor of exp({{}}), and for {fitted} "
        "of exp({}) (at most exp({}) plus one standard error; the limit is half-way to a normal law).",
    }
    checks |= {name: _judged(judged(found, name), finding, _two_digits) for name, finding in numbers.items()}
    return (
        *(_marginals(evidence, found), checks[TWO_SAMPLE], checks[TAILS], _relations(evidence, found)),
        *(checks[name] for name in (TRAINING, AGREEMENT, WITHIN)),
    )


def _relations(evidence: Evidence, found: Sequence[Fidelity]) -> Check:
    """Whether each part is related to the others as it is among stored items."""
    kind, items, (predicted, lost) = evidence.synth.kind, evidence.synth.kind.items, lost_relations(found)
    if not len(predicted):
        return Check(None, "")
    names = kind.parts(evidence.synth.codec)[0]
    worst = ", ".join(names[i] for i in lost[:3]) + (" and others" if len(lost) > 3 else "")
    which = f" ({worst})" if len(lost) else ""
    finding = (
        f"Among the fitted {items}, other {kind.part}s predict {len(predicted):,} of {len(names):,}; {len(lost):,} of "
        f"these lost half of that or more among new {items}{which} (at most {share(MAX_LOST_RELATIONS)})."
    )
    return Check(len(lost) <= MAX_LOST_RELATIONS * len(predicted), finding)


def _judged(score: Judged | None, finding: str, shown: Callable[[float], str]) -> Check:
    """The check of a score; the finding has places for the scores of new and of stored items, and for the limit."""
    if score is None:
        return Check(None, "")
    return Check(score.excess <= 0, finding.format(*map(shown, (score.new, score.stored, score.limit))))


def _two_digits(value: float) -> str:
    return number(value, 2)


def is_distinguishable(evidence: Evidence) -> bool:
    """Whether new items are further from chance than from certainty, or it is not known."""
    found = [split.fidelity for split in evidence.split_half.splits if split.fidelity is not None]
    score = judged(found, TWO_SAMPLE)
    return score is None or score.excess > 0


def _check(excess: float, finding: str, unknown: str = "", why: str = "") -> Check:
    """By how far a value is beyond its limit; `unknown` is said if that is NaN, `why` is a reason not to check it."""
    if not math.isfinite(excess):
        return Check(None, unknown)
    if why:
        return Check(None, f"{finding} Not checked, because {why}.")
    return Check(bool(np.less_equal(excess, 0)), finding)
