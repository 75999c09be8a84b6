"""
A small patient table, and what sharing it reveals
==================================================

A table of patients cannot be shared, but rows that are like it can, if they reveal nobody. You will make a synthetic
copy of a table of 150 patients in which the rules of the table hold, test a model that is trained on it, and measure
what it reveals before you share it.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

import stochattn as sa
from stochattn.evaluation import split_half_validation

# %%
# A table with rules
# ------------------
# The patients are made up. In every row the diastolic pressure is below the systolic one, and the total cost is the
# sum of two others. Names must never appear in the copy. As many other patients are held out to check the result.

rng = np.random.default_rng(0)


def patients(n: int) -> pd.DataFrame:
    """A table of n patients."""
    age, smoker = rng.integers(25, 85, n), rng.random(n) < 0.3
    systolic = 95 + 0.6 * age + 9 * smoker + rng.normal(0, 9, n)
    table = pd.DataFrame({"name": [f"patient {code:05d}" for code in rng.choice(100_000, n, replace=False)]})
    table["age"], table["smoker"] = age, np.where(smoker, "yes", "no")
    table["systolic"] = systolic.round().astype(int)
    table["diastolic"] = (0.55 * systolic + 8 + rng.normal(0, 5, n)).round().astype(int)
    table["visits"] = (40 + 2 * age * rng.lognormal(0, 0.3, n)).round().astype(int)
    table["drugs"] = (10 + 3 * (systolic - 95) * rng.lognormal(0, 0.4, n)).round().astype(int)
    table["total"] = table.visits + table.drugs
    return table


stored, held_out = patients(150), patients(150)
synth = sa.fit(stored, constraints=["total = visits + drugs", "diastolic <= systolic"])
new = synth.sample(150, rng=0)
print(new.head(4).to_string(index=False))

# %%
# What was recognized
# -------------------
# Notes say what happened to the columns. The two rules were stated above, and hold in every new row. Without
# ``constraints``, rules that hold in all stored rows and would hardly do so by chance are found and kept.

for note in synth.notes:
    print("-", note)
print("total = visits + drugs in", (new.total == new.visits + new.drugs).mean() * 100, "% of the new rows")
print("diastolic <= systolic in", (new.diastolic <= new.systolic).mean() * 100, "% of the new rows")
print("names in common:", len(set(new.name.astype(str)) & set(stored.name)))

# %%
# Is it useful?
# -------------
# A model of the systolic pressure is trained on the stored rows and on the new ones, and both are tested on patients
# that neither has seen.

fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), sharex=True, sharey=True)
for axis, (name, table) in zip(axes, {"Stored patients": stored, "New patients": new}.items(), strict=True):
    for value, marker in (("no", "o"), ("yes", "^")):
        rows = table[table.smoker == value]
        axis.plot(rows.age, rows.systolic, marker, alpha=0.6, label=f"smoker: {value}")
    axis.set(title=name, xlabel="age")
axes[0].set_ylabel("systolic pressure")
axes[0].legend()
plt.show()


def features(table: pd.DataFrame) -> np.ndarray:
    """Age and smoking as numbers; (n, 2)."""
    return np.column_stack((table.age, table.smoker == "yes"))


for name, table in (("150 stored", stored), ("150 new", new), ("2,000 new", synth.sample(2000, rng=0))):
    model = LinearRegression().fit(features(table), table.systolic)
    error = np.abs(model.predict(features(held_out)) - held_out.systolic).mean()
    slopes = f"{model.coef_[0]:.2f} per year, {model.coef_[1]:4.1f} for smokers"
    print(f"{name:10s} rows: {slopes}, mean error {error:.2f}")

# %%
# Predictions are nearly as good, but both effects come out smaller than in the stored rows, also with many new rows:
# new rows are spread around stored ones, which blurs relations. Do not report effect sizes from synthetic rows.
#
# What does it reveal?
# --------------------
# Split-half validation fits half of the stored patients and plays the attacker: can somebody who holds the new rows
# tell the fitted half from the other half, by the distance to the nearest new row? An AUC of 0.5 is chance. For
# comparison, the paper's distribution at a very low temperature (beta = 10,000) gives nearly exact copies.

cold = sa.fit(stored, beta=10_000.0)
results = {"default": synth, "p_beta, cold": cold}
for name, one in results.items():
    found = split_half_validation(one, 150, 0, quick=True)
    print(f"{name:13s} membership AUC {found.membership_auc:.2f}, near-copies {found.near_copies:.0%}")

# %%
# This attack learns next to nothing from 80 rows of the default generator (the quick check draws so many). Other
# attacks may learn more. All cold rows are near-copies; their AUC is below 1 because 80 draws miss about a third of
# the 75 patients of a half. More rows reveal more, so measure with as many as you will share, without ``quick``, and
# read :doc:`the page on privacy </guide/privacy>`: this is a measurement of one attack, not a guarantee such as
# differential privacy.
#
# A condition
# -----------
# Rows with a value, a range or a set of values are drawn from the conditional distribution.

older = synth.condition(smoker="yes", age=sa.Range(ge=60, lt=70)).sample(5, rng=0)
print(older[["age", "smoker", "systolic", "total"]].to_string(index=False))
