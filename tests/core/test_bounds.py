"""Bounds compared with the formulas of the paper, evaluated by hand."""

import math

import numpy as np
import pytest

from stochattn import MemoryBank, bounds

BANK = MemoryBank(np.diag([2.0, 1.0]))  # sigma_max = 2, M = 2


def test_constants():
    assert bounds.lipschitz(BANK, 0.3) == pytest.approx(1.6)
    assert bounds.dissipativity(BANK) == (0.5, 2.0)
    assert bounds.energy_lower_bound([3.0, 4.0], BANK) == pytest.approx(4.5)
    assert bounds.convexity_threshold(BANK) == pytest.approx(0.5)
    assert bounds.strong_convexity(BANK, 0.25) == pytest.approx(0.125)
    assert bounds.potential_lipschitz(BANK, 0.25) == pytest.approx(0.375)
    assert bounds.condition_number(BANK, 0.25) == pytest.approx(3.0)
    assert bounds.condition_number(BANK, 0.5) == math.inf
    assert bounds.convexity_threshold(MemoryBank([[1.0, 2.0]]), centered=True) == math.inf


def test_the_former_spelling_of_centered_is_accepted_with_a_warning():
    bank = MemoryBank([[3.0, 0.0], [1.0, 0.0]])
    with pytest.warns(DeprecationWarning, match="centered"):
        assert bounds.lipschitz(bank, 0.5, centred=True) == 1.5


def test_every_bound_centers_where_it_is_asked_to():
    bank = MemoryBank([[3.0, 0.0], [1.0, 0.0]])  # σ² = 10, and 2 around the mean
    assert bounds.dissipativity(bank) == (0.5, 4.5)
    for centred, values in ((False, (10, 3.5, 0.2, 0.05, 0.15, 3.0)), (True, (2, 1.5, 1.0, 0.09, 0.11, 11 / 9))):
        found = (
            bounds.sigma_squared(bank, centered=centred),
            bounds.lipschitz(bank, 0.5, centered=centred),
            bounds.convexity_threshold(bank, centered=centred),
            bounds.strong_convexity(bank, 0.1, centered=centred),
            bounds.potential_lipschitz(bank, 0.1, centered=centred),
            bounds.condition_number(bank, 0.1, centered=centred),
        )
        assert found == pytest.approx(values)
    assert bounds.sigma_squared(bank) == pytest.approx(10)
    assert bounds.condition_number(bank, 0.1) == pytest.approx(3.0)


def test_centring_gives_the_sharper_bound():
    rng = np.random.default_rng(0)
    bank = MemoryBank(5 + rng.standard_normal((20, 30)))
    assert bounds.convexity_threshold(bank, centered=True) > 50 * bounds.convexity_threshold(bank)
    X = bank.patterns - bank.patterns.mean(0)
    assert bounds.sigma_squared(bank, centered=True) == pytest.approx(np.linalg.norm(X, 2) ** 2)


def test_signal_to_noise_ratios_of_the_paper():
    """Sections 4.3 and 5, and the temperature spectrum's table."""
    assert bounds.critical_snr(64, 0.01) == pytest.approx(0.025)
    assert bounds.critical_snr(784) == pytest.approx(0.013, abs=5e-4)
    for beta, snr in ((2000, 0.113), (200, 0.036), (50, 0.018), (10, 0.008)):
        assert bounds.snr(beta, 784) == pytest.approx(snr, abs=5e-4)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan])
def test_bad_alpha(alpha):
    with pytest.raises(ValueError, match="alpha must lie strictly between 0 and 1"):
        bounds.snr(1.0, 10, alpha)
