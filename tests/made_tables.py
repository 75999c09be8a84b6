"""Generated tables, and functions that draw and write their rows."""

import io
from pathlib import Path

import numpy as np
import pandas as pd

from stochattn._backend.state import load_state, save_state
from stochattn.kinds import Batch, Settings
from stochattn.kinds.tables.kind import KIND
from stochattn.synthesizer.synthesizer import Synthesizer

SETTINGS = Settings(seed=1, generator="covariance", source="t.csv")


def patients(n=40, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    frame = pd.DataFrame(
        {
            "patient": [f"p{i:03d}" for i in range(n)],
            "age": pd.array(age, dtype="Int64"),
            "weight": np.round(rng.lognormal(4.2, 0.2, n), 1),
            "smoker": rng.random(n) < 0.4,
            "species": np.array(["setosa", "virginica", "versicolor"])[rng.integers(0, 3, n)],
            "when": pd.date_range("2021-01-04", periods=n, freq="3D").strftime("%d.%m.%Y"),
            "site": 7,
            "empty": np.full(n, np.nan),
        }
    )
    frame["dose"] = np.round(frame["weight"] * 0.5 + rng.normal(0, 2, n), 2)
    frame.loc[[3, 11, 20], "age"] = pd.NA
    frame.loc[[5, 11], "species"] = None
    return frame


def excel(path: Path, frame: pd.DataFrame) -> Path:
    """A file as exported by a spreadsheet with decimal commas."""
    cells = frame.assign(
        smoker=frame["smoker"].map({True: "TRUE", False: "FALSE"}),
        weight=frame["weight"].map("{:.1f}".format).str.replace(".", ","),
        dose=frame["dose"].map("{:.2f}".format).str.replace(".", ","),
    )
    path.write_bytes(cells.to_csv(index=False, sep=";", lineterminator="\r\n").encode("utf-8-sig"))
    return path


def saved_and_loaded(codec, folder):
    save_state(folder / "codec.npz", codec.state())
    return KIND.codec_from_state(load_state(folder / "codec.npz"))


def hopfield(codec, **options):
    """p_beta of the rows of a codec."""
    plain = Synthesizer.of(KIND, codec)
    return plain.with_generator("hopfield", **options)


def drawn(codec, n, seed=0, condition=(), **options):
    """n rows of p_beta given a condition, texts NAME=VALUE, and the stored row each was drawn around."""
    synth = hopfield(codec, **options).condition(KIND.parse_condition(codec, condition))
    made = synth.generator.sample(n, np.random.default_rng(seed))
    return synth.decoder.decode(made.values, made.source), made.source


def written(codec, format, items, block=7) -> bytes:
    """The file that a writer writes for rows, block by block."""
    stream = io.BytesIO()
    writer = KIND.writer(codec, stream, next(one for one in KIND.formats if one.name == format), SETTINGS)
    for first in range(0, len(items), block):
        part = codec.take(items, np.arange(first, min(first + block, len(items))))
        none = np.zeros(len(part), dtype=int)
        writer.write(Batch(first=first, items=part, nearest=none, novelty=none, extra={}, source=none))
    writer.close()
    return stream.getvalue()
