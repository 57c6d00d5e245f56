"""
Regression with quantiles
=========================

`oblong.MarginRegressor` has the loss of support vector regression, or that of a quantile. Here the
noise grows with `x`: one curve through the middle does not show this, but three quantiles do.
`oblong.MarginRegressorCV` chooses the parameters.
"""

import matplotlib.pyplot as plt
import numpy as np

from oblong import MarginRegressor, MarginRegressorCV

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0.0, 10.0, 400))
y = np.sin(x) + rng.normal(scale=0.1 + 0.08 * x)
X, grid = x[:, None], np.linspace(0.0, 10.0, 300)[:, None]

# %%
# All combinations of three penalties and three kernel widths, scored by the loss of the median:
search = MarginRegressorCV(loss="quantile", Cs=(1, 10, 100), gammas=(0.1, 0.5, 2.0), cv=5).fit(X, y)
settings = search.best_params_
print(settings)

# %%
# Support vector regression ignores errors up to ``epsilon``:
tube = MarginRegressor(epsilon=0.3, **settings).fit(X, y)
print(f"{tube.n_support_[0]} support vectors, a duality gap of {tube.dual_gap_:.1e}")

# %%
# Each quantile is a separate model. The fraction of targets below it is the quantile, up to the
# rows that the curve passes through.
levels = [0.1, 0.5, 0.9]
quantiles = MarginRegressor(loss="quantile", quantile=levels, **settings).fit(X, y)
for level, outputs in zip(levels, quantiles.predict(X).T):
    below = np.mean(y < outputs - quantiles.tol)
    print(f"quantile {level}: {100 * below:.0f} % of the targets below")

# %%
# Curves of neighbouring quantiles may cross where there are few rows; predictions of several
# quantiles are sorted row by row.
curves = quantiles.predict(grid).T
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
