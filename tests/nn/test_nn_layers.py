"""Hopfield, HopfieldPooling and HopfieldLayer: a plain loop over batch, heads and queries, torch, gradients, files."""

import copy
from itertools import combinations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from test_nn_hopfield import normal, seeded
from torch import nn

from stochattn.nn import Hopfield, HopfieldLayer, HopfieldMemory, HopfieldPooling
from stochattn.nn.multihead_memory import PROJECTIONS

SUBSETS = [names for n in range(5) for names in combinations(PROJECTIONS, n)]


def drawn(module, seed=0):
    """The module in float64 with all parameters drawn at random, those of normalisation and biases included."""
    module.double()
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(p.abs() if p.ndim == 0 else normal(*p.shape, seed=seed + i) / 2)
    return module


def by_loops(layer, query, stored, values, mask, n_steps):
    """What a Hopfield layer should return for query (B, L, d), mask (B, H, L, K), by loops over its parameters."""
    normed = {"query": query, "stored": stored, "value": values}
    for name, norm in layer.norms.items():
        x = normed[name]
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        normed[name] = x * norm.weight + norm.bias
    betas = layer.beta.expand(layer.num_heads)
    out = []
    for b in range(len(query)):
        rows = []
        for i in range(query.shape[1]):
            heads = []
            for h in range(layer.num_heads):

                def head(name, x, h=h):
                    if name not in layer.projected:
                        return x
                    width = layer.v_head_dim if name == "value" else layer.head_dim
                    part = slice(h * width, (h + 1) * width)
                    return x @ layer.maps[name].weight[part].T + layer.maps[name].bias[part]

                xi, keys = head("query", normed["query"][b, i]), head("stored", normed["stored"][b])
                seen = mask[b, h, i]
                for _ in range(n_steps):
                    xi = torch.softmax(betas[h] * keys[seen] @ xi, 0) @ keys[seen]
                weights = torch.softmax(betas[h] * keys[seen] @ xi, 0)
                heads.append(weights @ head("value", normed["value"][b])[seen])
            read = torch.cat(heads)
            rows.append(layer.maps["out"](read) if "out" in layer.projected else read)
        out.append(torch.stack(rows))
    return torch.stack(out)


def some_mask(*shape):
    mask = torch.rand(shape, generator=seeded(9)) < 0.6
    mask[..., 0] = True
    return mask


@pytest.mark.parametrize("project", SUBSETS, ids=lambda names: "+".join(names) or "none")
@pytest.mark.parametrize("n_steps", [0, 2])
def test_it_is_a_plain_loop(project, n_steps):
    beta = torch.tensor([0.4, 1.3])
    layer = drawn(Hopfield(6, 2, project=project, head_dim=6, n_steps=n_steps, beta=beta))
    query, stored, values = normal(2, 3, 6), normal(2, 5, 6, seed=1), normal(2, 5, 6, seed=2)
    mask = some_mask(2, 2, 3, 5)
    found = layer(query, stored, values, mask=mask)
    torch.testing.assert_close(found, by_loops(layer, query, stored, values, mask, n_steps))
    assert found.shape == (2, 3, layer.out_dim)


def test_widths_of_everything_may_differ():
    layer = drawn(Hopfield(6, 2, head_dim=4, v_head_dim=3, kdim=5, vdim=7, out_dim=2, n_steps=1, beta=0.7))
    query, stored, values = normal(2, 3, 6), normal(2, 4, 5, seed=1), normal(2, 4, 7, seed=2)
    every = torch.ones(2, 2, 3, 4).bool()
    torch.testing.assert_close(layer(query, stored, values), by_loops(layer, query, stored, values, every, 1))
    assert layer.weights(query, stored).shape == (2, 2, 3, 4)
    assert layer.energy(query, stored).shape == (2, 2, 3)


