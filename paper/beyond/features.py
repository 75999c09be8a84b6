"""p_beta beyond pixels: draws in the features of a frozen encoder, decoded by the nearest parts of stored images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import temperature

from .. import drawing
from ..baselines.training import layers, torch_or_remedy, train
from ..data import Data
from ..expected import Expected
from ..progress import stage
from ..protocol import N_SAMPLES, seeds
from ..results import Figure, Measured, Result, Table
from .judging import COPIES, DEVIATION, MEASURES, Split, judged, split, squared_distances

DIGIT, K = 3, 3500
OTHERS = tuple(digit for digit in range(10) if digit != DIGIT)  # what the encoder learns from
CHANNELS, EPOCHS = 32, 3
BLOCK, MARGIN = 4, 2  # a part is a block of pixels, pasted with a margin on each side
HOTTER = (1, 16, 64)  # beta by leave-one-out likelihood is divided by these
N_SETS = 2

Array = Any


@dataclass(frozen=True, eq=False)
class Encoder:
    """A map from unit rows (n, side²) to features (n, cells, cells, channels), one cell per block of pixels."""

    apply: Callable[[Array], Array]
    name: str


@dataclass(frozen=True, eq=False)
class Parts:
    """Stored images, their features, and the decoder that pastes the stored part nearest to each part of a draw.

    stored:  unit rows (K, side²)
    encoder: its features, flat and with unit norm, are the memories
    """

    stored: Array
    encoder: Encoder

    @cached_property
    def features(self) -> Array:
        """Features of the stored images, (K, cells, cells, channels), divided by the norm of the image's features."""
        found = self.encoder.apply(self.stored)
        return found / np.linalg.norm(found.reshape(len(found), -1), axis=1)[:, None, None, None]

    @cached_property
    def bank(self) -> sa.MemoryBank:
        """The features as memories."""
        return sa.MemoryBank(self.features.reshape(len(self.features), -1))

    def decode(self, draws: Array) -> Array:
        """Unit rows (n, side²) from draws (n, d): in each cell the stored image with the nearest features around it."""
        n_cells, shape = self.features.shape[1], self.features.shape[1:]
        drawn = draws.reshape(-1, *shape)
        side = round(self.stored.shape[1] ** 0.5)
        images = self.stored.reshape(-1, side, side)
        total, weight = np.zeros((len(drawn), side, side)), np.zeros((side, side))
        for row in range(n_cells):
            for column in range(n_cells):
                around = _around(row, n_cells), _around(column, n_cells)
                nearest = _nearest(drawn[:, around[0], around[1]], self.features[:, around[0], around[1]])
                place = _pixels(row, side), _pixels(column, side)
                total[:, place[0], place[1]] += images[nearest][:, place[0], place[1]]
                weight[place] += 1
        rows = (total / np.maximum(weight, 1)).reshape(len(drawn), -1)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def nearest_images(self, draws: Array) -> Array:
        """The stored image whose features are nearest to each draw, (n, side²)."""
        return self.stored[_nearest(draws, np.asarray(self.bank.patterns))]


def _around(cell: int, n_cells: int) -> slice:
    return slice(max(cell - 1, 0), min(cell + 2, n_cells))


def _pixels(cell: int, side: int) -> slice:
    """The pixels of a cell with a margin; the last cell takes what is left of the image."""
    end = side if (cell + 1) * BLOCK + MARGIN > side else (cell + 1) * BLOCK + MARGIN
    return slice(max(cell * BLOCK - MARGIN, 0), end)


def _nearest(rows: Array, stored: Array) -> Array:
    flat = np.ascontiguousarray(stored.reshape(len(stored), -1))
    return squared_distances(np.ascontiguousarray(rows.reshape(len(rows), -1)), flat).argmin(1)


