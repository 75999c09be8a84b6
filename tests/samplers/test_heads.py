"""Multi-head: splitting, joining, and the law of each head."""

import inspect

import numpy as np
import pytest

import stochattn as sa
from banks import make_bank
from closed_form import Mixture, z_score
from stochattn import multihead as heads


def test_pca_heads_split_and_join(library):
    bank = make_bank("unequal", library)
    split = heads.pca(bank, 2)
    assert [b.d for b in split.banks] == [2, 2]  # five memories span four centred dimensions
    np.testing.assert_allclose(split.join(split.split(bank.patterns)), bank.patterns, atol=1e-12)
    np.testing.assert_allclose(split.join([b.patterns for b in split.banks]), bank.patterns, atol=1e-12)
    X = np.asarray(bank.patterns)
    variances = [float(np.var(np.asarray(b.patterns), axis=0).sum()) for b in split.banks]
    assert variances[0] > variances[1]
    assert sum(variances) == pytest.approx(X.var(axis=0).sum())
    assert "2 heads over K=5 memories, d=12, widths 2, 2" in repr(split)


def test_the_heads_of_the_paper():
    """Uncentred memories, unit norm per head, mean added at the output; min(K, d) components."""
    bank = make_bank("unit")
    split = heads.pca(bank, 5, norms="paper")
    X = bank.patterns
    components = np.linalg.svd(X - X.mean(0), full_matrices=False)[2]
    components *= np.sign([row[np.argmax(np.abs(row))] for row in components])[:, None]  # on any machine
    for h, head in enumerate(split.banks):
        np.testing.assert_allclose(np.abs(head.patterns), 1)  # one dimension each: ±1
        np.testing.assert_allclose(head.patterns[:, 0], np.sign(X @ components[h]) * np.ones(5), atol=1e-9)
    np.testing.assert_allclose(split.split(X)[0][:, 0], X @ components[0], atol=1e-12)
    z = [np.full((1, 1), float(h)) for h in range(5)]
    np.testing.assert_allclose(split.join(z)[0], X.mean(0) + np.arange(5.0) @ components, atol=1e-12)


def test_own_projections(library):
    bank = make_bank("weights", library)
    rng = np.random.default_rng(0)
    W = [rng.standard_normal((7, 12)), rng.standard_normal((5, 12))]
    split = heads.projected(bank, W)
    np.testing.assert_allclose(split.join(split.split(bank.patterns)), bank.patterns, atol=1e-9)
    np.testing.assert_array_equal(split.banks[0].log_r, bank.log_r)
    output = rng.standard_normal((12, 12))
    own = heads.projected(bank, W, output)
    expected = np.asarray(bank.patterns) @ np.vstack(W).T @ output.T
    np.testing.assert_allclose(own.join(own.split(bank.patterns)), expected, rtol=1e-10, atol=1e-10)


def test_heads_are_sampled_independently_from_their_own_law():
    bank, beta = make_bank("weights"), 10.0
    split = heads.pca(bank, 2)
    x = split.sample(20_000, beta, rng=0)
    parts = [p - 0 for p in split.split(x)]
    for head, z in zip(split.banks, parts, strict=True):
        law = Mixture.of(head, beta)
        for a in np.eye(2):
            mean, second = law.projection_moments(a)
            assert abs(z_score(z @ a, mean)) < 5
            assert abs(z_score((z @ a) ** 2, second)) < 5
    # the memories of two heads are independent
    centred = [z[:, 0] - z[:, 0].mean() for z in parts]
    correlation = (centred[0] * centred[1]).mean() / (centred[0].std() * centred[1].std())
    assert abs(correlation) < 5 / np.sqrt(20_000)


@pytest.mark.parametrize("start", ["memories", "equilibrium", "sphere"])
def test_runs(library, start):
    split = heads.pca(make_bank("unit", library), 2)
    options = {"sampler": "mala", "n_chains": 3, "n_steps": 20, "warmup": 0, "thin": 10, "rng": 0, "start": start}
    draws = split.run(8.0, **options)
    assert tuple(draws.samples.shape) == (3, 2, 12)
    assert len(draws.per_head) == 2
    np.testing.assert_array_equal(draws.samples, split.run(8.0, **options).samples)
    assert "2 heads, 3 chains x 2 kept, d=12" in repr(draws)


