"""A diffusion model that works: a convolutional network with skip connections, trained on stored images.

    python -m paper.beyond.unet --data mnist.npz --out FOLDER --device cuda

writes samples-K.npz with images drawn after several numbers of training steps, and losses-K.json. It needs numpy and
torch only. On one H200 the default takes about four minutes; on a processor it takes hours, so `--steps` can be small.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

N_LEVELS = 400  # noise levels
WIDTH = 64
BATCH = 256
RATE, DECAY = 3e-4, 0.999  # of Adam, and of the moving average of the weights
DEFAULT_STEPS = {100: (2000,), 3500: (2000, 6000, 14_000)}
DEFAULT_SAMPLES = 600
RECORD_EVERY = 100  # steps over which a recorded loss is averaged

Tensor = Any  # torch is not typed here
Array = Any


class Residual(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Two convolutions beside the identity; the noise level shifts the channels between them."""

    def __init__(self, n_in: int, n_out: int, width: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(8, n_in), nn.SiLU(), nn.Conv2d(n_in, n_out, 3, padding=1))
        self.level = nn.Linear(4 * width, n_out)
        self.second = nn.Sequential(nn.GroupNorm(8, n_out), nn.SiLU(), nn.Conv2d(n_out, n_out, 3, padding=1))
        self.identity = nn.Conv2d(n_in, n_out, 1) if n_in != n_out else nn.Identity()

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        """(n, n_in, h, w), (n, 4 width) -> (n, n_out, h, w)."""
        hidden = self.first(x) + self.level(level)[:, :, None, None]
        return self.identity(x) + self.second(hidden)


class UNet(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Predicts the noise in images (n, 1, side, side) at a noise level (n,), on three scales."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        w = self.width = width
        self.embed = nn.Sequential(nn.Linear(w, 4 * w), nn.SiLU(), nn.Linear(4 * w, 4 * w), nn.SiLU())
        self.begin = nn.Conv2d(1, w, 3, padding=1)
        self.down = nn.ModuleList([Residual(w, w, w), Residual(w, 2 * w, w)])
        self.middle = nn.ModuleList([Residual(2 * w, 2 * w, w), Residual(2 * w, 2 * w, w)])
        self.up = nn.ModuleList([Residual(4 * w, 2 * w, w), Residual(3 * w, w, w)])
        self.end = nn.Sequential(nn.GroupNorm(8, w), nn.SiLU(), nn.Conv2d(w, 1, 3, padding=1))
        nn.init.zeros_(self.end[-1].weight)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """The predicted noise (n, 1, side, side)."""
        side = x.shape[-1]
        extra = -side % 4  # two halvings
        x = self.begin(functional.pad(x, (0, extra, 0, extra), value=-1.0))
        level, skipped = self.embed(_sinusoids(t, self.width)), []
        for block in self.down:
            x = block(x, level)
            skipped.append(x)
            x = functional.avg_pool2d(x, 2)
        for block in self.middle:
            x = block(x, level)
        for block in self.up:
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, skipped.pop()], dim=1), level)
        return self.end(x)[:, :, :side, :side]


