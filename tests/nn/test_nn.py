"""Attention layers of torch: without steps they agree with torch, with steps and noise with the exact law."""

import math
from inspect import signature
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import torch
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from banks import ingredients
from closed_form import Mixture
from stochattn.nn import langevin_states, register, stochastic, stochastic_attention
from stochattn.nn.steps import MIN_FAST_NUMBERS, LangevinSteps, noise_source
from test_law import BETA, CHAINS, require_law


def tensors(*shapes, dtype=torch.float64, seed=0):
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=made, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal_source(like, generator):
    """A function that returns the normals that the next Langevin step would add."""
    add = noise_source(like, generator)
    return lambda: add(torch.zeros_like(like), 1.0)


NUMBERS = torch.randn(2, 1, 7, 9, generator=seeded())
CASES = {
    "plain": ((2, 4, 7, 8), (2, 4, 9, 8), (2, 4, 9, 5), {}),
    "two dimensions": ((7, 8), (9, 8), (9, 5), {}),
    "causal": ((2, 4, 7, 8), (2, 4, 7, 8), (2, 4, 7, 8), {"is_causal": True}),
    "causal, more keys": ((2, 4, 5, 8), (2, 4, 9, 8), (2, 4, 9, 8), {"is_causal": True}),
    "boolean mask": ((2, 4, 7, 8), (2, 4, 9, 8), (2, 4, 9, 8), {"attn_mask": NUMBERS[0, 0] > -0.3}),
    "added mask": ((2, 4, 7, 8), (2, 4, 9, 8), (2, 4, 9, 8), {"attn_mask": NUMBERS}),
    "grouped heads": ((2, 6, 7, 8), (2, 2, 9, 8), (2, 2, 9, 8), {}),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", CASES)
def test_without_steps_it_agrees_with_torch(case, dtype):
    *shapes, options = CASES[case]
    mask = options.get("attn_mask")
    if mask is not None and mask.is_floating_point():
        options = {"attn_mask": mask.to(dtype)}
    ours, theirs = tensors(*shapes, dtype=dtype), tensors(*shapes, dtype=dtype)
    grouped = {"enable_gqa": True} if case == "grouped heads" else {}
    expected, out = torch_attention(*theirs, **options, **grouped), stochastic_attention(*ours, **options)
    assert out.dtype == dtype
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
    for result in (out, expected):
        result.float().square().sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("case", CASES)
def test_steps_agree_with_the_algorithm(case):
    """Algorithm 1 written out for each query, with the softmax in full."""
    *shapes, options = CASES[case]
    q, k, v = (x.detach() for x in tensors(*shapes))
    heads = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    keys, values = (x.repeat_interleave(heads, -3) if heads > 1 else x for x in (k, v))
    bias = torch.zeros(q.shape[-2], k.shape[-2], dtype=q.dtype)
    if options.get("is_causal"):
        bias = bias.masked_fill(torch.ones_like(bias).triu(1) > 0, -math.inf)
    if "attn_mask" in options:
        mask = options["attn_mask"]
        bias = bias.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else mask.double()
    made, xi = seeded(3), q
    for _ in range(4):
        attended = torch.softmax(0.7 * xi @ keys.mT + bias, -1) @ keys
        xi = (
            0.9 * xi
            + 0.1 * attended
            + 0.5 * math.sqrt(0.2 / 0.7) * torch.randn(xi.shape, generator=made, dtype=q.dtype)
        )
    expected = torch.softmax(0.7 * xi @ keys.mT + bias, -1) @ values
    if "attn_mask" in options and options["attn_mask"].dtype == torch.float32:
        options = {"attn_mask": options["attn_mask"].double()}
    settings = {"beta": 0.7, "n_steps": 4, "alpha": 0.1, "noise": 0.5, **options}
    torch.testing.assert_close(stochastic_attention(q, k, v, generator=seeded(3), **settings), expected)


@pytest.mark.parametrize("kind", ["unit", "unequal"])
def test_many_steps_follow_the_exact_law_of_the_keys(kind):
    keys = torch.tensor(ingredients(kind)[0])
    start = torch.tensor(Mixture.from_ingredients(*ingredients(kind), BETA).draw(CHAINS, seed=2))
    require_law(langevin_states(start, keys, beta=BETA, n_steps=300, alpha=0.01, generator=seeded(1)), kind)


def test_later_keys_do_not_move_earlier_positions():
    q, k, v = (x.detach() for x in tensors(*[(2, 3, 6, 8)] * 3))
    out = [stochastic_attention(q, k, v, n_steps=3, is_causal=True, generator=seeded(1))]
    k, v = k.clone(), v.clone()
    k[..., 4, :] += 100.0
    v[..., 4, :] = 7.0
    out.append(stochastic_attention(q, k, v, n_steps=3, is_causal=True, generator=seeded(1)))
    assert torch.equal(out[0][..., :4, :], out[1][..., :4, :])
    assert not torch.allclose(out[0][..., 4:, :], out[1][..., 4:, :])


@pytest.mark.parametrize("n_steps", [0, 2])
@pytest.mark.parametrize("additive", [False, True])
def test_a_query_without_visible_keys_returns_zeros(n_steps, additive):
    q, k, v = tensors((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4))
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1] = False
    if additive:
        mask = torch.zeros(3, 5, dtype=q.dtype).masked_fill(~mask, -math.inf)
    out = stochastic_attention(q, k, v, n_steps=n_steps, attn_mask=mask, generator=seeded())
    assert torch.equal(out[..., 1, :], torch.zeros_like(out[..., 1, :]))
    assert torch.isfinite(out).all()
    out.sum().backward()
    assert torch.isfinite(q.grad).all()
    assert torch.isfinite(k.grad).all()