def test_without_steps_it_is_the_attention_of_torch():
    theirs = nn.MultiheadAttention(8, 2, batch_first=True).double()
    ours = Hopfield(8, 2, layer_norm=False).double()
    with torch.no_grad():
        for name, w, b in zip(PROJECTIONS, theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=False):
            ours.maps[name].weight.copy_(w)
            ours.maps[name].bias.copy_(b)
        ours.maps["out"].load_state_dict(theirs.out_proj.state_dict())
    x, y = normal(2, 3, 8), normal(2, 5, 8, seed=1)
    mask = some_mask(2, 1, 5)
    expected, weights = theirs(x, y, y, key_padding_mask=~mask[:, 0], average_attn_weights=False)
    torch.testing.assert_close(ours(x, y, mask=mask), expected)
    torch.testing.assert_close(ours.weights(x, y, mask=mask), weights)
    torch.testing.assert_close(ours(x), theirs(x, x, x)[0])


def test_masks_with_and_without_heads():
    layer = drawn(Hopfield(6, 2, n_steps=1))
    query, stored = normal(2, 3, 6), normal(2, 5, 6, seed=1)
    whole = some_mask(2, 2, 3, 5)
    whole[:, 1] = whole[:, 0]
    torch.testing.assert_close(layer(query, stored, mask=whole[:, 0]), layer(query, stored, mask=whole))
    row = some_mask(5)
    torch.testing.assert_close(layer(query, stored, mask=row), layer(query, stored[:, row]))
    alone = layer(query[0], stored[0], mask=whole[0])
    torch.testing.assert_close(alone, layer(query, stored, mask=whole)[0])
    torch.testing.assert_close(layer(query[0], stored[0], mask=whole[0, 0]), alone)


def test_a_query_that_sees_nothing_reads_zeros():
    layer = drawn(Hopfield(6, 2))
    mask = torch.ones(3, 5).bool()
    mask[1] = False
    query = normal(2, 3, 6).requires_grad_()
    out = layer(query, normal(2, 5, 6, seed=1), mask=mask)
    torch.testing.assert_close(out[:, 1], layer.maps["out"].bias.expand(2, 6))
    out.sum().backward()
    assert query.grad.isfinite().all()


def test_queries_are_broadcast_over_the_batch():
    layer = drawn(Hopfield(6, 2, n_steps=1))
    query, stored = normal(3, 6), normal(4, 5, 6, seed=1)
    expected = torch.stack([layer(query, rows) for rows in stored])
    torch.testing.assert_close(layer(query, stored), expected)
    torch.testing.assert_close(layer(query[None], stored), expected)
    torch.testing.assert_close(layer(query.expand(4, 3, 6), stored[0]), layer(query, stored[0]).expand(4, 3, 6))


def test_states_stop_at_the_tolerance():
    options = {"project": (), "layer_norm": False, "beta": 2.0}
    until, fixed = Hopfield(4, tolerance=1e-9, n_steps=None, **options), Hopfield(4, n_steps=300, **options)
    query, stored = normal(2, 3, 4), normal(2, 5, 4, seed=1)
    torch.testing.assert_close(until.double()(query, stored), fixed.double()(query, stored))
    once = Hopfield(4, tolerance=1e9, n_steps=None, **options).double()
    torch.testing.assert_close(once(query, stored), Hopfield(4, n_steps=1, **options).double()(query, stored))


@pytest.mark.parametrize("options", [{"n_steps": 2, "head_norm": True}, {"project": ("out",), "head_dim": 4}])
def test_gradients_are_correct(options):
    layer = drawn(Hopfield(4, 2, learn_beta=True, **options))
    inputs = (normal(2, 2, 4).requires_grad_(), normal(2, 3, 4, seed=1).requires_grad_())
    names, given = zip(
        *((name, p.detach().clone().requires_grad_()) for name, p in layer.named_parameters()), strict=True
    )
    mask = some_mask(2, 2, 3)

    def read(query, stored, *values):
        parameters = dict(zip(names, values, strict=True))
        return torch.func.functional_call(layer, parameters, (query, stored), {"mask": mask})

    assert torch.autograd.gradcheck(read, (*inputs, *given))


