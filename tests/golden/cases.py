"""The recorded cases: results for fixed seeds, by name. Names and results must not change."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import stochattn as sa

sys.path.insert(0, str(Path(__file__).parents[1]))
import made_items

PAPER = ("convergence", "protein", "sequence")
CONDITIONS: dict[str, dict[Any, Any]] = {
    "image": {(2, 3): 120},
    "table": {"age": 40},
    "returns": {"T0": -0.02},
    "protein": {},  # a letter of the made family, below
    "signals": {(0, 20): "1"},
}


def all_cases(only: str = "", paper: bool = True) -> Iterator[tuple[str, Any]]:
    """Name and result of every case, at least of those whose name starts with `only`."""
    if not only.startswith((*CONDITIONS, "paper")):
        yield from chains()
    with tempfile.TemporaryDirectory() as folder:
        yield from kinds(Path(folder), only)
    if paper and "STOCHATTN_DATA" in os.environ and "paper".startswith(only[:5]):
        yield from paper_tables()


def memories(dtype: Any = np.float64) -> Any:
    """Twelve memories in thirty dimensions, at two scales of distance."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((4, 30))[np.arange(12) % 4] + 0.5 * rng.standard_normal((12, 30))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype)


def chains() -> Iterator[tuple[str, Any]]:
    """Runs and draws of the core, in numpy and torch."""
    import torch

    for library in ("numpy", "torch"):
        for dtype in (np.float32, np.float64):
            X = memories(dtype)
            bank = sa.MemoryBank(torch.tensor(X) if library == "torch" else X)
            where = f"{library} {np.dtype(dtype).name}"
            for sampler in ("exact", "ula", "mala"):
                for span in (None, False):
                    draws = sa.run(
                        bank, 20.0, sampler=sampler, n_chains=10, n_steps=300, warmup=100, thin=50, rng=3, span=span
                    )
                    yield f"run {sampler} {where} {'span' if span is None else 'direct'}", _of_draws(draws)
            model = sa.StochasticAttention(bank, beta=20.0)
            yield f"sample {where}", model.sample(100, rng=1)
            yield f"natural {where}", model.beta
    bank = sa.MemoryBank(memories())
    model = sa.StochasticAttention(bank)
    yield "natural beta", model.beta
    yield "subset", model.subset([0, 3, 5]).sample(50, rng=2)
    yield "weights", model.weight(20.0, [3, 4]).sample(50, rng=2)
    given = model.condition({0: 0.1, 1: -0.2})
    yield "condition", given.sample(50, rng=2)[:, 2:]
    chains = _of_draws(given.run(sampler="mala", n_steps=300, warmup=100, rng=2))
    yield "condition run", {**chains, "samples": chains["samples"][..., 2:]}
    for rule in ("inflection", "knee", "leave_one_out"):
        yield f"beta {rule}", getattr(sa.temperature, rule)(bank)
    yield "beta novelty", sa.temperature.for_novelty(bank, 0.2)
    yield "one chain", _of_draws(sa.run(bank, 20.0, n_chains=1, n_steps=400, warmup=100, rng=5))
    paths = sa.sequential(bank, 25.0, n_days=10, inner_steps=30, n_paths=3, rng=1)
    yield "sequential", paths.values
    yield "heads", sa.multihead.pca(bank, 2).sample(20, 30.0, rng=1)


def kinds(folder: Path, only: str = "") -> Iterator[tuple[str, Any]]:
    """Samples of each kind with and without conditions, and the values of its report."""
    from stochattn.report.evidence import measure

    for kind, path in made_items.write_all(folder).items():
        if only and not only.startswith(kind):
            continue
        synth = sa.fit(path)
        codec, condition = synth.codec, CONDITIONS[kind]
        if kind == "protein":
            letter = "ACDEFGHIKLMNPQRSTVWY-"[np.bincount(codec.stored[:, 2], minlength=21).argmax()]
            condition = {int(codec.columns[2]) + 1: letter}
        selection = codec.labels[0] if codec.labels is not None else [name.startswith("seq1") for name in codec.ids]
        hopfield = "windows" if kind == "returns" else "hopfield"
        for name, chosen in {
            "auto": synth,
            "hopfield": synth.with_generator(hopfield),
            "beta": synth.with_generator(beta=30.0),
            "novelty": synth.with_generator(novelty=0.2),
            "condition": synth.condition(condition),
            "hopfield condition": synth.with_generator(hopfield).condition(condition),
            "subset": synth.subset(selection),
            "weight": synth.weight(5, selection),
        }.items():
            yield f"{kind} {name}", chosen.sample(40, rng=11)
        if kind == "returns":
            yield "returns paths", sa.fit(path, days=40).sample(3, rng=4)
        for name, chosen in {"auto": synth, "hopfield": synth.with_generator(hopfield)}.items():
            found = measure(chosen, chosen.sample_items(60, 1), 0, False)
            yield (
                f"{kind} report {name}",
                {
                    "copies": found.copies,
                    "twins": found.stored_duplicates,
                    "too_close": found.too_close,
                    "too_far": found.too_far,
                    "nearness": found.distance_ratio,
                    "unlikeness": (found.comparison.distance, found.resampled.distance),
                    "novelty": float(found.to_stored.novelty.mean()),
                    "diversity": found.diversity,
                    "train_proximity": found.split_half.train_proximity,
                    "membership_auc": found.split_half.membership_auc,
                    "measures": {m.name: m.value for m in found.comparison.measures},
                    "redrawn": {m.name: m.value for m in found.resampled.measures},
                },
            )


def paper_tables() -> Iterator[tuple[str, Any]]:
    """Tables of three experiments of the reproduction, run quickly."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "paper", "run", *PAPER, "--quick", "--jobs", "1", "--out", out]
        subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parents[2])
        for table in sorted(Path(out).rglob("*.csv")):
            yield f"paper {table.relative_to(out)}", table.read_text()


def _of_draws(draws: Any) -> dict[str, Any]:
    return {name: getattr(draws, name) for name in ("samples", "energies", "basins", "steps", "acceptance")}
