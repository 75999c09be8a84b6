"""The example that compares noise in attention with temperature: its measures, its bound, its quick run."""

import importlib
import math
import sys
from itertools import combinations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def example():
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield importlib.import_module("examples.continuations.__main__")
    finally:
        torch.set_num_threads(n_threads)


@pytest.fixture(scope="module")
def model(example):
    return example.small_gpt2(0.2, seed=3)


def prompts(n=4, length=8):
    return torch.randint(96, (n, length), generator=torch.Generator().manual_seed(5))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_quick_run_prints_its_tables_and_draws_its_picture(example, tmp_path, monkeypatch, capsys):
    picture = tmp_path / "new" / "continuations.png"
    monkeypatch.setattr(sys, "argv", ["continuations.py", "--quick", "--out", str(picture)])
    example.main()
    output = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000
    assert "random weights, 0.2: compared with T, in %" in output
    assert "random weights, 0.2: one step" in output
    assert "nan" not in output
    assert "…" not in output  # a truncated column


def test_wrong_options_are_refused(example, monkeypatch, capsys):
    for given in (["--seed", "-1"], ["--out", "picture.txt"]):
        monkeypatch.setattr(sys, "argv", ["continuations.py", *given])
        with pytest.raises(SystemExit, match="2"):
            example.main()
        assert f"{given[0]} must" in capsys.readouterr().err


def test_cost_at_temperature_one_is_the_entropy_of_the_model_on_the_same_prefixes(example, model):
    """Under the null cost − entropy has mean zero given the prefix: its sums over continuations are independent."""
    size = example.Size(continuations=64, length=16)
    z = {}
    for T in (1.0, 0.8):
        tokens = example.continuations(model, prompts(), example.Decoding(T), size, seeded(1))
        with torch.no_grad():
            whole = torch.cat([prompts().repeat_interleave(64, 0), tokens.flatten(0, 1)], 1)
            p = model(whole).logits[:, 7:-1].softmax(-1)
        excess = example.costs(model, prompts(), tokens).flatten(0, 1) + (p * p.log()).sum(-1)
        sums = excess.sum(1).numpy()
        z[T] = sums.mean() / (sums.std(ddof=1) / math.sqrt(len(sums)))
    assert abs(z[1.0]) < 4
    assert z[0.8] < -8  # the test has power: colder sampling costs less than the entropy


def test_continuations_agree_with_generate(example, model):
    way, size = example.Decoding(0.0, 5, 2.0), example.Size(continuations=3, length=6)
    ours = example.continuations(model, prompts(), way, size, seeded(2)).flatten(0, 1)
    rows = prompts().repeat_interleave(3, 0)
    with way.attention(model, seeded(2)):
        theirs = model.generate(rows, attention_mask=torch.ones_like(rows), do_sample=False, max_new_tokens=6)[:, 8:]
    assert torch.equal(ours, theirs)
    assert len(torch.unique(ours[:3], dim=0)) > 1  # continuations of a prompt have independent noise


def test_measures_agree_with_counts_by_hand(example):
    tokens = np.random.default_rng(0).integers(4, size=(2, 5, 12))
    found = example.measure(np.arange(120.0).reshape(2, 5, 12), tokens)
    np.testing.assert_allclose(found.cost, [29.5, 89.5])
    for i, of_prompt in enumerate(tokens.tolist()):
        different = [a != b for x, y in combinations(of_prompt, 2) for a, b in zip(x, y, strict=True)]
        fours = [tuple(x[j : j + 4]) for x in of_prompt for j in range(9)]
        repeated = [x[j : j + 2] in [x[k : k + 2] for k in range(j)] for x in of_prompt for j in range(11)]
        np.testing.assert_allclose(found.distance[i], np.mean(different))
        np.testing.assert_allclose(found.fourgrams[i], len(set(fours)) / len(fours))
        np.testing.assert_allclose(found.repeats[i], np.mean(repeated))


