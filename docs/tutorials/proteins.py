"""
New sequences for a protein family, and how to check them
==========================================================

You have an alignment of some dozens of related sequences and want more of them: to test an aligner, to seed a screen,
or to see what the family allows. This tutorial generates sequences, and then asks four questions that a biologist
would ask: are they new, do they keep what is conserved, do they keep what varies together, and do they fit the
profile?
"""

import matplotlib.pyplot as plt
import numpy as np

import stochattn as sa

# %%
# A family
# --------
# So that the page needs no download, the family is made here: 60 descendants of one ancestor with 48 columns. Eight
# columns never change, two cysteines are there together or not at all, and two columns exchange charges together. With
# your own file, write `synth = sa.fit("family.sto")`.

rng = np.random.default_rng(0)
letters = np.array(list("ADEFGHIKLMNPQRSTVWY"))
ancestor = rng.choice(letters, 48)
conserved = np.array([2, 9, 15, 21, 28, 33, 40, 46])
family = []
for _ in range(60):
    sequence = np.where(rng.random(48) < 0.35, rng.choice(letters, 48), ancestor)
    sequence[conserved] = ancestor[conserved]
    sequence[[5, 30]] = ["C", "C"] if rng.random() < 0.5 else ["S", "A"]
    sequence[[12, 25]] = ["K", "E"] if rng.random() < 0.5 else ["E", "K"]
    family.append("".join(sequence))
for text in family[:3]:
    print(text)

# %%
# Generate
# --------
# `fit` recognises aligned texts. The generator `latent` draws among the principal components of the family, and then
# draws residues with the frequencies of each site.

synth = sa.fit(family)
new = synth.sample(200, rng=0)
for text in new[:3]:
    print(text)
print(synth.describe().summary)

# %%
# Are they new?
# -------------
# The identity to the nearest stored sequence should look like that of stored sequences to each other: higher means
# copies, lower means strangers.


def nearest_identity(sequences, others, same=False):
    """The share of equal columns with the most similar of the others: (n,)."""
    first, second = (np.array([list(text) for text in some]) for some in (sequences, others))
    equal = (first[:, None] == second[None]).mean(2)
    if same:
        np.fill_diagonal(equal, 0)
    return equal.max(1)


stored_identity, new_identity = nearest_identity(family, family, same=True), nearest_identity(new, family)
fig, axis = plt.subplots(figsize=(6, 2.6))
bins = np.linspace(0.4, 1, 25)
axis.hist(stored_identity, bins, density=True, alpha=0.6, label="stored to other stored")
axis.hist(new_identity, bins, density=True, alpha=0.6, label="new to stored")
axis.set(title="Identity to the nearest stored sequence", xlabel="identity")
axis.legend()
plt.show()
print(f"median identity: stored {np.median(stored_identity):.2f}, new {np.median(new_identity):.2f}")
print("copies:", sum(text in family for text in new))

# %%
# Do they keep what is conserved, and what varies together?
# ----------------------------------------------------------

columns = np.array([list(text) for text in new])
print(f"conserved sites kept: {(columns[:, conserved] == ancestor[conserved]).mean():.3f}")
cysteines = (columns[:, [5, 30]] == "C").sum(1)
print("cysteines at the two sites, sequences with 0, 1, 2:", np.bincount(cysteines, minlength=3))
opposite = np.isin(np.char.add(columns[:, 12], columns[:, 25]), ["KE", "EK"]).mean()
print(f"charges exchanged together: {opposite:.2f} (0.5 if the two sites were independent)")

# %%
# The frequencies of all residues at all sites, stored against new, lie along the diagonal.

stored_columns = np.array([list(text) for text in family])
alphabet = np.unique(stored_columns)
frequencies = [(some[:, :, None] == alphabet).mean(0).ravel() for some in (stored_columns, columns)]
fig, axis = plt.subplots(figsize=(3.4, 3.2))
axis.plot(*frequencies, ".", alpha=0.4)
axis.plot([0, 1], [0, 1], color="gray", linewidth=1)
axis.set(title="Residue frequencies by site", xlabel="stored", ylabel="new")
plt.show()

# %%
# Fix a residue, and score sequences
# -----------------------------------
# A condition draws from the same law given the residue: columns count from 1. `log_density` is normalised, so
# sequences can be compared: a stored sequence is likelier than the same sequence with its columns in another order.

print(synth.condition({6: "C"}).sample(3, rng=0))
shuffled = "".join(rng.permutation(list(family[0])))
print("log density, stored and shuffled:", synth.log_density([family[0], shuffled]).round(1))

# %%
# Judge it on sequences that were held out
# -----------------------------------------
# Half of the family is fitted, and draws are compared with the other half, several times.

result = synth.evaluate(60)
print(f"train proximity {result.train_proximity:.2f} (0.5 is ideal), membership inference {result.membership_auc:.2f}")

# %%
# The command line does the same, and writes one page with all of these checks::
#
#     stochattn sample family.sto -n 200 -o new.fasta
#     stochattn report family.sto new.fasta
