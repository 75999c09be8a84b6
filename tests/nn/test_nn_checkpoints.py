"""Gradient checkpoints: a layer whose forward pass is repeated in the backward pass repeats its noise."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from stochattn.nn import StochasticMultiheadAttention, register, stochastic, stochastic_attention
from stochattn.nn.checkpoints import RepeatedCalls, in_checkpoint

REENTRANT = pytest.mark.parametrize("reentrant", [True, False])
STEPS = {"n_steps": 3, "alpha": 0.2}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


class Block(nn.Module):
    """A residual block of a network, with attention that calls torch and an optional checkpoint."""

    def __init__(self, reentrant=None):
        super().__init__()
        self.mix, self.reentrant = nn.Linear(8, 24, dtype=torch.float64), reentrant
        self.attention = Attention(self.mix)

    def forward(self, x):
        if self.reentrant is None:
            return x + self.attention(x)
        return x + checkpoint(self.attention, x, use_reentrant=self.reentrant)


class Attention(nn.Module):
    def __init__(self, mix):
        super().__init__()
        self.mix = mix

    def forward(self, x):
        q, k, v = self.mix(x).chunk(3, -1)
        return scaled_dot_product_attention(q, k, v)


def network(reentrant=None):
    torch.manual_seed(0)
    return nn.Sequential(Block(reentrant), Block(reentrant))


def rows(seed=1):
    return torch.randn(2, 5, 8, generator=seeded(seed), dtype=torch.float64).requires_grad_()


def gradients(model):
    return torch.cat([weights.grad.flatten() for weights in model.parameters()])


@REENTRANT
def test_a_layer_with_a_generator_repeats_its_noise(reentrant):
    """Two passes before either backward pass, in both orders; without checkpoints the gradient is the true one."""
    found = {}
    for repeated in (False, True):
        torch.manual_seed(0)
        layer = StochasticMultiheadAttention(8, 2, **STEPS, dtype=torch.float64, generator=seeded(3))
        call = lambda x, layer=layer: layer(x, x, x, need_weights=False)[0]  # noqa: E731
        inputs = rows(1), rows(2)
        outs = [checkpoint(call, x, use_reentrant=reentrant) if repeated else call(x) for x in inputs]
        for i in (1, 0):
            outs[i].square().sum().backward()
        found[repeated] = [gradients(layer), *(x.grad for x in inputs)]
    for expected, got in zip(found[False], found[True], strict=True):
        torch.testing.assert_close(got, expected)


@REENTRANT
def test_torch_s_numbers_are_left_alone_outside_a_checkpoint(reentrant):
    q = rows()
    before = torch.get_rng_state()
    stochastic_attention(q, q, q, **STEPS, generator=seeded(3)).sum().backward()
    assert torch.equal(torch.get_rng_state(), before)


@REENTRANT
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("generator", [False, True])
def test_a_context_is_repeated_in_the_backward_pass(reentrant, outside, generator):
    """Also after the context has ended, and with two passes before the backward passes."""
    found = {}
    for kind in (None, reentrant):
        model = network(kind)
        inputs, options = (rows(1), rows(2)), {"generator": seeded(4)} if generator else {}
        torch.manual_seed(7)
        noise = {} if generator else {"noise": 0.0}  # torch's own numbers would differ between the two models
        with stochastic(model, **STEPS, **noise, **options):
            losses = [model(x).square().sum() for x in inputs]
            for loss in () if outside else losses:
                loss.backward()
        for loss in losses if outside else ():
            loss.backward()
        found[kind] = [gradients(model), *(x.grad for x in inputs)]
    for expected, got in zip(found[None], found[reentrant], strict=True):
        torch.testing.assert_close(got, expected)


@REENTRANT
def test_the_noise_of_torch_s_own_generator_is_repeated_after_the_context(reentrant):
    """Finite differences with the same seed give the derivative along a random direction."""
    model, x = network(reentrant), rows()

    def loss(x):
        torch.manual_seed(9)
        with stochastic(model, **STEPS):
            return model(x.requires_grad_()).square().sum()

    loss(x).backward()
    direction, size = torch.randn(x.shape, generator=seeded(5), dtype=torch.float64), 1e-6
    above, below = (loss(x.detach() + sign * size * direction).detach() for sign in (1, -1))
    torch.testing.assert_close((x.grad * direction).sum(), (above - below) / (2 * size), rtol=1e-5, atol=1e-5)


def test_a_network_takes_no_steps_after_a_context_with_checkpoints():
    model, x = network(True), rows()
    before = model(x)
    with stochastic(model, **STEPS):
        model(x)
    assert torch.equal(model(x), before)
    assert str(model) == str(network(True))


@REENTRANT
def test_a_model_inside_a_checkpoint_of_another(reentrant):
    """The context is open on a part of what is repeated."""
    found = {}
    for repeated in (False, True):
        model, x = network(), rows()
        with stochastic(model, **STEPS, generator=seeded(3)):
            out = checkpoint(model, x, use_reentrant=reentrant) if repeated else model(x)
            out.square().sum().backward()
        found[repeated] = gradients(model)
    torch.testing.assert_close(found[True], found[False])


def test_training_after_a_context_keeps_the_numbers_of_torch():
    """A module that remembers calls of checkpoints must not shift the dropout of later ones that it does not know."""

    def trained(before):
        model, x = network(), rows()
        if before:
            with stochastic(model, **STEPS):
                checkpoint(model[0].attention, x, use_reentrant=True).sum().backward()
            model.zero_grad()
        dropped = nn.Sequential(model[0].attention, nn.Dropout(0.5))
        torch.manual_seed(5)
        checkpoint(dropped, x, use_reentrant=True).square().sum().backward()
        return gradients(model[0])

    torch.testing.assert_close(trained(True), trained(False))


def test_a_forward_pass_outside_the_context_that_repeats_it_is_an_error():
    model, x = network(True), rows()
    loss = model(x).sum()
    rule = "the backward pass repeats a call of a checkpoint whose forward pass this context has not seen"
    with pytest.raises(RuntimeError, match=rule), stochastic(model, **STEPS):
        loss.backward()


@REENTRANT
@pytest.mark.parametrize("in_context", [False, True])
def test_a_checkpoint_that_does_not_preserve_the_state_of_torch_s_generator_is_an_error(reentrant, in_context):
    """Nothing would tell which call the backward pass repeats, and after the context it would take no steps."""
    q, options = rows(), {"use_reentrant": reentrant, "preserve_rng_state": False}
    rule = "preserve_rng_state must be True in a checkpoint with Langevin steps: its backward pass .* got False"
    if in_context:
        layer = network()[0].attention
        with pytest.raises(RuntimeError, match=rule), stochastic(layer, **STEPS, noise=0.0):
            checkpoint(layer, q, **options)
        checkpoint(layer, q, **options).sum().backward()  # without steps, there is nothing to repeat
    else:
        made = seeded(3)
        with pytest.raises(RuntimeError, match=rule):
            checkpoint(lambda x: stochastic_attention(x, x, x, **STEPS, generator=made), q, **options)


def test_a_repeated_call_whose_forward_pass_was_in_no_known_checkpoint_is_an_error():
    class Repeated(torch.autograd.Function):
        """A checkpoint of a user, which does not restore the state of torch's generator."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return stochastic_attention(x, x, x, **STEPS, generator=made)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                stochastic_attention(x, x, x, **STEPS, generator=made)

    torch.manual_seed(123)  # numbers that no call of another test has drawn
    made = seeded(3)
    with pytest.raises(RuntimeError, match="generator must be None in a checkpoint that does not restore"):
        Repeated.apply(rows()).sum().backward()


