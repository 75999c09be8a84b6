"""
Few-shot image augmentation
===========================

With five labeled images of each class you will train two classifiers, add new images made from the stored ones,
and measure on images that were not used whether they help. Noise added to the stored images is the comparison.
"""

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import stochattn as sa

# %%
# Five images of each digit
# -------------------------
# The digits of scikit-learn have 8 x 8 pixels. They get a margin and are enlarged to 16 x 16 pixels, because the
# generator moves lines by parts of a pixel, and lines need room to move. Images for `fit` have levels from 0 to
# 255.

digits = load_digits()
levels = (np.pad(digits.images, ((0, 0), (1, 1), (1, 1))) * (255 / 16)).round().astype(np.uint8)
images = np.stack([np.asarray(Image.fromarray(x).resize((16, 16), Image.Resampling.BICUBIC)) for x in levels])
SHOTS, NEW = 5, 300


def split(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of SHOTS images of each class, and of all others."""
    order = np.random.default_rng(seed).permutation(len(images))
    stored = np.concatenate([order[digits.target[order] == digit][:SHOTS] for digit in range(10)])
    return stored, np.setdiff1d(order, stored)


stored, others = split(0)
synth = sa.fit(images[stored], labels=[str(digit) for digit in digits.target[stored]])
print(synth)
sixes = synth.subset("6").sample(10, rng=0)

fig, axes = plt.subplots(3, 5, figsize=(5, 3.1))
shown = np.concatenate((images[stored][5 * 6 : 5 * 7], sixes)).reshape(3, 5, 16, 16)
for title, line, some in zip(("stored", "new", "new"), axes, shown, strict=True):
    line[0].set_ylabel(title)
    for axis, image in zip(line, some, strict=True):
        axis.imshow(image, cmap="gray_r")
        axis.set(xticks=[], yticks=[])
fig.suptitle("Stored sixes, and new ones")
plt.show()

# %%
# A new image is a stored one whose lines are moved, in the ways in which similar stored images differ from it.
#
# Does it help?
# -------------
# For each of five random choices of the stored images, two classifiers are trained on the stored images alone, on
# these and noisy copies of them, and on these and the new ones. The class of a new image is that of its subset.

MODELS = {"SVM": SVC(C=10), "nearest neighbor": KNeighborsClassifier(1)}
SETS = ("stored only", "and noisy copies", "and new images")
scores = np.empty((len(MODELS), len(SETS), 5))
for seed in range(5):
    stored, others = split(seed)
    x, y = images[stored], digits.target[stored]
    synth = sa.fit(x, labels=[str(label) for label in y])
    new = np.concatenate([synth.subset(str(digit)).sample(NEW // 10, rng=seed) for digit in range(10)])
    noise = np.random.default_rng(seed).normal(0, 30, new.shape)
    noisy = (np.repeat(x, NEW // len(x), axis=0) + noise).clip(0, 255)
    more = np.repeat(y, NEW // len(x)), np.repeat(np.arange(10), NEW // 10)
    training = (x, y), (np.r_[x, noisy], np.r_[y, more[0]]), (np.r_[x, new], np.r_[y, more[1]])
    for i, model in enumerate(MODELS.values()):
        for j, (examples, labels) in enumerate(training):
            model.fit(examples.reshape(len(examples), -1) / 255, labels)
            scores[i, j, seed] = model.score(images[others].reshape(len(others), -1) / 255, digits.target[others])

for model, values in zip(MODELS, scores, strict=True):
    for name, accuracies in zip(SETS, values, strict=True):
        print(f"{model:17s} {name:17s} {accuracies.mean():.1%}")
    gain = values[2] - values[0]
    print(f"{'':17s} gain of new images {gain.mean():+.1%} ± {gain.std(ddof=1) / np.sqrt(5):.1%} (standard error)")

# %%
fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), sharey=True)
for axis, model, values in zip(axes, MODELS, scores, strict=True):
    axis.plot(values, "o-")
    axis.set_title(model)
    axis.set_xticks(range(3), [name.replace("and ", "and\n") for name in SETS])
axes[0].set_ylabel("test accuracy")
plt.show()

# %%
# New images help both classifiers, the nearest neighbor more than the SVM, and noise helps neither: it moves no
# line. The gain depends on the choice of the five images (one line of the figure each), and for two of them the SVM
# gains next to nothing, so measure it on your own data. A new image shows what one stored image shows, in another
# shape: variants of a digit that no stored image has, such as a seven with a bar, do not appear.
