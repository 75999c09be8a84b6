"""Multi-head attention: without steps it agrees with torch, alone and in the encoder and decoder of torch."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import linear
from torch.nn.utils import prune

from stochattn.nn import stochastic_attention
from stochattn.nn.multihead import StochasticMultiheadAttention

N, L, S, E, HEADS = 3, 4, 5, 8, 2


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def pair(seed=0, **options):
    """torch's module and ours with its weights, none of them zero."""
    theirs = nn.MultiheadAttention(E, HEADS, dtype=torch.float64, **options)
    for i, parameter in enumerate(theirs.parameters()):
        nn.init.normal_(parameter, std=0.5, generator=seeded(10 * seed + i))
    ours = StochasticMultiheadAttention(E, HEADS, dtype=torch.float64, **options)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return theirs, ours


def inputs(options, batched=True):
    widths = (L, E), (S, options.get("kdim", E)), (S, options.get("vdim", E))
    made = []
    for seed, (length, width) in enumerate(widths):
        leading = (N, length) if options.get("batch_first") else (length, N)
        made.append(normal(*(leading if batched else (length,)), width, seed=seed).requires_grad_())
    return made


def boolean(*shape, seed=0):
    hidden = normal(*shape, seed=seed) > 0.3
    hidden[..., 1] = False  # every query sees a key
    return hidden


MODULES = {
    "plain": {},
    "batch first": {"batch_first": True},
    "no bias": {"bias": False},
    "other widths": {"kdim": 6, "vdim": 3},
    "other widths, no bias": {"kdim": 6, "bias": False, "batch_first": True},
    "learned key": {"add_bias_kv": True},
    "zero key": {"add_zero_attn": True, "batch_first": True},
    "both keys": {"add_bias_kv": True, "add_zero_attn": True, "vdim": 3},
}
MASKS = {
    "none": {},
    "hidden": {"attn_mask": boolean(L, S)},
    "hidden by head": {"attn_mask": boolean(N * HEADS, L, S)},
    "added": {"attn_mask": normal(L, S)},
    "added by head": {"attn_mask": normal(N * HEADS, L, S)},
    "padding": {"key_padding_mask": boolean(N, S, seed=1)},
    "added padding": {"key_padding_mask": normal(N, S)},
    "hidden, padding": {"attn_mask": boolean(L, S), "key_padding_mask": boolean(N, S, seed=1)},
    "added, padding": {"attn_mask": normal(N * HEADS, L, S), "key_padding_mask": normal(N, S)},
}


def require_same(theirs, ours, options, batched=True, **call):
    """Outputs, weights and all gradients."""
    results = []
    for module in (theirs, ours):
        given = inputs(options, batched)
        out, weights = module(*given, **call)
        loss = (out * normal(*out.shape, seed=7)).sum()
        if weights is not None:
            loss = loss + (weights * normal(*weights.shape, seed=8)).sum()
        module.zero_grad()
        loss.backward()
        results.append([out, weights, *(x.grad for x in given), *(p.grad for p in module.parameters())])
    for expected, got in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", MODULES)
def test_without_steps_it_agrees_with_torch(kind, mask):
    theirs, ours = pair(**MODULES[kind])
    for weights in ({"need_weights": False}, {}, {"average_attn_weights": False}):
        require_same(theirs, ours, MODULES[kind], **MASKS[mask], **weights)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("kind", ["plain", "batch first", "both keys"])
def test_without_steps_it_agrees_with_torch_unbatched(kind, need_weights):
    theirs, ours = pair(**MODULES[kind])
    masks = {"attn_mask": boolean(HEADS, L, S), "key_padding_mask": boolean(S, seed=1)}
    for call in ({}, masks):
        require_same(theirs, ours, MODULES[kind], batched=False, need_weights=need_weights, **call)


