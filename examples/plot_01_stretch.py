"""
The SVM turns as data is stretched
==================================

Two classes lie on two parallel lines. The best boundary runs between them. A support vector machine
looks for the widest margin in the units of the data, and the points are far apart *along* the lines
as well. Stretching the data sideways makes the sideways margin wider, so the boundary turns towards
it. The relative margin machine compares the margin with the spread of its own outputs and keeps its
direction.

The data follows figure 1 of Shivaswamy and Jebara (2010).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier
from oblong.datasets import make_parallel_lines

# %%
# Each panel has its own horizontal scale, so the points look the same in all of them: the three
# problems differ only in the unit of the first feature. A large ``C`` makes both models
# separate the classes without error. ``spread=0`` is the tightest bound.
stretches = [1, 3, 10]


def lines(stretch):
    return make_parallel_lines(60, offset=0.1, stretch=stretch, random_state=0)


models = {
    "SVM": SVC(kernel="linear", C=1000),
    "relative margin": RelativeMarginClassifier(kernel="linear", C=1000, spread=0),
}

fig, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True, layout="constrained")
for ax, stretch in zip(axes, stretches):
    X, y = lines(stretch)
    fitted = {name: model.fit(X, y) for name, model in models.items()}
    for label, color, marker in ((0, "#33bbee", "o"), (1, "#ee7733", "^")):
        ax.plot(*X[y == label].T, marker, color=color, markersize=4, label=label)
    for (name, model), color, style in zip(fitted.items(), ("#3b4252", "#ee3377"), ("--", "-")):
        DecisionBoundaryDisplay.from_estimator(
            model, X, eps=0.1, response_method="decision_function", plot_method="contour",
            levels=[0], colors=color, linestyles=style, ax=ax,
        )  # fmt: skip
        ax.plot([], [], color=color, linestyle=style, label=name)
    ax.set_title(f"stretched {stretch}×")
    ax.spines[["top", "right"]].set_visible(False)
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
plt.show()

# %%
# What the turn costs
# -------------------
# The training points are separated in every panel. New points from the same two lines show the
# difference, since they may lie anywhere on their line.


def error_on_the_lines(model, stretch):
    along = np.linspace(-1.1, 1.1, 2001) * stretch
    upper, lower = (np.column_stack([along, np.full_like(along, h)]) for h in (0.5, -0.5))
    return 1 - 0.5 * (np.mean(model.predict(upper) == 1) + np.mean(model.predict(lower) == 0))


print("stretch     SVM   relative margin")
for stretch in stretches:
    X, y = lines(stretch)
    errors = [error_on_the_lines(model.fit(X, y), stretch) for model in models.values()]
    print(f"{stretch:7d} {errors[0]:7.1%} {errors[1]:17.1%}")

# %%
# Scaling every feature to unit variance would undo this stretch, because here the long direction is
# one of the features. It does not help when the long direction lies across them, as in the picture
# on :doc:`the first page </index>`.
