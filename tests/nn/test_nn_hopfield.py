"""A stored bank as a module: agreement with the core and the closed form, learning, devices, saving."""

import copy
import math
import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open

import stochattn as sa
from banks import BANKS, ingredients
from closed_form import Mixture
from stochattn import energy
from stochattn.nn.hopfield import HopfieldMemory
from test_law import BETA, CHAINS, require_law


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64).to(dtype)


def memory_of(kind, **options):
    X, r = ingredients(kind)
    return HopfieldMemory(X, beta=BETA, log_r=torch.tensor(r).log(), **options)


@pytest.mark.parametrize("kind", BANKS)
def test_energy_and_density_agree_with_the_closed_form(kind):
    X, r = ingredients(kind)
    law, memory, xi = Mixture.from_ingredients(X, r, BETA), memory_of(kind), normal(2, 3, 12)
    gaps = np.square(xi.numpy()[..., None, :] - law.means).sum(-1)
    density = (law.weights * np.exp(-BETA / 2 * gaps)).sum(-1) * (BETA / (2 * math.pi)) ** 6
    np.testing.assert_allclose(memory.log_density(xi).exp(), density, rtol=1e-10)
    constants = math.log(r.sum()) / BETA + np.square(law.means).sum(1).max() / 2
    np.testing.assert_allclose(memory.energy(xi), law.table_energy(xi.numpy()) + constants, rtol=1e-12)


@pytest.mark.parametrize("kind", BANKS)
def test_it_agrees_with_the_bank_of_the_core(kind):
    X, r = ingredients(kind)
    log_r, V, xi = torch.tensor(r).log(), normal(5, 3, seed=4), normal(7, 12, seed=1)
    memory, with_values = memory_of(kind), memory_of(kind, values=V)
    bank = sa.MemoryBank(torch.tensor(X), log_r, V)
    torch.testing.assert_close(memory.energy(xi), energy.energy(xi, bank, BETA))
    torch.testing.assert_close(memory.log_density(xi), energy.log_density(xi, bank, BETA))
    once = energy.attend(xi, bank, BETA)
    torch.testing.assert_close(memory(xi), once)
    torch.testing.assert_close(memory(xi, n_steps=2), energy.attend(once, bank, BETA))
    torch.testing.assert_close(memory(xi, n_steps=500), energy.retrieve(xi, bank, BETA), rtol=1e-6, atol=1e-6)
    assert torch.equal(memory(xi, n_steps=0), xi)
    torch.testing.assert_close(with_values(xi, n_steps=0), energy.attend(xi, bank, BETA, V))
    torch.testing.assert_close(with_values(xi), energy.attend(once, bank, BETA, V))


@pytest.mark.parametrize("kind", BANKS)
def test_draws_follow_the_exact_law(kind):
    memory = memory_of(kind)
    draws = memory.sample(CHAINS, generator=seeded(1))
    require_law(draws, kind)
    assert torch.equal(draws, memory.sample(CHAINS, generator=seeded(1)))
    assert not torch.equal(draws, memory.sample(CHAINS, generator=seeded(2)))


def test_a_masked_memory_has_no_effect(monkeypatch):
    memory = HopfieldMemory([[0.0, 3.0], [1.0, 0.0]], beta=2.0, log_r=[-math.inf, 0.0], learn=True)
    alone, xi = HopfieldMemory([[1.0, 0.0]], beta=2.0), normal(4, 2)
    torch.testing.assert_close(memory.energy(xi), alone.energy(xi))
    torch.testing.assert_close(memory.log_density(xi), alone.log_density(xi))
    draws = memory.sample(500, generator=seeded())
    assert (draws.mean(0) - memory.patterns[1]).abs().max() < 5 / math.sqrt(2.0 * 500)
    assert not draws.requires_grad
    monkeypatch.setattr(torch, "rand", lambda n, dtype, **_: torch.zeros(n, dtype=dtype))  # the smallest uniform number
    monkeypatch.setattr(torch, "randn", lambda shape, dtype, **_: torch.zeros(shape, dtype=dtype))
    assert torch.equal(memory.sample(1), memory.patterns[1:])


