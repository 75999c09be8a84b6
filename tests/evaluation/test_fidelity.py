"""Scores of fidelity on data whose best score is known, and relations against one regression for each part."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from stochattn.evaluation import fidelity, nearest_neighbor_accuracy
from stochattn.evaluation.fidelity import (
    AGREEMENT,
    SHRINKAGE,
    TAILS,
    TRAINING,
    WITHIN,
    Fidelity,
    Score,
    judge_score,
    measure_relations,
    score_classes,
    score_tails,
    two_sample_accuracy,
)


def explained_by_regression(train, real, part_of, part, shrinkage):
    """The share of a part's variance that the best linear prediction from all other parts explains."""
    scale = np.array([np.sqrt(real[:, part_of == one].var(0).mean()) for one in part_of])
    train, real = ((rows - train.mean(0)) / scale for rows in (train, real))
    covariance = train.T @ train / len(train)
    shrunk = (1 - shrinkage) * covariance + shrinkage * np.diag(np.maximum(np.diag(covariance), 1e-3))
    own = part_of == part
    slopes = np.linalg.solve(shrunk[np.ix_(~own, ~own)], shrunk[np.ix_(~own, own)])
    error = real[:, own] - real[:, ~own] @ slopes
    return 1 - np.square(error).mean() / real[:, own].var(0).mean()


