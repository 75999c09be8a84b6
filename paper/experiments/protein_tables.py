"""Tables of the protein experiment: both published tables, the temperatures, and why some values differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from stochattn import temperature

from .. import closed_form
from ..expected import expected
from ..family import profile_test
from ..protocol import ALPHA
from ..results import Cause, Measured, Table
from .protein_study import GENERATION, IN_BITS, LARGE, N_TRAININGS, NULL, RESTORED, RETRIEVAL, Row, Study

PUBLISHED = expected(str(Path(__file__).with_name("protein.py")))
IN_MAIN = ("novelty", "identity", "KL", "position KL", "MI r", "HMM pass", IN_BITS, "C_ij r")
IN_FULL = ("novelty", "diversity", "energy", "identity", "KL")
ONLY_FULL = ("Gaussian perturbation", "Random convex combination", "MALA (β = 77)")
ONLY_MAIN = ("MALA (β = 8)", NULL, RESTORED, *LARGE)

Rows = Mapping[str, Row]


def main_table(study: Study, rows: Rows) -> Table:
    """Table protein-main."""
    medians = [profile_test(study.sequences[name], study.profile)[1] for name in ("SA (β = 8)", RESTORED)]
    stored_median = profile_test(study.family.alignment, study.profile)[1]
    norms = study.family.norms
    return PUBLISHED["protein-main"].against(
        {name: {q: row[q] for q in IN_MAIN if q in row} for name, row in rows.items() if name not in ONLY_FULL},
        notes=(
            f"Mean and spread over {study.n_runs} runs of 30 chains ({N_TRAININGS} trainings for the VAE), with the "
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


def full_table(rows: Rows) -> Table:
    """Table protein."""
    rounding = Cause(
        ("Gaussian perturbation",),
        ("novelty",),
        "the result file of the authors has 0.0076 ± 0.0001, which ours matches; the paper prints 0.008.",
    )
    return PUBLISHED["protein"].against(
        {name: {q: row[q] for q in IN_FULL if q in row} for name, row in rows.items() if name not in ONLY_MAIN},
        causes=(rounding, *_causes(rows)),
    )


def temperatures(study: Study) -> Table:
    """The temperatures of the family and MALA's acceptance."""
    bank = study.family.bank
    values = {
        "β* (published knee)": Measured(temperature.knee(bank)),
        "random patterns, √d": Measured(temperature.random_pattern(bank.d)),
        **{
            f"MALA acceptance, β = {beta:g}": Measured(
                study.acceptance[beta], formula=closed_form.mala_acceptance(ALPHA, bank.d)
            )
            for beta in (RETRIEVAL, GENERATION)
        },
        "β* by the paper's equation": Measured(temperature.inflection(bank)),
        "β by leave-one-out likelihood": Measured(temperature.leave_one_out(bank)),
    }
    return PUBLISHED["protein-temperature"].against({name: {"value": v} for name, v in values.items()})


def _causes(rows: Rows) -> tuple[Cause, ...]:
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


def _epsilon_causes(rows: Rows) -> tuple[Cause, ...]:
    """Whether other logarithms and another ε explain the printed per-position KL, row by row."""
    fits: dict[bool, list[str]] = {True: [], False: []}
    shown: dict[bool, list[str]] = {True: [], False: []}
    for name, printed in PUBLISHED["protein-main"].rows.items():
        if name not in rows:
            continue
        ours = rows[name][IN_BITS]
        gap = ours.value - printed["position KL"].value
        fit = abs(gap) <= 3 * math.hypot(ours.one_run, ours.standard_error)
        fits[fit].append(name)
        shown[fit].append(f"{name} {ours.value:.2f} (paper {printed['position KL'].value:.2f})")
    start = (
        "the value is mostly the number of letters that do not occur times log(1/ε), where ε replaces their frequency. "
        "The paper prints neither ε nor the base of the logarithm; we use the ε of its scripts, 1e-10, and natural "
        "logarithms, which reproduce its KL of the composition. "
    )
    return (
        Cause(
            tuple(fits[True]),
            ("position KL",),
            f"{start}In bits and with ε = 1e-9 these rows agree within three standard errors of one run: "
            f"{'; '.join(shown[True])}. No other power of ten from 1e-8 to 1e-16, in bits or in nats, with or "
            "without gaps as a letter, fits replay, GMM and SA together. The two settings were chosen to fit, "
            "so this cause is likely and not proven.",
        ),
        Cause(
            tuple(fits[False]),
            ("position KL",),
            f"not explained. {start}In bits and with ε = 1e-9 these rows are closer and still differ by more than "
            f"three standard errors of one run: {'; '.join(shown[False])}.",
            explained=False,
        ),
    )
