"""Streams for devices, in torch on the CPU: published values of the generator, the laws, independence of chains."""

import numpy as np
import pytest
import torch
from scipy import stats

import stochattn as sa
from banks import BANKS, ingredients, make_bank
from closed_form import Mixture
from stochattn import kernels
from stochattn.kernels import philox
from stochattn.kernels.philox import Philox, words
from stochattn.samplers import SAMPLERS, plan
from stochattn.samplers import loop as runner
from stochattn.samplers.base import ChainAttention
from test_law import BETA, CHAINS, PROTOCOL, require_law


@pytest.fixture(autouse=True)
def in_torch_only(monkeypatch):
    """Noise of Philox on the CPU, without kernels."""
    monkeypatch.setattr(kernels, "launcher", lambda reference: None)
    monkeypatch.setattr(plan, "streams", lambda *args: Philox(*args[:5]))


def at(step=0, chains=range(4000), dtype=torch.float64, seed=0):
    return Philox(seed, chains, torch.zeros(1, dtype=dtype), step)


# Published values of Random123 for philox4x32 with ten rounds.
ANSWERS = [
    ([0, 0, 0, 0], 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([2**32 - 1] * 4, 2**64 - 1, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        0x299F31D0A4093822,
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), ANSWERS)
def test_words_agree_with_the_published_values(counter, key, answer):
    made = words(key, *(torch.tensor(c) for c in counter[:3]), counter[3])
    assert [int(word) for word in made] == answer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 682, 100_000])
def test_chi_squares_follow_their_law(degrees, dtype):
    """With 20,000 numbers, the KS test detects an error of a thousandth of the mean at 682 degrees of freedom."""
    numbers = at(chains=range(20_000), dtype=dtype).chi_square(degrees)[:, 0].double()
    assert stats.kstest(numbers.numpy(), stats.chi2(degrees).cdf).pvalue > 1e-3


def test_normals_exponentials_and_uniforms_follow_their_laws():
    noise = at(step=5, chains=range(20_000))
    for numbers, law in (
        (noise.normal(3)[:, 0], stats.norm),
        (noise.normal(3)[:, 2], stats.norm),
        (noise.normal_outside()[:, 1], stats.norm),
        (noise.exponential()[:, 0], stats.expon),
        (noise.uniform()[:, 0], stats.uniform),
        (torch.tensor(noise.uniform_at_start()), stats.uniform),
    ):
        assert stats.kstest(numbers.numpy(), law.cdf).pvalue > 1e-3
    both = noise.normal(8)
    assert np.abs(np.corrcoef(both.numpy().T) - np.eye(8)).max() < 5 / np.sqrt(20_000)


def test_numbers_depend_on_seed_chain_and_step_only():
    whole = at(7).normal(10)
    assert torch.equal(at(7, range(100, 200)).normal(10), whole[100:200])
    assert torch.equal(at(7).normal(3), whole[:, :3])
    assert torch.equal(at(7).at_kept(6, slice(10, 20)), at(7).at_kept(6)[10:20])
    for other in (at(8).normal(10), at(7, seed=1).normal(10), at(7).at_kept(10), at(7).at_start(10)):
        assert (other - whole).abs().min() > 0
    assert (at(7, dtype=torch.float32).normal(10).double() - whole).abs().max() < 1e-5


def test_uniforms_can_choose_among_millions():
    assert len(torch.unique(at(chains=range(100_000)).uniform())) == 100_000


def test_counters_that_would_overflow_are_errors():
    with pytest.raises(ValueError, match="below 2\\^31"):
        at(chains=range(2**31 - 5, 2**31))


