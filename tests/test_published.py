"""Values of the paper on the real data, if STOCHATTN_DATA names its folder.

Tolerances: the published standard error and ours are about equal, so three of their combined errors, rounded up.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import stochattn as sa
from stochattn import metrics, temperature
from stochattn import multihead as heads

FOLDER = os.environ.get("STOCHATTN_DATA")
pytestmark = [
    pytest.mark.published,
    pytest.mark.skipif(not FOLDER, reason="STOCHATTN_DATA does not name a folder with the paper's data"),
]
# The 30 start patterns and the five kept states of the published runs (the patterns count from 1).
STARTS = "63 46 49 72 69 21 64 70 51 37 8 68 43 10 59 23 39 33 53 15 27 62 38 11 55 3 20 90 52 24"
PROTOCOL = {"start": np.array(STARTS.split(), dtype=int) - 1, "keep": [2000, 2700, 3500, 4200, 4900], "rng": 1}


def digits(digit, K):
    images = np.load(Path(FOLDER) / "mnist.npz")[f"digit{digit}"][:K]
    return sa.MemoryBank(images.reshape(K, -1) / 255).normalized()


def proteins():
    """PF00076 as the paper encodes it: one-hot without gaps, PCA to 95 % of the variance, unit norm."""
    from pyhmmer.easel import MSAFile
    from sklearn.decomposition import PCA

    with MSAFile(Path(FOLDER) / "pfam" / "PF00076_seed.sto", format="stockholm") as file:
        alignment = np.array([list(row.upper()) for row in file.read().alignment])
    gaps = np.isin(alignment, [".", "-"])
    alignment = alignment[:, gaps.mean(0) <= 0.5]
    gaps = np.isin(alignment, [".", "-"])
    alignment = alignment[gaps.mean(1) <= 0.3]
    one_hot = (alignment[:, :, None] == np.array(list("ACDEFGHIKLMNPQRSTVWY"))).reshape(len(alignment), -1)
    return sa.MemoryBank(PCA(0.95, svd_solver="full").fit_transform(one_hot.astype(float))).normalized()


@pytest.mark.parametrize(
    ("beta", "novelty", "diversity", "energy", "energy_tolerance"),
    [(2000.0, 0.152, 0.600, -0.303, 0.003), (200.0, 0.548, 0.885, 1.467, 0.035)],
)
@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_mnist_main_table(sampler, beta, novelty, diversity, energy, energy_tolerance):
    bank = digits(3, 100)
    draws = sa.run(bank, beta, sampler=sampler, **PROTOCOL)
    row = metrics.summarize(draws.samples, bank, beta)
    assert row.novelty.value == pytest.approx(novelty, abs=0.003 if beta == 2000 else 0.008)
    assert row.diversity.value == pytest.approx(diversity, abs=0.006)
    assert row.energy.value == pytest.approx(energy, abs=energy_tolerance)
    if sampler == "mala":
        assert draws.acceptance.mean() == pytest.approx(0.992, abs=0.002)


def test_mala_does_not_freeze_at_large_steps_when_started_in_equilibrium():
    """The published 0.000 at α = 0.2 is caused by a start out of equilibrium."""
    options = {"sampler": "mala", "alpha": 0.2, "n_steps": 1000, "keep": [1000], "rng": 0}
    cold = sa.run(digits(3, 100), 2000.0, start=PROTOCOL["start"], **options)
    warm = sa.run(digits(3, 100), 2000.0, start="equilibrium", **options)
    assert cold.acceptance.mean() < 0.001
    assert warm.acceptance.mean() == pytest.approx(0.38, abs=0.01)


@pytest.mark.parametrize(
    ("K", "knee", "inflection"),
    [(100, 9.18, 12.3), (500, 12.99, 17.0), (1000, 15.46, 19.1), (2000, 18.39, 21.5), (3500, 18.39, 23.4)],
)
def test_temperatures_of_the_scaling_table(K, knee, inflection):
    bank = digits(3, K)
    assert temperature.knee(bank) == pytest.approx(knee, abs=0.005)
    assert temperature.inflection(bank, probes=bank.patterns[:20]) == pytest.approx(inflection, abs=0.1)


def test_temperatures_of_the_protein_family():
    bank = proteins()
    assert (bank.K, bank.d) == (68, 59)
    assert temperature.knee(bank) == pytest.approx(3.848, abs=0.001)
    assert temperature.inflection(bank) == pytest.approx(4.59, abs=0.01)


@pytest.mark.parametrize(("H", "novelty", "diversity"), [(2, 0.175, 0.307), (4, 0.187, 0.291), (5, 0.196, 0.263)])
def test_multi_head_table(H, novelty, diversity):
    bank = digits(3, 100)
    draws = heads.pca(bank, H, norms="paper").run(200.0, **PROTOCOL)
    row = metrics.summarize(draws.samples, bank, 200.0)
    assert row.novelty.value == pytest.approx(novelty, abs=0.024)
    assert row.diversity.value == pytest.approx(diversity, abs=0.012)
