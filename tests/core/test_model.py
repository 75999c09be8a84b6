"""The facade: resolving beta, delegating, conditioning."""

import signal
import threading
import warnings

import numpy as np
import pytest

import stochattn as sa
from banks import make_bank
from closed_form import Mixture, z_score
from stochattn import conditioning, energy, temperature
from test_law import require_law


@pytest.mark.parametrize("rule", ["natural", "inflection", "knee", "leave_one_out"])
def test_rules_resolve_to_a_number(rule, library):
    bank = make_bank("unit", library)
    model = sa.StochasticAttention(bank, beta=rule)
    assert model.beta == getattr(temperature, rule)(bank)
    assert model.temperature.rule == rule
    assert repr(model).startswith("StochasticAttention(K=5 memories, d=12, beta=")
    assert f'("{rule}")' in repr(model)


def test_defaults_and_novelty():
    bank = make_bank("unit")
    assert sa.StochasticAttention(bank).temperature.rule == "natural"
    assert sa.StochasticAttention(bank).sampler == "exact"
    model = sa.StochasticAttention(bank, novelty=0.2)
    assert model.beta == temperature.for_novelty(bank, 0.2)
    assert "(for novelty 0.2)" in repr(model)


def test_it_is_immutable():
    model = sa.StochasticAttention(make_bank("unit"), beta=3.0)
    for name in ("bank", "beta", "sampler"):
        with pytest.raises(AttributeError):
            setattr(model, name, 1)


@pytest.mark.parametrize("sampler", ["exact", "ula", "mala", "underdamped"])
def test_sample_follows_the_law(sampler, library):
    """ULA with alpha = 0.01 has a bias of half a standard error."""
    bank = make_bank("weights", library)
    x = sa.StochasticAttention(bank, beta=8.0, sampler=sampler).sample(4000, rng=1)
    assert type(x) is type(bank.patterns)
    require_law(x, "weights")


def test_exact_samples_have_the_prefix_property():
    model = sa.StochasticAttention(make_bank("unit"), beta=8.0)
    np.testing.assert_array_equal(model.sample(5, rng=1), model.sample(50, rng=1)[:5])
    assert not np.array_equal(model.sample(5, rng=1), model.sample(5, rng=2))


def test_methods_agree_with_the_functions():
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
    some = model.subset([0, 1])
    assert some.beta == model.beta
    assert "2 selected, beta=" in repr(some)
    assert '("natural", before conditioning)' in repr(some)
    assert model.bank.kept.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(
        model.weight([1, 2, 3, 4, 5]).bank.log_r, conditioning.weight(bank, [1, 2, 3, 4, 5]).log_r
    )
    np.testing.assert_array_equal(model.weight(3.0, [1]).bank.log_r, conditioning.weight(bank, 3.0, [1]).log_r)
    require_law(model.subset([0, 2, 3]).sample(4000, rng=0), "subset", model.beta)


@pytest.mark.parametrize("sampler", ["exact", "mala"])
def test_a_conditioned_model_has_full_rows(sampler, library, tmp_path):
    model = sa.StochasticAttention(make_bank("unequal", library), beta=6.0, sampler=sampler)
    given = model.condition({4: -0.2, 1: 0.4})
    reduced = conditioning.condition(model.bank, {1: 0.4, 4: -0.2}, 6.0)
    free = [i for i in range(12) if i not in (1, 4)]
    assert (given.d, given.bank.d) == (12, 10)
    np.testing.assert_array_equal(given.bank.log_r, reduced.log_r)
    assert "d=12, 2 coordinates conditioned, beta=6 (given, before conditioning)" in repr(given)
    x = given.sample(20, rng=0)
    assert type(x) is type(model.bank.patterns)
    np.testing.assert_array_equal(x[:, [1, 4]], np.tile([0.4, -0.2], (20, 1)))
    other = sa.StochasticAttention(reduced, beta=6.0, sampler=sampler)
    np.testing.assert_array_equal(x[:, free], other.sample(20, rng=0))
    np.testing.assert_array_equal(given.sample(20, rng=0, out=tmp_path / "x.npy"), x)


def test_functions_of_a_conditioned_model_take_full_rows(library):
    model = sa.StochasticAttention(make_bank("unequal", library), beta=6.0)
    given = model.condition({4: -0.2, 1: 0.4})
    free = [i for i in range(12) if i not in (1, 4)]
    x = np.random.default_rng(0).standard_normal((3, 12))  # the conditioned coordinates are ignored
    for name in ("log_density", "energy"):
        expected = getattr(energy, name)(x[:, free], given.bank, 6.0)
        np.testing.assert_array_equal(getattr(given, name)(x), expected)
    for name, values in (("score", (0.0, 0.0)), ("attend", (0.4, -0.2)), ("retrieve", (0.4, -0.2))):
        found = getattr(given, name)(x)
        np.testing.assert_array_equal(found[:, free], getattr(energy, name)(x[:, free], given.bank, 6.0))
        np.testing.assert_array_equal(found[:, [1, 4]], np.tile(values, (3, 1)))
    assert given.attend(x, values=np.ones((5, 2))).shape == (3, 2)
    with pytest.raises(ValueError, match="xi must have d=12 columns, the conditioned ones included"):
        given.energy(np.zeros((2, 10)))


