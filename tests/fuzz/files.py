"""Input files as users may have them: first right by structure, then damaged."""

from __future__ import annotations

import io
import wave
from typing import NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet
from hypothesis import strategies as st
from PIL import Image

from .arrays import arrays


class InputFile(NamedTuple):
    """A file (or a folder, where the content is files by name) as a user may have it."""

    name: str
    content: bytes | dict[str, bytes]


ROWS = st.sampled_from([20, 0, 1, 2, 3, 7, 12, 25])
WORDS = st.sampled_from(
    ["a", "b", "Anna", "n/a", "x y", "Ω", "=1+1", "-", "?", "true", "False", '"q"', "l1\nl2", "007"]
)
NUMBERS = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.integers(0, 10**30).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.floats(-1e3, 1e3).map("{:.2f}".format),
    st.floats(0, 1e6).map("{:,.2f}".format),
    st.floats(0, 1e6).map("${:.2f}".format),
    st.integers(0, 100).map("{}%".format),
    st.floats(0, 1e3).map(lambda x: f"{x:.3f}".replace(".", ",")),
)
DATES = st.one_of(
    st.dates().map(str),
    st.datetimes().map(lambda at: at.isoformat()),
    st.datetimes().map(lambda at: f"{at.isoformat()}+02:00"),
    st.dates().map(lambda at: f"{at.day:02d}.{at.month:02d}.{at.year}"),
)
CELLS = (NUMBERS, st.floats(-5, 5).map("{:.3f}".format), st.sampled_from(["1.0", "2.0"]), WORDS, DATES)
CELLS += (st.text(max_size=8),)


def quoted(cell: str, delimiter: str) -> str:
    """A cell as delimited text has it."""
    return '"' + cell.replace('"', '""') + '"' if any(sign in cell for sign in (delimiter, '"', "\n", "\r")) else cell


