"""
Banks larger than memory
========================

Stored rows need not fit into memory, and neither do new ones. You will write a bank to a file piece by piece, open it
without loading it, draw from it to another file, and measure how much memory the program needs as the file grows.
"""

import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import stochattn as sa

# %%
# A file that is never in memory
# ------------------------------
# A bank file is an ordinary .npy file. Here it is written in pieces; half precision makes it small, and computations
# are made in float32.

folder = tempfile.TemporaryDirectory()
D = 256


def write_bank(path: Path, K: int, piece: int = 5_000) -> None:
    """A file of K rows of unit length, written piece by piece."""
    rng = np.random.default_rng(0)
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(K, D))
    for start in range(0, K, piece):
        x = rng.standard_normal((min(piece, K - start), D), dtype=np.float32)
        rows[start : start + piece] = x / np.linalg.norm(x, axis=1, keepdims=True)
    rows.flush()


path = Path(folder.name) / "bank.npy"
write_bank(path, 50_000)
print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")

# %%
# Open, draw, evaluate
# --------------------
# `open` maps the file. Exact draws read only the rows that were chosen. A density or an attention passes over the
# whole file once, in blocks.

bank = sa.MemoryBank.open(path)
model = sa.StochasticAttention(bank, beta=400.0, equal_weights=True)
print(model)
new = model.sample(1000, rng=0)
log_p = model.log_density(new[:100])
print(f"mean log density of 100 draws: {log_p.mean():.2f}")

in_memory = sa.StochasticAttention(np.load(path), beta=400.0, equal_weights=True)
print("the same draws as from the array in memory:", np.array_equal(new, in_memory.sample(1000, rng=0)))
print(f"largest difference of densities: {np.abs(log_p - in_memory.log_density(new[:100])).max():.1e}")

# %%
# Draws that do not fit either
# ----------------------------
# With `out`, draws go to a file block by block, and a read-only memory map of it is returned. The settings are
# written beside it.

many = model.sample(20_000, rng=0, out=Path(folder.name) / "new.npy")
print(type(many).__name__, many.shape, "begins with the same rows:", np.array_equal(many[:1000], new))
print(sorted(file.name for file in Path(folder.name).iterdir()))

# %%
# How much memory is needed
# -------------------------
# `tracemalloc` records the arrays that Python allocates; pages of the file that the operating system keeps are not
# counted, since it can drop them at any time.


def peak(K: int) -> tuple[float, float]:
    """The size of a bank file, and the largest memory of opening it, 100 draws and their density, in MB."""
    place = Path(folder.name) / f"bank-{K}.npy"
    write_bank(place, K)
    tracemalloc.start()
    one = sa.StochasticAttention(sa.MemoryBank.open(place), beta=400.0, equal_weights=True)
    one.log_density(one.sample(100, rng=0))
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return place.stat().st_size / 1e6, largest / 1e6


found = np.array([peak(K) for K in (6_000, 12_500, 25_000, 50_000, 100_000)])
for size, largest in found:
    print(f"file {size:5.1f} MB, largest memory {largest:5.1f} MB")

plt.plot(found[:, 0], found[:, 0], "--", label="size of the file")
plt.plot(found[:, 0], found[:, 1], "o-", label="memory of the program")
plt.gca().set(title="Memory of drawing and evaluating", xlabel="size of the file (MB)", ylabel="MB")
plt.legend()
plt.show()

# %%
# Beside a few blocks of rows, the program holds a few numbers for each row of the file, such as its length, and not
# the row: from 12.8 MB on, its memory grows by less than two percent of what the file grows by. A small file needs
# more memory than it has bytes, because rows are converted to float32 in blocks. Chains (`run`) read the file at
# every step, which takes time rather than memory: prefer exact draws on large banks.

folder.cleanup()
