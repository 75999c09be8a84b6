"""
Stress scenarios for a portfolio
================================

A price history contains few crises, and a risk report needs many. From such a history you will generate scenarios of
20 days, compare their risk with that of the history, and ask what a portfolio does if one asset falls by six percent
tomorrow.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import stochattn as sa

# %%
# A history with clusters of volatility
# -------------------------------------
# Five made-up assets share a market factor whose volatility changes from day to day, as in real markets. Two assets
# follow the market, two follow it less, and gold follows it hardly at all.

rng = np.random.default_rng(0)
NAMES, LOADINGS = ["bank", "tech", "energy", "utility", "gold"], np.array([1.3, 1.2, 0.9, 0.6, 0.05])
variance, market = 1e-4, np.empty(1000)
for day in range(1000):
    market[day] = np.sqrt(variance) * rng.standard_normal()
    variance = 2e-6 + 0.20 * market[day] ** 2 + 0.78 * variance
returns = market[:, None] * LOADINGS + 0.004 * rng.standard_t(5, (1000, 5))
dates = pd.bdate_range("2021-01-04", periods=1000)
prices = pd.DataFrame(100 * np.exp(returns.cumsum(0)), index=dates, columns=NAMES)

synth = sa.fit(prices, window=20)
scenarios = synth.sample(1000, rng=0)  # (1000, 20, 5) log-returns
print(synth, scenarios.shape)

# %%
# Do scenarios have the risk of the history?
# ------------------------------------------
# Three figures that risk reports use: the correlation of two assets, the loss of the portfolio that one day in a
# hundred exceeds (value at risk), and how much the size of a move depends on that of the day before (clusters of
# volatility).


def facts(days: np.ndarray) -> str:
    """Correlation, value at risk and clustering of paths of returns (n, days, assets)."""
    flat, portfolio = days.reshape(-1, 5), days.mean(-1)
    correlation = np.corrcoef(flat[:, 0], flat[:, 1])[0, 1]
    sizes = np.abs(portfolio)
    clustering = np.corrcoef(sizes[:, :-1].ravel(), sizes[:, 1:].ravel())[0, 1]
    return f"correlation {correlation:.2f}, VaR {-np.quantile(portfolio, 0.01):.2%}, clustering {clustering:.2f}"


history = np.diff(np.log(prices), axis=0)
shuffled = rng.permutation(history)
print("history   ", facts(history[None]))
print("scenarios ", facts(scenarios))
print("days alone", facts(shuffled[None]))

# %%
# Scenarios have the correlation and the value at risk of the history, and most of its clustering. Days drawn alone,
# in any order, have hardly any clustering: after a bad day, they are as calm as ever.
#
# What if?
# --------
# A condition sets the return of an asset on the first day of the scenario. All other returns follow from it.

shocked = synth.condition(bank=-0.06)
stress = shocked.sample(1000, rng=0)
print("note:", shocked.notes[-1])
p = shocked.generator.source_probabilities()
print(f"scenarios are drawn around {1 / (p**2).sum():.0f} of {len(p)} stored windows, effectively")
print("first day   scenarios   regression   market alone")
for i, name in enumerate(NAMES):
    line = np.polyfit(history[:, 0], history[:, i], 1) @ [-0.06, 1]
    print(f"{name:8s}  {stress[:, 0, i].mean():+11.2%}  {line:+11.2%}  {-0.06 * LOADINGS[i] / LOADINGS[0]:+13.2%}")

# %%
# The regression is an average over calm and wild days. In a large fall more of the loss comes from the market, and
# the last column is what the assets would do if all of it did. For the assets that follow the market, the scenarios
# lie between the two, and gold hardly moves.

fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), sharey=True)
for axis, (title, paths) in zip(axes, {"Usual scenarios": scenarios, "Bank falls by 6 %": stress}.items(), strict=True):
    wealth = 100 * np.exp(paths.mean(-1).cumsum(1))
    wealth = np.concatenate((np.full((len(wealth), 1), 100.0), wealth), axis=1)
    low, quarter, middle, three, high = np.quantile(wealth, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    axis.fill_between(range(21), low, high, alpha=0.25, label="90 % of the paths")
    axis.fill_between(range(21), quarter, three, alpha=0.4, label="50 %")
    axis.plot(middle)
    axis.set(title=title, xlabel="day")
    spread = paths[:, 1:6].mean(-1).std()
    print(f"{title:17s}: 5 % of the paths end below {low[-1]:.1f}; volatility of days 2 to 6 {spread:.2%}")
axes[0].set_ylabel("value of the portfolio")
axes[0].legend(loc="lower left")
plt.show()

# %%
# A shock also makes the next days wilder: their volatility is larger than usual, since large moves come in clusters.
# But the history has only a few days that resemble such a fall, the largest of which was smaller, and nearly all
# scenarios are made of the windows that follow these: the bands of the right panel are ragged, and are as uncertain
# as those few windows. A scenario cannot contain what the history never had; a stress test of a new kind of crisis
# needs assumptions.
