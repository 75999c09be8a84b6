"""
Stress scenarios for a portfolio
================================

Four assets, three years of daily prices: what could the next two months look like, and what if the market falls by
five per cent on the first day? This tutorial draws scenarios, compares their risk with that of the history, and
conditions on a shock.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import stochattn as sa

# %%
# A history
# ---------
# The returns are made here: a market whose volatility changes slowly, and assets that follow it to different degrees.
# Your own file of prices is read by `sa.fit("prices.csv")`.

rng = np.random.default_rng(0)
days, names = 750, ["bank", "energy", "tech", "utility"]
log_volatility = np.zeros(days)
for t in range(1, days):
    log_volatility[t] = 0.97 * log_volatility[t - 1] + 0.15 * rng.normal()
market = 0.008 * np.exp(log_volatility) * rng.standard_normal(days)
returns = market[:, None] * [1.2, 0.9, 1.5, 0.5] + 0.006 * rng.standard_t(5, (days, 4))
prices = pd.DataFrame(100 * np.exp(returns.cumsum(0)), pd.bdate_range("2021-01-04", periods=days), names)

# %%
# Scenarios
# ---------
# A scenario is a path of log-returns. Each follows the volatility of one stored window and has new directions.

synth = sa.fit(prices, window=40)
scenarios = synth.sample(1000, rng=0)  # (1000, 40, 4)
weights = np.full(4, 0.25)
paths = (scenarios @ weights).cumsum(1)

fig, axis = plt.subplots(figsize=(7, 3))
axis.plot(paths[:150].T, color="tab:blue", alpha=0.12, linewidth=1)
axis.plot(np.quantile(paths, [0.05, 0.5, 0.95], axis=0).T, color="black", linewidth=1.2)
axis.set(title="150 scenarios of the portfolio; lines at 5, 50 and 95 per cent", xlabel="day", ylabel="log-return")
plt.show()

# %%
# Is the risk that of the history?
# --------------------------------


def figures(r):
    """Daily volatility, 1 % value at risk, correlation of two assets, and clustering of the portfolio's |returns|."""
    portfolio, flat = r @ weights, r.reshape(-1, 4)
    size = np.abs(portfolio)
    clustering = np.corrcoef(size[:, :-1].ravel(), size[:, 1:].ravel())[0, 1]
    correlation = np.corrcoef(flat[:, 0], flat[:, 2])[0, 1]
    return portfolio.std(), -np.quantile(portfolio, 0.01), correlation, clustering


history = np.lib.stride_tricks.sliding_window_view(np.diff(np.log(prices.to_numpy()), axis=0), 40, axis=0)
history = history.swapaxes(1, 2)  # all windows of 40 days, as scenarios are
table = pd.DataFrame({"history": figures(history), "scenarios": figures(scenarios)})
table.index = ["daily volatility", "1 % value at risk", "correlation bank, tech", "clustering of |r|"]
print(table.round(4))

# %%
# A shock
# -------
# What if tech falls by six per cent on the first day? A condition draws from the law given this return. The other
# assets fall with it, as far as they are related.

crash = synth.condition(tech=-0.06).sample(500, rng=0)
first = pd.DataFrame({"all scenarios": scenarios[:, 0].mean(0), "given the shock": crash[:, 0].mean(0)}, names)
print(first.round(4))

fig, axis = plt.subplots(figsize=(7, 2.8))
bins = np.linspace(-0.35, 0.35, 50)
axis.hist(paths[:, -1], bins, density=True, alpha=0.6, label="all scenarios")
axis.hist((crash @ weights).sum(1), bins, density=True, alpha=0.6, label="tech falls by 6 % on the first day")
axis.set(title="Return of the portfolio after 40 days", xlabel="log-return")
axis.legend()
plt.show()

# %%
# What it does not know
# ---------------------
# Scenarios recombine the history. A crisis that is not in the history is not in them either, except by a condition. A
# condition far beyond the largest stored move is refused, because there is nothing to draw from; :doc:`/returns` says
# where the limits are.
