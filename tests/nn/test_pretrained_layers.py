"""Which layers of a model take Langevin steps: none silently stays without, whatever holds the model."""

import math
import warnings
from contextlib import nullcontext
from types import MethodType, SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from stochattn.nn import StochasticMultiheadAttention, attention_modules, check, register, stochastic
from stochattn.nn.inspection import Acts

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
TOKENS = {"vocab_size": 60, "bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
STILL = {"n_steps": 3, "alpha": 0.3, "noise": 0.0}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def made(kind, **options):
    """A small model of transformers with random weights, large enough that attention matters."""
    if not hasattr(transformers, f"{kind}Config"):
        pytest.skip(f"this transformers has no {kind}")
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES, **TOKENS, **options)
    model = getattr(transformers, f"{kind}ForCausalLM")._from_config(config)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.ndim == 2 and "embed" not in name:
                weights.normal_(0, 0.25)
    return model.eval()


@pytest.fixture(autouse=True)
def without_steps_by_name():
    yield
    register()


def tokens(length=7):
    return torch.randint(1, 60, (2, length), generator=seeded(1))


def logits(model, ids=None):
    with torch.no_grad():
        return model(input_ids=tokens() if ids is None else ids)[0]


class Attention(nn.Module):
    """Attention that calls torch; query, key and value have the width of the input."""

    def __init__(self, width=8):
        super().__init__()
        torch.manual_seed(0)
        self.mix = nn.Linear(width, 3 * width)

    def forward(self, x):
        return scaled_dot_product_attention(*self.mix(x).chunk(3, -1))


class HelperAttention(Attention):
    """Attention in a method beside forward, as in many models."""

    def forward(self, x):
        return self.attend(x) + 0

    def attend(self, x):
        return _through_a_function(*self.mix(x).chunk(3, -1))


def _through_a_function(*inputs):
    return scaled_dot_product_attention(*inputs)


class WrittenOutAttn(Attention):
    """Attention without torch's function, as the talking heads of CaiT in timm."""

    def forward(self, x):
        q, k, v = self.mix(x).chunk(3, -1)
        return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


class SwitchedAttention(WrittenOutAttn):
    """Attention with a switch, which is off in the layers of Swin and XCiT in timm."""

    def __init__(self, fused_attn):
        super().__init__()
        self.fused_attn = fused_attn

    def forward(self, x):
        if self.fused_attn:
            return scaled_dot_product_attention(*self.mix(x).chunk(3, -1))
        return super().forward(x)


class Pool(nn.Module):
    """Attention that nothing in its class shows: torch's function is a value."""

    def __init__(self):
        super().__init__()
        self.function = [scaled_dot_product_attention]

    def forward(self, x):
        return self.function[0](x, x, x)


X = torch.randn(3, 5, 8, generator=seeded(2))


