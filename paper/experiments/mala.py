"""ULA and MALA where samples are generated, at β = 200 to 1,000."""

from __future__ import annotations

import math

from .. import closed_form
from ..data import Data
from ..expected import expected
from ..progress import stage
from ..protocol import ALPHA, sampled
from ..results import Measured, Result

BETAS = (200, 500, 1000)


def run(data: Data, seed: int, quick: bool) -> Result:
    """Table mala-generation."""
    bank = data.digits(3, 100)
    rows = {}
    below = ""
    for beta in BETAS:
        stage(f"β = {beta}")
        quantities = ("novelty", "diversity", "energy", "share_below_zero")
        ula, _ = sampled(bank, beta, "ula", seed, quick, quantities)
        mala, draws = sampled(bank, beta, "mala", seed, quick, quantities)
        rates = draws.acceptance
        acceptance = Measured(
            float(rates.mean()),
            float(rates.std(ddof=1) / math.sqrt(len(rates))),
            formula=closed_form.mala_acceptance(ALPHA, bank.d),
        )
        rows[f"β = {beta}"] = {"acceptance": acceptance}
        for name in quantities[:3]:
            one, two = ula[name], mala[name]
            gap = None if one.formula is None or two.formula is None else one.formula - two.formula
            rows[f"β = {beta}"][name] = one
            rows[f"β = {beta}"][f"Δ{name}"] = Measured(
                one.value - two.value, math.hypot(one.error, two.error), formula=gap
            )
        if beta == 1000:
            shares = ula["share_below_zero"].value, mala["share_below_zero"].value
            below = (
                f"At β = 1000, {shares[0]:.0%} of SA's and {shares[1]:.0%} of MALA's samples have E < 0 (paper: all)."
            )
    table = expected(__file__)["mala-generation"].against(
        rows,
        notes=(
            below,
            "Δ is SA − MALA on the same noise. Its formula is ULA's known bias, variance (1/β)/(1 − α/2) for 1/β: the "
            "energy is too high by (d/2β)(α/2)/(1 − α/2).",
        ),
    )
    return Result([table])
