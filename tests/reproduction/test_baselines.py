"""Each baseline has its stated law; the learned ones learn and are reproducible."""

import numpy as np
import pytest
import torch

import stochattn as sa
from paper.baselines import (
    ConvexCombination,
    GaussianPerturbation,
    IsotropicGaussian,
    MatchedGaussian,
    MixtureOnPCA,
    Replay,
    training,
)
from paper.baselines.ddpm import DDPM
from paper.baselines.vae import VAE

RNG = np.random.default_rng(3)
BANK = sa.MemoryBank(RNG.standard_normal((20, 12)) + 1).normalized()
# Two tight clusters on the sphere, far apart.
CENTRES = np.stack([np.eye(16)[0], np.eye(16)[1]])
CLUSTERS = CENTRES.repeat(25, 0) + 0.05 * RNG.standard_normal((50, 16))
CLUSTERS /= np.linalg.norm(CLUSTERS, axis=1, keepdims=True)


SAMPLES = np.random.default_rng(1).standard_normal((200, 12)) * np.arange(1, 13) + 3
MAKERS = {
    "replay": lambda: Replay(BANK),
    "gaussian": lambda: GaussianPerturbation(BANK, 0.1),
    "convex": lambda: ConvexCombination(BANK),
    "mixture": lambda: MixtureOnPCA(BANK, 0, n_components=5, n_clusters=3),
    "matched": lambda: MatchedGaussian(SAMPLES),
    "isotropic": lambda: IsotropicGaussian(SAMPLES),
    "vae": lambda: VAE(BANK.patterns, 0, latent=2, hidden=(8, 6), epochs=3),
    "ddpm": lambda: DDPM(BANK.patterns, 0, epochs=3),
}


@pytest.mark.parametrize("name", list(MAKERS))
def test_every_baseline_is_reproducible(name):
    baseline = MAKERS[name]()
    first, again, other = baseline.sample(7, 1), MAKERS[name]().sample(7, 1), baseline.sample(7, 2)
    assert first.shape == (7, 12)
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_replay_is_uniform_over_the_memories():
    rows = Replay(BANK).sample(20_000, 0)
    counts = (rows[:, None] == BANK.patterns[None]).all(-1).sum(0)
    assert counts.sum() == 20_000
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_gaussian_perturbation_adds_noise_of_the_given_size():
    rows = GaussianPerturbation(BANK, 0.1).sample(20_000, 0)
    nearest = np.linalg.norm(rows[:, None] - BANK.patterns[None], axis=-1).min(1)
    assert (nearest**2).mean() == pytest.approx(12 * 0.01, rel=0.1)


def test_convex_combinations_have_dirichlet_moments():
    """The variance of a coordinate is that of the memories divided by K + 1."""
    rows = ConvexCombination(BANK).sample(50_000, 0)
    np.testing.assert_allclose(rows.mean(0), BANK.patterns.mean(0), atol=0.002)
    np.testing.assert_allclose(rows.var(0), BANK.patterns.var(0) / (BANK.K + 1), rtol=0.05)


def test_the_controls_match_moments_and_norms():
    samples = RNG.standard_normal((500, 6)) * np.arange(1, 7) + 3
    rows = MatchedGaussian(samples).sample(50_000, 0)
    np.testing.assert_allclose(rows.mean(0), samples.mean(0), atol=0.1)
    np.testing.assert_allclose(rows.std(0), samples.std(0), rtol=0.02)
    assert abs(np.corrcoef(rows, rowvar=False) - np.eye(6)).max() < 0.03
    lengths = np.linalg.norm(IsotropicGaussian(samples).sample(100, 0), axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(samples, axis=1).mean())


def nearest_centre(rows):
    return np.linalg.norm(rows[:, None] - CENTRES[None], axis=-1)


def test_the_mixture_finds_clusters():
    rows = MixtureOnPCA(sa.MemoryBank(CLUSTERS), 0, n_components=5, n_clusters=2).sample(400, 1)
    distances = nearest_centre(rows)
    assert (distances.min(1) < 0.4).mean() > 0.95
    assert 0.3 < distances.argmin(1).mean() < 0.7


def test_the_vae_reconstructs_in_its_first_phase():
    short, long = (VAE(CLUSTERS, 0, latent=2, hidden=(32, 16), epochs=epochs) for epochs in (2, 300))
    assert long.loss < short.loss / 4
    rows = long.sample(200, 0)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)


