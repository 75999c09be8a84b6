"""
In-painting and imputation by conditions
========================================

A condition fixes some values and draws all others from the conditional law. The same call completes pictures, fills
missing cells of a table and bridges gaps in a signal, and several draws show how certain the completion is.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine

import stochattn as sa

# %%
# Why it is exact
# ---------------
# For the law p_beta, conditioning on some coordinates only changes how much each memory weighs: a memory counts as
# much as it explains the given values. Here a point in the plane has its first coordinate fixed at 0.8.

angles = np.linspace(0, 2 * np.pi, 8, endpoint=False)
model = sa.StochasticAttention(np.stack([np.cos(angles), np.sin(angles)], 1), beta=40.0)
points, given = model.sample(1500, rng=0), model.condition({0: 0.8}).sample(1500, rng=0)
fig, axes = plt.subplots(1, 2, figsize=(7, 2.8))
axes[0].plot(*points.T, ".", markersize=2, alpha=0.5)
axes[0].axvline(0.8, color="tab:orange")
axes[0].set(title="Draws of p_beta, and the line x = 0.8", aspect="equal")
grid = np.linspace(-1.5, 1.5, 200)
density = np.exp(model.log_density(np.stack([np.full(200, 0.8), grid], 1)))
axes[1].hist(given[:, 1], 40, density=True, alpha=0.5, label="conditional draws")
axes[1].plot(grid, density / (density.sum() * (grid[1] - grid[0])), label="the density along the line")
axes[1].set(title="y given x = 0.8")
axes[1].legend(fontsize=8)
plt.show()

# %%
# Pictures: the lower half is missing
# -----------------------------------
# The upper half of a digit that is not stored is given, pixel by pixel. Each row of the figure has the given half,
# what was there, and four completions.

digits = load_digits()
pictures = (digits.images * 15).astype(np.uint8)
synth = sa.fit(pictures[:300])
fig, axes = plt.subplots(3, 6, figsize=(6, 3.1))
for row, number in zip(axes, (301, 305, 312), strict=True):
    half = {(i, j): int(pictures[number, i, j]) for i in range(4) for j in range(8)}
    completed = synth.condition(half).sample(4, rng=0)
    hidden = pictures[number].copy()
    hidden[4:] = 110
    for axis, picture in zip(row, (hidden, pictures[number], *completed), strict=True):
        axis.imshow(picture, vmin=0, vmax=255)
        axis.set_axis_off()
fig.suptitle("Given half, true picture, four completions", fontsize=10)
plt.show()

# %%
# A table: cells are missing
# --------------------------
# In a tenth of the rows, two measurements of a wine are hidden. The mean of draws given the other measurements is an
# estimate, and their standard deviation says how far to trust it.

wine = load_wine(as_frame=True)
frame = wine.data.drop(columns=["proline"]).round(2)
rows = np.random.default_rng(0).permutation(len(frame))
stored, test = frame.iloc[rows[18:]], frame.iloc[rows[:18]]
hidden = ["flavanoids", "alcohol"]
synth = sa.fit(stored, kind="table")
estimates = []
for _, row in test.iterrows():
    draws = synth.condition(row.drop(hidden).to_dict()).sample(50, rng=0)
    estimates.append([*draws[hidden].mean(), *draws[hidden].std()])
estimates = np.array(estimates)
fig, axes = plt.subplots(1, 2, figsize=(7, 3))
for k, (axis, name) in enumerate(zip(axes, hidden, strict=True)):
    axis.errorbar(test[name], estimates[:, k], estimates[:, 2 + k], fmt="o", markersize=4, linewidth=1)
    axis.axline((test[name].mean(),) * 2, slope=1, color="gray", linewidth=1)
    error = np.abs(estimates[:, k] - test[name]).mean() / np.abs(stored[name].mean() - test[name]).mean()
    axis.set(title=f"{name}: error {error:.0%} of the mean's", xlabel="hidden value", ylabel="estimate")
plt.show()

# %%
# Conditions need not be single values. `sa.Range` and sets work too:

print(synth.condition(alcohol=sa.Range(ge=13.5, lt=14.0)).sample(3, rng=0)[["alcohol", "flavanoids", "hue"]])

# %%
# A signal: bridge a gap
# ----------------------
# Forty oscillations that begin together are stored. Points 15 to 90 of a new one are missing.

rng, t = np.random.default_rng(0), np.arange(120)


def oscillation():
    """A damped oscillation (120,)."""
    return np.exp(-t / rng.normal(60, 8)) * np.cos(t / rng.normal(6, 0.35)) + rng.normal(0, 0.02, 120)


signals, broken = np.array([oscillation() for _ in range(40)]), oscillation()
synth = sa.fit(signals, "signals")
bridges = synth.condition({(0, 15): broken[:15], (90, 120): broken[90:]}).sample(100, rng=0)
fig, axis = plt.subplots(figsize=(7, 2.6))
axis.fill_between(t, *np.quantile(bridges, [0.05, 0.95], axis=0), alpha=0.4, label="90 % of the draws")
axis.plot(t, broken, color="black", linewidth=1, label="what was there")
axis.axvspan(15, 90, color="0.93")
axis.set(title="A gap of 75 points", xlabel="point")
axis.legend()
plt.show()