def test_two_masks_are_combined():
    _, ours = pair()
    given, hidden, added = inputs({}), boolean(N, S, seed=1), normal(L, S)
    expected, _ = ours(*given, attn_mask=added, key_padding_mask=torch.zeros(N, S).masked_fill(hidden, -math.inf))
    assert torch.equal(ours(*given, attn_mask=added, key_padding_mask=hidden)[0], expected)


@pytest.mark.parametrize("need_weights", [False, True])
def test_the_causal_hint_needs_its_mask(need_weights):
    theirs, ours = pair(batch_first=True)
    causal = nn.Transformer.generate_square_subsequent_mask(L, dtype=torch.float64)
    x = inputs({"batch_first": True})[0]
    call = {"is_causal": True, "need_weights": need_weights}
    torch.testing.assert_close(ours(x, x, x, attn_mask=causal, **call), theirs(x, x, x, attn_mask=causal, **call))
    with pytest.raises(ValueError, match="attn_mask must be given if is_causal is True"):
        ours(x, x, x, **call)


@pytest.mark.parametrize("need_weights", [False, True])
def test_dropout_is_torch_s_and_for_training_only(need_weights):
    theirs, ours = pair(dropout=0.4)
    outs = {}
    for training in (True, False):
        for module in (theirs.train(training), ours.train(training)):
            torch.manual_seed(3)
            outs[module is ours, training] = module(*inputs({}), need_weights=need_weights)
        torch.testing.assert_close(outs[True, training], outs[False, training])
    assert not torch.allclose(outs[True, True][0], outs[True, False][0])


def head_by_head(module, query, key, value, bias, generator):
    """Computation of each head with an explicit softmax: outputs (L, E) without a batch, weights (heads, L, S)."""
    w, b = module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)
    q, k, v = (x @ w[i].T + b[i] for i, x in enumerate((query, key, value)))
    k = torch.cat([k, module.bias_k[0], torch.zeros(1, E)])
    v = torch.cat([v, module.bias_v[0], torch.zeros(1, E)])
    d, steps = E // HEADS, module.steps
    xi, k, v = (x.view(len(x), HEADS, d).transpose(0, 1) for x in (q, k, v))
    for _ in range(steps.n_steps):
        attended = torch.softmax(steps.beta * xi @ k.mT + bias, -1) @ k
        eps = torch.randn(1, HEADS, L, d, generator=generator, dtype=torch.float64)[0]
        xi = xi + steps.alpha * (attended - xi) + steps.noise * math.sqrt(2 * steps.alpha / steps.beta) * eps
    weights = torch.softmax(steps.beta * xi @ k.mT + bias, -1)
    return (weights @ v).transpose(0, 1).reshape(L, E) @ module.out_proj.weight.T + module.out_proj.bias, weights


def test_steps_are_those_of_the_algorithm_and_see_appended_keys():
    theirs, _ = pair(add_bias_kv=True, add_zero_attn=True)
    made, again = seeded(5), seeded(5)
    ours = StochasticMultiheadAttention.from_torch(theirs, n_steps=3, alpha=0.2, noise=0.5, beta=0.8, generator=made)
    given, hidden = inputs({}, batched=False), boolean(L, S)
    bias = torch.zeros(L, S + 2, dtype=torch.float64)
    bias[:, :S].masked_fill_(hidden, -math.inf)
    expected, weights = head_by_head(ours, *given, bias, again)
    out, got = ours(*given, attn_mask=hidden, average_attn_weights=False)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(got, weights)
    made.manual_seed(5)
    without, none = ours(*given, attn_mask=hidden, need_weights=False)
    assert none is None
    torch.testing.assert_close(without, expected)


