"""
The exact law, and why it judges chains
=======================================

The target of the sampler, :math:`p_\\beta \\propto \\exp(-\\beta E)`, is a Gaussian mixture: one component per memory.
It can be drawn exactly, so a Langevin chain can be compared with the truth instead of with another chain.
"""

import matplotlib.pyplot as plt
import numpy as np

import stochattn as sa

# %%
# Memories on a circle
# --------------------
# Six memories in the plane make pictures possible. They have unit length, so they have equal weights.

angles = np.linspace(0, 2 * np.pi, 6, endpoint=False)
bank = sa.MemoryBank(np.stack([np.cos(angles), np.sin(angles)], axis=1))

grid = np.linspace(-1.8, 1.8, 121)
points = np.stack(np.meshgrid(grid, grid), axis=-1)  # (121, 121, 2)
fig, axes = plt.subplots(1, 3, figsize=(8, 2.8))
for axis, beta in zip(axes, (2.0, 10.0, 50.0), strict=True):
    density = np.exp(sa.energy.log_density(points, bank, beta))
    axis.contourf(grid, grid, density, levels=12, cmap="Blues")
    axis.plot(*bank.patterns.T, "k.", markersize=4)
    axis.set(title=f"beta = {beta:g}", aspect="equal")
plt.show()

# %%
# Chains beside exact draws
# -------------------------
# `sample` draws the mixture: it chooses a memory and adds noise. `run` follows Langevin chains. At beta = 10 both
# agree, and the mean energy says so with a standard error.

model = sa.StochasticAttention(bank, beta=10.0)
exact = model.sample(4000, rng=0)
for name in ("ula", "mala"):
    draws = model.run(sampler=name, n_chains=64, n_steps=2000, warmup=500, thin=50, rng=0)
    summary = sa.metrics.summarize(draws.samples, bank, model.beta)
    print(f"{name:5s} mean energy {summary.energy}")
energies = sa.energy.table_energy(exact, bank, model.beta)
print(f"exact mean energy {energies.mean():.3f} ± {energies.std() / np.sqrt(len(exact)):.3f}")
