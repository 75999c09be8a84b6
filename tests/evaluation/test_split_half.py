"""Split-half validation, where the answer is known."""

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from report import made
from stochattn._backend.random import Purpose, generator
from stochattn.core.neighbors import spaced_indices
from stochattn.evaluation import held_out_metrics, split_half
from stochattn.evaluation.split_half import (
    HeldOutMetrics,
    SplitHalfResult,
    SplitMetrics,
    limit_items,
    split_half_validation,
)


def table(values, **options):
    """A synthesizer of a table of numbers, with columns a, b, …"""
    frame = pd.DataFrame(values, columns=list("abcdefgh")[: values.shape[1]])
    return sa.fit(frame, "table", **options)


def test_draws_at_a_large_beta_reveal_every_source_that_was_drawn():
    """Forty draws miss a member of a half of fifteen with probability (14/15)^40, and it cannot be detected then.

    The number missed has a standard deviation below 1.4 per split, so the mean AUC of ten splits one of some 0.016.
    """
    synth = made.proteins(np.random.default_rng(2).integers(0, 20, (30, 25)), generator="hopfield", beta=1e5)
    found = split_half_validation(synth, 40, seed=0)
    assert (len(found.splits), found.n_items) == (10, 30)
    assert found.membership_auc == pytest.approx(1 - (14 / 15) ** 40 / 2, abs=0.05)


def test_draws_of_a_gaussian_reveal_nothing():
    """At a very small beta, and with the spread kept, draws follow a Gaussian that 150 rows of 2 columns hardly shape.

    AUC of ten splits: the standard error of one is √(1/(6·150)) = 0.033 under chance, so 0.57 is two of them.
    """
    synth = table(np.random.default_rng(3).normal(size=(300, 2)), beta=1e-3)
    assert abs(split_half_validation(synth, 40, seed=0).membership_auc - 0.5) < 0.07


@pytest.mark.parametrize("options", [{}, {"beta": "knee"}, {"beta": 40.0}, {"novelty": 0.2}])
def test_the_same_rule_is_applied_to_each_half(monkeypatch, options):
    seen = []
    synth = made.synth("protein", K=20, generator="hopfield", **options)
    fit = type(synth.kind).fit_generator

    def recording(kind, name, codec, weights, chosen):
        seen.append((codec.K, name, {key: getattr(chosen, key) for key in ("beta", "novelty")}))
        return fit(kind, name, codec, weights, chosen)

    synth.generator  # noqa: B018  # fitted before
    monkeypatch.setattr(type(synth.kind), "fit_generator", recording)
    split_half_validation(synth, 40, seed=0)
    assert seen == [(10, "hopfield", {"beta": None, "novelty": None, **options})] * 10


def test_the_beta_of_all_items_is_used_if_a_rule_fails_on_a_half():
    """If most items are duplicates, the rule fails on some halves and works on others."""
    rng = np.random.default_rng(4)
    values = np.repeat(rng.normal(size=(8, 3)), [1, 1, 1, 1, 1, 1, 3, 3], axis=0)
    synth = table(values, generator="hopfield")
    betas = []

    def attempt(indices):
        try:
            synth.refit(indices).describe()
        except ValueError:
            betas.append(split_half._refit_half(synth, indices, {}).describe().temperature.beta)

    for seed in range(80):
        attempt(np.sort(np.random.default_rng(seed).permutation(len(values))[:6]))
    assert betas
    assert set(betas) == {synth.describe().temperature.beta}


def test_chains_are_validated_with_exact_draws():
    exact, chains = (made.synth("table", generator="hopfield", sampler=name) for name in ("exact", "ula"))
    assert split_half_validation(exact, 30, seed=0) == split_half_validation(chains, 30, seed=0)


def test_same_seed_same_result():
    synth = made.synth("table", generator="hopfield")
    first = split_half_validation(synth, 40, seed=4)
    assert first == split_half_validation(synth, 40, seed=4)
    assert first != split_half_validation(synth, 40, seed=5)


def test_too_few_items_are_not_split():
    found = split_half_validation(made.synth("protein", K=7), 40, seed=0)
    assert found.splits == ()
    assert np.isnan([found.membership_auc, found.membership_auc_std, found.train_proximity]).all()
    assert "at least 8 stored sequences" in found.reason
    assert repr(found).startswith("no split-half validation: it needs at least 8")


