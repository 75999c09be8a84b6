"""The kernel for Langevin steps of a layer against a plain loop with the same noise: interpreted without a GPU."""

import math

import pytest
import torch
import torch.utils.checkpoint
from torch.nn.functional import scaled_dot_product_attention

from stochattn import kernels
from stochattn.kernels.philox import Philox
from stochattn.nn import langevin_states, stochastic_attention

layers = pytest.importorskip("stochattn.kernels.layers", reason="Triton is not installed (it exists for Linux alone)")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # conftest.py enables the interpreter
SEED = 2**40 + 12345
pytestmark = pytest.mark.filterwarnings("ignore:.*overflow.*:RuntimeWarning")  # words of Philox overflow on purpose


def tensors(query, key, dtype=torch.float32, scale=1.0):
    source = torch.Generator().manual_seed(0)
    return tuple((scale * torch.randn(shape, generator=source)).to(DEVICE, dtype) for shape in (query, key))


def by_kernel(query, key, mask=None, **options):
    seed = torch.tensor([SEED], device=DEVICE)
    options["n_steps"] = options.pop("steps")
    return layers.states_after_steps(query, key, mask, seed=seed, **options)


def by_loop(query, key, mask=None, *, steps, alpha, beta, spread, is_causal):
    """The same steps in float64."""
    xi, mask = query.double(), None if mask is None else mask.double()
    key = key.double().repeat_interleave(query.shape[-3] // key.shape[-3], -3) if query.ndim > 2 else key.double()
    noise = Philox(0, range(xi[..., 0].numel()), torch.zeros(1, 1, device=DEVICE))
    noise.key = SEED
    for noise.step in range(steps):
        attended = scaled_dot_product_attention(xi, key, key, mask, is_causal=is_causal, scale=beta)
        eps = noise.normal(xi.shape[-1]).double().reshape(xi.shape)
        xi = (1 - alpha) * xi + alpha * attended + spread * eps
    return xi


CASES = {
    "narrow": ((2, 20, 16), (2, 33, 16), {}),
    "shared heads, causal": ((2, 4, 40, 24), (2, 2, 40, 24), {"is_causal": True, "beta": 3.0, "alpha": 0.5}),
    "more queries than keys, causal": ((1, 70, 8), (1, 20, 8), {"is_causal": True}),
    "several blocks": ((70, 64), (150, 64), {"alpha": 0.01, "beta": 0.125}),
    "retrieval": ((1, 2, 5, 128), (1, 1, 70, 128), {"beta": 200.0, "alpha": 0.9, "scale": 0.1}),
    "mostly noise": ((1, 33, 64), (1, 65, 64), {"beta": 1e-6, "alpha": 0.5, "scale": 1e3}),
    "tiny entries": ((1, 20, 16), (1, 20, 16), {"beta": 1e12, "scale": 1e-6}),
    "half precision": ((1, 20, 16), (1, 33, 16), {"dtype": torch.float16}),
    "bfloat16": ((1, 20, 16), (1, 33, 16), {"dtype": torch.bfloat16, "beta": 2.0}),
}


@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("case", CASES)
def test_steps_are_those_of_a_loop(case, noise):
    query, key, options = CASES[case]
    settings = {"steps": 2, "alpha": 0.1, "beta": 0.25, "is_causal": False}
    settings |= {name: value for name, value in options.items() if name in settings}
    settings["spread"] = noise * math.sqrt(2 * settings["alpha"] / settings["beta"])
    query, key = tensors(query, key, options.get("dtype", torch.float32), options.get("scale", 1.0))
    found, expected = (steps(query, key, **settings) for steps in (by_kernel, by_loop))
    assert found.dtype == torch.float32
    assert found.shape == query.shape
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
    moved = (found - query).abs().max()
    assert moved > 1e-3 * expected.abs().max()  # far more than what the two may differ by


@pytest.mark.parametrize("shape", [(2, 1, 1, 80), (2, 3, 20, 80), (1, 1, 20, 1), (20, 80)])
def test_masks_are_added_to_logits(shape):
    """Some of the first 64 keys, which are the first block, are visible to no query of the second batch."""
    query, key = tensors((2, 3, 20, 16), (2, 3, 80, 16))
    mask = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    if shape[0] == 2:
        mask[1, ..., :64] = -math.inf
    settings = {"steps": 2, "alpha": 0.5, "beta": 0.5, "spread": 0.1, "is_causal": False}
    found, expected = (steps(query, key, mask.to(DEVICE), **settings) for steps in (by_kernel, by_loop))
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
    assert (found - by_kernel(query, key, **settings)).abs().max() > 1e-3 or shape == (1, 1, 20, 1)


def test_a_row_masked_by_the_least_float_attends_to_all_keys_alike():
    query, key = tensors((1, 5, 16), (1, 7, 16))
    mask = torch.zeros(5, 7, device=DEVICE)
    mask[0] = torch.finfo(torch.float32).min
    found = by_kernel(query, key, mask, steps=1, alpha=1.0, beta=0.5, spread=0.0, is_causal=False)
    torch.testing.assert_close(found[0, 0], key[0].mean(0), rtol=1e-5, atol=1e-5)
    expected = by_loop(query, key, mask, steps=1, alpha=1.0, beta=0.5, spread=0.0, is_causal=False)
    torch.testing.assert_close(found[0, 1:], expected[0, 1:].float(), rtol=1e-5, atol=1e-5)


def test_what_has_too_many_heads_is_left_to_the_loop():
    query, key = torch.zeros(65_536, 1, 1, device=DEVICE), torch.zeros(65_536, 1, 1, device=DEVICE)
    assert by_kernel(query, key, steps=1, alpha=0.1, beta=1.0, spread=0.0, is_causal=False) is None


def test_what_is_too_wide_is_left_to_the_loop():
    query, key = tensors((1, 4, 129), (1, 4, 129))
    assert by_kernel(query, key, steps=1, alpha=0.1, beta=1.0, spread=0.0, is_causal=False) is None


def test_a_block_that_does_not_fit_is_followed_by_a_smaller_one(monkeypatch):
    query, key = tensors((1, 20, 16), (1, 20, 16))
    settings = {"steps": 1, "alpha": 0.1, "beta": 1.0, "spread": 0.5, "is_causal": False}
    expected, tried = by_kernel(query, key, **settings), []
    original = layers.take_steps

    class Refusing:
        def __getitem__(self, grid):
            def launch(*arguments, C, **constants):
                tried.append(C)
                if C > 16:
                    raise layers.OutOfResources(1, 0, "registers")
                original[grid](*arguments, C=C, **constants)

            return launch

    monkeypatch.setattr(layers, "take_steps", Refusing())
    found = by_kernel(query, key, **settings)
    assert tried == [64, 16]
    assert (found - expected).abs().max() < 1e-6
    monkeypatch.setattr(layers, "BLOCKS", layers.BLOCKS[:1])
    assert by_kernel(query, key, **settings) is None


def test_noise_is_that_of_the_steps():
    """Rows and columns that fill no block, and a row of more numbers than a block has."""
    for shape in ((3, 5, 7), (70, 64), (2, 5000)):
        noise = Philox(0, range(math.prod(shape[:-1])), torch.zeros(1, 1, device=DEVICE))
        noise.key = SEED
        for noise.step in (0, 3):
            made = layers.normals(torch.empty(shape, device=DEVICE), torch.tensor([SEED], device=DEVICE), noise.step)
            torch.testing.assert_close(made, noise.normal(shape[-1]).reshape(shape), rtol=1e-4, atol=1e-5)


@pytest.fixture
def interpreted(monkeypatch):
    """Layers use the kernels here too; the fixture counts what they launch."""
    calls, original = [], layers.states_after_steps

    def counted(*arguments):
        calls.append(original(*arguments))
        return calls[-1]

    monkeypatch.setattr(layers, "states_after_steps", counted)
    monkeypatch.setattr(kernels, "layer_launcher", lambda reference: layers if reference.itemsize == 4 else None)
    return calls


LAYERS = {
    "plain": ((2, 4, 20, 16), (2, 4, 30, 16), {}),
    "shared heads": ((2, 4, 20, 16), (2, 2, 30, 16), {"is_causal": True}),
    "one head": ((20, 16), (30, 16), {"beta": 0.5}),
    "broadcast keys": ((2, 3, 20, 16), (1, 1, 30, 16), {}),
    "broadcast queries": ((20, 16), (2, 30, 16), {"noise": 0.5}),
    "mask": ((2, 4, 20, 16), (2, 4, 30, 16), {"attn_mask": (torch.arange(30) < 25).to(DEVICE)[None]}),
    "no noise": ((2, 4, 20, 16), (2, 4, 30, 16), {"noise": 0.0}),
    "half": ((2, 4, 20, 16), (2, 4, 30, 16), {"dtype": torch.bfloat16}),
    "sinks": ((2, 4, 20, 16), (2, 4, 30, 16), {"sinks": torch.ones(4, device=DEVICE)}),
}


@pytest.mark.parametrize("case", LAYERS)
def test_layers_take_the_same_steps_in_one_launch_and_with_a_gradient(case, interpreted):
    query, key, options = LAYERS[case]
    options = dict(options)
    query, key = tensors(query, key, options.pop("dtype", torch.float32))
    options |= {"n_steps": 3, "alpha": 0.3}
    made = torch.Generator(DEVICE)
    at_once = stochastic_attention(query, key, key, generator=made.manual_seed(1), **options)
    assert len(interpreted) == 1
    step_by_step = stochastic_attention(query.requires_grad_(), key, key, generator=made.manual_seed(1), **options)
    assert len(interpreted) == 1
    tolerance = 1e-4 if query.dtype == torch.float32 else 2e-2
    torch.testing.assert_close(step_by_step, at_once, rtol=tolerance, atol=tolerance)
    with torch.no_grad():
        states = langevin_states(query, key, generator=made.manual_seed(1), **options)
    torch.testing.assert_close(states, interpreted[-1])
    assert len(interpreted) == 2


def test_what_the_kernel_cannot_take_is_taken_step_by_step(interpreted):
    query, key = tensors((2, 4, 20, 16), (2, 4, 30, 16))
    per_head = torch.rand(4, 1, 1, device=DEVICE) + 0.5
    for options in ({"softcap": 5.0}, {"beta": per_head}, {"seed": 3}):
        stochastic_attention(query, key, key, n_steps=2, **options)
    stochastic_attention(query.double(), key.double(), key.double(), n_steps=2)
    stochastic_attention(query, key.clone().requires_grad_(), key, n_steps=2)
    torch.func.vmap(lambda q, k: stochastic_attention(q, k, k, n_steps=2, noise=0.0))(query, key)
    assert not interpreted


def test_without_a_gradient_a_checkpointed_layer_repeats_its_noise(interpreted):
    """A re-entrant checkpoint runs the layer without a gradient first, by the kernel, and then with one."""
    query, key = tensors((1, 20, 16), (1, 30, 16))
    query.requires_grad_()

    def layer(q):
        states.append(langevin_states(q, key, n_steps=3, alpha=0.3))
        return states[-1]

    states = []
    torch.utils.checkpoint.checkpoint(layer, query, use_reentrant=True).sum().backward()
    assert len(interpreted) == 1
    torch.testing.assert_close(states[1], states[0], rtol=1e-4, atol=1e-4)