def test_chains_of_a_conditioned_model_have_full_rows():
    model = sa.StochasticAttention(make_bank("unequal"), beta=6.0)
    given, seen = model.condition({4: -0.2, 1: 0.4}), []
    options = {"n_chains": 3, "warmup": 0, "thin": 10, "rng": 0, "sampler": "mala"}
    whole = given.run(n_steps=40, on_keep=lambda t, x: seen.append(x.copy()), **options)
    assert whole.samples.shape == (3, 4, 12)
    assert whole.settings.d == 12
    np.testing.assert_array_equal(np.stack(seen, 1), whole.samples)
    np.testing.assert_array_equal(whole.samples[..., 4], -0.2)
    first = given.run(n_steps=20, **options)
    second = given.run(n_steps=20, thin=10, start=first)
    np.testing.assert_array_equal(second.samples, whole.samples[:, 2:])
    start = np.random.default_rng(0).standard_normal((3, 12))
    moved = given.run(n_chains=3, n_steps=1, keep=[1], start=start, sampler="ula", alpha=1e-12, rng=0).samples[:, 0]
    np.testing.assert_allclose(moved[:, 5:], start[:, 5:], atol=1e-5)


def test_conditions_add_up():
    model = sa.StochasticAttention(make_bank("unequal"), beta=6.0)
    twice = model.condition({4: -0.2}).condition({5: 0.1, 0: 0.3})
    once = model.condition({0: 0.3, 4: -0.2, 5: 0.1})
    np.testing.assert_allclose(twice.sample(9, rng=0), once.sample(9, rng=0), atol=1e-12)
    np.testing.assert_array_equal(twice.subset([0, 1]).weight(2.0, [1]).sample(3, rng=0)[:, 4], -0.2)
    with pytest.raises(ValueError, match="coordinate 4 is conditioned already"):
        twice.condition({4: 0.0})


def test_conditional_samples_follow_the_conditional_law():
    """Given coordinate 0, the mean of the others is that of a mixture reweighted by N(0.5; m_k0, 1/beta)."""
    bank, beta = make_bank("unequal"), 6.0
    x = sa.StochasticAttention(bank, beta=beta).condition({0: 0.5}).sample(20_000, rng=1)
    law = Mixture.of(bank, beta)
    weights = law.weights * np.exp(-beta / 2 * (law.means[:, 0] - 0.5) ** 2)
    for a in np.random.default_rng(0).standard_normal((4, 12)):
        a[0] = 0
        assert abs(z_score(x @ a, weights / weights.sum() @ (law.means @ a))) < 5


def test_it_warns_if_norms_dominate():
    X = np.concatenate([np.eye(12)[:4], [np.full(12, 2.0)]])
    with pytest.warns(UserWarning, match=r"about 1 of 5 memories has nearly all.*equal_weights=True.*normalized\(\)"):
        model = sa.StochasticAttention(X, beta=10.0)
    np.testing.assert_allclose(Mixture.of(model.bank, 10.0).weights[-1], 1, atol=1e-6)
    for beta in (10.0, "natural", "leave_one_out", "inflection"):
        equal = sa.StochasticAttention(X, beta=beta, equal_weights=True)
        np.testing.assert_allclose(Mixture.of(equal.bank, equal.beta).weights, 0.2, atol=1e-9)
    natural = sa.StochasticAttention(X, equal_weights=True)
    assert natural.beta == temperature.natural(X, equal_weights=True)
    assert natural.beta != temperature.natural(X)
    sa.StochasticAttention(conditioning.weight(make_bank("unit"), [1, 1e-9, 1e-9, 1e-9, 1e-9]), beta=5.0)  # requested


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"beta": "hot"},
            ValueError,
            "beta must be a number or one of 'natural', 'inflection', 'knee', 'leave_one_out'",
        ),
        ({"beta": 0}, ValueError, "beta must be a positive"),
        ({"beta": None}, TypeError, "beta must be a number"),
        ({"beta": 3.0, "novelty": 0.1}, ValueError, "beta and novelty must not both"),
        ({"novelty": 0.99}, ValueError, "novelty must lie between 0.00 and 0.\\d\\d for this bank .*; got 0.99"),
        ({"sampler": "gibbs"}, ValueError, "sampler must be one of"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        sa.StochasticAttention(make_bank("unit"), **arguments)


def test_ctrl_c_during_sampling_by_chains():
    """There is nothing to return yet, so KeyboardInterrupt is raised."""
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
    with pytest.raises(TypeError, match=r"^sample\(\) got an unexpected keyword argument 'rgn'"):
        sa.sample(make_bank("unit"), 2, rgn=0)
    with pytest.raises(ValueError, match="selection must leave at least one memory"):
        model.subset([0, 1]).subset([2, 3])
    with pytest.raises(ValueError, match="r must leave at least one memory"):
        model.weight(np.zeros(5))
    with pytest.raises(ValueError, match="looks transposed"):
        model.energy(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="at least two memories"):
        sa.StochasticAttention([[1.0, 2.0]])
    assert sa.StochasticAttention([[1.0, 2.0]], beta=1.0).sample(3, rng=0).shape == (3, 2)


def test_columns_of_length_one_may_be_the_memories_of_the_paper():
    from sklearn.datasets import load_diabetes

    rng = np.random.default_rng(0)
    memories = rng.normal(size=(12, 40))
    memories /= np.linalg.norm(memories, axis=1, keepdims=True)
    with pytest.warns(UserWarning, match=r"12 columns of the memories have length 1.*pass X\.T"):
        sa.StochasticAttention(memories.T, beta=5.0)
    assert any("pass transpose=True" in note for note in sa.fit(memories.T).notes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sa.StochasticAttention(memories, beta=5.0)
        sa.StochasticAttention(load_diabetes().data, beta=5.0)  # features of length 1 and mean 0