def test_the_kl_term_acts_in_the_second_phase_only():
    """A large KL weight collapses the code and makes all samples similar; without it they differ."""

    def diversity(kl_weight, epochs=200):
        return sa.metrics.diversity(VAE(CLUSTERS, 0, 2, (32, 16), kl_weight, epochs).sample(200, 0))

    assert diversity(0.0) > 0.2
    assert diversity(100.0) < 0.02


def test_the_schedule_of_the_kl_weight(monkeypatch):
    """The KL weight is zero in the first phase, half of its value half-way through the second, and full at the end."""
    from paper.baselines import vae

    seen = {}

    def look(network, loss, rows, epochs, label, batch, settings):
        for epoch in (0, epochs // 2 - 1, 3 * epochs // 4 - 1, epochs - 1):
            torch.manual_seed(0)
            seen.setdefault(epoch, []).append(float(loss(torch.tensor(float(epoch)), rows).detach()))
        return 0.0

    monkeypatch.setattr(vae, "train", look)
    for weight in (0.0, 1.0):
        VAE(CLUSTERS, 0, 2, (32, 16), weight, 100)
    gaps = [with_kl - without for without, with_kl in seen.values()]
    assert gaps[0] == gaps[1] == 0
    assert gaps[2] == pytest.approx(gaps[3] / 2, rel=1e-4)
    assert gaps[3] > 0.001


def test_the_same_network_predicts_the_image():
    rows = DDPM(CLUSTERS, 0, epochs=600, unit_variance=True, predict="image").sample(200, 0)
    distances = nearest_centre(rows)
    assert distances.min(1).mean() < 0.35
    assert 0.3 < distances.argmin(1).mean() < 0.7


def test_the_diffusion_model_learns_data_of_unit_variance_and_not_small_data():
    """The same network and epochs: on unit-norm rows, with coordinates of 1/4 in 16 dimensions, it is worse."""
    distances = {}
    for unit_variance in (False, True):
        rows = DDPM(CLUSTERS, 0, epochs=600, unit_variance=unit_variance).sample(200, 0)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
        distances[unit_variance] = nearest_centre(rows).min(1).mean()
    assert distances[True] < 0.5
    assert distances[True] < distances[False]


def test_training_is_the_same_in_batches_and_under_a_seed():
    first, again = (VAE(CLUSTERS, 5, latent=2, hidden=(8,), epochs=4, batch=16) for _ in range(2))
    np.testing.assert_array_equal(first.sample(5, 0), again.sample(5, 0))
    assert first.loss == again.loss


def test_a_trained_network_is_taken_from_the_cache(tmp_path, monkeypatch):
    """The second training takes no time and has the same samples and loss; another setting is trained anew."""
    monkeypatch.setenv("STOCHATTN_CACHE", str(tmp_path))
    trainings = []
    sound = training._train
    monkeypatch.setattr(training, "_train", lambda *arguments: trainings.append(1) or sound(*arguments))

    def trained(**changes):
        return VAE(CLUSTERS, 5, **{"latent": 2, "hidden": (8,), "epochs": 3, **changes})

    first, again = trained(), trained()
    assert len(trainings) == 1
    np.testing.assert_array_equal(first.sample(5, 0), again.sample(5, 0))
    assert first.loss == again.loss
    for change in ({"kl_weight": 0.5}, {"epochs": 4}, {"hidden": (9,)}, {"batch": 10}):
        before = len(trainings)
        trained(**change)
        assert len(trainings) == before + 1, change
    VAE(CLUSTERS, 6, latent=2, hidden=(8,), epochs=3)
    VAE(CLUSTERS + 1, 5, latent=2, hidden=(8,), epochs=3)
    DDPM(CLUSTERS, 5, epochs=1)
    DDPM(CLUSTERS, 5, epochs=1, predict="image")
    assert len(trainings) == 9
    for path in (tmp_path / "trained").glob("*.pt"):
        path.write_bytes(b"half of a file")
    trained()
    assert len(trainings) == 10


def test_a_cache_that_cannot_be_written_does_not_stop_a_training(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STOCHATTN_CACHE", str(tmp_path / "file"))
    assert VAE(CLUSTERS, 5, latent=2, hidden=(8,), epochs=1).sample(2, 0).shape == (2, 16)
