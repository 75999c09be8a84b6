"""
Few-shot image augmentation
===========================

With five pictures of each class a classifier is poor. This tutorial generates more pictures of each class, adds them
to the training set, and measures whether they help on pictures that nobody has seen, beside two usual augmentations.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import shift
from sklearn.datasets import load_digits
from sklearn.svm import SVC

import stochattn as sa

# %%
# Five pictures of each digit
# ---------------------------

digits = load_digits()
pictures, classes = (digits.images * 15).astype(np.uint8), digits.target.astype(str)
rng = np.random.default_rng(0)
order = rng.permutation(len(pictures))
chosen = np.concatenate([order[classes[order] == c][:5] for c in np.unique(classes)])
held_out = np.setdiff1d(order, chosen)[:1000]
print(len(chosen), "stored pictures,", len(held_out), "held out")

# %%
# New pictures, within classes
# ----------------------------
# The generator `deformations` moves the lines of a stored picture in the ways in which pictures of its class differ.

synth = sa.fit(pictures[chosen], labels=tuple(classes[chosen]))
new, new_classes = [], []
for c in np.unique(classes):
    new.append(synth.subset(c).sample(20, rng=0))
    new_classes += [c] * 20
new = np.concatenate(new)

fig, axes = plt.subplots(4, 10, figsize=(7, 3))
for column, c in enumerate(np.unique(classes)):
    stored = pictures[chosen][classes[chosen] == c]
    for row in range(4):
        picture = stored[row] if row < 2 else new[20 * column + row]
        axes[row, column].imshow(picture)
        axes[row, column].set_axis_off()
fig.suptitle("Two stored pictures of each class (above), and two new ones (below)", fontsize=10)
plt.show()

# %%
# Do they help?
# -------------
# The classifier is a support vector machine on pixels. Shifts by a pixel and noise are the rivals; every method adds 20
# pictures of each class.


def accuracy(more, labels):
    """Accuracy on held-out pictures of a classifier of the stored and further pictures."""
    x, y = np.concatenate([pictures[chosen], more]), np.concatenate([classes[chosen], labels])
    model = SVC(C=10).fit(x.reshape(len(x), -1) / 255.0, y)
    return model.score(pictures[held_out].reshape(len(held_out), -1) / 255.0, classes[held_out])


repeated = np.repeat(chosen, 4)
shifted = np.array([shift(pictures[i], rng.integers(-1, 2, 2)) for i in repeated])
noisy = np.clip(pictures[repeated] + rng.normal(0, 25, (len(repeated), 8, 8)), 0, 255)
scores = {
    "stored only": accuracy(pictures[chosen][:0], classes[chosen][:0]),
    "noise": accuracy(noisy, classes[repeated]),
    "shifts": accuracy(shifted, classes[repeated]),
    "new pictures": accuracy(new, new_classes),
}
fig, axis = plt.subplots(figsize=(6, 2.2))
axis.barh(list(scores), list(scores.values()), color=["0.7", "0.7", "0.7", "tab:blue"])
axis.set(title="Accuracy on held-out pictures", xlim=(min(scores.values()) - 0.05, 1))
for place, value in enumerate(scores.values()):
    axis.text(value, place, f" {value:.3f}", va="center")
plt.show()

# %%
# One split and one seed are an impression, not a measurement: differences of two points are noise here.
# :doc:`/quality` has means over splits with standard errors, and the report (`synth.report("report.html")`) trains a
# classifier on draws and tests it on held-out pictures for your own data.
