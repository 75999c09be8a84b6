"""VAEs trained on 10 and 100 times more images, compared on the same 100 digits."""

from __future__ import annotations

from typing import Any

from stochattn import metrics

from ..baselines.vae import VAE
from ..data import Data
from ..expected import expected
from ..progress import stage
from ..protocol import N_SAMPLES, of_samples, over_runs, sampled
from ..results import Measured, Result

BETA = 2000.0
QUANTITIES = ("max_cosine", "novelty", "diversity", "energy", "share_below_zero")
HIDDEN, KL_WEIGHT, BATCH = (512, 256), 1e-3, 256
N_TRAININGS = 1  # the longest trainings of all; `--seeds` repeats them
N_THREES, N_ALL = 1000, 10_000


def run(data: Data, seed: int, quick: bool) -> Result:
    """Table full-vae."""
    bank = data.digits(3, 100)
    epochs = 5 if quick else 2000

    def measure(samples: Any) -> dict[str, Measured]:
        return of_samples(samples, bank, BETA, QUANTITIES)

    def original(s: int) -> dict[str, Measured]:
        return measure(VAE(bank.patterns, s, epochs=epochs).sample(N_SAMPLES, s))

    def larger(rows: Any, latent: int, s: int) -> VAE:
        return VAE(rows, s, latent, HIDDEN, KL_WEIGHT, epochs, BATCH)

    rows = {"VAE (latent 8), K = 100": over_runs(original, N_TRAININGS, seed)}
    if data.n_digits(3) >= N_THREES:
        threes = data.digits(3, N_THREES).patterns
        for latent in (8, 32, 64):
            rows[f"VAE-D3 (latent {latent}), N = 1,000"] = over_runs(
                lambda s, latent=latent: measure(larger(threes, latent, s).sample(N_SAMPLES, s)),  # type: ignore[misc]
                N_TRAININGS,
                seed,
            )
    if min(map(data.n_digits, range(10))) >= N_ALL // 10:
        everything = data.all_digits(N_ALL)

        def nearest(s: int) -> dict[str, Measured]:
            samples = larger(everything, 32, s).sample(5000, s)
            return measure(samples[metrics.max_cosine(samples, bank).argsort()[-N_SAMPLES:]])

        rows["VAE-all (latent 32, top), N = 10,000"] = over_runs(nearest, N_TRAININGS, seed)
    stage("chains")
    for beta in (2000.0, 200.0):
        rows[f"SA (β = {beta:g}), K = 100"], _ = sampled(bank, beta, "ula", seed, quick, QUANTITIES)
    table = expected(__file__)["full-vae"].against(
        rows,
        notes=(
            f"VAEs: one training for each seed, 2 × {epochs:,} epochs; batches of {BATCH} where N is above 100.",
            "VAE-all: the 150 of 5,000 samples nearest to the stored digits, as in the paper.",
        ),
    )
    return Result([table])