@pytest.mark.parametrize("in_context", [False, True])
def test_a_call_that_was_forgotten_is_an_error(in_context, monkeypatch):
    """Three calls wait for their backward pass where two may."""
    monkeypatch.setattr("stochattn.nn.checkpoints.MAX_CALLS", 2)
    monkeypatch.setattr("stochattn.nn.checkpoints._STATES", RepeatedCalls())
    torch.manual_seed(11)
    if in_context:
        layer = network()[0].attention
        with stochastic(layer, **STEPS):
            outs = [checkpoint(layer, rows(i), use_reentrant=True) for i in range(3)]
    else:
        made = seeded(3)
        call = lambda x: stochastic_attention(x, x, x, **STEPS, generator=made)  # noqa: E731
        outs = [checkpoint(call, rows(i), use_reentrant=True) for i in range(3)]
    for i in (2, 1):
        outs[i].sum().backward()
    with pytest.raises(RuntimeError, match=r"at most 2 calls .* this one is older and was forgotten\. Call backward"):
        outs[0].sum().backward()


def test_a_retained_graph_repeats_its_noise_again():
    q, made = rows(), seeded(3)
    call = lambda x: stochastic_attention(x, x, x, **STEPS, generator=made)  # noqa: E731
    loss = checkpoint(call, q, use_reentrant=True).square().sum()
    grads = []
    for _ in range(2):
        q.grad = None
        loss.backward(retain_graph=True)
        grads.append(q.grad)
    assert torch.equal(*grads)