@pytest.mark.parametrize(
    "part_of",
    [np.arange(5), np.array([0, 0, 1, 2, 2, 2, 3]), np.array([1, 0, 1, 2, 0]), np.arange(70) // 3],
    ids=["single features", "several widths", "in no order", "more features than rows"],
)
def test_each_part_is_predicted_from_all_others(part_of):
    rng, p = np.random.default_rng(0), len(part_of)
    mixing = rng.normal(size=(2, p))
    new, stored, held_out = (rng.normal(size=(n, 2)) @ mixing + 0.3 * rng.normal(size=(n, p)) for n in (50, 40, 60))
    found = measure_relations(new, stored, held_out, part_of)
    parts = range(part_of.max() + 1)
    tried = {by: [explained_by_regression(stored, held_out, part_of, one, by) for one in parts] for by in SHRINKAGE}
    best = max(tried, key=lambda by: sum(tried[by]))
    np.testing.assert_allclose(found.stored, tried[best], rtol=1e-9)
    expected = [explained_by_regression(new, held_out, part_of, one, best) for one in parts]
    np.testing.assert_allclose(found.new, expected, rtol=1e-9)
    assert min(found.stored) > 0.5


def test_parts_that_do_not_vary_have_no_relations():
    rows = np.random.default_rng(1).normal(size=(20, 3))
    rows[:, 1] = 4.0
    found = measure_relations(rows, rows, rows, np.arange(3))
    assert np.isnan(found.stored).tolist() == [False, True, False]


@pytest.mark.filterwarnings("error")
def test_a_constant_whose_mean_is_rounded_has_no_relations():
    rows = np.random.default_rng(0).normal(size=(11, 3))
    rows[:, 1] = 0.1  # its standard deviation is above 0
    assert rows.std(0)[1] > 0
    found = measure_relations(rows, rows, rows, np.arange(3))
    assert np.isnan(found.stored[1])
    assert np.isfinite(found.stored[0])


@pytest.mark.parametrize(("n_new", "n_stored"), [(2, 20), (20, 2)])
def test_two_items_have_no_relations(n_new, n_stored):
    rows = np.random.default_rng(1).normal(size=(20, 3))
    assert np.isnan(measure_relations(rows[:n_new], rows[:n_stored], rows, np.arange(3))).all()
    assert np.isfinite(measure_relations(rows[:3], rows[:3], rows, np.arange(3))).all()


@pytest.mark.usefixtures("large_forests")
@pytest.mark.parametrize("shift", [0.0, 2.0, 6.0])
def test_two_normal_laws_are_distinguished_as_well_as_is_possible(shift):
    """The best accuracy for a shift by s standard deviations is Phi(s/2); 1,000 rows have a standard error of 1.6 %."""
    rng = np.random.default_rng(2)
    real, new = rng.normal(size=(500, 3)), rng.normal(size=(500, 3))
    new[:, 1] += shift
    best = norm.cdf(shift / 2)
    assert best - 0.06 < two_sample_accuracy(real, new) < best + 0.05


@pytest.mark.usefixtures("large_forests")
def test_rows_that_only_a_forest_distinguishes():
    """One of 60 columns differs: distances hardly show it, and trees do."""
    rng = np.random.default_rng(3)
    real, new = rng.normal(size=(300, 60)), rng.normal(size=(300, 60))
    new[:, 7] = np.abs(new[:, 7]) + 0.5
    assert math.fsum(nearest_neighbor_accuracy(real, new)) / 2 < 0.62
    assert two_sample_accuracy(real, new) > 0.7


@pytest.mark.usefixtures("large_forests")
def test_as_many_rows_of_each_set_are_distinguished():
    """Always naming the larger set would be right for 90 % of the rows of sets of one law."""
    rng = np.random.default_rng(4)
    assert two_sample_accuracy(rng.normal(size=(900, 2)), rng.normal(size=(100, 2))) < 0.65


def test_tails_of_known_laws():
    """log(99 % over 50 % quantile of |x|) is log(ln 100/ln 2) for a Laplace law and NORMAL_TAIL for a normal one."""
    rng = np.random.default_rng(5)
    laplace, other, normal = rng.laplace(size=(40_000, 3)), rng.laplace(size=(40_000, 3)), rng.normal(size=(40_000, 3))
    exact = math.log(math.log(100) / math.log(2)) - math.log(norm.ppf(0.995) / norm.ppf(0.75))
    found = score_tails(normal, other, laplace)
    assert found.new == pytest.approx(exact, abs=0.03)
    assert found.stored == pytest.approx(0.0, abs=0.03)
    assert found.worst == pytest.approx(exact, abs=0.03)


def test_features_that_are_mostly_one_value_have_no_tails():
    rows = np.random.default_rng(6).normal(size=(50, 2))
    rows[:40, 1] = 0.0
    assert score_tails(rows, rows, rows)[:2] == (0.0, 0.0)
    assert all(map(math.isnan, score_tails(*[rows[:, 1:]] * 3)))


def classes(rng, n):
    """Three classes with means 0, 4 and 8."""
    labels = rng.integers(3, size=n)
    return 4.0 * labels[:, None] + rng.normal(size=(n, 2)), labels


def test_classes_that_mean_the_same_score_as_stored_ones_do():
    rng = np.random.default_rng(7)
    new, stored, held_out = (classes(rng, 200) for _ in range(3))
    found = score_classes(new, stored, held_out, rng)
    share = max(np.bincount(held_out[1])) / 200
    for name in (TRAINING, AGREEMENT):
        assert min(found[name][:2]) > 0.93
        assert found[name].worst == share
    assert max(found[WITHIN][:2]) < 0.1 < 0.5 < found[WITHIN].worst


def test_shuffled_classes_score_like_naming_one_class():
    rng = np.random.default_rng(8)
    (rows, labels), stored, held_out = (classes(rng, 200) for _ in range(3))
    found = score_classes((rows, rng.permutation(labels)), stored, held_out, rng)
    assert max(found[TRAINING].new, found[AGREEMENT].new) < 0.5
    assert found[WITHIN].new > 0.5


def test_two_classes_are_compared():
    rng = np.random.default_rng(9)
    both = [(rows[labels < 2], labels[labels < 2]) for rows, labels in (classes(rng, 60) for _ in range(3))]
    assert score_classes(*both, rng)[TRAINING].new > 0.9


def test_classes_of_fewer_than_four_new_items_are_left_out():
    """New rows of two classes are shifted by a standard deviation, and three rows of another class by nine."""
    rows, labels = np.arange(14.0)[:, None], np.repeat([0, 1, 2], [4, 4, 6])
    new = rows + rows.std() * np.where(labels == 1, 9, 1)[:, None]
    stored = held_out = rows, labels
    few = score_classes((new[labels != 1], labels[labels != 1]), stored, held_out, np.random.default_rng(0))
    assert few[WITHIN][:2] == pytest.approx((1.0, 0.0))
    indices = np.delete(np.arange(14), 7)  # leaves three items of the class
    three = score_classes((new[indices], labels[indices]), stored, held_out, np.random.default_rng(0))
    assert three[WITHIN] == few[WITHIN]
    four = score_classes((new, labels), stored, held_out, np.random.default_rng(0))
    assert four[WITHIN].new == pytest.approx((1 + 9 + 1) / 3)


def test_some_of_many_parts_are_related(monkeypatch):
    monkeypatch.setattr(fidelity, "MAX_RELATED", 3)
    rows = np.random.default_rng(1).normal(size=(20, 6))
    assert np.isfinite(measure_relations(rows, rows, rows, np.arange(6)).stored).sum() == 3


def test_new_items_of_unknown_classes_score_nothing():
    rng = np.random.default_rng(9)
    stored, held_out = classes(rng, 60), classes(rng, 60)
    found = score_classes((stored[0], stored[1] + 3), stored, held_out, rng)
    assert found[TRAINING] == found[AGREEMENT] == (0.0, 1.0, 0.0)
    assert score_classes(stored, stored, (held_out[0], 0 * held_out[1]), rng) == {}


def test_relations_of_fewer_new_items_are_compared_with_as_many_stored_ones():
    """A sampler of the true law: 40 new rows of 30 features predict as well as 40 stored rows, and worse than 300.

    Over seeds, the two means of 40 rows differ by 0.00 ± 0.02, and that of 300 is higher by 0.09 ± 0.02.
    """
    rng, part_of = np.random.default_rng(10), np.arange(30)
    mixing = rng.normal(size=(3, 30))
    new, stored, held_out = (rng.normal(size=(n, 3)) @ mixing + 2 * rng.normal(size=(n, 30)) for n in (40, 300, 300))
    found, of_all = (
        measure_relations(new, stored, held_out, part_of),
        measure_relations(stored, stored, held_out, part_of),
    )
    assert found.stored == measure_relations(new, stored[fidelity.spaced_indices(300, 40)], held_out, part_of).stored
    assert abs(np.mean(found.new) - np.mean(found.stored)) < 0.05
    assert np.mean(of_all.stored) > np.mean(found.stored) + 0.05
    assert of_all.stored == measure_relations(np.tile(stored, (2, 1)), stored, held_out, part_of).stored


def test_a_score_is_judged_only_where_stored_items_are_better_than_the_worst():
    def judge(name, new, stored, worst):
        relations = (np.zeros(1), np.zeros(1))
        return judge_score([Fidelity({name: Score(new, stored, worst)}, relations)] * 3, name)

    assert judge(TAILS, 0.6, 0.7, 0.5) is None  # lower is better, and fitted items are worse than the worst
    assert judge(TAILS, 0.6, 0.2, 0.5).excess > 0 > judge(TAILS, 0.3, 0.2, 0.5).excess
    assert judge(TRAINING, 0.6, 0.4, 0.5) is None  # higher is better
    assert judge(TRAINING, 0.6, 0.9, 0.5).excess > 0 > judge(TRAINING, 0.8, 0.9, 0.5).excess
