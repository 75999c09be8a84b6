"""Algorithm 3: days that continue from each other, projected to values."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

import stochattn as sa
from banks import make_bank, to_library
from stochattn import energy


@pytest.fixture
def bank(library):
    base = make_bank("unequal", library)
    values = to_library(np.random.default_rng(1).standard_normal((5, 3)), library)
    return sa.MemoryBank(base.patterns, values=values)


def test_days_are_one_mala_chain_projected(bank):
    paths = sa.sequential(bank, 6.0, n_days=7, inner_steps=20, n_paths=2, rng=3)
    chain = sa.run(bank, 6.0, sampler="mala", n_chains=2, n_steps=140, warmup=0, thin=20, rng=3)
    np.testing.assert_array_equal(paths.draws.samples, chain.samples)
    expected = np.asarray(energy.weights(chain.samples, bank, 6.0)) @ np.asarray(bank.values)
    np.testing.assert_allclose(paths.values, expected, rtol=1e-10)
    assert type(paths.values) is type(bank.patterns)
    assert "2 paths x 7 days, values in 3 dimensions" in repr(paths)


def test_a_schedule_of_beta_over_days(bank):
    betas = np.array([2.0, 50.0, 2.0])
    paths = sa.sequential(bank, betas, n_days=3, inner_steps=30, rng=0)
    for day, beta in enumerate(betas):
        expected = energy.attend(paths.draws.samples[:, day], bank, beta, values=bank.values)
        np.testing.assert_allclose(paths.values[:, day], expected, rtol=1e-10)
    assert paths.draws.settings.beta == [2.0] * 30 + [50.0] * 30 + [2.0] * 30
    assert sa.sequential(bank, 6.0, n_days=2, inner_steps=5, rng=0).values.shape[-1] == 3


def test_without_values_days_are_projected_to_the_memories(library):
    bank = make_bank("unit", library)
    paths = sa.sequential(bank, 6.0, n_days=2, inner_steps=5, rng=0)
    np.testing.assert_allclose(paths.values, energy.attend(paths.draws.samples, bank, 6.0), rtol=1e-10)


def test_options_are_those_of_the_chains():
    bank = make_bank("unit")
    options = {"alpha": 0.2, "start": [4, 0], "sigma_init": 0.5, "rng": 3}
    paths = sa.sequential(bank, 6.0, n_days=2, inner_steps=5, n_paths=2, progress=False, **options)
    chain = sa.run(bank, 6.0, sampler="mala", n_chains=2, n_steps=10, warmup=0, thin=5, **options)
    np.testing.assert_array_equal(paths.draws.samples, chain.samples)


def test_bad_input():
    bank = make_bank("unit")
    with pytest.raises(ValueError, match="one for each of the 3 days"):
        sa.sequential(bank, [1.0, 2.0], n_days=3)
    with pytest.raises(ValueError, match="n_days must be at least 1"):
        sa.sequential(bank, 1.0, n_days=0)
    for option in ({"keep": [3]}, {"sampler": "ula"}, {"thin": 2}, {"warmup": 1}, {"n_steps": 4}, {"span": False}):
        with pytest.raises(TypeError, match=r"sequential\(\) got an unexpected keyword argument"):
            sa.sequential(bank, 1.0, n_days=2, inner_steps=2, **option)
    with pytest.raises(ValueError, match="inner_steps must be at least 1"):
        sa.sequential(bank, 1.0, n_days=1, inner_steps=0)


def test_progress_is_that_of_the_run():
    with pytest.raises(TypeError, match="progress must be"):
        sa.sequential(make_bank("unit"), 6.0, n_days=1, inner_steps=1, progress="shown")


def test_an_interrupt_on_the_first_day_leaves_nothing_to_return(monkeypatch):
    module = import_module("stochattn.samplers.sequential")
    empty = SimpleNamespace(steps=[], samples=np.empty((1, 0, 12)))
    monkeypatch.setattr(module, "run", lambda *args, **options: empty)
    with pytest.raises(KeyboardInterrupt):
        sa.sequential(make_bank("unit"), 6.0, n_days=2)
