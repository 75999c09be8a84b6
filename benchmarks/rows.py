"""One figure of sequences, rows of a table and paths of returns: stored, held out, p_beta, its readout, ours.

STOCHATTN_DATA=FOLDER python -m benchmarks.rows [--out docs]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import energy
from stochattn._backend.files import atomic_file
from stochattn._backend.random import Purpose, generator
from stochattn.core.neighbors import nearest_rows
from stochattn.evaluation import splits
from stochattn.kinds import Coordinates, HopfieldGenerator, LinearEmbedding
from stochattn.kinds.codec import Codec
from stochattn.kinds.returns.codec import ReturnsCodec
from stochattn.kinds.returns.kind import KIND as RETURNS
from stochattn.synthesizer.synthesizer import Synthesizer

NAMES = ("stored", "held out", "p_beta, natural", "its readout", "ours")
N_SHOWN, N_DAYS = 24, 250
GROUPS = ("AVILMC", "FWYH", "STNQ", "KR", "DE", "GP", "-")
"""Groups of residues; each has one color of SERIES."""
SERIES = ("#4c78a8", "#b279a2", "#54a24b", "#e45756", "#f58518", "#9d9d9d", "#ffffff")


def p_beta(law: HopfieldGenerator, codec: Codec | None, n: int) -> tuple[Any, Any]:
    """n items of p_beta, and their readouts attend(xi); arrays if there is no codec."""
    draws = law.sample(n, generator(0, Purpose.DRAW, 0))
    readout = energy.attend(draws.rows, law.model.bank, law.beta)
    coordinates = law.embedding.coordinates
    source = nearest_rows(readout, coordinates.stored)
    arrays = law.embedding.arrays(readout * coordinates.factors()[source], source, np.random.default_rng(0))
    if codec is None:
        return draws.values, arrays
    return codec.decode(draws.values, draws.source), codec.decode(arrays, source)


def drawn(synth: sa.Synthesizer, n: int) -> tuple[Any, Any, Any]:
    """n items of p_beta at beta="natural", their readouts, and n items of the default generator."""
    law = synth.with_generator("hopfield").generator
    assert isinstance(law, HopfieldGenerator)
    return *p_beta(law, synth.codec, n), synth.sample_items(n, 0)


def sequences(axes: Any, folder: Path) -> None:
    """Alignments as images, one pixel per residue, colored by groups of similar residues."""
    from matplotlib.colors import ListedColormap

    family = sa.fit(folder / "pfam" / "PF00014_seed.sto")
    half = next(splits(family.codec.K, 1))
    stored, held_out = family.codec.stored[half.stored], family.codec.stored[half.held_out]
    color = np.array(
        [next(i for i, group in enumerate(GROUPS) if letter in group) for letter in "ACDEFGHIKLMNPQRSTVWY-"]
    )
    for axis, codes in zip(axes, (stored, held_out, *drawn(family.refit(half.stored), N_SHOWN)), strict=True):
        axis.imshow(
            color[codes[:N_SHOWN]], cmap=ListedColormap(SERIES), vmin=0, vmax=6, aspect="auto", interpolation="nearest"
        )
        axis.set_xticks([])
        axis.set_yticks([])
    axes[0].set_ylabel("PF00014, 49 stored")


def table(axes: Any) -> None:
    """Two columns of the wine data."""
    from sklearn.datasets import load_wine

    frame = load_wine(as_frame=True).frame
    half = next(splits(len(frame), 1))
    stored, held_out = (frame.iloc[part].reset_index(drop=True) for part in half)
    for axis, rows in zip(axes, (stored, held_out, *drawn(sa.fit(stored), len(stored))), strict=True):
        axis.scatter(rows["flavanoids"], rows["color_intensity"], s=5, c=rows["target"].astype(int), cmap="viridis")
        axis.set(xlim=(0, 5.5), ylim=(0, 14), xticks=[], yticks=[])
    axes[0].set_ylabel("wine, 89 stored")


def returns(axes: Any, folder: Path) -> None:
    """Equal-weight portfolios of 20 tickers over 250 days, five paths each."""
    with np.load(folder / "returns.npz", allow_pickle=False) as file:
        history = np.diff(np.log(file["closes"].astype(np.float64)), axis=0)[:, :20]
    blocks = history[: len(history) // N_DAYS * N_DAYS].reshape(-1, N_DAYS, 20)
    stored = blocks[::2]
    rows = stored.reshape(-1, 20)
    days = HopfieldGenerator.fit(LinearEmbedding(Coordinates.fit(rows, norm="whole"), (20,)), np.ones(len(rows)))
    shaped = (items.reshape(5, N_DAYS, 20) for items in p_beta(days, None, 5 * N_DAYS))
    codec = ReturnsCodec.fit(rows, [str(i) for i in range(20)], runs=[N_DAYS] * len(stored))
    paths = Synthesizer.of(RETURNS, codec, "windows", days=N_DAYS).sample_items(5, 0)
    for axis, some in zip(axes, (stored[:5], blocks[1::2][:5], *shaped, paths), strict=True):
        axis.plot(some.mean(2).cumsum(1).T, lw=0.8)
        axis.set(ylim=(-0.6, 0.6), xticks=[], yticks=[])
    axes[0].set_ylabel("20 tickers, 250 days")


def main() -> None:
    """Write rows.png."""
    from matplotlib.figure import Figure

    parser = argparse.ArgumentParser(prog="python -m benchmarks.rows", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs"))
    out: Path = parser.parse_args().out
    folder = Path(os.environ["STOCHATTN_DATA"])
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    axes = figure.subplots(3, 5)
    sequences(axes[0], folder)
    table(axes[1])
    returns(axes[2], folder)
    for axis, name in zip(axes[0], NAMES, strict=True):
        axis.set_title(name, fontsize=10)
    out.mkdir(parents=True, exist_ok=True)
    with atomic_file(out / "rows.png") as unfinished:
        figure.savefig(unfinished, format="png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
