"""
ECG-like signals
================

Forty heartbeats of two classes are stored. This tutorial makes new ones, checks amplitude, roughness and spectra, and
lets a beat go on after its first part, with the uncertainty that the stored beats allow.
"""

import matplotlib.pyplot as plt
import numpy as np

import stochattn as sa

# %%
# Heartbeats
# ----------
# A beat is a sum of waves P, Q, R, S and T, whose places and heights vary from beat to beat. In the second class the
# beat is wide and has no P wave. Real beats are read from `.ts` files or arrays: `sa.fit(array, "signals",
# labels=classes)`.

rng, t = np.random.default_rng(0), np.linspace(0, 1, 160)


def beat(wide):
    """One beat (160,) in millivolt."""
    waves = [(0.18, 0.0 if wide else 0.15, 0.025), (0.36, -0.12, 0.012), (0.40, 1.0, 0.045 if wide else 0.014)]
    waves += [(0.45, -0.25, 0.016), (0.68, -0.3 if wide else 0.3, 0.05)]
    total = np.zeros_like(t)
    for place, height, width in waves:
        total += height * rng.normal(1, 0.12) * np.exp(-((t - place - rng.normal(0, 0.008)) ** 2) / (2 * width**2))
    return total + rng.normal(0, 0.01, len(t))


classes = ["normal"] * 25 + ["wide"] * 15
beats = np.array([beat(c == "wide") for c in classes])

# %%
# New beats
# ---------

synth = sa.fit(beats, "signals", labels=classes)
new = synth.sample(40, rng=0)
fig, axes = plt.subplots(1, 2, figsize=(7.5, 2.8), sharey=True)
for axis, name in zip(axes, ("normal", "wide"), strict=True):
    drawn = synth.subset(name).sample(8, rng=0)
    axis.plot(t, beats[np.array(classes) == name].T, color="0.8", linewidth=1)
    axis.plot(t, drawn.T, linewidth=1)
    axis.set(title=f"{name}: new in colour, stored in grey", xlabel="second")
axes[0].set_ylabel("mV")
plt.show()
print(synth.describe().summary)

# %%
# Checks
# ------
# The peak, the roughness (mean squared difference of neighbours) and the spectrum of new beats match those of the
# stored.

for name, measure in (("peak in mV", lambda x: x.max(1)), ("roughness", lambda x: (np.diff(x) ** 2).mean(1) * 1e3)):
    print(f"{name:11s} stored {measure(beats).mean():.3f} ± {measure(beats).std():.3f}", end="; ")
    print(f"new {measure(new).mean():.3f} ± {measure(new).std():.3f}")
fig, axis = plt.subplots(figsize=(6, 2.6))
for signals, label in ((beats, "stored"), (new, "new")):
    axis.semilogy((np.abs(np.fft.rfft(signals)) ** 2).mean(0)[:40], label=label)
axis.set(title="Mean power spectrum", xlabel="cycles per beat")
axis.legend()
plt.show()

# %%
# How could this beat go on?
# --------------------------
# The first 60 points of a beat that was not stored are given, and the others are drawn from the conditional law,
# exactly. The band shows 80 % of the draws.

unseen = beat(wide=False)
futures = synth.condition({(0, 60): unseen[:60]}).sample(200, rng=0)
low, high = np.quantile(futures, [0.1, 0.9], axis=0)
fig, axis = plt.subplots(figsize=(7, 2.8))
axis.fill_between(t, low, high, alpha=0.3, label="80 % of the draws")
axis.plot(t, futures[:5].T, color="tab:blue", linewidth=0.7)
axis.plot(t, unseen, color="black", linewidth=1.2, label="what happened")
axis.axvline(t[60], color="0.5", linewidth=1)
axis.set(title="The first 60 points are given", xlabel="second", ylabel="mV")
axis.legend()
plt.show()
inside = ((unseen >= low) & (unseen <= high))[60:].mean()
print(f"{inside:.0%} of the later points lie in the band")

# %%
# Outliers
# --------
# `log_density` is normalised, so that a beat with an artefact stands out.

artefact = unseen + np.where((t > 0.55) & (t < 0.58), 0.8, 0.0)
print("log density of an ordinary beat and of one with an artefact:", synth.log_density([unseen, artefact]).round(0))
