"""One page with all results: totals, tables with verdicts, figures, claims, and the reasons for differences."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stochattn._backend.files import write_atomically

from . import writing
from .catalogue import EXPERIMENTS
from .expected import expected
from .fingerprint import code_digest, fingerprint, same
from .results import Cell, Claim, Table, Verdict, over_seeds
from .runner import repetition

INTRODUCTION = """\
# The paper, reproduced

`python -m paper report` writes this page from finished runs, whose numbers are in `reproduction/results`. *Stochastic
Attention via Langevin Dynamics on the Modern Hopfield Energy* has 16 tables and 18 figures. They appear here under
their labels in the source of the paper, together with a few additional ones and with the claims of the text.

A cell shows the published value, our value with its standard error, and the prediction of the exact law: **exact** is
computed from exact draws of the closed-form mixture, without chains; **formula** is derived by hand. Chains and exact
draws have the same target and different samplers.

The **margin**, such as 1.2σ, is the difference between the published value and ours beyond the printed rounding, in
combined standard errors; with several seeds, its range over the seeds follows. If the paper prints no error, the error
of one run of its size is used, which was recorded in a full run (`paper/one_run_errors.json`), so that a short or noisy
run cannot widen it. Learned baselines and returns have bands instead, which were written into the `.toml` files of the
experiments before the runs; a band counts as three standard errors.