def warned(call):
    """The warnings of a call that speak of Langevin steps."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if "Langevin" in str(one.message)]


def called_in_a_context(model, x=X, **options):
    def call():
        with stochastic(model, n_steps=2, **options):
            model(x)

    return call


def test_attention_in_a_helper_method_takes_steps():
    model = HelperAttention()
    assert attention_modules(nn.Sequential(model)) == [model]
    with stochastic(model, **STILL):
        assert not torch.allclose(model(X), HelperAttention()(X))


def test_attention_that_took_no_steps_is_named_once():
    model = nn.Sequential(Attention(), WrittenOutAttn(), Pool(), nn.MultiheadAttention(8, 2))
    model.forward = lambda x: model[3](*[model[2](model[1](model[0](x)))] * 3, need_weights=False)
    (message,) = warned(called_in_a_context(model))
    assert message.startswith("3 layers of Sequential without Langevin steps: ")
    assert "1 (does not call torch's scaled_dot_product_attention)" in message
    assert "2 (calls torch's attention outside its code)" in message
    assert "3 (torch's own layer; replace it with StochasticMultiheadAttention.from_torch)" in message
    assert "stochattn.nn.check(model)" in message
    assert not warned(called_in_a_context(model))


def test_the_warning_comes_with_the_first_pass_that_ends():
    model = nn.Sequential(Attention(), WrittenOutAttn())
    with stochastic(model, n_steps=2):
        with pytest.raises(RuntimeError, match="shapes"):
            model(X[..., :5])
        assert len(warned(lambda: model(X))) == 1
        assert not warned(lambda: model(X))


def test_layers_that_were_chosen_or_act_themselves_are_not_named():
    own = StochasticMultiheadAttention(8, 2, n_steps=1, batch_first=True)
    model = nn.Sequential(Attention(), WrittenOutAttn())
    assert not warned(called_in_a_context(model, layers=[0]))
    encoder = nn.Sequential(Attention(), own)
    encoder.forward = lambda x: own(*[encoder[0](x)] * 3, need_weights=False)[0]
    assert not warned(called_in_a_context(encoder))


def test_a_model_whose_parts_are_called_is_checked_at_the_end():
    model = nn.Sequential(Attention(), WrittenOutAttn())

    def parts():
        with stochastic(model, n_steps=2):
            model[0](X)

    def nothing():
        with stochastic(nn.Sequential(Attention(), WrittenOutAttn()), n_steps=2):
            pass

    assert len(warned(parts)) == 1
    assert not warned(nothing)


def test_the_table_of_layers():
    layers = nn.Sequential(
        Attention(), WrittenOutAttn(), nn.MultiheadAttention(8, 2), HelperAttention(), nn.Linear(2, 2)
    )
    layers.append(StochasticMultiheadAttention(8, 2, n_steps=4))
    table = check(layers)
    assert [(row.number, row.name, row.acts) for row in table] == [
        (0, "0", Acts.CONTEXT),
        (None, "1", Acts.NO),
        (None, "2", Acts.NO),
        (1, "3", Acts.CONTEXT),
        (None, "5", Acts.OWN),
    ]
    lines = str(table).splitlines()
    assert lines[0].split() == ["layer", "module", "class", "takes", "steps", "reason"]
    assert "WrittenOutAttn" in lines[2]
    assert "from_torch" in lines[3]
    assert "n_steps=4" in lines[5]
    with pytest.raises(TypeError, match="model must be a torch module; got str"):
        check("gpt2")


def test_attention_that_is_switched_off_is_refused_with_the_reason():
    (row,) = check(SwitchedAttention(False))
    reason = "does not call torch's scaled_dot_product_attention while its fused_attn is False; set it to True"
    assert (row.number, row.acts, row.reason) == (None, Acts.NO, reason)
    with pytest.raises(ValueError, match=r"SwitchedAttention has fused_attn = False\. Set fused_attn = True on its"):
        stochastic(SwitchedAttention(False))
    mixed = nn.Sequential(SwitchedAttention(False), SwitchedAttention(True))
    assert [(row.number, row.acts) for row in check(mixed)] == [(None, Acts.NO), (0, Acts.CONTEXT)]
    (message,) = warned(called_in_a_context(mixed))
    assert message.startswith(f"1 layer of Sequential without Langevin steps: 0 ({reason})")
    model, before = SwitchedAttention(False), SwitchedAttention(False)(X)
    model.fused_attn = True
    assert [row.acts for row in check(model)] == [Acts.CONTEXT]
    with stochastic(model, **STILL):
        assert not torch.allclose(model(X), before, atol=1e-3)


def test_a_table_without_layers_says_that_there_is_no_attention():
    table = check(nn.Linear(2, 2))
    assert len(table) == 0
    assert str(table).startswith("no attention: no layer calls torch's scaled_dot_product_attention or trans")


def test_falcon_takes_no_steps_by_name_and_the_table_says_so():
    """transformers itself leaves the implementation of Falcon as it is."""
    model = made("Falcon")
    before = logits(model)
    for row in check(model):
        assert row.acts is Acts.CONTEXT
        assert row.reason.startswith("calls torch's attention itself, not transformers' interface")
        assert row.reason.endswith(": by name it takes no steps")
    if not hasattr(model, "set_attn_implementation"):
        pytest.skip("this transformers cannot switch a model once it is made")
    register(**STILL)
    model.set_attn_implementation("stochastic")
    torch.testing.assert_close(logits(model), before)


class AttentionBlock(nn.Module):
    """Named like attention, and calls none itself."""

    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.Sequential(*parts)

    def forward(self, x):
        return self.parts(x)


class WithPart(Attention):
    """Attention with a part that is named like attention."""

    def __init__(self):
        super().__init__()
        self.part = AttentionBlock(nn.Identity())


def test_layers_within_layers_are_listed_once():
    blocks = nn.Sequential(AttentionBlock(Attention()), AttentionBlock(WrittenOutAttn()), AttentionBlock(nn.Identity()))
    assert [(row.name, row.number) for row in check(blocks)] == [("0.parts.0", 0), ("1.parts.0", None), ("2", None)]
    assert [row.name for row in check(nn.Sequential(WithPart(), WithPart()))] == ["0", "1"]
    assert [row.name for row in check(WithPart())] == ["(the model)"]
    within = AttentionBlock(nn.MultiheadAttention(8, 2))
    assert [row.name for row in check(within)] == ["parts.0"]


class RecursiveAttention(Attention):
    def forward(self, x):
        return _there(self.mix(x), 2)


def _there(x, n):
    return _back(x, n)


def _back(x, n):
    return _there(x, n - 1) if n else _through_a_function(*x.chunk(3, -1))


def test_functions_that_call_each_other_are_followed_to_an_end():
    """Three functions lie between forward and the attention of torch, and two of them call each other."""
    assert [row.acts for row in check(RecursiveAttention())] == [Acts.CONTEXT]


def test_modules_of_one_class_have_one_class_in_a_context():
    """Code that is compiled for one of them serves the others."""
    model = nn.Sequential(Attention(), Attention())
    with stochastic(model, **STILL):
        assert type(model[0]) is type(model[1])
        assert type(model[0]) is not Attention


@pytest.mark.parametrize("kind", ["Llama", "Falcon", "Mamba"])
def test_a_table_agrees_with_the_steps_that_are_taken(kind):
    model = made(kind)
    acts = {row.acts for row in check(model)}
    assert acts == {"Llama": {Acts.BOTH}, "Falcon": {Acts.CONTEXT}, "Mamba": {Acts.NO}}[kind]
    before = logits(model)
    if kind == "Mamba":
        with pytest.raises(ValueError, match="model must have attention"):
            stochastic(model)
    else:
        with stochastic(model, **STILL):
            assert not torch.allclose(logits(model), before, atol=1e-3)
    register(**STILL)
    model.config._attn_implementation_internal = "stochastic"  # as a model that is loaded with the name
    messages = warned(lambda: logits(model))
    if kind == "Llama":
        assert not messages
        assert not torch.allclose(logits(model), before, atol=1e-3)
    else:
        assert len(messages) == 1
        assert messages[0].startswith(f"2 layers of {kind}ForCausalLM without Langevin steps: ")
        assert (
            "By name, only layers with the attention interface of transformers take steps, and others may"
            in messages[0]
        )
        assert not warned(lambda: logits(model))


def test_a_model_without_any_attention_is_named():
    model = nn.Sequential(nn.Linear(8, 8))
    model.config = SimpleNamespace(_attn_implementation_internal="stochastic")
    register(n_steps=1)
    assert warned(lambda: model(X))[0].startswith(
        "All layers of Sequential without Langevin steps: it has no attention."
    )
    register()
    model = nn.Sequential(nn.Linear(8, 8))
    model.config = SimpleNamespace(_attn_implementation_internal="stochastic")
    assert not warned(lambda: model(X))


def test_a_mask_may_be_passed_by_its_name():
    """As SAM and many others do."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    register(**STILL)
    attend, module = ALL_ATTENTION_FUNCTIONS["stochastic"], nn.Identity()
    q, mask = torch.randn(1, 4, 3, 8, generator=seeded()), torch.zeros(1, 1, 3, 3).masked_fill_(torch.eye(3) > 0, -9.0)
    named = attend(module, q, q, q, attention_mask=mask, scaling=0.3)[0]
    torch.testing.assert_close(named, attend(module, q, q, q, mask, scaling=0.3)[0])
    assert not torch.allclose(named, attend(module, q, q, q, attention_mask=None, scaling=0.3, is_causal=False)[0])


