"""
A cluster
=========

A bank may be spread over the workers of a Dask cluster, and workers may draw and write. Here the cluster is two
workers in this process, so that the page runs anywhere; with a real one only the line that connects to it changes. It
needs the extra `dask`.
"""

import tempfile
from pathlib import Path

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

import stochattn as sa

# %%
# Connect
# -------
# On a real cluster this is `client = Client("tcp://host:8786")`.

loopback = {"host": "127.0.0.1", "protocol": "tcp", "dashboard_address": None}
cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, **loopback)
client = Client(cluster)
print(len(client.scheduler_info()["workers"]), "workers")

# %%
# A bank on the workers
# ---------------------
# A `dask.array` of rows is a bank. Every chunk is read where it is, and a tree of tasks merges the results.

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 8))[rng.integers(40, size=60_000)] + 0.2 * rng.standard_normal((60_000, 8))
x = da.from_array(X, chunks=(10_000, -1)).persist()  # or da.from_zarr("s3://bucket/bank.zarr")
model = sa.StochasticAttention(x, beta=20.0, equal_weights=True)
print(model)

# %%
# Draws are lazy
# --------------
# `sample` returns a `dask.array` that draws when it is computed or written. The rows are those of the bank in memory,
# bit for bit, for any chunks and any number of workers.

drawn = model.sample(5000, rng=0)
print(type(drawn).__name__, drawn.shape)
in_memory = sa.StochasticAttention(X, beta=20.0, equal_weights=True).sample(5000, rng=0)
print("equal to the bank in memory:", np.array_equal(drawn.compute(), in_memory))

# %%
# Densities and chains
# --------------------
# Each is one pass over the chunks, or one pass per step. Chains run where the call is made, and the bank stays where
# it is.

log_density = model.log_density(in_memory[:300])
chains = model.run(sampler="mala", n_chains=8, n_steps=20, warmup=0, thin=5, rng=0)
print(chains)
fig, axis = plt.subplots(figsize=(6, 2.4))
axis.hist(log_density, 30)
axis.set(title="Log density of draws, computed by the workers", xlabel="log p_beta")
plt.show()

# %%
# Workers draw and write
# ----------------------
# A synthesizer can let workers draw and write parts of a file. The parts hold the rows that the same seed gives
# without a cluster. On the command line this is `stochattn sample patients.csv -n 10_000_000 --scheduler
# tcp://host:8786 -o new.parquet`.

patients = pd.DataFrame({"age": rng.integers(20, 80, 60), "dose": rng.normal(5, 1, 60).round(1)})
synth = sa.fit(patients)
with tempfile.TemporaryDirectory() as folder:
    summary = synth.write(Path(folder) / "new.parquet", 10_000, rng=0, scheduler=cluster.scheduler_address)
    parts = sorted(path.name for path in (Path(folder) / "new.parquet").iterdir())
    together = pd.read_parquet(Path(folder) / "new.parquet")
print(parts)
print(len(together), "rows; equal to those without a cluster:", together.equals(synth.sample(10_000, rng=0)))
del x, model, drawn
client.close()
cluster.close()

# %%
# :doc:`/large_banks` lists what workers and the client hold, and :doc:`/scaling` has measured times. `make
# cluster-demo` starts real worker processes and a bank of ten million memories on your machine.
