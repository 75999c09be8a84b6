"""Barriers, crossing rates and replica exchange beyond the paper, against the closed form."""

import math

import numpy as np
import pytest

import stochattn as sa
from paper.beyond import barriers, exchange_returns, mixing, mixing_tables


def two(distance):
    cosine = 1 - distance**2 / 2
    return np.array([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]])


def test_the_pair_rate_is_the_mean_first_passage_time_of_the_diffusion():
    """By brute force: the generator of the diffusion on a fine grid, absorbing where the other memory is reached."""
    b, beta, distance = 3.0, 24.0, 1.0
    end = math.log(barriers.CORE / (1 - barriers.CORE)) / (beta * distance)  # where the weight is CORE
    x = np.linspace(-1.6, end, 4001)
    h = x[1] - x[0]
    energy = x**2 / 2 - np.logaddexp(beta * distance * x / 2, -beta * distance * x / 2) / beta
    up = np.exp(-beta / 2 * np.diff(energy)) / (beta * h**2)
    down = np.exp(beta / 2 * np.diff(energy)) / (beta * h**2)
    rates = np.diag(up, 1) + np.diag(down, -1)
    generator = rates - np.diag(rates.sum(1))
    times = np.linalg.solve(generator[:-1, :-1], -np.ones(len(x) - 1))
    assert 1 / times[np.searchsorted(x, -end)] == pytest.approx(float(barriers.pair_rate(b)), rel=0.01)


def test_the_rate_tends_to_its_limit_and_that_of_kramers_is_too_large():
    b = 300.0
    limit = 2 / math.pi * math.sqrt(b / math.pi)
    # The integral ends where the weight is CORE instead of infinity: Gudermann's function of 3.45 instead of π/2.
    reached = 2 * math.atan(math.tanh(math.log(barriers.CORE / (1 - barriers.CORE)) / 4)) / (math.pi / 2)
    assert float(barriers.pair_rate(b)) * math.exp(b) == pytest.approx(limit / reached, rel=0.01)
    found = barriers.saddle(0, 1, two(1.0), 8 * 60.0)
    assert found.rate == pytest.approx(2 / math.pi * math.sqrt(60 / math.pi) * math.exp(-60), rel=0.01)


@pytest.mark.parametrize("distance", [0.5, 1.0, math.sqrt(2)])
def test_newton_finds_the_saddle_between_two_memories(distance):
    patterns = two(distance)
    beta = 8 * 6 / distance**2
    found = barriers.saddle(0, 1, patterns, beta)
    np.testing.assert_allclose(found.point, patterns.mean(0), atol=1e-9)
    assert found.index == 1
    assert found.barrier == pytest.approx(6 - math.log(2), abs=1e-4)


def test_other_memories_move_the_saddle_and_lower_the_barrier():
    patterns = np.concatenate([two(1.0), [[0.6, 0.9]]])
    beta = 30.0
    found = barriers.saddle(0, 1, patterns, beta)
    assert found.index == 1
    np.testing.assert_allclose(barriers.gradient(found.point, patterns, beta), 0, atol=1e-10)
    assert found.barrier < beta / 8 - math.log(2) - 0.01
    numerical = [
        (barriers.gradient(found.point + h, patterns, beta) - barriers.gradient(found.point - h, patterns, beta)) / 2e-5
        for h in 1e-5 * np.eye(2)
    ]
    np.testing.assert_allclose(barriers.hessian(found.point, patterns, beta), numerical, atol=1e-5)


@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_chains_cross_at_the_rate_of_the_closed_form(sampler):
    """200 expected crossings: an error of 7 %. A wrong factor of 2 in the noise or the barrier changes e^b by e^1.5."""
    point = mixing.pair(1.0, 3.0, sampler, 0)
    assert point.rate == pytest.approx(point.formula, abs=4 * point.error + 0.03 * point.formula)
    assert point.error < 0.1 * point.formula


def test_the_slope_is_minus_one_for_the_closed_form_and_not_for_others():
    def points(power):
        formula = [float(barriers.pair_rate(b)) for b in mixing_tables.HEIGHTS]
        return [mixing_tables.Point(f**power, 0.1 * f**power, f) for f in formula]

    assert mixing_tables.slope(points(1.0))[0] == pytest.approx(-1)
    assert mixing_tables.slope(points(1.2))[0] < -1.15


def test_exit_rates_add_the_rates_of_all_pairs():
    logs = barriers.log_exit_rates(np.eye(5), 20.0)
    np.testing.assert_allclose(logs, math.log(4 * float(barriers.pair_rate(5.0))), atol=1e-3)
    limit = math.log(2 / math.pi * math.sqrt(5000 / math.pi)) - 5000  # too small for a float
    np.testing.assert_allclose(barriers.log_exit_rates(np.eye(2), 20_000.0), limit, atol=0.05)


def test_the_last_useful_beta_is_where_the_median_memory_is_left_in_time():
    """Five orthonormal memories are left after 1/(0.04 pair_rate(beta/4)) steps."""
    beta = mixing.last_useful_beta(np.eye(5), 5000)
    assert 1 / (0.04 * float(barriers.pair_rate(beta / 4))) == pytest.approx(5000, rel=0.01)


def test_the_temperatures_of_the_exchange_are_close_enough_and_reach_both_ends():
    betas = exchange_returns.temperatures(25.0)
    assert (betas[0], betas[-1]) == (25.0, pytest.approx(exchange_returns.HOT))
    assert (betas[:-1] / betas[1:]).max() <= exchange_returns.RATIO + 1e-12


def test_exchange_on_days_visits_what_single_chains_do_not():
    """Eight orthonormal days at beta = 60, b = 15: no crossing in 2,000 steps without swaps, all days with them."""
    bank = sa.MemoryBank(np.eye(8, dtype=np.float32))
    betas = np.geomspace(60.0, 2.0, 14)
    found = exchange_returns.exchange(bank, betas, 6000, 0)
    assert len(found.nearest) == exchange_returns.N_KEPT
    assert len(set(found.nearest)) >= 6
    assert found.trips > 5
    assert set(found.path) == set(range(14))
    alone = exchange_returns.exchange(bank, np.array([60.0, 59.0]), 2000, 0)
    assert len(set(alone.nearest)) <= 2