def test_without_steps_the_options_of_a_layer_still_apply():
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    register()
    q = torch.randn(1, 4, 3, 8, generator=seeded())
    found = ALL_ATTENTION_FUNCTIONS["stochastic"](nn.Identity(), q, q, q, None, scaling=0.9, is_causal=False)[0]
    torch.testing.assert_close(found.transpose(1, 2), scaled_dot_product_attention(q, q, q, scale=0.9))


def test_registered_steps_are_those_of_the_algorithm_by_default():
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    q, outs = torch.randn(1, 4, 3, 8, generator=seeded()), []
    for options in ({}, {"noise": 1.0, "alpha": 0.01}):
        register(n_steps=3, generator=seeded(3), **options)
        outs.append(ALL_ATTENTION_FUNCTIONS["stochastic"](nn.Identity(), q, q, q, None, is_causal=False)[0])
    assert torch.equal(*outs)


def test_an_inner_context_keeps_the_configuration_of_the_outer_one():
    model = made("Llama", num_key_value_heads=2)
    with stochastic(model, **STILL):
        config = model.config
        with stochastic(model, **STILL):
            assert model.config is config
        assert model.config is config
    assert model.config is not config


def hook_added(module):
    """What accelerate does: forward becomes an attribute of the instance, and the old one is kept beside it."""
    module._old_forward = module.forward
    module.forward = MethodType(lambda self, *args, **options: self._old_forward(*args, **options), module)


