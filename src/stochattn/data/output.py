"""New items into files, whole or not at all, with a summary of what was drawn beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import numpy as np

from .._backend.arrays import Array
from .._backend.blas import single_threaded
from .._backend.progress import Progress
from .._version import __version__
from ..core.neighbors import evenly, nearest_distances
from ..generators.base import Description
from .base import Batch, Codec, Items, Settings
from .drawing import LIBRARY
from .kind import AnyKind, GeneratorChoice
from .places import item_number, opened, output_format, require_writable
from .summary import Asked, ClassShare, Summary, checksum, sidecar

NEAR = 0.01  # share of stored items that are closer to another one than near-copies are to a stored one
MAX_STORED = 2000  # stored items whose distance to the nearest other one is measured
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
    def source_sha256(self) -> str | None: ...
    @property
    def kept(self) -> Array: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    def describe(self) -> Description: ...
    def batches(self, n: int, seed: int, n_jobs: int | None = None) -> Iterator[Batch]: ...
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
    n_jobs: int | None = None,
) -> Summary:
    """Draw n items and write them to `out` with their summary, which is returned; what was there stays until both are.

    out:     a file, a folder, a device, or - for standard output
    asked:   the choices of a user, for the summary to record
    replace: whether a folder that an earlier run wrote may be replaced, or a file that none wrote
    n_jobs:  workers that draw them, as in `Synthesizer.sample`; the file is the same for any number of them
    """
    source = Path(synth.source) if synth.source else None
    chosen = output_format(synth.kind, n, out, format, source=source, replace=replace)
    check = partial(require_writable, out, chosen, source, replace)
    temperature, tally = synth.describe().temperature, _Tally(synth)
    settings = Settings(seed, synth.choice.name, synth.source, None if temperature is None else temperature.beta)
    with single_threaded(LIBRARY), opened(out, chosen, check) as place, Progress(n, "drawing") as progress:
        writer = synth.kind.writer(synth.codec, place.target, chosen, settings)
        for batch in synth.batches(n, seed, n_jobs):
            writer.write(batch)
            tally.add(batch)
            progress.update(batch.first + len(batch.items))
        writer.close()
        place.flush()
        summary = tally.summary(seed, out, asked, place.path)
        if place.path is not None:
            content = summary.to_json(indent=2).encode("utf-8", "backslashreplace")
            sidecar(place.path).write_bytes(content)
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
    near_copies: int = 0
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
            apart = codec.features(items) - self._features[batch.nearest[some]]
            self.near_copies += int((np.linalg.norm(apart, axis=1) < self._near).sum())

    @cached_property
    def _features(self) -> Array:
        return self.synth.codec.features(self.synth.codec.stored)

    @cached_property
    def _near(self) -> float:
        """The distance below which an item is a near-copy; the smallest one if few items are stored."""
        if len(self._features) < 2:
            return 0.0
        among = nearest_distances(self._features, chosen=evenly(len(self._features), MAX_STORED))
        return float(np.quantile(among[among > 0], NEAR)) if (among > 0).any() else 0.0

    def summary(self, seed: int, out: str, asked: Asked | None, path: Path | None) -> Summary:
        """The summary of all items that were counted; `path` is where they are now, if they can be read there."""
        synth, about, measured = self.synth, self.synth.describe(), self.measured
        entries = path.iterdir() if path is not None and path.is_dir() else ()
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
            near_copies=self.near_copies / measured if measured else None,
            resolved={name: list(x) if isinstance(x, tuple) else x for name, x in about.resolved.items()},  # as json
            classes={name: ClassShare(self.classes[name] / self.n, shares.get(name)) for name in classes},
            figures={name: value if np.isfinite(value) else None for name, value in figures.items()},
            notes=synth.notes,
            files=tuple(sorted(entry.name for entry in entries if not item_number(entry.name))),
            bytes=path.stat().st_size if path is not None and path.is_file() else None,
            sha256=None if path is None else checksum(path),
            source_sha256=synth.source_sha256,
        )
