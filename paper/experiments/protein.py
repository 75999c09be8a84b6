"""The RRM family PF00076: both tables, composition, identity, entropy curve, profile HMM, mutual information."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import metrics, neighbors, temperature

from .. import closed_form, drawing
from ..baselines import ConvexCombination, GaussianPerturbation, MixtureOnPCA, Replay
from ..baselines.vae import VAE
from ..data import Data
from ..expected import expected
from ..family import (
    LETTERS,
    Family,
    composition_divergence,
    connected_r,
    identity,
    independent_sites,
    mutual_information_r,
    one_hot,
    position_divergence,
    profile_test,
    read_family,
)
from ..progress import stage
from ..protocol import ALPHA, N_CHAINS, N_SAMPLES, chains, exact_sets, measured, over_runs
from ..results import Cause, Figure, Measured, Result

RETRIEVAL, GENERATION = 77.0, 8.0
N_RUNS, N_TRAININGS = 10, 3
N_LARGE = 5000
LARGE = ("5,000 exact draws (β = 8)", "5,000 exact draws (β = 8), norm restored", "5,000 of independent sites")
OTHER_EPSILON = 1e-12  # with which the printed values of the per-position KL come out; the published ε is 1e-10
IN_MAIN = ("novelty", "identity", "KL", "position KL", "MI r", "HMM pass", "position KL, ε = 1e-12", "C_ij r")
IN_FULL = ("novelty", "diversity", "energy", "identity", "KL")

Array = Any


def run(data: Data, seed: int, quick: bool) -> Result:
    """Tables protein-main and protein, the temperatures, and the figures protein and protein-entropy."""
    family, profile = read_family(data.alignment()), data.profile()
    bank, stored = family.bank, family.alignment
    sequences: dict[str, Array] = {}
    accepted: dict[float, float] = {}

    def judge(name: str, made: Array, samples: Array | None = None) -> dict[str, Measured]:
        sequences.setdefault(name, made)
        near = identity(made, stored).reshape(N_CHAINS, -1).mean(1)
        row = {
            "identity": Measured(float(near.mean()), metrics.over_chains(near)),
            "KL": Measured(composition_divergence(stored, made)),
            "position KL": Measured(position_divergence(stored, made)),
            "position KL, ε = 1e-12": Measured(position_divergence(stored, made, OTHER_EPSILON)),
            "MI r": Measured(mutual_information_r(stored, made)),
            "C_ij r": Measured(connected_r(stored, made)),
            "HMM pass": Measured(profile_test(made, profile)[0]),
        }
        if samples is not None:
            summary = measured(samples.reshape(N_CHAINS, -1, bank.d), bank, RETRIEVAL)
            row |= {quantity: summary[quantity] for quantity in ("novelty", "diversity", "energy")}
        return row

    def of(name: str, make: Callable[[int], Array]) -> Callable[[int], dict[str, Measured]]:
        def once(s: int) -> dict[str, Measured]:
            samples = make(s)
            return judge(name, family.decode(samples), samples)

        return once

    def by_chains(beta: float, sampler: str) -> Callable[[int], Array]:
        def make(s: int) -> Array:
            draws = chains(bank, beta, sampler, s, quick)
            if sampler == "mala":
                accepted[beta] = float(draws.acceptance.mean())
            return draws.samples.reshape(-1, bank.d)

        return make

    stage("baselines")
    n_runs = 2 if quick else N_RUNS
    rows = {
        name: over_runs(of(name, lambda s, b=baseline: b.sample(N_SAMPLES, s)), n_runs, seed)  # type: ignore[misc]
        for name, baseline in (
            ("Bootstrap (replay)", Replay(bank)),
            ("Gaussian perturbation", GaussianPerturbation(bank, math.sqrt(2 * ALPHA / RETRIEVAL))),
            ("Random convex combination", ConvexCombination(bank)),
        )
    }
    name = "GMM-PCA (r = 50, C = 10)"
    rows[name] = over_runs(of(name, lambda s: MixtureOnPCA(bank, s).sample(N_SAMPLES, s)), n_runs, seed)
    name, hidden = "VAE (latent 8)", (max(bank.d // 2, 8), max(bank.d // 4, 8))
    epochs = 20 if quick else 2000
    vae = of(name, lambda s: VAE(bank.patterns, s, hidden=hidden, epochs=epochs).sample(N_SAMPLES, s))
    rows[name] = over_runs(vae, N_TRAININGS, seed)
    for name, beta, sampler in (
        ("MALA (β = 77)", RETRIEVAL, "mala"),
        ("SA (β = 77)", RETRIEVAL, "ula"),
        ("SA (β = 8)", GENERATION, "ula"),
        ("MALA (β = 8)", GENERATION, "mala"),
    ):
        stage(name)
        rows[name] = _with_law(
            over_runs(of(name, by_chains(beta, sampler)), n_runs, seed),
            over_runs(of(f"exact, β = {beta:g}", lambda s, b=beta: _exact(family, b, s)), n_runs, seed),  # type: ignore[misc]
        )
    stage("the decode that keeps norms")
    restored = f"SA (β = {GENERATION:g}), norm restored"
    rows[restored] = _with_law(
        over_runs(lambda s: judge(restored, _decode_with_norms(family, by_chains(GENERATION, "ula")(s))), n_runs, seed),
        over_runs(lambda s: judge("exact", _decode_with_norms(family, _exact(family, GENERATION, s))), n_runs, seed),
    )
    null = "Independent sites (null model)"
    rows[null] = over_runs(lambda s: judge(null, independent_sites(stored, N_SAMPLES, s)), n_runs, seed)

    stage("5,000 exact draws")
    hot = sa.StochasticAttention(bank, beta=GENERATION).sample(N_LARGE, rng=seed)
    large = (family.decode(hot), _decode_with_norms(family, hot), independent_sites(stored, N_LARGE, seed))
    for name, made in zip(LARGE, large, strict=True):
        rows[name] = {
            "MI r": Measured(mutual_information_r(stored, made)),
            "C_ij r": Measured(connected_r(stored, made)),
        }
    tables = expected(__file__)
    medians = {
        name: profile_test(sequences[name], profile)[1] for name in ("SA (β = 8)", restored, "Bootstrap (replay)")
    }
    main = tables["protein-main"].against(
        {name: {q: row[q] for q in IN_MAIN if q in row} for name, row in rows.items() if name not in _ONLY_FULL},
        notes=(
            f"Mean and spread over {n_runs} runs of 30 chains ({N_TRAININGS} trainings for the VAE), published decode "
            "but in the rows that say otherwise. MALA (β = 8) and GMM-PCA are printed in the paper's text.",
            "Position KL: most of it is log(1/ε) for letters that 150 sequences happened not to show.",
            "MI r and C_ij r (correlation of the connected pair frequencies f_ij(a, b) − f_i(a) f_j(b)) depend on how "
            "many sequences there are: 150 in the rows above, 5,000 in the last three.",
            "The published decode drops the radius: memories are components of norm "
            f"{family.norms.min():.1f} to {family.norms.max():.1f} scaled to one, and decoded at norm one they fall "
            "towards the consensus: even a stored sequence comes back at identity "
            f"{rows['Bootstrap (replay)']['identity'].value:.2f}. “Norm restored” puts the direction of a sample at "
            "the norm of its nearest memory.",
            f"Median E-values against Pfam's profile: SA (β = 8) {medians['SA (β = 8)']:.1e} (paper 8.1e-34), norm "
            f"restored {medians[restored]:.1e}, the stored sequences themselves "
            f"{profile_test(stored, profile)[1]:.1e} (paper 2.5e-22): what is closer to the consensus than nature "
            "scores better than nature.",
        ),
        causes=_causes(rows),
        findings=(
            "it takes MI r = 0.871 and KL = 0.060 for co-evolution and composition preserved. A null model in which "
            "every position is drawn from its own frequencies and nothing is coupled has MI r "
            f"{rows[null]['MI r'].value:.3f} and KL {rows[null]['KL'].value:.3f} at the same 150 sequences. Its C_ij "
            f"r is {rows[null]['C_ij r'].value:.2f}; that of 5,000 exact draws at β = 8 is "
            f"{rows[LARGE[0]]['C_ij r'].value:.2f} under the published decode and "
            f"{rows[LARGE[1]]['C_ij r'].value:.2f} with the norm restored.",
        ),
    )
    full = tables["protein"].against(
        {name: {q: row[q] for q in IN_FULL if q in row} for name, row in rows.items() if name not in _ONLY_MAIN},
        causes=(
            Cause(
                ("Gaussian perturbation",),
                ("novelty",),
                "0.008 is printed for 0.0076 ± 0.0001 in the authors' result file, which ours matches.",
            ),
            *_causes(rows),
        ),
    )
    return Result([main, full, _temperatures(family, accepted)], _figures(family, sequences, restored))


_ONLY_FULL = ("Gaussian perturbation", "Random convex combination", "MALA (β = 77)")
_ONLY_MAIN = (
    "MALA (β = 8)",
    "Independent sites (null model)",
    "SA (β = 8), norm restored",
    *LARGE,
)


def _causes(rows: dict[str, dict[str, Measured]]) -> tuple[Cause, ...]:
    vae, pairs = rows["VAE (latent 8)"]["KL"], rows["MALA (β = 8)"]["MI r"]
    return (
        Cause(
            tuple(rows),
            ("position KL",),
            "the paper does not print the ε that stands in for a letter never seen; its scripts have 1e-10, as here. "
            "The value is mostly a count of such letters times log(1/ε), and with ε = 1e-12 the printed values come "
            f"out to {_worst(rows):.0%} or better (column position KL, ε = 1e-12).",
        ),
        Cause(
            ("VAE (latent 8)",),
            ("KL",),
            f"it is a matter of the training: its spread over {N_TRAININGS} trainings is {vae.spread or 0.0:.2f}, "
            "about as large as the band stated beforehand, and the published value is that of one.",
        ),
        Cause(
            ("MALA (β = 8)",),
            ("novelty",),
            "the text prints no error. With the 0.006 that the table prints for the same quantity of SA, an error "
            "over chains and larger than the spread of our runs "
            f"({rows['MALA (β = 8)']['novelty'].spread or 0.0:.3f}), it would match; the exact law gives "
            f"{rows['MALA (β = 8)']['novelty'].exact or 0.0:.3f}.",
        ),
        Cause(
            ("SA (β = 77)", "SA (β = 8)", "MALA (β = 8)"),
            ("MI r", "identity"),
            "not explained. The exact law gives what our chains give (for MALA at β = 8 an MI r of "
            f"{pairs.exact or 0.0:.3f}, of which one run of 30 chains spreads by {pairs.spread or 0.0:.3f}); the "
            "published value, of one run without a printed error, lies further out.",
        ),
    )


def _worst(rows: dict[str, dict[str, Measured]]) -> float:
    """The largest relative gap between the printed per-position KL and ours with the other ε."""
    printed = {name: row["position KL"] for name, row in expected(__file__)["protein-main"].rows.items()}
    return max(
        abs(rows[name]["position KL, ε = 1e-12"].value / cell.value - 1)
        for name, cell in printed.items()
        if name in rows
    )


def _exact(family: Family, beta: float, seed: int) -> Array:
    """150 exact draws: around the start patterns at the cold temperature, of the whole mixture at the hot one."""
    own = beta == RETRIEVAL
    return exact_sets(family.bank, beta, seed, own, 1)[0].reshape(-1, family.bank.d)


def _with_law(row: dict[str, Measured], law: dict[str, Measured]) -> dict[str, Measured]:
    return {name: replace(cell, exact=law[name].value) for name, cell in row.items()}


def _decode_with_norms(family: Family, samples: Array) -> Array:
    nearest, _ = neighbors.nearest_memory(samples, family.bank)
    directions = samples / np.linalg.norm(samples, axis=1, keepdims=True)
    return family.decode(directions, family.norms[nearest])


def _temperatures(family: Family, accepted: dict[float, float]) -> Any:
    bank = family.bank
    acceptance = closed_form.mala_acceptance(ALPHA, bank.d)
    rows = {
        "β* (published knee)": {"value": Measured(temperature.knee(bank))},
        "random patterns, √d": {"value": Measured(temperature.random_pattern(bank.d))},
        **{
            f"MALA acceptance, β = {beta:g}": {"value": Measured(accepted[beta], formula=acceptance)}
            for beta in (RETRIEVAL, GENERATION)
        },
        "β* by the paper's equation": {"value": Measured(temperature.inflection(bank))},
        "β by leave-one-out likelihood": {"value": Measured(temperature.leave_one_out(bank))},
    }
    return expected(__file__)["protein-temperature"].against(rows)


def _figures(family: Family, sequences: dict[str, Array], restored: str) -> list[Figure]:
    return [
        Figure(
            "protein",
            "Left: amino acid frequencies by position, stored and made by SA (β = 77). Right: identity to the nearest "
            "stored sequence.",
            lambda: _draw_family(family, sequences),
        ),
        Figure(
            "protein-entropy",
            "Attention entropy of the family against β, with β* by the published rule, by the paper's equation, and "
            "for random patterns.",
            lambda: _draw_entropy(family),
        ),
        Figure(
            "protein-decode",
            "Not in the paper: connected pair frequencies of stored and made sequences, β = 8: published decode, norm "
            "restored, and the null model of independent sites.",
            lambda: _draw_couplings(family, sequences, restored),
        ),
    ]


def _draw_family(family: Family, sequences: dict[str, Array]) -> Any:
    from matplotlib.gridspec import GridSpec

    figure, _ = drawing.subplots(1, 1, size=(11.0, 5.2))
    figure.clear()
    grid = GridSpec(2, 2, figure=figure, width_ratios=(1.7, 1))
    for place, (title, rows) in enumerate(
        (("stored", family.alignment), ("SA, β = 77", sequences["SA (β = 77)"])),
    ):
        axis = figure.add_subplot(grid[place, 0])
        frequencies = one_hot(rows).mean(0).reshape(family.length, len(LETTERS)).T
        image = axis.imshow(frequencies, aspect="auto", cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(title, fontsize=9)
        axis.set_yticks(range(len(LETTERS)), LETTERS, fontsize=6)
        axis.grid(False)
        figure.colorbar(image, ax=axis, pad=0.01, label="frequency")
    axis.set_xlabel("position in the alignment")
    axis = figure.add_subplot(grid[:, 1])
    bins = (np.arange(math.floor(0.4 * family.length), family.length + 2, 2) - 0.5) / family.length
    for name, colour in (
        ("SA (β = 77)", drawing.BLUE),
        ("SA (β = 8)", drawing.GREEN),
        ("GMM-PCA (r = 50, C = 10)", drawing.ORANGE),
    ):
        values = identity(sequences[name], family.alignment)
        axis.hist(values, bins, histtype="step", lw=1.8, color=colour, label=f"{name}: mean {values.mean():.2f}")
    axis.set(xlabel="identity to the nearest stored sequence", ylabel="sequences", xlim=(0.4, 0.9))
    axis.margins(y=0.25)
    axis.legend(loc="upper right")
    return figure


def _draw_entropy(family: Family) -> Any:
    bank = family.bank
    betas = np.geomspace(0.1, 500, 200)
    curve = temperature.entropy_curve(bank, betas)
    figure, axis = drawing.subplots(1, 1, size=(5.4, 3.6))
    axis.semilogx(betas, np.asarray(curve.entropy) / math.log(bank.K), color=drawing.BLACK)
    for value, label, colour, style in (
        (temperature.knee(bank), "published knee", drawing.BLUE, "--"),
        (temperature.inflection(bank), "the paper's equation", drawing.RED, "-."),
        (math.sqrt(bank.d), "random patterns, √d", drawing.GREEN, ":"),
        (temperature.leave_one_out(bank), "leave-one-out likelihood", drawing.ORANGE, (0, (5, 1, 1, 1))),
    ):
        axis.axvline(value, color=colour, ls=style, label=f"{label}: {value:.2f}")
    axis.set(xlabel="inverse temperature β", ylabel="attention entropy H/log K")
    axis.legend(loc="upper right", frameon=True, framealpha=1.0, edgecolor="none", fontsize=8)
    return figure


def _draw_couplings(family: Family, sequences: dict[str, Array], restored: str) -> Any:
    L, letters = family.length, len(LETTERS)
    different = np.kron(np.triu(np.ones((L, L), dtype=bool), 1), np.ones((letters, letters), dtype=bool))
    stored = np.cov(one_hot(family.alignment), rowvar=False, bias=True)[different]
    figure, axes = drawing.subplots(1, 3, size=(3.3, 3.4), sharex=True, sharey=True)
    for axis, (title, name) in zip(
        axes,
        (("published decode", "SA (β = 8)"), ("norm restored", restored), ("independent sites", _ONLY_MAIN[1])),
        strict=True,
    ):
        made = np.cov(one_hot(sequences[name]), rowvar=False, bias=True)[different]
        axis.hexbin(stored, made, gridsize=60, bins="log", cmap="viridis", mincnt=1, extent=(-0.13, 0.13, -0.13, 0.13))
        axis.plot((-0.13, 0.13), (-0.13, 0.13), color=drawing.RED, lw=0.8, ls="--")
        axis.set_title(f"{title}\nr = {np.corrcoef(stored, made)[0, 1]:.2f}", fontsize=9)
        axis.set_xlabel("stored $C_{ij}(a, b)$")
    axes[0].set_ylabel("made $C_{ij}(a, b)$")
    return figure
