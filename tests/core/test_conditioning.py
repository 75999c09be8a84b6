"""Conditioning maps banks to banks whose law is the conditional law."""

import numpy as np
import pytest

from banks import make_bank
from closed_form import Mixture, z_score
from stochattn import MemoryBank, conditioning, energy
from stochattn.samplers import draw


def test_subset_by_booleans_and_by_indices(library):
    bank = make_bank("unit", library)
    by_index = conditioning.subset(bank, [0, -1])
    by_flag = conditioning.subset(bank, np.array([True, False, False, False, True]))
    np.testing.assert_array_equal(by_index.log_r, by_flag.log_r)
    np.testing.assert_array_equal(by_index.kept, [0, 4])
    assert bank.kept.tolist() == [0, 1, 2, 3, 4]


def test_weights_multiply_and_a_ratio_applies_to_a_selection():
    bank = make_bank("unit")
    twice = conditioning.weight(conditioning.weight(bank, [1, 2, 3, 4, 5]), [5, 4, 3, 2, 1])
    np.testing.assert_allclose(np.exp(twice.log_r), [5, 8, 9, 8, 5])
    soft = conditioning.weight(bank, 20.0, selection=[1, 2])
    np.testing.assert_allclose(np.exp(soft.log_r), [1, 20, 20, 1, 1])
    assert conditioning.weight(bank, [1, 0, 1, 1, 1]).kept.tolist() == [0, 2, 3, 4]


def test_equalize_gives_every_selected_memory_the_same_weight(library):
    bank = conditioning.subset(make_bank("unequal", library), [0, 1, 4])
    weights = np.exp(np.asarray(energy.mixture_log_weights(conditioning.equalize(bank, 30.0), 30.0)))
    np.testing.assert_allclose(weights, [1 / 3, 1 / 3, 0, 0, 1 / 3], atol=1e-12)
    own = conditioning.equalize(conditioning.weight(make_bank("unequal", library), [1, 2, 3, 4, 10]), 30.0)
    weights = np.exp(np.asarray(energy.mixture_log_weights(own, 30.0)))
    np.testing.assert_allclose(weights, [0.05, 0.1, 0.15, 0.2, 0.5], atol=1e-12)


@pytest.mark.parametrize("kind", ["unequal", "subset", "weights"])
def test_condition_is_the_conditional_density(kind, library):
    """log p(free, known) - log p(free | known) must not depend on the free coordinates."""
    bank, beta = make_bank(kind, library), 6.0
    indices, known = np.array([4, 1, 7]), np.array([-0.2, 0.4, 0.9])
    values = dict(zip(indices, known, strict=True))
    conditional = conditioning.condition(bank, values, beta)
    free = np.random.default_rng(0).standard_normal((50, 9))
    whole = conditioning.fill(free, values)
    gap = np.asarray(energy.log_density(whole, bank, beta)) - np.asarray(energy.log_density(free, conditional, beta))
    np.testing.assert_allclose(gap, gap[0], rtol=1e-10)
    # and it is the marginal density of the known values, the mixture of those parts of the memories
    law = Mixture.of(bank, beta)
    distances = np.square(law.means[:, indices] - known).sum(1)
    marginal = np.log(law.weights @ np.exp(-beta / 2 * distances)) + 1.5 * np.log(beta / (2 * np.pi))
    np.testing.assert_allclose(gap, marginal, rtol=1e-10)


def test_conditional_draws_agree_with_rejection():
    """Draws of the full row whose first coordinate lies near the value: an independent route."""
    bank, beta = make_bank("unequal"), 6.0
    x = Mixture.of(bank, beta).draw(2_000_000, seed=0)
    near = x[np.abs(x[:, 0] - 0.5) < 0.01, 1:]
    drawn = draw(conditioning.condition(bank, {0: 0.5}, beta), beta, 20_000, seed=1)
    for a in np.random.default_rng(0).standard_normal((4, 11)):
        error = (near @ a).std() / np.sqrt(len(near))
        assert abs(z_score(drawn @ a, (near @ a).mean(), error)) < 5