@pytest.mark.parametrize("n_steps", [0, 2])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("added", [False, True])
def test_a_query_without_visible_keys_returns_zeros(n_steps, need_weights, added):
    theirs, _ = pair(batch_first=True)
    ours = StochasticMultiheadAttention.from_torch(theirs, n_steps=n_steps, generator=seeded())
    given, padding = inputs({"batch_first": True}), torch.zeros(N, S, dtype=torch.bool)
    padding[1] = True
    if added:
        padding = torch.zeros(N, S, dtype=torch.float64).masked_fill(padding, -math.inf)
    out, weights = ours(*given, key_padding_mask=padding, need_weights=need_weights)
    torch.testing.assert_close(out[1], theirs.out_proj.bias.expand(L, E))
    assert weights is None or (weights[1] == 0).all()
    assert not torch.allclose(out[0], theirs.out_proj.bias)
    out.sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (*given, *ours.parameters()))


@pytest.mark.parametrize("need_weights", [False, True])
def test_autocast_projects_in_half_precision_and_takes_steps_in_float32(need_weights):
    """Logits in half precision would not distinguish keys as similar as these."""
    theirs, _ = pair(batch_first=True)
    ours = StochasticMultiheadAttention.from_torch(theirs, n_steps=2, beta=30.0, generator=seeded()).float()
    given = [x.detach().float() for x in inputs({"batch_first": True})]
    given[1] = given[1][:, :1] + 0.05 * given[1]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half, _ = ours(*given, need_weights=need_weights, attn_mask=torch.zeros(L, S))
        w, b = ours.in_proj_weight.chunk(3), ours.in_proj_bias.chunk(3)
        q, k, v = (linear(x, w[i], b[i]) for i, x in enumerate(given))
    assert half.dtype == torch.bfloat16
    q, k, v = (x.float().unflatten(-1, (HEADS, -1)).transpose(1, 2) for x in (q, k, v))
    heads = stochastic_attention(q, k, v, n_steps=2, beta=30.0, generator=seeded())
    expected = ours.out_proj(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(half.float(), expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("kind", MODULES)
def test_state_dicts_are_compatible_both_ways(kind):
    theirs, ours = pair(**MODULES[kind])
    back = nn.MultiheadAttention(E, HEADS, dtype=torch.float64, **MODULES[kind])
    back.load_state_dict(ours.state_dict(), strict=True)
    for name, x in back.state_dict().items():
        assert torch.equal(x, theirs.state_dict()[name])


def test_weights_are_initialised_as_in_torch():
    for options in ({}, {"kdim": 6}, {"add_bias_kv": True}):
        torch.manual_seed(1)
        theirs = nn.MultiheadAttention(E, HEADS, **options)
        torch.manual_seed(1)
        ours = StochasticMultiheadAttention(E, HEADS, **options)
        assert all(torch.equal(*both) for both in zip(theirs.parameters(), ours.parameters(), strict=True))


def test_from_torch_takes_over_the_parameters_themselves():
    for options in MODULES.values():
        theirs, _ = pair(dropout=0.25, **options)
        theirs.eval().out_proj.weight.requires_grad_(False)
        ours = StochasticMultiheadAttention.from_torch(theirs, n_steps=2)
        assert all(mine is other for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True))
        assert set(ours.state_dict()) == {*theirs.state_dict(), "_extra_state"}
        assert not ours.training
        assert not ours.out_proj.weight.requires_grad
        for name in ("dropout", "batch_first", "add_zero_attn", "kdim", "vdim", "head_dim"):
            assert getattr(ours, name) == getattr(theirs, name)
    again = StochasticMultiheadAttention.from_torch(ours, n_steps=3)
    assert (again.steps.n_steps, again.kdim, again.vdim) == (3, E, 3)
    with pytest.raises(TypeError, match=r"attention must be an nn\.MultiheadAttention; got Linear"):
        StochasticMultiheadAttention.from_torch(nn.Linear(2, 2))


PADDING = torch.arange(L) >= torch.tensor([4, 2, 3])[:, None]


def encoder(**options):
    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(E, HEADS, 16, dropout=0.0, batch_first=True, dtype=torch.float64, **options)
    made = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not options.get("norm_first"))
    for i, parameter in enumerate(made.parameters()):
        nn.init.normal_(parameter, std=0.4, generator=seeded(i))
    return made


