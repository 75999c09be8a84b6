"""The example of one memory: choices by leave-one-out, reasons, forgetting, rivals, and a short run of the whole."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from examples.one_memory.data import digits, split, unit
from examples.one_memory.memory import BETAS, OneMemory, _left_out_cost
from examples.one_memory.rivals import RIVALS, prototypes
from stochattn.nn import HopfieldMemory

ROOT = Path(__file__).parents[2]


def some_rows(n=24, d=6, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    return unit(rng.normal(size=(n, d)) + 2 * np.eye(3, d)[labels]), labels


def left_out(rows, labels, beta):
    """log of the probability of each label, and of the density of each row, given the other rows: by loops."""
    probabilities, densities = [], []
    for i in range(len(rows)):
        others = np.delete(np.arange(len(rows)), i)
        logits = -beta / 2 * np.square(rows[others] - rows[i]).sum(1)
        whole = np.logaddexp.reduce(logits)
        probabilities.append(np.logaddexp.reduce(logits[labels[others] == labels[i]]) - whole)
        densities.append(whole - np.log(len(others)) + rows.shape[1] / 2 * np.log(beta / (2 * np.pi)))
    return np.array(probabilities), np.array(densities)


def test_beta_and_threshold_are_chosen_by_leave_one_out():
    rows, labels = some_rows()
    memory = OneMemory.fit(rows, labels, share=0.25)
    costs = [-left_out(rows, labels, b)[0].sum() + np.log(b / 32) ** 2 / 2 for b in BETAS]
    assert float(memory.memory.beta) == BETAS[np.argmin(costs)]
    made = HopfieldMemory(rows, beta=8.0, values=(labels[:, None] == np.arange(3)).astype(float))
    assert _left_out_cost(made) == pytest.approx(costs[list(BETAS).index(8.0)])
    densities = np.sort(left_out(rows, labels, float(memory.memory.beta))[1])
    assert memory.threshold == pytest.approx(densities[5])  # a quarter of 24 rows is not above the sixth
    assert memory.is_stranger(-rows).mean() > 0.9


def test_answers_are_sums_of_weights():
    rows, labels = some_rows()
    memory, queries = OneMemory.fit(rows, labels), some_rows(seed=1)[0]
    reasons = memory.reasons(queries[0], n=len(rows))
    assert sum(r.weight for r in reasons) == pytest.approx(1)
    assert [r.weight for r in reasons] == sorted((r.weight for r in reasons), reverse=True)
    for c in range(3):
        expected = sum(r.weight for r in reasons if r.label == str(c))
        assert memory.probabilities(queries[:1])[0, c] == pytest.approx(expected)


def test_a_forgotten_row_is_as_if_it_never_was():
    rows, labels = some_rows()
    left = np.delete(np.arange(24), [3, 7])
    after, never = OneMemory.fit(rows, labels).forget([3, 7]), OneMemory.fit(rows[left], labels[left])
    assert after.threshold == never.threshold
    for name, x in never.memory.state_dict().items():
        assert torch.equal(x, after.memory.state_dict()[name])
    queries = some_rows(seed=1)[0]
    assert np.array_equal(after.probabilities(queries), never.probabilities(queries))


def test_prototypes_leave_out_the_row_itself():
    rows, labels = some_rows()
    answers = prototypes(rows, labels, rows[:5])
    means = np.stack([rows[labels == c].mean(0) for c in range(3)])
    assert answers.strangeness == pytest.approx(np.square(rows[:5, None] - means).sum(-1).min(1))
    ratios = np.log(answers.probabilities[:, 0] / answers.probabilities[:, 1])
    gaps = np.square(rows[:5] - means[1]).sum(1) - np.square(rows[:5] - means[0]).sum(1)
    temperature = float((ratios / gaps)[0])
    costs = []
    for t in 2.0 ** np.arange(-2, 12, 0.5):
        cost = 0.0
        for i in range(24):
            others = np.delete(np.arange(24), i)
            centres = np.stack([rows[others][labels[others] == c].mean(0) for c in range(3)])
            logits = -t * np.square(rows[i] - centres).sum(1)
            cost += np.logaddexp.reduce(logits) - logits[labels[i]]
        costs.append(cost)
    assert temperature == pytest.approx(2.0 ** np.arange(-2, 12, 0.5)[np.argmin(costs)])


@pytest.mark.parametrize("name", RIVALS)
def test_rivals_classify_digits(name):
    data = split(digits(), 20, seed=0, max_queries=200)
    answers = RIVALS[name](data.rows, data.labels, np.concatenate((data.queries, data.strangers)))
    n = len(data.answers)
    assert answers.probabilities.sum(1) == pytest.approx(1)
    assert (np.unique(data.labels)[answers.probabilities[:n].argmax(1)] == data.answers).mean() > 0.85
    assert answers.strangeness[n:].mean() > answers.strangeness[:n].mean()


def test_splits_do_not_overlap():
    items = digits()
    data = split(items, 3, seed=0)
    assert len(data.rows) == 3 * len(np.unique(data.labels)) == 24
    assert not set(map(bytes, data.rows)) & set(map(bytes, data.queries))
    assert set(data.answers) <= set(data.labels)
    names = {bytes(row): label for row, label in zip(items.rows, items.labels, strict=True)}
    assert not {names[bytes(row)] for row in data.strangers} & set(data.labels)


@pytest.mark.slow
def test_a_short_run_says_that_nothing_of_a_row_is_left():
    command = [sys.executable, "-m", "examples.one_memory", "--quick"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=300)
    text = " ".join(result.stdout.split())
    assert (
        "tensors equal, answers equal, files equal those of a memory that never had it; the row is not in the" in text
    )
    assert "one memory" in text
    wrong = subprocess.run([*command, "--splits", "0"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "--splits must be 1 or more; got 0" in wrong.stderr