def test_head_norm_normalises_queries_and_rows_of_heads():
    layer = drawn(Hopfield(6, 2, head_norm=True, n_steps=0))
    query, stored = normal(3, 6), normal(5, 6, seed=1)
    keys = layer.banks(stored).patterns
    plain = layer.maps["stored"](layer.norms["stored"](stored)).unflatten(-1, (2, 3)).transpose(0, 1)
    torch.testing.assert_close(keys, layer.head_norm(plain))
    xi = layer.head_norm(layer.maps["query"](layer.norms["query"](query)).unflatten(-1, (2, 3)).transpose(0, 1))
    torch.testing.assert_close(layer.weights(query, stored), torch.softmax(xi @ keys.mT / 3**0.5, -1))
    values = layer.maps["value"](layer.norms["value"](stored)).unflatten(-1, (2, 3)).transpose(0, 1)
    torch.testing.assert_close(layer.heads("value", stored), values)


def test_the_law_of_the_heads():
    layer = drawn(Hopfield(6, 2, beta=torch.tensor([0.5, 2.0])))
    query, stored = normal(2, 3, 6), normal(2, 5, 6, seed=1)
    banks, xi = layer.banks(stored), layer.heads("query", query)
    for b, h in np.ndindex(2, 2):
        memory = HopfieldMemory(banks.patterns[b, h].detach(), beta=float(layer.beta[h]))
        torch.testing.assert_close(layer.energy(query, stored)[b, h], memory.energy(xi[b, h]))
        torch.testing.assert_close(banks.log_density(xi)[b, h], memory.log_density(xi[b, h]))
    mask = some_mask(3, 5)
    seen, memory = (
        layer.energy(query, stored, mask=mask),
        HopfieldMemory(banks.patterns.detach(), beta=layer.beta.expand(2, 2)),
    )
    torch.testing.assert_close(seen, memory.energy(xi, mask=mask))
    draws = banks.draw(7, seeded())
    assert draws.shape == (2, 2, 7, 3)
    assert torch.autograd.grad(draws.sum(), layer.maps["stored"].weight)[0].isfinite().all()


def test_pooling_is_a_lookup_by_learned_queries():
    pooling = drawn(HopfieldPooling(Hopfield(6, 2, n_steps=1), n_queries=3))
    stored, values, mask = normal(4, 5, 6, seed=1), normal(4, 5, 6, seed=2), some_mask(4, 1, 5)
    found = pooling(stored, values, mask=mask)
    assert found.shape == (4, 18)
    for b in range(4):
        rows = mask[b, 0]
        expected = pooling.hopfield(pooling.queries, stored[b, rows], values[b, rows])
        torch.testing.assert_close(found[b], expected.flatten())
    order = torch.randperm(5, generator=seeded())
    torch.testing.assert_close(pooling(stored[:, order]), pooling(stored))
    assert pooling.weights(stored).shape == (4, 2, 3, 5)
    torch.testing.assert_close(
        pooling.weights(stored, mask=mask),
        pooling.hopfield.weights(pooling.queries.expand(4, 3, 6), stored, mask=mask),
    )
    assert (pooling.weights(stored, mask=mask)[~mask[:, None].expand(4, 2, 3, 5)] == 0).all()
    assert pooling(stored[0]).shape == (18,)
    assert HopfieldPooling(6)(stored.float()).shape == (4, 6)
    pooling(stored).sum().backward()
    assert pooling.queries.grad.abs().min() > 0


@pytest.mark.parametrize("learn_beta", [False, True])
@pytest.mark.parametrize("values", [None, True])
def test_a_layer_is_a_lookup_in_learned_rows(values, learn_beta):
    layer = drawn(HopfieldLayer(Hopfield(6, 2, n_steps=1, learn_beta=learn_beta), 5, values=values))
    query, mask = normal(4, 3, 6, seed=1), some_mask(3, 5)
    read = layer.patterns if values is None else layer.values
    torch.testing.assert_close(layer(query, mask=mask), layer.hopfield(query, layer.patterns, read, mask=mask))
    torch.testing.assert_close(
        layer.weights(query, mask=mask), layer.hopfield.weights(query, layer.patterns, mask=mask)
    )
    torch.testing.assert_close(layer.energy(query), layer.hopfield.energy(query, layer.patterns))
    seen = layer.energy(query, mask=mask)
    torch.testing.assert_close(seen, layer.hopfield.energy(query, layer.patterns, mask=mask))
    assert not torch.allclose(seen, layer.energy(query))
    memory = layer.memory()
    xi = layer.hopfield.heads("query", query)
    heads = memory(xi, n_steps=1).transpose(-3, -2).flatten(-2)
    torch.testing.assert_close(layer.hopfield.maps["out"](heads), layer(query))
    torch.testing.assert_close(memory.log_density(xi), layer.banks().log_density(xi))
    assert not list(memory.parameters())
    assert memory.patterns.data_ptr() != layer.patterns.data_ptr()
    layer(query).sum().backward()
    assert layer.patterns.grad.abs().sum() > 0
    assert values is None or layer.values.grad.abs().sum() > 0


