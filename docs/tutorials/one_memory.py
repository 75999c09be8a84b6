"""
One memory that classifies and forgets
======================================

A bank of labeled images is a classifier without training. You will let one `HopfieldMemory` classify digits, name
the stored images behind an answer, flag images of an unknown class, learn this class, and forget an image exactly.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from stochattn.nn import HopfieldMemory

# %%
# Store labeled rows
# ------------------
# Twenty images of each digit from 0 to 8 are stored as rows of unit length; nines are unknown at first. The values
# of the memory are the labels, one-hot, so that it reads probabilities: softmax(beta X q) Y.

images, labels = load_digits(return_X_y=True)
rows = torch.nn.functional.normalize(torch.tensor(images), dim=-1)
labels = torch.tensor(labels)
order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
stored = torch.cat([order[labels[order] == digit][:20] for digit in range(9)])
others = order[~torch.isin(order, stored)]
known, nines = others[labels[others] != 9], others[labels[others] == 9]
one_hot = torch.nn.functional.one_hot(labels, 10).double()

# %%
# beta decides how many neighbors count. Each stored row is predicted from the other rows, and the beta that gives
# the true labels the highest probability is taken.

unlike_itself = ~torch.eye(len(stored), dtype=torch.bool)
betas = 2.0 ** torch.arange(2, 9, 0.5)
left_out = []
for beta in betas:
    memory = HopfieldMemory(rows[stored], beta=float(beta), values=one_hot[stored])
    read = memory(rows[stored], n_steps=0, mask=unlike_itself)
    left_out.append((read * one_hot[stored]).sum(-1).log().mean())
beta = float(betas[torch.stack(left_out).argmax()])
memory = HopfieldMemory(rows[stored], beta=beta, values=one_hot[stored])
p = memory(rows[known], n_steps=0)
right = p.argmax(-1) == labels[known]
print(f"beta {beta:.0f}: accuracy {right.double().mean():.1%} on {len(known)} unseen digits")
confident = p.amax(-1) > 0.9
share, sure = confident.double().mean(), right[confident].double().mean()
print(f"answers with a probability above 0.9: {share:.0%} of all, and {sure:.1%} of them are right")

# %%
# Why this answer?
# ----------------
# The weights of the stored rows add up to one. Here is an image that the memory is least sure about, with the rows
# that have the largest weights.

query = known[p.amax(-1).argmin()]
weights = memory.weights(rows[query])
top = weights.argsort(descending=True)[:6]
fig, axes = plt.subplots(1, 7, figsize=(7, 1.6))
titles = [f"query ({labels[query]})", *(f"{labels[stored[k]]}: {weights[k]:.0%}" for k in top)]
for axis, title, i in zip(axes, titles, [query, *stored[top]], strict=True):
    axis.imshow(images[i].reshape(8, 8), cmap="gray_r")
    axis.set_title(title, fontsize=9)
    axis.set(xticks=[], yticks=[])
plt.show()

# %%
# Strangers
# ---------
# The density of a query is low if it resembles nothing that is stored. No nine was stored.

density, unknown = memory.log_density(rows[known]), memory.log_density(rows[nines])
auc = roc_auc_score(np.r_[np.zeros(len(known)), np.ones(len(nines))], -torch.cat((density, unknown)))
print(f"AUROC between known digits and nines: {auc:.2f}")
plt.hist([density.numpy(), unknown.numpy()], bins=40, density=True, label=["digits 0 to 8", "nines"])
plt.gca().set(title="Nines are strangers", xlabel="log density", ylabel="share")
plt.legend()
plt.show()

# %%
# The two overlap: no threshold flags all nines and no other digit.
#
# Learn and forget
# ----------------
# Twenty nines are added: no training, and the other rows stay as they are. Then row 0 is removed. The result is bit
# for bit the memory that never had it.

more = memory.add(rows[nines[:20]], values=one_hot[nines[:20]])
print(f"accuracy on other nines: {(more(rows[nines[20:]], n_steps=0).argmax(-1) == 9).double().mean():.1%}")
forgotten = memory.remove([0])
never = HopfieldMemory(rows[stored[1:]], beta=beta, values=one_hot[stored[1:]])
same = [torch.equal(a, b) for a, b in zip(forgotten.state_dict().values(), never.state_dict().values(), strict=True)]
print("equal to a memory that never had the row:", all(same))

# %%
# The price is speed and size: every query is compared with every stored row, and the memory keeps all of them. The
# beta above was chosen with the row that was removed. Choose it again if the row must leave no trace at all.
