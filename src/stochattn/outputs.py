"""New items into files: the format by its ending, whole or not at all, with a summary of what was measured."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ._backend.files import is_summary, probe, whole_file, whole_folder
from ._backend.progress import Progress
from ._version import __version__
from .data.legacy import Batch, Codec, InputError, Settings
from .data.proteins.profiles import PASS
from .paths import Course, paths
from .pipeline import Plan, batches

STANDARD_OUTPUT = "-"
SUMMARY = "summary.json"
MEASURED = 4096
"""Of the first so many items, novelty and copies are measured once more as they come out of their file."""


@dataclass
class Tally:
    """What is measured while items pass."""

    plan: Plan
    n: int = 0
    novelty: float = 0.0
    measured: int = 0
    novelty_decoded: float = 0.0
    copies: int = 0
    identity: float = 0.0
    members: int = 0
    bits: list[float] = field(default_factory=list)
    extra: tuple[str, ...] = ()
    classes: Counter[str] = field(default_factory=Counter)

    def add(self, batch: Batch) -> None:
        """Count these. Paths of many windows have no one memory to be near to, and are only counted."""
        n, codec = len(batch.items), self.plan.codec
        self.n += n
        if batch.novelty is None:
            return
        self.novelty += float(batch.novelty.sum())
        self.extra = tuple(batch.extra)
        if "identity" in batch.extra:
            self.identity += float(batch.extra["identity"].sum())
        if "evalue" in batch.extra:
            self.members += int((batch.extra["evalue"] < PASS).sum())
            self.bits += batch.extra["score"][: max(MEASURED - len(self.bits), 0)].tolist()
        if codec.labels is not None:
            self.classes.update(map(str, codec.classes(batch.items, batch.memory).tolist()))
        if self.measured < MEASURED:
            self._measure(codec.take(batch.items, np.arange(min(n, MEASURED - self.measured))))

    def _measure(self, items: Any) -> None:
        """Novelty and copies among rows that the items themselves encode to."""
        codec = self.plan.codec
        rows = codec.encode(items)
        nearest, _ = codec.annotate(items, rows)
        same = codec.same(items, codec.take(codec.stored, nearest)).reshape(len(rows), -1)
        self.measured += len(rows)
        self.novelty_decoded += float(self.plan.novelty(rows).sum())
        self.copies += int(same.all(1).sum())

    def facts(self) -> dict[str, Any]:
        """The figures, for json."""
        if not self.measured:
            return {"novelty": None, "novelty_decoded": None, "copies": None}
        facts: dict[str, Any] = {
            "novelty": self.novelty / self.n,
            "novelty_decoded": self.novelty_decoded / self.measured,
            "copies": self.copies / self.measured,
        }
        if "identity" in self.extra:
            facts["identity"] = self.identity / self.n
        if "evalue" in self.extra:
            hits = [bits for bits in self.bits if np.isfinite(bits)]
            facts |= {"profile_pass": self.members / self.n, "score": float(np.median(hits)) if hits else None}
        if self.classes:
            predicted = self.plan.predicted_shares()
            names = sorted(set(self.plan.codec.labels or ()))
            facts["classes"] = {
                name: {"share": self.classes[name] / self.n, "predicted": predicted.get(name)} for name in names
            }
        return facts


def format_of(codec: type[Codec], out: str, asked: str | None) -> str:
    """The output format: as asked, or by the ending of `out`."""
    if asked is not None:
        if asked not in codec.formats:
            known = ", ".join(codec.formats)
            raise InputError(f"--format must be one of {known} for {codec.kind} data; got {asked!r}.")
        if out == STANDARD_OUTPUT and codec.formats[asked] == ("",):
            raise InputError(f"--format {asked} makes a folder of files, which standard output cannot take: name one.")
        return asked
    if out == STANDARD_OUTPUT:
        return next(name for name, endings in codec.formats.items() if endings != ("",))
    ending = Path(out).suffix.lower()
    for name, endings in codec.formats.items():
        if ending in endings:
            return name
    known = ", ".join(e or "a folder" for endings in codec.formats.values() for e in endings)
    raise InputError(
        f"-o {out}: the ending must say the format, one of {known} for {codec.kind} data; or give --format."
    )


def write(
    plan: Plan,
    n: int,
    seed: int,
    out: str,
    format: str,
    source: str,
    options: dict[str, Any] | None = None,
    course: Course | None = None,
) -> dict[str, Any]:
    """Draw n items, or paths on a course, and write them to `out` with their summary, which is returned.

    What was there stays until both are whole.
    """
    settings = Settings(plan.beta, seed, plan.rule, plan.sampler, source)
    tally = Tally(plan)
    with _place(out, plan.codec.formats[format]) as (place, beside), Progress(n, "drawing") as progress:
        writer = plan.codec.writer(place, format, settings)
        for batch in batches(plan, n, seed) if course is None else paths(plan, course, n, seed):
            writer.write(batch)
            tally.add(batch)
            progress.at(batch.first + len(batch.items))
        writer.close()
        facts = summary(plan, tally, seed, source, out, options or {}, course)
        if not isinstance(place, Path) and out != STANDARD_OUTPUT:
            facts["bytes"] = place.tell() if place.seekable() else None
        if beside is not None:
            beside.write_bytes(as_json(facts, indent=2).encode("utf-8", "backslashreplace"))
    return facts


def summary(
    plan: Plan, tally: Tally, seed: int, source: str, out: str, options: dict[str, Any], course: Course | None = None
) -> dict[str, Any]:
    """What was asked, what was done and what came out."""
    bank = plan.codec.bank
    facts: dict[str, Any] = {
        "version": __version__,
        "kind": plan.codec.kind,
        "source": source,
        "output": out,
        "seed": seed,
        "n": tally.n,
        "stored": bank.K,
        "d": bank.d,
        "target": plan.target,
        "kept": len(plan.model.bank.kept),
        "beta": plan.beta if plan.native is None else None,
        "rule": plan.rule,
        "sampler": plan.sampler,
        "novelty_predicted": plan.predicted_novelty(),
        **tally.facts(),
        "notes": list(plan.codec.notes) + list(plan.notes),
        "options": options,
    }
    return facts if course is None else {**facts, **course.describe(plan)}


def as_json(facts: dict[str, Any], indent: int | None = None) -> str:
    """Facts as json; numbers that json does not know become null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [plain(part) for part in value]
        return None if isinstance(value, float) and not np.isfinite(value) else value

    return json.dumps(plain(facts), indent=indent, ensure_ascii=False, default=str) + ("\n" if indent else "")


