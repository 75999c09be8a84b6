"""HopfieldMemory: weights, masks, batches, tolerances, learned beta, draws with gradients, rows in and out."""

import copy
import math

import numpy as np
import pytest
import torch
from test_nn_hopfield import memory_of, normal, seeded
from torch import nn

from banks import ingredients
from stochattn import ShardedMemory
from stochattn.nn import HopfieldMemory
from stochattn.nn.association import Association, _log_normal_mass
from test_law import BETA, CHAINS, require_law

X3 = torch.tensor([[1.0, 0.2], [-0.6, 0.7], [0.1, -1.1]], dtype=torch.float64)
LOG_R3 = torch.tensor([0.0, -0.5, 0.4], dtype=torch.float64)
METHODS = (HopfieldMemory.weights, HopfieldMemory.forward, HopfieldMemory.energy, HopfieldMemory.log_density)


def softmax(logits):
    e = np.exp(logits - logits.max())
    return e / e.sum()


def test_weights_are_a_softmax_of_overlaps():
    X, r = ingredients("weights")
    memory, xi = memory_of("weights", values=normal(5, 3, seed=4)), normal(2, 4, 12)
    found = memory.weights(xi)
    assert found.shape == (2, 4, 5)
    for i in np.ndindex(2, 4):
        np.testing.assert_allclose(found[i], softmax(BETA * X @ xi[i].numpy() + np.log(r)), rtol=1e-12)
    torch.testing.assert_close(memory(xi, n_steps=0), found @ memory.values)
    torch.testing.assert_close(memory(xi, n_steps=2), memory.weights(xi, n_steps=2) @ memory.values)
    torch.testing.assert_close(memory.weights(xi, n_steps=1), memory.weights(found @ memory.patterns))
    torch.testing.assert_close(memory.weights(xi[0, 0]), found[0, 0])


@pytest.mark.parametrize("method", METHODS, ids=lambda f: f.__name__)
def test_a_mask_per_query_is_a_bank_of_the_visible_memories(method):
    X, r = ingredients("unequal")[0], ingredients("weights")[1]
    memory, xi = HopfieldMemory(X, beta=BETA, log_r=np.log(r)), normal(2, 3, 12)
    visible = torch.rand(2, 3, 5, generator=seeded(3)) < 0.6
    assert visible.any(-1).all()
    assert not visible.all()
    found = method(memory, xi, mask=visible)
    for i in np.ndindex(2, 3):
        rows = visible[i].numpy()
        alone = HopfieldMemory(X[rows], beta=BETA, log_r=np.log(r[rows]))
        expected = method(alone, xi[i])
        if method is HopfieldMemory.weights:
            assert (found[i][~visible[i]] == 0).all()
            torch.testing.assert_close(found[i][visible[i]], expected)
        else:
            torch.testing.assert_close(found[i], expected)
    bias = normal(3, 5, seed=7)
    one = HopfieldMemory(X, beta=BETA, log_r=torch.tensor(r).log() + bias[1])
    torch.testing.assert_close(method(memory, xi, mask=bias)[:, 1], method(one, xi[:, 1]))


def test_masks_apply_to_every_step():
    memory, xi = memory_of("unit"), normal(3, 12)
    visible = torch.tensor([True, False, True, True, False])
    alone = HopfieldMemory(memory.patterns[visible], beta=BETA)
    torch.testing.assert_close(memory(xi, n_steps=4, mask=visible), alone(xi, n_steps=4))


def test_a_state_that_sees_nothing():
    memory = HopfieldMemory(X3, beta=2.0, learn=True, learn_beta=True)
    mask = torch.tensor([[True, False, True], [False, False, False]])
    xi = normal(2, 2).requires_grad_()
    assert (memory.weights(xi, mask=mask)[1] == 0).all()
    assert (memory(xi, mask=mask)[1] == 0).all()
    assert memory.energy(xi, mask=mask)[1] == math.inf
    assert memory.log_density(xi, mask=mask)[1] == -math.inf
    for method in METHODS:
        found = method(memory, xi, mask=mask)
        grads = torch.autograd.grad(found[0].sum(), (xi, memory.patterns, memory.beta), allow_unused=True)
        assert all(g is None or g.isfinite().all() for g in grads)
        assert (grads[0][1] == 0).all()


