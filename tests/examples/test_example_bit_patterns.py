"""The example on bit patterns: its bags, a network that learns the task, and a short run of the whole."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]


def test_positive_bags_alone_have_a_secret_pattern():
    from examples.bit_patterns import bags

    x, y = bags(2000, seed=1)
    numbers = (x.long() << torch.arange(8)).sum(-1)
    assert x.shape == (2000, 16, 8)
    assert int(y.sum()) == 1000
    negative = set(numbers[y == 0].flatten().tolist())
    secret = set(numbers[y == 1].flatten().tolist()) - negative
    assert len(secret) == 8
    assert 0 not in negative | secret
    found = torch.isin(numbers, torch.tensor(sorted(secret))).sum(1)
    assert torch.equal(found, y.long())
    places = torch.isin(numbers[y == 1], torch.tensor(sorted(secret))).float().mean(0)
    assert ((places - 1 / 16).abs() < 5 * (1 / 16 * 15 / 16 / 1000) ** 0.5).all()


@pytest.mark.slow
def test_a_lookup_and_pooling_learn_the_task():
    from examples.bit_patterns import networks, train

    torch.manual_seed(0)
    assert train(networks()["HopfieldLayer, HopfieldPooling"](), 12, seed=0, n_bags=1536)[-1] > 0.97


@pytest.mark.slow
def test_a_short_run_prints_a_row_for_every_network():
    command = [sys.executable, str(ROOT / "examples" / "bit_patterns.py"), "--quick"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    for name in ("Hopfield ", "HopfieldPooling", "HopfieldLayer", "torch: attention"):
        assert name in result.stdout
    wrong = subprocess.run([*command, "--seeds", "0"], capture_output=True, text=True, check=False)
    assert "--seeds must be 1 or more; got 0" in wrong.stderr
