"""Sharded banks against one process and the closed form, on 1, 2 and 4 processes; and what is left when one dies.

The processes are those of `sharded_ranks.py`. With four, one shard has no rows and one has a masked row only. The only
rank of one is this process.
"""

import os
import re
import subprocess
import sys
from functools import cache
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from filelock import FileLock  # which torch requires

import stochattn as sa
from banks import ingredients
from closed_form import Mixture
from sharded_ranks import (
    BETA,
    CHAINS,
    LAW,
    MASKED,
    N_DRAWS,
    SAMPLERS,
    START_CHAINS,
    STARTS,
    TIMEOUT,
    bank_parts,
    chains,
    functions,
    gradients,
    line_of,
    memory,
    refusals,
)
from stochattn.core.mixture import cumulative_weights
from stochattn.nn import HopfieldMemory, stochastic_attention
from stochattn.nn import ranks as sharded_memory
from stochattn.samplers.exact import uniforms_of
from stochattn.storage.ranks import RankGroup
from test_law import require_law

ROOT = Path(__file__).parents[2]
WORLDS = (2, 4)
PATHS = Path(sa.__file__).parents[1], ROOT / "tests"  # of the package under test, wherever it is installed
ALONE = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, PATHS))}
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked, which needs POSIX")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """A function of the number of processes: the results of each rank by name. All workers of xdist share one run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "ranks"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            command = [sys.executable, str(ROOT / "tests" / "sharded_ranks.py"), str(folder), *map(str, (*WORLDS, 3))]
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=ALONE, check=False)
            (folder / "errors").write_text(f"exit code {done.returncode}\n{done.stderr}", "utf-8")
    errors = (folder / "errors").read_text("utf-8")
    assert errors.startswith("exit code 0"), errors

    @cache
    def of(world):
        paths = [folder / f"{world}-{rank}.npz" for rank in range(world)]
        results = [dict(np.load(path)) for path in paths if path.exists()]
        assert len(results) == world - (world == 3), errors  # of three ranks, one is killed
        return results

    return of


@pytest.fixture(scope="module")
def alone():
    """This process as the only rank of a group; the message of a bank that was made before there was one."""
    message = line_of(lambda: sa.ShardedMemory(torch.eye(2), beta=1.0))
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield message
    dist.destroy_process_group()


class Here(dict):
    """The results of this process, each computed when a test first asks for one like it."""

    def __missing__(self, name):
        for part in (functions, chains, gradients, refusals):
            for one, value in part(1, 0):
                self[one] = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
            if name in self:
                return self[name]
        raise KeyError(name)


@pytest.fixture(params=(1, *WORLDS))
def results(request):
    """The results of rank 0, with those of the other ranks checked to be the same bits."""
    if request.param == 1:
        return Here({"not started": request.getfixturevalue("alone")})
    first, *others = request.getfixturevalue("ranks")(request.param)
    for rank, other in enumerate(others, 1):
        for name in [name for name in other if name not in ("layer text", "warned")]:
            np.testing.assert_array_equal(first[name], other[name], err_msg=f"{name} on rank {rank}")
    return first


@cache
def bank(dtype="float64"):
    X, log_r, values, _ = bank_parts(dtype)
    return sa.MemoryBank(torch.tensor(X), log_r, values)


def model(dtype="float64"):
    return sa.StochasticAttention(bank(dtype), BETA)


DTYPES = ("float64", "float32")
TOLERANCE = {"float64": 1e-13, "float32": 2e-5}  # of sums of some twenty numbers, in another order


def require_close(found, expected, dtype="float64"):
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_are_those_of_one_process(results, dtype):
    xi, one = bank_parts(dtype)[-1], model(dtype)
    for name in ("attend", "energy", "log_density", "score"):
        require_close(results[f"{name} {dtype}"], getattr(one, name)(xi), dtype)
    require_close(results[f"read {dtype}"], one.attend(xi, values=bank(dtype).values), dtype)
    require_close(results[f"hard {dtype}"], one.attend(xi, beta=np.inf), dtype)
    require_close(results[f"sharp {dtype}"], one.attend(xi, beta=40.0), dtype)
    equal = sa.StochasticAttention(bank(dtype), BETA, equal_weights=True)
    require_close(results[f"equal {dtype}"], equal.log_density(xi), dtype)


def test_functions_agree_with_the_closed_form(results):
    X, log_r, _, xi = bank_parts()
    law = Mixture.from_ingredients(X, np.exp(log_r), BETA)
    gaps = np.square(xi[:, None] - law.means[None]).sum(-1)
    density = (law.weights * np.exp(-BETA * gaps / 2)).sum(-1) * (BETA / (2 * np.pi)) ** (X.shape[1] / 2)
    np.testing.assert_allclose(results["log_density float64"], np.log(density), rtol=1e-12)
    p = law.weights * np.exp(-BETA * gaps / 2)
    np.testing.assert_allclose(results["attend float64"], (p / p.sum(1, keepdims=True)) @ law.means, rtol=1e-12)


