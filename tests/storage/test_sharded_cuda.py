"""A sharded bank on one GPU: a single rank of NCCL, whose collectives run as those of many do."""

import numpy as np
import pytest
import torch
import torch.distributed as dist

import stochattn as sa
from banks import ingredients
from closed_form import Mixture
from sharded_ranks import BETA, LAW, LAW_BETA, LAW_CHAINS, bank_parts
from stochattn.nn import HopfieldMemory, stochastic_attention
from test_law import require_law

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
    pytest.mark.skipif(not dist.is_nccl_available(), reason="this build of torch has no NCCL"),
]
TOLERANCE = {np.float64: 1e-12, np.float32: 1e-4}


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    torch.cuda.set_device(0)
    store = dist.FileStore(str(tmp_path_factory.mktemp("nccl") / "store"), 1)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def both(dtype=np.float64):
    """The same bank as a single shard and as a bank in one process, on the device."""
    X, log_r, values, xi = bank_parts(dtype)
    X, xi = torch.tensor(X, device="cuda"), torch.tensor(xi, device="cuda")
    one = sa.StochasticAttention(sa.MemoryBank(X, log_r, values), BETA)
    return sa.ShardedMemory(X, beta=BETA, log_r=log_r, values=values), one, xi


def require_close(found, expected, dtype=np.float64):
    torch.testing.assert_close(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_functions_and_draws_are_those_of_one_process(group, dtype):
    sharded, one, xi = both(dtype)
    for name in ("attend", "energy", "log_density", "score"):
        require_close(getattr(sharded, name)(xi), getattr(one, name)(xi), dtype)
    require_close(sharded.read(xi), one.attend(xi, values=one.bank.values), dtype)
    found, expected = sharded.sample(20_000, rng=1), one.sample(20_000, rng=1)
    assert found.device.type == "cuda"
    # A uniform within rounding of a border may pick the memory on its other side.
    other = ((found - expected).abs() > TOLERANCE[dtype]).any(1)
    assert int(other.sum()) < (1 if dtype == np.float64 else 10)


@pytest.mark.parametrize("sampler", ["ula", "mala", "underdamped"])
def test_chains_are_those_of_one_process(group, sampler):
    sharded, one, _ = both()
    options = {"sampler": sampler, "n_chains": 9, "n_steps": 24, "warmup": 0, "thin": 8, "rng": 4}
    found, expected = sharded.run(**options), one.run(span=False, **options)
    torch.testing.assert_close(found.samples, expected.samples, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found.basins, expected.basins)
    few = sharded.run(**options | {"n_chains": 3}, first_chain=4)
    torch.testing.assert_close(few.samples, found.samples[4:7], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sampler", [*LAW, "exact"])
def test_states_follow_the_exact_law(group, sampler):
    """As in `test_law.py`, with its power: 4,000 chains, thresholds of 5 standard errors."""
    X, r = ingredients("weights")
    bank = sa.ShardedMemory(torch.tensor(X, device="cuda"), beta=LAW_BETA, log_r=np.log(r))
    if sampler == "exact":
        require_law(bank.sample(LAW_CHAINS, rng=5).cpu(), "weights")
        return
    start = Mixture.from_ingredients(X, r, LAW_BETA).draw(LAW_CHAINS, seed=2)
    options = LAW[sampler] | {"keep": [LAW[sampler]["n_steps"]], "n_chains": LAW_CHAINS, "start": start, "rng": 3}
    require_law(bank.run(sampler=sampler, **options).samples[:, 0].cpu(), "weights")


def test_layers_and_gradients_are_those_of_one_process(group):
    X, log_r, values, _ = bank_parts()
    sharded, one, xi = both()
    layer = HopfieldMemory(torch.tensor(X, device="cuda"), beta=BETA, log_r=log_r, values=values)
    for mine, other in ((HopfieldMemory(sharded), layer), (sharded.log_density, layer.log_density)):
        gradients = []
        for function in (mine, other):
            x = xi.clone().requires_grad_()
            function(x).square().sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)
    generator = torch.Generator("cuda").manual_seed(0)
    moved = stochastic_attention(xi, sharded, sharded, n_steps=2, noise=0.0, alpha=0.5, generator=generator)
    state = xi
    for _ in range(2):
        state = 0.5 * state + 0.5 * one.attend(state)
    require_close(moved, one.attend(state, values=one.bank.values))


def test_rows_on_the_cpu_are_refused(group):
    with pytest.raises(ValueError, match="rank 0: patterns must be on a device that the group can exchange"):
        sa.ShardedMemory(torch.eye(3), beta=1.0)


def test_numbers_that_are_not_finite_are_named(group):
    rows = torch.eye(3, device="cuda")
    rows[2, 1] = torch.nan
    with pytest.raises(ValueError, match=r"rank 0: patterns must be finite.*\(2, 1\)"):
        sa.ShardedMemory(rows, beta=1.0)
