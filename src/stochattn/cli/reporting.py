"""The commands `report` and `demo`: from files to a page."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import outputs
from ..codecs.base import InputError
from ..files import write_whole
from ..pipeline import Plan, batches, plan
from .options import codec_of
from .telling import say, told

DEMO_STORED, DEMO_NEW = 300, 100
DEMO_READING = {"variance": 0.9}  # fine detail of 8 by 8 pixels is noise: without it new digits look more like digits


def write(
    source: Path,
    samples: Path | None,
    out: Path | None,
    n: int,
    novelty: float | None,
    beta: float | None,
    rule: str,
    seed: int,
    reading: dict[str, Any],
) -> Path:
    """Write the report of samples, or of n that are drawn for it; returns where."""
    from ..report import build

    facts = None if samples is None else _made_by(samples)
    if facts is not None:
        reading = {**facts.get("options", {}).get("reading", {}), **reading}
    codec = codec_of(source, reading)
    if facts is not None and beta is None and novelty is None:
        asked = facts.get("options", {})
        chosen = {name: asked[name] for name in ("keep", "weight", "fix") if asked.get(name)}
        made = replace(plan(codec, beta=facts["beta"], **chosen), rule=facts.get("rule", "given"))
        seed = facts["seed"]
    else:
        made = plan(codec, beta=beta, novelty=novelty, rule=rule)
    items = drawn(made, n, seed) if samples is None else codec.read_new(samples)
    path = out or (samples or source).with_suffix(".html")
    if path.is_dir():
        raise InputError(f"-o {path} is a folder: name a file in it.")
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
    source = out / "digits.npz"
    buffer = io.BytesIO()
    np.savez_compressed(buffer, images=pixels, labels=digits.target[:DEMO_STORED].astype(str))
    write_whole(source, buffer.getvalue())
    new = out / "new"
    say(f"stochattn sample {source} -n {DEMO_NEW} --variance {DEMO_READING['variance']} --replace -o {new}")
    codec = codec_of(source, DEMO_READING)
    made = plan(codec)
    tally = outputs.write(made, DEMO_NEW, 0, str(new), "png", str(source))
    facts = outputs.summary(made, tally, 0, str(source), str(new), {"reading": DEMO_READING})
    outputs.write_summary(str(new), facts)
    say(told(facts, None))
    say(f"stochattn report {source} {new} -o {out / 'report.html'}")
    page = write(source, new, out / "report.html", DEMO_NEW, None, None, "natural", 0, {})
    say(f"Look at {new / 'contact-sheet.png'} and {page}.")


def _made_by(samples: Path) -> dict[str, Any] | None:
    """The summary beside a file of samples, if it is there and is one."""
    try:
        facts = json.loads(outputs.sidecar(str(samples)).read_text("utf-8"))
        return facts if {"beta", "seed", "options"} <= set(facts) else None
    except (OSError, ValueError):
        return None


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import pandas as pd

    return pd.concat(parts, ignore_index=True)