def hook_removed(module):
    module.forward = module._old_forward
    del module._old_forward


@pytest.mark.parametrize("when", ["before", "inside"])
def test_hooks_that_replace_forward_keep_the_steps(when):
    model = nn.Sequential(Attention())
    before = model(X)
    with stochastic(model, **STILL):
        expected = model(X)
    assert not torch.allclose(expected, before)
    if when == "before":
        hook_added(model[0])
    with stochastic(model, **STILL):
        if when == "inside":
            hook_added(model[0])
        torch.testing.assert_close(model(X), expected)
        if when == "before":
            hook_removed(model[0])
            torch.testing.assert_close(model(X), expected)
    assert torch.equal(model(X), before)
    with stochastic(model, **STILL):
        torch.testing.assert_close(model(X), expected)
    assert torch.equal(model(X), before)


def test_replicas_for_several_devices_take_steps_with_their_own_weights():
    """nn.DataParallel copies the attributes of a module; a method among them would use the weights of the original."""
    model = Attention()
    with stochastic(model, **STILL):
        expected = model(X)
        replica = model._replicate_for_data_parallel()
        replica.mix = nn.Linear(8, 24)
        replica.mix.load_state_dict(model.mix.state_dict())
        torch.testing.assert_close(replica(X), expected)
        with torch.no_grad():
            replica.mix.weight.zero_()
        assert not torch.allclose(replica(X), expected)


def test_models_that_share_a_configuration_are_unchanged():
    model = made("Llama", num_key_value_heads=2)
    model.config._attn_implementation_internal = "eager"
    other = type(model)(model.config).eval()
    assert other.config is model.config
    with stochastic(model, **STILL):
        assert other.config._attn_implementation == "eager"
        with torch.no_grad():
            assert other(input_ids=tokens(), output_attentions=True).attentions[0] is not None
        assert model.config._attn_implementation == "sdpa"
        model.config.use_cache = False  # a change in the context is not lost
    assert other.config is model.config
    assert model.config._attn_implementation == "eager"
    assert model.config.use_cache is False


def test_a_context_may_be_used_again():
    model = nn.Sequential(Attention())
    before, context = model(X), stochastic(model, **STILL)
    with context:
        expected = model(X)
        with context:
            torch.testing.assert_close(model(X), expected)
        torch.testing.assert_close(model(X), expected)
    assert torch.equal(model(X), before)
    with context:
        torch.testing.assert_close(model(X), expected)
    torch.testing.assert_close(context(model)(X), expected)  # as a decorator
    assert type(model[0]) is Attention


def test_a_query_may_be_shared_by_the_batch():
    class Pooled(Attention):
        """Learned queries (1, 2, d) look at every row of the batch."""

        def forward(self, x):
            return scaled_dot_product_attention(self.mix.weight[None, :2], x, x)

    model = Pooled()
    assert model(X).shape == (3, 2, 8)
    with stochastic(model, n_steps=2, generator=seeded()):
        out = model(X)
    assert out.shape == (3, 2, 8)
    rows = torch.cat([X[:1]] * 3)
    with stochastic(model, n_steps=2, generator=seeded()):
        out = model(rows)
    assert not torch.allclose(out[0], out[1])  # each row of the batch has its own noise


