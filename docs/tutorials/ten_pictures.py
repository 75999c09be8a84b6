"""
From recall to generation: the paper in ten figures
===================================================

One number, the inverse temperature beta, leads from exact recall to free generation. Ten figures show how attention
becomes a sampler, what its distribution is, and which beta to use for what.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import stochattn as sa
from stochattn import energy, metrics, neighbors, temperature

digits = load_digits()
bank = sa.MemoryBank(digits.data[digits.target == 3][:100]).normalized()  # 100 threes, rows of length one
plane = sa.MemoryBank([[1.0, 0.0], [-0.5, 0.87], [-0.5, -0.87]])  # three memories that can be drawn
grid = np.linspace(-1.6, 1.6, 81)
points = np.stack(np.meshgrid(grid, grid), axis=-1)


def show(axis: plt.Axes, row: np.ndarray, title: str = "") -> None:
    """Draw a row of 64 numbers as an image."""
    axis.imshow(row.reshape(8, 8), cmap="gray_r", vmin=0, vmax=bank.patterns.max())
    axis.set(xticks=[], yticks=[], title=title)


# %%
# Figures 1 to 3: attention descends an energy
# --------------------------------------------
# The energy has a valley around each memory. Its gradient is the state minus its attention, so that attending again
# and again is a descent: it ends in a memory. Noise in each step keeps the state from settling.

fig, axes = plt.subplots(1, 3, figsize=(8, 2.9), sharey=True)
paths = [np.array([[0.1, 0.9], [1.2, -1.2], [-1.4, -0.1]])]
for _ in range(40):
    paths.append(paths[-1] + 0.15 * (energy.attend(paths[-1], plane, 8.0) - paths[-1]))
chain = sa.run(plane, 8.0, sampler="ula", n_chains=1, n_steps=150, warmup=0, thin=1, alpha=0.05, rng=0).samples[0]
for axis, title in zip(axes, ("1. The energy", "2. Attention descends", "3. Noise explores"), strict=True):
    axis.contour(grid, grid, energy.energy(points, plane, 8.0), 15, cmap="viridis", linewidths=0.8)
    axis.plot(*plane.patterns.T, "k*", markersize=9)
    axis.set(title=title, aspect="equal")
axes[1].plot(*np.stack(paths).transpose(2, 0, 1), "C3.-", markersize=3)
axes[2].plot(*chain.T, "C3-", linewidth=0.7)
plt.show()

# %%
# Figures 4 and 5: recall, and its end
# ------------------------------------
# At a high beta, attention restores a noisy digit. As beta falls, attention on a stored digit spreads over the
# others: its entropy rises from 0 to log K. The paper looks at the inflection of this curve.

fig, axes = plt.subplots(1, 4, figsize=(8, 2.4), width_ratios=[1, 1, 1, 2.4])
natural, inflection = temperature.natural(bank), temperature.inflection(bank)
noisy = bank.patterns[7] + np.random.default_rng(0).normal(0, 0.07, 64)
rows = {"stored": bank.patterns[7], "4. noisy": noisy, "recalled": energy.retrieve(noisy, bank, natural)}
for axis, (title, row) in zip(axes[:3], rows.items(), strict=True):
    show(axis, row, title)
print(f"cosine of the recalled with the stored digit: {rows['recalled'] @ rows['stored']:.4f}")
curve = temperature.entropy_curve(bank, np.geomspace(0.5, 5000, 60))
axes[3].semilogx(curve.beta, curve.entropy)
for name, beta, color in (("inflection", inflection, "C1"), ("natural", natural, "C2")):
    axes[3].axvline(beta, color=color, linestyle="--", label=f"{name}: {beta:.0f}")
axes[3].set(title="5. Entropy of attention", xlabel="beta")
axes[3].legend()
plt.show()

# %%
# Figure 6: the distribution at every temperature
# -----------------------------------------------
# Langevin steps sample a Gaussian mixture, which can also be drawn exactly: a stored digit plus noise of variance
# 1/beta. Cold draws are copies, and hot ones are noise.

betas = (100 * natural, 4 * natural, natural, natural / 4, inflection)
fig, axes = plt.subplots(5, 9, figsize=(6, 3.6))
for line, beta in zip(axes, betas, strict=True):
    for axis, row in zip(line, sa.sample(bank, 9, beta=beta, rng=0), strict=True):
        show(axis, row)
    line[0].set_ylabel(f"{beta:,.0f}", rotation=0, ha="right", va="center")
fig.suptitle("6. Draws from cold (top) to hot, with beta on the left")
plt.show()

# %%
# Figures 7 to 10: novelty, chains and copies
# -------------------------------------------
# For well separated memories the novelty of a draw, 1 − its largest cosine with a memory, has a formula. Chains are
# judged by the exact distribution: mean energy, and for MALA the share of accepted steps.

fig, axes = plt.subplots(2, 2, figsize=(7.5, 5.6))
many = np.geomspace(10, 1e5, 15)
novelty = [metrics.novelty(sa.sample(bank, 500, beta=beta, rng=0), bank).mean() for beta in many]
axes[0, 0].semilogx(many, novelty, "o", label="exact draws")
axes[0, 0].semilogx(many, 1 - 1 / np.sqrt(1 + bank.d / many), "k", label="1 − 1/√(1 + d/β)")
axes[0, 0].set(title="7. Novelty follows from d and beta", xlabel="beta")
model = sa.StochasticAttention(bank, beta=natural)
runs = {name: model.run(sampler=name, n_chains=30, n_steps=600, warmup=0, thin=10, rng=0) for name in ("ula", "mala")}
exact = energy.energy(model.sample(2000, rng=0), bank, natural).mean()
for name, run in runs.items():
    axes[0, 1].plot(run.steps, run.energies.mean(0), label=name)
axes[0, 1].axhline(exact, color="k", linestyle="--", label="exact")
axes[0, 1].set(title="8. Chains reach the exact energy", xlabel="step")
alphas, few = np.array([0.01, 0.03, 0.1, 0.2, 0.4, 0.8]), {"n_chains": 16, "n_steps": 100, "warmup": 0}
accepted = [model.run(sampler="mala", alpha=a, start="equilibrium", rng=0, **few).acceptance.mean() for a in alphas]
axes[1, 0].semilogx(alphas, accepted, "o-")
axes[1, 0].set(title="9. MALA accepts small steps", xlabel="alpha", ylabel="share accepted")
bins = np.linspace(0, 2, 60)
axes[1, 1].hist(neighbors.neighbor_distances(bank), bins, density=True, color="gray", label="stored digits")
for beta, label in ((100 * natural, "100 natural"), (natural, "natural"), (inflection, "inflection")):
    nearest = neighbors.nearest_memory(sa.sample(bank, 500, beta=beta, rng=0), bank)[1]
    axes[1, 1].hist(nearest, bins, density=True, histtype="step", linewidth=2, label=label)
axes[1, 1].set(title="10. Distance to stored digits", xlabel="distance")
for axis in axes.ravel()[[0, 1, 3]]:
    axis.legend(fontsize=8)
plt.show()

# %%
# Draws have the novelty of the formula until they are so hot that memories overlap (7), chains started at memories
# reach the exact energy in some 200 steps (8), and MALA needs steps well below 0.4 (9). The last figure is the
# point: at the natural beta, draws are as far from the stored digits as these are from each other; colder draws are
# copies, and at the inflection they are noise (10). Every draw is one stored digit plus white noise, at any beta, as
# figure 6 shows. That is why `fit` uses other generators for images, tables, sequences and signals.
