"""A variational autoencoder of signals, which is told the class (Kingma and Welling 2014; Sohn et al. 2015).

Two layers of 100 units and a code of eight, normal values with one learned variance, Adam. The number of epochs has the
best evidence lower bound on every fifth stored signal; the final network is trained on all of them. New signals are
expected values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stochattn._backend.arrays import Array

HIDDEN, CODE, EPOCHS, PATIENCE, BATCH, EVERY, RATE = 100, 8, 200, 40, 32, 10, 2e-3


def draw(signals: Array, classes: Array, source: Array, rng: np.random.Generator) -> Array:
    """Signals decoded from the prior with the classes of `source` (n,), after training on (K, C, T): (n, C, T)."""
    import torch

    torch.set_num_threads(1)
    seed, labels = int(rng.integers(2**31)), np.unique(classes)
    mean, scale = signals.mean(), signals.std()
    rows = torch.tensor(((signals - mean) / scale).reshape(len(signals), -1), dtype=torch.float32)
    told = torch.tensor(classes[:, None] == labels, dtype=torch.float32)
    fifth = torch.arange(len(rows)) % 5 == 0
    bounds = _trained((rows[~fifth], told[~fifth]), EPOCHS, seed, (rows[fifth], told[fifth]))[1]
    decoder, _ = _trained((rows, told), min(bounds, key=lambda one: one[1])[0], seed)
    codes = torch.randn((len(source), CODE), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        new = decoder(torch.cat([codes, told[torch.as_tensor(source)]], dim=1)).numpy()
    return np.asarray(new.reshape(-1, *signals.shape[1:]) * scale + mean, dtype=np.float64)


def _trained(
    rows: tuple[Any, Any], epochs: int, seed: int, others: tuple[Any, Any] | None = None
) -> tuple[Any, list[tuple[int, float]]]:
    """The decoder, and the negative evidence lower bound of `others` every EVERY epochs, in nats per signal."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    p, n_classes = rows[0].shape[1], rows[1].shape[1]
    encoder = nn.Sequential(nn.Linear(p + n_classes, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * CODE))
    decoder = nn.Sequential(nn.Linear(CODE + n_classes, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, p))
    log_noise = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), log_noise], RATE)

    def loss(x: Any, told: Any) -> Any:
        mean, log_variance = encoder(torch.cat([x, told], dim=1)).chunk(2, dim=1)
        drawn = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        away = (decoder(torch.cat([drawn, told], dim=1)) - x).square().sum(1).mean()
        error = away / (2 * (2 * log_noise).exp()) + p * log_noise
        return error + 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum(1).mean()

    bounds: list[tuple[int, float]] = []
    for epoch in range(1, epochs + 1):
        for batch in torch.randperm(len(rows[0])).split(BATCH):
            optimizer.zero_grad()
            loss(rows[0][batch], rows[1][batch]).backward()
            optimizer.step()
        if others is not None and epoch % EVERY == 0:
            with torch.no_grad():
                bounds.append((epoch, float(loss(others[0].repeat(8, 1), others[1].repeat(8, 1)))))
            if epoch - min(bounds, key=lambda one: one[1])[0] >= PATIENCE:
                break
    return decoder, bounds
