"""Digits 1 and 8 with the protocol of digit 3."""

from __future__ import annotations

import math

from .. import drawing
from ..baselines import ConvexCombination, GaussianPerturbation, Replay
from ..data import Data
from ..expected import expected
from ..progress import stage
from ..protocol import ALPHA, sampled, starts
from ..results import Figure, Result, Table
from .mnist import BETA, static_rows, vae_row

CLAIMS = {
    1: "only the Langevin methods (d, e) produce diverse, structured samples.",
    8: "Langevin methods dominate all baselines, despite the larger variance of digit 8.",
}


def run(data: Data, seed: int, quick: bool) -> Result:
    """Tables and figures mnist-digit1 and mnist-digit8."""
    tables, figures = zip(*(_digit(data, digit, seed, quick) for digit in (1, 8)), strict=True)
    return Result(list(tables), list(figures))


def _digit(data: Data, digit: int, seed: int, quick: bool) -> tuple[Table, Figure]:
    bank = data.digits(digit, 100)
    stage(f"digit {digit}: baselines")
    rows = static_rows(bank, BETA, seed)
    rows["VAE (latent 8)"] = vae_row(bank, BETA, seed, quick)
    stage(f"digit {digit}: chains")
    rows["MALA"], mala = sampled(bank, BETA, "mala", seed, quick)
    rows["Stochastic attention"], ula = sampled(bank, BETA, "ula", seed, quick)
    table = expected(__file__)[f"mnist-digit{digit}"].against(
        rows, notes=(f"MALA accepts {mala.acceptance.mean():.1%} of its proposals (paper 99.2 %).",)
    )
    panels = [
        ("(a) replay", Replay(bank).sample(16, seed)),
        ("(b) Gaussian", GaussianPerturbation(bank, math.sqrt(2 * ALPHA / BETA)).sample(16, seed)),
        ("(c) convex", ConvexCombination(bank).sample(16, seed)),
        ("(d) MALA", mala.samples[:16, -1]),
        ("(e) stochastic attention", ula.samples[:16, -1]),
    ]
    caption = f"Digit {digit}, 16 samples of each method; (d) and (e) are a stored digit plus white noise at β = 2000."
    attention = rows["Stochastic attention"]
    at_start = float((ula.basins == starts(bank.K, seed)[:, None]).mean())
    finding = (
        f"they are the start plus white noise: it is the nearest memory of {at_start:.0%} of the kept states, and "
        f"exact draws have the novelty {attention['novelty'].exact:.3f} and the diversity "
        f"{attention['diversity'].exact:.3f} (chains {attention['novelty'].value:.3f} and "
        f"{attention['diversity'].value:.3f})."
    )
    return table, Figure(
        f"mnist-digit{digit}-grids",
        caption,
        lambda: drawing.image_panels(panels, 4, drawing.square(bank.d), inches=3.8),
        CLAIMS[digit],
        finding,
    )
