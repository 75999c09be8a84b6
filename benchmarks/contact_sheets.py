"""Contact sheets with one labeled row per method: threes and portraits.

STOCHATTN_DATA=FOLDER python -m benchmarks.contact_sheets FOLDER
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .picture_baselines import Method, gaussian_mixture, p_beta, patches, vae
from .picture_data import digits, portraits, split, split_portraits

ROWS: dict[str, Method] = {
    "p_beta at the paper's\ninflection": p_beta("inflection"),
    "readout at the\ninflection": p_beta("inflection", readout=True),
    "p_beta, natural": p_beta("natural"),
    "readout, natural": p_beta("natural", readout=True),
    "Gaussian mixture": gaussian_mixture,
    "VAE": vae,
    "patches (ours)": patches,
}
MARGIN, WIDTH, LINE = 150, 1000, 1
"""Pixels of the label column, of the pictures (approximately), and between pictures."""


def write_contact_sheets(out: Path) -> None:
    """Write threes.png (K = 300) and portraits.png (ten people, five stored portraits each) to `out`."""
    out.mkdir(parents=True, exist_ok=True)
    stored, held_out = split(digits()[3], 300, 300, 0)
    generated = {name: method(stored, 16, 0) for name, method in ROWS.items()}
    contact_sheet({"stored": stored[:16], "held out": held_out[:16]} | generated, out / "threes.png")

    people = split_portraits(portraits(), 0)
    stored = people.stored.reshape(-1, 64, 64)
    generated = {name: method(stored, 10, 0) for name, method in ROWS.items() if name != "VAE"}
    generated["patches (ours)\ncontinued"] = patches(stored, 20, 0)[10:]
    shown = {"stored": people.stored[:, 0], "held out": people.held_out[:, 0]} | generated
    contact_sheet(shown, out / "portraits.png")


def contact_sheet(rows: Mapping[str, Any], path: Path) -> None:
    """Write rows of pictures (n, H, W) with values from 0 to 1, each with its name on the left."""
    from PIL import Image, ImageDraw, ImageFont

    framed = [np.pad(row, ((0, 0), (LINE, LINE), (LINE, LINE)), constant_values=0.4) for row in rows.values()]
    levels = np.concatenate([np.concatenate(list(row), axis=1) for row in framed])
    levels = np.round(255 * np.clip(levels, 0, 1)).astype(np.uint8)
    scale = max(1, round(WIDTH / levels.shape[1]))
    pictures = Image.fromarray(levels.repeat(scale, axis=0).repeat(scale, axis=1))
    sheet = Image.new("L", (MARGIN + pictures.width, pictures.height), 255)
    sheet.paste(pictures, (MARGIN, 0))
    write, font = ImageDraw.Draw(sheet), ImageFont.load_default(13)
    for i, name in enumerate(rows):
        write.text((8, (i + 0.5) * pictures.height / len(rows)), name, fill=0, font=font, anchor="lm")
    sheet.save(path, optimize=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        write_contact_sheets(Path(sys.argv[1]))
