"""The checks behind a verdict: each a finding in a sentence, and whether it is within its limit.

What the checks mean together: the headline, how good it is, and what to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np

from .._backend.html import number, share
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
from ..evaluation.inspection import Mode, is_beyond
from ..evaluation.relabeling import CORRELATIONS, NEARNESS, RELATIONS
from ..kinds.comparison import Measure
from .evidence import Evidence

MAX_COPIES, MIN_CLOSE_COPIES = 0.01, 0.1  # shares that equal a stored item: allowed, and enough for “close to copies”
MIN_DISTANCE_RATIO, COPY_DISTANCE_RATIO = 0.5, 0.25  # of `Evidence.distance_ratio`: allowed, and that of near-copies
MAX_TOO_FAR = 0.5  # share of items further from the stored ones than 95 % of these are from each other
MAX_EXTRA_PART_DISTANCE = 0.15  # of parts, on average beyond that of stored items drawn again, or of one beyond chance
MAX_PART_RATIO = 2  # mean distance of the parts from held-out items, over that of the fitted half
MAX_LOST_RATIO, MAX_EXTRA_LOST = 2, 0.01  # of what all items have: lost by draws, over what the fitted half lacks
MIN_RELATIVE_DIVERSITY = 0.5
MAX_TRAIN_PROXIMITY = 0.75  # share nearer to the half they were made from: half-way from real items, 0.5, to copies, 1
MAX_NEAR_COPIES = 0.1  # of draws from a half: half-way, as a ratio, from real items, 0.01, to copies, 1
MAX_MEMBERSHIP_AUC = 0.6  # above it, samples are said to reveal their sources; 0.5 is chance
MAX_DISTINGUISHED = 0.25  # of the way from chance to certainty, for a classifier of new and held-out items
MAX_LOST_RELATIONS = 0.02  # share of the parts that others predict
MIN_ITEMS = 30  # new items that checks of a distribution need
MAX_NAMES = 5  # parts or classes that a sentence names


class Check(NamedTuple):
    """The answer to one question, in a sentence or two; `passed` is None where it is not checked.

    A check without a finding does not apply to these items, such as one of classes where there are none.
    """

    passed: bool | None
    finding: str


class Checks(NamedTuple):
    """All checks, in the order of the page."""

    copies: Check
    identifiers: Check
    repeats: Check
    near: Check
    far: Check
    near_copies: Check
    train_proximity: Check
    diversity: Check
    parts: Check
    single_parts: Check
    whole: Check
    kept: Check
    recall: Check
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
    n_copies = round(evidence.copies * len(evidence.rows))
    # Of real rows a few may equal stored ones by chance; those that a generator draws have no such excuse.
    is_chance = not evidence.method_known and (
        not is_beyond(n_copies, len(evidence.rows), limit)
        or (evidence.repeats is not None and evidence.repeats.copies_by_chance)
    )
    return Checks(
        copies=_check(min(evidence.copies - limit, 0.0) if is_chance else evidence.copies - limit, copies),
        identifiers=_identifiers(evidence),
        repeats=_repeats(evidence),
        near=_unless_by_chance(evidence, NEARNESS, _check(MIN_DISTANCE_RATIO - ratio, near, no_distances)),
        far=_check(evidence.too_far - MAX_TOO_FAR, far, f"Too few stored {items} to tell which distances are large."),
        **{"near_copies": near_copies, "train_proximity": train_proximity, "membership": membership},
        **{"diversity": diversity, "parts": parts, "whole": whole, "kept": _kept(evidence), "coverage": coverage},
        recall=_recall(evidence),
        single_parts=_single_parts(evidence),
        **{"marginals": marginals, "two_sample": two_sample, "tails": tails, "relations": relations},
        **{"training": training, "agreement": agreement, "within": within},
    )


def _identifiers(evidence: Evidence) -> Check:
    """Whether new items have identifiers of stored ones."""
    item, items, repeated = evidence.synth.kind.item, evidence.synth.kind.items, evidence.repeated_identifiers
    if not repeated:
        return Check(None, "")
    limits = {name: MAX_COPIES + stored for name, (_, stored) in repeated.items()}
    worst = max(repeated, key=lambda name: repeated[name][0] - limits[name])
    of_new = repeated[worst][0]
    finding = (
        f"{share(of_new)} of the new {items} have an identifier of a stored {item} in {worst!r} "
        f"(at most {share(min(limits[worst], 1.0))})."
    )
    return Check(not is_beyond(round(of_new * evidence.n), evidence.n, limits[worst]), finding)


def _repeats(evidence: Evidence) -> Check:
    """Whether new items equal each other more often than stored ones do."""
    if (repeats := evidence.repeats) is None:
        return Check(None, "")
    finding = (
        f"Among as many as are stored, {share(repeats.new)} equal an earlier new {evidence.synth.kind.item}; "
        f"of the stored {evidence.synth.kind.items}, {share(repeats.stored)} equal an earlier one "
        f"(at most {share(MAX_COPIES)} more, or what chance gives)."
    )
    excess = repeats.new - repeats.stored - MAX_COPIES
    return _check(min(excess, -1.0) if repeats.by_chance else excess, finding, "", _changed_on_purpose(evidence))


def _single_parts(evidence: Evidence) -> Check:
    """Whether each part is distributed as among stored items, by itself."""
    n_parts = len(evidence.separate_parts)
    if not n_parts:
        return Check(None, "")
    different = evidence.different_parts(MAX_EXTRA_PART_DISTANCE)
    worst = ", ".join(f"{part.name} by {number(part.distance, 2)}" for part in different[:MAX_NAMES])
    more = f", and {len(different) - MAX_NAMES} more" if len(different) > MAX_NAMES else ""
    finding = (
        f"{len(different)} of {n_parts} distributions differ by more than {MAX_EXTRA_PART_DISTANCE} and than chance "
        f"explains{': ' if different else ''}{worst}{more}."
    )
    return _check(len(different) - 0.5, finding, "", _changed_on_purpose(evidence))


def _changed_on_purpose(evidence: Evidence) -> str:
    return "a subset, weights or conditions change the distribution" if evidence.conditioned else ""


def _unless_by_chance(evidence: Evidence, name: str, check: Check) -> Check:
    """The check, which is passed if random divisions of stored and new items differ as much in this respect."""
    relabeling = evidence.relabeling
    if check.passed is not False or evidence.conditioned or relabeling is None:
        return check
    is_measure = name == evidence.synth.kind.measures.key.name != CORRELATIONS
    explains = relabeling.explains_measure if is_measure else relabeling.explains
    if not explains(name):
        return check
    chance = f" A random division of the stored and new {evidence.synth.kind.items} differs as much, so it is passed."
    return Check(True, check.finding + chance)


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
    kind, key, items = evidence.synth.kind, evidence.synth.kind.measures.key, evidence.synth.kind.items
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
        unknown = f"{subject} checked for {MIN_ITEMS} or more new {items}."
        why = _changed_on_purpose(evidence)
        return _check(excess if evidence.n >= MIN_ITEMS else math.nan, finding, unknown, why)

    coverage, rare = Check(None, ""), evidence.rare[1]
    if evidence.modes or rare:
        all_there = f"Each of {len(evidence.modes)} {evidence.mode_name} has at least half of its share."
        finding = f"Fewer than half as many as among the stored: {names_of_rare(rare)}."
        coverage = _check(len(rare) - 0.5, finding if rare else all_there, "", _changed_on_purpose(evidence))
    whole_check = check(excess, whole, f"{key.claim}:")
    if evidence.separate_parts:  # items are independent of each other, and quick to compare
        whole_check = _unless_by_chance(evidence, key.name, whole_check)
    return (
        check(MIN_RELATIVE_DIVERSITY - ratio, f"Their diversity is {limit}.", "Diversity is"),
        _unless_by_chance(evidence, PARTS, check(new - most, parts, f"{subject} is")),
        whole_check,
        coverage,
    )


def names_of_rare(rare: Sequence[Mode]) -> str:
    """Rare classes or categories in words, with their shares."""
    shares = (f"{mode.name} ({share(mode.new)} instead of {share(mode.stored)})" for mode in rare[:MAX_NAMES])
    return "; ".join(shares) + (f"; and {len(rare) - MAX_NAMES} more" if len(rare) > MAX_NAMES else "")


def _recall(evidence: Evidence) -> Check:
    """Whether an aspect of new items is closer to what stored items have among each other than to copies."""
    wanted, items = evidence.synth.kind.measures.recall, evidence.synth.kind.items
    measures = [one for one in evidence.comparison.measures if wanted is not None and one.name in wanted.names]
    pairs = [(one.value - (one.ideal + 1) / 2, one) for one in measures if one.ideal is not None]
    if wanted is None or not pairs:
        return Check(None, "")
    excess, worst = max(pairs, key=lambda pair: pair[0])
    ideal = worst.value if worst.ideal is None else worst.ideal
    finding = (
        f"{wanted.claim}: {worst.name} {number(worst.value, 2)}, and among stored {items} {number(ideal, 2)} (1 for "
        f"copies; at most {number((ideal + 1) / 2, 2)}, half-way)."
    )
    return _check(excess, finding)


def _kept(evidence: Evidence) -> Check:
    """Whether draws from a half keep what the other half shows, as far as the half itself does."""
    wanted, items = evidence.synth.kind.measures.kept, evidence.synth.kind.items
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
    return _unless_by_chance(evidence, PARTS, _check(new - error - MAX_PART_RATIO * stored, finding))


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
        *(_marginals(evidence, found), checks[TWO_SAMPLE], _unless_by_chance(evidence, TAILS, checks[TAILS])),
        _unless_by_chance(evidence, RELATIONS, _relations(evidence, found)),
        _unless_by_chance(evidence, TRAINING, checks[TRAINING]),
        *(checks[name] for name in (AGREEMENT, WITHIN)),
    )


def _relations(evidence: Evidence, found: Sequence[Fidelity]) -> Check:
    """Whether each part is related to the others as it is among stored items."""
    kind, items, (predicted, lost) = evidence.synth.kind, evidence.synth.kind.items, lost_relations(found)
    if not len(predicted):
        return Check(None, "")
    names = kind.measures.parts(evidence.synth.codec)[0]
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


HOPFIELD = "hopfield"
AWAY = "lower beta, or raise novelty, to move them away from the stored ones."
BACK = "raise beta, or lower novelty, to move them back to the stored ones."


class Tone(StrEnum):
    """How good the news is; also the class of the box that shows it."""

    GOOD, FAIR, BAD = "good", "fair", "bad"


class Finding(NamedTuple):
    """A headline, how good it is, and what to do."""

    headline: str
    tone: Tone
    advice: str


class Verdict(NamedTuple):
    """The headline, how good it is, what to do, and the checks behind it."""

    headline: str
    tone: Tone
    advice: str
    checks: Checks


def verdict_on(evidence: Evidence) -> Verdict:
    """The verdict on new items: the worst finding that the checks support. It is good only if all was judged."""
    checks, items = checks_of(evidence), evidence.synth.kind.items
    failed = {name for name, check in checks._asdict().items() if check.passed is False}
    membership = "membership" in failed
    many_copies = "copies" in failed and evidence.copies > MIN_CLOSE_COPIES + evidence.stored_duplicates
    if many_copies or evidence.distance_ratio < COPY_DISTANCE_RATIO:
        failed.add("copied" if evidence.method_known or evidence.copies < 1 else "stored")
    different = evidence.different_parts(MAX_EXTRA_PART_DISTANCE)
    few_differ = "single_parts" in failed and len(different) <= len(evidence.separate_parts) / 2
    if not few_differ and ("far" in failed or ({"parts", "whole"} <= failed and is_distinguishable(evidence))):
        failed.add("noise")
    if few_differ or evidence.varies:  # angles between them may be small as they lie away from the stored ones
        failed.discard("diversity")
    numbers = tuple(f"{part.name}: " for part in different if part.values is not None and not part.values().are_names)
    is_explained = all(mode.name.startswith(numbers) for mode in evidence.rare_categories)
    if few_differ and is_explained and evidence.mode_name == "clusters":
        failed.discard("coverage")  # what is missing follows from the parts that differ, which say more
    if "marginals" in failed:
        failed.add("parts")
    named = evidence.mode_name == "classes" and (evidence.says_classes or "noise" not in failed)
    if "coverage" in failed and (evidence.rare_categories or named):
        lasting = MIN_RELATIVE_DIVERSITY * evidence.diversity_of_present
        failed |= {"missing"} if "diversity" not in failed or evidence.diversity >= lasting else set()
    if "single_parts" in failed:
        failed |= {"parts", "swapped"} if evidence.swapped_parts(MAX_EXTRA_PART_DISTANCE) else {"parts"}
    if {"training", "agreement", "within"} & failed:
        failed.add("classes")
    unjudged = _unjudged(checks)
    if unjudged:
        failed.add("unjudged")
    advice = f"They differ from the stored {items} and follow the same distribution."
    found = Finding("New and faithful", Tone.GOOD, advice)
    headline, tone, advice = next((one for name, one in _findings(evidence, unjudged) if name in failed), found)
    if evidence.n < MIN_ITEMS:
        headline += f", as far as {f'{evidence.n} {items}' if evidence.n > 1 else 'one'} can show"
    if membership:
        headline += f", {'but' if tone is Tone.GOOD else 'and'} they reveal their sources"
        advice += f" Do not share them if the stored {items} are confidential."
        tone = Tone.FAIR if tone is Tone.GOOD else tone
    return Verdict(headline, tone, advice, checks)


def _findings(evidence: Evidence, unjudged: str) -> Iterator[tuple[str, Finding]]:
    """What a failed check means, the worst first."""
    kind, item, items = evidence.synth.kind, evidence.synth.kind.item, evidence.synth.kind.items
    if evidence.synth.describe().temperature is not None:
        away, back = (effect[0].upper() + effect[1:] for effect in (AWAY, BACK))
    else:  # which generator has a beta, where this one has none
        known = HOPFIELD in kind.generators
        away, back = (f"With the generator “{HOPFIELD}”, {effect}" if known else "" for effect in (AWAY, BACK))
    bad, fair = partial(Finding, tone=Tone.BAD), partial(Finding, tone=Tone.FAIR)
    unlike = f"What has the name of a class is not like the stored {items} of it. Generate one class at a time."
    same = f"Each equals a stored {item} in every value. Pass the file of new {items}."
    yield "stored", bad(f"These are stored {items}", advice=same)
    yield "copied", bad("Close to copies", advice=away)
    shared = ", ".join(name for name, (new, stored) in evidence.repeated_identifiers.items() if new > stored)
    anew = f"Number them anew: {shared} is as in stored {items}."
    yield "identifiers", bad(f"New, but with identifiers of stored {items}", advice=anew)
    pairs = evidence.swapped_parts(MAX_EXTRA_PART_DISTANCE)[:MAX_NAMES]
    said = ", ".join(f"{first} and {second}" for first, second in pairs)
    yield (
        "swapped",
        bad(f"New, but {kind.part}s seem to be swapped", advice=f"Each has the values of the other: {said}."),
    )
    what, missing = evidence.rare
    rare = names_of_rare(missing)
    yield "missing", bad(f"New, but some {what} are missing", advice=f"Fewer than half of their share: {rare}.")
    yield "diversity", bad("Too similar to each other", advice=f"They vary less than the stored {items} do.")
    yield "noise", bad("Mostly noise", advice=back)
    yield (
        "coverage",
        bad(f"New, but some {evidence.mode_name} are missing", advice=f"Fewer than half of their share: {rare}."),
    )
    wrong = [part.name for part in evidence.different_parts(MAX_EXTRA_PART_DISTANCE)]
    which = ", ".join(wrong[:MAX_NAMES]) + (f" and {len(wrong) - MAX_NAMES} more" if len(wrong) > MAX_NAMES else "")
    general = "Their values do not follow the stored ones."
    specific = f"Not distributed as among stored {items}: {which}."
    yield "parts", bad("New, but distributed differently", advice=specific if wrong else general)
    yield "whole", bad(f"New, but {kind.measures.key.failure}", advice=back)
    if kind.measures.recall is not None:
        advice = kind.measures.recall.advice or away
        yield "recall", bad(f"New, but {kind.measures.recall.failure}", advice=advice)
    if kind.measures.kept is not None:
        lost = f"What nearly all stored {items} have in common is not in all of them."
        yield "kept", bad(f"New, but {kind.measures.kept.failure}", advice=lost)
    yield "classes", bad("New, but their classes are wrong", advice=unlike)
    lost = f"Do not use them to study how {kind.part}s are related."
    yield "relations", bad(f"New, but relations between {kind.part}s are lost", advice=lost)
    thin = f"Their extreme values are not those of the stored {items}."
    yield "tails", bad("New, but their extremes are wrong", advice=thin)
    yield "near", fair(f"Close variants of stored {items}", advice=away)
    closer = f"are closer to a stored {item} than new {items} would be."
    yield "train_proximity", fair(f"Stored {items} with noise", advice=f"Most {closer}")
    yield "near_copies", fair(f"New, with near-copies of stored {items}", advice=f"Some {closer}")
    apart = "They differ from them in a way that the other checks do not name."
    yield "two_sample", fair(f"New, but distinguishable from stored {items}", advice=apart)
    repeats = 0.0 if evidence.repeats is None else evidence.repeats.new
    again = f"{share(repeats)} equal an earlier one: drop those."
    yield "repeats", fair(f"New, but some {items} are repeated", advice=again)
    yield "copies", fair("New and faithful, with some copies", advice=f"Drop those that equal a stored {item}.")
    new = "New" if evidence.n < MIN_ITEMS else "New, but not all could be judged"
    yield "unjudged", fair(new, advice=f"Not judged: {unjudged}.")


def _unjudged(checks: Checks) -> str:
    """What a good verdict needs and could not be judged, in words; empty if all of it was."""
    needed = {
        "distribution": (checks.diversity, checks.parts, checks.whole),
        "likeness to held-out items": (checks.two_sample,),
        "privacy": (checks.membership, checks.near_copies, checks.train_proximity),
    }
    return ", ".join(name for name, some in needed.items() if any(check.passed is None for check in some))
