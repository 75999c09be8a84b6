"""
New sequences for a protein family, and how to check them
=========================================================

New members of a protein family are useful only if they keep what the family has in common. From an alignment of 80
sequences you will generate new ones, ask for a residue at a site, and check distances, conserved sites and a pair of
cysteines against sequences that the generator has not seen.
"""

import matplotlib.pyplot as plt
import numpy as np

import stochattn as sa

# %%
# A family whose rules are known
# ------------------------------
# The family is made up, so that we know what must hold. It has 40 columns. Nine of them are conserved. Columns 12 and
# 32 have two cysteines, as in a disulphide bond, or two other residues. A third of the sequences have a deletion of
# three residues. Other sites choose among the residues that their sub-family tolerates.

rng = np.random.default_rng(1)
LETTERS = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
conserved = np.array([0, 4, 5, 9, 14, 22, 27, 35, 39])
first, second = 11, 31  # counted from 0
tolerated = rng.choice(np.delete(LETTERS, 1), size=(2, 40, 4))  # sub-families, columns, choices
tolerated[:, conserved] = tolerated[:1, conserved, :1]


def members(n: int) -> list[str]:
    """n aligned sequences of the family."""
    choice = rng.choice(4, size=(n, 40), p=[0.55, 0.25, 0.12, 0.08])
    sequences = tolerated[rng.integers(2, size=n)[:, None], np.arange(40), choice]
    sequences[np.ix_(rng.random(n) < 0.7, [first, second])] = "C"
    sequences[np.ix_(rng.random(n) < 0.33, [17, 18, 19])] = "-"
    return ["".join(sequence) for sequence in sequences]


stored, held_out = members(80), members(80)
print(*stored[:3], sep="\n")

# %%
# New members
# -----------
# `fit` recognizes aligned sequences and chooses the generator made for them. `sample` returns aligned texts. For
# comparison we also draw each column on its own, which is what a profile without insertions does.

synth = sa.fit(stored)
print(synth)
new = synth.sample(200, rng=0)
columns = np.array([list(sequence) for sequence in stored])
profile = ["".join(rng.choice(column) for column in columns.T) for _ in range(200)]
print(*new[:3], sep="\n")

# %%
# Check 1: as far from the stored sequences as true members are
# -------------------------------------------------------------
# The identity of a sequence to its nearest stored sequence says whether it is a copy (1), a true relative, or too far
# away. The reference is the held-out half, which the generator has not seen.


def nearest_identity(sequences: list[str]) -> np.ndarray:
    """The largest share of equal columns with a stored sequence; (n,)."""
    letters = np.array([list(sequence) for sequence in sequences])
    return (letters[:, None] == columns).mean(-1).max(1)


groups = {"held out": held_out, "new": new, "profile": profile}
for name, sequences in groups.items():
    plt.hist(
        nearest_identity(sequences), np.linspace(0.4, 1, 25), density=True, histtype="step", linewidth=2, label=name
    )
plt.gca().set(title="Distance to the stored sequences", xlabel="identity to the nearest one", ylabel="density")
plt.legend()
plt.show()
for name, sequences in groups.items():
    identity, copies = np.median(nearest_identity(sequences)), len(set(sequences) & set(stored))
    print(f"{name:9s} median identity {identity:.2f}, copies {copies}")

# %%
# In the median, new sequences are as far from the stored ones as held-out members are, and none is a copy; single
# ones lie nearer or further away. Columns drawn one by one mix the two sub-families, and most of them are too far
# away.
#
# Check 2: conserved sites, and the pair
# --------------------------------------
# The conserved residues must stay, and cysteines must come in pairs.

for name, sequences in groups.items():
    letters = np.array([list(sequence) for sequence in sequences])
    kept = (letters[:, conserved] == columns[0, conserved]).mean()
    cysteines = letters[:, [first, second]] == "C"
    alone = (cysteines[:, 0] != cysteines[:, 1]).mean()
    print(f"{name:9s} conserved sites kept {kept:.1%}, one cysteine without the other {alone:.1%}")

# %%
# The generator keeps pairs that the stored sequences have together or not at all. A conserved column changes rarely,
# but not never: 80 stored sequences do not prove that a change is impossible.
#
# A residue that you choose
# -------------------------
# A condition names a column of the alignment, counted from 1, and a residue. The partner of a cysteine follows.

given = synth.condition({first + 1: "C"}).sample(100, rng=0)
for column in (first, second):
    print(f"C at column {column + 1}: {np.mean([sequence[column] == 'C' for sequence in given]):.0%}")

# %%
# What a validation adds
# ----------------------
# With real data the rules are not known, and there is no second half to spare. `evaluate` fits random halves of the
# stored sequences and compares the draws with the other halves.

print(synth.evaluate(200))

# %%
# `novelty_ratio` is near 1: in the median, draws are as far from their half as the other half is. But more of them
# are near-copies than among true sequences, train proximity is well above one half, because a new sequence is closest
# to the members that it was made from, and the membership AUC says that somebody who holds the new sequences can
# often tell which ones were stored. That is harmless for a public alignment and matters for a confidential one. None
# of these figures says that a sequence folds: score it with a model that you trust before you order one.