def sidecar(out: str) -> Path:
    """Where the summary of a result lies: beside a file, inside a folder."""
    path = Path(out)
    return path / SUMMARY if path.is_dir() else path.with_name(f"{path.name}.json")


def read_summary(out: str) -> dict[str, Any] | None:
    """The summary of a result, if there is one and it is of what lies there now."""
    try:
        facts = json.loads(sidecar(out).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    kinds = {
        "beta": float | int | None,
        "n": int,
        "seed": int,
        "rule": str,
        "kind": str,
        "source": str,
        "options": dict,
    }
    if not isinstance(facts, dict) or not all(isinstance(facts.get(key), kind) for key, kind in kinds.items()):
        return None
    size = facts.get("bytes")
    return None if size is not None and Path(out).is_file() and Path(out).stat().st_size != size else facts


def require_writable(out: str, source: Path, folder: bool, replace: bool) -> None:
    """InputError, before any work, if `out` cannot be written, or would take what is not ours to take."""
    if out == STANDARD_OUTPUT:
        return
    path, source = Path(out).resolve(), source.resolve()
    if path == source or (folder and (source in path.parents or path in source.parents)):
        raise InputError(f"-o {out} is the input, or holds it, or lies in it: name another place.")
    if folder:
        _require_our_folder(path, out, replace)
    elif path.is_dir():
        raise InputError(f"-o {out} is a folder: name a file in it.")
    elif path.is_file() or not path.exists():
        beside = sidecar(str(path))
        if beside.exists() and not is_summary(beside):
            raise InputError(f"-o {out}: its summary would replace {beside.name}, which is no summary: name another.")
    try:
        probe(path)
    except OSError as error:
        if path.exists() and not path.is_file() and not folder:  # a device takes bytes, whatever its folder does
            return
        raise InputError(f"-o {out} cannot be written ({error.strerror}): name another place.") from None


def _require_our_folder(path: Path, out: str, replace: bool) -> None:
    """A folder may be replaced only if it is asked for, and holds nothing but what was written here before."""
    if not path.exists():
        return
    if not path.is_dir():
        raise InputError(f"-o {out} is a file, and these examples make a folder: name another place.")
    names = {entry.name for entry in path.iterdir()}
    if not names:
        return
    if not replace:
        raise InputError(f"-o {out} is not an empty folder: name another, or pass --replace.")
    earlier = read_summary(str(path))
    n = int(earlier["n"]) if earlier else 0
    strange = sorted(name for name in names - {SUMMARY} if not _ours(name, n))
    if strange or earlier is None:
        what = f"{strange[0]!r}, which was not written here" if strange and earlier else "no summary of an earlier run"
        raise InputError(f"-o {out} --replace: the folder holds {what}, so it is left alone: name another.")


def _ours(name: str, n: int) -> bool:
    """Whether a run that made n items wrote a file of this name."""
    numbered = re.fullmatch(r"new-(\d+)\.\w+", name)
    return 1 <= int(numbered[1]) <= n if numbered else name.startswith(("contact-sheet.", "samples."))


@contextmanager
def _place(out: str, endings: tuple[str, ...]) -> Iterator[tuple[BinaryIO | Path, Path | None]]:
    """Where a writer writes (standard output, a file, a folder), and where the summary goes; both appear together."""
    if out == STANDARD_OUTPUT:
        if sys.stdout is None:
            raise InputError("-o - needs an open standard output: name a file.")
        yield sys.stdout.buffer, None
        sys.stdout.buffer.flush()
    elif endings == ("",):
        with whole_folder(Path(out)) as folder:
            yield folder, folder / SUMMARY
    elif Path(out).exists() and not Path(out).is_file():
        with Path(out).open("wb") as stream:
            yield stream, None
    else:
        with whole_file(sidecar(out)) as beside, whole_file(Path(out)) as path, path.open("wb") as stream:
            yield stream, beside
