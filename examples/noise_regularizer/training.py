"""Labeled images, their splits for each seed, and the training of many networks on them."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from .network import CLASSES, Networks, Regularization, Shape

BATCH, RATE, WARM_UP = 64, 1e-3, 0.1
MAX_IMAGES = 32_000  # of all networks together, in one pass of the evaluation


@dataclass(frozen=True)
class Images:
    """Tokens of images (10, n, tokens, pixels) by class, n of each, and how many of a class have which use."""

    name: str
    tokens: Tensor
    training: int
    validation: int
    test: int

    def shape(self, position: float) -> Shape:
        """The sizes of a network for these images, and the scale of its position embeddings at the start."""
        tokens, pixels = self.tokens.shape[2:]
        return Shape(tokens, pixels, position=position)


def digits() -> Images:
    """The digits of 8 x 8 pixels that come with scikit-learn, 174 of each class, in tokens of 2 x 2."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    by_class = np.stack([images[labels == k][:174] for k in range(CLASSES)]).reshape(CLASSES, 174, 8, 8)
    return Images("digits 8x8", _tokens(by_class / 16, 2), 10, 30, 90)


def mnist() -> Images | None:
    """1,000 MNIST images of every digit from the folder that STOCHATTN_DATA names, in tokens of 7 x 7, or None."""
    folder = os.environ.get("STOCHATTN_DATA")
    if not folder or not (Path(folder) / "mnist.npz").is_file():
        return None
    with np.load(Path(folder) / "mnist.npz", allow_pickle=False) as file:
        by_class = np.stack([file[f"digit{k}"][:1000] for k in range(CLASSES)])
    return Images("MNIST 28x28", _tokens(by_class / 255, 7), 20, 100, 400)


def _tokens(images: np.ndarray, side: int) -> Tensor:
    """Squares of side x side pixels of images (10, n, h, h), as (10, n, tokens, side²), with mean 0 and variance 1."""
    n = images.shape[-1] // side
    squares = images.reshape(*images.shape[:2], n, side, n, side).swapaxes(3, 4).reshape(*images.shape[:2], n * n, -1)
    return torch.tensor((squares - squares.mean()) / squares.std(), dtype=torch.float32)


@dataclass(frozen=True)
class Splits:
    """Images (S, n, tokens, pixels) of S seeds in three disjoint parts, and the labels (n,) of each part."""

    training: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


def split(images: Images, n_training: int, seeds: list[int], device: torch.device) -> Splits:
    """A random split for each seed, with n_training images of each class to train on."""
    counts = (n_training, images.validation, images.test)
    parts: list[list[Tensor]] = [[], [], []]
    for seed in seeds:
        rng = np.random.default_rng((seed, n_training))
        order = torch.tensor(np.stack([rng.permutation(images.tokens.shape[1]) for _ in range(CLASSES)]))
        shuffled = images.tokens[torch.arange(CLASSES)[:, None], order]
        for part, piece in zip(parts, shuffled[:, : sum(counts)].split(counts, 1), strict=True):
            part.append(piece.flatten(0, 1))
    labels = [torch.arange(CLASSES, device=device).repeat_interleave(n) for n in counts]
    return Splits(*((torch.stack(part).to(device), y) for part, y in zip(parts, labels, strict=True)))


@dataclass(frozen=True)
class Scores:
    """Accuracy and mean −log probability (nats) of C settings and S seeds, each (C, S), on one part of the images."""

    accuracy: np.ndarray
    nats: np.ndarray


def train(
    shape: Shape, splits: Splits, seeds: list[int], settings: Regularization, weight_decay: Tensor, n_steps: int
) -> tuple[Scores, Scores]:
    """Scores on the validation and the test images of networks trained with C settings and S seeds.

    The numbers of `settings` and weight_decay are (C,). All settings see the same batches, from the same first weights.
    """
    (x, y), device, C, S = splits.training, weight_decay.device, len(weight_decay), len(seeds)
    networks = Networks(shape, seeds * C).to(device)
    each = {name: None if p is None else p.repeat_interleave(S) for name, p in vars(settings).items()}
    regularization, decay = Regularization(**each), weight_decay.repeat_interleave(S)
    batches = _batches(seeds, len(y), n_steps).to(device)
    torch.manual_seed(0)  # of dropout and of Langevin steps
    parameters = list(networks.parameters())
    optimizer = torch.optim.Adam(parameters, lr=RATE)
    rows = torch.arange(S, device=device)[:, None]
    for step, chosen in enumerate(batches):
        rate = optimizer.param_groups[0]["lr"] = RATE * _schedule(step / n_steps)
        logits = networks(_for_settings(x[rows, chosen], C), regularization)
        losses = cross_entropy(logits.flatten(0, 1), y[chosen].repeat(C, 1).flatten(), reduction="sum") / BATCH
        optimizer.zero_grad()
        losses.backward()  # a sum over networks that share no parameter
        with torch.no_grad():
            for parameter in parameters:
                parameter.mul_((1 - rate * decay).view(-1, *[1] * (parameter.ndim - 1)))
        optimizer.step()
    return _scores(networks, *splits.validation, C), _scores(networks, *splits.test, C)


@torch.no_grad()
def _scores(networks: Networks, x: Tensor, y: Tensor, C: int) -> Scores:
    size = max(1, MAX_IMAGES // (C * len(x)))
    pieces = [networks(_for_settings(piece, C)) for piece in x.split(size, 1)]
    logits = torch.cat(pieces, 1).unflatten(0, (C, len(x)))
    right = (logits.argmax(-1) == y).double().mean(-1)
    nats = -logits.log_softmax(-1).gather(-1, y.expand(logits.shape[:-1]).unsqueeze(-1)).double().mean((-1, -2))
    return Scores(right.cpu().numpy(), nats.cpu().numpy())


def _for_settings(x: Tensor, C: int) -> Tensor:
    """Images (S, ...) for the networks of C settings: (C S, ...)."""
    return x.expand(C, *x.shape).flatten(0, 1)


def _batches(seeds: list[int], n: int, n_steps: int) -> Tensor:
    """Numbers of the images of each batch, (steps, S, batch): random orders of all images, one after another."""
    epochs = math.ceil(n_steps * BATCH / n)
    made = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        order = torch.cat([torch.randperm(n, generator=generator) for _ in range(epochs)])
        made.append(order[: n_steps * BATCH].view(n_steps, BATCH))
    return torch.stack(made, 1)


def _schedule(done: float) -> float:
    """The learning rate as a share of its peak: linear warm-up, then a cosine to zero."""
    if done < WARM_UP:
        return done / WARM_UP
    return (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP))) / 2