def with_steps(made, **steps):
    made = copy.deepcopy(made)
    for layer in made.layers:
        layer.self_attn = StochasticMultiheadAttention.from_torch(layer.self_attn, **steps)
    return made


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype")  # a warning of the encoder of torch
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("call", [{}, {"src_key_padding_mask": PADDING}, {"mask": torch.ones(L, L).triu(1) > 0}])
@pytest.mark.parametrize("norm_first", [True, False])
def test_inside_the_encoder_of_torch(training, grad, call, norm_first):
    """In eval mode without gradients torch's encoder would never call the layer's attention."""
    theirs, x = encoder(norm_first=norm_first).train(training), normal(N, L, E)
    with torch.set_grad_enabled(grad):
        expected = theirs(x, **call)
        torch.testing.assert_close(with_steps(theirs)(x, **call), expected)
        seen = ~PADDING if call.get("src_key_padding_mask") is not None else PADDING | True
        stochastic = with_steps(theirs, n_steps=3, alpha=0.3, noise=0.0)
        gap = (stochastic(x, **call) - expected).abs().amax(-1)
        assert (gap[:, 1] > 1e-4).all()  # the second position sees two keys in every case
        step_by_step = stochastic.train()(x, **call)  # never fused
        torch.testing.assert_close(stochastic.train(training)(x, **call)[seen], step_by_step[seen])


def test_inside_the_decoder_of_torch():
    torch.manual_seed(3)
    layer = nn.TransformerDecoderLayer(E, HEADS, 16, dropout=0.0, batch_first=True, dtype=torch.float64).eval()
    x, memory = normal(N, L, E), normal(N, S, E, seed=1)
    with torch.no_grad():
        expected = layer(x, memory)
        for name in ("self_attn", "multihead_attn"):
            theirs = getattr(layer, name)
            setattr(layer, name, StochasticMultiheadAttention.from_torch(theirs))
            torch.testing.assert_close(layer(x, memory), expected)
            setattr(layer, name, StochasticMultiheadAttention.from_torch(theirs, n_steps=3))
            assert not torch.allclose(layer(x, memory), expected, atol=1e-4)
            setattr(layer, name, theirs)


def test_copies_of_a_layer_draw_different_noise():
    _, ours = pair()
    ours = StochasticMultiheadAttention.from_torch(ours, n_steps=3, generator=seeded(1))
    second = copy.deepcopy(ours)
    assert second.out_proj.weight is not ours.out_proj.weight
    first = ours(*inputs({}))[0]
    assert not torch.allclose(second(*inputs({}))[0], first)
    ours.steps.generator.manual_seed(1)
    torch.testing.assert_close(second(*inputs({}))[0], first)


def test_an_encoder_made_of_a_layer_with_steps_takes_them_in_every_copy():
    layer = encoder().layers[0].eval()
    expected = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    layer.self_attn = StochasticMultiheadAttention.from_torch(layer.self_attn, n_steps=2, alpha=0.3, noise=0.0)
    stochastic, x = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), normal(N, L, E)
    with torch.no_grad():
        for theirs, ours in zip(expected.layers, stochastic.layers, strict=True):
            assert ((ours(x) - theirs(x)).abs().amax(-1) > 1e-4).all()
        torch.testing.assert_close(stochastic(x), layer.train()(layer(x)))


def test_repr_shows_the_steps():
    shown = repr(StochasticMultiheadAttention(E, HEADS, n_steps=5, beta=0.5))
    assert "embed_dim=8, num_heads=2, n_steps=5, alpha=0.01, noise=1.0, beta=0.5" in shown


