"""The convolutional diffusion model: its schedule, its reverse process with a known denoiser, and its training."""

import json
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from paper.beyond import conv_ddpm, judging, unet


def test_the_schedule_goes_from_the_image_to_noise():
    signal = unet.remaining_signal()
    assert len(signal) == unet.N_LEVELS
    assert signal[0] > 0.999
    assert signal[-1] < 1e-3
    assert (torch.diff(signal) < 0).all()


def test_the_reverse_process_with_the_exact_denoiser_draws_the_stored_images():
    """Two images, black and white: the posterior mean is closed-form, so samples are copies, equally often (± 0.13)."""
    side, signal = 4, unet.remaining_signal()
    stored = torch.stack([-torch.ones(side, side), torch.ones(side, side)])

    def noise(x, t):
        share = signal[t[0]]
        logits = share.sqrt() * (x.flatten(1) @ stored.flatten(1).T) / (1 - share)
        image = (logits.softmax(1) @ stored.flatten(1)).reshape(x.shape)
        return (x - share.sqrt() * image) / (1 - share).sqrt()

    made = unet.sample(noise, 60, side, 0, "cpu").astype(float)
    assert set(np.unique(made)) <= {0.0, 255.0}
    assert (made.std((1, 2)) == 0).all()
    assert (made[:, 0, 0] == 255).mean() == pytest.approx(0.5, abs=0.26)


@pytest.mark.slow
def test_training_lowers_the_loss_of_a_network_that_begins_with_no_prediction():
    images = np.zeros((8, 8, 8), dtype=np.uint8)
    images[:, 2:6] = 255
    ((_, network, losses),) = unet.train(images, (120,), 0, "cpu", width=16, batch=32)
    assert losses[-1] < 0.6
    begun = unet.UNet(16)
    x = torch.randn(2, 1, 10, 10)
    assert begun(x, torch.tensor([3, 300])).abs().max() < 0.1  # the last weights are zero
    assert network(x, torch.tensor([3, 300])).shape == x.shape


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(conv_ddpm, "TRAINED", tmp_path)
    return tmp_path


def write_samples(folder, K, side=4):
    images = np.random.default_rng(0).integers(256, size=(5, side, side)).astype(np.uint8)
    np.savez(folder / f"samples-{K}.npz", steps_10=images, steps_200=images)
    record = {"losses": [0.5, 0.25], "seconds": {"10": 1.0, "200": 9.0}, "device": "CPU", "seed": 0}
    (folder / f"losses-{K}.json").write_text(json.dumps(record))


def test_samples_are_read_as_unit_rows(folder):
    write_samples(folder, 100)
    rows, note = conv_ddpm.trained(100, 16)
    assert list(rows) == ["convolutional DDPM, 10 steps", "convolutional DDPM, 200 steps"]
    np.testing.assert_allclose(np.linalg.norm(rows["convolutional DDPM, 10 steps"], axis=1), 1)
    assert "loss 0.2500 after 200 steps, 9 s on CPU" in note
    with pytest.raises(RuntimeError, match="another size"):
        conv_ddpm.trained(100, 784)


def test_a_folder_without_any_samples_is_an_error_that_names_the_training(folder):
    (folder / "losses-100.json").write_text("{}")  # losses alone are not enough
    with pytest.raises(RuntimeError, match=r"has no samples .* run `python -m paper\.beyond\.unet .* on a GPU"):
        conv_ddpm.available()
    write_samples(folder, 3500)
    assert conv_ddpm.available() == (3500,)
    write_samples(folder, 100)
    assert conv_ddpm.available() == (100, 3500)


class Threes:
    """300 random images of 4 × 4 pixels."""

    def n_digits(self, digit):
        return 300

    def digits(self, digit, n):
        rows = np.random.default_rng(1).random((n, 16))
        return SimpleNamespace(patterns=rows / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.mark.parametrize(("present", "missing"), [(3500, 100), (100, 3500)])
def test_a_full_run_leaves_out_the_network_without_samples_and_says_so(folder, monkeypatch, present, missing):
    monkeypatch.setattr(judging, "N_PERMUTATIONS", 3)
    write_samples(folder, present)
    (table,) = conv_ddpm.run(Threes(), 0, False).tables
    networks = [name for name in table.cells if name.startswith("convolutional")]
    assert networks == [f"convolutional DDPM, {steps} steps, K = {present:,}" for steps in (10, 200)]
    assert sum(name.startswith("p_β") for name in table.cells) == 2
    note = table.notes[0]
    assert f"K = {missing:,}: the row of the network is left out" in note
    assert f"python -m paper.beyond.unet --data mnist.npz --out paper/beyond/trained --K {missing}`" in note
    assert ("1-NN deviation 0.44, copies 0.82" in note) is (missing == 100)
    (finding,) = table.findings
    assert finding.startswith(f"With {present:,} images")


def test_both_networks_are_in_the_table_if_both_have_samples(folder, monkeypatch):
    monkeypatch.setattr(judging, "N_PERMUTATIONS", 3)
    for K in conv_ddpm.SIZES:
        write_samples(folder, K)
    (table,) = conv_ddpm.run(Threes(), 0, False).tables
    assert sum(name.startswith("convolutional") for name in table.cells) == 4
    assert "left out" not in table.notes[0]
    assert len(table.findings) == 2


def test_the_repository_has_the_samples_without_copies_only():
    """The samples for K = 100 are near-copies of MNIST images, which the project does not distribute."""
    listed = subprocess.run(
        ["git", "ls-files", "."], cwd=conv_ddpm.TRAINED, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("needs a git checkout: an sdist has no list of the files that are committed")
    assert set(listed.stdout.split()) == {"losses-100.json", "losses-3500.json", "samples-3500.npz"}