def test_fill_puts_coordinates_where_they_belong(library):
    bank = make_bank("unit", library)
    samples = conditioning.condition(bank, {2: 10.0, 0: 20.0}, 3.0).patterns
    whole = conditioning.fill(samples, {2: 10.0, 0: 20.0})
    assert type(whole) is type(bank.patterns)
    np.testing.assert_array_equal(whole[:, 2], 10)  # each value belongs to its index in any order
    np.testing.assert_array_equal(whole[:, 0], 20)
    np.testing.assert_array_equal(whole[:, [1, *range(3, 12)]], bank.patterns[:, [1, *range(3, 12)]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: conditioning.subset(b, []), "selection selects none of the 5 memories. Select some"),
        (lambda b: conditioning.subset(b, [False] * 5), "selection selects none of the 5 memories"),
        (lambda b: conditioning.weight(b, 2.0, selection=[]), "selection selects none of the 5 memories. Select some"),
        (lambda b: conditioning.subset(b, [True] * 4), "selection must have 5 booleans"),
        (lambda b: conditioning.subset(b, [5]), r"between 0 and 4 \(there are 5 memories\); got 5"),
        (lambda b: conditioning.weight(b, [0, 0, 0, 0, 0]), "^r must leave at least one memory .* none of the K=5"),
        (lambda b: conditioning.weight(b, [1, -1, 0, 0, 0]), "must not be negative; got -1"),
        (lambda b: conditioning.weight(b, [1, np.nan, 0, 0, 0]), "r must be finite"),
        (lambda b: conditioning.weight(b, 2.0), "selection=indices"),
        (lambda b: conditioning.weight(b, 0.0, selection=[1]), "r must be a positive"),
        (lambda b: conditioning.condition(b, dict.fromkeys(range(12), 0.0), 1.0), "one of the d=12 coordinates free"),
        (lambda b: conditioning.condition(b, {0: np.nan}, 1.0), "values must be finite"),
        (
            lambda b: conditioning.condition(b, {3: 1.0, 99: 1.0}, 1.0),
            r"^values must name coordinates from 0 to 11, .* 12; coordinate 99 does not exist\. Pass \{coordinate: ",
        ),
        (lambda b: conditioning.condition(b, {-13: 1.0}, 1.0), "coordinate -13 does not exist"),
        (lambda b: conditioning.condition(b, {0: 1.0, -12: 2.0}, 1.0), "name each coordinate once"),
        (lambda b: conditioning.condition(b, {0: 1.0}, 0.0), "beta must be"),
        (lambda b: conditioning.fill(np.zeros((2, 3)), {4: 1.0}), "from 0 to 3, .* coordinate 4 does not exist"),
        (lambda b: conditioning.fill(1.0, {0: 1.0}), "got a single number"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(make_bank("unit"))


def test_a_subset_of_a_subset_does_not_restore_memories():
    bank = conditioning.subset(MemoryBank(np.eye(3)), [0])
    with pytest.raises(ValueError, match="selection must leave at least one memory with a positive weight"):
        conditioning.subset(bank, [1])


def test_selections_of_a_wrong_type():
    with pytest.raises(TypeError, match="selection must be booleans, or integers from 0 to 4; got"):
        conditioning.subset(make_bank("unit"), ["age"])
    with pytest.raises(TypeError, match="selection must be booleans, or integers"):
        conditioning.subset(make_bank("unit"), {0, 1})


def test_values_of_a_wrong_type():
    bank = make_bank("unit")
    with pytest.raises(TypeError, match=r"values must map coordinates to their values, such as \{0: 0.5\}"):
        conditioning.condition(bank, [0.5], 3.0)
    with pytest.raises(TypeError, match="values must be integers from 0 to 11; got"):
        conditioning.condition(bank, {"age": 0.5}, 3.0)


def test_further_conditions_are_the_conditions_together(library):
    bank = make_bank("unequal", library)
    coordinates, among_free = conditioning.ConditionedCoordinates.of({3: 0.1, 1: -0.4}, 12).add({5: 0.7, 0: 0.2})
    twice = conditioning.condition(conditioning.condition(bank, {3: 0.1, 1: -0.4}, 6.0), among_free, 6.0)
    once = conditioning.condition(bank, {0: 0.2, 1: -0.4, 3: 0.1, 5: 0.7}, 6.0)
    np.testing.assert_array_equal(twice.patterns, once.patterns)
    np.testing.assert_allclose(twice.log_r, once.log_r, atol=1e-12)
    np.testing.assert_array_equal(coordinates.indices, [0, 1, 3, 5])
    np.testing.assert_array_equal(coordinates.values, [0.2, -0.4, 0.1, 0.7])
    with pytest.raises(ValueError, match="coordinate 3 is conditioned already"):
        coordinates.add({3: 0.0})


def test_the_free_coordinates_of_one_state():
    known = conditioning.ConditionedCoordinates.of({1: np.float32(0.5)}, 3)
    np.testing.assert_array_equal(known.take_free([1.0, 2.0, 3.0]), [1.0, 3.0])
    with pytest.raises(ValueError, match="xi must have d=3 columns"):
        known.take_free(2.0)
    assert known.values.dtype == np.float64
