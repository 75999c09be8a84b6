r"""
The exact distribution, and why it judges chains
================================================

The target of the sampler, :math:`p_\beta \propto \exp(-\beta E)`, is a Gaussian mixture with one component per memory.
It can be drawn exactly, so a Langevin chain can be compared with the truth instead of with another chain. This
tutorial finds the bias of one algorithm and the poor mixing of another in this way.
"""

import matplotlib.pyplot as plt
import numpy as np

import stochattn as sa

# %%
# Memories on a circle
# --------------------
# Six memories in the plane can be drawn. They have unit length, so they have equal weights.

angles = np.linspace(0, 2 * np.pi, 6, endpoint=False)
bank = sa.MemoryBank(np.stack([np.cos(angles), np.sin(angles)], axis=1))

grid = np.linspace(-2.4, 2.4, 121)
points = np.stack(np.meshgrid(grid, grid), axis=-1)  # (121, 121, 2)
fig, axes = plt.subplots(1, 3, figsize=(8, 2.8))
for axis, beta in zip(axes, (2.0, 10.0, 50.0), strict=True):
    density = np.exp(sa.energy.log_density(points, bank, beta))
    axis.contourf(grid, grid, density, levels=12, cmap="Blues")
    axis.plot(*bank.patterns.T, "k.", markersize=4)
    axis.set(title=f"p_beta at beta = {beta:g}", aspect="equal")
plt.show()

# %%
# The density integrates to one, which no sampler is needed to see.

density = np.exp(sa.energy.log_density(points, bank, 10.0))
print(f"integral over the square: {density.sum() * (grid[1] - grid[0]) ** 2:.4f}")

# %%
# Everything has an exact counterpart
# -----------------------------------
# `sample` draws the mixture: it chooses a memory and adds noise. `run` follows Langevin chains. Any figure of a chain
# can be compared with that of exact draws, in standard errors.

model = sa.StochasticAttention(bank, beta=10.0)
exact = model.sample(20000, rng=0)
truth = model.energy(exact)
for name in ("ula", "mala", "underdamped"):
    draws = model.run(sampler=name, n_chains=200, n_steps=1500, warmup=500, thin=50, rng=0)
    energies = model.energy(draws.samples)  # (chains, kept states)
    mean, error = energies.mean(), sa.metrics.over_chains(energies.mean(1))
    z = (mean - truth.mean()) / np.hypot(error, truth.std() / np.sqrt(len(truth)))
    print(f"{name:12s} mean energy {mean:.4f} ± {error:.4f}, exact {truth.mean():.4f}: {z:+.1f} standard errors")

# %%
# The bias of ULA
# ---------------
# ULA takes steps without a test, and its variance inside a basin is :math:`(1/\beta)/(1 - \alpha/2)`. With one memory
# the basin is everything, so that the formula can be checked; MALA accepts or rejects each step and has no bias.

one = sa.MemoryBank(np.array([[1.0, 0.0]]))
alphas, beta = (0.05, 0.2, 0.5, 0.9), 10.0
found = {"ula": [], "mala": []}
for name, values in found.items():
    for alpha in alphas:
        start = {"start": "equilibrium", "rng": 0, "n_chains": 400}
        draws = sa.run(one, beta, sampler=name, alpha=alpha, n_steps=600, warmup=200, thin=20, **start)
        values.append(beta * draws.pooled().var(0).mean())
fig, axis = plt.subplots(figsize=(6, 2.8))
smooth = np.linspace(0, 1, 50)
axis.plot(smooth, 1 / (1 - smooth / 2), color="tab:blue", linewidth=1, label="formula for ULA")
axis.axhline(1, color="tab:orange", linewidth=1, label="exact")
axis.plot(alphas, found["ula"], "o", color="tab:blue", label="ULA")
axis.plot(alphas, found["mala"], "s", color="tab:orange", label="MALA")
axis.set(title="Variance times beta", xlabel="alpha")
axis.legend()
plt.show()

# %%
# Chains that look right and are not
# ----------------------------------
# At beta = 50 the basins are separated. Four chains that start at two memories have steady energies, which are those
# of exact draws, and yet they have visited two of six memories. The exact distribution shows it at once.

cold = sa.StochasticAttention(bank, beta=50.0)
starts = bank.patterns[[0, 0, 1, 1]]
draws = cold.run(sampler="mala", n_chains=4, start=starts, n_steps=4000, warmup=0, thin=20, rng=0)
fig, axes = plt.subplots(1, 2, figsize=(7, 2.8))
axes[0].plot(draws.energies.T, linewidth=0.6)
axes[0].set(title="Energies of four chains", xlabel="kept state")
axes[1].bar(np.arange(6) - 0.2, draws.occupancy(), 0.4, label="chains")
basins = sa.neighbors.nearest_memory(cold.sample(2000, rng=0), bank)[0]
axes[1].bar(np.arange(6) + 0.2, np.bincount(basins, minlength=6) / 2000, 0.4, label="exact draws")
axes[1].set(title="Share of states by nearest memory", xlabel="memory")
axes[1].legend()
plt.show()
print("crossings of each chain:", draws.crossings())

# %%
# The library tests itself in this way: `tests/test_law.py` compares every sampler with the closed form, for
# NumPy and torch, in the span and in the full space, with thresholds in standard errors. :doc:`/method/proofs` has
# the formulas.
