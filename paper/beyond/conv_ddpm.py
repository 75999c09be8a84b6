"""A diffusion model that works, at K = 100 and K = 3,500: a convolutional network in place of the published one.

The network is trained by `python -m paper.beyond.unet`, on a GPU; the first samples that it drew are in the folder
`trained` next to this file, and are judged here like the rows of the main table. The samples for K = 100 are not kept
there, because most of them are near-copies of MNIST images; a run without them leaves their row out and says so. A
quick run trains a small network for a few steps instead.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import temperature

from .. import drawing
from ..data import Data
from ..expected import Expected
from ..progress import stage
from ..protocol import N_SAMPLES, seeds
from ..results import Figure, Measured, Result, Table
from .judging import COPIES, DEVIATION, MEASURES, judged, split

DIGIT, SIZES = 3, (100, 3500)
TRAINED = Path(__file__).with_name("trained")
TRAINING = "python -m paper.beyond.unet --data mnist.npz --out paper/beyond/trained"
MEASURED = {100: "1-NN deviation 0.44, copies 0.82"}  # with samples of seed 0 that are not kept
N_SETS = 2
REAL = "Real images (neither stored nor held out)"

Array = Any


def run(data: Data, seed: int, quick: bool) -> Result:
    """Table and figure conv-ddpm."""
    rows: dict[str, dict[str, Measured]] = {}
    shown: list[tuple[str, Array]] = []
    notes = []
    sizes = SIZES if quick else available()
    for K in SIZES:
        stage(f"K = {K:,}")
        parts = split(data, DIGIT, K)
        if not shown:
            rows[REAL] = judged([parts.others], parts, seed)
            shown.append(("held out", parts.held_out[:16]))
        if K in sizes:
            made, note = small(parts.stored, seed) if quick else trained(K, parts.stored.shape[1])
        else:
            made, note = {}, left_out(K)
        notes.append(note)
        for name, samples in made.items():
            rows[f"{name}, K = {K:,}"] = judged(_sets(samples), parts, seed)
            shown.append((f"{name}, K = {K:,}", samples[:16]))
        bank = sa.MemoryBank(parts.stored.astype(np.float32))
        beta = temperature.leave_one_out(bank)
        exact = [sa.StochasticAttention(bank, beta=beta).sample(N_SAMPLES, rng=s) for s in seeds(seed, N_SETS)]
        rows[f"p_β, exact draws (β = {beta:.0f}), K = {K:,}"] = judged([np.float64(x) for x in exact], parts, seed)
        shown.append((f"p_β (β = {beta:.0f}), K = {K:,}", np.asarray(exact[0][:16])))
    side = round(shown[0][1].shape[1] ** 0.5)
    return Result(
        [_table(rows, notes)], [Figure("conv-ddpm", _CAPTION, lambda: drawing.panel_rows(shown, 4, (side, side)))]
    )


_CAPTION = (
    "Digit 3: held-out images, samples of a convolutional diffusion model after several numbers of training steps, and "
    "exact draws of p_β with the same stored images."
)


def available() -> tuple[int, ...]:
    """The sizes whose samples and losses are in the folder of trained networks."""
    found = tuple(K for K in SIZES if all(path.is_file() for path in _files(K)))
    if not found:
        raise RuntimeError(f"{TRAINED} has no samples of a trained network: run `{TRAINING}` on a GPU.")
    return found


def left_out(K: int) -> str:
    """A note on a size without samples, with what was measured when they were there."""
    measured = f" Measured with them: {MEASURED[K]}." if K in MEASURED else ""
    return (
        f"K = {K:,}: the row of the network is left out, because its samples are not in the repository; "
        f"`{TRAINING} --K {K}` draws them on a GPU.{measured}"
    )


def trained(K: int, d: int) -> tuple[dict[str, Array], str]:
    """Samples (n, d) of the trained networks as unit rows, by number of steps, and a note on the training."""
    place, losses = _files(K)
    with np.load(place) as file:
        images = {int(name.removeprefix("steps_")): file[name] for name in file.files}
    record = json.loads(losses.read_text(encoding="utf-8"))
    rows = {f"convolutional DDPM, {steps:,} steps": as_rows(some) for steps, some in sorted(images.items())}
    if next(iter(rows.values())).shape[1] != d:
        raise RuntimeError(f"{place} has images of another size than the data: train on these images again.")
    last = max(record["seconds"], key=int)
    return rows, (
        f"K = {K:,}: loss {record['losses'][-1]:.4f} after {int(last):,} steps, {record['seconds'][last]:.0f} s on "
        f"{record['device']}, seed {record['seed']}."
    )


def _files(K: int) -> tuple[Path, Path]:
    return TRAINED / f"samples-{K}.npz", TRAINED / f"losses-{K}.json"


def small(stored: Array, seed: int) -> tuple[dict[str, Array], str]:
    """Samples of a small network after three steps, for quick runs."""
    from . import unet

    side = round(stored.shape[1] ** 0.5)
    images = (255 * stored / stored.max()).reshape(-1, side, side).astype(np.uint8)
    ((steps, network, losses),) = unet.train(images, (3,), seed, "cpu", width=8, batch=8)
    rows = {f"convolutional DDPM, {steps:,} steps": as_rows(unet.sample(network, 8, side, seed, "cpu"))}
    return rows, f"K = {len(stored):,}: loss {losses[-1]:.4f} after {steps} steps of a small network."


def as_rows(images: Array) -> Array:
    """Images (n, side, side) of bytes as unit rows."""
    rows = images.reshape(len(images), -1) / 255
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)


def _sets(samples: Array) -> list[Array]:
    return [samples[i : i + N_SAMPLES] for i in range(0, len(samples), N_SAMPLES)]


def _table(rows: dict[str, dict[str, Measured]], notes: list[str]) -> Table:
    return Expected("conv-ddpm", "Not in the paper: a convolutional diffusion model, digit 3", {}).against(
        rows,
        notes=(
            "A convolutional network on three scales (64 and 128 channels) predicts the noise in pixels between −1 and "
            "1 at 400 levels of the cosine schedule; Adam, batches of 256, moving average of the weights. "
            f"Samples in sets of {N_SAMPLES}. {' '.join(notes)}",
            MEASURES,
        ),
        findings=_findings(rows),
    )


def _findings(rows: dict[str, dict[str, Measured]]) -> list[str]:
    """One statement for each size with samples of a network: the best number of steps against p_β and real images."""
    found = []
    for K in reversed(SIZES):
        at_size = {name: row for name, row in rows.items() if name.endswith(f"K = {K:,}")}
        networks = [name for name in at_size if name.startswith("convolutional")]
        if not networks:
            continue
        best = min(networks, key=lambda name: rows[name][DEVIATION].value)
        exact = next(name for name in at_size if name.startswith("p_β"))
        found.append(
            f"With {K:,} images a convolutional network reaches a deviation of {rows[best][DEVIATION].value:.2f} in "
            f"the nearest-neighbour test after {_steps(best)}, real images {rows[REAL][DEVIATION].value:.2f}, exact "
            f"draws of p_β {rows[exact][DEVIATION].value:.2f}. Its share of copies is {rows[best][COPIES].value:.2f}, "
            f"that of p_β {rows[exact][COPIES].value:.2f}."
        )
    return found


def _steps(name: str) -> str:
    return name.removeprefix("convolutional DDPM, ").rpartition(", K")[0]
