"""The example of noise as a regularizer: its stacked networks, splits and rule, and a short run of the whole."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import examples.noise_regularizer.__main__ as regularizer  # noqa: E402
from examples.noise_regularizer.__main__ import ARMS, DECAYS, RIVALS, Result, Setting, difference, verdict  # noqa: E402
from examples.noise_regularizer.network import Networks, Regularization, Shape  # noqa: E402
from examples.noise_regularizer.training import Images, Scores, split, train  # noqa: E402

ROOT = Path(__file__).parents[2]
SHAPE = Shape(tokens=9, pixels=4, width=16, heads=2, layers=2, hidden=24)


def plain_torch(networks, m, x):
    """The logits of one network, by torch's own encoder layers with its weights."""
    w = {name: parameter[m] for name, parameter in networks.named_parameters()}
    x = x @ w["embed_weight"] + w["embed_bias"] + w["position"]
    options = {"activation": "gelu", "batch_first": True, "norm_first": True, "dropout": 0.0}
    for i in range(SHAPE.layers):
        layer = nn.TransformerEncoderLayer(SHAPE.width, SHAPE.heads, SHAPE.hidden, **options)
        state = {
            "self_attn.in_proj_weight": w[f"qkv{i}_weight"].T,
            "self_attn.in_proj_bias": w[f"qkv{i}_bias"],
            "self_attn.out_proj.weight": w[f"out{i}_weight"].T,
            "self_attn.out_proj.bias": w[f"out{i}_bias"],
            "linear1.weight": w[f"up{i}_weight"].T,
            "linear1.bias": w[f"up{i}_bias"],
            "linear2.weight": w[f"down{i}_weight"].T,
            "linear2.bias": w[f"down{i}_bias"],
            "norm1.weight": w[f"first{i}_scale"],
            "norm1.bias": w[f"first{i}_shift"],
            "norm2.weight": w[f"second{i}_scale"],
            "norm2.bias": w[f"second{i}_shift"],
        }
        layer.load_state_dict(state)
        x = layer(x)
    x = nn.functional.layer_norm(x, (SHAPE.width,), w["last_scale"], w["last_shift"]).mean(1)
    return x @ w["head_weight"] + w["head_bias"]


def varied(seeds):
    """Networks whose biases and norms are not at their first values."""
    networks = Networks(SHAPE, seeds)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in networks.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return networks


