"""New items into files: the format by the file name extension, whole or not at all, with a summary beside them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from .._backend.arrays import Array
from .._backend.files import is_summary, probe, whole_file, whole_folder
from .._backend.progress import Progress
from .._version import __version__
from ..generators.base import Description
from .base import Batch, Codec, Format, Items, Settings
from .kind import AnyKind, GeneratorChoice
from .options import InputError
from .summary import SUMMARY, Asked, ClassShare, Summary, read_summary, sidecar

STANDARD_OUTPUT = "-"
MAX_MEASURED = 4096  # items, from the first on, whose novelty and copies are measured as they are in the file
MAX_SUMMARIZED = 2**20  # items, from the first on, whose further columns are summarized: memory stays bounded


class _Sampled(Protocol):
    """What writing asks of a Synthesizer, which stands above this package."""

    @property
    def kind(self) -> AnyKind: ...
    @property
    def codec(self) -> Codec: ...
    @property
    def choice(self) -> GeneratorChoice: ...
    @property
    def source(self) -> str: ...
    @property
    def kept(self) -> Array: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    def describe(self) -> Description: ...
    def batches(self, n: int, seed: int) -> Iterator[Batch]: ...
    def novelty(self, items: Items) -> Array: ...
    def predicted_novelty(self) -> float: ...
    def predicted_shares(self) -> dict[str, float]: ...


def write_samples(
    synth: _Sampled,
    n: int,
    seed: int,
    out: str,
    format: str | None = None,
    *,
    asked: Asked | None = None,
    replace: bool = False,
) -> Summary:
    """Draw n items and write them to `out` with their summary, which is returned; what was there stays until both are.

    out:     a file, a folder, a device, or - for standard output
    asked:   the choices of a user, for the summary to record
    replace: whether a folder that an earlier run wrote may be replaced
    """
    source = Path(synth.source) if synth.source else None
    chosen = output_format(synth.kind, n, out, format, source=source, replace=replace)
    temperature, tally = synth.describe().temperature, _Tally(synth)
    settings = Settings(seed, synth.choice.name, synth.source, None if temperature is None else temperature.beta)
    with _place(out, chosen) as (place, beside), Progress(n, "drawing") as progress:
        writer = synth.kind.writer(synth.codec, place, chosen, settings)
        for batch in synth.batches(n, seed):
            writer.write(batch)
            tally.add(batch)
            progress.update(batch.first + len(batch.items))
        writer.close()
        summary = tally.summary(seed, out, asked, place)
        if beside is not None:
            beside.write_bytes(summary.to_json(indent=2).encode("utf-8", "backslashreplace"))
    return summary


@dataclass
class _Tally:
    """What is measured while items pass on their way to a file."""

    synth: _Sampled
    n: int = 0
    novelty: float = 0.0
    measured: int = 0
    novelty_decoded: float = 0.0
    copies: int = 0
    columns: dict[str, list[Array]] = field(default_factory=dict)
    classes: Counter[str] = field(default_factory=Counter)

    def add(self, batch: Batch) -> None:
        """Count these items. Those that are made of many stored ones have no novelty and no class."""
        kind, codec = self.synth.kind, self.synth.codec
        before, self.n = self.n, self.n + len(batch.items)
        if batch.novelty is None or batch.nearest is None or batch.source is None:
            return
        self.novelty += float(batch.novelty.sum())
        for name, values in batch.extra.items():
            self.columns.setdefault(name, []).append(values[: max(MAX_SUMMARIZED - before, 0)])
        if codec.labels is not None:
            self.classes.update(map(str, kind.labels_of(codec, batch.items, batch.source).tolist()))
        some = np.arange(min(len(batch.items), MAX_MEASURED - self.measured))
        if len(some):
            items = codec.take(batch.items, some)
            same = kind.same(codec, items, codec.take(codec.stored, batch.nearest[some]))
            self.measured += len(some)
            self.novelty_decoded += float(self.synth.novelty(items).sum())
            self.copies += int(same.reshape(len(some), -1).all(1).sum())

    def summary(self, seed: int, out: str, asked: Asked | None, place: BinaryIO | Path) -> Summary:
        synth, about, measured = self.synth, self.synth.describe(), self.measured
        entries = place.iterdir() if isinstance(place, Path) else ()
        size = place.tell() if not isinstance(place, Path) and out != STANDARD_OUTPUT and place.seekable() else None
        temperature, novelty = about.temperature, synth.predicted_novelty()
        shares = synth.predicted_shares() if self.classes else {}
        classes = sorted(set(synth.codec.labels or ())) if self.classes else ()
        columns = {name: np.concatenate(parts) for name, parts in self.columns.items()}
        figures = synth.kind.summarize(columns) if measured else {}
        return Summary(
            **vars(asked or Asked()),
            recorded=asked is not None,
            version=__version__,
            kind=synth.kind.name,
            source=synth.source,
            output=out,
            seed=seed,
            n=self.n,
            stored=synth.codec.K,
            kept=len(synth.kept),
            generator=synth.choice.name,
            sampler=about.sampler,
            beta=None if temperature is None else temperature.beta,
            rule=None if temperature is None else str(temperature.rule.value),
            novelty_target=None if temperature is None else temperature.novelty,
            novelty_predicted=novelty if np.isfinite(novelty) else None,
            novelty=self.novelty / self.n if measured else None,
            novelty_decoded=self.novelty_decoded / measured if measured else None,
            copies=self.copies / measured if measured else None,
            classes={name: ClassShare(self.classes[name] / self.n, shares.get(name)) for name in classes},
            figures={name: value if np.isfinite(value) else None for name, value in figures.items()},
            notes=synth.notes,
            files=tuple(sorted(entry.name for entry in entries if not _number(entry.name))),
            bytes=size,
        )


def output_format(
    kind: AnyKind, n: int, out: str, asked: str | None = None, *, source: Path | None = None, replace: bool = False
) -> Format:
    """The output format: as asked, or by the extension of `out`.

    InputError, before any work, if it cannot show n items, or if `out` cannot be written, or would replace the input
    `source` or a user's own files.
    """
    format = _format_of(kind, out, asked)
    if format.max_items is not None and n > format.max_items:
        most = f"one {format.name} of at most {format.max_items} items"
        raise InputError(f"out {out!r} is {most}; got n={n}. Lower n, or choose another format.")
    if out != STANDARD_OUTPUT:
        _require_writable(out, None if source is None else source.resolve(), format, replace)
    return format


def _format_of(kind: AnyKind, out: str, asked: str | None) -> Format:
    names = ", ".join(one.name for one in kind.formats)
    if asked is not None:
        found = next((one for one in kind.formats if one.name == asked), None)
        if found is None:
            raise InputError(f"format must be one of {names} for {kind.name} data; got {asked!r}.")
        if out == STANDARD_OUTPUT and found.is_folder:
            raise InputError(f"format {asked!r} makes a folder, which standard output cannot take: name a folder.")
        return found
    if out == STANDARD_OUTPUT:
        return next(one for one in kind.formats if not one.is_folder)
    extension = Path(out).suffix.lower()
    for one in kind.formats:
        if extension in one.extensions:
            return one
    known = ", ".join(extension or "none (a folder)" for one in kind.formats for extension in one.extensions)
    raise InputError(
        f"out {out!r} must have an extension that names the format of {kind.name} data, one of {known}; or pass "
        f"format, one of {names}."
    )


def _require_writable(out: str, source: Path | None, format: Format, replace: bool) -> None:
    path = Path(out).resolve()
    inside = format.is_folder and source is not None and (source in path.parents or path in source.parents)
    if path == source or inside:
        raise InputError(f"out {out!r} is the input, contains it or is inside it: name another place.")
    if format.is_folder:
        _require_our_folder(path, out, replace)
    elif path.exists() and not path.is_file() and not path.is_dir():
        return  # a device takes bytes, whatever its folder
    elif (beside := sidecar(path)).exists() and not is_summary(beside):
        raise InputError(f"out {out!r}: the summary would replace {beside.name}, which is not a summary.")
    require_place(f"out {out!r}", path, format.is_folder)


def require_place(name: str, path: Path, is_folder: bool = False) -> None:
    """InputError, before any work, if no file, or no folder, can be written there."""
    if path.is_dir() and not is_folder:
        raise InputError(f"{name} is a folder: name a file in it.")
    try:
        probe(path)
    except OSError as error:
        raise InputError(f"{name} cannot be written ({error.strerror}): name another place.") from None


def _require_our_folder(path: Path, out: str, replace: bool) -> None:
    """InputError unless a folder is new or empty, or may be replaced and holds only what an earlier run wrote."""
    if path.exists() and not path.is_dir():
        raise InputError(f"out {out!r} is a file, and this format makes a folder: name another place.")
    names = {entry.name for entry in path.iterdir()} if path.exists() else set()
    if not names:
        return
    if not replace:
        raise InputError(f"out {out!r} is not an empty folder: name another, or ask for it to be replaced.")
    earlier = read_summary(path)
    if earlier is None:
        raise InputError(f"out {out!r} holds no summary of an earlier run, so it is not replaced: name another folder.")
    for name in sorted(names - {SUMMARY, *earlier.files}):
        if not 1 <= _number(name) <= earlier.n:
            which = f"{name!r}, which an earlier run did not write"
            raise InputError(f"out {out!r} holds {which}, so it is not replaced: name another folder.")


def _number(name: str) -> int:
    """The number of an item's own file, new-000012.png; 0 for other names."""
    numbered = re.fullmatch(r"new-(\d+)\.\w+", name)
    return int(numbered[1]) if numbered else 0


@contextmanager
def _place(out: str, format: Format) -> Iterator[tuple[BinaryIO | Path, Path | None]]:
    """Where a writer writes (standard output, a file, a folder), and where the summary goes; both appear together."""
    if out == STANDARD_OUTPUT:
        if sys.stdout is None:
            raise InputError("out '-' needs an open standard output: name a file.")
        yield sys.stdout.buffer, None
        sys.stdout.buffer.flush()
    elif format.is_folder:
        with whole_folder(Path(out)) as folder:
            yield folder, folder / SUMMARY
    elif Path(out).exists() and not Path(out).is_file():
        with Path(out).open("wb") as stream:
            yield stream, None
    else:
        with whole_file(sidecar(out)) as beside, whole_file(Path(out)) as path, path.open("wb") as stream:
            yield stream, beside
