"""A row of pictures for each method: sequences, rows of a table and paths of returns; stored, held out, p_beta, its
readout, ours.

STOCHATTN_DATA=FOLDER python -m benchmarks.rows [--out docs]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

from stochattn import energy, pipeline
from stochattn._backend.files import whole_file
from stochattn.data.base import Codec
from stochattn.data.proteins import ProteinCodec
from stochattn.data.returns import ReturnsCodec
from stochattn.data.returns.linking import chain_windows
from stochattn.data.tables import TableCodec
from stochattn.evaluation.heldout import splits

NAMES = ("stored", "held out", "p_beta, natural", "its readout", "ours")
SHOWN, DAYS = 24, 250
GROUPS = ("AVILMC", "FWYH", "STNQ", "KR", "DE", "GP", "-")
"""Residues that are drawn in one colour."""
SERIES = ("#4c78a8", "#b279a2", "#54a24b", "#e45756", "#f58518", "#9d9d9d", "#ffffff")


def drawn(codec: Codec, n: int) -> tuple[Any, Any, Any]:
    """n items of p_beta at the natural beta, their readouts attend(xi), and n of the codec's own sampler."""
    paper, native = pipeline.plan(codec, target="paper"), pipeline.plan(codec, target="native")
    z, memory = pipeline.draw(paper, n, 0)
    readout = energy.attend(paper.rows(z, memory), paper.model.bank, paper.beta)
    items = paper.codec.items(z, memory, np.random.default_rng(0))
    return items, codec.decode(readout), next(pipeline.batches(native, n, 0)).items


def sequences(axes: Any, folder: Path) -> None:
    """Alignments as strips, a pixel a residue, coloured by groups of like residues."""
    from matplotlib.colors import ListedColormap

    whole = ProteinCodec.read(folder / "pfam" / "PF00014_seed.sto")
    half = next(splits(whole.K, 1))
    stored, held_out = whole.stored[half.stored], whole.stored[half.held_out]
    colour = np.array(
        [next(i for i, group in enumerate(GROUPS) if letter in group) for letter in "ACDEFGHIKLMNPQRSTVWY-"]
    )
    for axis, codes in zip(axes, (stored, held_out, *drawn(whole.refit(stored), SHOWN)), strict=True):
        axis.imshow(
            colour[codes[:SHOWN]], cmap=ListedColormap(SERIES), vmin=0, vmax=6, aspect="auto", interpolation="nearest"
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
    for axis, rows in zip(axes, (stored, held_out, *drawn(TableCodec.fit(stored), len(stored))), strict=True):
        axis.scatter(rows["flavanoids"], rows["color_intensity"], s=5, c=rows["target"].astype(int), cmap="viridis")
        axis.set(xlim=(0, 5.5), ylim=(0, 14), xticks=[], yticks=[])
    axes[0].set_ylabel("wine, 89 stored")


def returns(axes: Any, folder: Path) -> None:
    """Equal-weight portfolios of 20 tickers over 250 days, five paths each."""
    with np.load(folder / "returns.npz", allow_pickle=False) as file:
        history = np.diff(np.log(file["closes"].astype(np.float64)), axis=0)[:, :20]
    blocks = history[: len(history) // DAYS * DAYS].reshape(-1, DAYS, 20)
    stored = blocks[::2]
    tickers = [str(i) for i in range(20)]
    plain = ReturnsCodec.fit(stored.reshape(-1, 20), tickers, window=1, whiten=False, norm="whole", marginals="free")
    days, readouts, _ = drawn(plain, 5 * DAYS)
    ours = ReturnsCodec.fit(stored.reshape(-1, 20), tickers, runs=[DAYS] * len(stored))
    beta = pipeline.plan(ours).beta
    paths = chain_windows(ours.at(beta), beta, 5, DAYS, np.random.default_rng(0), linked=True)
    shaped = (items.reshape(5, DAYS, 20) for items in (days, readouts))
    for axis, some in zip(axes, (stored[:5], blocks[1::2][:5], *shaped, paths), strict=True):
        axis.plot(some.mean(2).cumsum(1).T, lw=0.8)
        axis.set(ylim=(-0.6, 0.6), xticks=[], yticks=[])
    axes[0].set_ylabel("20 tickers, 250 days")


def main() -> None:
    """Draw all of them into one picture."""
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
    with whole_file(out / "rows.png") as unfinished:
        figure.savefig(unfinished, format="png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
