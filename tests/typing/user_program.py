"""A program as a user writes it, for type checkers: `make wheel` runs it and checks it against the installed wheel.

`assert_type` fails for a name whose type is lost (Any). A mistake that a checker no longer reports leaves a comment
`type: ignore` without use, which both checkers are told to report.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import assert_type

import numpy as np

import stochattn as sa
from stochattn.sklearn import StochasticAttentionDensity


def synthesize(folder: Path) -> None:
    """A table: fit, condition, sample, validate, write, save and load."""
    rng = np.random.default_rng(0)
    with (folder / "patients.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["age", "dose"])
        rows.writerows([int(rng.integers(20, 80)), round(float(rng.normal(5, 1)), 1)] for _ in range(40))
    synth = sa.fit(folder / "patients.csv", kind="table", n_jobs=1)
    assert_type(synth, sa.Synthesizer)
    forties = synth.condition(age=sa.Range(ge=40, lt=50)).subset(list(range(30))).weight(2.0, [0, 1])
    assert_type(forties, sa.Synthesizer)
    assert all(40 <= age < 50 for age in forties.sample(20, rng=np.random.default_rng(1))["age"])
    assert_type(synth.evaluate(50, rng=0).membership_auc, float)
    assert_type(synth.describe().notes, tuple[str, ...])
    assert_type(synth.report(folder / "report.html", n=30, quick=True), Path)
    assert_type(synth.write(folder / "new.csv", 20, rng=0).seed, int)
    synth.save(folder / "patients.synth")
    assert_type(sa.load(folder / "patients.synth"), sa.Synthesizer)


def sample_rows() -> None:
    """Rows of one's own: exact draws, densities, chains and a time series."""
    bank = sa.MemoryBank(np.random.default_rng(0).standard_normal((20, 5))).normalized()
    assert_type(bank, sa.MemoryBank)
    model = sa.StochasticAttention(bank, beta="natural")
    assert_type(model.beta, float)
    assert_type(model.condition({0: 0.1}), sa.StochasticAttention)
    samples = np.asarray(model.sample(10, rng=0))
    assert np.isfinite(model.log_density(samples)).all()
    draws = model.run(sampler="mala", n_chains=2, n_steps=20, warmup=0, thin=10, rng=0)
    assert_type(draws, sa.Draws)
    assert_type(sa.run(bank, 5.0, sampler="ula", n_steps=20, warmup=0, thin=10, rng=0), sa.Draws)
    assert_type(sa.sequential(bank, 5.0, n_days=3, inner_steps=5, rng=0), sa.Paths)
    assert np.asarray(sa.metrics.novelty(draws.pooled(), bank)).shape == (len(draws.pooled()),)
    assert_type(sa.temperature.choose(bank, "knee").beta, float)
    density = StochasticAttentionDensity(beta=10.0).fit(samples)
    assert_type(density, StochasticAttentionDensity)
    assert_type(density.score(samples), float)


def mistakes(model: sa.StochasticAttention, synth: sa.Synthesizer) -> None:
    """Calls that a type checker must reject; they are never made."""
    sa.fitt("patients.csv")  # type: ignore[attr-defined]
    model.sample("ten")  # type: ignore[arg-type]
    model.sample(10, seed=0)  # type: ignore[call-arg]
    synth.evaluate().no_such_value  # type: ignore[attr-defined]  # noqa: B018
    sa.Range(from_=40)  # type: ignore[call-arg]


def main() -> None:
    """Run what can be run."""
    with tempfile.TemporaryDirectory() as folder:
        synthesize(Path(folder))
    sample_rows()


if __name__ == "__main__":
    main()
