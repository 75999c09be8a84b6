"""Methods that generate pictures: p_beta and its readout, classical baselines, a VAE and the patch generator.

Each is a function of stored pictures (K, H, W) with values from 0 to 1, the number of new pictures, and a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

import stochattn
from stochattn import energy
from stochattn.core.mixture import Mixture
from stochattn.kinds.images.generator.deformations import Deformations
from stochattn.kinds.images.generator.patches import LocalHeads, random_warps

from .picture_data import flat

Method = Callable[[Any, int, int], Any]
"""Stored pictures (K, H, W), n, seed -> new pictures (n, H, W)."""
HIDDEN, LATENTS, EPOCHS, PATIENCE, BATCH = 200, (8, 16, 32), 300, 50, 50
"""The VAE: hidden units, candidate widths of the code, maximum number of epochs, epochs without improvement before the
training stops, and batch size."""


def replay(stored: Any, n: int, seed: int) -> Any:
    """Stored pictures, drawn with replacement."""
    return stored[np.random.default_rng(seed).integers(len(stored), size=n)]


def p_beta(rule: str, readout: bool = False) -> Method:
    """Exact draws xi of p_beta on unit rows, scaled to the norm of their memory; or readouts softmax(beta X xi) X."""

    def draw(stored: Any, n: int, seed: int) -> Any:
        rows = flat(stored).astype(np.float64)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        model = stochattn.StochasticAttention(rows / norms, beta=rule)
        drawn, memory = Mixture.of(model.bank, model.beta, norms).sample(n, np.random.default_rng(seed))
        if readout:
            drawn = norms[memory] * energy.attend(drawn / norms[memory], model.bank, model.beta)
        return drawn.reshape(n, *stored.shape[1:])

    return draw


def gaussian_mixture(stored: Any, n: int, seed: int) -> Any:
    """A Gaussian mixture on 50 principal components; BIC chooses the covariance type and the number of components."""
    components = PCA(min(50, len(stored) - 1), random_state=0).fit(flat(stored).astype(np.float64))
    rows = components.transform(flat(stored))
    fits = [
        GaussianMixture(k, covariance_type=kind, reg_covar=1e-3, random_state=seed).fit(rows)
        for kind in ("full", "diag")
        for k in range(1, 9)
    ]
    best = min(fits, key=lambda fit: fit.bic(rows))
    return np.clip(components.inverse_transform(best.sample(n)[0]), 0, 1).reshape(n, *stored.shape[1:])


def vae(stored: Any, n: int, seed: int) -> Any:
    """Expected pixels decoded from the prior of a VAE: pixels-200-code-200-pixels, ReLU, Bernoulli pixels, Adam.

    The width of the code (8, 16 or 32) and the number of epochs (at most 300) have the best evidence lower bound on
    every fifth stored picture after training on the others. The final model is trained on all stored pictures.
    """
    import torch

    torch.set_num_threads(1)
    rows = torch.tensor(flat(stored), dtype=torch.float32)
    fifth = torch.arange(len(rows)) % 5 == 0
    _, latent, epochs = min(
        (bound, latent, epoch)
        for latent in LATENTS
        for epoch, bound in _train_vae(rows[~fifth], latent, EPOCHS, seed, rows[fifth])[1]
    )
    decoder, _ = _train_vae(rows, latent, epochs, seed)
    codes = torch.randn((n, latent), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return torch.sigmoid(decoder(codes)).numpy().reshape(n, *stored.shape[1:])


def _train_vae(
    rows: Any, latent: int, epochs: int, seed: int, others: Any = None
) -> tuple[Any, list[tuple[int, float]]]:
    """The decoder, and the negative evidence lower bound of `others` every ten epochs, in nats per picture."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    pixels = rows.shape[1]
    encoder = nn.Sequential(nn.Linear(pixels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * latent))
    decoder = nn.Sequential(nn.Linear(latent, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, pixels))
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-3)

    def loss(x: Any) -> Any:
        mean, log_variance = encoder(x).chunk(2, dim=1)
        logits = decoder(mean + (log_variance / 2).exp() * torch.randn_like(mean))
        error = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
        return error + 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum(1).mean()

    bounds = []
    for epoch in range(1, epochs + 1):
        for batch in torch.randperm(len(rows)).split(BATCH):
            optimizer.zero_grad()
            loss(rows[batch]).backward()
            optimizer.step()
        if others is not None and epoch % 10 == 0:
            with torch.no_grad():
                bounds.append((epoch, float(loss(others.repeat(8, 1)))))
            if epoch - min(bounds, key=lambda one: one[1])[0] >= PATIENCE:
                break
    return decoder, bounds


def patches(stored: Any, n: int, seed: int) -> Any:
    """Draws of the patch generator (local heads) with the window radius of the matched-distance rule."""
    return LocalHeads(stored).sample(n, rng=seed)


def interpolation(stored: Any, n: int, seed: int) -> Any:
    """Random points between a stored picture and one of its five nearest neighbors, as in SMOTE."""
    rng, rows = np.random.default_rng(seed), flat(stored)
    neighbors = np.argsort(((rows[:, None] - rows[None]) ** 2).sum(2), axis=1)[:, 1:6]
    one = rng.integers(len(rows), size=n)
    other = neighbors[one, rng.integers(neighbors.shape[1], size=n)]
    return stored[one] + rng.random((n, 1, 1)) * (stored[other] - stored[one])


def deformed(stored: Any, n: int, seed: int) -> Any:
    """Draws of the generator "deformations" with the scale of the matched-distance rule."""
    return Deformations(stored).sample(n, rng=seed)


def elastic_affine(stored: Any, n: int, seed: int) -> Any:
    """Stored pictures, rotated, scaled, sheared and shifted a little, then warped: the usual augmentation."""
    from scipy.ndimage import affine_transform

    rng, pictures = np.random.default_rng(seed), replay(stored, n, seed)
    middle = (np.array(stored.shape[1:]) - 1) / 2
    moved = np.empty_like(pictures)
    for i, picture in enumerate(pictures):
        angle, shear = rng.normal(0, np.deg2rad(8)), rng.normal(0, 0.1)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        matrix = turn @ np.array([[1, shear], [0, 1]]) @ np.diag(np.exp(rng.normal(0, 0.08, 2)))
        offset = middle - matrix @ (middle + rng.normal(0, 0.8, 2))
        moved[i] = affine_transform(picture, matrix, offset, order=1)
    return random_warps(moved, rng=seed)


def warped(method: Method) -> Method:
    """The pictures of the method, each with a smooth random warp."""
    return lambda stored, n, seed: random_warps(method(stored, n, seed), rng=seed)