def test_beta_is_natural_by_default():
    X = sa.MemoryBank(normal(20, 3).numpy()).normalized().patterns
    assert float(HopfieldMemory(X).beta) == sa.StochasticAttention(X).beta
    assert float(HopfieldMemory(X, beta=2.5).beta) == 2.5


def test_gradients_are_correct():
    X, V, xi = normal(4, 3), normal(4, 2, seed=1), normal(2, 3, seed=2).requires_grad_()
    memory = HopfieldMemory(X, beta=1.5, log_r=[0.0, -1.0, -math.inf, 0.3], values=V, learn=True)
    assert {name for name, _ in memory.named_parameters()} == {"patterns", "values"}

    def read(how):
        def value(xi, patterns, values):
            other = copy.copy(memory)
            other._parameters = {"patterns": patterns, "values": values}
            return how(other, xi)

        return value

    given = (xi, *(p.detach().clone().requires_grad_() for p in (memory.patterns, memory.values)))
    plain, iterated = lambda m, xi: m(xi, n_steps=0), lambda m, xi: m(xi, n_steps=3)
    for how in (plain, iterated, HopfieldMemory.energy, HopfieldMemory.log_density):
        assert torch.autograd.gradcheck(read(how), given)
    memory.log_density(xi).sum().backward()
    assert memory.patterns.grad[[0, 1, 3]].abs().min() > 0
    assert (memory.patterns.grad[2] == 0).all()


def test_the_gradient_of_the_density_is_the_score():
    memory, xi = memory_of("unequal"), normal(6, 12).requires_grad_()
    memory.log_density(xi).sum().backward()
    torch.testing.assert_close(xi.grad, BETA * (memory(xi) - xi).detach())


def test_a_fixed_memory_has_no_parameters():
    memory = memory_of("unit", values=normal(5, 2))
    assert not list(memory.parameters())
    assert set(memory.state_dict()) == {"patterns", "values", "log_r", "beta"}


