"""The same laws on a CUDA device; tensors stay there, and results agree with the CPU's to rounding."""

import numpy as np
import pytest
import torch

import stochattn as sa
from banks import BANKS, ingredients, make_bank
from closed_form import Mixture
from stochattn import energy, metrics
from stochattn.generators.local_heads import LocalHeads
from stochattn.kernels.philox import Philox
from stochattn.samplers import SAMPLERS, draw, plan
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_agrees_with_the_cpu(sampler, dtype, monkeypatch):
    """A device has noise of its own, which torch can make on the CPU too: the chains are then the same to rounding."""
    options = {"sampler": sampler, "n_chains": 5, "n_steps": 40, "warmup": 10, "thin": 5, "rng": 1}
    there = sa.run(on_device("weights", dtype), 9.0, **options)
    monkeypatch.setattr(plan, "streams", lambda *args: Philox(*args[:5]))
    here = sa.run(make_bank("weights", "torch"), 9.0, **options)
    tolerance = 1e-9 if dtype is torch.float64 else 2e-3
    np.testing.assert_allclose(there.samples.cpu(), here.samples, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(there.energies, here.energies, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", BANKS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_fused_chains_follow_the_exact_law(sampler, kind):
    """float32, which takes the kernels; twenty times as many chains as on the CPU, so the test is 4.5 times sharper."""
    n, options = 20 * CHAINS, PROTOCOL[sampler]
    start = Mixture.from_ingredients(*ingredients(kind), BETA).draw(n, seed=2)
    # The biases, alpha/2 of ULA and of order h² of the splitting, must stay below the standard errors.
    smaller = {"ula": {"alpha": 0.001}, "underdamped": {"step_size": 0.03, "n_steps": 100}}.get(sampler, {})
    options = {**options, **smaller}
    settings = {**options, "n_chains": n, "start": start, "rng": 3, "sampler": sampler}
    draws = sa.run(on_device(kind, torch.float32), BETA, keep=[options["n_steps"]], **settings)
    require_law(draws.pooled().cpu().double(), kind)


@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_a_hundred_cold_memories_keep_their_law(sampler):
    """beta = 2000, r = K = 100, 100,000 chains that stay in their basins: the spread in each, known to 4e-4, is
    1/beta, or (1/beta)/(1 − alpha/2) for ULA; the share of proposals accepted by MALA is the CPU's."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 150))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    bank = sa.MemoryBank(torch.tensor(X, dtype=torch.float32, device="cuda"))
    options = {"sampler": sampler, "start": "equilibrium", "rng": 0, "alpha": 0.05}
    draws = sa.run(bank, 2000.0, n_chains=100_000, n_steps=1000, keep=[1000], **options)
    x = draws.samples[:, 0].double()
    away = (x - bank.patterns[torch.tensor(draws.basins[:, 0], device="cuda")].double()).square().sum(1) * 2000.0
    expected = 150 / (1 - 0.05 / 2) if sampler == "ula" else 150.0
    error = float(away.std()) / 100_000**0.5
    assert abs(float(away.mean()) - expected) < 5 * error
    if sampler == "mala":
        few = sa.run(sa.MemoryBank(X), 2000.0, n_chains=100, n_steps=300, keep=[300], **options)
        spread = few.acceptance.std() / 10
        assert abs(few.acceptance.mean() - draws.acceptance.mean()) < 5 * spread


def test_many_chains_at_once_is_what_few_give():
    bank, options = on_device("unequal", torch.float32), {"n_steps": 200, "keep": [200], "rng": 5, "sampler": "mala"}
    many = sa.run(bank, BETA, n_chains=5000, **options).samples
    few = sa.run(bank, BETA, n_chains=300, first_chain=4000, **options).samples
    apart = (many[4000:4300] - few).abs().amax((1, 2))
    assert (apart > 1e-3).float().mean() < 0.02  # an acceptance on the edge may fall either way


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
    new = model.subset([0, 1]).sample(50, rng=0)
    whole = model.condition({0: 0.2}).sample(5, rng=0)
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


def spots(dtype) -> np.ndarray:
    """A spot at a random place each, in colour."""
    grid, rng = np.arange(16), np.random.default_rng(0)
    down, across = (np.exp(-((grid - rng.uniform(2, 13, (40, 1))) ** 2) / 4) for _ in range(2))
    return (down[:, :, None, None] * across[:, None, :, None] * [1.0, 0.7, 0.4]).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("given", [False, True], ids=["free", "conditioned"])
def test_local_heads_draw_the_same_pictures_as_on_the_cpu(dtype, given):
    """130 pictures are two batches there and nine here. In float32 a draw near a boundary between memories may fall
    either way; products rounded to TF32 would move nearly all of them."""
    images, log_r = spots(dtype), np.where(np.arange(40) < 30, 0.0, -np.inf)
    mask = np.zeros((16, 16), dtype=bool)
    mask[:5] = True
    conditioned = (mask, images[35]) if given else None
    there = LocalHeads(torch.tensor(images, device="cuda"), torch.tensor(log_r, device="cuda"), radius=2)
    tensor = there.sample(130, rng=0, conditioned=conditioned)
    assert tensor.is_cuda
    assert str(tensor.dtype) == f"torch.{dtype}"
    here = LocalHeads(images[:30], radius=2).sample(130, rng=0, conditioned=conditioned)
    far = np.abs(tensor.cpu().numpy() - here).reshape(130, -1).max(1)
    assert np.median(far) < (1e-3 if dtype == "float32" else 1e-8)
    assert (far > 0.05).mean() < 0.1
    if given:
        assert np.array_equal(tensor.cpu().numpy()[:, mask], np.broadcast_to(images[35][mask], (130, 80, 3)))


def test_the_window_radius_is_the_same_on_the_device():
    images = spots("float64")
    there = LocalHeads(torch.tensor(images, device="cuda")).radius
    assert there == pytest.approx(LocalHeads(images).radius, rel=0.06)  # one step of its precision


def test_illumination_and_detail_on_the_device():
    place = np.linspace(-1, 1, 32)
    rng = np.random.default_rng(0)
    slopes = rng.uniform(-0.4, 0.4, (30, 1, 1))
    photographs = (
        0.5 + slopes * place[None, :, None] + 0.2 * np.sin(9 * place[None, None] + rng.uniform(0, 6, (30, 1, 1)))
    )
    there = LocalHeads(torch.tensor(photographs, device="cuda"), radius=2, illumination=True).sample(20, rng=0)
    assert there.is_cuda
    here = LocalHeads(photographs, radius=2, illumination=True).sample(20, rng=0)
    assert np.median(np.abs(there.cpu().numpy() - here).reshape(20, -1).max(1)) < 1e-8
