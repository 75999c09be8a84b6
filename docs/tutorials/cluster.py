"""
A cluster
=========

A bank may be too large for one machine, or the work too long for one processor. You will start a Dask cluster with
two workers on this machine, let them hold a bank, draw from it, evaluate densities and run chains, and check that the
cluster gives the same numbers as one process.
"""

import logging
from functools import partial

import dask.array as da
import joblib
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster, wait
from scipy.stats import chi2

import stochattn as sa

# %%
# Two workers
# -----------
# Here the workers are threads of this process, so that the tutorial starts quickly. With machines of your own, start
# ``dask scheduler`` on one and ``dask worker tcp://host:8786`` on the others, and connect to ``tcp://host:8786``. In
# a program whose workers are processes, put the work behind ``if __name__ == "__main__":``.

cluster = LocalCluster(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=logging.CRITICAL
)
client = Client(cluster)
print(len(cluster.workers), "workers")

# %%
# A bank in chunks
# ----------------
# A bank is a Dask array whose chunks are whole rows. This one is made by the workers; `da.from_zarr` would read one
# from a file system. `persist` keeps the chunks in the memory of the workers.


def make_chunk(block_info: dict | None = None) -> np.ndarray:
    """The rows of one chunk, of unit length; chunk i depends on i only."""
    where = block_info[None]
    x = np.random.default_rng(where["chunk-location"][0]).standard_normal(where["chunk-shape"])
    return x / np.linalg.norm(x, axis=1, keepdims=True)


K, D, ROWS = 40_000, 24, 5_000
x = da.map_blocks(make_chunk, chunks=((ROWS,) * (K // ROWS), (D,)), dtype=float, meta=np.empty((0, 0)))
x = x.persist()
wait(x)
print(x)
held = {worker: len(keys) for worker, keys in client.has_what().items()}
print("chunks held by each worker:", sorted(held.values()))

# %%
# Draws and densities
# -------------------
# Draws are a Dask array too: nothing is drawn until it is computed or written, and the workers do it. A density is
# one pass over the bank, in which each worker attends to its own chunks and sends sums, not rows.

model = sa.StochasticAttention(x, beta=80.0)
drawn = model.sample(20_000, rng=0)
print(drawn)
new = drawn[:200].compute()
log_p = model.log_density(new)

alone = sa.StochasticAttention(x.compute(), beta=80.0)
print("same draws as in one process:", np.array_equal(new, alone.sample(20_000, rng=0)[:200]))
print(f"largest difference of log densities: {np.abs(log_p - alone.log_density(new)).max():.0e}")

# %%
# The densities agree to rounding, because sums over chunks are added in another order. The draws have the same bits,
# and the densities have the distribution that theory gives: near a memory, the log density is a constant less half of
# a chi-square variable with D degrees of freedom.

squares = np.linspace(5, 50, 200)
plt.hist(2 * (np.log((80.0 / (2 * np.pi)) ** (D / 2) / K) - log_p), bins=25, density=True, alpha=0.5, label="200 draws")
plt.plot(squares, chi2(D).pdf(squares), "k", label="chi-square distribution")
plt.gca().set(title="Squared distance to the memory, in units of 1/beta", xlabel="from the density", ylabel="density")
plt.legend()
plt.show()

# %%
# The distribution does not depend on how the bank is cut into chunks.

for rows in (1_000, 5_000, 20_000):
    cut = sa.StochasticAttention(x.rechunk((rows, -1)), beta=80.0)
    print(f"chunks of {rows:6,} rows: same draws", np.array_equal(cut.sample(200, rng=0).compute(), new[:200]))

# %%
# Chains on the cluster
# ---------------------
# joblib hands parts of other work to the same workers: chains, blocks of new items, splits of a validation. Chain i
# depends on the seed and on i only, so the result is that of one process, bit for bit.

small = sa.StochasticAttention(x[:500].compute(), beta=80.0)
chains = partial(small.run, sampler="mala", n_chains=16, n_steps=300, warmup=100, thin=20, rng=0)
with joblib.parallel_config(backend="dask"):
    shared = chains(n_jobs=2)
print("same chains as in one process:", np.array_equal(shared.samples, chains().samples))


# %%
# Always close a cluster that you started.

client.close()
cluster.close()