@pytest.mark.parametrize("kind", BANKS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_follows_the_exact_law(sampler, kind):
    start = Mixture.from_ingredients(*ingredients(kind), BETA).draw(CHAINS, seed=2)
    options = {**PROTOCOL[sampler], "n_chains": CHAINS, "start": start, "rng": 3, "sampler": sampler}
    require_law(sa.run(make_bank(kind, "torch"), BETA, keep=[options["n_steps"]], **options).pooled(), kind)


@pytest.mark.parametrize("kind", BANKS)
def test_exact_draws_follow_the_exact_law(kind):
    bank = make_bank(kind, "torch")
    cumulative = sa.samplers.exact.cumulative_weights(bank, BETA)
    x = philox.draw(bank.patterns, cumulative, BETA**-0.5, 4, 0, 20_000)
    require_law(x, kind)
    assert torch.equal(philox.draw(bank.patterns, cumulative, BETA**-0.5, 4, 100, 50), x[100:150])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_run_in_two_parts_is_the_whole_run(sampler):
    bank, options = make_bank("weights", "torch"), {"n_chains": 5, "rng": 2, "sampler": sampler}
    whole = sa.run(bank, 9.0, n_steps=60, warmup=0, thin=7, **options)
    first = sa.run(bank, 9.0, n_steps=25, warmup=0, thin=7, **options)
    second = sa.run(bank, 9.0, n_steps=35, thin=7, start=first)
    both = torch.cat((first.samples, second.samples), 1)
    np.testing.assert_allclose(both, whole.samples, rtol=1e-12, atol=1e-12)
    assert first.last.noise == "Philox"


def test_a_continued_run_uses_the_same_kind_of_noise(monkeypatch):
    bank = make_bank("unit", "torch")
    draws = sa.run(bank, 9.0, n_chains=2, n_steps=5, warmup=0, thin=1, rng=0)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="start must be continued where it ran"):
        sa.run(bank, 9.0, n_steps=5, thin=1, start=draws)


def full_device(monkeypatch, at_step):
    """A device whose memory runs out at a step."""
    original = ChainAttention.attend
    calls = []

    def attend(self, xi, beta, factor):
        calls.append(beta)
        if len(calls) == at_step:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore words.")
        return original(self, xi, beta, factor)

    monkeypatch.setattr(ChainAttention, "attend", attend)


def test_a_full_device_is_an_error_with_sizes(monkeypatch):
    full_device(monkeypatch, 3)
    with pytest.raises(MemoryError, match=r"4 chains on K=5 memories do not fit on cpu.*2\.00 GiB\. Run fewer chains"):
        sa.run(make_bank("unit", "torch"), 9.0, n_chains=4, n_steps=20, warmup=0, thin=5, rng=0)


def test_a_device_that_fills_during_a_run_keeps_the_states(monkeypatch):
    bank, options = make_bank("unit", "torch"), {"n_chains": 4, "warmup": 0, "thin": 5, "rng": 0}
    whole = sa.run(bank, 9.0, n_steps=20, **options)
    full_device(monkeypatch, 13)
    monkeypatch.setattr(runner, "MAX_CPU_STEPS", 1)
    with pytest.warns(RuntimeWarning) as caught:
        draws = sa.run(bank, 9.0, n_steps=20, **options)
    assert "2.00 GiB" in str(caught[0].message)
    assert "interrupted after 12 of 20 steps" in str(caught[1].message)
    assert draws.steps.tolist() == [5, 10]
    rest = sa.run(bank, 9.0, n_steps=8, thin=5, start=draws)
    np.testing.assert_allclose(torch.cat((draws.samples, rest.samples), 1), whole.samples, rtol=1e-12, atol=1e-12)


def test_attention_that_never_fits_keeps_the_states(monkeypatch):
    """It ends in a MemoryError of the library, which a run treats like torch's."""
    original, calls = ChainAttention.attend, []

    def attend(self, xi, beta, factor):
        calls.append(beta)
        if len(calls) == 8:
            raise MemoryError("attention of 4 states does not fit on cuda:0.")
        return original(self, xi, beta, factor)

    monkeypatch.setattr(ChainAttention, "attend", attend)
    with pytest.warns(RuntimeWarning) as caught:
        draws = sa.run(make_bank("unit", "torch"), 9.0, n_chains=4, n_steps=20, warmup=0, thin=5, rng=0)
    assert "out of memory: attention of 4 states" in str(caught[0].message)
    assert draws.steps.tolist() == [5]


def test_a_run_too_large_for_its_device_is_an_error_before_it_starts(monkeypatch):
    monkeypatch.setattr(plan, "free_bytes", lambda reference: 10_000)
    with pytest.raises(MemoryError, match=r"n_chains=50 with 4 kept states of d=12 need 3.84e-05 GB on cpu, which has "
                                          r"1e-05 GB free. Run n_chains=13 at a time"):  # fmt: skip
        sa.run(make_bank("unit", "torch"), 9.0, n_chains=50, n_steps=20, warmup=0, thin=5, rng=0)
