"""Two-sample tests, copies and likelihood, on made rows whose answer is known."""

import math

import numpy as np
import pytest

import stochattn as sa
from paper.beyond import held_out, judging
from paper.data import Data

RNG = np.random.default_rng(3)
D = 12


def normal(n, shift=0.0, seed=0):
    return np.random.default_rng(seed).standard_normal((n, D)) + shift


def test_the_nearest_neighbor_accuracy_is_half_for_one_law_one_for_two_and_less_for_copies():
    """400 rows of one law: an error of 0.035 with dependent neighbours."""
    assert judging.nearest_neighbour_accuracy(normal(200), normal(200, seed=1))[0] == pytest.approx(0.5, abs=0.1)
    assert judging.nearest_neighbour_accuracy(normal(200), normal(200, 3.0, 1))[0] > 0.95
    rows = normal(200)
    assert judging.nearest_neighbour_accuracy(rows, rows) == (0.0, 0.0, 0.0)
    twice = np.repeat(rows[:100], 2, axis=0)  # equal distances to both kinds
    assert judging.nearest_neighbour_accuracy(twice, twice) == (0.0, 0.0, 0.0)


def test_duplicates_among_made_rows_count_for_the_classifier_on_made_rows_only():
    made = np.repeat(normal(20), 5, axis=0)
    overall, on_made, on_real = judging.nearest_neighbour_accuracy(made, normal(100, seed=1))
    assert on_made == 1.0
    assert overall == pytest.approx((on_made + on_real) / 2)
    assert on_real > 0.5


def test_the_discrepancy_is_zero_on_average_for_one_law_and_its_p_value_small_for_two():
    values = [judging.discrepancy(normal(60, seed=2 * s), normal(60, seed=2 * s + 1), 0) for s in range(20)]
    found = np.array([value for value, _ in values])
    assert abs(found.mean()) < 4 * found.std(ddof=1) / math.sqrt(20)
    assert np.mean([p for _, p in values]) == pytest.approx(0.5, abs=4 * 0.29 / math.sqrt(20))
    value, p = judging.discrepancy(normal(60), normal(60, 0.5, 1), 0)
    assert value > 4 * found.std(ddof=1)
    assert p == pytest.approx(1 / (judging.N_PERMUTATIONS + 1))


def test_train_proximity_is_half_without_copies_and_one_with_them():
    stored, others = normal(100), normal(300, seed=1)
    assert judging.train_proximity(normal(400, seed=2), stored, others, 0) == pytest.approx(0.5, abs=0.12)
    assert judging.train_proximity(stored + 0.01, stored, others, 0) == 1.0


def test_copies_are_found_with_and_without_noise_and_among_many_stored_rows():
    """1,000 real rows: the share below the 1 % quantile of others has an error of 0.005."""
    stored, real = normal(500), normal(1000, seed=1)
    assert judging.copies(stored[:50], stored, real) == 1.0
    assert judging.copies(stored[:50] + 0.3 * normal(50, seed=2), stored, real) > 0.9
    assert judging.copies(normal(1000, seed=3), stored, real) == pytest.approx(0.01, abs=0.02)
    mixed = np.concatenate([stored[:30], normal(70, seed=3)])
    assert judging.copies(mixed, stored, real) == pytest.approx(0.3, abs=0.05)


def test_the_kernel_likelihood_is_the_exact_density_of_the_library():
    bank = sa.MemoryBank(normal(30)).normalized()
    rows = normal(7, seed=1)
    expected = sa.StochasticAttention(bank, beta=40.0).log_density(rows)
    np.testing.assert_allclose(judging.kernel_log_likelihood(bank.patterns, 40.0, rows), expected, rtol=1e-10)


def test_the_best_bandwidth_is_that_of_the_kernels_the_rows_come_from():
    """4,000 values: beta is known to 1/√2000 = 2 %."""
    centres = 10 * normal(20)
    rows = centres[RNG.integers(20, size=400)] + RNG.standard_normal((400, D)) / math.sqrt(50)
    assert judging.best_bandwidth(centres, rows) == pytest.approx(50, rel=0.08)


def test_stored_held_out_and_validation_rows_are_different_images(folder):
    parts = judging.split(Data.locate(folder), 3, 30)
    assert [len(rows) for rows in vars(parts).values()] == [30, 25, 13, 12]
    rows = np.concatenate(list(vars(parts).values()))
    assert len(np.unique(rows, axis=0)) == 80


def test_the_laws_of_the_methods_have_the_density_of_their_samples(folder):
    """The mean log density of exact draws is that of the law within its error; a wrong beta or noise is far off."""
    bank = sa.MemoryBank(normal(50)).normalized()
    parts = judging.split(Data.locate(folder), 3, 30)
    laws, made = held_out.laws(bank, 100.0, 0), held_out.methods(bank, 100.0, parts, 0, True)
    for name in ("Gaussian perturbation", "Exact draws (β = 2000)", "Exact draws (β by leave-one-out)"):
        beta = {"G": 2000 / 0.02, "E": 2000.0}[name[0]] if "leave" not in name else 100.0
        # Far apart, −log p = log K + d/2 (1 + log(2π/beta)) on average, with variance d/2.
        entropy = math.log(50) + D / 2 * (1 + math.log(2 * math.pi / beta))
        found = laws[name](made[name](1)).mean()
        assert found == pytest.approx(-entropy, abs=4 * math.sqrt(D / 2 / 150) + (0.1 if beta == 100 else 0))


def test_real_images_pass_and_noise_fails(folder):
    parts = judging.split(Data.locate(folder), 3, 30)
    row = judging.judged([parts.others], parts, 0)
    noise = judging.judged([RNG.standard_normal(parts.others.shape)], parts, 0)
    assert row[judging.ACCURACY].value == pytest.approx(0.5, abs=0.3)
    assert noise[judging.ACCURACY].value == 0.5  # which is why the deviation is reported
    assert (noise["of made"].value, noise["of real"].value, noise[judging.DEVIATION].value) == (0.0, 1.0, 0.5)
    assert row[judging.DEVIATION].value < 0.3
    assert row["kernel log-likelihood"].value > noise["kernel log-likelihood"].value + 10
    assert noise["p of MMD²"].value < 0.01 < row["p of MMD²"].value
