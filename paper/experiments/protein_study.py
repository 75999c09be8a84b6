"""Sequences of the RRM family by every method, and the quantities of the tables for each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import metrics, neighbors

from ..baselines import ConvexCombination, GaussianPerturbation, MixtureOnPCA, Replay
from ..baselines.vae import VAE
from ..family import (
    Family,
    composition_divergence,
    connected_r,
    identity,
    independent_sites,
    mutual_information_r,
    position_divergence,
    profile_test,
)
from ..progress import stage
from ..protocol import ALPHA, N_CHAINS, N_SAMPLES, chains, exact_sets, measured, over_runs
from ..results import Measured

RETRIEVAL, GENERATION = 77.0, 8.0
N_RUNS, N_TRAININGS = 10, 3
N_LARGE = 5000
LEARNED = "VAE (latent 8)"
RESTORED, NULL = "SA (β = 8), norm restored", "Independent sites (null model)"
LARGE = ("5,000 exact draws (β = 8)", "5,000 exact draws (β = 8), norm restored", "5,000 of independent sites")
IN_BITS, EPSILON_IN_BITS = "position KL, bits, ε = 1e-9", 1e-9  # reproduces the printed values of the per-position KL

Array = Any
Row = dict[str, Measured]


@dataclass(frozen=True, eq=False)
class Study:
    """The family with its profile HMM, and the sequences and acceptance rates that were computed so far."""

    family: Family
    profile: Path
    seed: int
    quick: bool
    sequences: dict[str, Array] = field(default_factory=dict)
    acceptance: dict[float, float] = field(default_factory=dict)

    @property
    def n_runs(self) -> int:
        """Number of runs of every method except the VAE."""
        return 2 if self.quick else N_RUNS

    def evaluate(self, name: str, generated: Array, samples: Array | None = None) -> Row:
        """The quantities of generated sequences (150, L), and of the samples (150, d) that they were decoded from."""
        stored, bank = self.family.alignment, self.family.bank
        self.sequences.setdefault(name, generated)
        near = identity(generated, stored).reshape(N_CHAINS, -1).mean(1)
        row = {
            "identity": Measured(float(near.mean()), metrics.over_chains(near)),
            "KL": Measured(composition_divergence(stored, generated)),
            "position KL": Measured(position_divergence(stored, generated)),
            IN_BITS: Measured(position_divergence(stored, generated, EPSILON_IN_BITS) / math.log(2)),
            "MI r": Measured(mutual_information_r(stored, generated)),
            "C_ij r": Measured(connected_r(stored, generated)),
            "HMM pass": Measured(profile_test(generated, self.profile)[0]),
        }
        if samples is not None:
            summary = measured(samples.reshape(N_CHAINS, -1, bank.d), bank, RETRIEVAL)
            row |= {quantity: summary[quantity] for quantity in ("novelty", "diversity", "energy")}
        return row

    def row(self, name: str, sample: Callable[[int], Array], n_runs: int | None = None) -> Row:
        """The row of a method, averaged over runs; sample(seed) returns (150, d)."""

        def once(seed: int) -> Row:
            samples = sample(seed)
            return self.evaluate(name, self.family.decode(samples), samples)

        return over_runs(once, n_runs or self.n_runs, self.seed)

    def static_rows(self) -> dict[str, Row]:
        """The rows of the baselines without training."""
        stage("baselines")
        bank = self.family.bank
        sigma = math.sqrt(2 * ALPHA / RETRIEVAL)
        replay, noise, convex = Replay(bank), GaussianPerturbation(bank, sigma), ConvexCombination(bank)
        methods: dict[str, Callable[[int], Array]] = {
            "Bootstrap (replay)": lambda s: replay.sample(N_SAMPLES, s),
            "Gaussian perturbation": lambda s: noise.sample(N_SAMPLES, s),
            "Random convex combination": lambda s: convex.sample(N_SAMPLES, s),
            "GMM-PCA (r = 50, C = 10)": lambda s: MixtureOnPCA(bank, s).sample(N_SAMPLES, s),
        }
        return {name: self.row(name, sample) for name, sample in methods.items()}

    def learned_row(self) -> Row:
        """The row of the VAE."""
        patterns, d = self.family.bank.patterns, self.family.bank.d
        hidden, epochs = (max(d // 2, 8), max(d // 4, 8)), 20 if self.quick else 2000
        return self.row(
            LEARNED, lambda s: VAE(patterns, s, hidden=hidden, epochs=epochs).sample(N_SAMPLES, s), N_TRAININGS
        )

    def chain_rows(self) -> dict[str, Row]:
        """The rows of SA and MALA at both temperatures, with the values of the exact law."""
        rows = {}
        for name, beta, sampler in (
            ("MALA (β = 77)", RETRIEVAL, "mala"),
            ("SA (β = 77)", RETRIEVAL, "ula"),
            ("SA (β = 8)", GENERATION, "ula"),
            ("MALA (β = 8)", GENERATION, "mala"),
        ):
            stage(name)
            rows[name] = _with_law(
                self.row(name, lambda s, b=beta, c=sampler: self.by_chains(b, c, s)),  # type: ignore[misc]
                self.row(f"exact, β = {beta:g}", lambda s, b=beta: self.exactly(b, s)),  # type: ignore[misc]
            )
        return rows

    def restored_and_null_rows(self) -> dict[str, Row]:
        """The row of the decoder that restores norms, and that of the null model."""
        stage("decoding with restored norms")

        def sampled(seed: int) -> Row:
            return self.evaluate(RESTORED, self.decode_with_norms(self.by_chains(GENERATION, "ula", seed)))

        def exact(seed: int) -> Row:
            return self.evaluate("exact", self.decode_with_norms(self.exactly(GENERATION, seed)))

        def null(seed: int) -> Row:
            return self.evaluate(NULL, independent_sites(self.family.alignment, N_SAMPLES, seed))

        row, law = (over_runs(method, self.n_runs, self.seed) for method in (sampled, exact))
        return {RESTORED: _with_law(row, law), NULL: over_runs(null, self.n_runs, self.seed)}

    def large_rows(self) -> dict[str, Row]:
        """Correlations of pairs for 5,000 sequences: exact draws with both decoders, and the null model."""
        stage("5,000 exact draws")
        stored = self.family.alignment
        draws = sa.StochasticAttention(self.family.bank, beta=GENERATION).sample(N_LARGE, rng=self.seed)
        null = independent_sites(stored, N_LARGE, self.seed)
        sets = (self.family.decode(draws), self.decode_with_norms(draws), null)
        return {
            name: {
                "MI r": Measured(mutual_information_r(stored, generated)),
                "C_ij r": Measured(connected_r(stored, generated)),
            }
            for name, generated in zip(LARGE, sets, strict=True)
        }

    def by_chains(self, beta: float, sampler: str, seed: int) -> Array:
        """The states (150, d) of 30 chains."""
        draws = chains(self.family.bank, beta, sampler, seed, self.quick)
        if sampler == "mala":
            self.acceptance[beta] = float(draws.acceptance.mean())
        return draws.samples.reshape(-1, self.family.bank.d)

    def exactly(self, beta: float, seed: int) -> Array:
        """150 exact draws: around the start patterns at the cold temperature, of the whole mixture at the hot one."""
        bank = self.family.bank
        return exact_sets(bank, beta, seed, beta == RETRIEVAL, 1)[0].reshape(-1, bank.d)

    def decode_with_norms(self, samples: Array) -> Array:
        """Decode the direction of each sample with the norm of its nearest memory."""
        nearest, _ = neighbors.nearest_memory(samples, self.family.bank)
        directions = samples / np.linalg.norm(samples, axis=1, keepdims=True)
        return self.family.decode(directions, self.family.norms[nearest])


def _with_law(row: Row, law: Row) -> Row:
    return {name: replace(cell, exact=law[name].value) for name, cell in row.items()}
