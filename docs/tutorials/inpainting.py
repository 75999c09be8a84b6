"""
In-painting and imputation by conditions
========================================

One verb, `condition`, completes images, fills in missing cells of a table and draws the free coordinates of a vector.
You will use all three, and measure on data that was not stored how good the completions are.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LinearRegression

import stochattn as sa

# %%
# Vectors: the conditional distribution is exact
# ----------------------------------------------
# The paper's distribution is a Gaussian mixture, so that conditioning only changes the weights of the memories. In
# the plane this can be seen: given that the first coordinate is 0.9, draws lie on a line, near the memories
# that agree with it.

angles = np.linspace(0, 2 * np.pi, 12, endpoint=False)
ring = sa.StochasticAttention(np.stack([np.cos(angles), np.sin(angles)], axis=1), beta=40.0)
free, given = ring.sample(500, rng=0), ring.condition({0: 0.9}).sample(500, rng=0)
fig, axes = plt.subplots(1, 2, figsize=(7, 3))
axes[0].plot(*free.T, ".", markersize=3)
axes[0].plot(*given[:60].T, "_", color="C3", markersize=8)
axes[0].set(title="Draws, and draws with x = 0.9", aspect="equal", xlabel="x", ylabel="y")
y = np.linspace(-1.2, 1.2, 200)
density = np.exp(ring.condition({0: 0.9}).log_density(np.column_stack((np.full(200, 0.9), y))))
axes[1].hist(given[:, 1], bins=40, density=True, color="C3", alpha=0.5)
axes[1].plot(y, density, "k")
axes[1].set(title="The distribution of y given x = 0.9", xlabel="y")
plt.show()

# %%
# The histogram of the draws follows the density, which is known in closed form.
#
# Images: the lower half from the upper half
# ------------------------------------------
# 200 digits are stored. The upper half of a digit that was not stored is the condition: a rectangle of rows and
# columns, with the image that it is read from. Completions keep these pixels exactly.

digits = load_digits()
images = (digits.images * (255 / 16)).round().astype(np.uint8)
images, unseen = images[:200], images[[1002, 1013, 1020]]
synth = sa.fit(images, generator="patches")
completed = [synth.condition({((0, 4), (0, 8)): image}).sample(6, rng=0) for image in unseen]

fig, axes = plt.subplots(3, 8, figsize=(7, 2.9))
for line, image, new in zip(axes, unseen, completed, strict=True):
    hidden = np.where(np.arange(8)[:, None] < 4, image.astype(float), np.nan)
    for axis, shown in zip(line, (image, hidden, *new), strict=True):
        axis.imshow(shown, cmap="gray_r", vmin=0, vmax=255)
        axis.set(xticks=[], yticks=[])
for axis, title in zip(axes[0], ("true", "given", "completed"), strict=False):
    axis.set_title(title)
plt.show()
kept = [(new[:, :4] == image[:4]).all() for image, new in zip(unseen, completed, strict=True)]
print("given pixels are kept:", all(kept))

# %%
# Where the given half leaves the digit open, completions differ: the second image becomes a seven, a two or a
# three.
#
# Tables: missing cells
# ---------------------
# In wines that were not stored, one measurement is hidden. Draws of the row given its other cells are a distribution
# for it: their median is an estimate, and their quantiles say how certain it is. A linear regression is the
# comparison.

wine = load_wine(as_frame=True).data[["total_phenols", "flavanoids", "hue", "proline"]].sample(frac=1, random_state=0)
wine = wine.round(2)
stored, rest = wine[:100], wine[100:]
table = sa.fit(stored)
print(table.describe().summary)  # fits the generator once; conditions share the fit
rows = []
for _, row in rest.iterrows():
    drawn = table.condition(row.drop("flavanoids").to_dict()).sample(100, rng=0).flavanoids
    rows.append((row.flavanoids, drawn.median(), *drawn.quantile([0.05, 0.95])))
true, estimate, low, high = np.array(rows).T

line = LinearRegression().fit(stored.drop(columns="flavanoids"), stored.flavanoids)
guesses = {
    "median of all stored": np.full(len(true), stored.flavanoids.median()),
    "linear regression": line.predict(rest.drop(columns="flavanoids")),
    "median of the draws": estimate,
}
for name, guess in guesses.items():
    print(f"{name:21s} mean error {np.abs(guess - true).mean():.2f}")
print(f"true value inside the 90 % interval: {((low <= true) & (true <= high)).mean():.0%} of {len(true)} wines")

plt.errorbar(true, estimate, yerr=[estimate - low, high - estimate], fmt="o", alpha=0.6)
plt.axline((2, 2), slope=1, color="k", linewidth=0.8)
plt.title("Flavanoids of unseen wines, given three other measurements")
plt.xlabel("true")
plt.ylabel("median and 90 % interval")
plt.show()

# %%
# The draws give better estimates than the regression here, because the relation is curved, and with them an interval
# for each wine that is as wide as the other cells leave it open. An interval is a statement of the fitted
# distribution, so check its coverage on rows that you hold out, as above, before you rely on it.