def test_the_same_generator_gives_the_same_output():
    q, k, v = tensors(*[(2, 5, 4)] * 3)
    first, again, other = (stochastic_attention(q, k, v, n_steps=3, generator=seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    still = stochastic_attention(q, k, v, n_steps=3, noise=0.0)
    assert torch.equal(still, stochastic_attention(q, k, v, n_steps=3, noise=0.0))


def test_gradients_are_correct():
    shapes = ((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 3))
    call = lambda *x: stochastic_attention(*x, n_steps=3, alpha=0.2, generator=seeded(4))  # noqa: E731
    assert torch.autograd.gradcheck(call, tensors(*shapes))


def test_half_precision_takes_its_steps_in_float32():
    q, k, v = (x.detach() for x in tensors(*[(1, 2, 6, 8)] * 3))
    exact = stochastic_attention(q.bfloat16().float(), k.bfloat16().float(), v.bfloat16().float(), n_steps=200,
                                 generator=seeded(1))  # fmt: skip
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = stochastic_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), n_steps=200, generator=seeded(1))
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), exact, rtol=1e-2, atol=1e-2)


Q, K, V = (torch.zeros(2, 4, n, 8) for n in (3, 5, 5))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((np.zeros((3, 8)), K, V), {}, TypeError, "query must be a tensor of real numbers, .* got ndarray"),
        ((Q, K.long(), V), {}, TypeError, "key must be a tensor of real numbers, .* got torch.int64"),
        ((Q, K[..., :7], V), {}, ValueError, "key must have the width of query, 8, .* got 7"),
        ((Q, K, V[..., :4, :]), {}, ValueError, r"value must be \(..., S, v\) beside key"),
        ((Q, K[:, :3], V[:, :3]), {}, ValueError, "query must have the leading dimensions of key, up to"),
        ((Q[:1].expand(3, -1, -1, -1), K, V), {"n_steps": 1}, ValueError, "query must have the leading dimensions of"),
        ((Q, K, V), {"n_steps": 1, "generator": 7}, TypeError, "generator must be a torch.Generator or None; got int"),
        ((Q, K, V), {"attn_mask": torch.ones(5) > 0}, ValueError, r"attn_mask must broadcast to .* got \(5,\)"),
        ((Q[..., :0], K[..., :0], V), {}, TypeError, r"query must be a tensor of real numbers.* \(2, 4, 3, 0\)"),
        ((Q, K, V), {"dropout_p": 1.5}, ValueError, "dropout_p must lie between 0 and 1; got 1.5"),
        ((Q, K, V), {"n_steps": -1}, ValueError, "n_steps must be at least 0; got -1"),
        ((Q, K, V), {"n_steps": 1.5}, TypeError, "n_steps must be an integer"),
        ((Q, K, V), {"alpha": 1.0, "n_steps": 1}, ValueError, "alpha must lie strictly between 0 and 1; got 1.0"),
        ((Q, K, V), {"noise": -1.0, "n_steps": 1}, ValueError, "noise must be a finite number, zero or more"),
        ((Q, K, V), {"beta": 0.0}, ValueError, "beta must be a positive, finite number; got 0.0"),
        (
            (Q, K, V),
            {"attn_mask": torch.ones(3, 4) > 0},
            ValueError,
            r"attn_mask must broadcast to the logits, \(2, 4, 3, 5\)",
        ),
        ((Q, K, V), {"attn_mask": torch.ones(3, 5).long()}, TypeError, "attn_mask must be a tensor of booleans"),
        ((Q, K, V), {"attn_mask": torch.ones(3, 5) > 0, "is_causal": True}, ValueError, "attn_mask must be None if"),
    ],
)
def test_bad_input(arguments, options, error, message):
    with pytest.raises(error, match=message):
        stochastic_attention(*arguments, **options)


