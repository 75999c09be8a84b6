"""
A small patient table, shared safely
====================================

A hospital has 120 patients in a study and wants to give colleagues a table on which they can try their programs. This
tutorial makes a synthetic table with the same relations, states a rule that must hold, measures what the table reveals
about the patients, and compares it with a table that reveals too much.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import stochattn as sa

# %%
# The table
# ---------
# All patients here are made up. Diastolic pressure is always below systolic pressure.

rng = np.random.default_rng(1)
n = 120
age = rng.integers(25, 85, n)
systolic = (100 + 0.5 * age + rng.normal(0, 10, n)).round()
patients = pd.DataFrame(
    {
        "patient": [f"P{i:04d}" for i in range(n)],
        "age": age,
        "sex": rng.choice(["F", "M"], n),
        "systolic": systolic,
        "diastolic": (systolic * 0.62 + rng.normal(0, 5, n)).round(),
        "smoker": rng.random(n) < 0.3,
        "admitted": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, n), unit="D"),
    }
)
print(patients.head())

# %%
# Fit, and read the notes
# -----------------------
# The notes say what was recognised. The identifier of a patient is never repeated: new rows have new numbers.

synth = sa.fit(patients, constraints=["diastolic <= systolic"])
for note in synth.notes:
    print("note:", note)
new = synth.sample(n, rng=0)
print(new.head())

# %%
# The rule holds in every row, and correlations are kept.

print("rows that break the rule:", int((new.diastolic > new.systolic).sum()))
numbers = ["age", "systolic", "diastolic"]
fig, axes = plt.subplots(1, 2, figsize=(7, 3), sharex=True, sharey=True)
for axis, frame, title in zip(axes, (patients, new), ("stored", "new"), strict=True):
    points = axis.scatter(frame.age, frame.systolic, c=frame.diastolic, s=14, cmap="viridis", vmin=50, vmax=110)
    axis.set(title=f"{title}: correlation {frame.age.corr(frame.systolic):.2f}", xlabel="age")
axes[0].set_ylabel("systolic pressure")
fig.colorbar(points, ax=axes, label="diastolic pressure")
plt.show()

# %%
# What does it reveal?
# --------------------
# Split-half validation fits one half of the patients and asks whether the draws reveal who was in it. An AUC of 0.5
# means that a membership test does no better than chance; the report warns above 0.6. A table at a very large beta is
# nearly a copy of the stored one, and shows what a leak looks like.

leak = sa.fit(patients, beta=1e5)
for name, result in (("default generator", synth.evaluate(n)), ("p_beta at beta = 100,000", leak.evaluate(n))):
    print(f"{name:26s} membership inference {result.membership_auc:.2f}, near-copies {result.near_copies:.2f}")

# %%
# The table is above the limit. The day of admission is nearly different for every patient and related to nothing else,
# so it helps to recognise a patient and helps colleagues little. Without this column the test is close to chance.

shared = patients.drop(columns="admitted")
synth = sa.fit(shared, constraints=["diastolic <= systolic"])
result = synth.evaluate(n)
print(f"without the day of admission: {result.membership_auc:.2f}, near-copies {result.near_copies:.2f}")
new = synth.sample(n, rng=0)

# %%
# Distances tell the same story: to the nearest stored row, in units of the standard deviation of each number.

scaled = {"stored": patients, "default generator": new, "beta = 100,000": leak.sample(n, rng=0)}
scaled = {name: (frame[numbers] / patients[numbers].std()).to_numpy() for name, frame in scaled.items()}
fig, axis = plt.subplots(figsize=(6, 2.6))
for name in ("default generator", "beta = 100,000"):
    distances = sa.neighbors.nearest_distances(scaled[name], scaled["stored"])
    axis.hist(distances, np.linspace(0, 1.2, 25), alpha=0.6, label=name)
between = sa.neighbors.nearest_distances(scaled["stored"])
axis.axvline(np.median(between), color="black", linewidth=1, label="median between stored rows")
axis.set(title="Distance to the nearest stored patient", xlabel="standard deviations")
axis.legend()
plt.show()

# %%
# Answer a question about a group
# -------------------------------
# Conditions take values, ranges and sets. Colleagues who need older smokers get them without the hospital drawing
# thousands of rows.

older = synth.condition(age=sa.Range(ge=65), smoker=True).sample(50, rng=0)
print(older[["age", "systolic", "smoker"]].describe().loc[["count", "min", "max"]])

# %%
# Write the table and its report
# ------------------------------
# `synth.write("synthetic.csv", 120, rng=0)` writes the table and a summary with seed, version and settings, and
# `synth.report("report.html")` the page that you should read before you share anything. A membership test is a lower
# bound of what a table reveals; :doc:`/guide/privacy` says what else to consider.