def test_families_are_compared_at_the_cost_of_the_temperature(example):
    figures = importlib.import_module("examples.continuations.diversity")
    family = [figures.Measures(*(np.full(3, v) for v in (x, 0.1 * x, 0.5, 1 - 0.2 * x))) for x in (3.0, 1.0, 2.0)]
    plain = figures.Measures(*(np.full(3, v) for v in (1.5, 0.4, 0.4, 0.4)))
    picks = np.tile(np.arange(3), (2, 1))
    np.testing.assert_allclose(figures.at_equal_cost(plain, family, picks), [[-0.25, 0.1, 0.3]] * 2, atol=1e-12)
    beyond = plain._replace(cost=np.full(3, 3.5))
    assert np.isnan(figures.at_equal_cost(beyond, family, picks)).all()


def test_tempered_distribution_has_the_given_cost_and_the_largest_entropy(example):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(20, 0.5))
    squared = p**2 / (p**2).sum()
    np.testing.assert_allclose(np.exp(example.tempered(np.log(p), -squared @ np.log(p))), squared, rtol=1e-6)
    for q in rng.dirichlet(np.full(20, 0.3), 50):
        best = example.tempered(np.log(p), -q @ np.log(p))
        np.testing.assert_allclose(np.exp(best) @ np.log(p), q @ np.log(p), rtol=1e-8)
        assert -np.exp(best) @ best > -q @ np.log(q + 1e-300)


def test_context_agreement_is_counted_over_pairs(example):
    """By hand: within contexts 1 of 1 and 0 of 1 pairs agree, across contexts 2 of 4."""
    assert example.context_agreement(np.array([[0, 0], [0, 1]])) == pytest.approx((0.5 - 0.5) / 0.5)
    assert example.context_agreement(np.array([[0, 0], [1, 1]])) == 1.0
    assert example.context_agreement(np.array([[2, 2], [2, 2]])) == 0.0


def test_one_step_of_the_plain_model_has_its_distribution(example, model):
    size = example.Size(contexts=2, draws=2)
    law, tokens = example.one_step(model, prompts()[0], example.Decoding(1.0), size, seeded())
    assert tokens.shape == (2, 2)
    with torch.no_grad():
        exact = model(prompts()[:1]).logits[0, -1].softmax(-1)
    np.testing.assert_allclose(law, exact, atol=1e-6)


def test_noise_is_below_the_tempered_curve_and_contexts_agree_unless_only_the_last_layer_is_noisy(example, model):
    """Noise in the last layer does not affect keys or values, so the expected context agreement is zero."""
    study = example.Study("", model, prompts(8), {})
    size = example.Size(contexts=48, draws=8)
    everywhere = example.next_token(study, example.Decoding(0.0, 10, 0.5), size, seeded(1))
    last = example.next_token(study, example.Decoding(0.0, 10, 0.5, layers=(-1,)), size, seeded(1))
    for laws in (everywhere, last):
        assert (laws.entropy <= laws.tempered + 1e-9).all()
        np.testing.assert_allclose(laws.tempered - laws.entropy, laws.divergence, atol=1e-6)
    z = [laws.agreement.mean() / (laws.agreement.std(ddof=1) / math.sqrt(8)) for laws in (everywhere, last)]
    assert last.entropy.mean() > 0.02  # the noise has an effect
    assert z[0] > 4
    assert abs(z[1]) < 4


def test_training_lowers_the_cost_of_held_out_text(example):
    network = importlib.import_module("examples.continuations.model")
    read, kept = network.documentation()
    assert network.CHARACTERS[int(read[0])].isprintable()
    fresh = network.small_gpt2(0.02, seed=0)
    steps = []
    with torch.no_grad():
        before = float(network.cost_per_character(fresh, kept, 8, seeded()))
    network.train(fresh.train(), read, 20, 0, lambda: steps.append(1))
    with torch.no_grad():
        after = float(network.cost_per_character(fresh.eval(), kept, 8, seeded()))
    assert len(steps) == 20
    assert before == pytest.approx(math.log(96), abs=0.1)
    assert after < before - 0.5
