"""New items into files, whole or not at all, with a summary of what was drawn beside them."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np

from .._backend.cluster import connected
from .._backend.progress import Progress
from .._version import __version__
from . import parts
from .base import Settings
from .chunks import create_array
from .options import InputError
from .places import item_number, opened, output_format, require_writable
from .summary import Asked, ClassShare, Summary, checksum, sidecar
from .tally import Counts, Sampled, write_items


def write_samples(
    synth: Sampled,
    n: int,
    seed: int,
    out: str,
    format: str | None = None,
    *,
    asked: Asked | None = None,
    replace: bool = False,
    n_jobs: int | None = None,
    scheduler: str | None = None,
) -> Summary:
    """Draw n items and write them to `out` with their summary, which is returned; what was there stays until both are.

    out:     a file, a folder, a device, or - for standard output
    asked:   the choices of a user, for the summary to record
    replace: whether a folder that an earlier run wrote may be replaced, or a file that none wrote
    n_jobs:  workers that draw them, as in `Synthesizer.sample`; the file is the same for any number of them
    scheduler: the address of a Dask scheduler, whose workers write `out` as a folder of parts with the same items
    """
    if n_jobs is not None and scheduler is not None:
        raise InputError(f"n_jobs must be left out with a scheduler, whose workers draw the items; got {n_jobs}.")
    source, in_parts = Path(synth.source) if synth.source else None, scheduler is not None
    chosen = output_format(synth.kind, n, out, format, source=source, replace=replace, in_parts=in_parts)
    check = partial(require_writable, out, in_parts or chosen.is_folder, source, replace)
    about = synth.describe()  # conditions may need another generator than the one that was chosen
    beta = None if about.temperature is None else about.temperature.beta
    settings = Settings(seed, about.name, synth.source, beta)
    with (
        nullcontext() if scheduler is None else connected(scheduler) as client,
        opened(out, in_parts or chosen.is_folder, check) as place,
        Progress(n, "drawing") as progress,
    ):
        if chosen.in_chunks and place.path is not None:
            create_array(synth, n, seed, settings, place.path, parts.BLOCKS_PER_PART)
        if client is not None and place.path is not None:
            counts = parts.write_parts(synth, n, seed, chosen, settings, place.path, client, progress)
        else:
            counts = write_items(synth, synth.batches(n, seed, n_jobs), place.target, chosen, settings, progress)
            place.flush()
        summary = _summary(synth, counts, seed, out, asked, place.path)
        if place.path is not None:
            content = summary.to_json(indent=2).encode("utf-8", "backslashreplace")
            sidecar(place.path).write_bytes(content)
    return summary


def _summary(synth: Sampled, counts: Counts, seed: int, out: str, asked: Asked | None, path: Path | None) -> Summary:
    """The summary of all items that were counted; `path` is where they are now, if they can be read there."""
    about, measured = synth.describe(), counts.measured
    entries = path.iterdir() if path is not None and path.is_dir() else ()
    temperature, novelty = about.temperature, synth.predicted_novelty()
    shares = synth.predicted_shares() if counts.classes else {}
    classes = sorted(set(synth.codec.labels or ())) if counts.classes else ()  # equivalent: classes are of labels
    columns = {name: np.concatenate(parts) for name, parts in counts.columns.items()}
    figures = synth.kind.summarize(columns) if measured else {}
    return Summary(
        **vars(asked or Asked()),
        recorded=asked is not None,
        version=__version__,
        kind=synth.kind.name,
        source=synth.source,
        output=out,
        seed=seed,
        n=counts.n,
        stored=synth.codec.K,
        kept=len(synth.kept),
        generator=synth.choice.name,
        sampler=about.sampler,
        beta=None if temperature is None else temperature.beta,
        rule=None if temperature is None else str(temperature.rule.value),
        novelty_target=None if temperature is None else temperature.novelty,
        novelty_predicted=novelty if np.isfinite(novelty) else None,
        novelty=sum(counts.novelty) / counts.n if measured else None,
        novelty_decoded=sum(counts.novelty_decoded) / measured if measured else None,
        copies=counts.copies / measured if measured else None,
        near_copies=counts.near_copies / counts.compared if counts.compared else None,
        resolved={name: list(x) if isinstance(x, tuple) else x for name, x in about.resolved.items()},  # as json
        classes={name: ClassShare(counts.classes[name] / counts.n, shares.get(name)) for name in classes},
        figures={name: value if np.isfinite(value) else None for name, value in figures.items()},
        notes=synth.notes,
        files=tuple(sorted(entry.name for entry in entries if not item_number(entry.name))),
        bytes=path.stat().st_size if path is not None and path.is_file() else None,
        sha256=None if path is None else checksum(path),
        source_sha256=synth.source_sha256,
    )