def batch_of_banks(**options):
    patterns, log_r = normal(3, 2, 5, 4, seed=1), normal(3, 2, 5, seed=2)
    log_r[1, 0, 2] = -math.inf
    beta = torch.tensor([[1.0, 2.0], [0.5, 3.0], [1.5, 4.0]], dtype=torch.float64)
    return HopfieldMemory(patterns, beta=beta, log_r=log_r, **options)


@pytest.mark.parametrize("method", METHODS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(4,), (7, 4), (1, 1, 7, 4), (2, 7, 4), (3, 2, 7, 4), (5, 1, 2, 7, 4)])
def test_a_batch_of_banks_is_a_loop_over_banks(method, shape):
    values = normal(3, 2, 5, 6, seed=3)
    memory, xi = batch_of_banks(values=values), normal(*shape, seed=4)
    found = method(memory, xi)
    each = xi.expand(3, 2, 4) if len(shape) == 1 else xi.expand(*torch.broadcast_shapes(shape[:-2], (3, 2)), 7, 4)
    for b in np.ndindex(3, 2):
        beta = float(memory.beta[b])
        alone = HopfieldMemory(memory.patterns[b], beta=beta, log_r=memory.log_r[b], values=values[b])
        at = b if len(shape) == 1 else (..., *b, slice(None), slice(None))
        part = (
            found[(..., *b, slice(None))]
            if method.__name__ in ("energy", "log_density") and len(shape) > 1
            else found[at]
        )
        torch.testing.assert_close(part, method(alone, each[at]))


def test_masks_of_a_batch_of_banks():
    memory, xi = batch_of_banks(), normal(2, 7, 4, seed=4)
    mask = torch.rand(3, 2, 7, 5, generator=seeded(5)) < 0.7
    mask[..., 0] = True
    found = memory(xi, mask=mask)
    for i, j in np.ndindex(3, 2):
        alone = HopfieldMemory(memory.patterns[i, j], beta=float(memory.beta[i, j]), log_r=memory.log_r[i, j])
        torch.testing.assert_close(found[i, j], alone(xi[j], mask=mask[i, j]))


def test_the_draws_of_every_bank_follow_its_law():
    kinds = ("unit", "unequal", "weights")
    X, r = (torch.tensor(np.stack(parts)) for parts in zip(*map(ingredients, kinds), strict=True))
    memory = HopfieldMemory(X, beta=BETA, log_r=r.log())
    draws = memory.sample(CHAINS, generator=seeded(1))
    assert draws.shape == (3, CHAINS, 12)
    for kind, rows in zip(kinds, draws, strict=True):
        require_law(rows, kind)
    assert not torch.equal(draws[0, :, 0] - draws[0].mean(), draws[1, :, 0] - draws[1].mean())


def test_natural_beta_of_every_bank():
    X = nn.functional.normalize(normal(2, 20, 3), dim=-1)
    memory = HopfieldMemory(X)
    assert memory.beta.tolist() == [float(HopfieldMemory(bank).beta) for bank in X]
    assert "2 banks of K=20 memories, d=3, beta=" in repr(memory)


def test_one_number_in_an_array_is_a_number():
    for beta in (np.array([1.5]), torch.tensor([1.5]), np.float32(1.5)):
        memory = HopfieldMemory(X3, beta=beta)
        assert memory.beta.shape == ()
        assert float(memory.beta) == 1.5
    assert HopfieldMemory(X3[None], beta=torch.tensor([1.5])).beta.shape == (1,)
    with pytest.raises(ValueError, match=r"beta must be one number, or one for each bank \(\); got shape \(1,\)"):
        HopfieldMemory(X3, beta=nn.Parameter(torch.tensor([1.5])))


def test_beta_is_copied():
    beta = torch.tensor([1.5, 2.5], dtype=torch.float64)
    memory = HopfieldMemory(normal(2, 5, 3), beta=beta)
    beta.fill_(9.0)
    assert memory.beta.tolist() == [1.5, 2.5]


def test_a_batch_of_banks_in_half_precision():
    patterns = normal(2, 5, 3).to(torch.bfloat16)
    memory = HopfieldMemory(patterns, beta=1.0, log_r=normal(2, 5, seed=1).to(torch.bfloat16))
    torch.testing.assert_close(memory.patterns, patterns.float())


def test_log_r_of_one_bank_is_that_of_all():
    log_r = normal(5, seed=3)
    listed = HopfieldMemory(normal(2, 5, 3), beta=1.0, log_r=log_r.tolist())
    assert torch.equal(listed.log_r, log_r.expand(2, 5))
    memory = HopfieldMemory(normal(2, 5, 3), beta=1.0, log_r=log_r)
    assert torch.equal(memory.log_r, log_r.expand(2, 5))


