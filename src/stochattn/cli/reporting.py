"""The commands `report` and `demo`: from files to a page."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import outputs
from .._backend.files import probe, write_whole
from ..data.legacy import Codec, InputError
from ..pipeline import Plan, batches, plan
from .options import codec_of
from .telling import say, told, working

DRAWN = 500
DEMO_STORED, DEMO_NEW = 300, 100


def write(
    source: Path,
    samples: Path | None,
    out: Path | None,
    n: int | None,
    seed: int | None,
    how: dict[str, Any],
    reading: dict[str, Any],
) -> Path:
    """Write the report of samples, or of n that are drawn for it; returns where.

    how: of beta, novelty and rule what was given
    """
    from ..report import build

    path = out or (samples or source).with_suffix(".html")
    _require_page(path, source, samples)
    facts = None if samples is None else _known(samples, source)
    if samples is not None and n is not None:
        raise InputError("-n is for reports that draw their own examples: leave it out, or leave out SAMPLES.")
    if facts is not None and (how or seed is not None):
        given = ", ".join(f"--{name}" for name in (*how, *(["seed"] if seed is not None else [])))
        raise InputError(f"{given}: how {samples} was made is known from the summary beside it; leave that out.")
    if facts is not None:
        reading = {**facts["options"].get("reading", {}), **reading}
    with working(f"reading {source}"):
        codec = codec_of(source, reading)
    with working("setting up the sampler"):
        made = plan(codec, **how) if facts is None else _again(codec, facts)
    seed = facts["seed"] if facts is not None else seed or 0
    items = drawn(made, n or DRAWN, seed) if samples is None else codec.read_new(samples)
    page = build(
        made, items, source=str(source), samples=None if samples is None else str(samples), facts=facts, seed=seed
    )
    write_whole(path, page)
    return path


def drawn(made: Plan, n: int, seed: int) -> Any:
    """n new items, all at once."""
    return _joined([batch.items for batch in batches(made, n, seed)])


def demonstrate(out: Path) -> None:
    """Sample scikit-learn's digits and write the report, as a user would with files of their own."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.round(digits.images[:DEMO_STORED] * (255 / 16)).astype(np.uint8)
    source, new, page = out / "digits.npz", out / "new", out / "report.html"
    outputs.require_writable(str(new), source, folder=True, replace=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, images=pixels, labels=digits.target[:DEMO_STORED].astype(str))
    write_whole(source, buffer.getvalue())
    say(f"stochattn sample {source} -n {DEMO_NEW} --replace -o {new}")
    made = plan(codec_of(source, {}), target="native")
    facts = outputs.write(made, DEMO_NEW, 0, str(new), "png", str(source))
    say(told(facts, None))
    say(f"stochattn report {source} {new} -o {page}")
    write(source, new, page, None, None, {}, {})
    say(f"Look at {new / 'contact-sheet.png'} and {page}.")


def _require_page(path: Path, source: Path, samples: Path | None) -> None:
    if path.is_dir():
        raise InputError(f"-o {path} is a folder: name a file in it.")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"-o {path} must end in .html, which the report is.")
    if path.resolve() in {place.resolve() for place in (source, samples) if place is not None}:
        raise InputError(f"-o {path} is what the report is about: name another file.")
    try:
        probe(path)
    except OSError as error:
        raise InputError(f"-o {path} cannot be written ({error.strerror}): name another place.") from None


def _known(samples: Path, source: Path) -> dict[str, Any] | None:
    """The summary beside samples, if it is of them and of this source; says why not."""
    if not samples.exists():
        raise InputError(f"{samples} does not exist: name a file that `stochattn sample` wrote.")
    facts = outputs.read_summary(str(samples))
    if facts is None:
        if outputs.sidecar(str(samples)).exists():
            say(f"note: {outputs.sidecar(str(samples))} is no summary of {samples} as it is now, and is not used.")
        return None
    if Path(facts["source"]).name != source.name:
        say(f"note: {samples} was made from {facts['source']}, not from {source}: its settings are not used.")
        return None
    return facts


def _again(codec: Codec, facts: dict[str, Any]) -> Plan:
    """The plan that a summary tells of."""
    options = facts["options"]
    chosen = {name: options[name] for name in ("keep", "weight", "fix") if options.get(name)}
    if facts.get("target") == "native":
        return plan(codec, target="native", **chosen)
    return replace(plan(codec, beta=facts["beta"], **chosen), rule=facts["rule"])


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import pandas as pd

    return pd.concat(parts, ignore_index=True)
