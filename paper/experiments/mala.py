"""ULA and MALA at generation temperatures, β = 200 to 1,000."""

from __future__ import annotations

from dataclasses import replace

from .. import closed_form
from ..data import Data
from ..expected import expected
from ..progress import stage
from ..protocol import ALPHA, acceptance, difference, sampled
from ..results import Result

BETAS = (200, 500, 1000)


def run(data: Data, seed: int, quick: bool) -> Result:
    """Table mala-generation."""
    bank = data.digits(3, 100)
    rows = {}
    below = ""
    for beta in BETAS:
        stage(f"β = {beta}")
        quantities = ("novelty", "diversity", "energy", "share_below_zero")
        ula, moved = sampled(bank, beta, "ula", seed, quick, quantities)
        mala, draws = sampled(bank, beta, "mala", seed, quick, quantities)
        row = {"acceptance": acceptance(draws, closed_form.mala_acceptance(ALPHA, bank.d))}
        gaps = difference(moved, draws, bank, beta)
        for name in quantities[:3]:
            row[name] = ula[name]
            one, two = ula[name].formula, mala[name].formula
            formula = None if one is None or two is None else one - two
            row[f"Δ{name}"] = replace(gaps[name], formula=formula)
        rows[f"β = {beta}"] = row
        if beta == 1000:
            shares = ula["share_below_zero"].value, mala["share_below_zero"].value
            below = (
                f"At β = 1000, {shares[0]:.0%} of SA's and {shares[1]:.0%} of MALA's samples have E < 0 (paper: all)."
            )
    table = expected(__file__)["mala-generation"].against(
        rows,
        notes=(
            below,
            "Δ is SA − MALA. Both use the same noise within the span of the memories, and the error of Δ is computed "
            "from the differences per chain; the published runs are assumed to have independent noise. The formula is "
            "the known bias of ULA, whose variance is (1/β)/(1 − α/2) instead of 1/β: the energy is too high by "
            "(d/2β)(α/2)/(1 − α/2).",
        ),
    )
    return Result([table])
