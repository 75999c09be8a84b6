"""Pictures side by side, a labelled row for each method: threes and portraits.

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

from .picture_data import digits, portraits, split, split_portraits
from .picture_rivals import Method, gaussian_mixture, local_heads, p_beta, vae

ROWS: dict[str, Method] = {
    "p_beta at the paper's\ninflection": p_beta("inflection"),
    "readout at the\ninflection": p_beta("inflection", readout=True),
    "p_beta, natural": p_beta("natural"),
    "readout, natural": p_beta("natural", readout=True),
    "Gaussian mixture": gaussian_mixture,
    "VAE": vae,
    "local heads (ours)": local_heads,
}
MARGIN, WIDTH, LINE = 150, 1000, 1
"""Pixels for the labels, approximately for the pictures, and between pictures."""


def write_contact_sheets(out: Path) -> None:
    """threes.png, K = 300, and portraits.png, ten people with five stored portraits of each, under `out`."""
    out.mkdir(parents=True, exist_ok=True)
    stored, held_out = split(digits()[3], 300, 300, 0)
    made = {name: method(stored, 16, 0) for name, method in ROWS.items()}
    contact_sheet({"stored": stored[:16], "held out": held_out[:16]} | made, out / "threes.png")

    halves = split_portraits(portraits(), 0)
    stored = halves.stored.reshape(-1, 64, 64)
    made = {name: method(stored, 10, 0) for name, method in ROWS.items() if name != "VAE"}
    made["more of ours"] = local_heads(stored, 20, 0)[10:]
    contact_sheet({"stored": halves.stored[:, 0], "held out": halves.held_out[:, 0]} | made, out / "portraits.png")


def contact_sheet(rows: Mapping[str, Any], path: Path) -> None:
    """Rows of pictures (n, H, W) with values from 0 to 1, lines between them, and each row's name at its left."""
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
