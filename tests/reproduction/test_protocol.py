"""The protocol and its predictions, against the library's chains and exact draws."""

import math

import numpy as np
import pytest

import stochattn as sa
from paper import closed_form, protocol
from paper.results import Measured


@pytest.fixture
def bank():
    """100 unit memories of 300 dimensions, far apart at beta = 4,000."""
    return sa.MemoryBank(np.random.default_rng(0).standard_normal((100, 300))).normalized()


def test_the_protocol_is_the_published_one(bank):
    draws = protocol.chains(bank, 4000.0, "ula", seed=1)
    assert draws.samples.shape == (30, 5, 300)
    assert list(draws.steps) == [2000, 2700, 3500, 4200, 4900]
    assert (draws.settings.n_steps, draws.settings.options, draws.settings.sigma_init) == (5000, {"alpha": 0.01}, 0.01)
    # At this beta a chain stays at its start: the published patterns, counted from 1.
    assert list(draws.basins[:, -1] + 1)[:6] == [63, 46, 49, 72, 69, 21]
    assert len(set(draws.basins[:, 0])) == 30


def test_the_formulas_agree_with_the_exact_law(bank):
    """Exact draws of well separated memories agree with the formulas within 4 standard errors (3,000 draws)."""
    beta = 4000.0
    samples = np.concatenate(protocol.exact_sets(bank, beta, 0, own_basins=True, repeats=20))
    row = protocol.measured(samples, bank, beta)
    formula = closed_form.well_separated(bank, beta, None, protocol.starts(100))
    assert row["energy"].value == pytest.approx(formula["energy"], abs=4 * row["energy"].error)
    assert row["novelty"].value == pytest.approx(formula["novelty"], abs=4 * row["novelty"].error + 1e-4)
    diversity = np.mean([protocol.measured(part, bank, beta)["diversity"].value for part in np.split(samples, 20)])
    assert diversity == pytest.approx(formula["diversity"], abs=1e-3)


def test_the_formula_includes_the_bias_of_ula(bank):
    """At alpha = 0.2 the variance is 1/0.9 of the target's: the energies differ by 20 standard errors."""
    beta, alpha = 4000.0, 0.2
    draws = protocol.chains(bank, beta, "ula", 0, alpha=alpha)
    energy = protocol.measured(draws.samples, bank, beta)["energy"]
    biased, target = (closed_form.well_separated(bank, beta, a)["energy"] for a in (alpha, None))
    assert energy.value == pytest.approx(biased, abs=4 * energy.error)
    assert abs(biased - target) > 5 * energy.error


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3])
def test_the_acceptance_of_mala_has_a_closed_form(bank, alpha):
    """30 chains of 2,000 steps from equilibrium: the formula has an error of 1/√d, about 0.01."""
    draws = sa.run(bank, 4000.0, sampler="mala", alpha=alpha, n_steps=2000, keep=[2000], start="equilibrium", rng=0)
    assert draws.acceptance.mean() == pytest.approx(closed_form.mala_acceptance(alpha, bank.d), abs=0.01)


def test_a_mean_over_runs_has_an_error_and_a_spread():
    values = dict(zip(protocol.seeds(0, 3), (1.0, 2.0, 3.0), strict=True))
    mean = protocol.over_runs(lambda s: {"x": Measured(values[s], 0.1, 5.0)}, 3, 0)["x"]
    assert (mean.value, mean.spread, mean.exact) == (2.0, 1.0, 5.0)
    assert mean.error == pytest.approx(1 / math.sqrt(3))
    one = protocol.over_runs(lambda s: {"x": Measured(values[s], 0.1)}, 1, 0)["x"]
    assert (one.value, one.error, one.spread) == (1.0, 0.1, None)


def test_seeds_of_different_runs_are_different():
    assert len({*protocol.seeds(0, 20), *protocol.seeds(1, 20)}) == 40


def test_differences_on_the_same_noise_have_the_error_of_differences(bank):
    """ULA and MALA at a small step share nearly all of their noise: the paired error is much smaller."""
    ula, mala = (protocol.chains(bank, 4000.0, sampler, 0, quick=True, span=False) for sampler in ("ula", "mala"))
    gap = protocol.difference(ula, mala, bank, 4000.0)["energy"]
    assert gap.error < gap.spread / 2
    both = [protocol.measured(draws.samples, bank, 4000.0)["energy"].value for draws in (ula, mala)]
    assert gap.value == pytest.approx(both[0] - both[1])