@pytest.mark.parametrize(
    ("steps", "error", "message"),
    [
        ({"n_steps": -1}, ValueError, "n_steps must be at least 0; got -1"),
        ({"n_steps": 1.5}, TypeError, "n_steps must be an integer"),
        ({"alpha": 1.0}, ValueError, "alpha must lie strictly between 0 and 1; got 1.0"),
        ({"noise": -1.0}, ValueError, "noise must be a finite number, zero or more"),
        ({"beta": 0.0}, ValueError, "beta must be a positive, finite number; got 0.0"),
        ({"generator": 3}, TypeError, "generator must be a torch.Generator or None; got int"),
        ({"alhpa": 0.1}, TypeError, "got an unexpected keyword argument 'alhpa'"),
    ],
)
def test_bad_steps(steps, error, message):
    with pytest.raises(error, match=message):
        StochasticMultiheadAttention(E, HEADS, **steps)


X = torch.zeros(L, N, E)


@pytest.mark.parametrize(
    ("arguments", "call", "error", "message"),
    [
        ((X[..., :7], X, X), {}, ValueError, r"query must be \(length, 8\), .* got shape \(4, 3, 7\)"),
        ((X, X[0], X), {}, ValueError, r"key must be \(length, 8\), or with a batch .* got shape \(3, 8\)"),
        ((X[None],) * 3, {}, ValueError, r"query must be \(length, 8\), .* got shape \(1, 4, 3, 8\)"),
        ((X, X, X[:2]), {}, ValueError, "value must have the length and batch of key"),
        ((X, X[:, :2], X[:, :2]), {}, ValueError, "query must have the leading dimensions of key"),
        ((X, X, X), {"attn_mask": torch.ones(L, 9) > 0}, ValueError, r"attn_mask must have shape \(4, 4\) or \(6, 4"),
        ((X, X, X), {"key_padding_mask": torch.ones(L) > 0}, ValueError, r"key_padding_mask must have shape \(3, 4\);"),
        (
            (X, X, X),
            {"attn_mask": torch.ones(L, L).long()},
            TypeError,
            r"attn_mask must be a tensor of booleans \(True",
        ),
    ],
)
def test_bad_input(arguments, call, error, message):
    with pytest.raises(error, match=message):
        StochasticMultiheadAttention(E, HEADS)(*arguments, **call)


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype")
@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({"batch_first": False}, {}),
        ({}, {"attn_mask": torch.zeros(2, 2)}),
        ({}, {"key_padding_mask": torch.zeros(2, 3) > 0}),
        ({}, {"key": X}),
    ],
    ids=["length first", "mask", "padding", "other keys"],
)
def test_nested_rows_are_taken_in_plain_self_attention_only(options, call):
    nested = torch.nested.nested_tensor([torch.ones(2, E), torch.ones(3, E)])
    module = StochasticMultiheadAttention(E, HEADS, **{"batch_first": True, **options})
    with pytest.raises(ValueError, match="query must not be nested, except in self-attention with batch_first"):
        module(**{"query": nested, "key": nested, "value": nested, **call})
    out, _ = StochasticMultiheadAttention(E, HEADS, batch_first=True)(nested, nested, nested)
    assert [len(row) for row in out.unbind()] == [2, 3]


def test_weights_that_are_computed_are_not_taken_over():
    attention = nn.MultiheadAttention(8, 2)
    prune.random_unstructured(attention, "in_proj_weight", 0.5)
    with pytest.raises(TypeError, match="attention must have its weights as plain parameters"):
        StochasticMultiheadAttention.from_torch(attention)
    prune.remove(attention, "in_proj_weight")
    x = torch.randn(4, 3, 8)
    torch.testing.assert_close(StochasticMultiheadAttention.from_torch(attention)(x, x, x), attention(x, x, x))


def test_inputs_that_are_not_tensors_are_errors():
    module, x = StochasticMultiheadAttention(8, 2), torch.zeros(4, 3, 8)
    with pytest.raises(TypeError, match=r"key must be a tensor of real numbers, .* got ndarray"):
        module(x, x.numpy(), x)
    with pytest.raises(TypeError, match=r"attn_mask must be a tensor of booleans .* got list"):
        module(x, x, x, attn_mask=[[True]])


