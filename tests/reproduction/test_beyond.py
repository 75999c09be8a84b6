"""The experiments beyond the paper, against the closed form."""

import math

import numpy as np
import pytest

import stochattn as sa
from paper.beyond import denoiser, replica_exchange

RNG = np.random.default_rng(0)
BANK = sa.MemoryBank(RNG.standard_normal((12, 30))).normalized()


def test_reverse_diffusion_draws_from_the_exact_law():
    """At β = 400 memories are far apart, so ‖x − m‖² is chi-squared: mean d/β = 0.075, its error over 150 is 0.0016.

    A wrong factor of σ'/σ changes the mean by its square. Memories are equally likely: 12.5 visits each, and the
    chi-squared statistic of 12 cells exceeds 35 with probability 2e-4.
    """
    x = denoiser.ddim(BANK, 400.0, 0).reshape(-1, 30)
    squared = ((x[:, None] - BANK.patterns[None]) ** 2).sum(-1)
    assert squared.min(1).mean() == pytest.approx(30 / 400, abs=4 * math.sqrt(2 * 30 / 150) / 400)
    counts = np.bincount(squared.argmin(1), minlength=12)
    assert ((counts - 12.5) ** 2 / 12.5).sum() < 35


def test_annealed_steps_end_with_the_variance_of_their_step_size():
    """The variance is 1/β/(1 − α/2) with α = 0.2: 11 % above the target, 5 standard errors."""
    x = denoiser.annealed(BANK, 400.0, 0).reshape(-1, 30)
    nearest = ((x[:, None] - BANK.patterns[None]) ** 2).sum(-1).min(1).mean()
    assert nearest == pytest.approx(30 / 400 / 0.9, abs=4 * math.sqrt(2 * 30 / 150) / 400 / 0.9)


def test_replica_exchange_samples_the_coldest_temperature():
    """Two memories in one dimension at beta = 30, barrier 15: the coldest replica visits both equally often.

    30 visits are correlated, so the share has an error of about 0.1; without swaps it stays at 1.
    """
    bank = sa.MemoryBank(np.array([[1.0], [-1.0]]))
    betas = np.geomspace(30.0, 1.0, 10)
    found = replica_exchange.exchange(bank, betas, 6000, 0)
    share = np.mean(found.nearest)
    assert 0.2 < share < 0.8
    assert found.trips > 5
    rate = found.swapped / found.tried
    assert (rate > 0.3).all()
    assert (rate < 1).all()


def test_swaps_keep_the_target_at_each_temperature():
    """Independent draws at three temperatures keep the variance 1/beta of each after swaps (40,000 values: 0.7 %)."""
    bank = sa.MemoryBank(np.zeros((1, 40)))
    betas = np.array([8.0, 4.0, 2.0])
    rng = np.random.default_rng(1)
    found = replica_exchange.Exchange(np.zeros(2), np.zeros(2))
    sums = np.zeros(3)
    for step in range(1000):
        x = rng.standard_normal((3, 40)) / np.sqrt(betas)[:, None]
        replica_exchange.swap(x, np.arange(3), bank, betas, found, step % 2, rng)
        sums += (x**2).mean(1)
    np.testing.assert_allclose(sums / 1000 * betas, 1, atol=0.03)
    assert (found.swapped > 0).all()
