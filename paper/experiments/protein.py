"""The RRM family PF00076: both tables, composition, identity, temperatures, profile HMM, mutual information."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import metrics, neighbors, temperature

from .. import closed_form
from ..baselines import ConvexCombination, GaussianPerturbation, MixtureOnPCA, Replay
from ..baselines.vae import VAE
from ..data import Data
from ..expected import expected
from ..family import (
    Family,
    composition_divergence,
    connected_r,
    identity,
    independent_sites,
    mutual_information_r,
    position_divergence,
    profile_test,
    read_family,
)
from ..progress import stage
from ..protocol import ALPHA, N_CHAINS, N_SAMPLES, chains, exact_sets, measured, over_runs
from ..results import Cause, Measured, Result, Table
from .protein_figures import figures

RETRIEVAL, GENERATION = 77.0, 8.0
N_RUNS, N_TRAININGS = 10, 3
N_LARGE = 5000
LEARNED = "VAE (latent 8)"
RESTORED, NULL = "SA (β = 8), norm restored", "Independent sites (null model)"
LARGE = ("5,000 exact draws (β = 8)", "5,000 exact draws (β = 8), norm restored", "5,000 of independent sites")
OTHER_EPSILON = 1e-12  # reproduces the printed values of the per-position KL; the published ε is 1e-10
IN_MAIN = ("novelty", "identity", "KL", "position KL", "MI r", "HMM pass", "position KL, ε = 1e-12", "C_ij r")
IN_FULL = ("novelty", "diversity", "energy", "identity", "KL")
ONLY_FULL = ("Gaussian perturbation", "Random convex combination", "MALA (β = 77)")
ONLY_MAIN = ("MALA (β = 8)", NULL, RESTORED, *LARGE)

Array = Any
Row = dict[str, Measured]


def run(data: Data, seed: int, quick: bool) -> Result:
    """Tables protein-main and protein, the temperatures, and the figures protein and protein-entropy."""
    study = Study(read_family(data.alignment()), data.profile(), seed, quick)
    rows = {**study.static_rows(), LEARNED: study.learned_row(), **study.chain_rows()}
    rows |= {**study.restored_and_null_rows(), **study.large_rows()}
    tables = [study.main_table(rows), study.full_table(rows), study.temperatures()]
    return Result(tables, figures(study.family, study.sequences, RESTORED, NULL))


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
            "position KL, ε = 1e-12": Measured(position_divergence(stored, generated, OTHER_EPSILON)),
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

    def main_table(self, rows: dict[str, Row]) -> Table:
        """Table protein-main."""
        medians = [profile_test(self.sequences[name], self.profile)[1] for name in ("SA (β = 8)", RESTORED)]
        stored_median = profile_test(self.family.alignment, self.profile)[1]
        norms = self.family.norms
        return expected(__file__)["protein-main"].against(
            {name: {q: row[q] for q in IN_MAIN if q in row} for name, row in rows.items() if name not in ONLY_FULL},
            notes=(
                f"Mean and spread over {self.n_runs} runs of 30 chains ({N_TRAININGS} trainings for the VAE), with the "
                "published decoder except where a row says otherwise. The values of MALA (β = 8) and GMM-PCA are in "
                "the text of the paper.",
                "Position KL: most of it is log(1/ε) for letters that do not occur in the 150 sequences.",
                "MI r and C_ij r (the correlation of the connected pair frequencies f_ij(a, b) − f_i(a) f_j(b)) depend "
                "on the number of sequences: 150 in the rows above, 5,000 in the last three.",
                "The published decoder drops the norm: the memories are components of norm "
                f"{norms.min():.1f} to {norms.max():.1f}, normalised to one. Decoded at norm one they move towards the "
                "consensus, and even a stored sequence is decoded with an identity of only "
                f"{rows['Bootstrap (replay)']['identity'].value:.2f}. “Norm restored” scales a sample to the norm of "
                "its nearest memory.",
                f"Median E-values under Pfam's profile: SA (β = 8) {medians[0]:.1e} (paper 8.1e-34), norm restored "
                f"{medians[1]:.1e}, the stored sequences {stored_median:.1e} (paper 2.5e-22). Sequences that are "
                "closer to the consensus than natural sequences get better scores.",
            ),
            causes=_causes(rows),
            findings=(
                "The paper interprets MI r = 0.871 and KL = 0.060 as preserved co-evolution and composition. A null "
                "model that draws every position independently from its frequencies has MI r "
                f"{rows[NULL]['MI r'].value:.3f} and KL {rows[NULL]['KL'].value:.3f} with the same 150 sequences. Its "
                f"C_ij r is {rows[NULL]['C_ij r'].value:.2f}; 5,000 exact draws at β = 8 have "
                f"{rows[LARGE[0]]['C_ij r'].value:.2f} with the published decoder and "
                f"{rows[LARGE[1]]['C_ij r'].value:.2f} with restored norms.",
            ),
        )

    def full_table(self, rows: dict[str, Row]) -> Table:
        """Table protein."""
        rounding = Cause(
            ("Gaussian perturbation",),
            ("novelty",),
            "the result file of the authors has 0.0076 ± 0.0001, which ours matches; the paper prints 0.008.",
        )
        return expected(__file__)["protein"].against(
            {name: {q: row[q] for q in IN_FULL if q in row} for name, row in rows.items() if name not in ONLY_MAIN},
            causes=(rounding, *_causes(rows)),
        )

    def temperatures(self) -> Table:
        """The temperatures of the family and MALA's acceptance."""
        bank = self.family.bank
        values = {
            "β* (published knee)": Measured(temperature.knee(bank)),
            "random patterns, √d": Measured(temperature.random_pattern(bank.d)),
            **{
                f"MALA acceptance, β = {beta:g}": Measured(
                    self.acceptance[beta], formula=closed_form.mala_acceptance(ALPHA, bank.d)
                )
                for beta in (RETRIEVAL, GENERATION)
            },
            "β* by the paper's equation": Measured(temperature.inflection(bank)),
            "β by leave-one-out likelihood": Measured(temperature.leave_one_out(bank)),
        }
        return expected(__file__)["protein-temperature"].against({name: {"value": v} for name, v in values.items()})