def test_steps_are_saved_in_the_state_dict(tmp_path):
    """Also in safetensors and among other layers; the generator is no part of it."""
    for beta in (None, 0.3, torch.tensor([[[0.2]], [[0.4]]]), torch.tensor([[[0.2]], [[0.4]]]).double() / 3):
        ours = StochasticMultiheadAttention(E, HEADS, n_steps=5, alpha=0.1, noise=0.5, beta=beta)
        model = nn.Sequential(nn.Linear(2, 2), ours)
        torch.save(model.state_dict(), tmp_path / "state")
        made = seeded(3)
        other = nn.Sequential(nn.Linear(2, 2), StochasticMultiheadAttention(E, HEADS, generator=made))
        other.load_state_dict(torch.load(tmp_path / "state", weights_only=True), strict=True)
        steps = other[1].steps
        assert (steps.n_steps, steps.alpha, steps.noise, steps.generator) == (5, 0.1, 0.5, made)
        assert (
            torch.equal(torch.as_tensor(steps.beta), torch.as_tensor(beta)) if beta is not None else steps.beta is None
        )
        pytest.importorskip("safetensors.torch").save_file(model.state_dict(), tmp_path / "tensors")
    ours.load_state_dict(nn.MultiheadAttention(E, HEADS).state_dict(), strict=True)  # the steps stay
    assert ours.steps.n_steps == 5
    assert set(StochasticMultiheadAttention(E, HEADS).state_dict()) == set(nn.MultiheadAttention(E, HEADS).state_dict())


@pytest.mark.parametrize("need_weights", [False, True])
def test_beta_may_be_learned_for_each_head(need_weights):
    theirs, _ = pair(batch_first=True)
    steps = {"n_steps": 3, "alpha": 0.2, "noise": 0.0}
    ours = StochasticMultiheadAttention.from_torch(theirs, **steps, learn_beta=True)
    given = inputs({"batch_first": True})
    plain = StochasticMultiheadAttention.from_torch(theirs, **steps)
    torch.testing.assert_close(ours(*given, need_weights=need_weights), plain(*given, need_weights=need_weights))
    with torch.no_grad():
        ours.log_beta.copy_(torch.tensor([0.3, 1.2]).log())
    beta = torch.tensor([0.3, 1.2], dtype=torch.float64)[:, None, None]
    plain = StochasticMultiheadAttention.from_torch(theirs, **steps, beta=beta)
    out, weights = ours(*given, need_weights=need_weights)
    torch.testing.assert_close((out, weights), plain(*given, need_weights=need_weights), rtol=1e-6, atol=1e-6)
    out.square().sum().backward()
    assert (ours.log_beta.grad.abs() > 1e-6).all()
    assert ours.log_beta.grad.shape == (HEADS,)


def test_a_learned_beta_is_a_parameter_like_others(tmp_path):
    ours = StochasticMultiheadAttention(E, HEADS, n_steps=2, beta=0.7, learn_beta=True)
    torch.testing.assert_close(ours.log_beta.exp(), torch.tensor([0.7, 0.7]))
    assert "log_beta" in dict(ours.named_parameters())
    assert "learn_beta=True" in repr(ours)
    other = StochasticMultiheadAttention(E, HEADS, learn_beta=True)
    other.load_state_dict(ours.state_dict())
    torch.testing.assert_close(other.log_beta, ours.log_beta)
    assert StochasticMultiheadAttention.from_torch(ours, n_steps=1).log_beta is ours.log_beta
    again = StochasticMultiheadAttention.from_torch(ours, n_steps=1, beta=0.2)
    assert again.log_beta is None
    assert again.steps.beta == 0.2
    each = StochasticMultiheadAttention(E, HEADS, beta=torch.tensor([0.5, 1.0]), learn_beta=True)
    torch.testing.assert_close(each.log_beta.exp(), torch.tensor([0.5, 1.0]))
    with pytest.raises(ValueError, match="beta must be a number or have one element per head, 2, with learn_beta=True"):
        StochasticMultiheadAttention(E, HEADS, beta=torch.ones(3), learn_beta=True)