- ✓ a margin below 2.5σ.
- ≈ a margin of 2.5σ to 3.5σ: near the limit of three standard errors, neither a match nor a difference.
- ≠ a margin above 3.5σ; see [Where we differ, and why](#where-we-differ-and-why).
- *not testable*: three standard errors exceed half of the published value, or our error is more than twice the
  published one. Agreement would prove nothing.
- *new*: the paper has no such value. *not run*: the paper has a value, and this run does not.

`python -m paper power` plants faults in the experiments and shows which cells notice them.

"ours 0.5 ± 0.1 (one run ± 0.3)" is a mean over several runs, its standard error, and the standard deviation of one run.
SA is Algorithm 1 of the paper (ULA); snr is √(αβ/2d); max_cosine is the cosine to the nearest stored pattern; novelty
is 1 − max_cosine; energies omit their constants, as in the paper.
"""
RESULTS = "results"  # the folder of the numbers, next to the figures of the page
POWER, COST = "power.json", "cost.json"


def records(out: Path, committed: Path | None = None) -> dict[str, Any]:
    """The finished results in `out` by experiment, or those of `committed`, with published values as they are now.

    Repetitions with other seeds are joined with the first run if the same code produced them.
    """
    found = {}
    for name in EXPERIMENTS:
        record = _joined(out / name) or _from_file(committed, name)
        if record is not None:
            module = str(EXPERIMENTS[name].module.__file__)
            published = expected(module) if Path(module).with_suffix(".toml").is_file() else {}
            tables = [
                published[table.name].refreshed(table) if table.name in published else table
                for table in record["tables"]
            ]
            found[name] = {**record, "tables": tables}
    return found


def _joined(folder: Path) -> dict[str, Any] | None:
    first = writing.read(folder)
    if first is None:
        return None
    runs = [first]
    while (again := writing.read(repetition(folder, len(runs)))) is not None:
        if any(again.get(key) != first.get(key) for key in ("code", "quick", "data")):
            break
        runs.append(again)
    if len(runs) == 1:
        return first
    tables = [over_seeds(same_table) for same_table in zip(*(run["tables"] for run in runs), strict=True)]
    keys = ("seconds", "processor_seconds", "learned_seconds")
    seconds = {key: sum(run[key] for run in runs) for key in keys if all(key in run for run in runs)}
    return {**first, **seconds, "tables": tables, "seeds": [run["seed"] for run in runs]}


def _from_file(folder: Path | None, name: str) -> dict[str, Any] | None:
    if folder is None:
        return None
    try:
        return writing.restored(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(out: Path, to: Path) -> int:
    """Write the page, its figures and its numbers from the finished results, and return the number of results.

    An experiment without a result in `out` keeps the numbers that are next to the page.
    """
    pictures = to.parent / to.stem
    found = records(out, pictures / RESULTS)
    if not found:
        return 0
    (pictures / RESULTS).mkdir(parents=True, exist_ok=True)
    for name, record in found.items():
        for figure in record["figures"]:
            drawn = out / name / f"{figure['name']}.png"
            if drawn.is_file():
                write_atomically(pictures / f"{figure['name']}.png", drawn.read_bytes())
        write_atomically(pictures / RESULTS / f"{name}.json", _as_json(record))
    power, cost = (_kept(name, out, pictures) for name in (POWER, COST))
    write_atomically(to, "\n".join(_page(found, pictures.name, power, cost or {})))
    return len(found)


def _kept(name: str, out: Path, pictures: Path) -> dict[str, Any] | None:
    """What `power` or `cost` wrote, from the results or from next to the page, where it is kept."""
    for path in (out / name, pictures / RESULTS / name):
        if path.is_file():
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            write_atomically(pictures / RESULTS / name, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
            return content
    return None


def _as_json(record: dict[str, Any]) -> str:
    content = {
        **record,
        "tables": [writing.without_nan(asdict(table)) for table in record["tables"]],
        "claims": [asdict(claim) for claim in record["claims"]],
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def _page(records: dict[str, Any], pictures: str, power: dict[str, Any] | None, cost: dict[str, Any]) -> Iterator[str]:
    yield INTRODUCTION
    yield from _totals(records)
    yield from _summary(records, cost)
    missing = [name for name in EXPERIMENTS if name not in records]
    if missing:
        yield f"Not run: {', '.join(missing)}.\n"
    yield from _differences(records)
    yield from _claims(records)
    yield from _faults(power)
    for name, record in records.items():
        if not record["tables"] and not record["figures"]:
            continue
        yield f"## {name}: {EXPERIMENTS[name].title}\n"
        yield f"*{_circumstances(name, record)}*\n"
        for line in writing.caveats(record):
            yield f"{line}\n"
        for table in record["tables"]:
            yield writing.as_markdown(table)
        for figure in record["figures"]:
            yield f"![{figure['name']}]({pictures}/{figure['name']}.png)\n"
            yield f"**{figure['name']}.** {figure['caption']}\n"
            if figure.get("claim"):
                yield f"- The paper's caption: {figure['claim']}\n- Here: {figure['finding']}\n"


def _totals(records: dict[str, Any]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for record in records.values():
        for table in record["tables"]:
            counts.update(_kind(table, row, quantity, cell.verdict) for row, quantity, cell in table.items())
    kinds = ("matched", "near the limit", "differ and explained", "differ and unexplained", "not testable")
    total = sum(counts[kind] for kind in kinds)
    yield "## Totals\n"
    if any(record["quick"] for record in records.values()):
        yield "**A quick run: a tenth of the steps, few epochs. It checks that everything runs, not the values.**\n"
    yield f"| {' | '.join(kinds)} | published values |"
    yield "|---" * (len(kinds) + 1) + "|"
    yield f"| {' | '.join(str(counts[kind]) for kind in kinds)} | {total} |\n"
    verdicts = Counter(claim.verdict for claim in _all_claims(records))
    if verdicts:
        plural = {
            "holds": "hold",
            "holds in part": "hold in part",
            "does not hold": "do not hold",
            "not tested": "were not tested",
        }
        counted = ", ".join(f"{verdicts[verdict]} {words}" for verdict, words in plural.items())
        yield f"Of {sum(verdicts.values())} claims in the text, {counted}.\n"


def _kind(table: Table, row: str, quantity: str, verdict: Verdict) -> str:
    """The total to which a cell belongs."""
    if verdict is Verdict.DIFFERS:
        cause = table.cause(row, quantity)
        return "differ and explained" if cause is not None and cause.explained else "differ and unexplained"
    return {
        Verdict.MATCH: "matched",
        Verdict.NEAR: "near the limit",
        Verdict.WEAK: "not testable",
        Verdict.MISSING: "not testable",
        Verdict.NEW: "new",
    }[verdict]


def _summary(records: dict[str, Any], cost: dict[str, Any]) -> Iterator[str]:
    shown = (Verdict.MATCH, Verdict.NEAR, Verdict.DIFFERS, Verdict.WEAK, Verdict.NEW, Verdict.MISSING)
    seconds = {name: _one_seed(name, record, cost) for name, record in records.items()}
    yield "## At a glance\n"
    yield "| experiment | match | near | differ | not testable | new | not run | seeds | seconds | training seconds |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name, record in records.items():
        counts = {verdict: sum(table.counts()[verdict] for table in record["tables"]) for verdict in Verdict}
        numbers = " | ".join(str(counts[verdict]) for verdict in shown)
        title = f"[{name}](#{_anchor(name)})" if record["tables"] or record["figures"] else name
        seeds = len(record.get("seeds", (0,)))
        other, trained = seconds[name]
        training = "–" if trained is None else f"{trained:.0f}"
        yield f"| {title} | {numbers} | {seeds} | {other:.0f} | {training} |"
    yield ""
    yield from _sum_of_seconds(records, seconds, cost)


def _one_seed(name: str, record: dict[str, Any], cost: dict[str, Any]) -> tuple[float, float | None]:
    """Processor seconds of one seed on a CPU, without training and of training; None if that was on a GPU."""
    if _has_cost(name, record, cost):
        return cost[name]["other"], cost[name]["training"]
    seeds = len(record.get("seeds", (0,)))
    trained = record["learned_seconds"] / seeds
    return max(_seconds(record) / seeds - trained, 0.0), None if _gpu(record) else trained


def _has_cost(name: str, record: dict[str, Any], cost: dict[str, Any]) -> bool:
    return name in cost and bool(cost[name]["code"] == record["code"])


def _sum_of_seconds(
    records: dict[str, Any], seconds: dict[str, tuple[float, float | None]], cost: dict[str, Any]
) -> Iterator[str]:
    """The time of a full run with one seed."""
    other = sum(one for one, _ in seconds.values()) / 60
    trained = sum(training or 0.0 for _, training in seconds.values()) / 60
    unknown = [name for name, (_, training) in seconds.items() if training is None]
    part = [name for name, record in records.items() if _has_cost(name, record, cost)]
    text = "Seconds are those of one core of a CPU, for one seed; a network in the cache needs no training. "
    if part:
        timed = sum(cost[name]["measured"] for name in part)
        text += (
            f"Those of {', '.join(part)} were measured by `python -m paper cost`, which trains each network for a few "
            f"epochs and multiplies ({timed:.0f} s of training were run). "
        )
    yield (
        f"{text}A full run with one seed takes {other:.0f} minutes of one core, and its training {trained:.0f} more: "
        f"on two cores (`--jobs 2`) about {other / 2:.0f} minutes if the trained networks are in the cache, and "
        f"{(other + trained) / 2:.0f} minutes if not"
        + (f", without the training of {', '.join(unknown)}, which was not measured on a CPU" if unknown else "")
        + ".\n"
    )
    on_gpu = [f"{name} ({record['learned_seconds']:.0f} s)" for name, record in records.items() if _gpu(record)]
    if on_gpu:
        yield (
            "The networks of these results were trained on a machine with a GPU, in elapsed seconds of all seeds: "
            f"{', '.join(on_gpu)}.\n"
        )


def _gpu(record: dict[str, Any]) -> bool:
    return record["learned_seconds"] > 0 and "CPU cores, " in record["machine"]


def _seconds(record: dict[str, Any]) -> float:
    """Processor time if it was recorded, else elapsed time."""
    return float(record.get("processor_seconds", record["seconds"]))


def is_current(name: str, record: dict[str, Any]) -> bool:
    """Whether the present code would produce this result."""
    return record["code"] == code_digest(name) and same(record.get("fingerprint"), fingerprint(name))


def _circumstances(name: str, record: dict[str, Any]) -> str:
    versions = ", ".join(f"{package} {number}" for package, number in record["versions"].items())
    seeds = record.get("seeds", [record["seed"]])
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"
    text = f"{_seconds(record):.0f} s on {record['machine']}; {which}; {versions}."
    if record.get("note"):
        text += f" {record['note']}"
    if not is_current(name, record):
        text += " An earlier version of the code produced this result."
    return text


def _anchor(name: str) -> str:
    heading = f"{name}: {EXPERIMENTS[name].title}".lower()
    return "".join(c for c in heading if c.isalnum() or c in " -").replace(" ", "-")


def _differences(records: dict[str, Any]) -> Iterator[str]:
    yield "## Where we differ, and why\n"
    found = False
    for record in records.values():
        for table in record["tables"]:
            lines = list(_of_table(table, _general_reason(record)))
            found |= bool(lines)
            yield from lines
    if not found:
        yield "Nowhere.\n"
    near = [
        f"- {table.name}, {_shown(row, quantity, cell)}"
        for record in records.values()
        for table in record["tables"]
        for row, quantity, cell in table.items()
        if cell.verdict is Verdict.NEAR and not record["quick"]
    ]
    if near:
        expected_by_chance = "values with margins of 2.5σ to 3.5σ; about 1 % of all values have such a margin by chance"
        yield f"**Near the limit**: {expected_by_chance}.\n"
        yield "\n".join(near) + "\n"


def _all_claims(records: dict[str, Any]) -> list[Claim]:
    claims = [claim for record in records.values() for claim in record["claims"] if not record["quick"]]
    return sorted(claims, key=lambda claim: claim.line)


def _claims(records: dict[str, Any]) -> Iterator[str]:
    claims = _all_claims(records)
    if not claims:
        return
    yield "## Claims in the text\n"
    yield (
        "Statements of the text with the line of the paper's source. “How” says what the verdict rests on: "
        "arithmetic of "
        "the paper's own numbers, a proof, a closed form, exact draws of the target, the data, chains, or training.\n"
    )
    yield "| line | claim | verdict | evidence | how |"
    yield "|---|---|---|---|---|"
    for claim in claims:
        verdict = claim.verdict if claim.verdict == "holds" else f"**{claim.verdict}**"
        evidence = re.sub(r"(?<= )-(?=\d)", "−", claim.evidence)
        yield f"| {claim.line} | {claim.words} | {verdict} | {evidence} | {claim.how} |"
    yield ""


def _faults(power: dict[str, Any] | None) -> Iterator[str]:
    if power is None:
        return
    yield "## Which faults are noticed\n"
    yield (
        "`python -m paper power` plants one fault at a time and repeats the experiments that it touches, without "
        "training. "
        "A cell notices a fault if its margin to the published value, or to the exact law, exceeds 3σ with the fault "
        "and "
        "not without it. A fault that fewer than two cells notice is an error of this page.\n"
    )
    yield "| fault | cells | noticed by | examples |"
    yield "|---|---|---|---|"
    for fault in power["faults"]:
        examples = "; ".join(fault["noticed"][:4])
        yield f"| {fault['name']} | {fault['cells']} | {len(fault['noticed'])} | {examples} |"
    yield ""


def _general_reason(record: dict[str, Any]) -> str:
    """The reason for all differences of a run that cannot match: a quick run, or other data."""
    if record["quick"]:
        return "a quick run: too few steps and epochs to compare."
    others = [remark for remark in record["remarks"] if "volume-weighted" not in remark]
    return f"other data: {' '.join(others)}" if others else ""


def _capitals(text: str) -> str:
    """A text whose second sentence begins with a capital."""
    start = "not explained. "
    return start + text[len(start)].upper() + text[len(start) + 1 :] if text.startswith(start) else text


def _shown(row: str, quantity: str, cell: Cell) -> str:
    """Both values of a cell with the tolerance and the margin."""
    if cell.published is None or cell.measured is None:
        return f"{row}, {quantity}"
    decimals = max(cell.published.decimals, 4)
    theirs = str(cell.published).replace("-", "−")
    return (
        f"{row}, {quantity}: paper {theirs}, ours {writing.number(cell.measured.value, decimals)} "
        f"(tolerance {writing.number(cell.tolerance, decimals)}, margin {writing.sigmas(cell.margin)})"
    )


def _of_table(table: Table, general_reason: str) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for row, quantity, cell in table.items():
        if cell.verdict is not Verdict.DIFFERS or cell.measured is None or cell.published is None:
            continue
        cause = table.cause(row, quantity)
        why = general_reason or (cause.text if cause else "**not explained.**")
        groups.setdefault(why, []).append(_shown(row, quantity, cell))
    if groups or table.findings:
        yield f"**{table.title}**\n"
    for text, cells in groups.items():
        yield "".join(f"- {cell}\n" for cell in cells)
        yield f"Why: {_capitals(text)}\n"
    for finding in table.findings:
        yield f"- {finding}\n"
