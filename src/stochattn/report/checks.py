"""The checks behind a verdict and the verdict itself.

A check is a finding in a sentence, and whether it is within its limit. The verdict is a headline, how good it is, and
what to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array
from .._backend.html import number, share
from ..evaluation.fidelity import (
    AGREEMENT,
    CORRELATIONS,
    NEARNESS,
    PARTS,
    RELATIONS,
    TAILS,
    TRAINING,
    TWO_SAMPLE,
    WITHIN,
    Fidelity,
    find_lost_relations,
    judge_score,
)
from ..evaluation.inspection import Mode, is_beyond
from ..kinds.comparison import Measure
from ..kinds.options import listed
from .evidence import MAX_EXTRA_PART_DISTANCE, Evidence

MAX_COPIES, MIN_CLOSE_COPIES = 0.01, 0.1  # shares equal to a stored item: the limit, and “close to copies”
MIN_DISTANCE_RATIO, COPY_DISTANCE_RATIO = 0.5, 0.25  # of `Evidence.distance_ratio`: the limit, and that of copies
MAX_TOO_FAR = 0.5  # share of items further from stored items than 95 % of these are from each other
MAX_PART_RATIO = 2  # mean distance of the parts from held-out items, divided by that of the fitted half
MAX_LOST_RATIO, MAX_EXTRA_LOST = 2, 0.01  # lost by draws, divided by what the fitted half lacks
MIN_RELATIVE_DIVERSITY = 0.5
MAX_TRAIN_PROXIMITY = 0.75  # share nearer to the fitted half: the mean of real items, 0.5, and copies, 1
MAX_NEAR_COPIES = 0.1  # of draws from a half: the geometric mean of real items, 0.01, and copies, 1
MAX_MEMBERSHIP_AUC = 0.6  # above it, samples are said to reveal their sources; 0.5 is chance
MAX_DISTINGUISHED = 0.25  # limit of two-sample accuracy, on a scale from 0, chance, to 1, always right
MAX_LOST_RELATIONS = 0.02  # share of the parts that others predict
MIN_ITEMS = 30  # new items that checks of a distribution need
MAX_NAMES = 5  # parts or classes that a sentence names


class Check(NamedTuple):
    """The answer to one question, in a sentence or two; `passed` is None if it is not checked.

    A check without a finding does not apply to these items, such as a check of classes if there are none.
    """

    passed: bool | None = None
    finding: str = ""


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


def run_checks(evidence: Evidence) -> Checks:
    """Run all checks on the evidence."""
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
        f"their nearest neighbor (at most {share(MAX_TOO_FAR)})."
    )
    no_distances = f"Too few different stored {items} to measure the distance between them."
    n_copies = round(evidence.copies * len(evidence.rows))
    # A few real items may equal stored items by chance; items that a generator drew have no such excuse.
    is_chance = not evidence.method_known and (
        not is_beyond(n_copies, len(evidence.rows), limit)
        or (evidence.repeats is not None and evidence.repeats.copies_by_chance)
    )
    return Checks(
        copies=_check(min(evidence.copies - limit, 0.0) if is_chance else evidence.copies - limit, copies),
        identifiers=_check_identifiers(evidence),
        repeats=_check_repeats(evidence),
        near=_allow_chance(evidence, NEARNESS, _check(MIN_DISTANCE_RATIO - ratio, near, no_distances)),
        far=_check(evidence.too_far - MAX_TOO_FAR, far, f"Too few stored {items} to tell which distances are large."),
        single_parts=_check_single_parts(evidence),
        kept=_check_kept(evidence),
        recall=_check_recall(evidence),
        **_check_method(evidence),
        **_check_distribution(evidence),
        **_check_fidelity(evidence),
    )


def _check_identifiers(evidence: Evidence) -> Check:
    shares = {name: (new, MAX_COPIES + stored) for name, (new, stored) in evidence.repeated_identifiers.items()}
    if not shares:
        return Check()
    worst, (new, limit) = max(shares.items(), key=lambda entry: entry[1][0] - entry[1][1])
    finding = (
        f"{share(new)} of the new {evidence.synth.kind.items} have an identifier of a stored "
        f"{evidence.synth.kind.item} in {worst!r} (at most {share(min(limit, 1.0))})."
    )
    return Check(not is_beyond(round(new * evidence.n), evidence.n, limit), finding)


def _check_repeats(evidence: Evidence) -> Check:
    if (repeats := evidence.repeats) is None:
        return Check()
    finding = (
        f"Among as many as are stored, {share(repeats.new)} equal an earlier new {evidence.synth.kind.item}; "
        f"of the stored {evidence.synth.kind.items}, {share(repeats.stored)} do "
        f"(at most {share(MAX_COPIES)} more, or what chance gives)."
    )
    excess = repeats.new - repeats.stored - MAX_COPIES
    return _check(min(excess, -1.0) if repeats.by_chance else excess, finding, "", _explain_change(evidence))


def _check_single_parts(evidence: Evidence) -> Check:
    n_parts = len(evidence.separate_parts)
    if not n_parts:
        return Check()
    different = evidence.different_parts
    worst = listed([f"{part.name} by {number(part.distance, 2)}" for part in different], MAX_NAMES)
    finding = (
        f"{len(different)} of {n_parts} distributions differ by more than {MAX_EXTRA_PART_DISTANCE} and than chance "
        f"explains{': ' if different else ''}{worst}."
    )
    return _check(len(different) - 0.5, finding, "", _explain_change(evidence))


def _explain_change(evidence: Evidence) -> str:
    return "a subset, weights or conditions change the distribution" if evidence.conditioned else ""


def _allow_chance(evidence: Evidence, name: str, check: Check) -> Check:
    """Return the check, passed if random divisions of stored and new items differ as much in this respect."""
    relabeling = evidence.relabeling
    if check.passed is not False or evidence.conditioned or relabeling is None:
        return check
    is_measure = name == evidence.synth.kind.measures.key.name != CORRELATIONS
    explains = relabeling.explains_measure if is_measure else relabeling.explains
    if not explains(name):
        return check
    chance = f" A random division of the stored and new {evidence.synth.kind.items} differs as much, so it is passed."
    return Check(True, check.finding + chance)


def _check_method(evidence: Evidence) -> dict[str, Check]:
    """Check near-copies, train proximity and membership inference, which judge how the items were made."""
    half, item, items = evidence.split_half, evidence.synth.kind.item, evidence.synth.kind.items
    # These checks say nothing about items that were made in another way.
    why = "this validation leaves out the conditions" if evidence.synth.conditions else ""
    if not evidence.method_known:
        why = f"it is not known how these {items} were made"
    near_copies = (
        f"Of draws from half of the stored {items}, {share(half.near_copies)} are nearer to one {item} of that half "
        f"than 99 % of the other {items} are (ideally 1 %; at most {share(MAX_NEAR_COPIES)})."
    )
    proximity = (
        f"Of these draws, {share(half.train_proximity)} are nearer to the half they were made from than to the other "
        f"(ideally {share(0.5)}, for copies {share(1.0)}; at most {share(MAX_TRAIN_PROXIMITY)})."
    )
    membership = (
        f"The distance to the nearest sample tells stored {items} from others with an AUC of "
        f"{number(half.membership_auc, 2)} (0.5 is chance; at most {MAX_MEMBERSHIP_AUC} plus one standard error)."
    )
    error = half.membership_auc_std / len(half.splits) ** 0.5 if len(half.splits) > 1 else 0.0
    excess = half.membership_auc - error - MAX_MEMBERSHIP_AUC
    no_splits = f"There is no held-out validation: {half.reason}."
    return {
        "near_copies": _check(half.near_copies - MAX_NEAR_COPIES, near_copies, no_splits, why),
        "train_proximity": _check(half.train_proximity - MAX_TRAIN_PROXIMITY, proximity, "", why),
        "membership": _check(excess, membership, f"Membership inference was not tested: {half.reason}.", why),
    }


def _check_distribution(evidence: Evidence) -> dict[str, Check]:
    """Check diversity, the parts, the whole, and the shares of classes or clusters, which need many items."""
    kind, key, items = evidence.synth.kind, evidence.synth.kind.measures.key, evidence.synth.kind.items
    ratio = evidence.diversity / evidence.stored_diversity if evidence.stored_diversity > 0 else math.nan
    limit = f"{share(ratio)} of that of the stored {items} (at least {share(MIN_RELATIVE_DIVERSITY)})"
    subject = f"The distribution of each {kind.part}"
    new, resampled = evidence.comparison.distance, evidence.resampled.distance
    max_distance = resampled + MAX_EXTRA_PART_DISTANCE
    parts = (
        f"{subject} differs by {number(new, 2)} on average, on a scale from 0 to 1; for stored {items} "
        f"drawn again it differs by {number(resampled, 2)} (at most {number(max_distance, 2)})."
    )
    missing = Measure(key.name, math.nan, None, "")
    of_new, of_resampled = (
        next((measure for measure in comparison.measures if measure.name == key.name), missing)
        for comparison in (evidence.comparison, evidence.resampled)
    )
    ideal = math.nan if of_new.ideal is None else of_new.ideal
    joint = (
        f"{key.claim}: {key.name} {number(of_new.value, 2)}, ideally {number(ideal, 2)}; for stored "
        f"{items} drawn again it is {number(of_resampled.value, 2)} (at most {key.slack} worse)."
    )
    excess = abs(of_new.value - ideal) - (abs(of_resampled.value - ideal) + key.slack)

    def check(excess: float, finding: str, subject: str) -> Check:
        unknown = f"{subject} checked for {MIN_ITEMS} or more new {items}."
        why = _explain_change(evidence)
        return _check(excess if evidence.n >= MIN_ITEMS else math.nan, finding, unknown, why)

    coverage, rare = Check(), evidence.rare[1]
    if evidence.modes or rare:
        complete = f"Each of {len(evidence.modes)} {evidence.mode_name} has at least half of its share."
        finding = f"Fewer than half as many as among the stored: {describe_modes(rare)}."
        coverage = _check(len(rare) - 0.5, finding if rare else complete, "", _explain_change(evidence))
    whole_check = check(excess, joint, f"{key.claim}:")
    if evidence.separate_parts:  # items are independent of each other, and quick to compare
        whole_check = _allow_chance(evidence, key.name, whole_check)
    return {
        "diversity": check(MIN_RELATIVE_DIVERSITY - ratio, f"Their diversity is {limit}.", "Diversity is"),
        "parts": _allow_chance(evidence, PARTS, check(new - max_distance, parts, f"{subject} is")),
        "whole": whole_check,
        "coverage": coverage,
    }


def describe_modes(rare: Sequence[Mode]) -> str:
    """Describe rare classes or categories with their shares."""
    return listed([f"{mode.name} ({share(mode.new)} instead of {share(mode.stored)})" for mode in rare], MAX_NAMES)


def _check_recall(evidence: Evidence) -> Check:
    """Whether new items are closer to the similarity among stored items than to copies, in a measure of the kind."""
    aspect, items = evidence.synth.kind.measures.recall, evidence.synth.kind.items
    names = () if aspect is None else aspect.names
    measures = (measure for measure in evidence.comparison.measures if measure.name in names)
    values = [(measure.value, measure.ideal, measure.name) for measure in measures if measure.ideal is not None]
    if aspect is None or not values:
        return Check()
    value, ideal, name = max(values, key=lambda entry: entry[0] - (entry[1] + 1) / 2)
    limit = (ideal + 1) / 2
    finding = (
        f"{aspect.claim}: {name} {number(value, 2)}, and among stored {items} {number(ideal, 2)} (1 for "
        f"copies; at most {number(limit, 2)})."
    )
    return _check(value - limit, finding)


def _check_kept(evidence: Evidence) -> Check:
    """Whether draws from a half keep what the stored items have in common, almost as the half itself does."""
    aspect, items = evidence.synth.kind.measures.kept, evidence.synth.kind.items
    if aspect is None:
        return Check()
    pairs = [
        [next((m.value for m in measures if m.name == aspect.name), math.nan) for measures in (split.new, split.stored)]
        for split in evidence.split_half.splits
    ]
    values = np.array([pair for pair in pairs if np.isfinite(pair).all()])
    if not len(values):
        return Check()
    new, stored, error = _summarize(values)
    min_share = 1 - MAX_LOST_RATIO * (1 - stored) - MAX_EXTRA_LOST
    finding = (
        f"{aspect.claim}: in draws from half of the stored {items}, {share(new)} of those of the other half, and in "
        f"that half itself {share(stored)} (at least {share(min_share)} minus one standard error)."
    )
    return _check(min_share - error - new, finding)


def _summarize(values: Array) -> tuple[float, float, float]:
    """Return the means of pairs (n, 2) for new and stored items, and the standard error of the first."""
    new, stored = values.mean(0)
    return new, stored, values[:, 0].std(ddof=min(1, len(values) - 1)) / math.sqrt(len(values))


def _check_marginals(evidence: Evidence, fidelities: Sequence[Fidelity]) -> Check:
    values = np.array([fidelity.scores[PARTS][:2] for fidelity in fidelities])
    if not len(values):
        return Check()
    new, stored, error = _summarize(values)
    finding = (
        f"In draws from half of the stored {evidence.synth.kind.items}, each {evidence.synth.kind.part} differs from "
        f"that of the other half by {number(new, 2)}, and that of the half itself by {number(stored, 2)} (at most "
        f"{number(MAX_PART_RATIO * stored, 2)})."
    )
    return _allow_chance(evidence, PARTS, _check(new - error - MAX_PART_RATIO * stored, finding))


def _check_fidelity(evidence: Evidence) -> dict[str, Check]:
    """Check two-sample accuracy, relations between parts, and classes against halves of the stored items."""
    items, fidelities = evidence.synth.kind.items, _list_fidelities(evidence)
    held_out, fitted = f"held-out {items}", f"the fitted {items}"
    findings = {
        TWO_SAMPLE: f"A classifier distinguishes new from {held_out} in {{}} of cases, and {fitted} from them in {{}} "
        "(ideally 50 %; at most {} plus one standard error).",
        TRAINING: f"Trained on new {items}, a classifier names the class of {held_out} in {{}} of cases; trained on "
        f"{fitted}, in {{}} (at least {{}} minus one standard error).",
        AGREEMENT: f"Trained on {held_out}, it agrees with the class of new {items} in {{}} of cases, and with that of "
        f"{fitted} in {{}} (at least {{}} minus one standard error).",
        WITHIN: f"Within a class, the distribution of each feature differs from that of {held_out} by {{}} standard "
        f"deviations, and for {fitted} by {{}} (at most {{}} plus one standard error).",
        TAILS: f"The tails of each feature differ from those of {held_out} by a factor of {{}}, and for {fitted} "
        "by {} (ideally 1; at most {}, within one standard error).",
    }
    formats: dict[str, Callable[[float], str]] = {
        WITHIN: lambda difference: number(difference, 2),
        TAILS: lambda log_ratio: number(math.exp(log_ratio), 2),
    }
    checks = {}
    for name, finding in findings.items():
        judgment = judge_score(fidelities, name, MAX_DISTINGUISHED if name == TWO_SAMPLE else 0.5)
        checks[name] = Check()
        if judgment is not None:
            values = map(formats.get(name, share), (judgment.new, judgment.stored, judgment.limit))
            checks[name] = Check(judgment.excess <= 0, finding.format(*values))
    unknown = f"Whether new {items} can be distinguished from {held_out} is not known: there is no held-out validation."
    return {
        "marginals": _check_marginals(evidence, fidelities),
        "two_sample": Check(None, unknown) if checks[TWO_SAMPLE].passed is None else checks[TWO_SAMPLE],
        "tails": _allow_chance(evidence, TAILS, checks[TAILS]),
        "relations": _allow_chance(evidence, RELATIONS, _check_relations(evidence, fidelities)),
        "training": _allow_chance(evidence, TRAINING, checks[TRAINING]),
        "agreement": _allow_chance(evidence, AGREEMENT, checks[AGREEMENT]),
        "within": checks[WITHIN],
    }


def _list_fidelities(evidence: Evidence) -> list[Fidelity]:
    return [split.fidelity for split in evidence.split_half.splits if split.fidelity is not None]


def _check_relations(evidence: Evidence, fidelities: Sequence[Fidelity]) -> Check:
    kind, items, (predicted, lost) = evidence.synth.kind, evidence.synth.kind.items, find_lost_relations(fidelities)
    if not len(predicted):
        return Check()
    names = kind.measures.parts(evidence.synth.codec)[0]
    which = f" ({listed([names[i] for i in lost], 3)})" if len(lost) else ""
    finding = (
        f"Among the fitted {items}, other {kind.part}s predict {len(predicted):,} of {len(names):,}; {len(lost):,} of "
        f"these lost half of that or more among new {items}{which} (at most {share(MAX_LOST_RELATIONS)})."
    )
    return Check(len(lost) <= MAX_LOST_RELATIONS * len(predicted), finding)


def is_distinguishable(evidence: Evidence) -> bool:
    """Whether a classifier distinguishes new items, with an accuracy nearer to 1 than to 0.5, or it is not known."""
    judgment = judge_score(_list_fidelities(evidence), TWO_SAMPLE)
    return judgment is None or judgment.excess > 0


def _check(excess: float, finding: str, unknown: str = "", why: str = "") -> Check:
    """Check that a value does not exceed its limit.

    unknown: the finding if the excess is not finite; why: a reason not to check
    """
    if not math.isfinite(excess):
        return Check(None, unknown)
    if why:
        return Check(None, f"{finding} Not checked, because {why}.")
    return Check(bool(np.less_equal(excess, 0)), finding)


HOPFIELD = "hopfield"
MOVE_AWAY = "lower beta, or raise novelty, to move them away from the stored ones."
MOVE_BACK = "raise beta, or lower novelty, to move them back to the stored ones."


class Tone(StrEnum):
    """How good a verdict is, and the CSS class of its box."""

    GOOD, FAIR, BAD = "good", "fair", "bad"


class Verdict(NamedTuple):
    """The headline, how good it is, what to do, and the checks behind it."""

    headline: str
    tone: Tone
    advice: str
    checks: Checks


def judge(evidence: Evidence) -> Verdict:
    """Return the worst finding that the checks support. The verdict is good only if everything was judged."""
    checks, items = run_checks(evidence), evidence.synth.kind.items
    failed = {name for name, check in checks._asdict().items() if check.passed is False}
    membership = "membership" in failed
    many_copies = "copies" in failed and evidence.copies > MIN_CLOSE_COPIES + evidence.stored_duplicates
    if many_copies or evidence.distance_ratio < COPY_DISTANCE_RATIO:
        failed.add("copied" if evidence.method_known or evidence.copies < 1 else "stored")
    different = evidence.different_parts
    few_differ = "single_parts" in failed and len(different) <= len(evidence.separate_parts) / 2
    if not few_differ and ("far" in failed or ({"parts", "whole"} <= failed and is_distinguishable(evidence))):
        failed.add("noise")
    new_variance, stored_variance = (rows.var(axis=0).sum() for rows in (evidence.rows, evidence.synth.stored_rows))
    if few_differ or new_variance >= stored_variance:  # angles between items far from the stored ones may be small
        failed.discard("diversity")
    numbers = tuple(f"{part.name}: " for part in different if part.values is not None and not part.values().are_names)
    is_explained = all(mode.name.startswith(numbers) for mode in evidence.rare_categories)
    if few_differ and is_explained and evidence.mode_name == "clusters":
        failed.discard("coverage")  # the parts that differ explain what is missing, and say more
    if "marginals" in failed:
        failed.add("parts")
    are_named = evidence.mode_name == "classes" and (evidence.says_classes or "noise" not in failed)
    if "coverage" in failed and (evidence.rare_categories or are_named):
        min_diversity = MIN_RELATIVE_DIVERSITY * evidence.diversity_of_present
        if "diversity" not in failed or evidence.diversity >= min_diversity:
            failed.add("missing")
    if "single_parts" in failed:
        failed |= {"parts", "swapped"} if evidence.swapped_parts else {"parts"}
    if {"training", "agreement", "within"} & failed:
        failed.add("classes")
    needed = {
        "distribution": (checks.diversity, checks.parts, checks.whole),
        "likeness to held-out items": (checks.two_sample,),
        "privacy": (checks.membership, checks.near_copies, checks.train_proximity),
    }
    unjudged = [name for name, group in needed.items() if any(check.passed is None for check in group)]
    if unjudged:
        failed.add("unjudged")
    advice = f"They differ from the stored {items} and follow the same distribution."
    verdicts = (verdict for verdict in _list_verdicts(evidence, unjudged) if verdict[0] in failed)
    _, tone, headline, advice = next(verdicts, ("", Tone.GOOD, "New and faithful", advice))
    if evidence.n < MIN_ITEMS:
        headline += f", as far as {f'{evidence.n} {items}' if evidence.n > 1 else 'one'} can show"
    if membership:
        headline += f", {'but' if tone is Tone.GOOD else 'and'} they reveal their sources"
        advice += f" Do not share them if the stored {items} are confidential."
        tone = Tone.FAIR if tone is Tone.GOOD else tone
    return Verdict(headline, tone, advice, checks)


def _list_verdicts(evidence: Evidence, unjudged: Sequence[str]) -> Iterator[tuple[str, Tone, str, str]]:
    """List the tone, the headline and the advice of each failed check, the worst first."""
    kind, item, items = evidence.synth.kind, evidence.synth.kind.item, evidence.synth.kind.items
    if evidence.synth.describe().temperature is not None:
        away, back = (effect[0].upper() + effect[1:] for effect in (MOVE_AWAY, MOVE_BACK))
    elif HOPFIELD in kind.generators:  # another generator has a beta
        away, back = (f"With the generator “{HOPFIELD}”, {effect}" for effect in (MOVE_AWAY, MOVE_BACK))
    else:
        away = back = ""
    same = f"Each equals a stored {item} in every value. Pass the file of new {items}."
    yield "stored", Tone.BAD, f"These are stored {items}", same
    yield "copied", Tone.BAD, "Close to copies", away
    shared = ", ".join(name for name, (new, stored) in evidence.repeated_identifiers.items() if new > stored)
    anew = f"Assign new identifiers: values of {shared} are those of stored {items}."
    yield "identifiers", Tone.BAD, f"New, but with identifiers of stored {items}", anew
    pairs = evidence.swapped_parts[:MAX_NAMES]
    pair_names = ", ".join(f"{first} and {second}" for first, second in pairs)
    swapped = f"Each has the values of the other: {pair_names}."
    yield "swapped", Tone.BAD, f"New, but {kind.part}s seem to be swapped", swapped
    plural, modes = evidence.rare
    few = f"Fewer than half of their share: {describe_modes(modes)}."
    yield "missing", Tone.BAD, f"New, but some {plural} are missing", few
    yield "diversity", Tone.BAD, "Too similar to each other", f"They vary less than the stored {items} do."
    yield "noise", Tone.BAD, "Mostly noise", back
    yield "coverage", Tone.BAD, f"New, but some {evidence.mode_name} are missing", few
    names = [part.name for part in evidence.different_parts]
    different = f"Not distributed as among stored {items}: {listed(names, MAX_NAMES)}."
    different = different if names else "Their values do not follow the stored ones."
    yield "parts", Tone.BAD, "New, but distributed differently", different
    yield "whole", Tone.BAD, f"New, but {kind.measures.key.failure}", back
    if kind.measures.recall is not None:
        advice = kind.measures.recall.advice or away
        yield "recall", Tone.BAD, f"New, but {kind.measures.recall.failure}", advice
    if kind.measures.kept is not None:
        lost = f"Some of them lack what nearly all stored {items} have in common."
        yield "kept", Tone.BAD, f"New, but {kind.measures.kept.failure}", lost
    unlike = f"New {items} of a class are not like the stored {items} of that class. Generate one class at a time."
    yield "classes", Tone.BAD, "New, but their classes are wrong", unlike
    lost = f"Do not use them to study how {kind.part}s are related."
    yield "relations", Tone.BAD, f"New, but relations between {kind.part}s are lost", lost
    thin = f"Their extreme values are not those of the stored {items}."
    yield "tails", Tone.BAD, "New, but their extremes are wrong", thin
    yield "near", Tone.FAIR, f"Close variants of stored {items}", away
    closer = f"are closer to a stored {item} than new {items} would be."
    yield "train_proximity", Tone.FAIR, f"Stored {items} with noise", f"Most {closer}"
    yield "near_copies", Tone.FAIR, f"New, with near-copies of stored {items}", f"Some {closer}"
    apart = f"They differ from stored {items} in a way that the other checks do not name."
    yield "two_sample", Tone.FAIR, f"New, but distinguishable from stored {items}", apart
    repeats = 0.0 if evidence.repeats is None else evidence.repeats.new
    again = f"{share(repeats)} equal an earlier one. Drop these."
    yield "repeats", Tone.FAIR, f"New, but some {items} are repeated", again
    yield "copies", Tone.FAIR, "New and faithful, with some copies", f"Drop those that equal a stored {item}."
    new = "New" if evidence.n < MIN_ITEMS else "New, but not all could be judged"
    yield "unjudged", Tone.FAIR, new, f"Not judged: {', '.join(unjudged)}."