def test_states_stop_on_their_own():
    memory, xi = memory_of("unequal"), normal(6, 12)
    found = memory(xi, tolerance=1e-3)
    for x, y in zip(xi, found, strict=True):
        moved, steps = math.inf, 0
        while moved > 1e-3:
            moved, x, steps = float((memory(x) - x).norm()), memory(x), steps + 1
        torch.testing.assert_close(y, x, rtol=1e-12, atol=1e-12)
        assert steps > 1
    torch.testing.assert_close(memory(xi, tolerance=1e-3, n_steps=2), memory(xi, n_steps=2))
    torch.testing.assert_close(memory(xi, tolerance=1e9), memory(xi))
    torch.testing.assert_close(memory.weights(xi, tolerance=1e-3), memory.weights(found))
    fixed = memory(xi, tolerance=1e-12)
    assert (memory(fixed) - fixed).norm(dim=-1).max() < 1e-11


def test_a_state_that_stopped_stays_where_it_is():
    memory = HopfieldMemory([[1.0], [-1.0]], beta=4.0)  # steps away from 0 are T(x) − x = tanh(4 x) − x, and grow
    first, second = memory(torch.tensor([[1e-4], [0.5]], dtype=torch.float64), tolerance=3.5e-4)
    assert float(first) == pytest.approx(math.tanh(4e-4))
    assert float(second) == pytest.approx(math.tanh(4 * math.tanh(4 * math.tanh(2))))


def test_states_that_never_stop_give_a_warning():
    memory = HopfieldMemory([[1.0], [-1.0]], beta=1.0)  # at the critical beta, steps shrink like a power of time
    with pytest.warns(RuntimeWarning, match="states still move by more than tolerance=1e-09 after 1000 steps"):
        memory(torch.ones(1, dtype=torch.float64), tolerance=1e-9)


def test_a_parameter_stays_the_same_parameter():
    beta = nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
    memory = HopfieldMemory(X3, beta=beta)
    assert memory.beta is beta
    assert [name for name, _ in memory.named_parameters()] == ["beta"]
    optimizer = torch.optim.SGD([beta], lr=0.1)
    memory.log_density(normal(4, 2)).sum().backward()
    optimizer.step()
    assert float(memory.beta.detach()) != 1.5
    assert float(HopfieldMemory(X3, beta=torch.tensor(1.5)).beta) == 1.5
    assert not list(HopfieldMemory(X3, beta=torch.tensor(1.5)).parameters())


@pytest.mark.parametrize("batch", [(), (2,)])
def test_gradients_of_a_learned_beta_are_correct(batch):
    X, xi = normal(*batch, 4, 3), normal(*batch, 2, 3, seed=2).requires_grad_()
    memory = HopfieldMemory(X, beta=torch.full(batch, 1.5), learn=True, learn_beta=True)
    mask = torch.tensor([[True, True, False, True], [True, True, True, True]])
    given = {name: p.detach().clone().requires_grad_() for name, p in memory.named_parameters()}

    def read(method, xi, *values, **options):
        arguments = (dict(zip(given, values, strict=True)), (method, xi), options)
        return torch.func.functional_call(
            _Called(memory), {f"memory.{k}": v for k, v in arguments[0].items()}, *arguments[1:]
        )

    for method in METHODS:
        assert torch.autograd.gradcheck(lambda xi, *p, m=method: read(m, xi, *p, mask=mask), (xi, *given.values()))
    assert torch.autograd.gradcheck(
        lambda xi, *p: read(HopfieldMemory.forward, xi, *p, n_steps=3), (xi, *given.values())
    )


class _Called(nn.Module):
    """A memory whose methods can be called with other parameters."""

    def __init__(self, memory):
        super().__init__()
        self.memory = memory

    def forward(self, method, xi, **options):
        return method(self.memory, xi, **options)


def test_learned_beta_finds_the_width_of_the_data():
    memory = HopfieldMemory(3 * X3, beta=1.0, learn_beta=True)
    data = HopfieldMemory(3 * X3, beta=6.0).sample(2000, generator=seeded(3))
    optimizer = torch.optim.Adam(memory.parameters(), lr=0.1)
    for _ in range(150):
        optimizer.zero_grad()
        (-memory.log_density(data).mean()).backward()
        optimizer.step()
    assert abs(float(memory.beta.detach()) - 6.0) < 5 * 6.0 / math.sqrt(
        2000
    )  # the error of a precision from 4,000 numbers


