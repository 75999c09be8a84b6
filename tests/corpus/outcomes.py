"""How runs on a data set ended: by rule a pass, a refusal with a reason that a user can act on, or a fault."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple

RAW = re.compile(
    r"Traceback|[a-z]\w*Error\b|\b[A-Z]\w*(Error|Exception|Warning)\b|NoneType|<class |<\w+ object|dtype\(|array\("
    r"|site-packages|0x[0-9a-f]{6}|argument of type|object has no attribute|[Cc]annot convert|encountered in"
    r"|divide by zero|[Uu]nable to|could not broadcast|math domain|not subscriptable"
)
"""Words of Python and of libraries. A user of the command line has not called what they speak of."""
REMEDY = re.compile(
    r"\b(add|align|call|choose|convert|cut|delete|drop|edit|export|fill|fix|give|install|join|keep|leave|list|load|name|open|pass|"
    r"put|raise|read|remove|rename|repeat|run|save|say|select|set|shorten|split|store|unpack|use|wait|write|correct)\b",
    re.IGNORECASE,
)
"""A message that refuses says what to do, with one of these verbs."""
MARKS = "<!-- corpus, {}: written by `make corpus WRITE=1` -->", "<!-- end of corpus, {} -->"
MAX_CHARACTERS = 240
"""Of a message in a table."""
VERDICTS = ("passed", "refused in part", "refused", "fault")


class Ending(NamedTuple):
    """How one run on a data set ended.

    code:   the exit code, or the negative number of the signal that ended the process
    leaked: warnings that other libraries gave, or that are not for users
    raised: where an error was raised, if not in the library
    """

    run: str
    code: int
    seconds: float
    stderr: str
    leaked: list[str]
    raised: str = ""

    @property
    def problem(self) -> str:
        """What a user should not see; empty if the run worked or was refused with a reason."""
        error = self.error
        if self.code < 0:
            return self.stderr
        if "Traceback" in self.stderr:
            return f"traceback: {self.stderr.strip().splitlines()[-1]}"
        if self.code not in (0, 2):
            return f"exit code {self.code}: {error}"
        if self.code and not error:
            return f"no line of error: {self.stderr[-200:]!r}"
        if self.raised:
            return f"raised by another library, {self.raised}: {error}"
        if self.leaked:
            return f"warning: {self.leaked[0]}"
        if word := RAW.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", self.stderr)):
            return f"raw words {word[0]!r}: {self.stderr[-300:]!r}"
        if self.code and not REMEDY.search(re.sub(r"'[^']*'", "", error)):
            return f"no remedy: {error}"
        return ""

    @property
    def error(self) -> str:
        """The line that says why it was refused."""
        last = self.stderr.strip().rpartition("\n")[2]
        return last.removeprefix("error: ") if last.startswith("error: ") else ""


class Outcome(NamedTuple):
    """All runs on a data set. peak: kilobytes of memory"""

    package: str
    name: str
    size: int
    peak: int
    endings: list[Ending]

    @property
    def verdict(self) -> str:
        """One of VERDICTS."""
        if any(ending.problem for ending in self.endings):
            return "fault"
        refused = [ending for ending in self.endings if ending.code]
        return VERDICTS[(len(refused) > 0) + (len(refused) == len(self.endings))]

    @property
    def reason(self) -> str:
        """Why it did not pass: the first problem, or the first refusal."""
        for text in ("problem", "error"):
            for ending in self.endings:
                if said := getattr(ending, text):
                    return f"{ending.run}: {said}"
        return ""

    @property
    def seconds(self) -> float:
        """Processor time of all runs."""
        return sum(ending.seconds for ending in self.endings)

    def save(self, place: Path) -> None:
        """Add it to what is known of this version."""
        place.mkdir(parents=True, exist_ok=True)
        with (place / "outcomes.jsonl").open("a") as file:
            file.write(json.dumps(self) + "\n")


def read_outcomes(place: Path) -> dict[tuple[str, str], Outcome]:
    """Outcomes by package and name."""
    path, outcomes = place / "outcomes.jsonl", {}
    for line in path.read_text().splitlines() if path.exists() else ():
        *facts, endings = json.loads(line)
        outcomes[facts[0], facts[1]] = Outcome(*facts, [Ending(*ending) for ending in endings])
    return outcomes


def table(outcomes: Iterable[Outcome]) -> str:
    """Outcomes by package, in Markdown."""
    counts: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        for package in ("**all**", outcome.package):
            counts.setdefault(package, Counter())[outcome.verdict] += 1
    lines = ["| package | sets | passed | refused in part | refused | faults |", "|---|---:|---:|---:|---:|---:|"]
    for package, count in counts.items():
        lines.append(f"| {package} | {count.total()} | {' | '.join(str(count[verdict]) for verdict in VERDICTS)} |")
    return "\n".join(lines)


def reasons(outcomes: Iterable[Outcome]) -> str:
    """Why sets did not pass, in Markdown: the most frequent reason first, with an example and its message."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.reason:
            text = _without_folders(outcome.reason).replace(Path(outcome.name).name, "")
            words = re.findall(r"\b[a-zA-Z]+\b", re.sub(r"'[^']*'", "", text))
            groups.setdefault(" ".join([outcome.verdict, *words[:7]]), []).append(outcome)
    lines = ["| sets | outcome | example | what it says |", "|---:|---|---|---|"]
    for members in sorted(groups.values(), key=lambda members: (members[0].verdict != VERDICTS[-1], -len(members))):
        first = members[0]
        text = shorten(_without_folders(first.reason).replace("|", "/"), MAX_CHARACTERS, placeholder=" …")
        lines.append(f"| {len(members)} | {first.verdict} | {first.package}: {first.name} | {text} |")
    return "\n".join(lines)


def _without_folders(text: str) -> str:
    return re.sub(r"/[^\s:,']*/", "", text)


def write_table(group: str, text: str, page: Path) -> None:
    """Put the table of a group between its marks on a page."""
    start, end = (mark.format(group) for mark in MARKS)
    before, _, rest = page.read_text().partition(start)
    _, is_there, after = rest.partition(end)
    if not is_there:
        raise ValueError(f"{page} must have the lines {start} and {end}: put them where the table belongs.")
    page.write_text(f"{before}{start}\n\n{text}\n\n{end}{after}")