def test_rows_to_start_from():
    X, V = normal(5, 6), normal(5, 2, seed=1)
    layer = HopfieldLayer(Hopfield(6, vdim=2), X, values=V)
    torch.testing.assert_close((layer.patterns.detach(), layer.values.detach()), (X.float(), V.float()))
    assert layer.patterns.data_ptr() != X.data_ptr()
    fixed = HopfieldLayer(Hopfield(6, project=()), X, learn=False)
    assert "patterns" in fixed.state_dict()
    assert not fixed.patterns.requires_grad
    assert HopfieldLayer(6, 7).patterns.shape == (7, 6)
    assert HopfieldLayer(6, 7, values=False).values is None


def test_biases_are_zero_at_first_and_may_be_left_out():
    assert all((one.bias == 0).all() for one in Hopfield(6, 2).maps.values())
    assert all(one.bias is None for one in Hopfield(6, 2, bias=False).maps.values())
    assert Hopfield(6, 2, project="query", head_dim=6).projected == ("query",)


def test_heads_are_as_wide_as_rows_without_a_linear_map():
    assert Hopfield(6, 2).head_dim == 3
    assert Hopfield(6, 2, project=("stored", "value", "out")).head_dim == 6
    assert Hopfield(6, 2, kdim=5, project=("query", "value", "out")).head_dim == 5


@pytest.mark.parametrize("make", [Hopfield, HopfieldPooling, lambda d: HopfieldLayer(Hopfield(d, learn_beta=True), 4)])
def test_state_dicts_and_files(make, tmp_path):
    module, other = drawn(make(6)), drawn(make(6), seed=50)
    x = normal(2, 3, 6)
    assert not torch.equal(module(x), other(x))
    save_file(module.state_dict(), tmp_path / "layer.safetensors")
    other.load_state_dict(load_file(tmp_path / "layer.safetensors"), strict=True)
    assert torch.equal(module(x), other(x))
    assert torch.equal(copy.deepcopy(module)(x), module(x))
    assert repr(module) == repr(other)


def test_dropout_is_of_weights_and_of_training():
    layer = drawn(Hopfield(6, project=("query", "stored"), dropout=0.5, layer_norm=False))
    query, stored, values = normal(400, 6), normal(4, 6, seed=1), torch.eye(4, 6).double()
    layer.eval()
    weights = layer.weights(query, stored)[0]
    torch.testing.assert_close(layer(query, stored, values)[:, :4], weights)
    layer.train()
    torch.manual_seed(0)
    ratio = layer(query, stored, values)[:, :4] / weights
    torch.testing.assert_close(ratio[ratio > 0], torch.full_like(ratio[ratio > 0], 2.0))
    share = float((ratio == 0).double().mean())
    assert abs(share - 0.5) < 5 * 0.5 / 1600**0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    exact, half = drawn(Hopfield(8, 2, n_steps=1)), drawn(Hopfield(8, 2, n_steps=1)).to(dtype)
    x = normal(2, 3, 8)
    found = half(x.to(dtype))
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), exact(x), rtol=0.1, atol=0.1)
    single = exact.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = single(x.float())
    assert cast.dtype == torch.bfloat16
    torch.testing.assert_close(cast.float(), single(x.float()), rtol=0.1, atol=0.1)


