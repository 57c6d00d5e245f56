"""
Regression with quantiles
=========================

`oblong.MarginRegressor` has the loss of support vector regression, or that of a quantile. Here the
noise grows with `x`: one curve through the middle says nothing of that, three quantiles do.
"""

import matplotlib.pyplot as plt
import numpy as np

from oblong import MarginRegressor

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0.0, 10.0, 400))
y = np.sin(x) + rng.normal(scale=0.1 + 0.08 * x)
X, grid = x[:, None], np.linspace(0.0, 10.0, 300)[:, None]
settings = {"C": 10.0, "gamma": 0.5}

# %%
# Support vector regression ignores errors up to ``epsilon``:
tube = MarginRegressor(epsilon=0.3, **settings).fit(X, y)
print(f"{tube.n_support_[0]} support vectors, a duality gap of {tube.dual_gap_:.1e}")

# %%
# Each quantile is a model of its own. The fraction of targets below it is the quantile, up to the
# rows that the curve passes through.
levels = [0.1, 0.5, 0.9]
quantiles = {
    level: MarginRegressor(loss="quantile", quantile=level, **settings).fit(X, y)
    for level in levels
}
for level, model in quantiles.items():
    below = np.mean(y < model.predict(X) - model.tol)
    print(f"quantile {level}: {100 * below:.0f} % of the targets below")

# %%
# Curves of neighbouring quantiles may cross where there are few rows; sorting the predictions of
# each row puts them in order.
curves = np.sort([quantiles[level].predict(grid) for level in levels], axis=0)
fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
for ax in axes:
    ax.scatter(x, y, s=6, color="0.6")
    ax.set(xlabel="x")
middle = tube.predict(grid)
axes[0].plot(grid, middle)
axes[0].fill_between(grid[:, 0], middle - 0.3, middle + 0.3, alpha=0.2)
axes[0].set(ylabel="y", title="support vector regression")
axes[1].plot(grid, curves[1])
axes[1].fill_between(grid[:, 0], curves[0], curves[2], alpha=0.2)
axes[1].set(title="quantiles 0.1, 0.5 and 0.9")
plt.show()
