"""The convolutional diffusion model: its schedule, its reverse process with a known denoiser, and its training."""

import json

import numpy as np
import pytest
import torch

from paper.beyond import conv_ddpm, unet


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


def test_the_committed_samples_are_read_as_unit_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(conv_ddpm, "TRAINED", tmp_path)
    with pytest.raises(RuntimeError, match="does not exist: run"):
        conv_ddpm.trained(100, 16)
    images = np.random.default_rng(0).integers(256, size=(5, 4, 4)).astype(np.uint8)
    np.savez(tmp_path / "samples-100.npz", steps_10=images, steps_200=images)
    record = {"losses": [0.5, 0.25], "seconds": {"10": 1.0, "200": 9.0}, "device": "CPU", "seed": 0}
    (tmp_path / "losses-100.json").write_text(json.dumps(record))
    rows, note = conv_ddpm.trained(100, 16)
    assert list(rows) == ["convolutional DDPM, 10 steps", "convolutional DDPM, 200 steps"]
    np.testing.assert_allclose(np.linalg.norm(rows["convolutional DDPM, 10 steps"], axis=1), 1)
    assert "loss 0.2500 after 200 steps, 9 s on CPU" in note
    with pytest.raises(RuntimeError, match="another size"):
        conv_ddpm.trained(100, 784)
