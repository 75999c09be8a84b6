"""How the items were made: settings, notes, and the command that makes them again."""

from __future__ import annotations

import shlex
from typing import Any

from .._backend.html import Html, name, pairs, section, share, tag, text
from .._version import __version__
from ..pipeline import Plan
from .evidence import Evidence

MOST_NOTES = 50
THINGS = {"protein": "sequence", "image": "picture", "table": "row", "returns": "scenario"}
OPTION_NAMES = {"as_": "as", "temperature": "decode-temperature", "columns": "column", "ranges": "range"}
"""Options of the command line that are not called like what they set."""


def counted(plan: Plan, n: int, quality: str = "") -> str:
    """So many items of this kind: "3 new pictures"."""
    thing = THINGS[plan.codec.kind]
    return f"{n:,} {quality} {thing if n == 1 else thing + 's'}".replace("  ", " ")


def making(plan: Plan, evidence: Evidence, made: list[tuple[str, str]], command: str) -> Html:
    """Settings, notes, what is lost, and the command that makes it again."""
    coordinates = plan.codec.coordinates
    rows = [
        *made,
        ("Rows", text(f"{plan.codec.K:,} × {coordinates.d:,}, norm {coordinates.norm}")),
        ("Variance kept", share(coordinates.variance)),
        ("Lost in rows", text(evidence.loss)),
        ("Report by", text(f"stochattn {__version__}")),
    ]
    notes = plan.codec.notes
    listed = tag("ul", *(tag("li", text(note, 400)) for note in notes[:MOST_NOTES]))
    more = len(notes) - MOST_NOTES
    return section(
        "making",
        "How it was made",
        pairs(rows),
        tag("h3", "Notes from reading"),
        listed if notes else tag("p", "None: nothing was dropped, mapped or assumed."),
        tag("p", f"{more:,} more notes are left out.", class_="note") if more > 0 else Html(""),
        tag("h3", "To make it again"),
        tag("pre", text(command, 2000)),
    )


def settings(
    plan: Plan, n: int, source: str, samples: str | None, facts: dict[str, Any], seed: int
) -> list[tuple[str, str]]:
    """Names and values of what was stored and made."""
    known = samples is None or bool(facts)
    rule = {"given": "given", "leave_one_out": "by leave-one-out likelihood"}.get(plan.rule, plan.rule)
    rule = f"by the rule “{rule}”" if rule in ("natural", "inflection", "knee") else rule
    fixed = ", ".join(plan.fixed) or "nothing"
    kept = len(plan.model.bank.kept)
    rows: list[tuple[str, str]] = [
        ("Stored", text(counted(plan, plan.codec.K) + (f", {kept:,} of them kept" if kept < plan.codec.K else ""))),
        ("Source", name(source, 120)),
        ("New", text(counted(plan, n))),
        ("Read from", name(samples, 120) if samples else text("drawn for this report")),
    ]
    if known:
        rows += [] if plan.native is not None else [("β", text(f"{plan.beta:.6g}, {rule}"))]
        sampler = facts.get("sampler", plan.sampler) if plan.native is None else plan.native.about
        rows += [
            ("Seed", text(facts.get("seed", seed))),
            ("Sampler", text(sampler, 200)),
            ("Fixed", name(fixed, 200)),
            ("Version", text(f"stochattn {facts.get('version', __version__)}")),
        ]
    else:
        rows += [
            ("Made how", text("not known: no summary lies beside the samples")),
            ("β below", text(f"{plan.beta:.6g}, {rule}; predictions and membership are for this one")),
        ]
    return rows


def command(plan: Plan, n: int, source: str, samples: str | None, facts: dict[str, Any], seed: int) -> str:
    """What to type for the same items."""
    if samples is not None and not facts:
        return shlex.join(["stochattn", "report", source, samples])
    options = facts.get("options") or {}
    out = samples or facts.get("output") or "OUT"
    words = ["stochattn", "sample", source, "-n", str(facts.get("n", n)), *_temperature(plan, options)]
    sampler = str(facts.get("sampler", plan.sampler))
    words += ["--sampler", sampler] if sampler in ("ula", "mala") else []
    for key in ("days", "schedule", "hmm"):
        words += [f"--{key}", str(options[key])] if options.get(key) else []
    words += ["--no-link"] if options.get("link") is False else []
    words += ["--score"] if options.get("score") else []
    for key in ("keep", "weight", "fix"):
        for value in options.get(key) or (plan.fixed if key == "fix" else ()):
            words += [f"--{key}", str(value)]
    for key, value in (options.get("reading") or {}).items():
        option = OPTION_NAMES.get(key, key.replace("_", "-"))
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            for single in value if isinstance(value, list | tuple) else [value]:
                words += [f"--{option}", str(single)]
    return shlex.join([*words, "--seed", str(facts.get("seed", seed)), "-o", str(out)])


def _temperature(plan: Plan, options: dict[str, Any]) -> list[str]:
    if plan.rule == "given":
        return ["--beta", repr(float(plan.beta))]
    if plan.rule.startswith("for novelty"):
        return ["--novelty", str(options.get("novelty") or plan.rule.removeprefix("for novelty").strip())]
    if plan.rule == "natural":  # where a kind has a sampler of its own, p_beta must be asked for
        return ["--target", "paper"] if plan.native is None and plan.codec.kind in ("protein", "image", "table") else []
    return ["--rule", plan.rule.replace("_", "-")]