def test_heads_start_together_from_one_memory():
    bank = make_bank("unit")
    draws = heads.pca(bank, 2).run(
        50.0, n_chains=4, n_steps=1, keep=[1], alpha=1e-12, start=[3, 1, 0, 2], sigma_init=0.0, rng=0
    )
    np.testing.assert_allclose(draws.samples[:, 0], bank.patterns[[3, 1, 0, 2]], atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: heads.pca(b, 0), "n_heads must be at least 1"),
        (lambda b: heads.pca(b, 9), "n_heads must be at most the number of components, 4"),
        (lambda b: heads.pca(b, 1, n_components=6), r"n_components must be at most min\(K, d\) = 5"),
        (lambda b: heads.pca(b, 2, norms="unit"), "norms must be one of 'kept', 'paper'"),
        (lambda b: heads.projected(b, []), "at least one matrix"),
        (lambda b: heads.projected(b, [np.eye(3)]), r"\(d_h, d=12\); got shape \(3, 3\)"),
        (lambda b: heads.projected(b, [np.ones(12)]), r"\(d_h, d=12\); got shape \(12,\)"),
        (lambda b: heads.projected(b, [np.eye(12)], np.eye(3)), "output must be"),
        (lambda b: heads.pca(b, 2).join([np.zeros((1, 2))]), "each of the 2 heads; got 1"),
        (lambda b: heads.pca(b, 2).sample(0, 1.0), "n must be at least 1"),
        (lambda b: heads.pca(b, 2).run(0.0), "beta must be"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(make_bank("unit"))


def test_a_misspelt_option_is_an_error():
    with pytest.raises(TypeError, match="run has no argument 'n_chain'"):
        heads.pca(make_bank("unit"), 2).run(3.0, n_chain=2)
    assert list(inspect.signature(heads.Heads.run).parameters)[1:5] == ["beta", "n_chains", "start", "rng"]


def test_one_head_with_all_components_is_the_bank_again():
    """A single head has the rotated centred memories."""
    bank = make_bank("unequal")
    split = heads.pca(bank, 1)
    np.testing.assert_allclose(
        split.banks[0].gram, sa.MemoryBank(bank.patterns - bank.patterns.mean(0)).gram, atol=1e-12
    )


def test_a_chain_of_heads_is_the_same_alone_or_among_others():
    """Equal up to rounding: chains are bit-identical, splitting and joining are not."""
    split = heads.pca(make_bank("unit"), 2)
    options = {"n_steps": 20, "warmup": 0, "thin": 10, "rng": 0}
    among = split.run(8.0, n_chains=6, **options)
    alone = split.run(8.0, n_chains=1, first_chain=3, **options)
    np.testing.assert_allclose(alone.samples[0], among.samples[3], rtol=1e-10)


def test_heads_anneal():
    split = heads.pca(make_bank("unit"), 2)
    draws = split.run(np.geomspace(1.0, 50.0, 20), n_chains=2, n_steps=20, keep=[20], rng=0)
    assert draws.per_head[0].settings.beta[-1] == pytest.approx(50)


def test_heads_start_together_near_the_memories():
    bank = make_bank("unit")
    draws = heads.pca(bank, 2).run(50.0, n_steps=1, keep=[1], alpha=1e-12, sigma_init=0.0, rng=0)
    assert len(draws.samples) == sa.run(bank, 50.0, n_steps=1, keep=[1]).settings.n_chains
    gaps = np.abs(draws.samples[:, 0][:, None] - bank.patterns).max(-1)
    assert gaps.min(1).max() < 1e-5


def test_equal_memories_have_no_principal_components():
    with pytest.raises(ValueError, match="n_components must be at least 1"):
        heads.pca(sa.MemoryBank(np.ones((3, 4))), 1)
