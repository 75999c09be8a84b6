"""
Banks larger than memory
========================

A bank may stay in its file: drawing reads only the rows that are chosen, and densities pass over the file in blocks.
This tutorial uses a small file so that it runs in seconds; the calls are the same for a hundred gigabytes.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import stochattn as sa

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "bank.npy"

# %%
# A bank in a file
# ----------------
# 100,000 memories of 16 numbers in half precision, in 300 clusters. A bank file is what `np.save` writes.

rng = np.random.default_rng(0)
centres = rng.standard_normal((300, 16))
X = (centres[rng.integers(300, size=100_000)] + 0.2 * rng.standard_normal((100_000, 16))).astype(np.float16)
np.save(path, X)
print(f"{path.stat().st_size / 1e6:.1f} MB")

# %%
# Open and draw
# -------------
# `MemoryBank.open` maps the file, and one pass checks it and computes norms. Draws read the chosen rows only.

bank = sa.MemoryBank.open(path)
model = sa.StochasticAttention(bank, beta=30.0, equal_weights=True)
print(model)
new = model.sample(1000, rng=0)
print(new.shape, new.dtype)

# %%
# Write draws block by block
# --------------------------
# With `out`, draws go to a file as well, and a read-only memory map is returned. The rows are those of the call
# without it, and the first rows of a longer call are those of a shorter one.

many = model.sample(50_000, rng=0, out=Path(folder.name) / "new.npy")
print(type(many).__name__, many.shape, "first rows equal:", np.array_equal(many[:1000], new))

# %%
# Densities and attention pass over the file
# ------------------------------------------
# No array of states by memories is larger than one block. The result is that of one softmax, up to rounding.

log_density = model.log_density(new[:200])
at_once = sa.StochasticAttention(X.astype(np.float32), beta=30.0, equal_weights=True).log_density(new[:200])
print("largest difference to the bank in memory:", float(np.abs(log_density - at_once).max()))
fig, axis = plt.subplots(figsize=(6, 2.6))
axis.hist(log_density, 30, alpha=0.6, label="draws")
axis.hist(
    model.log_density(3 * rng.standard_normal((200, 16)).astype(np.float32)), 30, alpha=0.6, label="random points"
)
axis.set(title="Log density under a bank in a file", xlabel="log p_beta")
axis.legend()
plt.show()

# %%
# Choosing beta for a large bank
# ------------------------------
# The rules `natural` and `leave_one_out` read a large bank a few times and copy nothing. For a bank of this size the
# matched distance is small, because every memory has near neighbours.

print("natural beta:", round(sa.temperature.natural(bank, equal_weights=True), 1))

# %%
# Nearest memories
# ----------------
# Are draws as far from the memories as these are from each other?

distances = sa.neighbors.nearest_memory(new[:300], bank)[1]
between = sa.neighbors.neighbor_distances(bank, max_rows=300)
print(f"median distance of draws {np.median(distances):.2f}, between memories {np.median(between):.2f}")
folder.cleanup()

# %%
# :doc:`/large_banks` has a table of what each operation reads and keeps. If one machine is not enough, the same bank
# can be a `dask.array` on a cluster (:ref:`the next tutorial <sphx_glr_auto_tutorials_cluster.py>`), or be shared
# between GPUs.