def pixel_encoder(side: int) -> Encoder:
    """The pixels of each block as features: no encoder, the same decoder."""
    n_cells = -(-side // BLOCK)
    extra = n_cells * BLOCK - side

    def apply(rows: Array) -> Array:
        images = np.pad(rows.reshape(-1, side, side), ((0, 0), (0, extra), (0, extra)))
        blocks = images.reshape(len(rows), n_cells, BLOCK, n_cells, BLOCK).swapaxes(2, 3)
        return blocks.reshape(len(rows), n_cells, n_cells, BLOCK**2).astype(np.float32)

    return Encoder(apply, "pixels")


def learned_encoder(data: Data, seed: int, quick: bool) -> Encoder:
    """Two convolutions of a network that was trained to tell the other nine digits apart, and then frozen."""
    torch = torch_or_remedy()
    counts = {digit: min(data.n_digits(digit), 100 if quick else 1000) for digit in OTHERS}
    rows = np.concatenate([data.digits(digit, n).patterns for digit, n in counts.items()])
    labels = np.repeat(np.arange(len(OTHERS)), list(counts.values()))
    side = round(rows.shape[1] ** 0.5)
    n_cells = -(-side // BLOCK)
    torch.manual_seed(seed)
    convolutions = torch.nn.Sequential(
        torch.nn.Conv2d(1, CHANNELS // 2, 5, stride=2, padding=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(CHANNELS // 2, CHANNELS, 3, stride=2, padding=1),
        torch.nn.ReLU(),
    )
    both = torch.nn.ModuleList([convolutions, layers([n_cells**2 * CHANNELS, len(OTHERS)])])

    def features(x: Any) -> Any:
        # Unit rows have pixels of size 1/side; the padding makes the sides multiples of a block.
        images = side * x.reshape(-1, 1, side, side)
        extra = n_cells * BLOCK - side
        return convolutions(torch.nn.functional.pad(images, (0, extra, 0, extra)))

    def loss(epoch: Any, x: Any) -> Any:
        return torch.nn.functional.cross_entropy(both[1](features(x[:, :-1]).flatten(1)), x[:, -1].long())

    labelled = torch.tensor(np.column_stack([rows, labels]), dtype=torch.float32)
    train(both, loss, labelled, 1 if quick else EPOCHS, "encoder", batch=128, settings=(OTHERS, BLOCK))

    def apply(some: Array) -> Array:
        with torch.no_grad():
            found = features(torch.tensor(np.asarray(some), dtype=torch.float32))
        return found.permute(0, 2, 3, 1).contiguous().numpy()

    return Encoder(apply, "features")


def run(data: Data, seed: int, quick: bool) -> Result:
    """Table and figure features."""
    parts = split(data, DIGIT, K)
    side = round(parts.stored.shape[1] ** 0.5)
    rows = {"Real images (neither stored nor held out)": judged([parts.others], parts, seed)}
    shown: list[tuple[str, Array]] = [("held out", parts.held_out[:16])]
    pixels = sa.MemoryBank(parts.stored.astype(np.float32))
    chosen = temperature.leave_one_out(pixels)
    stage("pixels")
    draw(rows, shown, f"pixels, exact draws (β = {chosen:.0f})", parts, seed, lambda s: _exact(pixels, chosen, s))
    betas = {}
    for encoder in (pixel_encoder(side), learned_encoder(data, seed, quick)):
        stage(encoder.name)
        stored = Parts(parts.stored, encoder)
        betas[encoder.name] = beta = temperature.leave_one_out(stored.bank)
        if encoder.name == "features":
            name = f"features, nearest stored image (β = {beta:.0f})"
            draw(rows, shown, name, parts, seed, lambda s, p=stored, b=beta: p.nearest_images(_exact(p.bank, b, s)))  # type: ignore[misc]
        for factor in HOTTER:
            draw(
                rows,
                shown,
                f"{encoder.name}, nearest parts (β = {beta / factor:.0f})",
                parts,
                seed,
                lambda s, p=stored, b=beta / factor: p.decode(_exact(p.bank, b, s)),  # type: ignore[misc]
            )
    return Result(
        [_table(rows, parts)], [Figure("features", _CAPTION, lambda: drawing.panel_rows(shown, 4, (side, side)))]
    )


_CAPTION = (
    "Digit 3, K = 3,500: exact draws of p_β in pixels, and in the features of a frozen encoder that was trained on the "
    "other nine digits, decoded by pasting the stored part with the nearest features. β by leave-one-out likelihood, "
    "then 16 and 64 times hotter."
)


def _exact(bank: sa.MemoryBank, beta: float, seed: int) -> Array:
    return np.asarray(sa.StochasticAttention(bank, beta=beta).sample(N_SAMPLES, rng=seed))


def draw(
    rows: dict[str, dict[str, Measured]],
    shown: list[tuple[str, Array]],
    name: str,
    parts: Split,
    seed: int,
    sample: Callable[[int], Array],
) -> None:
    """Judge sets of samples of a method, and keep 16 of them for the figure."""
    sets = [np.asarray(sample(s), dtype=np.float64) for s in seeds(seed, N_SETS)]
    rows[name] = judged(sets, parts, seed)
    shown.append((name, sets[0][:16]))


def _table(rows: dict[str, dict[str, Measured]], parts: Split) -> Table:
    made = {name: row for name, row in rows.items() if not name.startswith("Real")}
    pixels = next(name for name in made if name.startswith("pixels, exact"))
    return Expected("features", "Not in the paper: p_β in the features of a frozen encoder, digit 3", {}).against(
        rows,
        notes=(
            f"{len(parts.stored):,} stored images. The encoder is two convolutions of a network that was trained to "
            f"tell the other nine digits apart and never saw this one; its {CHANNELS} channels in each block of "
            f"{BLOCK} × {BLOCK} pixels are the features, and the unit-norm features of an image are a memory. A draw "
            "is decoded part by part: each block comes from the stored image whose features around it are nearest. "
            "“pixels, nearest parts” uses the same decoder with the pixels of a block as features. β: leave-one-out "
            f"likelihood of the stored images, and {HOTTER[1]} and {HOTTER[2]} times less. Means over {N_SETS} sets of "
            f"{N_SAMPLES} samples.",
            MEASURES,
            "Densities in pixels and in features have different units, so the exact likelihoods are not compared.",
        ),
        findings=(
            "The two-sample test alone does not notice copies. Decoding by parts removes the noise of draws in "
            f"pixels, whose deviation is {made[pixels][DEVIATION].value:.2f}: {_listed(made, DEVIATION)}. But at the "
            f"likeliest β the decoded images are stored ones, and mixing the parts of several images needs a β far "
            f"below it: the share of copies is {_listed(made, COPIES)}.",
        ),
    )


def _listed(made: dict[str, dict[str, Measured]], quantity: str) -> str:
    """The values of the rows that are decoded by nearest parts, in their order."""
    return ", ".join(f"{row[quantity].value:.2f} ({name})" for name, row in made.items() if "nearest parts" in name)