@pytest.mark.parametrize("function", [stochastic_attention, langevin_states, stochastic, register])
def test_functions_have_the_defaults_of_the_steps(function):
    given = {name: one.default for name, one in signature(function).parameters.items()}
    defaults = vars(LangevinSteps())
    assert all(given[name] == default for name, default in defaults.items() if name != "n_steps")


def test_a_misspelt_option_names_the_function():
    with pytest.raises(TypeError, match=r"langevin_states\(\) got an unexpected keyword argument 'alhpa'"):
        langevin_states(Q, K, alhpa=0.1)


@pytest.mark.parametrize("size", [MIN_FAST_NUMBERS, 4 * MIN_FAST_NUMBERS + 1])
def test_fast_normals_are_normal(size):
    """Kolmogorov's distance of 2 million numbers is below 1.95/√n at 0.1 %: an error of 0.2 % in scale fails.

    About 127 are expected beyond 4, and 14 beyond 4.5, where 24 bits have an effect; counts are Poisson.
    """
    draw = normal_source(torch.empty(size), seeded(5))
    numbers = np.concatenate([draw().numpy().copy() for _ in range(2**21 // size + 1)]).astype(float)
    assert numbers.shape[0] >= 2**21
    assert scipy.stats.kstest(numbers, "norm").statistic < 1.95 / math.sqrt(len(numbers))
    for bound in (3.0, 4.0, 4.5):
        expected = 2 * scipy.stats.norm.sf(bound) * len(numbers)
        assert abs((abs(numbers) > bound).sum() - expected) < 4 * math.sqrt(expected)
    assert np.isfinite(numbers).all()
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 4 / math.sqrt(len(numbers))


def test_fast_normals_depend_on_their_generator():
    like, sources = torch.empty(4, MIN_FAST_NUMBERS), [seeded(s) for s in (1, 1, 2)]
    first, same, other = (normal_source(like, source) for source in sources)
    numbers = first().clone()
    assert torch.equal(numbers, same())
    assert torch.equal(first(), same())
    assert not torch.equal(numbers, first())
    assert not torch.allclose(numbers, other())
    again = normal_source(like, sources[0])  # the generator has advanced
    assert not torch.allclose(numbers, again())


def test_fast_normals_have_a_seed_of_128_bits(monkeypatch):
    seeds, own = [], np.random.SFC64
    monkeypatch.setattr(np.random, "SFC64", lambda seed: seeds.append(seed) or own(seed))
    for number in range(20):
        normal_source(torch.empty(MIN_FAST_NUMBERS), seeded(number))
    words = np.array(seeds)
    assert words.shape == (20, 4)
    assert 2**31 < words.max() < 2**32
    assert (words > 2**31).mean() == pytest.approx(0.5, abs=0.25)  # 80 words: 4.5 standard errors


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_fast_normals_do_not_depend_on_the_number_of_threads(mode):
    """With two threads, the bits of the next step are drawn ahead."""
    found, kept = {}, torch.get_num_threads()
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            with mode():
                like = torch.zeros(2 * MIN_FAST_NUMBERS - 1)
                add = noise_source(like, seeded(5), n_steps=3)
                found[n_threads] = [add(torch.zeros_like(like), 1.0) for _ in range(4)]  # one more than was announced
    finally:
        torch.set_num_threads(kept)
    assert all(torch.equal(one, other) for one, other in zip(found[1], found[2], strict=True))
    assert not torch.allclose(found[1][0], found[1][1])


def test_the_ends_of_the_fast_normals_are_finite(monkeypatch):
    ends = np.array([2**31 - 1, -(2**31)], np.int32).view(np.uint64)
    monkeypatch.setattr(np.random, "SFC64", lambda seed: SimpleNamespace(random_raw=lambda n: np.repeat(ends, n)))
    found = normal_source(torch.empty(MIN_FAST_NUMBERS), None)()
    assert found.abs().max() == pytest.approx(scipy.stats.norm.isf(2.0**-25), rel=1e-3)
    assert found.abs().min() == pytest.approx(scipy.stats.norm.isf(2.0**-25), rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_fast_normals_do_not_depend_on_torch_s_defaults(dtype):
    expected = normal_source(torch.empty(MIN_FAST_NUMBERS), seeded(1))().clone()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            like = torch.empty(MIN_FAST_NUMBERS, dtype=torch.float32, device="cpu")
            found = normal_source(like, torch.Generator("cpu").manual_seed(1))()
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("n_steps", [0, 2])
def test_the_dtype_agrees_with_torch(n_steps):
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        q = torch.randn(2, 3, 5, 4, dtype=dtype)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert stochastic_attention(q, q, q, n_steps=n_steps).dtype == torch_attention(q, q, q).dtype
        assert stochastic_attention(q, q, q, n_steps=n_steps).dtype == dtype


@pytest.mark.parametrize("n_steps", [0, 2])
@pytest.mark.parametrize("shape", [(0, 3, 5, 4), (2, 0, 5, 4), (2, 3, 0, 4)])
def test_empty_inputs_give_empty_outputs(shape, n_steps):
    q = torch.zeros(shape)
    assert stochastic_attention(q, q, q, n_steps=n_steps).shape == shape
    assert langevin_states(q, q, n_steps=n_steps).shape == shape


@pytest.mark.parametrize("n_steps", [0, 2])
def test_attention_without_keys(n_steps):
    q, k, v = torch.ones(2, 3, 4), torch.ones(2, 0, 4), torch.ones(2, 0, 5)
    assert torch.equal(stochastic_attention(q, k, v, n_steps=n_steps), torch.zeros(2, 3, 5))
    assert torch.equal(langevin_states(q, k, n_steps=n_steps), q)


def test_shapes_without_numbers():
    q = torch.empty(2, 3, 5, 4, device="meta")
    assert stochastic_attention(q, q, q, n_steps=2).shape == (2, 3, 5, 4)
    many = torch.empty(MIN_FAST_NUMBERS, 1, device="meta")
    assert langevin_states(many, many[:3], n_steps=2).shape == many.shape


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_traced_function_draws_new_noise():
    q = torch.zeros(MIN_FAST_NUMBERS, 1)
    traced = torch.jit.trace(lambda q: langevin_states(q, q[:3], n_steps=1), q, check_trace=False)
    assert not torch.equal(traced(q), traced(q))


def test_heads_share_keys_without_a_batch():
    q, k = (torch.randn(shape, generator=seeded(i)) for i, shape in enumerate(((4, 5, 8), (2, 7, 8))))
    found = stochastic_attention(q, k, k, n_steps=2, alpha=0.3, noise=0.0)
    expected = stochastic_attention(q[None], k[None], k[None], n_steps=2, alpha=0.3, noise=0.0)[0]
    torch.testing.assert_close(found, expected)
    each = stochastic_attention(q, *(k.repeat_interleave(2, 0),) * 2, n_steps=2, alpha=0.3, noise=0.0)
    torch.testing.assert_close(found, each)


def test_states_are_not_the_queries():
    q = torch.zeros(3, 4)
    langevin_states(q, q, n_steps=0).add_(1)
    assert not q.any()


def test_queries_are_not_overwritten():
    q, k, v = torch.randn(3, 2, 4, 64, 128, generator=seeded())
    kept = [x.clone() for x in (q, k, v)]
    stochastic_attention(q, k, v, n_steps=3)
    assert all(torch.equal(x, y) for x, y in zip((q, k, v), kept, strict=True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # warnings of torch during compilation
def test_compiled_for_any_length():
    torch.compiler.reset()
    compiled = torch.compile(stochastic_attention, backend="aot_eager", fullgraph=True)
    for length in (5, 7, 9):
        q, k, v = torch.randn(3, 2, length, 8, generator=seeded())
        still = {"n_steps": 3, "noise": 0.0, "is_causal": True}
        torch.testing.assert_close(compiled(q, k, v, **still), stochastic_attention(q, k, v, **still))
        assert not torch.allclose(*(compiled(q, k, v, n_steps=3, is_causal=True) for _ in range(2)))
    torch.compiler.reset()


@pytest.mark.parametrize("beta", [np.array(0.3), np.float32(0.3), torch.tensor([0.3])])
def test_beta_may_be_any_number(beta):
    q, k, v = torch.randn(3, 2, 5, 8, generator=seeded())
    out = stochastic_attention(q, k, v, beta=beta, n_steps=2, generator=seeded(1))
    torch.testing.assert_close(out, stochastic_attention(q, k, v, beta=0.3, n_steps=2, generator=seeded(1)))


@pytest.mark.parametrize("length", [5, 600])  # 600 x 64 numbers are generated in the fast way outside vmap
@pytest.mark.parametrize("masked", [False, True])
def test_vmap_gives_each_row_its_own_noise(length, masked):
    q, k, v = torch.randn(3, 2, length, 64, generator=seeded())
    q, k, v = (torch.stack([x[0], x[0]]) for x in (q, k, v))  # two equal rows
    masks = torch.rand(2, length, length, generator=seeded(1)) > 0.3 if masked else None

    def row(q, k, v, mask):
        return stochastic_attention(q, k, v, mask, n_steps=2, generator=seeded(3))

    where = (0, 0, 0, 0 if masked else None)
    out = torch.func.vmap(row, where, randomness="different")(q, k, v, masks)
    assert not torch.allclose(out[0], out[1])
    same = torch.func.vmap(row, where, randomness="same")(q, k, v, masks)
    if not masked:
        assert torch.equal(same[0], same[1])
    with pytest.raises(RuntimeError, match="randomness"):
        torch.func.vmap(row, where)(q, k, v, masks)

    def still(q, k, v, mask):
        return stochastic_attention(q, k, v, mask, n_steps=2, noise=0.0)

    expected = torch.stack([still(q[i], k[i], v[i], masks[i] if masked else None) for i in range(2)])
    torch.testing.assert_close(torch.func.vmap(still, where)(q, k, v, masks), expected)


def test_leading_dimensions_broadcast_as_in_torch():
    shapes = [
        ((1, 4), (2, 4)),
        ((2, 1), (2, 4)),
        ((), (2, 4)),
        ((1,), (2,)),
        ((4,), (2, 4)),
        ((2, 4), ()),
        ((2, 4), (4,)),
    ]
    for of_query, of_key in shapes:
        inputs = ((of_query, 3), (of_key, 5), (of_key, 5))
        q, k, v = (torch.randn(*lead, n, 8, generator=seeded(n)) for lead, n in inputs)
        torch.testing.assert_close(stochastic_attention(q, k, v), torch_attention(q, k, v))
        out = stochastic_attention(q, k, v, n_steps=1, generator=seeded())
        assert out.shape in ((2, 4, 3, 8), (2, 3, 8))
        flat = out.flatten(0, -3)
        assert not any(torch.allclose(one, other) for i, one in enumerate(flat) for other in flat[:i])
        states = langevin_states(q, k, n_steps=2, noise=0.0, alpha=0.3)
        assert states.shape == (*out.shape[:-1], 8)
        expanded = q.expand(*out.shape[:-2], 3, 8)
        kept = k.expand(*out.shape[:-2], 5, 8)
        torch.testing.assert_close(states, langevin_states(expanded, kept, n_steps=2, noise=0.0, alpha=0.3))


def test_a_query_shared_by_the_batch_has_its_own_fast_noise_in_each_row():
    q, k = torch.randn(1, 4, 128, 64, generator=seeded()), torch.randn(3, 4, 1, 64, generator=seeded(1))
    assert q.numel() == MIN_FAST_NUMBERS
    states = langevin_states(q, k[:1].expand(3, -1, -1, -1), n_steps=1, generator=seeded(2))
    assert not torch.allclose(states[0], states[1])
