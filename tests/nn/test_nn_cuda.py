"""Attention layers on a CUDA device: torch's attention without steps, the exact law with them, pretrained models."""

import math

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from banks import ingredients
from closed_form import Mixture
from stochattn import kernels
from stochattn.nn import HopfieldMemory, StochasticMultiheadAttention, langevin_states, stochastic, stochastic_attention
from test_law import BETA, CHAINS, require_law

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")


def there(*shapes, dtype=torch.float32):
    made = torch.Generator("cuda").manual_seed(0)
    return [torch.randn(shape, generator=made, device="cuda", dtype=dtype).requires_grad_() for shape in shapes]


def seeded(seed=0):
    return torch.Generator("cuda").manual_seed(seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"attn_mask": True}], ids=["plain", "causal", "masked"])
def test_without_steps_it_agrees_with_torch(options, dtype):
    shapes = [(2, 4, 70, 64)] * 3
    if "attn_mask" in options:
        options = {"attn_mask": torch.rand(70, 70, generator=seeded(3), device="cuda") > 0.3}
    ours, theirs = there(*shapes, dtype=dtype), there(*shapes, dtype=dtype)
    out = stochastic_attention(*ours, **options)
    expected = torch.nn.functional.scaled_dot_product_attention(*theirs, **options)
    torch.testing.assert_close(out, expected)
    for result in (out, expected):
        result.float().square().sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("causal", [False, True])
def test_steps_agree_with_the_algorithm(causal):
    q, k, v = (x.detach() for x in there(*[(2, 4, 70, 64)] * 3))
    bias = torch.zeros(70, 70, device="cuda")
    if causal:
        bias = bias.masked_fill(torch.ones_like(bias).triu(1) > 0, -math.inf)
    xi, key = q, torch.randint(2**62, (1,), generator=seeded(3), device="cuda")
    for step in range(4):
        eps = kernels.layer_launcher(xi).normals(xi, key, step)
        xi = 0.9 * xi + 0.1 * torch.softmax(0.2 * xi @ k.mT + bias, -1) @ k + 0.5 * math.sqrt(0.2 / 0.2) * eps
    expected = torch.softmax(0.2 * xi @ k.mT + bias, -1) @ v
    settings = {"beta": 0.2, "n_steps": 4, "alpha": 0.1, "noise": 0.5, "is_causal": causal}
    out = stochastic_attention(q, k, v, generator=seeded(3), **settings)
    torch.testing.assert_close(out, expected, rtol=1e-3, atol=1e-3)
    with_gradient = stochastic_attention(q.requires_grad_(), k, v, generator=seeded(3), **settings)  # step by step
    torch.testing.assert_close(with_gradient, out, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["unit", "unequal"])
def test_steps_of_one_launch_follow_the_exact_law_of_the_keys(kind):
    keys = torch.tensor(ingredients(kind)[0], device="cuda", dtype=torch.float32)
    start = Mixture.from_ingredients(*ingredients(kind), BETA).draw(CHAINS, seed=2)
    query = torch.tensor(start, device="cuda", dtype=torch.float32)
    require_law(langevin_states(query, keys, beta=BETA, n_steps=300, alpha=0.01, generator=seeded(1)).cpu(), kind)


@pytest.mark.parametrize("kind", ["unit", "unequal"])
def test_many_steps_follow_the_exact_law_of_the_keys(kind):
    keys = torch.tensor(ingredients(kind)[0], device="cuda")
    start = torch.tensor(Mixture.from_ingredients(*ingredients(kind), BETA).draw(CHAINS, seed=2), device="cuda")
    states = langevin_states(start, keys, beta=BETA, n_steps=300, alpha=0.01, generator=seeded(1))
    require_law(states.cpu(), kind)


def test_a_stored_bank_draws_exactly():
    keys = torch.tensor(ingredients("unequal")[0], device="cuda")
    require_law(HopfieldMemory(keys, beta=BETA).sample(20_000, seeded(4)).cpu(), "unequal")


def test_a_module_takes_steps_in_eval_mode():
    layer = torch.nn.TransformerEncoderLayer(32, 4, batch_first=True, device="cuda").eval()
    (x,) = (x.detach() for x in there((3, 9, 32)))
    with torch.no_grad():
        before = layer(x)
        layer.self_attn = StochasticMultiheadAttention.from_torch(layer.self_attn)
        torch.testing.assert_close(layer(x), before, rtol=1e-3, atol=1e-3)
        layer.self_attn = StochasticMultiheadAttention.from_torch(layer.self_attn, n_steps=5)
        assert (layer(x) - before).abs().max() > 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_pretrained_model_generates(dtype):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    tokens = {"vocab_size": 60, "bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
    config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=64, initializer_range=0.3, **tokens)
    model = transformers.GPT2LMHeadModel(config).to("cuda", dtype).eval()
    prompts = torch.randint(1, 60, (3, 9), generator=seeded(1), device="cuda")
    options = {"attention_mask": torch.ones_like(prompts), "max_new_tokens": 10, "do_sample": False}
    before = model.generate(prompts, **options)
    with stochastic(model, n_steps=0):
        assert torch.equal(model.generate(prompts, **options), before)
    out = []
    for seed in (1, 1, 2):
        with stochastic(model, n_steps=5, generator=seeded(seed)):
            out.append(model.generate(prompts, **options))
    assert torch.equal(out[0], out[1])
    assert not torch.equal(out[0], out[2])


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_repeat_the_noise_of_a_generator(reentrant):
    """Two passes before either backward pass."""
    found = {}
    for repeated in (False, True):
        q, k, v = there(*[(2, 4, 70, 64)] * 3)
        made = seeded(3)
        call = lambda *x, made=made: stochastic_attention(*x, n_steps=3, alpha=0.2, generator=made)  # noqa: E731
        outs = [checkpoint(call, q, k, v, use_reentrant=reentrant) if repeated else call(q, k, v) for _ in range(2)]
        for out in reversed(outs):
            out.square().sum().backward()
        found[repeated] = q.grad, k.grad, v.grad
    for expected, got in zip(found[False], found[True], strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)  # one launch and a loop differ by rounding


@pytest.mark.filterwarnings("ignore")
def test_compiled_noise_from_a_seed():
    torch.compiler.reset()
    compiled = torch.compile(stochastic_attention, fullgraph=True)
    q, k, v = (x.detach() for x in there(*[(2, 4, 70, 64)] * 3))
    for seed in (1, torch.tensor(2), torch.tensor(3, device="cuda")):
        expected = stochastic_attention(q, k, v, n_steps=3, seed=seed)
        torch.testing.assert_close(compiled(q, k, v, n_steps=3, seed=seed), expected, rtol=1e-3, atol=1e-3)
    torch.compiler.reset()


@pytest.mark.parametrize("options", [{"softcap": 2.0}, {"sinks": True}, {"beta": True}], ids=["cap", "sinks", "beta"])
def test_options_agree_with_the_cpu(options):
    q, k, v = (x.detach() for x in there(*[(2, 4, 70, 64)] * 3))
    numbers = torch.linspace(0.1, 1.0, 4)
    options = {"sinks": numbers} if "sinks" in options else options
    options = {"beta": numbers[:, None, None]} if "beta" in options else options
    there_options = {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    out = stochastic_attention(q, k, v, n_steps=3, alpha=0.2, noise=0.0, **there_options)
    expected = stochastic_attention(q.cpu(), k.cpu(), v.cpu(), n_steps=3, alpha=0.2, noise=0.0, **options)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-2, atol=1e-2)  # torch rounds products of float32 on a GPU
