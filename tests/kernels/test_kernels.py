"""The kernels against the same chains in plain torch, with the same noise: in Triton's interpreter without a GPU."""

import sys

import numpy as np
import pytest
import torch

import stochattn as sa
from stochattn import kernels
from stochattn.kernels import philox
from stochattn.kernels.philox import Philox
from stochattn.samplers import plan
from stochattn.samplers.exact import cumulative_weights

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # conftest.py enables the interpreter
launch, tiled = (
    pytest.importorskip(f"stochattn.kernels.{name}", reason="Triton is not installed (it exists for Linux alone)")
    for name in ("launch", "tiled")
)
pytestmark = pytest.mark.filterwarnings("ignore:.*overflow.*:RuntimeWarning")  # words of Philox overflow on purpose


@pytest.fixture(autouse=True)
def noise_of_the_device(monkeypatch):
    monkeypatch.setattr(plan, "streams", lambda *args: Philox(*args[:5]))


def bank(K, d, seed=0, scale=1.0, weights=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((K, d)) + 0.5
    X *= scale / np.linalg.norm(X, axis=1, keepdims=True)
    log_r = rng.standard_normal(K) if weights else None
    return sa.MemoryBank(torch.tensor(X, dtype=torch.float32, device=DEVICE), log_r)


def in_torch(monkeypatch, function):
    with monkeypatch.context() as patched:
        patched.setattr(kernels, "launcher", lambda reference: None)
        return function()


def same_chains(monkeypatch, memories, beta, tolerance=2e-5, **options):
    """Draws by the kernel, which must agree with plain torch up to rounding."""
    launched = []
    original = kernels.chains

    def counted(*args):
        launched.append(original(*args))
        return launched[-1]

    monkeypatch.setattr(kernels, "chains", counted)
    # Two launches of two steps each: a third of either runs the same lines again, slowly in the interpreter.
    options = {"n_chains": 20, "n_steps": 4, "warmup": 0, "thin": 2, "rng": 1, "first_chain": 3, **options}
    fused = sa.run(memories, beta, **options)
    assert launched[-1] is not None
    plain = in_torch(monkeypatch, lambda: sa.run(memories, beta, **options))
    size = float(plain.samples.abs().max())
    apart = (fused.samples - plain.samples).abs().amax((1, 2)) / size
    assert apart.max() < tolerance
    np.testing.assert_allclose(fused.energies, plain.energies, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(fused.acceptance, plain.acceptance)
    return fused


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 5, 128, 1300])
def test_normals_agree_with_torch(monkeypatch, width, dtype):
    noise = Philox(3, range(5, 38), torch.zeros(1, dtype=dtype, device=DEVICE), 7)
    made = noise.at_kept(width)
    expected = in_torch(monkeypatch, lambda: noise.at_kept(width))
    assert made.shape == expected.shape == (33, width)
    tolerance = 1e-12 if dtype is torch.float64 else 1e-3 if DEVICE == "cuda" else 2e-6
    np.testing.assert_allclose(made.cpu(), expected.cpu(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("degrees", [0, 3, 4, 90, 100_000])
def test_numbers_of_a_chain_agree_with_torch(monkeypatch, degrees, dtype):
    noise = Philox(3, range(5, 305), torch.zeros(1, dtype=dtype, device=DEVICE), 7)
    make = (lambda: noise.chi_square(degrees)) if degrees else noise.exponential
    made, expected = make(), in_torch(monkeypatch, make)
    assert made.dtype == dtype
    tolerance = 1e-12 if dtype is torch.float64 else 1e-4 if DEVICE == "cuda" else 1e-5
    np.testing.assert_allclose(made.cpu(), expected.cpu(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("K", [1, 2, 3, 64, 100])
@pytest.mark.parametrize("d", [1, 17, 130])
def test_draws_agree_with_torch(monkeypatch, K, d, dtype):
    memories = bank(K, d, weights=True)
    args = memories.patterns.to(dtype), cumulative_weights(memories, 5.0), 5.0**-0.5, 9, 2, 40
    made, expected = philox.draw(*args), in_torch(monkeypatch, lambda: philox.draw(*args))
    tolerance = 1e-12 if dtype is torch.float64 else 1e-3 if DEVICE == "cuda" else 2e-6
    np.testing.assert_allclose(made.cpu(), expected.cpu(), rtol=tolerance, atol=tolerance)


SHAPES = [
    (1, 3),
    (2, 1),
    (5, 12),
    (16, 16),
    (17, 40),
    (33, 20),
    (100, 90),
    (200, 20),
    (300, 10),
    (130, 200),
    (257, 140),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ula_agrees_with_torch(monkeypatch, shape):
    same_chains(monkeypatch, bank(*shape, weights=True), 20.0, sampler="ula", alpha=0.05)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_mala_agrees_with_torch(monkeypatch, shape):
    draws = same_chains(monkeypatch, bank(*shape, weights=True), 20.0, sampler="mala", alpha=0.4, tolerance=1e-4)
    assert (draws.acceptance < 1).any() or shape in ((1, 3), (2, 1))


@pytest.fixture(params=["in blocks", "in tiles"])
def advanced(request, monkeypatch):
    """Chains of few dimensions are advanced in blocks; here also in tiles, as those of many are."""
    if request.param == "in tiles":
        monkeypatch.setattr(launch, "MAX_DIMENSIONS", 0)


@pytest.mark.parametrize("outside", [1, 2, 3, 4, 5, 60])
def test_mala_agrees_with_torch_outside_the_span(monkeypatch, outside, advanced):
    same_chains(monkeypatch, bank(6, 6 + outside), 20.0, sampler="mala", alpha=0.4, tolerance=1e-4)


@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_chains_at_a_large_beta_keep_their_precision(monkeypatch, sampler, advanced):
    """At beta = 2000 a product rounded to ten bits is off by whole units in the logits, and memories 0.01 apart trade
    places: attend(xi) would be off by 0.01."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal(60) + 0.01 * rng.standard_normal((40, 60))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    memories = sa.MemoryBank(torch.tensor(X, dtype=torch.float32, device=DEVICE))
    fused = kernels.chains("ula", memories.patterns, memories.log_r, 1.0 - 1e-7, 0)
    x = memories.patterns + 0.002 * torch.tensor(rng.standard_normal((40, 60)), dtype=torch.float32, device=DEVICE)
    nothing = torch.zeros(40, device=DEVICE)
    # One step of nearly unit length is attend(xi) itself, plus noise that a second call repeats.
    attended = fused.advance(x, nothing, nothing, (1, 0, 0), beta=2000.0, steps=1)[0]
    noise = Philox(0, range(40), memories.patterns)
    noise.key = 1
    expected = sa.energy.attend(x.double(), sa.MemoryBank(memories.patterns.double()), 2000.0)
    expected = expected + (2 * (1 - 1e-7) / 2000.0) ** 0.5 * in_torch(monkeypatch, lambda: noise.normal(60)).double()
    assert (attended.double() - expected).abs().max() < (1e-4 if DEVICE == "cuda" else 3e-6)
    same_chains(monkeypatch, memories, 2000.0, sampler=sampler, tolerance=1e-4)


@pytest.mark.parametrize("scale", [1e-6, 1e5])
def test_any_number_of_chains_and_memories(monkeypatch, scale, advanced):
    for sampler in ("ula", "mala"):
        same_chains(monkeypatch, bank(7, 30, scale=scale), 20.0 / scale**2, sampler=sampler, tolerance=1e-4)


def test_states_beyond_float16_are_computed_by_torch(monkeypatch, advanced):
    memories = bank(4, 6)
    tolerance = 1e-3 if DEVICE == "cuda" else 1e-4  # of the device's fast sine, in noise that is large here
    start = 1e7 * np.random.default_rng(0).standard_normal((20, 6))
    for start_at, beta in ((start, 20.0), ("memories", 1e-5)):
        draws = same_chains(monkeypatch, memories, beta, sampler="mala", start=start_at, tolerance=tolerance)
        assert torch.isfinite(draws.samples).all()


@pytest.mark.parametrize("sampler", ["exact", "ula", "mala", "underdamped"])
def test_an_annealed_run_agrees_with_torch(monkeypatch, sampler):
    betas = np.repeat([5.0, 20.0, 80.0], 4)
    options = {"n_chains": 9, "n_steps": 12, "keep": [2, 9, 12], "rng": 4, "sampler": sampler}
    fused = sa.run(bank(6, 20), betas, **options)
    plain = in_torch(monkeypatch, lambda: sa.run(bank(6, 20), betas, **options))
    np.testing.assert_allclose(fused.samples.cpu(), plain.samples.cpu(), atol=2e-4)


@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_a_chain_is_the_same_among_others_and_in_parts(sampler, advanced):
    memories, options = bank(6, 20), {"sampler": sampler, "rng": 3, "warmup": 0, "thin": 2}
    whole = sa.run(memories, 20.0, n_chains=20, n_steps=4, **options)
    some = sa.run(memories, 20.0, n_chains=9, first_chain=10, n_steps=4, **options)
    np.testing.assert_allclose(some.samples.cpu(), whole.samples[10:19].cpu(), atol=1e-5)
    first = sa.run(memories, 20.0, n_chains=20, n_steps=3, **options)
    rest = sa.run(memories, 20.0, n_steps=1, thin=2, start=first)
    np.testing.assert_allclose(rest.samples[:, -1].cpu(), whole.samples[:, -1].cpu(), atol=1e-4)


@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_chains_whose_logits_need_too_much_memory_are_advanced_in_parts(monkeypatch, sampler):
    memories = bank(140, 140)
    options = {"sampler": sampler, "n_chains": 300, "n_steps": 1, "warmup": 0, "thin": 1, "rng": 3}
    whole = sa.run(memories, 20.0, **options)
    monkeypatch.setattr(tiled, "MAX_BYTES", 8 * 128 * 192)  # 128 chains and 140 memories, padded
    sizes, original = [], getattr(tiled.Chunk, sampler)
    monkeypatch.setattr(tiled.Chunk, sampler, lambda chunk, *args: sizes.append(chunk.n) or original(chunk, *args))
    np.testing.assert_array_equal(sa.run(memories, 20.0, **options).samples.cpu(), whole.samples.cpu())
    assert sizes[-3:] == [128, 128, 44]


@pytest.mark.parametrize(("too_large", "expected"), [((), "WIDE"), (("WIDE",), "NARROW"), (("WIDE", "NARROW"), None)])
def test_tiles_are_as_wide_as_the_device_has_room_for(monkeypatch, too_large, expected):
    """The trial takes a step: without one nothing is compiled, and a small device fails in the middle of a run."""
    refused, original = [getattr(tiled, name) for name in too_large], tiled.Chunk.ula

    def ula(chunk, beta, steps):
        if steps and chunk.chains.widest in refused:
            raise launch.OutOfResources(200_000, 100_000, "shared memory")
        original(chunk, beta, steps)

    monkeypatch.setattr(tiled.Chunk, "ula", ula)
    memories = bank(140, 140)
    made = kernels.chains("ula", memories.patterns, memories.log_r, 0.01, 0)
    assert made is None if expected is None else made.widest is getattr(tiled, expected)


def test_chains_in_double_precision_are_computed_by_torch():
    nothing = torch.zeros(3, device=DEVICE)
    assert kernels.chains("ula", torch.ones(3, 3, device=DEVICE, dtype=torch.float64), nothing, 0.01, 0) is None


def test_a_compiler_that_fails_causes_one_warning(monkeypatch):
    def fails(*args):
        raise RuntimeError("Failed to find C compiler.\nMore words.")

    launch.runs_on.cache_clear()
    monkeypatch.setattr(launch, "normals", fails)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch, "empty", lambda *args, **options: None)
    try:
        with pytest.warns(
            RuntimeWarning, match=r"Triton cannot compile for cuda:0 here \(Failed to find C compiler.\)"
        ):
            assert not launch.runs_on(torch.device("cuda:0"))
        assert not launch.runs_on(torch.device("cuda:0"))  # and no second warning, which would be an error
        monkeypatch.setattr(torch.version, "cuda", None)  # a device of another vendor
        assert not launch.runs_on(torch.device("cuda:1"))
    finally:
        launch.runs_on.cache_clear()


def test_without_triton_everything_works(monkeypatch):
    expected = sa.run(bank(4, 6), 20.0, n_chains=3, n_steps=5, warmup=0, thin=5, rng=0)
    monkeypatch.setitem(sys.modules, "stochattn.kernels.launch", None)
    monkeypatch.delattr(kernels, "launch", raising=False)
    kernels._launch.cache_clear()
    try:
        assert kernels._launch() is None
        draws = sa.run(bank(4, 6), 20.0, n_chains=3, n_steps=5, warmup=0, thin=5, rng=0)
    finally:
        kernels._launch.cache_clear()
    np.testing.assert_allclose(draws.samples.cpu(), expected.samples.cpu(), atol=1e-5)
