"""What the checks mean together: the headline, how good it is, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from .checks import COPY_DISTANCE_RATIO, MIN_CLOSE_COPIES, MIN_ITEMS, Checks, checks_of, is_distinguishable
from .evidence import Evidence

HOPFIELD = "hopfield"
AWAY = "a lower beta, or a higher novelty, moves them away from the stored ones."
BACK = "a higher beta, or a lower novelty, moves them back to the stored ones."


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
    if evidence.copies > MIN_CLOSE_COPIES + evidence.stored_duplicates or evidence.distance_ratio < COPY_DISTANCE_RATIO:
        failed.add("copied")
    if "far" in failed or ({"parts", "whole"} <= failed and is_distinguishable(evidence)):
        failed.add("noise")
    if "marginals" in failed:
        failed.add("parts")
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
    yield "copied", bad("Close to copies", advice=away)
    yield "diversity", bad("Too similar to each other", advice=f"They vary less than the stored {items} do.")
    yield "noise", bad("Mostly noise", advice=back)
    rare = f"They do not represent all stored {items}."
    yield "coverage", bad(f"New, but some {evidence.mode_name} are missing", advice=rare)
    yield "parts", bad("New, but distributed differently", advice="Their values do not follow the stored ones.")
    yield "whole", bad(f"New, but {kind.key_measure.failure}", advice=back)
    if kind.kept_measure is not None:
        lost = f"What nearly all stored {items} have in common is not in all of them."
        yield "kept", bad(f"New, but {kind.kept_measure.failure}", advice=lost)
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
