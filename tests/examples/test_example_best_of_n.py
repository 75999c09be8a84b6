"""The example of the best of n answers: its problems, what counts as solved, and a short run of the whole."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")
ROOT = Path(__file__).parents[2]


def test_texts_are_problems_with_right_answers():
    from examples.best_of_n import SYMBOLS, TASKS

    for task, n, sign in zip(TASKS, (10**6, 10**4), "+*", strict=True):
        texts = task.texts()
        assert len(texts) == n
        for row in texts[:: n // 500].tolist():
            problem, answer = "".join(SYMBOLS[i] for i in row).split("=")
            a, b = problem.split(sign)
            assert int(answer) == (int(a) + int(b) if sign == "+" else int(a) * int(b))
            assert (len(a), len(b), len(answer)) == (task.digits, task.digits, task.answer_digits)


def test_a_problem_is_solved_if_one_answer_is_right():
    from examples.best_of_n import TASKS, solved

    class Model(torch.nn.Module):
        """Gives each of the first two symbols with probability one half."""

        def forward(self, x):
            logits = torch.full((*x.shape, 13), -1e9)
            logits[..., :2] = 0.0
            return type("Output", (), {"logits": logits})

    task = TASKS[0]
    texts = task.texts()[:200]
    texts[:, -4:] = torch.tensor([0, 1, 1, 0])
    share = solved(Model(), task, texts, 1.0, 0.0, 8, seed=0).mean()
    expected = 1 - (15 / 16) ** 8
    assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 200)
    texts[100:, -4:] = 0
    assert solved(Model(), task, texts, 0.0, 0.0, 3, seed=0).tolist() == [False] * 100 + [True] * 100


@pytest.mark.slow
def test_a_short_run_ends_with_the_rule():
    command = [sys.executable, "-m", "examples.best_of_n", "--quick"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=300)
    assert "noise does not win" in result.stdout or "noise wins" in result.stdout
    assert "both" in result.stdout
    wrong = subprocess.run([*command, "--seed", "-1"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "--seed must be 0 or more; got -1" in wrong.stderr