def _with_law(row: Row, law: Row) -> Row:
    return {name: replace(cell, exact=law[name].value) for name, cell in row.items()}


def _causes(rows: dict[str, Row]) -> tuple[Cause, ...]:
    vae, mala = rows["VAE (latent 8)"]["KL"], rows["MALA (β = 8)"]
    return (
        *_epsilon_causes(rows),
        Cause(
            ("VAE (latent 8)",),
            ("KL",),
            f"the value depends on the training: its spread over {N_TRAININGS} trainings is {vae.spread or 0.0:.2f}, "
            "about as large as the band, and the published value is from one training.",
        ),
        Cause(
            ("MALA (β = 8)",),
            ("novelty",),
            "the text prints no error. With 0.006, the error over chains that the table prints for SA, the values "
            f"would match; the spread of our runs is smaller ({mala['novelty'].spread or 0.0:.3f}). The exact law "
            f"gives {mala['novelty'].exact or 0.0:.3f}.",
        ),
        Cause(
            ("SA (β = 77)", "SA (β = 8)", "MALA (β = 8)"),
            ("MI r", "identity"),
            "not explained. The exact law agrees with our chains (MALA at β = 8 has an MI r of "
            f"{mala['MI r'].exact or 0.0:.3f}, with a spread of {mala['MI r'].spread or 0.0:.3f} per run); "
            "the published value, from one run without a printed error, is further away.",
            explained=False,
        ),
    )


def _epsilon_causes(rows: dict[str, Row]) -> tuple[Cause, ...]:
    """Whether another ε explains the printed per-position KL, row by row."""
    fits: dict[bool, list[str]] = {True: [], False: []}
    shown: dict[bool, list[str]] = {True: [], False: []}
    for name, printed in expected(__file__)["protein-main"].rows.items():
        if name not in rows:
            continue
        ours = rows[name]["position KL, ε = 1e-12"]
        gap = ours.value - printed["position KL"].value
        fit = abs(gap) <= 3 * math.hypot(ours.one_run, ours.standard_error)
        fits[fit].append(name)
        shown[fit].append(f"{name} {ours.value:.2f} (paper {printed['position KL'].value:.2f})")
    start = (
        "the paper does not print the ε that replaces the frequency of a letter that does not occur; its scripts use "
        "1e-10, as we do. The value is mostly the number of such letters times log(1/ε). "
    )
    return (
        Cause(
            tuple(fits[True]),
            ("position KL",),
            f"{start}With ε = 1e-12 these rows agree within three standard errors of one run: "
            f"{'; '.join(shown[True])}.",
        ),
        Cause(
            tuple(fits[False]),
            ("position KL",),
            f"not explained. {start}With ε = 1e-12 these rows are closer and still differ by more than three standard "
            f"errors of one run: {'; '.join(shown[False])}.",
            explained=False,
        ),
    )
