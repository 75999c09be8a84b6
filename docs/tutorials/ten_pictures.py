r"""
From recall to generation: the paper in ten pictures
====================================================

One energy, one number: at a large inverse temperature beta the modern Hopfield energy recalls stored pictures, at a
small one it makes noise, and in between it generates. Ten pictures tell the story of the paper on the digit 3 of
scikit-learn, with the numbers of the paper's equations.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import stochattn as sa

digits = load_digits()
X = digits.images[digits.target == 3][:100].reshape(100, -1)
bank = sa.MemoryBank(X).normalized()
print(bank)


WHITE = bank.patterns.max()


def show(rows, title, white=WHITE):
    """The first ten of some pictures, in a line."""
    fig, axes = plt.subplots(1, 10, figsize=(7, 1.1))
    for axis, row in zip(axes, rows[:10], strict=True):
        axis.imshow(row.reshape(8, 8), vmin=0, vmax=white)
        axis.set_axis_off()
    fig.suptitle(title, fontsize=10)
    plt.show()


# %%
# 1. Memories
# -----------
# A hundred threes are stored as rows of unit length.

show(bank.patterns, "Stored")

# %%
# 2. Recall
# ---------
# Attention (Eq. 4) is a gradient step on the energy (Eq. 3). Repeated from a damaged memory at a large beta, it
# restores it.

rng = np.random.default_rng(0)
damaged = bank.patterns[:5] * (rng.random((5, 64)) < 0.85)
restored = sa.energy.retrieve(damaged, bank, beta=500.0)
show(np.concatenate([damaged, restored]), "Five damaged memories, and what attention recalls")
print(
    "distance to the memory (one recalls another three):", np.linalg.norm(restored - bank.patterns[:5], axis=1).round(4)
)

# %%
# 3. The energy between two memories
# ----------------------------------
# Along the line from one memory to another the energy has one valley at a small beta, and two at a large one.

along = np.linspace(-0.5, 1.5, 200)[:, None]
line = bank.patterns[0] + along * (bank.patterns[1] - bank.patterns[0])
fig, axis = plt.subplots(figsize=(6, 2.6))
for beta in (5.0, 20.0, 100.0):
    values = sa.energy.energy(line, bank, beta)
    axis.plot(along, values - values.min(), label=f"beta = {beta:g}")
axis.set(title="Energy from memory 0 to memory 1", xlabel="place on the line", ylim=(0, 0.3))
axis.legend()
plt.show()

# %%
# 4. Noise turns recall into sampling
# -----------------------------------
# Algorithm 1 adds noise to each step. A chain at beta = 200 stays near its memory and varies it.

chain = sa.run(bank, 200.0, sampler="ula", n_chains=1, n_steps=2000, warmup=0, thin=200, rng=0)
show(chain.samples[0], "A chain of Algorithm 1, every 200 steps")

# %%
# 5. From recall to noise
# -----------------------
# Exact draws at five temperatures: copies, variations, noise.

# sphinx_gallery_thumbnail_number = 5

fig, axes = plt.subplots(5, 10, figsize=(7, 3.8))
for row, beta in zip(axes, (5000.0, 1000.0, 200.0, 50.0, 10.0), strict=True):
    for axis, x in zip(row, sa.sample(bank, 10, beta=beta, rng=1), strict=True):
        axis.imshow(x.reshape(8, 8), vmin=0, vmax=WHITE)
        axis.set(xticks=[], yticks=[])
    row[0].set_ylabel(f"{beta:g}", rotation=0, ha="right", va="center")
fig.suptitle("Draws at beta from 5000 (recall) to 10 (noise)", fontsize=10)
plt.show()

# %%
# 6. Where attention turns sharp
# ------------------------------
# The entropy of attention (Prop. 3) falls from log K to zero. Its inflection (Eq. 11) marks the transition, and the
# matched-distance rule chooses a much larger beta to generate at.

betas = np.geomspace(0.5, 5000, 60)
curve = sa.temperature.entropy_curve(bank, betas)
inflection, natural = sa.temperature.inflection(bank), sa.temperature.natural(bank)
fig, axis = plt.subplots(figsize=(6, 2.6))
axis.semilogx(betas, curve.entropy)
axis.axvline(inflection, color="tab:red", linewidth=1, label=f"inflection, {inflection:.1f}")
axis.axvline(natural, color="tab:green", linewidth=1, label=f"natural, {natural:.0f}")
axis.set(title="Entropy of attention", xlabel="beta", ylabel="nats")
axis.legend()
plt.show()

# %%
# 7. Novelty follows from beta
# ----------------------------
# A draw is a memory plus white noise of length :math:`\sqrt{d/\beta}`, so the novelty is about
# :math:`1 - 1/\sqrt{1 + d/\beta}`. Draws and formula agree where memories are well separated.

novelty = [sa.metrics.novelty(sa.sample(bank, 300, beta=b, rng=0), bank).mean() for b in betas]
fig, axis = plt.subplots(figsize=(6, 2.6))
axis.semilogx(betas, novelty, label="draws")
axis.semilogx(betas, 1 - 1 / np.sqrt(1 + bank.d / betas), "--", label="formula")
axis.set(title="Mean novelty, 1 - max cos", xlabel="beta")
axis.legend()
plt.show()

# %%
# 8. Chains against the exact law
# -------------------------------
# Energies of ULA chains, of MALA chains and of exact draws at the natural beta.

model = sa.StochasticAttention(bank)
options = {"n_chains": 30, "n_steps": 1500, "warmup": 500, "thin": 50, "rng": 0}
energies = {name: model.run(sampler=name, **options).energies.ravel() for name in ("ula", "mala")}
energies["exact"] = model.energy(model.sample(600, rng=0))
fig, axis = plt.subplots(figsize=(6, 2.6))
for name, values in energies.items():
    axis.hist(values, 30, density=True, histtype="step", linewidth=1.4, label=f"{name}, mean {values.mean():.4f}")
axis.set(title="Energy of samples", xlabel="E")
axis.legend()
plt.show()

# %%
# 9. Cold chains do not mix
# -------------------------
# Exact draws visit all memories. Chains at the natural beta stay in the basins in which they start.

draws = model.run(sampler="mala", **options)
drawn = np.bincount(sa.neighbors.nearest_memory(model.sample(600, rng=0), bank)[0], minlength=bank.K)
fig, axis = plt.subplots(figsize=(7, 2.2))
axis.bar(np.arange(bank.K), draws.occupancy() * 600, label="30 chains of MALA", width=1)
axis.step(np.arange(bank.K), drawn, where="mid", color="tab:orange", label="exact draws")
axis.set(title="States nearest to each memory", xlabel="memory")
axis.legend()
plt.show()
print("crossings between basins of 30 chains:", int(draws.crossings().sum()))

# %%
# 10. Generation
# --------------
# A draw of p_beta is one memory plus white noise at every beta, which limits it. Generators built on the same idea do
# better: here the one for pictures, which moves the lines of stored threes.

synth = sa.fit((X.reshape(-1, 8, 8) * 15).astype(np.uint8))
show(synth.sample(10, rng=0), "New threes of the generator for pictures", white=240)
