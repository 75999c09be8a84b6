"""Small random data sets in the formats of the paper, listed in SHA256SUMS as the user's own files."""

import hashlib
from pathlib import Path

import numpy as np

LETTERS = "ACDEFGHIKLMNPQRSTVWY"
SIDE = 10


def write_all(folder: Path) -> Path:
    """Write every file that the experiments read."""
    rng = np.random.default_rng(7)
    (folder / "pfam").mkdir(parents=True, exist_ok=True)
    np.savez(folder / "mnist.npz", **{f"digit{digit}": blobs(rng, 100) for digit in range(10)})
    faces = np.concatenate([blobs(rng, 1).repeat(10, 0) // 2 + blobs(rng, 10) // 2 for _ in range(12)])
    np.savez(folder / "olivetti.npz", images=faces, target=np.repeat(np.arange(12), 10))
    closes = 100 * np.exp(np.cumsum(0.01 * rng.standard_t(4, (2101, 6)), axis=0))
    np.savez(folder / "returns.npz", closes=closes, tickers=np.array(["AAPL", "B", "C", "D", "E", "F"]))
    np.savez(folder / "synthetic.npz", exp1=unit(rng, 2, 12, 5), exp2=unit(rng, 2, 8, 4))
    np.savez(
        folder / "synthetic_exp3.npz", **{f"exp3_ratio_{r}": unit(rng, 2, 12, k) for r, k in ((0.25, 3), (0.5, 6))}
    )
    write_family(folder / "pfam", rng)
    list_checksums(folder)
    return folder


def list_checksums(folder: Path) -> None:
    files = sorted(p for p in folder.rglob("*") if p.suffix in (".npz", ".sto", ".hmm"))
    lines = (f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(folder).as_posix()}\n" for p in files)
    (folder / "SHA256SUMS").write_text("".join(lines))


def blobs(rng, n):
    """n grey images, each three bright spots: (n, SIDE, SIDE) bytes."""
    y, x = np.mgrid[:SIDE, :SIDE]
    centres = rng.uniform(1, SIDE - 1, (n, 3, 2))
    distances = (y - centres[..., :1, None]) ** 2 + (x - centres[..., 1:, None]) ** 2
    return (255 * np.exp(-distances / 3).max(1)).astype(np.uint8)


def unit(rng, *shape):
    """Unit columns, as in the paper's synthetic files."""
    x = rng.standard_normal(shape)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def write_family(folder: Path, rng) -> None:
    """45 sequences of 30 positions around a consensus, with some gaps, and a profile built by pyhmmer."""
    from pyhmmer.easel import Alphabet, TextMSA, TextSequence
    from pyhmmer.plan7 import Background, Builder

    consensus = rng.integers(20, size=30)
    codes = np.where(rng.random((45, 30)) < 0.55, consensus, rng.integers(20, size=(45, 30)))
    rows = ["".join(LETTERS[c] for c in row) for row in codes]
    rows = ["".join("." if rng.random() < 0.03 else letter for letter in row) for row in rows]
    text = "# STOCKHOLM 1.0\n" + "".join(f"seq{i}/1-30 {row}\n" for i, row in enumerate(rows)) + "//\n"
    (folder / "PF00076_seed.sto").write_text(text)
    alphabet = Alphabet.amino()
    sequences = [TextSequence(name=f"s{i}".encode(), sequence=row.replace(".", "-")) for i, row in enumerate(rows)]
    alignment = TextMSA(name=b"made", sequences=sequences).digitize(alphabet)
    hmm, _, _ = Builder(alphabet).build_msa(alignment, Background(alphabet))
    with open(folder / "PF00076.hmm", "wb") as file:
        hmm.write(file)