@st.composite
def tables(draw: st.DrawFn) -> InputFile:
    """Delimited text."""
    n, p = draw(ROWS), draw(st.integers(1, 5))
    columns = [draw(st.lists(draw(st.sampled_from(CELLS)), min_size=n, max_size=n)) for _ in range(p)]
    if draw(st.booleans()):  # some cells are missing
        gone = draw(st.sampled_from(["", "NA", "?", "nan"]))
        columns = [
            [gone if (i * 7 + j) % 5 == 0 else cell for i, cell in enumerate(one)] for j, one in enumerate(columns)
        ]
    header = draw(st.lists(st.one_of(WORDS, st.text(max_size=6)), min_size=p, max_size=p))
    delimiter, newline = draw(st.sampled_from([",", ";", "\t", "|", " "])), draw(st.sampled_from(["\n", "\r\n"]))
    rows = [header, *zip(*columns, strict=True)] if draw(st.integers(0, 4)) else [*zip(*columns, strict=True)]
    text = newline.join(delimiter.join(quoted(cell, delimiter) for cell in row) for row in rows)
    text = draw(st.sampled_from(["", "", "# made by hand\n", "sep=;\n"])) + text + draw(st.sampled_from(["", newline]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    return InputFile(draw(st.sampled_from(["t.csv", "t.tsv", "t.txt", "t.tab"])), text.encode(encoding, "replace"))


@st.composite
def prices(draw: st.DrawFn) -> InputFile:
    """Daily prices or returns of some assets."""
    n, p = 2 * draw(ROWS), draw(st.integers(1, 4))
    first = draw(st.dates(min_value=np.datetime64("1950-01-01").item(), max_value=np.datetime64("2050-01-01").item()))
    days = np.datetime64(first) + np.arange(n)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    levels = np.exp(np.cumsum(rng.normal(scale=0.01, size=(n, p)), 0)) * draw(st.sampled_from([1.0, 100.0, 0.0, -1.0]))
    cells = [[f"{value:.4f}" for value in row] for row in levels]
    for i in draw(st.lists(st.integers(0, max(n * p - 1, 0)), max_size=4)):
        if n:
            cells[i // p % n][i % p] = draw(st.sampled_from(["", "nan", "x", "1,234.5"]))
    lines = [",".join(["date", *(f"T{j}" for j in range(p))])]
    lines += [",".join([str(day), *row]) for day, row in zip(days, cells, strict=True)]
    return InputFile("prices.csv", "\n".join(lines).encode())


@st.composite
def alignments(draw: st.DrawFn) -> InputFile:
    """Sequences as FASTA, A2M or Stockholm."""
    length, residues = draw(ROWS), st.sampled_from("ACDEFGHIKLMNPQRSTVWYXBZ-.*acd")
    n = draw(ROWS)
    texts = [draw(st.text(residues, min_size=length, max_size=length)) for _ in range(n)]
    if draw(st.integers(0, 5)) == 0:
        texts = [draw(st.text(residues, max_size=12)) for _ in range(n)]
    names = [draw(st.one_of(st.just(f"s{i}"), st.text(min_size=1, max_size=6))) for i in range(n)]
    ending = draw(st.sampled_from([".fasta", ".fa", ".a2m", ".a3m", ".sto", ".aln"]))
    if ending == ".sto":
        body = "".join(f"{name.strip() or 'x'} {text}\n" for name, text in zip(names, texts, strict=True))
        text = f"# STOCKHOLM 1.0\n{body}//\n" * draw(st.integers(1, 2))
    else:
        text = "".join(f">{name}\n{text}\n" for name, text in zip(names, texts, strict=True))
    return InputFile(f"family{ending}", text.encode(draw(st.sampled_from(["utf-8", "latin-1"])), "replace"))


@st.composite
def parquet_files(draw: st.DrawFn) -> InputFile:
    """A table as a parquet file, which has types and may hold nested values."""
    n, buffer = draw(ROWS), io.BytesIO()
    columns = {
        "number": st.floats(), "whole": st.integers(-(2**62), 2**62), "word": WORDS, "truth": st.booleans(),
        "day": st.dates(), "list": st.lists(st.integers(0, 3), max_size=2), "bytes": st.binary(max_size=3),
    }  # fmt: skip
    names = draw(st.lists(st.sampled_from(sorted(columns)), max_size=4, unique=True))
    cells = {name: draw(st.lists(st.none() | columns[name], min_size=n, max_size=n)) for name in names}
    pyarrow.parquet.write_table(pyarrow.table(cells), buffer)
    return InputFile(draw(st.sampled_from(["t.parquet", "t.pq"])), buffer.getvalue())


@st.composite
def array_files(draw: st.DrawFn) -> InputFile:
    """An .npy matrix or stack of pictures, or an .npz of pictures and labels."""
    array, buffer = draw(arrays()), io.BytesIO()
    if draw(st.booleans()):
        np.save(buffer, array)
        return InputFile("array.npy", buffer.getvalue())
    labels = np.arange(len(array) if array.ndim else 1).astype(str)
    named = draw(st.sampled_from([{"images": array, "labels": labels}, {"images": array}, {"x": array}, {}]))
    np.savez(buffer, **named)
    return InputFile("pictures.npz", buffer.getvalue())


@st.composite
def folders(draw: st.DrawFn) -> InputFile:
    """A folder of pictures."""
    found: dict[str, bytes] = {}
    side = draw(st.integers(1, 12))
    for i in range(draw(ROWS) // 2):
        mode = draw(st.sampled_from(["L", "RGB", "RGBA", "P", "1", "I;16"]))
        size = (side, side) if draw(st.integers(0, 6)) else (side + 1, side)
        buffer = io.BytesIO()
        Image.new(mode, size, 17 * i % 2 if mode == "1" else 0).save(buffer, "PNG")
        content = buffer.getvalue()
        found[f"{i}.png"] = draw(damaged(content)) if draw(st.integers(0, 9)) == 0 else content
    if draw(st.booleans()):
        found["notes.txt"] = b"not a picture"
    return InputFile("faces", found)


@st.composite
def ts_files(draw: st.DrawFn) -> InputFile:
    """Signals in the format of the UCR archive, with a header that may be wrong."""
    n, channels, points = draw(ROWS), draw(st.integers(1, 3)), draw(st.sampled_from([12, 1, 3, 0]))
    classes = draw(st.sampled_from([(), ("a", "b"), ("a b", "a_b"), ("1",)]))
    said = " ".join(["true", *draw(st.sampled_from([classes, classes[:1]]))]) if classes else "false"
    header = ["@problemName made", f"@classLabel {draw(st.sampled_from([said, 'true', 'maybe']))}"]
    header += draw(st.lists(st.sampled_from(["@timeStamps true", "@univariate true", "@equalLength", "# x", "@"])))
    rng, scale = np.random.default_rng(draw(st.integers(0, 99))), draw(st.sampled_from([1.0, 0.0, 1e-300, 1e300]))
    rows = [[[f"{v:.6g}" for v in one] for one in signal] for signal in scale * rng.normal(size=(n, channels, points))]
    for i in draw(st.lists(st.integers(0, 10**4), max_size=2)):
        if n * points:
            rows[i % n][i % channels][i % points] = draw(st.sampled_from(["?", "NaN", "inf", "x", "", "1,2"]))
    lines = [":".join([*(",".join(one) for one in row), *classes[i % 2 : i % 2 + 1]]) for i, row in enumerate(rows)]
    return InputFile("beats.ts", "\n".join([*header, "@data", *lines]).encode())


@st.composite
def wav_folders(draw: st.DrawFn) -> InputFile:
    """A folder of WAV files of one or several rates, lengths, widths and numbers of channels."""
    found, odd = dict[str, bytes](), draw(st.integers(0, 3)) == 0
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    for i in range(draw(ROWS) // 2):
        other = odd and i == 1
        channels, width = (draw(st.integers(1, 2)), draw(st.integers(1, 4))) if other else (1, 2)
        points, buffer = draw(st.sampled_from([0, 1, 40])) if other else 40, io.BytesIO()
        with wave.open(buffer, "wb") as out:
            out.setparams((channels, width, 4000 if other else 8000, 0, "NONE", ""))
            out.writeframes(rng.bytes(channels * width * points))
        content = buffer.getvalue()
        found[f"{i}.wav"] = draw(damaged(content)) if draw(st.integers(0, 9)) == 0 else content
    return InputFile("sounds", found)


@st.composite
def signal_arrays(draw: st.DrawFn) -> InputFile:
    """An .npz of signals, with classes, ids and channels that may not fit."""
    array, buffer = draw(arrays()), io.BytesIO()
    n = len(array) if array.ndim else 1
    more = {"labels": np.array(["a", "b"] * n)[:n], "ids": np.arange(n + 1), "channels": np.array(["x", "y"])}
    kept = draw(st.lists(st.sampled_from(sorted(more)), unique=True))
    np.savez(buffer, signals=array, **{name: more[name] for name in kept})
    return InputFile("signals.npz", buffer.getvalue())


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Content cut short, or with bytes changed, left out, repeated or inserted."""
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, max(len(content), 1)))
        end = min(begin + draw(st.integers(0, 20)), len(content))
        new = draw(
            st.one_of(st.just(b""), st.binary(max_size=8), st.just(content[begin:end] * 2), st.just(b"\xff\x00"))
        )
        content = content[:begin] if draw(st.integers(0, 3)) == 0 else content[:begin] + new + content[end:]
    return content


@st.composite
def input_files(draw: st.DrawFn) -> InputFile:
    """Any input file, right or damaged."""
    others = ts_files(), wav_folders(), signal_arrays()
    found = draw(st.one_of(tables(), prices(), alignments(), array_files(), folders(), parquet_files(), *others))
    if isinstance(found.content, bytes) and draw(st.booleans()):
        found = found._replace(content=draw(damaged(found.content)))
    return found