def test_a_beta_that_learning_made_negative_is_an_error():
    memory = HopfieldMemory(X3, beta=1.0, learn_beta=True)
    with torch.no_grad():
        memory.beta.fill_(-0.5)
    with pytest.raises(ValueError, match=r"beta must stay positive while it is learned; it is -0.5"):
        memory(normal(2, 2))


def test_a_tensor_with_a_gradient_is_not_detached_silently():
    beta = torch.tensor(1.0, requires_grad=True) * 2
    with pytest.raises(TypeError, match=r"beta must be a number or an nn.Parameter; .* pass nn.Parameter\(beta\)"):
        HopfieldMemory(X3, beta=beta)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_learned_beta_stays_exact_in_half_precision(dtype):
    memory = HopfieldMemory(X3.float(), beta=2000.7, learn_beta=True)
    beta = memory.beta
    memory.to(dtype)
    assert memory.beta is beta
    assert isinstance(memory.beta, nn.Parameter)
    assert (memory.beta.dtype, float(memory.beta.detach())) == (torch.float32, float(torch.tensor(2000.7)))


def expected_mean(patterns, beta, log_r, direction):
    """E[cos(b·x) + ‖x‖²] of the mixture in two dimensions, in closed form."""
    weights = (log_r + beta / 2 * patterns.square().sum(-1)).softmax(-1)
    waves = (patterns @ direction).cos() * torch.exp(-direction.square().sum() / (2 * beta))
    return (weights * (waves + patterns.square().sum(-1) + 2 / beta)).sum(-1)


@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_gradients_of_draws_are_those_of_the_closed_form(beta):
    """Null: the mean of 300 gradients, each from 400 draws, is the gradient of the expectation in closed form.

    The threshold is 5 standard errors in each of 7 coordinates. Power: without the change of the weights, the worst
    coordinate is off by 18 standard errors at beta = 1 and by 142 at beta = 4.
    """
    memory = HopfieldMemory(X3, beta=beta, log_r=LOG_R3, learn=True, learn_beta=True)
    parameters = (memory.patterns, memory.beta)
    direction, generator = torch.tensor([1.3, -0.7], dtype=torch.float64), seeded(0)

    def gradient(value):
        return torch.cat([g.flatten() for g in torch.autograd.grad(value, parameters)])

    exact = gradient(expected_mean(memory.patterns, memory.beta, memory.log_r, direction))
    found = []
    for _ in range(300):
        x = memory.rsample(400, generator)
        found.append(gradient(((x @ direction).cos() + x.square().sum(-1)).mean()))
    found = torch.stack(found)
    errors = (found.mean(0) - exact) / (found.std(0) / math.sqrt(len(found)))
    assert errors.abs().max() < 5


def test_draws_on_a_line_move_with_their_quantile():
    """In one dimension, a draw x at a level of the distribution F moves by −∂F(x)/∂θ over the density."""
    X, beta = torch.tensor([[0.7], [-1.1], [0.2], [2.5]]).double(), torch.tensor(3.0).double()
    log_r = torch.tensor([0.0, 0.5, -0.3, -6.0]).double().requires_grad_()
    draws = Association(X, beta, log_r).draw(12, seeded(1))
    for x in draws[:, 0]:
        weights = (log_r + beta / 2 * X[:, 0].square()).softmax(-1)
        away = beta.sqrt() * (x.detach() - X[:, 0])
        levels, density = torch.special.ndtr(away), (-away.square() / 2).exp() * (beta / (2 * math.pi)).sqrt()
        (expected,) = torch.autograd.grad(-(weights @ levels) / (weights @ density).detach(), log_r)
        (found,) = torch.autograd.grad(x, log_r, retain_graph=True)
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)


def test_draws_with_gradients_are_the_same_draws():
    memory = batch_of_banks(learn=True, learn_beta=True)
    draws = memory.rsample(50, seeded(2))
    assert draws.requires_grad
    assert torch.equal(draws, memory.sample(50, seeded(2)))
    fixed = batch_of_banks()
    assert not fixed.rsample(50, seeded(2)).requires_grad
    assert torch.equal(fixed.rsample(50, seeded(2)), draws)


