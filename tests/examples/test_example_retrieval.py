"""The example of diverse retrieval: its methods against brute force, its measures, and a short run of the whole."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from examples.one_memory.data import digits, unit
from examples.retrieval.__main__ import GREEDY, LANGEVIN, MMR, SAMPLED, TOP, UNIFORM, make_task, recall, shown
from examples.retrieval.methods import Task, mean_relevance, mmr, sampled, top, tuned

ROOT = Path(__file__).parents[2]
METHODS = [SAMPLED, LANGEVIN, MMR, UNIFORM, GREEDY, TOP]


@pytest.fixture(scope="module")
def task():
    return make_task(digits(), 40, 150, seed=3)


def test_queries_lie_between_two_rows_that_they_do_not_see(task):
    for query, visible, wanted in zip(task.queries, task.visible, task.wanted, strict=True):
        pair = np.flatnonzero(~visible)
        assert len(pair) == 2
        assert sorted(task.groups[pair]) == sorted(wanted)
        assert len(set(wanted)) == 2
        assert query == pytest.approx(unit(task.rows[pair].sum(0)))


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_slates_have_different_visible_rows(task, method, share):
    setting = method.low ** (1 - share) * method.high**share
    slates = method.slates(task, 7, setting, 0)
    assert slates.shape == (40, 7)
    assert all(len(set(slate)) == 7 for slate in slates)
    assert np.take_along_axis(task.visible, slates, 1).all()


@pytest.mark.parametrize("method", [SAMPLED, MMR, UNIFORM, GREEDY], ids=lambda m: m.name)
def test_settings_meet_the_target(task, method):
    best, worst = mean_relevance(task, top(task, 5, 1.0, 0)), float(task.relevance()[task.visible].mean())
    target = best - 0.1 * (best - worst)
    setting = tuned(method.slates, task, 5, target, method.low, method.high, seed=0)
    assert mean_relevance(task, method.slates(task, 5, setting, 0)) == pytest.approx(target, abs=0.02 * (best - worst))
    assert mean_relevance(task, method.slates(task, 5, method.low, 0)) == pytest.approx(best, abs=1e-3)


def test_mmr_is_greedy(task):
    slates = mmr(task, 4, 0.4, 0)
    for q in range(5):
        chosen = []
        relevance = task.queries[q] @ task.rows.T
        for _ in range(4):
            scores = {
                k: 0.6 * relevance[k] - 0.4 * max((task.rows[k] @ task.rows[j] for j in chosen), default=0.0)
                for k in range(150)
                if task.visible[q, k] and k not in chosen
            }
            chosen.append(max(scores, key=scores.get))
        assert slates[q].tolist() == chosen


def test_sampled_rows_follow_the_weights_of_attention():
    """Null: the first row is k with probability w_k, the second j then with w_j/(1 − w_k). Threshold: 5 errors."""
    rng = np.random.default_rng(0)
    rows, query = unit(rng.normal(size=(4, 3))), unit(rng.normal(size=3))
    many = Task(rows, np.arange(4), np.tile(query, (20_000, 1)), np.tile([True, True, True, False], (20_000, 1)), None)
    slates = sampled(many, 2, 0.5, 1)
    w = np.exp(2 * rows[:3] @ query)
    w /= w.sum()
    for i, j in np.ndindex(3, 3):
        p = 0.0 if i == j else w[i] * w[j] / (1 - w[i])
        found = ((slates[:, 0] == i) & (slates[:, 1] == j)).mean()
        assert abs(found - p) <= 5 * np.sqrt(p * (1 - p) / 20_000)


def test_measures():
    groups = np.array([0, 0, 0, 1, 1, 2])
    one = Task(np.eye(6), groups, np.eye(6)[:2], np.ones((2, 6), bool), np.array([[0, 1], [1, 2]]))
    assert recall(one, np.array([[0, 1, 3], [3, 4, 5]])).tolist() == [0.5, 0.5]
    assert recall(one, np.array([[0, 1, 3, 4], [0, 1, 2, 5]])).tolist() == [1.0, 0.0]
    assert shown(one, np.array([[[0, 5], [3, 0]], [[1, 0], [4, 3]]])).tolist() == [2.0, 2.0]


@pytest.mark.slow
def test_a_short_run_ends_with_the_rule():
    command = [sys.executable, "-m", "examples.retrieval", "--quick"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=300)
    for name in ("A: sampled attention", "A: Langevin states", "B: sampled attention", "B: Langevin states"):
        assert name in result.stdout
    wrong = subprocess.run([*command, "--seed", "-1"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "--seed must be 0 or more; got -1" in wrong.stderr