def test_compiled_without_breaks():
    for module in (Hopfield(8, 2, n_steps=2), HopfieldPooling(Hopfield(8, learn_beta=True)), HopfieldLayer(8, 5)):
        x = normal(2, 3, 8).float()
        compiled = torch.compile(module, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), module(x))
    torch.compiler.reset()


def test_beta_of_heads_is_learned():
    beta = nn.Parameter(torch.tensor([0.5, 1.0]))
    layer = Hopfield(6, 2, beta=beta)
    assert layer.beta is beta
    layer(normal(2, 3, 6).float()).square().sum().backward()
    assert beta.grad.abs().min() > 0
    with torch.no_grad():
        beta[1] = -1.0
    with pytest.raises(ValueError, match="beta must stay positive while it is learned; it is -1"):
        layer(normal(2, 3, 6).float())
    assert float(Hopfield(16).beta) == 0.25


def test_betas_may_be_mapped_over():
    """Values are unknown within vmap, so that a beta that is no parameter is not checked there."""
    layer, x = drawn(Hopfield(6, 2, learn_beta=True)), normal(3, 6)
    betas = torch.tensor([0.5, 2.0]).double()
    found = torch.func.vmap(lambda beta: torch.func.functional_call(layer, {"beta": beta}, (x,)))(betas)
    for beta, out in zip(betas, found, strict=True):
        torch.testing.assert_close(out, torch.func.functional_call(layer, {"beta": beta}, (x,)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Hopfield(7, 2), "embed_dim must be a multiple of num_heads=2; got 7"),
        (lambda: Hopfield(6, project=("key",)), "each of project must be one of 'query', .* got 'key'"),
        (lambda: Hopfield(6, kdim=5, project=("stored",), head_dim=4), "head_dim must be the width 6 of query rows"),
        (lambda: Hopfield(6, kdim=5, project=()), "head_dim must be the width 5 of stored rows"),
        (lambda: Hopfield(6, project=("query", "stored"), v_head_dim=2), 'v_head_dim must be vdim=6 without "value"'),
        (lambda: Hopfield(6, project=("value",), out_dim=5), 'out_dim must be 6, that of all heads, without "out"'),
        (lambda: Hopfield(6, 2, beta=torch.ones(3)), r"beta must be one number, or one for each head \(2,\)"),
        (lambda: Hopfield(6, beta=-1.0), "beta must be a positive"),
        (lambda: Hopfield(6, dropout=1.0), "dropout must lie between 0 and 1"),
        (lambda: Hopfield(6, tolerance=-1.0), "tolerance must be a positive"),
        (lambda: Hopfield(6)(torch.zeros(2, 5)), r"query must be a tensor of real numbers, \(..., rows, 6\)"),
        (lambda: Hopfield(6)(torch.zeros(2, 6), torch.zeros(6)), r"stored must be a tensor of real numbers"),
        (lambda: Hopfield(6)(torch.zeros(2, 6), torch.zeros(3, 6), torch.zeros(4, 6)), "values must have one row"),
        (lambda: Hopfield(6)(torch.zeros(2, 6), mask=torch.ones(2, 3).bool()), r"mask must broadcast to the logits"),
        (lambda: HopfieldPooling(6, 0), "n_queries must be at least 1"),
        (lambda: HopfieldLayer(6, 0), "patterns must be at least 1"),
        (lambda: HopfieldLayer(6, torch.zeros(3, 5)), r"patterns must be a number of rows, or rows \(K, 6\)"),
        (lambda: HopfieldLayer(6, torch.full((3, 6), torch.nan)), "patterns must be finite"),
        (lambda: HopfieldLayer(6, 3, values=torch.zeros(2, 6)), "values must have one row for each of the 3 patterns"),
        (lambda: HopfieldLayer(Hopfield(6, vdim=2), 3), "values must be given where vdim=2 is not kdim=6"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_lookup_of_another_class_is_an_error():
    with pytest.raises(TypeError, match="hopfield must be a Hopfield or a width; got Linear"):
        HopfieldPooling(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="n_steps must be an integer; got None"):
        Hopfield(6, n_steps=None)
