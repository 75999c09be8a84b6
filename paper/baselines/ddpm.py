"""The paper's denoising diffusion model: an MLP on flat rows, T = 200 steps (its appendix on baselines)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .training import device, layers, torch_or_remedy, train

Array = Any
STEPS, EMBEDDING = 200, 64


class DDPM:
    """Predicts the noise in x_t from x_t and a sinusoidal embedding of t.

    unit_variance: train on rows centred and scaled to unit variance, instead of unit-norm rows (published), whose
                   pixels have size 1/√d while the noise has size 1
    predict:       "noise" (published), or "image": the same network predicts x_0, from which the noise follows.
                   White noise in d dimensions has to pass a layer of 256 units, which images of rank 100 need not.
    """

    def __init__(
        self, patterns: Array, rng: int, epochs: int = 5000, unit_variance: bool = False, predict: str = "noise"
    ) -> None:
        torch = torch_or_remedy()
        self.centre, self.scale = (float(np.mean(patterns)), float(np.std(patterns))) if unit_variance else (0.0, 1.0)
        where = device()
        rows = torch.tensor((patterns - self.centre) / self.scale, dtype=torch.float32, device=where)
        self.d, self.predict = rows.shape[1], predict
        torch.manual_seed(rng)
        self.variances = torch.linspace(1e-4, 0.02, STEPS, device=where)
        self.alpha_bar = torch.cumprod(1 - self.variances, 0)  # remaining share of the signal's variance
        self.embedding = _sinusoids(torch, where)
        self.network = layers([self.d + EMBEDDING, 512, 256, 512, self.d]).to(where)

        def loss(epoch: Any, x: Any) -> Any:
            t = torch.randint(STEPS, (len(x),), device=x.device)
            noise = torch.randn_like(x)
            noisy = self.alpha_bar[t, None].sqrt() * x + (1 - self.alpha_bar[t, None]).sqrt() * noise
            return (((noise if predict == "noise" else x) - self._output(noisy, t)) ** 2).mean()

        self.loss = train(self.network, loss, rows, epochs, f"DDPM, {len(rows)} rows", settings=(predict,))

    def _output(self, x: Any, t: Any) -> Any:
        return self.network(torch_or_remedy().cat([x, self.embedding[t]], dim=1))

    def _noise(self, x: Any, t: Any) -> Any:
        output, alpha_bar = self._output(x, t), self.alpha_bar[t, None]
        return output if self.predict == "noise" else (x - alpha_bar.sqrt() * output) / (1 - alpha_bar).sqrt()

    def sample(self, n: int, rng: int) -> Array:
        """n samples of the reverse process with unit norm."""
        torch = torch_or_remedy()
        generator = torch.Generator().manual_seed(rng)
        where = self.variances.device
        x = torch.randn((n, self.d), generator=generator).to(where)
        with torch.no_grad():
            for t in reversed(range(STEPS)):
                variance, alpha_bar = self.variances[t], self.alpha_bar[t]
                predicted = self._noise(x, torch.full((n,), t, device=where))
                x = (x - variance / (1 - alpha_bar).sqrt() * predicted) / (1 - variance).sqrt()
                if t:
                    x += variance.sqrt() * torch.randn((n, self.d), generator=generator).to(where)
        rows = x.cpu().double().numpy() * self.scale + self.centre
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _sinusoids(torch: Any, where: str) -> Any:
    frequencies = torch.exp(-math.log(10_000) * torch.arange(EMBEDDING // 2, device=where) / (EMBEDDING // 2))
    angles = torch.arange(1, STEPS + 1, device=where)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)
