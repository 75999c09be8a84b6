"""The same laws on a CUDA device; tensors stay there, and results agree with the CPU's to rounding."""

import numpy as np
import pytest
import torch

import stochattn as sa
from closed_form import Mixture
from conftest import BANKS, ingredients, make_bank
from stochattn import energy, metrics
from stochattn.samplers import SAMPLERS, draw
from test_law import BETA, CHAINS, PROTOCOL, require_law

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")


def on_device(kind: str, dtype=torch.float64) -> sa.MemoryBank:
    bank = make_bank(kind, "torch")
    return sa.MemoryBank(bank.patterns.to("cuda", dtype), bank.log_r.to("cuda", dtype))


@pytest.mark.parametrize("kind", BANKS)
@pytest.mark.parametrize("span", [True, False], ids=["span", "direct"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_follows_the_exact_law(sampler, span, kind):
    start = Mixture.from_ingredients(*ingredients(kind), BETA).draw(CHAINS, seed=2)
    options = {**PROTOCOL[sampler], "n_chains": CHAINS, "start": start, "rng": 3, "span": span, "sampler": sampler}
    draws = sa.run(on_device(kind), BETA, keep=[options["n_steps"]], **options)
    assert draws.samples.is_cuda
    require_law(draws.pooled().cpu(), kind)


@pytest.mark.parametrize("kind", BANKS)
def test_exact_draws_follow_the_exact_law(kind):
    x = draw(on_device(kind), BETA, 20_000, seed=4)
    assert x.is_cuda
    require_law(x.cpu(), kind)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_agrees_with_the_cpu(sampler):
    options = {"sampler": sampler, "n_chains": 5, "n_steps": 40, "warmup": 10, "thin": 5, "rng": 1}
    here, there = sa.run(make_bank("weights", "torch"), 9.0, **options), sa.run(on_device("weights"), 9.0, **options)
    np.testing.assert_allclose(there.samples.cpu(), here.samples, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(there.energies, here.energies, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cold_logits_keep_their_digits(dtype):
    """At beta = 2000 products rounded to TF32 are off by whole units in the logits."""
    bank, x = on_device("unequal", dtype), on_device("unequal", dtype).patterns + 0.01
    exact = energy.log_density(x.cpu().double(), make_bank("unequal", "torch"), 2000.0)
    np.testing.assert_allclose(
        energy.log_density(x, bank, 2000.0).cpu(), exact, rtol=1e-4 if dtype is torch.float32 else 1e-9
    )


def test_facade_and_metrics_stay_on_the_device():
    model = sa.StochasticAttention(on_device("unit"))
    new = model.mask([0, 1]).sample(50, rng=0)
    given = model.clamp([0], [0.2])
    whole = sa.conditioning.fill(given.sample(5, rng=0), [0], [0.2])
    for tensor in (
        new,
        whole,
        model.energy(new),
        model.score(new),
        metrics.novelty(new, model.bank),
        model.retrieve(new),
    ):
        assert tensor.is_cuda
    assert 0 < metrics.diversity(new) < 2