def test_windows_that_are_split_share_no_day():
    rng = np.random.default_rng(5)
    synth = made.returns(0.01 * rng.normal(size=(50, 3)), list("abc"), window=4)
    K = synth.codec.K
    days = synth.kind.measures.non_overlapping(synth.codec, np.arange(K))
    assert (np.diff(days) >= 4).all()
    assert split_half_validation(synth, 40, seed=0).n_items == len(days) == 12


def test_work_is_bounded_for_any_size():
    assert limit_items(60, 100, 10) == 60
    assert limit_items(10**6, 20, 5) == 1000
    assert 20 <= limit_items(10**6, 10**6, 5) < 100
    assert limit_items(12, 10**9, 5) == 12


def test_more_draws_reveal_more():
    """With a hundred times as many draws, nearly every stored item has a draw close to it."""
    synth = made.synth("table", K=40, generator="hopfield")
    few, many = (split_half_validation(synth, n, seed=0) for n in (20, 2000))
    assert (few.n_draws, many.n_draws) == (20, 2000)
    assert many.membership_auc > few.membership_auc + 0.02


def split_by_hand(synth, rng):
    """The synthesizer of one half of 30 items, 20 items that it draws, and the items of both halves."""
    order = rng.permutation(30)
    half = synth.refit(np.sort(order[:15]))
    drawn = half.generator.sample(20, generator(int(rng.integers(2**62)), Purpose.DRAW, 0))
    halves = (synth.codec.take(synth.codec.stored, np.sort(part)) for part in (order[:15], order[15:]))
    return half, half.codec.decode(drawn.values, drawn.source), *halves


@pytest.mark.parametrize("options", [{"generator": "hopfield", "beta": 50.0}, {}])
def test_one_split_by_hand(options):
    """One split computed by hand: the same fitted half, draws and held-out half."""
    synth = made.synth("table", K=30, **options)
    found = split_half_validation(synth, 20, seed=3)
    assert len(found.splits) == (10 if options else 5)  # generators other than hopfield take longer to fit
    rng = np.random.default_rng([3, 0])
    half, items, inside, outside = split_by_hand(synth, rng)
    assert half.choice.name == synth.choice.name
    assert found.splits[0].metrics == held_out_metrics(
        *(half.codec.features(some) for some in (items, inside, outside))
    )
    reference = synth.codec.refit(outside)
    assert found.splits[0].new == synth.kind.measures.compare(reference, items).measures
    assert found.splits[0].stored == synth.kind.measures.compare(reference, inside).measures


def test_the_fitted_half_is_compared_by_as_many_items_as_are_drawn():
    """Few draws differ from held-out items by chance; so do as few of the fitted half."""
    synth = made.synth("table", K=60, generator="hopfield", beta=50.0)
    (*_, found) = split_half_validation(synth, 10, seed=3).splits
    order = np.random.default_rng([3, 9]).permutation(60)
    inside, outside = (synth.codec.take(synth.codec.stored, np.sort(part)) for part in (order[:30], order[30:]))
    as_many = synth.codec.take(inside, spaced_indices(30, 10))
    compare, reference = synth.kind.measures.compare, synth.codec.refit(outside)
    assert found.stored == compare(reference, as_many).measures != compare(reference, inside).measures


def test_a_split_draws_with_a_seed_of_its_own():
    """The seed has 62 bits, and comes after the permutation of the items."""
    synth = made.synth("table", K=30, generator="hopfield", beta=50.0)
    found = split_half._evaluate_split(split_half._SplitTask(synth, np.arange(30), 20, 3, None, {}), 2, classify=False)
    rng = np.random.default_rng([3, 2])
    half, new, inside, outside = split_by_hand(synth, rng)
    assert found.metrics == held_out_metrics(*(half.codec.features(some) for some in (new, inside, outside)))
    parts = synth.kind.measures.compare(synth.codec.refit(outside), new).distance
    assert found.fidelity.scores["distance of the parts"][::2] == (parts, 1.0)


def test_few_values_are_split_ten_times(monkeypatch):
    synth = made.synth("table", generator="hopfield")
    n_values = 24 * split_half.count_features(synth.codec)
    for limit, n_splits in ((n_values, 10), (n_values - 1, 5)):
        monkeypatch.setattr(split_half, "MAX_QUICK_VALUES", limit)
        assert split_half.count_splits(synth) == n_splits


def test_pictures_have_the_class_of_the_stored_one_that_they_were_drawn_around():
    synth, source = made.synth("image", generator="hopfield"), np.array([2, 0])
    pictures, classes = synth.codec.stored[:2], np.array(["a", "b", "c"])
    assert split_half._find_labels(synth, pictures, source, classes).tolist() == ["c", "a"]
    assert split_half._find_labels(synth, pictures, None, classes) is None
    assert split_half._find_labels(synth, pictures, source, None) is None


