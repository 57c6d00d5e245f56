"""
Rows that are read in passes
============================

A linear classifier depends on few rows: those near the margin. `oblong.io.open_rows` reads the rows
of files, a block at a time; what the classifier keeps between two passes grows like the square root
of the number of rows.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from oblong import LinearRelativeMarginClassifier
from oblong.io import open_rows


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X @ [1.0, 0.6] + 0.5 * rng.normal(size=n) > 0, 1, -1)
    return X, y


# %%
# Ten files of 5,000 rows, and memory for 2,000 of them. The fit reports its passes and a
# certificate, which holds for all rows.
with tempfile.TemporaryDirectory() as folder:
    for part in range(10):
        X, y = rows(5000, part)
        np.save(Path(folder) / f"part-{part}.npy", np.column_stack([X, y]))
    source = open_rows(folder, target=-1, batch_size=2500, memory="0.5MB")
    model = LinearRelativeMarginClassifier(spread=1.0, tol=1e-8).fit(source)
print(f"{model.n_passes_} passes, {model.working_rows_[0]} of 50,000 rows kept")
print(f"relative gap {model.dual_gap_[0]:.1e}")

# %%
# Rows near the margin are kept as they are. All others are on one linear piece of the loss, where a
# group can be replaced by its mean.
X, y = rows(4000)
f = model.decision_function(X)
near = np.abs(1 - y * f) < 0.12
groups = [(y == side) & ~near & ((y * f < 1) == loses) for side in (-1, 1) for loses in (0, 1)]
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left, right = axes
left.scatter(*X[~near].T, s=3, color="0.8")
left.scatter(*X[near].T, s=6, c=np.where(y[near] > 0, "tab:blue", "tab:orange"))
for group, marker in zip(groups, "svsv"):
    colour = "tab:blue" if y[group][0] > 0 else "tab:orange"
    left.scatter(*X[group].mean(axis=0), s=90, marker=marker, color=colour, edgecolor="black")
line = np.linspace(-3, 3, 2)
for level, style in ((-1, ":"), (0, "-"), (1, ":")):
    w, b = model.coef_[0], model.intercept_[0]
    left.plot(line, (level - b - w[0] * line) / w[1], style, color="black", lw=1)
left.set(xlim=(-3, 3), ylim=(-3, 3), title="kept rows, and means of the others")
sizes = np.array([10_000, 30_000, 100_000, 200_000])
kept = []
for n in sizes:
    source = open_rows(rows(n)[0], target=rows(n)[1], memory="0.1MB")
    kept.append(LinearRelativeMarginClassifier(spread=1.0).fit(source).working_rows_[0])
right.loglog(sizes, sizes, "--", color="0.6", label="all rows")
right.loglog(sizes, kept, "o-", label="rows kept between passes")
right.loglog(sizes, 60 * np.sqrt(sizes), ":", color="0.3", label=r"$60\sqrt{n}$, what is allowed")
right.set(xlabel="rows", title="what a fit keeps")
right.legend()
plt.show()