def _sinusoids(t: Tensor, width: int) -> Tensor:
    frequencies = torch.exp(-math.log(10_000) * torch.arange(width // 2, device=t.device) / (width // 2))
    angles = t[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def remaining_signal(n_levels: int = N_LEVELS) -> Tensor:
    """The share of the signal's variance at each level (n_levels,), by the cosine schedule."""
    x = torch.arange(n_levels + 1, dtype=torch.float64) / n_levels
    curve = torch.cos((x + 0.008) / 1.008 * math.pi / 2) ** 2
    ratios = (curve[1:] / curve[:-1]).clamp_min(1e-3)
    return torch.cumprod(ratios, 0).float()


def train(
    images: Array, steps: Sequence[int], seed: int, device: str, width: int = WIDTH, batch: int = BATCH
) -> Iterator[tuple[int, UNet, list[float]]]:
    """Train on images (K, side, side) of bytes; yield (step, averaged network, losses) after each number of steps."""
    torch.manual_seed(seed)
    rows = torch.as_tensor(images, device=device)[:, None].float() / 127.5 - 1
    signal = remaining_signal().to(device)
    network = UNet(width).to(device)
    averaged = deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    losses: list[float] = []
    running, seen = torch.zeros((), device=device), 0
    for step in range(1, max(steps) + 1):
        x = rows[torch.randint(len(rows), (min(batch, len(rows)),), device=device)]
        t = torch.randint(N_LEVELS, (len(x),), device=device)
        noise, share = torch.randn_like(x), signal[t, None, None, None]
        loss = functional.mse_loss(network(share.sqrt() * x + (1 - share).sqrt() * noise, t), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            kept = min(DECAY, step / (step + 10))
            torch._foreach_lerp_(list(averaged.parameters()), list(network.parameters()), 1 - kept)
        running += loss.detach()
        seen += 1
        if step % RECORD_EVERY == 0 or step in steps:
            losses.append(float(running) / seen)
            running.zero_()
            seen = 0
        if step in steps:
            yield step, averaged, losses


@torch.no_grad()  # type: ignore[untyped-decorator]
def sample(network: UNet, n: int, side: int, seed: int, device: str) -> Array:
    """n images (n, side, side) of bytes by the reverse process, with predicted images clipped to their range."""
    generator = torch.Generator(device).manual_seed(seed)
    signal = remaining_signal().to(device)
    x = torch.randn((n, 1, side, side), generator=generator, device=device)
    for t in reversed(range(N_LEVELS)):
        share = signal[t]
        before = signal[t - 1] if t else torch.ones((), device=device)
        predicted = network(x, torch.full((n,), t, device=device))
        image = ((x - (1 - share).sqrt() * predicted) / share.sqrt()).clamp(-1, 1)
        ratio = share / before
        x = (before.sqrt() * (1 - ratio) * image + ratio.sqrt() * (1 - before) * x) / (1 - share)
        if t:
            variance = (1 - before) / (1 - share) * (1 - ratio)
            x = x + variance.sqrt() * torch.randn(x.shape, generator=generator, device=device)
    return ((x[:, 0].clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).cpu().numpy()


def main() -> None:
    """Train on the first K images of a digit and write samples and losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="mnist.npz with an array digitN for each digit")
    parser.add_argument("--out", required=True, help="folder for samples-K.npz and losses-K.json")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--digit", type=int, default=3)
    parser.add_argument("--K", type=int, nargs="+", default=list(DEFAULT_STEPS))
    parser.add_argument("--steps", type=int, nargs="+", help="numbers of steps after which samples are drawn")
    parser.add_argument("--samples", type=int, default=DEFAULT_SAMPLES)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    with np.load(options.data) as file:
        images = file[f"digit{options.digit}"]
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    for K in options.K:
        steps = options.steps or DEFAULT_STEPS.get(K, DEFAULT_STEPS[3500])
        begin, drawn = time.perf_counter(), {}
        record: dict[str, Any] = {"K": K, "seed": options.seed, "device": _device_name(options.device), "seconds": {}}
        for step, network, losses in train(images[:K], steps, options.seed, options.device):
            record["seconds"][str(step)] = round(time.perf_counter() - begin, 1)
            drawn[f"steps_{step}"] = sample(network, options.samples, images.shape[1], options.seed, options.device)
            record["losses"] = [round(loss, 5) for loss in losses]
            print(f"K = {K}, {step} steps: loss {losses[-1]:.4f}, {record['seconds'][str(step)]} s", flush=True)
            np.savez_compressed(folder / f"samples-{K}.npz", **drawn)
            (folder / f"losses-{K}.json").write_text(json.dumps(record) + "\n")


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else "CPU"


if __name__ == "__main__":
    main()