def test_weights_and_conditions_are_ignored():
    synth = made.synth("table", K=30)
    conditioned = made.change_fit(synth.condition({"whole": 40}), weights=np.arange(1.0, 31.0))
    assert split_half_validation(conditioned, 20, seed=0) == split_half_validation(synth, 20, seed=0)


def test_copies_are_close_to_their_half_and_a_gaussian_is_not():
    values = np.random.default_rng(6).normal(size=(200, 3))
    cold, hot = (split_half_validation(table(values, beta=beta), 200, seed=0) for beta in (1e6, 1e-3))
    assert cold.train_proximity == 1.0
    # 10 splits of 100 against 100: the share's standard error is at most 0.05 per split, by chance 0.5
    assert hot.train_proximity == pytest.approx(0.5, abs=0.05)


def test_repr_lists_metrics_with_their_ideals():
    synth = table(np.random.default_rng(7).normal(size=(40, 3)), beta=1e6)
    lines = repr(synth.evaluate(40)).splitlines()
    assert lines[0] == "10 random splits of 40 items into halves, 40 draws from each; mean ± sd (ideal)"
    assert "train_proximity  1.00 ± 0.00 (0.5)" in lines
    assert len(lines) == 7


def test_repr_has_the_ideal_of_every_metric():
    metrics = (HeldOutMetrics(*values) for values in ((0.5, 1.5, 0.02, 0.6, 0.4), (0.7, 0.5, 0.04, 0.6, 0.2)))
    splits = tuple(SplitMetrics(one, auc, (), ()) for one, auc in zip(metrics, (0.5, 0.7), strict=True))
    assert repr(SplitHalfResult(splits, 8, n_draws=5)).splitlines()[1:] == [
        "train_proximity  0.60 ± 0.10 (0.5)",
        "novelty_ratio    1.00 ± 0.50 (1)",
        "near_copies      0.03 ± 0.01 (0.01)",
        "nn_accuracy_real 0.60 ± 0.00 (0.5)",
        "nn_accuracy_new  0.30 ± 0.10 (0.5)",
        "membership_auc   0.60 ± 0.10 (0.5)",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", made.KINDS)
def test_every_kind_can_be_validated(kind):
    found = made.synth(kind).evaluate(20)
    assert isinstance(found, SplitHalfResult)
    assert len(found.splits) in (5, 10)
    assert 0 <= found.membership_auc <= 1


def fails_on(monkeypatch, numbers):
    """Splits of these numbers fail, as a half does whose items are all equal; which others trained classifiers."""
    one_split, trained = split_half._evaluate_split, []

    def some_fail(task, number, *, classify):
        if number in numbers:
            raise ValueError("all items are equal")
        trained.append((number, classify))
        return one_split(task, number, classify=classify)

    monkeypatch.setattr(split_half, "_evaluate_split", some_fail)
    return trained


@pytest.mark.parametrize("failing", [(), (0, 3), (1, 2, 4, 5, 6)])
def test_workers_make_the_same_splits(monkeypatch, failing):
    """Also where splits fail: classifiers are trained in the first three that do not."""
    synth = table(np.random.default_rng(3).normal(size=(40, 2)), beta=1.0)
    trained = fails_on(monkeypatch, failing)
    alone = split_half_validation(synth, 30, seed=4)
    assert len(alone.splits) == 10 - len(failing)
    first = [number for number in range(10) if number not in failing][:3]
    assert {number for number, classify in trained if classify} >= set(first)
    with_classifiers = [len(split.fidelity.scores) for split in alone.splits]
    assert min(with_classifiers[:3]) > max(with_classifiers[3:])
    with joblib.parallel_config(backend="threading"):
        assert repr(synth.evaluate(30, rng=4, n_jobs=2).splits) == repr(alone.splits)  # some values are NaN


def test_the_reason_of_the_last_failure_is_given(monkeypatch):
    synth = table(np.random.default_rng(3).normal(size=(40, 2)), beta=1.0)
    fails_on(monkeypatch, range(10))
    found = synth.evaluate(30)
    assert (found.splits, found.reason) == ((), "no half of the rows could be fitted: all items are equal")


def test_warnings_are_as_before_after_threads_hid_them():
    """Python's own context restores the filters of another thread if the two overlap."""
    before = list(warnings.filters)
    with joblib.parallel_config(backend="threading"):
        table(np.random.default_rng(3).normal(size=(40, 2)), beta=1.0).evaluate(30, n_jobs=4)
    assert warnings.filters == before