def test_calls_are_told_apart_on_any_default_device():
    """A hundred of 2⁶² numbers are different, also where torch would make them on a device without values."""
    calls = RepeatedCalls()
    torch.manual_seed(0)
    with torch.device("meta"):
        for i in range(100):
            calls.store(i)
        assert len(calls) == 100
        torch.manual_seed(0)
        assert [calls.find() for _ in range(100)] == list(range(100))


def test_checkpoints_of_other_libraries_are_recognised():
    class CheckpointFunction:
        def forward(self):
            return in_checkpoint()

    assert CheckpointFunction().forward()
    assert not in_checkpoint()


def test_two_calls_that_torch_s_numbers_do_not_distinguish_are_an_error():
    q, made = rows(), seeded(3)
    call = lambda x: stochastic_attention(x, x, x, **STEPS, generator=made)  # noqa: E731
    for _ in range(2):  # one pass after the other
        torch.manual_seed(0)
        checkpoint(call, q, use_reentrant=True).sum().backward()
    outs = []
    for _ in range(2):
        torch.manual_seed(0)
        outs.append(checkpoint(call, q, use_reentrant=True))
    with pytest.raises(RuntimeError, match=r"torch\.manual_seed must not be called between two passes"):
        outs[0].sum().backward()


@pytest.mark.parametrize("by_name", [False, True])
@REENTRANT
def test_a_model_of_transformers_with_gradient_checkpointing(reentrant, by_name):
    """`register(generator=...)` and a context, with the backward pass after it; no dropout, so that passes agree."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    if by_name and not hasattr(transformers.PreTrainedModel, "set_attn_implementation"):
        pytest.skip("this transformers cannot switch a model once it is made")
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 20, "bos_token_id": 0, "eos_token_id": 0}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    found = {}
    for repeated in (False, True):
        torch.manual_seed(0)
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **dropout)).double().train()
        if repeated:
            newer_name = getattr(model, "activation_checkpointing_enable", None)  # since transformers 5.23
            (newer_name or model.gradient_checkpointing_enable)({"use_reentrant": reentrant})
            model.enable_input_require_grads()
        ids, made = torch.arange(1, 9)[None] % 20, seeded(3)
        if by_name:
            register(**STEPS, generator=made)
            model.set_attn_implementation("stochastic")
            losses = [model(ids, labels=ids, use_cache=False).loss for _ in range(2)]
        else:
            with stochastic(model, **STEPS, generator=made):
                losses = [model(ids, labels=ids, use_cache=False).loss for _ in range(2)]
        for loss in losses:
            loss.backward()
        register()
        found[repeated] = torch.cat([w.grad.flatten() for w in model.parameters() if w.grad is not None])
    torch.testing.assert_close(found[True], found[False])


def test_a_plain_pass_with_the_seed_of_an_earlier_one_takes_no_steps():
    """The repeated call draws the number that the call in the context drew, and must not be taken for it."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.v = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            q, k, v = self.q(x)[:, None], x[:, None], self.v(x)[:, None]
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)[:, 0]

    torch.manual_seed(1)
    model, x = nn.Sequential(Attention()), torch.randn(2, 5, 8)

    def gradient():
        torch.manual_seed(0)
        model.zero_grad()
        checkpoint(model, x, use_reentrant=False).square().sum().backward()
        return model[0].q.weight.grad.clone()

    before = gradient()
    with stochastic(model, 5, alpha=0.3):
        within = gradient()
    assert (within - before).abs().max() > 0.01
    torch.testing.assert_close(gradient(), before)
