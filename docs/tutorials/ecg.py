"""
ECG-like signals
================

Signals have a time axis, and new ones must keep what happens when. From 60 short recordings of heartbeats you will
generate new ones of each class, check them by a measure that the generator does not know, and continue a beat whose
end is missing.
"""

import matplotlib.pyplot as plt
import numpy as np

import stochattn as sa

# %%
# Beats of two classes
# --------------------
# A beat is a sum of five bumps (P, Q, R, S and T) and some noise. In ectopic beats, P is absent and the main wave is
# wide. Heights and widths vary from beat to beat, the whole beat is shifted a little, and P and T move on their own.

rng = np.random.default_rng(0)
t = np.linspace(0, 1, 150)
TIMES = np.array([0.20, 0.36, 0.40, 0.44, 0.68])
HEIGHTS = {"normal": np.array([0.15, -0.12, 1.0, -0.25, 0.30]), "ectopic": np.array([0.0, -0.05, 0.9, -0.35, -0.25])}
WIDTHS = {"normal": np.array([25, 9, 11, 10, 45]) / 1000, "ectopic": np.array([25, 20, 32, 30, 50]) / 1000}


def beats(name: str, n: int) -> np.ndarray:
    """n beats of a class; (n, 150)."""
    heights = HEIGHTS[name] * rng.normal(1, 0.15, (n, 5))
    widths = WIDTHS[name] * rng.lognormal(0, 0.15, (n, 5))
    times = TIMES + rng.normal(0, 0.01, (n, 1)) + rng.normal(0, [0.012, 0, 0, 0, 0.012], (n, 5))
    bumps = heights[..., None] * np.exp(-((t - times[..., None]) ** 2) / (2 * widths[..., None] ** 2))
    return bumps.sum(1) + rng.normal(0, 0.015, (n, 150))


stored = np.concatenate([beats(name, 30) for name in HEIGHTS])
labels = [name for name in HEIGHTS for _ in range(30)]
synth = sa.fit(stored, "signals", labels=labels)
print(synth)
print(synth.describe().summary)

# %%
# New beats of each class
# -----------------------
# The generator moves a stored beat in time and in value, in the ways in which similar beats of its class differ.

fig, axes = plt.subplots(2, 2, figsize=(7, 4), sharex=True, sharey=True)
for line, name in zip(axes, HEIGHTS, strict=True):
    drawn = synth.subset(name).sample(8, rng=0)
    for axis, title, some in zip(line, ("stored", "new"), (stored[np.array(labels) == name][:8], drawn), strict=True):
        axis.plot(t, some.T, linewidth=0.9)
        axis.set_title(f"{name}, {title}")
for axis in axes[1]:
    axis.set_xlabel("seconds")
plt.show()

# %%
# Peaks are a good check, because the generator does not model them: it knows warps of time and values of points.

for name in HEIGHTS:
    true, new = beats(name, 300), synth.subset(name).sample(300, rng=1)
    for title, some in (("true", true), ("new", new)):
        heights, times = some.max(1), t[some.argmax(1)]
        print(
            f"{name:8s} {title}: height of R {heights.mean():.2f} ± {heights.std():.2f}, "
            f"time {times.mean():.3f} ± {times.std():.3f} s"
        )

# %%
# Heights and times of new beats have the mean and the spread of true ones.
#
# How could this beat go on?
# --------------------------
# A condition fixes a part of the signal: here the first 70 points, up to just after the main wave, of a beat that was
# not stored. All draws agree with it, and differ afterwards.

unseen = beats("normal", 20)
inside = []
for beat in unseen:
    continued = synth.condition({(0, 70): beat[:70]}).sample(200, rng=0)
    low, high = np.quantile(continued, [0.05, 0.95], axis=0)
    inside.append(((low <= beat) & (beat <= high))[70:].mean())
print(f"largest deviation from the given part of the last beat: {np.abs(continued[:, :70] - beat[:70]).max():.1e}")
print(f"share of the missing points inside the band, 20 beats: {np.mean(inside):.0%}")

plt.fill_between(t, low, high, alpha=0.3, label="90 % of the continuations")
plt.plot(t, continued[:5].T, linewidth=0.7)
plt.plot(t, beat, "k", linewidth=1.2, label="true beat")
plt.axvline(t[69], color="gray", linestyle=":")
plt.title("Continuations of an unseen beat")
plt.xlabel("seconds")
plt.legend()
plt.show()

# %%
# The band holds about nine in ten of the missing points, as it should, and its width says what is uncertain: the
# height and the time of T, which the given part does not determine. Single beats can leave it. The figures rely on
# beats that are cut at the same event: continuations are drawn by the generator `windows`, which combines parts of
# several beats, and parts of beats whose waves are at other distances do not fit together. A model that is trained on
# new beats must still be tested on recordings.
