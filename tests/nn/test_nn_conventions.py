"""Conventions of torch: arguments of its attention, β as a tensor, soft caps and sinks, noise from a seed in graphs."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from banks import ingredients
from closed_form import Mixture
from stochattn.nn import StochasticMultiheadAttention, langevin_states, stochastic_attention
from stochattn.nn.steps import MIN_FAST_NUMBERS, normal
from test_law import BETA, CHAINS, require_law

STEPS = {"n_steps": 3, "alpha": 0.2}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def inputs(*leading, L=5, S=6, d=4, dtype=torch.float64):
    return [torch.randn(*leading, n, d, generator=seeded(i), dtype=dtype) for i, n in enumerate((L, S, S))]


def by_hand(q, k, v, beta, bias=0.0, generator=None, cap=None, sinks=None):
    """Algorithm 1 with the softmax in full; bias is added to the logits, sinks are logits of a key at the origin."""

    def weights(xi):
        logits = (beta * xi) @ k.mT
        logits = (logits if cap is None else cap * torch.tanh(logits / cap)) + bias
        if sinks is None:
            return logits.softmax(-1)
        last = sinks[:, None, None].expand(*logits.shape[:-1], 1)
        return torch.cat([logits, last], -1).softmax(-1)[..., :-1]

    xi, spread = q, (2 * 0.2 / torch.as_tensor(beta, dtype=q.dtype)) ** 0.5
    for _ in range(3):
        eps = torch.randn(xi.shape, generator=generator, dtype=xi.dtype)
        xi = 0.8 * xi + 0.2 * weights(xi) @ k + spread * eps
    return weights(xi) @ v


def test_the_arguments_of_torch_in_its_order():
    q, k, v = inputs(2, 4)
    mask = torch.rand(5, 6, generator=seeded(3)) > 0.3
    expected = torch_attention(q, k, v, mask, 0.0, False, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(stochastic_attention(q, k, v, mask, 0.0, False, scale=0.3, enable_gqa=True), expected)
    one, other = (stochastic_attention(q, k, v, **STEPS, seed=1, **{name: 0.3}) for name in ("scale", "beta"))
    assert torch.equal(one, other)
    assert not torch.allclose(one, stochastic_attention(q, k, v, **STEPS, seed=1))
    with pytest.raises(ValueError, match="scale must be None if beta is given"):
        stochastic_attention(q, k, v, scale=0.3, beta=0.3)


BETAS = {
    "of a head": torch.tensor([0.3, 0.5, 1.0, 2.0], dtype=torch.float64)[:, None, None],
    "of a query": torch.linspace(0.2, 2.0, 5, dtype=torch.float64)[:, None],
    "of each": torch.rand(2, 4, 5, 1, generator=seeded(5), dtype=torch.float64) + 0.1,
}


@pytest.mark.parametrize("kind", BETAS)
def test_beta_may_be_a_tensor(kind):
    (q, k, v), beta = inputs(2, 4), BETAS[kind]
    out = stochastic_attention(q, k, v, beta=beta, **STEPS, generator=seeded(7))
    torch.testing.assert_close(out, by_hand(q, k, v, beta, generator=seeded(7)))
    torch.testing.assert_close(stochastic_attention(q, k, v, scale=beta), (beta * q @ k.mT).softmax(-1) @ v)
    with_caps = stochastic_attention(q, k, v, beta=beta, **STEPS, softcap=0.7, generator=seeded(7))
    torch.testing.assert_close(with_caps, by_hand(q, k, v, beta, generator=seeded(7), cap=0.7))


def test_beta_may_be_learned():
    q, k, v = (x.requires_grad_() for x in inputs(1, 2, L=3))
    beta = torch.tensor([[[0.4]], [[1.5]]], dtype=torch.float64, requires_grad=True)
    for number in (beta, beta[0, 0, 0].detach().requires_grad_()):
        call = lambda *x: stochastic_attention(*x[:3], beta=x[3], **STEPS, seed=4)  # noqa: E731
        assert torch.autograd.gradcheck(call, (q, k, v, number))
        call = lambda *x: stochastic_attention(*x[:3], beta=x[3], **STEPS, seed=4, softcap=2.0)  # noqa: E731
        assert torch.autograd.gradcheck(call, (q, k, v, number))


def test_beta_is_learned_with_the_fast_normals():
    """They are overwritten at each step; the gradient of the spread needs those of its own step."""
    size = (1, 8, 128, 64)
    q, k, v = (torch.randn(size, generator=seeded(i)) for i in range(3))
    assert q.numel() > MIN_FAST_NUMBERS
    beta = torch.full((8, 1, 1), 0.2).requires_grad_()
    loss = lambda beta: stochastic_attention(q, k, v, beta=beta, **STEPS, generator=seeded(2)).square().sum()  # noqa: E731
    loss(beta).backward()
    size = 1e-3
    finite = (loss(beta.detach() + size).double() - loss(beta.detach() - size).double()) / (2 * size)
    torch.testing.assert_close(beta.grad.sum().double(), finite, rtol=0.02, atol=0.0)


@pytest.mark.parametrize("causal", [False, True])
def test_soft_caps(causal):
    q, k, v = inputs(2, 4, L=6)
    bias = torch.zeros(6, 6, dtype=torch.float64)
    bias = bias.masked_fill(torch.ones(6, 6).triu(1) > 0, -math.inf) if causal else bias
    out = stochastic_attention(q, k, v, is_causal=causal, beta=0.9, **STEPS, softcap=0.5, generator=seeded(7))
    torch.testing.assert_close(out, by_hand(q, k, v, 0.9, bias, seeded(7), cap=0.5))
    assert not torch.allclose(out, by_hand(q, k, v, 0.9, bias, seeded(7)))
    large = stochastic_attention(q, k, v, is_causal=causal, beta=0.9, **STEPS, softcap=1e6, generator=seeded(7))
    torch.testing.assert_close(large, by_hand(q, k, v, 0.9, bias, seeded(7)))


@pytest.mark.parametrize("masked", ["no", "causal", "boolean", "added"])
@pytest.mark.parametrize("cap", [None, 0.5])
def test_sinks(masked, cap):
    q, k, v = inputs(2, 4, L=6)
    k, v = k[:, :2], v[:, :2]  # heads that share keys
    sinks = torch.tensor([-1.0, 0.0, 1.0, 3.0], dtype=torch.float64)
    numbers = torch.randn(2, 1, 6, 6, generator=seeded(9), dtype=torch.float64)
    bias, options = torch.zeros(6, 6, dtype=torch.float64), {}
    if masked == "causal":
        bias, options = bias.masked_fill(torch.ones(6, 6).triu(1) > 0, -math.inf), {"is_causal": True}
    elif masked != "no":
        bias = numbers if masked == "added" else bias.masked_fill(numbers < -1, -math.inf)
        options = {"attn_mask": numbers if masked == "added" else numbers >= -1}
    options |= {"beta": 0.9, **STEPS, "softcap": cap, "sinks": sinks}
    out = stochastic_attention(q, k, v, **options, generator=seeded(7))
    keys, values = (x.repeat_interleave(2, 1) for x in (k, v))
    torch.testing.assert_close(out, by_hand(q, keys, values, 0.9, bias, seeded(7), cap, sinks))


def test_a_sink_is_a_memory_at_the_origin():
    """The states are those among keys of which the last is zero, with the logit of the sink as an added mask."""
    patterns, r = ingredients("weights")
    start = torch.tensor(Mixture.from_ingredients(patterns, r, BETA).draw(100, seed=2))
    patterns[-1] = 0.0
    keys, log_r = torch.tensor(patterns), torch.tensor(r).log()
    options = {"beta": BETA, "n_steps": 20, "alpha": 0.1}
    states = langevin_states(start, keys[:-1], log_r[None, :-1], sinks=log_r[-1:], **options, generator=seeded(1))
    torch.testing.assert_close(states, langevin_states(start, keys, log_r[None], **options, generator=seeded(1)))


def test_a_seed_gives_the_same_noise_at_every_call():
    q, k, v = inputs(2, 4)
    first, again, other = (stochastic_attention(q, k, v, **STEPS, seed=seed) for seed in (3, torch.tensor(3), 4))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    state = torch.get_rng_state()
    stochastic_attention(q, k, v, **STEPS, seed=3)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("size", [1000, MIN_FAST_NUMBERS])
def test_the_noise_of_a_seed_is_normal_and_differs_between_steps(size):
    """Means and squares of 40 steps within 4 standard errors, and no correlation between steps."""
    steps = torch.stack(
        [normal(torch.tensor(1), i, [size], torch.float32, torch.device("cpu")) for i in range(40)]
    ).double()
    n = steps.numel()
    assert abs(steps.mean()) < 4 / math.sqrt(n)
    assert abs(steps.square().mean() - 1) < 4 * math.sqrt(2 / n)
    assert abs((steps[1:] * steps[:-1]).mean()) < 4 / math.sqrt(n - size)


def test_many_steps_from_a_seed_follow_the_exact_law():
    keys = torch.tensor(ingredients("unequal")[0])
    start = torch.tensor(Mixture.from_ingredients(*ingredients("unequal"), BETA).draw(CHAINS, seed=2))
    require_law(langevin_states(start, keys, beta=BETA, n_steps=300, alpha=0.01, seed=11), "unequal")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # warnings of torch during compilation
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_function_has_the_noise_of_its_seed(backend):
    torch.compiler.reset()
    compiled = torch.compile(stochastic_attention, backend=backend, fullgraph=True)
    for length in (5, 7, 9):
        q, k, v = (x.requires_grad_() for x in inputs(2, L=length, S=length))
        for seed in (3, torch.tensor(4)):
            expected = stochastic_attention(q, k, v, **STEPS, seed=seed)
            torch.testing.assert_close(compiled(q, k, v, **STEPS, seed=seed), expected)
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_an_exported_layer_takes_a_seed_as_input():
    class Layer(nn.Module):
        def forward(self, x, seed):
            return stochastic_attention(x, x, x, **STEPS, seed=seed)

    x, layer = torch.randn(2, 5, 8, generator=seeded()), Layer()
    program = torch.export.export(layer, (x, torch.tensor(1)), dynamic_shapes=({0: torch.export.Dim("n")}, None))
    for seed in (1, 2):
        inputs = torch.randn(4, 5, 8, generator=seeded(seed)), torch.tensor(seed)
        torch.testing.assert_close(program.module()(*inputs), layer(*inputs))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_an_exported_module_draws_from_torch_s_generator():
    layer = StochasticMultiheadAttention(8, 2, batch_first=True, **STEPS).eval()
    x = torch.randn(2, 5, 8, generator=seeded())
    program = torch.export.export(layer, (x, x, x), {"need_weights": False}).module()
    outs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outs.append(program(x, x, x, need_weights=False)[0])
    assert torch.equal(outs[0], outs[1])
    assert not torch.allclose(outs[0], outs[2])
    layer.steps = type(layer.steps)(3, 0.2, 0.0)
    still = torch.export.export(layer, (x, x, x), {"need_weights": False}).module()
    torch.testing.assert_close(still(x, x, x, need_weights=False)[0], layer(x, x, x, need_weights=False)[0])


Q, K, V = inputs(2, 4)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"seed": -1}, ValueError, "seed must be at least 0; got -1"),
        ({"seed": 1.5}, TypeError, "seed must be an integer; got 1.5"),
        ({"seed": torch.ones(1)}, TypeError, r"seed must be an integer, or an integer tensor .*float32 of shape"),
        ({"seed": 1, "generator": seeded()}, ValueError, "seed must be None if a generator is given"),
        ({"softcap": 0.0}, ValueError, "softcap must be a positive, finite number; got 0.0"),
        (
            {"sinks": torch.zeros(3)},
            ValueError,
            r"sinks must be a tensor of shape \(4,\), one logit per head; got .*\(3,\)",
        ),
        ({"sinks": 1.0}, ValueError, r"sinks must be a tensor of shape \(4,\), .* got float"),
        ({"beta": -torch.ones(4, 1, 1)}, ValueError, "beta must have positive, finite elements; the smallest is -1.0"),
        ({"beta": torch.ones(4)}, ValueError, r"beta must be a number or broadcast to .* got \(4,\)"),
        (
            {"beta": torch.ones(4).long()},
            TypeError,
            r"beta must be a number or a tensor of real numbers; got torch\.int64",
        ),
    ],
)
def test_bad_input(options, error, message):
    with pytest.raises(error, match=message):
        stochastic_attention(Q, K, V, **{**STEPS, **options})


@pytest.mark.parametrize("leading", [(2, 4), ()])
@pytest.mark.parametrize("n_steps", [0, 3])
def test_a_query_that_is_nan_reads_what_torch_reads_and_leaves_others_alone(n_steps, leading):
    """That is NaN, or zeros where a kernel of torch takes a row of NaN for one without keys."""
    q, k, v = inputs(*leading)
    broken = q.clone()
    broken[..., 1, 2] = math.nan
    found, alone = (stochastic_attention(x, k, v, n_steps=n_steps, seed=0) for x in (broken, q))
    torch.testing.assert_close(found[..., 1, :], torch_attention(broken, k, v)[..., 1, :], equal_nan=True)
    others = [0, 2, 3, 4]
    torch.testing.assert_close(found[..., others, :], alone[..., others, :])
