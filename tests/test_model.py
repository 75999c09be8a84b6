"""The facade: what it resolves, delegates and says."""

import signal
import threading

import numpy as np
import pytest

import stochattn as sa
from closed_form import Mixture
from conftest import make_bank
from stochattn import conditioning, energy, temperature
from test_law import require_law


@pytest.mark.parametrize("rule", ["natural", "inflection", "knee", "leave_one_out"])
def test_rules_resolve_to_a_number_and_say_so(rule, library):
    bank = make_bank("unit", library)
    model = sa.StochasticAttention(bank, beta=rule)
    assert model.beta == getattr(temperature, rule)(bank)
    assert model.beta_rule == rule
    assert repr(model).startswith("StochasticAttention(K=5 memories, d=12, beta=")
    assert f'("{rule}")' in repr(model)


def test_defaults_and_novelty():
    bank = make_bank("unit")
    assert sa.StochasticAttention(bank).beta_rule == "natural"
    assert sa.StochasticAttention(bank).sampler == "exact"
    model = sa.StochasticAttention(bank, novelty=0.2)
    assert model.beta == temperature.for_novelty(bank, 0.2)
    assert "(for novelty 0.2)" in repr(model)


def test_it_is_immutable():
    model = sa.StochasticAttention(make_bank("unit"), beta=3.0)
    for name in ("bank", "beta", "sampler"):
        with pytest.raises(AttributeError):
            setattr(model, name, 1)


@pytest.mark.parametrize("sampler", ["exact", "ula", "mala"])
def test_sample_follows_the_law(sampler, library):
    """ULA at its default alpha of 0.01 is within half a standard error of it."""
    bank = make_bank("weights", library)
    x = sa.StochasticAttention(bank, beta=8.0, sampler=sampler).sample(4000, rng=1)
    assert type(x) is type(bank.patterns)
    require_law(x, "weights")


def test_exact_samples_have_the_prefix_property():
    model = sa.StochasticAttention(make_bank("unit"), beta=8.0)
    np.testing.assert_array_equal(model.sample(5, rng=1), model.sample(50, rng=1)[:5])
    assert not np.array_equal(model.sample(5, rng=1), model.sample(5, rng=2))


def test_it_delegates():
    bank, x = make_bank("unequal"), np.random.default_rng(0).standard_normal((3, 12))
    model = sa.StochasticAttention(bank, beta=5.0)
    for name in ("log_density", "energy", "score", "attend", "retrieve"):
        np.testing.assert_array_equal(getattr(model, name)(x), getattr(energy, name)(x, bank, 5.0))
    np.testing.assert_array_equal(model.attend(x, beta=900.0), energy.attend(x, bank, 900.0))
    draws = model.run(n_chains=3, n_steps=20, warmup=0, thin=10, sampler="mala", rng=0)
    again = sa.run(bank, 5.0, n_chains=3, n_steps=20, warmup=0, thin=10, sampler="mala", rng=0)
    np.testing.assert_array_equal(draws.samples, again.samples)


def test_conditioning_keeps_beta():
    bank = make_bank("unit")
    model = sa.StochasticAttention(bank)
    masked = model.mask([0, 1])
    assert masked.beta == model.beta
    assert "2 kept by the mask, beta=" in repr(masked)
    assert '("natural", before conditioning)' in repr(masked)
    assert model.bank.kept.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(
        model.weight([1, 2, 3, 4, 5]).bank.log_r, conditioning.weight(bank, [1, 2, 3, 4, 5]).log_r
    )
    clamped = model.clamp([0], [0.3])
    assert clamped.bank.d == 11
    require_law(model.mask([0, 2, 3]).sample(4000, rng=0), "mask", model.beta)


def test_it_warns_when_norms_take_over():
    X = np.concatenate([np.eye(12)[:4], [np.full(12, 2.0)]])
    with pytest.warns(UserWarning, match=r"1\.0 memories of 5 carry it.*equal_weights=True.*normalized\(\)"):
        model = sa.StochasticAttention(X, beta=10.0)
    np.testing.assert_allclose(Mixture.of(model.bank, 10.0).weights[-1], 1, atol=1e-6)
    for beta in (10.0, "natural", "leave_one_out", "inflection"):
        equal = sa.StochasticAttention(X, beta=beta, equal_weights=True)
        np.testing.assert_allclose(Mixture.of(equal.bank, equal.beta).weights, 0.2, atol=1e-9)
    natural = sa.StochasticAttention(X, equal_weights=True)
    assert natural.beta == temperature.natural(X, equal_weights=True)
    assert natural.beta != temperature.natural(X)
    sa.StochasticAttention(conditioning.weight(make_bank("unit"), [1, 1e-9, 1e-9, 1e-9, 1e-9]), beta=5.0)  # asked for


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"beta": "hot"}, ValueError, "beta must be one of 'natural', 'inflection', 'knee', 'leave_one_out'"),
        ({"beta": 0}, ValueError, "beta must be a positive"),
        ({"beta": None}, TypeError, "beta must be a number"),
        ({"beta": 3.0, "novelty": 0.1}, ValueError, "beta and novelty must not both"),
        ({"novelty": 0.99}, ValueError, "novelty=0.99 is out of reach"),
        ({"sampler": "gibbs"}, ValueError, "sampler must be one of"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        sa.StochasticAttention(make_bank("unit"), **arguments)


def test_ctrl_c_while_chains_make_a_sample():
    """There is nothing to return yet, so it is a KeyboardInterrupt."""
    X = np.random.default_rng(0).standard_normal((100, 200)) / 15
    model = sa.StochasticAttention(X, beta=50.0, sampler="mala", equal_weights=True)
    timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.sample(20_000, rng=0)
    timer.join()


def test_bad_calls():
    model = sa.StochasticAttention(make_bank("unit"), beta=3.0)
    with pytest.raises(ValueError, match="n must be at least 1; got 0"):
        model.sample(0)
    with pytest.raises(TypeError, match="n_chain"):
        model.run(n_chain=3)
    with pytest.raises(ValueError, match="looks transposed"):
        model.energy(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="at least two memories"):
        sa.StochasticAttention([[1.0, 2.0]])
    assert sa.StochasticAttention([[1.0, 2.0]], beta=1.0).sample(3, rng=0).shape == (3, 2)
