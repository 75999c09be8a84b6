"""A sampler from outside the package, registered with one line, fulfils the contract of built-in samplers."""

import numpy as np
import pytest
import torch
from counts import UnderdampedCounts

import stochattn as sa
from banks import BANKS, LIBRARIES, ingredients, make_bank
from closed_form import Mixture
from stochattn.samplers import SAMPLERS
from stochattn.samplers.base import Sampler
from test_law import BETA, CHAINS, require_law

NAME = "underdamped counts"
SHORT = {"sampler": NAME, "step_size": 0.2, "warmup": 0, "thin": 10}


@pytest.fixture(autouse=True)
def registered():
    sa.register_sampler(NAME, UnderdampedCounts)
    yield
    del SAMPLERS[NAME]  # the contract tests of the package run over its own samplers


@pytest.mark.parametrize("kind", BANKS)
@pytest.mark.parametrize("span", [True, False], ids=["span", "direct"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_it_follows_the_exact_law(library, span, kind):
    """Up to the bias of leapfrog, h²/4 = 0.25 % of the variance at h = 0.1: a quarter of a standard error here."""
    start = Mixture.from_ingredients(*ingredients(kind), BETA).draw(CHAINS, seed=2)
    options = {"n_chains": CHAINS, "n_steps": 100, "keep": [100], "start": start, "rng": 3, "span": span}
    draws = sa.run(make_bank(kind, library), BETA, sampler=NAME, step_size=0.1, **options)
    require_law(draws.pooled(), kind)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("span", [True, False], ids=["span", "direct"])
def test_a_continued_run_is_one_uninterrupted_run(library, span, tmp_path):
    """Also through a file, and with the integers of its state."""
    bank, options = make_bank("unequal", library), {**SHORT, "span": span}
    whole = sa.run(bank, 12.0, n_chains=3, n_steps=57, rng=5, **options)
    first = sa.run(bank, 12.0, n_chains=3, n_steps=25, rng=5, **options)
    first.save(tmp_path / "first.npz")
    for start in (first, sa.Draws.load(tmp_path / "first.npz")):
        second = sa.run(bank, 12.0, n_steps=32, thin=10, span=span, start=start)
        assert np.array_equal(second.samples, whole.samples[:, 2:])
        for name, value in whole.last.state.items():
            assert np.array_equal(second.last.state[name], value), name
    steps = np.asarray(whole.last.state["steps"])
    assert steps.dtype == np.int64
    assert (steps == 57).all()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_chain_is_the_same_alone_or_among_others(library, dtype):
    X = (np.random.default_rng(0).standard_normal((30, 37)) / 3).astype(dtype)
    bank = sa.MemoryBank(torch.tensor(X) if library == "torch" else X)
    among = sa.run(bank, 30.0, n_chains=20, n_steps=40, rng=4, **SHORT)
    for i in (0, 5, 8, 19):
        alone = sa.run(bank, 30.0, n_chains=1, first_chain=i, n_steps=40, rng=4, **SHORT)
        assert np.array_equal(alone.samples[0], among.samples[i])


def test_its_draws_are_saved_and_loaded(tmp_path):
    draws = sa.run(make_bank("subset"), 12.0, n_chains=3, n_steps=20, rng=1, **SHORT)
    draws.save(tmp_path / "draws.npz")
    loaded = sa.Draws.load(tmp_path / "draws.npz")
    assert np.array_equal(loaded.samples, draws.samples)
    assert loaded.settings == draws.settings
    assert draws.settings.options == {"step_size": 0.2}


def test_its_options_are_checked():
    with pytest.raises(TypeError, match="sampler 'underdamped counts' has the options step_size"):
        sa.run(make_bank("unit"), 9.0, sampler=NAME, alpha=0.1)
    with pytest.raises(ValueError, match="step_size must be a positive"):
        sa.run(make_bank("unit"), 9.0, sampler=NAME, step_size=0.0)


@pytest.mark.parametrize("missing", ["Options", "State"])
def test_a_sampler_names_its_options_and_its_state(missing):
    incomplete = type(
        "Incomplete", (Sampler,), {"Options": UnderdampedCounts.Options, "State": UnderdampedCounts.State}
    )
    delattr(incomplete, missing)
    with pytest.raises(TypeError, match=r"Incomplete must name its Options \(a dataclass\), its State and its Outside"):
        sa.register_sampler("incomplete", incomplete)
    with pytest.raises(TypeError, match="sampler must be a subclass of Sampler; got 3"):
        sa.register_sampler("number", 3)


def test_the_facade_uses_it():
    model = sa.StochasticAttention(make_bank("weights"), beta=8.0, sampler=NAME)
    assert model.sample(5, rng=0).shape == (5, 12)
    assert model.condition({0: 0.1}).sample(5, rng=0)[:, 0].tolist() == [0.1] * 5