def test_any_number_of_states(results):
    xi, one = bank_parts("float32")[-1], model("float32")
    require_close(results["one state"], one.attend(xi[0]), "float32")
    assert results["no states"].shape == (0, 5)
    assert np.isfinite(results["fresh"]).all()  # without a seed, ranks draw with that of rank 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_draws_have_the_bits_of_one_process(results, dtype):
    found, expected = results[f"sample {dtype}"], np.asarray(model(dtype).sample(N_DRAWS, rng=1))
    other = np.flatnonzero((found != expected).any(1))
    if dtype == "float64":
        assert not len(other)
    # In float32 weights are rounded to 6e-8, so a uniform that close to a border may pick the memory on its other side.
    borders = cumulative_weights(bank(dtype), BETA)
    uniforms = uniforms_of(1, range(N_DRAWS), 5)[other]
    assert (np.abs(uniforms[:, None] * borders[-1] - borders).min(1) < 1e-6).all()
    assert len(other) < 10


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_chains_are_those_of_one_process(results, sampler):
    one = sa.run(bank(), BETA, sampler=sampler, span=False, **CHAINS)
    for name in ("samples", "energies"):
        np.testing.assert_allclose(results[f"{sampler} {name}"], np.asarray(getattr(one, name)), rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(results[f"{sampler} basins"], one.basins)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_chain_has_the_same_bits_alone_and_in_parts(results, sampler):
    whole = results[f"{sampler} samples"][4:7]
    np.testing.assert_array_equal(results[f"{sampler} some"], whole[:, :1])
    np.testing.assert_array_equal(results[f"{sampler} second part"], whole[:, 1:])


@pytest.mark.parametrize("start", STARTS, ids=str)
def test_starts_are_those_of_one_process(results, start):
    one = sa.run(bank(), BETA, span=False, **START_CHAINS, start=start).samples
    np.testing.assert_allclose(results[f"start {start}"], np.asarray(one), rtol=1e-12, atol=1e-12)


def test_a_masked_memory_is_not_the_nearest(results):
    one = sa.run(bank(), BETA, span=False, **START_CHAINS, start=bank_parts()[0][MASKED])
    np.testing.assert_array_equal(results["basins near masked"], one.basins)
    assert not np.isin(results["basins near masked"], MASKED[:2]).any()


@pytest.mark.parametrize("sampler", [*LAW, "exact"])
def test_states_follow_the_exact_law(ranks, sampler):
    """As in `test_law.py`, with its power: 4,000 chains, thresholds of 5 standard errors."""
    assert ingredients("weights")[1].std() > 0
    require_law(ranks(2)[0][f"law {sampler}"], "weights")


def one_process_derivatives(function):
    x = torch.tensor(bank_parts()[-1], requires_grad=True)
    (first,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    return torch.stack((first.detach(), second))


def stepped(x, n_steps=3, alpha=0.2):
    """Algorithm 1 from its definition, with the noise of torch's generator, and the readout of values."""
    X, log_r, values = (torch.tensor(part) for part in bank_parts()[:3])
    generator = torch.Generator().manual_seed(0)
    for _ in range(n_steps):
        attended = torch.softmax(BETA * x @ X.T + log_r, -1) @ X
        eps = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        x = (1 - alpha) * x + alpha * attended + np.sqrt(2 * alpha / BETA) * eps
    return torch.softmax(BETA * x @ X.T + log_r, -1) @ values


def test_layers_and_gradients_are_those_of_one_process(results):
    X, log_r, values, xi = bank_parts()
    layer = HopfieldMemory(torch.tensor(X), beta=BETA, log_r=log_r, values=values)
    functions = {
        "forward": lambda x: layer(x, n_steps=2),
        "energy": layer.energy,
        "log_density": layer.log_density,
        "attend": lambda x: torch.softmax(BETA * x @ layer.patterns.T + layer.log_r, -1) @ layer.patterns,
        "steps": stepped,
    }
    for name, function in functions.items():
        expected = one_process_derivatives(function).numpy()
        np.testing.assert_allclose(results[f"gradient {name}"], expected, rtol=1e-9, atol=1e-9, err_msg=name)
    require_close(results["steps"], stepped(torch.tensor(xi)))
    require_close(results["layer"], layer(torch.tensor(xi).float()), "float32")
    assert results["layer sample"].shape == (4, 5)
    assert "K=23 memories, d=5, beta=3, float64, rows 0 to" in str(results["layer text"])
    assert "cannot be saved as one file" in str(results["layer save"])
    assert "learn must be left out" in str(results["layer learn"])


MESSAGES = {
    "NaN": "rank {last}: patterns must be finite; 1 of 20 entries are NaN or infinite, the first at index (2, 1)",
    "d": "d must be the same on every rank; rank 0 has 5 and rank {last} 4",
    "dtype": "dtype must be the same on every rank; rank 0 has float64 and rank {last} float32",
    "beta": "beta must be the same on every rank; rank 0 has 3.0 and rank {last} 2.0",
    "sign": "rank {last}: beta must be a positive, finite number; got -1.0",
    "values": "the width of values must be the same on every rank; rank 0 has 4 and rank {last} None",
    "log_r": "rank {last}: log_r must have one entry for each of the",
    "seed": "rng must be the same on every rank; rank 0 has 0 and rank {last} 1",
    "n": "n must be the same on every rank; rank 0 has 5 and rank {last} 6",
    "xi": "xi must be the same on every rank; rank 0 has numbers with the checksum",
    "rows": "the shape of xi must be the same on every rank; rank 0 has [7, 5] and rank {last} [6, 5]",
    "width": "rank {last}: xi must have d=5 columns",
    "call": "all ranks must make the same call; rank 0 calls attend and rank {last} score",
    "grad": "whether xi needs a gradient must be the same on every rank; rank 0 has False and rank {last} True",
    "alpha": "options must be the same on every rank; rank 0 has {{'alpha': 0.1}} and rank {last} {{'alpha': 0.5}}",
    "schedule": "beta must be the same on every rank; rank 0 has [1.0, ",
    "generator": "the state of the generator must be the same on every rank",
}
"""Errors that one rank causes, and all raise."""
EVERYWHERE = {
    "empty": "patterns must have rows on at least one rank; every shard is empty",
    "masked": "log_r must leave at least one memory with a positive weight; it leaves none of the K=23",
    "large": "patterns must have squared norms that torch.float64 can represent",
    "shape": "patterns must be a matrix with one row per memory, (K, d); got shape (",
    "start": "start must name memories with positive weight; memory 3 has weight zero",
    "sampler": "sampler must be one of 'ula', 'mala', 'underdamped'; got 'exact'",
    "mask": "is_causal must be left out with a ShardedMemory",
    "value": "value must be the ShardedMemory that is the key",
    "key": "key must be the ShardedMemory that is the value",
}


@pytest.mark.parametrize("world", WORLDS)
def test_a_bad_argument_of_one_rank_is_an_error_on_all(ranks, world):
    for rank, results in enumerate(ranks(world)):
        for name, message in MESSAGES.items():
            line = str(results[f"bad {name}"])
            assert message.format(last=world - 1) in line, f"{name} on rank {rank}: {line}"
            assert "\n" not in line


def test_rank_0_warns_if_norms_dominate(results):
    with pytest.warns(UserWarning, match=r"of 23 memories (has|have) nearly all the weight") as caught:
        sa.StochasticAttention(4 * bank_parts()[0], BETA)
    assert str(results["warned"]) == str(caught[0].message)


@pytest.mark.parametrize("world", WORLDS)
def test_other_ranks_do_not_warn(ranks, world):
    assert [str(other["warned"]) for other in ranks(world)[1:]] == ["0"] * (world - 1)


def test_bad_arguments(results):
    for name, message in EVERYWHERE.items():
        assert message in str(results[f"bad {name}"]), f"{name}: {results[f'bad {name}']}"
    require_close(results["still works"], model().attend(bank_parts()[-1]))
    assert "Start the program with torchrun" in str(results["not started"])


@pytest.fixture
def compared(alone, monkeypatch):
    """Facts by name that a call of a bank compares among ranks, one dictionary for each call."""
    facts, agree = [], RankGroup.agree

    def recording(ranks, call, check):
        facts.append(dict(check().same))
        return agree(ranks, call, check)

    monkeypatch.setattr(RankGroup, "agree", recording)
    return facts


def test_steps_and_noise_must_be_the_same_on_all_ranks(compared):
    bank, xi = memory(1, 0), torch.tensor(bank_parts()[-1])
    states = []
    for seed, steps in ((0, {}), (1, {}), (1, {"noise": 0.0}), (1, {"n_steps": 0}), (None, {}), (None, {})):
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        compared.clear()
        torch.manual_seed(7)
        stochastic_attention(xi, bank, bank, **{"n_steps": 2, "alpha": 0.2, "generator": generator} | steps)
        assert compared[0].items() >= {"n_steps": 2, "alpha": 0.2, "noise": 1.0, "beta": BETA, **steps}.items()
        states.append(compared[0].get("the state of the generator"))
    first, second, without_noise, without_steps, own, again = states
    assert without_noise is without_steps is None  # nothing is drawn
    assert len({first, second, own}) == 3
    assert own == again
    torch.manual_seed(8)
    stochastic_attention(xi, bank, bank, n_steps=2)
    assert compared[-1]["the state of the generator"] != own


def test_what_a_run_compares_among_ranks(compared):
    bank = memory(1, 0)
    compared.clear()
    first = bank.run(**START_CHAINS, start="memories", sigma_init=0.3, first_chain=2)
    bank.run(**START_CHAINS, start=[5, 0, 9])
    bank.run(**START_CHAINS, start=[5, 0, 8])
    bank.run(start=first, n_steps=4, thin=1)
    bank.run(n_chains=3, n_steps=2, keep=[1])
    named, by_number, other, later, fresh = compared
    assert (
        named.items()
        >= {
            **{"sampler": "ula", "start": "memories", "rng": 4, "n_chains": "3", "first_chain": "2"},
            **{"n_steps": "2", "sigma_init": "0.3", "beta": "3.0"},
        }.items()
    )
    assert re.fullmatch("[0-9a-f]{16}", by_number["start"])
    assert by_number["start"] != other["start"]
    assert by_number["sigma_init"] == "0.01"
    assert re.fullmatch(r"\(2, '[0-9a-f]{16}'\)", later["start"])
    assert fresh["rng"] is None  # rank 0 chooses the seed


def test_long_facts_are_compared_by_their_digest():
    assert sharded_memory._short("x" * 100) == "x" * 100
    one, other = (sharded_memory._short("x" * 100 + end) for end in "ab")
    assert re.fullmatch("x{100}… with the digest [0-9a-f]{16}", one)
    assert one != other


def test_a_run_has_the_defaults_of_one_process():
    on_ranks, alone = (
        {name: one.default for name, one in signature(function).parameters.items()}
        for function in (sa.ShardedMemory.run, sa.run)
    )
    common = set(on_ranks) & set(alone) - {"sampler", "beta"}
    assert {"n_steps", "warmup", "thin", "start", "sigma_init"} <= common
    assert {name: on_ranks[name] for name in common} == {name: alone[name] for name in common}


def test_a_run_has_the_beta_of_the_bank_or_its_own(alone):
    bank = memory(1, 0)
    runs = [bank.run(**START_CHAINS, **beta).samples for beta in ({}, {"beta": BETA}, {"beta": 9.0})]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_layers_of_a_bank_without_values_read_its_memories(alone):
    X, log_r, _, xi = bank_parts()
    shard = sa.ShardedMemory(torch.tensor(X), beta=BETA, log_r=log_r)
    whole = HopfieldMemory(torch.tensor(X), beta=BETA, log_r=log_r)
    for n_steps in (0, 1, 2):
        found = HopfieldMemory(shard)(torch.tensor(xi), n_steps=n_steps)
        require_close(found.numpy(), whole(torch.tensor(xi), n_steps))
    with pytest.raises(ValueError, match="values must be given to ShardedMemory before they can be read"):
        shard.read(xi)
    with pytest.raises(ValueError, match="n_steps must be"):
        HopfieldMemory(shard)(torch.tensor(xi), n_steps=-1)


@pytest.mark.parametrize("x", [torch.ones(2, 5, dtype=torch.int64), [[0.0] * 5]], ids=["integers", "a list"])
def test_queries_that_are_not_tensors_of_real_numbers_are_named(alone, x):
    bank = memory(1, 0)
    got = "torch.int64" if isinstance(x, torch.Tensor) else "list"
    for name, call in (("query", lambda: stochastic_attention(x, bank, bank)), ("xi", lambda: HopfieldMemory(bank)(x))):
        assert f"TypeError: rank 0: {name} must be a tensor of real numbers, (..., d); got {got}" in line_of(call)


def test_a_rank_that_dies_or_does_not_answer_is_an_error_on_the_others(ranks):
    for results in ranks(3):
        assert "did not answer in time" in str(results["slow"])
        assert TIMEOUT <= float(results["slow seconds"]) < TIMEOUT + 10
        assert "waited for a rank that ended" in str(results["killed"])
        assert float(results["killed seconds"]) < 30
        assert "waited for a rank that ended" in str(results["killed again"])


def test_the_example_of_the_documentation_runs_with_torchrun(tmp_path):
    page = (ROOT / "docs" / "large_banks.md").read_text("utf-8")
    program = re.search(r"```py\n(.*?)```", page, flags=re.DOTALL)[1]
    (tmp_path / "sharded.py").write_text(program, "utf-8")
    np.save(tmp_path / "bank.npy", np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "sharded.py"]
    done = subprocess.run(torchrun, capture_output=True, text=True, timeout=120, env=ALONE, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    X = np.load(tmp_path / "bank.npy")
    one = sa.StochasticAttention(X, beta=2.0, equal_weights=True)
    np.testing.assert_array_equal(np.load(tmp_path / "new.npy"), one.sample(1000, rng=0))
    assert done.stdout.count("K=40 memories, d=6, beta=2, float32") == 2, done.stdout