def test_learning_raises_the_likelihood_of_held_out_data():
    centres = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0]])

    def data(seed):
        return centres[torch.arange(60) % 3] + 0.3 * normal(60, 2, seed=seed, dtype=torch.float32)

    memory = HopfieldMemory(0.1 * normal(3, 2, dtype=torch.float32), beta=8.0, learn=True)
    start = memory.log_density(data(1)).mean().item()
    optimiser = torch.optim.Adam(memory.parameters(), lr=0.1)
    for _ in range(60):
        optimiser.zero_grad()
        (-memory.log_density(data(0)).mean()).backward()
        optimiser.step()
    held_out = memory.log_density(data(1)).mean().item()
    best = HopfieldMemory(centres, beta=8.0).log_density(data(1)).mean().item()
    assert start < -10
    assert held_out > best - 0.3
    assert torch.cdist(centres, memory.patterns.detach()).amin(1).max() < 0.3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_only_the_patterns(dtype):
    X, xi = normal(6, 12, seed=1).to(dtype), normal(4, 12, seed=2).to(dtype)
    half = HopfieldMemory(X, beta=2000.7, log_r=normal(6, seed=3), values=X[:, :2], learn=True).to(dtype)
    exact = HopfieldMemory(X.float(), beta=2000.7, log_r=normal(6, seed=3))
    assert half.patterns.dtype == half.values.dtype == dtype
    assert (float(half.beta), half.log_r.dtype) == (float(exact.beta), torch.float32)
    for name in ("energy", "log_density"):
        got = getattr(half, name)(xi)
        assert got.dtype == torch.float32
        torch.testing.assert_close(got, getattr(exact, name)(xi.float()))
    assert half(xi).dtype == half.sample(3).dtype == dtype
    assert half(xi.double()).dtype == torch.float64
    expected = exact.energy(xi.float()), exact(xi.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close((exact.energy(xi.float()), exact(xi.float())), expected, rtol=1e-6, atol=1e-6)
    back = half.float()
    torch.testing.assert_close(back(xi.float(), n_steps=0), exact.float()(xi.float(), n_steps=1)[:, :2])


def test_dtypes_are_followed():
    memory, xi = memory_of("unequal"), normal(3, 12)
    assert memory.beta.dtype == memory.log_density(xi).dtype == torch.float64
    single = copy.deepcopy(memory).float()
    assert single.beta.dtype == single.sample(2).dtype == single(xi.float()).dtype == torch.float32
    torch.testing.assert_close(single.log_density(xi), memory.log_density(xi), rtol=1e-5, atol=1e-5)
    assert memory.to("meta").beta.device.type == "meta"


@pytest.mark.parametrize("learn", [False, True])
def test_the_state_dict_fills_a_module_of_zeros(learn):
    memory = memory_of("weights", values=normal(5, 2), learn=learn)
    empty = HopfieldMemory(torch.zeros(5, 12).double(), beta=1.0, values=torch.zeros(5, 2), learn=not learn)
    empty.load_state_dict(memory.state_dict(), strict=True)
    xi = normal(3, 12)
    assert torch.equal(empty(xi), memory(xi))
    assert torch.equal(empty.energy(xi), memory.energy(xi))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("options", [{"learn": True}, {"values": normal(5, 2)}])
def test_files_contain_everything(tmp_path, dtype, options):
    memory = memory_of("mask", **options).to(dtype)
    memory.save(tmp_path / "bank.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["bank.safetensors"]
    loaded = HopfieldMemory.load(tmp_path / "bank.safetensors")
    assert repr(loaded) == repr(memory)
    assert loaded.learn == memory.learn == bool(list(loaded.parameters()))
    assert list(loaded.state_dict()) == list(memory.state_dict())
    for name, x in memory.state_dict().items():
        assert x.dtype == loaded.state_dict()[name].dtype
        assert torch.equal(x, loaded.state_dict()[name])


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "bank.safetensors"
    memory_of("unit").save(path)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        memory_of("unequal").save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_files_with_other_content(tmp_path, monkeypatch):
    from safetensors.torch import save_file

    save_file({"patterns": torch.eye(2)}, tmp_path / "other.safetensors")
    (tmp_path / "text").write_text("no tensors in here")
    with pytest.raises(ValueError, match=r"path must name a file that HopfieldMemory.save wrote"):
        HopfieldMemory.load(tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="path must name a safetensors file"):
        HopfieldMemory.load(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        HopfieldMemory.load(tmp_path / "absent")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install 'stochattn\[torch\]'"):
        memory_of("unit").save(tmp_path / "bank")


def test_metadata_is_readable(tmp_path):
    memory_of("unit", learn=True).save(tmp_path / "bank")
    with safe_open(tmp_path / "bank", "pt") as file:
        assert file.metadata() == {"kind": "stochattn.HopfieldMemory", "learn": "True"}


def test_one_memory_is_a_gaussian():
    memory = HopfieldMemory([[1.0, 2.0]], beta=4.0)
    assert float(memory.log_density(torch.tensor([1.0, 2.0]))) == pytest.approx(math.log(4 / (2 * math.pi)))
    assert torch.equal(memory(normal(3, 2)), torch.tensor([[1.0, 2.0]] * 3, dtype=torch.float64))
    assert memory.sample(5).shape == (5, 2)


EYE = torch.eye(3)[:2]


@pytest.mark.parametrize(
    ("patterns", "options", "error", "message"),
    [
        ([[math.nan, 1.0], [0.0, 1.0]], {}, ValueError, "patterns must be finite"),
        (EYE[0], {}, ValueError, r"patterns must be a non-empty matrix .* got shape \(3,\)"),
        (EYE[:1], {}, ValueError, r"at least two memories.* Pass beta as a number"),
        (EYE, {"beta": 0.0}, ValueError, "beta must be a positive, finite number; got 0.0"),
        (EYE, {"beta": "knee"}, TypeError, "beta must be a number; got 'knee'"),
        (EYE, {"log_r": [0.0]}, ValueError, "log_r must have one entry for each of the K=2 memories"),
        (EYE, {"values": [[1.0]]}, ValueError, "values must have one row for each of the K=2 memories"),
        (
            EYE,
            {"values": torch.tensor([0, 1])},
            ValueError,
            r"values must be a matrix .*; got shape \(2,\)\. Pass values\[:, None\] for .* one-hot rows for class",
        ),
        (
            torch.stack([EYE, EYE]),
            {"values": torch.ones(2, 2)},
            ValueError,
            r"values must have one row .* got shape \(2, 2\)\. Pass values\[\.\.\., None\]",
        ),
    ],
)
def test_bad_banks(patterns, options, error, message):
    with pytest.raises(error, match=message):
        HopfieldMemory(patterns, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda m: m(torch.zeros(4)),
            ValueError,
            r"xi must have d=3 columns to match the bank \(K=2 memories, d=3\); got 4",
        ),
        (lambda m: m.energy(torch.zeros(5, 2)), ValueError, "The bank looks transposed"),
        (lambda m: m.log_density(torch.zeros(())), ValueError, "xi must have d=3 columns"),
        (lambda m: m(torch.zeros(3).long()), TypeError, "xi must be a tensor of real numbers"),
        (lambda m: m(np.zeros(3)), TypeError, "xi must be a tensor of real numbers, .* got ndarray"),
        (lambda m: m(torch.zeros(3), n_steps=-1), ValueError, "n_steps must be at least 0; got -1"),
        (lambda m: m.sample(0), ValueError, "n must be at least 1; got 0"),
        (
            lambda m: m.remove(torch.tensor([True, False])),
            TypeError,
            r"integers from 0 to 1; got bool of shape \(2,\)\. For a mask of booleans, pass numpy\.flatnonzero",
        ),
        (lambda m: m.remove([0.5]), TypeError, r"integers from 0 to 1; got \[0\.5\]\."),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call(HopfieldMemory(EYE, beta=1.0))


@pytest.mark.parametrize(
    "damaged",
    [
        {"patterns": None},
        {"beta": None},
        {"beta": torch.ones(2)},
        {"log_r": None},
        {"patterns": torch.eye(3).long()},
        {"more": torch.ones(1)},
    ],
)
def test_damaged_files(tmp_path, damaged):
    from safetensors.torch import save_file

    memory = HopfieldMemory(torch.eye(3), beta=2.0)
    tensors = {name: x for name, x in {**memory.state_dict(), **damaged}.items() if x is not None}
    save_file(tensors, tmp_path / "bank", {"kind": "stochattn.HopfieldMemory", "learn": "False"})
    with pytest.raises(ValueError, match=r"path must name a file that HopfieldMemory\.save wrote"):
        HopfieldMemory.load(tmp_path / "bank")


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="path must name a safetensors file; there is no file"):
        HopfieldMemory.load(tmp_path)


def test_a_seed_is_not_a_generator():
    with pytest.raises(TypeError, match=r"generator must be a torch\.Generator or None; got int"):
        HopfieldMemory(torch.eye(3), beta=2.0).sample(3, generator=3)


def test_the_name_of_a_bank_without_numbers():
    assert "beta=?" in repr(HopfieldMemory(torch.eye(3), beta=2.0).to("meta"))


def test_labels_are_read_as_one_hot_rows_and_numbers_as_a_column():
    rows, labels = torch.eye(4), torch.tensor([0, 1, 1, 2])
    read = HopfieldMemory(rows, beta=100.0, values=torch.nn.functional.one_hot(labels))(rows, n_steps=0)
    torch.testing.assert_close(read, torch.nn.functional.one_hot(labels).float())
    column = HopfieldMemory(rows, beta=100.0, values=labels[:, None])(rows, n_steps=0)
    torch.testing.assert_close(column, labels[:, None].float())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [{}, {"n_steps": 3}, {"tolerance": 1e-6}, {"n_steps": 5, "tolerance": 1e-6}])
def test_a_state_that_is_nan_stays_nan_and_leaves_others_alone(options):
    """Iteration to a tolerance ends, without a warning of states that still move."""
    memory, xi = memory_of("plain"), normal(3, 12)
    alone = memory(xi[1:], **options)
    xi[0, 2] = math.nan
    found = memory(xi, **options)
    assert found[0].isnan().all()
    torch.testing.assert_close(found[1:], alone)
    for scores in (memory.energy(xi), memory.log_density(xi), memory.weights(xi)[:, 0]):
        assert scores.isnan().tolist() == [True, False, False]