def test_gradients_of_draws_stay_finite_where_memories_are_far_apart():
    memory = HopfieldMemory(100 * X3.float(), beta=50.0, log_r=[0.0, -math.inf, 0.0], learn=True, learn_beta=True)
    for part in torch.autograd.grad(memory.rsample(200, seeded()).square().sum(), tuple(memory.parameters())):
        assert part.isfinite().all()
    alone = HopfieldMemory([[1.0, 2.0]], beta=4.0, learn=True)
    assert torch.equal(torch.autograd.grad(alone.rsample(8).sum(), alone.patterns)[0], torch.full((1, 2), 8.0).double())


def test_the_mass_between_two_points():
    low, high = torch.tensor([-1.0, 8.0, -40.0, -3.0]).double(), torch.tensor([1.0, 9.0, -39.0, 50.0]).double()
    expected = [-0.381715, -34.9996, -765.083, -0.00135081]  # log of Φ(high) − Φ(low), by erfc in 30 digits
    torch.testing.assert_close(_log_normal_mass(low, high), torch.tensor(expected).double(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_removed_row_leaves_no_trace(tmp_path, dtype, batch):
    X, V, log_r = normal(*batch, 6, 4), normal(*batch, 6, 2, seed=1), normal(*batch, 6, seed=2)
    memory = HopfieldMemory(X, beta=1.7, log_r=log_r, values=V, learn=True, learn_beta=True).to(dtype)
    left = [0, 1, 3, 5]
    without = memory.remove([2, -2])
    never = HopfieldMemory(
        X[..., left, :], beta=1.7, log_r=log_r[..., left], values=V[..., left, :], learn=True, learn_beta=True
    )
    never.to(dtype)
    xi = normal(3, 4, seed=4).to(dtype)
    assert torch.equal(without(xi), never(xi))
    assert torch.equal(without.log_density(xi), never.log_density(xi))
    assert torch.equal(without.sample(9, seeded()), never.sample(9, seeded()))
    without.save(tmp_path / "without")
    never.save(tmp_path / "never")
    assert (tmp_path / "without").read_bytes() == (tmp_path / "never").read_bytes()
    assert memory.patterns.shape[-2] == 6
    assert without.patterns.data_ptr() != memory.patterns.data_ptr()


def test_rows_are_added_at_the_end():
    X, V = normal(6, 4), normal(6, 2, seed=1)
    log_r = torch.tensor([0.0, 1.0, -math.inf, 0.5, 0.0, -1.0]).double()
    whole = HopfieldMemory(X, beta=1.7, log_r=log_r, values=V)
    first = HopfieldMemory(X[:4], beta=1.7, log_r=log_r[:4], values=V[:4])
    grown = first.add(X[4:], log_r=log_r[4:], values=V[4:])
    assert all(torch.equal(x, grown.state_dict()[name]) for name, x in whole.state_dict().items())
    assert torch.equal(grown.remove([4, 5]).patterns, first.patterns)
    batch = HopfieldMemory(normal(2, 3, 4), beta=torch.tensor([1.0, 2.0])).add(normal(2, 2, 4, seed=1))
    assert batch.patterns.shape == (2, 5, 4)
    assert batch.beta.tolist() == [1.0, 2.0]
    single = HopfieldMemory(X[:4].float(), beta=1.7).add(X[4:])
    assert single.patterns.dtype == torch.float32


@pytest.mark.parametrize("beta", [2.0, nn.Parameter(torch.tensor([0.3, 2000.7]))])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_files_of_a_batch_of_banks(tmp_path, beta, dtype):
    memory = HopfieldMemory(normal(2, 5, 3), beta=copy.deepcopy(beta), log_r=normal(2, 5, seed=1)).to(dtype)
    memory.save(tmp_path / "banks")
    loaded = HopfieldMemory.load(tmp_path / "banks")
    assert repr(loaded) == repr(memory)
    assert isinstance(loaded.beta, nn.Parameter) == isinstance(memory.beta, nn.Parameter)
    assert all(torch.equal(x.double(), loaded.state_dict()[name].double()) for name, x in memory.state_dict().items())
    empty = HopfieldMemory(torch.zeros(2, 5, 3), beta=torch.ones(memory.beta.shape)) if memory.beta.ndim else None
    if empty is not None:
        empty.load_state_dict(memory.state_dict())
        torch.testing.assert_close(empty(normal(4, 3).float()), memory.float()(normal(4, 3).float()))


def test_compiled_without_breaks():
    memory = batch_of_banks(learn=True, learn_beta=True).float()
    xi, mask = normal(7, 4).float(), torch.rand(7, 5, generator=seeded(5)) < 0.7
    mask[:, 0] = True
    for method in METHODS:
        compiled = torch.compile(lambda x, method=method: method(memory, x, mask=mask), backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(xi), method(memory, xi, mask=mask))
    torch.compiler.reset()


def test_compiled_code_turns_automatic_casts_off(monkeypatch):
    memory, xi = HopfieldMemory(X3.float(), beta=2.0), normal(4, 2).float()
    expected = memory.weights(xi)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(memory.weights(xi), expected)


def test_association_is_the_law_of_tensors_with_gradients():
    X = X3.clone().requires_grad_()
    banks = Association(X, torch.tensor(2.0).double())
    (grad,) = torch.autograd.grad(banks.log_density(normal(5, 2)).sum(), X)
    memory = HopfieldMemory(X3, beta=2.0, learn=True)
    memory.log_density(normal(5, 2)).sum().backward()
    torch.testing.assert_close(grad, memory.patterns.grad)


def needs(name, shape):
    return rf"{name} must .*; got .*{shape}"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HopfieldMemory(normal(2, 0, 3), beta=1.0), needs("patterns", r"\(2, 0, 3\)")),
        (lambda: HopfieldMemory(normal(2, 4, 3), beta=1.0, log_r=normal(2)), needs("log_r", r"\(2,\)")),
        (lambda: HopfieldMemory(normal(2, 4, 3), beta=1.0, values=normal(4, 3)), needs("values", r"\(4, 3\)")),
        (lambda: HopfieldMemory(normal(2, 4, 3), beta=normal(3).exp()), needs("beta", r"\(3,\)")),
        (lambda: HopfieldMemory(normal(2, 4, 3), beta=torch.tensor([1.0, -1.0])), "beta must be a positive"),
        (
            lambda: HopfieldMemory(normal(2, 2, 3), beta=1.0, log_r=torch.tensor([[0.0, 0.0], [-math.inf, -math.inf]])),
            r"log_r must leave at least one memory in every bank; bank \(1,\) has only −inf",
        ),
        (lambda: HopfieldMemory(normal(2, 4, 3), beta=1.0)(normal(5, 7, 3)), needs("xi", r"\(5, 7, 3\)")),
        (lambda: HopfieldMemory(X3, beta=1.0)(normal(2, 2), mask=torch.ones(3, 3).bool()), needs("mask", r"\(3, 3\)")),
        (lambda: HopfieldMemory(X3, beta=1.0)(normal(2, 2), tolerance=0.0), "tolerance must be a positive"),
        (lambda: HopfieldMemory(X3, beta=1.0).add(normal(1, 3)), needs("patterns", r"\(1, 3\)")),
        (lambda: HopfieldMemory(X3, beta=1.0).add(normal(1, 2), values=normal(1, 2)), "this one has none"),
        (lambda: HopfieldMemory(X3, beta=1.0).remove([0, 1, 2]), "indices must leave at least one memory; got all K=3"),
        (lambda: HopfieldMemory(X3, beta=1.0).remove([3]), "indices must lie between 0 and 2"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_mask_of_whole_numbers_is_an_error():
    with pytest.raises(TypeError, match=r"mask must be a tensor of booleans .* got torch.int64"):
        HopfieldMemory(X3, beta=1.0)(normal(2, 2), mask=torch.ones(2, 3).long())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.weights(normal(2, 2)), "weights needs all memories in one process"),
        (lambda m: m.rsample(2), "rsample needs all memories"),
        (lambda m: m.add(normal(1, 2)), "add needs all memories"),
        (lambda m: m.remove([0]), "remove needs all memories"),
        (lambda m: m(normal(2, 2), mask=torch.ones(3).bool()), "mask must be left out with a ShardedMemory"),
        (lambda m: m(normal(2, 2), tolerance=1.0), "tolerance must be left out"),
        (lambda m: m.energy(normal(2, 2), mask=torch.ones(3).bool()), "mask must be left out"),
        (lambda m: m.log_density(normal(2, 2), mask=torch.ones(3).bool()), "mask must be left out"),
        (lambda m: HopfieldMemory(m.sharded, learn_beta=True), "learn_beta must be left out with a ShardedMemory"),
        (lambda m: HopfieldMemory(m.sharded, beta=nn.Parameter(torch.ones(()))), "beta must be left out"),
    ],
)
def test_what_a_bank_on_several_ranks_cannot_do(call, message):
    memory = HopfieldMemory(X3, beta=1.0)
    memory.sharded = object.__new__(ShardedMemory)  # without ranks: the checks come before any exchange
    with pytest.raises(ValueError, match=message):
        call(memory)
