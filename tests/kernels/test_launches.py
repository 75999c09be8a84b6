"""What a run gives to a GPU kernel and takes from it, with a stand-in that takes the same steps in plain torch.

`test_kernels.py` has the kernels themselves, which without a GPU take seconds in Triton's interpreter.
"""

import numpy as np
import pytest
import torch

import stochattn as sa
from banks import ingredients
from stochattn import kernels
from stochattn.kernels.philox import Philox
from stochattn.samplers import langevin, plan
from stochattn.samplers import loop as runner
from stochattn.samplers.complement import NoComplement, PositionState, RadialComplement
from stochattn.samplers.plan import SAMPLERS

SEED, CHAINS = 3, range(4, 13)


class StandIn:
    """Chains of a program, as those of `kernels.chains`; `launches` has the number of steps of each launch."""

    def __init__(self, program, patterns, log_r, alpha, codimension):
        kind = SAMPLERS[program]
        space = sa.samplers.complement.Space(sa.MemoryBank(patterns, log_r), None, patterns.shape[1] + codimension)
        self.sampler, self.noise = kind(space, kind.Options(alpha=alpha)), Philox(SEED, CHAINS, patterns)
        self.launches = []

    def fits(self, xi, beta):
        return True

    def advance(self, xi, along, across, counters, beta, steps):
        self.noise.key, first, self.noise.step = counters
        assert first == CHAINS.start
        self.launches.append(steps)
        if isinstance(self.sampler, SAMPLERS["ula"]):
            assert not along.any()
            assert not across.any()
            return (self.sampler.advance(self.noise, PositionState(xi, NoComplement()), beta, steps)[0].xi,)
        outside = RadialComplement(torch.zeros_like(xi), along[:, None], across[:, None])
        if not self.sampler.space.codimension:
            outside = NoComplement()
        start = self.sampler._evaluate(xi, outside, beta)
        state, rejected = self.sampler.advance(self.noise, start, beta, steps)
        rejected = torch.zeros(len(xi), 1, dtype=torch.int64) if rejected is None else rejected
        if not self.sampler.space.codimension:
            return state.xi, along, across, rejected[:, 0]
        return state.xi, state.complement.along[:, 0], state.complement.across[:, 0], rejected[:, 0]


@pytest.fixture(autouse=True)
def noise_of_the_device(monkeypatch):
    monkeypatch.setattr(plan, "streams", lambda *args: Philox(*args[:5]))
    monkeypatch.setattr(kernels, "launcher", lambda reference: None)


def run(sampler, d=12, **options):
    X, r = ingredients("weights")
    bank = sa.MemoryBank(torch.tensor(X[:, :d]), np.log(r))
    options = {"n_steps": 60, "warmup": 0, "thin": 20, "alpha": 0.3, **options}
    return sa.run(bank, 8.0, sampler=sampler, n_chains=len(CHAINS), first_chain=CHAINS.start, rng=SEED, **options)


def launched(monkeypatch, made=StandIn):
    stand_ins = []

    def chains(*args):
        stand_ins.append(made(*args))
        return stand_ins[-1]

    monkeypatch.setattr(langevin.kernels, "chains", chains)
    return stand_ins


@pytest.mark.parametrize("d", [3, 12], ids=["full space", "span"])
@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_launches_are_the_steps_of_torch(monkeypatch, sampler, d):
    expected = run(sampler, d)
    stand_ins = launched(monkeypatch)
    found = run(sampler, d)
    assert stand_ins[0].launches == [20, 20, 20]
    np.testing.assert_allclose(found.samples, expected.samples, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.energies, expected.energies, rtol=1e-9)
    np.testing.assert_array_equal(found.acceptance, expected.acceptance)
    assert (expected.acceptance < 1).any() == (sampler == "mala")


def test_a_launch_has_a_bounded_number_of_steps(monkeypatch):
    stand_ins = launched(monkeypatch)
    monkeypatch.setattr(runner, "MAX_LAUNCH_STEPS", 15)
    run("ula")
    assert stand_ins[0].launches == [15, 5] * 3


@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_states_that_a_kernel_cannot_hold_are_advanced_by_torch(monkeypatch, sampler):
    class Small(StandIn):
        def fits(self, xi, beta):
            assert xi.shape == (len(CHAINS), 5)
            assert beta == 8.0
            return False

    expected = run(sampler)
    stand_ins = launched(monkeypatch, Small)
    np.testing.assert_array_equal(run(sampler).samples, expected.samples)
    assert stand_ins[0].launches == []


def test_a_bank_without_a_kernel_is_advanced_by_torch(monkeypatch):
    expected = run("ula")
    launched(monkeypatch, lambda *args: None)
    np.testing.assert_array_equal(run("ula").samples, expected.samples)


def test_attention_without_a_kernel_is_never_launched(monkeypatch):
    stand_ins = launched(monkeypatch)
    monkeypatch.setattr(sa.samplers.base.ChainAttention, "has_kernel", False)
    run("ula")
    assert stand_ins == []
