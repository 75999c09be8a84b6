"""Fréchet distances between sets of digits, in features of two classifiers trained on other digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .picture_data import DIGITS, N_CLASSIFIER, flat

Features = Callable[[Any], Any]
"""Pictures (n, 28, 28) -> features (n, f)."""


def networks(data: dict[int, Any]) -> dict[str, Features]:
    """Features of a convolutional network and of a perceptron, by name; Fréchet distances differ between them."""
    training = np.concatenate([data[digit][-N_CLASSIFIER:] for digit in DIGITS])
    labels = np.repeat(DIGITS, N_CLASSIFIER)
    return {"convolutional": convolutional(training, labels), "perceptron": perceptron(training, labels)}


def convolutional(training: Any, labels: Any) -> Features:
    """The last hidden layer, 64 units, of a small convolutional classifier of all ten digits.

    Two 3 × 3 convolutions (16, 32 channels), each with 2 × 2 pooling, 64 units, ten classes; Adam, 10 epochs.
    """
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    convolutions = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)]
    body = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(800, 64), nn.ReLU())
    network = nn.Sequential(body, nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    pictures, classes = torch.tensor(training)[:, None], torch.tensor(labels)
    for _ in range(10):
        for batch in torch.randperm(len(pictures)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(pictures[batch]), classes[batch]).backward()
            optimizer.step()

    def hidden(new: Any) -> Any:
        with torch.no_grad():
            return body(torch.tensor(new, dtype=torch.float32)[:, None]).numpy().astype(np.float64)

    return hidden


def perceptron(training: Any, labels: Any) -> Features:
    """The hidden layer of a perceptron with 128 rectified units, trained with scikit-learn's defaults for 30 epochs."""
    from sklearn.neural_network import MLPClassifier

    fit = MLPClassifier(128, max_iter=30, random_state=0).fit(flat(training), labels)
    return lambda new: np.maximum(flat(new).astype(np.float64) @ fit.coefs_[0] + fit.intercepts_[0], 0)


def frechet(first: Any, second: Any) -> float:
    """‖μ₁ − μ₂‖² + tr(C₁ + C₂ − 2 (C₁C₂)^½), with full covariances; features (n, f) and (m, f)."""
    C1, C2 = np.cov(first.T), np.cov(second.T)
    values, vectors = np.linalg.eigh(C1)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ C2 @ root), 0)).sum()
    return float(((first.mean(0) - second.mean(0)) ** 2).sum() + np.trace(C1) + np.trace(C2) - 2 * cross)
