"""Energies, gradients and densities against finite differences, brute force and closed forms."""

import math

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from banks import BANKS, ingredients, make_bank
from closed_form import Mixture
from stochattn import MemoryBank, bounds, conditioning
from stochattn import energy as E


def points(n=6, d=12, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


@pytest.mark.parametrize("kind", BANKS)
def test_table_energy_agrees_with_its_definition(kind, library):
    bank, x = make_bank(kind, library), points()
    law = Mixture.from_ingredients(*ingredients(kind), 3.0)
    np.testing.assert_allclose(E.table_energy(x, bank, 3.0), law.table_energy(x), rtol=1e-12)


@pytest.mark.parametrize("kind", ["unit", "unequal", "subset"])
def test_the_two_energies_differ_by_their_constants(kind):
    bank, x = make_bank(kind), points()
    longest = np.linalg.norm(bank.patterns[bank.kept], axis=1).max()
    gap = math.log(len(bank.kept)) / 3.0 + longest**2 / 2
    np.testing.assert_allclose(E.energy(x, bank, 3.0) - E.table_energy(x, bank, 3.0), gap, rtol=1e-12)


def test_replay_has_the_published_energy():
    """A stored, well separated unit memory has -0.500 in the tables."""
    bank = MemoryBank(np.eye(20))
    np.testing.assert_allclose(E.table_energy(bank.patterns, bank, 2000.0), -0.5, atol=1e-12)


@pytest.mark.parametrize("kind", BANKS)
def test_score_is_the_gradient_of_the_log_density(kind):
    bank, x, h, beta = make_bank(kind), points(), 1e-5, 4.0
    numeric = np.stack(
        [(E.log_density(x + h * e, bank, beta) - E.log_density(x - h * e, bank, beta)) / (2 * h) for e in np.eye(12)],
        -1,
    )
    np.testing.assert_allclose(E.score(x, bank, beta), numeric, atol=2e-8)


@pytest.mark.parametrize("kind", BANKS)
def test_hessian_is_the_derivative_of_the_gradient(kind, library):
    bank, x, h, beta = make_bank(kind, library), points(), 1e-5, 4.0
    gradient = lambda y: np.asarray(-E.score(y, bank, beta)) / beta  # noqa: E731
    numeric = np.stack([(gradient(x + h * e) - gradient(x - h * e)) / (2 * h) for e in np.eye(12)], -1)
    np.testing.assert_allclose(E.hessian(x, bank, beta), numeric, atol=2e-8)


def test_score_matches_autograd():
    bank = make_bank("weights", "torch")
    x = torch.tensor(points(), requires_grad=True)
    E.log_density(x, bank, 5.0).sum().backward()
    torch.testing.assert_close(x.grad, E.score(x.detach(), bank, 5.0))


@pytest.mark.parametrize("kind", BANKS)
def test_log_density_is_the_mixture(kind, library):
    bank, x, beta = make_bank(kind, library), points(), 8.0
    law = Mixture.from_ingredients(*ingredients(kind), beta)
    gaps = np.square(x[:, None] - law.means).sum(-1)
    expected = logsumexp(np.log(law.weights) - beta / 2 * gaps, axis=1) + 6 * math.log(beta / (2 * math.pi))
    np.testing.assert_allclose(E.log_density(x, bank, beta), expected, rtol=1e-10)


def test_log_density_integrates_to_one():
    bank = conditioning.weight(MemoryBank([[0.3], [-1.0], [1.4]]), [1, 2, 0.5])
    x = np.linspace(-8, 8, 20001)
    total = np.trapezoid(np.exp(E.log_density(x[:, None], bank, 3.0)), x)
    assert total == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("kind", BANKS)
@pytest.mark.parametrize("beta", [1e-3, 1.0, 1e3])
def test_proved_bounds_hold(kind, beta):
    bank, x = make_bank(kind), 3 * points(200)
    assert (E.energy(x, bank, beta) >= bounds.energy_lower_bound(x, bank) - 1e-9).all()
    gradient = -E.score(x, bank, beta) / beta
    a, b = bounds.dissipativity(bank)
    assert ((gradient * x).sum(1) >= a * np.square(x).sum(1) - b - 1e-9).all()
    for centred in (False, True):
        norms = np.linalg.norm(np.linalg.eigvalsh(E.hessian(x, bank, beta)), np.inf, axis=-1)
        assert (norms <= bounds.lipschitz(bank, beta, centered=centred) + 1e-9).all()


@pytest.mark.parametrize("centred", [False, True])
def test_energy_is_convex_below_the_threshold(centred):
    bank = make_bank("unequal")
    beta = 0.99 * bounds.convexity_threshold(bank, centered=centred)
    lowest = np.linalg.eigvalsh(E.hessian(points(300), bank, beta)).min()
    assert lowest > 0
    assert lowest >= bounds.strong_convexity(bank, beta, centered=centred) / beta - 1e-12


def test_a_subset_agrees_with_the_reduced_bank():
    bank, x = make_bank("unequal"), points()
    masked, reduced = conditioning.subset(bank, [1, 4]), MemoryBank(bank.patterns[[1, 4]])
    for f in (E.energy, E.table_energy, E.attend, E.score, E.log_density, E.hessian, E.entropy):
        np.testing.assert_allclose(f(x, masked, 7.0), f(x, reduced, 7.0), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(E.weights(x, masked, 7.0)[:, [0, 2, 3]], 0)
    for f in (bounds.lipschitz, bounds.strong_convexity, bounds.potential_lipschitz):
        assert f(masked, 0.1) == pytest.approx(f(reduced, 0.1), rel=1e-13)


def test_attend_projects_values_and_supports_hard_attention():
    bank, x = make_bank("unit"), points()
    values = np.arange(10.0).reshape(5, 2)
    p = E.weights(x, bank, 2.0)
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_allclose(E.attend(x, bank, 2.0, values), p @ values)
    hard = (x @ bank.patterns.T).argmax(1)
    np.testing.assert_array_equal(E.attend(x, bank, math.inf), bank.patterns[hard])
    np.testing.assert_allclose(E.attend(x, bank, 1e6), bank.patterns[hard], atol=1e-12)


def test_hard_attention_respects_the_mask_and_shares_ties(library):
    bank = conditioning.subset(make_bank("unit", library), [1, 2])
    x = np.asarray(bank.patterns)[0]
    p = np.asarray(E.weights(x, bank, math.inf))
    assert p[[0, 3, 4]].sum() == 0
    duplicates = MemoryBank([[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(E.weights([1.0, 1.0], duplicates, math.inf), [0.5, 0.5])


def test_retrieve_reaches_a_fixed_point():
    bank = make_bank("unit")
    x = bank.patterns + 0.1 * points(5)
    found = E.retrieve(x, bank, 100.0)
    np.testing.assert_allclose(E.attend(found, bank, 100.0), found, atol=1e-7)
    np.testing.assert_allclose(found, bank.patterns, atol=0.05)
    np.testing.assert_array_equal(E.retrieve(x, bank, math.inf), bank.patterns)
    np.testing.assert_array_equal(E.retrieve(x, bank, 2.0, max_steps=1), E.attend(x, bank, 2.0))
    with pytest.warns(RuntimeWarning, match="raise max_steps"):
        E.retrieve(x, bank, 6.0, max_steps=2)


def test_entropy_runs_from_log_K_to_zero():
    bank, x = make_bank("unit"), points()
    np.testing.assert_allclose(E.entropy(x, bank, 1e-6), math.log(5), atol=1e-6)
    np.testing.assert_allclose(E.entropy(x, bank, 1e6), 0, atol=1e-9)
    p = E.weights(x, bank, 2.0)
    np.testing.assert_allclose(E.entropy(x, bank, 2.0), -(p * np.log(p)).sum(1), rtol=1e-12)
    masked = conditioning.subset(bank, [0, 1, 2])
    np.testing.assert_allclose(E.entropy(x, masked, 1e-6), math.log(3), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("beta", [1e-3, 1.0, 1e5, 1e6])
def test_extreme_temperatures_stay_finite_and_right(library, dtype, beta):
    """exp(1e5) overflows: without the shift by the maximum every one of these is NaN or infinite."""
    bank = make_bank("unequal", library, dtype)
    x = np.asarray(bank.patterns) + np.float32(0.01)
    for f in (E.energy, E.attend, E.score, E.log_density, E.entropy, E.hessian):
        value = f(x, bank, beta)
        assert value.dtype == bank.patterns.dtype
        assert np.isfinite(np.asarray(value)).all()
    law = Mixture(np.asarray(bank.patterns).astype(float), np.ones(5) / 5, beta, np.arange(5), np.ones(5))
    rtol = 1e-11 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(E.table_energy(x, bank, beta), law.table_energy(x.astype(float)), rtol=rtol, atol=rtol)


def test_one_memory_one_dimension_duplicates_and_many_memories():
    single = MemoryBank([[0.7]])
    assert E.log_density([[0.7]], single, 9.0)[0] == pytest.approx(0.5 * math.log(9 / (2 * math.pi)))
    assert E.attend([5.0], single, 1.0)[0] == 0.7
    bank = make_bank("unit")
    doubled, weighted = bank.add(bank.patterns[:1]), conditioning.weight(bank, [2, 1, 1, 1, 1])
    for f in (E.energy, E.log_density, E.attend):
        np.testing.assert_allclose(f(points(), doubled, 4.0), f(points(), weighted, 4.0), rtol=1e-12)
    many = MemoryBank(np.random.default_rng(0).standard_normal((40, 3)))
    assert E.hessian(points(2, 3), many, 1.0).shape == (2, 3, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: E.energy(np.zeros(5), b, 1.0), r"looks transposed.*X\.T"),
        (lambda b: E.energy(np.zeros(7), b, 1.0), r"xi must have d=12 columns.*got 7"),
        (lambda b: E.energy(np.full(12, np.nan), b, 1.0), "xi must be finite; 12 of 12"),
        (lambda b: E.energy(np.zeros(12), b, 0.0), "beta must be a positive, finite number; got 0.0"),
        (lambda b: E.score(np.zeros(12), b, -1.0), "beta must be a positive"),
        (lambda b: E.energy(np.zeros(12), b, math.inf), "beta must be a positive, finite"),
        (lambda b: E.attend(np.zeros(12), b, 1.0, np.zeros((4, 2))), "values must be a matrix with K=5 rows"),
        (lambda b: E.retrieve(np.zeros(12), b, 1.0, max_steps=0), "max_steps must be at least 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(make_bank("unit"))


@pytest.mark.parametrize("beta", ["2", None, True, [1.0, 2.0]])
def test_beta_of_a_wrong_type(beta):
    with pytest.raises(TypeError, match="beta must be a number"):
        E.energy(np.zeros(12), make_bank("unit"), beta)


def test_a_bank_in_a_file_for_one_beta_rejects_others(tmp_path):
    np.save(tmp_path / "bank.npy", ingredients("unequal")[0])
    bank = conditioning.equalize(MemoryBank.open(tmp_path / "bank.npy"), 8.0)
    assert E.attend(np.zeros(12), bank, 8.0).shape == (12,)
    with pytest.raises(ValueError, match="beta must be 8, at which this bank was conditioned or equalized"):
        E.attend(np.zeros(12), bank, 9.0)


def test_retrieved_states_are_fixed_points_to_the_default_tolerance():
    """Two memories at ±M contract by 0.9 per step at beta M² = 0.9, so that a step of 0.01 M ends far from zero."""
    bank = MemoryBank([[1e-3], [-1e-3]])
    assert abs(float(E.retrieve([5e-4], bank, 0.9e6)[0])) < 1e-9