@pytest.mark.parametrize("cap", [None, 2.0])
def test_a_model_with_soft_caps(cap):
    """Gemma 2 has no attention of torch in transformers; its own attention is compared, step by step."""
    options = {"num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8}
    model = made("Gemma2", attn_logit_softcapping=cap, attn_implementation="eager", **options)
    before = logits(model)
    with stochastic(model, n_steps=0):
        torch.testing.assert_close(logits(model), before, rtol=1e-4, atol=1e-4)
    with stochastic(model, layers=[], n_steps=3):
        torch.testing.assert_close(logits(model), before, rtol=1e-4, atol=1e-4)
    expected = by_hand(model, lambda scores, module: scores if cap is None else cap * torch.tanh(scores / cap))
    with stochastic(model, **STILL):
        torch.testing.assert_close(logits(model), expected, rtol=1e-4, atol=1e-4)
    assert (expected - before).abs().max() > 0.01
    register(**STILL)
    model.set_attn_implementation("stochastic")
    torch.testing.assert_close(logits(model), expected, rtol=1e-4, atol=1e-4)


def test_a_model_with_attention_sinks():
    options = {"num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1}
    model = made("GptOss", **options)
    with torch.no_grad():
        for module in attention_modules(model):
            module.sinks.normal_(0, 1.0, generator=seeded(3))
    before = logits(model)
    with stochastic(model, n_steps=0):
        torch.testing.assert_close(logits(model), before, rtol=1e-4, atol=1e-4)
    expected = by_hand(model, lambda scores, module: scores, sinks=True)
    with stochastic(model, **STILL):
        torch.testing.assert_close(logits(model), expected, rtol=1e-4, atol=1e-4)
        model.generate(tokens(), max_new_tokens=3, do_sample=False)
    assert (expected - before).abs().max() > 0.01


def by_hand(model, change, sinks=False):
    """Logits of a model whose attention is written out: three steps without noise, alpha = 0.3, then the readout."""
    masks = pytest.importorskip("transformers.masking_utils").ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    def attend(module, query, key, value, mask, scaling, **options):
        key, value = (x.repeat_interleave(module.num_key_value_groups, 1) for x in (key, value))

        def weights(xi):
            scores = change(scaling * xi @ key.mT, module)
            scores = scores if mask is None else scores + mask
            if not sinks:
                return scores.softmax(-1)
            last = module.sinks.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
            return torch.cat([scores, last], -1).softmax(-1)[..., :-1]

        for _ in range(3):
            query = 0.7 * query + 0.3 * weights(query) @ key
        return (weights(query) @ value).transpose(1, 2), None

    ALL_ATTENTION_FUNCTIONS.register("by_hand", attend)
    masks.register("by_hand", masks["eager"])
    kept = model.config._attn_implementation_internal
    model.config._attn_implementation_internal = "by_hand"
    out = logits(model)
    model.config._attn_implementation_internal = kept
    return out


def test_single_tokens_take_steps_in_the_chosen_heads():
    """In generation, transformers puts the heads that share keys in the place of the length."""
    model = made("Llama", num_key_value_heads=2)
    ids, seen = tokens(9), torch.ones(2, 9, dtype=torch.long)
    seen[0, :3] = 0
    options = {"attention_mask": seen, "max_new_tokens": 8, "do_sample": False}
    texts = {}
    for cache in (True, False):
        with stochastic(model, n_steps=5, alpha=0.3, noise=0.0, heads=[3]):
            texts[cache] = model.generate(ids, **options, use_cache=cache)
    assert torch.equal(texts[True], texts[False])
    assert not torch.equal(texts[True], model.generate(ids, **options))


def test_a_few_layers_are_all_named():
    (message,) = warned(called_in_a_context(nn.Sequential(Attention(), *[WrittenOutAttn() for _ in range(4)])))
    assert "4 layers of Sequential without Langevin steps: 1, 2, 3, 4 (does not call torch's" in message
    (message,) = warned(called_in_a_context(nn.Sequential(Attention(), WrittenOutAttn())))
    assert "1 layer of Sequential without Langevin steps: 1 (does not call torch's" in message


def test_a_model_that_calls_attention_outside_its_layers_is_named():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.function = Attention(), [scaled_dot_product_attention]

        def forward(self, x):
            return self.function[0](*[self.layer(x)] * 3)

    (message,) = warned(called_in_a_context(Model()))
    assert "1 layer of Model without Langevin steps: (the model) (calls torch's attention outside its code)" in message


def test_chosen_heads_of_a_query_that_the_batch_shares():
    class Pooled(Attention):
        """Learned queries (1, 2, 3, 4) of two heads look at every row of the batch."""

        def forward(self, x):
            query, keys = self.mix.weight.view(-1)[:24].view(1, 2, 3, 4), x.unflatten(-1, (2, 4)).transpose(1, 2)
            return scaled_dot_product_attention(query, keys, keys)

    model = Pooled()
    before = model(X)
    with stochastic(model, **STILL):
        everywhere = model(X)
    with stochastic(model, **STILL, heads=[1]):
        found = model(X)
    torch.testing.assert_close(found[:, 0], before[:, 0])
    torch.testing.assert_close(found[:, 1], everywhere[:, 1])
    assert not torch.allclose(found[:, 1], before[:, 1])


class SharedKeys(nn.Module):
    """Six heads, three to a head of keys; in generation, heads that share keys lie in the place of the length."""

    def __init__(self, packed):
        super().__init__()
        self.packed, self.num_key_value_groups = packed, 3
        self.config = SimpleNamespace(num_attention_heads=6)

    def forward(self, query, keys, mask):
        if self.packed:
            query, mask = query.view(len(query), 2, 3, -1), mask.view(len(mask), 2, 3, -1)
        out = scaled_dot_product_attention(query, keys, keys, mask, enable_gqa=not self.packed)
        return out.reshape(len(query), 6, 1, -1)


@pytest.mark.parametrize("heads", [[3], [-6], [0, 5]])
def test_masks_of_heads_that_lie_in_the_place_of_the_length(heads):
    query, keys, mask = (
        torch.randn(shape, generator=seeded(i)) for i, shape in enumerate(((2, 6, 1, 8), (2, 2, 5, 8), (2, 6, 1, 5)))
    )
    found = {}
    for packed in (False, True):
        model = SharedKeys(packed)
        with stochastic(model, **STILL, heads=heads):
            found[packed] = model(query, keys, mask)
        moved = (found[packed] - model(query, keys, mask)).abs().amax((0, 2, 3)) > 1e-3
        assert moved.nonzero().flatten().tolist() == sorted(head % 6 for head in heads)
    torch.testing.assert_close(found[True], found[False])


def test_many_layers_are_counted():
    model = nn.Sequential(Attention(), *[WrittenOutAttn() for _ in range(6)])
    (message,) = warned(called_in_a_context(model))
    assert "6 layers of Sequential without Langevin steps: 1, 2, 3, 4 and 2 more (does not call torch's" in message


def test_beta_of_each_head_can_be_learned_in_a_model():
    model, ids = made("Llama", num_key_value_heads=2), tokens(9)
    beta = torch.full((4, 1, 1), 1 / math.sqrt(8)).requires_grad_()
    with stochastic(model, **STILL):
        expected = logits(model)
    with stochastic(model, **STILL, beta=beta):
        out = model(input_ids=tokens())[0]
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
        out.square().mean().backward()
    assert (beta.grad.abs() > 0).all()
    each = torch.linspace(0.1, 1.0, 4)[:, None, None]
    seen = torch.ones_like(ids)
    seen[0, :3] = 0
    options = {"max_new_tokens": 8, "do_sample": False, "attention_mask": seen}
    with stochastic(model, n_steps=5, alpha=0.3, noise=0.0, beta=each):
        cached, full = (model.generate(ids, **options, use_cache=cache) for cache in (True, False))
    assert torch.equal(cached, full)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("by_name", [False, True])
def test_a_whole_model_is_one_graph(by_name):
    """Also with noise, which is that of torch's seed."""
    if int(transformers.__version__.split(".")[0]) < 5:
        pytest.skip("models of this transformers are not one graph")
    model = made("Llama", num_key_value_heads=2)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    outs, call = [], lambda one: one(input_ids=tokens(), use_cache=False)[0].detach()
    for steps in (STILL, {"n_steps": 3}):
        register(**steps)
        if by_name:
            model.set_attn_implementation("stochastic")
        with nullcontext() if by_name else stochastic(model, **steps):
            torch.compiler.reset()
            if steps is STILL:
                torch.testing.assert_close(call(compiled), call(model))
            for seed in (1, 1, 2):
                torch.manual_seed(seed)
                outs.append(call(compiled))
    torch.testing.assert_close(outs[0], outs[2])
    assert torch.equal(outs[3], outs[4])
    assert not torch.allclose(outs[3], outs[5])
    torch.compiler.reset()