def test_stacked_networks_are_those_of_torch():
    networks, x = varied([0, 1, 2]), torch.randn(3, 5, 9, 4, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        found = networks(x)
        for m in range(3):
            torch.testing.assert_close(found[m], plain_torch(networks, m, x[m]), rtol=1e-4, atol=1e-5)
        zero = torch.zeros(3)
        torch.testing.assert_close(networks(x, Regularization(dropout=zero, attention=zero)), found)


@pytest.mark.parametrize("name", ["dropout", "attention", "beta"])
def test_each_network_has_its_own_noise(name):
    """The first network has none, or (at a high beta) hardly any; the second has much, new at every call."""
    networks, images = varied([0, 0]), torch.randn(1, 5, 9, 4, generator=torch.Generator().manual_seed(2))
    x = images.expand(2, -1, -1, -1)
    numbers = torch.tensor([1e8, 0.01] if name == "beta" else [0.0, 0.5])
    with torch.no_grad():
        first, second = (networks(x, Regularization(**{name: numbers})) for _ in range(2))
    assert (first[0] - second[0]).abs().max() < 1e-2
    assert (first[1] - second[1]).abs().max() > 0.1


def test_splits_are_disjoint_and_have_all_classes():
    tokens = torch.arange(10 * 30.0).view(10, 30, 1, 1)  # an image is its own number
    splits = split(Images("numbers", tokens, 5, 7, 11), 5, [0, 1], torch.device("cpu"))
    for s in range(2):
        parts = [(x[s].flatten().long(), y) for x, y in (splits.training, splits.validation, splits.test)]
        assert [len(x) for x, _ in parts] == [50, 70, 110]
        assert len(set(torch.cat([x for x, _ in parts]).tolist())) == 230
        for x, y in parts:
            assert torch.equal(x // 30, y)
    assert not torch.equal(splits.training[0][0], splits.training[0][1])


def test_networks_learn_and_do_not_depend_on_those_beside_them():
    """Classes are patterns with noise; a network trained beside another ends where it ends alone."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(10, 1, 9, 4, generator=generator) + 0.5 * torch.randn(10, 60, 9, 4, generator=generator)
    splits = split(Images("patterns", tokens, 20, 10, 20), 20, [0, 1], torch.device("cpu"))
    two = train(SHAPE, splits, [0, 1], Regularization(), torch.tensor([0.0, 50.0]), 60)[1]
    one = train(SHAPE, splits, [0, 1], Regularization(), torch.tensor([0.0]), 60)[1]
    assert two.accuracy.shape == (2, 2)
    assert two.accuracy[0].min() > 0.3  # guesses have 0.1 ± 0.02
    np.testing.assert_allclose(two.nats[0], one.nats[0], rtol=1e-3)
    assert (two.nats[1] > two.nats[0] + 0.01).all()


def result(accuracies, validation=None):
    """An arm with one or more settings (C, S) of given test and validation accuracy."""
    test = np.atleast_2d(accuracies)
    chosen_by = test if validation is None else np.atleast_2d(validation)
    nats = np.zeros_like(test, dtype=float)
    return Result([Setting()] * len(test), Scores(chosen_by, nats), Scores(test, nats))


def test_a_seed_chooses_by_validation_and_is_measured_on_test():
    arm = result([[0.9, 0.5], [0.7, 0.6]], [[0.1, 0.8], [0.2, 0.7]])
    assert arm.chosen.tolist() == [1, 0]
    assert arm.of_chosen(arm.test.accuracy).tolist() == [0.7, 0.5]
    assert difference(arm, result([0.5, 0.5])) == (pytest.approx(0.1), pytest.approx(0.1))
    tied = Result([Setting()] * 2, Scores(np.full((2, 1), 0.5), np.array([[2.0], [1.0]])), arm.test)
    assert tied.chosen.tolist() == [1]


def test_the_rule():
    low, high = np.array([0.50, 0.52, 0.51]), np.array([0.60, 0.61, 0.62])

    def found(noise, dropout, attention):
        return {"attention noise": result(noise), "dropout": result(dropout), "attention dropout": result(attention)}

    wins, loses = found(high, low, low), found(low, high, low)
    assert verdict("attention noise", [wins, wins]) == "wins"
    assert verdict("attention noise", [wins, found(high, low, high)]) == "neither wins nor loses"
    assert verdict("attention noise", [loses, loses]) == "loses to dropout"
    assert verdict("attention noise", [loses, wins]) == "neither wins nor loses"
    assert verdict("attention noise", [found(high - 0.1, low, low)]) == "neither wins nor loses"


def test_arms_have_the_same_number_of_settings():
    assert {len(settings) for settings in ARMS.values()} == {len(DECAYS)} == {8}
    assert all(rival in ARMS for arm, rivals in RIVALS.items() for rival in (arm, *rivals))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--device", "foo"], "--device must be cpu, cuda, or cuda and a number, such as cuda:0; got foo"),
        (["--device", "meta"], "--device must be cpu or cuda; got meta"),
        (["--device", "cuda:99"], "got cuda:99"),
        (["--out", "README.md/scores.json"], "--out must name a file in a folder that can be created; README.md"),
        (["--out", "docs"], "--out must name a file; docs is a folder"),
    ],
)
def test_wrong_options_are_errors_before_the_run(wrong, message, monkeypatch, capsys):
    def no_run(*_):
        raise AssertionError("the run began")

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["noise_regularizer", "--quick", *wrong])
    monkeypatch.setattr(regularizer, "run", no_run)
    with pytest.raises(SystemExit, match="2"):
        regularizer.main()
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_the_folder_of_scores_is_made_before_the_run(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["noise_regularizer", "--quick", "--out", str(tmp_path / "new" / "scores.json")])
    monkeypatch.setattr(regularizer, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        regularizer.main()
    assert (tmp_path / "new").is_dir()


@pytest.mark.slow
def test_a_short_run_ends_with_the_rule(tmp_path):
    out = tmp_path / "scores.json"
    command = [sys.executable, "-m", "examples.noise_regularizer", "--quick", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=600)
    assert "attention noise" in done.stdout
    assert "by the rule." in done.stdout
    scores = json.loads(out.read_text())["scores"]["100"]
    assert list(scores) == list(ARMS)
    assert np.shape(scores["dropout"]["test accuracy"]) == (2, 2)
    wrong = subprocess.run([*command, "--seeds", "1"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "--seeds must be 2 or more" in wrong.stderr
    wrong = subprocess.run([*command, "--images", "205"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "--images must be multiples of 10 from 10 to 1440; got 205" in wrong.stderr
