"""New items into files: the format by its ending, whole or not at all, and what was measured on the way."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ._progress import Progress
from ._version import __version__
from .codecs.base import Batch, Codec, InputError, Settings
from .files import whole_file, whole_folder, write_whole
from .paths import Course, paths
from .pipeline import Plan, batches

STANDARD_OUTPUT = "-"


@dataclass
class Tally:
    """What is measured while items pass."""

    codec: Codec
    n: int = 0
    measured: int = 0
    copies: int = 0
    novelty: float = 0.0
    extra: dict[str, float] = field(default_factory=dict)
    classes: Counter[str] = field(default_factory=Counter)

    def add(self, batch: Batch) -> None:
        """Count these."""
        n = len(batch.items)
        self.n += n
        if batch.novelty is None or batch.memory is None:  # paths of many windows have no one memory to be near to
            return
        stored = self.codec.take(self.codec.stored, batch.nearest)
        self.measured += n
        self.copies += int(self.codec.same(batch.items, stored).reshape(n, -1).all(1).sum())
        self.novelty += float(batch.novelty.sum())
        if self.codec.labels is not None:
            self.classes.update(map(str, self.codec.classes(batch.items, batch.memory).tolist()))
        for name, values in batch.extra.items():
            self.extra[name] = self.extra.get(name, 0.0) + float(values[np.isfinite(values)].sum())

    def shares(self) -> dict[str, float]:
        """Share of each class among the new items."""
        return {name: self.classes[name] / self.n for name in sorted(set(self.codec.labels or ()))}


def format_of(codec: Codec, out: str, asked: str | None) -> str:
    """The output format: as asked, or by the ending of `out`."""
    if asked is not None:
        if asked not in codec.formats:
            raise InputError(
                f"--format must be one of {', '.join(codec.formats)} for {codec.kind} data; got {asked!r}."
            )
        if out == STANDARD_OUTPUT and codec.formats[asked] == ("",):
            raise InputError(f"--format {asked} makes a folder of files, which standard output cannot take: name one.")
        return asked
    if out == STANDARD_OUTPUT:
        streams = [name for name, endings in codec.formats.items() if endings != ("",)]
        return streams[0]
    ending = Path(out).suffix.lower()
    for name, endings in codec.formats.items():
        if ending in endings:
            return name
    known = ", ".join(e or "a folder" for endings in codec.formats.values() for e in endings)
    raise InputError(
        f"-o {out}: the ending must say the format, one of {known} for {codec.kind} data; or give --format."
    )


def write(plan: Plan, n: int, seed: int, out: str, format: str, source: str, course: Course | None = None) -> Tally:
    """Draw n items, or paths on a course, and write them to `out`; the old file stays until the new one is whole."""
    settings = Settings(plan.beta, seed, plan.rule, plan.sampler, source)
    tally = Tally(plan.codec)
    with _place(out, plan.codec.formats[format]) as place, Progress(n, "drawing") as progress:
        writer = plan.codec.writer(place, format, settings)
        for batch in batches(plan, n, seed) if course is None else paths(plan, course, n, seed):
            writer.write(batch)
            tally.add(batch)
            progress.at(batch.first + len(batch.items))
        writer.close()
    return tally


def summary(plan: Plan, tally: Tally, seed: int, source: str, out: str, options: dict[str, Any]) -> dict[str, Any]:
    """What was asked, what was done and what came out, for json."""
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
        "beta": plan.beta,
        "rule": plan.rule,
        "sampler": plan.sampler,
        "novelty": tally.novelty / tally.measured if tally.measured else None,
        "novelty_predicted": plan.predicted_novelty(),
        "copies": tally.copies / tally.measured if tally.measured else None,
        **{name: total / tally.n for name, total in tally.extra.items()},
        "notes": list(plan.codec.notes),
        "options": options,
    }
    if tally.classes:
        facts["classes"] = {
            name: {"share": share, "predicted": plan.predicted_shares()[name]} for name, share in tally.shares().items()
        }
    return facts


def sidecar(out: str) -> Path:
    """Where the summary of a result lies: beside a file, inside a folder."""
    path = Path(out)
    return path / "summary.json" if path.is_dir() else path.with_name(f"{path.name}.json")


def write_summary(out: str, facts: dict[str, Any]) -> None:
    """Write it there."""
    write_whole(sidecar(out), json.dumps(facts, indent=2, ensure_ascii=False) + "\n")


def require_writable(out: str, folder: bool, replace: bool) -> None:
    """InputError, before any work, if `out` cannot be written."""
    if out == STANDARD_OUTPUT:
        return
    path = Path(out)
    if folder and path.exists() and (not path.is_dir() or (any(path.iterdir()) and not replace)):
        raise InputError(f"-o {out} exists and is not an empty folder: name another, or pass --replace.")
    if not folder and path.is_dir():
        raise InputError(f"-o {out} is a folder: name a file in it.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path.with_name(f".{path.name}.probe")) as probe:
            probe.touch()
        path.with_name(f".{path.name}.probe").unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"-o {out} cannot be written ({error.strerror}): name another place.") from None


@contextmanager
def _place(out: str, endings: tuple[str, ...]) -> Iterator[BinaryIO | Path]:
    """Where a writer writes: standard output, a file that appears when it is whole, or such a folder."""
    if out == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif endings == ("",):
        with whole_folder(Path(out)) as folder:
            yield folder
    else:
        with whole_file(Path(out)) as path, path.open("wb") as stream:
            yield stream
