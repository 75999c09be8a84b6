"""
One memory that classifies and forgets
======================================

A bank of labelled examples is a classifier without training: attention reads the labels of the rows that look like the
query. The same memory flags strangers, names the rows behind each answer, and forgets a row exactly, as if it had
never been there.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

from stochattn.nn import HopfieldMemory

# %%
# A memory of digits
# ------------------
# The digits 0 to 8 are stored, with their classes as values. The nines stay outside: they will be the strangers.

digits = load_digits()
x = torch.tensor(digits.data / 16)
x = torch.nn.functional.normalize(x - x.mean(0), dim=-1)
y = torch.tensor(digits.target)
order = torch.tensor(np.random.default_rng(0).permutation(len(x)))
known = order[y[order] != 9]
stored, test, strangers = known[:600], known[600:1200], order[y[order] == 9]
memory = HopfieldMemory(x[stored], values=torch.nn.functional.one_hot(y[stored], 9).double(), beta=40.0)

# %%
# It classifies
# -------------
# One call reads a probability for each class.

probabilities = memory(x[test])
print(f"accuracy on {len(test)} new pictures: {float((probabilities.argmax(1) == y[test]).double().mean()):.3f}")

# %%
# It says how sure it is
# ----------------------
# Pictures are sorted by the probability of the predicted class. Sure answers are right more often.

sure, right = probabilities.max(1).values, (probabilities.argmax(1) == y[test]).double()
groups = sure.argsort().chunk(6)
fig, axis = plt.subplots(figsize=(3.6, 3.2))
axis.plot([0.8, 1], [0.8, 1], color="gray", linewidth=1)
axis.plot([float(sure[g].mean()) for g in groups], [float(right[g].mean()) for g in groups], "o-")
axis.set(title="Accuracy by certainty", xlabel="mean probability", ylabel="share that is right")
plt.show()

# %%
# It flags strangers
# ------------------
# The density p_beta is small where nothing is stored. Nines were never stored.

densities = [memory.log_density(x[some]) for some in (test, strangers)]
fig, axis = plt.subplots(figsize=(6, 2.6))
for values, label in zip(densities, ("digits 0 to 8, not stored", "nines"), strict=True):
    axis.hist(values.numpy(), 30, density=True, alpha=0.6, label=label)
axis.set(title="Log density", xlabel="log p_beta")
axis.legend()
plt.show()
limit = densities[0].quantile(0.05)
print(f"share of nines below the 5 % limit of known digits: {float((densities[1] < limit).double().mean()):.2f}")

# %%
# It explains
# -----------
# The weights of attention name the stored pictures behind an answer.

# sphinx_gallery_thumbnail_number = 3

query = test[int(sure.argmin())]
weights, rows = memory.weights(x[query]).topk(4)
fig, axes = plt.subplots(1, 5, figsize=(6, 1.6))
titles = [f"query: {y[query]}", *(f"{w:.2f}: {y[stored[r]]}" for w, r in zip(weights, rows, strict=True))]
for axis, index, title in zip(axes, [query, *stored[rows]], titles, strict=True):
    axis.imshow(digits.images[index])
    axis.set_axis_off()
    axis.set_title(title, fontsize=9)
fig.suptitle("The least certain picture, and the rows behind the answer", fontsize=10)
plt.show()

# %%
# It forgets
# ----------
# `remove` gives the memory that never had these rows, bit for bit: nothing has to be trained again, and nothing is
# left of them.

gone = torch.arange(50)
forgetful = memory.remove(gone)
rest = torch.ones(600, dtype=torch.bool)
rest[gone] = False
fresh = HopfieldMemory(memory.patterns[rest], values=memory.values[rest], beta=40.0)
print("equal to a memory that never had them:", bool(torch.equal(forgetful(x[test]), fresh(x[test]))))

# %%
# It learns at once
# -----------------
# `add` stores nines. Ten of them are enough to recognise many others.

nine = torch.zeros(10, 10, dtype=torch.double)
nine[:, 9] = 1
ten = HopfieldMemory(
    torch.cat([memory.patterns, x[strangers[:10]]]),
    values=torch.cat([torch.nn.functional.pad(memory.values, (0, 1)), nine]),
    beta=40.0,
)
found = (ten(x[strangers[10:]]).argmax(1) == 9).double().mean()
print(f"nines recognised after storing ten: {float(found):.2f}")

# %%
# :doc:`/evidence/memory` compares such a memory with trained classifiers, and :doc:`/hopfield` describes its layers,
# which learn.
